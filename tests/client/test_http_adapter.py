"""Requests and responses of `ask.client.http_adapter`, compared with those of `http.client`."""

from __future__ import annotations

import socket
from contextlib import closing
from http.client import HTTPException, HTTPResponse
from threading import Thread
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.client.http_adapter import MAX_PIECE_BYTES, ConnectionCounter, LimitedResponse, create_adapter

NAMES = st.sampled_from(
    ["Content-Length", "content-length", "Transfer-Encoding", "Connection", "X-Test", "Set-Cookie", "x_y", "X Y", ""]
)
VALUES = st.sampled_from(
    ["0", "5", "-1", "5, 5", "chunked", "CHUNKED", "gzip, chunked", "close", "keep-alive", ""]
) | st.text(st.characters(max_codepoint=255), max_size=8)
LINES = st.builds(
    lambda name, colon, value: f"{name}{colon}{value}".encode("latin-1"),
    NAMES,
    st.sampled_from([":", ": ", ":  ", " : ", ""]),
    VALUES,
) | st.sampled_from([b" folded", b"\tfolded"])
STATUS_LINES = st.sampled_from(
    [
        b"HTTP/1.1 200 OK",
        b"HTTP/1.1 200",
        b"HTTP/1.0 200 OK",
        b"HTTP/1.1 204 No Content",
        b"HTTP/1.1 404 ",
        b"HTTP/2 200",
    ]
)


def read_head(response_class: type[HTTPResponse], data: bytes, method: str) -> Any:
    """Return what a class reads from a response's status line and headers, and the rest of the data."""
    reader, writer = socket.socketpair()
    with reader, writer:
        writer.sendall(data)
        writer.shutdown(socket.SHUT_WR)
        response = response_class(reader, method=method)
        with closing(response):
            try:
                response.begin()
            except HTTPException as error:
                return type(error)
            rest = response.fp.read() if response.fp else b""
            known = response.status, response.reason, response.version, response.length, response.chunked
            return known, response.will_close, response.headers.items(), rest


@given(STATUS_LINES, st.lists(LINES, max_size=5), st.sampled_from(["POST", "HEAD"]), st.binary(max_size=10))
def test_heads_are_read_as_by_http_client(status_line: bytes, lines: list[bytes], method: str, body: bytes) -> None:
    data = b"\r\n".join([status_line, *lines, b"", body])
    assert read_head(LimitedResponse, data, method) == read_head(HTTPResponse, data, method)


@pytest.mark.parametrize("size", [0, 10, MAX_PIECE_BYTES + 1])
def test_requests_arrive_complete(size: int) -> None:
    import requests

    received = []

    def answer(server: socket.socket) -> None:
        connection = server.accept()[0]
        with connection, connection.makefile("rb") as stream:
            for _ in range(2):
                head = b"".join(iter(stream.readline, b"\r\n"))
                received.append((head, stream.read(size)))
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = Thread(target=answer, args=(server,))
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/path?query"
        prepared = requests.Request("POST", url, {"X-Test": "1"}, data=b"x" * size).prepare()
        adapter = create_adapter(ConnectionCounter(None))
        for _ in range(2):  # the second one finds its headers encoded
            assert adapter.send(prepared, timeout=10).content == b""
        thread.join()
    assert received[0] == received[1]
    head, body = received[0]
    assert head.startswith(b"POST /path?query HTTP/1.1\r\n")
    assert b"X-Test: 1\r\n" in head
    assert f"Content-Length: {size}\r\n".encode() in head
    assert len(body) == size
