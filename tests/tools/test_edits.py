"""Exact replacement: where it is made, and that the search always takes linear time."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.tools.base import ToolError
from ask.tools.files import replace_once
from tests.tools.conftest import Unprivileged

NEW = "<new>"


def texts(letters: str, most: int) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(letters), max_size=most).map("".join)


def find_offsets_slowly(text: str, old: str) -> list[tuple[int, int]]:
    """Find each offset of `old` with a slow reference implementation: a newline in `old` matches any line ending."""
    found = []
    for start in range(len(text)):
        end = start
        for letter in old:
            if letter == "\n" and text.startswith("\r\n", end):
                end += 2
            elif text[end : end + 1] == letter and not (letter == "\n" and text[:end].endswith("\r")):
                end += 1
            else:
                break
        else:
            found.append((start, end))
    return found


@given(texts("ab\r\n\n ", 16) | texts("a\r\n", 12), texts("ab\r\n\n ", 3))
def test_unique_occurrence_is_replaced(text: str, old: str) -> None:
    if not old or "\r\n" in old or old.endswith("\r"):
        return
    places = find_offsets_slowly(text, old)
    if len(places) == 1:
        start, end = places[0]
        line = text.count("\n", 0, start) + 1
        assert replace_once(text, old, NEW) == (text[:start] + NEW + text[end:], line)
        return
    with pytest.raises(ToolError, match=f"occurs {len(places)} times" if places else "not found"):
        replace_once(text, old, NEW)


@pytest.mark.parametrize(("old", "edited"), [("b\r\n", "a\r\n<new>c\r"), ("c\r", "a\r\nb\r\n<new>")])
def test_old_text_with_its_own_line_endings_is_matched_exactly(old: str, edited: str) -> None:
    assert replace_once("a\r\nb\r\nc\r", old, NEW)[0] == edited


@given(texts("ab\r\n\t  ", 16), texts("ab\n  ", 4))
def test_match_with_other_white_space_is_shown_as_it_is(text: str, old: str) -> None:
    if not old.strip():
        return
    alike = re.search(r"[ \t]*" + r"\s+".join(map(re.escape, old.split())) + r"[ \t]*", text)
    try:
        replace_once(text, old, NEW)
    except ToolError as error:
        if "was not found" in str(error):
            line = text.count("\n", 0, alike.start()) + 1 if alike else 0
            expected = f"different white space start at line {line}: {alike[0]!r}" if alike else "white space start"
            assert (expected in str(error)) == bool(alike)


def test_only_the_start_of_a_long_match_is_shown() -> None:
    with pytest.raises(ToolError) as caught:
        replace_once("x\n" + "a  " * 3_000, "a " * 3_000, NEW)
    assert str(caught.value).endswith(f"at line 2: {('a  ' * 67)[:200]!r}")


HARD = {
    "words with wide gaps": ("a  " * 3_000_000, "a " * 3_000 + "b", "including white space"),
    "words with wide gaps, fewer": ("a  " * 600_000, "a " * 300_000 + "b", "including white space"),
    "gaps and no words": (" " * 1_900_000, "a " * 100_000 + "b", "including white space"),
    "lines": ("a\n" * 5_000_000, "a\n" * 100_000 + "b", "the nearest line is 'a'"),
    "lines of another system": ("a\r\n" * 3_000_000, "a\n" * 100_000 + "b", "the nearest line is"),
    "the same all over": ("a" * 10_000_000, "a" * 5_000_000, "more than 100 times"),
    "all but the last": ("a" * 10_000_000, "a" * 1_000_000 + "b", "including white space"),
    "many accents": ("e", "e" + "\u0301\u0327" * 100_000, "old_text was not found"),
    "lines that are almost alike": (
        "\n".join(f"{number:013b}".replace("0", "ab").replace("1", "ba") * 7 for number in range(6_000)),
        "ab" * 99,
        "the nearest line is",
    ),
}


FAST = ("words with wide gaps, fewer", "lines of another system")


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    "name", [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in HARD]
)
def test_no_text_makes_the_search_slow(public_folder: Path, unprivileged: Unprivileged, name: str) -> None:
    """A superlinear search would not finish within the time limit of the process."""
    text, old, message = HARD[name]
    (public_folder / "f").write_text(text, newline="")
    (public_folder / "old").write_text(old)
    (public_folder / "f").chmod(0o644)
    output = unprivileged("edit_file", {"filepath": "f", "old_text": FileContent("old"), "new_text": "x"})
    assert output.startswith("ToolError: f is unchanged: old_text ")
    assert message in output


class FileContent:
    """The content of a file in the folder, for arguments that are too long for a command line."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"(folder / {self.name!r}).read_text()"


@pytest.mark.parametrize(
    ("text", "old", "new", "edited"),
    [
        ("# cafe\u0301\r\nx\r\n", "# caf\u00e9\n", "# the\u0301 \u00e9\n", "# the\u0301 e\u0301\r\nx\r\n"),
        ("caf\u00e9", "cafe\u0301", "the\u0301", "th\u00e9"),
        ("\u1112\u1161\u11ab", "\ud55c", "\uae00", "\u1100\u1173\u11af"),
        ("\u1112\u1161\u11ab \u1112\u1161", "\ud558", "x", "\u1112\u1161\u11ab x"),
    ],
)
def test_characters_may_be_composed_differently(text: str, old: str, new: str, edited: str) -> None:
    assert replace_once(text, old, new) == (edited, 1)


@pytest.mark.parametrize(("text", "old"), [("\u1112\u1161\u11ab", "\ud558"), ("ke\u0302\u0301", "k\u00ea")])
def test_a_part_of_a_composed_character_is_not_found(text: str, old: str) -> None:
    with pytest.raises(ToolError, match="was not found"):
        replace_once(text, old, "x")
