"""Prompts on the terminal that let the user approve, edit or reject a tool call.

A model must not be able to forge or hide a part of the prompt, so everything it wrote is shown in printable ASCII.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ask.errors import AskError
from ask.safety.policy import PendingToolCall
from ask.text import escape_non_ascii
from ask.tools.base import ApprovedFile

if TYPE_CHECKING:
    from ask.safety.terminal import Terminal

MAX_ATTEMPTS = 3
"""How many unrecognized answers are accepted before the call is rejected."""
MAX_EDITABLE_LENGTH = 4_000
"""Maximum number of characters of a command that can be edited in place."""


class ApprovalChoice(StrEnum):
    """The user's choice: `ALWAYS` approves the tool for the rest of the run, `EDITED` approves a changed command."""

    NO = "no"
    YES = "yes"
    ALWAYS = "always"
    EDITED = "edited"


class ApprovalResponse(NamedTuple):
    """The user's response to an approval prompt."""

    choice: ApprovalChoice
    edited_command: str = ""
    approved_file: ApprovedFile | None = None
    """The file whose change was shown; None if the call does not write a file."""


CHOICES_BY_ANSWER = {
    **dict.fromkeys(("", "n", "no"), ApprovalChoice.NO),
    **dict.fromkeys(("y", "yes"), ApprovalChoice.YES),
    **dict.fromkeys(("a", "always"), ApprovalChoice.ALWAYS),
}
EDIT_ANSWERS, EXPLAIN_ANSWERS = ("e", "edit"), ("?", "explain")


def can_read_anything(path: Path) -> bool:
    """Allow every file to be read, as outside safe mode."""
    return True


def prompt_for_approval(
    pending_call: PendingToolCall,
    *,
    explain: Callable[[PendingToolCall], str] | None = None,
    can_read: Callable[[Path], bool] = can_read_anything,
) -> ApprovalResponse | None:
    """Show a call and ask whether to run it. Return None if there is no terminal.

    `explain` asks a model what the call does and may raise AskError. `can_read` gets a resolved path and decides
    whether that file may be read to show a diff.
    """
    from ask.safety.preview import build_preview, describe_call
    from ask.safety.terminal import NoTerminalError, Terminal

    try:
        with Terminal() as terminal:
            preview = build_preview(pending_call, can_read)
            response = _read_response(terminal, pending_call, describe_call(pending_call, preview), explain)
            return response._replace(approved_file=preview.approved_file)
    except NoTerminalError:
        return None


def confirm(question: str, *, default: bool = False) -> bool | None:
    """Ask a yes/no question in printable ASCII. Return None if there is no terminal.

    An empty line means `default`; anything unrecognized means no.
    """
    from ask.safety.terminal import NoTerminalError, Terminal

    try:
        with Terminal() as terminal:
            answer = terminal.read_line(f"{question} [{'Y/n' if default else 'y/N'}] ")
    except NoTerminalError:
        return None
    if answer is None:
        return False
    answer = answer.strip().lower()
    return CHOICES_BY_ANSWER.get(answer) is ApprovalChoice.YES if answer else default


def _read_response(
    terminal: Terminal,
    pending_call: PendingToolCall,
    description: str,
    explain: Callable[[PendingToolCall], str] | None,
) -> ApprovalResponse:
    """Ask until the answer is recognized. Too many unrecognized answers count as no."""
    command = pending_call.command
    choices = f"y(es), N(o), a(lways for {escape_non_ascii(pending_call.tool_name)})"
    choices += ", e(dit)" * (command is not None) + ", ?(explain)" * (explain is not None)
    prompt = _show_call(terminal, description, choices)
    attempts_left = MAX_ATTEMPTS
    while attempts_left:
        answer = (terminal.read_line(prompt) or "").strip().lower()
        if answer in CHOICES_BY_ANSWER:
            return ApprovalResponse(CHOICES_BY_ANSWER[answer])
        if answer in EDIT_ANSWERS and command is not None:
            edited = edit_command(terminal, command)
            if edited == command:
                return ApprovalResponse(ApprovalChoice.YES)
            if edited is not None:
                return ApprovalResponse(ApprovalChoice.EDITED, edited)
        elif answer in EXPLAIN_ANSWERS and explain:
            _show_explanation(terminal, pending_call, explain)
            prompt = _show_call(terminal, description, choices)
        else:
            attempts_left -= 1
            terminal.write(f"Not understood: {choices if attempts_left else 'treated as no'}.\n")
    return ApprovalResponse(ApprovalChoice.NO)


def _show_call(terminal: Terminal, description: str, choices: str) -> str:
    """Show the call and return the prompt for the answer."""
    line_count = terminal.show(description)
    suffix = f", all {line_count:,} lines of it" if line_count else ""
    return f"Run this{suffix}? {choices}: "


def _show_explanation(
    terminal: Terminal, pending_call: PendingToolCall, explain: Callable[[PendingToolCall], str]
) -> None:
    from ask.safety.terminal import wrap_lines

    terminal.write("Asking for an explanation...\n")
    try:
        explanation = f"The model explains:\n{explain(pending_call)}"
    except AskError as error:
        explanation = f"No explanation:\n{error}"
    rows = wrap_lines(escape_non_ascii(explanation).replace("\n", "\n  | "), terminal.columns)
    terminal.write("\n".join(rows) + "\n\n")


def edit_command(terminal: Terminal, command: str) -> str | None:
    """Let the user edit a command. Return None if the result is empty or editing is canceled."""
    is_editable = "\n" not in command and escape_non_ascii(command) == command and len(command) <= MAX_EDITABLE_LENGTH
    if not is_editable:
        terminal.write("It is not a single short line of plain text: type a new command.\n")
    edited = terminal.edit_line("Command: ", command if is_editable else "")
    if edited is None or not edited.strip():
        terminal.write("The command is empty.\n")
        return None
    return edited
