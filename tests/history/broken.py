"""Histories that cannot be used, each with the words that say why."""

from __future__ import annotations

import os
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.saved_history import save_run


class Broken(NamedTuple):
    """How to put it where the history should be, and what is said of it."""

    make: Callable[[Path], object]
    words: str


def valid(path: Path) -> bytes:
    """The bytes of a history that holds a conversation, which is also there then."""
    save_run(path)
    return path.read_bytes()


def nonsense(path: Path) -> None:
    path.write_bytes(random.Random(1).randbytes(9_000))


def cut_off(path: Path) -> None:
    data = valid(path)
    path.write_bytes(data[: len(data) // 2])


def overwritten(path: Path) -> None:
    """All but the first page, where the names of the tables are."""
    data = valid(path)
    path.write_bytes(data[:4096] + random.Random(1).randbytes(len(data) - 4096))


def foreign(path: Path, mode: str = "DELETE") -> None:
    """A database of another program."""
    connection = sqlite3.connect(path)
    connection.executescript(f"PRAGMA journal_mode = {mode}; CREATE TABLE runs (number); INSERT INTO runs VALUES (1)")
    connection.close()


def newer(path: Path) -> None:
    valid(path)
    connection = sqlite3.connect(path)
    [(version,)] = connection.execute("PRAGMA user_version")
    connection.execute(f"PRAGMA user_version = {version + 1}")
    connection.close()


BROKEN = {
    "nonsense": Broken(nonsense, "damaged"),
    "text": Broken(lambda path: path.write_text("no database\n" * 100), "damaged"),
    "cut off": Broken(cut_off, "damaged"),
    "overwritten": Broken(overwritten, "damaged"),
    "foreign": Broken(foreign, "not a database of ask"),
    "foreign, WAL": Broken(lambda path: foreign(path, "WAL"), "not a database of ask"),
    "newer": Broken(newer, "newer version"),
    "folder": Broken(lambda path: path.mkdir(), "not a file"),
    "FIFO": Broken(os.mkfifo, "not a file"),
    "device": Broken(lambda path: path.symlink_to("/dev/null"), "not a file"),
    "link to nowhere": Broken(
        lambda path: path.symlink_to(path.parent / "no" / "where"), "(No such file or directory)"
    ),
    "link to itself": Broken(lambda path: path.symlink_to(path), "(Too many levels of symbolic links)"),
}


def content(folder: Path) -> dict[str, object]:
    """All that is in a folder: the bytes of files, and the kind of everything else."""
    return {
        path.name: path.read_bytes() if path.is_file() and not path.is_symlink() else path.lstat().st_mode
        for path in folder.iterdir()
    }
