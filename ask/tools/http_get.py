"""An HTTP client for URLs chosen by the model: follows redirects and limits time, size and reachable hosts."""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, field
from http.client import HTTPException
from http.cookiejar import DefaultCookiePolicy
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from ask import __version__
from ask.client.certificates import CaBundle, explain_certificate_error, find_ca_bundle
from ask.client.http_adapter import ConnectionCounter, create_adapter, get_limited_response
from ask.client.network_errors import explain_proxy_error, find_connect_reason, read_proxies
from ask.client.transport import MAX_COMPRESSED_BYTES, UNSUPPORTED_ENCODINGS
from ask.errors import ConfigError
from ask.records import NamedTuple
from ask.tools.base import ToolError
from ask.tools.network_policy import HttpTarget, NetworkPolicy, is_ip_address, parse_url

if TYPE_CHECKING:
    import requests

MAX_BODY_BYTES = 10_000_000
"""Maximum number of bytes read from a body."""
MAX_REDIRECTS = 5
_CONNECT_SECONDS = 10.0
_GRACE_PERIOD_SECONDS = 1.0
"""Seconds after the timeout in which the worker thread may still return a truncated response."""
_READ_BYTES = 65_536
_MAX_HEADER_CHARACTERS = 200
"""Characters kept of the status line and the content type."""
_DEFAULT_HEADERS = {
    "User-Agent": f"ask/{__version__}",
    "Accept": "text/markdown, text/html;q=0.9, application/json;q=0.9, text/plain;q=0.9, */*;q=0.5",
    "Accept-Encoding": "gzip",
}
_REDIRECT_STATUSES = (301, 302, 303, 307, 308)


class FetchResponse(NamedTuple):
    """The final response, after redirects.

    Attributes:
        url: the URL after redirects.
        status_line: status code and reason phrase.
        is_error: whether the status is 400 or above.
        content_type: the header; "" if there is none.
        body: the decompressed bytes.
        truncation_reason: why the body is incomplete; "" if it is complete.
        content_length: the Content-Length header; None if it is missing or invalid.
    """

    url: str
    status_line: str
    is_error: bool
    content_type: str
    body: bytes
    truncation_reason: str
    content_length: int | None


@dataclass
class Fetcher:
    """Fetches one URL.

    Attributes:
        timeout: time limit for everything, DNS lookups included, in seconds.
        policy: the hosts that may be reached; None allows all of them, and proxies from the environment.
        should_read_body: decides by content type whether to read the body.
        headers: added to the default headers; the same name replaces a default.
        data: body of a POST request; None sends a GET request.
        max_redirects: how many redirects to follow.
        body_timeout: seconds from the start after which a body that has begun is truncated; None means `timeout`.
    """

    timeout: float
    policy: NetworkPolicy | None
    should_read_body: Callable[[str], bool] = lambda content_type: True
    headers: Mapping[str, str] = field(default_factory=dict)
    data: bytes | None = None
    max_redirects: int = MAX_REDIRECTS
    body_timeout: float | None = None

    def fetch(self, url: str) -> FetchResponse:
        """Fetch a URL, as the model wrote it.

        Raises:
            ToolError: the request failed or is not allowed.
        """
        target = parse_url(url)
        self._start_time = time.monotonic()
        self._canceled = False
        result: Future[FetchResponse] = Future()

        def run() -> None:
            try:
                result.set_result(self._follow_redirects(target))
            except BaseException as error:  # noqa: BLE001 - raised again in the calling thread
                result.set_exception(error)

        try:
            # A thread, because nothing else limits a DNS lookup, or headers that arrive byte by byte.
            threading.Thread(target=run, daemon=True).start()
            return result.result(self.timeout + _GRACE_PERIOD_SECONDS)
        except TimeoutError:
            raise self._make_timeout_error(target) from None
        finally:
            self._canceled = True

    def _get_time_left(self, timeout: float) -> float:
        """Return the seconds until a timeout, none if the caller has stopped waiting."""
        return 0.0 if self._canceled else self._start_time + timeout - time.monotonic()

    def _make_timeout_error(self, target: HttpTarget) -> ToolError:
        return ToolError(f"{target.url} did not arrive within {self.timeout:g} s")

    def _follow_redirects(self, target: HttpTarget) -> FetchResponse:
        import requests
        from requests.cookies import RequestsCookieJar, extract_cookies_to_jar

        # Consent and login pages redirect in a circle until they get the cookie that they have set. The cookies are
        # those of this chain only, and "co.uk" cannot set any.
        self._cookies = RequestsCookieJar(DefaultCookiePolicy(strict_domain=True))
        allowed_hosts = {target.host, *(self.policy.redirect_hosts if self.policy else ())}
        for _ in range(self.max_redirects + 1):
            with requests.Session() as session, closing(self._open_response(session, target)) as response:
                redirect = _find_redirect(target, response)
                if redirect is None:
                    return self._read_response(target, response)
                named_request = requests.Request("GET", target.url).prepare()
                extract_cookies_to_jar(self._cookies, named_request, response.raw)  # type: ignore[no-untyped-call]
            if self.policy and redirect.host not in allowed_hosts:
                raise ToolError(f"{target.url} redirects to another host; to follow, fetch {redirect.url}")
            target = redirect
        raise ToolError(f"stopped after {self.max_redirects} redirects, before {target.url}")

    def _open_response(self, session: requests.Session, target: HttpTarget) -> requests.Response:
        """Send the request and return the response with its body unread."""
        adapter = create_adapter(ConnectionCounter(None))
        session.mount(f"{target.scheme}://", adapter)
        if self.policy is None:
            return self._send_request(session, target, target.host)
        session.trust_env = False
        if not is_ip_address(target.host):
            adapter.init_poolmanager(1, 1, server_hostname=target.host)  # the name that the certificate must match
        errors = []
        for address in self.policy.resolve_allowed(target):
            try:
                return self._send_request(session, target, address)
            except ToolError as error:
                errors.append(error)
        raise errors[0]

    def _send_request(self, session: requests.Session, target: HttpTarget, address: str) -> requests.Response:
        import requests
        from requests.cookies import get_cookie_header
        from urllib3.exceptions import HTTPError

        time_left = self._get_time_left(self.timeout)
        if time_left <= 0:
            raise self._make_timeout_error(target)
        bundle = None
        try:
            bundle = find_ca_bundle() if target.scheme == "https" else None
            url = target._replace(host=address).url
            headers = {**_DEFAULT_HEADERS, **self.headers, "Host": target.authority}
            method = "GET" if self.data is None else "POST"
            # The function adds no authentication; without it, `requests` sends credentials from .netrc.
            request = requests.Request(method, url, headers=headers, data=self.data, auth=lambda request: request)
            prepared = session.prepare_request(request)
            # The host of this request may be an address, but cookies belong to the name.
            named_request = requests.Request(method, target.url).prepare()
            if cookies := get_cookie_header(self._cookies, named_request):  # type: ignore[no-untyped-call]
                prepared.headers["Cookie"] = cookies
            # Not session.send(): it reads the entire body of a redirect.
            return session.get_adapter(url).send(
                prepared,
                stream=True,
                timeout=(min(time_left, _CONNECT_SECONDS), time_left),
                verify=bundle.path if bundle else True,
                proxies=read_proxies(url) if session.trust_env else {},
            )
        except (requests.RequestException, HTTPError, OSError, ValueError, ConfigError) as error:
            if self._get_time_left(self.timeout) <= 0:
                raise self._make_timeout_error(target) from None
            reason = _explain_connection_error(error, bundle)
            if session.trust_env and (proxy_error := explain_proxy_error(error, target.url, target.authority)):
                reason = f"{proxy_error.message} ({proxy_error.hint})"
            raise ToolError(f"cannot connect to {target.authority}: {reason}") from None

    def _read_response(self, target: HttpTarget, response: requests.Response) -> FetchResponse:
        content_type = response.headers.get("Content-Type", "")
        body, note = self._read_body(target, response) if self.should_read_body(content_type) else (b"", "")
        length = response.headers.get("Content-Length", "")
        return FetchResponse(
            url=target.url,
            status_line=f"{response.status_code} {response.reason or ''}"[:_MAX_HEADER_CHARACTERS].rstrip(),
            is_error=response.status_code >= 400,
            content_type=content_type[:_MAX_HEADER_CHARACTERS],
            body=body,
            truncation_reason=note,
            content_length=int(length) if length.isascii() and length.isdecimal() and len(length) < 20 else None,
        )

    def _read_body(self, target: HttpTarget, response: requests.Response) -> tuple[bytes, str]:
        """Read and decompress the body up to the limits; return it and the reason if it is incomplete."""
        import urllib3.response

        encoding = response.headers.get("Content-Encoding", "").strip().lower()
        if not {each.strip() for each in encoding.split(",")}.isdisjoint(UNSUPPORTED_ENCODINGS):
            raise ToolError(f"{target.url} was compressed with {encoding}, which was not requested")
        decoder = urllib3.response.GzipDecoder() if "gzip" in encoding else None
        size = MAX_COMPRESSED_BYTES if decoder else _READ_BYTES
        body = bytearray()
        note, timeout = "", self.body_timeout or self.timeout
        try:
            get_limited_response(response).reader.deadline = self._start_time + timeout
            while self._get_time_left(timeout) > 0 and (chunk := response.raw.read1(size, decode_content=False)):
                body += decoder.decompress(chunk) if decoder else chunk
                if len(body) > MAX_BODY_BYTES:
                    return bytes(body[:MAX_BODY_BYTES]), f"cut off at {MAX_BODY_BYTES:,} bytes"
        except zlib.error:
            note = "cut off at an error in the compressed data"
        except (urllib3.exceptions.HTTPError, HTTPException, OSError):
            note = "cut off when the connection was lost"
        if self._get_time_left(timeout) <= 0:
            if not body:
                raise self._make_timeout_error(target)
            note = f"cut off after {timeout:g} s"
        return bytes(body), note


def _find_redirect(target: HttpTarget, response: requests.Response) -> HttpTarget | None:
    """Return the target of a redirect; None if the response is final."""
    location = response.headers.get("Location")
    if response.status_code not in _REDIRECT_STATUSES or not location:
        return None
    location = location.encode("latin-1", "replace").decode("utf-8", "replace")  # http.client decodes it as Latin-1
    try:
        return parse_url(urljoin(target.url, location))
    except ValueError:
        raise ToolError(f"{target.url} redirects to {location[:200]!r}, which is not a URL") from None


def _explain_connection_error(exc: Exception, bundle: CaBundle | None) -> str:
    """Describe briefly why there is no response."""
    try:
        explanation = explain_certificate_error(exc, bundle)
    except ConfigError as error:
        return str(error)
    if explanation:
        return f"{explanation.reason} ({explanation.hint})"
    if isinstance(exc, ValueError | ConfigError):
        return str(exc)
    return find_connect_reason(exc) or "it closed the connection without a response"
