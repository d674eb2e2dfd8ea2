"""Where streaming Markdown is cut: at the same places however it comes, and none of it is lost."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.render.markdown_blocks import (
    MAX_BLOCK_LENGTH,
    BlockEvent,
    BlockReader,
    CodeEnd,
    CodeLine,
    CodeStart,
    MarkdownBlock,
    RawText,
)
from ask.render.markdown_rows import get_parser

BLOCKS = [
    *(
        "# Heading",
        "Setext\n------",
        "A paragraph\nof two lines",
        "> a quote\n> - with a list",
        "***",
        "|a|b|\n|-|-|\n|1|2|",
    ),
    *(
        "- item",
        "* other",
        "1. one",
        "2) two",
        "- a\n  - nested\n\n  more of it",
        "3. x\n   ```sh\n   - y\n\n   z\n   ```",
    ),
    *("<pre>\na*b*2\n\n__init__\n</pre>", "<!-- a\n\n# b -->", "<div>\n*x*", "<b>bold</b> *text*"),
    *("```py\ncode\n\n# no heading\n```", "~~~\n```\n~~~", "    indented\n\n    code", "- [ ] task", "[1]: http://x"),
]
LINES = [
    *"\n".join(BLOCKS).split("\n"),
    "",
    "",
    "```",
    "`",
    "  ",
    "\t- x",
    "    ",
    "-",
    "1.",
    "=",
    "- ```",
    "> ```",
    "  ~~~",
]


def pieces(*texts: str) -> list[BlockEvent]:
    blocks = BlockReader()
    return [piece for text in texts for piece in blocks.feed(text)] + list(blocks.finish())


def source_of(taken: list[BlockEvent]) -> list[str]:
    """The lines of the text that was taken apart, without empty ones and fences."""
    texts = "\n".join(piece.text for piece in taken if isinstance(piece, MarkdownBlock | CodeLine | RawText))
    return [line.strip() for line in texts.split("\n") if line.strip()]


def kinds(text: str) -> list[str]:
    """What a parser finds in a text, without where lists begin and end."""
    found = [token.type for token in get_parser().parse(text) if token.level == 0 or token.type == "list_item_open"]
    return [kind for kind in found if "list_" not in kind or kind == "list_item_open"]


@given(st.lists(st.sampled_from(LINES), max_size=12), st.lists(st.integers(0, 200), max_size=8))
def test_it_is_cut_at_the_same_places_however_it_comes(lines: list[str], places: list[int]) -> None:
    text = "\n".join(lines)
    cuts = sorted({0, len(text), *(place for place in places if place < len(text))})
    streamed = pieces(*(text[begin:end] for begin, end in pairwise(cuts)))
    assert streamed == pieces(text) == pieces(*text)


@given(st.lists(st.sampled_from(LINES), max_size=12))
def test_no_line_is_lost(lines: list[str]) -> None:
    fences = ("```", "~~~")
    kept = [line for line in source_of(pieces("\n".join(lines))) if not line.startswith(fences)]
    assert kept == [line.strip() for line in lines if line.strip() and not line.strip().startswith(fences)]


@given(st.lists(st.sampled_from(BLOCKS), max_size=8))
def test_the_parts_are_read_as_the_whole_would_be(blocks: list[str]) -> None:
    text = "\n\n".join(block for block in blocks if not block.startswith("    "))
    parts: list[str] = []
    for piece in pieces(text):
        parts += (
            ["fence"] if isinstance(piece, CodeStart) else kinds(piece.text) if isinstance(piece, MarkdownBlock) else []
        )
    assert parts == kinds(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\nb\n\nc", [MarkdownBlock("a\nb", has_gap=False), MarkdownBlock("c", has_gap=True)]),
        (
            "a\n# b\nc",
            [MarkdownBlock("a", has_gap=False), MarkdownBlock("# b", has_gap=False), MarkdownBlock("c", has_gap=False)],
        ),
        (
            "- a\n- b\n\n- c",
            [
                MarkdownBlock("- a", has_gap=False),
                MarkdownBlock("- b", has_gap=False),
                MarkdownBlock("- c", has_gap=True),
            ],
        ),
        ("In\n2. no list", [MarkdownBlock("In\n2. no list", has_gap=False)]),
        ("- a\nlazy\n\nnew", [MarkdownBlock("- a\nlazy", has_gap=False), MarkdownBlock("new", has_gap=True)]),
        ("``` {.py x}\n a", [CodeStart("py", has_gap=False), CodeLine(" a"), CodeEnd()]),
        ("  ```\n  a\n b\n````", [CodeStart("", has_gap=False), CodeLine("a"), CodeLine("b"), CodeEnd()]),
        ("  ```\n\ta\tb", [CodeStart("", has_gap=False), CodeLine("  a\tb"), CodeEnd()]),
        ("``` `\nx", [MarkdownBlock("``` `\nx", has_gap=False)]),
        (
            "<pre>\na\n\n# b\n</pre>\nc",
            [MarkdownBlock("<pre>\na\n\n# b\n</pre>", has_gap=False), MarkdownBlock("c", has_gap=False)],
        ),
        (
            "a\n<!-- b\n\nc --> d\n\ne",
            [MarkdownBlock(t, has_gap=g) for t, g in (("a", False), ("<!-- b\n\nc --> d", False), ("e", True))],
        ),
        ("\n\n", []),
    ],
)
def test_blocks(text: str, expected: list[BlockEvent]) -> None:
    assert pieces(text) == expected


def test_a_block_that_is_too_long_is_let_through_up_to_its_end() -> None:
    text = "word " * MAX_BLOCK_LENGTH
    blocks = BlockReader()
    streamed = [piece for place in range(0, len(text), 1000) for piece in blocks.feed(text[place : place + 1000])]
    assert all(isinstance(piece, RawText) for piece in streamed)
    assert max(len(piece.text) for piece in streamed if isinstance(piece, RawText)) <= MAX_BLOCK_LENGTH + 1000
    rest = [*blocks.feed("end\n"), *blocks.feed("of it\n\n# New"), *blocks.finish()]
    assert "".join(p.text for p in [*streamed, *rest] if isinstance(p, RawText)) == f"{text}end\nof it\n"
    assert rest[-1] == MarkdownBlock("# New", has_gap=True)


@pytest.mark.parametrize("begun", ["#", "- ", "``", "```py", "  ", "12.", "|", "**", "| a | b", ">"])
def test_what_may_become_anything_is_not_shown_yet(begun: str) -> None:
    blocks = BlockReader()
    assert list(blocks.feed(begun)) == []
    assert blocks.pending == ""


def test_what_is_under_way_can_be_seen() -> None:
    blocks = BlockReader()
    for text, seen in (
        ("Some", "Some"),
        (" te", "Some te"),
        ("xt\n``", "Some text"),
        ("`py\nx = ", "x = "),
        ("1\n``", ""),
    ):
        list(blocks.feed(text))
        assert blocks.pending == seen
