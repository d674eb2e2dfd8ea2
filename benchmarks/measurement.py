"""Runs a program and measures it: time to its request, first byte, last byte and exit, and memory."""

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

from benchmarks.server import ALLOWED_RATE, HELLO, WORD, ServedRequest, Server

Measurements = Mapping[str, float]
"""Measurements by name. Times are in milliseconds.

request: from start until the server received the request
first:   from start until the first byte of the answer was output
exit:    from the last byte of the answer until exit
whole:   from start to exit
cpu:     processor time, which hardly depends on other programs on the machine
memory:  peak memory in MB
bytes:   the size of the first request
round:   median time from the end of an answer with a call until the next request
early:   the same for the first five rounds
recent:  the same for the last five rounds
late:    median time from sending a word of a paced stream until it was output
latest:  the 95th percentile of the same
refused: of the requests of ask map, the part that the service refused
kept: of the requests that the service allows, the part that were sent, from the 20th second
turn 2, turn 50: in a chat, time from a typed line to its answer
"""
SETTLING_SECONDS = 20.0
"""Seconds in which `ask map` may look for the rate that a service allows."""
MB = 1024.0
"""In kilobytes, the unit of ru_maxrss."""
PEAK = Path("/proc/self/clear_refs")


class Command(NamedTuple):
    """A program to be measured.

    Attributes:
        words: The program and its arguments.
        environment: All environment variables.
        terminal: Whether its output is a terminal of 80 columns.
        turns: The number of lines sent to it, each after the answer to the previous one; 0 for none.
        before: The command to run once before the measurement; () for the command itself.
    """

    words: Sequence[str]
    environment: Mapping[str, str]
    terminal: bool = False
    turns: int = 0
    before: Sequence[str] = ()

    @property
    def directory(self) -> Path:
        return Path(self.environment["HOME"], "work")


class ProgramOutput(NamedTuple):
    """The output of a program.

    Attributes:
        times: When each chunk arrived.
        sizes: The total size after each chunk.
        data: All output.
    """

    times: array[float]
    sizes: array[int]
    data: bytearray

    def time_of_byte(self, place: int) -> float:
        """Return when the output first had this size."""
        return self.times[bisect_left(self.sizes, place)]


def measure(command: Command, server: Server) -> Measurements:
    """Run a program once and measure it; a failure is a RuntimeError with its output."""
    server.take_served()
    PEAK.write_text("5")  # reset our peak, which the child inherits until it calls exec
    with tempfile.TemporaryFile() as errors:
        started = time.monotonic()
        if command.terminal:
            process, shown = run_on_terminal(command)
            turns: list[float] = []
        else:
            process, shown, turns = run_with_pipes(command, errors)
        _, status, used = os.wait4(process, 0)
        ended = time.monotonic()
        if os.waitstatus_to_exitcode(status):
            errors.seek(0)
            output = (errors.read() + shown.data)[-500:].decode(errors="replace")
            raise RuntimeError(f"{' '.join(command.words)} failed: {output}")
    served = server.take_served()
    figures = {"whole": (ended - started) * 1000, "cpu": (used.ru_utime + used.ru_stime) * 1000} | measure_chat_turns(
        turns
    )
    if (
        used.ru_maxrss > resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ):  # otherwise the value is inherited from this process
        figures["memory"] = used.ru_maxrss / MB
    return figures | (measure_requests(served, shown, started, ended) if served else {})


def run_with_pipes(command: Command, errors: IO[bytes]) -> tuple[int, ProgramOutput, list[float]]:
    """Run a program with pipes; return its process id, its output and the seconds of each turn."""
    process = subprocess.Popen(
        command.words,
        env=dict(command.environment),
        cwd=command.directory,
        stdin=subprocess.PIPE if command.turns else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=errors,
    )
    assert process.stdout
    shown = ProgramOutput(array("d"), array("q"), bytearray())
    turns = []
    for turn in range(command.turns):
        assert process.stdin
        typed = time.monotonic()
        os.write(process.stdin.fileno(), b"hi\n")
        while shown.data.count(HELLO.encode()) <= turn and read_output(process.stdout.fileno(), shown):
            pass
        turns.append(time.monotonic() - typed)
    if process.stdin:
        process.stdin.close()
    while read_output(process.stdout.fileno(), shown):
        pass
    process.stdout.close()
    process.returncode = 0  # measure() waits for it, to get its resource usage
    return process.pid, shown, turns


def run_on_terminal(command: Command) -> tuple[int, ProgramOutput]:
    """Run a program on a new terminal; return its process id and its output."""
    process, terminal = pty.fork()
    if not process:
        try:
            termios.tcsetwinsize(0, (24, 80))
            os.chdir(command.directory)
            os.execvpe(command.words[0], list(command.words), {**command.environment, "TERM": "xterm-256color"})
        finally:
            os._exit(127)
    shown = ProgramOutput(array("d"), array("q"), bytearray())
    while read_output(terminal, shown):
        pass
    os.close(terminal)
    return process, shown


def read_output(source: int, shown: ProgramOutput) -> bool:
    """Read the available output; return whether there may be more."""
    try:
        data = os.read(source, 65536)
    except OSError:  # Linux reports the end of a terminal as EIO
        return False
    shown.data.extend(data)
    shown.times.append(time.monotonic())
    shown.sizes.append(len(shown.data))
    return bool(data)


def measure_requests(
    served: Sequence[ServedRequest], shown: ProgramOutput, started: float, ended: float
) -> dict[str, float]:
    """Compute measurements from the requests the server received and the output."""
    figures = {
        "request": (served[0].arrived - started) * 1000,
        "exit": (ended - served[-1].last) * 1000,
        "bytes": served[0].size,
    }
    answer = min((place for word in (HELLO, WORD) if (place := shown.data.find(word.encode())) >= 0), default=0)
    figures["first"] = (shown.time_of_byte(answer + 1) - started) * 1000
    if len(served) > 1:
        gaps = [(after.arrived - before.last) * 1000 for before, after in itertools.pairwise(served)]
        parts = {"round": gaps, "early": gaps[1:6], "recent": gaps[-5:]}
        figures |= {name: statistics.median(part) for name, part in parts.items() if part}
    if any(request.refused for request in served):
        figures |= measure_rate_limit(served)
    if sent := served[0].sent:
        places = range(answer + len(WORD), answer + len(WORD) * len(sent) + 1, len(WORD))
        late = sorted((shown.time_of_byte(place) - when) * 1000 for place, when in zip(places, sent, strict=True))
        figures |= {"late": statistics.median(late), "latest": late[len(late) * 19 // 20]}
    return figures


def measure_rate_limit(served: Sequence[ServedRequest]) -> dict[str, float]:
    """Return how much of a service's rate limit was used once the rate had settled, and how much was refused."""
    begin, end = served[0].arrived + SETTLING_SECONDS, served[-1].arrived
    accepted = sum(begin <= request.arrived for request in served if not request.refused)
    return {
        "refused": sum(request.refused for request in served) / len(served),
        "kept": accepted / max(end - begin, 1) / ALLOWED_RATE,
    }


def measure_chat_turns(turns: Sequence[float]) -> dict[str, float]:
    """Return the medians of five turns from the second (the first includes startup) and of the last five."""
    if not turns:
        return {}
    return {
        "turn 2": statistics.median(turns[1:6]) * 1000,
        f"turn {len(turns)}": statistics.median(turns[-5:]) * 1000,
    }


def measure_in_turns(commands: Mapping[str, Command], server: Server, runs: int) -> list[Mapping[str, Measurements]]:
    """Run all commands in turn, several times, so that changes in load affect all of them.

    Each command is run once before, to fill its caches.
    """
    for command in commands.values():
        measure(command._replace(words=command.before or command.words), server)
    turns: list[Mapping[str, Measurements]] = []
    for count in range(runs):
        turns.append({name: measure(command, server) for name, command in commands.items()})
        print(f"\r{count + 1} of {runs} ", end="", file=sys.stderr, flush=True)
    print("\r          \r", end="", file=sys.stderr, flush=True)
    return turns
