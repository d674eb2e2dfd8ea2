"""Runs programs as a user's shell would: as processes, over pipes or on a terminal, in an environment of their own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.cli_runner import can_run_here, run_cli

PROGRAMS = Path(sys.executable).parent
ASK = str(PROGRAMS / "ask")
CTRL_C = "\x03"
TEST_KEY = "sk-test-0123456789abcdef"
STYLED = rb"(?:\x1b\[[02]m|\r\x1b\[2K)*"
CONVERSATION = re.compile(rb"^" + STYLED + rb"\xc2\xb7 conversation (\w+)\r?\n(?:\x1b\[0m)?", re.MULTILINE)
TAKE_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""
"""Makes standard input the controlling terminal of a new session, then becomes the program."""


@dataclass(frozen=True)
class Home:
    """A user's folders: `work` is an empty directory to work in, `env` a clean environment that points here."""

    path: Path
    work: Path
    env: Mapping[str, str]

    @property
    def config(self) -> Path:
        return Path(self.env["XDG_CONFIG_HOME"], "ask")

    @property
    def data(self) -> Path:
        return Path(self.env["XDG_DATA_HOME"], "ask")


def make_home(path: Path) -> Home:
    """A home under an empty directory."""
    folders = {
        "HOME": path / "home",
        "XDG_CONFIG_HOME": path / "config",
        "XDG_DATA_HOME": path / "data",
        "XDG_CACHE_HOME": path / "cache",
    }
    work = path / "work"
    for folder in (*folders.values(), work):
        folder.mkdir()
    env = {name: str(folder) for name, folder in folders.items()}
    return Home(path, work, env | {"PATH": f"{PROGRAMS}:{os.environ['PATH']}", "LANG": "C.UTF-8"})


@dataclass(frozen=True)
class Result:
    """How a process ended. On a terminal, `stdout` is all that was shown. A negative code is a signal's number.

    Lines that name the conversation are taken out; `conversation` is the id in the last of them, "" without any.
    """

    stdout: bytes
    stderr: str
    code: int
    seconds: float
    conversation: str = ""

    @property
    def text(self) -> str:
        """`stdout` as text, with the terminal's line ends made plain."""
        return self.stdout.decode(errors="replace").replace("\r\n", "\n")


class Running:
    """A process in a session of its own, whose output is gathered as it comes. Killed when the context ends.

    Args:
        stdin: bytes to pipe in; None for /dev/null; a file descriptor. A terminal has its own.
        terminal: run it on a new terminal, which is then also its /dev/tty.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdin: bytes | int | None = None,
        terminal: bool = False,
    ) -> None:
        self.stdout = bytearray()
        self.stderr = bytearray()
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._started = time.monotonic()
        self._terminal: int | None = None
        if terminal:
            self._start_on_terminal(command, env, cwd)
        else:
            self._start_on_pipes(command, env, cwd, stdin)

    def _start_on_pipes(
        self, command: Sequence[str], env: Mapping[str, str] | None, cwd: Path | None, stdin: bytes | int | None
    ) -> None:
        source = subprocess.PIPE if isinstance(stdin, bytes) else subprocess.DEVNULL if stdin is None else stdin
        self.process = subprocess.Popen(
            command,
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            cwd=cwd,
            start_new_session=True,
        )
        assert self.process.stdout and self.process.stderr
        self._gather(self.process.stdout.fileno(), self.stdout)
        self._gather(self.process.stderr.fileno(), self.stderr)
        if isinstance(stdin, bytes):
            data = stdin
            self._in_background(lambda: self._pipe_in(data))

    def _start_on_terminal(self, command: Sequence[str], env: Mapping[str, str] | None, cwd: Path | None) -> None:
        self._terminal, its_end = os.openpty()
        termios.tcsetwinsize(its_end, (24, 80))
        self.process = subprocess.Popen(
            [sys.executable, "-c", TAKE_TERMINAL, *command],
            stdin=its_end,
            stdout=its_end,
            stderr=its_end,
            env={"TERM": "xterm-256color", **(os.environ if env is None else env)},
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
            pass  # it does not want to read it all

    def wait_for(self, text: str, seconds: float = 10, after: int = 0) -> int:
        """Return once the text was shown on stdout (the terminal) or stderr; the place in stdout behind it.

        `after` is such a place to start looking from.
        """
        wanted = text.encode()
        with self._changed:
            came = self._changed.wait_for(lambda: wanted in self.stdout[after:] or wanted in self.stderr, seconds)
            place = self.stdout.find(wanted, after)
        assert came, f"{text!r} was not shown in {seconds} s, but {self._shown()}"
        return after if place < 0 else place + len(wanted)

    def type_in(self, keys: str) -> None:
        """Press keys on the terminal: `CTRL_C`, or text, with its line end."""
        assert self._terminal is not None
        os.write(self._terminal, keys.encode())

    def resize(self, rows: int, columns: int) -> None:
        """Give the terminal another size."""
        assert self._terminal is not None
        termios.tcsetwinsize(self._terminal, (rows, columns))

    def signal(self, number: int = signal.SIGINT) -> None:
        """Send a signal to the process alone."""
        self.process.send_signal(number)

    def finish(self, timeout: float = 30) -> Result:
        """Wait for its end, and for the end of all that it wrote."""
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"not ended after {timeout} s; it showed {self._shown()}") from None
        seconds = time.monotonic() - self._started
        for thread in self._threads:
            thread.join(5)
            assert not thread.is_alive(), f"ended, but another process holds its output; it showed {self._shown()}"
        stdout, said = take_conversation(bytes(self.stdout)) if self._terminal else (bytes(self.stdout), b"")
        stderr, beside = take_conversation(bytes(self.stderr))
        return Result(stdout, stderr.decode(errors="replace"), code, seconds, (said or beside).decode())

    def _shown(self) -> str:
        return f"stdout {bytes(self.stdout[-2000:])!r}, stderr {bytes(self.stderr[-2000:])!r}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        for thread in self._threads:
            thread.join(1)
        if any(thread.is_alive() for thread in self._threads):
            return  # closing what a thread still reads from would give its number to another file
        if self._terminal is not None:
            os.close(self._terminal)
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe:
                pipe.close()


def take_conversation(shown: bytes) -> tuple[bytes, bytes]:
    """What was shown without the lines that name the conversation, and the last id that one of them told."""
    return CONVERSATION.sub(b"", shown), (CONVERSATION.findall(shown) or [b""])[-1]


def read_some(source: int) -> bytes:
    """What is there to read, at least a byte; nothing at the end."""
    try:
        return os.read(source, 65536)
    except OSError:  # how Linux tells that a terminal has lost its last user
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
    """Run a program to its end on a terminal; each answer is typed when its text has been shown."""
    with Running(command, env=env, cwd=cwd, terminal=True) as running:
        place = 0
        for text, answer in answers:
            place = running.wait_for(text, timeout, after=place)
            running.type_in(answer)
        return running.finish(timeout)


def is_running(process: int) -> bool:
    """Whether the process of that id exists, and is more than a zombie."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


@dataclass(frozen=True)
class Ask:
    """`ask`, run in one environment and directory. `env` of a call adds to it.

    A call runs it in the tests' own process where that makes no difference; all else starts the installed command.

    Attributes:
        env: its environment.
        cwd: its working directory.
        installed: whether each call starts the installed command.
        packages: a folder of installed packages of tools; ask itself loads none of their modules.
    """

    env: Mapping[str, str]
    cwd: Path
    installed: bool = False
    packages: Path | None = None

    def _environment(self, env: Mapping[str, str] | None) -> dict[str, str]:
        """The environment of a process."""
        packages = {"PYTHONPATH": str(self.packages)} if self.packages else {}
        return {**self.env, **packages, **(env or {})}

    def __call__(
        self, *args: str, stdin: bytes | int | None = None, env: Mapping[str, str] | None = None, timeout: float = 30
    ) -> Result:
        whole = {**self.env, **(env or {})}
        if self.installed or not can_run_here(whole, args):
            return self.process(*args, stdin=stdin, env=env, timeout=timeout)
        started = time.monotonic()
        code, stdout, told = run_cli(
            *args, env=whole, cwd=self.cwd, stdin=stdin, timeout=timeout, packages=self.packages
        )
        stderr, conversation = take_conversation(told)
        seconds = time.monotonic() - started
        return Result(stdout, stderr.decode(errors="replace"), code, seconds, conversation.decode())

    def process(
        self, *args: str, stdin: bytes | int | None = None, env: Mapping[str, str] | None = None, timeout: float = 30
    ) -> Result:
        """Run the installed command to its end over pipes."""
        return run([ASK, *args], env=self._environment(env), cwd=self.cwd, stdin=stdin, timeout=timeout)

    def start(self, *args: str, stdin: bytes | int | None = None, env: Mapping[str, str] | None = None) -> Running:
        """Start it over pipes; use the result as a context."""
        return Running([ASK, *args], env=self._environment(env), cwd=self.cwd, stdin=stdin)

    def start_on_terminal(self, *args: str, env: Mapping[str, str] | None = None) -> Running:
        """Start it on a terminal; use the result as a context."""
        return Running([ASK, *args], env=self._environment(env), cwd=self.cwd, terminal=True)

    def on_terminal(
        self,
        *args: str,
        answers: Sequence[tuple[str, str]] = (),
        env: Mapping[str, str] | None = None,
        timeout: float = 30,
    ) -> Result:
        """Run it to its end on a terminal, typing answers."""
        env = self._environment(env)
        return run_on_terminal([ASK, *args], env=env, cwd=self.cwd, answers=answers, timeout=timeout)

    def shell(self, script: str, env: Mapping[str, str] | None = None, timeout: float = 30) -> Result:
        """Run a bash script that may say `ask`."""
        env = self._environment(env)
        return run(["bash", "-c", script], env=env, cwd=self.cwd, timeout=timeout)
