"""Find the fenced code blocks of a model's answer, also where the code contains fences itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it.rules_block import StateBlock
    from markdown_it.utils import EnvType

FENCE_PATTERN = re.compile(r"[ \t]*(?P<marker>`{3,}|~{3,})[ \t]*(?P<info>[^`]*?)[ \t]*\Z")
HEREDOC_PATTERN = re.compile(r"(?<!<)<<-?[ \t]*(['\"]?)([A-Z_][A-Z\d_]*)\b\1(?![ \t]*(?:<<|[;`]))")
"""Start of a here-document in a shell command, but not `<<EOF` in prose or cout << "YES"; in code."""
MAX_LINES_READ_AGAIN = 100_000
"""Maximum number of lines of an answer that are read again to find the ends of blocks."""


def iter_code_blocks(response_text: str) -> Iterator[str]:
    """Yield the code of each non-empty fenced block, also in lists and quotes."""
    from markdown_it import MarkdownIt

    # Indented code is not enabled, so that a fence may have any indent.
    parser = MarkdownIt("zero").enable(["fence", "list", "blockquote"])
    parser.block.ruler.at("fence", _parse_fence, {"alt": ["paragraph", "reference", "blockquote", "list"]})
    for token in parser.parse(response_text):
        if token.type == "fence" and token.content.strip():
            yield token.content.removesuffix("\n")


def iter_fences(lines: Sequence[str]) -> Iterator[tuple[int, re.Match[str]]]:
    """Yield the number and the match of each line that is a fence, except in here-documents."""
    last_numbers = {line.strip(): number for number, line in enumerate(lines)}
    delimiter = ""
    for number, line in enumerate(lines):
        if delimiter:
            delimiter = "" if line.strip() == delimiter else delimiter
        elif fence := FENCE_PATTERN.match(line):
            yield number, fence
        elif (heredoc := HEREDOC_PATTERN.search(line)) and last_numbers.get(heredoc[2], -1) > number:
            delimiter = heredoc[2]


def _parse_fence(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Parse a fenced block, as a block rule of markdown-it."""
    opening = FENCE_PATTERN.match(_get_line(state, start))
    if not opening or silent:
        return bool(opening)
    code_fences: list[int] = []
    lines = _iter_block_lines(state, start, end, code_fences)
    closing, is_closed = _find_closing_fence(lines, opening["marker"], state.env)
    if code_fences and (not is_closed or sum(number <= start + closing for number in code_fences) % 2):
        # They are no pairs: one of them closes the block.
        lines = _iter_block_lines(state, start, end, None)
        closing, is_closed = _find_closing_fence(lines, opening["marker"], state.env)
    last = start + 1 + closing
    state.line = last + is_closed
    token = state.push("fence", "code", 0)
    token.content = state.getLines(start + 1, last, state.sCount[start], True)
    return True


def _iter_block_lines(state: StateBlock, start: int, end: int, code_fences: list[int] | None) -> Iterator[str]:
    """Yield the lines after a fence, up to the end of its list or quote.

    A fence that is indented further than the first is code, such as in a docstring: if there is a list for the numbers
    of such lines, they are added to it, and "" is yielded instead.
    """
    for number in range(start + 1, end):
        if state.sCount[number] < state.blkIndent and not state.isEmpty(number):
            return
        line = _get_line(state, number)
        is_indented = state.sCount[number] >= state.sCount[start] + 4
        if code_fences is not None and is_indented and FENCE_PATTERN.match(line):
            code_fences.append(number)
            line = ""
        yield line


def _get_line(state: StateBlock, number: int) -> str:
    return state.src[state.bMarks[number] + state.tShift[number] : state.eMarks[number]]


def _find_closing_fence(following: Iterator[str], marker: str, env: EnvType) -> tuple[int, bool]:
    """Return the number of the line that closes a block, and True; without one, the number of lines, and False.

    Models often put Markdown with code into a block with fences of the same length. The first fence without a language
    would end it, and the last one would begin another. If the fences are balanced when those with a language open
    blocks within the block, they do.
    """
    lines: list[str] = []
    for line in following:
        lines.append(line)
        if (fence := FENCE_PATTERN.match(line)) and fence["marker"].startswith(marker) and not fence["info"]:
            break
    else:
        return len(lines), False
    has_fences = any(FENCE_PATTERN.match(line) or HEREDOC_PATTERN.search(line) for line in lines[:-1])
    if not has_fences or env.get("lines_read", 0) > MAX_LINES_READ_AGAIN:
        return len(lines) - 1, True
    lines += following
    env["lines_read"] = env.get("lines_read", 0) + len(lines)
    fences = [(number, fence) for number, fence in iter_fences(lines) if fence["marker"].startswith(marker)]
    depth = 1
    for position, (number, fence) in enumerate(fences, 1):
        depth += 1 if fence["info"] else -1
        if not depth:
            if (len(fences) - position) % 2 == 0:
                return number, True
            break
    first = next((number for number, fence in fences if not fence["info"]), None)
    return (len(lines), False) if first is None else (first, True)
