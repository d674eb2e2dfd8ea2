"""The blocks that mark files and piped text in a prompt: how they are written, and read back for display."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import NamedTuple

from ask.errors import UsageError
from ask.text import format_one_line, repair_surrogates

OPENING_TAG_PATTERN = re.compile(r'(?:\A|\n\n)<(?P<mark>(?:file|stdin)(?:-\d+)?)(?: name=(?P<name>"[^\n]*"))?>\n')
"""The opening tag of a file or of piped text in a prompt, as `ask.inputs` writes it."""


class PromptPart(NamedTuple):
    """A part of a prompt.

    The title of a file or of piped text is its name; the title of the user's words is "".
    """

    title: str
    text: str


def split_prompt(prompt: str) -> list[PromptPart]:
    """Split a prompt into its parts, in order."""
    parts, position = [], 0
    while opening := OPENING_TAG_PATTERN.search(prompt, position):
        closing = f"\n</{opening['mark']}>"
        # An empty block has only one newline between its tags.
        end = prompt.find(closing, opening.end() - 1)
        after = end + len(closing)
        if end < 0 or prompt[after : after + 2] not in ("", "\n\n"):
            break
        parts.append(PromptPart("", prompt[position : opening.start()]))
        parts.append(PromptPart(_format_title(opening["name"]), prompt[opening.end() : end]))
        position = after
    parts.append(PromptPart("", prompt[position:]))
    return [part for part in parts if part.title or part.text.strip("\n")]


def _format_title(name: str | None) -> str:
    if name is None:
        return "stdin"
    try:
        return format_one_line(repair_surrogates(json.loads(name))) or "file"
    except ValueError:
        return format_one_line(name)


def compose_prompt(prompt_text: str, files: Sequence[tuple[str, str]], stdin_text: str) -> str:
    """Compose the user's message from the prompt, the files and the piped text.

    Piped text without anything else is the prompt. Otherwise files and piped text become tagged blocks.

    Raises:
        UsageError: there is no prompt.
    """
    if stdin_text.strip() and not prompt_text and not files:
        return stdin_text.strip("\n")
    text = format_blocks(prompt_text, files, stdin_text)
    if not text:
        raise UsageError(
            "no question given", 'try: ask "why is the sky blue?" (ask chat opens a chat, ask --help lists options)'
        )
    return text


def format_blocks(prompt_text: str, files: Sequence[tuple[str, str]], stdin_text: str) -> str:
    """Join the prompt with the files and piped text, which become tagged blocks."""
    blocks = [format_block("file", text, f" name={json.dumps(name, ensure_ascii=False)}") for name, text in files]
    if stdin_text.strip():
        blocks.append(format_block("stdin", stdin_text, ""))
    return "\n\n".join(filter(None, (prompt_text, *blocks)))


def format_block(tag: str, text: str, attributes: str) -> str:
    """Enclose text in tags that do not occur in it, so that it cannot fake its end."""
    name, number = tag, 1
    while f"</{name}>" in attributes + text:
        number += 1
        name = f"{tag}-{number}"
    return f"<{name}{attributes}>\n{text.rstrip(chr(10))}\n</{name}>"
