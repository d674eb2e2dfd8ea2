"""Import exported conversations into a history, in one transaction."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

from ask.errors import FileError, RunInterruptedError
from ask.history.entries import Conversation, Run, insert_entry, insert_row, query_conversations, read_runs
from ask.history.export_format import RUN_REFERENCES, ConversationExport, from_json_value, to_json_value
from ask.history.store import Store, has_pending_signal
from ask.messages import Usage
from ask.records import NamedTuple

if TYPE_CHECKING:
    import sqlite3


CONVERSATIONS_PER_TRANSACTION = 50


class ImportStatus(StrEnum):
    """The outcome of importing one conversation."""

    IMPORTED = "imported"
    ALREADY_PRESENT = "already here"
    CONTINUED = "continued"
    RENAMED = "imported under a new id"


class ImportResult(NamedTuple):
    """An imported conversation; the field names are those of the JSON output."""

    id: str
    """The id in the export."""
    title: str
    status: ImportStatus
    imported_id: str
    """The id in this history."""


def import_conversations(
    store: Store, exports: Iterable[ConversationExport], generate_id: Callable[[], str] | None
) -> list[ImportResult]:
    """Import all conversations, or none if one fails or a signal ends the run.

    A conversation that the history already has is skipped, and one that was continued on another machine gets its
    further runs. `generate_id` makes a new id for a conversation whose id belongs to a different one in this history,
    or that was continued on both machines; without it, such a conversation is an error.
    """
    results = []
    with store.write_transaction() as connection:
        for export in exports:
            if has_pending_signal():
                raise RunInterruptedError("interrupted")
            results.append(_import_conversation(store, connection, export, generate_id))
    return results


def copy_conversation(store: Store, conversation: Conversation, runs: Sequence[Run], new_id: str) -> None:
    """Copy runs of a conversation to a new one. Their usage is not copied, so that statistics count it once."""
    unused = (
        run._replace(usage=Usage(), entries=tuple(entry._replace(usage=Usage()) for entry in run.entries))
        for run in runs
    )
    copy = conversation._replace(id=new_id, updated=time.time())
    with store.write_transaction() as connection:
        _insert_conversation(connection, from_json_value(to_json_value(ConversationExport(copy, list(unused)))))


def _import_conversation(
    store: Store, connection: sqlite3.Connection, export: ConversationExport, generate_id: Callable[[], str] | None
) -> ImportResult:
    incoming = export.conversation
    status, conversation_id = ImportStatus.IMPORTED, incoming.id
    existing = next(iter(query_conversations(store, "WHERE id = ?", incoming.id)), None)
    if existing is not None:
        saved_runs = read_runs(store, existing)
        if _have_same_beginning(ConversationExport(existing, saved_runs), export):
            status = ImportStatus.ALREADY_PRESENT
            if len(export.runs) > len(saved_runs):
                status = ImportStatus.CONTINUED
                _insert_runs(connection, existing.number, export.runs, [run.number for run in saved_runs])
                _update_time(connection, existing.number, incoming.updated)
            return ImportResult(incoming.id, incoming.title, status, incoming.id)
        if generate_id is None:
            problem = f"the id {incoming.id} is already used by another conversation"
            if _have_same_beginning(ConversationExport(existing, saved_runs[:1]), export):
                problem = f"the conversation {incoming.id} was continued here and elsewhere"
            hint = "ask history import --as-new FILE imports it under a new id"
            raise FileError(f"{problem}; nothing was imported", hint)
        status, conversation_id = ImportStatus.RENAMED, generate_id()
    _insert_conversation(connection, export._replace(conversation=incoming._replace(id=conversation_id)))
    return ImportResult(incoming.id, incoming.title, status, conversation_id)


def _insert_conversation(connection: sqlite3.Connection, export: ConversationExport) -> None:
    columns = export.conversation._asdict()
    del columns["number"]
    conversation = insert_row(connection, "conversations", **columns)
    _insert_runs(connection, conversation, export.runs)


def _have_same_beginning(saved: ConversationExport, incoming: ConversationExport) -> bool:
    """Check that one continues the other, or that they are the same; its answers may have been replaced since."""
    values = [to_json_value(export) for export in (saved, incoming)]
    length = min(len(value["runs"]) for value in values)
    beginnings = [
        {**value, "updated": 0.0, "runs": [{**run, "replaced_by": None} for run in value["runs"][:length]]}
        for value in values
    ]
    return beginnings[0] == beginnings[1]


def _insert_runs(
    connection: sqlite3.Connection, conversation: int, runs: Sequence[Run], saved_numbers: Sequence[int] = ()
) -> None:
    """Insert the runs after those that are saved, and let all refer to each other."""
    new_runs = runs[len(saved_numbers) :]
    numbers = [*saved_numbers, *(_insert_run(connection, conversation, run) for run in new_runs)]
    targets = [*numbers, numbers[-1] + 1]  # a summary may cover the last run, too
    for run, number in zip(runs, numbers, strict=True):
        for column in RUN_REFERENCES:
            position = getattr(run, column)
            if position is not None:
                connection.execute(f"UPDATE runs SET {column} = ? WHERE number = ?", (targets[position], number))


def _insert_run(connection: sqlite3.Connection, conversation: int, run: Run) -> int:
    excluded = ("number", "usage", "entries", *RUN_REFERENCES)
    columns = {name: value for name, value in run._asdict().items() if name not in excluded}
    number = insert_row(connection, "runs", conversation=conversation, **columns, **run.usage._asdict())
    for entry in run.entries:
        insert_entry(connection, number, entry)
    return number


class SourceConversation(NamedTuple):
    """A conversation of another program, which is only loaded if it is new or has grown."""

    id: str
    """Its id in this history."""
    updated: float
    """When its last message was written, in seconds since 1970; 0.0 if that is unknown."""
    load: Callable[[], ConversationExport | None]


class AddedConversations(NamedTuple):
    """The numbers of conversations that were imported from another program."""

    new: int = 0
    continued: int = 0
    present: int = 0


def add_conversations(
    store: Store, program: str, conversations: Iterable[SourceConversation]
) -> Iterator[AddedConversations]:
    """Add conversations of another program, and the messages that were added to them there since the last time.

    Yield the numbers so far after each transaction. Each is short, so that other processes can write, and contains
    complete conversations.
    """
    rows = store.fetch_rows(
        "SELECT conversations.id, max(coalesce(ended, started)) AS updated "
        "FROM runs JOIN conversations ON conversations.number = runs.conversation WHERE version = ? GROUP BY 1",
        [program],
    )
    update_times = {row[0]: row[1] for row in rows}
    new = continued = present = 0
    batch: list[ConversationExport] = []

    def add_batch() -> AddedConversations:
        nonlocal new, continued, present
        with store.write_transaction() as connection:
            for export in batch:
                is_new, is_changed = _add_conversation(connection, program, export)
                new, continued = new + is_new, continued + (is_changed and not is_new)
                present += not is_changed
        batch.clear()
        return AddedConversations(new, continued, present)

    for conversation in conversations:
        is_current = 0 < conversation.updated <= update_times.get(conversation.id, 0.0)
        export = None if is_current else conversation.load()
        if export is None:
            present += is_current
            continue
        batch.append(export)
        if len(batch) >= CONVERSATIONS_PER_TRANSACTION:
            yield add_batch()
    yield add_batch() if batch else AddedConversations(new, continued, present)


def add_conversation(store: Store, export: ConversationExport, derive_id: Callable[[str], str]) -> ImportResult:
    """Add a conversation of another program, or the messages that were added to it since it was imported.

    If its id belongs to a conversation with other messages, `derive_id` makes another id from it.
    """
    conversation, program = export.conversation, export.runs[0].version
    with store.write_transaction() as connection:
        while not _has_same_messages(store, conversation.id, export.runs):
            conversation = conversation._replace(id=derive_id(conversation.id))
        is_new, is_changed = _add_conversation(connection, program, export._replace(conversation=conversation))
    changed_status = ImportStatus.IMPORTED if is_new else ImportStatus.CONTINUED
    status = changed_status if is_changed else ImportStatus.ALREADY_PRESENT
    return ImportResult(conversation.id, conversation.title, status, conversation.id)


def _has_same_messages(store: Store, conversation_id: str, runs: Sequence[Run]) -> bool:
    """Check that a conversation, if there is one, has the same messages as these runs, apart from later ones."""
    existing = query_conversations(store, "WHERE id = ?", conversation_id)
    saved_runs = [run for run in read_runs(store, existing[0]) if run.version == runs[0].version] if existing else []
    saved, incoming = (
        [(entry.message.role, entry.message.content) for run in each for entry in run.entries]
        for each in (saved_runs, runs)
    )
    return all(one == other for one, other in zip(saved, incoming, strict=False))


def _add_conversation(connection: sqlite3.Connection, program: str, export: ConversationExport) -> tuple[bool, bool]:
    """Add a conversation, or what it lacks; return whether it is new, and whether anything was added."""
    conversation, runs = export
    row = connection.execute("SELECT number FROM conversations WHERE id = ?", [conversation.id]).fetchone()
    if row is None:
        _insert_conversation(connection, export)
        return True, True
    count, last_number = connection.execute(
        "SELECT count(*), max(number) FROM runs WHERE conversation = ? AND version = ?", [row[0], program]
    ).fetchone()
    is_changed = len(runs) > count
    if 0 < count <= len(runs):
        is_changed |= _complete_run(connection, last_number, runs[count - 1])
    for run in runs[count:]:
        _insert_run(connection, row[0], run)
    if is_changed:
        _update_time(connection, row[0], conversation.updated)
    return False, is_changed


def _update_time(connection: sqlite3.Connection, conversation: int, updated: float) -> None:
    connection.execute("UPDATE conversations SET updated = max(updated, ?) WHERE number = ?", [updated, conversation])


def _complete_run(connection: sqlite3.Connection, number: int, run: Run) -> bool:
    """Add the messages that a run lacks, which was imported while the other program was calling tools."""
    (count,) = connection.execute("SELECT count(*) FROM messages WHERE run = ?", [number]).fetchone()
    if count >= len(run.entries):
        return False
    for entry in run.entries[count:]:
        insert_entry(connection, number, entry)
    values = {"ended": run.ended, "rounds": run.rounds, **run.usage._asdict()}
    assignments = ", ".join(f"{name} = ?" for name in values)
    connection.execute(f"UPDATE runs SET {assignments} WHERE number = ?", [*values.values(), number])
    return True
