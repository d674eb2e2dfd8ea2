"""The sandbox of a run, which is started and tested before anything is sent to a provider.

`sandbox_folders` chooses its folders, `sandbox_config` has its limits, `bubblewrap` starts it, and `sandbox_init` runs
the calls in it.
"""

from __future__ import annotations

import codecs
import json
import time
from binascii import a2b_base64
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ask.atomic_files import create_private_folder
from ask.config.directories import DATA_FOLDER_HINT
from ask.config.type_checks import parse_value
from ask.errors import FileError, SafetyError
from ask.messages import Attachment
from ask.parsing import read_dict
from ask.process import worker_channel
from ask.process.worker_channel import WorkerDiedError, WorkerTimeoutError
from ask.safety.bubblewrap import BUBBLEWRAP_PATHS, SandboxProcess, find_bubblewrap
from ask.safety.folder_scan import inspect_filesystem
from ask.safety.mount_placeholders import MountPlaceholders
from ask.safety.refused_folders import check_case
from ask.safety.sandbox_config import HostFilesystem, SandboxConfig
from ask.safety.sandbox_folders import check_folders_unmoved
from ask.safety.self_test import SelfTestHost, SelfTestResult, encode_pairs
from ask.text_diff import TextDiff
from ask.tools.base import RunToolContext, Tool, ToolError, ToolResult

if TYPE_CHECKING:
    from socket import socket

    from ask.safety.command_proxy import CommandProxy

_START_SECONDS = 10.0
_RETRY_DELAYS = (0.0, 0.05, 0.1, 0.2, 0.4)
"""Seconds before each new start after a path has changed. useradd creates and removes several locks in a moment."""
_TIMEOUT_GRACE_SECONDS = 7.0
"""Seconds after its timeout that a call has to end: its processes may ignore SIGTERM or be slow to exit."""
_RESTART_NOTE = "The sandbox was restarted: /tmp and the home directory are empty again"


class Sandbox:
    """A sandbox, which is closed when its context ends.

    `during_start` is called while a worker starts, which takes about as long as importing `requests`. `open_proxy`
    starts the proxy for commands on a socket that listens in the sandbox; without it, they have no network.

    Raises:
        SafetyError: the sandbox cannot be started or fails the self-test.
    """

    def __init__(
        self,
        config: SandboxConfig,
        bubblewrap_paths: Sequence[str] = BUBBLEWRAP_PATHS,
        during_start: Callable[[], object] = bool,  # which does nothing
        open_proxy: Callable[[socket], CommandProxy] | None = None,
    ) -> None:
        self._bubblewrap_path = find_bubblewrap(bubblewrap_paths)
        self._config = config
        self._during_start = during_start
        self._open_proxy = open_proxy
        self._process: SandboxProcess | None = None
        self._proxy: CommandProxy | None = None
        self._filesystem = HostFilesystem()
        self._closed = False
        self.self_test_results: list[SelfTestResult] = []
        """The results of the last self-test."""
        self.warnings: list[str] = []
        """Gaps in the protection of the writable folders."""
        try:
            for folder in (config.overflow_directory.parent, config.state_folder):
                create_private_folder(folder)
            self._placeholders = MountPlaceholders(config.state_folder, config.overflow_directory)
        except FileError as error:
            raise SafetyError(f"safe mode: {error.message}", error.hint or DATA_FOLDER_HINT) from error
        except OSError as error:
            path = error.filename or config.state_folder
            raise SafetyError(f"--safe cannot use {path} ({error.strerror})", DATA_FOLDER_HINT) from error
        try:
            self._process = self._start_process()
        except BaseException:
            self.close()
            raise

    def wrap_tool(self, tool: Tool) -> Tool:
        """Return a copy of a built-in tool whose calls run in the sandbox."""
        return tool._replace(run=partial(self._run_tool, tool.spec.name))

    @property
    def placeholders(self) -> Collection[Path]:
        """The empty files and folders that this sandbox, or another one in the same folders, created on the host."""
        return self._placeholders.paths

    @property
    def protected_paths(self) -> Sequence[Path]:
        """The files and folders in the writable folders that no call can change."""
        return self._filesystem.read_only_paths

    def close(self) -> None:
        """Kill all processes and remove the placeholders. Later calls fail."""
        self._closed = True
        try:
            self._kill_process()
        finally:
            self._placeholders.release()
            with suppress(OSError):  # not empty if there are overflow files
                self._config.overflow_directory.rmdir()

    def _start_process(self) -> SandboxProcess:
        """Start a worker and run the self-test."""
        if self._closed:
            raise SafetyError("the sandbox is closed")
        self._inspect_filesystem()
        for delay in _RETRY_DELAYS:
            filesystem = self._filesystem
            try:
                return self._start_tested_process(filesystem)
            except SafetyError as error:
                time.sleep(delay)
                self._inspect_filesystem()
                # A path to hide may have been deleted and created again.
                is_hidden = any(str(path) in error.message for path in filesystem.hidden_paths)
                if self._filesystem == filesystem and not is_hidden:
                    raise
        return self._start_tested_process(self._filesystem)

    def _inspect_filesystem(self) -> None:
        """Find the paths to mount, protect and hide, and create the placeholders."""
        try:
            check_folders_unmoved(self._config)
            self._filesystem, self.warnings = inspect_filesystem(
                self._config, self._placeholders.create, self._filesystem
            )
            check_case((*self.protected_paths, *self._filesystem.hidden_paths))
        except FileError as error:
            raise SafetyError(f"safe mode: {error.message}", error.hint) from error
        except OSError as error:  # such as a link that became a folder between two checks
            path = error.filename or self._config.working_directory
            raise SafetyError(f"--safe cannot examine {path} ({error.strerror})", "try again") from None

    def _start_tested_process(self, filesystem: HostFilesystem) -> SandboxProcess:
        """Start a worker with these mounts and run the self-test."""
        has_proxy = self._open_proxy is not None
        process = SandboxProcess(self._bubblewrap_path, self._config, filesystem, has_proxy=has_proxy)
        try:
            with SelfTestHost(self._config) as host:
                self._placeholders.start_cleaner()
                process.check_mounts()
                self.self_test_results = host.evaluate(self._initialize_worker(process, host.tasks))
            if self._open_proxy:
                self._proxy = self._open_proxy(process.receive_listener())
        except BaseException:
            process.kill()
            raise
        return process

    def _initialize_worker(self, process: SandboxProcess, tasks: Sequence[tuple[str, str]]) -> bytes:
        """Send the start message to a worker and return its self-test report."""
        settings = {
            "directory": str(self._config.working_directory),
            "overflow_directory": str(self._config.overflow_directory),
            "limits": list(self._config.limits),
            "placeholders": [str(path) for path in self._placeholders.paths],
        }
        start_message = encode_pairs([("settings", json.dumps(settings)), *tasks])
        try:
            replies = process.exchange_frames(worker_channel.START, start_message, _START_SECONDS)
            self._during_start()
            kind, report = next(replies)
        except (WorkerDiedError, WorkerTimeoutError):
            raise process.explain_start_failure() from None
        return report if kind == worker_channel.READY else b""

    def _run_tool(self, tool_name: str, arguments: Mapping[str, Any], context: RunToolContext) -> ToolResult:
        """Run a call in the sandbox. Any error other than a failed tool kills the worker.

        Raises:
            ToolError: the call failed or took too long, or the sandbox could not be restarted.
        """
        time_limit = context.get_time_limit(arguments)
        try:
            self._process = process = self._process or self._start_process()
        except SafetyError as error:
            raise ToolError(f"nothing was run: {error}") from None
        call = {
            "tool": tool_name,
            "arguments": arguments,
            "timeout": context.command_timeout,
            "max_timeout": context.max_command_timeout,
            "approved_file": context.approved_file,
        }
        try:
            replies = process.exchange_frames(
                worker_channel.CALL, json.dumps(call).encode(), time_limit + _TIMEOUT_GRACE_SECONDS
            )
            return parse_tool_result(self._read_result(replies, context))
        except ToolError:  # of the tool itself
            raise
        except BaseException as error:
            self._kill_process()
            if isinstance(error, WorkerTimeoutError):
                text = f"timed out after {time_limit:g} s; the sandbox had to be closed. {_RESTART_NOTE}"
                raise ToolError(text) from None
            if isinstance(error, WorkerDiedError):
                raise ToolError(f"the sandbox was closed during this call. {_RESTART_NOTE}") from None
            raise

    def _read_result(self, replies: Iterator[tuple[bytes, bytes]], context: RunToolContext) -> bytes:
        """Report the output of a call while it runs, and return its result message."""
        # The worker stops at the limit and adds a note, for which 4,096 bytes are enough.
        remaining_size = self._config.limits.output_size + 4096
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        redacted_stream = context.redactor.open_stream()
        for kind, payload in replies:
            text = ""
            if kind == worker_channel.OUTPUT and len(payload) <= remaining_size:
                remaining_size -= len(payload)
                text = redacted_stream.feed(decode(payload))
            elif kind == worker_channel.DONE:
                text = redacted_stream.finish()
            else:
                break
            if text:
                context.on_output(text)
            if kind == worker_channel.DONE:
                return payload
        raise WorkerDiedError

    def _kill_process(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
        proxy, self._proxy = self._proxy, None
        if proxy is not None:
            proxy.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def parse_tool_result(payload: bytes) -> ToolResult:
    """Parse the result of a call.

    Raises:
        ToolError: the worker reports an error.
        WorkerDiedError: the payload is invalid.
    """
    try:
        result = read_dict(json.loads(payload))
        files = tuple(Attachment(str(name), "", a2b_base64(data)) for name, data in result.get("attachments", ()))
        diff = None if result.get("diff") is None else parse_value(result["diff"], TextDiff)
    except (TypeError, ValueError, RecursionError):
        raise WorkerDiedError from None
    text, failed, status, error = (result.get(key) for key in ("text", "failed", "exit_status", "error"))
    if isinstance(error, str):
        raise ToolError(error)
    if not isinstance(text, str) or not isinstance(failed, bool):
        raise WorkerDiedError
    # Not isinstance(): True is an int, too.
    exit_status = status if type(status) is int and 0 <= status <= 255 else None
    return ToolResult(text, failed, exit_status, files, diff)
