"""The `requests` adapter for providers: read deadlines, a limit for headers, and the preconnection."""

from __future__ import annotations

import math
import re
import socket
import threading
import time
from functools import cache
from http.client import HTTPException, HTTPMessage, HTTPResponse, LineTooLong
from io import BufferedReader, RawIOBase
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from ssl import SSLContext

    import requests
    from requests.adapters import HTTPAdapter

    from ask.client.preconnect import Preconnection

MAX_HEADER_BYTES = 65_536
"""The limit for everything before a body: status line, headers, `100 Continue`, and a proxy's response to CONNECT."""
BUFFER_BYTES = 8_192
"""The size of a response's buffer. The default of Python 3.14, 128 KB, is more than headers may have."""
MAX_PIECE_BYTES = 65_536
"""A longer part of a request is sent by itself, in pieces of this size, instead of copying it."""
MAX_HEADER_LINES = 100
"""The limit for how many encoded headers are kept: those of requests that are signed are always different."""

SIMPLE_HEAD_PATTERN = re.compile(
    rb"HTTP/1\.1 200((?: [^\r\n]*)?"
    rb"(?:\r\n(?:(?!(?i:Content-Length:))[\w-]+:[^\r\n]*|(?i:Content-Length: )\d{1,18})){0,90})"
)
"""Matches the status line and headers of a response without folded lines or strange lengths."""


class HeadersTooLargeError(HTTPException):
    """The server sent more than `MAX_HEADER_BYTES` before the body."""


class LimitedReader(RawIOBase):
    """Reads a socket until a deadline.

    A socket's own timeout applies to each `recv`, so a server that keeps sending single bytes would never reach it.
    """

    _raw: Any = None  # `close` reads it, also if Ctrl-C interrupts `__init__`

    def __init__(self, sock: socket.socket) -> None:
        self._raw = sock.makefile("rb", buffering=0)
        self._sock = sock
        self.deadline = time.monotonic() + (sock.gettimeout() or math.inf)
        """When to stop waiting for bytes, on the monotonic clock."""
        self.bytes_left: float = MAX_HEADER_BYTES
        """How many more bytes may be read."""

    def makefile(self, _: str) -> BufferedReader:
        """Return a file with a buffer, as the method of a socket does."""
        return BufferedReader(self, BUFFER_BYTES)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        seconds = self.deadline - time.monotonic()
        if seconds <= 0:
            raise TimeoutError("timed out")
        self._sock.settimeout(None if seconds == math.inf else seconds)
        count: int | None = self._raw.readinto(buffer)
        self.bytes_left -= count or 0
        if self.bytes_left < 0:
            raise HeadersTooLargeError(f"more than {MAX_HEADER_BYTES:,} bytes of headers")
        return count

    def close(self) -> None:
        if self._raw:
            self._raw.close()
        super().close()


class LimitedResponse(HTTPResponse):
    """A response whose status line and headers must be complete within the socket's timeout."""

    fp: Any = None  # as above

    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        self.reader = LimitedReader(sock)
        super().__init__(self.reader, *args, **kwargs)  # type: ignore[arg-type] # it only calls `makefile`

    def begin(self) -> None:
        try:
            if not self._read_simple_head():
                super().begin()
            while 101 < self.status < 200:  # http.client skips only "100 Continue"
                self.headers = None  # type: ignore[assignment] # so that it reads the next response
                super().begin()
        except HTTPException as error:
            # http.client raises a plain HTTPException for too many header lines.
            if isinstance(error, LineTooLong) or type(error) is HTTPException:
                raise HeadersTooLargeError(str(error)) from error
            raise
        self.reader.bytes_left = math.inf

    def _read_simple_head(self) -> bool:
        """Read the head of an ordinary response if it arrives in one piece, faster than with `email.parser`.

        Returns False, without having read anything, for any other response.
        """
        head, end, _ = self.fp.peek().partition(b"\r\n\r\n")
        match = SIMPLE_HEAD_PATTERN.fullmatch(head)
        if not (match and end) or self._method == "HEAD":  # type: ignore[attr-defined]
            return False
        self.fp.read(len(head) + len(end))
        headers = self.headers = self.msg = HTTPMessage()
        self.code, self.status, self.version = 200, 200, 11
        reason, *lines = match[1].decode("iso-8859-1").split("\r\n")
        self.reason = reason.strip()
        for line in lines:
            name, _, value = line.partition(":")
            headers.set_raw(name, value.lstrip(" \t"))
        length, coding = headers.get("Content-Length", ""), headers.get("Transfer-Encoding", "")
        self.chunked, self.chunk_left = coding.lower() == "chunked", None
        self.length = int(length) if length and not self.chunked else None
        is_unlimited = self.length is None and not self.chunked
        self.will_close = is_unlimited or "close" in headers.get("Connection", "").lower()
        return True


def get_limited_response(response: requests.Response) -> LimitedResponse:
    """Return the `http.client` response inside a response that an adapter of this module has returned."""
    return cast("LimitedResponse", response.raw._original_response)


class ConnectionCounter:
    """Counts the connections that an adapter opens, and provides the first one if it was opened early.

    With a `socket_path`, all connections are to that Unix socket.

    If connections referred to the adapter itself, this cycle would keep them open until the garbage collector runs.
    """

    def __init__(self, preconnection: Preconnection | None, socket_path: str = "") -> None:
        self.preconnection = preconnection
        self.socket_path = socket_path
        self.count = 0
        self.header_lines: dict[tuple[str, tuple[str, ...]], bytes] = {}
        """The headers of earlier requests, encoded."""


def create_adapter(counter: ConnectionCounter) -> HTTPAdapter:
    """Return an adapter whose connections, including those through proxies, use limits."""
    from requests.adapters import HTTPAdapter

    adapter = cast("HTTPAdapter", _add_base(_LimitedAdapter, HTTPAdapter)())
    cast("_LimitedAdapter", adapter).counter = counter
    return adapter


@cache
def _add_base(mixin: type, base: type) -> type:
    """Return a class of both."""
    return type(mixin.__name__.lstrip("_"), (mixin, base), {})


class _LimitedAdapter:
    """A mixin for the adapter of `requests`, which is imported late.

    What depends only on the URL and the settings of this machine is kept for the next request to the same URL: it would
    take as long as the network does.
    """

    counter: ConnectionCounter
    _last_pool: tuple[str, bool | str, Any] = ("", True, None)
    _last_target: tuple[str, str] = ("", "")

    def get_connection_with_tls_context(self, request: Any, verify: bool | str, *args: Any, **kwargs: Any) -> Any:
        url, last_verify, pool = self._last_pool
        if (url, last_verify) != (request.url, verify):
            pool = super().get_connection_with_tls_context(request, verify, *args, **kwargs)  # type: ignore[misc]
            if not issubclass(pool.ConnectionCls, _LimitedConnection):
                pool.ConnectionCls = _add_base(_LimitedConnection, pool.ConnectionCls)
                pool.conn_kw["counter"] = self.counter
            self._last_pool = request.url, verify, pool
        return pool

    def request_url(self, request: Any, proxies: Any) -> str:
        url, target = self._last_target
        if url != request.url:
            target = super().request_url(request, proxies)  # type: ignore[misc]
            self._last_target = request.url, target
        return target

    def build_response(self, request: Any, raw: Any) -> requests.Response:
        """Return a response without cookies and charset, which nothing reads."""
        import requests

        response = requests.Response()
        response.status_code, response.reason, response.url = raw.status, raw.reason, request.url
        response.headers, response.raw = raw.headers, raw
        return response


class _LimitedConnection:
    """A mixin for the connection classes of urllib3, so that they read with limits."""

    response_class = LimitedResponse
    proxy_config: Any
    _unsent: list[bytes] | None = None
    """The parts of a request that is sent in one piece."""

    def __init__(self, *args: Any, counter: ConnectionCounter, **options: Any) -> None:
        super().__init__(*args, **options)
        self.counter = counter

    def connect(self) -> None:
        """Connect, also to the server behind a proxy, and shake hands."""
        from urllib3.exceptions import ConnectTimeoutError

        try:
            super().connect()  # type: ignore[misc]
        except TimeoutError as error:  # urllib3 would take it for one of the response, which has another limit
            raise ConnectTimeoutError(self, str(error)) from error

    def request(self, *args: Any, **options: Any) -> None:
        """Send a request in one piece, which takes half as long as headers and body in two."""
        self._unsent = []
        try:
            super().request(*args, **options)  # type: ignore[misc]
            self._send_pieces()
        finally:
            self._unsent = None

    def send(self, data: Any) -> None:
        if self._unsent is not None and isinstance(data, bytes) and len(data) <= MAX_PIECE_BYTES:
            self._unsent.append(data)
            return
        self._send_pieces()
        for start in range(0, len(data), MAX_PIECE_BYTES):  # a socket's timeout applies to all that it is given at once
            super().send(memoryview(data)[start : start + MAX_PIECE_BYTES])  # type: ignore[misc]

    def _send_pieces(self) -> None:
        if self._unsent:
            data, self._unsent = b"".join(self._unsent), None
            super().send(data)  # type: ignore[misc]

    def putheader(self, header: str, *values: str) -> None:
        """Add a header. It is checked and encoded only once."""
        lines = self.counter.header_lines
        line = lines.get((header, values))
        if line is not None:
            self._output(line)  # type: ignore[attr-defined]
            return
        super().putheader(header, *values)  # type: ignore[misc]
        if header != "Content-Length":
            if len(lines) >= MAX_HEADER_LINES:
                lines.clear()
            lines[header, values] = self._buffer[-1]  # type: ignore[attr-defined]

    def _new_conn(self) -> socket.socket:
        counter = self.counter
        counter.count += 1
        preconnection = counter.preconnection
        try:
            if counter.socket_path:
                return _connect_unix_socket(counter.socket_path, self)
            preconnected = _take_preconnection(preconnection, self) if preconnection else None
        except TimeoutError:  # for `connect`
            raise
        except OSError as error:
            from urllib3.exceptions import NewConnectionError

            raise NewConnectionError(self, str(error)) from error  # type: ignore[arg-type]
        if preconnection and preconnection.ssl_context:
            context: SSLContext | None = preconnection.ssl_context
        else:
            paths = getattr(self, "ca_certs", None), getattr(self, "ca_cert_dir", None)
            context = _load_certificates(*paths) if any(paths) else None
        if context:
            # The paths of certificates would be loaded again.
            self.ssl_context, self.ca_certs, self.ca_cert_dir = context, None, None
            if self.proxy_config:
                self.proxy_config = self.proxy_config._replace(ssl_context=context)
        return preconnected or super()._new_conn()  # type: ignore[misc]


def _load_certificates(file: str | None, folder: str | None) -> SSLContext | None:
    """Return the context with certificates that all connections share. Loading them takes 20 ms and 1 MB.

    Return None for certificates that cannot be used: `urllib3` will raise the error.
    """
    with _certificates_lock:
        if (file, folder) not in _ssl_contexts:
            from urllib3.util.ssl_ import ALPN_PROTOCOLS, create_urllib3_context

            context = create_urllib3_context()
            try:
                context.load_verify_locations(file, folder)
            except (OSError, ValueError):
                return None
            # urllib3 sets the protocols before each connection. OpenSSL would free them while another thread copies
            # them: https://docs.openssl.org/master/man7/openssl-threads/
            context.set_alpn_protocols(ALPN_PROTOCOLS)
            context.set_alpn_protocols = lambda alpn_protocols: None  # type: ignore[method-assign]
            _ssl_contexts[file, folder] = context
        return _ssl_contexts[file, folder]


_certificates_lock = threading.Lock()
_ssl_contexts: dict[tuple[str | None, str | None], SSLContext] = {}


def _connect_unix_socket(path: str, connection: Any) -> socket.socket:
    """Connect to a Unix socket."""
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.settimeout(connection.timeout)
        sock.connect(path)
    except OSError:
        sock.close()
        raise
    return sock


def _take_preconnection(preconnection: Preconnection, connection: Any) -> socket.socket | None:
    """Return the preconnected socket, configured as urllib3 does.

    Return None if it was already used or is closed.
    """
    sock = preconnection.take_socket()
    if sock is not None:
        sock.settimeout(connection.timeout)
        for option in connection.socket_options or ():
            sock.setsockopt(*option)
    return sock
