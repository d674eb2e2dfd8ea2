"""docs/safe-mode.md: each claim names existing tests, and its lists equal the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ask.cli.ask import command
from ask.config.settings import SETTINGS
from ask.safety.bubblewrap import BUBBLEWRAP_PATHS, MIN_VERSION
from ask.safety.command_proxy import IDLE_SECONDS, MAX_CONNECTIONS, MAX_OPEN_CONNECTIONS
from ask.safety.folder_scan import MAX_SCANNED_ENTRIES
from ask.safety.protected_paths import PROTECTED_NAMES
from ask.safety.sandbox_config import INHERITED_VARIABLES
from tests.doc_pages import find_code_blocks, find_code_spans, matches_documented_output, parse_console_steps
from tests.escapes.test_escapes import GROUPS
from tests.program import Ask, Home

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/safe-mode.md").read_text()
NAMED = [name for name in find_code_spans(PAGE) if name.startswith("test_") and not name.endswith(".py")]


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the table under a heading."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def test_named_tests_exist() -> None:
    source = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    for name in NAMED:
        function, _, group = name.rstrip("]").partition("[")
        assert f"def {function}(" in source, name
        assert group in {"", *GROUPS}, name


def test_each_claim_and_each_group_of_escapes_names_a_test() -> None:
    unproven = [
        row[0] for row in (*rows("What it guarantees"), *rows("What it does not prevent")) if "`test_" not in row[-1]
    ]
    assert unproven == ["Kernel vulnerabilities"]
    assert {f"test_escapes_succeed_only_without_safe_mode[{group}]" for group in GROUPS} <= set(NAMED)


def test_all_known_gaps_are_listed() -> None:
    source = (ROOT / "tests/escapes/test_known_gaps.py").read_text()
    assert set(re.findall(r"^def (test_\w+)\(", source, re.MULTILINE)) <= set(NAMED)


def test_names_and_numbers_equal_the_code() -> None:
    assert set(INHERITED_VARIABLES) <= set(find_code_spans(PAGE))
    assert f"{MAX_SCANNED_ENTRIES:,} entries" in PAGE
    assert f"{MAX_OPEN_CONNECTIONS} connections are open" in PAGE
    assert f"can open {MAX_CONNECTIONS:,} connections" in PAGE
    assert f"after {IDLE_SECONDS / 60:g} minutes without data" in PAGE
    assert f"bubblewrap {'.'.join(map(str, MIN_VERSION))}" in PAGE
    assert {str(Path(program).parent) for program in BUBBLEWRAP_PATHS} <= set(find_code_spans(PAGE))


def test_the_table_of_protected_names_is_up_to_date() -> None:
    for entry, (name, program, placeholder) in zip(PROTECTED_NAMES, rows("What is protected"), strict=True):
        assert (name, program) == (f"`{entry.name}`", entry.program)
        assert [path.removeprefix("~/") for path in find_code_spans(placeholder)] == (
            ["direnv.toml"] if entry.name == ".envrc" else [path for path in entry.detection_paths if path]
        )
        assert (placeholder == "always") == ("" in entry.detection_paths)


def test_all_options_and_keys_are_listed() -> None:
    option_rows = rows("Options and configuration")
    flags = {option.opts[0] for option in command.params if option.opts[0].startswith(("--allow-", "--safe-"))}
    assert {name.split()[0] for row in option_rows for name in find_code_spans(row[0])} == flags
    cells = {name for row in option_rows for name in find_code_spans(row[1])}
    assert {f"safe.{name}" for name in cells} == {key for key in SETTINGS if key.startswith("safe.")} - {"safe.enabled"}


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)#:]+)\)", PAGE))
def test_link_target_exists(target: str) -> None:
    assert (ROOT / "docs" / target).exists()


@pytest.mark.needs("bwrap")
def test_the_example_prints_the_documented_output(home: Home) -> None:
    [output] = [
        shown
        for block in find_code_blocks(PAGE, "console")
        for line, shown in parse_console_steps(block)
        if line == "ask safe"
    ]
    result = Ask(home.env, home.work)("safe")
    assert (result.code, matches_documented_output(result.text, output)) == (0, True), result.text
