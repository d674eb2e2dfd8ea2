"""Copy the folders that a safe run can change before it starts, and compare them with the copy later.

A copy is a folder in the backup set of the run. It contains one numbered file for each content, a manifest that lists
all paths, and after the run a diff with the states that differ. Copy and diff are complete only if the journal says so.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from ask.atomic_files import Ownership
from ask.errors import FileError
from ask.records import NamedTuple
from ask.settings import get_working_directory
from ask.tools.file_access import escape_for_display
from ask.undo.backups import Journal
from ask.undo.journal import (
    ABSENT_STATE,
    DIFF_WRITTEN,
    FOLDER_MARKER,
    LINK_PREFIX,
    MAX_BACKUP_SIZE,
    MAX_FILES,
    MAX_TOTAL_BYTES,
    SNAPSHOT_NAME,
    SNAPSHOT_TAKEN,
    SPECIAL_FILE,
    BackupSet,
    OriginalEntry,
    PathChange,
    PathState,
)
from ask.undo.trees import (
    FILE_FLAGS,
    MOUNT_REASONS,
    MOUNTED,
    MOUNTED_READ_ONLY,
    TOO_DEEP,
    WalkEntry,
    compute_digest,
    copy_content,
    create_private_file,
    make_stat_digest,
    read_entry_state,
    walk_tree,
)

MANIFEST_NAME, DIFF_NAME = "start", "left"
MAX_NAMES = 5
"""Maximum number of names in a message."""
_TIMESTAMP_MARGIN = 2_000_000_000
"""In nanoseconds. A file changed this shortly before copying may have changed again without a new timestamp."""


class FoldersTooLargeError(Exception):
    """The folders are too large for a copy; the message names the limit that they exceed."""


class ManifestEntry(NamedTuple):
    """The state of one path at the time of the copy; a line of the manifest."""

    path: str
    """The absolute path."""
    type_and_mode: int
    """`st_mode`; the next seven fields are from `os.stat_result` too."""
    uid: int
    gid: int
    size: int
    modified_ns: int
    changed_ns: int
    inode: int
    link_count: int
    note: str = ""
    """The target of a link; why a file was not copied; or why a folder could not be read."""
    copy_number: int = 0
    """The name of the file with the content; 0 for none."""

    @property
    def is_unreadable_folder(self) -> bool:
        """True for a folder that could not be read."""
        return stat.S_ISDIR(self.type_and_mode) and bool(self.note)

    @property
    def is_unprotected(self) -> bool:
        """True for a folder that was not copied although a tool call may change its content."""
        own = self.uid == os.geteuid() and self.note != MOUNTED_READ_ONLY
        return self.is_unreadable_folder and (own or self.note in {MOUNTED, TOO_DEEP})


def make_entry(path: str, status: os.stat_result) -> ManifestEntry:
    """Make a manifest entry from the status of a path."""
    owner = status.st_mode, status.st_uid, status.st_gid
    times = status.st_size, status.st_mtime_ns, status.st_ctime_ns
    return ManifestEntry(path, *owner, *times, status.st_ino, status.st_nlink)


def back_up_folders(
    journal: Journal, roots: Sequence[Path], excluded_paths: Collection[str], on_progress: Callable[[], None]
) -> dict[Path, str]:
    """Copy folders, none of which contains another, into a backup set; on an error the set is removed.

    Excluded paths are left out because no tool call can change them. No tool call may be running; changes by the user
    while copying do no harm. `on_progress` is called before each file. Returns the subfolders that could not be copied
    although a tool call may change their content, with the reason.

    Raises:
        FoldersTooLargeError: They exceed the limits of a copy.
        OSError: They cannot be copied.
    """
    check_folder_sizes(roots, excluded_paths)
    target = journal.ensure_folder() / SNAPSHOT_NAME
    uncopied_folders: dict[Path, str] = {}
    copies: dict[tuple[int, ...], int] = {}
    try:
        target.mkdir(mode=0o700)
        with create_private_file(target / MANIFEST_NAME, "x") as manifest:
            manifest.write(json.dumps([list(map(str, roots)), sorted(excluded_paths), time.time_ns()]) + "\n")
            for walk_entry in _walk_all(roots, excluded_paths):
                on_progress()
                with suppress(FileNotFoundError):
                    entry = _copy_entry(walk_entry, target, copies)
                    manifest.write(json.dumps(entry) + "\n")
                    if entry.is_unprotected:
                        uncopied_folders[Path(entry.path)] = entry.note
        journal.add_line(kind=SNAPSHOT_TAKEN)
    except BaseException:
        journal.discard()
        raise
    return uncopied_folders


def _walk_all(roots: Iterable[Path], excluded_paths: Collection[str]) -> Iterable[WalkEntry]:
    for root in roots:
        yield from walk_tree(root, excluded_paths)


def check_folder_sizes(roots: Iterable[Path], excluded_paths: Collection[str]) -> None:
    """Check that folders are not too large to copy, without reading any file.

    Raises FoldersTooLargeError as soon as a limit is exceeded.
    """
    counts = {"files": 0, "folders": 0}
    size = 0
    for walk_entry in _walk_all(roots, excluded_paths):
        unit = "folders" if stat.S_ISDIR(walk_entry.status.st_mode) else "files"
        counts[unit] += 1
        size += walk_entry.status.st_size if unit == "files" else 0
        if counts[unit] > MAX_FILES:
            raise FoldersTooLargeError(f"more than {MAX_FILES:,} {unit}")
        if size > MAX_TOTAL_BYTES:
            raise FoldersTooLargeError(f"more than {MAX_TOTAL_BYTES // 1000000} MB")


def _copy_entry(walk_entry: WalkEntry, target: Path, copies: dict[tuple[int, ...], int]) -> ManifestEntry:
    """Copy the content of an entry, if it is a file, and return its manifest entry.

    `copies` maps devices and inodes to copy numbers, so that a file with several hard links is copied once.
    """
    entry = make_entry(walk_entry.path, walk_entry.status)
    if stat.S_ISLNK(entry.type_and_mode):
        return entry._replace(note=os.readlink(walk_entry.name, dir_fd=walk_entry.parent_fd))
    if not stat.S_ISREG(entry.type_and_mode):
        return entry._replace(note=walk_entry.skip_reason)
    try:
        descriptor = os.open(walk_entry.name, FILE_FLAGS, dir_fd=walk_entry.parent_fd)
    except FileNotFoundError:
        raise
    except OSError as error:
        return entry._replace(note=os.strerror(error.errno or 0))
    with os.fdopen(descriptor, "rb") as source:
        status = os.fstat(descriptor)
        identity = status.st_dev, status.st_ino, status.st_ctime_ns
        if identity not in copies:
            copies[identity] = len(copies) + 1
            with create_private_file(target / str(copies[identity]), "xb") as copy:
                copy_content(source, copy, status.st_size)
    return make_entry(walk_entry.path, status)._replace(copy_number=copies[identity])


def record_folder_changes(journal: Journal) -> None:
    """Record how a run changed its copied folders; discard the backup set if it did not change anything.

    Raises OSError or ValueError if the changes cannot be recorded. Undo then compares with the state at that time.
    """
    snapshot = FolderSnapshot(journal.ensure_folder() / SNAPSHOT_NAME)
    differences = snapshot.find_differences()
    if not differences and journal.line_count == 1:
        journal.discard()
        return
    with create_private_file(snapshot.folder / DIFF_NAME, "x") as diff_file:
        diff_file.writelines(json.dumps([path, *state]) + "\n" for path, state in differences.items())
    journal.add_line(kind=DIFF_WRITTEN)


def add_folder_changes(backup_set: BackupSet) -> BackupSet:
    """Add the changes in copied folders to a backup set, and the subfolders that could not be copied.

    Without a saved diff, because the run was killed, the current state is taken for the state after the run. An invalid
    copy is a FileError.
    """
    if not backup_set.has_snapshot:
        return backup_set
    folder = backup_set.folder / SNAPSHOT_NAME
    try:
        snapshot = FolderSnapshot(folder)
        states = snapshot.read_diff() if backup_set.has_diff else snapshot.find_differences()
        changes = {Path(path): snapshot.build_change(path, state) for path, state in states.items()}
    except OSError as error:
        raise FileError(f"cannot read {folder} ({error.strerror})") from error
    except (ValueError, TypeError, StopIteration) as error:
        raise FileError(f"{folder} is not valid", f"remove {backup_set.folder}, or upgrade ask") from error
    return backup_set._replace(changes={**backup_set.changes, **changes}, uncopied_folders=snapshot.uncopied_folders)


class FolderSnapshot:
    """The copy of folders that was made before a run.

    Raises OSError or ValueError if its manifest cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with (folder / MANIFEST_NAME).open(encoding="utf-8") as file:
            header, *entries = map(json.loads, file)
        roots, excluded_paths, self._started_ns = header
        self._roots, self._excluded_paths = tuple(map(Path, roots)), set(excluded_paths)
        self._entries: Mapping[str, ManifestEntry] = {entry[0]: ManifestEntry(*entry) for entry in entries}

    @property
    def uncopied_folders(self) -> dict[Path, str]:
        """The subfolders that were not copied although the run could change them, with the reason."""
        return {Path(entry.path): entry.note for entry in self._entries.values() if entry.is_unprotected}

    @cached_property
    def _hard_links(self) -> dict[int, list[Path]]:
        """The paths of files with several hard links, by copy number."""
        names: dict[int, list[Path]] = {}
        for entry in self._entries.values():
            if entry.copy_number and entry.link_count > 1:
                names.setdefault(entry.copy_number, []).append(Path(entry.path))
        return names

    def read_diff(self) -> dict[str, PathState]:
        """Read the saved state of each path that the run changed."""
        with (self.folder / DIFF_NAME).open(encoding="utf-8") as file:
            return {path: PathState(*state) for path, *state in map(json.loads, file)}

    def find_differences(self) -> dict[str, PathState]:
        """Return the current state of each path that differs from the copy."""
        differences: dict[str, PathState] = {}
        present: set[str] = set()
        unreadable = [entry.path for entry in self._entries.values() if entry.is_unreadable_folder]
        for walk_entry in _walk_all(self._roots, self._excluded_paths):
            present.add(walk_entry.path)
            if walk_entry.skip_reason:
                unreadable.append(walk_entry.path)
            entry = self._entries.get(walk_entry.path)
            # A mount point shows the permissions of the mounted file system, not those of the folder.
            was_mount = entry and entry.is_unreadable_folder and entry.note in MOUNT_REASONS
            if was_mount or walk_entry.skip_reason in MOUNT_REASONS or self._is_unchanged(entry, walk_entry.status):
                continue
            try:
                state = read_entry_state(walk_entry.parent_fd, walk_entry.name, walk_entry.status)
            except FileNotFoundError:
                state = ABSENT_STATE
            if entry is None or state != self._read_original_state(entry):
                differences[walk_entry.path] = state
        differences.update((path, ABSENT_STATE) for path in self._entries if path not in present)
        unknown_prefixes = tuple(f"{path}/" for path in unreadable)
        return {path: state for path, state in differences.items() if not path.startswith(unknown_prefixes)}

    def _is_unchanged(self, entry: ManifestEntry | None, status: os.stat_result) -> bool:
        """Check by its status, without reading it, whether a file is as it was copied."""
        return (
            entry is not None
            and entry.changed_ns <= self._started_ns - _TIMESTAMP_MARGIN
            and stat.S_ISREG(entry.type_and_mode)
            and entry[:9] == make_entry(entry.path, status)[:9]
        )

    def _read_original_state(self, entry: ManifestEntry) -> PathState:
        """Return the state of a path at the time of the copy."""
        mode = stat.S_IMODE(entry.type_and_mode)
        if stat.S_ISLNK(entry.type_and_mode):
            return PathState(LINK_PREFIX + entry.note)
        if stat.S_ISDIR(entry.type_and_mode):
            return PathState(FOLDER_MARKER, mode)
        if not stat.S_ISREG(entry.type_and_mode):
            return PathState(SPECIAL_FILE)
        if not entry.copy_number or entry.size > MAX_BACKUP_SIZE:
            return PathState(make_stat_digest(entry.size, entry.modified_ns), mode)
        with (self.folder / str(entry.copy_number)).open("rb") as file:
            return PathState(compute_digest(file), mode)

    def build_change(self, path: str, state: PathState) -> PathChange:
        """Build the change from the copied original of a path to `state`."""
        root = next(root for root in self._roots if Path(path).is_relative_to(root))
        entry = self._entries.get(path)
        if entry is None:
            return PathChange(Path(path), None, frozenset([state]), root=root)
        hard_links = self._hard_links.get(entry.copy_number, [])
        original = OriginalEntry(
            copy_path=self.folder / str(entry.copy_number) if entry.copy_number else None,
            digest=self._read_original_state(entry).content,
            ownership=Ownership(stat.S_IMODE(entry.type_and_mode), entry.uid, entry.gid),
            modified_ns=entry.modified_ns,
            inode=entry.inode if hard_links else 0,
            hard_links=tuple(link for link in hard_links if link != Path(path)),
        )
        is_lost = stat.S_ISREG(entry.type_and_mode) or (entry.is_unreadable_folder and not state.is_folder)
        backup_error = entry.note if is_lost else ""
        return PathChange(Path(path), original, frozenset([state]), backup_error=backup_error, root=root)


def format_folders(folders: Mapping[Path, str]) -> str:
    """Format folders, each with a comment, on one line."""
    return join_names([f"{format_path(path)}/ ({reason})" for path, reason in folders.items()])


def join_names(names: Sequence[str]) -> str:
    """Join the first `MAX_NAMES` names; say how many more there are."""
    return ", ".join(names[:MAX_NAMES]) + (f" and {len(names) - MAX_NAMES} more" if names[MAX_NAMES:] else "")


def format_path(path: Path) -> str:
    """Format a path on one line, relative to the working directory if it is inside."""
    folder = str(get_working_directory()).rstrip("/") + "/"
    return escape_for_display(str(path).removeprefix(folder))
