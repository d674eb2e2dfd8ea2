"""`--cmd` on a terminal: shows the command, and runs it, has it edited or explained as the user says.

What is shown is all of it in printable ASCII, and what was typed before it was shown does not count.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import NoReturn

from ask.agent.request import RunRequest
from ask.agent.system_prompt import find_shell
from ask.agent.tool_loop import RunResult
from ask.context_window import ReportedUsage
from ask.errors import MissingDependencyError
from ask.messages import Message
from ask.safety.approval import MAX_ATTEMPTS, edit_command
from ask.safety.terminal import NoTerminalError, Terminal
from ask.text import escape_non_ascii

RUN_ANSWERS = ("r", "run", "y", "yes")
EDIT_ANSWERS = ("e", "edit")
EXPLAIN_ANSWERS = ("x", "explain", "?")
CANCEL_ANSWERS = ("", "c", "cancel", "n", "no", "q", "quit")
CHOICES = "r(un), e(dit), x (explain), C(ancel)"
EXPLAIN_COMMAND_PROMPT = """\
Explain this shell command briefly: what each part does, what it changes, and what could go wrong.

```sh
{command}
```"""


def offer_command(
    command: str, request: RunRequest, run_follow_up: Callable[[RunRequest], tuple[RunResult, bool]]
) -> str:
    """The command that the user wants to run; "" for none.

    Args:
        command: what the model wrote.
        request: a question that would go on with the conversation.
        run_follow_up: asks such a question and shows the answer.
    """
    try:
        with Terminal() as terminal:
            prompt = print_command(terminal, command)
            tries = MAX_ATTEMPTS
            while tries:
                answer = terminal.read_line(prompt)
                words = "" if answer is None else answer.strip().lower()
                if words in RUN_ANSWERS:
                    return command
                if words in CANCEL_ANSWERS:
                    return ""
                if words in EDIT_ANSWERS:
                    command = edit_command(terminal, command) or command
                    prompt = print_command(terminal, command)
                elif words in EXPLAIN_ANSWERS:
                    explain_command(command, terminal, request, run_follow_up)
                    prompt = print_command(terminal, command)
                else:
                    tries -= 1
            terminal.write("Not understood: taken as cancel.\n")
    except NoTerminalError:
        pass
    return ""


def print_command(terminal: Terminal, command: str) -> str:
    """Show a command so that what is seen is what would run; return the question to ask about it."""
    shown = escape_non_ascii(command)
    if shown != command:
        terminal.write("[what is not plain ASCII is shown as an escape]\n")
    terminal.write("\n")
    count = terminal.show(shown)
    terminal.write("\n")
    return f"All {count:,} lines: {CHOICES}: " if count else f"{CHOICES}: "


def explain_command(
    command: str, terminal: Terminal, request: RunRequest, run_follow_up: Callable[[RunRequest], tuple[RunResult, bool]]
) -> None:
    """Have the model explain a command, as a further question of the conversation."""
    terminal.write("\n")
    asked = Message("user", EXPLAIN_COMMAND_PROMPT.format(command=command))
    outcome, _ = run_follow_up(request._replace(user_message=asked, reported_usage=ReportedUsage(), output_format=""))
    if outcome.error is not None:
        terminal.write(f"There is no explanation: {escape_non_ascii(request.secrets.redact(str(outcome.error)))}\n")


def exec_in_shell(command: str, environment: Mapping[str, str]) -> NoReturn:
    """Become the user's shell that runs the command, as though it had been typed: its exit status is that of `ask`.

    Raises:
        MissingProgram: there is no such shell.
    """
    shell = find_shell(environment)
    if not (sys.stdin and sys.stdin.isatty()):
        os.dup2(os.open("/dev/tty", os.O_RDWR), 0)  # what was piped in is read
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by Python, and then by all that it becomes
        signal.signal(ignored, signal.SIG_DFL)
    try:
        os.execvpe(shell, [shell, "-c", command], dict(environment))  # noqa: S606 - with the shell that the user has
    except OSError as fault:
        raise MissingDependencyError(
            f"cannot run {shell} ({fault.strerror})", "set SHELL to the shell that you use"
        ) from None
