"""Runs the command line in this process: the same code with the same streams, without the start of a Python.

Environment, folder, descriptors and signal handlers are those of a process of its own while it runs. What only a new
process can show (signals, terminals, closed pipes, kills, start-up, what it leaves to a successor) needs one.
"""

from __future__ import annotations

import fcntl
import gc
import io
import os
import signal
import sys
import termios
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from types import FrameType

_HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGCONT, signal.SIGALRM)
_AT_START: dict[signal.Signals, Callable[[int, FrameType | None], object] | signal.Handlers] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
}
_FOR_INTERPRETER = ("PYTHON", "LC_", "LD_", "TZ", "MALLOC_")
"""What the names of variables begin with that are read as a program starts."""
_Cached = type(lru_cache(int))
_found: list[bytes] = []
"""The plugins that are installed, as ask keeps them."""


def can_run_here(env: Mapping[str, str], arguments: Sequence[str]) -> bool:
    """Whether a command line would do the same in this process as in one of its own.

    Args:
        env: its environment.
        arguments: its arguments; `--profile` starts itself. (`--cmd` becomes the command that the user accepts, but
            there is no terminal here on which anything could be accepted.)
    """
    return (
        threading.current_thread() is threading.main_thread()
        and env.get("LANG") == "C.UTF-8"
        and not any(name.startswith(_FOR_INTERPRETER) for name in env)
        and not any(word.partition("=")[0] == "--profile" for word in arguments)
    )


def run_cli(
    *arguments: str,
    env: Mapping[str, str],
    cwd: Path,
    stdin: bytes | int | None = None,
    timeout: float = 30,
    packages: Path | None = None,
) -> tuple[int, bytes, bytes]:
    """Run a command line of ask; return its exit code, and what it wrote to standard output and standard error.

    Args:
        arguments: those after the program's name.
        env: all of the environment.
        cwd: the working directory.
        stdin: bytes to pipe in; None for /dev/null; a file descriptor.
        timeout: seconds after which it fails.
        packages: a folder of installed packages of tools, as PYTHONPATH would name it.

    Raises:
        AssertionError: it took longer, or left something behind that holds its output.
    """
    from ask.__main__ import run_process

    outputs = bytearray(), bytearray()
    with ExitStack() as stack:
        stack.enter_context(_state_restored())
        threads = [stack.enter_context(_captured(number, into)) for number, into in zip((1, 2), outputs, strict=True)]
        stack.enter_context(_given(stdin))
        stack.enter_context(_fresh_streams())
        os.environ.clear()
        os.environ.update(env)
        os.chdir(cwd)
        sys.argv = ["ask", *arguments]
        if packages:
            sys.path.insert(0, str(packages))
        elif "XDG_CACHE_HOME" in env:
            _keep_found_plugins(Path(env["XDG_CACHE_HOME"], "ask"))
        late = _set_alarm(timeout)
        code = run_process()
        signal.setitimer(signal.ITIMER_REAL, 0)
    for thread in threads:
        thread.join(5)
        assert not thread.is_alive(), f"ended, but another process holds its output; it showed {outputs}"
    assert not late, f"not ended after {timeout} s; it showed {outputs}"
    return code, bytes(outputs[0]), bytes(outputs[1])


def leave_terminal() -> None:
    """Give up this process's terminal, so that nothing that runs here can ask there."""
    with suppress(OSError):
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
        fcntl.ioctl(terminal, termios.TIOCNOTTY)
        os.close(terminal)


def _keep_found_plugins(cache: Path) -> None:
    """Save a new user's first run the search for plugins, which takes as long as the rest of it."""
    from ask.plugin_api.loader import find_plugins

    kept = cache / "plugins.json"
    with suppress(OSError):  # a test may have made it unwritable
        cache.mkdir(mode=0o700, exist_ok=True)
        if not _found:
            find_plugins(kept)
            _found.append(kept.read_bytes())
        elif not kept.exists():
            kept.write_bytes(_found[0])
            kept.chmod(0o600)


@contextmanager
def _state_restored() -> Iterator[None]:
    environment, folder, arguments, path = dict(os.environ), Path.cwd(), sys.argv, [*sys.path]
    streams = sys.stdin, sys.stdout, sys.stderr
    handlers = {number: signal.getsignal(number) for number in _HANDLED}
    for number, handler in _AT_START.items():
        signal.signal(number, handler)
    collects = gc.isenabled()
    try:
        yield
    finally:
        for number, before in handlers.items():
            signal.signal(number, before)
        sys.stdin, sys.stdout, sys.stderr = streams
        sys.argv, sys.path[:] = arguments, path
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        gc.unfreeze()
        if collects:
            gc.enable()
        _forget()


def _forget() -> None:
    """Empty the caches of ask's functions: some hold what is so for a process, as its working directory."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ("ask", "ask_providers"):
            for value in vars(module).values():
                if isinstance(value, _Cached):
                    value.cache_clear()


@contextmanager
def _replaced(number: int, source: int) -> Iterator[None]:
    """Have another file under a descriptor's number."""
    saved = os.dup(number)
    os.dup2(source, number)
    os.close(source)
    try:
        yield
    finally:
        os.dup2(saved, number)
        os.close(saved)


@contextmanager
def _captured(number: int, into: bytearray) -> Iterator[threading.Thread]:
    """Gather what is written to a descriptor, with the thread that does it, until nobody can write there."""
    reading, writing = os.pipe()

    def gather() -> None:
        with io.FileIO(reading) as pipe:
            while data := pipe.read(65536):
                into.extend(data)

    with _replaced(number, writing):
        yield _in_background(gather)


@contextmanager
def _given(stdin: bytes | int | None) -> Iterator[None]:
    if isinstance(stdin, bytes):
        data, (reading, writing) = stdin, os.pipe()

        def write() -> None:
            with suppress(BrokenPipeError), io.FileIO(writing, "w") as pipe:
                left = memoryview(data)
                while left:
                    left = left[pipe.write(left) or 0 :]

        with _replaced(0, reading):
            _in_background(write)
            yield
    else:
        with _replaced(0, os.open(os.devnull, os.O_RDONLY) if stdin is None else os.dup(stdin)):
            yield


def _in_background(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


@contextmanager
def _fresh_streams() -> Iterator[None]:
    """Open the standard streams as Python does at its start."""
    files = (
        io.BufferedReader(io.FileIO(0, closefd=False)),
        *(io.BufferedWriter(io.FileIO(n, "w", closefd=False)) for n in (1, 2)),
    )
    sys.stdin = io.TextIOWrapper(files[0], "utf-8", "surrogateescape")
    sys.stdout = io.TextIOWrapper(files[1], "utf-8", "surrogateescape")
    sys.stderr = io.TextIOWrapper(files[2], "utf-8", "backslashreplace", line_buffering=True)
    try:
        yield
    finally:
        for stream in (sys.stdin, sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.close()


def _set_alarm(seconds: float) -> list[bool]:
    """Raise TimeoutError after a time; the list that is returned is filled then."""
    late: list[bool] = []

    def ring(_: int, __: FrameType | None) -> None:
        late.append(True)
        raise TimeoutError

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    return late
