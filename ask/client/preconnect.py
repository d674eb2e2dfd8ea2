"""Opens the first connection to a provider while the rest of the program loads, to hide its latency."""

from __future__ import annotations

import os
import signal
import socket
import sys
from contextlib import suppress
from select import POLLIN, poll
from threading import Thread
from typing import TYPE_CHECKING, Any

from ask.config.base_url import DEFAULT_PORTS, split_server_url
from ask.errors import ConfigError

if TYPE_CHECKING:
    from ssl import SSLContext

CONNECT_SECONDS = 10.0


class Preconnection:
    """A TCP connection that is being opened in the background; nothing is sent over it.

    Attributes:
        ssl_context: for HTTPS, the context with the trusted certificates, once `take_socket` has returned; None if
            they cannot be used. Loading them takes 20 ms, in which other threads can run.
    """

    def __init__(self, host: str, port: int, *, uses_tls: bool = False) -> None:
        self.ssl_context: SSLContext | None = None
        self._address = (host, port)
        self._socket: socket.socket | None = None
        self._error: OSError | None = None
        self._threads: list[Thread] = []
        for target in (self._connect, self._load_certificates) if uses_tls else (self._connect,):
            thread = Thread(target=target, name="ask preconnect", daemon=True)
            thread.start()
            self._threads.append(thread)

    def _connect(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # leave them to the main thread
        host, port = self._address
        is_plain = host.isascii() and all(0 < len(label) < 64 for label in host.removesuffix(".").split("."))
        try:
            # Text would be encoded by a codec that this thread would have to import. That takes 3 ms, and for ever if
            # Python has dropped a Ctrl-C in the middle of an import of the main thread and keeps the lock for imports.
            address: tuple[Any, int] = (host.encode() if is_plain else host, port)
            self._socket = socket.create_connection(address, CONNECT_SECONDS)
        except OSError as error:
            self._error = error
        except UnicodeError:
            pass  # an invalid host name; the request will report it

    def _load_certificates(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        from certifi import where

        from ask.client.certificates import CaBundle, create_ssl_context, find_ca_bundle

        with suppress(ConfigError):  # the request will report it
            context = create_ssl_context(find_ca_bundle() or CaBundle(where(), "certifi"))
            context.hostname_checks_common_name = False  # as in the contexts of urllib3
            self.ssl_context = context

    def take_socket(self) -> socket.socket | None:
        """Wait for the connection and return it to the first caller.

        Return None to later callers, and if the server has closed the connection since.

        Raises:
            OSError: the connection failed; raised only once.
        """
        connecting, *loading = self._threads
        connecting.join()
        for thread in loading:
            thread.join(CONNECT_SECONDS)  # it imports modules, see `_connect`
        sock, self._socket = self._socket, None
        error, self._error = self._error, None
        if error is not None:
            raise error
        # Before any request is sent, a readable socket means that the server closed the connection.
        if sock is not None:
            poller = poll()  # `select` cannot watch descriptors from 1,024 on
            poller.register(sock, POLLIN)
            if poller.poll(0):
                sock.close()
                return None
        return sock


def preconnect(base_url: str) -> Preconnection | None:
    """Start connecting to a base URL's host.

    Return None if any proxy is configured, or if the URL is invalid.
    """
    parts = None if _has_proxy() else split_server_url(base_url, DEFAULT_PORTS)
    if parts is None:
        return None
    port = parts.port or DEFAULT_PORTS[parts.scheme]
    return Preconnection(parts.hostname or "", port, uses_tls=parts.scheme == "https")


def _has_proxy() -> bool:
    """Check whether any proxy is configured. Importing `urllib.request` would delay the connection by 20 ms."""
    if sys.platform == "darwin":  # it has further settings
        from urllib.request import getproxies

        return bool(getproxies().keys() - {"no"})
    for name, value in os.environ.items():
        if name.lower().endswith("_proxy") and name.lower() != "no_proxy" and value.strip():
            return True
    return False
