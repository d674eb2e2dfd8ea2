"""How much room text takes on a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.render.width import columns, cut, padded


@pytest.mark.parametrize(("text", "width"), [("", 0), ("abc", 3), ("漢字", 4), ("e\u0301", 1), ("😀", 2), ("é", 1)])
def test_columns(text: str, width: int) -> None:
    assert columns(text) == width
    assert columns(padded(text, 10)) == 10


@given(st.text(st.sampled_from("ab漢e\u0301😀")), st.integers(0, 12))
def test_what_is_cut_fits_and_says_so(text: str, room: int) -> None:
    shown = cut(text, room)
    assert columns(shown) <= room
    assert shown == text or (shown.endswith("…") and text.startswith(shown[:-1])) or room == 0
    assert (shown == text) == (columns(text) <= room)


def test_as_much_as_fits_is_kept() -> None:
    assert cut("abcdef", 4) == "abc…"
    assert cut("漢字漢字", 6) == "漢字…"
    assert cut("漢字漢字", 7) == "漢字漢…"
