"""Locks between processes, also where the file system has none, as some network file systems of clusters."""

from __future__ import annotations

import fcntl
import mmap
import os
import re
import socket
from contextlib import suppress
from pathlib import Path

from ask.atomic_files import open_private_file
from ask.errors import AskError
from ask.process.process_tree import read_stat_fields
from ask.regular_files import read_regular_file

PROBE_OFFSET = 1 << 60
"""The byte that is locked to find out whether locks work. Identities are smaller numbers."""
OWNER_FILE_TRIES = 3
"""How often to create the file of an owner, if those of processes that have ended are in its place."""
START_TIME_FIELD = 19
"""The position of a process's start time after its state in /proc/PID/stat."""


class LockFile:
    """A file in which processes lock identities, each of which is a byte. One process opens it once.

    A file that is deleted could be locked twice, so it stays. Where the file system has no locks, each identity has a
    file of its own, which names its owner and is deleted at the end.

    Raises:
        OSError: the file cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = open_private_file(path, os.O_RDWR | os.O_NOFOLLOW)
        self._owner_files: list[Path] = []
        self.has_system_locks = self._check_system_locks()

    def close(self) -> None:
        """Release all locks."""
        os.close(self._descriptor)
        for file in self._owner_files:
            with suppress(OSError):
                file.unlink()

    def lock(self, identity: str, error: AskError) -> None:
        """Lock an identity, a hexadecimal number.

        Raises:
            AskError: `error`, because another process has locked it. A hint says which one, if this is known.
            OSError: the lock cannot be created.
        """
        if not self.has_system_locks:
            self._create_owner_file(identity, error)
            return
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, int(identity, 16))
        except OSError:
            raise error from None

    def has_shared_memory(self) -> bool:
        """Check whether processes can share memory that is mapped to a file here."""
        try:
            if not os.fstat(self._descriptor).st_size:  # another program may have a file of this name
                os.ftruncate(self._descriptor, 1)
            mmap.mmap(self._descriptor, 1).close()
        except OSError:
            return False
        return True

    def _check_system_locks(self) -> bool:
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, PROBE_OFFSET)
        except OSError:  # such as ENOLCK: no process locks this byte exclusively
            return False
        return True

    def _create_owner_file(self, identity: str, error: AskError) -> None:
        file = self.path.with_name(f"{self.path.name}.{identity}")
        for _ in range(OWNER_FILE_TRIES):
            with suppress(FileExistsError):
                # O_EXCL also works over NFS.
                descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                os.write(descriptor, _describe_process(os.getpid()).encode())
                os.close(descriptor)
                self._owner_files.append(file)
                return
            try:
                owner = read_regular_file(file).decode(errors="replace")
            except FileNotFoundError:  # its owner has just ended
                continue
            if _is_running(owner):
                process = f"it is process {owner.split()[0]} on {owner.split()[1]}; " if owner else ""
                error.hint = f"{process}if that has ended, delete {file}"
                break
            _remove_owner_file(file, owner)
        raise error


def _remove_owner_file(file: Path, owner: str) -> None:
    """Remove the file of a process that has ended, unless another process has just replaced it with its own."""
    grabbed = file.with_name(f"{file.name}.{os.getpid()}")
    with suppress(FileNotFoundError, FileExistsError):
        os.rename(file, grabbed)
        if grabbed.read_text(errors="replace") != owner:
            os.link(grabbed, file)
    grabbed.unlink(missing_ok=True)


def _describe_process(pid: int) -> str:
    """Return the id, host and start time of a process of this machine."""
    fields = read_stat_fields(str(pid))
    start_time = fields[START_TIME_FIELD].decode() if len(fields) > START_TIME_FIELD else "0"
    return f"{pid} {socket.gethostname()} {start_time}"


def _is_running(owner: str) -> bool:
    """Check whether the process that a lock names may be running. Those of other machines may."""
    match = re.fullmatch(r"(\d+) (\S+) (\d+)", owner)
    if not match or match[2] != socket.gethostname():
        return True
    try:
        os.kill(int(match[1]), 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return _describe_process(int(match[1])) == owner
