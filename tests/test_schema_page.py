"""docs/schema.md: examples print what they show, and the grammar equals the code."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from textwrap import dedent

import pytest

from ask.schemas import short_form
from ask.schemas.schema import parse_schema
from tests.doc_pages import (
    find_code_blocks,
    find_code_spans,
    matches_documented_output,
    parse_console_steps,
    read_table,
)
from tests.program import Ask
from tests.provider_wires import SERVICES

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


def test_the_grammar_equals_the_code() -> None:
    (grammar,) = find_code_blocks(PAGE, "text")
    assert grammar.strip() in dedent(inspect.getdoc(short_form) or "").replace("\n    ", "\n")
    assert {f"`{name}`" for name in short_form.TYPES} <= {
        f"`{word}`" for word in (*grammar.replace("|", " ").split(), *find_code_spans(PAGE))
    }


@pytest.mark.parametrize("short", SHORT)
def test_short_forms_accept_the_documented_values(short: str) -> None:
    schema = parse_schema(short_form.parse_short_form(short.strip("`")))
    assert schema.describe_problems(json.loads(SHORT[short].strip("`"))) == ""


def test_all_providers_are_listed() -> None:
    assert set(SERVICES) <= set(find_code_spans(PAGE))
