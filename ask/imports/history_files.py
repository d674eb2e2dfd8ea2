"""The files that `ask history import` reads: exports, and lists of messages."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, nullcontext
from itertools import chain
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import BinaryIO

from ask.errors import FileError
from ask.history.export_format import ConversationExport, read_exports
from ask.imports.message_list import read_message_list
from ask.imports.source_data import ImportNotes
from ask.text import decode_argument

STDIN_NAME = "-"
ImportFile = tuple[str, BinaryIO]
"""A file to read, and its name in errors."""


def open_import_files(
    names: Sequence[str], cleanup: ExitStack, problems: list[FileError]
) -> tuple[list[ImportFile], list[ConversationExport], list[str]]:
    """Return copies of the exports, the conversations in lists of messages, and what these lack.

    Add the reasons why lists cannot be read to `problems`.
    """
    exports: list[ImportFile] = []
    chats: list[ConversationExport] = []
    notes = ImportNotes()
    for name in chain.from_iterable(map(_list_files, names)):
        title = "stdin" if name == STDIN_NAME else decode_argument(name)
        file = cleanup.enter_context(TemporaryFile())  # noqa: SIM115 - the stack closes it
        modified = _copy_file(name, title, file)
        try:
            chat = read_message_list(file, title, modified, notes)
        except FileError as error:
            problems.append(error)
            continue
        if chat is None:
            exports.append((title, file))
        else:
            chats.append(chat)
            file.close()  # a folder may have more of them than files may be open
    return exports, chats, notes.lines


def _list_files(name: str) -> list[str]:
    """Return the name of a file, or the names of the files in a folder, without hidden ones."""
    if name == STDIN_NAME or not os.path.isdir(name):
        return [name]
    try:
        with os.scandir(name) as entries:
            paths = sorted(entry.path for entry in entries if entry.is_file() and not entry.name.startswith("."))
    except OSError as error:
        raise FileError(f"cannot read {decode_argument(name)} ({error.strerror})") from error
    if not paths:
        raise FileError(f"the folder {decode_argument(name)} contains no file to import")
    return paths


def _copy_file(name: str, title: str, copy: BinaryIO) -> float:
    """Copy a file, or standard input, which cannot be read twice; return the time when it was written."""
    try:
        with nullcontext(sys.stdin.buffer) if name == STDIN_NAME else Path(name).open("rb") as file:
            copyfileobj(file, copy)
            return time.time() if name == STDIN_NAME else os.fstat(file.fileno()).st_mtime
    except OSError as error:
        raise FileError(f"cannot read {title} ({error.strerror})") from error


def read_copied_exports(files: Sequence[ImportFile], problems: list[FileError]) -> Iterator[ConversationExport]:
    """Yield the conversations in the files; add the reasons why others cannot be read to `problems`."""
    for name, file in files:
        file.seek(0)
        yield from read_exports(file, name, problems)
