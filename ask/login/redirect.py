"""Receiving the redirect at the end of a sign-in in the browser, on a port of this machine (RFC 8252).

Any web page can make the browser request that port. Only a request with the state of this sign-in, which the page does
not know, ends the wait.
"""

from __future__ import annotations

import asyncio
import hmac
import socket
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from html import escape
from urllib.parse import parse_qs, urlsplit

from ask.errors import ConfigError, NetworkError
from ask.text import format_one_line

SIGN_IN_SECONDS = 300.0
"""Seconds that the user has to sign in in the browser."""
MAX_REQUEST_BYTES = 65_536
MAX_HEADERS = 100
MAX_REASON_CHARACTERS = 300
PAGE = """HTTP/1.1 {status}\r
Content-Type: text/html; charset=utf-8\r
Content-Security-Policy: default-src 'none'\r
Referrer-Policy: no-referrer\r
Cache-Control: no-store\r
Connection: close\r
\r
<!doctype html><meta charset="utf-8"><title>ask</title><p>{text}</p>
"""
FOREIGN_REQUEST = "This address does not belong to the sign-in that ask is waiting for."


class SignInError(NetworkError):
    """The sign-in failed: the user or the server refused, or the browser did not return."""


class SignInRefusedError(SignInError):
    """The user or the server refused the sign-in."""

    exit_code = ConfigError.exit_code


class ForeignRedirectError(SignInError):
    """A redirect does not belong to this sign-in."""


def parse_redirect(url: str, state: str) -> dict[str, str]:
    """Return the parameters of the URL to which the browser was sent, with a code (RFC 6749, section 4.1.2).

    Raises:
        ForeignRedirectError: it has another state, or no code.
        SignInError: it contains an error.
    """
    _, _, query = url.partition("?")  # not `urlsplit`, which refuses some of what users paste
    values = parse_qs("".join(query.partition("#")[0].split()))
    parameters = {name: texts[0] for name, texts in values.items() if len(texts) == 1}
    given_state = parameters.get("state", "").encode(errors="replace")
    if not state or not hmac.compare_digest(given_state, state.encode()):
        raise ForeignRedirectError("the URL belongs to another sign-in", "paste the URL at which the browser ended")
    if "error" in parameters:
        description = parameters.get("error_description", "")
        reason = ": ".join(filter(None, (parameters["error"], description)))
        raise SignInRefusedError(f"the sign-in was refused: {format_one_line(reason, MAX_REASON_CHARACTERS)}")
    if "code" not in parameters:
        raise ForeignRedirectError("the URL contains no code", "paste the URL at which the browser ended")
    return parameters


async def receive_redirect(
    listener: socket.socket, redirect_uri: str, get_state: Callable[[], str], title: str
) -> dict[str, str]:
    """Wait until the browser requests the redirect URI, and answer it with a page for the user.

    Args:
        listener: the socket that is bound to the port of the redirect URI.
        redirect_uri: the redirect URI.
        get_state: returns the state of the sign-in.
        title: the name of the service.

    Returns:
        The parameters of the request, as from `parse_redirect`.

    Raises:
        SignInError: the user did not agree, or the browser did not come in time.
    """
    received: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer), suppress(OSError, ValueError, asyncio.IncompleteReadError):
            target = await _read_target(reader, redirect_uri)
            error: SignInError | None = None
            parameters: Mapping[str, str] = {}
            status, text = "200 OK", f"The sign-in to {title} goes on in the terminal. You can close this page."
            try:
                parameters = parse_redirect(target, get_state())
            except ForeignRedirectError:
                status, text = "400 Bad Request", FOREIGN_REQUEST
            except SignInError as refusal:
                error, text = refusal, f"Not signed in to {title}: {refusal}"
            writer.write(PAGE.format(status=status, text=escape(text)).encode())
            await writer.drain()
            if error and not received.done():
                received.set_exception(error)
            elif parameters and not received.done():
                received.set_result(dict(parameters))

    tasks: set[asyncio.Task[None]] = set()

    def start(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.create_task(handle(reader, writer)))

    # Not `async with`: from Python 3.12 on, that waits for connections that browsers open in advance and do not use.
    server = await asyncio.start_server(start, sock=listener.dup(), limit=MAX_REQUEST_BYTES)
    try:
        return await asyncio.wait_for(received, SIGN_IN_SECONDS)
    except TimeoutError:
        raise SignInError(f"the browser did not return within {SIGN_IN_SECONDS:g} s") from None
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _read_target(reader: asyncio.StreamReader, redirect_uri: str) -> str:
    """Read a request; return its target if it is one to the redirect URI, else ""."""
    method, target, *_ = [*(await reader.readline()).decode("latin-1").split(" "), "", ""]
    host = ""
    for _ in range(MAX_HEADERS):
        name, _, value = (await reader.readline()).decode("latin-1").partition(":")
        if not name.strip():
            break
        if name.strip().lower() == "host":
            host = value.strip().lower()
    expected = urlsplit(redirect_uri)
    # Another host is a name that a web page lets point to this machine.
    is_expected = method == "GET" and host == expected.netloc.lower() and urlsplit(target).path == expected.path
    return target if is_expected else ""
