"""The /commands of a chat, as words: what each takes and what it does. `commands` carries them out."""

from __future__ import annotations

import re
from typing import NamedTuple

from ask.errors import UsageError

SLASH_COMMAND_PATTERN = re.compile(r"/([A-Za-z][\w-]*)(?:\s+(.*))?", re.DOTALL)
"""What is meant as a command: /etc/passwd is not, nor is a fraction or a comment."""
EXIT_COMMANDS = frozenset({"exit", "quit", "/exit", "/quit"})


class SlashCommand(NamedTuple):
    """A command.

    Attributes:
        arguments: what stands behind it, as in a usage line; "" for nothing.
        description: what it does.
        is_multiline: whether it takes more than a line.
    """

    arguments: str
    description: str
    is_multiline: bool = False


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
    """A command as it was typed: a name of `SLASH_COMMANDS`, and what stands behind it."""

    name: str
    argument: str


def parse_input(text: str) -> SlashCommandCall | str:
    """What was typed: a command, or else the message, of which // at the beginning stands for /.

    Raises:
        UsageError: it looks like a command and is none, or takes something else.
    """
    found = SLASH_COMMAND_PATTERN.fullmatch(text.strip())
    if found is None:
        return text[1:] if text.startswith("//") else text
    name, argument = found[1].lower(), (found[2] or "").strip()
    word = SLASH_COMMANDS.get(name)
    if word is None:
        from ask.suggestions import suggest

        near = suggest(name, SLASH_COMMANDS)
        hint = f"did you mean /{near}?" if near else "/help tells what there is,"
        raise UsageError(f"there is no command /{name}", f"{hint} // begins a message with a slash")
    if argument and not word.arguments:
        raise UsageError(f"/{name} takes nothing", f"// begins a message with a slash: /{text.strip()}"[:120])
    if not argument and word.arguments and not word.arguments.startswith("["):
        raise UsageError(f"/{name} takes {word.arguments}", f"type /{name} {word.arguments}")
    if "\n" in argument and not word.is_multiline:
        raise UsageError(f"/{name} takes one line", "// begins a message with a slash")
    return SlashCommandCall(name, argument)
