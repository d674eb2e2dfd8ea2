"""The question to the human: all of it there to be seen, whatever the model wrote."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ask.safety.approval import describe
from tests.any_json import any_json

HERE = Path("/home/ann/project")
TRICKS = st.sampled_from(["\x1b[2K\r", "\u202e", "\u200b", "\u0440", " " * 30, "\n", "\ud800", "\U000e0041", "\x9b2J"])
TEXTS = st.lists(TRICKS | st.text(st.characters(), max_size=20), max_size=8).map("".join)


def show(tool: str, arguments: dict[str, object], timeout: float = 30) -> list[str]:
    """The lines of the question."""
    return describe(tool, arguments, HERE, timeout).split("\n")


def test_a_call_is_shown_with_its_arguments_its_place_and_its_time() -> None:
    assert show("write_file", {"filepath": "a b", "content": "x\ny"}) == [
        "The model wants to call write_file:",
        "  filepath: a b",
        "  content: x",
        "  | y",
        "  in /home/ann/project, for 30 s at most",
    ]


@pytest.mark.parametrize(
    ("wanted", "shown"), [(5, "5"), (0.5, "0.5"), (99, "30"), (-1, "30"), ("5", "30"), (None, "30")]
)
def test_the_time_is_the_shorter_of_the_models_and_the_users(wanted: object, shown: str) -> None:
    assert show("bash", {"timeout": wanted})[-1] == f"  in /home/ann/project, for {shown} s at most"


@settings(max_examples=60)
@given(tool=TEXTS, name=TEXTS, value=any_json() | TEXTS, folder=TEXTS)
def test_the_question_is_printable_ascii_whatever_the_model_wrote(
    tool: str, name: str, value: object, folder: str
) -> None:
    question = describe(tool, {name: value}, Path("/", folder.replace("\0", "")), 30)
    assert re.fullmatch(r"[ -~\n]*", question)


@given(TEXTS)
def test_the_whole_command_is_there_and_can_be_told(command: str) -> None:
    plain = command.replace("\\", "/").replace("[", "(")  # with which escapes begin, and gaps
    first, *rest = show("bash", {"command": plain})[1:-1]
    shown = "\n".join([first.removeprefix("  command: "), *(line.removeprefix("  | ") for line in rest)])
    assert read_back(shown) == plain


@settings(max_examples=60)
@given(tool=TEXTS, name=TEXTS, value=TEXTS, folder=TEXTS)
def test_nothing_can_pass_for_another_line_of_the_question(tool: str, name: str, value: str, folder: str) -> None:
    lines = describe(tool, {name: value}, Path("/", folder.replace("\0", "")), 30).split("\n")
    own = [line for line in lines if not line.startswith("  | ")]
    assert own[0].startswith("The model wants to call ")
    assert len(own) == 3
    assert own[2].startswith("  in ")


@settings(max_examples=60)
@given(any_json())
def test_values_that_are_no_text_are_shown_as_json(value: object) -> None:
    line = "\n".join(show("bash", {"value": value})[1:-1]).removeprefix("  value: ")
    if not isinstance(value, str) and " " * 20 not in json.dumps(value):
        assert line == json.dumps(value)


def read_back(shown: str) -> str:
    """What was written, from how it is shown."""
    spaces = re.sub(r"\[(\d+) spaces\]", lambda match: " " * int(match[1]), shown)
    escape = r"\\x([0-9a-f]{2})|\\u([0-9a-f]{4})|\\U([0-9a-f]{8})"
    return re.sub(escape, lambda match: chr(int(match[1] or match[2] or match[3], 16)), spaces)
