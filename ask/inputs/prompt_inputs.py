"""The files, attachments and piped text that accompany a prompt."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ask.attachments import (
    ATTACHABLE_MEDIA_TYPES,
    MAX_FILE_BYTES,
    MAX_TOTAL_BYTES,
    MEDIA_TYPES,
    describe_attachment,
    detect_media_type,
)
from ask.errors import FileError
from ask.inputs.text import decode_text
from ask.messages import Attachment
from ask.text import format_one_line

if TYPE_CHECKING:
    pass

MAX_FILES = 10_000
"""The most files that one -f can name, by a folder or a pattern."""
SUPPORTED_CONTENT = "text, an image, a PDF or audio"


class PromptInputs(NamedTuple):
    """What the user hands over beside the words.

    Attributes:
        texts: each under its name.
        attachments: what goes along as it is.
        stdin_text: the text of standard input.
        skipped_files: what of a folder is not in it, a line each.
    """

    texts: tuple[tuple[str, str], ...] = ()
    attachments: tuple[Attachment, ...] = ()
    stdin_text: str = ""
    skipped_files: tuple[str, ...] = ()

    @property
    def notes(self) -> list[str]:
        """What to tell the user of it beside the texts."""
        with_files = ", ".join(map(describe_attachment, self.attachments))
        return [*([f"with {with_files}"] if with_files else []), *(f"left out {one}" for one in self.skipped_files)]

    def merge(self, other: PromptInputs) -> PromptInputs:
        """Add more.

        Raises:
            FileError: the attachments are too large together.
        """
        both = PromptInputs(
            self.texts + other.texts,
            self.attachments + other.attachments,
            self.stdin_text + other.stdin_text,
            self.skipped_files + other.skipped_files,
        )
        size = sum(len(attachment.data) for attachment in both.attachments)
        if size > MAX_TOTAL_BYTES:
            raise FileError(
                f"the files hold {size:,} bytes, more than {MAX_TOTAL_BYTES:,}", "give fewer, or smaller ones"
            )
        return both


class InputReaders(NamedTuple):
    """What reading takes.

    Attributes:
        timeout: how long to wait for a page of the web, or for a program to open a named pipe.
        environment: of the programs that are run for it, without keys.
        notify: takes a line for the user while a pipe stays silent.
        read_stdin: reads standard input; None where that holds something else.
    """

    timeout: float
    environment: Mapping[str, str]
    notify: Callable[[str], None]
    read_stdin: Callable[[], bytes] | None = None


def parse_content(name: str, data: bytes) -> PromptInputs:
    """What a content is: a text, or something that goes along as it is.

    Args:
        name: where it is from.
        data: the content.

    Raises:
        FileError: it is too long, or nothing that a model can take.
    """
    media_type = detect_media_type(data)
    kind = MEDIA_TYPES.get(media_type)
    if kind is None:
        return PromptInputs(texts=((name, decode_text(data, name, SUPPORTED_CONTENT)),))
    if media_type not in ATTACHABLE_MEDIA_TYPES:
        article = "an" if kind.title[0] in "AEIOU" else "a"
        raise FileError(
            f"{name} is {article} {kind.title}, which no provider takes", f"turn it into {kind.alternative}"
        )
    if len(data) > MAX_FILE_BYTES[kind.group]:
        raise FileError(f"{name} is longer than {MAX_FILE_BYTES[kind.group]} bytes", "give a smaller one")
    return PromptInputs(attachments=(Attachment(format_one_line(get_base_name(name)), media_type, data),))


def get_base_name(name: str) -> str:
    """The last part of a path."""
    return name.rstrip("/").rpartition("/")[2] or name
