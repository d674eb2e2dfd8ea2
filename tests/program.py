"""Runs programs as from a user's shell: as processes, over pipes or on a terminal, in a clean environment."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import sqlite3
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

from tests.cli_runner import can_run_here, run_cli, write_plugin_index
from tests.fork_server import ForkedProcess

PROGRAMS = Path(sys.executable).parent
ASK = str(PROGRAMS / "ask")
CTRL_C = "\x03"
TEST_KEY = "sk-test-0123456789abcdef"
STYLED = rb"(?:\x1b\[[02]m|\r\x1b\[2K)*"
CONVERSATION = re.compile(rb"^" + STYLED + rb"\xc2\xb7 conversation \w+\r?\n(?:\x1b\[0m)?", re.MULTILINE)
TAKE_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""
"""Make standard input the controlling terminal of a new session, then exec the program."""


@dataclass(frozen=True)
class Home:
    """A user's home with an empty working directory `work`; `env` is a clean environment that refers to it."""

    path: Path
    work: Path
    env: Mapping[str, str]

    @property
    def config(self) -> Path:
        return Path(self.env["XDG_CONFIG_HOME"], "ask")

    @property
    def data(self) -> Path:
        return Path(self.env["XDG_DATA_HOME"], "ask")

    @property
    def files(self) -> list[Path]:
        """All files in it, in its data, too."""
        return [path for path in {*self.path.rglob("*"), *self.data.parent.rglob("*")} if path.is_file()]

    def configure(self, text: str) -> None:
        """Write config.toml."""
        self.config.mkdir(parents=True, exist_ok=True)
        (self.config / "config.toml").write_text(text)

    def read_tool_log(self) -> list[dict[str, Any]]:
        """Read the log of tool calls."""
        return [json.loads(line) for line in (self.data / "audit.jsonl").read_text().splitlines()]


def make_home(path: Path, data: Path | None = None) -> Home:
    """Create a home in a folder. `data` is where XDG_DATA_HOME is, if not there."""
    folders = {
        "HOME": path / "home",
        "XDG_CONFIG_HOME": path / "config",
        "XDG_DATA_HOME": data or path / "data",
        "XDG_CACHE_HOME": path / "cache",
    }
    work = path / "work"
    for folder in (*folders.values(), work):
        folder.mkdir()
    env = {name: str(folder) for name, folder in folders.items()}
    return Home(path, work, env | {"PATH": f"{PROGRAMS}:{os.environ['PATH']}", "LANG": "C.UTF-8"})


@cache
def find_installed_plugins() -> bytes:
    """Return the content of the plugin index that the installed command writes."""
    with TemporaryDirectory() as folder:
        home = make_home(Path(folder))
        run([ASK, "-p", "demo", "hello"], env=home.env, cwd=home.work)
        return Path(home.env["XDG_CACHE_HOME"], "ask/plugins.json").read_bytes()


def wait_for_end(path: Path) -> None:
    """Wait until the process whose id is in a file has ended."""
    pid = int(path.read_text())
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    raise AssertionError(f"{pid} still runs")


@dataclass(frozen=True)
class Result:
    """The result of a process. On a terminal, `stdout` is all output. A negative code is a signal number.

    Lines that name the conversation are removed. `history_file` is that of the environment, `ended` the time of the
    end.
    """

    stdout: bytes
    stderr: str
    code: int
    seconds: float
    history_file: Path
    ended: float
    command: Sequence[str] = ()

    @property
    def conversation(self) -> str:
        """Return the id of the conversation that was saved last during the process, or "".

        Of those that parallel processes have saved, it is that whose question is in the command.
        """
        if not self.history_file.exists():
            return ""
        query = (
            "SELECT id, (SELECT content FROM messages WHERE run = runs.number ORDER BY number LIMIT 1) "
            "FROM runs JOIN conversations ON conversations.number = runs.conversation "
            "WHERE runs.started BETWEEN ? AND ? ORDER BY runs.number DESC"
        )
        with closing(sqlite3.connect(self.history_file)) as database:
            rows = database.execute(query, (self.ended - self.seconds, self.ended)).fetchall()
        own_rows = [row for row in rows if row[1] in self.command]
        return next((str(row[0]) for row in own_rows or rows), "")

    @property
    def text(self) -> str:
        """Return `stdout` as text, with the line ends of a terminal normalized."""
        return self.stdout.decode(errors="replace").replace("\r\n", "\n")


class Running:
    """A process in its own session, whose output is collected as it arrives. It is killed at the end of the context.

    `stdin` is bytes to pipe in, None for /dev/null, or a file descriptor. With `terminal`, the process runs on a new
    terminal, which is also its /dev/tty. With `forked`, the process is `ask`, forked by `fork_server.py`.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdin: bytes | int | None = None,
        terminal: bool = False,
        forked: bool = False,
    ) -> None:
        self._command = command
        self.stdout = bytearray()
        self.stderr = bytearray()
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._started = time.monotonic()
        self._env = os.environ if env is None else env
        self._terminal: int | None = None
        self.process: ForkedProcess | subprocess.Popen[bytes]
        if terminal:
            self._start_on_terminal(command, cwd, forked)
        else:
            self._start_on_pipes(command, cwd, stdin, forked)

    def _start_on_pipes(
        self, command: Sequence[str], cwd: Path | None, stdin: bytes | int | None, forked: bool
    ) -> None:
        source = subprocess.PIPE if isinstance(stdin, bytes) else subprocess.DEVNULL if stdin is None else stdin
        pipe, env = subprocess.PIPE, self._env
        if forked:
            self.process = ForkedProcess(command, stdin=source, stdout=pipe, stderr=pipe, env=env, cwd=cwd)
        else:
            self.process = subprocess.Popen(
                command, stdin=source, stdout=pipe, stderr=pipe, env=env, cwd=cwd, start_new_session=True
            )
        assert self.process.stdout and self.process.stderr
        self._gather(self.process.stdout.fileno(), self.stdout)
        self._gather(self.process.stderr.fileno(), self.stderr)
        if isinstance(stdin, bytes):
            data = stdin
            self._in_background(lambda: self._pipe_in(data))

    def _start_on_terminal(self, command: Sequence[str], cwd: Path | None, forked: bool) -> None:
        self._terminal, its_end = os.openpty()
        termios.tcsetwinsize(its_end, (24, 80))
        env = {"TERM": "xterm-256color", **self._env}
        if forked:
            self.process = ForkedProcess(
                command, stdin=its_end, stdout=its_end, stderr=its_end, env=env, cwd=cwd, terminal=True
            )
        else:
            self.process = subprocess.Popen(
                [sys.executable, "-SE", "-c", TAKE_TERMINAL, *command],  # without packages it starts faster
                stdin=its_end,
                stdout=its_end,
                stderr=its_end,
                env=env,
                cwd=cwd,
                start_new_session=True,
            )
        os.close(its_end)
        self._gather(self._terminal, self.stdout)

    def _in_background(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _gather(self, source: int, into: bytearray) -> None:
        def read() -> None:
            while data := read_some(source):
                with self._changed:
                    into.extend(data)
                    self._changed.notify_all()

        self._in_background(read)

    def _pipe_in(self, data: bytes) -> None:
        assert self.process.stdin
        try:
            with self.process.stdin as pipe:
                pipe.write(data)
        except BrokenPipeError:
            pass  # the process does not read all of it

    def wait_for(self, text: str, seconds: float = 30, after: int = 0) -> int:
        """Wait until the text appears on stdout (the terminal) or stderr; return the position after it in stdout.

        `after` is the position to search from.
        """
        wanted = text.encode()
        with self._changed:
            came = self._changed.wait_for(lambda: wanted in self.stdout[after:] or wanted in self.stderr, seconds)
            place = self.stdout.find(wanted, after)
        assert came, f"{text!r} was not shown in {seconds} s, but {self._shown()}"
        return after if place < 0 else place + len(wanted)

    def type_in(self, keys: str) -> None:
        """Type on the terminal: `CTRL_C`, or text that includes its line end."""
        assert self._terminal is not None
        os.write(self._terminal, keys.encode())

    def resize(self, rows: int, columns: int) -> None:
        assert self._terminal is not None
        termios.tcsetwinsize(self._terminal, (rows, columns))

    def signal(self, number: int = signal.SIGINT) -> None:
        """Send a signal to the process but not to its children."""
        self.process.send_signal(number)

    def finish(self, timeout: float = 60) -> Result:
        """Wait for the end of the process and of all output."""
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"not ended after {timeout} s; it showed {self._shown()}") from None
        seconds = time.monotonic() - self._started
        for thread in self._threads:
            thread.join(20)
            assert not thread.is_alive(), (
                f"ended, but another process holds its conversation; it showed {self._shown()}"
            )
        stdout = remove_footer(bytes(self.stdout)) if self._terminal else bytes(self.stdout)
        stderr = remove_footer(bytes(self.stderr)).decode(errors="replace")
        return Result(stdout, stderr, code, seconds, find_history_file(self._env), time.time(), self._command)

    def answer(self, answers: Sequence[tuple[str, str]], timeout: float = 30) -> Result:
        """Type each answer once its prompt text appears, and wait for the end."""
        place = 0
        for text, answer in answers:
            place = self.wait_for(text, timeout, after=place)
            self.type_in(answer)
        return self.finish(timeout)

    def _shown(self) -> str:
        return f"stdout {bytes(self.stdout[-2000:])!r}, stderr {bytes(self.stderr[-2000:])!r}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self.process.poll() is None:
            with suppress(ProcessLookupError):  # it has just ended
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        for thread in self._threads:
            thread.join(1)
        if any(thread.is_alive() for thread in self._threads):
            return  # closing a descriptor that a thread still reads would let another file reuse its number
        if self._terminal is not None:
            os.close(self._terminal)
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe:
                pipe.close()


def remove_footer(shown: bytes) -> bytes:
    """Remove the lines that name the conversation."""
    return CONVERSATION.sub(b"", shown)


def find_history_file(env: Mapping[str, str]) -> Path:
    """Return the path of the history of an environment, which need not exist."""
    data = env.get("XDG_DATA_HOME") or f"{env.get('HOME', '/nonexistent')}/.local/share"
    return Path(data, "ask", "history.db")


def read_some(source: int) -> bytes:
    """Read the available bytes, at least one; return b"" at the end."""
    try:
        return os.read(source, 65536)
    except OSError:  # Linux reports the end of a terminal as EIO
        return b""


def run(
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: bytes | int | None = None,
    timeout: float = 30,
) -> Result:
    """Run a program to its end over pipes."""
    with Running(command, env=env, cwd=cwd, stdin=stdin) as running:
        return running.finish(timeout)


def run_on_terminal(
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    answers: Sequence[tuple[str, str]] = (),
    timeout: float = 30,
) -> Result:
    """Run a program to its end on a terminal; type each answer once its prompt text appears."""
    with Running(command, env=env, cwd=cwd, terminal=True) as running:
        return running.answer(answers, timeout)


def is_running(process: int) -> bool:
    """Check whether the process exists and is not a zombie."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


@dataclass(frozen=True)
class Ask:
    """`ask` in an environment and working directory. The `env` of a call is added to the environment.

    A call runs in the test process if that makes no difference; everything else is forked, or starts the installed
    command.

    Attributes:
        installed: Whether everything starts the installed command.
        packages: A folder of installed tool packages; ask itself does not import their modules.
    """

    env: Mapping[str, str]
    cwd: Path
    installed: bool = False
    packages: Path | None = None

    def _environment(self, env: Mapping[str, str] | None) -> dict[str, str]:
        """Build the environment of a process, and write the plugin index that it will read."""
        packages = {"PYTHONPATH": str(self.packages)} if self.packages else {}
        complete = {**self.env, **packages, **(env or {})}
        if "PYTHONPATH" not in complete:
            write_plugin_index(complete, find_installed_plugins)
        return complete

    def __call__(
        self, *args: str, stdin: bytes | int | None = None, env: Mapping[str, str] | None = None, timeout: float = 30
    ) -> Result:
        whole = {**self.env, **(env or {})}
        if self.installed or not can_run_here(whole, args):
            return self.process(*args, stdin=stdin, env=env, timeout=timeout)
        started = time.monotonic()
        code, stdout, raw_stderr = run_cli(
            *args, env=whole, cwd=self.cwd, stdin=stdin, timeout=timeout, packages=self.packages
        )
        seconds = time.monotonic() - started
        stderr = remove_footer(raw_stderr).decode(errors="replace")
        return Result(stdout, stderr, code, seconds, find_history_file(whole), time.time(), args)

    def process(
        self, *args: str, stdin: bytes | int | None = None, env: Mapping[str, str] | None = None, timeout: float = 30
    ) -> Result:
        """Run the command to its end in its own process, over pipes."""
        with self.start(*args, stdin=stdin, env=env) as running:
            return running.finish(timeout)

    def measure(self, *args: str, env: Mapping[str, str] | None = None, timeout: float = 60) -> tuple[Result, int]:
        """Run the installed command over pipes; return its result, and the memory of its largest process in bytes."""
        command = [sys.executable, "-c", MEASURE, ASK, *args]
        result = run(command, env=self._environment(env), cwd=self.cwd, timeout=timeout)
        stderr, _, peak = result.stderr.rpartition("peak ")
        return replace(result, stderr=stderr), int(peak)

    def start(self, *args: str, stdin: bytes | int | None = None, env: Mapping[str, str] | None = None) -> Running:
        """Start the command over pipes; use the result as a context manager."""
        return self._start(args, env, stdin=stdin)

    def start_on_terminal(self, *args: str, env: Mapping[str, str] | None = None) -> Running:
        """Start the command on a terminal; use the result as a context manager."""
        return self._start(args, env, terminal=True)

    def on_terminal(
        self,
        *args: str,
        answers: Sequence[tuple[str, str]] = (),
        env: Mapping[str, str] | None = None,
        timeout: float = 30,
    ) -> Result:
        """Run the command to its end on a terminal, typing answers."""
        with self.start_on_terminal(*args, env=env) as running:
            return running.answer(answers, timeout)

    def _start(
        self,
        args: Sequence[str],
        env: Mapping[str, str] | None,
        *,
        stdin: bytes | int | None = None,
        terminal: bool = False,
    ) -> Running:
        complete = self._environment(env)
        forked = sys.platform == "linux" and not self.installed and can_run_here(complete, args)
        return Running([ASK, *args], env=complete, cwd=self.cwd, stdin=stdin, terminal=terminal, forked=forked)

    def shell(self, script: str, env: Mapping[str, str] | None = None, timeout: float = 30) -> Result:
        """Run a bash script in which `ask` is available."""
        env = self._environment(env)
        return run(["bash", "-c", script], env=env, cwd=self.cwd, timeout=timeout)


MEASURE = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[1:])
print("peak", resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024, file=sys.stderr)
sys.exit(code)
"""
NO_COMPILED_FILES = {"PYTHONDONTWRITEBYTECODE": "1"}
"""For programs with a limit for the size of files, since Python would keep a compiled file that is truncated by it."""


@contextmanager
def limit_file_size(size: int) -> Iterator[None]:
    """Let files of this process grow to `size` bytes; writing more fails as on a full disk."""
    limits, compiles = resource.getrlimit(resource.RLIMIT_FSIZE), sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        sys.dont_write_bytecode = compiles
