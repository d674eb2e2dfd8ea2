"""File differences as unified diffs; a complete one can be applied with `patch`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ask.console import BOLD, StandardOutput
from ask.text_diff import format_unified_diff

MAX_FILE_SIZE = 2_000_000
"""Maximum size of a file whose lines are compared, in bytes."""
MAX_LINES_SHOWN = 200
"""Maximum number of lines of one file's diff on a terminal."""

RED, GREEN, CYAN = "\x1b[31m", "\x1b[32m", "\x1b[36m"
LINE_STYLES = {"-": RED, "+": GREEN, "@": CYAN}


def write_diff(output: StandardOutput, display_name: str, old_path: Path | None, new_path: Path | None) -> None:
    """Write the diff from `old_path` to `new_path`, truncated on a terminal.

    A path is None if the file does not exist. `display_name` must be on one line.

    Raises:
        OSError: a file cannot be read.
    """
    sizes = [path.stat().st_size if path else None for path in (old_path, new_path)]
    hunks, reason = None, "too large to show"
    if max(size or 0 for size in sizes) <= MAX_FILE_SIZE:
        contents = [path.read_bytes() if path else b"" for path in (old_path, new_path)]
        reason = "binary"
        if not any(b"\0" in content for content in contents):
            hunks = format_unified_diff(*(content.decode("utf-8", "backslashreplace") for content in contents))
            reason = "too different to show"
    if hunks is None:
        now, then = ("no file" if size is None else f"{size:,} bytes" for size in sizes)
        output.write(f"{display_name} ({reason}): {now} now, {then} after undo\n", BOLD)
        return
    old_name, new_name = (display_name if path else "/dev/null" for path in (old_path, new_path))
    output.write(f"--- {old_name}\n", BOLD, {display_name: old_path} if old_path else None)
    output.write(f"+++ {new_name}\n", BOLD)
    _write_hunks(output, hunks)


def _write_hunks(output: StandardOutput, lines: Sequence[str]) -> None:
    for position, line in enumerate(lines):
        if output.is_terminal and position == MAX_LINES_SHOWN:
            output.write(f"[{len(lines) - position:,} more lines]\n", CYAN)
            return
        # A terminal would not show a difference in line endings.
        text = line.replace("\r", "\\r") if output.is_terminal else line
        output.write(f"{text}\n", LINE_STYLES.get(line[0], ""))
