"""Asks the human at the terminal, who must not be fooled by what a model writes.

How a call is put into words is in `description`, what it would write in `preview`, the terminal in `terminal`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ask.errors import AskError
from ask.safety.policy import Proposal
from ask.text import spelled_out
from ask.tools.base import ApprovedFile

if TYPE_CHECKING:
    from ask.safety.terminal import Terminal

TRIES = 3
"""How many times a question is put to somebody whose answer is not understood."""
LONGEST_EDITED = 4_000
"""Characters of the longest command that is put on a line to edit."""


class Consent(StrEnum):
    """What the user says to a call: no, yes, yes to this tool for the rest of the run, or yes to another command."""

    NO = "no"
    YES = "yes"
    ALWAYS = "always"
    EDITED = "edited"


class Reply(NamedTuple):
    """The user's answer.

    Attributes:
        consent: the answer.
        command: the command as the user edited it.
        file: the file whose change was shown; None for a call that writes none.
    """

    consent: Consent
    command: str = ""
    file: ApprovedFile | None = None


ANSWERS = {
    **dict.fromkeys(("", "n", "no"), Consent.NO),
    **dict.fromkeys(("y", "yes"), Consent.YES),
    **dict.fromkeys(("a", "always"), Consent.ALWAYS),
}
EDIT, EXPLAIN = ("e", "edit"), ("?", "explain")


def anything(path: Path) -> bool:
    """Any file may be read, as it may without safe mode."""
    return True


def ask_on_terminal(
    proposal: Proposal,
    *,
    explain: Callable[[Proposal], str] | None = None,
    may_read: Callable[[Path], bool] = anything,
) -> Reply | None:
    """Show a call and ask whether to carry it out; None where there is no terminal to ask on.

    Args:
        proposal: the call.
        explain: has somebody explain what it does; may raise AskError. None where nobody can.
        may_read: whether a file, by a path without links, may be read to show what would change in it.
    """
    from ask.safety.description import describe
    from ask.safety.preview import preview
    from ask.safety.terminal import NoTerminal, Terminal

    try:
        with Terminal() as terminal:
            shown = preview(proposal, may_read)
            reply = _Dialogue(terminal, proposal, describe(proposal, shown), explain).hold()
            return reply._replace(file=shown.file)
    except NoTerminal:
        return None


def confirm(question: str, *, default: bool = False) -> bool | None:
    """Ask a question, in printable ASCII, to which anything but yes is no; None where there is no terminal.

    Args:
        question: what is asked.
        default: what an empty line says.
    """
    from ask.safety.terminal import NoTerminal, Terminal

    try:
        with Terminal() as terminal:
            answer = terminal.ask(f"{question} [{'Y/n' if default else 'y/N'}] ")
    except NoTerminal:
        return None
    if answer is None:
        return False
    words = answer.strip().lower()
    return ANSWERS.get(words) is Consent.YES if words else default


class _Dialogue:
    """One question and what comes of it.

    Args:
        text: the call in words.
    """

    def __init__(
        self, terminal: Terminal, proposal: Proposal, text: str, explain: Callable[[Proposal], str] | None
    ) -> None:
        self._terminal = terminal
        self._proposal = proposal
        self._text = text
        self._explain = explain
        choices = ["y(es)", "N(o)", f"a(lways for {spelled_out(proposal.tool)})"]
        choices += ["e(dit)"] if proposal.command is not None else []
        choices += ["?(explain)"] if explain else []
        self._choices = ", ".join(choices)

    def hold(self) -> Reply:
        """Ask until there is an answer; one that is not understood a few times is no."""
        prompt = self._show()
        tries = TRIES
        while tries:
            answer = self._terminal.ask(prompt)
            words = "" if answer is None else answer.strip().lower()
            if words in ANSWERS:
                return Reply(ANSWERS[words])
            if words in EDIT and self._proposal.command is not None:
                edited = edit_command(self._terminal, self._proposal.command)
                if edited is not None:
                    return Reply(Consent.EDITED, edited) if edited != self._proposal.command else Reply(Consent.YES)
            elif words in EXPLAIN and self._explain:
                self._tell(self._explain)
                prompt = self._show()
            else:
                tries -= 1
                again = f"Not understood: {self._choices}.\n"
                self._terminal.write(again if tries else "Not understood: taken as no.\n")
        return Reply(Consent.NO)

    def _show(self) -> str:
        """Show the call; return the question."""
        count = self._terminal.show(self._text)
        whole = f", all {count:,} lines of it" if count else ""
        return f"Run this{whole}? {self._choices}: "

    def _tell(self, explain: Callable[[Proposal], str]) -> None:
        self._terminal.write("Asking for an explanation ...\n")
        try:
            told = f"The model explains:\n{explain(self._proposal)}"
        except AskError as failure:
            told = f"There is none:\n{failure}"
        rows = self._terminal.fold(spelled_out(told).replace("\n", "\n  | "))
        self._terminal.write("\n".join(rows) + "\n\n")


def edit_command(terminal: Terminal, command: str) -> str | None:
    """What the user makes of a command; None where nothing is left of it."""
    fits = "\n" not in command and spelled_out(command) == command and len(command) <= LONGEST_EDITED
    if not fits:
        terminal.write("It is not one short line of plain text: write the command anew.\n")
    edited = terminal.edit("Command: ", command if fits else "")
    if edited is None or not edited.strip():
        terminal.write("Nothing is left to run.\n")
        return None
    return edited
