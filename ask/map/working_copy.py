"""The working copies of rows with tools: copying a folder, deleting copies, and the patch of what a row has changed."""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ask.errors import FileError, LimitReachedError
from ask.process.parent_exit import end_with_parent
from ask.text import format_one_line

MAX_PATCH_BYTES = 10_000_000
NEW_FILE_HEADER = re.compile(rb'^diff .*\n--- .*\n\+\+\+ (?:"b/(.*)"|b/([^\t\n]*))\t.*\n(?=@@ -0,0 )', re.MULTILINE)
"""What `diff` prints before the text of a file that was empty or did not exist."""
MAX_PATCH_MEMORY_BYTES = 1 << 30
"""The memory for finding what a row has changed."""
PATCH_SECONDS = 60
"""The processor time for that, in seconds."""
PATCH_LOCK = threading.Lock()


@contextmanager
def create_temporary_folder() -> Iterator[Path]:
    """Create a folder that is deleted afterward."""
    folder = tempfile.mkdtemp(prefix="ask-map-")
    try:
        yield Path(folder)
    finally:
        remove_folder(folder)


def remove_folder(folder: str) -> None:
    """Delete a folder, if there is one, whatever tools have made in it.

    Python's own functions fail if folders are nested too deeply, and programs do not.
    """
    if folder and _run_quietly("rm", "-rf", folder).returncode:  # a folder is read-only
        _run_quietly("chmod", "-R", "u+rwX", folder)
        _run_quietly("rm", "-rf", folder)


def copy_folder(source: Path, target: Path) -> None:
    """Copy a folder with its links and named pipes, at any depth.

    Raises:
        FileError: something cannot be copied.
    """
    target.mkdir()
    copying = _run_quietly("cp", "-a", f"{source}/.", str(target))
    if copying.returncode:
        problem = format_one_line(copying.stderr[:1_000].decode("utf-8", "replace"))
        raise FileError(f"{source} cannot be copied ({problem})")


def remove_copied_files(source: Path, copy: Path, files: Sequence[Path]) -> None:
    """Delete the copies of files and folders, whose names are patterns, in a copied folder."""
    root = os.path.realpath(source)
    for file in files:
        parent = Path(os.path.realpath(file.parent))
        if parent.is_relative_to(root):
            for match in (copy / parent.relative_to(root)).glob(file.name):
                remove_folder(str(match))


def _run_quietly(*command: str) -> subprocess.CompletedProcess[bytes]:
    """Run a program without input and collect what it prints."""
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)


def make_patch(folder: Path) -> str:
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
