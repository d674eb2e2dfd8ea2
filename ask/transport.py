"""HTTP: one session a run, time-outs that know progress from noise, and streams split into events.

It sends one request and classifies what goes wrong; whether to try again is `ask.exchange`'s to decide.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from http.client import HTTPException, HTTPResponse, IncompleteRead
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import SplitResult, urlsplit

from ask.certificates import CaBundle, explain_certificate_error, find_ca_bundle
from ask.chunks import BadChunk, Chunks
from ask.dialing import CONNECT_SECONDS, Dial, dialled_adapter
from ask.errors import ConfigError, NetworkError, StreamCut, walk_causes
from ask.framing import JsonLines, ServerSentEvents
from ask.provider import HttpRequest, ServerEvent
from ask.version import VERSION

if TYPE_CHECKING:
    import requests
    from requests.adapters import BaseAdapter

GRACE_SECONDS = 2.0
"""How long to wait for what may follow the end of an answer: a usage chunk, the end of the connection."""
LAST_SECONDS = 0.1
"""How long to wait once nothing can follow but the end of the body, without which the connection is not used again."""
READ_BYTES = 65_536
ERROR_BYTES = 1_000_000
"""How much of an error's body is read at most, about."""
NO_CONNECTION = {
    "Connection refused": "connection refused",
    "Name or service not known": "unknown host",
    "nodename nor servname": "unknown host",
    "Temporary failure in name resolution": "the name cannot be looked up",
    "No address associated": "unknown host",
    "Network is unreachable": "network unreachable",
    "No route to host": "no route to host",
}
"""What operating systems say of it, and what we say."""
START_BYTES = 1_000
"""How much is kept of a body's beginning, to be told where it turns out to be no stream."""
STREAM_FIELDS = ("data:", "event:", "id:", "retry:", ":")
"""How a line of a stream of server-sent events begins."""
BLANK = b"\xef\xbb\xbf \t\r\n"
"""What may stand before a body: a byte order mark, spaces and line ends."""


class Transport:
    """Sends requests to one base URL.

    Args:
        base_url: where the provider lives.
        stall_seconds: how long to wait while nothing of an answer comes.
        adapter: answers in place of the network, for an embedded provider.
        dialled: the first connection, where it is being opened already.

    Raises:
        ConfigError: the base URL is no http(s) address.
    """

    def __init__(
        self, base_url: str, stall_seconds: float, adapter: BaseAdapter | None = None, dialled: Dial | None = None
    ) -> None:
        import requests

        parts = address(base_url)
        self.base_url = base_url.rstrip("/")
        self.place = parts.netloc.rpartition("@")[2]
        self.stall_seconds = stall_seconds
        self._secure = parts.scheme == "https"
        self._session = requests.Session()
        # Or else requests reads the body of a redirect that it does not follow, however long that is.
        self._session.get_redirect_target = nowhere  # type: ignore[method-assign]
        if adapter is None and dialled is not None:
            adapter = dialled_adapter(dialled)
        if adapter is not None:
            self._session.mount(f"{parts.scheme}://", adapter)

    def send(self, request: HttpRequest, framing: Literal["sse", "ndjson"] = "sse") -> Reply:
        """Send a request; return as soon as the headers are there.

        Raises:
            NetworkError: no connection, or no answer in time.
            ConfigError: the address or a header cannot be sent at all.
        """
        import requests

        bundle = find_ca_bundle() if self._secure else None
        headers = {"User-Agent": f"ask/{VERSION}", **request.headers}
        data = None
        if request.body is not None:
            headers["Content-Type"] = "application/json"
            data = json.dumps(request.body, separators=(",", ":")).encode()
        try:
            response = self._session.request(
                request.method,
                self.base_url + request.path,
                data=data,
                headers=headers,
                stream=True,
                auth=leave_alone,
                allow_redirects=False,
                timeout=(CONNECT_SECONDS, self.stall_seconds),
                verify=bundle.path if bundle else True,
            )
        except requests.exceptions.InvalidHeader:
            raise ConfigError("the key holds a character that no key has", "set it again") from None
        except UnicodeError:
            raise ConfigError("the key or the base URL holds a character that cannot be sent", "set it again") from None
        except requests.exceptions.InvalidURL as fault:
            if isinstance(fault, requests.exceptions.InvalidProxyURL):
                raise self._explain(fault, bundle) from fault
            raise no_address(self.base_url) from fault
        except (requests.exceptions.RequestException, OSError) as fault:
            raise self._explain(fault, bundle) from fault
        except ValueError as fault:
            raise no_address(self.base_url) from fault
        return Reply(response, self, framing)

    def _explain(self, fault: Exception, bundle: CaBundle | None) -> NetworkError:
        """A failure before the first byte of an answer, in words.

        Raises:
            ConfigError: the certificates in `bundle` cannot be used.
        """
        import requests

        if isinstance(fault, requests.exceptions.ConnectTimeout):
            return NetworkError(f"no connection to {self.place} within {CONNECT_SECONDS:g} s", again=True)
        if isinstance(fault, requests.exceptions.Timeout):
            return self.stalled()
        if isinstance(fault, requests.exceptions.SSLError):
            reason, hint = explain_certificate_error(fault, bundle) or ("TLS failed", "check the base URL")
            return NetworkError(f"no secure connection to {self.place} ({reason})", hint)
        if isinstance(fault, requests.exceptions.ProxyError | requests.exceptions.InvalidProxyURL):
            advice = "check HTTPS_PROXY, HTTP_PROXY and NO_PROXY"
            return NetworkError(f"the proxy did not connect to {self.place}", advice, again=True)
        reason = connect_reason(fault)
        if reason:
            advice = "check the network and the base URL"
            return NetworkError(f"cannot connect to {self.place} ({reason})", advice, again=True)
        return NetworkError(f"{self.place} closed the connection without an answer", "try again later", again=True)

    def stalled(self) -> NetworkError:
        """The error for an answer that does not come."""
        return NetworkError(f"nothing came from {self.place} for {self.stall_seconds:g} s", "--timeout S waits longer")


class Reply:
    """One answer: its status and headers are there, its body is read as it comes.

    Args:
        response: a response of `requests`, its body unread.
        transport: what sent the request.
        framing: how the provider frames its streams.
    """

    def __init__(self, response: requests.Response, transport: Transport, framing: Literal["sse", "ndjson"]) -> None:
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers
        self._response = response
        self._transport = transport
        self._framing = framing
        self._head = b""
        self._start = b""
        coded = "Content-Encoding" in response.headers
        self._chunks = Chunks() if getattr(response.raw, "chunked", False) and not coded else None
        self._progress = time.monotonic()
        self.ending = False
        """Set once the end marker was seen: nothing more is owed, so little time is spent waiting for it."""
        self.over = False
        """Set, besides, once nothing more can follow."""

    def __enter__(self) -> Reply:
        return self

    def __exit__(self, *_: object) -> None:
        self._response.close()

    def is_stream(self) -> bool:
        """Whether the body is a stream of events, by its first byte: labels are wrong in both directions.

        Raises:
            NetworkError, StreamCut: as `batches`.
        """
        if self._framing == "ndjson":
            return True
        while not self._head.strip(BLANK):
            chunk = self._read()
            if not chunk:
                return True
            self._head += chunk
        whole = self._head.lstrip(BLANK).startswith((b"{", b"[", b"<"))
        if whole:
            self._progress = time.monotonic()
        return not whole

    def batches(self) -> Iterator[list[ServerEvent]]:
        """The events of a stream, as they come: those that came together in one list.

        Raises:
            NetworkError: nothing came for too long; comments do not count.
            StreamCut: the connection broke.
        """
        frames = ServerSentEvents() if self._framing == "sse" else JsonLines()
        chunk, self._head = self._head or self._read(), b""
        while chunk:
            if len(self._start) < START_BYTES:
                self._start = (self._start + chunk).lstrip(BLANK)[:START_BYTES]
            yield frames.feed(chunk)
            if frames.progress:
                self._progress = time.monotonic()
            chunk = self._read()
        yield frames.close()

    def stray(self) -> str:
        """How the body begins whose events were asked for, where it is nothing that has any; "" where it is."""
        text = self._start.decode("utf-8", "replace").strip()
        if self._framing == "ndjson":
            return "" if text.startswith("{") else text
        lines = [line.strip() for line in text.splitlines()]
        return "" if any(line.startswith(STREAM_FIELDS) for line in lines) or is_begun(lines[-1:]) else text

    def text(self) -> str:
        """The whole body; of an error, as much as can be told; of a redirect, nothing.

        Raises:
            NetworkError, StreamCut: as `batches`.
        """
        if 300 <= self.status < 400:
            return ""
        parts = [self._head]
        room = sys.maxsize if self.status == 200 else ERROR_BYTES
        while room > 0 and (chunk := self._read()):
            parts.append(chunk)
            room -= len(chunk)
            if chunk.strip():
                self._progress = time.monotonic()
        return b"".join(parts).decode("utf-8-sig", "replace")

    def _read(self) -> bytes:
        """The next bytes, as soon as any are there; b"" at the end."""
        from urllib3.exceptions import HTTPError, ReadTimeoutError

        grace = LAST_SECONDS if self.over else GRACE_SECONDS
        patience = grace if self.ending else self._transport.stall_seconds
        allowed = self._progress + patience - time.monotonic()
        if allowed <= 0:
            if self.ending:
                return b""
            raise self._transport.stalled()
        # Not the connection's socket: that is gone where the answer lasts until the connection closes.
        original = getattr(self._response.raw, "_original_response", None)
        file = getattr(original, "fp", None)
        sock: Any = getattr(getattr(file, "raw", None), "_sock", None)
        if sock is not None:
            sock.settimeout(allowed)
        try:
            if self._chunks is not None and original is not None:
                return self._read_chunks(original, self._chunks)
            # iter_content(None) would hold a body without chunks back until its end.
            return bytes(self._response.raw.read1(READ_BYTES, decode_content=True))
        except (ReadTimeoutError, TimeoutError) as fault:
            if self.ending:
                return b""
            raise self._transport.stalled() from fault
        except (HTTPError, HTTPException, BadChunk, OSError) as fault:
            if self.ending:
                return b""
            raise StreamCut(f"{self._transport.place} broke the connection", "ask again", again=True) from fault

    def _read_chunks(self, original: HTTPResponse, chunks: Chunks) -> bytes:
        """What has come of a body in chunks; b"" at its end, after which the connection can be used again.

        Raises:
            HTTPException, OSError: it broke off.
        """
        body = b""
        while not body and not chunks.ended:
            came = original.fp.read1(READ_BYTES)
            if not came and chunks.last:
                return b""
            if not came:
                raise IncompleteRead(b"")
            body = chunks.feed(came)
        if chunks.ended:
            original.close()
            self._response.raw.release_conn()
        return body


def address(base_url: str) -> SplitResult:
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
    raise no_address(base_url)


def is_begun(last: list[str]) -> bool:
    """Whether the last line of what came may go on as one of a stream does."""
    return any(field.startswith(line) for line in last for field in STREAM_FIELDS)


def no_address(base_url: str) -> ConfigError:
    """The error for a base URL that nothing can be sent to; a password in it is not shown."""
    import re

    shown = re.sub(r"^([\w+.-]*://)?.*@", r"\1***@", base_url, flags=re.DOTALL)  # a name and a password stand there
    return ConfigError(f"{shown!r} is not an http(s) address", "correct the base URL")


def nowhere(resp: requests.Response) -> None:
    """Stands in for where a redirect leads: it is not followed, as keys would travel along."""


def leave_alone(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Stands in for authentication, so that requests does not put credentials from .netrc over the key."""
    return request


def connect_reason(fault: BaseException) -> str:
    """Why there is no connection, in a few words; "" where that is unknown."""
    text = " ".join(str(cause) for cause in walk_causes(fault))
    return next((words for sign, words in NO_CONNECTION.items() if sign in text), "")
