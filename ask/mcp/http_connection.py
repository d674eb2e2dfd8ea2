"""The transport to a remote server: streamable HTTP, or SSE for older servers."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ask.client.certificates import create_ssl_context, explain_certificate_error, find_ca_bundle
from ask.client.network_errors import read_proxies
from ask.errors import FileError
from ask.mcp.process import MESSAGE_LIMIT
from ask.mcp.server_config import ServerConfig, uses_client_credentials
from ask.mcp.sign_in_store import SignIns

if TYPE_CHECKING:
    import httpx2

CONNECT_TIMEOUT = 10.0
LOGIN_COMMAND = "ask mcp login"
PROXY_NAMES = ("http", "https", "all")
REQUEST_ERROR_STATUSES = (400, 404)
"""The statuses with which servers send a JSON-RPC error, whose message says more (SEP-2575)."""
PLACEHOLDER_MESSAGES = ("Server returned an error response", "Not Found", "Session terminated")
"""The SDK's messages for an HTTP error whose body is no JSON-RPC error."""
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
            **self._create_proxy_arguments(),
        )

    def _create_proxy_arguments(self) -> dict[str, Any]:
        """Return the arguments that replace the environment's proxies, if the client would misread one of them."""
        import httpx2

        proxies = {name: url for name, url in read_proxies(self._server.url).items() if name in PROXY_NAMES}
        if {*proxies.values()} <= {*os.environ.values()}:
            return {}
        mounts = {
            f"{name}://": httpx2.AsyncHTTPTransport(proxy=url, verify=self._ssl_verify) for name, url in proxies.items()
        }
        return {"mounts": mounts, "trust_env": False}

    async def _check_response(self, response: httpx2.Response) -> None:
        import httpx2

        encoding = response.headers.get("content-encoding", "identity")
        if encoding.lower() != "identity":  # the body could expand to any size
            raise httpx2.StreamError(f"it sent {encoding} data, which was not requested")
        if response.request.method == "POST":
            if response.status_code < 400:
                self._failure = ""
            elif LOGIN_COMMAND not in self._failure:  # the SDK tries an older protocol after any error
                self._failure, self._failure_status = self._describe_failure(response), response.status_code
        accepts_events = "text/event-stream" in response.request.headers.get("accept", "")  # not during a sign-in
        is_event_stream = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        if not (accepts_events and is_event_stream):  # the SDK limits each event
            response.stream = limit_stream(response.stream)

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


def limit_stream(stream: Any) -> Any:
    """Wrap the stream of a response body so that it fails after `MESSAGE_LIMIT` bytes."""
    import httpx2

    class SizeLimitedStream(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            length = 0
            async for data in stream:
                length += len(data)
                if length > MESSAGE_LIMIT:
                    raise httpx2.StreamError(f"it sent a message of more than {MESSAGE_LIMIT:,} bytes")
                yield data

        async def aclose(self) -> None:
            await stream.aclose()

    return SizeLimitedStream()
