"""CONTRIBUTING.md names folders, modules and functions that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GUIDE = (ROOT / "CONTRIBUTING.md").read_text()
QUOTED = re.findall(r"`([^`\n]+)`", GUIDE)
PATHS = sorted({text for text in QUOTED if re.fullmatch(r"[a-z_]+/[a-z_/.]*", text)} - {"plugins/", "acceptance/"})


def test_every_package_is_in_the_tree() -> None:
    packages = {f"ask/{path.parent.name}/" for path in (ROOT / "ask").glob("*/__init__.py")}
    assert packages <= set(PATHS)


@pytest.mark.parametrize("path", PATHS)
def test_a_named_path_exists(path: str) -> None:
    assert (ROOT / path).exists()


def test_named_functions_and_classes_exist() -> None:
    files = [path for folder in ("ask", "providers", "tests") for path in (ROOT / folder).rglob("*.py")]
    definition = re.compile(r"^ *(?:def|class) (\w+)|^ *(\w+)(?:: [^=\n]+)? = |^ +(\w+): ", re.MULTILINE)
    defined = {name for path in files for names in definition.findall(path.read_text()) for name in names}
    named = {
        part for text in QUOTED if re.fullmatch(r"[A-Z]\w+(\.\w+)?|[a-z]+(_[a-z]+)+", text) for part in text.split(".")
    }
    assert named - {"COMMANDS", "TESTS", "NAME"} <= defined


def test_where_to_look_is_answered_for_many_questions() -> None:
    rows = GUIDE.partition("| to change | look in |\n|---|---|\n")[2].partition("\n\n")[0].splitlines()
    assert len(rows) >= 35
    assert all(re.search(r"`(ask|providers|prompts)/", row) for row in rows)
