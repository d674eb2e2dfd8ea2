"""docs/schema.md: its examples print what they show, and its grammar is the code's."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from textwrap import dedent

import pytest

from ask.schemas import short_form
from ask.schemas.schema import parse_schema
from tests.pages import blocks, is_shown, quoted, steps, table
from tests.program import Ask
from tests.wires import SERVICES

PAGE = (Path(__file__).parents[1] / "docs/schema.md").read_text()
EXAMPLES = [step for block in blocks(PAGE, "console") for step in steps(block)]
SHORT = {short.replace("\\|", "|"): value for short, value in table(PAGE, "short").items()}


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        pytest.param(line, shown, id=line, marks=pytest.mark.slow if number else [])
        for number, (line, shown) in enumerate(EXAMPLES)
    ],
)
def test_an_example_prints_what_is_shown(ask: Ask, line: str, shown: str) -> None:
    result = ask.shell(f"{{ {line}; }} 2>&1 | grep -v '^· '")
    assert is_shown(result.text, shown)


def test_the_grammar_is_that_of_the_code() -> None:
    (grammar,) = blocks(PAGE, "text")
    assert grammar.strip() in dedent(inspect.getdoc(short_form) or "").replace("\n    ", "\n")
    assert {f"`{name}`" for name in short_form.TYPES} <= {
        f"`{word}`" for word in (*grammar.replace("|", " ").split(), *quoted(PAGE))
    }


@pytest.mark.parametrize("short", SHORT)
def test_a_short_form_allows_what_is_shown(short: str) -> None:
    schema = parse_schema(short_form.parse_short_form(short.strip("`")))
    assert schema.describe_problems(json.loads(SHORT[short].strip("`"))) == ""


def test_all_providers_are_told() -> None:
    assert set(SERVICES) <= set(quoted(PAGE))
