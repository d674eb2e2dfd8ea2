"""docs/prompts.md: its tables are compared with the code, its examples are run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ask.templates.files import list_template_files, read_template
from ask.templates.template import FIELD_TYPES, parse_template
from ask.tools.builtin import list_builtin_tools
from tests.pages import blocks, is_shown, quoted, steps, table
from tests.program import Ask, Home, run

PAGE = (Path(__file__).parents[1] / "docs" / "prompts.md").read_text()
ROWS = dict(re.findall(r"^\| `(\w+)` \|(.* \|.* \|.*) \|$", PAGE, re.MULTILINE))
BUILTIN = {name: read_template(name, file) for name, file in list_template_files(Path("/no/such/folder")).items()}
(RELEASE,) = blocks(PAGE, "text")
HISTORY = """
git init -q
git -c user.name=me -c user.email=me@example.org commit -q --allow-empty -m 'Fix the door'
"""


def test_all_that_come_with_ask_are_told_with_tasks_and_tools_and_no_other() -> None:
    assert [*ROWS] == [*BUILTIN]
    for name, template in BUILTIN.items():
        _, tasks, tools = (quoted(cell) for cell in ROWS[name].split(" | "))
        assert [task for task in tasks if ":" in task] == [f"{name}:{task}" for task in template.tasks]
        allowed = [] if isinstance(template.tools, bool) else [*template.tools]
        assert tools == allowed
        assert ("all" in ROWS[name].rpartition("|")[2]) == (template.tools is True)
        told = {word.partition("=")[0].split()[1] for word in quoted(ROWS[name]) if word.startswith("--var")}
        assert told == {*template.variables}
    assert {name for row in ROWS.values() for name in quoted(row.rpartition("|")[2])} <= {
        tool.spec.name for tool in list_builtin_tools()
    }


def test_every_key_is_told_and_no_other() -> None:
    assert [name for row in table(PAGE, "key") for name in quoted(row)] == [*FIELD_TYPES]
    assert parse_template("release", Path("release.md"), RELEASE).variables == ["program", "version"]


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(block, id=block.splitlines()[0], marks=pytest.mark.slow if number else [])
        for number, block in enumerate(blocks(PAGE, "console"))
    ],
)
def test_an_example_prints_what_the_page_shows(ask: Ask, home: Home, block: str) -> None:
    folder = home.config / "prompts"
    folder.mkdir(parents=True)
    (folder / "release.md").write_text(RELEASE)
    ask.shell(HISTORY)
    for line, output in steps(block):
        result = run(["bash", "-c", f"({line}) 2>&1"], env=ask.env, cwd=home.work)
        shown = re.sub(r"^· conversation .*\n", "", result.text, flags=re.MULTILINE)
        assert is_shown(shown, output), result.text
