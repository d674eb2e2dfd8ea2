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
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

from ask.messages import ToolSpec
from ask.tools.base import Tool, ToolContext, ToolError, ToolResult
from ask.tools.plugins.process import PluginProcess
from ask.worker_channel import CALL, START, WorkerDiedError, WorkerTimeoutError

RESTART_NOTE = "Its state in memory is lost; the next call starts it again"


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
        self._start_process()

    def load_tools(self) -> list[Tool]:
        """Load the plugin and return its tools.

        Raises:
            PluginLoadError: It cannot be loaded.
        """
        assert self._process, "it was started"  # noqa: S101
        with self._kill_on_error():
            return [self._create_tool(*row) for row in self._initialize_worker(self._process)]

    def close(self, *, immediately: bool = False) -> None:
        """End the process; `immediately` kills it without time to exit by itself."""
        process, self._process = self._process, None
        if process is not None:
            (process.kill if immediately else process.shut_down)()

    def _create_tool(self, name: str, description: str, parameters: Mapping[str, Any], has_side_effects: bool) -> Tool:
        return Tool(
            ToolSpec(name, description, parameters), partial(self._run_tool, name), has_side_effects, self.origin
        )

    def _start_process(self) -> PluginProcess:
        self._load_deadline = time.monotonic() + self._plugin_environment.load_timeout
        try:
            self._process = PluginProcess(self._plugin_environment.directory, self._plugin_environment.environment)
        except OSError as error:
            raise PluginLoadError(f"cannot start a process ({error.strerror})") from error
        return self._process

    @contextmanager
    def _kill_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.close(immediately=True)
            raise

    def _initialize_worker(self, process: PluginProcess) -> Sequence[Sequence[Any]]:
        """Load the plugin in its process; return the arguments of `_create_tool` for each tool.

        Raises:
            PluginLoadError: It cannot be loaded.
        """
        start = {"path": self._import_path, "targets": self._targets}
        try:
            _, payload = next(process.exchange_frames(START, start, self._load_deadline, lambda _: None))
        except WorkerDiedError as error:
            raise PluginLoadError(f"its process ended ({error})") from None
        except WorkerTimeoutError:
            raise PluginLoadError(f"it did not load within {self._plugin_environment.load_timeout:g} s") from None
        reply = json.loads(payload)
        if reply["problem"]:
            raise PluginLoadError(reply["problem"])
        return cast("Sequence[Sequence[Any]]", reply["tools"])

    def _run_tool(self, tool_name: str, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Run a tool in the process, which is started again if the last call has ended it.

        Raises:
            ToolError: It failed, took too long, or the process died.
        """
        try:
            with self._kill_on_error():
                process = self._process
                if process is None:
                    process = self._start_process()
                    self._initialize_worker(process)
                outcome = self._exchange_call(process, tool_name, arguments, context)
        except PluginLoadError as error:
            raise ToolError(f"nothing was run: {error}") from None
        except WorkerTimeoutError:
            seconds = f"{context.command_timeout:g} s"
            raise ToolError(
                f"timed out after {seconds}; the tool and its children were killed. {RESTART_NOTE}"
            ) from None
        except WorkerDiedError as error:
            raise ToolError(f"its process ended during the call ({error}). {RESTART_NOTE}") from None
        text = context.redactor.redact(outcome["text"])
        if outcome.get("is_error"):
            raise ToolError(text)
        return ToolResult(text, outcome["failed"], outcome["exit_status"])

    def _exchange_call(
        self, process: PluginProcess, tool_name: str, arguments: Mapping[str, Any], context: ToolContext
    ) -> dict[str, Any]:
        call = {
            "tool": tool_name,
            "arguments": arguments,
            "directory": str(context.directory),
            "timeout": context.command_timeout,
            "spill": str(context.overflow_directory),
            "hosts": None if context.restrict_hosts is None else sorted(context.restrict_hosts),
        }
        redactor = context.redactor.open_stream()

        def report_output(text: str) -> None:
            if output := redactor.feed(text):
                context.on_output(output)

        deadline = time.monotonic() + context.command_timeout
        _, payload = next(process.exchange_frames(CALL, call, deadline, report_output))
        process.drain_output(report_output)
        if output := redactor.finish():
            context.on_output(output)
        return cast("dict[str, Any]", json.loads(payload))
