"""Prompts on the terminal that let the user approve, edit or reject a tool call.

A model must not be able to forge or hide a part of the prompt, so everything it wrote is shown in printable ASCII.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from ask.errors import AskError
from ask.records import NamedTuple
from ask.safety.approval_store import ApprovalDuration, ApprovalScope, list_approvable
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
    """The user's choice: `ALWAYS` also approves similar calls, `EDITED` approves a changed command."""

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
    scope: ApprovalScope = ApprovalScope.TOOL
    """With `ALWAYS`: which calls are approved."""
    duration: ApprovalDuration = ApprovalDuration.RUN
    """With `ALWAYS`: for how long."""


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
    choices = "y(es), N(o)" + ", a(lways)" * (not pending_call.danger)
    choices += ", e(dit)" * (command is not None) + ", ?(explain)" * (explain is not None)
    prompt = _show_call(terminal, description, choices)
    attempts_left = MAX_ATTEMPTS
    while attempts_left:
        answer = (terminal.read_line(prompt) or "").strip().lower()
        choice = CHOICES_BY_ANSWER.get(answer)
        if choice is ApprovalChoice.ALWAYS and not pending_call.danger:
            return _read_extent(terminal, pending_call)
        if choice in (ApprovalChoice.YES, ApprovalChoice.NO):
            return ApprovalResponse(choice)
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


def _read_extent(terminal: Terminal, pending_call: PendingToolCall) -> ApprovalResponse:
    """Ask which calls to approve and for how long. By default, it is the narrowest."""
    approvable = list_approvable(pending_call)
    labels = [
        f"this {scope[0]}({scope[1:]})"
        if scope is ApprovalScope.COMMAND
        else f"{scope[0]}({scope[1:]} {escape_non_ascii(', '.join(values))})"
        for scope, values in approvable.items()
    ]
    scopes = " or ".join([", ".join(labels[:-1]), labels[-1]] if len(labels) > 1 else labels)
    default = (next(iter(approvable)), ApprovalDuration.RUN)
    prompt = f"Allow {scopes}, for this r(un), in this f(older) or a(lways)? [{default[0][0]}{default[1][0]}]: "
    for _ in range(MAX_ATTEMPTS):
        answer = terminal.read_line(prompt)
        if answer is None:
            break
        extent = _parse_extent(answer, tuple(approvable))
        if extent:
            return ApprovalResponse(ApprovalChoice.ALWAYS, scope=extent[0], duration=extent[1])
    terminal.write("Not understood, treated as no.\n")
    return ApprovalResponse(ApprovalChoice.NO)


def _parse_extent(answer: str, scopes: Sequence[ApprovalScope]) -> tuple[ApprovalScope, ApprovalDuration] | None:
    """Parse an answer such as "pf" or "program folder". What is left out is the default; None if it is invalid."""
    names = {name: one for one in (*scopes, *ApprovalDuration) for name in (one.value, one.value[0])}
    words = answer.lower().split()
    parts = [part for word in words for part in ([word] if word in names else word)]
    if not all(part in names for part in parts):
        return None
    chosen_scopes = [one for one in map(names.get, parts) if isinstance(one, ApprovalScope)]
    durations = [one for one in map(names.get, parts) if isinstance(one, ApprovalDuration)]
    if len(chosen_scopes) > 1 or len(durations) > 1:
        return None
    return (*chosen_scopes, scopes[0])[0], (*durations, ApprovalDuration.RUN)[0]


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
