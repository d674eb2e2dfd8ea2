"""Runs a program once, and says what it took: time until its request, its first and its last byte, its end, memory."""

from __future__ import annotations

import itertools
import os
import pty
import resource
import statistics
import subprocess
import sys
import tempfile
import termios
import time
from array import array
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, NamedTuple

from benchmarks.server import HELLO, WORD, Served, Server

Figures = Mapping[str, float]
"""What was measured, by name. Times are in milliseconds.

request: from its start until the server had its request
first:   from its start until the first byte of the answer could be seen
exit:    from the last byte of the answer until the program had ended
whole:   from its start to its end
cpu:     processor time, which other programs on the machine hardly change
memory:  the most that it held at once, in MB
bytes:   the length of its first request
round:   from the end of an answer with a call until the next request was there, the middle one of all
early:   the same of the first five rounds
recent:  the same of the last five
late:    how long after it was sent a word of a paced stream could be seen, the middle one of all
latest:  the same of the one in twenty that took longest
turn 2, turn 50: in a chat, from a typed line to its answer
"""
MB = 1024.0
"""Kilobytes, in which the system counts memory."""
PEAK = Path("/proc/self/clear_refs")


class Command(NamedTuple):
    """A program as it is to be run.

    Attributes:
        words: the program and its arguments.
        environment: all of it.
        terminal: whether it writes to a terminal, which is 80 columns wide.
        turns: how many lines it is sent, each once the one before is answered; 0 for a program that reads none.
        before: arguments that are run once in its place, before it is measured; () for its own.
    """

    words: Sequence[str]
    environment: Mapping[str, str]
    terminal: bool = False
    turns: int = 0
    before: Sequence[str] = ()

    @property
    def directory(self) -> Path:
        """Where it runs."""
        return Path(self.environment["HOME"], "work")


class Shown(NamedTuple):
    """What a program's output came to.

    Attributes:
        times: when each piece of it came.
        sizes: how many bytes there were then.
        data: all of it.
    """

    times: array[float]
    sizes: array[int]
    data: bytearray

    def time_of(self, place: int) -> float:
        """When that many bytes were there."""
        return self.times[bisect_left(self.sizes, place)]


def measure(command: Command, server: Server) -> Figures:
    """Run a program once.

    Raises:
        RuntimeError: it failed; quotes what it said.
    """
    server.take()
    PEAK.write_text("5")  # forgets our own: what a new process held before it became the program counts as its peak
    with tempfile.TemporaryFile() as errors:
        started = time.monotonic()
        if command.terminal:
            process, shown = on_terminal(command)
            turns: list[float] = []
        else:
            process, shown, turns = on_pipes(command, errors)
        _, status, used = os.wait4(process, 0)
        ended = time.monotonic()
        if os.waitstatus_to_exitcode(status):
            errors.seek(0)
            said = (errors.read() + shown.data)[-500:].decode(errors="replace")
            raise RuntimeError(f"{' '.join(command.words)} failed: {said}")
    served = server.take()
    figures = {"whole": (ended - started) * 1000, "cpu": (used.ru_utime + used.ru_stime) * 1000} | of_turns(turns)
    if used.ru_maxrss > resource.getrusage(resource.RUSAGE_SELF).ru_maxrss:  # else it is what it inherited from us
        figures["memory"] = used.ru_maxrss / MB
    return figures | (of_requests(served, shown, started, ended) if served else {})


def on_pipes(command: Command, errors: IO[bytes]) -> tuple[int, Shown, list[float]]:
    """Run it with its output in a pipe: its process, what it wrote, and the seconds that each turn took."""
    process = subprocess.Popen(
        command.words,
        env=dict(command.environment),
        cwd=command.directory,
        stdin=subprocess.PIPE if command.turns else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=errors,
    )
    assert process.stdout
    shown = Shown(array("d"), array("q"), bytearray())
    turns = []
    for turn in range(command.turns):
        assert process.stdin
        typed = time.monotonic()
        os.write(process.stdin.fileno(), b"hi\n")
        while shown.data.count(HELLO.encode()) <= turn and read(process.stdout.fileno(), shown):
            pass
        turns.append(time.monotonic() - typed)
    if process.stdin:
        process.stdin.close()
    while read(process.stdout.fileno(), shown):
        pass
    process.stdout.close()
    process.returncode = 0  # which we read ourselves, with what it used
    return process.pid, shown, turns


def on_terminal(command: Command) -> tuple[int, Shown]:
    """Run it on a terminal of its own: its process, and what it wrote."""
    process, terminal = pty.fork()
    if not process:
        try:
            termios.tcsetwinsize(0, (24, 80))
            os.chdir(command.directory)
            os.execvpe(command.words[0], list(command.words), {**command.environment, "TERM": "xterm-256color"})
        finally:
            os._exit(127)
    shown = Shown(array("d"), array("q"), bytearray())
    while read(terminal, shown):
        pass
    os.close(terminal)
    return process, shown


def read(source: int, shown: Shown) -> bool:
    """Read what is there; returns whether there is more to come."""
    try:
        data = os.read(source, 65536)
    except OSError:  # how Linux tells that the terminal has lost its last user
        return False
    shown.data.extend(data)
    shown.times.append(time.monotonic())
    shown.sizes.append(len(shown.data))
    return bool(data)


def of_requests(served: Sequence[Served], shown: Shown, started: float, ended: float) -> dict[str, float]:
    """What the server's notes tell, beside what was shown."""
    figures = {
        "request": (served[0].came - started) * 1000,
        "exit": (ended - served[-1].last) * 1000,
        "bytes": served[0].size,
    }
    answer = min((place for word in (HELLO, WORD) if (place := shown.data.find(word.encode())) >= 0), default=0)
    figures["first"] = (shown.time_of(answer + 1) - started) * 1000
    if len(served) > 1:
        gaps = [(after.came - before.last) * 1000 for before, after in itertools.pairwise(served)]
        parts = {"round": gaps, "early": gaps[1:6], "recent": gaps[-5:]}
        figures |= {name: statistics.median(part) for name, part in parts.items() if part}
    if sent := served[0].sent:
        places = range(answer + len(WORD), answer + len(WORD) * len(sent) + 1, len(WORD))
        late = sorted((shown.time_of(place) - when) * 1000 for place, when in zip(places, sent, strict=True))
        figures |= {"late": statistics.median(late), "latest": late[len(late) * 19 // 20]}
    return figures


def of_turns(turns: Sequence[float]) -> dict[str, float]:
    """The second turn, since the first holds the start, and the last: each the middle one of five there."""
    if not turns:
        return {}
    return {
        "turn 2": statistics.median(turns[1:6]) * 1000,
        f"turn {len(turns)}": statistics.median(turns[-5:]) * 1000,
    }


def take_turns(commands: Mapping[str, Command], server: Server, runs: int) -> list[Mapping[str, Figures]]:
    """Run each command so often, one after the other, so that all meet the same machine; what each turn gave.

    Each was run once before, so that none pays for what is there afterwards.
    """
    for command in commands.values():
        measure(command._replace(words=command.before or command.words), server)
    turns: list[Mapping[str, Figures]] = []
    for count in range(runs):
        turns.append({name: measure(command, server) for name, command in commands.items()})
        print(f"\r{count + 1} of {runs} ", end="", file=sys.stderr, flush=True)
    print("\r          \r", end="", file=sys.stderr, flush=True)
    return turns
