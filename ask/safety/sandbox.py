"""The sandbox of a run: opened and tested before anything is sent, then every call is carried out in it.

How it looks is in `profile`, what it shows in `places`, who works in it in `worker`.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ask import worker_channel
from ask.atomic_files import create_private_folder
from ask.errors import SafetyError
from ask.parsing import as_dict
from ask.safety.bubblewrap import BUBBLEWRAP_PATHS, find_bubblewrap
from ask.safety.folder_scan import EMPTY_FILESYSTEM, inspect_filesystem
from ask.safety.overflow_files import OverflowFileError, OverflowFiles
from ask.safety.path_policy import check_folders_unmoved
from ask.safety.placeholders import MountPlaceholders
from ask.safety.sandbox_config import HostFilesystem, SandboxConfig
from ask.safety.sandbox_process import SandboxProcess
from ask.safety.self_test import SelfTestHost, SelfTestResult
from ask.tools.base import Tool, ToolContext, ToolError, ToolResult
from ask.worker_channel import WorkerDiedError, WorkerTimeoutError

_START_TIMEOUT = 10.0
_TIMEOUT_GRACE = 7.0
"""Seconds after its time-out in which a call may still end by itself: what ignores TERM, and what hangs in a KILL."""
_RESTART_NOTE = "The sandbox starts afresh: /tmp and the home directory are empty again"


class Sandbox:
    """A sandbox; a context that closes it.

    Args:
        confinement: what the calls are confined to.
        programs: where bubblewrap may be.
        meanwhile: is done while a worker starts, which takes about as long as loading `requests`.

    Attributes:
        self_test_results: what the last self-test found.
        warnings: what is not covered in this case.

    Raises:
        SafetyError: there can be none, or it does not hold.
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
        self._filesystem = EMPTY_FILESYSTEM
        self._closed = False
        self.self_test_results: list[SelfTestResult] = []
        self.warnings: list[str] = []
        try:
            create_private_folder(config.overflow_directory.parent)
            self._placeholders = MountPlaceholders(config.state_folder, config.overflow_directory)
        except OSError as fault:
            place = fault.filename or config.state_folder
            raise SafetyError(f"--safe cannot use {place} ({fault.strerror})", "make it writable for you") from fault
        try:
            self._process = self._start_process()
            self._placeholders.start_cleaner()
        except BaseException:
            self.close()
            raise

    def wrap_tool(self, tool: Tool) -> Tool:
        """The same tool, one of ask's own, whose calls take place in here."""
        name = tool.spec.name

        def run(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
            return self._run_tool(name, arguments, context)

        return tool._replace(run=run)

    @property
    def placeholders(self) -> Collection[Path]:
        """The empty files and folders that exist only because of this sandbox, or of another one in its folders."""
        return self._placeholders.paths

    @property
    def protected_paths(self) -> Sequence[Path]:
        """The files and folders in the writable directories that no call can change."""
        return self._filesystem.protected_paths

    def close(self) -> None:
        """End all that is in it, and remove what it left; nothing is run any more."""
        self._closed = True
        try:
            self._kill_process()
        finally:
            self._placeholders.release()
            with suppress(OSError):  # unless something was spilled
                self._config.overflow_directory.rmdir()

    def _start_process(self) -> SandboxProcess:
        """A worker that has passed the self-test."""
        if self._closed:
            raise SafetyError("the sandbox is closed")
        self._inspect_filesystem()
        view = self._filesystem
        try:
            return self._start_tested_process(view)
        except SafetyError:
            self._inspect_filesystem()
            if self._filesystem == view:
                raise
            return self._start_tested_process(self._filesystem)  # what was to be hidden came or went while it started

    def _inspect_filesystem(self) -> None:
        """Find what to show, to protect and to hide right now, and create the placeholders."""
        try:
            check_folders_unmoved(self._config)
            self._filesystem, self.warnings = inspect_filesystem(
                self._config, self._placeholders.create, self._filesystem
            )
        except OSError as error:  # such as a link that became a folder between two looks at it
            path = error.filename or self._config.working_directory
            raise SafetyError(f"--safe cannot examine {path} ({error.strerror})", "run it again") from None

    def _start_tested_process(self, filesystem: HostFilesystem) -> SandboxProcess:
        """A worker that is shown this, and has passed the self-test."""
        with SelfTestHost(self._config) as outside:
            inmate = SandboxProcess(self._bubblewrap_path, self._config, filesystem)
            try:
                self.self_test_results = outside.evaluate(self._initialize_worker(inmate, outside.tasks))
            except BaseException:
                inmate.kill()
                raise
        broken = [finding for finding in self.self_test_results if not finding.passed]
        if broken:
            inmate.kill()
            what = "; ".join(f"{finding.name}: {finding.detail}" for finding in broken)
            raise SafetyError(
                f"the sandbox does not hold here ({what})", "go on without --safe only if you trust the model"
            )
        return inmate

    def _initialize_worker(self, process: SandboxProcess, tasks: Mapping[str, Any]) -> Any:
        """Tell a worker what it must know; what it found in the self-test."""
        start = {
            "directory": str(self._config.working_directory),
            "spill": str(self._config.overflow_directory),
            "limits": list(self._config.limits),
            "placeholders": [str(path) for path in self._placeholders.paths],
            "tasks": tasks,
        }
        try:
            replies = process.exchange_frames(worker_channel.START, json.dumps(start).encode(), _START_TIMEOUT)
            self._during_start()
            for kind, payload in replies:
                return json.loads(payload) if kind == worker_channel.READY else None
        except (WorkerDiedError, WorkerTimeoutError):
            raise process.explain_start_failure() from None
        except ValueError:
            pass
        return None

    def _run_tool(self, tool_name: str, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Carry out a call inside.

        Raises:
            ToolError: it failed there, took too long, or no sandbox can be had any more.
        """
        try:
            self._process = inmate = self._process or self._start_process()
        except SafetyError as error:
            raise ToolError(f"nothing was run: {error}") from None
        call = {
            "tool": tool_name,
            "arguments": arguments,
            "timeout": context.command_timeout,
            "approved_file": context.approved_file,
        }
        seconds = context.command_timeout + _TIMEOUT_GRACE
        with self._open_overflow_files(context) as spills:
            return self._read_result(
                inmate.exchange_frames(worker_channel.CALL, json.dumps(call).encode(), seconds), spills, context
            )

    @contextmanager
    def _open_overflow_files(self, context: ToolContext) -> Iterator[OverflowFiles]:
        """The spilled files of a call; whatever goes wrong in it ends the worker and removes them."""
        spills = OverflowFiles(self._config.overflow_directory, self._config.limits.output_size, context.redactor)
        whole = False
        try:
            yield spills
            whole = True
        except ToolError:
            whole = True
            raise
        except WorkerTimeoutError:
            raise ToolError(
                f"stopped after {context.command_timeout:g} s: it could not be ended alone. {_RESTART_NOTE}"
            ) from None
        except (WorkerDiedError, OverflowFileError):
            raise ToolError(f"the sandbox ended during this call. {_RESTART_NOTE}") from None
        finally:
            if not whole:
                self._kill_process()
            spills.close(keep=whole)

    def _read_result(
        self, replies: Iterator[tuple[bytes, bytes]], overflow_files: OverflowFiles, context: ToolContext
    ) -> ToolResult:
        left = self._config.limits.output_size + 4096
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        redacted = context.redactor.open_stream()
        for kind, payload in replies:
            if kind == worker_channel.OUTPUT and len(payload) <= left:
                left -= len(payload)
                report_output(context, redacted.feed(decode(payload)))
            elif kind == worker_channel.OVERFLOW_OPEN:
                overflow_files.open(payload)
            elif kind == worker_channel.OVERFLOW_DATA:
                overflow_files.write(payload)
            elif kind == worker_channel.DONE:
                report_output(context, redacted.finish())
                return parse_tool_result(payload)
            else:
                raise WorkerDiedError
        raise WorkerDiedError

    def _kill_process(self) -> None:
        inmate, self._process = self._process, None
        if inmate is not None:
            inmate.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, _: TracebackType | None
    ) -> None:
        self.close()


def report_output(context: ToolContext, text: str) -> None:
    """Pass on what a command has said, if anything."""
    if text:
        context.on_output(text)


def parse_tool_result(payload: bytes) -> ToolResult:
    """The result that a worker tells of.

    Raises:
        ToolError: it tells of an error.
        WorkerLost: it tells nonsense.
    """
    try:
        told = as_dict(json.loads(payload))
    except (ValueError, RecursionError):
        raise WorkerDiedError from None
    text, failed, status, error = (told.get(key) for key in ("text", "failed", "exit_status", "error"))
    if isinstance(error, str):
        raise ToolError(error)
    if not isinstance(text, str) or not isinstance(failed, bool):
        raise WorkerDiedError
    return ToolResult(text, failed, status if type(status) is int and 0 <= status <= 255 else None)
