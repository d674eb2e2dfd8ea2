"""docs/schema.md: examples print what they show, and the grammar equals the code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ask.schemas import short_form
from ask.schemas.schema import parse_schema
from tests.doc_pages import (
    find_code_blocks,
    matches_documented_output,
    parse_console_steps,
    read_table,
)
from tests.program import Ask

PAGE = (Path(__file__).parents[1] / "docs/schema.md").read_text()
EXAMPLES = [step for block in find_code_blocks(PAGE, "console") for step in parse_console_steps(block)]
SHORT = {short.replace("\\|", "|"): value for short, value in read_table(PAGE, "short").items()}


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        pytest.param(line, shown, id=line, marks=pytest.mark.slow if number else [])
        for number, (line, shown) in enumerate(EXAMPLES)
    ],
)
def test_examples_print_the_documented_output(ask: Ask, line: str, shown: str) -> None:
    result = ask.shell(f"{{ {line}; }} 2>&1 | grep -v '^· '")
    assert matches_documented_output(result.text, shown)


@pytest.mark.parametrize("short", SHORT)
def test_short_forms_accept_the_documented_values(short: str) -> None:
    schema = parse_schema(short_form.parse_short_form(short.strip("`")))
    assert schema.describe_problems(json.loads(SHORT[short].strip("`"))) == ""
