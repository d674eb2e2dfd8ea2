"""Executes the slash commands of a chat: one function per entry of `SLASH_COMMANDS`, with the same name."""

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
"""Up to this many attached files are listed by name; more are only counted."""


def execute_command(call: SlashCommandCall, session: ChatSession) -> None:
    """Execute a slash command; invalid arguments and failures raise `AskError`."""
    COMMANDS[call.name](session, call.argument)


def model(session: ChatSession, name: str) -> None:
    if name:
        session.select_model(name)
    print_endpoint(session)


def provider(session: ChatSession, name: str) -> None:
    if name:
        session.select_provider(name)
    print_endpoint(session)
    if not name:
        session.print_line(f"There are {', '.join(session.app.provider_names)}")


def print_endpoint(session: ChatSession) -> None:
    endpoint = session.request.endpoint
    session.print_line(f"Asking {endpoint.model} of {endpoint.provider_name}")


def system(session: ChatSession, text: str) -> None:
    if text:
        session.set_extra_system_prompt("" if text == "-" else text)
    extra = session.request.extra_system_prompt
    session.print_line(f"Added to the system prompt:\n{extra}" if extra else "Nothing is added to the system prompt")


def tools(session: ChatSession, mode: str) -> None:
    if mode in ("on", "off"):
        session.enable_tools(enabled=mode == "on")
    elif mode not in ("", "list"):
        raise UsageError(f"/tools takes on, off or list, not {mode!r}", "--disable-tool leaves single ones out")
    names = [tool.spec.name for tool in session.request.tools]
    session.print_line(f"The model may call {', '.join(names)}" if names else "The model may call no tools")


def safe(session: ChatSession, mode: str) -> None:
    if mode not in ("", "on"):
        raise UsageError(f"/safe takes on, not {mode!r}", "what is confined stays so until the chat ends")
    if mode:
        session.enable_safe_mode()
    safe_mode = session.request.safe_mode
    if safe_mode is None:
        session.print_line("Safe mode is off: /safe on turns it on")
    else:
        session.print_line(
            f"Safe mode is on: tools can change {', '.join(map(str, safe_mode.writable_folders))} and nothing else"
        )


def file(session: ChatSession, path: str) -> None:
    from ask.attachments import describe_attachment

    inputs = session.attach_files(path)
    texts = inputs.texts[:-1] if inputs.skipped_files else inputs.texts  # the last text lists the skipped files
    if len(texts) > MAX_NAMED_FILES:
        session.print_line(f"{len(texts)} texts of {path} go with the next message")
    for name, text in texts if len(texts) <= MAX_NAMED_FILES else ():
        lines = len(text.splitlines())
        session.print_line(f"{name} goes with the next message ({lines} {'line' if lines == 1 else 'lines'})")
    if inputs.skipped_files:
        more = "; ..." if len(inputs.skipped_files) > MAX_NAMED_FILES else ""
        session.print_line(f"Left out, as it is no text: {'; '.join(inputs.skipped_files[:MAX_NAMED_FILES])}{more}")
    for attachment in inputs.attachments:
        session.print_line(f"{describe_attachment(attachment)} goes with the next message")


def retry(session: ChatSession, _: str) -> None:
    session.retry_last_message()


def drop(session: ChatSession, _: str) -> None:
    session.drop_last_message()
    session.print_line("The last message and its answer are taken out of the conversation")


def undo(session: ChatSession, options: str) -> None:
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
        pass  # the user declined, or asked for --help
    except click.ClickException as error:
        raise UsageError(error.format_message().rstrip("."), "/undo --help tells what it takes") from None


def compact(session: ChatSession, _: str) -> None:
    session.compact()


def save(session: ChatSession, path: str) -> None:
    from pathlib import Path

    from ask.cli.history import export_conversations

    if not session.is_saved:
        raise UsageError("nothing is saved of this conversation", "ask chat without --no-save saves it as it goes")
    export_conversations(session.app.app_dirs, [session.request.conversation_id], str(Path(path).expanduser()))
    session.print_line(f"Written to {path}")


def cost(session: ChatSession, _: str) -> None:
    from ask.render.plain import format_usage

    count = "1 message" if session.message_count == 1 else f"{session.message_count} messages"
    session.print_line(f"{count}, {format_usage(session.totals)}")


def clear(session: ChatSession, _: str) -> None:
    session.start_new_conversation()
    session.print_line("This is a new conversation")


def help_(session: ChatSession, _: str) -> None:
    rows = [(f"/{name} {command.arguments}".strip(), command.description) for name, command in SLASH_COMMANDS.items()]
    rows += [*KEY_BINDINGS.items(), ("//...", "sends a message that begins with a slash")]
    width = max(len(usage) for usage, _ in rows)
    session.print_line("\n".join(f"{usage:{width}}  {description}" for usage, description in rows))


def is_exit_command(text: str) -> bool:
    return text.strip().lower() in EXIT_COMMANDS


COMMANDS: Mapping[str, Callable[[ChatSession, str], None]] = MappingProxyType(
    {
        function.__name__.rstrip("_"): function
        for function in (
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
