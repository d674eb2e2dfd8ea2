"""Marks of trusted projects that a run in safe mode can write, with what their instructions were before it.

A mark is removed at the end of its run if nothing has changed. Otherwise, and if the run was killed, the user is asked
about what has changed before it is sent. Marks are stored where no call in safe mode can write.
"""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Self

from ask.atomic_files import (
    convert_write_errors,
    create_private_folder,
    lock_file,
    open_private_file,
    read_decisions,
    try_lock,
    write_decisions,
)
from ask.config.type_checks import parse_value
from ask.messages import EMPTY_MAPPING
from ask.project.file_ownership import UnsafeFileError, read_owned_file
from ask.project.instructions import DEPENDENCY_FOLDERS, MAX_COMPARED_BYTES
from ask.project.skills import PROJECT_SKILLS_FOLDERS
from ask.project.trust_decisions import TrustStore
from ask.records import NamedTuple
from ask.regular_files import read_regular_file

MAX_ENTRIES = 100_000
"""Maximum number of files and folders to search for instructions. Any file that was not found counts as changed."""
MAX_TOTAL_BYTES = 64_000_000
"""Maximum number of bytes that are compared, of all files together; of further files, only size and time are."""
MAX_TEXT_BYTES = 32_000
"""Maximum size of a text that is stored to show what has changed."""
MAX_TOTAL_TEXT_BYTES = 1_000_000
"""The same for all texts of a run together."""
_MIN_COUNTED_BYTES = 16_000
"""The least that a file counts toward `MAX_TOTAL_BYTES`: opening it takes time, too."""
_UNKNOWN = "unreadable"


class FileState(NamedTuple):
    """The state of a file with instructions, or of a skill: a digest, and the text if it is short.

    If the content is not read, the digest names the inode and the time of its last change, which no call can set.
    """

    digest: str
    text: str | None


class ChangedFile(NamedTuple):
    """A file that has changed since a run in safe mode began.

    `old_text` is None for a new file, and for one that is too long to be stored. `state` is None for a folder that
    cannot be searched.
    """

    path: Path
    old_text: str | None
    state: FileState | None


ProjectState = Mapping[str, FileState]
"""The files with instructions of a project, by their paths."""


class StateReader:
    """Reads the states of files in a project, within limits for all of them together: calls may have written them.

    It reads only what could be sent to a model.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._remaining_size, self._remaining_text_size = MAX_TOTAL_BYTES, MAX_TOTAL_TEXT_BYTES

    def read(self, path: Path) -> FileState:
        """Read the state of a file, which may be a link."""
        self._remaining_size -= _MIN_COUNTED_BYTES
        if self._remaining_size < 0:
            return FileState(_describe_status(path), None)
        try:
            data, size = read_owned_file(path, self._root, min(MAX_COMPARED_BYTES, self._remaining_size))
        except UnsafeFileError:
            return FileState(_describe_status(path), None)
        self._remaining_size -= len(data)
        return self.describe(path, data, size)

    def describe(self, path: Path, data: bytes, size: int) -> FileState:
        """Return the state of a file of this size with this content, as far as it was read."""
        digest = hashlib.sha256(data).hexdigest()
        if size > len(data):
            digest += f" {_describe_status(path)}"
        text = None
        if size <= min(MAX_TEXT_BYTES, self._remaining_text_size):
            self._remaining_text_size -= size
            text = data.decode("utf-8", "replace")
        return FileState(digest, text)


def _describe_status(path: Path) -> str:
    try:
        status = path.stat()
    except OSError:
        return _UNKNOWN
    return f"{status.st_dev} {status.st_ino} {status.st_size} {status.st_ctime_ns}"


class InstructionSearch:
    """A search for instruction files and the files of skills, for at most `MAX_ENTRIES` files and folders.

    Attributes:
        paths: the files that were found, in the order of their folders.
        unsearched: the folders that could not be searched completely.
    """

    def __init__(self, root: Path, names: Sequence[str]) -> None:
        self.paths: list[Path] = []
        self.unsearched: list[Path] = []
        self._root, self._names = root, names
        self._remaining = MAX_ENTRIES

    def search_project(self) -> Self:
        """Search all folders of the project, outermost first."""
        folders = deque([str(self._root)])
        while folders and self._remaining > 0:
            folder = folders.popleft()
            self.search_folder(Path(folder))
            folders += [
                entry.path
                for entry in self._list_entries(folder)
                if entry.name not in DEPENDENCY_FOLDERS and entry.is_dir(follow_symlinks=False)
            ]
        self.unsearched += map(Path, folders)
        return self

    def search_folder(self, folder: Path) -> None:
        """Search for the files that apply to a folder, without those that apply to folders in it only."""
        self.paths += [folder / name for name in self._names if os.path.lexists(folder / name)]
        for name in PROJECT_SKILLS_FOLDERS:
            if os.path.lexists(folder / name):
                self._search_skills(folder / name)

    def _search_skills(self, skills: Path) -> None:
        """Search a folder of skills, which may be a link and contain links to folders."""
        folders, known = deque([str(skills)]), set()
        while folders:
            folder = folders.popleft()
            real_folder = os.path.realpath(folder)
            if real_folder in known or not Path(real_folder).is_relative_to(self._root):  # nothing outside is sent
                continue
            known.add(real_folder)
            if self._remaining <= 0:
                self.unsearched.append(Path(folder))
                continue
            for entry in self._list_entries(folder):
                if os.path.isdir(entry.path):
                    folders.append(entry.path)
                else:
                    self.paths.append(Path(entry.path))

    def _list_entries(self, folder: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(folder) as scan:
                entries = [*islice(scan, self._remaining + 1)]
        except OSError:
            entries = []
            self.unsearched.append(Path(folder))
        if len(entries) > self._remaining:
            self.unsearched.append(Path(folder))
        self._remaining -= len(entries)
        return entries


def _read_states(root: Path, names: Sequence[str]) -> ProjectState:
    """Read the states of all files with instructions in a project."""
    reader = StateReader(root)
    return {str(path): reader.read(path) for path in InstructionSearch(root, names).search_project().paths}


def _has_changed(before: FileState | None, current: FileState) -> bool:
    """Check whether a file has changed, or may have."""
    return before is None or before.digest != current.digest or current.digest == _UNKNOWN


class TrustMarks:
    """The marks of all runs, in a folder with a file and a lock for each run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open_run(self, projects: Iterable[Path], names: Sequence[str]) -> RunMark | None:
        """Mark projects for a run that begins; None if there are none.

        Where another run has left a mark, or has not ended, the files before that run count, not the present ones.

        Raises:
            FileError: the mark cannot be stored.
        """
        roots = [*projects]
        if not roots:
            return None
        with lock_file(self._folder / "marks"):
            marked = {root: files for _, states in self._read_all() for root, files in states.items()}
            states = {str(root): marked.get(str(root)) or _read_states(root, names) for root in roots}
            return RunMark(self._folder / os.urandom(8).hex(), states, names)

    def find_changes(
        self,
        root: Path,
        folders: Iterable[Path],
        names: Sequence[str],
        contents: Mapping[str, bytes] = EMPTY_MAPPING,
    ) -> list[ChangedFile]:
        """Return which files have changed since a run that has left a mark began, of those that apply to the folders.

        They include folders that cannot be searched completely. `contents` is what has been read of some files, by
        their real paths: a run that is active could change a file between reading and comparing it.

        Raises:
            FileError: a mark cannot be read.
        """
        marked = [states[str(root)] for _, states in self._read_all() if str(root) in states]
        if not marked:
            return []
        search, reader = InstructionSearch(root, names), StateReader(root)
        for folder in folders:
            search.search_folder(folder)
        changes: dict[Path, ChangedFile] = {path: ChangedFile(path, None, None) for path in search.unsearched}
        missing = dict(contents)
        for path in search.paths:
            data = contents.get(real_path := os.path.realpath(path))
            missing.pop(real_path, None)
            current = reader.read(path) if data is None else reader.describe(path, data, _read_size(path, data))
            for states in marked:
                before = states.get(str(path))
                if _has_changed(before, current):
                    changes.setdefault(path, ChangedFile(path, before.text if before else None, current))
        # These were read, and have been moved or replaced since.
        for path, data in ((Path(name), data) for name, data in missing.items()):
            changes.setdefault(path, ChangedFile(path, None, reader.describe(path, data, len(data))))
        return [*changes.values()]

    def accept(self, root: Path, names: Sequence[str], changes: Sequence[ChangedFile] | None = None) -> None:
        """Accept these changes of a project, or all: delete its marks that have no other, unless their run is active.

        Raises:
            FileError: a mark cannot be read or written.
        """
        current = _read_states(root, names)
        with lock_file(self._folder / "marks"):
            for path, states in self._read_all():
                if str(root) not in states:
                    continue
                rest = {name: files for name, files in states.items() if name != str(root)}
                if changes is None:
                    accepted = current
                else:
                    shown = {str(change.path): change.state for change in changes if change.state}
                    accepted = {**states[str(root)], **shown}
                if _is_running(path) or any(_has_changed(accepted.get(name), now) for name, now in current.items()):
                    _write_states(path, {**rest, str(root): accepted})
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
        with convert_write_errors(path):
            create_private_folder(path.parent)
            self._lock = open_private_file(path.with_suffix(".lock"), os.O_RDWR)
        try_lock(self._lock)
        _write_states(self._path, states)

    def close(self) -> list[Path]:
        """End the run; return the files that have changed during it."""
        changed, is_known = [], True
        with lock_file(self._path):
            for root, before in self._states.items():
                search, reader = InstructionSearch(Path(root), self._names).search_project(), StateReader(Path(root))
                is_known = is_known and not search.unsearched  # a call can make more files than are searched
                changed += [path for path in search.paths if _has_changed(before.get(str(path)), reader.read(path))]
            if is_known and not changed:
                _delete_mark(self._path)
            else:  # of several runs that found the same, one mark is enough
                for other in self._path.parent.glob("*.json"):
                    if (
                        other != self._path
                        and read_regular_file(other) == read_regular_file(self._path)
                        and not _is_running(other)
                    ):
                        _delete_mark(other)
        os.close(self._lock)
        return changed


def select_writable_projects(store: TrustStore, writable_folders: Sequence[Path]) -> list[Path]:
    """Return the trusted projects that contain one of these folders or are in one."""
    return [
        root
        for root, decision in store.read().items()
        if decision.trusted
        and any(root.is_relative_to(folder) or folder.is_relative_to(root) for folder in writable_folders)
    ]


def _read_size(path: Path, data: bytes) -> int:
    try:
        return max(path.stat().st_size, len(data))
    except OSError:
        return len(data)


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
        return not try_lock(descriptor)
    finally:
        os.close(descriptor)


def _write_states(path: Path, states: Mapping[str, ProjectState]) -> None:
    write_decisions(path, {root: {name: [*state] for name, state in files.items()} for root, files in states.items()})


def _parse_states(content: Any) -> dict[str, dict[str, FileState]]:
    roots = parse_value(content, dict[str, dict[str, tuple[str, str | None]]])
    return {root: {name: FileState(*state) for name, state in files.items()} for root, files in roots.items()}
