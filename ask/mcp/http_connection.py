"""The transport to a remote server: streamable HTTP, or SSE for older servers."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ask.client.certificates import create_ssl_context, explain_certificate_error, find_ca_bundle
from ask.errors import FileError
from ask.mcp.process import MESSAGE_LIMIT
from ask.mcp.server_config import ServerConfig, uses_client_credentials
from ask.mcp.sign_in_store import SignIns
from ask.mcp.wire_messages import parse_messages
from ask.text import repair_surrogates

if TYPE_CHECKING:
    import httpx2

CONNECT_TIMEOUT = 10.0
LOGIN_COMMAND = "ask mcp login"
REQUEST_ERROR_STATUSES = (400, 404)
"""The statuses with which servers send a JSON-RPC error, whose message says more (SEP-2575)."""
PLACEHOLDER_MESSAGES = ("Server returned an error response", "Not Found", "Session terminated")
"""The SDK's messages for an HTTP error whose body is no JSON-RPC error."""
SESSION_HEADER = "mcp-session-id"
EVENT_END = re.compile(rb"(?:\r\n|\n|\r(?!\n)){2}")
READ_TIMEOUT = 31_536_000.0
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
        cause: BaseException = error
        while isinstance(cause, BaseExceptionGroup):
            cause = cause.exceptions[0]
        if type(cause).__module__.startswith("mcp.client.auth"):
            return f"the sign-in failed ({cause})"
        has_server_message = self._failure_status in REQUEST_ERROR_STATUSES and not is_placeholder_error(cause)
        return "" if has_server_message else self._failure

    def kill(self) -> None:
        """A remote server is not stopped."""

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
            streamable_http_client(self._server.url, http_client=client, max_sse_event_size=MESSAGE_LIMIT) as streams,
        ):
            yield streams

    def _create_client(self, headers: Any = None, timeout: Any = None, auth: Any = None) -> httpx2.AsyncClient:
        """Create a client. The parameters are those that the SDK passes, which has no settings of its own here."""
        import httpx2

        return httpx2.AsyncClient(
            headers={"Accept-Encoding": "identity", **self._server.headers},
            auth=self._auth,
            timeout=httpx2.Timeout(CONNECT_TIMEOUT, read=READ_TIMEOUT),
            event_hooks={"response": [self._check_response]},
            verify=self._ssl_verify,
        )

    async def _check_response(self, response: httpx2.Response) -> None:
        import httpx2

        encoding = response.headers.get("content-encoding", "identity")
        if encoding.lower() != "identity":  # the body could expand to any size
            raise httpx2.StreamError(f"it sent {encoding} data, which was not requested")
        if response.request.method == "POST":
            self.has_lost_session = response.status_code == 404 and SESSION_HEADER in response.request.headers
            if response.status_code < 400:
                self._failure = ""
            elif LOGIN_COMMAND not in self._failure:  # the SDK tries an older protocol after any error
                self._failure, self._failure_status = self._describe_failure(response), response.status_code
        accepts_events = "text/event-stream" in response.request.headers.get("accept", "")  # not during a sign-in
        is_event_stream = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        if accepts_events and is_event_stream:  # the SDK limits each event
            response.stream = wrap_stream(response.stream, repair_events)
            return
        response.stream = wrap_stream(response.stream, limit_size)
        if accepts_events:
            response.stream = wrap_stream(response.stream, repair_body)

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


def is_placeholder_error(error: BaseException) -> bool:
    """Check whether an error contains no message of the server."""
    return not type(error).__module__.startswith("mcp.") or str(error) in PLACEHOLDER_MESSAGES


def wrap_stream(stream: Any, convert: Callable[[AsyncIterator[bytes]], AsyncIterator[bytes]]) -> Any:
    """Wrap the stream of a response body so that its bytes are converted."""
    import httpx2

    class ConvertedStream(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for data in convert(aiter(stream)):
                yield data

        async def aclose(self) -> None:
            await stream.aclose()

    return ConvertedStream()


async def limit_size(stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the bytes of a response body; fail after `MESSAGE_LIMIT` of them."""
    import httpx2

    length = 0
    async for data in stream:
        length += len(data)
        if length > MESSAGE_LIMIT:
            raise httpx2.StreamError(f"it sent a message of more than {MESSAGE_LIMIT:,} bytes")
        yield data


async def repair_body(stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield a response body with its message in a valid form, or unchanged if it has none.

    Of a batch, only the response is used.
    """
    body = b"".join([data async for data in stream])
    responses = [message for message in parse_messages(body) if "method" not in message]
    yield encode_message(responses[0]) if responses else body


async def repair_events(stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield a stream of events without those whose data is not a message, such as heartbeats."""
    buffer = b""
    async for data in stream:
        start = max(len(buffer) - 3, 0)
        buffer += data
        while end := EVENT_END.search(buffer, start):
            yield repair_event(buffer[: end.end()])
            buffer, start = buffer[end.end() :], 0
        if len(buffer) > MESSAGE_LIMIT:  # the SDK reports it
            yield buffer
            buffer = b""
    yield repair_event(buffer)


def repair_event(event: bytes) -> bytes:
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
    *first, last = [[b"data: " + encode_message(message)] for message in parse_messages(data)] or [[]]
    return b"".join(b"\n".join([*parts, b"", b""]) for parts in (*first, [*other_lines, *last]))


def encode_message(message: Mapping[str, Any]) -> bytes:
    return repair_surrogates(json.dumps(message, ensure_ascii=False)).encode()
