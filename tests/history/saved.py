"""Puts conversations into a history, as runs would have saved them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from ask.history.entries import HistoryEntry, ToolCallRecord, insert_entry
from ask.history.store import Store
from ask.messages import Message, ToolCall, Usage

NOW = time.time()
"""About when the tests run, in seconds since 1970."""
NOTHING_USED = dict.fromkeys(Usage._fields)


def user(text: str) -> HistoryEntry:
    return HistoryEntry(NOW, Message("user", text))


def assistant(text: str, *calls: ToolCallRecord, finish_reason: str = "stop", **more: Any) -> HistoryEntry:
    message = Message("assistant", text, tuple(record.call for record in calls))
    return HistoryEntry(NOW, message, calls=calls, finish_reason=finish_reason, **more)


def called(command: str, name: str = "bash", **outcome: Any) -> ToolCallRecord:
    return ToolCallRecord(ToolCall(f"call_{command}", name, command), **outcome)


def result(record: ToolCallRecord, text: str) -> HistoryEntry:
    return HistoryEntry(NOW, Message("tool", text, tool_call_id=record.call.id, tool_name=record.call.name))


def save(path: Path, identity: str, *entries: HistoryEntry, ago: float = 0, title: str = "", **run: Any) -> None:
    """Save a run, in a new conversation or one that exists.

    Args:
        path: the file.
        identity: the conversation's id.
        entries: the run's messages.
        ago: how many seconds.
        title: the conversation's; its first message where it is "".
        run: columns of the run.
    """
    began = time.time() - ago
    about = {
        "provider": "openrouter",
        "model": "test/model",
        "started": began,
        "ended": began + 1,
        "version": "0",
        "system": "",
        "directory": "/tmp",
        "terminal": "",
        "exit_code": 0,
        "rounds": 0,
        **NOTHING_USED,
        **run,
    }
    with Store(path) as store, store.write_transaction() as connection:
        connection.execute(
            "INSERT INTO conversations (id, title, created, updated) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (id) DO UPDATE SET updated = excluded.updated",
            (identity, title or entries[0].message.content, began, began),
        )
        (number,) = connection.execute("SELECT number FROM conversations WHERE id = ?", [identity]).fetchone()
        cursor = connection.execute(
            f"INSERT INTO runs (conversation, {', '.join(about)}) VALUES (?{', ?' * len(about)})",
            (number, *about.values()),
        )
        for entry in entries:
            insert_entry(connection, cursor.lastrowid or 0, entry._replace(time=began))
