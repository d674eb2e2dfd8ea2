"""`--cmd` on a terminal: show the command, and let the user run, edit, explain or cancel it.

The complete command is shown in printable ASCII. Input that was typed before it was shown is discarded.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NoReturn

from ask.agent.request import RunRequest
from ask.agent.system_prompt import find_shell
from ask.agent.tool_loop import RunResult
from ask.console import STDOUT, get_descriptor
from ask.errors import MissingDependencyError
from ask.messages import Message, ReportedUsage
from ask.safety.approval_prompt import edit_command
from ask.safety.terminal_input import NoTerminalError, Terminal
from ask.text import escape_non_ascii

MAX_ATTEMPTS = 3
"""How many unrecognized answers are accepted before the command is not run."""
RUN_ANSWERS = ("r", "run", "y", "yes")
EDIT_ANSWERS = ("e", "edit")
EXPLAIN_ANSWERS = ("x", "explain", "?")
CANCEL_ANSWERS = ("", "c", "cancel", "n", "no", "q", "quit")
CHOICES = "r(un), e(dit), x (explain), C(ancel)"
EXPLAIN_COMMAND_PROMPT = (
    "Briefly explain this shell command: what each part does, what it changes, and what "
    "could go wrong.\n\n```sh\n{command}\n```"
)


def offer_command(command: str, request: RunRequest, run_follow_up: Callable[[RunRequest], RunResult]) -> str:
    """Return the command that the user wants to run; "" for none.

    `request` continues the conversation, and `run_follow_up` runs and shows a request.
    """
    with suppress(NoTerminalError), Terminal() as terminal:
        prompt, remaining_attempts = _print_command(terminal, command), MAX_ATTEMPTS
        while remaining_attempts:
            choice = (terminal.read_line(prompt) or "").strip().lower()
            if choice in RUN_ANSWERS:
                return command
            if choice in CANCEL_ANSWERS:
                return ""
            if choice in EDIT_ANSWERS:
                command = edit_command(terminal, command) or command
            elif choice in EXPLAIN_ANSWERS:
                _explain_command(command, terminal, request, run_follow_up)
            else:
                remaining_attempts -= 1
                continue
            prompt = _print_command(terminal, command)
        terminal.write("Not understood; canceled.\n")
    return ""


def _print_command(terminal: Terminal, command: str) -> str:
    """Show a command with everything unprintable escaped; return the question to ask."""
    escaped = escape_non_ascii(command)
    if escaped != command:
        terminal.write("[non-ASCII characters are shown as escapes]\n")
    terminal.write("\n")
    count = terminal.show([(escaped, "")])
    terminal.write("\n")
    return f"All {count:,} lines: {CHOICES}: " if count else f"{CHOICES}: "


def _explain_command(
    command: str, terminal: Terminal, request: RunRequest, run_follow_up: Callable[[RunRequest], RunResult]
) -> None:
    """Let the model explain a command in a follow-up request."""
    terminal.write("\n")
    message = Message("user", EXPLAIN_COMMAND_PROMPT.format(command=command))
    run_result = run_follow_up(request._replace(user_message=message, reported_usage=ReportedUsage(), output_format=""))
    if run_result.error is not None:
        terminal.write(f"No explanation: {escape_non_ascii(request.secrets.redact(str(run_result.error)))}\n")


def exec_in_shell(command: str, environment: Mapping[str, str]) -> NoReturn:
    """Replace this process with the user's shell running the command.

    Its exit status becomes that of `ask`.

    Raises:
        MissingDependencyError: there is no such shell.
    """
    shell = find_shell(environment)
    if traces := sys.modules.get("ask.traces.lifecycle"):
        traces.flush_traces(0, ())
    if not (sys.stdin and sys.stdin.isatty()):
        os.dup2(os.open("/dev/tty", os.O_RDWR), 0)  # piped input has already been read
    for signal_number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and a new program would inherit that
        signal.signal(signal_number, signal.SIG_DFL)
    os.dup2(get_descriptor(STDOUT), STDOUT)  # the program of a provider may have got another
    try:
        os.execvpe(shell, [shell, "-c", command], dict(environment))  # noqa: S606 - the user's own shell
    except OSError as error:
        raise MissingDependencyError(
            f"cannot run {shell} ({error.strerror})", "set SHELL to the path of your shell"
        ) from None
