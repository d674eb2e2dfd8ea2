"""Placeholders: empty files and folders on the host that keep missing names from being created in a sandbox.

A mount needs something to be mounted on, so a missing `.git` has to exist while a run lasts. Each placeholder is noted
before it is created, in a file per folder that all runs in this folder keep locked. The last of them removes the
placeholders; after a run that was killed, its cleaner does, or else the next run that starts.
"""

from __future__ import annotations

import fcntl
import os
import stat
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ask.atomic_files import create_private_folder
from ask.safety.mounts import create_path_opener

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
"""Waits for the end of standard input, which comes with the end of the run. A shell starts faster than Python."""
_RETRY_DELAYS = (0.05, 0.2, 1.0, 4.0)
"""Seconds that the cleaner waits before each attempt: the kernel closes the files of a killed process in any order."""


class MountPlaceholders:
    """The placeholders of one run; those of runs that were killed are removed first.

    Args:
        state: the folder of the notes, which is created.
        spill: the folder of the run's long outputs, which is created, and removed if it stays empty.

    Attributes:
        paths: the placeholders in the folders of this run, those of other runs among them.
    """

    def __init__(self, state_folder: Path, overflow_directory: Path) -> None:
        self._state_folder = state_folder
        self._overflow_directory = overflow_directory
        self._manifest_fds: list[int] = []
        self._cleaner: Popen[bytes] | None = None
        self.paths: frozenset[Path] = frozenset()
        with _lock_state(state_folder):
            _remove_unused_placeholders(state_folder)

    def create(self, requested_paths: Mapping[Path, bool]) -> None:
        """Create what is missing, also for the second time: the user may have removed something.

        Args:
            requested_paths: paths without links, and whether each has to be a folder, not a file. Those that exist are never
                removed.
        """
        names: dict[Path, dict[str, bool]] = {}
        for path, is_folder in {**requested_paths, self._overflow_directory: True}.items():
            names.setdefault(path.parent, {})[path.name] = is_folder
        notes: list[int] = []
        paths: set[Path] = set()
        with _lock_state(self._state_folder):
            try:
                for folder, inside in names.items():
                    notes.append(_open_manifest(self._state_folder, folder))
                    paths |= _create_missing(notes[-1], folder, inside)
            finally:
                self._manifest_fds, notes = notes, self._manifest_fds
                _close_all(notes)
        self.paths = frozenset(paths - {self._overflow_directory})

    def start_cleaner(self) -> None:
        """Start a process that removes the placeholders if this one is killed, unless there are none."""
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
                start_new_session=True,  # nor does the end of a terminal or of a job end it
            )

    def release(self) -> None:
        """Remove the placeholders in the folders that no other run is in."""
        with _lock_state(self._state_folder):
            _close_all(self._manifest_fds)
            _remove_unused_placeholders(self._state_folder)
        if self._cleaner is not None:
            self._cleaner.kill()
            self._cleaner.communicate()
            self._cleaner = None


def clean_after_kill(state_folder: str) -> None:
    """Remove the placeholders of a run that was killed just now."""
    for pause in _RETRY_DELAYS:
        time.sleep(pause)
        with _lock_state(Path(state_folder)):
            _remove_unused_placeholders(Path(state_folder))
        if not any(Path(state_folder).glob(f"*{_MANIFEST_SUFFIX}")):
            return


@contextmanager
def _lock_state(state_folder: Path) -> Iterator[None]:
    """Keep other runs from creating or removing placeholders meanwhile."""
    create_private_folder(state_folder)
    lock = os.open(state_folder / _LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _open_manifest(state_folder: Path, folder: Path) -> int:
    """Open the note of a folder, and keep others from removing its placeholders."""
    from hashlib import sha256

    name = sha256(os.fsencode(folder)).hexdigest()[:32] + _MANIFEST_SUFFIX
    note = os.open(state_folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(note, fcntl.LOCK_SH)
    return note


def _create_missing(manifest_fd: int, folder: Path, names: Mapping[str, bool]) -> set[Path]:
    """Create what is missing in a folder, noted before; return the noted placeholders among the names."""
    noted = _read_manifest(manifest_fd) or [str(folder)]
    with suppress(OSError), create_path_opener("/") as tree:  # what ask cannot create, a call cannot either
        place = tree.open(str(folder))
        missing = [name for name in names if _stat_entry(name, place) is None]
        noted += [name for name in missing if name not in noted[1:]]
        os.pwrite(manifest_fd, "\0".join(noted).encode("utf-8", "surrogateescape"), 0)
        for name in missing:
            with suppress(OSError):
                if names[name]:
                    os.mkdir(name, 0o700, dir_fd=place)
                else:
                    os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, dir_fd=place))
    return {folder / name for name in names if name in noted[1:]}


def _remove_unused_placeholders(state_folder: Path) -> None:
    """Remove the placeholders of all folders that no run is in."""
    for path in state_folder.glob(f"*{_MANIFEST_SUFFIX}"):
        note = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(note, fcntl.LOCK_EX | fcntl.LOCK_NB)
            folder, *names = _read_manifest(note) or [""]
            with (
                suppress(OSError),
                create_path_opener("/") as tree,
            ):  # where a link is now, it is somebody else's folder
                place = tree.open(folder)
                for name in names:
                    _remove_empty(name, place)
            path.unlink()
        except BlockingIOError:
            pass
        finally:
            os.close(note)


def _remove_empty(name: str, folder_fd: int) -> None:
    status = _stat_entry(name, folder_fd)
    with suppress(OSError):
        if status and stat.S_ISDIR(status.st_mode):
            os.rmdir(name, dir_fd=folder_fd)
        elif status and stat.S_ISREG(status.st_mode) and status.st_size == 0:
            os.unlink(name, dir_fd=folder_fd)


def _stat_entry(name: str, folder_fd: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _read_manifest(manifest_fd: int) -> list[str]:
    data = os.pread(manifest_fd, os.fstat(manifest_fd).st_size, 0).decode("utf-8", "surrogateescape")
    return data.split("\0") if data else []


def _close_all(descriptors: list[int]) -> None:
    while descriptors:
        os.close(descriptors.pop())
