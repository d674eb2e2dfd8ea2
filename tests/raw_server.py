"""A server whose connections are handled by a function, optionally over TLS, for replies no HTTP library would send."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from typing import NamedTuple

Handler = Callable[[socket.socket], None]
"""Called with each connection, which is closed afterwards. An OSError means that the client disconnected."""


class Certificate(NamedTuple):
    """The files of a self-signed certificate and its key."""

    path: Path
    key: Path


def make_certificate(folder: Path, host: str = "IP:127.0.0.1", days: int = 2) -> Certificate:
    """Make a self-signed certificate for `host`, given as in a subjectAltName."""
    certificate = Certificate(folder / "certificate.pem", folder / "key.pem")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-days", str(days), "-subj", "/CN=ask", "-addext", f"subjectAltName={host}"]
    files = ["-keyout", str(certificate.key), "-out", str(certificate.path)]
    subprocess.run([*command, *files], check=True, capture_output=True)
    return certificate


class RawServer:
    """A listening socket whose connections are passed to `handle`, each in a thread, while the context is open.

    Attributes:
        address: Host and port, as in a URL.
        connections: Number of accepted connections.
    """

    def __init__(self, handle: Handler, certificate: Certificate | None = None) -> None:
        self._handle = handle
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.connections = 0
        self._open: list[socket.socket] = []
        self._tls = None
        if certificate:
            self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._tls.load_cert_chain(*certificate)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError):
            if self._tls:
                connection = self._tls.wrap_socket(connection, server_side=True)
            with connection:
                self._handle(connection)

    def __enter__(self) -> RawServer:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for one in (self._listener, *self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def read_request(connection: socket.socket) -> bytes:
    """Read one request with its body; return b"" if the client disconnected."""
    connection.settimeout(30)
    request = b""
    while b"\r\n\r\n" not in request:
        data = connection.recv(65_536)
        if not data:
            return b""
        request += data
    head, _, body = request.partition(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    length = int(lengths[0].partition(b":")[2]) if lengths else 0
    while len(body) < length:
        body += connection.recv(65_536)
    return head + b"\r\n\r\n" + body


def relay(client: socket.socket, server: socket.socket) -> None:
    """Copy what arrives at either socket to the other until both have ended, as a proxy does.

    One thread serves both directions, since OpenSSL forbids two threads to use a TLS connection at once.
    """
    sinks = {client: server, server: client}
    with suppress(OSError), DefaultSelector() as selector:
        for source in sinks:
            selector.register(source, EVENT_READ)
        while sinks:
            buffered: list[socket.socket] = [
                source for source in sinks if isinstance(source, ssl.SSLSocket) and source.pending()
            ]
            ready = set() if buffered else {key.fd for key, _ in selector.select()}
            for source in buffered or [each for each in sinks if each.fileno() in ready]:
                if data := source.recv(65_536):
                    sinks[source].sendall(data)
                else:
                    selector.unregister(source)
                    sinks.pop(source).shutdown(socket.SHUT_WR)


@contextmanager
def constant_reply_server(answer: bytes, certificate: Certificate | None = None) -> Iterator[RawServer]:
    """Create a server that answers every request with the same bytes, then closes the connection."""

    def handle(connection: socket.socket) -> None:
        if read_request(connection):
            connection.sendall(answer)

    with RawServer(handle, certificate) as server:
        yield server
