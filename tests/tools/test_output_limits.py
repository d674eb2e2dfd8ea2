from __future__ import annotations

import re
import stat
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.tools.base import RunToolContext
from ask.tools.output_limits import MAX_OVERFLOW_BYTES, MAX_RESULT_CHARACTERS, OutputCapture, truncate_result


def find_overflow_file(text: str) -> Path:
    found = re.search(r"(?:the full output is|bytes are) in (\S+)", text)
    assert found
    return Path(found[1])


@pytest.mark.parametrize("length", [0, 1, MAX_RESULT_CHARACTERS])
def test_text_within_the_limit_is_unchanged(context: RunToolContext, length: int) -> None:
    assert truncate_result("x" * length, context) == "x" * length
    assert not context.overflow_directory.exists()


def test_longer_text_keeps_head_and_tail_and_names_the_overflow_file(context: RunToolContext) -> None:
    text = "".join(f"line {number}\n" for number in range(10_000))
    capped = truncate_result(text, context)
    assert len(capped) <= MAX_RESULT_CHARACTERS
    head, tail = re.split(r"\n\[\.\.\. .* \.\.\.\]\n", capped)
    assert text.startswith(head)
    assert text.endswith(tail)
    assert f"{len(text) - len(head) - len(tail):,} characters omitted" in capped
    assert min(len(head), len(tail)) > 14_000
    assert find_overflow_file(capped).read_text() == text


def test_overflow_files_are_private(context: RunToolContext) -> None:
    path = find_overflow_file(truncate_result("x" * 40_000, context))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_truncated_text_is_not_truncated_again(context: RunToolContext) -> None:
    capped = truncate_result("é" * 40_000, context)
    assert truncate_result(capped, context) == capped


def test_lone_surrogates_can_be_written_to_the_overflow_file(context: RunToolContext) -> None:
    assert "\\ud83d" in find_overflow_file(truncate_result("\ud83d" + "x" * 40_000, context)).read_text()


def test_text_is_truncated_even_if_no_file_can_be_written(context: RunToolContext) -> None:
    context.overflow_directory.parent.write_text("a file where the folder should be")
    capped = truncate_result("x" * 40_000, context)
    assert len(capped) <= MAX_RESULT_CHARACTERS
    assert "they could not be saved" in capped


def test_overflow_file_is_limited(tmp_path: Path) -> None:
    capture = OutputCapture(tmp_path, "big")
    for _ in range(MAX_OVERFLOW_BYTES // 1_000_000 + 2):
        capture.feed("x" * 1_000_000)
    text = capture.truncate(MAX_RESULT_CHARACTERS)
    assert "the first 100,000,000 bytes are in" in text
    assert find_overflow_file(text).stat().st_size == MAX_OVERFLOW_BYTES


def test_a_discarded_capture_leaves_no_file_and_no_empty_folder(tmp_path: Path) -> None:
    captures = [OutputCapture(tmp_path / "results", "gone") for _ in range(2)]
    for capture in captures:
        capture.feed("x" * 40_000)
    captures[0].discard()
    assert len(list(tmp_path.glob("results/*"))) == 1
    captures[1].discard()
    assert not list(tmp_path.iterdir())


@given(
    st.lists(st.text("aé😀\n", max_size=30), max_size=40),
    st.integers(1, 500),
    st.integers(1_000, MAX_RESULT_CHARACTERS),
)
def test_pieces_give_the_same_result_as_the_full_text(pieces: list[str], times: int, limit: int) -> None:
    text = "".join(pieces) * times
    with TemporaryDirectory() as name:
        capture = OutputCapture(Path(name), "x")
        for _ in range(times):
            for piece in pieces:
                capture.feed(piece)
        short = capture.truncate(limit)
        assert len(short) <= limit
        if len(text) <= limit:
            assert short == text
            assert not list(Path(name).iterdir())
        else:
            assert find_overflow_file(short).read_text() == text
            head, _, tail = short.partition("\n[... ")
            assert text.startswith(head)
            assert text.endswith(tail.partition(" ...]\n")[2])
