"""Shows how a file differs from what it is to become, as a unified diff that `patch` can read where it is whole."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ask.console import BOLD, Output
from ask.text_diff import unified

LARGEST = 2_000_000
"""Bytes of the largest file whose lines are compared."""
LINES_SHOWN = 200
"""Lines of one file's difference that a terminal is shown."""

RED, GREEN, CYAN = "\x1b[31m", "\x1b[32m", "\x1b[36m"
STYLES = {"-": RED, "+": GREEN, "@": CYAN}


def write_diff(output: Output, name: str, now: Path | None, then: Path | None) -> None:
    """Write what makes one file out of another; on a terminal no more than its beginning.

    Args:
        output: where it goes.
        name: of the file, on one line.
        now: what it is; None where there is none.
        then: what it becomes.

    Raises:
        OSError: one cannot be read.
    """
    sizes = [path.stat().st_size if path else None for path in (now, then)]
    if max(size or 0 for size in sizes) > LARGEST:
        output.write(_briefly(name, sizes, "too large to be shown"), BOLD)
        return
    contents = [path.read_bytes() if path else b"" for path in (now, then)]
    if any(b"\0" in content for content in contents):
        output.write(_briefly(name, sizes, "binary"), BOLD)
        return
    before, after = (content.decode("utf-8", "backslashreplace") for content in contents)
    hunks = unified(before, after)
    if hunks is None:
        output.write(_briefly(name, sizes, "too different to be shown"), BOLD)
        return
    output.write(f"--- {name if now else '/dev/null'}\n+++ {name if then else '/dev/null'}\n", BOLD)
    _write_hunks(output, hunks)


def _write_hunks(output: Output, lines: Sequence[str]) -> None:
    for place, line in enumerate(lines):
        if output.terminal and place == LINES_SHOWN:
            output.write(f"[{len(lines) - place:,} more lines]\n", CYAN)
            return
        # A terminal would not show that line ends differ.
        text = line.replace("\r", "\\r") if output.terminal else line
        output.write(f"{text}\n", STYLES.get(line[0], ""))


def _briefly(name: str, sizes: Sequence[int | None], why: str) -> str:
    now, then = ("no file" if size is None else f"{size:,} bytes" for size in sizes)
    return f"{name} ({why}): {now} now, {then} once put back\n"
