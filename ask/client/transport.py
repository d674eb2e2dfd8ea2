"""The HTTP transport: sends single requests and reads responses, with timeouts that measure progress of the answer.

It converts failures to errors; `ask.client.provider_client` decides whether to retry.
"""

from __future__ import annotations

import json
import re
import sys
import threading
import time
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from http.client import HTTPException, IncompleteRead
from typing import TYPE_CHECKING, Literal, cast
from urllib.parse import urljoin

from ask import __version__
from ask.client.certificates import CaBundle, find_ca_bundle
from ask.client.http_adapter import ConnectionCounter, create_adapter, get_limited_response
from ask.client.preconnect import CONNECT_SECONDS, Preconnection
from ask.client.stream_decoding import (
    MAX_BODY_BYTES,
    MAX_EVENT_BYTES,
    ChunkedDecoder,
    EventTooLargeError,
    NdjsonDecoder,
    SseDecoder,
    check_size,
    is_complete_event,
)
from ask.config.base_url import DEFAULT_VERSION_PATH, BaseUrl, split_base_url
from ask.errors import ConfigError, IncompleteStreamError, NetworkError, walk_causes
from ask.messages import EMPTY_MAPPING, RawEvent
from ask.plugin_api.types import HttpRequest

if TYPE_CHECKING:
    import requests
    from requests.structures import CaseInsensitiveDict
    from urllib3.response import GzipDecoder

_import_lock = threading.Lock()

REPEATED_REDIRECT_STATUSES = (307, 308)
"""Redirects after which the same request is sent again; others would turn it into a GET."""
GRACE_PERIOD_SECONDS = 2.0
"""Seconds to wait after the end marker for a usage chunk or the end of the body."""
FINAL_GRACE_PERIOD_SECONDS = 0.1
"""Seconds to wait when only the end of the body can follow. Without it the connection cannot be reused."""
DEFAULT_HEADERS = {
    "User-Agent": f"ask/{__version__}",
    "Accept-Encoding": "gzip",
    "Accept": "*/*",
    "Connection": "keep-alive",
}
"""The headers of each request, besides those of the provider."""
READ_BYTES = 65_536
MAX_ERROR_BYTES = 1_000_000
"""The approximate limit for how much of an error's body is read."""
MAX_STREAM_BYTES = 512_000_000
"""The limit for a stream; a million tokens in one event each take 400 MB."""
PROGRESS_BYTES = 1_000
"""How much of an incomplete event, or of a non-streamed body, must arrive within the timeout to count as progress."""
EXCERPT_BYTES = 1_000
"""How much of the start of a body is kept for an error message, in case it is not a stream."""
SSE_FIELDS = ("data:", "event:", "id:", "retry:", ":")
"""The possible starts of a line in a stream of server-sent events."""
UNSUPPORTED_ENCODINGS = ("br", "zstd", "deflate", "compress")
"""Only gzip is requested. Other values of Content-Encoding are ignored, since some servers put a charset there."""
GZIP_START = b"\x1f"
"""The first byte of gzip, with which no text begins."""
MAX_COMPRESSED_BYTES = 4_096
"""The limit for what is decompressed at a time: gzip can shrink zeros to a thousandth.

urllib3's own limit, of what is returned, loses the rest if it is reached where a part of the data ends.
"""
TEXT_PATTERN = re.compile(rb"[\t\r\n -~]{1,16}")
"""Matches the start of JSON, of a stream of events, and of a page."""
LEADING_BLANKS = b"\xef\xbb\xbf \t\r\n"
"""Bytes to ignore before a body: a byte order mark, spaces and line ends."""
UNKNOWN_PATH_TEXT = b'"error":"Unexpected endpoint or method.'
"""What LM Studio sends, with status 200: https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/618"""


def _merge_headers(
    headers: Mapping[str, str], user_headers: Mapping[str, str], list_headers: Sequence[str]
) -> dict[str, str]:
    """Replace headers of the provider by those of the user, or extend those that are lists; "" removes either."""
    user_names = set(map(str.lower, user_headers))
    lists = {name.lower(): f"{value}," for name, value in headers.items() if name in list_headers}
    kept = {name: value for name, value in headers.items() if name.lower() not in user_names}
    return kept | {name: lists.get(name.lower(), "") + value for name, value in user_headers.items() if value}


class Transport:
    """Sends requests to one base URL.

    Args:
        base_url: the provider's base URL.
        stall_timeout: the seconds to wait while the answer makes no progress.
        preconnection: the first connection, if it is already being opened.
        headers: the user's headers. Except for lists, they replace those of the provider.

    Raises:
        ConfigError: the base URL is not an http(s) URL.
    """

    def __init__(
        self,
        base_url: str,
        stall_timeout: float,
        preconnection: Preconnection | None = None,
        headers: Mapping[str, str] = EMPTY_MAPPING,
    ) -> None:
        import_requests()
        from requests.cookies import RequestsCookieJar

        parts = split_base_url(base_url)
        if parts is None:
            from ask.client.network_errors import make_invalid_base_url_error

            raise make_invalid_base_url_error(base_url)
        self.stall_timeout = stall_timeout
        self._headers = headers
        self._parts = parts
        self._connection_counter = ConnectionCounter(preconnection, parts.socket_path)
        self._last_request: tuple[str, Mapping[str, str], str | None, Mapping[str, str | bytes]] = ("", {}, None, {})
        """The URL and headers of the last request, and both as `requests` normalizes them."""
        # Not a `Session`: it would read the body of a redirect, of any length, even if it does not follow it, and
        # credentials in .netrc would replace the key.
        self._adapter = create_adapter(self._connection_counter)
        self._cookies = RequestsCookieJar()
        self._proxies: Mapping[str, str] = {}
        if preconnection is None and not parts.socket_path:  # with a preconnection there is no proxy
            from ask.client.network_errors import read_proxies

            self._proxies = read_proxies(base_url)

    @property
    def address(self) -> str:
        """The server's host and port, or the path of its Unix socket."""
        return self._parts.address

    def send(self, request: HttpRequest, stream_format: Literal["sse", "ndjson"] = "sse") -> HttpResponse:
        """Send a request and return the response as soon as its headers have arrived.

        If a base URL without a path has no such API, the request is sent again with the path /v1, which people leave
        out. One redirect within the server is followed.

        Raises:
            NetworkError: the connection failed, or the response did not begin in time or cannot be decoded.
            ConfigError: the base URL, a header or a setting of this machine is invalid.
        """
        parts = self._parts
        response = self._request(request, parts)
        may_lack_version = parts.may_lack_version(request.path)
        if response.status_code in REPEATED_REDIRECT_STATUSES and (path := _find_own_path(parts, response)):
            response.close()
            request, parts = request._replace(path=path), parts._replace(path="", query="")
            response = self._request(request, parts)
            may_lack_version = False
        received = HttpResponse(response, self, stream_format, partial(parts.format_shown_url, request.path))
        if not (may_lack_version and received.is_path_unknown()):
            return received
        versioned = parts._replace(path=DEFAULT_VERSION_PATH)
        second_response = self._request(request, versioned)
        retried = HttpResponse(second_response, self, stream_format, partial(versioned.format_shown_url, request.path))
        is_unknown = retried.is_path_unknown()
        if not is_unknown:
            self._parts = versioned
        if is_unknown and not _is_json(second_response):  # a 404 with JSON can be about the model
            second_response.close()
            return received
        response.close()
        return retried

    def _request(self, request: HttpRequest, parts: BaseUrl) -> requests.Response:
        """Send a request to a base URL; raise the errors of `send`."""
        import requests

        headers = {**DEFAULT_HEADERS, **request.headers}
        data = request.content or None
        if request.body is not None:
            headers["Content-Type"] = "application/json"
            data = json.dumps(request.body, separators=(",", ":")).encode()
        if self._headers:
            headers = _merge_headers(headers, self._headers, request.list_headers)
        bundle = find_ca_bundle() if parts.scheme == "https" else None
        try:
            response = self._send_with_reconnect(request, parts, data, headers, bundle)
        except requests.exceptions.InvalidHeader as error:
            if error.request is not None:  # a header of the response, such as two different lengths
                raise NetworkError(f"{self.address} sent an invalid header", "check the base URL") from error
            raise ConfigError("the key contains an invalid character", "set it again") from None
        except UnicodeError:
            raise ConfigError("the key or the base URL contains an invalid character", "set it again") from None
        except requests.exceptions.ConnectTimeout as error:
            message = f"cannot connect to {parts.format_shown_url(request.path)} within {CONNECT_SECONDS:g} s"
            raise NetworkError(message, retryable=True, offline=True) from error
        except requests.exceptions.Timeout as error:
            raise self.make_stall_error() from error
        except (OSError, ValueError) as error:
            from ask.client.network_errors import explain_connection_error

            raise explain_connection_error(error, parts, parts.format_shown_url(request.path), bundle) from error
        self._check_response(response)
        return response

    def _send_with_reconnect(
        self,
        request: HttpRequest,
        parts: BaseUrl,
        data: bytes | None,
        headers: Mapping[str, str],
        bundle: CaBundle | None,
    ) -> requests.Response:
        """Send a request, and resend it if the server had closed a reused connection."""
        import requests

        prepared = self._prepare(request.method, parts.join(request.path), headers)
        prepared.body = data
        if data is not None or request.method not in ("GET", "HEAD"):
            prepared.headers["Content-Length"] = str(len(data or b""))
        if self._cookies:
            # The user's headers may contain "cookie".
            prepared.headers = requests.structures.CaseInsensitiveDict(prepared.headers)
            prepared.prepare_cookies(self._cookies)
        send = partial(
            self._adapter.send,
            prepared,
            stream=True,
            proxies=self._proxies,
            timeout=(CONNECT_SECONDS, self.stall_timeout),
            verify=bundle.path if bundle else True,
        )
        connection_count = self._connection_counter.count
        try:
            response = send()
        except OSError as error:
            is_new_connection = self._connection_counter.count > connection_count
            if is_new_connection or not _is_closed_connection(error):
                raise
            response = send()
        if "Set-Cookie" in response.headers:
            requests.cookies.extract_cookies_to_jar(self._cookies, prepared, response.raw)  # type: ignore[no-untyped-call]
        return response

    def _prepare(self, method: str, url: str, headers: Mapping[str, str]) -> requests.PreparedRequest:
        """Return a request without a body. Its URL and headers are parsed and checked if they differ from the last."""
        import requests

        prepared = requests.PreparedRequest()
        prepared.prepare_method(method)
        last_request = self._last_request
        if last_request[:2] != (url, headers):
            prepared.prepare_url(url, None)
            prepared.prepare_headers(headers)
            if "Authorization" not in prepared.headers:
                prepared.prepare_auth(None)  # the user name and password in the URL
            prepared.headers.pop("Content-Length", None)
            last_request = self._last_request = url, headers, prepared.url, dict(prepared.headers)
        prepared.url, sent_headers = last_request[2:]
        prepared.headers = cast("CaseInsensitiveDict[str]", {**sent_headers})
        return prepared

    def _check_response(self, response: requests.Response) -> None:
        """Raise an error for a response from a proxy, or from a server that expects HTTPS."""
        if self._parts.scheme == "http" and response.status_code in (400, 407):
            from ask.client.network_errors import explain_http_error

            if error := explain_http_error(self._parts, response):
                raise error

    def make_stall_error(self) -> NetworkError:
        """Return the error for an answer that makes no progress."""
        message = f"no new data from {self.address} for {self.stall_timeout:g} s"
        return NetworkError(message, "raise the limit with --timeout")


class HttpResponse(AbstractContextManager["HttpResponse"]):
    """A response whose headers have arrived and whose body is read incrementally."""

    def __init__(
        self,
        response: requests.Response,
        transport: Transport,
        stream_format: Literal["sse", "ndjson"],
        format_shown_url: Callable[[], str],
    ) -> None:
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers
        self.format_shown_url = format_shown_url
        """Returns the URL of the request as messages show it."""
        self._response = response
        self._transport = transport
        self._stream_format = stream_format
        self._first_chunk = b""
        self._excerpt = b""
        self._limited_response = get_limited_response(response)
        self._chunked_decoder = ChunkedDecoder() if response.raw.chunked else None
        self._gzip_decoder: GzipDecoder | None = None
        self._compressed = b""
        """What was received and is not decompressed yet."""
        self._is_body_begun = False
        self._last_progress = time.monotonic()
        self._bytes_received = self._bytes_at_progress = 0
        self.end_marker_seen = False
        """Set by the caller once the answer is complete; then only `GRACE_PERIOD_SECONDS` is spent on waiting."""
        self.has_continued = False
        """Set by the caller if the answer went on after it seemed complete, as it may again."""
        self.done_seen = False
        """Also set by the caller once "[DONE]" arrived; then only `FINAL_GRACE_PERIOD_SECONDS` is spent on waiting."""

    def mark_progress(self) -> None:
        """Restart the timeout because the answer has grown."""
        self._bytes_at_progress = self._bytes_received
        if not self.done_seen and (self.has_continued or not self.end_marker_seen):
            self._last_progress = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self._response.close()

    @property
    def is_page(self) -> bool:
        """Whether it says that the body is a web page."""
        return self.headers.get("Content-Type", "").lower().startswith("text/html")

    def is_path_unknown(self) -> bool:
        """Check whether the server does not know the path of the request; some then answer with their web page.

        https://github.com/ChatGPTNextWeb/NextChat/issues/4761

        Raises:
            NetworkError: as for `iter_event_batches`.
        """
        if self.status == 200 and _is_json(self._response) and not self.is_stream():
            return UNKNOWN_PATH_TEXT in self._first_chunk
        return self.status == 404 or (self.status == 200 and self.is_page and not self.is_stream())

    def is_stream(self, requested: bool = True) -> bool:
        """Check by the first byte whether the body is a stream of events.

        Content types are unreliable: some services label streams as JSON, and others JSON as a stream. NDJSON begins
        like JSON that is not indented, so it depends on whether a stream was `requested`.

        Raises:
            NetworkError: as for `iter_event_batches`.
        """
        if self._stream_format == "ndjson" and not requested:
            return False
        while not self._first_chunk:
            chunk = self._read_chunk()
            if not chunk:
                return True
            self._first_chunk = chunk.lstrip(LEADING_BLANKS)
        is_ndjson = self._stream_format == "ndjson"
        is_document = self._first_chunk.startswith((b"{\n", b"{\r") if is_ndjson else (b"{", b"[", b"<"))
        if is_document:
            self.mark_progress()
        return not is_document

    def iter_event_batches(self) -> Iterator[list[RawEvent]]:
        """Yield the events of a stream as they arrive, in lists received together.

        The caller must call `mark_progress` when they have added to the answer.

        Raises:
            NetworkError: the answer made no progress for too long, or is too large.
            IncompleteStreamError: the connection broke.
        """
        decoder = SseDecoder() if self._stream_format == "sse" else NdjsonDecoder()
        chunk, self._first_chunk = self._first_chunk or self._read_chunk(), b""
        counted_bytes = 0
        while chunk:
            if len(self._excerpt) < EXCERPT_BYTES:
                self._excerpt = (self._excerpt + chunk[:EXCERPT_BYTES]).lstrip(LEADING_BLANKS)[:EXCERPT_BYTES]
            try:
                events = decoder.feed(chunk)
            except EventTooLargeError:
                if self.end_marker_seen:
                    return
                raise self._make_too_large_error() from None
            if events:
                counted_bytes = 0
                yield events
            if decoder.pending_bytes - counted_bytes >= PROGRESS_BYTES:
                counted_bytes = decoder.pending_bytes
                if not self.end_marker_seen and self._bytes_received - self._bytes_at_progress <= MAX_EVENT_BYTES:
                    self._last_progress = time.monotonic()
            try:
                chunk = self._read_chunk()
            except IncompleteStreamError:
                yield decoder.flush()  # the last line may be the end of the answer
                if self.end_marker_seen:
                    return
                raise
        yield decoder.flush()

    @property
    def excerpt(self) -> str:
        """The start of a stream."""
        return self._excerpt.decode("utf-8", "replace")

    def read_unexpected_text(self) -> str:
        """Return the start of a body that turned out not to be a stream, else ""."""
        text = self.excerpt.strip()
        if self._stream_format == "ndjson":
            return "" if text.startswith("{") else text
        lines = [line.strip() for line in text.splitlines()]
        is_partial_field = any(field.startswith(line) for line in lines[-1:] for field in SSE_FIELDS)
        return "" if is_partial_field or any(line.startswith(SSE_FIELDS) for line in lines) else text

    def read_words(self) -> str:
        """Return the data in the start of a stream that are not JSON, such as keep-alives or a proxy's message."""
        lines = [line.strip() for line in self.excerpt.splitlines()]
        words = [line.removeprefix("data:").strip() for line in lines if line.startswith("data:")]
        return " ".join(dict.fromkeys(word for word in words if word and not word.startswith("{")))

    def read_text(self, max_bytes: int = MAX_BODY_BYTES) -> str:
        """Read the body of a response that is not a stream.

        A body of more than `max_bytes` is an error. Only the first part of a long error is read, and nothing of a
        redirect.

        Raises:
            NetworkError: as for `iter_event_batches`.
        """
        if 300 <= self.status < 400:
            return ""
        body = bytearray(self._first_chunk)
        counted_bytes = len(body)
        try:
            while (self.status < 300 or len(body) < MAX_ERROR_BYTES) and (chunk := self._read_chunk()):
                body += chunk if body else chunk.lstrip(LEADING_BLANKS)
                if len(body) > max_bytes:
                    break
                if len(body) - counted_bytes >= PROGRESS_BYTES:
                    counted_bytes = len(body)
                    self.mark_progress()
            check_size(body, max_bytes)
        except EventTooLargeError:
            raise self._make_too_large_error() from None
        except NetworkError:  # an incomplete error body is still worth showing
            if self.status < 400 and not is_complete_event(body):
                raise
        return body.decode("utf-8-sig", "replace")

    def _make_too_large_error(self) -> NetworkError:
        return NetworkError(f"{self._transport.address} sent an implausibly long response", "check the base URL")

    def _read_chunk(self) -> bytes:
        """Return the next decoded bytes as soon as any arrive; b"" at the end.

        Raises:
            NetworkError: the answer made no progress for too long, or is too large.
            IncompleteStreamError: the connection broke, or the compressed data is damaged.
        """
        from urllib3.exceptions import HTTPError, ReadTimeoutError

        seconds = GRACE_PERIOD_SECONDS if self.end_marker_seen else self._transport.stall_timeout
        if self.done_seen:
            seconds = FINAL_GRACE_PERIOD_SECONDS
        elif self.has_continued:
            seconds = self._transport.stall_timeout
        deadline = self._last_progress + seconds
        try:
            if time.monotonic() > deadline:  # a small compressed body may take long to decode
                raise TimeoutError
            self._limited_response.reader.deadline = deadline
            data = self._read_decoded()
        except (HTTPError, HTTPException, OSError, zlib.error) as error:
            if self.end_marker_seen:
                return b""
            if isinstance(error, ReadTimeoutError | TimeoutError):
                raise self._transport.make_stall_error() from error
            raise IncompleteStreamError(
                f"{self._transport.address} closed the connection early", "ask again", retryable=True
            ) from error
        self._bytes_received += len(data)
        if self._bytes_received > MAX_STREAM_BYTES:
            if self.end_marker_seen:
                return b""
            raise self._make_too_large_error()
        return data

    def _read_decoded(self) -> bytes:
        """Return the next bytes of the body, decompressed; b"" at the end.

        Raises:
            HTTPError, HTTPException, OSError, zlib.error: the connection broke, or the compressed data is damaged.
            NetworkError: it is compressed in another way than gzip.
        """
        while True:
            data = self._compressed or self._read_raw()
            if not self._is_body_begun and data.startswith(GZIP_START):
                from urllib3.response import GzipDecoder

                self._gzip_decoder = self._gzip_decoder or GzipDecoder()
            output = data
            if self._gzip_decoder:
                output = self._gzip_decoder.decompress(data[:MAX_COMPRESSED_BYTES])
                self._compressed = data[MAX_COMPRESSED_BYTES:]
            if output or not data:
                if not self._is_body_begun:
                    self._is_body_begun = True
                    self._check_encoding(output)
                return output

    def _check_encoding(self, start: bytes) -> None:
        """Raise an error for a body, beginning with `start`, that is compressed in a way that was not requested.

        A gateway that decompresses a body may pass on the header: https://github.com/agentgateway/agentgateway/issues/3040
        """
        encoding = self.headers.get("Content-Encoding", "").strip().lower()
        is_expected = "," not in encoding and encoding not in UNSUPPORTED_ENCODINGS
        if not is_expected and start and not TEXT_PATTERN.fullmatch(start[:16]):
            message = f"{self._transport.address} sent a response compressed with {encoding}, which was not requested"
            raise NetworkError(message, "check the base URL and the proxy")

    def _read_raw(self) -> bytes:
        """Return the next bytes of the body as they were sent; b"" at the end.

        Raises:
            HTTPError, HTTPException, OSError: the connection broke.
        """
        if self._chunked_decoder is None:
            # iter_content(None) would return a body without chunked encoding only at its end.
            return bytes(self._response.raw.read1(READ_BYTES, decode_content=False))
        # urllib3 returns one chunk at a time: 20,000 events take 0.25 s longer.
        body = b""
        while not body and not self._chunked_decoder.complete:
            received = self._limited_response.fp.read1(READ_BYTES)
            if not received and self._chunked_decoder.last_chunk_seen:
                return b""
            if not received:
                raise IncompleteRead(b"")
            body = self._chunked_decoder.feed(received)
        if self._chunked_decoder.complete:
            self._limited_response.close()
            self._response.raw.release_conn()
        return body


def _find_own_path(parts: BaseUrl, response: requests.Response) -> str:
    """Return the path and query that a redirect leads to; "" if it leads to another server, which must not get the key.

    https://github.com/songquanpeng/one-api/issues/533
    """
    try:
        url = urljoin(response.url or "", response.headers.get("Location", ""))
    except ValueError:  # such as http://[::1
        return ""
    return url.removeprefix(parts.origin) if url.startswith(f"{parts.origin}/") else ""


def _is_json(response: requests.Response) -> bool:
    """Check whether a response says that it is JSON."""
    return "json" in response.headers.get("Content-Type", "").lower()


def _is_closed_connection(error: BaseException) -> bool:
    """Check whether the server closed an established connection."""
    from ssl import SSLEOFError, SSLZeroReturnError

    closed = (ConnectionResetError, BrokenPipeError, ConnectionAbortedError, SSLEOFError, SSLZeroReturnError)
    return any(isinstance(cause, closed) for cause in walk_causes(error))


def import_requests() -> None:
    """Import `requests`, if nothing has yet, without a library that guesses the charset of a response.

    Importing one takes a fifteenth of the time until a request is sent. Without it, `requests` reads a text of unknown
    charset as UTF-8: https://requests.readthedocs.io/en/latest/api/#requests.Response.apparent_encoding
    """
    with _import_lock:  # the loaded modules and the filters of warnings belong to the whole process
        if "requests" in sys.modules:
            return
        libraries = {"chardet", "charset_normalizer"} - sys.modules.keys()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # `requests` warns that it has no such library
            sys.modules.update(dict.fromkeys(libraries))  # type: ignore[arg-type] # None makes importing it fail
            try:
                import requests  # noqa: F401
            finally:
                for name in libraries:
                    del sys.modules[name]
