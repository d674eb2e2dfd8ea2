"""The files, attachments and piped text that accompany a prompt."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import add

from ask.attachments import MAX_TOTAL_BYTES, describe_attachment
from ask.config.directories import AppDirs
from ask.errors import FileError
from ask.messages import Attachment
from ask.records import NamedTuple
from ask.text import format_size

MAX_FILES = 10_000
"""How many files one -f may name by a folder or a pattern."""


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
        app_dirs: with the record of where a run in safe mode may have left links, which are not followed.
    """

    timeout: float
    environment: Mapping[str, str]
    notify: Callable[[str], None]
    read_stdin: Callable[[], bytes] | None = None
    keep_location: bool = False
    read_resource: Callable[[str, float], PromptInputs] | None = None
    load: Callable[[str, InputReaders], PromptInputs | None] | None = None
    accepts: Callable[[str], bool] = lambda _: False
    app_dirs: AppDirs | None = None
