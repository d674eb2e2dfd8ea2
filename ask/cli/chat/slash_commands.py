"""The slash commands of a chat: names, arguments, descriptions and parsing. `commands` executes them."""

from __future__ import annotations

import re
from typing import NamedTuple

from ask.errors import UsageError
from ask.suggestions import suggest

SLASH_COMMAND_PATTERN = re.compile(r"/([A-Za-z][\w-]*)(?:\s+(.*))?", re.DOTALL)
"""Matches input that is meant as a command, unlike /etc/passwd or a comment."""
EXIT_COMMANDS = frozenset({"exit", "quit", "/exit", "/quit"})


class SlashCommand(NamedTuple):
    """The usage and help of a slash command."""

    arguments: str
    """As in a usage line; "" for none."""
    description: str
    is_multiline: bool = False
    """Whether the argument can have several lines."""


SLASH_COMMANDS = {
    "model": SlashCommand("[NAME]", "Ask this model from now on, also as provider:model."),
    "provider": SlashCommand("[NAME]", "Ask this provider from now on."),
    "system": SlashCommand("[TEXT]", "Add this to the system prompt (@FILE; - for nothing).", True),
    "tools": SlashCommand("[on|off|list]", "Let the model call tools, or none."),
    "safe": SlashCommand("[on]", "Confine what tools can do. Nothing turns it off."),
    "file": SlashCommand("PATH", "Add a file, folder, image, PDF or URL."),
    "retry": SlashCommand("", "Ask the last message again, in place of its answer."),
    "drop": SlashCommand("", "Take out the last message and its answer."),
    "undo": SlashCommand("[OPTIONS]", "Put back the files that the last run changed."),
    "compact": SlashCommand("", "Replace what is old by a summary."),
    "save": SlashCommand("FILE", "Write the conversation to a .md, .json or .html file."),
    "cost": SlashCommand("", "Tell what this chat has used."),
    "clear": SlashCommand("", "Begin a new conversation."),
    "help": SlashCommand("", "Tell what can be typed."),
    "exit": SlashCommand("", "Leave; so do exit, quit and Ctrl-D."),
}


class SlashCommandCall(NamedTuple):
    """A slash command as typed; `name` is a key of `SLASH_COMMANDS`."""

    name: str
    argument: str


def parse_input(text: str) -> SlashCommandCall | str:
    """Parse input as a slash command or a message, in which a leading // stands for /.

    Raises `UsageError` if the command is unknown or its argument is invalid.
    """
    match = SLASH_COMMAND_PATTERN.fullmatch(text.strip())
    if match is None:
        return text[1:] if text.startswith("//") else text
    name, argument = match[1].lower(), (match[2] or "").strip()
    command = SLASH_COMMANDS.get(name)
    if command is None:
        suggestion = suggest(name, SLASH_COMMANDS)
        hint = f"did you mean /{suggestion}?" if suggestion else "/help tells what there is,"
        raise UsageError(f"there is no command /{name}", f"{hint} // begins a message with a slash")
    if argument and not command.arguments:
        raise UsageError(f"/{name} takes nothing", f"// begins a message with a slash: /{text.strip()}"[:120])
    if not argument and command.arguments and not command.arguments.startswith("["):
        raise UsageError(f"/{name} takes {command.arguments}", f"type /{name} {command.arguments}")
    if "\n" in argument and not command.is_multiline:
        raise UsageError(f"/{name} takes one line", "// begins a message with a slash")
    return SlashCommandCall(name, argument)
