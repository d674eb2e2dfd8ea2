"""The tools of a plugin or of a tool file; each call runs in the plugin's own process.

The process keeps running, so that modules keep their state between calls. If a call kills it or times out, the next
call starts a new one.
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
    """An error that prevents a plugin from loading."""


class PluginEnvironment(NamedTuple):
    """The working directory and environment of a plugin's process, and the seconds that it may take to load."""

    directory: Path
    environment: Mapping[str, str]
    load_timeout: float


class ToolPlugin:
    """A plugin with tools. Its process starts at once; `load_tools` waits until it has loaded.

    Args:
        origin: The plugin's name as shown to the user.
        targets: The fields of each `loader.ToolTarget`.
        plugin_environment: Working directory, environment and load timeout of its process.
        extra_import_path: Folders to search for modules after `sys.path`.

    Raises:
        PluginLoadError: The process cannot be started.
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
        """Load the plugin and return its tools.

        Raises:
            PluginLoadError: It cannot be loaded.
        """
        assert self._process, "it was started"  # noqa: S101
        try:
            reply = self._initialize_worker(self._process)
        except BaseException:
            self.close(immediately=True)
            raise
        return [self._create_tool(*as_list(row)) for row in as_list(reply.get("tools"))]

    def close(self, *, immediately: bool = False) -> None:
        """End the process; `immediately` kills it without time to exit by itself."""
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
        except OSError as error:
            raise PluginLoadError(f"no process can be started ({error.strerror})") from error

    def _initialize_worker(self, process: PluginProcess) -> dict[str, Any]:
        """Load the plugin in its process; return its reply with the tools.

        Raises:
            PluginLoadError: It cannot be loaded.
        """
        start = {"path": self._import_path, "targets": self._targets}
        deadline = self._start_time + self._plugin_environment.load_timeout
        try:
            for kind, payload in process.exchange_frames(START, start, deadline, lambda _: None):
                reply = as_dict(json.loads(payload)) if kind == READY else {}
                if reply.get("problem") or not reply:
                    raise PluginLoadError(str(reply.get("problem") or "it says what makes no sense"))
                return reply
        except WorkerDiedError as error:
            raise PluginLoadError(f"its process ended ({error})") from None
        except WorkerTimeoutError:
            raise PluginLoadError(f"it is not loaded after {self._plugin_environment.load_timeout:g} s") from None
        raise PluginLoadError("it says nothing")

    def _run_tool(self, tool_name: str, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Run a tool in the process.

        Raises:
            ToolError: It failed, took too long, or the process died.
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
            redactor = context.redactor.open_stream()

            def report_output(text: str) -> None:
                if output := redactor.feed(text):
                    context.on_output(output)

            deadline = time.monotonic() + context.command_timeout
            result = self._read_result(process.exchange_frames(CALL, call, deadline, report_output), capture, context)
            process.drain_output(report_output)
            if output := redactor.finish():
                context.on_output(output)
            text = capture.truncate(MAX_RESULT_LENGTH)
        if result.get("error"):
            raise ToolError(text)
        status = result.get("exit_status")
        return ToolResult(text, result.get("failed") is True, status if type(status) is int else None)

    def _restart_process(self) -> PluginProcess:
        """Start a new process and load the plugin.

        Raises:
            ToolError: That failed.
        """
        try:
            self._start_time = time.monotonic()
            self._process = self._start_process()
            self._initialize_worker(self._process)
        except PluginLoadError as error:
            self.close(immediately=True)
            raise ToolError(f"nothing was run: {error}") from None
        except BaseException:
            self.close(immediately=True)
            raise
        return self._process

    @contextmanager
    def _open_capture(self, context: ToolContext) -> Iterator[OutputCapture]:
        """Yield a capture for the result of a call.

        Any error kills the process and deletes the overflow file.
        """
        capture = OutputCapture(context.spill_directory, "result")
        try:
            yield capture
        except BaseException as error:
            capture.discard()
            self.close(immediately=True)
            if isinstance(error, WorkerTimeoutError):
                seconds = f"{context.command_timeout:g} s"
                raise ToolError(f"stopped after {seconds}, with all that it had started. {RESTART_NOTE}") from None
            if isinstance(error, WorkerDiedError):
                raise ToolError(f"its process ended during the call ({error}). {RESTART_NOTE}") from None
            raise

    def _read_result(
        self, replies: Iterator[tuple[bytes, bytes]], capture: OutputCapture, context: ToolContext
    ) -> dict[str, Any]:
        """Capture the text of a result; return the fields that follow it."""
        redactor = context.redactor.open_stream()
        for kind, payload in replies:
            if kind == TEXT:
                capture.feed(redactor.feed(payload.decode("utf-8", "replace")))
            elif kind == DONE:
                capture.feed(redactor.finish())
                try:
                    return as_dict(json.loads(payload))
                except (ValueError, RecursionError):
                    break
            else:
                break
        raise WorkerDiedError("it says what makes no sense")
