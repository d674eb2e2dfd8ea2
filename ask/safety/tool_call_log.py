"""The log of tool calls, which every run writes: one JSON object a line."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

from ask.atomic_files import create_private_folder, open_private_file
from ask.errors import FileError
from ask.events import ToolCallFinished


def log_tool_call(path: Path, conversation_id: str, event: ToolCallFinished) -> None:
    """Append a line about a call and its result to the log, which is created if it is missing.

    Raises:
        FileError: the log cannot be written.
    """
    line = json.dumps(
        {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "conversation": conversation_id,
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
    )
    try:
        create_private_folder(path.parent)
        descriptor = open_private_file(path, os.O_WRONLY | os.O_APPEND)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(line + "\n")
    except OSError as error:
        raise FileError(f"cannot write the log of tool calls {path} ({error.strerror})") from error
