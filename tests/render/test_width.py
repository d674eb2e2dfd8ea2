"""How much room text takes on a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.render.width import measure_width, pad_text, truncate_text


@pytest.mark.parametrize(("text", "width"), [("", 0), ("abc", 3), ("漢字", 4), ("e\u0301", 1), ("😀", 2), ("é", 1)])
def test_columns(text: str, width: int) -> None:
    assert measure_width(text) == width
    assert measure_width(pad_text(text, 10)) == 10


@given(st.text(st.sampled_from("ab漢e\u0301😀")), st.integers(0, 12))
def test_what_is_cut_fits_and_says_so(text: str, room: int) -> None:
    shown = truncate_text(text, room)
    assert measure_width(shown) <= room
    assert shown == text or (shown.endswith("…") and text.startswith(shown[:-1])) or room == 0
    assert (shown == text) == (measure_width(text) <= room)


def test_as_much_as_fits_is_kept() -> None:
    assert truncate_text("abcdef", 4) == "abc…"
    assert truncate_text("漢字漢字", 6) == "漢字…"
    assert truncate_text("漢字漢字", 7) == "漢字漢…"
