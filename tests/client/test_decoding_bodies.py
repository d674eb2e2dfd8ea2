"""Decoding of chunked and compressed bodies that are split anywhere or invalid."""

from __future__ import annotations

import contextlib
import gzip
import os
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.client.stream_decoding import (
    MAX_LINE_BYTES,
    ChunkedDecoder,
    InvalidChunkError,
)
from ask.client.transport import MAX_COMPRESSED_BYTES, READ_BYTES, Transport
from tests import wire
from tests.client.test_transport import CHAT, ENOUGH, no_proxies, read_data  # noqa: F401 - a fixture
from tests.model_server import ModelServer, Reply

EXTENSIONS = st.sampled_from([b"", b";a", b'; name="value"', b" "])
TRAILERS = st.lists(st.sampled_from([b"Expires: never\r\n", b"X: y\r\n"]), max_size=2).map(b"".join)
PIECES = st.lists(st.tuples(st.binary(min_size=1), EXTENSIONS), max_size=8)


def encode_chunks(pieces: Sequence[tuple[bytes, bytes]], trailers: bytes = b"") -> bytes:
    parts = [b"%x%s\r\n%s\r\n" % (len(piece), extension, piece) for piece, extension in pieces]
    return b"".join([*parts, b"0\r\n", trailers, b"\r\n"])


@given(PIECES, TRAILERS, st.data())
def test_body_is_decoded_for_any_split(pieces: list[tuple[bytes, bytes]], trailers: bytes, data: st.DataObject) -> None:
    sent = encode_chunks(pieces, trailers)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(sent)))))
    decoder, decoded = ChunkedDecoder(), b""
    for start, end in zip([0, *cuts], [*cuts, len(sent)], strict=True):
        assert not decoder.complete or start == len(sent)
        decoded += decoder.feed(sent[start:end])
    assert decoded == b"".join(piece for piece, _ in pieces)
    assert decoder.complete


@given(PIECES.filter(bool), st.data())
def test_received_data_is_available_at_once(pieces: list[tuple[bytes, bytes]], data: st.DataObject) -> None:
    sent = encode_chunks(pieces)
    end = data.draw(st.integers(0, len(sent) - 1))
    decoder, position = ChunkedDecoder(), 0
    expected = b""
    for piece, extension in pieces:
        head = position + len(b"%x%s\r\n" % (len(piece), extension))
        expected += piece[: max(end - head, 0)]
        position = head + len(piece) + 2
    assert decoder.feed(sent[:end]) == expected
    assert not decoder.complete


@given(st.binary(max_size=64))
def test_any_bytes_are_decoded_or_rejected(data: bytes) -> None:
    with contextlib.suppress(InvalidChunkError):
        assert len(ChunkedDecoder().feed(data)) <= len(data)


@pytest.mark.parametrize("line", [b"", b"x", b"-1", b"+1", b"1_0", b"0x1", b"1 1", "\u0661".encode(), b";a"])
def test_invalid_chunk_size_is_rejected(line: bytes) -> None:
    with pytest.raises(InvalidChunkError):
        ChunkedDecoder().feed(line + b"\r\n")


def test_endless_line_is_rejected() -> None:
    decoder = ChunkedDecoder()
    with pytest.raises(InvalidChunkError):
        for _ in range(MAX_LINE_BYTES + 1):
            decoder.feed(b"1")


def test_connection_is_reused_after_a_chunked_body(server: ModelServer) -> None:
    reply = wire.says("hello")
    assert reply.framing == "chunked"
    server.reply(reply, reply, Reply([b"{}"], framing="length"))
    transport = Transport(server.base_url, ENOUGH)
    for _ in range(2):
        with transport.send(CHAT) as answer:
            assert list(read_data(answer))[-1] == "[DONE]"
    with transport.send(CHAT) as answer:
        assert answer.read_text() == "{}"
    assert len({request.connection for request in server.requests}) == 1


@pytest.mark.parametrize("framing", ["chunked", "close"])
@pytest.mark.parametrize("padding", [b"", bytes(20), b"garbage"])
@pytest.mark.parametrize("size", [1, 100, 100_000])
def test_gzip_is_decompressed_for_any_split(server: ModelServer, framing: Any, padding: bytes, size: int) -> None:
    sizes = (READ_BYTES, 0, 1, 3 * READ_BYTES + 1, READ_BYTES - 1)
    data = os.urandom(MAX_COMPRESSED_BYTES).hex().encode()
    members = [*(b" " * size for size in sizes), b"[", data, data[1:], b"]"]
    body = b"".join(map(gzip.compress, members)) + padding
    server.reply(Reply(list(wire.chop(body, size)), framing=framing))
    with Transport(server.base_url, ENOUGH).send(CHAT) as response:
        assert response.read_text().strip() == b"".join(members).decode().strip()
