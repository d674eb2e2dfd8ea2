"""Signing in to a remote server in the user's browser, which is sent back to a port of this machine (RFC 8252)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping
from contextlib import closing
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from mcp.client.auth import OAuthFlowError
from mcp.shared.auth import AuthorizationCodeResult

from ask.config.base_url import is_loopback
from ask.config.mcp_servers import ServerConfig
from ask.errors import ConfigError, NetworkError
from ask.mcp.connection import RequestError, ServerConnection
from ask.mcp.http_connection import HttpServerTransport
from ask.mcp.sign_in import InteractiveAuth
from ask.mcp.sign_in_store import SignIns
from ask.mcp.tool_listing import ServerTools
from ask.parsing import read_dict, read_list
from ask.text import format_one_line

SIGN_IN_TIMEOUT = 300.0
"""Seconds that the user has to sign in."""
CALLBACK_PATH = "/callback"
REQUEST_LIMIT = 65_536
PAGE = """HTTP/1.1 {status}\r
Content-Type: text/html; charset=utf-8\r
Connection: close\r
\r
<!doctype html><meta charset="utf-8"><title>ask</title><p>{text}</p>
"""


async def sign_in(
    server: ServerConfig,
    sign_ins: SignIns,
    *,
    environment: Mapping[str, str],
    directory: Path,
    open_page: Callable[[str], None],
    read_redirect: Callable[[], str] | None,
) -> ServerTools | None:
    """Connect to a server, sign in when it requires this, and list its tools.

    Args:
        server: the server, whose variables must be expanded.
        sign_ins: where the tokens are saved.
        environment: the environment, which may name CA certificates.
        directory: the working directory.
        open_page: shows the user the page to open.
        read_redirect: asks the user for the redirected URL; None to receive it on a local port.

    Returns:
        The tools, or None if the server did not require a sign-in.

    Raises:
        ConfigError: the port of the configured redirect URI is in use.
        NetworkError: the sign-in failed.
    """
    store = sign_ins.open(server)
    listener, redirect_uri = open_redirect_listener(server, read_dict(store.read().get("client")))

    async def receive_redirect() -> AuthorizationCodeResult:
        if read_redirect:
            return _parse_redirect(read_redirect())
        return await _wait_for_redirect(listener, urlsplit(redirect_uri).path, server.name)

    auth = InteractiveAuth(
        server,
        store,
        client_secret=sign_ins.find_client_secret(server),
        redirect_uri=redirect_uri,
        open_page=open_page,
        receive_redirect=receive_redirect,
    )
    transport = HttpServerTransport(server, environment, sign_ins, auth)
    timeout = SIGN_IN_TIMEOUT + server.timeout
    connection = ServerConnection(server._replace(timeout=timeout), directory, transport)
    try:
        tools = await connection.open()
    except RequestError as error:
        raise NetworkError(f"cannot sign in to {server.name}: {error}") from None
    finally:
        await connection.close()
        listener.close()
    return tools if auth.is_signed_in else None


def open_redirect_listener(server: ServerConfig, client: Mapping[str, Any]) -> tuple[socket.socket, str]:
    """Bind the port of the redirect URI: the configured one, the one that the client is registered with, or any.

    Raises:
        ConfigError: the configured port is in use.
    """
    saved_uris = [uri for uri in read_list(client.get("redirect_uris")) if isinstance(uri, str) and _is_local_uri(uri)]
    configured = server.oauth.get("redirect_uri")
    for uri in [configured] if configured else saved_uris:
        parts = urlsplit(uri)
        try:
            return socket.create_server((parts.hostname or "", parts.port or 0)), uri
        except (OSError, ValueError) as error:
            if configured:
                raise ConfigError(f"cannot listen at {uri} ({error})", "stop the program that uses the port") from None
    listener = socket.create_server(("127.0.0.1", 0))
    return listener, f"http://127.0.0.1:{listener.getsockname()[1]}{CALLBACK_PATH}"


def _is_local_uri(uri: str) -> bool:
    """Check whether only this machine can reach a URI, which a server may have chosen."""
    try:
        return is_loopback(urlsplit(uri).hostname or "")
    except ValueError:
        return False


async def _wait_for_redirect(listener: socket.socket, path: str, server_name: str) -> AuthorizationCodeResult:
    """Wait until the browser requests the redirect URI, and answer it with a page for the user.

    Raises:
        OAuthFlowError: the user did not agree, or the browser did not come in time.
    """
    received: asyncio.Future[AuthorizationCodeResult] = asyncio.get_running_loop().create_future()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer):
            line = (await reader.readline()).decode("latin-1")
            target = [*line.split(" "), ""][1]
            if urlsplit(target).path != path:
                writer.write(PAGE.format(status="404 Not Found", text="not found").encode())
                return
            text = f"You are signed in to {server_name} and can close this page."
            try:
                result = _parse_redirect(target)
                if not received.done():
                    received.set_result(result)
            except OAuthFlowError as error:
                text = f"Not signed in to {server_name}: {error}"
                if not received.done():
                    received.set_exception(error)
            writer.write(PAGE.format(status="200 OK", text=escape(text)).encode())
            await writer.drain()

    async with await asyncio.start_server(handle, sock=listener.dup(), limit=REQUEST_LIMIT):
        try:
            return await asyncio.wait_for(received, SIGN_IN_TIMEOUT)
        except TimeoutError:
            raise OAuthFlowError(f"the browser did not return within {SIGN_IN_TIMEOUT:g} s") from None


def _parse_redirect(url: str) -> AuthorizationCodeResult:
    """Parse the URL to which the browser was sent (RFC 6749, section 4.1.2).

    Raises:
        OAuthFlowError: it contains an error, or no code.
    """
    parameters = {name: values[0] for name, values in parse_qs(urlsplit(url.strip()).query).items()}
    if "error" in parameters:
        description = parameters.get("error_description", "")
        raise OAuthFlowError(format_one_line(": ".join(filter(None, (parameters["error"], description))), 300))
    if "code" not in parameters:
        raise OAuthFlowError("the URL contains no code")
    return AuthorizationCodeResult(code=parameters["code"], state=parameters.get("state"), iss=parameters.get("iss"))
