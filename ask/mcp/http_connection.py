"""The transport to a remote server: streamable HTTP, or SSE for older servers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ask.client.certificates import create_ssl_context, explain_certificate_error, find_ca_bundle
from ask.mcp.process import MESSAGE_LIMIT
from ask.mcp.server_config import ServerConfig

if TYPE_CHECKING:
    import httpx2

CONNECT_TIMEOUT = 10.0
READ_TIMEOUT = 31_536_000.0
"""A year, which means no limit: each call has its own timeout."""


class HttpServerTransport:
    """The transport to one remote server, whose variables must be expanded.

    Raises:
        ConfigError: the CA certificates that `environment` names cannot be used.
    """

    is_running = True

    def __init__(self, server: ServerConfig, environment: Mapping[str, str]) -> None:
        self._failure = ""
        """The HTTP error of the last POST request, or ""."""
        self._server = server
        self._ca_bundle = find_ca_bundle(environment) if urlsplit(server.url).scheme == "https" else None
        self._ssl_verify = create_ssl_context(self._ca_bundle) if self._ca_bundle else True

    def explain_failure(self, error: Exception, *, has_ended: bool) -> str:
        """Return the HTTP error, or explain a certificate error; "" if the cause is another."""
        explanation = explain_certificate_error(error, self._ca_bundle)
        return self._failure or (f"{explanation.reason}: {explanation.hint}" if explanation else "")

    def kill(self) -> None:
        """A remote server is not stopped."""

    @asynccontextmanager
    async def open_streams(self) -> AsyncIterator[Any]:
        """Open the streams for received messages and for messages to send."""
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
            # A compressed body could expand to any size.
            headers={"Accept-Encoding": "identity", **self._server.headers},
            timeout=httpx2.Timeout(CONNECT_TIMEOUT, read=READ_TIMEOUT),
            event_hooks={"response": [self._check_response]},
            verify=self._ssl_verify,
        )

    async def _check_response(self, response: httpx2.Response) -> None:
        status = response.status_code
        if response.request.method == "POST":
            self._failure = f"it answered {status} {response.reason_phrase}".strip() if status >= 400 else ""
        if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            response.stream = limit_stream(response.stream)


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
