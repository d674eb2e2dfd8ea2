"""Timing of a run: `--profile` prints the time per phase to stderr, `--profile=FILE` writes a file for pstats.

Functions are wrapped when their modules are first imported, so no other module needs to know about profiling.
"""

from __future__ import annotations

import builtins
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import wraps
from operator import attrgetter
from typing import Any

PROFILE_OPTION = "--profile"
CommandRunner = Callable[[Sequence[str]], int]

PYTHON, IMPORTS, OTHER = "python", "imports", "the rest"
TIMED_FUNCTIONS = {
    "ask.settings": {"read_config": "config", "resolve_settings": "config"},
    "ask.secrets": {"KeyStore.find": "config", "KeyStore.read_saved_keys": "config"},
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
    dict.fromkeys([PYTHON, IMPORTS, *(p for names in TIMED_FUNCTIONS.values() for p in names.values()), OTHER])
)
"""All phases, in the order in which they are reported."""
MAX_PACKAGES = 8


class PhaseTimer:
    """Attributes the time of the main thread to the innermost active phase."""

    def __init__(self) -> None:
        self.phases = defaultdict(float, {PYTHON: time.process_time()})
        self.packages: defaultdict[str, float] = defaultdict(float)
        """Import time by package."""
        self._last_switch = time.perf_counter()
        self._active_phases = [(OTHER, "")]
        self._untimed_modules = set(TIMED_FUNCTIONS)
        self._import_module = builtins.__import__

    def time_imports(self) -> None:
        """Time all imports from now on, and `TIMED_FUNCTIONS` as soon as their modules are loaded."""

        def timed_import(name: str, *args: Any, **kwargs: Any) -> Any:
            is_relative = len(args) == 4 and args[3]  # globals, locals, fromlist, level
            package = (args[0]["__package__"] if is_relative else name).partition(".")[0]
            try:
                return self._call(self._import_module, IMPORTS, package, name, *args, **kwargs)
            finally:
                for module_name in self._untimed_modules & sys.modules.keys():
                    self._wrap_functions(module_name)

        builtins.__import__ = timed_import

    def _wrap_functions(self, module_name: str) -> None:
        module = sys.modules[module_name]
        if getattr(module.__spec__, "_initializing", False):
            return
        self._untimed_modules.discard(module_name)
        for path, phase in TIMED_FUNCTIONS[module_name].items():
            owner_name, _, name = path.rpartition(".")
            owner = attrgetter(owner_name)(module) if owner_name else module
            setattr(owner, name, self._time_function(getattr(owner, name), phase))

    def _time_function(self, function: Callable[..., Any], phase: str) -> Callable[..., Any]:
        @wraps(function)
        def timed_function(*args: Any, **kwargs: Any) -> Any:
            return self._call(function, phase, "", *args, **kwargs)

        return timed_function

    def _call(self, function: Callable[..., Any], phase: str, package: str, *args: Any, **kwargs: Any) -> Any:
        if threading.current_thread() is not threading.main_thread():
            return function(*args, **kwargs)
        self._add_elapsed()
        self._active_phases.append((phase, package))
        try:
            return function(*args, **kwargs)
        finally:
            self._add_elapsed()
            self._active_phases.pop()

    def _add_elapsed(self) -> None:
        now = time.perf_counter()
        phase, package = self._active_phases[-1]
        self.phases[phase] += now - self._last_switch
        if package:
            self.packages[package] += now - self._last_switch
        self._last_switch = now

    def format_report(self) -> str:
        """Format the time per phase in milliseconds, one line each."""
        self._add_elapsed()
        slowest = sorted(self.packages.items(), key=lambda item: -item[1])[:MAX_PACKAGES]
        notes = {
            PYTHON: "starting Python (CPU time)",
            IMPORTS: ", ".join(f"{name} {seconds * 1000:.0f}" for name, seconds in slowest),
            "stream": "including the wait for more",
        }
        width = max(map(len, PHASES))
        rows = (
            f"  {phase:{width}} {self.phases[phase] * 1000:7.1f}  {notes.get(phase, '')}".rstrip()
            for phase in filter(self.phases.__contains__, PHASES)
        )
        return "\n".join((f"ask: {sum(self.phases.values()) * 1000:.0f} ms, of these", *rows, ""))


def run_profiled(arguments: Sequence[str], run: CommandRunner) -> int:
    """Run a command line that begins with a profile option; return its exit code."""
    _, equals, file = arguments[0].partition("=")
    if equals:
        return run_with_cprofile(file, arguments[1:], run)
    timer = PhaseTimer()
    timer.time_imports()
    try:
        return run(arguments[1:])
    finally:
        sys.stderr.write(timer.format_report())


def run_with_cprofile(file: str, arguments: Sequence[str], run: CommandRunner) -> int:
    """Run a command line under cProfile, which slows down every function call.

    Raises:
        UsageError: the file name is empty.
        FileError: the file cannot be written.
    """
    from cProfile import Profile

    from ask.errors import FileError, UsageError

    if not file:
        raise UsageError(f"{PROFILE_OPTION}= needs a file", f"use {PROFILE_OPTION}=FILE, or {PROFILE_OPTION} alone")
    profile = Profile()
    try:
        return profile.runcall(run, arguments)
    finally:
        try:
            profile.dump_stats(file)
        except OSError as error:
            raise FileError(f"cannot write {file} ({error.strerror})") from error
        sys.stderr.write(f"ask: python -m pstats {file} shows the profile\n")
