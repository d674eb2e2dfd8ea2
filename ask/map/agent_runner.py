"""Answers one row with tools: an `ask` process of its own, in a working copy of its own.

Rows that run at the same time must not share files, and a process per row can be stopped with all that it started.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ask.agent.request import RunRequest
from ask.config.installation import find_launcher
from ask.config.options import ROW_ARGUMENT, RunOptions
from ask.errors import AskError, FileError, LimitReachedError
from ask.map.job import RowTask, TaskResult
from ask.map.ledger import RowResult
from ask.messages import Usage
from ask.records import NamedTuple
from ask.text import format_one_line

PR_SET_PDEATHSIG = 1
"""See prctl(2)."""
prctl = getattr(ctypes.CDLL(None), "prctl", None)
CANCEL_CHECK_SECONDS = 1.0
MAX_PATCH_BYTES = 10_000_000
MAX_PATCH_MEMORY = 1 << 30
"""The memory for finding what a row has changed, in bytes."""
PATCH_SECONDS = 60
"""The processor time for that, in seconds."""
PATCH_LOCK = threading.Lock()
STOP_SECONDS = 5.0
"""How long a process may take to end after SIGTERM."""


class AgentOptions(NamedTuple):
    """How rows with tools run.

    Attributes:
        directory_template: the folder that each row gets a copy of; None to run in the current folder.
        run: the options of every row, without its provider, model and prompt.
    """

    directory_template: Path | None
    run: RunOptions


class AgentRunner:
    """Answers rows with tools. One instance serves all threads.

    Args:
        requests: the job's request for each of its models.
        options: how rows run.
        is_canceled: checks whether the row of the calling thread is to be ended.
    """

    def __init__(
        self, requests: Sequence[RunRequest], options: AgentOptions, is_canceled: Callable[[], bool] = lambda: False
    ) -> None:
        self._is_canceled = is_canceled
        self._requests = requests
        self._options = options
        self._processes: set[subprocess.Popen[bytes]] = set()

    def run(self, task: RowTask) -> TaskResult:
        """Answer a row."""
        endpoint = self._requests[task.model_number].endpoint
        with tempfile.TemporaryDirectory(prefix="ask-map-", ignore_cleanup_errors=True) as folder_name:
            folder, files = Path(folder_name), []
            for attachment in task.message.attachments:
                file = folder / Path(attachment.name).name
                file.write_bytes(attachment.data)
                files.append(str(file))
            options = self._options.run._replace(
                words=(task.message.content,),
                provider=endpoint.provider_name,
                model=endpoint.model,
                base_url=endpoint.base_url,
                key=endpoint.key,
                files=tuple(files),
            )
            template = self._options.directory_template
            if template is None:
                return self._run_process(options, Path.cwd())
            copies = folder / "copies"
            copies.mkdir()
            original, copy = copies / "a", copies / "b"
            original.symlink_to(template)
            shutil.copytree(template, copy, symlinks=True)
            outcome = self._run_process(options, copy)
            if outcome.result is None:
                return outcome
            try:
                return outcome._replace(result=outcome.result._replace(patch=make_patch(copies)))
            except AskError as error:
                return TaskResult(None, error, outcome.usage)

    def _run_process(self, options: RunOptions, directory: Path) -> TaskResult:
        process = subprocess.Popen(
            [str(find_launcher()), ROW_ARGUMENT],
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # the first Ctrl-C lets it finish
            preexec_fn=end_with_parent if prctl else None,  # noqa: PLW1509 - only a system call
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
        usage = Usage(**{name: fields["usage"].get(name) for name in Usage._fields})
        if error_message := fields["error"]:
            error = AskError(error_message)
            error.exit_code = process.returncode
            return TaskResult(None, error, usage)
        answer = json.dumps(fields["data"], ensure_ascii=False) if "data" in fields else fields["text"]
        return TaskResult(RowResult("answered", answer, fields["finish"]), None, usage)

    def _communicate(self, process: subprocess.Popen[bytes], input_data: bytes) -> tuple[bytes, bytes]:
        """Return what a process writes to stdout and stderr; end it if its row is canceled."""
        remaining_input: bytes | None = input_data
        while True:
            try:
                return process.communicate(remaining_input, CANCEL_CHECK_SECONDS)
            except subprocess.TimeoutExpired:
                remaining_input = None  # the first call keeps it
            if self._is_canceled():
                stop_processes([process])
                return b"", b""

    def stop(self) -> None:
        """End the processes of rows, with everything that they started."""
        stop_processes(list(self._processes))


def stop_processes(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """End processes and everything that they started."""
    for process in processes:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
    for process in processes:
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)


def end_with_parent() -> None:
    """Have the kernel end this process once the thread that started it has ended, even by SIGKILL."""
    assert prctl  # noqa: S101
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def make_patch(folder: Path) -> str:
    """Return what changed between the folders "a" and "b", as a patch; "" without the program `diff`.

    One process at a time is started: `diff` reads files into memory that tools have written.

    Raises:
        LimitReachedError: the patch is too large, or takes too long or too much memory.
        FileError: tools have made a file or folder unreadable.
    """
    if not shutil.which("diff"):
        return ""
    command = ["diff", "-ruN", "--no-dereference", "a/", "b/"]
    with (
        PATCH_LOCK,
        tempfile.TemporaryFile() as problems,
        subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, "LC_ALL": "C"},
            stdout=subprocess.PIPE,
            stderr=problems,
            preexec_fn=limit_patch_process,  # noqa: PLW1509 - only system calls
        ) as process,
    ):
        assert process.stdout  # noqa: S101
        data = process.stdout.read(MAX_PATCH_BYTES + 1)
        if len(data) > MAX_PATCH_BYTES:
            process.kill()
            raise LimitReachedError(f"the changes are larger than {MAX_PATCH_BYTES:,} bytes")
        process.wait()
        problems.seek(0)
        problem = problems.read(1_000).decode("utf-8", "replace")
    if process.returncode < 0 or "memory exhausted" in problem:
        reason = f"{PATCH_SECONDS} s of processor time or {MAX_PATCH_MEMORY >> 20:,} MiB of memory"
        raise LimitReachedError(f"finding the changes takes more than {reason}")
    if process.returncode > 1:
        raise FileError(f"the changes cannot be read ({format_one_line(problem)})")
    return data.decode("utf-8", "replace")


def limit_patch_process() -> None:
    """Limit the memory and the processor time of this process, and end it with its parent."""
    resource.setrlimit(resource.RLIMIT_AS, (MAX_PATCH_MEMORY, MAX_PATCH_MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (PATCH_SECONDS, PATCH_SECONDS))
    if prctl:
        end_with_parent()
