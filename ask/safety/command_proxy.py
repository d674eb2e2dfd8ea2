"""The proxy through which commands in the sandbox reach the hosts of `--allow-command-host`.

The network of a sandbox has only a loopback interface. The worker listens there and passes the listening socket to ask,
which accepts the commands' connections outside. There is no socket file that another process could open or replace.
"""

from __future__ import annotations

import errno
import re
import select
import socket
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress

from ask.client.network_errors import find_connect_reason
from ask.errors import UsageError
from ask.records import NamedTuple
from ask.tools.base import ToolError
from ask.tools.network_policy import AddressRefusedError, HttpTarget, NetworkPolicy, check_public_host, parse_url

_REQUEST_PATTERN = re.compile(r"([A-Z]{1,20}) ([!-~]+) HTTP/1\.[01](?:\r\n|$)")
_AUTHORITY_PATTERN = re.compile(r"[^/?#\s]+")
_HEAD_END = b"\r\n\r\n"
_MAX_HEAD_BYTES = 8192
_HEAD_SECONDS = 10.0
"""Seconds in which a command must have sent its request."""
_CONNECT_SECONDS = 15.0
IDLE_SECONDS = 300.0
"""Seconds without data after which a connection is closed. A git server can be silent for minutes."""
_STOP_SECONDS = 1.0
"""Seconds that connections have to end. A thread that still resolves a name is not waited for."""
_CHUNK_BYTES = 1 << 16
MAX_OPEN_CONNECTIONS = 64
"""Further connections wait until one of them is closed."""
MAX_CONNECTIONS = 10_000
"""Maximum number of connections of one sandbox, which also limits the log."""
_RESOURCE_ERRORS = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
"""Errors of accept() that pass: too many open files, or no memory for a socket."""
_RETRY_SECONDS = 0.1
_MAX_REPORTED_CHARACTERS = 300
_PUBLIC_HOSTS = NetworkPolicy(frozenset())
"""Names are resolved once, and no address is reached that is not public."""


def parse_command_host(text: str) -> HttpTarget:
    """Parse a host that the user allows for commands; one without a port means port 443.

    Raises:
        UsageError: it is not a host, or not a public one.
    """
    try:
        target = _parse_authority(text)
        check_public_host(target.host)
    except AddressRefusedError:
        raise UsageError(
            f"--allow-command-host: {text} is not public, and commands reach only public hosts",
            "run the command yourself",
        ) from None
    except ToolError:
        hint = "name each host, for example example.com, or example.com:22 for a port other than 443"
        raise UsageError(f"--allow-command-host: {text!r} is not a host", hint) from None
    return target


def _parse_authority(text: str) -> HttpTarget:
    if not _AUTHORITY_PATTERN.fullmatch(text):
        raise ToolError(f"{text[:_MAX_REPORTED_CHARACTERS]!r} is not a host")
    return parse_url(f"https://{text}/")


class ProxiedConnection(NamedTuple):
    """A connection of a command, after its end.

    Attributes:
        target: what the command wanted to connect to, as HOST:PORT if it is valid.
        address: the address that was reached, "" for none.
        denial: why the connection was refused, "" if it was allowed.
        error: why an allowed connection failed, "" if it did not.
        sent_bytes: the number of bytes that the command sent to the host.
        received_bytes: the number of bytes that it received.
    """

    target: str = ""
    address: str = ""
    denial: str = ""
    error: str = ""
    sent_bytes: int = 0
    received_bytes: int = 0
    seconds: float = 0.0


class _RejectedRequestError(Exception):
    """A request that is answered with an error.

    Attributes:
        status: the status code, for the command.
        is_denial: the request is not allowed, as opposed to a host that cannot be reached.
    """

    def __init__(self, status: int, reason: str, *, is_denial: bool = True) -> None:
        super().__init__(reason)
        self.status, self.is_denial = status, is_denial


class CommandProxy:
    """Serves CONNECT requests on a listening socket in threads, until it is stopped.

    Only the hosts and ports in `allowed` are reached. `on_closed` is called at the end of each connection, in its
    thread. `hint` explains how to allow a host; `policy` resolves the hosts and checks their addresses.
    """

    def __init__(
        self,
        allowed: Collection[HttpTarget],
        on_closed: Callable[[ProxiedConnection], None],
        listener: socket.socket,
        *,
        hint: str = "add --allow-command-host {host}",
        policy: NetworkPolicy = _PUBLIC_HOSTS,
    ) -> None:
        self._allowed, self._on_closed, self._listener = allowed, on_closed, listener
        self._hint, self._policy = hint, policy
        self._slots = threading.BoundedSemaphore(MAX_OPEN_CONNECTIONS)
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = {listener}
        self._threads: set[threading.Thread] = set()
        self._stopped = False
        self._start_thread(self._accept_connections)

    def stop(self) -> None:
        """Close all connections."""
        with self._lock:
            self._stopped = True
            threads = tuple(self._threads)
            for each in self._sockets:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)  # unlike close(), this ends a call in another thread
        deadline = time.monotonic() + _STOP_SECONDS
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _start_thread(self, target: Callable[..., None], *arguments: object) -> None:
        def run() -> None:
            try:
                target(*arguments)
            finally:
                with self._lock:
                    self._threads.discard(thread)

        thread = threading.Thread(target=run, name="ask command proxy", daemon=True)
        with self._lock:  # so that it is known before it ends
            thread.start()
            self._threads.add(thread)

    def _accept_connections(self) -> None:
        with self._listener:
            for _ in range(MAX_CONNECTIONS):
                self._slots.acquire()
                try:
                    client, _ = self._listener.accept()
                except OSError as error:
                    if error.errno not in _RESOURCE_ERRORS:  # stopped
                        return
                    time.sleep(_RETRY_SECONDS)
                    self._slots.release()
                    continue
                try:
                    self._start_thread(self._serve, client)
                except RuntimeError:  # no more threads: commands may have started as many processes as the user can
                    client.close()
                    self._slots.release()
        self._on_closed(ProxiedConnection("any host", denial=f"{MAX_CONNECTIONS:,} connections were opened"))

    def _register(self, opened: socket.socket) -> None:
        """Let `stop` close a socket.

        Raises:
            _RejectedRequestError: the proxy has been stopped.
        """
        with self._lock:
            if self._stopped:
                raise _RejectedRequestError(503, "the run has ended", is_denial=False)
            self._sockets.add(opened)

    def _close(self, opened: socket.socket) -> None:
        with self._lock:
            self._sockets.discard(opened)
            opened.close()

    def _serve(self, client: socket.socket) -> None:
        """Serve one connection. Only its first request is read: what follows belongs to the tunnel."""
        start_time = time.monotonic()
        connection, server, answer = ProxiedConnection(), None, b""
        try:
            try:
                self._register(client)
                method, requested = _read_request(client)
                connection = connection._replace(target=requested[:_MAX_REPORTED_CHARACTERS])
                target = self._check_request(method, requested)
                connection = connection._replace(target=f"{target.host}:{target.port}")
                server, address = self._connect(target)
                connection = connection._replace(address=address)
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                sent, received = _relay(client, server)
                connection = connection._replace(sent_bytes=sent, received_bytes=received)
            except _RejectedRequestError as error:
                denial, reason = (str(error), "") if error.is_denial else ("", str(error))
                connection = connection._replace(denial=denial, error=reason)
                answer = _format_answer(error)
            except OSError as error:
                connection = connection._replace(error=str(error.strerror or error))
            # Before the answer, which may end the call: its result contains what was refused.
            self._on_closed(connection._replace(seconds=time.monotonic() - start_time))
            with suppress(OSError):
                client.settimeout(_HEAD_SECONDS)
                client.sendall(answer)
                client.shutdown(socket.SHUT_WR)
        finally:
            for each in filter(None, (client, server)):
                self._close(each)
            self._slots.release()

    def _check_request(self, method: str, requested: str) -> HttpTarget:
        """Return the target of a request that is allowed.

        Raises:
            _RejectedRequestError: it is not.
        """
        if method != "CONNECT":
            raise _RejectedRequestError(405, "only CONNECT is supported: use https instead of http")
        try:
            target = _parse_authority(requested)
        except ToolError:
            raise _RejectedRequestError(400, "the request does not name a valid host") from None
        if target not in self._allowed:
            raise _RejectedRequestError(403, f"not allowed: {self._hint.format(host=target.authority)}")
        return target

    def _connect(self, target: HttpTarget) -> tuple[socket.socket, str]:
        """Connect to one of the addresses of a host, all of which are checked.

        Raises:
            _RejectedRequestError: an address is not public, or none can be reached.
        """
        try:
            addresses = self._policy.resolve_allowed(target)
        except AddressRefusedError as error:
            raise _RejectedRequestError(403, str(error)) from None
        except ToolError as error:
            raise _RejectedRequestError(502, str(error), is_denial=False) from None
        reason = ""
        for address in addresses:
            server = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
            try:
                self._register(server)
                server.settimeout(_CONNECT_SECONDS)
                server.connect((address, target.port))
            except OSError as error:
                self._close(server)
                reason = reason or find_connect_reason(error) or str(error)
            except _RejectedRequestError:
                self._close(server)
                raise
            else:
                return server, address
        raise _RejectedRequestError(502, f"cannot connect to {target.authority}: {reason}", is_denial=False)


def _read_request(client: socket.socket) -> tuple[str, str]:
    """Read a request and return its method and target. Its headers are ignored.

    Raises:
        _RejectedRequestError: it is invalid, too long, too slow, or followed by more data.
    """
    deadline = time.monotonic() + _HEAD_SECONDS
    head = b""
    while _HEAD_END not in head:
        if len(head) > _MAX_HEAD_BYTES:
            raise _RejectedRequestError(431, "the request is too long")
        client.settimeout(max(deadline - time.monotonic(), 0.001))
        try:
            data = client.recv(_MAX_HEAD_BYTES)
        except TimeoutError:
            raise _RejectedRequestError(408, "the request took too long", is_denial=False) from None
        if not data:
            raise _RejectedRequestError(400, "the request is incomplete", is_denial=False)
        head += data
    head, _, rest = head.partition(_HEAD_END)
    match = _REQUEST_PATTERN.match(head.decode("latin-1"))
    if not match:
        raise _RejectedRequestError(400, "the request is invalid")
    if match[1] == "CONNECT" and rest:
        raise _RejectedRequestError(400, "data was sent before the connection was established")
    return match[1], match[2]


def _format_answer(error: _RejectedRequestError) -> bytes:
    """Build the response to a rejected request. Its status line has the reason, too: few programs print the body."""
    body = f"ask: {error}\n".encode()
    head = (
        f"HTTP/1.1 {error.status} {error}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode("ascii", "replace") + body


def _relay(client: socket.socket, server: socket.socket) -> tuple[int, int]:
    """Copy data both ways until both sides have ended, one is reset or both are idle; return the bytes of each way.

    The end of one side is passed on to the other, which may still send its response. Data is read from a side only if
    nothing is left to be sent to the other, so nothing is lost at the end.
    """
    peers = {client: server, server: client}
    descriptors = {each.fileno(): each for each in peers}
    pending = dict.fromkeys(peers, b"")
    counts = dict.fromkeys(peers, 0)
    open_sides = set(peers)
    for each in peers:
        each.setblocking(False)
    with suppress(OSError):  # reset by one side
        while open_sides:
            poll = select.poll()
            for each, peer in peers.items():
                is_read = each in open_sides and not pending[peer]
                if mask := (select.POLLOUT if pending[each] else 0) | (select.POLLIN if is_read else 0):
                    poll.register(each, mask)
            ready = poll.poll(IDLE_SECONDS * 1000)
            if not ready:
                break
            for each in [descriptors[descriptor] for descriptor, _ in ready]:
                peer = peers[each]
                with suppress(BlockingIOError):
                    if pending[each]:
                        pending[each] = pending[each][each.send(pending[each]) :]
                    if each in open_sides and not pending[peer]:
                        pending[peer] = each.recv(_CHUNK_BYTES)
                        counts[each] += len(pending[peer])
                        if not pending[peer]:
                            open_sides.remove(each)
                            peer.shutdown(socket.SHUT_WR)
    return counts[client], counts[server]
