"""Answers one row with tools: an `ask` process of its own, in a working copy of its own.

Rows that run at the same time must not share files, and a process per row can be stopped with all that it started. The
folder is copied once, and each row gets a copy of this copy: what others change in the folder meanwhile is not a change
of the row.
"""

from __future__ import annotations

import errno
import glob
import json
import os
import re
import resource
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ask.agent.request import RunRequest
from ask.client.endpoint import ModelEndpoint
from ask.config.directories import AppDirs
from ask.config.installation import find_launcher
from ask.config.options import ROW_ARGUMENT, RunOptions
from ask.errors import AskError, FileError, LimitReachedError, SafetyError
from ask.map.job import RowTask, TaskResult
from ask.map.ledger import RowResult
from ask.map.server_pool import create_pools
from ask.messages import Attachment, Usage
from ask.plugin_api.loaded_provider import discard_notice
from ask.process.parent_exit import end_with_parent
from ask.records import NamedTuple
from ask.safety.folder_scan import find_hidden_paths
from ask.text import format_one_line
from ask.tools.file_access import open_existing_folder
from ask.traces.lifecycle import LATE_PROBLEM, report_problem

MAX_CONCURRENT_PROCESSES = 256
"""The most rows at a time if their number is adapted: each is a process."""
CANCEL_CHECK_SECONDS = 1.0
MAX_PATCH_BYTES = 10_000_000
NEW_FILE_HEADER = re.compile(rb'^diff .*\n--- .*\n\+\+\+ (?:"b/(.*)"|b/([^\t\n]*))\t.*\n(?=@@ -0,0 )', re.MULTILINE)
"""What `diff` prints before the text of a file that was empty or did not exist."""
MAX_PATCH_MEMORY_BYTES = 1 << 30
"""The memory for finding what a row has changed."""
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
        self._remove_original = weakref.finalize(self, _remove_folder, self._original_parent)

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
        with _create_temporary_folder() as folder:
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
                _copy_folder(original, copies / "b")
            except (FileError, SafetyError) as error:
                return TaskResult(None, error, Usage())
            outcome = self._run_process(options, copies / "b")
            if outcome.result is None or outcome.error:
                return outcome
            try:
                (copies / "a").symlink_to(original)
                return outcome._replace(result=outcome.result._replace(patch=_make_patch(copies)))
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
                    _copy_folder(template, copy)
                except FileError:  # a file may have been deleted meanwhile
                    _remove_folder(str(copy))
                    _copy_folder(template, copy)
                _remove_copied_files(template, copy, left_out)
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


@contextmanager
def _create_temporary_folder() -> Iterator[Path]:
    """Create a folder that is deleted afterward."""
    folder = tempfile.mkdtemp(prefix="ask-map-")
    try:
        yield Path(folder)
    finally:
        _remove_folder(folder)


def _remove_folder(folder: str) -> None:
    """Delete a folder, if there is one, whatever tools have made in it.

    Python's own functions fail if folders are nested too deeply, and programs do not.
    """
    if folder and _run_quietly("rm", "-rf", folder).returncode:  # a folder is read-only
        _run_quietly("chmod", "-R", "u+rwX", folder)
        _run_quietly("rm", "-rf", folder)


def _copy_folder(source: Path, target: Path) -> None:
    """Copy a folder with its links and named pipes, at any depth.

    Raises:
        FileError: something cannot be copied.
    """
    target.mkdir()
    copying = _run_quietly("cp", "-a", f"{source}/.", str(target))
    if copying.returncode:
        problem = format_one_line(copying.stderr[:1_000].decode("utf-8", "replace"))
        raise FileError(f"{source} cannot be copied ({problem})")


def _remove_copied_files(source: Path, copy: Path, files: Sequence[Path]) -> None:
    """Delete the copies of files and folders, whose names are patterns, in a copied folder."""
    root = os.path.realpath(source)
    for file in files:
        parent = Path(os.path.realpath(file.parent))
        if parent.is_relative_to(root):
            for match in (copy / parent.relative_to(root)).glob(file.name):
                _remove_folder(str(match))


def _run_quietly(*command: str) -> subprocess.CompletedProcess[bytes]:
    """Run a program without input and collect what it prints."""
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)


def _make_patch(folder: Path) -> str:
    """Return what changed between the folders "a" and "b", as a patch; "" without the program `diff`.

    One process at a time is started: `diff` reads files into memory that tools have written.

    Raises:
        LimitReachedError: the patch is too large, or takes too long or too much memory.
        FileError: tools have made a file or folder unreadable, or a name with a line break, which `diff` does not quote
            everywhere: it could forge a change.
    """
    if not shutil.which("diff"):
        return ""
    too_large = LimitReachedError(f"the changes are larger than {MAX_PATCH_BYTES:,} bytes")
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
            preexec_fn=_limit_patch_process,  # noqa: PLW1509 - only system calls
        ) as process,
    ):
        assert process.stdout  # noqa: S101
        data = process.stdout.read(MAX_PATCH_BYTES + 1)
        if len(data) > MAX_PATCH_BYTES:
            process.kill()
            raise too_large
        process.wait()
        problems.seek(0)
        problem = problems.read(MAX_PATCH_BYTES).decode("utf-8", "replace")
    links = _make_link_patches(folder) if process.returncode else []
    if problem.count("\n") == len(links) == problem.count(": No such file or directory\n"):
        problem = ""  # `diff` cannot compare a link with nothing
    if process.returncode < 0 or "memory exhausted" in problem:
        reason = f"{PATCH_SECONDS} s of processor time or {MAX_PATCH_MEMORY_BYTES >> 20:,} MiB of memory"
        raise LimitReachedError(f"finding the changes takes more than {reason}")
    if process.returncode > 1 and problem:
        raise FileError(f"the changes cannot be read ({format_one_line(problem[:1_000])})")
    data = _add_new_files_and_modes(data + os.fsencode("".join(links)), folder)
    if data and _run_quietly("find", f"{folder}/b", "-name", "*\n*", "-print", "-quit").stdout:
        raise FileError("the changes cannot be shown: the name of a file or folder contains a line break")
    if len(data) > MAX_PATCH_BYTES:
        raise too_large
    return data.decode("utf-8", "replace")


def _make_link_patches(folder: Path) -> list[str]:
    """Return a patch in git's format for each symbolic link that only one of the folders "a" and "b" has."""
    found = _run_quietly("find", f"{folder}/a/", f"{folder}/b/", "-type", "l", "-print0").stdout
    links = {Path(os.fsdecode(path)).relative_to(folder) for path in found.split(b"\0")[:-1]}
    patches = []
    for link in sorted(links):
        base, *parts = link.parts
        if not os.path.lexists(folder.joinpath("ab".replace(base, ""), *parts)):
            patches.append(_make_link_patch("/".join(parts), os.readlink(folder / link), is_new=base == "b"))
    return patches


def _make_link_patch(name: str, target: str, *, is_new: bool) -> str:
    name += "\t" if " " in name else ""  # ends a name with spaces
    lines = target.split("\n")
    if is_new:
        change, old, new, numbers, sign = "new", "/dev/null", f"b/{name}", f"-0,0 +1,{len(lines)}", "+"
    else:
        change, old, new, numbers, sign = "deleted", f"a/{name}", "/dev/null", f"-1,{len(lines)} +0,0", "-"
    header = f"diff --git a/{name} b/{name}\n{change} file mode 120000\n--- {old}\n+++ {new}\n@@ {numbers} @@\n"
    return header + "".join(f"{sign}{line}\n" for line in lines) + "\\ No newline at end of file\n"


def _add_new_files_and_modes(data: bytes, folder: Path) -> bytes:
    """Add what `diff` leaves out to a patch, in git's format: new empty files, and permissions to execute."""
    executables = {name: _find_files(folder / name, "-perm", "-u+x") for name in "ab"}
    empty = _find_files(folder / "b", "-empty")
    new = {name for name in empty | executables["b"] if not os.path.lexists(folder / "a" / name)}

    def add_mode(header: re.Match[bytes]) -> bytes:
        quoted, plain = header.groups()
        name = os.fsdecode(quoted.decode("unicode_escape").encode("latin-1") if quoted else plain)
        if name not in new:
            return header[0]
        lines = f"{_format_git_header(name)}new file mode 100755\n--- /dev/null\n+++ {_quote_path(f'b/{name}')}\n"
        return lines.encode()

    sections = []
    for name in sorted((empty & new) | ((executables["a"] ^ executables["b"]) - new)):
        mode, old_mode = ("100755", "100644") if name in executables["b"] else ("100644", "100755")
        if name in new:
            sections.append(f"{_format_git_header(name)}new file mode {mode}\n")
        elif os.path.isfile(folder / "b" / name) and not os.path.islink(folder / "b" / name):
            sections.append(f"{_format_git_header(name)}old mode {old_mode}\nnew mode {mode}\n")
    return NEW_FILE_HEADER.sub(add_mode, data) + "".join(sections).encode()


def _find_files(folder: Path, *conditions: str) -> set[str]:
    """Return the paths of the regular files in a folder that meet conditions of `find`."""
    found = _run_quietly("find", f"{folder}/", "-type", "f", *conditions, "-print0").stdout  # it may be a link
    return {os.path.relpath(os.fsdecode(path), folder) for path in found.split(b"\0")[:-1]}


def _format_git_header(name: str) -> str:
    return f"diff --git {_quote_path(f'a/{name}')} {_quote_path(f'b/{name}')}\n"


def _quote_path(path: str) -> str:
    """Quote a path as in the header of a patch, unless it has only letters that need no quotation marks."""
    quoted = re.sub(rb"[^!#-\[\]-~]", lambda match: b"\\%03o" % match[0][0], os.fsencode(path)).decode()
    return path if quoted == path else f'"{quoted}"'


def _limit_patch_process() -> None:
    """Limit the memory and the processor time of this process, and end it with its parent."""
    resource.setrlimit(resource.RLIMIT_AS, (MAX_PATCH_MEMORY_BYTES, MAX_PATCH_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (PATCH_SECONDS, PATCH_SECONDS))
    end_with_parent()
