"""A plugin, or a file of tools, as a run has it: its tools, each of whose calls goes to the plugin's own process.

The process stays, so that a module keeps what it holds between two calls. After one that it did not survive, or did
not answer in time, the next call finds a new one.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from ask.messages import ToolSpec
from ask.parsing import as_dict, as_list
from ask.tools.base import Tool, ToolContext, ToolError, ToolResult
from ask.tools.output_limits import MAX_RESULT_LENGTH, OutputCapture
from ask.tools.plugins.process import PluginProcess
from ask.worker_channel import CALL, DONE, READY, START, TEXT, WorkerDiedError, WorkerTimeoutError

RESTART_NOTE = "What it held in memory is gone; the next call starts it anew"


class PluginLoadError(Exception):
    """A plugin that cannot be loaded, and why."""


class PluginEnvironment(NamedTuple):
    """What is around a plugin's process: where it starts, its environment, and seconds that it may take to load."""

    directory: Path
    environment: Mapping[str, str]
    load_timeout: float


class ToolPlugin:
    """Where tools come from. Its process starts at once; `load_tools` waits for what it tells of them.

    Args:
        origin: what the user knows it by.
        targets: the fields of each `loading.Target`.
        around: what its process has.
        further_path: folders in which modules are looked for last.

    Raises:
        Broken: no process can be started.
    """

    def __init__(
        self,
        origin: str,
        targets: Sequence[tuple[str, str, bool]],
        plugin_environment: PluginEnvironment,
        extra_import_path: Sequence[str] = (),
    ) -> None:
        self.origin = origin
        self._import_path = [*sys.path, *extra_import_path]
        self._targets = targets
        self._plugin_environment = plugin_environment
        self._process: PluginProcess | None = None
        self._start_time = time.monotonic()
        self._process = self._start_process()

    def load_tools(self) -> list[Tool]:
        """Its tools.

        Raises:
            Broken: it does not load.
        """
        assert self._process, "it was started"  # noqa: S101
        try:
            told = self._initialize_worker(self._process)
        except BaseException:
            self.close(immediately=True)
            raise
        return [self._create_tool(*as_list(row)) for row in as_list(told.get("tools"))]

    def close(self, *, immediately: bool = False) -> None:
        """End its process; `immediately` without giving it time to end by itself."""
        process, self._process = self._process, None
        if process is not None:
            (process.kill if immediately else process.shut_down)()

    def _create_tool(self, name: str, description: str, parameters: Mapping[str, Any], changes: bool) -> Tool:
        def run(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
            return self._run_tool(name, arguments, context)

        return Tool(ToolSpec(name, description, parameters), run, changes, self.origin)

    def _start_process(self) -> PluginProcess:
        try:
            return PluginProcess(self._plugin_environment.directory, self._plugin_environment.environment)
        except OSError as fault:
            raise PluginLoadError(f"no process can be started ({fault.strerror})") from fault

    def _initialize_worker(self, process: PluginProcess) -> dict[str, Any]:
        """Have the plugin loaded; what it tells of its tools.

        Raises:
            Broken: it does not load.
        """
        start = {"path": self._import_path, "targets": self._targets}
        deadline = self._start_time + self._plugin_environment.load_timeout
        try:
            for kind, payload in process.exchange_frames(START, start, deadline, lambda _: None):
                told = as_dict(json.loads(payload)) if kind == READY else {}
                if told.get("problem") or not told:
                    raise PluginLoadError(str(told.get("problem") or "it says what makes no sense"))
                return told
        except WorkerDiedError as lost:
            raise PluginLoadError(f"its process ended ({lost})") from None
        except WorkerTimeoutError:
            raise PluginLoadError(f"it is not loaded after {self._plugin_environment.load_timeout:g} s") from None
        raise PluginLoadError("it says nothing")

    def _run_tool(self, tool_name: str, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Carry out a call.

        Raises:
            ToolError: it failed, took too long, or the process is no more.
        """
        process = self._process or self._restart_process()
        call = {
            "tool": tool_name,
            "arguments": arguments,
            "directory": str(context.directory),
            "timeout": context.command_timeout,
            "spill": str(context.spill_directory),
            "hosts": None if context.restrict_hosts is None else sorted(context.restrict_hosts),
        }
        with self._open_capture(context) as capture:
            redacted = context.redactor.open_stream()

            def report_output(text: str) -> None:
                if told := redacted.feed(text):
                    context.on_output(told)

            deadline = time.monotonic() + context.command_timeout
            rest = self._read_result(process.exchange_frames(CALL, call, deadline, report_output), capture, context)
            process.drain_output(report_output)
            if told := redacted.finish():
                context.on_output(told)
            text = capture.truncate(MAX_RESULT_LENGTH)
        if rest.get("error"):
            raise ToolError(text)
        status = rest.get("exit_status")
        return ToolResult(text, rest.get("failed") is True, status if type(status) is int else None)

    def _restart_process(self) -> PluginProcess:
        """A new process, the plugin loaded.

        Raises:
            ToolError: there can be none.
        """
        try:
            self._start_time = time.monotonic()
            self._process = self._start_process()
            self._initialize_worker(self._process)
        except PluginLoadError as fault:
            self.close(immediately=True)
            raise ToolError(f"nothing was run: {fault}") from None
        except BaseException:
            self.close(immediately=True)
            raise
        return self._process

    @contextmanager
    def _open_capture(self, context: ToolContext) -> Iterator[OutputCapture]:
        """What gathers the result of a call; whatever goes wrong ends the process, and no file is left of it."""
        capture = OutputCapture(context.spill_directory, "result")
        try:
            yield capture
        except BaseException as fault:
            capture.discard()
            self.close(immediately=True)
            if isinstance(fault, WorkerTimeoutError):
                seconds = f"{context.command_timeout:g} s"
                raise ToolError(f"stopped after {seconds}, with all that it had started. {RESTART_NOTE}") from None
            if isinstance(fault, WorkerDiedError):
                raise ToolError(f"its process ended during the call ({fault}). {RESTART_NOTE}") from None
            raise

    def _read_result(
        self, replies: Iterator[tuple[bytes, bytes]], capture: OutputCapture, context: ToolContext
    ) -> dict[str, Any]:
        """Gather the text of a result; what is told beside it."""
        redacted = context.redactor.open_stream()
        for kind, payload in replies:
            if kind == TEXT:
                capture.feed(redacted.feed(payload.decode("utf-8", "replace")))
            elif kind == DONE:
                capture.feed(redacted.finish())
                try:
                    return as_dict(json.loads(payload))
                except (ValueError, RecursionError):
                    break
            else:
                break
        raise WorkerDiedError("it says what makes no sense")
