"""Timing of a run: `--profile` prints the time per phase to stderr, `--profile=FILE` writes a file for pstats.

Functions are wrapped while their modules are imported, so no other module needs to know about profiling. The run takes
place in a child process, so that its exit is timed too.
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
    "ask.plugin_api.loader": {"find_plugins": "plugin", "load_provider": "plugin"},
    "ask.history.store": {"Store.__init__": "history open"},
    "ask.history.conversations": {"load_conversation": "history read", "find_current_conversation": "history read"},
    "urllib3.connection": {"HTTPConnection.connect": "connect", "HTTPSConnection.connect": "connect"},
    "ask.client.transport": {"Transport.send": "first byte", "HttpResponse.is_stream": "first byte"},
    "ask.client.provider_client": {"ProviderClient._read_stream": "stream"},
    "ask.render.plain": {"PlainRenderer.show": "show"},
    "ask.render.terminal": {"TerminalRenderer.show": "show"},
    "ask.render.json_events": {"JsonRenderer.show": "show"},
    "ask.agent.tool_runner": {"ToolRunner.execute": "tools"},
    "ask.history.recorder": {"Recorder.begin": "save", "Recorder.on_event": "save", "Recorder.end": "save"},
}
"""The timed functions of each module, with the phase that they belong to."""
PHASES = tuple(
    dict.fromkeys([PYTHON, IMPORTS, *(p for names in TIMED_FUNCTIONS.values() for p in names.values()), OTHER, EXIT])
)
"""All phases, in the order in which they are reported."""
MAX_PACKAGES = 8


class PhaseTimer:
    """Attributes the time of the main thread to the innermost active phase."""

    def __init__(self) -> None:
        self.phases: defaultdict[str, float] = defaultdict(float)
        self.packages: defaultdict[str, float] = defaultdict(float)
        """Import time by package."""
        self._last_switch = time.perf_counter()
        self._phase_stack = [(OTHER, "")]
        self._thread_id = threading.get_ident()

    def time_function(self, function: Callable[..., Any], phase: str, package: str = "") -> Callable[..., Any]:
        """Wrap a function so that its time counts for a phase."""

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
        """Return the seconds counted so far and the time of the last count."""
        self._add_elapsed()
        return {"phases": self.phases, "packages": self.packages, "ended": self._last_switch}


class TimingFinder:
    """A `sys.meta_path` finder that times module loading and wraps `TIMED_FUNCTIONS`.

    It comes first and delegates to the other finders.
    """

    def __init__(self, clock: PhaseTimer) -> None:
        self._clock = clock
        self._timed_find_spec = clock.time_function(self._delegate_find_spec, IMPORTS)

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> Any:
        """Return the spec that the other finders find, with a timed loader."""
        spec: ModuleSpec | None = self._timed_find_spec(name, path, target)
        loader = spec.loader if spec else None
        if loader is not None and not isinstance(loader, type):  # built-in and frozen modules have a class as loader
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
        finders = (finder for finder in sys.meta_path if finder is not self)
        return next(filter(None, (finder.find_spec(name, path, target) for finder in finders)), None)

    def _wrap_function(self, module: ModuleType, function_name: str, phase: str) -> None:
        owner: Any = module
        *class_names, name = function_name.split(".")
        for class_name in class_names:
            owner = getattr(owner, class_name)
        setattr(owner, name, self._clock.time_function(getattr(owner, name), phase))


def run_profiled(arguments: Sequence[str], run: CommandRunner) -> int:
    """Run a command line that begins with a profile option; return its exit code.

    Raises:
        UsageError: the file name is empty.
        FileError: the file cannot be written.
    """
    option, *rest = arguments
    if option == PROFILE_OPTION:
        return run_with_phase_timing(rest, run)
    return run_with_cprofile(option.removeprefix(f"{PROFILE_OPTION}="), rest, run)


def run_with_cprofile(file: str, arguments: Sequence[str], run: CommandRunner) -> int:
    """Run a command line under cProfile, which slows down every function call.

    Raises:
        UsageError: the file name is empty.
        FileError: the file cannot be written.
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
        except OSError as error:
            raise FileError(f"cannot write {file} ({error.strerror})") from error
        print_to_stderr([f"ask: python -m pstats {file} reads where the time went"])


def run_with_phase_timing(arguments: Sequence[str], run: CommandRunner) -> int:
    """Run a command line in a child process and print the time per phase afterwards."""
    import json

    python_start, start = time.process_time(), time.perf_counter()
    read_end, write_end = os.pipe()
    child = os.fork()
    if not child:
        timer = PhaseTimer()
        sys.meta_path.insert(0, TimingFinder(timer))
        try:
            return run(arguments)
        finally:
            os.write(write_end, json.dumps(timer.read_totals()).encode())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the child gets it too
    for signal_number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(signal_number, lambda received, _: os.kill(child, received))
    os.close(write_end)
    _, status = os.waitpid(child, 0)
    end = time.perf_counter()
    os.set_blocking(read_end, False)
    report = os.read(read_end, 65536) if os.WIFEXITED(status) else b""
    if report:
        totals = json.loads(report)
        phases = {**totals["phases"], PYTHON: python_start, EXIT: end - totals["ended"]}
        print_to_stderr(format_report(python_start + end - start, phases, totals["packages"]))
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def format_report(total: float, phases: dict[str, float], packages: dict[str, float]) -> list[str]:
    """Format the time per phase in milliseconds, one line each."""
    slowest = sorted(packages.items(), key=lambda item: -item[1])[:MAX_PACKAGES]
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
    if sys.stderr is not None:
        sys.stderr.write("".join(f"{line}\n" for line in report_lines))
        sys.stderr.flush()
