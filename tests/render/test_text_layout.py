"""Text width on a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.render.text_layout import StreamWrapper, pad_text, truncate_text
from ask.text import measure_width


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


@given(st.text(st.sampled_from("ab \n漢")), st.lists(st.integers(1, 5)), st.integers(2, 12))
def test_wrapped_stream_fits_and_changes_only_whitespace(text: str, sizes: list[int], width: int) -> None:
    wrapper, printed, start = StreamWrapper(width), "", 0
    for size in [*sizes, len(text)]:
        printed += wrapper.feed(text[start : start + size])
        start += size
    printed += wrapper.finish()
    assert printed.split() == text.split() or "漢" in text
    assert "".join(printed.split()) == "".join(text.split())
    assert printed.count("\n") >= text.count("\n")
    too_wide = [row for row in printed.split("\n") if measure_width(row) > width]
    assert all(" " not in row.strip() for row in too_wide)


def test_stream_is_wrapped_between_words_and_between_characters_of_scripts_without_spaces() -> None:
    wrapper = StreamWrapper(10)
    pieces = [wrapper.feed(piece) for piece in ("one tw", "o three", " 漢字漢字漢")]
    assert pieces == ["one", " two", "\nthree 漢字\n漢字"]
    assert wrapper.finish() == "漢"


@pytest.mark.parametrize("text", ["it is a “quoted” word", "한국어 문장을 띄어 씁니다"])
def test_streamed_words_with_typographic_quotes_and_korean_words_are_not_divided(text: str) -> None:
    wrapper = StreamWrapper(10)
    assert "".join([*map(wrapper.feed, text), wrapper.finish()]).split() == text.split()


def test_streamed_word_wider_than_a_row_is_not_divided() -> None:
    wrapper = StreamWrapper(10)
    url = "https://example.org/a/long/path"
    assert "".join([*map(wrapper.feed, ["see ", url[:4], url[4:14], url[14:], " there"]), wrapper.finish()]) == (
        f"see\n{url}\nthere"
    )
