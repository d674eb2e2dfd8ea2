"""docs/templates.md: tables equal the code, and examples are run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ask.templates.template import FrontMatter, list_template_files, parse_template, read_template
from ask.tools.definitions import BUILTIN_TOOLS
from tests.doc_pages import (
    check_commands,
    find_code_blocks,
    find_code_spans,
    read_table,
)
from tests.program import Ask, Home

PAGE = (Path(__file__).parents[1] / "docs" / "templates.md").read_text()
ROWS = dict(re.findall(r"^\| `(\w+)` \|(.* \|.* \|.*) \|$", PAGE, re.MULTILINE))
BUILTIN = {name: read_template(file) for name, file in list_template_files(Path("/no/such/folder")).items()}
(RELEASE,) = find_code_blocks(PAGE, "text")
HISTORY = """
git init -q
git -c user.name=me -c user.email=me@example.org commit -q --allow-empty -m 'Fix the door'
"""


def test_the_page_lists_exactly_the_built_in_prompts() -> None:
    assert [*ROWS] == [*BUILTIN]
    for name, template in BUILTIN.items():
        _, tasks, tools = (find_code_spans(cell) for cell in ROWS[name].split(" | "))
        assert [task for task in tasks if ":" in task] == [f"{name}:{task}" for task in template.tasks]
        allowed = [] if isinstance(template.tools, bool) else [*template.tools]
        assert tools == allowed
        assert ("all" in ROWS[name].rpartition("|")[2]) == (template.tools is True)
        documented = {
            word.partition("=")[0].split()[1] for word in find_code_spans(ROWS[name]) if word.startswith("--var")
        }
        assert documented == {*template.variables}
    assert {name for row in ROWS.values() for name in find_code_spans(row.rpartition("|")[2])} <= {
        tool.spec.name for tool in BUILTIN_TOOLS
    }


def test_the_page_lists_exactly_the_front_matter_keys() -> None:
    assert [name for row in read_table(PAGE, "key") for name in find_code_spans(row)] == [*FrontMatter._fields]
    assert parse_template(Path("release.md"), RELEASE).variables == ["program", "version"]


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(block, id=block.splitlines()[0], marks=pytest.mark.slow if number else [])
        for number, block in enumerate(find_code_blocks(PAGE, "console"))
    ],
)
def test_examples_print_the_documented_output(ask: Ask, home: Home, block: str) -> None:
    folder = home.config / "templates"
    folder.mkdir(parents=True)
    (folder / "release.md").write_text(RELEASE)
    ask.shell(HISTORY)
    check_commands(lambda line: ask.shell(f"({line}) 2>&1"), [block])
