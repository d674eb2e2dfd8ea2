"""Carries out the /commands of a chat: a function each, of the name that stands in `words`."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from types import MappingProxyType

from ask.cli.chat.session import Session
from ask.cli.chat.slash_commands import FAREWELLS, WORDS, Order
from ask.errors import UsageError

KEYS = {
    "Enter": "sends the message",
    "Alt-Enter, Ctrl-J": "begins a new line",
    "Tab": "completes commands, models, and file names behind @",
    "Ctrl-R": "searches what was typed before",
    "Ctrl-X Ctrl-E": "opens the message in an editor",
    "Ctrl-C": "stops the answer; at the prompt, clears the line",
    "Ctrl-D": "leaves",
}
MOST_NAMED = 3
"""Files of which each is told; more are counted."""


def carry_out(order: Order, session: Session) -> None:
    """Carry out a command.

    Raises:
        AskError: it makes no sense, or failed.
    """
    COMMANDS[order.name](session, order.argument)


def model(session: Session, name: str) -> None:
    """/model"""
    if name:
        session.choose_model(name)
    tell_target(session)


def provider(session: Session, name: str) -> None:
    """/provider"""
    if name:
        session.choose_provider(name)
    tell_target(session)
    if not name:
        session.tell(f"There are {', '.join(session.workspace.names)}")


def tell_target(session: Session) -> None:
    """Say who is asked."""
    target = session.question.target
    session.tell(f"Asking {target.model} of {target.name}")


def system(session: Session, text: str) -> None:
    """/system"""
    if text:
        session.add_to_system("" if text == "-" else text)
    added = session.question.system
    session.tell(f"Added to the system prompt:\n{added}" if added else "Nothing is added to the system prompt")


def tools(session: Session, word: str) -> None:
    """/tools"""
    if word in ("on", "off"):
        session.offer_tools(wanted=word == "on")
    elif word not in ("", "list"):
        raise UsageError(f"/tools takes on, off or list, not {word!r}", "--disable-tool leaves single ones out")
    names = [tool.spec.name for tool in session.question.tools]
    session.tell(f"The model may call {', '.join(names)}" if names else "The model may call no tools")


def safe(session: Session, word: str) -> None:
    """/safe"""
    if word not in ("", "on"):
        raise UsageError(f"/safe takes on, not {word!r}", "what is confined stays so until the chat ends")
    if word:
        session.confine()
    confined = session.question.confined
    if confined is None:
        session.tell("Safe mode is off: /safe on turns it on")
    else:
        session.tell(f"Safe mode is on: tools can change {', '.join(map(str, confined.folders))} and nothing else")


def file(session: Session, path: str) -> None:
    """/file"""
    from ask.attachments import told_of

    given = session.add_file(path)
    texts = given.texts[:-1] if given.left_out else given.texts
    if len(texts) > MOST_NAMED:
        session.tell(f"{len(texts)} texts of {path} go with the next message")
    for name, text in texts if len(texts) <= MOST_NAMED else ():
        lines = len(text.splitlines())
        session.tell(f"{name} goes with the next message ({lines} {'line' if lines == 1 else 'lines'})")
    if given.left_out:
        more = "; ..." if len(given.left_out) > MOST_NAMED else ""
        session.tell(f"Left out, as it is no text: {'; '.join(given.left_out[:MOST_NAMED])}{more}")
    for attachment in given.attachments:
        session.tell(f"{told_of(attachment)} goes with the next message")


def retry(session: Session, _: str) -> None:
    """/retry"""
    session.retry()


def drop(session: Session, _: str) -> None:
    """/drop"""
    session.drop()
    session.tell("The last message and its answer are taken out of the conversation")


def undo(session: Session, options: str) -> None:
    """/undo"""
    import click

    from ask.cli.undo import command

    try:
        words = shlex.split(options)
    except ValueError:
        words = [options]
    try:
        with command.make_context("/undo", [session.question.conversation, *words]) as context:
            command.invoke(context)
    except (click.Abort, click.exceptions.Exit):
        pass  # the user does not want it, or only its help
    except click.ClickException as error:
        raise UsageError(error.format_message().rstrip("."), "/undo --help tells what it takes") from None


def compact(session: Session, _: str) -> None:
    """/compact"""
    session.compact()


def save(session: Session, path: str) -> None:
    """/save"""
    from pathlib import Path

    from ask.cli.history.export import export

    if not session.saved:
        raise UsageError("nothing is saved of this conversation", "ask chat without --no-save saves it as it goes")
    export(session.workspace, [session.question.conversation], str(Path(path).expanduser()))
    session.tell(f"Written to {path}")


def cost(session: Session, _: str) -> None:
    """/cost"""
    from ask.render.plain import used

    count = "1 message" if session.messages == 1 else f"{session.messages} messages"
    session.tell(f"{count}, {used(session.used)}")


def clear(session: Session, _: str) -> None:
    """/clear"""
    session.clear()
    session.tell("This is a new conversation")


def help_(session: Session, _: str) -> None:
    """/help"""
    rows = [(f"/{name} {word.takes}".strip(), word.meaning) for name, word in WORDS.items()]
    rows += [*KEYS.items(), ("//...", "sends a message that begins with a slash")]
    width = max(len(typed) for typed, _ in rows)
    session.tell("\n".join(f"{typed:{width}}  {meaning}" for typed, meaning in rows))


def leaves(text: str) -> bool:
    """Whether what was typed means to leave."""
    return text.strip().lower() in FAREWELLS


COMMANDS: Mapping[str, Callable[[Session, str], None]] = MappingProxyType(
    {
        one.__name__.rstrip("_"): one
        for one in (
            model,
            provider,
            system,
            tools,
            safe,
            file,
            retry,
            drop,
            undo,
            compact,
            save,
            cost,
            clear,
            help_,
        )
    }
)
