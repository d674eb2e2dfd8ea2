"""What `--code` and `--cmd` take out of an answer: the code in its fenced blocks. `command` makes a command of it."""

from __future__ import annotations

from collections.abc import Iterator


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
