"""The slash commands of a chat: one function for each, registered with its usage and help."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ask.console import STDOUT
from ask.errors import UsageError
from ask.inputs.stdin_and_files import read_text_file
from ask.records import NamedTuple
from ask.render.amounts import format_count, format_local_time, format_usage
from ask.render.live_region import get_terminal_size
from ask.text import format_one_line, format_suggestion

if TYPE_CHECKING:
    from ask.cli.chat.session import ChatSession

SLASH_COMMAND_PATTERN = re.compile(r"/(?:([A-Za-z][\w-]*)(?:\s+(.*))?)?", re.DOTALL)
"""Matches input that is meant as a command, unlike /etc/passwd or a comment; a slash alone asks for the list."""
EXIT_COMMANDS = frozenset({"exit", "quit", "/exit", "/quit"})
COMMANDS_BY_WORD = {
    **dict.fromkeys(("new", "reset"), "clear"),
    "bye": "exit",
    **dict.fromkeys(("history", "sessions", "continue"), "resume"),
    **dict.fromkeys(("add", "attach", "image"), "file"),
    **dict.fromkeys(("usage", "stats"), "cost"),
    **dict.fromkeys(("compress", "summarize"), "compact"),
    **dict.fromkeys(("rewind", "restore", "revert"), "undo"),
    "fork": "branch",
    "export": "save",
}
"""The command that a word means to users of other programs. It is only suggested."""
KEY_BINDINGS = {
    "Enter": "send the message",
    "Alt-Enter, Ctrl-J": "start a new line",
    "Tab": "complete commands, models, and file names after @",
    "Ctrl-R": "search earlier messages",
    "Ctrl-X Ctrl-E": "write the message in an editor, then send it",
    "Ctrl-C": "stop the answer; at the prompt, clear the line",
    "Ctrl-D": "quit",
}
MAX_EXCERPT_CHARACTERS = 60
"""Characters of a removed message that are shown."""
MAX_NAMED_FILES = 3
"""Up to this many attached files are listed by name; more are only counted."""
MAX_LISTED_CONVERSATIONS = 15
"""How many of the newest conversations /resume lists."""
Execute = Callable[["ChatSession", str], None]
"""Executes a slash command with its argument; invalid arguments and failures raise `AskError`."""


class SlashCommand(NamedTuple):
    """A slash command.

    Attributes:
        arguments: as in a usage line; "" for none.
        description: for the help.
        is_multiline: whether the argument can have several lines.
    """

    name: str
    arguments: str
    description: str
    execute: Execute
    is_multiline: bool = False


SLASH_COMMANDS: dict[str, SlashCommand] = {}


def _slash_command(arguments: str, description: str, *, is_multiline: bool = False) -> Callable[[Execute], Execute]:
    """Register a function as the slash command of its name."""

    def register(function: Execute) -> Execute:
        name = function.__name__.rstrip("_")  # `help_` and `exit_` would hide builtins
        SLASH_COMMANDS[name] = SlashCommand(name, arguments, description, function, is_multiline)
        return function

    return register


def list_usages() -> list[tuple[str, str]]:
    """Return the usage and the description of each slash command."""
    return [
        (f"/{command.name} {command.arguments}".strip(), command.description) for command in SLASH_COMMANDS.values()
    ]


def parse_input(text: str) -> tuple[SlashCommand, str] | str:
    """Parse input as a slash command with its argument, or a message, in which a leading // stands for /.

    Raises:
        UsageError: the command is unknown or its argument is invalid.
    """
    match = SLASH_COMMAND_PATTERN.fullmatch(text.strip())
    if match is None:
        return text[1:] if text.startswith("//") else text
    name, argument = (match[1] or "").lower(), (match[2] or "").strip()
    command = SLASH_COMMANDS.get(name)
    if command is None:
        hint = format_suggestion(COMMANDS_BY_WORD.get(name, name), SLASH_COMMANDS, "/help lists commands,", prefix="/")
        raise UsageError(f"unknown command /{name}", f"{hint} // starts a message with a slash")
    if argument and not command.arguments:
        raise UsageError(f"/{name} takes no arguments", f"// starts a message with a slash: /{text.strip()}"[:120])
    if not argument and command.arguments and not command.arguments.startswith("["):
        raise UsageError(f"/{name} takes {command.arguments}", f"type /{name} {command.arguments}")
    if "\n" in argument and not command.is_multiline:
        raise UsageError(f"/{name} takes a single line", "// starts a message with a slash")
    return command, argument


@_slash_command("[NAME]", "Use this model, also as provider:model.")
def model(session: ChatSession, name: str) -> None:
    if name:
        session.switch_endpoint(model=name, conversation_model=(session.request.endpoint.provider_name, ""))
    _print_endpoint(session)


@_slash_command("[NAME]", "Use this provider.")
def provider(session: ChatSession, name: str) -> None:
    if name:
        session.switch_endpoint(provider=name)
    _print_endpoint(session)
    if not name:
        session.print_line(f"Providers: {', '.join(session.app.provider_names)}")


def _print_endpoint(session: ChatSession) -> None:
    endpoint = session.request.endpoint
    session.print_line(f"Using {endpoint.model} ({endpoint.provider_name})")


@_slash_command("[TEXT]", "Replace the extra system prompt (@FILE; - removes it).", is_multiline=True)
def system(session: ChatSession, text: str) -> None:
    if text.startswith("@"):
        text = read_text_file(text[1:], session.app.app_dirs, session.console.print_notice)
    if text:
        session.set_extra_system_prompt("" if text == "-" else text)
    extra = session.request.extra_system_prompt
    session.print_line(f"Extra system prompt:\n{extra}" if extra else "No extra system prompt")


@_slash_command("[on|off|list]", "Enable, disable or list the tools.")
def tools(session: ChatSession, mode: str) -> None:
    if mode in ("on", "off"):
        session.enable_tools(enabled=mode == "on")
    elif mode not in ("", "list"):
        raise UsageError(f"/tools accepts on, off or list, not {mode!r}", "--disable-tool disables individual tools")
    names = [tool.spec.name for tool in session.request.tools]
    safe_mode = session.request.safe_mode
    level = f" (safe mode, level {safe_mode.level})" if safe_mode else ""
    session.print_line(f"Tools{level}: {', '.join(names)}" if names else "Tools are disabled")


@_slash_command("[on|files]", "Enable safe mode until the chat ends.")
def safe(session: ChatSession, mode: str) -> None:
    if mode not in ("", "on", "files"):
        raise UsageError(f"/safe accepts on or files, not {mode!r}", "safe mode stays on until the chat ends")
    if mode and session.request.safe_mode is None:
        session.enable_safe_mode(without_commands=mode == "files")
    safe_mode = session.request.safe_mode
    if safe_mode is None:
        session.print_line("Safe mode is off; /safe on enables it, /safe files without commands")
    else:
        folders = ", ".join(map(str, safe_mode.writable_folders))
        session.print_line(f"Safe mode is on (level {safe_mode.level}): tools can write only to {folders}")


@_slash_command("PATH", "Attach a file, folder, image, PDF or URL.")
def file(session: ChatSession, path: str) -> None:
    from ask.attachments import describe_attachment
    from ask.inputs.file_option import parse_dropped_paths

    inputs = session.add_files(parse_dropped_paths(path))
    skipped, named = inputs.skipped_files, " will be sent with the next message"
    texts = inputs.texts[:-1] if skipped else inputs.texts  # the last text lists the skipped files
    lines = [f"{name}{named} ({format_count(len(text.splitlines()), 'line')})" for name, text in texts]
    if len(lines) > MAX_NAMED_FILES:
        lines = [f"{format_count(len(lines), 'file')} of {path} will be sent with the next message"]
    if skipped:
        more = "; ..." if len(skipped) > MAX_NAMED_FILES else ""
        lines.append(f"Skipped files that are not text: {'; '.join(skipped[:MAX_NAMED_FILES])}{more}")
    for line in (*lines, *(describe_attachment(attachment) + named for attachment in inputs.attachments)):
        session.print_line(line)


MESSAGE_NUMBER_PATTERN = re.compile(r"(?:#(\d{1,9})(?:\s+|$))?(.*)", re.DOTALL)


def _split_number(argument: str) -> tuple[int | None, str]:
    """Split an argument into the number of a message, written as #N, and the rest."""
    match = MESSAGE_NUMBER_PATTERN.fullmatch(argument)
    number, rest = match.groups() if match else (None, argument)
    return int(number) if number else None, rest


def _require_number_only(name: str, argument: str) -> int | None:
    number, rest = _split_number(argument)
    if rest:
        raise UsageError(f"/{name} takes the number of a message, such as #2", "/messages lists the messages")
    return number


@_slash_command("[#N]", "Send the last message or #N again, replacing its answer.")
def retry(session: ChatSession, argument: str) -> None:
    session.resend_message(_require_number_only("retry", argument))


@_slash_command("[#N] [TEXT]", "Edit the last message or #N and send it again.", is_multiline=True)
def edit(session: ChatSession, argument: str) -> None:
    number, text = _split_number(argument)
    last = len(session.find_turns())
    if number is None and text.isdecimal() and 1 <= int(text) <= last:
        hint = f"/edit #{text} edits it, and /edit #{last} {text} replaces the last one"
        raise UsageError(f"{text} may be the number of a message", hint)
    if text:
        session.resend_message(number, text)
    else:
        words = session.find_turn(number).words
        session.draft = f"/edit {words}" if number is None else f"/edit #{number} {words}"


@_slash_command("[#N] [FILE]", "Remove the last message or #N with its answer, or only a file.")
def drop(session: ChatSession, argument: str) -> None:
    number, name = _split_number(argument)
    if name:
        session.print_line(f"Removed {format_one_line(name)} from {session.drop_file(name, number)}")
        return
    dropped = session.drop_message(number)
    message = "the last message" if number is None else f"message #{number}"
    if dropped.has_response:
        session.print_line(f"Removed {message} and its answer")
    else:
        kind = "refused" if dropped.is_refused else "unanswered"
        session.print_line(
            f"Removed the {kind} message {format_one_line(dropped.user_message.content, MAX_EXCERPT_CHARACTERS)!r}"
        )


@_slash_command("[#N]", "Continue from the last message or #N in a new conversation.")
def branch(session: ChatSession, argument: str) -> None:
    number = _require_number_only("branch", argument)
    original_id = session.request.conversation_id
    session.branch(number)
    count = format_count(len(session.find_turns()), "message")
    session.print_line(f"Continuing in a copy with {count}; /resume {original_id} returns to the original")


@_slash_command("", "List the messages with their numbers.")
def messages(session: ChatSession, _: str) -> None:
    session.find_turn()  # its error says why there is no message
    for number, turn in enumerate(session.find_turns(), 1):
        files = session.list_files(turn)
        ending = f" [{', '.join(map(format_one_line, files))}]" if files else ""
        ending += "" if turn.has_response else " (refused)" if turn.is_refused else " (unanswered)"
        session.print_line(f"{f'#{number}':>4}  {format_one_line(turn.words, MAX_EXCERPT_CHARACTERS)}{ending}")


@_slash_command("", "Copy the last answer to the clipboard.")
def copy(session: ChatSession, _: str) -> None:
    from ask.cli.chat.clipboard import copy_text

    answers = (message.content for message in reversed(session.request.message_history) if message.role == "assistant")
    answer = next(filter(None, answers), "").removeprefix(session.commentary)
    if not answer:
        raise UsageError("there is no answer yet", "send a message first")
    copy_text(answer, session.app.environment)
    session.print_line(f"Copied the last answer ({format_count(len(answer.splitlines()), 'line')})")


@_slash_command("[OPTIONS]", "Restore the files that the last run changed.")
def undo(session: ChatSession, options: str) -> None:
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
        raise UsageError(error.format_message().rstrip("."), "see /undo --help") from None


@_slash_command("", "Replace older messages with a summary.")
def compact(session: ChatSession, _: str) -> None:
    session.compact()


@_slash_command("FILE", "Export the conversation to a .md, .json or .html file.")
def save(session: ChatSession, path: str) -> None:
    from ask.cli.history import export_conversations

    if not session.is_saved or session.has_unsaved_messages:
        raise session.make_unsaved_error()
    file = Path(os.path.expanduser(path))
    export_conversations([session.request.conversation_id], str(file))
    session.print_line(f"Wrote {path}", {path: file})


@_slash_command("", "Show the tokens and cost of this chat.")
def cost(session: ChatSession, _: str) -> None:
    session.print_line(f"{format_count(session.message_count, 'message')}, {format_usage(session.totals)}")


@_slash_command("[ID]", "Continue a saved conversation (number, id or title).")
def resume(session: ChatSession, reference: str) -> None:
    saved = session.find_saved_conversations(reference, MAX_LISTED_CONVERSATIONS)
    found = [title for title in saved if title.id != session.request.conversation_id]
    if not found:
        if not reference:
            raise UsageError("no other saved conversations" if saved else "no saved conversations")
        if saved:
            raise UsageError(f"{format_one_line(saved[0].title)} is the current conversation", "/resume lists others")
        raise UsageError(f"no conversation matches {reference!r}", "/resume lists the newest")
    if reference and len(found) == 1:
        session.resume_conversation(found[0].id)
        messages = sum(message.role == "user" for message in session.request.message_history)
        session.print_line(f"Resumed {format_one_line(found[0].title)} ({format_count(messages, 'message')})")
        _print_endpoint(session)
        session.show_unanswered()
        return
    from ask.render.text_layout import truncate_text

    for title in found:
        line = f"{title.position:>4}  {format_local_time(title.updated)}  {format_one_line(title.title)}"
        session.print_line(truncate_text(line, get_terminal_size(STDOUT).columns))
    session.draft = "/resume "


@_slash_command("", "Start a new conversation.")
def clear(session: ChatSession, _: str) -> None:
    session.start_new_conversation()
    session.print_line("Started a new conversation")


@_slash_command("", "List the commands and keys.")
def help_(session: ChatSession, _: str) -> None:
    from ask.cli.help_format import HelpFormatter

    formatter = HelpFormatter()
    formatter.write_dl([*list_usages(), *KEY_BINDINGS.items(), ("//...", "send a message that starts with a slash")])
    session.print_line(formatter.getvalue().removesuffix("\n"))


@_slash_command("", "Quit, like exit, quit and Ctrl-D.")
def exit_(session: ChatSession, _: str) -> None:
    """Do nothing: the loop ends by itself on one of `EXIT_COMMANDS`."""


def is_exit_command(text: str) -> bool:
    return text.strip().lower() in EXIT_COMMANDS
