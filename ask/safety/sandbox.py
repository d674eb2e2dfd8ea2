"""The sandbox of a run, which is started and tested before anything is sent to a provider.

`sandbox_config` defines its mounts and limits, `path_policy` chooses the folders, and `worker` runs the calls in it.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from io import RawIOBase
from pathlib import Path
from typing import Any, Self

from ask import worker_channel
from ask.atomic_files import create_private_folder
from ask.errors import SafetyError
from ask.parsing import read_dict
from ask.safety.bubblewrap import BUBBLEWRAP_PATHS, SandboxProcess, find_bubblewrap
from ask.safety.folder_scan import inspect_filesystem
from ask.safety.path_policy import check_folders_unmoved
from ask.safety.placeholders import MountPlaceholders
from ask.safety.sandbox_config import HostFilesystem, SandboxConfig
from ask.safety.self_test import SelfTestHost, SelfTestResult
from ask.secrets import Redactor
from ask.tools.base import Tool, ToolContext, ToolError, ToolResult
from ask.tools.output_limits import open_private_file
from ask.worker_channel import InvalidFrameError, WorkerDiedError, WorkerTimeoutError

_START_TIMEOUT = 10.0
_TIMEOUT_GRACE = 7.0
"""Seconds after its timeout that a call has to end: its processes may ignore SIGTERM or be slow to exit."""
_OVERFLOW_FILE_NAME = re.compile(rb"(?:stdout|stderr|result)-[0-9a-f]{16}\.txt")
_MAX_OVERFLOW_FILES = 4
_RESTART_NOTE = "The sandbox was restarted: /tmp and the home directory are empty again"


class Sandbox:
    """A sandbox, which is closed when its context ends.

    `during_start` is called while a worker starts, which takes about as long as importing `requests`.

    Raises:
        SafetyError: the sandbox cannot be started or fails the self-test.
    """

    def __init__(
        self,
        config: SandboxConfig,
        bubblewrap_paths: Sequence[str] = BUBBLEWRAP_PATHS,
        during_start: Callable[[], object] = bool,
    ) -> None:
        self._bubblewrap_path = find_bubblewrap(bubblewrap_paths)
        self._config = config
        self._during_start = during_start
        self._process: SandboxProcess | None = None
        self._filesystem = HostFilesystem()
        self._closed = False
        self.self_test_results: list[SelfTestResult] = []
        """The results of the last self-test."""
        self.warnings: list[str] = []
        """Gaps in the protection of the writable folders."""
        try:
            create_private_folder(config.overflow_directory.parent)
            self._placeholders = MountPlaceholders(config.state_folder, config.overflow_directory)
        except OSError as error:
            path = error.filename or config.state_folder
            raise SafetyError(f"--safe cannot use {path} ({error.strerror})", "make it writable") from error
        try:
            self._process = self._start_process()
            self._placeholders.start_cleaner()
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
        return self._filesystem.protected_paths

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
        filesystem = self._filesystem
        try:
            return self._start_tested_process(filesystem)
        except SafetyError:
            self._inspect_filesystem()
            if self._filesystem == filesystem:
                raise
            return self._start_tested_process(self._filesystem)  # a path was created or deleted during the start

    def _inspect_filesystem(self) -> None:
        """Find the paths to mount, protect and hide, and create the placeholders."""
        try:
            check_folders_unmoved(self._config)
            self._filesystem, self.warnings = inspect_filesystem(
                self._config, self._placeholders.create, self._filesystem
            )
        except OSError as error:  # such as a link that became a folder between two checks
            path = error.filename or self._config.working_directory
            raise SafetyError(f"--safe cannot examine {path} ({error.strerror})", "try again") from None

    def _start_tested_process(self, filesystem: HostFilesystem) -> SandboxProcess:
        """Start a worker with these mounts and run the self-test."""
        with SelfTestHost(self._config) as host:
            process = SandboxProcess(self._bubblewrap_path, self._config, filesystem)
            try:
                self.self_test_results = host.evaluate(self._initialize_worker(process, host.tasks))
            except BaseException:
                process.kill()
                raise
        details = "; ".join(f"{result.name}: {result.detail}" for result in self.self_test_results if not result.passed)
        if details:
            process.kill()
            raise SafetyError(
                f"the sandbox failed its self-test ({details})", "run without --safe only if you trust the model"
            )
        return process

    def _initialize_worker(self, process: SandboxProcess, tasks: Mapping[str, Any]) -> Any:
        """Send the start message to a worker and return its self-test report, None if that is invalid."""
        start_message = {
            "directory": str(self._config.working_directory),
            "spill": str(self._config.overflow_directory),
            "limits": list(self._config.limits),
            "placeholders": [str(path) for path in self._placeholders.paths],
            "tasks": tasks,
        }
        try:
            replies = process.exchange_frames(worker_channel.START, json.dumps(start_message).encode(), _START_TIMEOUT)
            self._during_start()
            for kind, payload in replies:
                return json.loads(payload) if kind == worker_channel.READY else None
        except (WorkerDiedError, WorkerTimeoutError):
            raise process.explain_start_failure() from None
        except ValueError:
            pass
        return None

    def _run_tool(self, tool_name: str, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Run a call in the sandbox. Any error other than a failed tool kills the worker.

        Raises:
            ToolError: the call failed or took too long, or the sandbox could not be restarted.
        """
        try:
            self._process = process = self._process or self._start_process()
        except SafetyError as error:
            raise ToolError(f"nothing was run: {error}") from None
        call = {
            "tool": tool_name,
            "arguments": arguments,
            "timeout": context.command_timeout,
            "approved_file": context.approved_file,
        }
        timeout = context.command_timeout + _TIMEOUT_GRACE
        overflow_files = OverflowFiles(self._config.overflow_directory, self._config.limits.output_size)
        complete = False
        try:
            replies = process.exchange_frames(worker_channel.CALL, json.dumps(call).encode(), timeout)
            payload = self._read_result(replies, overflow_files, context)
            complete = True
            return parse_tool_result(payload)
        except WorkerTimeoutError:
            text = f"timed out after {context.command_timeout:g} s; the sandbox had to be closed. {_RESTART_NOTE}"
            raise ToolError(text) from None
        except (WorkerDiedError, InvalidFrameError):
            complete = False
            raise ToolError(f"the sandbox was closed during this call. {_RESTART_NOTE}") from None
        finally:
            if not complete:
                self._kill_process()
            overflow_files.close(context.redactor if complete else None)

    def _read_result(
        self, replies: Iterator[tuple[bytes, bytes]], overflow_files: OverflowFiles, context: ToolContext
    ) -> bytes:
        """Report the output of a call while it runs, and return its result message."""
        remaining_size = self._config.limits.output_size + 4096
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        redacted_stream = context.redactor.open_stream()
        for kind, payload in replies:
            text = ""
            if kind == worker_channel.OUTPUT and len(payload) <= remaining_size:
                remaining_size -= len(payload)
                text = redacted_stream.feed(decode(payload))
            elif kind == worker_channel.OVERFLOW_OPEN:
                overflow_files.open(payload)
            elif kind == worker_channel.OVERFLOW_DATA:
                overflow_files.write(payload)
            elif kind == worker_channel.DONE:
                text = redacted_stream.finish()
            else:
                raise InvalidFrameError
            if text:
                context.on_output(text)
            if kind == worker_channel.DONE:
                return payload
        raise WorkerDiedError

    def _kill_process(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()

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
    except (ValueError, RecursionError):
        raise WorkerDiedError from None
    text, failed, status, error = (result.get(key) for key in ("text", "failed", "exit_status", "error"))
    if isinstance(error, str):
        raise ToolError(error)
    if not isinstance(text, str) or not isinstance(failed, bool):
        raise WorkerDiedError
    return ToolResult(text, failed, status if type(status) is int and 0 <= status <= 255 else None)


class OverflowFiles:
    """Files for the long outputs of one call, each with at most `max_size` bytes.

    They are written outside the sandbox from data that the worker sends. It is not trusted, so names and sizes are
    checked.
    """

    def __init__(self, folder: Path, max_size: int) -> None:
        self._folder = folder
        self._max_size = max_size
        self._files: dict[bytes, RawIOBase | None] = {}
        self._sizes: dict[bytes, int] = {}

    def open(self, name: bytes) -> None:
        """Create a file.

        Raises:
            InvalidFrameError: the name is invalid, or there are too many files.
        """
        if not _OVERFLOW_FILE_NAME.fullmatch(name) or name in self._files or len(self._files) >= _MAX_OVERFLOW_FILES:
            raise InvalidFrameError
        self._files[name] = None
        self._sizes[name] = 0
        with suppress(OSError):
            self._files[name] = open_private_file(self._folder / name.decode())

    def write(self, payload: bytes) -> None:
        """Append to a file. The payload is the name, a newline and the data.

        Raises:
            InvalidFrameError: the file does not exist or gets too long.
        """
        name, _, data = payload.partition(b"\n")
        if name not in self._files or self._sizes[name] + len(data) > self._max_size:
            raise InvalidFrameError
        self._sizes[name] += len(data)
        if file := self._files[name]:
            with suppress(OSError):
                file.write(data)

    def close(self, redactor: Redactor | None) -> None:
        """Close all files. Redact the keys in them, which the worker does not know, or else delete the files."""
        for name, file in self._files.items():
            if file is None:
                continue
            file.close()
            path = self._folder / name.decode()
            with suppress(OSError):
                if redactor is None:
                    path.unlink()
                    continue
                text = path.read_text("utf-8", "surrogateescape")
                redacted = redactor.redact(text)
                if redacted != text:
                    path.write_text(redacted, "utf-8", "surrogateescape")
