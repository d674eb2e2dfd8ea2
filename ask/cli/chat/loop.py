"""A chat from its first message to its end: typed on a terminal, or read line by line from anything else."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from ask.agent.workspace import Workspace
from ask.cli.chat.commands import carry_out, leaves
from ask.cli.chat.session import Session
from ask.cli.chat.slash_commands import Order, read_line
from ask.cli.error_reporting import reporting
from ask.cli.run import warn_literal_options
from ask.console import Console
from ask.errors import AskError, FileError, Interrupted, ReaderGone, UsageError
from ask.inputs.text import decode
from ask.text import as_text, one_line


def chat(flags: Mapping[str, Any], words: Sequence[str], literal_options: Sequence[str]) -> int:
    """Talk until the user leaves; return the exit code.

    Args:
        flags: the options by name, as `ask` has them.
        words: the first message.
        literal_options: short options read as part of it.

    Raises:
        AskError: there can be no chat.
    """
    workspace = Workspace(quiet=flags["quiet"])
    console = Console(workspace.environment, quiet=flags["quiet"], plain=flags["plain"])
    with reporting(console, verbose=flags["verbose"]), ExitStack() as cleanup:
        warn_literal_options(literal_options, console)
        session = Session(flags, workspace, console, cleanup)
        cleanup.callback(say_where, session)
        first = as_text(" ".join(words))
        if not on_terminal():
            return answer_lines(session, first)
        talk(session, first)
    return 0


def on_terminal() -> bool:
    """Whether somebody types, and sees what they type."""
    shown = (sys.stdout, sys.stderr)
    return sys.stdin is not None and sys.stdin.isatty() and any(one is not None and one.isatty() for one in shown)


def say_where(session: Session) -> None:
    """Name the conversation, which can be gone on with."""
    if session.saved:
        session.console.dim(f"· conversation {session.question.conversation}\n")


# On a terminal


def talk(session: Session, text: str) -> None:
    """Take messages and commands, until the user leaves.

    Args:
        session: the chat.
        text: the first message; "" for none.
    """
    from ask.cli.chat.prompt import Prompt
    from ask.cli.chat.terminal_state import terminal_kept

    greet(session)
    with terminal_kept(), Prompt(session) as prompt:
        before = ""
        while True:
            try:
                text = text or prompt.read(before)
                before, text, typed = "", "", text
                if leaves(typed):
                    return
                if typed.strip():
                    before = answer(session, typed)
            except EOFError:
                return
            except KeyboardInterrupt:
                text = before = ""
            except Interrupted as error:
                if error.exit_code != Interrupted.exit_code:
                    raise
                prompt.discard_typed()
                session.tell(f"ask: {one_line(str(error))}")


def greet(session: Session) -> None:
    """Say with whom one talks, and how to leave."""
    question = session.question
    target = f"{question.target.model} of {question.target.name}"
    messages = sum(message.role == "user" for message in question.past)
    past = f", going on with {question.conversation} ({messages} messages)" if messages else ""
    session.console.line(f"ask: this is {target}{past}; /help tells what can be typed, Ctrl-D leaves")


def answer(session: Session, typed: str) -> str:
    """Carry out a command or send a message; what is to be typed differently.

    Raises:
        ReaderGone: nobody reads the answers.
        Interrupted: Ctrl-C or another signal ended it.
    """
    try:
        order = read_line(typed)
    except UsageError as error:
        session.tell(f"ask: {error}")
        return typed
    try:
        with reporting(session.console, verbose=session.flags["verbose"]):
            if isinstance(order, Order):
                carry_out(order, session)
            else:
                session.say(order)
    except (ReaderGone, Interrupted):
        raise
    except AskError as failure:
        session.tell(f"ask: {one_line(str(failure))}")
    return ""


# Without a terminal


def answer_lines(session: Session, first: str) -> int:
    """Answer each line of standard input; the exit code of the last failure, 0 without any.

    A line is a message, whatever it begins with: it may be somebody else's.

    Raises:
        FileError: standard input cannot be read.
        Interrupted: Ctrl-C.
    """
    code = 0
    for text in messages(first, session.question.settings.stdin_limit):
        if leaves(text):
            break
        try:
            with reporting(session.console, verbose=session.flags["verbose"]):
                session.say(text)
        except (ReaderGone, Interrupted):
            raise
        except AskError as failure:
            code = failure.exit_code
            session.tell(f"ask: {one_line(str(failure))}")
    return code


def messages(first: str, limit: int) -> Iterator[str]:
    """The first message, if there is one, then each line of standard input that is not empty, as it comes.

    Raises:
        FileError: it cannot be read, holds no text, or has a line of more than `limit` bytes.
    """
    if first:
        yield first
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
        text = decode(line, "standard input").strip()
        if text:
            yield text
