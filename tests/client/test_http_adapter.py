"""Requests and responses of `ask.client.http_adapter`, compared with those of `http.client`."""

from __future__ import annotations

import socket
import time
import tracemalloc
from contextlib import closing
from http.client import HTTPException, HTTPResponse
from itertools import product
from threading import Thread
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.client.http_adapter import (
    MAX_HEADER_BYTES,
    MAX_PIECE_BYTES,
    ConnectionCounter,
    LimitedResponse,
    create_adapter,
)
from ask.client.transport import Transport
from ask.plugin_api.types import HttpRequest
from tests.raw_server import RawServer

ODD_LINES = [
    *(b"Content-Length:" + value for value in (b"", b"5", b" 5 ", b"  5", b" +5", b" -1", b" 005", b" 1_0", b" 5, 5")),
    *(b"Content-Length: " + b"9" * count for count in (18, 19, 5000)),
    *(b"content-length: 5", b"Content-Length : 5", b" Content-Length: 5", b"Content-Length", b"Content-Length: \xb2"),
    *(
        b"Transfer-Encoding:" + value
        for value in (b" chunked", b"CHUNKED", b" chunked ", b" gzip, chunked", b" identity")
    ),
    *(b"Connection:" + value for value in (b"", b" close", b" keep-alive", b" Keep-Alive, close", b" closed")),
    *(b"X: a ", b"X:\ta\t", b"X: a\rY: b", b"X: a\nY: b", b"X: \x00\x0b\x1c\x85\xff", b"X: =?utf-8?q?a?=", b"x_y: 1"),
    *(
        b": x",
        b"X Y: 1",
        b"X\xe9: 1",
        b"From x: 1",
        b"From: 1",
        b" folded",
        b"\tfolded",
        b"Content-Type: multipart/mixed",
    ),
]
STATUS_LINES = [
    *(b"HTTP/1.1 200 OK", b"HTTP/1.1 200", b"HTTP/1.1 200 ", b"HTTP/1.1 200\tOK", b"HTTP/1.1  200 \x0b OK \x00\xff "),
    *(b"HTTP/1.1 2000 OK", b"HTTP/1.1 200OK", b"HTTP/1.1 200\xa0OK", b"HTTP/1.1 +200 OK", b"http/1.1 200 OK"),
    *(b"HTTP/1.0 200 OK", b"HTTP/2 200", b"HTTP/1.1 204 No Content", b"HTTP/1.1 304 x", b"HTTP/1.1 404 "),
    *(b"", b"200 OK", b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK"),
]
NAMES = st.sampled_from(["Content-Length", "Transfer-Encoding", "Connection", "X-Test", "Set-Cookie", "x_y", "X Y", ""])
LINES = st.builds(
    lambda name, colon, value: f"{name}{colon}{value}".encode("latin-1"),
    NAMES,
    st.sampled_from([":", ": ", ":  ", " : ", ""]),
    st.text(st.characters(max_codepoint=255), max_size=8),
)


def read_head(response_class: type[HTTPResponse], method: str, *pieces: bytes) -> Any:
    """Return what a class reads from a response's status line and headers, and the rest of the data.

    Several pieces arrive one by one.
    """
    kind = socket.SOCK_SEQPACKET if len(pieces) > 1 else socket.SOCK_STREAM
    reader, writer = socket.socketpair(type=kind)
    with reader, writer:
        for piece in pieces:
            writer.sendall(piece)
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


@pytest.mark.parametrize("method", ["POST", "HEAD"])
def test_odd_heads_are_read_as_by_http_client(method: str) -> None:
    for status_line, line in product(STATUS_LINES, ODD_LINES):
        data = b"\r\n".join([status_line, line, b"X: 1", b"", b"body"])
        assert read_head(LimitedResponse, method, data) == read_head(HTTPResponse, method, data), data


@given(
    st.sampled_from(STATUS_LINES),
    st.lists(LINES | st.sampled_from(ODD_LINES), max_size=5),
    st.sampled_from(["POST", "HEAD"]),
    st.binary(max_size=10),
)
def test_heads_are_read_as_by_http_client(status_line: bytes, lines: list[bytes], method: str, body: bytes) -> None:
    data = b"\r\n".join([status_line, *lines, b"", body])
    assert read_head(LimitedResponse, method, data) == read_head(HTTPResponse, method, data)


@pytest.mark.parametrize("count", [89, 90, 91, 98, 99])
def test_many_headers_are_read_as_by_http_client(count: int) -> None:
    data = b"HTTP/1.1 200 OK\r\n" + b"X: 1\r\n" * count + b"\r\nbody"
    assert read_head(LimitedResponse, "POST", data) == read_head(HTTPResponse, "POST", data)


def test_heads_may_arrive_in_two_pieces() -> None:
    data = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nX:\r\n\r\nbodyHTTP/1.1 200 OK\r\n\r\n"
    expected = read_head(HTTPResponse, "POST", data)
    for position in range(1, len(data)):
        assert read_head(LimitedResponse, "POST", data[:position], data[position:]) == expected


def test_a_long_body_may_arrive_with_its_head() -> None:
    data = b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 2 * MAX_HEADER_BYTES
    assert read_head(LimitedResponse, "POST", data) == read_head(HTTPResponse, "POST", data)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_requests() -> None:
    def handle(connection: socket.socket) -> None:
        while connection.recv(65_536):
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    with RawServer(handle) as server:
        transport = Transport(f"http://{server.address}/v1", 10)
        sizes = []
        tracemalloc.start()
        for number in range(800):
            signature = f"{number} {'x' * 2_000}"
            request = HttpRequest(f"/jobs/{number}-{'x' * 1_000}", None, {"Authorization": signature}, "GET")
            with transport.send(request) as response:
                response.read_text()
            sizes.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
    assert sizes[-1] - sizes[200] < 500_000


@pytest.mark.parametrize("size", [0, 10, MAX_PIECE_BYTES - 1, MAX_PIECE_BYTES, MAX_PIECE_BYTES + 1, 20_000_000])
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


@pytest.mark.slow
def test_an_upload_may_take_longer_than_the_timeout() -> None:
    import requests

    def read_slowly(connection: socket.socket) -> None:
        left = len(prepared.body or b"")
        left -= len(connection.recv(1_000).partition(b"\r\n\r\n")[2])
        while left > 0:
            time.sleep(0.05)
            left -= len(connection.recv(100_000))
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    with RawServer(read_slowly) as server:
        prepared = requests.Request("POST", f"http://{server.address}/", data=b"x" * 8_000_000).prepare()
        assert create_adapter(ConnectionCounter(None)).send(prepared, timeout=(2, 60)).status_code == 200
