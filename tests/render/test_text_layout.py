"""Text width on a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.render.text_layout import measure_width, pad_text, truncate_text


@pytest.mark.parametrize(("text", "width"), [("", 0), ("abc", 3), ("漢字", 4), ("e\u0301", 1), ("😀", 2), ("é", 1)])
def test_measured_width(text: str, width: int) -> None:
    assert measure_width(text) == width
    assert measure_width(pad_text(text, 10)) == 10


@given(st.text(st.sampled_from("ab漢e\u0301😀")), st.integers(0, 12))
def test_truncated_text_fits_and_ends_in_an_ellipsis(text: str, width: int) -> None:
    truncated = truncate_text(text, width)
    assert measure_width(truncated) <= width
    assert truncated == text or (truncated.endswith("…") and text.startswith(truncated[:-1])) or width == 0
    assert (truncated == text) == (measure_width(text) <= width)


def test_truncation_keeps_as_much_as_possible() -> None:
    assert truncate_text("abcdef", 4) == "abc…"
    assert truncate_text("漢字漢字", 6) == "漢字…"
    assert truncate_text("漢字漢字", 7) == "漢字漢…"
