"""What `write_file` and `edit_file` would change, as a diff against the file as it is. Changes nothing itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ask.tools.base import ApprovedFile, ToolError

if TYPE_CHECKING:
    from ask.safety.policy import Proposal
    from ask.tools.file_access import WriteTarget

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
        file: the file that it would change, as it is; None for a call that writes no file.
    """

    heading: str = ""
    lines: tuple[str, ...] = ()
    instead_of: frozenset[str] = frozenset()
    file: ApprovedFile | None = None


NO_PREVIEW = Preview()
_SHOWS = {"write_file": frozenset({"content"}), "edit_file": frozenset({"old_text", "new_text"})}


def preview(proposal: Proposal, may_read: Callable[[Path], bool]) -> Preview:
    """The preview of a call; `NO_PREVIEW` where it is none that writes a file."""
    arguments = proposal.arguments
    shows = _SHOWS.get(proposal.tool)
    if not shows or not all(isinstance(arguments.get(name), str) for name in ("filepath", *shows)):
        return NO_PREVIEW
    from ask.tools.file_access import open_target, resolve

    file = ApprovedFile("")  # matches no path: a path that cannot be opened now is not written later either
    try:
        path = resolve(arguments["filepath"], proposal.context).resolve()
        if not may_read(path):
            return Preview(f"no diff: {path} is outside the folders that may be read", file=ApprovedFile(str(path)))
        with open_target(path) as target:
            file = target.identify()
            return _compare(proposal, target, shows)
    except (ToolError, OSError, RuntimeError) as error:
        return Preview(f"no diff: {getattr(error, 'strerror', None) or error}", file=file)


def _compare(proposal: Proposal, target: WriteTarget, shows: frozenset[str]) -> Preview:
    """Compare a file with what would be written to it.

    Raises:
        ToolError, OSError: it cannot be read.
    """
    path = target.path
    if target.status is None:
        return Preview(f"{path} is not there yet", file=target.identify())
    data = target.read(str(path))
    file = target.identify(data)
    if b"\0" in data:
        return Preview(f"no diff: {path} is binary, {len(data):,} bytes", file=file)
    try:
        lines = _changes(proposal.tool, data.decode("utf-8", "surrogateescape"), proposal.arguments)
    except ToolError as error:
        return Preview(f"no diff: {error}", file=file)
    if not lines:
        return Preview(f"{path} would stay as it is", file=file)
    lines = list(map(proposal.context.redactor.redact, lines))  # first: a cut could leave a part of a secret
    return Preview(f"the changes to {path}:", tuple(map(_cut, lines[:LINES])) + _left_out(lines), shows, file)


def _changes(tool: str, before: str, arguments: Mapping[str, Any]) -> list[str]:
    """The diff, whole.

    Raises:
        ToolError: the edit cannot be made, or there is too much to compare.
    """
    from ask.text_diff import unified
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
