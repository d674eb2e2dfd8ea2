"""Extract the code or shell command that was asked for from a model's answer.

Models wrap both in Markdown and prose even when told not to. A multi-line command stays as it is: nothing here
parses shell syntax.
"""

from __future__ import annotations

import re
import shlex
from contextlib import suppress
from itertools import dropwhile
from textwrap import dedent

from ask.errors import IncompleteResponseError
from ask.schemas.code_blocks import FENCE_PATTERN, HEREDOC_PATTERN, iter_code_blocks, iter_fences
from ask.text import CONTROL_CHARACTERS, escape_non_ascii, format_one_line


def extract_code(response_text: str) -> str:
    """Return the code of the first fenced block that is not empty.

    Without such a block, return the answer without surrounding newlines. A block without a closing fence counts too:
    the answer may be truncated.
    """
    return next(iter_code_blocks(response_text), response_text.strip("\n"))


def extract_last_block(response_text: str) -> str:
    """Return the code of the last fenced block; without one, the answer without surrounding newlines."""
    *_, last = (response_text.strip("\n"), *iter_code_blocks(response_text))
    return last


MAX_EXCERPT_CHARACTERS = 200
"""Maximum length of the answer's excerpt in an error."""
MAX_PARSED_CHARACTERS = 500_000
"""Maximum number of characters that all attempts to find the end of a command may parse."""
CODE_SPAN_PATTERN = re.compile(r"(?<!`)(`{1,3})(?!`)(.+?)(?<!`)\1(?!`)")
COMMENT_PATTERN = re.compile(r"\s*(?:#|\Z)")
"""A comment or an empty line."""
SHELL_PROMPT_PATTERN = re.compile(r"[$%] +")
MARKDOWN_START_PATTERN = re.compile(r"(?:[-*+>]|\d+[.)])\s|\*\*|`|</?\w+>$")
"""Start of a Markdown line that is not a command: a list item, a quote, bold text, a code span, or a tag alone."""
LABEL_PATTERN = re.compile(r"\A\s*command:[ \t]+", re.IGNORECASE)
OPTION_OR_PIPE_PATTERN = re.compile(r"\s--?[A-Za-z]|\|")


def extract_command(response_text: str) -> str:
    """Extract the command from an answer.

    Fences, shell prompts, leading comments and prose are removed.

    Raises:
        IncompleteResponseError: there is no command, or it contains control characters.
    """
    text = response_text.replace("\r\n", "\n")
    blocks = [] if _is_heredoc_before_fence(text) else list(iter_code_blocks(text))
    blocks = blocks or [_strip_prose(LABEL_PATTERN.sub("", text))]
    command = next(filter(None, map(_strip_prompts, blocks)), "")
    if not command:
        excerpt = format_one_line(re.sub(r"(?m)^#+", "", text), MAX_EXCERPT_CHARACTERS)
        raise IncompleteResponseError("the answer contains no command", excerpt)
    if re.search(CONTROL_CHARACTERS, command):
        excerpt = format_one_line(escape_non_ascii(command), MAX_EXCERPT_CHARACTERS)
        raise IncompleteResponseError("the command contains control characters", excerpt)
    return command


def _is_heredoc_before_fence(text: str) -> bool:
    """Check whether the first fence is in a here-document of a command without fences.

    If the here-document seems to end in a block, so that its last fence closes nothing, prose mentions one.
    """
    lines = text.split("\n")
    first_fence = next((number for number, line in enumerate(lines) if FENCE_PATTERN.match(line)), len(lines))
    command = list(dropwhile(_is_blank_or_prose, lines[:first_fence]))
    fences = [number for number, _ in iter_fences([*command, *lines[first_fence:]])]
    return first_fence < len(lines) and len(command) not in fences and len(fences) % 2 == 0


def _strip_prompts(block: str) -> str:
    """Remove shell prompts, the output below them and leading comments from a block.

    Return "" if there is no command.
    """
    lines = list(dropwhile(COMMENT_PATTERN.match, dedent(block).strip("\n").split("\n")))
    if lines and SHELL_PROMPT_PATTERN.match(lines[0]):
        lines = list(dropwhile(COMMENT_PATTERN.match, _extract_session_commands(lines)))
    return "\n".join(lines).strip()


def _extract_session_commands(lines: list[str]) -> list[str]:
    """Return the commands of a shell session, with their continuation lines."""
    commands: list[str] = []
    is_continued = False
    for line in lines:
        prompt = SHELL_PROMPT_PATTERN.match(line)
        if prompt or is_continued:
            commands.append(line[prompt.end() :] if prompt else line.removeprefix("> "))
            is_continued = line.endswith("\\")
    return commands


def _strip_prose(text: str) -> str:
    """Remove the lines before and after a command in a text without code blocks.

    If no line looks like a command, return a code span, preferably one with a space; return "" if there is none.
    """
    lines = dedent(text).strip("\n").split("\n")
    lines = list(dropwhile(_is_blank_or_prose, lines))
    if not lines:
        spans: list[str] = [span.strip() for _, span in CODE_SPAN_PATTERN.findall(text)]
        return next((span for span in spans if " " in span), (spans or [""])[0])
    delimiter, code, parsed_size = "", "", 0
    for number, line in enumerate(lines):
        if delimiter:
            delimiter = "" if line.strip() == delimiter else delimiter
            continue
        if number and parsed_size < MAX_PARSED_CHARACTERS and _is_prose(line):
            parsed_size += len(code)
            if _is_complete_command(code):
                return "\n".join(lines[:number]).rstrip()
        heredoc = HEREDOC_PATTERN.search(line)
        delimiter = heredoc[2] if heredoc else ""
        code += HEREDOC_PATTERN.sub("", line) + "\n"
    return "\n".join(lines)


def _is_complete_command(command: str) -> bool:
    """Check whether a command without its here-documents may end here.

    It may not after an open quote, a line continuation or the start of another here-document.
    """
    if command.endswith("\\\n") or "<<" in command:
        return False
    with suppress(ValueError):
        return bool(shlex.split(command))
    return False


def _is_blank_or_prose(line: str) -> bool:
    return not line.strip() or _is_prose(line)


def _is_prose(line: str) -> bool:
    """Check whether a line looks like a sentence or Markdown, not like a command."""
    line = line.strip()
    if not line or MARKDOWN_START_PATTERN.match(line):
        return bool(line)
    first_word = line.split()[0].rstrip(",.:;!?")
    if not first_word.isascii():
        return first_word[:1].isalpha()
    letters = first_word.replace("'", "")
    is_sentence_start: bool = letters.isalpha() and letters[0].isupper() and letters[1:] == letters[1:].lower()
    return is_sentence_start and (line[-1] in ".:!?" or not OPTION_OR_PIPE_PATTERN.search(line))
