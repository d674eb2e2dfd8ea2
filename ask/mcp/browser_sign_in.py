"""Signing in to a remote server in the user's browser, which is sent back to a port of this machine."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mcp.client.auth import OAuthFlowError
from mcp.shared.auth import AuthorizationCodeResult

from ask.config.base_url import is_loopback
from ask.config.mcp_servers import ServerConfig
from ask.errors import ConfigError, NetworkError
from ask.login.redirect import SIGN_IN_SECONDS, SignInError, parse_redirect, receive_redirect
from ask.mcp.connection import RequestError, ServerConnection
from ask.mcp.http_connection import HttpServerTransport
from ask.mcp.sign_in import InteractiveAuth
from ask.mcp.sign_in_store import SignIns
from ask.mcp.tool_listing import ServerTools
from ask.parsing import read_dict, read_list

CALLBACK_PATH = "/callback"


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

    async def receive_code() -> AuthorizationCodeResult:
        try:
            if read_redirect:
                redirect = parse_redirect(read_redirect(), auth.state)
            else:
                redirect = await receive_redirect(listener, redirect_uri, lambda: auth.state, server.name)
        except SignInError as error:
            raise OAuthFlowError(error.summary) from None
        return auth.read_redirect(redirect)

    auth = InteractiveAuth(
        server,
        store,
        client_secret=sign_ins.find_client_secret(server),
        redirect_uri=redirect_uri,
        open_page=open_page,
        receive_code=receive_code,
    )
    transport = HttpServerTransport(server, environment, sign_ins, auth)
    timeout = SIGN_IN_SECONDS + server.timeout
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
