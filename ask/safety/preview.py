"""What `write_file` and `edit_file` would change, as a diff against the file as it is. Changes nothing itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ask.tools import ToolError

if TYPE_CHECKING:
    from ask.safety.approval import Proposal

LINES = 300
"""Lines of the longest diff that is shown whole."""
WIDTH = 2_000
"""Characters of its longest line."""


class Preview(NamedTuple):
    """What a call would change.

    Attributes:
        heading: a line about it, "" for none.
        lines: the diff, as it is.
        instead_of: the names of the arguments that it shows.
    """

    heading: str = ""
    lines: tuple[str, ...] = ()
    instead_of: frozenset[str] = frozenset()


NO_PREVIEW = Preview()
_SHOWS = {"write_file": frozenset({"content"}), "edit_file": frozenset({"old_text", "new_text"})}


def preview(proposal: Proposal, may_read: Callable[[Path], bool]) -> Preview:
    """The preview of a call; `NO_PREVIEW` where it is none that writes a file."""
    arguments = proposal.arguments
    shows = _SHOWS.get(proposal.tool)
    if not shows or not all(isinstance(arguments.get(name), str) for name in ("filepath", *shows)):
        return NO_PREVIEW
    from ask.tools.file_access import resolve

    try:
        path = resolve(arguments["filepath"], proposal.context).resolve()
        before = _read(path, may_read)
        if before is None:
            return Preview(f"{path} is not there yet")
        lines = _changes(proposal.tool, before, arguments)
    except ToolError as error:
        return Preview(f"no diff: {error}")
    except (OSError, RuntimeError) as error:
        return Preview(f"no diff: {getattr(error, 'strerror', None) or error}")
    if not lines:
        return Preview(f"{path} would stay as it is")
    return Preview(f"the changes to {path}:", tuple(map(_cut, lines[:LINES])) + _left_out(lines), shows)


def _read(path: Path, may_read: Callable[[Path], bool]) -> str | None:
    """The text of a file; None where there is no file.

    Raises:
        ToolError: it may not be read, or is not text.
        OSError: it cannot be read.
    """
    from ask.tools.file_access import read_regular

    if not may_read(path):
        raise ToolError(f"{path} is outside the folders that may be read")
    try:
        data = read_regular(str(path), path)
    except FileNotFoundError:
        return None
    if b"\0" in data:
        raise ToolError(f"{path} is binary, {len(data):,} bytes")
    return data.decode("utf-8", "surrogateescape")


def _changes(tool: str, before: str, arguments: Mapping[str, Any]) -> list[str]:
    """The diff, whole.

    Raises:
        ToolError: the edit cannot be made, or there is too much to compare.
    """
    from ask.differences import unified
    from ask.tools.edits import replace_once

    if tool == "write_file":
        after = arguments["content"]
    else:
        after, _ = replace_once(before, arguments["old_text"], arguments["new_text"])
    lines = unified(before, after)
    if lines is None:
        raise ToolError(f"too much of the file's {len(before):,} characters would change")
    return lines


def _cut(line: str) -> str:
    return line if len(line) <= WIDTH else f"{line[:WIDTH]}[... {len(line) - WIDTH:,} more characters ...]"


def _left_out(lines: list[str]) -> tuple[str, ...]:
    return (f"[... {len(lines) - LINES:,} more lines of the diff ...]",) if len(lines) > LINES else ()
