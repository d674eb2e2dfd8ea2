"""Output for a terminal as it finally appears on the screen: no colors, and only the last state of progress bars."""

from __future__ import annotations

import re

MAX_LINE_CHARACTERS = 65_536
"""Characters of an unfinished line that are kept until it ends."""
SPECIAL_CHARACTERS = re.compile(r"[\x1b\r\b]")
ESCAPE_SEQUENCES = re.compile(
    r"\x1b(?:\[([0-?]*)[ -/]*([@-~])|[\]PX^_].*?(?:\x07|\x1b\\|$)|[ -/]*[0-Z\\^-~]|\[[ -?]*$|$)", re.DOTALL
)
"""Matches CSI sequences, with parameters and final byte, and all others of ECMA-48, even at the end of an unfinished
line."""
ERASE_END, ERASE_LINE = "\x1b[K", "\x1b[2K"
ERASE_START = "\x1b["
"""The beginning of the control sequences that `_simplify_sequence` keeps."""
LINE_PARTS = re.compile(r"\x1b\[2?K|\x08|[^\x08\x1b]+")


class TerminalOutputFilter:
    """Removes control sequences from output that arrives in chunks, and text that was overwritten on its line."""

    def __init__(self) -> None:
        self._line = ""
        """The line that has not ended."""
        self._has_ended_line = False

    def feed(self, chunk: str) -> str:
        """Add a chunk; return the lines that are now complete."""
        lines, newline, self._line = (self._line + chunk).rpartition("\n")
        self._has_ended_line = self._has_ended_line or bool(newline)
        text = render_lines(lines) + newline
        return text + self._shorten_line() if len(self._line) > MAX_LINE_CHARACTERS else text

    def _shorten_line(self) -> str:
        """Drop the overwritten states of a line that has not ended; return text that has to be shown already."""
        shown = ""
        self._line, carriage_return, state = self._line.rpartition("\r")
        if carriage_return:
            lines, newline, last = self.finish().rpartition("\n")
            shown, self._line = lines + newline, f"{last}\r"
        self._line += state
        return shown + self.finish() if len(self._line) > MAX_LINE_CHARACTERS else shown

    def finish(self) -> str:
        """Return the line that has not ended."""
        line, self._line = self._line.rstrip("\r"), ""
        text = render_lines(line)
        if "\n" in text and not self._has_ended_line:  # the lines of an old Mac's file, not progress
            text = "\n".join(map(render_lines, line.split("\r")))
        return text


def render_lines(text: str) -> str:
    """Return lines as they finally appear on a screen. Line ends are kept, even those of Windows.

    A text that is overwritten only in part becomes a line of its own.
    """
    if not SPECIAL_CHARACTERS.search(text):
        return text
    return "\n".join(map(_render_line, text.split("\n")))


def _render_line(line: str) -> str:
    """Return what is left of a line after carriage returns, backspaces and erasures."""
    end = "\r" if line.endswith("\r") else ""
    lines, last = [], ""
    for state in ESCAPE_SEQUENCES.sub(_simplify_sequence, line.removesuffix("\r")).split("\r"):
        text = _render_state(state)
        if not text and ERASE_START not in state:
            continue
        # How much a tab covers depends on its column.
        is_overwritten = len(text) >= len(last.rstrip()) and "\t" not in text
        if last and not is_overwritten and ERASE_START not in state:
            lines.append(last)
        last = text
    return "\n".join([*lines, last]) + end


def _render_state(text: str) -> str:
    """Return what backspaces and erasures leave of a text without carriage returns."""
    cells: list[str] = []
    column = 0
    for match in LINE_PARTS.finditer(text):
        part = match[0]
        if part == "\b":
            column = max(0, column - 1)
        elif part == ERASE_END:
            del cells[column:]
        elif part == ERASE_LINE:
            cells.clear()
        else:
            cells += " " * (column - len(cells))
            cells[column : column + len(part)] = part
            column += len(part)
    return "".join(cells)


def _simplify_sequence(match: re.Match[str]) -> str:
    """Return "" for a control sequence, unless it moves to the beginning of the line or erases a part of it."""
    parameters, final = match[1], match[2]
    if final == "G" and parameters in ("", "0", "1"):  # as npm and yarn do instead of a carriage return
        return "\r"
    if final == "K":
        return ERASE_LINE if parameters == "2" else "" if parameters == "1" else ERASE_END
    return ""
