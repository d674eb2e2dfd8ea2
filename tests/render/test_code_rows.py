"""Highlighted code: its text, and languages whose lexers need very long for some lines."""

from __future__ import annotations

import threading
import time

import pytest

from ask.render import code_rows
from ask.render.code_rows import MAX_TOTAL_SECONDS, REFILL_RATE, CodeHighlighter, LexingTime, highlight_code
from ask.render.text_layout import Row, get_plain_text
from tests.slow_parameters import mark_others_slow

HOSTILE_CODE = {
    "terraform": "a" * 1_900,
    "autoit": " " * 1_900,
    "systemd": "[" * 1_900,
    "org": "[" * 1_900,
    "racket": "(" * 1_900,
    "devicetree": "a," * 950,
}


@pytest.fixture(autouse=True)
def full_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_rows, "LEXING_TIME", LexingTime())
    monkeypatch.setattr(code_rows, "SLOW_LEXERS", set())


def list_texts(rows: list[Row]) -> list[str]:
    return [get_plain_text(row) for row in rows]


def has_colors(rows: list[Row]) -> bool:
    return any(style for row in rows for _, style in row)


# The first interruption may be discarded, in a callback of hypothesis for example.
@pytest.mark.slow_after_first
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("language", mark_others_slow(HOSTILE_CODE, ["org", "systemd"]))
@pytest.mark.parametrize("count", mark_others_slow([1, 60], [60]))
def test_a_lexer_that_takes_too_long_is_interrupted(language: str, count: int) -> None:
    line = HOSTILE_CODE[language]
    rows = highlight_code(f"{line}\n" * count, language)
    assert list_texts(rows) == [line] * count


@pytest.mark.slow
def test_many_blocks_together_take_a_limited_time() -> None:
    length, taken = 100, 0.0
    while taken < 0.04:  # until a block takes long, but not too long for a block
        length = length * 5 // 4
        start = time.process_time()
        rows = highlight_code(" " * length, "autoit")
        taken = time.process_time() - start
    assert list_texts(rows) == [" " * length]
    start, processor_start = time.monotonic(), time.process_time()
    for _ in range(150):
        assert list_texts(highlight_code(" " * length, "autoit")) == [" " * length]
    # The rest is what the unhighlighted rows take, and the block that exceeds the limit.
    allowed = MAX_TOTAL_SECONDS + REFILL_RATE * (time.monotonic() - start) + 0.5
    assert time.process_time() - processor_start < allowed


def test_other_languages_stay_highlighted() -> None:
    highlight_code(HOSTILE_CODE["terraform"], "terraform")
    assert has_colors(highlight_code("def f(): pass\n", "python"))


def test_another_thread_keeps_the_colors_and_highlights_nothing() -> None:
    highlighter = CodeHighlighter("python")
    list(highlighter.add_lines("def f():\n    pass\n"))
    shown = highlighter.render_open_lines("x = 1")
    in_thread: list[Row] = []
    hostile = CodeHighlighter("autoit")
    list(hostile.add_lines(" " * 1_900 + "\n"))

    def render() -> None:
        in_thread.extend(highlighter.render_open_lines("x = 1\ny = 2"))
        in_thread.extend(hostile.render_open_lines())

    thread = threading.Thread(target=render)
    thread.start()
    thread.join()
    assert in_thread[:3] == shown
    assert has_colors(shown)
    assert list_texts(in_thread[3:]) == ["y = 2", " " * 1_900]
