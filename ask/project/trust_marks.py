"""Marks of trusted projects that a run in safe mode can write, with what their instructions were before it.

A mark is removed at the end of its run if nothing has changed. Otherwise, and if the run was killed, the user is asked
about what has changed before it is sent. Marks are stored where no call in safe mode can write.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ask.atomic_files import create_private_folder, read_decisions, write_decisions
from ask.errors import FileError
from ask.project.skills import PROJECT_SKILLS_FOLDER
from ask.project.trust import TrustStore
from ask.records import NamedTuple
from ask.type_checks import parse_value

MAX_ENTRIES = 100_000
"""Maximum number of files and folders to search for instructions. Any file that was not found counts as changed."""
MAX_TEXT_SIZE = 32_000
"""Maximum size of a text that is stored to show what has changed, in bytes."""
_SKIPPED_FOLDERS = frozenset({".git", "node_modules", "__pycache__", "site-packages"})
_UNREADABLE = "unreadable"


class FileState(NamedTuple):
    """The state of a file with instructions, or of a skill: a digest, and the text if it is short."""

    digest: str
    text: str | None


class ChangedFile(NamedTuple):
    """A file that has changed since a run in safe mode began.

    `old_text` is None for a new file, and for one that is too long to be stored.
    """

    path: Path
    old_text: str | None


ProjectState = Mapping[str, FileState]
"""The files with instructions of a project, by their paths."""


def read_state(path: Path) -> FileState:
    """Read the state of a file, which may be a link."""
    try:
        data = path.read_bytes()
    except OSError:
        return FileState(_UNREADABLE, None)
    text = data.decode("utf-8", "replace") if len(data) <= MAX_TEXT_SIZE else None
    return FileState(hashlib.sha256(data).hexdigest(), text)


def find_instruction_paths(root: Path, names: Sequence[str]) -> tuple[list[Path], bool]:
    """Find the instruction files and the files of the skills in a project, outermost first.

    Return also whether everything could be searched.
    """
    paths: list[Path] = []
    folders, remaining, is_complete = deque([str(root)]), MAX_ENTRIES, True
    while folders:
        folder = folders.popleft()
        is_skill = f"/{PROJECT_SKILLS_FOLDER}/" in f"{folder}/"
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    remaining -= 1
                    if remaining < 0:
                        return paths, False
                    if entry.is_dir(follow_symlinks=is_skill):  # a skill may be a link to a folder
                        if entry.name not in _SKIPPED_FOLDERS:
                            folders.append(entry.path)
                    elif is_skill or entry.name in names:
                        paths.append(Path(entry.path))
        except OSError:
            is_complete = False
    return paths, is_complete


def read_states(root: Path, names: Sequence[str]) -> ProjectState:
    """Read the states of all files with instructions in a project."""
    return {str(path): read_state(path) for path in find_instruction_paths(root, names)[0]}


def find_relevant_paths(directory_folders: Iterable[Path], names: Sequence[str]) -> Iterator[Path]:
    """Yield the instruction files and the files of the skills that a run in the last of these folders would use."""
    for folder in directory_folders:
        yield from (folder / name for name in names if os.path.lexists(folder / name))
        if os.path.lexists(folder / PROJECT_SKILLS_FOLDER):
            yield from find_instruction_paths(folder / PROJECT_SKILLS_FOLDER, ())[0]


class TrustMarks:
    """The marks of all runs, in a folder with a file and a lock for each run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open_run(self, projects: Iterable[Path], names: Sequence[str]) -> RunMark | None:
        """Mark projects for a run that begins; None if there are none.

        Raises:
            FileError: the mark cannot be stored.
        """
        states = {str(root): read_states(root, names) for root in projects}
        return RunMark(self._folder / os.urandom(8).hex(), states, names) if states else None

    def find_changes(self, root: Path, paths: Iterable[Path]) -> list[ChangedFile]:
        """Return which of these files of a project have changed since a run that has left a mark began.

        Raises:
            FileError: a mark cannot be read.
        """
        marked = [states[str(root)] for _, states in self._read_all() if str(root) in states]
        changes: dict[Path, ChangedFile] = {}
        for path in paths if marked else ():
            current = read_state(path)
            for states in marked:
                before = states.get(str(path))
                if before is None or before.digest != current.digest or current.digest == _UNREADABLE:
                    changes.setdefault(path, ChangedFile(path, before.text if before else None))
        return [*changes.values()]

    def accept(self, root: Path, names: Sequence[str]) -> None:
        """Accept the current files of a project: delete its marks, or update those of runs that have not ended.

        Raises:
            FileError: a mark cannot be read or written.
        """
        for path, states in self._read_all():
            if str(root) not in states:
                continue
            rest = {name: files for name, files in states.items() if name != str(root)}
            if _is_running(path):
                _write_states(path, {**rest, str(root): read_states(root, names)})
            elif rest:
                _write_states(path, rest)
            else:
                _delete_mark(path)

    def _read_all(self) -> list[tuple[Path, dict[str, dict[str, FileState]]]]:
        return [(path, read_decisions(path, _parse_states) or {}) for path in sorted(self._folder.glob("*.json"))]


class RunMark:
    """The mark of a run in safe mode, which `close` removes if nothing has changed.

    Raises:
        FileError: it cannot be stored.
    """

    def __init__(self, path: Path, states: Mapping[str, ProjectState], names: Sequence[str]) -> None:
        self._path, self._states, self._names = path.with_suffix(".json"), states, names
        try:
            create_private_folder(path.parent)
            self._lock = os.open(path.with_suffix(".lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            with suppress(OSError):  # a file system without locks
                fcntl.flock(self._lock, fcntl.LOCK_EX)
        except OSError as error:
            raise FileError(f"cannot write {path} ({error.strerror})") from error
        _write_states(self._path, states)

    def close(self) -> list[Path]:
        """End the run; return the files that have changed during it."""
        changed, is_known = [], True
        for root, before in self._states.items():
            paths, is_complete = find_instruction_paths(Path(root), self._names)
            is_known = is_known and is_complete  # a call can make more files than are searched
            changed += [path for path in paths if before.get(str(path)) != read_state(path)]
        if is_known and not changed:
            _delete_mark(self._path)
        else:  # of several runs that found the same, one mark is enough
            for other in self._path.parent.glob("*.json"):
                if other != self._path and other.read_bytes() == self._path.read_bytes() and not _is_running(other):
                    _delete_mark(other)
        os.close(self._lock)
        return changed


def select_writable_projects(store: TrustStore, writable_folders: Sequence[Path]) -> list[Path]:
    """Return the trusted projects that contain one of these folders or are in one."""
    return [
        root
        for root, decision in store.read().items()
        if decision.is_trusted
        and any(root.is_relative_to(folder) or folder.is_relative_to(root) for folder in writable_folders)
    ]


def _delete_mark(path: Path) -> None:
    for each in (path, path.with_suffix(".lock")):
        each.unlink(missing_ok=True)


def _is_running(path: Path) -> bool:
    """Check whether the run of a mark has not ended."""
    try:
        descriptor = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


def _write_states(path: Path, states: Mapping[str, ProjectState]) -> None:
    write_decisions(path, {root: {name: [*state] for name, state in files.items()} for root, files in states.items()})


def _parse_states(content: Any) -> dict[str, dict[str, FileState]]:
    roots = parse_value(content, dict[str, dict[str, tuple[str, str | None]]])
    return {root: {name: FileState(*state) for name, state in files.items()} for root, files in roots.items()}
