"""A browser with a hostile page open: `browser URL [HOSTILE]`. It follows the redirects of a sign-in.

With HOSTILE, a page first makes it request the port of `ask` with what it can guess.
"""

from __future__ import annotations

import http.client
import socket
import sys
import urllib.request
from contextlib import suppress
from urllib.parse import parse_qs, urlsplit

page, *arguments = sys.argv[1:]
redirect = urlsplit(parse_qs(urlsplit(page).query)["redirect_uri"][0])
state = parse_qs(urlsplit(page).query)["state"][0]
port = redirect.port or 0


def ask_for(target: str, method: str = "GET", host: str = f"127.0.0.1:{port}") -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.putrequest(method, target, skip_host=True)
    connection.putheader("Host", host)
    connection.endheaders()
    return connection.getresponse().status


if arguments:
    idle = socket.create_connection(("127.0.0.1", port))  # browsers open connections in advance
    guesses = (
        f"{redirect.path}?code=stolen&client_id=oaiapp_9",
        f"{redirect.path}?code=stolen&client_id=oaiapp_9&state=guess",
        f"{redirect.path}?error=access_denied&state=guess",
        f"{redirect.path}?code=a&state={state}&state={state}",
        f"{redirect.path}?state={state}",
        f"/other?code=a&state={state}",
    )
    assert {ask_for(guess) for guess in guesses} == {400}
    assert ask_for(f"{redirect.path}?code=a&state={state}", method="POST") == 400
    assert ask_for(f"{redirect.path}?code=a&state={state}", host="attacker.example") == 400
with urllib.request.urlopen(page, timeout=60) as response:
    response.read()
if arguments:
    with suppress(OSError):  # a second tab
        urllib.request.urlopen(f"{redirect.geturl()}?code=late&state={state}", timeout=10)
