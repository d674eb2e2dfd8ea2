"""Answers one row with tools: an `ask` process of its own, in a working copy of its own.

Rows that run at the same time must not share files, and a process per row can be stopped with all that it started. The
folder is copied once, and each row gets a copy of this copy: changes that others make to the folder during the job are
not changes of the row.
"""

from __future__ import annotations

import errno
import glob
import json
import os
import signal
import stat
import subprocess
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ask.agent.request import RunRequest
from ask.client.endpoint import ModelEndpoint
from ask.config.directories import AppDirs
from ask.config.installation import find_launcher
from ask.config.options import ROW_ARGUMENT, RunOptions
from ask.errors import AskError, FileError, SafetyError
from ask.map.job import RowTask, TaskResult
from ask.map.ledger import RowResult
from ask.map.server_pool import create_pools
from ask.map.working_copy import copy_folder, create_temporary_folder, make_patch, remove_copied_files, remove_folder
from ask.messages import Attachment, Usage
from ask.plugin_api.loaded_provider import discard_notice
from ask.process.parent_exit import end_with_parent
from ask.records import NamedTuple
from ask.safety.folder_scan import find_hidden_paths
from ask.tools.file_access import open_existing_folder
from ask.traces.lifecycle import LATE_PROBLEM, report_problem

MAX_CONCURRENT_PROCESSES = 256
"""The most rows at a time if their number is adapted: each is a process."""
CANCEL_CHECK_SECONDS = 1.0
STOP_SECONDS = 5.0
"""How long a process may take to end after SIGTERM."""


class AgentOptions(NamedTuple):
    """The options of rows with tools.

    Attributes:
        directory_template: the folder that each row gets a copy of; None to run in the current folder.
        run: the options of every row, without its provider, model and prompt.
        left_out: files of that folder that the copies do not have; their names are patterns. They also lack
            what safe mode hides.
    """

    directory_template: Path | None
    run: RunOptions
    left_out: tuple[Path, ...] = ()


class AgentRunner:
    """Answers rows with tools. One instance serves all threads.

    Args:
        requests: the job's request for each of its models.
        options: how rows run.
        is_canceled: checks whether the row of the calling thread is to be ended.
        notify: reports problems with traces.
    """

    def __init__(
        self,
        requests: Sequence[RunRequest],
        options: AgentOptions,
        is_canceled: Callable[[], bool] = lambda: False,
        notify: Callable[[str], None] = discard_notice,
    ) -> None:
        self._is_canceled = is_canceled
        self._notify = notify
        self._trace_problem = ""
        """Why the last row could not send its traces."""
        self._trace_problem_reported = False
        self._requests = requests
        self._pools = create_pools(requests, discard_notice)  # the process of a row changes servers unnoticed
        self._options = options
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._original_lock = threading.Lock()
        self._original: Path | None = None
        """The folder of which each row gets a copy; None before the first row."""
        self._original_parent = tempfile.mkdtemp(prefix="ask-map-") if options.directory_template else ""
        self._remove_original = weakref.finalize(self, remove_folder, self._original_parent)

    def run(self, task: RowTask) -> TaskResult:
        """Answer a row."""
        pool = self._pools[task.model_number]
        sent = time.monotonic()
        base_url = pool.acquire(sent, is_retry=task.is_retry)
        result: TaskResult | None = None
        try:
            result = self._run(task, self._requests[task.model_number].endpoint.prefer_server(base_url))
        finally:
            error, failure = (result.error, result.failure) if result else (None, None)
            pool.release(time.monotonic(), base_url, error, failure, sent=sent)
        return result

    def _run(self, task: RowTask, endpoint: ModelEndpoint) -> TaskResult:
        """Answer a row with a model, whose other servers are used if the first cannot be reached."""
        if endpoint.sign_in:  # not in the row's process, which Ctrl-C kills
            try:
                endpoint.sign_in.get_token()
            except AskError as error:
                return TaskResult(None, error, Usage())
        with create_temporary_folder() as folder:
            files: list[str] = []
            for number, attachment in enumerate(task.message.attachments):
                file = folder / str(number) / Path(attachment.name).name  # two may have the same name
                file.parent.mkdir()
                file.write_bytes(attachment.data)
                files.append(str(file))
            options = self._options.run._replace(
                words=(task.message.content,),
                provider=endpoint.provider_name,
                model=endpoint.model,
                base_url=endpoint.base_url,
                other_base_urls=endpoint.other_base_urls,
                # The process of a row reads the same sign-in.
                key=None if endpoint.sign_in else (endpoint.renew_key and endpoint.renew_key("")) or endpoint.key,
                files=tuple(files),
                waits_for_collector=not self._trace_problem.startswith(LATE_PROBLEM),
            )
            template = self._options.directory_template
            if template is None:
                outcome = self._run_process(options, Path.cwd())
                # Its commands would run twice in the same folder.
                is_repeated = outcome.failure in ("service", "unreachable") and outcome.usage.output_tokens
                return outcome._replace(failure="row") if is_repeated else outcome
            copies = folder / "copies"
            copies.mkdir()
            try:
                original = self._copy_template(template)
                copy_folder(original, copies / "b")
            except (FileError, SafetyError) as error:
                return TaskResult(None, error, Usage())
            outcome = self._run_process(options, copies / "b")
            if outcome.result is None or outcome.error:
                return outcome
            try:
                (copies / "a").symlink_to(original)
                return outcome._replace(result=outcome.result._replace(patch=make_patch(copies)))
            except AskError as error:
                return TaskResult(None, error, outcome.usage)

    def _copy_template(self, template: Path) -> Path:
        """Copy the template, unless an earlier row did; return the copy.

        Raises:
            FileError: it cannot be copied.
            SafetyError: what safe mode hides in it cannot be found.
        """
        with self._original_lock:
            if self._original is None:
                copy = Path(self._original_parent, "original")
                left_out = [*self._options.left_out]
                if self._options.run.safe or self._options.run.safe_files:
                    state_folder = AppDirs.from_environment(os.environ).scan_record.parent
                    hidden_paths = find_hidden_paths(template, state_folder)
                    left_out += (path.with_name(glob.escape(path.name)) for path in hidden_paths)
                try:
                    copy_folder(template, copy)
                except FileError:  # a file may have been deleted meanwhile
                    remove_folder(str(copy))
                    copy_folder(template, copy)
                remove_copied_files(template, copy, left_out)
                self._original = copy
            return self._original

    def _run_process(self, options: RunOptions, directory: Path) -> TaskResult:
        process = subprocess.Popen(
            [str(find_launcher()), ROW_ARGUMENT],
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # the first Ctrl-C lets it finish
            preexec_fn=end_with_parent,  # noqa: PLW1509 - only a system call
        )
        self._processes.add(process)
        try:
            output, messages = self._communicate(process, options.to_json().encode())
        finally:
            self._processes.discard(process)
        lines = messages.decode("utf-8", "replace").strip().splitlines()
        try:
            fields: Mapping[str, Any] = json.loads(output)
        except ValueError:
            fields = {"usage": {}, "error": lines[-1] if lines else f"ask exited with {process.returncode}"}
        self._handle_trace_problem(fields.get("trace_problem", ""))
        usage = Usage(**{name: fields["usage"].get(name) for name in Usage._fields})
        citations = fields.get("citations")
        citations_json = json.dumps(citations, ensure_ascii=False) if citations else ""
        try:
            images = list(map(_take_file, fields.get("files", ())))
        except OSError as os_error:
            return TaskResult(None, FileError(f"cannot read an image of the row ({os_error.strerror})"), usage)
        if error_message := fields["error"]:
            error = AskError(error_message)
            error.exit_code = process.returncode
            text, finish_reason = fields.get("text", ""), fields.get("finish", "")
            part = RowResult("failed", text, finish_reason, citations=citations_json) if text else None
            return TaskResult(part, error, usage, files=images, failure=fields.get("failure"))
        answer = json.dumps(fields["data"], ensure_ascii=False) if "data" in fields else fields["text"]
        result = RowResult("answered", answer, fields["finish"], citations=citations_json)
        return TaskResult(result, None, usage, files=images)

    def _handle_trace_problem(self, problem: str) -> None:
        """Report the first problem with traces, and remember the last, so that no row waits for a slow collector."""
        self._trace_problem = problem
        if problem and not self._trace_problem_reported:
            self._trace_problem_reported = True
            report_problem(self._notify, problem)

    def _communicate(self, process: subprocess.Popen[bytes], input_data: bytes) -> tuple[bytes, bytes]:
        """Return what a process writes to stdout and stderr; end it if its row is canceled."""
        remaining_input: bytes | None = input_data
        while True:
            try:
                return process.communicate(remaining_input, CANCEL_CHECK_SECONDS)
            except subprocess.TimeoutExpired:
                remaining_input = None  # the first call keeps it
            if self._is_canceled():
                _stop_processes([process])
                return b"", b""

    def stop(self) -> None:
        """End the processes of rows, with everything that they started."""
        _stop_processes(list(self._processes))
        with self._original_lock:
            self._remove_original()


def _take_file(fields: Mapping[str, Any]) -> Attachment:
    """Read an image that the process of a row has saved, and delete it: it is saved under the name of the row.

    Raises:
        OSError: a tool has replaced it, for example by a link to a file that safe mode hides.
    """
    path = Path(fields["path"])
    with open_existing_folder("/", path.parent.parts[1:]) as folder:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open(path.name, flags, dir_fd=folder), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError(errno.EINVAL, "it is not a regular file")
            data = file.read()
        os.unlink(path.name, dir_fd=folder)
    return Attachment(path.name, fields["media_type"], data)


def _stop_processes(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """End processes and everything that they started."""
    for process in processes:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
    for process in processes:
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
