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
from ask.events import CallFinished, CallStarted, Event, MessageAdded
from ask.history.entries import INDEX_MESSAGE, UNINDEX_MESSAGE, CallRecord, Entry, insert_entry, storable
from ask.history.store import Locked, Store
from ask.messages import Message, Usage
from ask.text import mend, one_line
from ask.version import VERSION

TITLE_LENGTH = 80
SOON = 1.0
"""Seconds that a run waits for others who write, before it goes on and saves later."""
AT_LAST = 5.0
"""Seconds that it waits in the end, unless it was interrupted."""
INTERRUPTED = 128
"""Exit codes from here on are those of runs that a signal ended."""

Write = Callable[[sqlite3.Connection], object]


class About(NamedTuple):
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
        saving: whether all that happened so far is saved, or can still be.
        run: the number of the run in the history; 0 until it begins.
    """

    def __init__(self, path: Path, about: About, notice: Callable[[str], None]) -> None:
        self.saving = True
        self._path = path
        self._about = about
        self._notice = notice
        self._store: Store | None = None
        self._unsaved: list[Write] = []
        """What happened while another process wrote."""
        self.run = 0
        self._usage = Usage()
        self._rounds = 0
        self._open: deque[tuple[int, int]] = deque()
        """The calls without a result, by message and place, in the order in which they are carried out."""
        self._finished: CallFinished | None = None

    def begin(self, asked: Message) -> None:
        """Save what the user says, before anything is sent."""
        self._save(partial(self._begin, Entry(time.time(), asked)))

    def show(self, event: Event) -> None:
        """Take an event."""
        match event:
            case MessageAdded(message, whole, answer):
                entry = Entry(time.time(), message, whole, calls=tuple(map(CallRecord, message.tool_calls)))
                if answer is not None:
                    entry = entry._replace(reasoning=answer.reasoning, finish=answer.finish, usage=answer.usage)
                finished, self._finished = self._finished, None
                self._save(partial(self._add, entry, finished))
            case CallStarted():
                self._save(partial(self._start, time.time()))
            case CallFinished():
                self._finished = event

    def end(self, exit_code: int, failure: AskError | None = None, usage: Usage | None = None) -> None:
        """The run is over. `usage` is that of all its requests; None leaves what its messages came to."""
        ending = (time.time(), exit_code, mend(failure.message) if failure else "")
        try:
            self._save(partial(self._end, ending, usage), SOON if exit_code >= INTERRUPTED else AT_LAST)
        finally:
            if self._store is not None:
                self._store.close()

    def _begin(self, asked: Entry, connection: sqlite3.Connection) -> None:
        about = {name: storable(value) for name, value in self._about._asdict().items()}
        title = mend(one_line(asked.message.content, TITLE_LENGTH))
        connection.execute(
            "INSERT INTO conversations (id, title, created, updated) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (id) DO UPDATE SET updated = excluded.updated",
            (about["conversation"], title, asked.time, asked.time),
        )
        cursor = connection.execute(
            "INSERT INTO runs (conversation, compacts, started, version, provider, model, system, directory, terminal) "
            "SELECT number, :compacts, :started, :version, :provider, :model, :system, :directory, :terminal "
            "FROM conversations WHERE id = :conversation",
            {**about, "started": asked.time, "version": VERSION},
        )
        self.run = cursor.lastrowid or 0
        insert_entry(connection, self.run, asked)

    def _add(self, entry: Entry, finished: CallFinished | None, connection: sqlite3.Connection) -> None:
        number = insert_entry(connection, self.run, entry)
        if entry.message.role == "tool":
            place = self._open.popleft()
            if finished is not None:
                self._close(finished, place, connection)
        else:
            self._open.extend((number, place) for place in range(len(entry.calls)))
            self._usage += entry.usage
            self._rounds += bool(entry.calls)
            self._write_totals(connection)

    def _start(self, started: float, connection: sqlite3.Connection) -> None:
        update = "UPDATE calls SET started = ? WHERE message = ? AND place = ?"
        connection.execute(update, (started, *self._open[0]))

    def _close(self, event: CallFinished, place: tuple[int, int], connection: sqlite3.Connection) -> None:
        """Write down what became of a call that has its result."""
        ran = connection.execute("SELECT arguments FROM calls WHERE message = ? AND place = ?", place).fetchone()
        if ran[0] != (arguments := storable(event.call.arguments)):  # the user edited the command
            connection.execute(UNINDEX_MESSAGE, place[:1])
            connection.execute("UPDATE calls SET arguments = ? WHERE message = ? AND place = ?", (arguments, *place))
            connection.execute(INDEX_MESSAGE, place[:1])
        outcome = (event.seconds, event.failed, event.verdict, event.rule, event.exit_status)
        update = "UPDATE calls SET seconds = ?, failed = ?, decision = ?, rule = ?, exit_status = ? "
        connection.execute(update + "WHERE message = ? AND place = ?", (*outcome, *place))

    def _end(self, ending: tuple[float, int, str], usage: Usage | None, connection: sqlite3.Connection) -> None:
        connection.execute("UPDATE runs SET ended = ?, exit_code = ?, error = ? WHERE number = ?", (*ending, self.run))
        self._usage = usage or self._usage
        self._write_totals(connection)

    def _write_totals(self, connection: sqlite3.Connection) -> None:
        totals = "rounds = ?, input_tokens = ?, output_tokens = ?, cached_tokens = ?, cost = ?"
        row = (self._rounds, *map(storable, self._usage), self.run)
        connection.execute(f"UPDATE runs SET {totals} WHERE number = ?", row)

    def _save(self, write: Write, at_last: float = 0.0) -> None:
        """Write down what happened, and before it what could not be written yet.

        As long as another process writes, that is left for later; an interruption leaves it too. `at_last` is how many
        seconds to wait where there is no later.
        """
        if not self.saving:
            return
        self._unsaved.append(write)
        patience = at_last or (SOON if len(self._unsaved) == 1 else 0.0)
        try:
            if self._store is None:
                self._store = Store(self._path, patience=patience)
            self._store.patience = patience
            with self._store.writing() as connection:
                for one in self._unsaved:
                    one(connection)
                self._unsaved = []  # here, since an interruption may come right behind the transaction
        except FileError as fault:
            if at_last or not self._unsaved or not isinstance(fault, Locked):
                self._give_up(fault)
        except KeyboardInterrupt:
            if not at_last:
                raise
            if self._unsaved:
                self._give_up(FileError("interrupted while another process wrote"))

    def _give_up(self, fault: FileError) -> None:
        self.saving = False
        what = "the rest of this conversation" if self.run else "this conversation"
        self._notice(f"{what} is not saved: {fault}")


def correct_exit_code(path: Path, run: int, exit_code: int, failure: AskError | None = None) -> None:
    """Record how a run that is over turned out after all: an answer may prove unusable, or a command be canceled.

    A history that cannot be written keeps what it says.
    """
    with suppress(FileError), Store(path, create=False, patience=SOON) as store, store.writing() as connection:
        values = (exit_code, mend(failure.message) if failure else "", run)
        connection.execute("UPDATE runs SET exit_code = ?, error = ? WHERE number = ?", values)
