"""Keys are taken out of texts, however the text is cut into pieces."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.redaction import REDACTED, KeyFilter, redact
from ask.tools import ToolContext
from ask.tools.shell import BASH

KEY = "sk-0123456789"
KEYS = st.lists(st.text("ab-", min_size=3, max_size=8), min_size=1, max_size=4).map(
    lambda keys: tuple(sorted(keys, key=len, reverse=True))
)
PIECES = st.lists(st.text("ab-x", max_size=12), max_size=12)


def filtered(keys: tuple[str, ...], pieces: list[str]) -> str:
    keyless = KeyFilter(keys)
    return "".join([*map(keyless.feed, pieces), keyless.finish()])


def test_without_keys_all_passes_at_once() -> None:
    assert KeyFilter(()).feed("text") == "text"
    assert redact("text", ()) == "text"


@pytest.mark.parametrize("place", range(len(KEY) + 1))
def test_a_key_in_two_pieces_is_taken_out(place: int) -> None:
    assert filtered((KEY,), [f"a {KEY[:place]}", f"{KEY[place:]} b"]) == f"a {REDACTED} b"


def test_what_cannot_be_a_key_is_not_held_back() -> None:
    keyless = KeyFilter((KEY,))
    assert keyless.feed("password: ") == "password: "
    assert keyless.feed("ask") == "a"
    assert keyless.feed("!") == "sk!"
    assert keyless.feed("sk-01") == ""
    assert keyless.finish() == "sk-01"


def test_the_longer_of_two_keys_is_taken_out_whole() -> None:
    assert filtered(("abcdef", "abc"), ["xabc", "def"]) == f"x{REDACTED}"
    assert filtered(("abcdef", "abc"), ["xabc", "dex"]) == f"x{REDACTED}dex"


@given(KEYS, PIECES)
def test_pieces_give_the_same_as_the_whole(keys: tuple[str, ...], pieces: list[str]) -> None:
    assert filtered(keys, pieces) == redact("".join(pieces), keys)


@given(KEYS, PIECES)
def test_what_is_told_holds_no_key(keys: tuple[str, ...], pieces: list[str]) -> None:
    keyless = KeyFilter(keys)
    told = "".join([*map(keyless.feed, pieces), keyless.finish()])
    for part, key in itertools.product(told.split(REDACTED), keys):
        assert key not in part


def test_a_command_s_output_is_kept_and_shown_without_keys(tmp_path: Path) -> None:
    shown: list[str] = []
    context = ToolContext(tmp_path, dict(os.environ), 20, tmp_path / "spill", shown.append, keys=(KEY,))
    around = "head -c 14990 /dev/zero | tr '\\0' x"
    parts = f"printf {KEY[:5]}; sleep 0.05; printf {KEY[5:]}"
    result = BASH.run({"command": f"{around}; {parts}; {around}; {{ {parts}; }} >&2; {parts}; {around}"}, context)
    [spilled] = (tmp_path / "spill").iterdir()
    for text in (result.text, "".join(shown), spilled.read_text()):
        assert KEY[:5] not in text
    assert spilled.read_text().count(REDACTED) == 2
    assert result.text.endswith(f"stderr:\n{REDACTED}")
