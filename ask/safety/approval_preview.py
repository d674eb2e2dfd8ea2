"""The description of a tool call in an approval prompt, with a diff of the file that it would change.

It is complete, in printable ASCII, and no text from the model can be mistaken for text from ask.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ask.records import NamedTuple
from ask.safety.tool_policy import COMMAND_TOOL, PendingToolCall
from ask.text import escape_non_ascii, format_size
from ask.text_diff import cut_row, draw_diff, format_unified_diff
from ask.tools.base import ApprovedFile, ToolError
from ask.tools.file_access import FileTarget, compute_digest, open_target, resolve_path
from ask.tools.files import adapt_line_ends, decode_file, decode_for_editing, replace_once

CONTINUATION_PREFIX = "  | "
"""The prefix of a line that continues a value."""
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]+")
MAX_DIFF_LINES = 300
"""Maximum number of lines of a diff that are shown."""
MAX_LINE_CHARACTERS = 2_000
"""Maximum number of characters of a line in the diff."""


class Preview(NamedTuple):
    """The changes that a call would make."""

    heading: str = ""
    diff_rows: tuple[tuple[str, str], ...] = ()
    """The rows of the diff, not yet escaped, each with its style."""
    shown_arguments: frozenset[str] = frozenset()
    """The names of the arguments that the diff makes redundant."""
    approved_file: ApprovedFile | None = None
    """The current state of the file that the call would change; None if it does not write a file."""
    diff_lines: tuple[str, ...] = ()
    """The lines of the unified diff, not yet escaped or truncated."""


NO_PREVIEW = Preview()
_DIFF_ARGUMENTS = {"write_file": frozenset({"content"}), "edit_file": frozenset({"old_text", "new_text"})}


def describe_pending_call(pending_call: PendingToolCall, preview: Preview = NO_PREVIEW) -> list[tuple[str, str]]:
    """Describe the call, its changes and, unless it only changes a file, its working directory and its timeout.

    Returns the lines, each with its style.
    """
    lines = [(text, "") for text in _format_lines(pending_call, preview)]
    lines += [(CONTINUATION_PREFIX + escape_non_ascii(text), style) for text, style in preview.diff_rows]
    lines += [(text, "") for text in _format_place(pending_call, preview)]
    return [(text.replace("\n", f"\n{CONTINUATION_PREFIX}"), style) for text, style in lines]


def _format_lines(pending_call: PendingToolCall, preview: Preview) -> Iterator[str]:
    redactor = pending_call.context.redactor
    danger = f" (DANGEROUS: {escape_non_ascii(pending_call.danger)})" if pending_call.danger else ""
    yield f"The model wants to call {escape_non_ascii(redactor.redact(pending_call.tool_name))}{danger}:"
    for name, value in pending_call.arguments.items():
        if name not in preview.shown_arguments:
            label, content = redactor.redact(name), redactor.redact_value(value)
            label = label if _PLAIN_NAME.fullmatch(label) else json.dumps(label)
            yield f"  {label}: {escape_non_ascii(content if isinstance(content, str) else json.dumps(content))}"
    if preview.heading:
        yield "  " + escape_non_ascii(redactor.redact(preview.heading))


def _format_place(pending_call: PendingToolCall, preview: Preview) -> Iterator[str]:
    if preview.approved_file and preview.approved_file.path:  # the heading names it, and nothing takes long
        return
    timeout = pending_call.context.command_timeout
    if pending_call.tool_name == COMMAND_TOOL:
        with suppress(ToolError):  # what the call asks for is shown, and it will not run
            timeout = pending_call.context.get_time_limit(pending_call.arguments)
    if pending_call.host:
        yield f"  at the host {escape_non_ascii(pending_call.host)}"
    yield f"  in {escape_non_ascii(str(pending_call.context.directory))}, for at most {timeout:g} s"


def build_preview(pending_call: PendingToolCall, can_read: Callable[[Path], bool]) -> Preview:
    """Build the preview of a call; `NO_PREVIEW` if it does not write a file."""
    arguments = pending_call.arguments
    diff_arguments = _DIFF_ARGUMENTS.get(pending_call.tool_name)
    if not diff_arguments or not all(isinstance(arguments.get(name), str) for name in ("filepath", *diff_arguments)):
        return NO_PREVIEW
    file = ApprovedFile("")  # matches no path, so that a file that cannot be opened now is not written later
    try:
        path = Path(os.path.realpath(resolve_path(arguments["filepath"], pending_call.context)))
        if not can_read(path):
            return Preview(f"no diff: {path} is outside the readable folders", approved_file=ApprovedFile(str(path)))
        with open_target(path, pending_call.context, for_writing=True) as target:
            file = target.to_approved_file()
            return _build_diff_preview(pending_call, target, diff_arguments)
    except (ToolError, OSError, RuntimeError) as error:
        return Preview(f"no diff: {getattr(error, 'strerror', None) or error}", approved_file=file)


def _build_diff_preview(pending_call: PendingToolCall, target: FileTarget, shown_arguments: frozenset[str]) -> Preview:
    """Compare a file with its new content.

    Raises:
        ToolError, OSError: the file cannot be read.
    """
    path = target.path
    if target.stat_result is None:
        return _preview_new_file(pending_call, target, shown_arguments)
    data = target.read_content(str(path))
    file = target.to_approved_file(compute_digest(data))
    if decode_file(data) is None:
        return Preview(f"no diff: {path} is binary, {format_size(len(data))}", approved_file=file)
    try:
        old_content = decode_for_editing(data, pending_call.arguments.get("old_text", "")).text
        lines = _diff_content(pending_call.tool_name, old_content, pending_call.arguments)
    except ToolError as error:
        return Preview(f"no diff: {error}", approved_file=file)
    if not lines:
        return Preview(f"no change: {path} already has this content", approved_file=file)
    # Redacted before truncation, which could leave a part of a secret.
    lines = list(map(pending_call.context.redactor.redact, lines))
    rows = [*draw_diff(lines, limit=MAX_DIFF_LINES, width=MAX_LINE_CHARACTERS, ellipsis="...")]
    is_complete = len(lines) <= MAX_DIFF_LINES and all(len(text) <= MAX_LINE_CHARACTERS for text, _ in rows)
    return Preview(
        f"the changes to {path}:",
        tuple((cut_row(text, MAX_LINE_CHARACTERS), style) for text, style in rows),
        shown_arguments if is_complete else frozenset(),
        file,
        tuple(lines),
    )


def _preview_new_file(pending_call: PendingToolCall, target: FileTarget, shown_arguments: frozenset[str]) -> Preview:
    """Show the complete content of a new file; an edit of one fails."""
    file = target.to_approved_file("")
    content = pending_call.arguments.get("content")
    lines = format_unified_diff("", pending_call.context.redactor.redact(content)) if content else None
    if not lines:
        return Preview(f"{target.path} does not exist yet", approved_file=file)
    rows = draw_diff(lines, ellipsis="...")
    return Preview(f"the new file {target.path}:", tuple(rows), shown_arguments, file, tuple(lines))


def _diff_content(tool_name: str, old_content: str, arguments: Mapping[str, Any]) -> list[str]:
    """Return all lines of the diff.

    Raises:
        ToolError: the edit does not apply, or the change is too large to compare.
    """
    if tool_name == "write_file":
        new_content = adapt_line_ends(arguments["content"], old_content)
    else:
        new_content, _ = replace_once(old_content, arguments["old_text"], arguments["new_text"])
    lines = format_unified_diff(old_content, new_content)
    if lines is None:
        raise ToolError(f"too many of the file's {len(old_content):,} characters would change")
    return lines
