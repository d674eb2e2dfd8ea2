"""Extracting JSON from an answer: the complete answer, a fenced block, or the first match within text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from ask.schemas.json_extraction import NO_JSON_MESSAGE, extract_json
from ask.schemas.schema import parse_schema
from tests.json_strategies import any_json

ADA: dict[str, Any] = {"name": "Ada", "tags": ["a", "}"]}
WRITTEN = json.dumps(ADA)


def fits(value: Any) -> str:
    return "" if value == ADA else "$: not Ada"


@pytest.mark.parametrize(
    "answer",
    [
        WRITTEN,
        f"\n {WRITTEN}\n",
        json.dumps(ADA, indent=4),
        f"```json\n{WRITTEN}\n```",
        f"Here you are:\n\n```\n{WRITTEN}\n```\n\nThat is all.",
        f"Here you are: {WRITTEN} and {{that}} is all.",
        f"The schema {{name}} gives [1, 2] this: {WRITTEN}",
        f"```json\n[1]\n```\nor\n```json\n{WRITTEN}\n```",
        f"<think>{{}} or {{}}?</think>\n{WRITTEN}",
        f"```json\n{WRITTEN}",
        f'"quoted" {WRITTEN}',
    ],
)
def test_the_value_is_found(answer: str) -> None:
    assert extract_json(answer, fits) == (ADA, "")


@pytest.mark.parametrize(
    "answer",
    ["", "Hello.", "{", "{name: 1}", "NaN", '{"a": NaN}', '{"a": 1e999}', "[" * 100_000, '{"a": "b', "{}}" * 0],
)
def test_text_without_json_is_an_error(answer: str) -> None:
    value, problem = extract_json(answer, fits)
    assert value is None
    assert problem == NO_JSON_MESSAGE or problem.startswith("its JSON is invalid: ")


@pytest.mark.parametrize("answer", ['{"tags": ["x"],}', '```json\n{"tags": ["x"],}\n```\nThat is all.'])
def test_a_syntax_error_is_described_rather_than_a_value_within_it(answer: str) -> None:
    value, problem = extract_json(answer, fits)
    assert value is None
    assert "column 16" in problem or "column 15" in problem  # the place depends on the version of Python


@pytest.mark.parametrize(
    "answer",
    [
        *("[A page](https://example.org) says: {}", "{{{{ name }}}} is {}", "[Note] It is:\n```json\n{}\n```"),
        *("```bash\n[ -f x ] && y\n```\n```json\n{}\n```", '```\n[ "$x" = y ]\n```\n```json\n{}\n```'),
    ],
)
def test_a_bracket_that_does_not_begin_json_hides_no_problem(answer: str) -> None:
    assert extract_json(answer.format('{"a": 1}'), fits) == ({"a": 1}, "$: not Ada")


def test_strings_may_contain_line_breaks() -> None:
    for answer in (
        '{"a": "one\ntwo\tthree"}',
        '```json\n{"a": "one\ntwo\tthree"}\n```',
        'So: {"a": "one\ntwo\tthree"}.',
    ):
        assert extract_json(answer, lambda _: "") == ({"a": "one\ntwo\tthree"}, "")


def test_the_error_describes_the_first_value_if_none_matches() -> None:
    assert extract_json('{"a": 1} {"b": 2}', fits) == ({"a": 1}, "$: not Ada")


def test_values_other_than_objects_are_found_alone_and_in_a_fence() -> None:
    number = parse_schema({"type": "integer"})
    assert extract_json(" 42 \n", number.describe_problems) == (42, "")
    assert extract_json("It is:\n```\n42\n```", number.describe_problems) == (42, "")
    assert extract_json("It is 42.", number.describe_problems)[1] == NO_JSON_MESSAGE


@given(any_json())
def test_any_value_is_returned_unchanged(value: Any) -> None:
    try:
        written = json.dumps(value, allow_nan=False)
    except ValueError:
        return
    assert extract_json(written, lambda found: "" if found == value else "another") == (value, "")


@pytest.mark.parametrize("piece", ['{"a": ', "[1, ", "{ ", "{} ", "word "])
def test_a_long_answer_without_json_is_scanned_completely(piece: str) -> None:
    assert extract_json(piece * 50_000, fits)[1]
