"""`--cmd` on a terminal: shows the command, and runs it, has it edited or explained as the user says.

What is shown is all of it in printable ASCII, and what was typed before it was shown does not count.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import NoReturn

from ask.agent.request import Question
from ask.agent.system_prompt import shell_of
from ask.agent.tool_loop import Outcome
from ask.context_window import Told
from ask.errors import MissingProgram
from ask.messages import Message
from ask.safety.approval import TRIES, edit_command
from ask.safety.terminal import NoTerminal, Terminal
from ask.text import spelled_out

RUN = ("r", "run", "y", "yes")
EDIT = ("e", "edit")
EXPLAIN = ("x", "explain", "?")
CANCEL = ("", "c", "cancel", "n", "no", "q", "quit")
CHOICES = "r(un), e(dit), x (explain), C(ancel)"
EXPLANATION = """\
Explain this shell command briefly: what each part does, what it changes, and what could go wrong.

```sh
{command}
```"""


def offer(command: str, question: Question, ask_more: Callable[[Question], tuple[Outcome, bool]]) -> str:
    """The command that the user wants to run; "" for none.

    Args:
        command: what the model wrote.
        question: a question that would go on with the conversation.
        ask_more: asks such a question and shows the answer.
    """
    try:
        with Terminal() as terminal:
            prompt = show(terminal, command)
            tries = TRIES
            while tries:
                answer = terminal.ask(prompt)
                words = "" if answer is None else answer.strip().lower()
                if words in RUN:
                    return command
                if words in CANCEL:
                    return ""
                if words in EDIT:
                    command = edit_command(terminal, command) or command
                    prompt = show(terminal, command)
                elif words in EXPLAIN:
                    explain(command, terminal, question, ask_more)
                    prompt = show(terminal, command)
                else:
                    tries -= 1
            terminal.write("Not understood: taken as cancel.\n")
    except NoTerminal:
        pass
    return ""


def show(terminal: Terminal, command: str) -> str:
    """Show a command so that what is seen is what would run; return the question to ask about it."""
    shown = spelled_out(command)
    if shown != command:
        terminal.write("[what is not plain ASCII is shown as an escape]\n")
    terminal.write("\n")
    count = terminal.show(shown)
    terminal.write("\n")
    return f"All {count:,} lines: {CHOICES}: " if count else f"{CHOICES}: "


def explain(
    command: str, terminal: Terminal, question: Question, ask_more: Callable[[Question], tuple[Outcome, bool]]
) -> None:
    """Have the model explain a command, as a further question of the conversation."""
    terminal.write("\n")
    asked = Message("user", EXPLANATION.format(command=command))
    outcome, _ = ask_more(question._replace(asked=asked, told=Told(), form=""))
    if outcome.failure is not None:
        terminal.write(f"There is no explanation: {spelled_out(question.secrets.redact(str(outcome.failure)))}\n")


def run_in_shell(command: str, environment: Mapping[str, str]) -> NoReturn:
    """Become the user's shell that runs the command, as though it had been typed: its exit status is that of `ask`.

    Raises:
        MissingProgram: there is no such shell.
    """
    shell = shell_of(environment)
    if not (sys.stdin and sys.stdin.isatty()):
        os.dup2(os.open("/dev/tty", os.O_RDWR), 0)  # what was piped in is read
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by Python, and then by all that it becomes
        signal.signal(ignored, signal.SIG_DFL)
    try:
        os.execvpe(shell, [shell, "-c", command], dict(environment))  # noqa: S606 - with the shell that the user has
    except OSError as fault:
        raise MissingProgram(f"cannot run {shell} ({fault.strerror})", "set SHELL to the shell that you use") from None
