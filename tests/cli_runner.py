"""Runs command lines in the test process, which saves the start of an interpreter.

Environment variables, working directory, file descriptors and signal handlers are those of a new process. What only
a real process can show (signals, terminals, closed pipes, kills, start-up, effects on later runs) needs one.
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
from functools import cache, lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

_HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGCONT, signal.SIGALRM)
_AT_START: dict[signal.Signals, Callable[[int, FrameType | None], object] | signal.Handlers] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
}
_FOR_INTERPRETER = ("PYTHON", "LC_", "LD_", "TZ", "MALLOC_")
"""Prefixes of environment variables that are read when the interpreter or the C library starts."""
_Cached = type(lru_cache(int))
_caches: list[Any] = []
"""The caches of ask's functions in the modules that have been looked through."""
_searched: set[str] = set()
"""The names of all modules that have been looked through."""


def can_run_here(env: Mapping[str, str], arguments: Sequence[str]) -> bool:
    """Check whether a command line behaves the same in this process as in its own.

    `--profile` starts another process. (`--cmd` would be replaced by the accepted command, but here there is no
    terminal on which a command could be accepted.)
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
    """Run an ask command line; return its exit code, standard output and standard error.

    `stdin` is bytes to pipe in, None for /dev/null, or a file descriptor. `packages` is a folder of installed tool
    packages, as in PYTHONPATH. A command that takes longer than `timeout` seconds, or leaves a process that keeps its
    output open, is an AssertionError.
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
        else:
            write_plugin_index(env, _find_own_plugins)
        late = _set_alarm(timeout)
        code = run_process()
        signal.setitimer(signal.ITIMER_REAL, 0)
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive(), f"ended, but another process holds its output; it showed {outputs}"
    assert not late, f"not ended after {timeout} s; it showed {outputs}"
    return code, bytes(outputs[0]), bytes(outputs[1])


def leave_terminal() -> None:
    """Detach this process from its controlling terminal, so that nothing that runs here can prompt on it."""
    with suppress(OSError):
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
        fcntl.ioctl(terminal, termios.TIOCNOTTY)
        os.close(terminal)


def write_plugin_index(env: Mapping[str, str], find: Callable[[], bytes]) -> None:
    """Write the plugin index of a new home, since searching for plugins takes as long as the rest of a run.

    It applies to one interpreter and its `sys.path`, so that this process and the installed command have one each.
    An index that a test or `ask` has written is kept.
    """
    if "XDG_CACHE_HOME" not in env:
        return
    cache = Path(env["XDG_CACHE_HOME"], "ask")
    index = cache / "plugins.json"
    with suppress(OSError):  # a test may have made the folder unwritable
        cache.mkdir(mode=0o700, exist_ok=True)
        content = find()
        _written.add(content)
        if not index.exists():
            index.touch(0o600)
        elif index.read_bytes() not in _written - {content}:
            return
        index.write_bytes(content)


_written: set[bytes] = set()
"""The indexes for this process and for the installed command."""


@cache
def _find_own_plugins() -> bytes:
    from ask.plugin_api.installed_plugins import find_plugins

    with TemporaryDirectory() as folder:
        index = Path(folder, "plugins.json")
        find_plugins(index)
        return index.read_bytes()


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
    """Clear the caches of ask's functions, some of which depend on the process, such as its working directory."""
    if next(reversed(sys.modules)) not in _searched:  # else thousands of names would be compared after each run
        new = sys.modules.keys() - _searched
        _searched.update(new)
        for name in new:
            if name.partition(".")[0] in ("ask", "ask_providers"):
                _caches.extend(value for value in vars(sys.modules[name]).values() if isinstance(value, _Cached))
    for cached in _caches:
        cached.cache_clear()


@contextmanager
def _replaced(number: int, source: int) -> Iterator[None]:
    """Make a file descriptor refer to another file while the context is open."""
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
    """Collect what is written to a descriptor; yields the thread, which ends once no process can write to it."""
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
    open_streams()
    try:
        yield
    finally:
        for stream in (sys.stdin, sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.close()


def open_streams() -> None:
    """Open the standard streams as Python does at its start."""
    files = (
        io.BufferedReader(io.FileIO(0, closefd=False)),
        *(io.BufferedWriter(io.FileIO(n, "w", closefd=False)) for n in (1, 2)),
    )
    sys.stdin = io.TextIOWrapper(files[0], "utf-8", "surrogateescape")
    sys.stdout = io.TextIOWrapper(files[1], "utf-8", "surrogateescape", line_buffering=os.isatty(1))
    sys.stderr = io.TextIOWrapper(files[2], "utf-8", "backslashreplace", line_buffering=True)


def _set_alarm(seconds: float) -> list[bool]:
    """Raise TimeoutError after some seconds; the returned list is then not empty."""
    late: list[bool] = []

    def ring(_: int, __: FrameType | None) -> None:
        late.append(True)
        raise TimeoutError

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    return late
