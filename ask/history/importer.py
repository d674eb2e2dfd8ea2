"""Takes conversations from elsewhere into a history: all of them or none."""

from __future__ import annotations

import signal
import sqlite3
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import NamedTuple

from ask.errors import FileError, RunInterruptedError
from ask.history.entries import Conversation, Run, insert_entry, read_runs
from ask.history.export_format import ConversationExport, to_json_line
from ask.history.store import TERMINATION_SIGNALS, Store
from ask.messages import Usage

NON_COLUMN_FIELDS = ("number", "compacts", "usage", "entries")
RUN_COLUMNS = (*(name for name in Run._fields if name not in NON_COLUMN_FIELDS), *Usage._fields)


class ImportStatus(StrEnum):
    """What became of a conversation that was taken in."""

    IMPORTED = "imported"
    ALREADY_PRESENT = "already here"
    RENAMED = "imported under a new id"


class ImportResult(NamedTuple):
    """A conversation that was taken in: its id and title, the id that it has here, and what became of it."""

    id: str
    title: str
    became: ImportStatus
    here: str


def import_conversations(
    store: Store, exports: Iterable[ConversationExport], generate_id: Callable[[], str] | None
) -> list[ImportResult]:
    """Save conversations; one that is here already, with the same content, is left alone.

    Args:
        store: the history.
        exports: the conversations, taken one at a time.
        generate_id: makes an id for one whose own stands for another conversation here; None refuses such a one.

    Raises:
        FileError: one is refused, or cannot be read or saved; then the history is as it was.
        Interrupted: a signal asks for the end; likewise.
    """
    taken = []
    with store.write_transaction() as connection:
        for saved in exports:
            if signal.sigpending() & TERMINATION_SIGNALS:
                raise RunInterruptedError("interrupted")
            taken.append(_import_conversation(store, connection, saved, generate_id))
    return taken


def _import_conversation(
    store: Store, connection: sqlite3.Connection, export: ConversationExport, generate_id: Callable[[], str] | None
) -> ImportResult:
    arriving = export.conversation
    here = store.fetch_rows("SELECT * FROM conversations WHERE id = ?", [arriving.id])
    if not here:
        _insert_conversation(connection, export)
        return ImportResult(arriving.id, arriving.title, ImportStatus.IMPORTED, arriving.id)
    standing = Conversation(*here[0])
    if to_json_line(ConversationExport(standing, read_runs(store, standing))) == to_json_line(export):
        return ImportResult(arriving.id, arriving.title, ImportStatus.ALREADY_PRESENT, arriving.id)
    if generate_id is None:
        raise FileError(
            f"another conversation here has the id {arriving.id} too; nothing was imported",
            "--as-new gives such a one a new id",
        )
    renamed = arriving._replace(id=generate_id())
    _insert_conversation(connection, export._replace(conversation=renamed))
    return ImportResult(arriving.id, arriving.title, ImportStatus.RENAMED, renamed.id)


def _insert_conversation(connection: sqlite3.Connection, export: ConversationExport) -> None:
    columns = Conversation._fields[1:]
    statement = f"INSERT INTO conversations ({', '.join(columns)}) VALUES (?, ?, ?, ?)"
    conversation = connection.execute(statement, export.conversation[1:]).lastrowid or 0
    numbers = [_insert_run(connection, conversation, run) for run in export.runs]
    for run, number in zip(export.runs, numbers, strict=True):
        if run.compacts is not None:
            first = numbers[run.compacts] if run.compacts < len(numbers) else numbers[-1] + 1
            connection.execute("UPDATE runs SET compacts = ? WHERE number = ?", (first, number))


def _insert_run(connection: sqlite3.Connection, conversation_number: int, run: Run) -> int:
    row = {**run._asdict(), **run.usage._asdict()}
    values = [row[name] for name in RUN_COLUMNS]
    places = ", ".join("?" * (len(values) + 1))
    statement = f"INSERT INTO runs (conversation, {', '.join(RUN_COLUMNS)}) VALUES ({places})"
    number = connection.execute(statement, [conversation_number, *values]).lastrowid or 0
    for entry in run.entries:
        insert_entry(connection, number, entry)
    return number
