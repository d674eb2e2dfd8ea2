"""The transport to a remote server: streamable HTTP, or SSE for older servers."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit
from urllib.request import getproxies

from ask.client.certificates import create_ssl_context, explain_certificate_error, find_ca_bundle
from ask.client.network_errors import normalize_proxy_url, read_proxies
from ask.client.retries import MAX_RETRY_WAIT_SECONDS
from ask.client.transport import UNSUPPORTED_ENCODINGS
from ask.config.mcp_servers import ServerConfig
from ask.errors import FileError
from ask.mcp.foreign_urls import find_sign_in_problem
from ask.mcp.message_repair import parse_messages, parse_sign_in_response, repair_sign_in_response, secure_urls
from ask.mcp.process import MAX_MESSAGE_BYTES
from ask.mcp.server_config import uses_client_credentials
from ask.mcp.sign_in_store import SignIns
from ask.parsing import parse_retry_after, read_dict, read_list
from ask.text import format_one_line, repair_surrogates

if TYPE_CHECKING:
    import httpx2

CONNECT_SECONDS = 10.0
LOGIN_COMMAND = "ask mcp login"
PROXY_NAMES = ("http", "https", "all")
REQUEST_ERROR_STATUSES = (400, 404)
"""The statuses with which servers send a JSON-RPC error, whose message says more (SEP-2575)."""
PLACEHOLDER_MESSAGES = ("Server returned an error response", "Not Found", "Session terminated")
"""The SDK's messages for an HTTP error whose body is no JSON-RPC error."""
MESSAGE_TYPES = ("application/json", "text/event-stream")
MAX_BODY_CHARACTERS = 200
COMPRESSED_ENCODINGS = frozenset(("gzip", "x-gzip", *UNSUPPORTED_ENCODINGS))
"""Values of Content-Encoding that are refused. Some servers put a charset there."""
RETRY_STATUSES = (429, 503)
"""The statuses with which `Retry-After` means that the request has no effect yet."""
MIN_RETRY_SECONDS = 0.1
RETRY_FACTOR = 2.0
"""By how much the shortest delay grows with each retry: a server may ask for none each time."""
SESSION_HEADER = "mcp-session-id"
LOST_SESSION_STATUSES = (404, 410)
"""The statuses for an unknown session: that of the specification, and 410 (typescript-sdk#1402)."""
EVENT_END = re.compile(rb"(?:\r\n|\n|\r(?!\n)){2}")
READ_TIMEOUT_SECONDS = 31_536_000.0
"""A year, which means no limit: each call has its own timeout."""


class HttpServerTransport:
    """The transport to one remote server, whose variables must be expanded.

    `auth` is the authorization of a sign-in; without it, a saved sign-in or the configured credentials are used.

    Raises:
        ConfigError: the CA certificates that `environment` names cannot be used.
    """

    is_running = True

    def __init__(
        self,
        server: ServerConfig,
        environment: Mapping[str, str],
        sign_ins: SignIns,
        auth: httpx2.Auth | None = None,
    ) -> None:
        self._failure = ""
        """The HTTP error since the last POST request that succeeded, or ""."""
        self._failure_status = 0
        self.has_lost_session = False
        """Whether the server did not know the session of the last POST request."""
        self._advertised_issuers: list[str] = []
        """The authorization servers that the server names."""
        self._server = server
        self._ca_bundle = find_ca_bundle(environment) if urlsplit(server.url).scheme == "https" else None
        self._ssl_verify = create_ssl_context(self._ca_bundle) if self._ca_bundle else True
        self._sign_ins = sign_ins
        self._store = sign_ins.open(server)
        self._auth = auth

    def explain_failure(self, error: Exception, *, has_ended: bool) -> str:
        """Return the HTTP error, or explain a sign-in or certificate error; "" if the cause is another."""
        explanation = explain_certificate_error(error, self._ca_bundle)
        if explanation:
            return f"{explanation.reason}: {explanation.hint}"
        cause = unwrap_group(error)
        if type(cause).__module__.startswith("mcp.client.auth"):
            return f"the sign-in failed ({cause})"
        if LOGIN_COMMAND in self._failure and type(cause).__name__ in ("ConnectError", "ConnectTimeout"):
            url = cast("httpx2.RequestError", cause).request.url
            return f"the sign-in failed (cannot connect to {url})"
        has_server_message = self._failure_status in REQUEST_ERROR_STATUSES and not _is_placeholder_error(cause)
        return "" if has_server_message else self._failure

    def kill(self) -> None:
        """Do nothing: a remote server also serves others."""

    @asynccontextmanager
    async def open_streams(self) -> AsyncIterator[Any]:
        """Open the streams for received messages and for messages to send.

        Raises:
            ConfigError: the configured client credentials cannot be used.
        """
        if not self._auth and (self._server.oauth or self._store.is_signed_in):
            from ask.mcp.sign_in import create_auth

            self._auth = create_auth(self._server, self._sign_ins)
        if self._server.type == "sse":
            from mcp.client.sse import sse_client

            async with sse_client(self._server.url, httpx_client_factory=self._create_client) as streams:
                yield streams
            return
        from mcp.client.streamable_http import streamable_http_client

        async with (
            self._create_client() as client,
            streamable_http_client(
                self._server.url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES
            ) as streams,
        ):
            yield streams

    def _create_client(self, headers: Any = None, timeout: Any = None, auth: Any = None) -> httpx2.AsyncClient:
        """Create a client. The parameters are those that the SDK passes, which has no settings of its own here."""
        import httpx2

        class RetryingClient(httpx2.AsyncClient):
            """A client that sends a request again that a server cannot accept now, if the server asks for that."""

            async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
                min_delay = MIN_RETRY_SECONDS
                while True:
                    response = await super().send(request, **options)
                    delay = parse_retry_after(response.headers) if response.status_code in RETRY_STATUSES else None
                    if delay is None or delay > MAX_RETRY_WAIT_SECONDS:
                        return response
                    await response.aclose()
                    await asyncio.sleep(max(delay, min_delay))  # until the time limit of the call
                    min_delay = min(min_delay * RETRY_FACTOR, MAX_RETRY_WAIT_SECONDS)

        return RetryingClient(
            headers={"Accept-Encoding": "identity", **self._server.headers},
            auth=self._auth,
            timeout=httpx2.Timeout(CONNECT_SECONDS, read=READ_TIMEOUT_SECONDS),
            event_hooks={"request": [self._check_request], "response": [self._check_response]},
            verify=self._ssl_verify,
            **self._create_proxy_arguments(),
        )

    def _create_proxy_arguments(self) -> dict[str, Any]:
        """Return the arguments that replace the environment's proxies, if the client would misread one of them."""
        import httpx2

        proxies = {name: url for name, url in read_proxies(self._server.url).items() if name in PROXY_NAMES}
        values = {normalize_proxy_url(url) for name, url in getproxies().items() if name in PROXY_NAMES}
        if values <= {*os.environ.values()}:  # the client reads them, but not all forms of NO_PROXY
            host = urlsplit(self._server.url).hostname or ""
            direct = f"all://[{host}]" if ":" in host else f"all://{host}"
            return {} if proxies else {"mounts": {direct: None}}
        mounts = {
            f"{name}://": httpx2.AsyncHTTPTransport(proxy=url, verify=self._ssl_verify) for name, url in proxies.items()
        }
        return {"mounts": mounts, "trust_env": False}

    async def _check_request(self, request: httpx2.Request) -> None:
        """Refuse the internal addresses to which a server's metadata may send a sign-in, and ask GitHub for JSON.

        A server behind a proxy may name its metadata with http.

        Raises:
            OAuthFlowError: it is one of them.
        """
        if secure_urls(str(request.url), self._server.url) != str(request.url):
            request.url = request.url.copy_with(scheme="https")
        if problem := find_sign_in_problem(str(request.url), self._server):
            from mcp.client.auth import OAuthFlowError

            raise OAuthFlowError(problem)
        if request.headers.get("accept") == "*/*":
            request.headers["accept"] = MESSAGE_TYPES[0]

    async def _check_response(self, response: httpx2.Response) -> None:
        import httpx2

        encoding = response.headers.get("content-encoding", "")
        if not COMPRESSED_ENCODINGS.isdisjoint(
            re.split(r"[\s,]+", encoding.lower())
        ):  # the body could expand to any size
            failure = f"it sent {encoding} data, which was not requested"
            if response.request.method == "POST":  # the SDK closes the connection, and reports only that
                self._failure, self._failure_status = failure, 0
            raise httpx2.StreamError(failure)
        request, content_type = response.request, response.headers.get("content-type", "").lower()
        is_mcp = "text/event-stream" in request.headers.get("accept", "")  # not during a sign-in
        is_post = request.method == "POST"
        repair = partial(self._repair_messages, request) if is_post else list
        if is_post:
            await request.aread()  # after a redirect, it is not read yet
            self.has_lost_session = SESSION_HEADER in request.headers and response.status_code in LOST_SESSION_STATUSES
        has_failed, is_json = response.status_code >= 400, content_type.startswith("application/json")
        if is_mcp and content_type.startswith("text/event-stream") and not has_failed:  # the SDK limits each event
            response.stream = _convert_stream(response.stream, partial(_repair_events, repair))
        else:
            response.stream = _convert_stream(response.stream, _limit_size)
            if is_mcp:
                response.stream = _convert_stream(response.stream, partial(_repair_body, repair))
            else:
                await self._repair_sign_in_response(response)
        if is_post and not has_failed:
            self._failure = ""
            if is_mcp and not content_type.startswith(MESSAGE_TYPES) and parse_messages(await _read_body(response)):
                response.headers["content-type"] = MESSAGE_TYPES[0]  # it was text/plain (python-sdk#2432)
        elif is_post and LOGIN_COMMAND not in self._failure:  # the SDK tries an older protocol after any error
            self._failure, self._failure_status = self._describe_failure(response), response.status_code
            if is_mcp and is_json and response.status_code not in (401, 403):
                self._failure += _describe_body(await _read_body(response))

    async def _repair_sign_in_response(self, response: httpx2.Response) -> None:
        """Give a response of an authorization server a form that the SDK accepts. GitHub sends errors with 200."""

        async def repair(stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
            body = b"".join([data async for data in stream])
            yield repair_sign_in_response(body, self._advertised_issuers, self._server.url)

        response.stream = _convert_stream(response.stream, repair)
        fields = parse_sign_in_response(await response.aread())
        self._advertised_issuers += [str(issuer) for issuer in read_list(fields.get("authorization_servers"))]
        if response.request.method == "POST" and response.status_code < 400 and isinstance(fields.get("error"), str):
            response.status_code = 400

    def _repair_messages(self, request: httpx2.Request, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Give the responses to a request its ID: servers send another if they fail early (python-sdk#1144).

        An error without an ID is not that of a tool. If it is about the session, the server does not know it, whatever
        the status (keryx#503).
        """
        for message in messages:
            if "method" not in message:
                error = read_dict(message.get("error"))
                if message["id"] is None and "session" in str(error.get("message")).lower():
                    self.has_lost_session = SESSION_HEADER in request.headers
                message["id"] = json.loads(request.content).get("id", message["id"])
        return messages

    def _describe_failure(self, response: httpx2.Response) -> str:
        """Describe an HTTP error, with what the user can do about it; remember what the server requires to sign in."""
        name, status = self._server.name, response.status_code
        failure = f"it answered {status} {response.reason_phrase}".strip()
        if status not in (401, 403):
            return failure
        challenge = response.headers.get("www-authenticate", "")
        uses_header = any(header.lower() == "authorization" for header in self._server.headers)
        if uses_header or (status == 403 and "insufficient_scope" not in challenge):
            return f"{failure}: check mcp.servers.{name}.headers"
        if uses_client_credentials(self._server):
            return f"{failure}: check mcp.servers.{name}.oauth"
        with suppress(FileError):
            self._store.update({"challenge": [status, challenge]})
        return f"{failure}: sign in with {LOGIN_COMMAND} {name}"


def unwrap_group(error: BaseException) -> BaseException:
    """Return the first exception of a group, of groups in it, too."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _is_placeholder_error(error: BaseException) -> bool:
    """Check whether an error contains no message of the server."""
    return not type(error).__module__.startswith("mcp.") or str(error) in PLACEHOLDER_MESSAGES


async def _read_body(response: httpx2.Response) -> bytes:
    """Read the body of a response; b"" if it is too long."""
    import httpx2

    try:
        return await response.aread()
    except httpx2.StreamError:
        return b""


def _describe_body(body: bytes) -> str:
    """Return the message in the JSON body of an HTTP error, to be added to the status; "" if it has none."""
    try:
        fields = read_dict(json.loads(body))
    except (ValueError, RecursionError):
        return ""
    error = fields.get("error")  # an object in JSON-RPC: the SDK's examples send one with 500 if a handler fails
    texts = (*map(fields.get, ("message", "error_description", "detail")), error, read_dict(error).get("message"))
    message = next((text for text in texts if isinstance(text, str) and text.strip()), "")
    return f": {format_one_line(message, MAX_BODY_CHARACTERS)}" if message else ""


Converter = Callable[[AsyncIterator[bytes]], AsyncIterator[bytes]]
Repair = Callable[[list[dict[str, Any]]], list[dict[str, Any]]]


def _convert_stream(stream: Any, convert: Converter) -> Any:
    """Wrap the stream of a response body so that its bytes are converted."""
    import httpx2

    class ConvertedStream(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for data in convert(aiter(stream)):
                yield data

        async def aclose(self) -> None:
            await stream.aclose()

    return ConvertedStream()


async def _limit_size(stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the bytes of a response body; fail after `MAX_MESSAGE_BYTES` of them."""
    import httpx2

    length = 0
    async for data in stream:
        length += len(data)
        if length > MAX_MESSAGE_BYTES:
            raise httpx2.StreamError(f"it sent a message of more than {MAX_MESSAGE_BYTES:,} bytes")
        yield data


async def _repair_body(repair: Repair, stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield a response body with its message in a valid form, or unchanged if it has none.

    Of a batch, only the response is used.
    """
    body = b"".join([data async for data in stream])
    responses = [message for message in parse_messages(body) if "method" not in message]
    yield _encode_message(repair(responses)[0]) if responses else body


async def _repair_events(repair: Repair, stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield a stream of events without those whose data is not a message, such as heartbeats."""
    buffer = b""
    async for data in stream:
        start = max(len(buffer) - 3, 0)  # an event ends with up to four bytes, which may arrive one by one
        buffer += data
        while end := EVENT_END.search(buffer, start):
            yield _repair_event(repair, buffer[: end.end()])
            buffer, start = buffer[end.end() :], 0
        if len(buffer) > MAX_MESSAGE_BYTES:  # the SDK reports it
            yield buffer
            buffer = b""
    yield _repair_event(repair, buffer)


def _repair_event(repair: Repair, event: bytes) -> bytes:
    """Return an event with its messages in a valid form; without its data if that is not a message.

    The other lines stay: the ID of an event is needed to resume the stream.
    """
    lines = event.splitlines()
    fields = [(name, value.removeprefix(b" ")) for name, _, value in (line.partition(b":") for line in lines)]
    data = b"\n".join(value for name, value in fields if name == b"data")
    is_message = all(value in (b"", b"message") for name, value in fields if name == b"event")
    if not data or not is_message:
        return event
    other_lines = [line for line, (name, _) in zip(lines, fields, strict=True) if line and name != b"data"]
    messages = repair(parse_messages(data))
    *first, last = [[b"data: " + _encode_message(message)] for message in messages] or [[]]
    return b"".join(b"\n".join([*parts, b"", b""]) for parts in (*first, [*other_lines, *last]))


def _encode_message(message: Mapping[str, Any]) -> bytes:
    return repair_surrogates(json.dumps(message, ensure_ascii=False)).encode()
