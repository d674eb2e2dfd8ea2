"""Empty files and folders on the host that prevent a sandbox from creating protected names.

A mount needs a mount point, so a missing `.git` has to exist during a run. Each placeholder is recorded before it is
created, in the manifest of every run that uses it, which the run keeps locked. The last of these runs removes the
placeholder. If it was killed, its cleaner process removes it, or else the next run does.
"""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ask.atomic_files import convert_write_errors, lock_file
from ask.regular_files import open_regular_file, read_regular_file
from ask.safety.sandbox_init import build_python_command
from ask.tools.file_access import open_existing_folder

if TYPE_CHECKING:
    from subprocess import Popen

_LOCK_NAME = "manifests"
"""Name for the lock of the folder, so that no other run creates or removes placeholders meanwhile."""
_MANIFEST_SUFFIX = ".note"
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
        self._recorded_paths: set[Path] = set()
        self._cleaner: Popen[bytes] | None = None
        with lock_file(state_folder / _LOCK_NAME):
            _remove_unused_placeholders(state_folder)
            # Without a buffer: what could not be written must not be written later.
            self._manifest = (state_folder / f"{os.urandom(8).hex()}{_MANIFEST_SUFFIX}").open("xb", buffering=0)
            fcntl.flock(self._manifest, fcntl.LOCK_EX)

    @property
    def paths(self) -> frozenset[Path]:
        """The placeholders that this run uses, including those that other runs created."""
        return frozenset(self._recorded_paths - {self._overflow_directory})

    def create(self, requested_paths: Mapping[Path, bool]) -> None:
        """Create the paths that are missing. May be called again, because the user may have deleted some.

        `requested_paths` maps resolved paths to whether each must be a folder. Existing paths are never removed.

        Raises:
            FileError: they cannot be recorded.
        """
        requested = {**requested_paths, self._overflow_directory: True}
        with lock_file(self._state_folder / _LOCK_NAME):
            # A path that contains a link now is another one.
            missing = [path for path in requested if not os.path.lexists(path) and path.parent == path.parent.resolve()]
            for manifest in self._state_folder.glob(f"*{_MANIFEST_SUFFIX}"):
                self._recorded_paths |= requested.keys() & _read_manifest(manifest)
            self._recorded_paths.update(missing)
            self._manifest.seek(0)
            content = b"\0".join(map(os.fsencode, self._recorded_paths))
            with convert_write_errors(Path(self._manifest.name)):
                while content:
                    content = content[self._manifest.write(content) :]
            for path in missing:
                # What ask cannot create, a call cannot either.
                with suppress(OSError), open_existing_folder("/", path.parent.parts[1:]) as folder_fd:
                    if requested[path]:
                        os.mkdir(path.name, 0o700, dir_fd=folder_fd)
                    else:
                        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                        os.close(os.open(path.name, flags, 0o644, dir_fd=folder_fd))

    def start_cleaner(self) -> None:
        """Start a process that removes the placeholders if this one is killed."""
        if self._cleaner is not None or not self.paths:
            return
        from subprocess import DEVNULL, PIPE, Popen

        state_folder = str(self._state_folder)
        command = build_python_command(
            f"from ask.safety.mount_placeholders import _clean_after_kill; _clean_after_kill({state_folder!r})"
        )
        with suppress(OSError):  # then the next run cleans up
            self._cleaner = Popen(
                ["/bin/sh", "-c", _WAIT_SCRIPT, "sh", *command],
                stdin=PIPE,
                stdout=DEVNULL,
                stderr=DEVNULL,
                env={},
                cwd="/",
                start_new_session=True,  # so that it survives the end of the terminal session or job
            )

    def release(self) -> None:
        """Remove the placeholders in folders that no other run uses."""
        with lock_file(self._state_folder / _LOCK_NAME):
            self._manifest.close()
            _remove_unused_placeholders(self._state_folder)
        if self._cleaner is not None:
            self._cleaner.kill()
            self._cleaner.communicate()
            self._cleaner = None


def _clean_after_kill(state_folder: str) -> None:
    """Remove the placeholders of a run that has just been killed."""
    for delay in _RETRY_DELAYS:
        time.sleep(delay)
        with lock_file(Path(state_folder) / _LOCK_NAME):
            _remove_unused_placeholders(Path(state_folder))
        if not any(Path(state_folder).glob(f"*{_MANIFEST_SUFFIX}")):
            return


def _remove_unused_placeholders(state_folder: Path) -> None:
    """Remove the placeholders that no run uses any more, and the manifests of the runs that have ended."""
    used, unused = set[Path](), set[Path]()
    ended_manifests = []
    for path in state_folder.glob(f"*{_MANIFEST_SUFFIX}"):
        with open_regular_file(path) as manifest:
            try:
                fcntl.flock(manifest, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                used |= _read_manifest(path)
                continue
        unused |= _read_manifest(path)
        ended_manifests.append(path)
    for path in unused - used:
        with suppress(OSError), open_existing_folder("/", path.parent.parts[1:]) as folder_fd:
            status = os.stat(path.name, dir_fd=folder_fd, follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                os.rmdir(path.name, dir_fd=folder_fd)
            elif stat.S_ISREG(status.st_mode) and status.st_size == 0:
                os.unlink(path.name, dir_fd=folder_fd)
    for path in ended_manifests:
        path.unlink()


def _read_manifest(path: Path) -> set[Path]:
    return {Path(os.fsdecode(name)) for name in read_regular_file(path).split(b"\0") if name}
