"""The first connection to a provider, opened while the rest of the program loads: the network's time is not ours."""

from __future__ import annotations

import signal
import socket
from select import select
from threading import Thread
from urllib.parse import urlsplit

CONNECT_SECONDS = 10.0
DEFAULT_PORTS = {"http": 80, "https": 443}


class Preconnection:
    """A connection that is being opened, without a byte sent over it.

    Args:
        host, port: where to.
    """

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self._socket: socket.socket | None = None
        self._error: OSError | None = None
        self._thread = Thread(target=self._connect, name="ask dial", daemon=True)
        self._thread.start()

    def _connect(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # they are the main thread's
        try:
            self._socket = socket.create_connection(self._address, CONNECT_SECONDS)
        except OSError as fault:
            self._error = fault
        except UnicodeError:
            pass  # no name that can be looked up: it is for the request to say so

    def take_socket(self) -> socket.socket | None:
        """The connection, which the first caller gets; None where the other side has closed it meanwhile.

        Raises:
            OSError: none came about; told once.
        """
        self._thread.join()
        taken, self._socket = self._socket, None
        fault, self._error = self._error, None
        if fault is not None:
            raise fault
        if taken is not None and select([taken], [], [], 0)[0]:  # nothing but its end can be there to read
            taken.close()
            return None
        return taken


def preconnect(base_url: str) -> Preconnection | None:
    """Begin to connect to where a base URL points; None where a proxy stands between, or nothing can be told."""
    from urllib.request import getproxies

    if getproxies().keys() - {"no"}:
        return None
    try:
        parts = urlsplit(base_url)
        port = parts.port or DEFAULT_PORTS.get(parts.scheme)
    except ValueError:
        return None
    return Preconnection(parts.hostname, port) if parts.hostname and port else None
