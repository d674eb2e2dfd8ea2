"""How streaming Markdown is split into blocks: independent of the chunks, and without losing text."""

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


def split_all(*texts: str) -> list[BlockEvent]:
    reader = BlockReader()
    return [event for text in texts for event in reader.feed(text)] + list(reader.finish())


def list_source_lines(events: list[BlockEvent]) -> list[str]:
    """List the source lines in these events, without blank lines and fences."""
    texts = "\n".join(event.text for event in events if isinstance(event, MarkdownBlock | CodeLine | RawText))
    return [line.strip() for line in texts.split("\n") if line.strip()]


def list_block_types(text: str) -> list[str]:
    """List the types of the blocks in a text, without the start and end of lists."""
    types = [token.type for token in get_parser().parse(text) if token.level == 0 or token.type == "list_item_open"]
    return [block_type for block_type in types if "list_" not in block_type or block_type == "list_item_open"]


@given(st.lists(st.sampled_from(LINES), max_size=12), st.lists(st.integers(0, 200), max_size=8))
def test_the_split_does_not_depend_on_the_chunks(lines: list[str], offsets: list[int]) -> None:
    text = "\n".join(lines)
    cuts = sorted({0, len(text), *(offset for offset in offsets if offset < len(text))})
    streamed = split_all(*(text[begin:end] for begin, end in pairwise(cuts)))
    assert streamed == split_all(text) == split_all(*text)


@given(st.lists(st.sampled_from(LINES), max_size=12))
def test_no_line_is_lost(lines: list[str]) -> None:
    fences = ("```", "~~~")
    kept = [line for line in list_source_lines(split_all("\n".join(lines))) if not line.startswith(fences)]
    assert kept == [line.strip() for line in lines if line.strip() and not line.strip().startswith(fences)]


@given(st.lists(st.sampled_from(BLOCKS), max_size=8))
def test_blocks_are_parsed_like_the_complete_text(blocks: list[str]) -> None:
    text = "\n\n".join(block for block in blocks if not block.startswith("    "))
    parts: list[str] = []
    for event in split_all(text):
        parts += (
            ["fence"]
            if isinstance(event, CodeStart)
            else list_block_types(event.text)
            if isinstance(event, MarkdownBlock)
            else []
        )
    assert parts == list_block_types(text)


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
    assert split_all(text) == expected


def test_a_block_that_is_too_long_is_raw_text_to_its_end() -> None:
    text = "word " * MAX_BLOCK_LENGTH
    reader = BlockReader()
    streamed = [event for offset in range(0, len(text), 1000) for event in reader.feed(text[offset : offset + 1000])]
    assert all(isinstance(event, RawText) for event in streamed)
    assert max(len(event.text) for event in streamed if isinstance(event, RawText)) <= MAX_BLOCK_LENGTH + 1000
    rest = [*reader.feed("end\n"), *reader.feed("of it\n\n# New"), *reader.finish()]
    assert "".join(event.text for event in [*streamed, *rest] if isinstance(event, RawText)) == f"{text}end\nof it\n"
    assert rest[-1] == MarkdownBlock("# New", has_gap=True)


@pytest.mark.parametrize("text", ["#", "- ", "``", "```py", "  ", "12.", "|", "**", "| a | b", ">"])
def test_a_line_of_unknown_kind_is_not_pending(text: str) -> None:
    reader = BlockReader()
    assert list(reader.feed(text)) == []
    assert reader.pending == ""


def test_the_incomplete_block_is_pending() -> None:
    reader = BlockReader()
    for text, pending in (
        ("Some", "Some"),
        (" te", "Some te"),
        ("xt\n``", "Some text"),
        ("`py\nx = ", "x = "),
        ("1\n``", ""),
    ):
        list(reader.feed(text))
        assert reader.pending == pending
