"""The first connection to a provider, opened while the rest of the program loads: the network's time is not ours."""

from __future__ import annotations

import signal
import socket
from select import select
from threading import Thread
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from requests.adapters import HTTPAdapter
    from urllib3.connection import HTTPConnection

CONNECT_SECONDS = 10.0
PORTS = {"http": 80, "https": 443}


class Dial:
    """A connection that is being opened, without a byte sent over it.

    Args:
        host, port: where to.
    """

    def __init__(self, host: str, port: int) -> None:
        self._place = (host, port)
        self._socket: socket.socket | None = None
        self._fault: OSError | None = None
        self._thread = Thread(target=self._run, name="ask dial", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # they are the main thread's
        try:
            self._socket = socket.create_connection(self._place, CONNECT_SECONDS)
        except OSError as fault:
            self._fault = fault
        except UnicodeError:
            pass  # no name that can be looked up: it is for the request to say so

    def take(self) -> socket.socket | None:
        """The connection, which the first caller gets; None where the other side has closed it meanwhile.

        Raises:
            OSError: none came about; told once.
        """
        self._thread.join()
        taken, self._socket = self._socket, None
        fault, self._fault = self._fault, None
        if fault is not None:
            raise fault
        if taken is not None and select([taken], [], [], 0)[0]:  # nothing but its end can be there to read
            taken.close()
            return None
        return taken


def dial(base_url: str) -> Dial | None:
    """Begin to connect to where a base URL points; None where a proxy stands between, or nothing can be told."""
    from urllib.request import getproxies

    if getproxies().keys() - {"no"}:
        return None
    try:
        parts = urlsplit(base_url)
        port = parts.port or PORTS.get(parts.scheme)
    except ValueError:
        return None
    return Dial(parts.hostname, port) if parts.hostname and port else None


def dialled_adapter(dialled: Dial) -> HTTPAdapter:
    """What `requests` sends with, for its first connection the one that was dialled."""
    from requests.adapters import HTTPAdapter
    from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
    from urllib3.connection import HTTPConnection, HTTPSConnection

    class Plain(HTTPConnection):
        def _new_conn(self) -> socket.socket:
            return taken(dialled, self) or super()._new_conn()

    class Secure(HTTPSConnection):
        def _new_conn(self) -> socket.socket:
            return taken(dialled, self) or super()._new_conn()

    class PlainPool(HTTPConnectionPool):
        ConnectionCls = Plain

    class SecurePool(HTTPSConnectionPool):
        ConnectionCls = Secure

    adapter = HTTPAdapter()
    adapter.poolmanager.pool_classes_by_scheme = {"http": PlainPool, "https": SecurePool}
    return adapter


def taken(dialled: Dial, connection: HTTPConnection) -> socket.socket | None:
    """The dialled connection as urllib3 would have made it; None where there is none any more.

    Raises:
        HTTPError: it could not be made, in urllib3's words.
    """
    from urllib3.exceptions import ConnectTimeoutError, NameResolutionError, NewConnectionError

    try:
        made = dialled.take()
    except socket.gaierror as fault:
        raise NameResolutionError(connection.host, connection, fault) from fault
    except TimeoutError as fault:
        raise ConnectTimeoutError(connection, str(fault)) from fault
    except OSError as fault:
        raise NewConnectionError(connection, str(fault)) from fault
    if made is not None:
        made.settimeout(connection.timeout)
        for option in connection.socket_options or ():
            made.setsockopt(*option)
    return made
