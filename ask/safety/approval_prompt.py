"""The prompt on the terminal that lets the user approve, edit or reject a tool call, each with one key.

A model must not be able to forge or hide a part of the prompt, so everything it wrote is shown in printable ASCII.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from itertools import product
from pathlib import Path

from ask.errors import AskError
from ask.records import NamedTuple
from ask.safety.approval import ApprovalChoice, ApprovalResponse
from ask.safety.approval_preview import build_preview, describe_pending_call
from ask.safety.approval_scope import ApprovalScope, list_approvable
from ask.safety.approval_store import ApprovalDuration
from ask.safety.terminal_input import END_KEY, ESCAPE_KEY, PROMPT_PREFIX, NoTerminalError, Terminal, wrap_lines
from ask.safety.tool_policy import PendingToolCall
from ask.text import escape_non_ascii

MAX_EDITABLE_CHARACTERS = 4_000
"""Maximum number of characters of a command that can be edited in place."""


class ApprovalKey(StrEnum):
    """The keys that answer an approval prompt."""

    ONCE = "y"
    SIMILAR = "a"
    MORE = "m"
    NO = "n"
    REASON = "w"
    EDIT = "e"
    EXPLAIN = "?"


class PromptKey(NamedTuple):
    """A key that answers a prompt, and what it does."""

    key: str
    label: str


NO_KEYS = (ApprovalKey.NO, ESCAPE_KEY, END_KEY)
DURATION_LABELS = {
    ApprovalDuration.RUN: "until ask exits",
    ApprovalDuration.FOLDER: "in this folder",
    ApprovalDuration.ALWAYS: "always",
}


def can_read_anything(path: Path) -> bool:
    """Allow every file to be read, as outside safe mode."""
    return True


def prompt_for_approval(
    pending_call: PendingToolCall,
    *,
    explain: Callable[[PendingToolCall], str] | None = None,
    can_read: Callable[[Path], bool] = can_read_anything,
    use_color: bool = False,
) -> ApprovalResponse | None:
    """Show a call and ask whether to run it. Return None if there is no terminal.

    `explain` asks a model what the call does and may raise AskError. `can_read` gets a resolved path and decides
    whether that file may be read to show a diff, which has colors with `use_color`.
    """
    try:
        with Terminal() as terminal:
            preview = build_preview(pending_call, can_read)
            description = [
                (text, style if use_color else "") for text, style in describe_pending_call(pending_call, preview)
            ]
            action = "Make this change" if preview.approved_file else "Run this"
            response = _ApprovalPrompt(terminal, pending_call, description, action, explain).read_response()
            return response._replace(approved_file=preview.approved_file)
    except NoTerminalError:
        return None


class _ApprovalPrompt:
    """Asks about one call until the user has decided.

    Args:
        terminal: the terminal.
        pending_call: the call.
        description: its description in printable ASCII: lines, each with its style.
        action: the question, without a question mark.
        explain: asks a model what the call does.
    """

    def __init__(
        self,
        terminal: Terminal,
        pending_call: PendingToolCall,
        description: Sequence[tuple[str, str]],
        action: str,
        explain: Callable[[PendingToolCall], str] | None,
    ) -> None:
        self._terminal = terminal
        self._call = pending_call
        self._description = description
        self._action = action
        self._explain = explain
        self._approvable = list_approvable(pending_call)
        self._keys = [*self._list_keys()]

    def _list_keys(self) -> Iterator[PromptKey]:
        yield PromptKey(ApprovalKey.ONCE, "Allow once")
        if not self._call.danger:
            yield PromptKey(ApprovalKey.SIMILAR, self._format_extent(*self._similar_calls))
            yield PromptKey(ApprovalKey.MORE, "More ways to allow")
        yield PromptKey(ApprovalKey.NO, "No")
        yield PromptKey(ApprovalKey.REASON, "No, and tell the model why")
        if self._call.command is not None:
            yield PromptKey(ApprovalKey.EDIT, "Edit the command")
        if self._explain:
            yield PromptKey(ApprovalKey.EXPLAIN, "Explain it")

    @property
    def _similar_calls(self) -> tuple[ApprovalScope, ApprovalDuration]:
        """The extent of an approval that most users want: the programs in this folder, or the narrowest one."""
        if ApprovalScope.PROGRAM in self._approvable:
            return ApprovalScope.PROGRAM, ApprovalDuration.FOLDER
        return next(iter(self._approvable)), ApprovalDuration.RUN

    def _format_extent(self, scope: ApprovalScope, duration: ApprovalDuration) -> str:
        return f"Allow {self._format_scope(scope)} {DURATION_LABELS[duration]}"

    def _format_scope(self, scope: ApprovalScope) -> str:
        redact = self._call.context.redactor.redact
        values = [escape_non_ascii(redact(value)) for value in self._approvable[scope]]
        match scope:
            case ApprovalScope.COMMAND:
                return "exactly this command"
            case ApprovalScope.PROGRAM:
                return ", ".join(f"{value} ..." for value in values)
            case ApprovalScope.FILES:
                return f"{values[0]} for files in the working directory"
            case ApprovalScope.TOOL:
                return f"every call of {values[0]}"
            case ApprovalScope.HOST:
                return f"every call to {values[0]}"

    def read_response(self) -> ApprovalResponse:
        """Ask until there is a decision."""
        while True:
            key = self._read_key()
            if key in NO_KEYS:
                return ApprovalResponse(ApprovalChoice.NO)
            response = None
            match key:
                case ApprovalKey.ONCE:
                    return ApprovalResponse(ApprovalChoice.YES)
                case ApprovalKey.SIMILAR:
                    return self._approve(*self._similar_calls)
                case ApprovalKey.MORE:
                    response = self._read_extent()
                case ApprovalKey.REASON:
                    reason = self._terminal.edit_line("Tell the model: ", "")
                    return ApprovalResponse(ApprovalChoice.NO, reason=(reason or "").strip())
                case ApprovalKey.EDIT:
                    response = self._edit_command()
                case ApprovalKey.EXPLAIN if self._explain:
                    _show_explanation(self._terminal, self._call, self._explain)
            if response:
                return response

    def _read_key(self) -> str:
        """Show the call and read a key of the list, or one for "no"; show it again when the terminal has changed."""
        while True:
            menu = self._format_keys(self._keys)
            line_count = self._terminal.show(self._description, menu.count("\n") + 1)
            self._terminal.write(menu)
            suffix = f", all {line_count:,} lines of it" if line_count else ""
            key = self._read_listed_key(f"{self._action}{suffix}? ", self._keys)
            if key:
                return key

    def _read_listed_key(self, prompt: str, keys: Sequence[PromptKey]) -> str:
        """Read a key of a list, or one for "no", and print what it means.

        Returns "" if everything has to be shown again.
        """
        labels = dict(keys)
        labels |= dict.fromkeys((ESCAPE_KEY, END_KEY), labels[ApprovalKey.NO])
        key = self._terminal.read_key(prompt)
        if key is not None and key not in labels:
            hint = f"Press one of these keys: {' '.join(entry.key for entry in keys)}"
            self._terminal.write(f"\n{hint}\n")
            key = self._terminal.read_key(prompt)
        while key is not None and key not in labels:  # the hint is shown once
            key = self._terminal.read_key("")
        if key is None:
            return ""
        label = labels[key]
        if len(prompt) + len(label) >= self._terminal.columns:
            label = "".join(f"\n{row}" for row in wrap_lines(f"  {label}", self._terminal.columns, PROMPT_PREFIX))
        self._terminal.write(f"{label}\n")
        return key

    def _format_keys(self, keys: Sequence[PromptKey]) -> str:
        lines = (f"  {entry.key}  {entry.label}" for entry in keys)
        return "".join(f"{row}\n" for line in lines for row in wrap_lines(line, self._terminal.columns, " " * 5))

    def _approve(self, scope: ApprovalScope, duration: ApprovalDuration) -> ApprovalResponse:
        return ApprovalResponse(ApprovalChoice.ALWAYS, scope=scope, duration=duration)

    def _read_extent(self) -> ApprovalResponse | None:
        """Ask which calls to approve and for how long; return None to go back."""
        extents = list(product(self._approvable, ApprovalDuration))
        keys = [PromptKey(str(number), self._format_extent(*extent)) for number, extent in enumerate(extents, 1)]
        keys.append(PromptKey(ApprovalKey.NO, "Back"))
        key = ""
        while not key:
            self._terminal.write(self._format_keys(keys))
            key = self._read_listed_key("Which? ", keys)
        return None if key in NO_KEYS else self._approve(*extents[int(key) - 1])

    def _edit_command(self) -> ApprovalResponse | None:
        """Let the user edit the command; return None if it is emptied."""
        command = self._call.command or ""
        edited = edit_command(self._terminal, command)
        if edited is None:
            return None
        if edited == command:
            return ApprovalResponse(ApprovalChoice.YES)
        return ApprovalResponse(ApprovalChoice.EDITED, edited)


def _show_explanation(
    terminal: Terminal, pending_call: PendingToolCall, explain: Callable[[PendingToolCall], str]
) -> None:
    terminal.write("Asking for an explanation...\n")
    try:
        explanation = f"The model explains:\n{explain(pending_call)}"
    except AskError as error:
        explanation = f"No explanation:\n{error}"
    rows = wrap_lines(escape_non_ascii(explanation).replace("\n", "\n  | "), terminal.columns)
    terminal.write("\n".join(rows) + "\n\n")


def edit_command(terminal: Terminal, command: str) -> str | None:
    """Let the user edit a command. Return None if the result is empty or editing is canceled."""
    is_editable = (
        "\n" not in command and escape_non_ascii(command) == command and len(command) <= MAX_EDITABLE_CHARACTERS
    )
    if not is_editable:
        terminal.write("It is not a single short line of plain text: type a new command.\n")
    edited = terminal.edit_line("Command: ", command if is_editable else "")
    if edited is None or not edited.strip():
        terminal.write("The command is empty.\n")
        return None
    return edited
