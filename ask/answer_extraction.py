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

from ask.errors import IncompleteAnswer
from ask.text import CONTROL, one_line, spelled_out


def code_in(answer: str) -> str:
    """The code of the first fenced block that holds any, without its last newline; the whole text without such a block.

    A block that is cut off counts, as far as it goes.
    """
    return next(code_blocks(answer), answer.strip("\n"))


def code_blocks(answer: str) -> Iterator[str]:
    """The code of each fenced block that is not empty, in order, whether it stands in a list, a quote or far in."""
    from markdown_it import MarkdownIt

    reader = MarkdownIt("zero").enable(["fence", "list", "blockquote"])  # no others, so that any depth may be a fence
    for token in reader.parse(answer):
        if token.type == "fence" and token.content.strip():
            yield token.content.removesuffix("\n")


SAID = 200
"""Characters that are shown of an answer without a command."""
THOUGHTS = re.compile(r"\A\s*<(think|thinking)>.*?</\1>", re.DOTALL)
"""How some models begin that are served without a reader for their reasoning."""
CODE_SPAN = re.compile(r"(?<!`)(`{1,3})(?!`)(.+?)(?<!`)\1(?!`)")
PROMPT_SIGN = re.compile(r"[$%] +")
IN_MARKDOWN = re.compile(r"(?:[-*+>]|\d+[.)])\s|\*\*|`")
"""How a line begins that is Markdown and no command: a list, a quote, bold, code among words."""
OPTION_OR_PIPE = re.compile(r"\s--?[A-Za-z]|\|")


def command_in(answer: str) -> str:
    """The command in an answer, without fences, prompt signs, comments before it and words around it.

    Raises:
        IncompleteAnswer: there is none, or one with control characters in it.
    """
    text = THOUGHTS.sub("", answer.replace("\r\n", "\n"))
    blocks = list(code_blocks(text)) or [without_prose(text)]
    command = next(filter(None, map(without_marks, blocks)), "")
    if not command:
        said = one_line(re.sub(r"(?m)^#+", "", text), SAID)
        raise IncompleteAnswer("there is no command in the answer", said)
    if CONTROL.search(command):
        shown = one_line(spelled_out(command), SAID)
        raise IncompleteAnswer("the command has control characters in it", shown)
    return command


def without_marks(block: str) -> str:
    """A block's command without prompt signs, the output below them, and the comments above all; "" for no command."""
    lines = dedent(block).strip("\n").split("\n")
    while lines and (not lines[0].strip() or lines[0].lstrip().startswith("#")):
        lines.pop(0)
    if lines and PROMPT_SIGN.match(lines[0]):
        lines = typed(lines)
    return "\n".join(lines).strip()


def typed(lines: list[str]) -> list[str]:
    """Of a session's lines, what stands behind prompt signs, with the lines that go on with it."""
    commands: list[str] = []
    goes_on = False
    for line in lines:
        sign = PROMPT_SIGN.match(line)
        if sign or goes_on:
            commands.append(line[sign.end() :] if sign else line.removeprefix("> "))
            goes_on = line.endswith("\\")
    return commands


def without_prose(text: str) -> str:
    """The lines of a text without a block that may be a command, or else code among its words; "" without any."""
    lines = dedent(text).strip("\n").split("\n")
    while lines and (not lines[0].strip() or is_prose(lines[0])):
        lines.pop(0)
    if not lines:
        spans: list[str] = [span.strip() for _, span in CODE_SPAN.findall(text)]
        return next((span for span in spans if " " in span), (spans or [""])[0])
    for number, line in enumerate(lines):
        until = "\n".join(lines[:number])
        if number and is_prose(line) and is_closed(until):
            return until
    return "\n".join(lines)


def is_closed(command: str) -> bool:
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
    if not line or IN_MARKDOWN.match(line):
        return bool(line)
    first = line.split()[0].rstrip(",.:;!?")
    if not first.isascii():
        return first[:1].isalpha()
    letters = first.replace("'", "")
    sentence: bool = letters.isalpha() and letters[0].isupper() and letters[1:] == letters[1:].lower()
    return sentence and (line[-1] in ".:!?" or not OPTION_OR_PIPE.search(line))


TRIES = 100
"""Brackets in a text that are looked at, whether a value begins there."""
NO_JSON = "there is no JSON value in it"


def json_in(answer: str, problem: Callable[[Any], str]) -> tuple[Any, str]:
    """The first value in an answer that fits, and ""; else the first value, or None, and what is wrong.

    Args:
        answer: all of it.
        problem: what keeps a value from fitting; "" for nothing.
    """
    first: tuple[Any, str] | None = None
    for value in values_in(THOUGHTS.sub("", answer)):
        found = value, problem(value)
        if not found[1]:
            return found
        first = first or found
    return first or (None, NO_JSON)


def values_in(text: str) -> Iterator[Any]:
    """The values that a text may stand for: itself, the fenced blocks in it, and objects and arrays in its prose."""
    reader = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)
    for whole in (text, *code_blocks(text)):
        with suppress(ValueError, RecursionError):
            yield reader.decode(whole.strip())
    place = 0
    for _ in range(TRIES):
        place = min((at for at in (text.find(bracket, place) for bracket in "{[") if at >= 0), default=-1)
        if place < 0:
            return
        try:
            value, place = reader.raw_decode(text, place)
        except (ValueError, RecursionError):
            place += 1
        else:
            yield value


def _refuse(constant: str) -> NoReturn:
    """NaN and Infinity, which Python reads, are no JSON."""
    raise ValueError(constant)


def _finite(number: str) -> float:
    """A number that can be written again."""
    value = float(number)
    return value if value - value == 0 else _refuse(number)
