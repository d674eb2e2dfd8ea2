"""Where a run's time went: `ask --profile ...` tells it on standard error, `--profile=FILE ...` writes it for pstats.

Nothing of this is loaded otherwise, and nothing elsewhere knows of it: what is timed is wrapped as it is imported.
The run goes on in a child, so that its end can be timed as well.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import wraps
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

OPTION = "--profile"
Run = Callable[[Sequence[str]], int]

PYTHON, IMPORTS, REST, EXIT = "python", "imports", "the rest", "exit"
WAYPOINTS = {
    "ask.settings": {"read_config": "config", "resolve": "config"},
    "ask.api_keys": {"KeyStore.find": "config", "KeyStore.stored": "config"},
    "ask.plugin_api.loader": {"find_claims": "plugin", "load_provider": "plugin"},
    "ask.history.store": {"Store.__init__": "history open"},
    "ask.history.conversations": {"continuation": "history read", "newest_here": "history read"},
    "urllib3.connection": {"HTTPConnection.connect": "connect", "HTTPSConnection.connect": "connect"},
    "ask.client.transport": {"Transport.send": "first byte", "Reply.is_stream": "first byte"},
    "ask.client.provider_client": {"Exchange._read_stream": "stream"},
    "ask.render.plain": {"PlainRenderer.show": "show"},
    "ask.render.terminal": {"TerminalRenderer.show": "show"},
    "ask.render.json_output": {"JsonRenderer.show": "show"},
    "ask.agent.tool_runner": {"CallRunner.carry_out": "tools"},
    "ask.history.recorder": {"Recorder.begin": "save", "Recorder.show": "save", "Recorder.end": "save"},
}
"""The functions that are timed, by module, each with the phase that it belongs to."""
PHASES = tuple(
    dict.fromkeys([PYTHON, IMPORTS, *(p for names in WAYPOINTS.values() for p in names.values()), REST, EXIT])
)
"""What time is told of, in the order in which it comes about."""
PACKAGES_TOLD = 8


class Clock:
    """Gives every moment of the main thread to one phase: the one that began last and goes on."""

    def __init__(self) -> None:
        self.phases: defaultdict[str, float] = defaultdict(float)
        self.packages: defaultdict[str, float] = defaultdict(float)
        """Of the imports, by package."""
        self._since = time.perf_counter()
        self._open = [(REST, "")]
        self._thread = threading.get_ident()

    def timed(self, work: Callable[..., Any], phase: str, package: str = "") -> Callable[..., Any]:
        """The same work, its time given to that phase."""

        @wraps(work)
        def run(*args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() != self._thread:
                return work(*args, **kwargs)
            self._turn()
            self._open.append((phase, package))
            try:
                return work(*args, **kwargs)
            finally:
                self._turn()
                self._open.pop()

        return run

    def _turn(self) -> None:
        now = time.perf_counter()
        phase, package = self._open[-1]
        self.phases[phase] += now - self._since
        if package:
            self.packages[package] += now - self._since
        self._since = now

    def read(self) -> dict[str, Any]:
        """What was counted, in seconds, and the moment at which."""
        self._turn()
        return {"phases": self.phases, "packages": self.packages, "ended": self._since}


class TimedImports:
    """Stands before the finders of modules: times what they find being loaded, and wraps the waypoints in it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._find = clock.timed(self._ask_the_others, IMPORTS)

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> Any:
        """What the others find, with a loader that is timed."""
        spec: ModuleSpec | None = self._find(name, path, target)
        loader = spec.loader if spec else None
        if loader is not None and not isinstance(loader, type):  # a class loads what is part of Python itself
            package = name.partition(".")[0]
            create, execute = loader.create_module, loader.exec_module

            def execute_and_wrap(module: ModuleType) -> None:
                execute(module)
                for function, phase in WAYPOINTS.get(name, {}).items():
                    self._wrap(module, function, phase)

            vars(loader)["create_module"] = self._clock.timed(create, IMPORTS, package)
            vars(loader)["exec_module"] = self._clock.timed(execute_and_wrap, IMPORTS, package)
        return spec

    def _ask_the_others(self, name: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
        others = (finder for finder in sys.meta_path if finder is not self)
        return next(filter(None, (finder.find_spec(name, path, target) for finder in others)), None)

    def _wrap(self, module: ModuleType, function: str, phase: str) -> None:
        owner: Any = module
        *classes, name = function.split(".")
        for one in classes:
            owner = getattr(owner, one)
        setattr(owner, name, self._clock.timed(getattr(owner, name), phase))


def profiled(arguments: Sequence[str], run: Run) -> int:
    """Run a command line whose first argument asks for this; return its exit code.

    Raises:
        UsageError: the file has no name.
        FileError: it cannot be written.
    """
    asked, *rest = arguments
    if asked == OPTION:
        return in_phases(rest, run)
    return function_by_function(asked.removeprefix(f"{OPTION}="), rest, run)


def function_by_function(file: str, arguments: Sequence[str], run: Run) -> int:
    """Time every function, which makes all of them slower; for the standard library's pstats to read.

    Raises:
        UsageError: the file has no name.
        FileError: it cannot be written.
    """
    from cProfile import Profile

    from ask.errors import FileError, UsageError

    if not file:
        raise UsageError(f"{OPTION}= names no file", f"use {OPTION}=FILE, or {OPTION} alone")
    profile = Profile()
    try:
        return profile.runcall(run, arguments)
    finally:
        try:
            profile.dump_stats(file)
        except OSError as fault:
            raise FileError(f"cannot write {file} ({fault.strerror})") from fault
        say([f"ask: python -m pstats {file} reads where the time went"])


def in_phases(arguments: Sequence[str], run: Run) -> int:
    """Time the parts of a run, and tell of them when it is over."""
    import json

    before, started = time.process_time(), time.perf_counter()
    told, tell = os.pipe()
    child = os.fork()
    if not child:
        clock = Clock()
        sys.meta_path.insert(0, TimedImports(clock))
        try:
            return run(arguments)
        finally:
            os.write(tell, json.dumps(clock.read()).encode())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the child hears it too
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda heard, _: os.kill(child, heard))
    os.close(tell)
    _, status = os.waitpid(child, 0)
    ended = time.perf_counter()
    os.set_blocking(told, False)
    said = os.read(told, 65536) if os.WIFEXITED(status) else b""
    if said:
        counted = json.loads(said)
        phases = {**counted["phases"], PYTHON: before, EXIT: ended - counted["ended"]}
        say(lines(before + ended - started, phases, counted["packages"]))
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def lines(whole: float, phases: dict[str, float], packages: dict[str, float]) -> list[str]:
    """What is told, in milliseconds."""
    slowest = sorted(packages.items(), key=lambda one: -one[1])[:PACKAGES_TOLD]
    notes = {
        PYTHON: "its own start, as processor time",
        IMPORTS: ", ".join(f"{name} {seconds * 1000:.0f}" for name, seconds in slowest),
        "stream": "the wait for more included",
    }
    width = max(map(len, PHASES))
    rows = (
        f"  {phase:{width}} {phases[phase] * 1000:7.1f}  {notes.get(phase, '')}".rstrip()
        for phase in filter(phases.__contains__, PHASES)
    )
    return [f"ask: {whole * 1000:.0f} ms, of these", *rows]


def say(told: Sequence[str]) -> None:
    """Write lines to standard error, if there is one."""
    if sys.stderr is not None:
        sys.stderr.write("".join(f"{line}\n" for line in told))
        sys.stderr.flush()
