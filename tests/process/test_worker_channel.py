"""Frames between ask and a worker: reassembled from chunks of any size, and limited in length."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.process.worker_channel import FrameReader, InvalidFrameError, encode_frame

KINDS = st.binary(min_size=1, max_size=1)


@given(sent=st.lists(st.tuples(KINDS, st.binary(max_size=50))), size=st.integers(1, 20))
def test_frames_are_reassembled_from_chunks_of_any_size(sent: list[tuple[bytes, bytes]], size: int) -> None:
    data = b"".join(encode_frame(*frame) for frame in sent)
    reader = FrameReader()
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    assert [frame for piece in pieces for frame in reader.feed(piece)] == sent


@given(data=st.binary(max_size=200))
def test_garbage_is_parsed_as_frames_or_rejected(data: bytes) -> None:
    with suppress(InvalidFrameError):
        assert sum(len(payload) + 5 for _, payload in FrameReader(100).feed(data)) <= len(data)


def test_a_frame_that_is_too_long_is_rejected_by_its_header() -> None:
    with pytest.raises(InvalidFrameError):
        list(FrameReader(10).feed(encode_frame(b"D", b"x" * 11)[:5]))
