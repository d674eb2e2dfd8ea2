"""Extract the code, shell command or JSON value that was asked for from a model's answer.

Models wrap all three in Markdown and prose even when told not to. A multi-line command stays as it is: nothing here
parses shell syntax.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import suppress
from textwrap import dedent
from typing import Any, NoReturn

from ask.errors import IncompleteResponseError
from ask.text import CONTROL_CHARACTERS, escape_non_ascii, format_one_line


def extract_code(response_text: str) -> str:
    """The code of the first fenced block that holds any, without its last newline; the whole text without such a block.

    A block that is cut off counts, as far as it goes.
    """
    return next(iter_code_blocks(response_text), response_text.strip("\n"))


def iter_code_blocks(response_text: str) -> Iterator[str]:
    """The code of each fenced block that is not empty, in order, whether it stands in a list, a quote or far in."""
    from markdown_it import MarkdownIt

    reader = MarkdownIt("zero").enable(["fence", "list", "blockquote"])  # no others, so that any depth may be a fence
    for token in reader.parse(response_text):
        if token.type == "fence" and token.content.strip():
            yield token.content.removesuffix("\n")


MAX_EXCERPT_LENGTH = 200
"""Characters that are shown of an answer without a command."""
THINKING_PATTERN = re.compile(r"\A\s*<(think|thinking)>.*?</\1>", re.DOTALL)
"""How some models begin that are served without a reader for their reasoning."""
CODE_SPAN_PATTERN = re.compile(r"(?<!`)(`{1,3})(?!`)(.+?)(?<!`)\1(?!`)")
PROMPT_SIGN_PATTERN = re.compile(r"[$%] +")
MARKDOWN_START_PATTERN = re.compile(r"(?:[-*+>]|\d+[.)])\s|\*\*|`")
"""How a line begins that is Markdown and no command: a list, a quote, bold, code among words."""
OPTION_OR_PIPE_PATTERN = re.compile(r"\s--?[A-Za-z]|\|")


def extract_command(response_text: str) -> str:
    """The command in an answer, without fences, prompt signs, comments before it and words around it.

    Raises:
        IncompleteAnswer: there is none, or one with control characters in it.
    """
    text = THINKING_PATTERN.sub("", response_text.replace("\r\n", "\n"))
    blocks = list(iter_code_blocks(text)) or [strip_prose(text)]
    command = next(filter(None, map(strip_prompt_signs, blocks)), "")
    if not command:
        said = format_one_line(re.sub(r"(?m)^#+", "", text), MAX_EXCERPT_LENGTH)
        raise IncompleteResponseError("there is no command in the answer", said)
    if CONTROL_CHARACTERS.search(command):
        shown = format_one_line(escape_non_ascii(command), MAX_EXCERPT_LENGTH)
        raise IncompleteResponseError("the command has control characters in it", shown)
    return command


def strip_prompt_signs(block: str) -> str:
    """A block's command without prompt signs, the output below them, and the comments above all; "" for no command."""
    lines = dedent(block).strip("\n").split("\n")
    while lines and (not lines[0].strip() or lines[0].lstrip().startswith("#")):
        lines.pop(0)
    if lines and PROMPT_SIGN_PATTERN.match(lines[0]):
        lines = extract_typed_lines(lines)
    return "\n".join(lines).strip()


def extract_typed_lines(lines: list[str]) -> list[str]:
    """Of a session's lines, what stands behind prompt signs, with the lines that go on with it."""
    commands: list[str] = []
    goes_on = False
    for line in lines:
        sign = PROMPT_SIGN_PATTERN.match(line)
        if sign or goes_on:
            commands.append(line[sign.end() :] if sign else line.removeprefix("> "))
            goes_on = line.endswith("\\")
    return commands


def strip_prose(text: str) -> str:
    """The lines of a text without a block that may be a command, or else code among its words; "" without any."""
    lines = dedent(text).strip("\n").split("\n")
    while lines and (not lines[0].strip() or is_prose(lines[0])):
        lines.pop(0)
    if not lines:
        spans: list[str] = [span.strip() for _, span in CODE_SPAN_PATTERN.findall(text)]
        return next((span for span in spans if " " in span), (spans or [""])[0])
    for number, line in enumerate(lines):
        until = "\n".join(lines[:number])
        if number and is_prose(line) and is_complete_command(until):
            return until
    return "\n".join(lines)


def is_complete_command(command: str) -> bool:
    """Whether a command may end here: no quote is open, and nothing says that a text follows."""
    if command.endswith("\\") or "<<" in command:
        return False
    try:
        shlex.split(command)
    except ValueError:
        return False
    return True


def is_prose(line: str) -> bool:
    """Whether a line reads like words, not like a command: it begins as a sentence does, or with Markdown's signs."""
    line = line.strip()
    if not line or MARKDOWN_START_PATTERN.match(line):
        return bool(line)
    first = line.split()[0].rstrip(",.:;!?")
    if not first.isascii():
        return first[:1].isalpha()
    letters = first.replace("'", "")
    sentence: bool = letters.isalpha() and letters[0].isupper() and letters[1:] == letters[1:].lower()
    return sentence and (line[-1] in ".:!?" or not OPTION_OR_PIPE_PATTERN.search(line))


MAX_ATTEMPTS = 100
"""Brackets in a text that are looked at, whether a value begins there."""
NO_JSON_MESSAGE = "there is no JSON value in it"


def extract_json(response_text: str, find_problem: Callable[[Any], str]) -> tuple[Any, str]:
    """The first value in an answer that fits, and ""; else the first value, or None, and what is wrong.

    Args:
        response_text: all of it.
        find_problem: what keeps a value from fitting; "" for nothing.
    """
    first: tuple[Any, str] | None = None
    for value in iter_json_values(THINKING_PATTERN.sub("", response_text)):
        found = value, find_problem(value)
        if not found[1]:
            return found
        first = first or found
    return first or (None, NO_JSON_MESSAGE)


def iter_json_values(text: str) -> Iterator[Any]:
    """The values that a text may stand for: itself, the fenced blocks in it, and objects and arrays in its prose."""
    reader = json.JSONDecoder(parse_constant=_reject_constant, parse_float=_parse_finite_float)
    for whole in (text, *iter_code_blocks(text)):
        with suppress(ValueError, RecursionError):
            yield reader.decode(whole.strip())
    place = 0
    for _ in range(MAX_ATTEMPTS):
        place = min((at for at in (text.find(bracket, place) for bracket in "{[") if at >= 0), default=-1)
        if place < 0:
            return
        try:
            value, place = reader.raw_decode(text, place)
        except (ValueError, RecursionError):
            place += 1
        else:
            yield value


def _reject_constant(constant: str) -> NoReturn:
    """NaN and Infinity, which Python reads, are no JSON."""
    raise ValueError(constant)


def _parse_finite_float(number: str) -> float:
    """A number that can be written again."""
    value = float(number)
    return value if value - value == 0 else _reject_constant(number)
