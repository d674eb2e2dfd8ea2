"""Saves a run while it happens: nothing that was said is lost, whatever ends it."""

from __future__ import annotations

import sqlite3
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ask.errors import AskError, FileError
from ask.events import Event, MessageAdded, ToolCallFinished, ToolCallRequested
from ask.history.entries import (
    INDEX_MESSAGE,
    UNINDEX_MESSAGE,
    HistoryEntry,
    ToolCallRecord,
    insert_entry,
    to_sqlite_value,
)
from ask.history.store import HistoryLockedError, Store
from ask.messages import Message, Usage
from ask.text import format_one_line, repair_surrogates
from ask.version import VERSION

MAX_TITLE_LENGTH = 80
LOCK_TIMEOUT = 1.0
"""Seconds that a run waits for others who write, before it goes on and saves later."""
FINAL_LOCK_TIMEOUT = 5.0
"""Seconds that it waits in the end, unless it was interrupted."""
FIRST_SIGNAL_EXIT_CODE = 128
"""Exit codes from here on are those of runs that a signal ended."""

WriteOperation = Callable[[sqlite3.Connection], object]


class RunMetadata(NamedTuple):
    """What is known of a run before it begins.

    Attributes:
        conversation: the id of the conversation.
        provider: whom it asks.
        model: which model.
        system: what the user adds to the system prompt for this conversation.
        directory: where it takes place.
        terminal: on which terminal, "" for none.
        compacts: for a run that writes a summary, the number of the first run that the summary does not stand for.
    """

    conversation: str
    provider: str
    model: str
    system: str = ""
    directory: str = ""
    terminal: str = ""
    compacts: int | None = None


class Recorder:
    """Writes down one run. Where that fails, it says so once, and the run goes on without it.

    Args:
        path: the file of the history.
        about: what is known of the run.
        notice: takes a line for the user.

    Attributes:
        is_saving: whether all that happened so far is saved, or can still be.
        run_number: the number of the run in the history; 0 until it begins.
    """

    def __init__(self, path: Path, metadata: RunMetadata, warn: Callable[[str], None]) -> None:
        self.is_saving = True
        self._path = path
        self._metadata = metadata
        self._warn = warn
        self._store: Store | None = None
        self._pending_writes: list[WriteOperation] = []
        """What happened while another process wrote."""
        self.run_number = 0
        self._usage = Usage()
        self._rounds = 0
        self._open_calls: deque[tuple[int, int]] = deque()
        """The calls without a result, by message and place, in the order in which they are carried out."""
        self._finished_call: ToolCallFinished | None = None

    def begin(self, user_message: Message) -> None:
        """Save what the user says, before anything is sent."""
        self._save(partial(self._insert_run, HistoryEntry(time.time(), user_message)))

    def on_event(self, event: Event) -> None:
        """Take an event."""
        match event:
            case MessageAdded(message, whole, answer):
                entry = HistoryEntry(time.time(), message, whole, calls=tuple(map(ToolCallRecord, message.tool_calls)))
                if answer is not None:
                    entry = entry._replace(reasoning=answer.reasoning, finish_reason=answer.finish, usage=answer.usage)
                finished, self._finished_call = self._finished_call, None
                self._save(partial(self._add_entry, entry, finished))
            case ToolCallRequested():
                self._save(partial(self._record_call_start, time.time()))
            case ToolCallFinished():
                self._finished_call = event

    def end(self, exit_code: int, error: AskError | None = None, usage: Usage | None = None) -> None:
        """The run is over. `usage` is that of all its requests; None leaves what its messages came to."""
        ending = (time.time(), exit_code, repair_surrogates(error.message) if error else "")
        try:
            self._save(
                partial(self._record_run_end, ending, usage),
                LOCK_TIMEOUT if exit_code >= FIRST_SIGNAL_EXIT_CODE else FINAL_LOCK_TIMEOUT,
            )
        finally:
            if self._store is not None:
                self._store.close()

    def _insert_run(self, user_entry: HistoryEntry, connection: sqlite3.Connection) -> None:
        about = {name: to_sqlite_value(value) for name, value in self._metadata._asdict().items()}
        title = repair_surrogates(format_one_line(user_entry.message.content, MAX_TITLE_LENGTH))
        connection.execute(
            "INSERT INTO conversations (id, title, created, updated) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (id) DO UPDATE SET updated = excluded.updated",
            (about["conversation"], title, user_entry.time, user_entry.time),
        )
        cursor = connection.execute(
            "INSERT INTO runs (conversation, compacts, started, version, provider, model, system, directory, terminal) "
            "SELECT number, :compacts, :started, :version, :provider, :model, :system, :directory, :terminal "
            "FROM conversations WHERE id = :conversation",
            {**about, "started": user_entry.time, "version": VERSION},
        )
        self.run_number = cursor.lastrowid or 0
        insert_entry(connection, self.run_number, user_entry)

    def _add_entry(
        self, entry: HistoryEntry, finished_call: ToolCallFinished | None, connection: sqlite3.Connection
    ) -> None:
        number = insert_entry(connection, self.run_number, entry)
        if entry.message.role == "tool":
            place = self._open_calls.popleft()
            if finished_call is not None:
                self._record_call_result(finished_call, place, connection)
        else:
            self._open_calls.extend((number, place) for place in range(len(entry.calls)))
            self._usage += entry.usage
            self._rounds += bool(entry.calls)
            self._update_totals(connection)

    def _record_call_start(self, start_time: float, connection: sqlite3.Connection) -> None:
        update = "UPDATE calls SET started = ? WHERE message = ? AND place = ?"
        connection.execute(update, (start_time, *self._open_calls[0]))

    def _record_call_result(
        self, event: ToolCallFinished, call_key: tuple[int, int], connection: sqlite3.Connection
    ) -> None:
        """Write down what became of a call that has its result."""
        ran = connection.execute("SELECT arguments FROM calls WHERE message = ? AND place = ?", call_key).fetchone()
        if ran[0] != (arguments := to_sqlite_value(event.call.arguments)):  # the user edited the command
            connection.execute(UNINDEX_MESSAGE, call_key[:1])
            connection.execute("UPDATE calls SET arguments = ? WHERE message = ? AND place = ?", (arguments, *call_key))
            connection.execute(INDEX_MESSAGE, call_key[:1])
        outcome = (event.seconds, event.failed, event.verdict, event.rule, event.exit_status)
        update = "UPDATE calls SET seconds = ?, failed = ?, decision = ?, rule = ?, exit_status = ? "
        connection.execute(update + "WHERE message = ? AND place = ?", (*outcome, *call_key))

    def _record_run_end(
        self, end_values: tuple[float, int, str], usage: Usage | None, connection: sqlite3.Connection
    ) -> None:
        connection.execute(
            "UPDATE runs SET ended = ?, exit_code = ?, error = ? WHERE number = ?", (*end_values, self.run_number)
        )
        self._usage = usage or self._usage
        self._update_totals(connection)

    def _update_totals(self, connection: sqlite3.Connection) -> None:
        totals = "rounds = ?, input_tokens = ?, output_tokens = ?, cached_tokens = ?, cost = ?"
        row = (self._rounds, *map(to_sqlite_value, self._usage), self.run_number)
        connection.execute(f"UPDATE runs SET {totals} WHERE number = ?", row)

    def _save(self, operation: WriteOperation, final_timeout: float = 0.0) -> None:
        """Write down what happened, and before it what could not be written yet.

        As long as another process writes, that is left for later; an interruption leaves it too. `final_timeout` is how many
        seconds to wait where there is no later.
        """
        if not self.is_saving:
            return
        self._pending_writes.append(operation)
        patience = final_timeout or (LOCK_TIMEOUT if len(self._pending_writes) == 1 else 0.0)
        try:
            if self._store is None:
                self._store = Store(self._path, lock_timeout=patience)
            self._store.lock_timeout = patience
            with self._store.write_transaction() as connection:
                for one in self._pending_writes:
                    one(connection)
                self._pending_writes = []  # here, since an interruption may come right behind the transaction
        except FileError as fault:
            if final_timeout or not self._pending_writes or not isinstance(fault, HistoryLockedError):
                self._stop_saving(fault)
        except KeyboardInterrupt:
            if not final_timeout:
                raise
            if self._pending_writes:
                self._stop_saving(FileError("interrupted while another process wrote"))

    def _stop_saving(self, error: FileError) -> None:
        self.is_saving = False
        what = "the rest of this conversation" if self.run_number else "this conversation"
        self._warn(f"{what} is not saved: {error}")


def correct_exit_code(path: Path, run_number: int, exit_code: int, error: AskError | None = None) -> None:
    """Record how a run that is over turned out after all: an answer may prove unusable, or a command be canceled.

    A history that cannot be written keeps what it says.
    """
    with (
        suppress(FileError),
        Store(path, create=False, lock_timeout=LOCK_TIMEOUT) as store,
        store.write_transaction() as connection,
    ):
        values = (exit_code, repair_surrogates(error.message) if error else "", run_number)
        connection.execute("UPDATE runs SET exit_code = ?, error = ? WHERE number = ?", values)
