"""Save a run event by event, so that nothing is lost if it is killed."""

from __future__ import annotations

import sqlite3
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from ask import __version__
from ask.errors import FIRST_SIGNAL_EXIT_CODE, AskError, FileError
from ask.events import Event, FallbackStarted, MessageAdded, ToolCallFinished, ToolCallRequested
from ask.history.entries import (
    REFUSED,
    HistoryEntry,
    ToolCallRecord,
    insert_entry,
    insert_row,
    is_answer,
    to_sqlite_value,
)
from ask.history.search_index import index_message, unindex_messages
from ask.history.store import HistoryLockedError, Store
from ask.history.titles import make_title
from ask.messages import Message, ReasoningDelta, TextDelta, Usage
from ask.records import NamedTuple
from ask.text import repair_surrogates

LOCK_TIMEOUT_SECONDS = 1.0
"""Seconds to wait for another process's write before continuing the run and saving later."""
FINAL_LOCK_TIMEOUT_SECONDS = 5.0
"""Seconds to wait at the end of a run that was not interrupted, when there is no later chance to save."""
PARTIAL_SAVE_SECONDS = 2.0
"""Seconds between saves of an answer that is being streamed."""
UPDATE_TOTALS = f"UPDATE runs SET {', '.join(f'{name} = ?' for name in ('rounds', *Usage._fields))} WHERE number = ?"

WriteOperation = Callable[[sqlite3.Connection], object]


class RunMetadata(NamedTuple):
    """The columns of a run that are known before it begins."""

    conversation: str
    """The id of the conversation."""
    provider: str
    model: str
    system: str = ""
    """The user's additions to the system prompt for this conversation."""
    directory: str = ""
    terminal: str = ""
    """The terminal as `identify_terminal` names it; "" for none."""
    first_kept_run: int | None = None
    """For a run that writes a summary, the number of the first run that the summary does not cover."""
    title: str = ""
    """The title of the conversation if it is new; "" for the beginning of the question."""


class Recorder:
    """Saves one run to the history.

    If that fails, the user is warned once and the run continues unsaved.
    """

    def __init__(self, path: Path, metadata: RunMetadata, warn: Callable[[str], None], *, quiet: bool = False) -> None:
        self.is_saving = True
        """False once an event could not be saved."""
        self._path = path
        self._metadata = metadata
        self._warn = warn
        self._is_quiet = quiet
        self._store: Store | None = None
        self._pending_writes: list[WriteOperation] = []
        """Writes that wait until another process releases its lock."""
        self.run_number = 0
        """The number of the run in the history; 0 until the run is saved."""
        self._usage = Usage()
        self._rounds = 0
        self._open_calls: deque[tuple[int, int, str]] = deque()
        """The calls without a result as (message, position, arguments), in execution order."""
        self._finished_call: ToolCallFinished | None = None
        self._partial_text: list[str] = []
        self._partial_reasoning: list[str] = []
        """What has arrived of an answer that is being streamed."""
        self._partial_number = 0
        """The number of the message that contains it until the answer is complete; 0 if it is not saved yet."""
        self._partial_save_time = time.monotonic()
        self._fallback: FallbackStarted | None = None
        """The model that answers in place of the run's own."""
        self._runs_replaced_by_answer: Sequence[int] = ()

    def begin(
        self,
        user_message: Message,
        opening_messages: Sequence[Message] = (),
        replaced_runs: Sequence[int] = (),
        runs_replaced_by_answer: Sequence[int] = (),
    ) -> None:
        """Save the user message. Call this before anything is sent.

        The messages of a template that precede it become a run of their own, which stays if the message is removed.
        `replaced_runs` are the numbers of the runs whose unanswered questions the message contains.
        `runs_replaced_by_answer` are replaced only by an answer, in the transaction that saves its first part. Unless
        the message was without an answer before, it is saved then, too: if this process is killed, the old one stays.
        """
        self._runs_replaced_by_answer = runs_replaced_by_answer
        if opening_messages:
            self._save(partial(self._insert_opening_run, opening_messages, time.time()))
        insert_run = partial(self._insert_run, HistoryEntry(time.time(), user_message), replaced_runs)
        if runs_replaced_by_answer and not replaced_runs:
            self._pending_writes.append(insert_run)
        else:
            self._save(insert_run)

    def on_event(self, event: Event) -> None:
        """Save an event of the run."""
        match event:
            case TextDelta(text) | ReasoningDelta(text):
                parts = self._partial_text if isinstance(event, TextDelta) else self._partial_reasoning
                parts.append(text)
                if time.monotonic() - self._partial_save_time >= PARTIAL_SAVE_SECONDS:
                    self._save_partial_answer()
            case MessageAdded(message, complete, response, refused_files):
                calls = tuple(map(ToolCallRecord, message.tool_calls))
                entry = HistoryEntry(time.time(), message, complete, calls=calls)
                if response is not None:
                    if self._metadata.first_kept_run is not None:
                        entry = entry._replace(message=message._replace(content=response.final_text))
                    entry = entry._replace(
                        reasoning=response.reasoning,
                        finish_reason=response.finish_reason,
                        usage=response.usage,
                        citations=response.citations,
                        server_calls=response.server_calls,
                        refused_files=refused_files,
                        **(self._fallback._asdict() if self._fallback else {}),
                    )
                finished_call, self._finished_call = self._finished_call, None
                self._partial_text, self._partial_reasoning, self._partial_save_time = [], [], time.monotonic()
                self._save(partial(self._add_entry, entry, finished_call))
            case FallbackStarted():
                self._fallback = event
            case ToolCallRequested():
                self._save(partial(self._record_call_start, time.time()))
            case ToolCallFinished():
                self._finished_call = event

    def end(
        self, exit_code: int, error: AskError | None = None, usage: Usage | None = None, *, is_refused: bool = False
    ) -> None:
        """Save the exit code of the run and close the history.

        `usage` is the total of all requests of the run; None keeps the sum over its messages. `is_refused` says that
        the provider refused the messages since the last answer.
        """
        status = REFUSED if is_refused else ""
        end_values = (time.time(), exit_code, repair_surrogates(error.message) if error else "", status)
        try:
            self._save(
                partial(self._record_run_end, end_values, usage),
                LOCK_TIMEOUT_SECONDS if exit_code >= FIRST_SIGNAL_EXIT_CODE else FINAL_LOCK_TIMEOUT_SECONDS,
            )
        finally:
            if self._store is not None:
                self._store.close()

    def _save_partial_answer(self) -> None:
        """Save what has arrived of an answer, in case this process is killed. Errors are left to the next `_save`."""
        self._partial_save_time = time.monotonic()
        if not self.is_saving:
            return
        state = self._pending_writes, self._partial_number, self.run_number
        self._pending_writes = [
            *self._pending_writes,
            partial(self._insert_partial_answer, self._make_partial_entry(time.time())),
        ]
        try:
            self._write_pending(0.0)  # the answer, which is being shown, does not wait for this
        except FileError:
            self._pending_writes, self._partial_number, self.run_number = state

    def _make_partial_entry(self, now: float) -> HistoryEntry:
        text = "".join(self._partial_text)
        message = Message("assistant", text if text.strip() else "")
        entry = HistoryEntry(now, message, complete=False, reasoning="".join(self._partial_reasoning))
        return entry._replace(**self._fallback._asdict()) if self._fallback else entry

    def _insert_partial_answer(self, entry: HistoryEntry, connection: sqlite3.Connection) -> None:
        self._delete_partial_answer(connection)
        self._partial_number = self._insert_message(entry, connection)

    def _delete_partial_answer(self, connection: sqlite3.Connection) -> None:
        unindex_messages(connection, "= ?", self._partial_number)
        connection.execute("DELETE FROM messages WHERE number = ?", [self._partial_number])

    def _insert_run(
        self, user_entry: HistoryEntry, replaced_runs: Sequence[int], connection: sqlite3.Connection
    ) -> None:
        columns = self._metadata._asdict()
        identity, title = columns.pop("conversation"), columns.pop("title")
        now, title = user_entry.time, title or make_title(user_entry.message.content)
        connection.execute(
            "INSERT INTO conversations (id, title, created, updated) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (id) DO UPDATE SET updated = excluded.updated",
            (identity, repair_surrogates(title), now, now),
        )
        (number,) = connection.execute("SELECT number FROM conversations WHERE id = ?", (identity,)).fetchone()
        self.run_number = insert_row(
            connection, "runs", conversation=number, started=now, version=__version__, **columns
        )
        insert_entry(connection, self.run_number, user_entry)
        self._replace_runs(replaced_runs, connection)

    def _insert_opening_run(self, messages: Sequence[Message], now: float, connection: sqlite3.Connection) -> None:
        first, *others = (HistoryEntry(now, message) for message in messages)
        self._insert_run(first, (), connection)
        for entry in others:
            insert_entry(connection, self.run_number, entry)
        self._record_run_end((now, 0, "", ""), None, connection)

    def _add_entry(
        self, entry: HistoryEntry, finished_call: ToolCallFinished | None, connection: sqlite3.Connection
    ) -> None:
        if self._partial_number:
            self._delete_partial_answer(connection)
            self._partial_number = 0
        number = self._insert_message(entry, connection)
        if entry.message.role == "tool":
            open_call = self._open_calls.popleft()
            if finished_call is not None:
                self._record_call_result(finished_call, open_call, connection)
        else:
            for position, record in enumerate(entry.calls):
                self._open_calls.append((number, position, record.call.arguments))
            self._usage += entry.usage
            self._rounds += bool(entry.calls)
            self._update_totals(connection)

    def _insert_message(self, entry: HistoryEntry, connection: sqlite3.Connection) -> int:
        number = insert_entry(connection, self.run_number, entry)
        if is_answer(entry.message):
            self._replace_runs(self._runs_replaced_by_answer, connection)
        return number

    def _replace_runs(self, numbers: Sequence[int], connection: sqlite3.Connection) -> None:
        if numbers:
            from ask.history.deletion import REPLACE_RUN

            connection.executemany(REPLACE_RUN, [{"run": number, "new": self.run_number} for number in numbers])

    def _record_call_start(self, start_time: float, connection: sqlite3.Connection) -> None:
        update = "UPDATE calls SET started = ? WHERE message = ? AND position = ?"
        connection.execute(update, (start_time, *self._open_calls[0][:2]))

    def _record_call_result(
        self, event: ToolCallFinished, open_call: tuple[int, int, str], connection: sqlite3.Connection
    ) -> None:
        """Save the outcome of a tool call, and its arguments if the user edited the command."""
        message, position, old_arguments = open_call
        arguments = to_sqlite_value(event.call.arguments)
        result_values = (event.seconds, event.failed, event.verdict, event.rule, event.exit_status)
        update = "UPDATE calls SET arguments = ?, seconds = ?, failed = ?, decision = ?, rule = ?, exit_status = ? "
        is_edited = event.call.arguments != old_arguments
        if is_edited:
            unindex_messages(connection, "= ?", message)
        connection.execute(
            update + "WHERE message = ? AND position = ?", (arguments, *result_values, message, position)
        )
        if is_edited:
            index_message(connection, message)

    def _record_run_end(
        self, end_values: tuple[float, int, str, str], usage: Usage | None, connection: sqlite3.Connection
    ) -> None:
        entry = self._make_partial_entry(end_values[0])
        if is_answer(entry.message):  # the run has ended before the answer was reported, as by a second signal
            self._add_entry(entry, None, connection)
        connection.execute(
            "UPDATE runs SET ended = ?, exit_code = ?, error = ?, status = ? WHERE number = ?",
            (*end_values, self.run_number),
        )
        self._usage = usage or self._usage
        self._update_totals(connection)

    def _update_totals(self, connection: sqlite3.Connection) -> None:
        connection.execute(UPDATE_TOTALS, (self._rounds, *map(to_sqlite_value, self._usage), self.run_number))

    def _save(self, operation: WriteOperation, final_timeout: float = 0.0) -> None:
        """Run all pending writes and then this one.

        If another process holds the lock, or on Ctrl-C, they stay pending for the next call. `final_timeout` is set
        for the last call: the seconds to wait for the lock before giving up.
        """
        if not self.is_saving:
            return
        self._pending_writes.append(operation)
        run_number = self.run_number
        # If there are earlier writes, the last call has already waited for the lock.
        lock_timeout = final_timeout or (LOCK_TIMEOUT_SECONDS if len(self._pending_writes) == 1 else 0.0)
        try:
            self._write_pending(lock_timeout)
        except FileError as error:
            self.run_number = run_number  # a run that has just begun is rolled back
            if final_timeout or not self._pending_writes or not isinstance(error, HistoryLockedError):
                self._stop_saving(error)
        except KeyboardInterrupt:
            if not final_timeout:
                raise
            if self._pending_writes:
                self._stop_saving(FileError("interrupted while another process wrote"))

    def _write_pending(self, lock_timeout: float) -> None:
        if self._store is None:
            self._store = Store(self._path, lock_timeout=lock_timeout, quiet=self._is_quiet)
        self._store.lock_timeout = lock_timeout
        with self._store.write_transaction() as connection:
            for pending_write in self._pending_writes:
                pending_write(connection)
            # Cleared before the commit returns: a Ctrl-C right after it must not write them twice.
            self._pending_writes = []

    def _stop_saving(self, error: FileError) -> None:
        self.is_saving = False
        unsaved = "the rest of this conversation" if self.run_number else "this conversation"
        self._warn(f"cannot save {unsaved}: {error}")


def correct_exit_code(path: Path, run_number: int, exit_code: int, error: AskError | None) -> None:
    """Change the exit code of a run that was already saved as ended.

    The answer may prove unusable, or the user may decline to run a suggested command. If the history cannot be
    written, the old exit code stays.
    """
    with (
        suppress(FileError),
        Store(path, create=False, lock_timeout=LOCK_TIMEOUT_SECONDS) as store,
        store.write_transaction() as connection,
    ):
        values = (exit_code, repair_surrogates(error.message) if error else "", run_number)
        connection.execute("UPDATE runs SET exit_code = ?, error = ? WHERE number = ?", values)
