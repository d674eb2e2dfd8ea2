"""HTTP: one session a run, time-outs that know progress from noise, and streams split into events.

It sends one request and classifies what goes wrong; whether to try again is `ask.client.provider_client`'s to decide.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Iterator, Mapping
from http.client import HTTPException, IncompleteRead
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import SplitResult, urlsplit

from ask.client.certificates import CaBundle, find_ca_bundle
from ask.client.decoding import ChunkedDecoder, GzipDecoder, InvalidChunkError
from ask.client.http_adapter import ConnectionCounter, LimitedResponse, create_adapter
from ask.client.network_errors import (
    explain_connection_error,
    find_proxy,
    is_tls_server,
    make_https_required_error,
    make_invalid_base_url_error,
    make_proxy_credentials_error,
)
from ask.client.preconnect import CONNECT_SECONDS, Preconnection
from ask.client.stream_format import MAX_EVENT_BYTES, EventTooLargeError, NdjsonDecoder, SseDecoder, check_size
from ask.errors import ConfigError, IncompleteStreamError, NetworkError, walk_causes
from ask.plugin_api.provider import HttpRequest, ServerEvent
from ask.version import VERSION

if TYPE_CHECKING:
    import requests
    from requests.adapters import BaseAdapter

GRACE_PERIOD = 2.0
"""How long to wait for what may follow the end of an answer: a usage chunk, the end of the connection."""
FINAL_GRACE_PERIOD = 0.1
"""How long to wait once nothing can follow but the end of the body, without which the connection is not used again."""
READ_BYTES = 65_536
MAX_ERROR_BYTES = 1_000_000
"""How much of an error's body is read at most, about."""
MAX_STREAM_BYTES = 512_000_000
"""Limit for a whole stream: that of a million tokens, sent one by one, has 400 MB."""
PROGRESS_BYTES = 1_000
"""How much of one event, or of a body that is no stream, must come within the time limit to count as growth."""
EXCERPT_BYTES = 1_000
"""How much is kept of a body's beginning, to be told where it turns out to be no stream."""
SSE_FIELDS = ("data:", "event:", "id:", "retry:", ":")
"""How a line of a stream of server-sent events begins."""
LEADING_BLANKS = b"\xef\xbb\xbf \t\r\n"
"""What may stand before a body: a byte order mark, spaces and line ends."""


class Transport:
    """Sends requests to one base URL.

    Args:
        base_url: where the provider lives.
        stall_timeout: how long to wait while nothing of an answer comes.
        adapter: answers in place of the network, for an embedded provider.
        dialled: the first connection, where it is being opened already.

    Raises:
        ConfigError: the base URL is no http(s) address.
    """

    def __init__(
        self,
        base_url: str,
        stall_timeout: float,
        adapter: BaseAdapter | None = None,
        preconnection: Preconnection | None = None,
    ) -> None:
        import requests

        parts = parse_base_url(base_url)
        self.base_url = base_url.rstrip("/")
        self.address = parts.netloc.rpartition("@")[2]
        self.stall_timeout = stall_timeout
        self._scheme = parts.scheme
        self._connection_counter = ConnectionCounter(preconnection)
        self._session = requests.Session()
        # Or else requests reads the body of a redirect that it does not follow, however long that is.
        self._session.get_redirect_target = ignore_redirect  # type: ignore[method-assign]
        self._session.mount(f"{parts.scheme}://", adapter or create_adapter(self._connection_counter))

    def send(self, request: HttpRequest, stream_format: Literal["sse", "ndjson"] = "sse") -> HttpResponse:
        """Send a request; return as soon as the headers are there.

        Raises:
            NetworkError: no connection, or no answer in time.
            ConfigError: the address or a header cannot be sent at all.
        """
        import requests

        headers = {"User-Agent": f"ask/{VERSION}", "Accept-Encoding": "gzip", **request.headers}
        data = None
        if request.body is not None:
            headers["Content-Type"] = "application/json"
            data = json.dumps(request.body, separators=(",", ":")).encode()
        bundle = find_ca_bundle() if self._scheme == "https" else None
        try:
            response = self._send_with_reconnect(request, data, headers, bundle)
        except requests.exceptions.InvalidHeader:
            raise ConfigError("the key holds a character that no key has", "set it again") from None
        except UnicodeError:
            raise ConfigError("the key or the base URL holds a character that cannot be sent", "set it again") from None
        except requests.exceptions.ConnectTimeout as error:
            message = f"no connection to {self.address} within {CONNECT_SECONDS:g} s"
            raise NetworkError(message, retryable=True, offline=True) from error
        except requests.exceptions.Timeout as error:
            raise self.make_stall_error() from error
        except (requests.exceptions.RequestException, OSError) as error:
            raise explain_connection_error(error, self.base_url, bundle) from error
        except ValueError as error:
            raise make_invalid_base_url_error(self.base_url) from error
        self._check_status(response)
        return HttpResponse(response, self, stream_format)

    def _send_with_reconnect(
        self, request: HttpRequest, data: bytes | None, headers: Mapping[str, str], bundle: CaBundle | None
    ) -> requests.Response:
        """Send a request, once more if the server had closed the kept connection by the time it arrived."""
        for kept in (True, False):
            made = self._connection_counter.count
            try:
                return self._session.request(
                    request.method,
                    self.base_url + request.path,
                    data=data,
                    headers=headers,
                    stream=True,
                    auth=skip_authentication,
                    allow_redirects=False,
                    timeout=(CONNECT_SECONDS, self.stall_timeout),
                    verify=bundle.path if bundle else True,
                )
            except OSError as error:
                if not kept or self._connection_counter.count > made or not is_closed_connection(error):
                    raise
        raise AssertionError("unreachable")

    def _check_status(self, response: requests.Response) -> None:
        """Raise the error for what a proxy answered, or a server that expects HTTPS."""
        if self._scheme != "http" or response.status_code not in (400, 407):
            return
        proxy = find_proxy(self.base_url)
        if response.status_code == 407 and proxy:
            raise make_proxy_credentials_error(proxy)
        is_json = "json" in response.headers.get("Content-Type", "")
        if response.status_code == 400 and not proxy and not is_json and is_tls_server(self.base_url):
            raise make_https_required_error(self.base_url)

    def make_stall_error(self) -> NetworkError:
        """The error for an answer that does not come."""
        return NetworkError(
            f"the answer from {self.address} made no progress for {self.stall_timeout:g} s",
            "--timeout raises the limit",
        )


class HttpResponse:
    """One answer: its status and headers are there, its body is read as it comes.

    Args:
        response: a response of `requests`, its body unread.
        transport: what sent the request.
        framing: how the provider frames its streams.
    """

    def __init__(
        self, response: requests.Response, transport: Transport, stream_format: Literal["sse", "ndjson"]
    ) -> None:
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers
        self._response = response
        self._transport = transport
        self._stream_format = stream_format
        self._first_chunk = b""
        self._excerpt = b""
        self._raw_response: Any = getattr(response.raw, "_original_response", None)
        self._chunked_decoder = (
            ChunkedDecoder() if self._raw_response is not None and getattr(response.raw, "chunked", False) else None
        )
        is_gzip = response.headers.get("Content-Encoding", "").strip().lower() in ("gzip", "x-gzip")
        self._gzip_decoder = GzipDecoder() if is_gzip else None
        self._last_progress = time.monotonic()
        self._bytes_received = self._bytes_at_progress = 0
        self.end_marker_seen = False
        """Set once the end marker was seen: nothing more is owed, so little time is spent waiting for it."""
        self.complete = False
        """Set, besides, once nothing more can follow."""

    def mark_progress(self) -> None:
        """Note that the answer has grown: the time limit begins anew."""
        self._bytes_at_progress = self._bytes_received
        self._extend_deadline()

    def _extend_deadline(self) -> None:
        """Begin the time limit anew because more of one event came, unless that is more than an event may have."""
        if not self.end_marker_seen and self._bytes_received - self._bytes_at_progress <= MAX_EVENT_BYTES:
            self._last_progress = time.monotonic()

    def __enter__(self) -> HttpResponse:
        return self

    def __exit__(self, *_: object) -> None:
        self._response.close()

    def is_stream(self) -> bool:
        """Whether the body is a stream of events, by its first byte: labels are wrong in both directions.

        Raises:
            NetworkError, StreamCut: as `iter_event_batches`.
        """
        if self._stream_format == "ndjson":
            return True
        while not self._first_chunk:
            chunk = self._read_chunk()
            if not chunk:
                return True
            self._first_chunk = chunk.lstrip(LEADING_BLANKS)
        whole = self._first_chunk.startswith((b"{", b"[", b"<"))
        if whole:
            self.mark_progress()
        return not whole

    def iter_event_batches(self) -> Iterator[list[ServerEvent]]:
        """Yield the events of a stream as they come: those that came together in one list.

        Whoever reads them calls `mark_progress` when they made the answer grow.

        Raises:
            NetworkError: the answer did not grow for too long, or is too large.
            StreamCut: the connection broke.
        """
        frames = SseDecoder() if self._stream_format == "sse" else NdjsonDecoder()
        chunk, self._first_chunk = self._first_chunk or self._read_chunk(), b""
        seen = 0
        while chunk:
            if len(self._excerpt) < EXCERPT_BYTES:
                self._excerpt = (self._excerpt + chunk[:EXCERPT_BYTES]).lstrip(LEADING_BLANKS)[:EXCERPT_BYTES]
            try:
                events = frames.feed(chunk)
            except EventTooLargeError:
                if self.end_marker_seen:
                    return
                raise self._make_too_large_error() from None
            if events:
                seen = 0
                yield events
            if frames.pending_bytes - seen >= PROGRESS_BYTES:
                seen = frames.pending_bytes
                self._extend_deadline()
            chunk = self._read_chunk()
        yield frames.flush()

    def read_unexpected_text(self) -> str:
        """How the body begins whose events were asked for, where it is nothing that has any; "" where it is."""
        text = self._excerpt.decode("utf-8", "replace").strip()
        if self._stream_format == "ndjson":
            return "" if text.startswith("{") else text
        lines = [line.strip() for line in text.splitlines()]
        return "" if any(line.startswith(SSE_FIELDS) for line in lines) or is_partial_sse_field(lines[-1:]) else text

    def read_text(self) -> str:
        """The whole body; of an error, as much as can be told; of a redirect, nothing.

        Raises:
            NetworkError, StreamCut: as `iter_event_batches`.
        """
        if 300 <= self.status < 400:
            return ""
        body = bytearray(self._first_chunk)
        seen = len(body)
        try:
            while (self.status == 200 or len(body) < MAX_ERROR_BYTES) and (chunk := self._read_chunk()):
                body += chunk if body else chunk.lstrip(LEADING_BLANKS)
                if len(body) > MAX_EVENT_BYTES:
                    raise self._make_too_large_error()
                if len(body) - seen >= PROGRESS_BYTES:
                    seen = len(body)
                    self.mark_progress()
            check_size(body)
        except EventTooLargeError:
            raise self._make_too_large_error() from None
        except NetworkError:  # what a server says of an error counts, also where it breaks off
            if self.status < 400:
                raise
        return body.decode("utf-8-sig", "replace")

    def _make_too_large_error(self) -> NetworkError:
        """The error for an answer of a size that no answer has."""
        return NetworkError(f"{self._transport.address} sent more than an answer can be", "check the base URL")

    def _read_chunk(self) -> bytes:
        """Return the next decoded bytes, as soon as there are any; b"" at the end.

        Raises:
            NetworkError: the answer did not grow for too long, or is too large.
            StreamCut: the connection broke, or the compressed data is damaged.
        """
        from urllib3.exceptions import HTTPError, ReadTimeoutError

        grace = FINAL_GRACE_PERIOD if self.complete else GRACE_PERIOD
        deadline = self._last_progress + (grace if self.end_marker_seen else self._transport.stall_timeout)
        try:
            data = self._read_decoded(deadline)
        except (ReadTimeoutError, TimeoutError) as error:
            if self.end_marker_seen:
                return b""
            raise self._transport.make_stall_error() from error
        except (HTTPError, HTTPException, InvalidChunkError, zlib.error, OSError) as error:
            if self.end_marker_seen:
                return b""
            raise IncompleteStreamError(
                f"{self._transport.address} broke the connection", "ask again", retryable=True
            ) from error
        self._bytes_received += len(data)
        if self._bytes_received > MAX_STREAM_BYTES:
            if self.end_marker_seen:
                return b""
            raise self._make_too_large_error()
        return data

    def _read_decoded(self, deadline: float) -> bytes:
        """Return the next bytes of the body, decompressed; b"" at its end.

        Raises:
            TimeoutError: the deadline has passed.
            zlib.error: the compressed data is damaged.
            HTTPError, HTTPException, BadChunk, OSError: the connection broke.
        """
        while time.monotonic() < deadline:
            if self._gzip_decoder and self._gzip_decoder.has_pending_output:
                data = self._gzip_decoder.decode(b"", READ_BYTES)
            else:
                received = self._read_raw(deadline)
                data = self._gzip_decoder.decode(received, READ_BYTES) if self._gzip_decoder and received else received
                if not received:
                    return b""
            if data:
                return data
        raise TimeoutError

    def _read_raw(self, deadline: float) -> bytes:
        """Return the next bytes of the body, as they were sent; b"" at its end.

        Raises:
            HTTPError, HTTPException, BadChunk, OSError: the connection broke, or the deadline has passed.
        """
        if isinstance(self._raw_response, LimitedResponse):
            self._raw_response.reader.deadline = deadline
        if self._chunked_decoder is None:
            # iter_content(None) would hold a body without chunks back until its end.
            return bytes(self._response.raw.read1(READ_BYTES, decode_content=False))
        body = b""
        while not body and not self._chunked_decoder.complete:
            came = self._raw_response.fp.read1(READ_BYTES)
            if not came and self._chunked_decoder.last_chunk_seen:
                return b""
            if not came:
                raise IncompleteRead(b"")
            body = self._chunked_decoder.feed(came)
        if self._chunked_decoder.complete:
            self._raw_response.close()
            self._response.raw.release_conn()
        return body


def parse_base_url(base_url: str) -> SplitResult:
    """The parts of a base URL.

    Raises:
        ConfigError: it is no http(s) address.
    """
    try:
        parts = urlsplit(base_url)
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return parts
    except ValueError:
        pass
    raise make_invalid_base_url_error(base_url)


def is_partial_sse_field(last_lines: list[str]) -> bool:
    """Whether the last line of what came may go on as one of a stream does."""
    return any(field.startswith(line) for line in last_lines for field in SSE_FIELDS)


def ignore_redirect(resp: requests.Response) -> None:
    """Stands in for where a redirect leads: it is not followed, as keys would travel along."""


def skip_authentication(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Stands in for authentication, so that requests does not put credentials from .netrc over the key."""
    return request


def is_closed_connection(error: BaseException) -> bool:
    """Whether a connection was closed by the other side, rather than refused or timed out."""
    from ssl import SSLEOFError, SSLZeroReturnError

    closed = (ConnectionResetError, BrokenPipeError, ConnectionAbortedError, SSLEOFError, SSLZeroReturnError)
    return any(isinstance(cause, closed) for cause in walk_causes(error))
