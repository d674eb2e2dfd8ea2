"""Open, read and write files for the tools: without blocking, atomically, and with errors written for the model."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path

from ask.atomic_files import FILE_FLAGS, FOLDER_FLAGS, OWNER_ERRORS, Ownership, overwrite_content, replace_file
from ask.records import NamedTuple
from ask.regular_files import is_null_device
from ask.text import decode_argument, find_similar
from ask.tools.base import ApprovedFile, FolderConfinement, RunToolContext, ToolError
from ask.tools.file_names import find_equivalent_path

MAX_FILE_BYTES = 10_000_000
"""Largest file that is read or written."""

_MAX_PATH_BYTES = 4_096
"""Longest path that any system accepts, in bytes (Linux's PATH_MAX)."""
_MAX_QUOTED_PATH_CHARACTERS = 200
_MAX_CREATED_FOLDERS = 100
"""Maximum number of folders created for one file: many programs cannot walk or remove a deeper tree."""
_MAX_PATH_STEPS = 100
"""Maximum number of links and `..` on a path in a confined folder; Linux allows 40 links."""
_MAX_NAMES_READ = 1_000
_MAX_NAMES_LISTED = 20
_OPEN_FOLDER_FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
"""macOS has no O_PATH."""
HIDDEN_REASON = "is hidden in safe mode: it may contain secrets"
"""Why safe mode does not allow access to a file, after its path."""
_PDF_START = b"%PDF-"
_FILE_TYPE_DESCRIPTIONS = {
    stat.S_IFDIR: "a directory; use list_dir",
    stat.S_IFIFO: "a pipe (FIFO), not a file",
    stat.S_IFSOCK: "a socket, not a file",
    stat.S_IFCHR: "a device, not a file",
    stat.S_IFBLK: "a device, not a file",
}


def resolve_path(path_argument: str, context: RunToolContext) -> Path:
    """Return the path that the model means: relative to the run's directory, with `~` expanded.

    A name that does not exist stands for the only existing one that looks the same.
    """
    try:
        if len(os.fsencode(path_argument)) > _MAX_PATH_BYTES:
            raise ToolError(
                f"the path is too long ({len(path_argument):,} characters): "
                f"{path_argument[:_MAX_QUOTED_PATH_CHARACTERS]}..."
            )
        if not path_argument or "\0" in path_argument:
            raise ToolError("the path is empty or contains a NUL")
    except UnicodeEncodeError:
        raise ToolError("the path contains an unpaired surrogate") from None
    name = os.path.expanduser(path_argument)  # not Path.expanduser(), for which "./~" is the home directory
    folder, slash, _ = name.partition("/")
    if slash and folder.startswith("~") and not os.path.lexists(context.directory / folder):
        raise ToolError(f"{path_argument}: no such user")
    return find_equivalent_path(context.directory / name)


@contextmanager
def use_path(path_argument: str, context: RunToolContext, expected_type: str = "file") -> Iterator[Path]:
    """Yield the path that the model means, and convert the operating system's errors to a `ToolError` that helps it."""
    path = resolve_path(path_argument, context)
    try:
        yield path
    except FileNotFoundError:
        raise ToolError(_describe_missing_path(path_argument, path, context, expected_type)) from None
    except (NotADirectoryError, FileExistsError):
        raise ToolError(f"{path_argument}: part of this path is a file, not a directory") from None
    except PermissionError:
        raise ToolError(f"{path_argument}: permission denied") from None
    except OSError as error:
        raise ToolError(f"{path_argument}: {error.strerror}") from None


@contextmanager
def open_listing(
    path: Path, context: RunToolContext, limit: int | None = None
) -> Iterator[tuple[int, list[os.DirEntry[str]]]]:
    """Open a folder; yield its descriptor and its entries in no particular order, without safe mode's placeholders.

    The entries can be examined while the folder is open.

    Raises:
        ToolError: safe mode does not allow access.
        OSError: it is not a folder, or cannot be read.
    """
    with open_target(path, context) as target:
        folder = os.open(target.require_name(), FOLDER_FLAGS, dir_fd=target.dir_fd)
    try:
        with os.scandir(folder) as entries:
            listing = list(islice(entries, limit))
        if context.placeholders:
            empty = {path for path in context.placeholders if path.parent == target.path and is_empty(path)}
            listing = [entry for entry in listing if target.path / entry.name not in empty]
        yield folder, listing
    finally:
        os.close(folder)


def is_empty(path: Path) -> bool:
    """Check whether a path is an empty folder or an empty file."""
    with suppress(OSError):
        status = path.lstat()
        if stat.S_ISDIR(status.st_mode):
            with os.scandir(path) as entries:
                return next(entries, None) is None
        return stat.S_ISREG(status.st_mode) and status.st_size == 0
    return False


def read_allowed_file(display_name: str, path: Path, context: RunToolContext) -> bytes:
    """Read a regular file of at most `MAX_FILE_BYTES` bytes.

    Raises:
        ToolError: it is not a regular file, too large, or safe mode does not allow access.
        OSError: it cannot be read.
    """
    with open_target(path, context) as target:
        return target.read_content(display_name)


class FileTarget(NamedTuple):
    """A path reached through an open folder: a folder swapped for a link cannot redirect access to it.

    Attributes:
        path: its path, with symbolic links resolved.
        name: its name in the open folder: "." if it is that folder.
        dir_fd: a descriptor of the innermost existing folder on the path.
        missing_folders: names of the folders to create inside it, outermost first.
        stat_result: the status of the file; None if it does not exist.
        is_hidden_file: as in `FolderConfinement`; None if safe mode does not confine the file tools.
    """

    path: Path
    name: str
    dir_fd: int
    missing_folders: Sequence[str] = ()
    stat_result: os.stat_result | None = None
    is_hidden_file: Callable[[os.stat_result], bool] | None = None

    def to_approved_file(self, digest: str | None = None) -> ApprovedFile:
        """Describe the file as one that the user was shown, with the digest of its content if that was shown."""
        statuses = [os.fstat(self.dir_fd), *([self.stat_result] if self.stat_result else [])]
        return ApprovedFile(str(self.path), tuple(f"{status.st_dev}:{status.st_ino}" for status in statuses), digest)

    def read_content(self, display_name: str) -> bytes:
        """Read the file.

        Raises:
            ToolError, OSError: as `read_allowed_file`.
        """
        name = self.require_name()
        if self.stat_result:
            _require_regular_file(display_name, self.stat_result)  # opening some devices has side effects
        descriptor = os.open(name, FILE_FLAGS, dir_fd=self.dir_fd)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            _require_regular_file(display_name, status)
            if self.is_hidden_file and self.is_hidden_file(status):
                raise ToolError(f"{display_name} is another name of a file that is hidden in safe mode")
            # Files in /proc report size 0, and any file may be growing. A read that would block returns None.
            data = file.read(MAX_FILE_BYTES + 1 if status.st_size <= MAX_FILE_BYTES else len(_PDF_START)) or b""
        size = max(status.st_size, len(data))
        if size > MAX_FILE_BYTES:
            advice = "read a part of it with grep, head, tail or sed -n in bash"
            if data.startswith(_PDF_START):
                advice = "the user can attach it with -f FILE, or pdftotext can convert it"
            elif self.is_hidden_file:  # there is no bash
                advice = "the user can attach it, or a part of it, with -f FILE"
            raise ToolError(f"{display_name}: {size:,} bytes, over the limit of {MAX_FILE_BYTES:,}; {advice}")
        return data

    def require_name(self) -> str:
        """Return the name if the folder of the path is the open one.

        Raises:
            FileNotFoundError: the folder does not exist.
        """
        if self.missing_folders:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return self.name


@contextmanager
def open_target(path: Path, context: RunToolContext, *, for_writing: bool = False) -> Iterator[FileTarget]:
    """Resolve an absolute path and open its folder.

    Raises:
        ToolError: safe mode does not allow access.
        OSError: part of the path has become a link or a file, or cannot be opened.
    """
    target = _find_target(path, context.confinement, for_writing=for_writing)
    try:
        status = None
        if not target.missing_folders:
            with suppress(FileNotFoundError):
                status = os.stat(target.name, dir_fd=target.dir_fd, follow_symlinks=False)
        if context.hides_files and status and is_null_device(status) and target.path != Path(os.devnull):
            raise ToolError(f"{escape_for_display(target.path)} {HIDDEN_REASON}")
        is_hidden_file = context.confinement.is_hidden_file if context.confinement else None
        yield target._replace(stat_result=status, is_hidden_file=is_hidden_file)
    finally:
        os.close(target.dir_fd)


def _find_target(path: Path, confinement: FolderConfinement | None, *, for_writing: bool) -> FileTarget:
    """Resolve a path, below one of the folders if it is confined, and open the folder it is in.

    The kernel follows no link: each is read, and the path that it leads to is checked and walked from the start. This
    is what RESOLVE_BENEATH of openat2(2) does, which only Linux has.

    Raises:
        ToolError: the path, or a link on it, must not be accessed.
        OSError: a part of the path is a file, has become a link, or cannot be opened.
    """
    check_access = partial(_check_access, confinement=confinement, for_writing=for_writing)
    for _ in range(_MAX_PATH_STEPS):
        root, names = _split_path(path, confinement)
        folder = os.dup(confinement.folders[root]) if confinement else os.open(root, _OPEN_FOLDER_FLAGS)
        try:
            for index, name in enumerate(names):
                current, rest = root.joinpath(*names[:index]), names[index + 1 :]
                if name == "..":
                    path = current.parent.joinpath(*rest)
                    break
                if link_target := _read_link(name, folder):
                    check_access(current / name)
                    path = current.joinpath(link_target, *rest)
                    break
                if not rest:
                    return FileTarget(check_access(path), name, os.dup(folder))
                inner, missing = open_folders(folder, [name])
                os.close(folder)
                folder = inner
                if missing:
                    if ".." in rest:
                        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
                    return FileTarget(check_access(path), path.name, os.dup(folder), names[index:-1])
            else:
                return FileTarget(check_access(root), ".", os.dup(folder))
        finally:
            os.close(folder)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def _split_path(path: Path, confinement: FolderConfinement | None) -> tuple[Path, Sequence[str]]:
    """Return the innermost of the folders that a path is in, and the names below it."""
    roots = [folder for folder in confinement.folders if path.is_relative_to(folder)] if confinement else [Path("/")]
    if confinement and not roots:
        folders = ", ".join(map(escape_for_display, confinement.folders))
        raise ToolError(f"{escape_for_display(path)} is outside the folders that safe mode allows: {folders}")
    root = max(roots, key=lambda folder: len(folder.parts))
    return root, path.relative_to(root).parts


def _read_link(name: str, folder: int) -> str:
    """Return the target of a link; "" if it is not a link or does not exist."""
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError:
        return ""


def _check_access(path: Path, confinement: FolderConfinement | None, *, for_writing: bool) -> Path:
    """Return the path if it may be accessed.

    Raises:
        ToolError: it must not be accessed.
    """
    if confinement and (reason := confinement.find_denial(path, for_writing)):
        raise ToolError(f"{escape_for_display(path)} {reason}")
    return path


def open_folders(
    start: Path | str | int, names: Sequence[str], *, create_missing: bool = False
) -> tuple[int, Sequence[str]]:
    """Open a folder below `start` step by step, without following symbolic links.

    Return the descriptor of the innermost folder that exists, and the names that are missing in it.

    Args:
        start: a path, or the descriptor of a folder.
        names: the name of each folder on the way.
        create_missing: create the missing folders.

    Raises:
        OSError: one of them is not a folder, or cannot be opened or created.
    """
    folder = (
        os.open(".", _OPEN_FOLDER_FLAGS, dir_fd=start) if isinstance(start, int) else os.open(start, _OPEN_FOLDER_FLAGS)
    )
    try:
        for index, name in enumerate(names):
            if create_missing:
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=folder)
            try:
                inner = os.open(name, _OPEN_FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=folder)
            except FileNotFoundError:
                return folder, names[index:]
            os.close(folder)
            folder = inner
    except BaseException:
        os.close(folder)
        raise
    return folder, ()


@contextmanager
def open_existing_folder(start: Path | str, names: Sequence[str]) -> Iterator[int]:
    """Open a folder as `open_folders` does; yield its descriptor.

    Raises:
        OSError: it does not exist, or a part of its path is a link or cannot be opened.
    """
    folder, missing = open_folders(start, names)
    try:
        if missing:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), missing[0])
        yield folder
    finally:
        os.close(folder)


def _check_approved_target(display_name: str, approved_file: ApprovedFile | None, target: FileTarget) -> None:
    """Refuse a write to any file except the approved one, or if that file has changed since.

    Raises:
        ToolError: it is another file, or its content has changed.
        OSError: it cannot be read.
    """
    if approved_file is None:
        return
    digest = None
    if approved_file.digest is not None:
        digest = compute_digest(target.read_content(display_name)) if target.stat_result else ""
    current_file = target.to_approved_file(digest)
    if approved_file != (current_file if approved_file.ids else ApprovedFile(current_file.path)):
        raise ToolError(
            f"{display_name} was not written: it changed after the user approved the call; read it and try again"
        )


def write_regular_file(display_name: str, path: Path, data: bytes, context: RunToolContext) -> bool:
    """Replace the content of a file with `data`; return whether the file is new.

    The file keeps its mode and its owner. Up to `_MAX_CREATED_FOLDERS` missing folders are created. A symbolic link is
    followed. A file is rewritten in place if its replacement cannot have the same owner, or if it has several hard
    links, unless the context says to break them.

    Raises:
        ToolError: it is not a regular file, `data` is over `MAX_FILE_BYTES` bytes, too many folders are missing, or the
            user approved another file.
        OSError: it cannot be written; the old content is then untouched.
    """
    if len(data) > MAX_FILE_BYTES:
        raise ToolError(f"{display_name}: {len(data):,} bytes, over the limit of {MAX_FILE_BYTES:,}")
    with open_target(path, context, for_writing=True) as target:
        if target.stat_result:
            _require_regular_file(display_name, target.stat_result)
            # Replacing a file needs no permission to write to it, only to its folder.
            if not os.access(target.name, os.W_OK, dir_fd=target.dir_fd):
                raise PermissionError
        _check_approved_target(display_name, context.approved_file, target)
        missing_count = len(target.missing_folders)
        if missing_count > _MAX_CREATED_FOLDERS:
            raise ToolError(
                f"{display_name}: {missing_count:,} folders of this path are missing, over the limit of "
                f"{_MAX_CREATED_FOLDERS}"
            )
        context.before_write(target.path, data, None if target.missing_folders else target.dir_fd)
        folder, _ = open_folders(target.dir_fd, target.missing_folders, create_missing=True)
        try:
            if status := target.stat_result:
                _overwrite_file(target.name, data, status, folder, keep_hard_links=context.keep_hard_links)
            else:
                replace_file(Path(target.name), [data], None, folder)
        finally:
            os.close(folder)
    return target.stat_result is None


def _overwrite_file(name: str, data: bytes, status: os.stat_result, folder: int, *, keep_hard_links: bool) -> None:
    has_one_name = status.st_nlink == 1
    if has_one_name or not keep_hard_links:
        try:
            ownership = Ownership.from_status(status)
            replace_file(Path(name), [data], ownership, folder, must_keep_owner=has_one_name)
        except OSError as error:
            if not has_one_name or error.errno not in OWNER_ERRORS:
                raise
        else:
            return
    rewrite_file_in_place(name, [data], len(data), status, folder)


def rewrite_file_in_place(
    name: str, chunks: Iterable[bytes], size: int, expected_stat: os.stat_result, dir_fd: int
) -> None:
    """Rewrite a file in an open folder in place, for all its hard links.

    Disk space is allocated before anything is overwritten. `size` is the size of the new content. Nothing is written if
    the file is not the one with status `expected_stat`.

    Raises:
        OSError: it cannot be written, or has been replaced by another file.
    """
    descriptor = os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=dir_fd)
    with os.fdopen(descriptor, "wb") as file:
        status = os.fstat(descriptor)
        if not os.path.samestat(status, expected_stat):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        overwrite_content(file, chunks, size)
        with suppress(PermissionError):  # writing clears the set-user-ID and set-group-ID bits
            os.fchmod(descriptor, stat.S_IMODE(status.st_mode))


def compute_digest(content: bytes) -> str:
    """Return the SHA-256 of `content` in hexadecimal."""
    from hashlib import sha256

    return sha256(content).hexdigest()


def escape_for_display(name: str | Path) -> str:
    """Return a file name or path on one line, with control characters and invalid UTF-8 escaped."""
    text = decode_argument(str(name))
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _require_regular_file(display_name: str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise ToolError(
            f"{display_name} is {_FILE_TYPE_DESCRIPTIONS.get(stat.S_IFMT(status.st_mode), 'not a regular file')}"
        )


def _describe_missing_path(display_name: str, path: Path, context: RunToolContext, expected_type: str) -> str:
    if not context.confinement and path.is_symlink():
        return f"{display_name} is a link to {escape_for_display(path.readlink())}, which does not exist"
    if not context.confinement and not path.parent.is_dir():
        return f"{display_name}: no such {expected_type}; its directory does not exist either"
    try:
        with open_listing(path.parent, context, _MAX_NAMES_READ) as (_, entries):
            names = sorted(entry.name for entry in entries)
    except (OSError, ToolError):
        return f"{display_name}: no such {expected_type}"
    if not names:
        return f"{display_name}: no such {expected_type}; the directory is empty"
    similar = find_similar(path.name, names, 3)
    listed = [*similar, *(other for other in names if other not in similar)][:_MAX_NAMES_LISTED]
    more = ", ..." if len(names) > len(listed) else ""
    names_text = ", ".join(map(escape_for_display, listed))
    return f"{display_name}: no such {expected_type}; the directory contains {names_text}{more}"
