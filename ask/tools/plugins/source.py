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
from ask.tools.output_limits import RESULT_LIMIT, Capture
from ask.tools.plugins.process import PluginProcess
from ask.worker_channel import CALL, DONE, READY, START, TEXT, WorkerLate, WorkerLost

AFRESH = "What it held in memory is gone; the next call starts it anew"


class Broken(Exception):
    """A plugin that cannot be loaded, and why."""


class Around(NamedTuple):
    """What is around a plugin's process: where it starts, its environment, and seconds that it may take to load."""

    directory: Path
    environment: Mapping[str, str]
    patience: float


class Source:
    """Where tools come from. Its process starts at once; `tools` waits for what it tells of them.

    Args:
        origin: what the user knows it by.
        targets: the fields of each `loading.Target`.
        around: what its process has.
        further_path: folders in which modules are looked for last.

    Raises:
        Broken: no process can be started.
    """

    def __init__(
        self, origin: str, targets: Sequence[tuple[str, str, bool]], around: Around, further_path: Sequence[str] = ()
    ) -> None:
        self.origin = origin
        self._path = [*sys.path, *further_path]
        self._targets = targets
        self._around = around
        self._process: PluginProcess | None = None
        self._started = time.monotonic()
        self._process = self._start()

    def tools(self) -> list[Tool]:
        """Its tools.

        Raises:
            Broken: it does not load.
        """
        assert self._process, "it was started"  # noqa: S101
        try:
            told = self._introduce(self._process)
        except BaseException:
            self.close(at_once=True)
            raise
        return [self._tool(*as_list(row)) for row in as_list(told.get("tools"))]

    def close(self, *, at_once: bool = False) -> None:
        """End its process; `at_once` without giving it time to end by itself."""
        process, self._process = self._process, None
        if process is not None:
            (process.end if at_once else process.let_go)()

    def _tool(self, name: str, description: str, parameters: Mapping[str, Any], changes: bool) -> Tool:
        def run(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
            return self._call(name, arguments, context)

        return Tool(ToolSpec(name, description, parameters), run, changes, self.origin)

    def _start(self) -> PluginProcess:
        try:
            return PluginProcess(self._around.directory, self._around.environment)
        except OSError as fault:
            raise Broken(f"no process can be started ({fault.strerror})") from fault

    def _introduce(self, process: PluginProcess) -> dict[str, Any]:
        """Have the plugin loaded; what it tells of its tools.

        Raises:
            Broken: it does not load.
        """
        start = {"path": self._path, "targets": self._targets}
        deadline = self._started + self._around.patience
        try:
            for kind, payload in process.exchange(START, start, deadline, lambda _: None):
                told = as_dict(json.loads(payload)) if kind == READY else {}
                if told.get("problem") or not told:
                    raise Broken(str(told.get("problem") or "it says what makes no sense"))
                return told
        except WorkerLost as lost:
            raise Broken(f"its process ended ({lost})") from None
        except WorkerLate:
            raise Broken(f"it is not loaded after {self._around.patience:g} s") from None
        raise Broken("it says nothing")

    def _call(self, name: str, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Carry out a call.

        Raises:
            ToolError: it failed, took too long, or the process is no more.
        """
        process = self._process or self._again()
        call = {
            "tool": name,
            "arguments": arguments,
            "directory": str(context.directory),
            "timeout": context.command_timeout,
            "spill": str(context.spill_directory),
            "hosts": None if context.restrict_hosts is None else sorted(context.restrict_hosts),
        }
        with self._kept_whole(context) as capture:
            redacted = context.redactor.open_stream()

            def show(text: str) -> None:
                if told := redacted.feed(text):
                    context.on_output(told)

            deadline = time.monotonic() + context.command_timeout
            rest = self._answer(process.exchange(CALL, call, deadline, show), capture, context)
            process.finish_output(show)
            if told := redacted.finish():
                context.on_output(told)
            text = capture.shorten(RESULT_LIMIT)
        if rest.get("error"):
            raise ToolError(text)
        status = rest.get("exit_status")
        return ToolResult(text, rest.get("failed") is True, status if type(status) is int else None)

    def _again(self) -> PluginProcess:
        """A new process, the plugin loaded.

        Raises:
            ToolError: there can be none.
        """
        try:
            self._started = time.monotonic()
            self._process = self._start()
            self._introduce(self._process)
        except Broken as fault:
            self.close(at_once=True)
            raise ToolError(f"nothing was run: {fault}") from None
        except BaseException:
            self.close(at_once=True)
            raise
        return self._process

    @contextmanager
    def _kept_whole(self, context: ToolContext) -> Iterator[Capture]:
        """What gathers the result of a call; whatever goes wrong ends the process, and no file is left of it."""
        capture = Capture(context.spill_directory, "result")
        try:
            yield capture
        except BaseException as fault:
            capture.discard()
            self.close(at_once=True)
            if isinstance(fault, WorkerLate):
                seconds = f"{context.command_timeout:g} s"
                raise ToolError(f"stopped after {seconds}, with all that it had started. {AFRESH}") from None
            if isinstance(fault, WorkerLost):
                raise ToolError(f"its process ended during the call ({fault}). {AFRESH}") from None
            raise

    def _answer(self, replies: Iterator[tuple[bytes, bytes]], capture: Capture, context: ToolContext) -> dict[str, Any]:
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
        raise WorkerLost("it says what makes no sense")
