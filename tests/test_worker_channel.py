"""Frames between ask and its worker: whole however they arrive, and never longer than they may be."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.worker_channel import FrameReader, InvalidFrameError, encode_frame

KINDS = st.binary(min_size=1, max_size=1)


@given(sent=st.lists(st.tuples(KINDS, st.binary(max_size=50))), size=st.integers(1, 20))
def test_frames_arrive_whole_in_pieces_of_any_size(sent: list[tuple[bytes, bytes]], size: int) -> None:
    data = b"".join(encode_frame(*frame) for frame in sent)
    reader = FrameReader()
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    assert [frame for piece in pieces for frame in reader.feed(piece)] == sent


@given(data=st.binary(max_size=200))
def test_garbage_gives_frames_or_is_refused(data: bytes) -> None:
    with suppress(InvalidFrameError):
        assert sum(len(payload) + 5 for _, payload in FrameReader(100).feed(data)) <= len(data)


def test_a_frame_that_is_too_long_is_refused_before_it_came() -> None:
    with pytest.raises(InvalidFrameError):
        list(FrameReader(10).feed(encode_frame(b"D", b"x" * 11)[:5]))
