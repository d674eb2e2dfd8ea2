"""The user's response to a question about a tool call; and questions that are answered with yes or no."""

from __future__ import annotations

from enum import StrEnum

from ask.records import NamedTuple
from ask.safety.approval_scope import ApprovalScope
from ask.safety.approval_store import ApprovalDuration
from ask.tools.base import ApprovedFile


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
    reason: str = ""
    """With `NO`: what the user wants to tell the model; "" for nothing."""


YES_ANSWERS = ("y", "yes")


def confirm(question: str, *, default: bool = False) -> bool | None:
    """Ask a yes/no question in printable ASCII. Return None if there is no terminal.

    An empty line means `default`; anything unrecognized means no.
    """
    from ask.safety.terminal_input import NoTerminalError, Terminal

    try:
        with Terminal() as terminal:
            answer = terminal.read_line(f"{question} [{'Y/n' if default else 'y/N'}] ")
    except NoTerminalError:
        return None
    if answer is None:
        return False
    answer = answer.strip().lower()
    return answer in YES_ANSWERS if answer else default
