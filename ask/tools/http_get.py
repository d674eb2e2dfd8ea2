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
from ask.client.network_errors import connect_reason
from ask.client.transport import leave_alone
from ask.errors import ConfigError
from ask.messages import NOTHING
from ask.tools.base import ToolError
from ask.tools.network_policy import Restricted, Target, is_address, parse_url
from ask.version import VERSION

if TYPE_CHECKING:
    from socket import socket

    import requests

BODY_LIMIT = 10_000_000
"""Bytes of a body that are read at most."""
REDIRECTS = 5
_CONNECT_SECONDS = 10.0
_GRACE_SECONDS = 1.0
"""How long after its time the work may still say itself what has come."""
_READ_BYTES = 65_536
_WORDS = 200
"""Characters of what a server says of its answer that are believed to mean something."""
_HEADERS = {
    "User-Agent": f"ask/{VERSION}",
    "Accept": "text/markdown, text/html;q=0.9, application/json;q=0.9, text/plain;q=0.9, */*;q=0.5",
    "Accept-Encoding": "gzip",
}
_REDIRECTING = (301, 302, 303, 307, 308)


class Page(NamedTuple):
    """What came.

    Attributes:
        url: where it came from in the end.
        status: the status line's number and words.
        failed: whether the status tells of an error.
        content_type: the header, "" where there is none.
        body: the bytes, decompressed.
        note: why the body is not whole; "" where it is.
        length: the size that the server told, None where it did not.
    """

    url: str
    status: str
    failed: bool
    content_type: str
    body: bytes
    note: str
    length: int | None


def get(
    url: str,
    seconds: float,
    restricted: Restricted | None,
    wanted: Callable[[str], bool] = lambda content_type: True,
    *,
    headers: Mapping[str, str] = NOTHING,
    data: bytes | None = None,
    redirects: int = REDIRECTS,
    body_seconds: float | None = None,
) -> Page:
    """Get what the URL names.

    Args:
        url: as the model wrote it.
        seconds: how long the whole may take, look-ups included.
        restricted: what may be reached; None for everything, also by way of the proxies in the environment.
        wanted: tells by the content type whether to read the body.
        headers: what the request says beside the usual, or in its place.
        data: what is posted; None for nothing.
        redirects: how many are followed at most.
        body_seconds: after how many seconds of these the body is cut, where it has begun; None for all of them.

    Raises:
        ToolError: nothing came, or it may not be reached.
    """
    target = parse_url(url)
    getter = _Getter(seconds, restricted, {**_HEADERS, **headers}, data, redirects)
    getter.body_seconds = seconds if body_seconds is None else body_seconds
    pages: list[Page] = []
    faults: list[BaseException] = []

    def work() -> None:
        try:
            pages.append(getter.follow(target, wanted))
        except BaseException as fault:  # noqa: BLE001 - raised again, in the thread that waits
            faults.append(fault)

    # A thread, as nothing else bounds a look-up, or headers that come byte by byte.
    thread = threading.Thread(target=work, daemon=True)
    try:
        thread.start()
        thread.join(seconds + _GRACE_SECONDS)
    finally:
        getter.abandoned = True
    if faults:
        raise faults[0]
    if not pages:
        raise getter.too_late(target)
    return pages[0]


class _Getter:
    """One call's way through redirects; `abandoned` makes it stop."""

    def __init__(
        self,
        seconds: float,
        restricted: Restricted | None,
        headers: Mapping[str, str],
        data: bytes | None,
        redirects: int,
    ) -> None:
        self.abandoned = False
        self._headers = headers
        self._data = data
        self._redirects = redirects
        self._seconds = seconds
        self._began = time.monotonic()
        self.body_seconds = seconds
        self._restricted = restricted

    @property
    def late(self) -> bool:
        """Whether the time is over, or nobody waits any more."""
        return self.abandoned or time.monotonic() >= self._began + self._seconds

    @property
    def _body_is_late(self) -> bool:
        return self.late or time.monotonic() >= self._began + self.body_seconds

    def too_late(self, target: Target) -> ToolError:
        """The error for what does not come in time."""
        return ToolError(f"{target.url} had not come after {self._seconds:g} s")

    def follow(self, target: Target, wanted: Callable[[str], bool]) -> Page:
        import requests

        allowed = {target.host, *(self._restricted.hosts if self._restricted else ())}
        for _ in range(self._redirects + 1):
            with requests.Session() as session, closing(self._open(session, target)) as response:
                following = _redirect(target, response)
                if following is None:
                    return self._read(target, response, wanted)
            if self._restricted and following.host not in allowed:
                raise ToolError(f"{target.url} redirects to another host; to go there, fetch {following.url}")
            target = following
        raise ToolError(f"stopped after {self._redirects} redirects, before {target.url}")

    def _open(self, session: requests.Session, target: Target) -> requests.Response:
        """The response, its body unread; a session of its own holds no cookies."""
        from requests.adapters import HTTPAdapter

        if self._restricted is None:
            return self._send(session, target, target.host)
        session.trust_env = False
        refusals = []
        for address in self._restricted.addresses_of(target):
            adapter = HTTPAdapter()
            if not is_address(target.host):
                adapter.init_poolmanager(1, 1, server_hostname=target.host)  # whom the certificate must name
            session.mount(f"{target.scheme}://", adapter)
            try:
                return self._send(session, target, address)
            except ToolError as refusal:
                refusals.append(refusal)
        raise refusals[0]

    def _send(self, session: requests.Session, target: Target, connect_to: str) -> requests.Response:
        import requests
        from urllib3.exceptions import HTTPError

        if self.late:
            raise self.too_late(target)
        left = max(self._began + self._seconds - time.monotonic(), 0.01)
        bundle = None
        try:
            bundle = find_ca_bundle() if target.scheme == "https" else None
            url = target._replace(host=connect_to).url
            headers = {**self._headers, "Host": target.place}
            method = "GET" if self._data is None else "POST"
            wish = requests.Request(method, url, headers=headers, data=self._data, auth=leave_alone)
            request = session.prepare_request(wish)
            around = session.merge_environment_settings(url, {}, None, None, None)
            # Not the session's own way to send: that reads the whole body of a redirect.
            return session.get_adapter(url).send(
                request,
                stream=True,
                timeout=(min(left, _CONNECT_SECONDS), left),
                verify=bundle.path if bundle else True,
                proxies=around["proxies"],
            )
        except (requests.RequestException, HTTPError, OSError, ValueError, ConfigError) as fault:
            if self.late:
                raise self.too_late(target) from None
            raise ToolError(f"cannot connect to {target.place}: {_explain(fault, bundle)}") from None

    def _read(self, target: Target, response: requests.Response, wanted: Callable[[str], bool]) -> Page:
        content_type = response.headers.get("Content-Type", "")
        body, note = self._read_body(target, response) if wanted(content_type) else (b"", "")
        length = response.headers.get("Content-Length", "")
        return Page(
            url=target.url,
            status=f"{response.status_code} {response.reason or ''}"[:_WORDS].rstrip(),
            failed=response.status_code >= 400,
            content_type=content_type[:_WORDS],
            body=body,
            note=note,
            length=int(length) if length.isascii() and length.isdecimal() and len(length) < 20 else None,
        )

    def _read_body(self, target: Target, response: requests.Response) -> tuple[bytes, str]:
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
            _be_patient(response, self._began + self.body_seconds - time.monotonic())
            while not self._body_is_late and (chunk := response.raw.read1(_READ_BYTES, decode_content=False)):
                room = BODY_LIMIT + 1 - len(body)
                body += inflate.decode(chunk, room) if inflate else chunk[:room]
                if len(body) > BODY_LIMIT:
                    return bytes(body[:BODY_LIMIT]), f"cut at {BODY_LIMIT:,} bytes"
            if inflate and not inflate.complete:
                note = "cut where its compression ends"
        except zlib.error:
            note = "cut where its compression breaks"
        except (HTTPError, HTTPException, OSError):
            note = "cut where the connection broke"
        if self._body_is_late:
            if not body:
                raise self.too_late(target)
            note = f"cut after {self.body_seconds:g} s"
        return bytes(body), note


def _be_patient(response: requests.Response, seconds: float) -> None:
    """Wait so long for the next bytes of a body: what was set for the headers is too long for it."""
    file = getattr(getattr(response.raw, "_original_response", None), "fp", None)
    sock: socket | None = getattr(getattr(file, "raw", None), "_sock", None)
    if sock is not None:
        sock.settimeout(max(seconds, 0.01))


def _redirect(target: Target, response: requests.Response) -> Target | None:
    """Where a response leads; None where it is the answer."""
    location = response.headers.get("Location")
    if response.status_code not in _REDIRECTING or not location:
        return None
    location = location.encode("latin-1", "replace").decode("utf-8", "replace")  # http.client reads it as Latin-1
    try:
        return parse_url(urljoin(target.url, location))
    except ValueError:
        raise ToolError(f"{target.url} redirects to {location[:200]!r}, which is no URL") from None


def _explain(fault: Exception, bundle: CaBundle | None) -> str:
    """Why there is no answer, in a few words."""
    import requests

    try:
        refused = explain_certificate_error(fault, bundle)
    except ConfigError as error:
        refused, fault = None, error
    if refused:
        return f"{refused.reason} ({refused.hint})"
    if isinstance(fault, requests.exceptions.ProxyError | requests.exceptions.InvalidProxyURL):
        return "the proxy did not connect"
    if isinstance(fault, requests.exceptions.SSLError):
        return "TLS failed"
    if isinstance(fault, requests.exceptions.Timeout):
        return "no answer in time"
    if isinstance(fault, requests.exceptions.InvalidURL | requests.exceptions.InvalidSchema | ValueError | ConfigError):
        return str(fault) or "it cannot be asked"
    return connect_reason(fault) or "it closed the connection without an answer"
