"""Starts `ask` in new processes without the start of an interpreter, which takes longer than most of its runs.

The server is a process that has imported what a prompt needs. It forks a process for each command line, whose session,
terminal, descriptors, signal handlers, environment and working directory are those of a new process. What is different:
its parent, its name in a list of processes, and that modules are loaded already.

    tests process -> server -> process
"""

from __future__ import annotations

import fcntl
import gc
import json
import os
import select
import selectors
import signal
import socket
import subprocess
import sys
import termios
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import IO, Any, NoReturn

if __name__ == "__main__":  # the installed command has the folder of the programs there
    sys.path[0] = str(Path(__file__).parents[1])

import ask
import ask_providers
from ask.client.transport import import_requests
from tests.cli_runner import open_streams, run_cli

PROGRAMS = str(Path(sys.executable).parent)
MAX_READ_BYTES = 1 << 20
STATUS_BYTES = 4
MAX_DESCRIPTOR = 1 << 16


class ForkedProcess:
    """A process that the server has started: the part of `subprocess.Popen` that tests use.

    `stdin`, `stdout` and `stderr` are descriptors or `subprocess.PIPE`. With `terminal`, standard input becomes the
    controlling terminal.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path | None,
        stdin: int,
        stdout: int,
        stderr: int,
        terminal: bool = False,
    ) -> None:
        self.args = command
        self.returncode: int | None = None
        self.stdin: IO[bytes] | None = None
        self.stdout: IO[bytes] | None = None
        self.stderr: IO[bytes] | None = None
        self._status, status = os.pipe()
        opened = [status]
        if stdin == subprocess.PIPE:
            stdin, writing = os.pipe()
            self.stdin = os.fdopen(writing, "wb")
            opened.append(stdin)
        elif stdin == subprocess.DEVNULL:
            stdin = os.open(os.devnull, os.O_RDONLY)
            opened.append(stdin)
        if stdout == subprocess.PIPE:
            reading, stdout = os.pipe()
            self.stdout = os.fdopen(reading, "rb")
            opened.append(stdout)
        if stderr == subprocess.PIPE:
            reading, stderr = os.pipe()
            self.stderr = os.fdopen(reading, "rb")
            opened.append(stderr)
        request = {"command": command, "env": dict(env), "cwd": os.fspath(cwd or Path.cwd()), "terminal": terminal}
        data = json.dumps(request).encode() + b"\n"
        server = start_server()
        sent = socket.send_fds(server, [data], [stdin, stdout, stderr, status])
        server.sendall(data[sent:])
        for descriptor in opened:
            os.close(descriptor)
        self.pid = int.from_bytes(os.read(self._status, STATUS_BYTES), signed=True)
        assert self.pid, "the fork server has ended"

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal, or None while the process runs."""
        return self._read_status(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the process, and return its exit code.

        Raises:
            subprocess.TimeoutExpired: it runs for longer.
        """
        code = self._read_status(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has just ended
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _read_status(self, timeout: float | None) -> int | None:
        if self.returncode is None:
            poll = select.poll()  # unlike select(), for any number of open files
            poll.register(self._status, select.POLLIN)
            if poll.poll(None if timeout is None else timeout * 1000):
                self.returncode = int.from_bytes(os.read(self._status, STATUS_BYTES), signed=True)
                os.close(self._status)
        return self.returncode


@cache
def start_server() -> socket.socket:
    """Start the server, which ends with this process; return the socket for requests."""
    own_end, its_end = socket.socketpair()
    with its_end, TemporaryDirectory() as folder:
        env = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": folder}
        subprocess.Popen([sys.executable, __file__, PROGRAMS], stdin=its_end.fileno(), env=env, start_new_session=True)
        assert own_end.recv(1), "the fork server did not start"
    return own_end


def serve(requests: socket.socket, programs: str) -> None:
    """Fork a process for each request, and write its exit code to the request's last descriptor."""
    import_modules()
    sys.path[0] = programs
    gc.collect()
    gc.freeze()
    requests.send(b"+")
    selector = selectors.DefaultSelector()
    selector.register(requests, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.data:
                selector.unregister(key.fileobj)
                report_exit(*key.data)
                os.close(key.fd)
                continue
            request, descriptors = receive_request(requests)
            if not request:
                return
            process = os.fork()
            if process == 0:
                become_ask(json.loads(request), descriptors)
            *streams, status = descriptors
            for descriptor in streams:
                os.close(descriptor)
            selector.register(os.pidfd_open(process), selectors.EVENT_READ, (process, status))


def receive_request(requests: socket.socket) -> tuple[bytes, Sequence[int]]:
    """Return the next request and its descriptors; the request is empty once the tests have ended."""
    request, descriptors, _, _ = socket.recv_fds(requests, MAX_READ_BYTES, 4)
    while request and not request.endswith(b"\n"):
        request += requests.recv(MAX_READ_BYTES)
    return request, descriptors


def report_exit(process: int, status: int) -> None:
    """Write the exit code of an ended process to its status descriptor."""
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    with suppress(BrokenPipeError):  # the test has not waited for the process
        os.write(status, code.to_bytes(STATUS_BYTES, signed=True))
    os.close(status)


def import_modules() -> None:
    """Import the modules of ask and what its runs import, but not the SDK of MCP, which few runs need."""
    for package in (ask, ask_providers):
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.startswith(("ask.testing", "ask.mcp.browser_sign_in")):
                import_module(module.name)
    import_requests()
    run_cli("-p", "demo", "hello", env={**os.environ}, cwd=Path.home())


def become_ask(request: Any, descriptors: Sequence[int]) -> NoReturn:
    """Run the command line in this process, as if it had started the installed command."""
    from ask.__main__ import main

    *streams, status = descriptors
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # as `ask.__main__` does when it is imported
    os.setsid()
    for place, descriptor in enumerate(streams):
        os.dup2(descriptor, place)
    if request["terminal"]:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.write(status, os.getpid().to_bytes(STATUS_BYTES, signed=True))  # now its session can be killed
    os.closerange(3, MAX_DESCRIPTOR)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv = request["command"]
    script = sys.modules["__main__"] = ModuleType("__main__")
    script.__file__ = sys.argv[0]
    open_streams()
    gc.unfreeze()
    try:
        main()
    finally:
        traceback.print_exc()  # for `main` does not return
        os._exit(1)


if __name__ == "__main__":
    serve(socket.socket(fileno=0), sys.argv[1])
