"""Walk folders, and describe, read and copy files, without following symbolic links or crossing file systems.

Other processes may be changing the folders. Each step goes from an open folder to a name in it, so replacing a folder
by a link cannot lead anywhere else.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from hashlib import file_digest
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO

from ask.atomic_files import CHUNK_BYTES, FILE_FLAGS, FOLDER_FLAGS, Ownership, open_private_file
from ask.records import NamedTuple
from ask.regular_files import open_regular_file
from ask.tools.file_access import open_existing_folder, open_folders
from ask.undo.backup_scope import MAX_BACKUP_BYTES, MAX_DEPTH

ABSENT, FOLDER_MARKER, LINK_PREFIX, SPECIAL_FILE = "", "folder", "link to ", "special"
"""Used in place of a digest: nothing, a folder, a link (followed by its target), or a pipe, socket or device."""
OWNER_RWX = 0o700
"""The permissions that the owner of a folder needs to change its entries."""
TOO_DEEP = "it is nested too deeply"
MOUNTED, MOUNTED_READ_ONLY = MOUNT_REASONS = (
    "another file system is mounted there",
    "another file system is mounted there, read-only",
)


def check_text(value: Any) -> str:
    """Check that a value of a journal or manifest is text that can be a path.

    Raises:
        ValueError, TypeError: it is not.
    """
    if b"\0" in os.fsencode(value):
        raise ValueError
    return str(value)


class PathState(NamedTuple):
    """The type and content of what is at a path, for comparison."""

    content: str
    """The SHA-256 of a file in hexadecimal, or one of the markers `ABSENT`, `FOLDER_MARKER`, ..."""
    mode: int | None = None
    """The permissions of a file or folder; None if they are unknown or do not matter."""

    @property
    def is_file(self) -> bool:
        """True for a regular file."""
        return self.content not in {ABSENT, FOLDER_MARKER, SPECIAL_FILE} and not self.content.startswith(LINK_PREFIX)

    @property
    def is_folder(self) -> bool:
        return self.content == FOLDER_MARKER

    def matches(self, other: PathState) -> bool:
        """Check whether both states may be the same; an unknown mode matches any."""
        return self.content == other.content and (None in (self.mode, other.mode) or self.mode == other.mode)


ABSENT_STATE = PathState(ABSENT)


class SavedEntry(NamedTuple):
    """What was at a path when it was backed up. Journals and manifests contain the fields in this order."""

    path: str
    """The absolute path."""
    type_and_mode: int
    """`st_mode`; the next seven fields are from `os.stat_result` too."""
    user: int
    group: int
    size: int
    modified_ns: int
    changed_ns: int
    inode: int
    link_count: int
    content: str
    """As in `PathState`."""
    copy: str = ""
    """The name of the file with the content in the backup set; "" for none."""
    error: str = ""
    """Why the content of a file was not copied, or that of a folder not read."""

    @staticmethod
    def from_line(values: Sequence[Any]) -> SavedEntry:
        """Create the entry from a line of a manifest, or from its part of a line of a journal.

        Raises:
            ValueError, TypeError: it is damaged.
        """
        entry = SavedEntry(*values)
        for text in (entry.path, *entry[9:]):
            check_text(text)
        for position, number in enumerate(entry[1:9]):
            minimum, limit = (0, 2**32) if position < 3 else (-(2**63), 2**64)
            if type(number) is not int or not minimum <= number < limit:
                raise ValueError
        return entry

    @staticmethod
    def from_status(
        path: str, status: os.stat_result, content: str = "", *, copy: str = "", error: str = ""
    ) -> SavedEntry:
        """Make the entry of a path, by default with the digest of a file whose content is not read."""
        owner = status.st_mode, status.st_uid, status.st_gid
        times = status.st_size, status.st_mtime_ns, status.st_ctime_ns
        content = content or _make_stat_digest(status)
        return SavedEntry(path, *owner, *times, status.st_ino, status.st_nlink, content, copy, error)

    @property
    def state(self) -> PathState:
        """The state for comparison."""
        has_mode = stat.S_ISREG(self.type_and_mode) or stat.S_ISDIR(self.type_and_mode)
        return PathState(self.content, stat.S_IMODE(self.type_and_mode) if has_mode else None)

    @property
    def ownership(self) -> Ownership:
        """The permissions and owner."""
        return Ownership(stat.S_IMODE(self.type_and_mode), self.user, self.group)

    @property
    def is_unreadable_folder(self) -> bool:
        """True for a folder that could not be read."""
        return stat.S_ISDIR(self.type_and_mode) and bool(self.error)

    def is_unchanged_file(self, status: os.stat_result) -> bool:
        """Check whether this is a regular file whose current status is the one that was saved."""
        return stat.S_ISREG(status.st_mode) and self[:9] == SavedEntry.from_status(self.path, status)[:9]

    def hash_copy(self, folder: Path) -> SavedEntry:
        """Replace the digest of a file by that of its copy in a backup set, unless it is too large."""
        if not self.copy:
            return self
        with open_regular_file(folder / self.copy) as file:
            return self if self.size > MAX_BACKUP_BYTES else self._replace(content=_compute_digest(file))


class OpenEntry(NamedTuple):
    """What is at a path whose parent folder is open."""

    path: str
    """The absolute path."""
    status: os.stat_result
    parent_fd: int
    """An open descriptor of the parent folder."""
    name: str
    """The name in the parent folder."""
    skip_reason: str = ""
    """Why a walk leaves out the content of a folder; "" if it does not."""

    @property
    def is_folder(self) -> bool:
        """True for a folder, but not for a link to one."""
        return stat.S_ISDIR(self.status.st_mode)

    @property
    def is_regular_file(self) -> bool:
        return stat.S_ISREG(self.status.st_mode)

    @property
    def is_changeable_folder(self) -> bool:
        """True for a folder whose content a walk leaves out although a tool call may change it."""
        is_own = self.status.st_uid == os.geteuid() and self.skip_reason != MOUNTED_READ_ONLY
        return self.skip_reason in {MOUNTED, TOO_DEEP} or bool(self.skip_reason and is_own)


def stat_entry(path: str, parent_fd: int) -> OpenEntry:
    """Describe what is at a path in an open folder; FileNotFoundError if there is nothing."""
    name = os.path.basename(path)
    return OpenEntry(path, os.stat(name, dir_fd=parent_fd, follow_symlinks=False), parent_fd, name)


def walk_folders(roots: Iterable[Path], excluded_paths: Collection[str]) -> Iterator[OpenEntry]:
    """Yield everything in several folders."""
    for root in roots:
        yield from walk_tree(root, excluded_paths)


def walk_tree(root: Path, excluded_paths: Collection[str] = ()) -> Iterator[OpenEntry]:
    """Yield a folder and everything in it, each folder before its content, and open until the next is requested.

    Only the user must be able to change the path `root`. Excluded paths are left out with everything in them.
    """
    parent_fd = os.open(root.parent, os.O_PATH | FOLDER_FLAGS)
    try:
        with suppress(FileNotFoundError):
            device = os.stat(root.name, dir_fd=parent_fd, follow_symlinks=False).st_dev
            yield from _walk(parent_fd, str(root), excluded_paths, device, MAX_DEPTH)
    finally:
        os.close(parent_fd)


def _walk(
    parent_fd: int, path: str, excluded_paths: Collection[str], device: int, remaining_depth: int
) -> Iterator[OpenEntry]:
    if path in excluded_paths:
        return
    try:
        entry = stat_entry(path, parent_fd)
    except OSError:  # gone since its folder was read
        return
    if not entry.is_folder:
        yield entry
        return
    if not remaining_depth:
        yield entry._replace(skip_reason=TOO_DEEP)
        return
    is_mounted = entry.status.st_dev != device
    try:
        folder_fd = os.open(entry.name, FOLDER_FLAGS, dir_fd=parent_fd)
    except OSError as error:
        yield entry._replace(skip_reason=MOUNTED if is_mounted else os.strerror(error.errno or 0))
        return
    try:
        if is_mounted:
            is_read_only = os.statvfs(folder_fd).f_flag & os.ST_RDONLY
            yield entry._replace(skip_reason=MOUNTED_READ_ONLY if is_read_only else MOUNTED)
            return
        yield entry
        for child in sorted(os.listdir(folder_fd)):
            yield from _walk(folder_fd, os.path.join(path, child), excluded_paths, device, remaining_depth - 1)
    finally:
        os.close(folder_fd)


def read_entry_state(entry: OpenEntry) -> PathState:
    """Read the state of an entry.

    The digest of a file that is too large or cannot be read is made of its size and modification time.
    """
    mode = stat.S_IMODE(entry.status.st_mode)
    if stat.S_ISLNK(entry.status.st_mode):
        return PathState(LINK_PREFIX + os.readlink(entry.name, dir_fd=entry.parent_fd))
    if entry.is_folder:
        return PathState(FOLDER_MARKER, mode)
    if not entry.is_regular_file:
        return PathState(SPECIAL_FILE)
    if entry.status.st_size <= MAX_BACKUP_BYTES:
        with (
            suppress(PermissionError),
            os.fdopen(os.open(entry.name, FILE_FLAGS, dir_fd=entry.parent_fd), "rb") as file,
        ):
            return PathState(_compute_digest(file), mode)
    return PathState(_make_stat_digest(entry.status), mode)


def _compute_digest(file: BufferedReader) -> str:
    """Compute the SHA-256 digest of the rest of an open file, in hexadecimal."""
    return file_digest(file, "sha256").hexdigest()


def _make_stat_digest(status: os.stat_result) -> str:
    """Make the replacement for the digest of a file whose content is not read."""
    return f"{status.st_size} {status.st_mtime_ns}"


def create_private_file(path: Path, mode: str) -> Any:
    """Create a file that only the user can read; an existing file is an error. `mode` is that of `open`."""
    encoding = None if "b" in mode else "utf-8"
    return open(path, mode, encoding=encoding, opener=lambda name, flags: open_private_file(Path(name), flags))


def copy_content(source: BinaryIO, target: BinaryIO, size: int) -> None:
    """Copy the first `size` bytes of a file, sharing its data blocks if the file system supports that.

    The size is fixed because the source may be growing.
    """
    try:
        while size > 0 and (copied := os.copy_file_range(source.fileno(), target.fileno(), size)):
            size -= copied
    except (AttributeError, OSError):  # macOS, or not supported between these file systems
        while size > 0 and (chunk := source.read(min(size, CHUNK_BYTES))):
            size -= target.write(chunk)


@contextmanager
def open_parent(path: Path, *, create: bool = False) -> Iterator[int]:
    """Open the parent folder of a path, and yield its descriptor.

    `path` contained no symbolic link when it was recorded, and none is followed. With `create`, missing folders are
    made.

    Raises:
        OSError: a folder is missing or cannot be opened.
    """
    names = path.parent.parts[1:]
    if create:
        folder, missing = open_folders("/", names)
        try:
            os.close(open_folders(folder, missing, create_missing=True)[0])
        finally:
            os.close(folder)
    with open_existing_folder("/", names) as parent_fd:
        yield parent_fd


@contextmanager
def open_entry(path: Path) -> Iterator[OpenEntry | None]:
    """Open what is at a path; yield None if there is nothing, or if a parent is a symbolic link."""
    with ExitStack() as stack:
        entry = None
        try:
            entry = stat_entry(str(path), stack.enter_context(open_parent(path)))
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
        yield entry


def read_path_state(path: Path) -> PathState:
    """Read the current state of a path, as `open_entry` opens it."""
    with suppress(FileNotFoundError), open_entry(path) as entry:
        if entry:
            return read_entry_state(entry)
    return ABSENT_STATE
