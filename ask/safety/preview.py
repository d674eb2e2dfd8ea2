"""Previews of the changes that `write_file` and `edit_file` would make, as a diff."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ask.tools.base import ApprovedFile, ToolError

if TYPE_CHECKING:
    from ask.safety.policy import PendingToolCall
    from ask.tools.file_access import WriteTarget

MAX_DIFF_LINES = 300
"""Maximum number of lines of a diff that are shown."""
MAX_LINE_LENGTH = 2_000
"""Maximum number of characters of a line in the diff."""


class Preview(NamedTuple):
    """The changes that a call would make."""

    heading: str = ""
    diff_lines: tuple[str, ...] = ()
    """The diff, not yet escaped."""
    shown_arguments: frozenset[str] = frozenset()
    """The names of the arguments that the diff makes redundant."""
    approved_file: ApprovedFile | None = None
    """The current state of the file that the call would change; None if it does not write a file."""


NO_PREVIEW = Preview()
_DIFF_ARGUMENTS = {"write_file": frozenset({"content"}), "edit_file": frozenset({"old_text", "new_text"})}


def build_preview(pending_call: PendingToolCall, can_read: Callable[[Path], bool]) -> Preview:
    """Build the preview of a call; `NO_PREVIEW` if it does not write a file."""
    arguments = pending_call.arguments
    diff_arguments = _DIFF_ARGUMENTS.get(pending_call.tool_name)
    if not diff_arguments or not all(isinstance(arguments.get(name), str) for name in ("filepath", *diff_arguments)):
        return NO_PREVIEW
    from ask.tools.file_access import open_write_target, resolve_path

    file = ApprovedFile("")  # matches no path, so that a file that cannot be opened now is not written later
    try:
        path = resolve_path(arguments["filepath"], pending_call.context).resolve()
        if not can_read(path):
            return Preview(
                f"no diff: {path} is outside the folders that may be read", approved_file=ApprovedFile(str(path))
            )
        with open_write_target(path) as target:
            file = target.to_approved_file()
            return _build_diff_preview(pending_call, target, diff_arguments)
    except (ToolError, OSError, RuntimeError) as error:
        return Preview(f"no diff: {getattr(error, 'strerror', None) or error}", approved_file=file)


def _build_diff_preview(pending_call: PendingToolCall, target: WriteTarget, shown_arguments: frozenset[str]) -> Preview:
    """Compare a file with its new content.

    Raises:
        ToolError, OSError: the file cannot be read.
    """
    path = target.path
    if target.stat_result is None:
        return Preview(f"{path} is not there yet", approved_file=target.to_approved_file())
    data = target.read_content(str(path))
    file = target.to_approved_file(data)
    if b"\0" in data:
        return Preview(f"no diff: {path} is binary, {len(data):,} bytes", approved_file=file)
    try:
        lines = _diff_content(pending_call.tool_name, data.decode("utf-8", "surrogateescape"), pending_call.arguments)
    except ToolError as error:
        return Preview(f"no diff: {error}", approved_file=file)
    if not lines:
        return Preview(f"{path} would stay as it is", approved_file=file)
    lines = list(
        map(pending_call.context.redactor.redact, lines)
    )  # before truncation, which could leave a part of a secret
    return Preview(
        f"the changes to {path}:",
        tuple(map(_truncate_line, lines[:MAX_DIFF_LINES])) + _format_omitted_lines(lines),
        shown_arguments,
        file,
    )


def _diff_content(tool_name: str, old_content: str, arguments: Mapping[str, Any]) -> list[str]:
    """Return all lines of the diff.

    Raises:
        ToolError: the edit does not apply, or the change is too large to compare.
    """
    from ask.text_diff import format_unified_diff
    from ask.tools.edits import replace_once

    if tool_name == "write_file":
        new_content = arguments["content"]
    else:
        new_content, _ = replace_once(old_content, arguments["old_text"], arguments["new_text"])
    lines = format_unified_diff(old_content, new_content)
    if lines is None:
        raise ToolError(f"too much of the file's {len(old_content):,} characters would change")
    return lines


def _truncate_line(line: str) -> str:
    return (
        line
        if len(line) <= MAX_LINE_LENGTH
        else f"{line[:MAX_LINE_LENGTH]}[... {len(line) - MAX_LINE_LENGTH:,} more characters ...]"
    )


def _format_omitted_lines(lines: list[str]) -> tuple[str, ...]:
    return (f"[... {len(lines) - MAX_DIFF_LINES:,} more lines of the diff ...]",) if len(lines) > MAX_DIFF_LINES else ()
