"""The tools of a plugin or of a tool file; each call runs in the plugin's own process.

The process keeps running, so that modules keep their state between calls. If a call kills it or times out, the next
call starts a new one.
"""

from __future__ import annotations

import codecs
import json
import os
import sys
import time
from binascii import a2b_base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from ask.atomic_files import create_private_folder
from ask.messages import Attachment, ToolSpec
from ask.process.process_tree import describe_exit, kill_process_tree, mark_environment, wait_for_exit
from ask.process.worker_channel import CALL, READ_BYTES, START, WorkerChannel, WorkerDiedError, WorkerTimeoutError
from ask.records import NamedTuple
from ask.tools.base import RunToolContext, Tool, ToolError, ToolResult

WORKER_CODE = "from ask.tools.plugins.worker import main; main()"
MAX_FINAL_READS = 16
"""Maximum number of reads after a call has ended: a thread in the plugin may never stop printing."""
MAX_REPLY_BYTES = 1 << 28
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
        origin: the plugin's name as shown to the user.
        targets: the fields of each `loader.ToolTarget`.
        plugin_environment: working directory, environment and load timeout of its process.
        extra_import_path: folders to search for modules after `sys.path`.

    Raises:
        PluginLoadError: the process cannot be started.
    """

    def __init__(
        self,
        origin: str,
        targets: Sequence[Sequence[str | bool]],
        plugin_environment: PluginEnvironment,
        extra_import_path: Sequence[str] = (),
    ) -> None:
        self.origin = origin
        self._start_message = {"path": [*sys.path, *extra_import_path], "targets": targets}
        self._plugin_environment = plugin_environment
        self._process: PluginProcess | None = None
        self._start_process()

    def load_tools(self, on_skip: Callable[[str], None] | None = None) -> list[Tool]:
        """Load the plugin and return its tools.

        `on_skip` is called with what is wrong with an invalid tool. Without it, all tools must be valid.

        Raises:
            PluginLoadError: it cannot be loaded.
        """
        assert self._process, "it was started"  # noqa: S101
        with self._kill_on_error():
            return [self._create_tool(*row) for row in self._initialize_worker(self._process, on_skip)]

    def close(self, *, immediately: bool = False) -> None:
        """End the process; `immediately` kills it without time to exit by itself."""
        process, self._process = self._process, None
        if process is not None:
            process.close(immediately=immediately)

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

    def _initialize_worker(
        self, process: PluginProcess, on_skip: Callable[[str], None] | None
    ) -> Sequence[Sequence[Any]]:
        """Load the plugin in its process; return the arguments of `_create_tool` for each tool.

        Raises:
            PluginLoadError: it cannot be loaded.
        """
        try:
            reply = process.exchange(START, self._start_message, self._load_deadline, lambda _: None)
        except WorkerDiedError as error:
            raise PluginLoadError(f"its process ended ({error}); report it to its authors") from None
        except WorkerTimeoutError:
            seconds = f"{self._plugin_environment.load_timeout:g} s"
            raise PluginLoadError(f"it did not load within {seconds}; --command-timeout raises the limit") from None
        if reply["problem"]:
            raise PluginLoadError(reply["problem"])
        for problem in reply["skipped"]:
            if on_skip is None:
                raise PluginLoadError(problem)
            on_skip(problem)
        tools: Sequence[Sequence[Any]] = reply["tools"]
        return tools

    def _run_tool(self, tool_name: str, arguments: Mapping[str, Any], context: RunToolContext) -> ToolResult:
        """Run a tool in the process, which is started again if the last call has ended it.

        Raises:
            ToolError: it failed, took too long, or the process died.
        """
        call = {
            "tool": tool_name,
            "arguments": arguments,
            "directory": str(context.directory),
            "timeout": context.command_timeout,
            "overflow_directory": str(context.overflow_directory),
        }
        redactor = context.redactor.open_stream()

        def report_output(text: str) -> None:
            if output := redactor.feed(text):
                context.on_output(output)

        try:
            with self._kill_on_error():
                process = self._process
                if process is None:
                    process = self._start_process()
                    self._initialize_worker(process, lambda _: None)
                with _prepare_folder(context.overflow_directory):
                    reply = process.exchange(CALL, call, time.monotonic() + context.command_timeout, report_output)
                if output := redactor.finish():
                    context.on_output(output)
        except PluginLoadError as error:
            raise ToolError(f"nothing was run: {error}") from None
        except WorkerTimeoutError:
            reason = f"timed out after {context.command_timeout:g} s; the tool and its children were killed"
            raise ToolError(f"{reason}. {RESTART_NOTE}") from None
        except WorkerDiedError as error:
            raise ToolError(f"its process ended during the call ({error}). {RESTART_NOTE}") from None
        text = context.redactor.redact(reply["text"])
        if reply["is_error"]:
            raise ToolError(text)
        files = tuple(Attachment(name, "", a2b_base64(data)) for name, data in reply["attachments"])
        return ToolResult(text, reply["failed"], reply["exit_status"], files)


@contextmanager
def _prepare_folder(path: Path) -> Iterator[None]:
    """Create a folder that a call may write to. If it is new and stays empty, remove it afterwards."""
    is_new = not path.is_dir()  # that of safe mode is mounted in the sandbox
    with suppress(OSError):
        create_private_folder(path)
    try:
        yield
    finally:
        if is_new:
            with suppress(OSError):
                path.rmdir()


class PluginProcess:
    """The process of a plugin.

    Requests go to its stdin and replies come from its stdout; the worker makes stderr the output of the plugin.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        from subprocess import PIPE, Popen

        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        env, self._mark = mark_environment(environment)
        self._process = Popen(
            [sys.executable, "-P", "-X", "utf8", "-c", WORKER_CODE],
            bufsize=0,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            cwd=directory,
            env=env,
            start_new_session=True,  # ask itself handles Ctrl-C
        )
        self._pipes = [pipe for pipe in (self._process.stdin, self._process.stdout, self._process.stderr) if pipe]
        requests, replies, self._output = (pipe.fileno() for pipe in self._pipes)
        os.set_blocking(self._output, False)
        self._channel = WorkerChannel(requests, replies, MAX_REPLY_BYTES)

    def exchange(
        self, kind: bytes, message: Mapping[str, object], deadline: float, on_output: Callable[[str], None]
    ) -> dict[str, Any]:
        """Send a message and return the reply.

        What the plugin prints meanwhile is passed to `on_output`.

        Raises:
            WorkerDiedError: the process has ended or sent an invalid frame; the message says which.
            WorkerTimeoutError: the deadline, on the monotonic clock, has passed.
        """

        def forward_output() -> bool:
            data = os.read(self._output, READ_BYTES)
            if text := self._decode(data):
                on_output(text)
            return bool(data)

        replies = self._channel.exchange_frames(
            kind, json.dumps(message).encode(), deadline, {self._output: forward_output}
        )
        try:
            reply: dict[str, Any] = json.loads(next(replies)[1])
        except WorkerDiedError as error:
            raise error if error.args else WorkerDiedError(self._describe_exit()) from None
        with suppress(BlockingIOError):
            for _ in range(MAX_FINAL_READS):
                if not forward_output():
                    break
        return reply

    def _describe_exit(self) -> str:
        wait_for_exit(self._process)
        code = self._process.returncode
        return "it closed its channel" if code is None else describe_exit(code)

    def close(self, *, immediately: bool) -> None:
        """Close the channel, and kill all processes that are left; `immediately` does not wait for them to exit."""
        try:
            if not immediately:
                self._close_pipes()
                wait_for_exit(self._process)
        finally:
            # After the process is reaped, its id may belong to another process.
            session = self._process.pid if self._process.returncode is None else None
            try:
                kill_process_tree(session, self._mark)
            finally:
                self._close_pipes()
                wait_for_exit(self._process)

    def _close_pipes(self) -> None:
        for pipe in self._pipes:
            pipe.close()
