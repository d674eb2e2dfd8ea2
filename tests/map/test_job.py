"""Filling in the prompt of a row."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.errors import UsageError
from ask.map.input_rows import Row
from ask.map.job import RowPrompt

TICKET = Row("t.jsonl:1", {"text": "hi", "First Name": "Ann", "n": 3, "tags": ["a"], "none": None}, '{"text": "hi"}')


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("Say {{text}}!", "Say hi!"),
        ("{{ First Name }} has {{n}} {{tags}}{{none}}", 'Ann has 3 ["a"]'),
        ("row {{index}}", "row 7"),
        (r"\{{text}} {{text}}", "{{text}} hi"),
        ("{{color|red}} {{text}}", "red hi"),
    ],
)
def test_placeholders_are_filled_in(prompt: str, expected: str) -> None:
    assert RowPrompt(prompt).render(TICKET, 7)[0] == expected


def test_a_prompt_without_placeholders_gets_the_row() -> None:
    assert RowPrompt("Translate.").render(TICKET, 1)[0] == 'Translate.\n\n{"text": "hi"}'
    assert RowPrompt("Translate.").render(Row("l:1", {"line": "moin"}, "moin"), 1)[0] == "Translate.\n\nmoin"
    assert RowPrompt("Read.").render(Row("a.pdf", {"path": "a.pdf"}, is_file=True), 1) == ("Read.", ["a.pdf"])


def test_files_are_named_by_columns() -> None:
    row = Row("a.pdf", {"path": "a.pdf"})
    assert RowPrompt("Summarize.", ["{{path}}", "guide.md"]).render(row, 1)[1] == ["a.pdf", "guide.md"]
    assert RowPrompt("About {{path}}").render(row, 1) == ("About a.pdf", [])


def test_input_stands_for_the_row() -> None:
    assert RowPrompt("Fix: {{input}}").render(Row("l:1", {"line": "moin"}, "moin"), 1)[0] == "Fix: moin"


def test_an_unknown_column_is_refused_with_a_suggestion() -> None:
    with pytest.raises(UsageError, match="txet") as caught:
        RowPrompt("{{txet}}").check(TICKET)
    assert "text" in caught.value.hint
    RowPrompt("{{txet|none}} {{text}} {{index}}").check(TICKET)


@given(st.text(), st.text())
def test_values_are_never_parsed_as_placeholders(before: str, value: str) -> None:
    prefix = before.replace("{", "").replace("\\", "")
    assert RowPrompt(prefix + "{{a}}").render(Row("r:1", {"a": value}), 1)[0] == prefix + value
