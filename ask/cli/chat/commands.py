"""Carries out the /commands of a chat: a function each, of the name that stands in `words`."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from types import MappingProxyType

from ask.cli.chat.session import ChatSession
from ask.cli.chat.slash_commands import EXIT_COMMANDS, SLASH_COMMANDS, SlashCommandCall
from ask.errors import UsageError

KEY_BINDINGS = {
    "Enter": "sends the message",
    "Alt-Enter, Ctrl-J": "begins a new line",
    "Tab": "completes commands, models, and file names behind @",
    "Ctrl-R": "searches what was typed before",
    "Ctrl-X Ctrl-E": "opens the message in an editor",
    "Ctrl-C": "stops the answer; at the prompt, clears the line",
    "Ctrl-D": "leaves",
}
MAX_NAMED_FILES = 3
"""Files of which each is told; more are counted."""


def execute_command(call: SlashCommandCall, session: ChatSession) -> None:
    """Carry out a command.

    Raises:
        AskError: it makes no sense, or failed.
    """
    COMMANDS[call.name](session, call.argument)


def model(session: ChatSession, name: str) -> None:
    """/model"""
    if name:
        session.select_model(name)
    print_endpoint(session)


def provider(session: ChatSession, name: str) -> None:
    """/provider"""
    if name:
        session.select_provider(name)
    print_endpoint(session)
    if not name:
        session.print_line(f"There are {', '.join(session.app.provider_names)}")


def print_endpoint(session: ChatSession) -> None:
    """Say who is asked."""
    target = session.request.endpoint
    session.print_line(f"Asking {target.model} of {target.provider_name}")


def system(session: ChatSession, text: str) -> None:
    """/system"""
    if text:
        session.set_extra_system_prompt("" if text == "-" else text)
    added = session.request.extra_system_prompt
    session.print_line(f"Added to the system prompt:\n{added}" if added else "Nothing is added to the system prompt")


def tools(session: ChatSession, mode: str) -> None:
    """/tools"""
    if mode in ("on", "off"):
        session.enable_tools(enabled=mode == "on")
    elif mode not in ("", "list"):
        raise UsageError(f"/tools takes on, off or list, not {mode!r}", "--disable-tool leaves single ones out")
    names = [tool.spec.name for tool in session.request.tools]
    session.print_line(f"The model may call {', '.join(names)}" if names else "The model may call no tools")


def safe(session: ChatSession, mode: str) -> None:
    """/safe"""
    if mode not in ("", "on"):
        raise UsageError(f"/safe takes on, not {mode!r}", "what is confined stays so until the chat ends")
    if mode:
        session.enable_safe_mode()
    confined = session.request.safe_mode
    if confined is None:
        session.print_line("Safe mode is off: /safe on turns it on")
    else:
        session.print_line(
            f"Safe mode is on: tools can change {', '.join(map(str, confined.writable_folders))} and nothing else"
        )


def file(session: ChatSession, path: str) -> None:
    """/file"""
    from ask.attachments import describe_attachment

    given = session.attach_files(path)
    texts = given.texts[:-1] if given.skipped_files else given.texts
    if len(texts) > MAX_NAMED_FILES:
        session.print_line(f"{len(texts)} texts of {path} go with the next message")
    for name, text in texts if len(texts) <= MAX_NAMED_FILES else ():
        lines = len(text.splitlines())
        session.print_line(f"{name} goes with the next message ({lines} {'line' if lines == 1 else 'lines'})")
    if given.skipped_files:
        more = "; ..." if len(given.skipped_files) > MAX_NAMED_FILES else ""
        session.print_line(f"Left out, as it is no text: {'; '.join(given.skipped_files[:MAX_NAMED_FILES])}{more}")
    for attachment in given.attachments:
        session.print_line(f"{describe_attachment(attachment)} goes with the next message")


def retry(session: ChatSession, _: str) -> None:
    """/retry"""
    session.retry_last_message()


def drop(session: ChatSession, _: str) -> None:
    """/drop"""
    session.drop_last_message()
    session.print_line("The last message and its answer are taken out of the conversation")


def undo(session: ChatSession, options: str) -> None:
    """/undo"""
    import click

    from ask.cli.undo import command

    try:
        words = shlex.split(options)
    except ValueError:
        words = [options]
    try:
        with command.make_context("/undo", [session.request.conversation_id, *words]) as context:
            command.invoke(context)
    except (click.Abort, click.exceptions.Exit):
        pass  # the user does not want it, or only its help
    except click.ClickException as error:
        raise UsageError(error.format_message().rstrip("."), "/undo --help tells what it takes") from None


def compact(session: ChatSession, _: str) -> None:
    """/compact"""
    session.compact()


def save(session: ChatSession, path: str) -> None:
    """/save"""
    from pathlib import Path

    from ask.cli.history import export_conversations

    if not session.is_saved:
        raise UsageError("nothing is saved of this conversation", "ask chat without --no-save saves it as it goes")
    export_conversations(session.app, [session.request.conversation_id], str(Path(path).expanduser()))
    session.print_line(f"Written to {path}")


def cost(session: ChatSession, _: str) -> None:
    """/cost"""
    from ask.render.plain import format_usage

    count = "1 message" if session.message_count == 1 else f"{session.message_count} messages"
    session.print_line(f"{count}, {format_usage(session.totals)}")


def clear(session: ChatSession, _: str) -> None:
    """/clear"""
    session.start_new_conversation()
    session.print_line("This is a new conversation")


def help_(session: ChatSession, _: str) -> None:
    """/help"""
    rows = [(f"/{name} {word.arguments}".strip(), word.description) for name, word in SLASH_COMMANDS.items()]
    rows += [*KEY_BINDINGS.items(), ("//...", "sends a message that begins with a slash")]
    width = max(len(typed) for typed, _ in rows)
    session.print_line("\n".join(f"{typed:{width}}  {meaning}" for typed, meaning in rows))


def is_exit_command(text: str) -> bool:
    """Whether what was typed means to leave."""
    return text.strip().lower() in EXIT_COMMANDS


COMMANDS: Mapping[str, Callable[[ChatSession, str], None]] = MappingProxyType(
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
