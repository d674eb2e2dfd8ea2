"""The parts of a saved conversation, and how they are written to and read from the database."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ask.errors import FileError
from ask.history.search_index import index_message
from ask.history.store import EMPTY_VALUES_NOTE, Store
from ask.messages import (
    MIXED_TIERS,
    Attachment,
    Citation,
    Message,
    ProviderState,
    ServerToolCall,
    ToolCall,
    Usage,
)
from ask.records import NamedTuple
from ask.text import repair_surrogates

if TYPE_CHECKING:
    import sqlite3


def generate_conversation_id() -> str:
    """Generate an ID that begins with a letter. A number in a list can therefore not be a prefix of an ID."""
    random_bytes = os.urandom(6)
    return "abcdef"[random_bytes[0] % 6] + random_bytes.hex()[1:]


ROLES = ("user", "assistant", "tool")
"""The roles of saved messages."""


class ToolCallRecord(NamedTuple):
    """A tool call and its outcome.

    All fields after `started` are None if the call never finished.
    """

    call: ToolCall
    started: float | None = None
    """The start time in seconds since 1970; None for a call that never ran."""
    seconds: float | None = None
    failed: bool | None = None
    decision: str | None = None
    """The verdict of the approval policy, reached by `rule`."""
    rule: str | None = None
    exit_status: int | None = None
    """The exit status of the command, if the tool ran one."""

    def to_row(self) -> dict[str, Any]:
        """Return the values by column, as a saved or exported call has them."""
        values = self._asdict()
        call: ToolCall = values.pop("call")
        return {**call._asdict(), **values}

    @classmethod
    def from_row(cls, row: Mapping[str, Any] | sqlite3.Row) -> ToolCallRecord:
        """Create the record from a row of the database or of an export."""
        call = ToolCall(row["id"], row["name"], row["arguments"])
        record = cls(call, *(row[name] for name in cls._fields[1:]))
        return record if record.failed is None else record._replace(failed=bool(record.failed))


class HistoryEntry(NamedTuple):
    """A saved message.

    `reasoning`, `finish_reason`, `usage`, `citations`, `server_calls` and `refused_files` are those of the model's
    response, and empty for other messages.
    """

    time: float
    """Seconds since 1970."""
    message: Message
    complete: bool = True
    """False for a response that was cut off."""
    reasoning: str = ""
    finish_reason: str = ""
    usage: Usage = Usage()
    calls: tuple[ToolCallRecord, ...] = ()
    """The tool calls of the message, with their outcomes."""
    provider: str = ""
    """The provider of the response, if the run's own model could not answer; as for `model`."""
    model: str = ""
    citations: tuple[Citation, ...] = ()
    server_calls: tuple[ServerToolCall, ...] = ()
    refused_files: tuple[str, ...] = ()
    """The digests of files of earlier messages that the model's service had refused."""

    def to_row(self) -> dict[str, Any]:
        """Return the values by column, as a saved or exported message has them.

        Not included are the provider state, the usage, the citations, server calls and refused files, whose columns
        are text, and the calls and attachments, which are rows of their own.
        """
        return {
            "time": self.time,
            "role": self.message.role,
            "content": self.message.content,
            "complete": self.complete,
            "reasoning": self.reasoning,
            "finish_reason": self.finish_reason,
            "provider": self.provider,
            "model": self.model,
            "tool_call_id": self.message.tool_call_id,
            "tool_name": self.message.tool_name,
        }

    @classmethod
    def from_row(
        cls,
        row: Mapping[str, Any] | sqlite3.Row,
        provider_state: ProviderState | None,
        usage: Usage,
        calls: Iterable[ToolCallRecord],
        attachments: Iterable[Attachment],
    ) -> HistoryEntry:
        """Create the entry from a row of the database or of an export, and what such a row does not include.

        Also not included are the citations, server calls and refused files, which the caller adds.
        """
        calls = tuple(calls)
        message = Message(
            row["role"],
            row["content"],
            tuple(record.call for record in calls),
            row["tool_call_id"],
            row["tool_name"],
            tuple(attachments),
            provider_state,
        )
        details = (
            bool(row["complete"]),
            row["reasoning"],
            row["finish_reason"],
            usage,
            calls,
            row["provider"],
            row["model"],
        )
        return cls(row["time"], message, *details)


REFUSED = "refused"
"""The status of a run whose last messages, after the last answer if there is one, were refused by the provider."""
MERGED = "merged"
"""The status of a run whose question was sent together with the next one, as earlier versions did."""
RUN_STATUSES = ("", REFUSED, MERGED)


class Run(NamedTuple):
    """The part of a conversation that one command added.

    Times are in seconds since 1970. `ended` and `exit_code` are None for a run that is in progress or was killed.
    """

    number: int
    """The position among the runs of all conversations."""
    first_kept_run: int | None
    """For a run that wrote a summary, the number of the first run that the summary does not cover."""
    started: float
    ended: float | None
    version: str
    """The version of ask that wrote the run."""
    provider: str
    """The provider that the user chose; another one may have answered, see `HistoryEntry`."""
    model: str
    system: str
    """The user's additions to the system prompt for this conversation."""
    directory: str
    terminal: str
    """The terminal as `identify_terminal` names it; "" for none."""
    exit_code: int | None
    error: str
    rounds: int
    """The number of rounds of tool calls."""
    usage: Usage
    """The total of all requests."""
    entries: tuple[HistoryEntry, ...] = ()
    replaced_by: int | None = None
    """The number of the run that edited this run's message or asked it again; this one is no longer sent."""
    status: str = ""
    """REFUSED or MERGED; "" for other runs, with or without an answer."""

    @property
    def full_model(self) -> str:
        """The model with its provider; without it if it is unknown, as in conversations of other programs."""
        return f"{self.provider}:{self.model}".removeprefix(":")

    @property
    def has_answer(self) -> bool:
        """Whether later requests contain the question: the model answered it, at least in part, not only reasoned."""
        return self.status == MERGED or any(is_answer(entry.message) for entry in self.entries)


def is_answer(message: Message) -> bool:
    """Check whether a saved message is an answer, or a part of one, and not only the reasoning before it."""
    return message.role == "assistant" and any(message[1:])


class Conversation(NamedTuple):
    """A saved conversation; `created` and `updated` are in seconds since 1970."""

    number: int
    id: str
    title: str
    created: float
    updated: float


MAX_SQLITE_INTEGER = 2**63 - 1


def to_sqlite_value(value: Any) -> Any:
    """Convert a value to one that SQLite can store.

    Lone surrogates in text are replaced, and an integer beyond 64 bits becomes None.
    """
    if isinstance(value, str):
        return repair_surrogates(value)
    return None if isinstance(value, int) and abs(value) > MAX_SQLITE_INTEGER else value


def insert_row(connection: sqlite3.Connection, table: str, **values: Any) -> int:
    """Insert a row and return its row id."""
    statement = f"INSERT INTO {table} ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})"
    return connection.execute(statement, list(map(to_sqlite_value, values.values()))).lastrowid or 0


def insert_entry(connection: sqlite3.Connection, run_number: int, entry: HistoryEntry) -> int:
    """Insert a message with its tool calls and attachments, and return its number."""
    state = entry.message.provider_state
    state_json = json.dumps([*state[:2], dict(state.data)]) if state else None
    values = {**entry.to_row(), **entry.usage._asdict(), "provider_state": state_json}
    for name in ("citations", "server_calls"):
        records = getattr(entry, name)
        values[name] = json.dumps([record._asdict() for record in records]) if records else None
    values["refused_files"] = " ".join(entry.refused_files)
    number = insert_row(connection, "messages", run=run_number, **values)
    texts = [entry.message.content]
    for position, record in enumerate(entry.calls):
        insert_row(connection, "calls", message=number, position=position, **record.to_row())
        texts += (record.call.name, record.call.arguments)
    for position, attachment in enumerate(entry.message.attachments):
        columns = {"name": attachment.name, "media_type": attachment.media_type, "data": attachment.data}
        insert_row(connection, "attachments", message=number, position=position, **columns)
    index_message(connection, number, "\n".join(texts))
    return number


def query_conversations(store: Store, clauses: str, *parameters: object) -> list[Conversation]:
    """Return the conversations that the clauses of a SELECT statement choose, in their order."""
    return [Conversation(*row) for row in store.fetch_rows(f"SELECT * FROM conversations {clauses}", parameters)]


def read_runs(store: Store, conversation: Conversation) -> list[Run]:
    """Read the runs of a conversation with their messages, in order; a conversation without runs is an error."""
    try:
        runs = _query_runs(store, conversation)
    except (IndexError, TypeError, ValueError) as error:
        raise store.make_damaged_error() from error
    if not runs:
        hint = f"ask history delete {conversation.id} removes it"
        raise FileError(f"the messages of the conversation {conversation.id} are missing", hint)
    has_refusals = any(entry.refused_files for run in runs for entry in run.entries)
    return _mark_refused_files(runs) if has_refusals else runs


def _mark_refused_files(runs: Sequence[Run]) -> list[Run]:
    """Return runs whose files name the models that later answered without them, after a refusal."""
    refusals: defaultdict[str, tuple[str, ...]] = defaultdict(tuple)
    marked: list[Run] = []
    for run in reversed(runs):
        later_refusals, entries = refusals.copy(), [*run.entries]
        for position, entry in reversed([*enumerate(entries)]):
            for digest in entry.refused_files:
                refusals[digest] += (f"{entry.provider or run.provider}:{entry.model or run.model}",)
            # The question of the run kept its files, which may be the same ones, attached again.
            known = later_refusals if entry.message.role == "user" else refusals
            files = (file._replace(refused_by=known[file.digest]) for file in entry.message.attachments)
            entries[position] = entry._replace(message=entry.message._replace(attachments=tuple(files)))
        marked.insert(0, run._replace(entries=tuple(entries)))
    return marked


def _query_runs(store: Store, conversation: Conversation) -> list[Run]:
    def group_rows(query: str, column: str) -> defaultdict[int, list[sqlite3.Row]]:
        groups: defaultdict[int, list[sqlite3.Row]] = defaultdict(list)
        for row in store.fetch_rows(query, [conversation.number]):
            groups[row[column]].append(row)
        return groups

    messages = "FROM messages WHERE run IN (SELECT number FROM runs WHERE conversation = ?)"
    calls = group_rows(f"SELECT * FROM calls WHERE message IN (SELECT number {messages})", "message")
    indexed = "attachments INDEXED BY attachments_by_message"
    attachments = group_rows(f"SELECT * FROM {indexed} WHERE message IN (SELECT number {messages})", "message")
    message_rows = group_rows(f"SELECT * {messages} ORDER BY number", "run")
    if any(row["role"] not in ROLES for rows in message_rows.values() for row in rows):
        store.add_note(f"a message of {conversation.id} is damaged and left out")
    runs = []
    for row in store.fetch_rows("SELECT * FROM runs WHERE conversation = ? ORDER BY number", [conversation.number]):
        fields = {name: row[name] for name in Run._fields if name not in ("usage", "entries")}
        entries = (
            _parse_entry(store, message, calls[message["number"]], attachments[message["number"]])
            for message in message_rows[row["number"]]
            if message["role"] in ROLES
        )
        runs.append(Run(**fields, usage=parse_usage(row), entries=tuple(entries)))
    return runs


def _parse_entry(
    store: Store, row: sqlite3.Row, calls: Sequence[sqlite3.Row], attachments: Sequence[sqlite3.Row]
) -> HistoryEntry:
    state = None
    if row["provider_state"]:
        try:
            provider, model, data = json.loads(row["provider_state"])
            state = ProviderState(str(provider), str(model), {**data})
        except (ValueError, TypeError, RecursionError):  # the message is sent without it, as to another provider
            store.add_note(EMPTY_VALUES_NOTE)
    entry = HistoryEntry.from_row(
        row,
        state,
        parse_usage(row),
        map(ToolCallRecord.from_row, calls),
        (Attachment(each["name"], each["media_type"], each["data"]) for each in attachments),
    )
    if not (row["citations"] or row["server_calls"] or row["refused_files"]):
        return entry
    return entry._replace(
        refused_files=tuple(row["refused_files"].split()),
        citations=tuple(_parse_records(store, row["citations"], Citation)),
        server_calls=tuple(_parse_records(store, row["server_calls"], ServerToolCall)),
    )


T = TypeVar("T", Citation, ServerToolCall)


def _parse_records(store: Store, text: str | None, record_type: type[T]) -> list[T]:
    """Read records from JSON; leave out those that are damaged, and say so."""
    records: list[T] = []
    try:
        values = json.loads(text) if text else []
        records += (record_type(**fields) for fields in values if _has_types(fields, record_type))
        is_damaged = len(records) < len(values)
    except (ValueError, TypeError, RecursionError):
        is_damaged = True
    if is_damaged:
        store.add_note(EMPTY_VALUES_NOTE)
    return records


def _has_types(fields: Mapping[str, Any], record_type: type[Citation | ServerToolCall]) -> bool:
    """Check that the fields of a record have the types that were written."""
    defaults = {name: record_type._field_defaults.get(name, "") for name in fields}
    return all(
        isinstance(value, int | None) if defaults[name] is None else type(value) is type(defaults[name])
        for name, value in fields.items()
    )


SUMMED_USAGE = f"""{", ".join(f"sum({name}) AS {name}" for name in Usage._fields if name.endswith("_tokens"))},
    CASE count(DISTINCT service_tier)
    WHEN 0 THEN NULL WHEN 1 THEN group_concat(DISTINCT service_tier) ELSE '{MIXED_TIERS}' END AS service_tier"""
"""The usage of several runs in SQL, as `Usage` adds it, without the cost.

For the tier, `max` would decide the row of columns without an aggregate.
"""


def parse_usage(row: sqlite3.Row) -> Usage:
    """Read the token counts and the cost from a row."""
    return Usage(*(row[name] for name in Usage._fields))
