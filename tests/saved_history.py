"""Reads the saved history of a home and creates valid runs for tests."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import ask.history
from ask.history.entries import Conversation, Run, read_runs
from ask.history.recorder import Recorder, RunMetadata
from ask.history.store import APPLICATION_ID, MIGRATIONS, Store
from ask.messages import Message
from tests.program import Home

FIRST_VERSION = Path(__file__).parent / "history/first_version.sql"


def history_file(home: Home) -> Path:
    return home.data / "history.db"


def write_tables(connection: sqlite3.Connection, version: int) -> None:
    """Write the tables of an earlier version to an empty file."""
    scripts = Path(ask.history.__file__).parent
    for script in [FIRST_VERSION, *(scripts / name for name in MIGRATIONS[: version - 1])]:
        connection.executescript(script.read_text())
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {version}")


def read_conversations(path: Path) -> list[Conversation]:
    """Return all conversations in a file, oldest first."""
    with Store(path, create=False) as store:
        return [Conversation(*row) for row in store.fetch_rows("SELECT * FROM conversations ORDER BY number")]


def read_all_runs(path: Path) -> list[Run]:
    """Return all runs in a file, grouped by conversation."""
    with Store(path, create=False) as store:
        return [run for conversation in read_conversations(path) for run in read_runs(store, conversation)]


def read_saved_runs(home: Home) -> list[Run]:
    """Return all runs saved in a home, grouped by conversation."""
    return read_all_runs(history_file(home))


def list_messages(run: Run) -> list[tuple[str, str, bool]]:
    """Return role, text and completeness of each message of a run."""
    return [(entry.message.role, entry.message.content, entry.complete) for entry in run.entries]


def create_recorder(
    path: Path, conversation: str = "abc", *, notices: list[str] | None = None, **about: str
) -> Recorder:
    filled = RunMetadata(**{"conversation": conversation, "provider": "openrouter", "model": "m"} | about)  # type: ignore[arg-type]
    return Recorder(path, filled, ([] if notices is None else notices).append)


def save_run(path: Path, conversation: str = "abc", prompt: str = "hi", **about: str) -> None:
    """Save a run without an answer."""
    run = create_recorder(path, conversation, notices=None, **about)
    run.begin(Message("user", prompt))
    run.end(0)
