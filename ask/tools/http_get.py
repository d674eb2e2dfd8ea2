"""Gets what a URL names: a request for each redirect, and the body as far as it is wanted.

What may be reached is in `reach`, what becomes of a body in `web`.
"""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable, Mapping
from contextlib import closing
from http.client import HTTPException
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urljoin

from ask.client.certificates import CaBundle, explain_certificate_error, find_ca_bundle
from ask.client.decoding import GzipDecoder
from ask.client.network_errors import find_connect_reason
from ask.client.transport import skip_authentication
from ask.errors import ConfigError
from ask.messages import EMPTY_MAPPING
from ask.tools.base import ToolError
from ask.tools.network_policy import HttpTarget, NetworkPolicy, is_ip_address, parse_url
from ask.version import VERSION

if TYPE_CHECKING:
    from socket import socket

    import requests

MAX_BODY_SIZE = 10_000_000
"""Bytes of a body that are read at most."""
MAX_REDIRECTS = 5
_CONNECT_TIMEOUT = 10.0
_GRACE_PERIOD = 1.0
"""How long after its time the work may still say itself what has come."""
_READ_SIZE = 65_536
_MAX_HEADER_LENGTH = 200
"""Characters of what a server says of its answer that are believed to mean something."""
_DEFAULT_HEADERS = {
    "User-Agent": f"ask/{VERSION}",
    "Accept": "text/markdown, text/html;q=0.9, application/json;q=0.9, text/plain;q=0.9, */*;q=0.5",
    "Accept-Encoding": "gzip",
}
_REDIRECT_STATUSES = (301, 302, 303, 307, 308)


class FetchResponse(NamedTuple):
    """What came.

    Attributes:
        url: where it came from in the end.
        status_line: the status line's number and words.
        is_error: whether the status tells of an error.
        content_type: the header, "" where there is none.
        body: the bytes, decompressed.
        truncation_reason: why the body is not whole; "" where it is.
        content_length: the size that the server told, None where it did not.
    """

    url: str
    status_line: str
    is_error: bool
    content_type: str
    body: bytes
    truncation_reason: str
    content_length: int | None


def fetch_response(
    url: str,
    timeout: float,
    policy: NetworkPolicy | None,
    should_read_body: Callable[[str], bool] = lambda content_type: True,
    *,
    headers: Mapping[str, str] = EMPTY_MAPPING,
    data: bytes | None = None,
    max_redirects: int = MAX_REDIRECTS,
    body_timeout: float | None = None,
) -> FetchResponse:
    """Get what the URL names.

    Args:
        url: as the model wrote it.
        timeout: how long the whole may take, look-ups included.
        policy: what may be reached; None for everything, also by way of the proxies in the environment.
        should_read_body: tells by the content type whether to read the body.
        headers: what the request says beside the usual, or in its place.
        data: what is posted; None for nothing.
        max_redirects: how many are followed at most.
        body_timeout: after how many seconds of these the body is cut, where it has begun; None for all of them.

    Raises:
        ToolError: nothing came, or it may not be reached.
    """
    target = parse_url(url)
    getter = _Fetcher(timeout, policy, {**_DEFAULT_HEADERS, **headers}, data, max_redirects)
    getter.body_timeout = timeout if body_timeout is None else body_timeout
    pages: list[FetchResponse] = []
    faults: list[BaseException] = []

    def run_fetcher() -> None:
        try:
            pages.append(getter.follow_redirects(target, should_read_body))
        except BaseException as fault:  # noqa: BLE001 - raised again, in the thread that waits
            faults.append(fault)

    # A thread, as nothing else bounds a look-up, or headers that come byte by byte.
    thread = threading.Thread(target=run_fetcher, daemon=True)
    try:
        thread.start()
        thread.join(timeout + _GRACE_PERIOD)
    finally:
        getter.canceled = True
    if faults:
        raise faults[0]
    if not pages:
        raise getter.make_timeout_error(target)
    return pages[0]


class _Fetcher:
    """One call's way through redirects; `canceled` makes it stop."""

    def __init__(
        self,
        timeout: float,
        policy: NetworkPolicy | None,
        headers: Mapping[str, str],
        data: bytes | None,
        max_redirects: int,
    ) -> None:
        self.canceled = False
        self._headers = headers
        self._data = data
        self._max_redirects = max_redirects
        self._timeout = timeout
        self._start_time = time.monotonic()
        self.body_timeout = timeout
        self._policy = policy

    @property
    def is_expired(self) -> bool:
        """Whether the time is over, or nobody waits any more."""
        return self.canceled or time.monotonic() >= self._start_time + self._timeout

    @property
    def _is_body_expired(self) -> bool:
        return self.is_expired or time.monotonic() >= self._start_time + self.body_timeout

    def make_timeout_error(self, target: HttpTarget) -> ToolError:
        """The error for what does not come in time."""
        return ToolError(f"{target.url} had not come after {self._timeout:g} s")

    def follow_redirects(self, target: HttpTarget, should_read_body: Callable[[str], bool]) -> FetchResponse:
        import requests

        allowed = {target.host, *(self._policy.redirect_hosts if self._policy else ())}
        for _ in range(self._max_redirects + 1):
            with requests.Session() as session, closing(self._open_response(session, target)) as response:
                following = _find_redirect(target, response)
                if following is None:
                    return self._read_response(target, response, should_read_body)
            if self._policy and following.host not in allowed:
                raise ToolError(f"{target.url} redirects to another host; to go there, fetch {following.url}")
            target = following
        raise ToolError(f"stopped after {self._max_redirects} redirects, before {target.url}")

    def _open_response(self, session: requests.Session, target: HttpTarget) -> requests.Response:
        """The response, its body unread; a session of its own holds no cookies."""
        from requests.adapters import HTTPAdapter

        if self._policy is None:
            return self._send_request(session, target, target.host)
        session.trust_env = False
        refusals = []
        for address in self._policy.resolve_allowed(target):
            adapter = HTTPAdapter()
            if not is_ip_address(target.host):
                adapter.init_poolmanager(1, 1, server_hostname=target.host)  # whom the certificate must name
            session.mount(f"{target.scheme}://", adapter)
            try:
                return self._send_request(session, target, address)
            except ToolError as refusal:
                refusals.append(refusal)
        raise refusals[0]

    def _send_request(self, session: requests.Session, target: HttpTarget, address: str) -> requests.Response:
        import requests
        from urllib3.exceptions import HTTPError

        if self.is_expired:
            raise self.make_timeout_error(target)
        left = max(self._start_time + self._timeout - time.monotonic(), 0.01)
        bundle = None
        try:
            bundle = find_ca_bundle() if target.scheme == "https" else None
            url = target._replace(host=address).url
            headers = {**self._headers, "Host": target.authority}
            method = "GET" if self._data is None else "POST"
            wish = requests.Request(method, url, headers=headers, data=self._data, auth=skip_authentication)
            request = session.prepare_request(wish)
            around = session.merge_environment_settings(url, {}, None, None, None)
            # Not the session's own way to send: that reads the whole body of a redirect.
            return session.get_adapter(url).send(
                request,
                stream=True,
                timeout=(min(left, _CONNECT_TIMEOUT), left),
                verify=bundle.path if bundle else True,
                proxies=around["proxies"],
            )
        except (requests.RequestException, HTTPError, OSError, ValueError, ConfigError) as fault:
            if self.is_expired:
                raise self.make_timeout_error(target) from None
            raise ToolError(
                f"cannot connect to {target.authority}: {_explain_connection_error(fault, bundle)}"
            ) from None

    def _read_response(
        self, target: HttpTarget, response: requests.Response, should_read_body: Callable[[str], bool]
    ) -> FetchResponse:
        content_type = response.headers.get("Content-Type", "")
        body, note = self._read_body(target, response) if should_read_body(content_type) else (b"", "")
        length = response.headers.get("Content-Length", "")
        return FetchResponse(
            url=target.url,
            status_line=f"{response.status_code} {response.reason or ''}"[:_MAX_HEADER_LENGTH].rstrip(),
            is_error=response.status_code >= 400,
            content_type=content_type[:_MAX_HEADER_LENGTH],
            body=body,
            truncation_reason=note,
            content_length=int(length) if length.isascii() and length.isdecimal() and len(length) < 20 else None,
        )

    def _read_body(self, target: HttpTarget, response: requests.Response) -> tuple[bytes, str]:
        """The body as far as it came and may be kept, and why that is not all.

        It is decompressed here, as nothing else holds a bomb to a size.
        """
        from urllib3.exceptions import HTTPError

        encoding = response.headers.get("Content-Encoding", "").strip().lower()
        if encoding not in ("", "identity", "gzip", "x-gzip"):
            raise ToolError(f"{target.url} came compressed with {encoding}, which was not asked for")
        inflate = GzipDecoder() if encoding.endswith("gzip") else None
        body = bytearray()
        note = ""
        try:
            _set_body_timeout(response, self._start_time + self.body_timeout - time.monotonic())
            while not self._is_body_expired and (chunk := response.raw.read1(_READ_SIZE, decode_content=False)):
                room = MAX_BODY_SIZE + 1 - len(body)
                body += inflate.decode(chunk, room) if inflate else chunk[:room]
                if len(body) > MAX_BODY_SIZE:
                    return bytes(body[:MAX_BODY_SIZE]), f"cut at {MAX_BODY_SIZE:,} bytes"
            if inflate and not inflate.complete:
                note = "cut where its compression ends"
        except zlib.error:
            note = "cut where its compression breaks"
        except (HTTPError, HTTPException, OSError):
            note = "cut where the connection broke"
        if self._is_body_expired:
            if not body:
                raise self.make_timeout_error(target)
            note = f"cut after {self.body_timeout:g} s"
        return bytes(body), note


def _set_body_timeout(response: requests.Response, timeout: float) -> None:
    """Wait so long for the next bytes of a body: what was set for the headers is too long for it."""
    file = getattr(getattr(response.raw, "_original_response", None), "fp", None)
    sock: socket | None = getattr(getattr(file, "raw", None), "_sock", None)
    if sock is not None:
        sock.settimeout(max(timeout, 0.01))


def _find_redirect(target: HttpTarget, response: requests.Response) -> HttpTarget | None:
    """Where a response leads; None where it is the answer."""
    location = response.headers.get("Location")
    if response.status_code not in _REDIRECT_STATUSES or not location:
        return None
    location = location.encode("latin-1", "replace").decode("utf-8", "replace")  # http.client reads it as Latin-1
    try:
        return parse_url(urljoin(target.url, location))
    except ValueError:
        raise ToolError(f"{target.url} redirects to {location[:200]!r}, which is no URL") from None


def _explain_connection_error(exc: Exception, bundle: CaBundle | None) -> str:
    """Why there is no answer, in a few words."""
    import requests

    try:
        refused = explain_certificate_error(exc, bundle)
    except ConfigError as error:
        refused, exc = None, error
    if refused:
        return f"{refused.reason} ({refused.hint})"
    if isinstance(exc, requests.exceptions.ProxyError | requests.exceptions.InvalidProxyURL):
        return "the proxy did not connect"
    if isinstance(exc, requests.exceptions.SSLError):
        return "TLS failed"
    if isinstance(exc, requests.exceptions.Timeout):
        return "no answer in time"
    if isinstance(exc, requests.exceptions.InvalidURL | requests.exceptions.InvalidSchema | ValueError | ConfigError):
        return str(exc) or "it cannot be asked"
    return find_connect_reason(exc) or "it closed the connection without an answer"
