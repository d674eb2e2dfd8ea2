"""The /commands of a chat, as words: what each takes and what it does. `commands` carries them out."""

from __future__ import annotations

import re
from typing import NamedTuple

from ask.errors import UsageError

SHAPE = re.compile(r"/([A-Za-z][\w-]*)(?:\s+(.*))?", re.DOTALL)
"""What is meant as a command: /etc/passwd is not, nor is a fraction or a comment."""
FAREWELLS = frozenset({"exit", "quit", "/exit", "/quit"})


class Word(NamedTuple):
    """A command.

    Attributes:
        takes: what stands behind it, as in a usage line; "" for nothing.
        meaning: what it does.
        lines: whether it takes more than a line.
    """

    takes: str
    meaning: str
    lines: bool = False


WORDS = {
    "model": Word("[NAME]", "Ask this model from now on, also as provider:model."),
    "provider": Word("[NAME]", "Ask this provider from now on."),
    "system": Word("[TEXT]", "Add this to the system prompt (@FILE; - for nothing).", True),
    "tools": Word("[on|off|list]", "Let the model call tools, or none."),
    "safe": Word("[on]", "Confine what tools can do. Nothing turns it off."),
    "file": Word("PATH", "Add a file, folder, image, PDF or URL."),
    "retry": Word("", "Ask the last message again, in place of its answer."),
    "drop": Word("", "Take out the last message and its answer."),
    "undo": Word("[OPTIONS]", "Put back the files that the last run changed."),
    "compact": Word("", "Replace what is old by a summary."),
    "save": Word("FILE", "Write the conversation to a .md, .json or .html file."),
    "cost": Word("", "Tell what this chat has used."),
    "clear": Word("", "Begin a new conversation."),
    "help": Word("", "Tell what can be typed."),
    "exit": Word("", "Leave; so do exit, quit and Ctrl-D."),
}


class Order(NamedTuple):
    """A command as it was typed: a name of `WORDS`, and what stands behind it."""

    name: str
    argument: str


def read_line(text: str) -> Order | str:
    """What was typed: a command, or else the message, of which // at the beginning stands for /.

    Raises:
        UsageError: it looks like a command and is none, or takes something else.
    """
    found = SHAPE.fullmatch(text.strip())
    if found is None:
        return text[1:] if text.startswith("//") else text
    name, argument = found[1].lower(), (found[2] or "").strip()
    word = WORDS.get(name)
    if word is None:
        from ask.suggestions import suggest

        near = suggest(name, WORDS)
        hint = f"did you mean /{near}?" if near else "/help tells what there is,"
        raise UsageError(f"there is no command /{name}", f"{hint} // begins a message with a slash")
    if argument and not word.takes:
        raise UsageError(f"/{name} takes nothing", f"// begins a message with a slash: /{text.strip()}"[:120])
    if not argument and word.takes and not word.takes.startswith("["):
        raise UsageError(f"/{name} takes {word.takes}", f"type /{name} {word.takes}")
    if "\n" in argument and not word.lines:
        raise UsageError(f"/{name} takes one line", "// begins a message with a slash")
    return Order(name, argument)
