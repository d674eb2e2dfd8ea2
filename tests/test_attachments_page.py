"""docs/attachments.md: examples print what they show, and the table and numbers equal the code."""

from __future__ import annotations

import re

import pytest

from ask.attachments import MAX_FILE_BYTES, MAX_TOTAL_BYTES
from ask.inputs.clipboard import CLIPBOARD_READERS
from ask.inputs.prompt_inputs import MAX_FILES
from ask.inputs.stdin_and_files import MAX_TEXT_BYTES
from ask.tools.http_get import MAX_BODY_BYTES
from tests.attachment_table import PAGE
from tests.doc_pages import (
    check_commands,
    find_code_blocks,
    find_code_spans,
    read_table,
)
from tests.program import Ask

TEXT = PAGE.read_text()
BLOCKS = find_code_blocks(TEXT, "console")


@pytest.mark.slow
def test_examples_print_the_documented_output(ask: Ask) -> None:
    assert len(BLOCKS) > 3
    check_commands(lambda line: ask.shell(f"{{ {line}; }} 2>&1"), BLOCKS)


@pytest.mark.parametrize(
    ("what", "limit"),
    [
        ("a text, or the texts of a folder together", MAX_TEXT_BYTES),
        ("files in a folder", MAX_FILES),
        ("an image", MAX_FILE_BYTES["image"]),
        ("a PDF, or an Office document that is sent as it is", MAX_FILE_BYTES["PDF"]),
        ("audio", MAX_FILE_BYTES["audio"]),
        ("a video", MAX_FILE_BYTES["video"]),
        ("a URL", MAX_BODY_BYTES),
        ("images, PDFs, audio and videos of a message together", MAX_TOTAL_BYTES),
    ],
)
def test_documented_limits_equal_the_code(what: str, limit: int) -> None:
    assert re.match(r"[\d,]+", read_table(TEXT, "what")[what])[0] == f"{limit:,}"  # type: ignore[index]


def test_every_clipboard_program_is_documented() -> None:
    assert {reader.program for reader in CLIPBOARD_READERS} <= set(find_code_spans(TEXT))
