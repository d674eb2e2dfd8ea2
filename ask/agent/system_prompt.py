"""The system prompt: the default first, in every request, then the user's own."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path

import ask_prompts
from ask.messages import ToolSpec
from ask.text import one_line
from ask.version import VERSION

FOLDER = Path(str(ask_prompts.__file__)).parent
"""Where the prompts are that come with `ask`."""

SUMMARY_LIMIT = 200
"""Characters of a tool's line, beside its name: the description is sent whole with the tool itself."""
WITHOUT_TOOLS = "You have no tools in this conversation: answer from what you are given."
WITH_TOOLS = """\
You can act on this machine with these tools; use them when the answer depends on what is here, and look \
before you claim. Ask for several at once where they do not depend on each other.
{lines}"""
WITH_PLACEHOLDERS = """\
The tools run in a sandbox, which holds the place of missing files with empty, read-only ones. These do not belong to \
the user's files and are gone afterwards, so do not count or mention them: {names}."""


def system_prompt(
    tools: Iterable[ToolSpec],
    own: str,
    *,
    today: date,
    directory: Path,
    environment: Mapping[str, str],
    placeholders: Iterable[Path] = (),
    form: str = "",
    schema: str = "",
) -> str:
    """The system text of a run: the same for all of its requests, so that providers can cache it.

    Args:
        tools: the tools on offer; each gets a line.
        own: the user's own system text, which comes after the default.
        today: the day, not the time, for the same reason.
        directory: the working directory.
        environment: tells the shell.
        placeholders: the empty files and folders that exist only because of safe mode.
        form: the prompt that asks for an answer of a certain form, which stands between the two; "" for any form.
        schema: the JSON Schema of which the form "schema" tells.
    """
    lines = "\n".join(f"- {tool.name}: {summary(tool.description)}" for tool in tools)
    names = ", ".join(_name_in_prompt(path, directory) for path in sorted(placeholders))
    machine = os.uname()
    values = {
        "program": "ask",
        "version": VERSION,
        "date": f"{today:%A}, {today.isoformat()}",
        "system": f"{machine.sysname} {machine.release} {machine.machine}",
        "shell": os.path.basename(environment.get("SHELL", "")) or "unknown",
        "command_shell": os.path.basename(shell_of(environment)),
        "directory": _as_utf8(directory),
        "schema": schema,
        "tools": WITH_TOOLS.format(lines=lines) if lines else WITHOUT_TOOLS,
    }
    if lines and names:
        values["tools"] += "\n\n" + WITH_PLACEHOLDERS.format(names=names)
    default = "\n\n".join(prompt_text(name) for name in ("system", form) if name)
    text = re.sub(r"\{\{(\w+)\}\}", lambda match: values[match[1]], default)
    return f"{text}\n\n{own.strip()}" if own.strip() else text


def _name_in_prompt(path: Path, directory: Path) -> str:
    return one_line(_as_utf8(path.relative_to(directory) if path.is_relative_to(directory) else path))


def _as_utf8(path: Path) -> str:
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def summary(description: str) -> str:
    """The first sentence of a description, of its first paragraph at most, on one line."""
    paragraph = re.split(r"\n\s*\n", description.strip(), maxsplit=1)[0]
    sentence = one_line(paragraph).split(". ")[0].rstrip(".") + "."
    return one_line(sentence, SUMMARY_LIMIT)


def shell_of(environment: Mapping[str, str]) -> str:
    """The program that runs the user's commands."""
    return environment.get("SHELL") or "/bin/sh"


def prompt_text(name: str) -> str:
    """The text of a prompt that comes with `ask`."""
    return (FOLDER / f"{name}.md").read_text(encoding="utf-8").strip()
