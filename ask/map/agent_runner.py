"""Answers one row with tools: an `ask` process of its own, in a working copy of its own.

Rows that run at the same time must not share files, and a process per row can be stopped with all that it started.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ask.agent.request import RunRequest
from ask.errors import AskError
from ask.installation import find_launcher
from ask.map.engine import RowTask, TaskResult
from ask.map.ledger import RowResult
from ask.messages import Usage
from ask.secrets import format_variable_prefix

PR_SET_PDEATHSIG = 1
"""See prctl(2)."""
prctl = getattr(ctypes.CDLL(None), "prctl", None)
CANCEL_CHECK_SECONDS = 1.0
STOP_SECONDS = 5.0
"""How long a process may take to end after SIGTERM."""


class AgentOptions(NamedTuple):
    """How rows with tools run.

    Attributes:
        safe_option: the option of `ask` that turns on safe mode; "" to leave it off.
        directory_template: the folder that each row gets a copy of; None to run in the current folder.
        arguments: the options of `ask` that every row gets, without provider, model and prompt.
        has_schema: whether the answer is JSON.
    """

    safe_option: str
    directory_template: Path | None
    arguments: tuple[str, ...]
    has_schema: bool


class RowError(AskError):
    """The error of a row's process.

    Args:
        message: its message.
        exit_code: its exit code.
    """

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class AgentRunner:
    """Answers rows with tools. One instance serves all threads.

    Args:
        requests: the job's request for each of its models.
        options: how rows run.
        processes: the running processes of all threads.
        is_canceled: checks whether the row of the calling thread is to be ended; None if that never happens.
    """

    def __init__(
        self,
        requests: Sequence[RunRequest],
        options: AgentOptions,
        processes: set[subprocess.Popen[bytes]],
        is_canceled: Callable[[], bool] | None = None,
    ) -> None:
        self._is_canceled = is_canceled
        self._requests = requests
        self._options = options
        self._processes = processes

    def run(self, task: RowTask) -> TaskResult:
        """Answer a row."""
        template = self._options.directory_template
        if template is None:
            return self._run_in(task, Path.cwd())
        with tempfile.TemporaryDirectory(prefix="ask-map-", ignore_cleanup_errors=True) as folder:
            original, copy = Path(folder, "a"), Path(folder, "b")
            original.symlink_to(template)
            shutil.copytree(template, copy, symlinks=True)
            outcome = self._run_in(task, copy)
            if outcome.result is None:
                return outcome
            return outcome._replace(result=outcome.result._replace(patch=make_patch(Path(folder))))

    def _run_in(self, task: RowTask, directory: Path) -> TaskResult:
        endpoint = self._requests[task.model_number].endpoint
        command = [str(find_launcher()), "-p", endpoint.provider_name, "-m", endpoint.model, *self._options.arguments]
        environment = {**os.environ, f"{format_variable_prefix(endpoint.provider_name)}_BASE_URL": endpoint.base_url}
        if endpoint.key:
            environment[f"{format_variable_prefix(endpoint.provider_name)}_API_KEY"] = endpoint.key
        with tempfile.TemporaryDirectory(prefix="ask-map-") as folder:
            for attachment in task.message.attachments:
                file = Path(folder, Path(attachment.name).name)
                file.write_bytes(attachment.data)
                command += ["-f", str(file)]
            return self._run_process(task, command, environment, directory)

    def _run_process(
        self, task: RowTask, command: Sequence[str], environment: Mapping[str, str], directory: Path
    ) -> TaskResult:
        process = subprocess.Popen(
            [*command, "--json", "--no-save", *filter(None, [self._options.safe_option])],
            cwd=directory,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # the first Ctrl-C lets it finish
            preexec_fn=end_with_parent if prctl else None,  # noqa: PLW1509 - only a system call
        )
        self._processes.add(process)
        try:
            output, messages = self._communicate(process, task.message.content.encode("utf-8", "replace"))
        finally:
            self._processes.discard(process)
        return self._read_result(process.returncode, output, messages)

    def _communicate(self, process: subprocess.Popen[bytes], prompt: bytes) -> tuple[bytes, bytes]:
        """Return what a process writes to stdout and stderr; end it if its row is canceled."""
        if self._is_canceled is None:
            return process.communicate(prompt)
        remaining_input: bytes | None = prompt
        while True:
            try:
                return process.communicate(remaining_input, CANCEL_CHECK_SECONDS)
            except subprocess.TimeoutExpired:
                remaining_input = None  # the first call keeps it
            if self._is_canceled():
                stop_processes({process})
                return b"", b""

    def _read_result(self, exit_code: int, output: bytes, messages: bytes) -> TaskResult:
        lines = messages.decode("utf-8", "replace").strip().splitlines()
        try:
            fields: Mapping[str, Any] = json.loads(output)
        except ValueError:
            return TaskResult(None, RowError(lines[-1] if lines else f"ask exited with {exit_code}", exit_code))
        usage = Usage(**{name: fields["usage"].get(name) for name in Usage._fields})
        if exit_code:
            error: AskError = RowError(str(fields["error"]), exit_code)
            return TaskResult(None, error, usage)
        answer = json.dumps(fields["data"], ensure_ascii=False) if self._options.has_schema else fields["text"]
        result = RowResult(
            "answered",
            answer,
            fields["finish"],
            usage.input_tokens,
            usage.output_tokens,
        )
        return TaskResult(result, None, usage)


def end_with_parent() -> None:
    """Have the kernel end this process once the thread that started it has ended, even by SIGKILL."""
    assert prctl  # noqa: S101
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def make_patch(folder: Path) -> str:
    """Return what changed between the folders "a" and "b", as a patch; "" without the program `diff`."""
    if not shutil.which("diff"):
        return ""
    command = ["diff", "-ruN", "--no-dereference", "a/", "b/"]
    result = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    return result.stdout.decode("utf-8", "replace")


def stop_processes(processes: set[subprocess.Popen[bytes]]) -> None:
    """End processes, with everything that they started."""
    for process in list(processes):
        try:
            os.killpg(process.pid, signal.SIGTERM)
        except ProcessLookupError:
            continue
    for process in list(processes):
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
