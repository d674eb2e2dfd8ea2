"""The log of all tool calls, with and without safe mode, as JSON lines that only the user can read."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

from ask.atomic_files import create_private_folder
from ask.errors import FileError
from ask.events import ToolCallFinished


class AuditLog:
    """Appends the calls of a conversation to the log. The log and its folder are created if they are missing."""

    def __init__(self, path: Path, conversation_id: str) -> None:
        self._path = path
        self._conversation_id = conversation_id

    def record_call(self, event: ToolCallFinished) -> None:
        """Append a line about a call and its result.

        Raises:
            FileError: the log cannot be written.
        """
        line = json.dumps(
            {
                "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
                "conversation": self._conversation_id,
                "tool": event.call.name,
                "arguments": event.call.arguments,
                "decision": event.verdict,
                "rule": event.rule,
                "failed": event.failed,
                "exit": event.exit_status,
                "bytes": len(event.result.encode()),
                "seconds": round(event.seconds, 3),
            }
        )
        try:
            create_private_folder(self._path.parent)
            descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            with open(descriptor, "w", encoding="utf-8") as file:
                file.write(line + "\n")
        except OSError as error:
            raise FileError(f"cannot write the audit log {self._path} ({error.strerror})") from error
