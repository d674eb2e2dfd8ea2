"""Takes conversations from elsewhere into a history: all of them or none."""

from __future__ import annotations

import signal
import sqlite3
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import NamedTuple

from ask.errors import FileError, Interrupted
from ask.history.entries import Conversation, Run, insert_entry, read_runs
from ask.history.export_format import Saved, as_line
from ask.history.store import ENDINGS, Store
from ask.messages import Usage

NO_COLUMNS = ("number", "compacts", "usage", "entries")
RUN_COLUMNS = (*(name for name in Run._fields if name not in NO_COLUMNS), *Usage._fields)


class Became(StrEnum):
    """What became of a conversation that was taken in."""

    IMPORTED = "imported"
    PRESENT = "already here"
    RENAMED = "imported under a new id"


class Taken(NamedTuple):
    """A conversation that was taken in: its id and title, the id that it has here, and what became of it."""

    id: str
    title: str
    became: Became
    here: str


def take_in(store: Store, arriving: Iterable[Saved], new_id: Callable[[], str] | None) -> list[Taken]:
    """Save conversations; one that is here already, with the same content, is left alone.

    Args:
        store: the history.
        arriving: the conversations, taken one at a time.
        new_id: makes an id for one whose own stands for another conversation here; None refuses such a one.

    Raises:
        FileError: one is refused, or cannot be read or saved; then the history is as it was.
        Interrupted: a signal asks for the end; likewise.
    """
    taken = []
    with store.writing() as connection:
        for saved in arriving:
            if signal.sigpending() & ENDINGS:
                raise Interrupted("interrupted")
            taken.append(_take(store, connection, saved, new_id))
    return taken


def _take(store: Store, connection: sqlite3.Connection, saved: Saved, new_id: Callable[[], str] | None) -> Taken:
    arriving = saved.conversation
    here = store.rows("SELECT * FROM conversations WHERE id = ?", [arriving.id])
    if not here:
        _insert(connection, saved)
        return Taken(arriving.id, arriving.title, Became.IMPORTED, arriving.id)
    standing = Conversation(*here[0])
    if as_line(Saved(standing, read_runs(store, standing))) == as_line(saved):
        return Taken(arriving.id, arriving.title, Became.PRESENT, arriving.id)
    if new_id is None:
        raise FileError(
            f"another conversation here has the id {arriving.id} too; nothing was imported",
            "--as-new gives such a one a new id",
        )
    renamed = arriving._replace(id=new_id())
    _insert(connection, saved._replace(conversation=renamed))
    return Taken(arriving.id, arriving.title, Became.RENAMED, renamed.id)


def _insert(connection: sqlite3.Connection, saved: Saved) -> None:
    columns = Conversation._fields[1:]
    statement = f"INSERT INTO conversations ({', '.join(columns)}) VALUES (?, ?, ?, ?)"
    conversation = connection.execute(statement, saved.conversation[1:]).lastrowid or 0
    numbers = [_insert_run(connection, conversation, run) for run in saved.runs]
    for run, number in zip(saved.runs, numbers, strict=True):
        if run.compacts is not None:
            first = numbers[run.compacts] if run.compacts < len(numbers) else numbers[-1] + 1
            connection.execute("UPDATE runs SET compacts = ? WHERE number = ?", (first, number))


def _insert_run(connection: sqlite3.Connection, conversation: int, run: Run) -> int:
    row = {**run._asdict(), **run.usage._asdict()}
    values = [row[name] for name in RUN_COLUMNS]
    places = ", ".join("?" * (len(values) + 1))
    statement = f"INSERT INTO runs (conversation, {', '.join(RUN_COLUMNS)}) VALUES ({places})"
    number = connection.execute(statement, [conversation, *values]).lastrowid or 0
    for entry in run.entries:
        insert_entry(connection, number, entry)
    return number
