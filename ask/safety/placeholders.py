"""Empty files and folders on the host that prevent a sandbox from creating protected names.

A mount needs a mount point, so a missing `.git` has to exist during a run. Each placeholder is recorded before it is
created, in one manifest per folder that all runs in this folder keep locked. The last run removes the placeholders. If
it was killed, its cleaner process removes them, or else the next run does.
"""

from __future__ import annotations

import fcntl
import os
import stat
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ask.atomic_files import create_private_folder
from ask.tools.file_access import open_folders

if TYPE_CHECKING:
    from subprocess import Popen

_LOCK_NAME = "lock"
_MANIFEST_SUFFIX = ".note"
_CLEANER_CODE = """\
import sys
sys.path.append({root!r})
from ask.safety.placeholders import clean_after_kill
clean_after_kill({state!r})
"""
_WAIT_SCRIPT = 'read -r _; exec "$@"'
"""Waits until stdin closes, which happens when the run ends. A shell starts faster than Python."""
_RETRY_DELAYS = (0.05, 0.2, 1.0, 4.0)
"""Seconds before each attempt of the cleaner: the kernel closes the files of a killed process in any order."""


class MountPlaceholders:
    """The placeholders of one run. Creating this first removes those of runs that were killed.

    `state_folder` contains the manifests. `overflow_directory` is created and removed like a placeholder.
    """

    def __init__(self, state_folder: Path, overflow_directory: Path) -> None:
        self._state_folder = state_folder
        self._overflow_directory = overflow_directory
        self._manifests = ExitStack()
        self._cleaner: Popen[bytes] | None = None
        self.paths: frozenset[Path] = frozenset()
        """The placeholders in the folders of this run, including those of other runs."""
        with _lock_state(state_folder):
            _remove_unused_placeholders(state_folder)

    def create(self, requested_paths: Mapping[Path, bool]) -> None:
        """Create the paths that are missing. May be called again, because the user may have deleted some.

        `requested_paths` maps resolved paths to whether each must be a folder. Existing paths are never removed.
        """
        names: dict[Path, dict[str, bool]] = {}
        for path, is_folder in {**requested_paths, self._overflow_directory: True}.items():
            names.setdefault(path.parent, {})[path.name] = is_folder
        paths: set[Path] = set()
        with _lock_state(self._state_folder), ExitStack() as manifests:
            for folder, folder_names in names.items():
                manifest_fd = _open_manifest(self._state_folder, folder)
                manifests.callback(os.close, manifest_fd)
                paths |= _create_missing(manifest_fd, folder, folder_names)
            self._manifests.close()
            self._manifests = manifests.pop_all()
        self.paths = frozenset(paths - {self._overflow_directory})

    def start_cleaner(self) -> None:
        """Start a process that removes the placeholders if this one is killed."""
        if self._cleaner is not None or not self.paths:
            return
        from subprocess import DEVNULL, PIPE, Popen

        python = str(Path(getattr(sys, "_base_executable", sys.executable)).resolve())
        code = _CLEANER_CODE.format(root=str(Path(__file__).resolve().parents[2]), state=str(self._state_folder))
        with suppress(OSError):  # then the next run cleans up
            self._cleaner = Popen(
                ["/bin/sh", "-c", _WAIT_SCRIPT, "sh", python, "-I", "-S", "-B", "-c", code],
                stdin=PIPE,
                stdout=DEVNULL,
                stderr=DEVNULL,
                env={},
                cwd="/",
                start_new_session=True,  # so that it survives the end of the terminal session or job
            )

    def release(self) -> None:
        """Remove the placeholders in folders that no other run uses."""
        with _lock_state(self._state_folder):
            self._manifests.close()
            _remove_unused_placeholders(self._state_folder)
        if self._cleaner is not None:
            self._cleaner.kill()
            self._cleaner.communicate()
            self._cleaner = None


def clean_after_kill(state_folder: str) -> None:
    """Remove the placeholders of a run that has just been killed."""
    for delay in _RETRY_DELAYS:
        time.sleep(delay)
        with _lock_state(Path(state_folder)):
            _remove_unused_placeholders(Path(state_folder))
        if not any(Path(state_folder).glob(f"*{_MANIFEST_SUFFIX}")):
            return


@contextmanager
def _lock_state(state_folder: Path) -> Iterator[None]:
    """Prevent other runs from creating or removing placeholders within the context."""
    create_private_folder(state_folder)
    lock = os.open(state_folder / _LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _open_manifest(state_folder: Path, folder: Path) -> int:
    """Open the manifest of a folder with a shared lock, which prevents others from removing its placeholders."""
    from hashlib import sha256

    name = sha256(os.fsencode(folder)).hexdigest()[:32] + _MANIFEST_SUFFIX
    manifest_fd = os.open(state_folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(manifest_fd, fcntl.LOCK_SH)
    return manifest_fd


@contextmanager
def _open_folder(folder: str) -> Iterator[int]:
    """Open a folder whose path contains no link; yield its descriptor.

    Raises:
        OSError: it does not exist any more, or its path now contains a link.
    """
    folder_fd, missing_names = open_folders("/", Path(folder).parts[1:])
    try:
        if missing_names:
            raise FileNotFoundError(folder)
        yield folder_fd
    finally:
        os.close(folder_fd)


def _create_missing(manifest_fd: int, folder: Path, names: Mapping[str, bool]) -> set[Path]:
    """Record and create the missing names in a folder. Return those of the names that are placeholders."""
    manifest = _read_manifest(manifest_fd) or [str(folder)]
    with suppress(OSError), _open_folder(str(folder)) as folder_fd:  # what ask cannot create, a call cannot either
        missing = [name for name in names if _is_missing(name, folder_fd)]
        manifest += [name for name in missing if name not in manifest[1:]]
        os.pwrite(manifest_fd, "\0".join(manifest).encode("utf-8", "surrogateescape"), 0)
        for name in missing:
            with suppress(OSError):
                if names[name]:
                    os.mkdir(name, 0o700, dir_fd=folder_fd)
                else:
                    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                    os.close(os.open(name, flags, 0o644, dir_fd=folder_fd))
    return {folder / name for name in names if name in manifest[1:]}


def _remove_unused_placeholders(state_folder: Path) -> None:
    """Remove the placeholders in all folders that no run uses."""
    for path in state_folder.glob(f"*{_MANIFEST_SUFFIX}"):
        manifest_fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(manifest_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            folder, *names = _read_manifest(manifest_fd) or [""]
            # A folder whose path now contains a link is another one: it is left as it is.
            with suppress(OSError), _open_folder(folder) as folder_fd:
                for name in names:
                    _remove_empty(name, folder_fd)
            path.unlink()
        except BlockingIOError:
            pass
        finally:
            os.close(manifest_fd)


def _remove_empty(name: str, folder_fd: int) -> None:
    with suppress(OSError):
        status = os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            os.rmdir(name, dir_fd=folder_fd)
        elif stat.S_ISREG(status.st_mode) and status.st_size == 0:
            os.unlink(name, dir_fd=folder_fd)


def _is_missing(name: str, folder_fd: int) -> bool:
    try:
        os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
    except FileNotFoundError:
        return True
    return False


def _read_manifest(manifest_fd: int) -> list[str]:
    data = os.pread(manifest_fd, os.fstat(manifest_fd).st_size, 0).decode("utf-8", "surrogateescape")
    return data.split("\0") if data else []
