"""The files, attachments and piped text that accompany a prompt."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import add
from pathlib import PurePath

from ask.attachments import (
    MAX_FILE_BYTES,
    MAX_TOTAL_BYTES,
    MEDIA_TYPES,
    OFFICE_MEDIA_TYPE,
    describe_attachment,
    detect_media_type,
)
from ask.errors import FileError
from ask.inputs.readers import decode_text
from ask.messages import Attachment
from ask.records import NamedTuple
from ask.text import format_one_line, format_size

MAX_FILES = 10_000
"""How many files one -f may name by a folder or a pattern."""
SUPPORTED_CONTENT = "text, an image, a PDF, audio or a video"


class PromptInputs(NamedTuple):
    """Files, attachments and piped text that accompany a prompt.

    Attributes:
        texts: the texts of files and pages, as (name, text).
        attachments: images, PDFs, audio and videos, sent unchanged except for the position in photos and videos.
        stdin_text: the text of standard input.
        skipped_files: the files of folders that are left out, one line each with the reason.
        encoding_notes: a line for each text that is not valid UTF-8.
        cleaned_photos: the names of photos whose position is removed.
    """

    texts: tuple[tuple[str, str], ...] = ()
    attachments: tuple[Attachment, ...] = ()
    stdin_text: str = ""
    skipped_files: tuple[str, ...] = ()
    encoding_notes: tuple[str, ...] = ()
    cleaned_photos: tuple[str, ...] = ()

    @property
    def notes(self) -> list[str]:
        """Lines that tell the user what is attached and what is left out."""
        attachment_list = ", ".join(map(describe_attachment, self.attachments))
        return [
            *([f"with {attachment_list}"] if attachment_list else []),
            *(f"removed the position from {name}" for name in self.cleaned_photos),
            *(f"skipped {line}" for line in self.skipped_files),
        ]

    def merge(self, other: PromptInputs) -> PromptInputs:
        """Return these inputs followed by others.

        Raises:
            FileError: the attachments are too large together.
        """
        merged = PromptInputs._make(map(add, self, other))  # every field is a tuple or a text
        size = sum(len(attachment.data) for attachment in merged.attachments)
        if size > MAX_TOTAL_BYTES:
            raise FileError(
                f"the files contain {format_size(size)}, more than the limit of {format_size(MAX_TOTAL_BYTES)}",
                "attach fewer or smaller files",
            )
        return merged


class InputReaders(NamedTuple):
    """Callables and settings used to read prompt inputs.

    Attributes:
        timeout: seconds to wait for a web page, or for a program to open a named pipe.
        environment: the environment of child processes, without API keys.
        notify: called with a line for the user if a pipe stays silent, or a file is empty or skipped.
        read_stdin: reads standard input; None if -f must not read it.
        keep_location: whether photos keep the position where they were taken.
        read_resource: reads a resource of an MCP server by its address, within a number of seconds.
        load: runs the loader of a source PREFIX:REST with these readers; returns None if no loader has the prefix.
        accepts: checks whether the model accepts documents of a MIME type; others are converted to text.
    """

    timeout: float
    environment: Mapping[str, str]
    notify: Callable[[str], None]
    read_stdin: Callable[[], bytes] | None = None
    keep_location: bool = False
    read_resource: Callable[[str, float], PromptInputs] | None = None
    load: Callable[[str, InputReaders], PromptInputs | None] | None = None
    accepts: Callable[[str], bool] = lambda _: False


def parse_content(
    name: str,
    data: bytes,
    text_limit: int | None = None,
    *,
    keep_location: bool = False,
    accepts: Callable[[str], bool] = lambda _: False,
) -> PromptInputs:
    """Convert file content to a text or an attachment, by its media type.

    Args:
        name: the name of the file.
        data: its content.
        text_limit: the maximum size of a text in bytes; None for any size.
        keep_location: whether a photo keeps the position where it was taken.
        accepts: checks whether documents of a MIME type are sent as they are; others are converted to text.

    Raises:
        FileError: it is too long, or of a type that no provider accepts, or a document that cannot be converted.
    """
    media_type = detect_media_type(data)
    if media_type == OFFICE_MEDIA_TYPE:
        from ask.client.document_text import convert_document, has_macros, identify_document

        document_type = identify_document(data)
        if document_type and (has_macros(data) or not accepts(document_type)):
            text, problem = convert_document(data)
            if problem:
                raise FileError(f"cannot read {name}", problem)
            return PromptInputs(texts=((name, text),))
        media_type = document_type or media_type
    known_type = MEDIA_TYPES.get(media_type)
    if known_type and not known_type.group:
        article = "an" if known_type.title[0] in "AEIOU" else "a"
        raise FileError(
            f"no provider accepts {name}, which is {article} {known_type.title}",
            f"convert it to {known_type.alternative}",
        )
    limit = MAX_FILE_BYTES[known_type.group] if known_type else text_limit
    if limit is not None and len(data) > limit:
        raise FileError(f"{name} is larger than {format_size(limit)}", "attach a smaller file, or a part of it")
    if known_type is None:
        notes: list[str] = []
        text = decode_text(data, name, notes.append, SUPPORTED_CONTENT)
        return PromptInputs(texts=((name, text),), encoding_notes=tuple(notes))
    title = format_one_line(PurePath(name).name)
    cleaned_data = data
    if known_type.group in ("image", "video") and not keep_location:
        from ask.inputs.photo_locations import remove_location

        cleaned_data = remove_location(data)
    attachment = Attachment(title, media_type, cleaned_data)
    return PromptInputs(attachments=(attachment,), cleaned_photos=() if cleaned_data is data else (title,))
