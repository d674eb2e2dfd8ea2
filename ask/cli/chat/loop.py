"""A chat from its first message to its end: typed on a terminal, or read line by line from anything else."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from ask.agent.app_context import AppContext
from ask.cli.chat.commands import execute_command, is_exit_command
from ask.cli.chat.session import ChatSession
from ask.cli.chat.slash_commands import SlashCommandCall, parse_input
from ask.cli.error_reporting import redact_errors
from ask.cli.run import warn_literal_options
from ask.console import StderrConsole
from ask.errors import AskError, BrokenOutputError, FileError, RunInterruptedError, UsageError
from ask.inputs.text import decode_text
from ask.text import decode_argument, format_one_line


def run_chat(flags: Mapping[str, Any], words: Sequence[str], literal_options: Sequence[str]) -> int:
    """Talk until the user leaves; return the exit code.

    Args:
        flags: the options by name, as `ask` has them.
        words: the first message.
        literal_options: short options read as part of it.

    Raises:
        AskError: there can be no chat.
    """
    workspace = AppContext(quiet=flags["quiet"])
    console = StderrConsole(workspace.environment, quiet=flags["quiet"], plain=flags["plain"])
    with redact_errors(console, verbose=flags["verbose"]), ExitStack() as cleanup:
        warn_literal_options(literal_options, console)
        session = ChatSession(flags, workspace, console, cleanup)
        cleanup.callback(print_conversation_id, session)
        first = decode_argument(" ".join(words))
        if not is_interactive():
            return run_piped_chat(session, first)
        run_interactive_chat(session, first)
    return 0


def is_interactive() -> bool:
    """Whether somebody types, and sees what they type."""
    shown = (sys.stdout, sys.stderr)
    return sys.stdin is not None and sys.stdin.isatty() and any(one is not None and one.isatty() for one in shown)


def print_conversation_id(session: ChatSession) -> None:
    """Name the conversation, which can be gone on with."""
    if session.is_saved:
        session.console.print_dim(f"· conversation {session.request.conversation_id}\n")


# On a terminal


def run_interactive_chat(session: ChatSession, first_message: str) -> None:
    """Take messages and commands, until the user leaves.

    Args:
        session: the chat.
        first_message: the first message; "" for none.
    """
    from ask.cli.chat.prompt import ChatPrompt
    from ask.cli.chat.terminal_state import preserve_terminal

    print_greeting(session)
    with preserve_terminal(), ChatPrompt(session) as prompt:
        before = ""
        while True:
            try:
                first_message = first_message or prompt.read_message(before)
                before, first_message, typed = "", "", first_message
                if is_exit_command(typed):
                    return
                if typed.strip():
                    before = handle_input(session, typed)
            except EOFError:
                return
            except KeyboardInterrupt:
                first_message = before = ""
            except RunInterruptedError as error:
                if error.exit_code != RunInterruptedError.exit_code:
                    raise
                prompt.discard_typeahead()
                session.print_line(f"ask: {format_one_line(str(error))}")


def print_greeting(session: ChatSession) -> None:
    """Say with whom one talks, and how to leave."""
    question = session.request
    target = f"{question.endpoint.model} of {question.endpoint.provider_name}"
    messages = sum(message.role == "user" for message in question.message_history)
    past = f", going on with {question.conversation_id} ({messages} messages)" if messages else ""
    session.console.print_line(f"ask: this is {target}{past}; /help tells what can be typed, Ctrl-D leaves")


def handle_input(session: ChatSession, text: str) -> str:
    """Carry out a command or send a message; what is to be typed differently.

    Raises:
        ReaderGone: nobody reads the answers.
        Interrupted: Ctrl-C or another signal ended it.
    """
    try:
        order = parse_input(text)
    except UsageError as error:
        session.print_line(f"ask: {error}")
        return text
    try:
        with redact_errors(session.console, verbose=session.flags["verbose"]):
            if isinstance(order, SlashCommandCall):
                execute_command(order, session)
            else:
                session.send_message(order)
    except (BrokenOutputError, RunInterruptedError):
        raise
    except AskError as failure:
        session.print_line(f"ask: {format_one_line(str(failure))}")
    return ""


# Without a terminal


def run_piped_chat(session: ChatSession, first_message: str) -> int:
    """Answer each line of standard input; the exit code of the last failure, 0 without any.

    A line is a message, whatever it begins with: it may be somebody else's.

    Raises:
        FileError: standard input cannot be read.
        Interrupted: Ctrl-C.
    """
    code = 0
    for text in read_messages(first_message, session.request.settings.stdin_limit):
        if is_exit_command(text):
            break
        try:
            with redact_errors(session.console, verbose=session.flags["verbose"]):
                session.send_message(text)
        except (BrokenOutputError, RunInterruptedError):
            raise
        except AskError as failure:
            code = failure.exit_code
            session.print_line(f"ask: {format_one_line(str(failure))}")
    return code


def read_messages(first_message: str, limit: int) -> Iterator[str]:
    """The first message, if there is one, then each line of standard input that is not empty, as it comes.

    Raises:
        FileError: it cannot be read, holds no text, or has a line of more than `limit` bytes.
    """
    if first_message:
        yield first_message
    while sys.stdin is not None:
        try:
            line = sys.stdin.buffer.readline(limit + 1)
        except OSError as fault:
            raise FileError(f"cannot read standard input ({fault.strerror})") from fault
        if len(line) > limit:
            advice = "raise stdin_limit in config.toml"
            raise FileError(f"a line of standard input is longer than {limit} bytes", advice)
        if not line:
            return
        text = decode_text(line, "standard input").strip()
        if text:
            yield text
