"""The system prompt: the default prompt, then the user's own."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path

import ask_prompts
from ask.messages import ToolSpec
from ask.text import format_one_line
from ask.version import VERSION

PROMPTS_FOLDER = Path(str(ask_prompts.__file__)).parent
"""The folder of the prompts that come with `ask`."""

MAX_SUMMARY_LENGTH = 200
"""Characters of a tool's description in the prompt. The full one is sent with the tool's definition."""
NO_TOOLS_TEXT = "You have no tools in this conversation: answer from what you are given."
TOOLS_TEXT = """\
You can act on this machine with these tools; use them when the answer depends on what is here, and look \
before you claim. Ask for several at once where they do not depend on each other.
{lines}"""
PLACEHOLDERS_TEXT = """\
The tools run in a sandbox, which holds the place of missing files with empty, read-only ones. These do not belong to \
the user's files and are gone afterwards, so do not count or mention them: {names}."""


def build_system_prompt(
    tools: Iterable[ToolSpec],
    user_prompt: str,
    *,
    today: date,
    directory: Path,
    environment: Mapping[str, str],
    placeholders: Iterable[Path] = (),
    format_prompt_name: str = "",
    schema: str = "",
) -> str:
    """Build the system prompt of a run.

    It is the same for all requests, so that providers can cache it. For the same reason it contains the date but not
    the time.

    Args:
        tools: the offered tools; each is listed on one line.
        user_prompt: the user's own system prompt, appended to the default.
        today: the current date.
        directory: the working directory.
        environment: the environment, for the user's shell.
        placeholders: the empty files and folders that exist only because of safe mode.
        format_prompt_name: the prompt for an output format, inserted after the default; "" for any format.
        schema: the JSON Schema that the prompt of the format "schema" includes.
    """
    lines = "\n".join(f"- {tool.name}: {summarize_description(tool.description)}" for tool in tools)
    placeholder_names = ", ".join(_format_placeholder_path(path, directory) for path in sorted(placeholders))
    uname = os.uname()
    values = {
        "program": "ask",
        "version": VERSION,
        "date": f"{today:%A}, {today.isoformat()}",
        "system": f"{uname.sysname} {uname.release} {uname.machine}",
        "shell": os.path.basename(environment.get("SHELL", "")) or "unknown",
        "command_shell": os.path.basename(find_shell(environment)),
        "directory": _to_utf8(directory),
        "schema": schema,
        "tools": TOOLS_TEXT.format(lines=lines) if lines else NO_TOOLS_TEXT,
    }
    if lines and placeholder_names:
        values["tools"] += "\n\n" + PLACEHOLDERS_TEXT.format(names=placeholder_names)
    default = "\n\n".join(read_prompt(name) for name in ("system", format_prompt_name) if name)
    text = re.sub(r"\{\{(\w+)\}\}", lambda match: values[match[1]], default)
    return f"{text}\n\n{user_prompt.strip()}" if user_prompt.strip() else text


def _format_placeholder_path(path: Path, directory: Path) -> str:
    return format_one_line(_to_utf8(path.relative_to(directory) if path.is_relative_to(directory) else path))


def _to_utf8(path: Path) -> str:
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def summarize_description(description: str) -> str:
    """Return the first sentence of a description, on one line."""
    paragraph = re.split(r"\n\s*\n", description.strip(), maxsplit=1)[0]
    sentence = format_one_line(paragraph).split(". ")[0].rstrip(".") + "."
    return format_one_line(sentence, MAX_SUMMARY_LENGTH)


def find_shell(environment: Mapping[str, str]) -> str:
    """Return the shell that runs the user's commands."""
    return environment.get("SHELL") or "/bin/sh"


def read_prompt(name: str) -> str:
    """Read a prompt that comes with `ask`."""
    return (PROMPTS_FOLDER / f"{name}.md").read_text(encoding="utf-8").strip()
