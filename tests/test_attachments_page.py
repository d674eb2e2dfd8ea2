"""docs/attachments.md: its examples print what they show, its table and its numbers are the code's."""

from __future__ import annotations

import re

import pytest

from ask.attachments import IMAGE_TOKENS, MAX_FILE_BYTES, MAX_TOTAL_BYTES, PAGE_TOKENS
from ask.inputs.clipboard import CLIPBOARD_READERS
from ask.inputs.prompt_inputs import MAX_FILES
from ask.inputs.text import FILE_LIMIT
from ask.tools.http_get import MAX_BODY_SIZE
from tests.attachment_table import BEGIN, END, PAGE, taken
from tests.pages import blocks, is_shown, quoted, steps, table
from tests.program import Ask

TEXT = PAGE.read_text()
BLOCKS = blocks(TEXT, "console")


@pytest.mark.slow
def test_examples_print_what_is_shown(ask: Ask) -> None:
    assert len(BLOCKS) > 3
    for line, shown in (step for block in BLOCKS for step in steps(block)):
        result = ask.shell(f"{{ {line}; }} 2>&1 | grep -v '^· conversation'")
        assert is_shown(result.text, shown), result.text


def test_the_table_is_what_the_code_makes() -> None:
    written = TEXT.partition(BEGIN)[2].partition(END)[0]
    assert written == f"\n{taken()}\n", "write it anew: python -m tests.attachment_table"


@pytest.mark.parametrize(
    ("what", "limit"),
    [
        ("a text, or all of a folder together", FILE_LIMIT),
        ("files in a folder", MAX_FILES),
        ("an image", MAX_FILE_BYTES["image"]),
        ("a PDF", MAX_FILE_BYTES["PDF"]),
        ("sound", MAX_FILE_BYTES["audio"]),
        ("what a URL gives", MAX_BODY_SIZE),
        ("images, PDF and sound of a message together", MAX_TOTAL_BYTES),
    ],
)
def test_a_limit_is_the_codes(what: str, limit: int) -> None:
    assert re.match(r"[\d,]+", table(TEXT, "what")[what])[0] == f"{limit:,}"  # type: ignore[index]


def test_the_weights_are_the_codes() -> None:
    assert f"{IMAGE_TOKENS:,} tokens and a page of a PDF as {PAGE_TOKENS:,}" in TEXT


def test_every_program_that_reads_a_clipboard_is_named() -> None:
    assert {reader.program for reader in CLIPBOARD_READERS} <= set(quoted(TEXT))
