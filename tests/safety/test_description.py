"""The description of a call is complete, whatever the model wrote."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.safety.approval_preview import Preview, describe_pending_call
from ask.safety.terminal_input import wrap_lines
from ask.safety.tool_policy import PendingToolCall
from ask.tools.base import ApprovedFile, RunToolContext
from tests.json_strategies import any_json

HERE = "/home/ann/project"
TRICKS = st.sampled_from(
    [
        "\x1b[2K\r",
        "\x1b]52;c;cm0gLXJmIC4=\x07",
        "\u202e",
        "\u200b",
        "\u0440",
        " " * 30,
        " " * 2_000,
        "\n",
        "\n" * 50,
        "\ud800",
        "\U000e0041",
        "\x9b2J",
        "\t",
        "\x00",
    ]
)
TEXTS = st.lists(TRICKS | st.text(st.characters(), max_size=20), max_size=8).map("".join)


def show(
    tool: str, arguments: Mapping[str, Any], folder: str = HERE, timeout: float = 30, preview: Preview | None = None
) -> list[str]:
    """Return the lines of the description."""
    context = RunToolContext(Path(folder), {}, timeout, Path("/spill"), print)
    lines = describe_pending_call(PendingToolCall(tool, arguments, context), preview or Preview())
    return [row for text, _ in lines for row in text.split("\n")]


def folder_of(text: str) -> str:
    return "/" + text.replace("\0", "")


def test_call_is_described_with_arguments_directory_and_timeout() -> None:
    assert show("write_file", {"filepath": "a b", "content": "x\ny"}) == [
        "The model wants to call write_file:",
        "  filepath: a b",
        "  content: x",
        "  | y",
        "  in /home/ann/project, for at most 30 s",
    ]


def test_preview_replaces_the_arguments_that_it_shows() -> None:
    rows = (("@@ -1 +1 @@", ""), ("-a", "31"), ("+\u0430\x1b", "32"))
    diff = Preview("the changes to /x:", rows, frozenset({"content"}), ApprovedFile("/x"))
    assert show("write_file", {"filepath": "x", "content": "\u0430\x1b"}, preview=diff) == [
        "The model wants to call write_file:",
        "  filepath: x",
        "  the changes to /x:",
        "  | @@ -1 +1 @@",
        "  | -a",
        r"  | +\u0430\x1b",
    ]


@pytest.mark.parametrize(
    ("wanted", "shown"), [({"timeout": 5}, "5"), ({"timeout": 99}, "99"), ({"timeout": 1e9}, "600"), ({}, "30")]
)
def test_the_time_that_the_command_gets_is_shown(wanted: Mapping[str, object], shown: str) -> None:
    assert show("bash", wanted)[-1] == f"  in /home/ann/project, for at most {shown} s"


@given(tool=TEXTS, name=TEXTS, value=any_json() | TEXTS, folder=TEXTS, lines=st.lists(TEXTS, min_size=1, max_size=4))
def test_description_is_printable_ascii(tool: str, name: str, value: object, folder: str, lines: list[str]) -> None:
    preview = Preview(lines[0], tuple((line, "") for line in lines[1:]))
    question = "\n".join(show(tool, {name: value}, folder_of(folder), preview=preview))
    assert re.fullmatch(r"[ -~\n]*", question)
    assert re.fullmatch(r"[ -~\n]*", "\n".join(wrap_lines(question, 40)))


@given(TEXTS)
def test_command_can_be_recovered_from_its_description(command: str) -> None:
    plain = command.replace("\\", "/").replace("[", "(")  # with which escapes begin, and gaps
    first, *rest = show("bash", {"command": plain})[1:-1]
    shown = "\n".join([first.removeprefix("  command: "), *(line.removeprefix("  | ") for line in rest)])
    blank_lines = re.compile(r"\n(?: *\n){4,}")  # spaces in them are not shown
    assert read_back(shown) == blank_lines.sub(lambda match: "\n" * match[0].count("\n"), plain)


@given(tool=TEXTS, name=TEXTS, value=TEXTS, folder=TEXTS)
def test_no_value_can_forge_a_line_of_the_description(tool: str, name: str, value: str, folder: str) -> None:
    lines = show(tool, {name: value}, folder_of(folder))
    own = [line for line in lines if not line.startswith("  | ")]
    assert own[0].startswith("The model wants to call ")
    assert len(own) == 3
    assert own[2].startswith("  in ")


def test_argument_name_cannot_forge_a_line() -> None:
    assert show("x", {"in /tmp, for 1 s at most": 1})[1] == '  "in /tmp, for 1 s at most": 1'


@given(any_json())
def test_non_text_values_are_shown_as_json(value: object) -> None:
    line = "\n".join(show("bash", {"value": value})[1:-1]).removeprefix("  value: ")
    if not isinstance(value, str) and " " * 20 not in json.dumps(value):
        assert line == json.dumps(value)


def test_long_lines_are_wrapped_with_a_prefix() -> None:
    forged = "  command: ls #" + "x" * 25 + "The model wants to call read_file:"
    assert wrap_lines(forged, 40) == [
        "  command: ls #xxxxxxxxxxxxxxxxxxxxxxxxx",
        "  > The model wants to call read_file:",
    ]


def test_long_lines_are_wrapped_between_words() -> None:
    assert wrap_lines("  command: make all the documentation", 24) == [
        "  command: make all the ",
        "  > documentation",
    ]


@given(st.text(" ab\n", max_size=200), st.integers(20, 60))
def test_wrapped_text_is_complete_and_fits(text: str, columns: int) -> None:
    rows = wrap_lines(text, columns)
    assert all(len(row) <= columns for row in rows)
    assert "".join(rows).replace("  > ", "") == text.replace("\n", "")


def read_back(shown: str) -> str:
    """Recover the original text from its description."""
    lines = re.sub(r"\n\[(\d+) empty lines\]\n", lambda match: "\n" * (int(match[1]) + 1), shown)
    spaces = re.sub(r"\[(\d+) spaces\]", lambda match: " " * int(match[1]), lines)
    escape = r"\\x([0-9a-f]{2})|\\u([0-9a-f]{4})|\\U([0-9a-f]{8})"
    return re.sub(escape, lambda match: chr(int(match[1] or match[2] or match[3], 16)), spaces)
