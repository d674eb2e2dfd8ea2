"""Opens the first connection to a provider while the rest of the program loads, to hide its latency."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Collection
from select import select
from threading import Thread
from urllib.parse import SplitResult, urlsplit

CONNECT_SECONDS = 10.0
DEFAULT_PORTS = {"http": 80, "https": 443}


def split_server_url(url: str, schemes: Collection[str]) -> SplitResult | None:
    """Split the URL of a server or proxy; return None if it is invalid or has another scheme."""
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in schemes and parts.hostname and parts.port != 0
    except ValueError:
        return None
    return parts if is_valid else None


class Preconnection:
    """A TCP connection that is being opened in the background; nothing is sent over it."""

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self._socket: socket.socket | None = None
        self._error: OSError | None = None
        self._thread = Thread(target=self._connect, name="ask preconnect", daemon=True)
        self._thread.start()

    def _connect(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # leave them to the main thread
        try:
            self._socket = socket.create_connection(self._address, CONNECT_SECONDS)
        except OSError as error:
            self._error = error
        except UnicodeError:
            pass  # an invalid host name; the request will report it

    def take_socket(self) -> socket.socket | None:
        """Wait for the connection and return it to the first caller.

        Return None to later callers, and if the server has closed the connection since.

        Raises:
            OSError: the connection failed; raised only once.
        """
        self._thread.join()
        sock, self._socket = self._socket, None
        error, self._error = self._error, None
        if error is not None:
            raise error
        # Before any request is sent, a readable socket means that the server closed the connection.
        if sock is not None and select([sock], [], [], 0)[0]:
            sock.close()
            return None
        return sock


def preconnect(base_url: str) -> Preconnection | None:
    """Start connecting to a base URL's host.

    Return None if any proxy is configured, or if the URL is invalid.
    """
    parts = None if has_proxy() else split_server_url(base_url, DEFAULT_PORTS)
    return Preconnection(parts.hostname or "", parts.port or DEFAULT_PORTS[parts.scheme]) if parts else None


def has_proxy() -> bool:
    """Check whether any proxy is configured. Importing `urllib.request` would delay the connection by 20 ms."""
    if sys.platform == "darwin":  # it has further settings
        from urllib.request import getproxies

        return bool(getproxies().keys() - {"no"})
    names = {name.lower() for name, value in os.environ.items() if value}
    return any(name.endswith("_proxy") for name in names - {"no_proxy"})
