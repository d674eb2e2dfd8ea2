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

PROFILE_OPTION = "--profile"
CommandRunner = Callable[[Sequence[str]], int]

PYTHON, IMPORTS, OTHER, EXIT = "python", "imports", "the rest", "exit"
TIMED_FUNCTIONS = {
    "ask.settings": {"read_config": "config", "resolve_settings": "config"},
    "ask.api_keys": {"KeyStore.find": "config", "KeyStore.read_saved_keys": "config"},
    "ask.plugin_api.loader": {"find_provider_entries": "plugin", "load_provider": "plugin"},
    "ask.history.store": {"Store.__init__": "history open"},
    "ask.history.conversations": {"load_conversation": "history read", "find_current_conversation": "history read"},
    "urllib3.connection": {"HTTPConnection.connect": "connect", "HTTPSConnection.connect": "connect"},
    "ask.client.transport": {"Transport.send": "first byte", "HttpResponse.is_stream": "first byte"},
    "ask.client.provider_client": {"ProviderClient._read_stream": "stream"},
    "ask.render.plain": {"PlainRenderer.show": "show"},
    "ask.render.terminal": {"TerminalRenderer.show": "show"},
    "ask.render.json_output": {"JsonRenderer.show": "show"},
    "ask.agent.tool_runner": {"ToolRunner.execute": "tools"},
    "ask.history.recorder": {"Recorder.begin": "save", "Recorder.on_event": "save", "Recorder.end": "save"},
}
"""The functions that are timed, by module, each with the phase that it belongs to."""
PHASES = tuple(
    dict.fromkeys([PYTHON, IMPORTS, *(p for names in TIMED_FUNCTIONS.values() for p in names.values()), OTHER, EXIT])
)
"""What time is told of, in the order in which it comes about."""
MAX_PACKAGES = 8


class PhaseTimer:
    """Gives every moment of the main thread to one phase: the one that began last and goes on."""

    def __init__(self) -> None:
        self.phases: defaultdict[str, float] = defaultdict(float)
        self.packages: defaultdict[str, float] = defaultdict(float)
        """Of the imports, by package."""
        self._last_switch = time.perf_counter()
        self._phase_stack = [(OTHER, "")]
        self._thread_id = threading.get_ident()

    def time_function(self, function: Callable[..., Any], phase: str, package: str = "") -> Callable[..., Any]:
        """The same work, its time given to that phase."""

        @wraps(function)
        def timed_function(*args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() != self._thread_id:
                return function(*args, **kwargs)
            self._add_elapsed()
            self._phase_stack.append((phase, package))
            try:
                return function(*args, **kwargs)
            finally:
                self._add_elapsed()
                self._phase_stack.pop()

        return timed_function

    def _add_elapsed(self) -> None:
        now = time.perf_counter()
        phase, package = self._phase_stack[-1]
        self.phases[phase] += now - self._last_switch
        if package:
            self.packages[package] += now - self._last_switch
        self._last_switch = now

    def read_totals(self) -> dict[str, Any]:
        """What was counted, in seconds, and the moment at which."""
        self._add_elapsed()
        return {"phases": self.phases, "packages": self.packages, "ended": self._last_switch}


class TimingFinder:
    """Stands before the finders of modules: times what they find being loaded, and wraps the waypoints in it."""

    def __init__(self, clock: PhaseTimer) -> None:
        self._clock = clock
        self._timed_find_spec = clock.time_function(self._delegate_find_spec, IMPORTS)

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> Any:
        """What the others find, with a loader that is timed."""
        spec: ModuleSpec | None = self._timed_find_spec(name, path, target)
        loader = spec.loader if spec else None
        if loader is not None and not isinstance(loader, type):  # a class loads what is part of Python itself
            package = name.partition(".")[0]
            create, execute = loader.create_module, loader.exec_module

            def execute_and_wrap(module: ModuleType) -> None:
                execute(module)
                for function, phase in TIMED_FUNCTIONS.get(name, {}).items():
                    self._wrap_function(module, function, phase)

            vars(loader)["create_module"] = self._clock.time_function(create, IMPORTS, package)
            vars(loader)["exec_module"] = self._clock.time_function(execute_and_wrap, IMPORTS, package)
        return spec

    def _delegate_find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> ModuleSpec | None:
        others = (finder for finder in sys.meta_path if finder is not self)
        return next(filter(None, (finder.find_spec(name, path, target) for finder in others)), None)

    def _wrap_function(self, module: ModuleType, function_name: str, phase: str) -> None:
        owner: Any = module
        *classes, name = function_name.split(".")
        for one in classes:
            owner = getattr(owner, one)
        setattr(owner, name, self._clock.time_function(getattr(owner, name), phase))


def run_profiled(arguments: Sequence[str], run: CommandRunner) -> int:
    """Run a command line whose first argument asks for this; return its exit code.

    Raises:
        UsageError: the file has no name.
        FileError: it cannot be written.
    """
    asked, *rest = arguments
    if asked == PROFILE_OPTION:
        return run_with_phase_timing(rest, run)
    return run_with_cprofile(asked.removeprefix(f"{PROFILE_OPTION}="), rest, run)


def run_with_cprofile(file: str, arguments: Sequence[str], run: CommandRunner) -> int:
    """Time every function, which makes all of them slower; for the standard library's pstats to read.

    Raises:
        UsageError: the file has no name.
        FileError: it cannot be written.
    """
    from cProfile import Profile

    from ask.errors import FileError, UsageError

    if not file:
        raise UsageError(f"{PROFILE_OPTION}= names no file", f"use {PROFILE_OPTION}=FILE, or {PROFILE_OPTION} alone")
    profile = Profile()
    try:
        return profile.runcall(run, arguments)
    finally:
        try:
            profile.dump_stats(file)
        except OSError as fault:
            raise FileError(f"cannot write {file} ({fault.strerror})") from fault
        print_to_stderr([f"ask: python -m pstats {file} reads where the time went"])


def run_with_phase_timing(arguments: Sequence[str], run: CommandRunner) -> int:
    """Time the parts of a run, and tell of them when it is over."""
    import json

    before, started = time.process_time(), time.perf_counter()
    told, tell = os.pipe()
    child = os.fork()
    if not child:
        clock = PhaseTimer()
        sys.meta_path.insert(0, TimingFinder(clock))
        try:
            return run(arguments)
        finally:
            os.write(tell, json.dumps(clock.read_totals()).encode())
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
        print_to_stderr(format_report(before + ended - started, phases, counted["packages"]))
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def format_report(total: float, phases: dict[str, float], packages: dict[str, float]) -> list[str]:
    """What is told, in milliseconds."""
    slowest = sorted(packages.items(), key=lambda one: -one[1])[:MAX_PACKAGES]
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
    return [f"ask: {total * 1000:.0f} ms, of these", *rows]


def print_to_stderr(report_lines: Sequence[str]) -> None:
    """Write lines to standard error, if there is one."""
    if sys.stderr is not None:
        sys.stderr.write("".join(f"{line}\n" for line in report_lines))
        sys.stderr.flush()
