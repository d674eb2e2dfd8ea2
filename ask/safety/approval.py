"""Asks the human at the terminal, who must not be fooled by what a model writes.

How a call is put into words is in `description`, what it would write in `preview`, the terminal in `terminal`.
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
"""How many times a question is put to somebody whose answer is not understood."""
MAX_EDITABLE_LENGTH = 4_000
"""Characters of the longest command that is put on a line to edit."""


class ApprovalChoice(StrEnum):
    """What the user says to a call: no, yes, yes to this tool for the rest of the run, or yes to another command."""

    NO = "no"
    YES = "yes"
    ALWAYS = "always"
    EDITED = "edited"


class ApprovalResponse(NamedTuple):
    """The user's answer.

    Attributes:
        choice: the answer.
        edited_command: the command as the user edited it.
        approved_file: the file whose change was shown; None for a call that writes none.
    """

    choice: ApprovalChoice
    edited_command: str = ""
    approved_file: ApprovedFile | None = None


CHOICES_BY_ANSWER = {
    **dict.fromkeys(("", "n", "no"), ApprovalChoice.NO),
    **dict.fromkeys(("y", "yes"), ApprovalChoice.YES),
    **dict.fromkeys(("a", "always"), ApprovalChoice.ALWAYS),
}
EDIT_ANSWERS, EXPLAIN_ANSWERS = ("e", "edit"), ("?", "explain")


def can_read_anything(path: Path) -> bool:
    """Any file may be read, as it may without safe mode."""
    return True


def prompt_for_approval(
    pending_call: PendingToolCall,
    *,
    explain: Callable[[PendingToolCall], str] | None = None,
    can_read: Callable[[Path], bool] = can_read_anything,
) -> ApprovalResponse | None:
    """Show a call and ask whether to carry it out; None where there is no terminal to ask on.

    Args:
        pending_call: the call.
        explain: has somebody explain what it does; may raise AskError. None where nobody can.
        can_read: whether a file, by a path without links, may be read to show what would change in it.
    """
    from ask.safety.description import describe_call
    from ask.safety.preview import build_preview
    from ask.safety.terminal import NoTerminalError, Terminal

    try:
        with Terminal() as terminal:
            shown = build_preview(pending_call, can_read)
            reply = _ApprovalPrompt(terminal, pending_call, describe_call(pending_call, shown), explain).read_response()
            return reply._replace(approved_file=shown.approved_file)
    except NoTerminalError:
        return None


def confirm(question: str, *, default: bool = False) -> bool | None:
    """Ask a question, in printable ASCII, to which anything but yes is no; None where there is no terminal.

    Args:
        question: what is asked.
        default: what an empty line says.
    """
    from ask.safety.terminal import NoTerminalError, Terminal

    try:
        with Terminal() as terminal:
            answer = terminal.read_line(f"{question} [{'Y/n' if default else 'y/N'}] ")
    except NoTerminalError:
        return None
    if answer is None:
        return False
    words = answer.strip().lower()
    return CHOICES_BY_ANSWER.get(words) is ApprovalChoice.YES if words else default


class _ApprovalPrompt:
    """One question and what comes of it.

    Args:
        text: the call in words.
    """

    def __init__(
        self,
        terminal: Terminal,
        pending_call: PendingToolCall,
        description: str,
        explain: Callable[[PendingToolCall], str] | None,
    ) -> None:
        self._terminal = terminal
        self._pending_call = pending_call
        self._description = description
        self._explain = explain
        choices = ["y(es)", "N(o)", f"a(lways for {escape_non_ascii(pending_call.tool_name)})"]
        choices += ["e(dit)"] if pending_call.command is not None else []
        choices += ["?(explain)"] if explain else []
        self._choices = ", ".join(choices)

    def read_response(self) -> ApprovalResponse:
        """Ask until there is an answer; one that is not understood a few times is no."""
        prompt = self._show_call()
        tries = MAX_ATTEMPTS
        while tries:
            answer = self._terminal.read_line(prompt)
            words = "" if answer is None else answer.strip().lower()
            if words in CHOICES_BY_ANSWER:
                return ApprovalResponse(CHOICES_BY_ANSWER[words])
            if words in EDIT_ANSWERS and self._pending_call.command is not None:
                edited = edit_command(self._terminal, self._pending_call.command)
                if edited is not None:
                    return (
                        ApprovalResponse(ApprovalChoice.EDITED, edited)
                        if edited != self._pending_call.command
                        else ApprovalResponse(ApprovalChoice.YES)
                    )
            elif words in EXPLAIN_ANSWERS and self._explain:
                self._show_explanation(self._explain)
                prompt = self._show_call()
            else:
                tries -= 1
                again = f"Not understood: {self._choices}.\n"
                self._terminal.write(again if tries else "Not understood: taken as no.\n")
        return ApprovalResponse(ApprovalChoice.NO)

    def _show_call(self) -> str:
        """Show the call; return the question."""
        count = self._terminal.show(self._description)
        whole = f", all {count:,} lines of it" if count else ""
        return f"Run this{whole}? {self._choices}: "

    def _show_explanation(self, explain: Callable[[PendingToolCall], str]) -> None:
        self._terminal.write("Asking for an explanation ...\n")
        try:
            told = f"The model explains:\n{explain(self._pending_call)}"
        except AskError as failure:
            told = f"There is none:\n{failure}"
        rows = self._terminal.wrap_lines(escape_non_ascii(told).replace("\n", "\n  | "))
        self._terminal.write("\n".join(rows) + "\n\n")


def edit_command(terminal: Terminal, command: str) -> str | None:
    """What the user makes of a command; None where nothing is left of it."""
    fits = "\n" not in command and escape_non_ascii(command) == command and len(command) <= MAX_EDITABLE_LENGTH
    if not fits:
        terminal.write("It is not one short line of plain text: write the command anew.\n")
    edited = terminal.edit_line("Command: ", command if fits else "")
    if edited is None or not edited.strip():
        terminal.write("Nothing is left to run.\n")
        return None
    return edited
