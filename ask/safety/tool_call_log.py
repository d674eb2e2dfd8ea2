"""The log of tool calls and of the connections of commands, which every run writes: one JSON object a line."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from ask.atomic_files import create_private_folder, open_private_file
from ask.errors import FileError
from ask.events import ToolCallFinished

if TYPE_CHECKING:
    from ask.safety.command_proxy import ProxiedConnection

MAX_LOG_BYTES = 50_000_000
"""Size at which the log is renamed, and a new one is begun. Only one older file is kept."""


def log_tool_call(path: Path, conversation_id: str, event: ToolCallFinished) -> None:
    """Append a line about a call and its result to the log, which is created if it is missing.

    Raises:
        FileError: the log cannot be written.
    """
    entry = {
        "tool": event.call.name,
        "arguments": event.call.arguments,
        "decision": event.verdict,
        "rule": event.rule,
        "failed": event.failed,
        "exit": event.exit_status,
        "bytes": len(event.result.encode()),
        "files": [{"name": file.name, "bytes": len(file.data)} for file in event.attachments],
        "seconds": round(event.seconds, 3),
    }
    _append(path, conversation_id, entry)


def log_connection(path: Path, conversation_id: str, connection: ProxiedConnection) -> None:
    """Append a line about a connection of a command in the sandbox.

    Raises:
        FileError: the log cannot be written.
    """
    entry = {
        "connection": connection.target,
        "address": connection.address,
        "decision": "deny" if connection.denial else "allow",
        "rule": connection.denial or "--allow-command-host",
        "error": connection.error,
        "sent": connection.sent_bytes,
        "received": connection.received_bytes,
        "seconds": round(connection.seconds, 3),
    }
    _append(path, conversation_id, entry)


def _append(path: Path, conversation_id: str, entry: Mapping[str, Any]) -> None:
    time = datetime.now(UTC).isoformat(timespec="milliseconds")
    line = json.dumps({"time": time, "conversation": conversation_id, **entry})
    try:
        create_private_folder(path.parent)
        descriptor = open_private_file(path, os.O_WRONLY | os.O_APPEND)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(line + "\n")
            if file.tell() > MAX_LOG_BYTES:
                _rotate(path, file)
    except OSError as error:
        raise FileError(f"cannot write the log of tool calls {path} ({error.strerror})") from error


def _rotate(path: Path, file: TextIO) -> None:
    """Rename the log, unless another process has done so since `file` was opened, or its name is a link."""
    with suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_EX)
        if os.path.samestat(os.fstat(file.fileno()), path.lstat()):
            path.replace(path.with_suffix(".1.jsonl"))
