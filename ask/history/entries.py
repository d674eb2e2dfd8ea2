"""What a saved conversation consists of, as values, and how these become rows and come back from them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Any, NamedTuple

from ask.history.store import Store
from ask.messages import Attachment, Message, Native, ToolCall, Usage
from ask.text import repair_surrogates


class ToolCallRecord(NamedTuple):
    """A tool call and what became of it.

    Attributes:
        call: the call.
        started: when it began, in seconds since 1970; None for one that never did.
        seconds: how long it ran; None for one whose end nobody saw, which is so for all that follow.
        failed: whether its result tells of an error.
        decision: the verdict about it.
        rule: by what rule.
        exit_status: a command's.
    """

    call: ToolCall
    started: float | None = None
    seconds: float | None = None
    failed: bool | None = None
    decision: str | None = None
    rule: str | None = None
    exit_status: int | None = None


class HistoryEntry(NamedTuple):
    """A message as it was saved.

    Attributes:
        time: when, in seconds since 1970.
        message: the message.
        complete: whether it is; False for an answer that was cut.
        reasoning: what the model thought aloud before it.
        finish_reason: why the answer ended, "" for what is none.
        usage: what the answer used.
        calls: its tool calls with what became of them.
    """

    time: float
    message: Message
    complete: bool = True
    reasoning: str = ""
    finish_reason: str = ""
    usage: Usage = Usage()
    calls: tuple[ToolCallRecord, ...] = ()


class Run(NamedTuple):
    """One command's part in a conversation.

    Attributes:
        number: its place among all runs.
        compacts: for a run that wrote a summary, the number of the first run that the summary does not stand for.
        started: when, in seconds since 1970.
        ended: when; None for a run that is under way, or was killed, as `exit_code` is then too.
        version: of the program.
        provider: whom it asked.
        model: which model.
        system: what the user added to the system prompt for this conversation.
        directory: where it took place.
        terminal: on which terminal, "" for none.
        exit_code: of the command.
        error: why it did not end well, "" where it did.
        rounds: how many rounds of tool calls there were.
        usage: of all its requests.
        entries: its messages.
    """

    number: int
    compacts: int | None
    started: float
    ended: float | None
    version: str
    provider: str
    model: str
    system: str
    directory: str
    terminal: str
    exit_code: int | None
    error: str
    rounds: int
    usage: Usage
    entries: tuple[HistoryEntry, ...] = ()


class Conversation(NamedTuple):
    """A saved conversation; `created` and `updated` are in seconds since 1970."""

    number: int
    id: str
    title: str
    created: float
    updated: float


INDEX_MESSAGE = "INSERT INTO texts (rowid, content, calls) SELECT * FROM searchable WHERE number = ?"
UNINDEX_MESSAGE = (
    "INSERT INTO texts (texts, rowid, content, calls) "
    "SELECT 'delete', number, content, calls FROM searchable WHERE number = ?"
)
"""Takes a message out of the search index, which must be done before the message changes."""
MAX_SQLITE_INTEGER = 2**63 - 1
"""The greatest number that SQLite can hold."""


def to_sqlite_value(value: Any) -> Any:
    """The value as SQLite can hold it: no half of a character in a text; None for a number that is too great."""
    if isinstance(value, str):
        return repair_surrogates(value)
    return None if isinstance(value, int) and abs(value) > MAX_SQLITE_INTEGER else value


def insert_entry(connection: sqlite3.Connection, run_number: int, entry: HistoryEntry) -> int:
    """Save a message with all that belongs to it; return its number."""
    message, native = entry.message, entry.message.native
    cursor = connection.execute(
        "INSERT INTO messages (run, time, role, content, tool_call_id, tool_name, native, whole, reasoning, finish, "
        "input_tokens, output_tokens, cached_tokens, cost) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            *(
                run_number,
                entry.time,
                message.role,
                repair_surrogates(message.content),
                repair_surrogates(message.tool_call_id),
            ),
            *(repair_surrogates(message.tool_name), json.dumps([*native[:2], dict(native.data)]) if native else None),
            *(
                entry.complete,
                repair_surrogates(entry.reasoning),
                entry.finish_reason,
                *map(to_sqlite_value, entry.usage),
            ),
        ],
    )
    number = cursor.lastrowid or 0
    for place, (call, *outcome) in enumerate(entry.calls):
        row = (number, place, *map(to_sqlite_value, call), *outcome)
        connection.execute(f"INSERT INTO calls VALUES ({', '.join('?' * len(row))})", row)
    for place, attachment in enumerate(message.attachments):
        row = (number, place, *map(to_sqlite_value, attachment))
        connection.execute("INSERT INTO attachments VALUES (?, ?, ?, ?, ?)", row)
    connection.execute(INDEX_MESSAGE, (number,))
    return number


def read_runs(store: Store, conversation: Conversation) -> list[Run]:
    """The runs of a conversation with their messages, in order; there is one at least.

    Raises:
        FileError: the history cannot be read.
    """
    try:
        runs = _query_runs(store, conversation)
    except (IndexError, TypeError, ValueError) as fault:
        raise store.make_damaged_error() from fault
    if not runs:
        raise store.make_damaged_error()
    return runs


def _query_runs(store: Store, conversation: Conversation) -> list[Run]:
    messages = "FROM messages JOIN runs ON run = runs.number WHERE conversation = ?"
    calls: dict[int, list[ToolCallRecord]] = {}
    for row in store.fetch_rows(
        f"SELECT * FROM calls WHERE message IN (SELECT messages.number {messages})", [conversation.number]
    ):
        call = ToolCall(row["id"], row["name"], row["arguments"])
        calls.setdefault(row["message"], []).append(ToolCallRecord(call, *tuple(row)[len(row) - 6 :]))
    attachments: dict[int, list[Attachment]] = {}
    for row in store.fetch_rows(
        f"SELECT * FROM attachments WHERE message IN (SELECT messages.number {messages})", [conversation.number]
    ):
        attachments.setdefault(row["message"], []).append(Attachment(row["name"], row["media_type"], row["data"]))
    entries: dict[int, list[HistoryEntry]] = {}
    for row in store.fetch_rows(f"SELECT messages.* {messages} ORDER BY messages.number", [conversation.number]):
        entry = _parse_entry(row, calls.get(row["number"], ()), attachments.get(row["number"], ()))
        entries.setdefault(row["run"], []).append(entry)
    rows = store.fetch_rows("SELECT * FROM runs WHERE conversation = ? ORDER BY number", [conversation.number])
    return [_parse_run(row, entries.get(row["number"], ())) for row in rows]


def _parse_entry(row: sqlite3.Row, calls: Sequence[ToolCallRecord], attachments: Sequence[Attachment]) -> HistoryEntry:
    message = Message(
        role=row["role"],
        content=row["content"],
        tool_calls=tuple(record.call for record in calls),
        tool_call_id=row["tool_call_id"],
        tool_name=row["tool_name"],
        attachments=tuple(attachments),
        native=Native(*json.loads(row["native"])) if row["native"] else None,
    )
    usage = parse_usage(row)
    return HistoryEntry(row["time"], message, bool(row["whole"]), row["reasoning"], row["finish"], usage, tuple(calls))


def _parse_run(row: sqlite3.Row, entries: Sequence[HistoryEntry]) -> Run:
    fields = {name: row[name] for name in Run._fields if name not in ("usage", "entries")}
    return Run(**fields, usage=parse_usage(row), entries=tuple(entries))


def parse_usage(row: sqlite3.Row) -> Usage:
    """What a row tells of tokens and cost."""
    return Usage(*(row[name] for name in Usage._fields))
