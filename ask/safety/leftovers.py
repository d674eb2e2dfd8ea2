"""Holds the place of what is protected but absent, and takes the empty place holders away when nobody needs them.

A mount needs something to lie on, so an absent `.git` must be there, empty, while a run lasts. What was made is
noted first, in a file per folder that every run in that folder keeps locked: the last one cleans up, or, where it
was killed, the next one that starts.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

from ask.state_files import create_private_folder

_GATE = "gate"
_NOTE = ".note"


class PlaceHolders:
    """The place holders of one run; those of runs that were killed are taken away first.

    Args:
        state: the folder of the notes, made where it is missing.
        spill: the folder of the run's long outputs, which is made, too, and not left empty.
    """

    def __init__(self, state: Path, spill: Path) -> None:
        self._state = state
        self._spill = spill
        self._notes: list[int] = []
        with _gate(state):
            _clean(state)

    def hold(self, held: Mapping[Path, bool]) -> None:
        """Create what is missing, also for the second time: the user may have taken something away.

        Args:
            held: paths, and whether each has to be a folder, not a file. Those that exist are never removed.
        """
        names: dict[Path, dict[str, bool]] = {}
        for path, is_folder in {**held, self._spill: True}.items():
            names.setdefault(path.parent, {})[path.name] = is_folder
        with _gate(self._state):
            notes = [_hold(self._state, folder, inside) for folder, inside in names.items()]
            self._drop()
            self._notes = notes

    def _drop(self) -> None:
        while self._notes:
            os.close(self._notes.pop())

    def release(self) -> None:
        """Give the folders up, and clean those that no other run is in."""
        with _gate(self._state):
            self._drop()
            _clean(self._state)


@contextmanager
def _gate(state: Path) -> Iterator[None]:
    """One run at a time, for the little while that making or cleaning takes."""
    create_private_folder(state)
    gate = os.open(state / _GATE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(gate, fcntl.LOCK_EX)
        yield
    finally:
        os.close(gate)


def _hold(state: Path, folder: Path, names: Mapping[str, bool]) -> int:
    """Make what of these names is absent in a folder, noted before; the locked note."""
    name = sha256(os.fsencode(folder)).hexdigest()[:32] + _NOTE
    note = os.open(state / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(note, fcntl.LOCK_SH)
    noted = _read(note) or [str(folder)]
    absent = [name for name in names if not os.path.lexists(folder / name)]
    made = [*noted, *(name for name in absent if name not in noted)]
    os.pwrite(note, "\0".join(made).encode("utf-8", "surrogateescape"), 0)
    for name in absent:
        with suppress(OSError):  # where ask cannot make it, a call cannot either
            if names[name]:
                (folder / name).mkdir(mode=0o700)
            else:
                os.close(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
    return note


def _clean(state: Path) -> None:
    """Remove the place holders of all folders that no run is in."""
    for path in state.glob(f"*{_NOTE}"):
        note = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(note, fcntl.LOCK_EX | fcntl.LOCK_NB)
            folder, *names = _read(note) or [""]
            moved = os.path.realpath(folder) != folder  # and what is there now is somebody else's
            for name in [] if moved else names:
                _remove_empty(Path(folder) / name)
            path.unlink()
        except BlockingIOError:
            pass
        finally:
            os.close(note)


def _remove_empty(path: Path) -> None:
    with suppress(OSError):
        if path.is_symlink():
            return
        if path.is_dir():
            path.rmdir()
        elif path.is_file() and path.stat().st_size == 0:
            path.unlink()


def _read(note: int) -> list[str]:
    data = os.pread(note, os.fstat(note).st_size, 0).decode("utf-8", "surrogateescape")
    return data.split("\0") if data else []
