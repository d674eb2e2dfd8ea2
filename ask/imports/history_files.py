"""The files that `ask history import` reads: exports, and lists of messages."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from itertools import chain
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import BinaryIO

from ask.errors import FileError
from ask.history.export_format import ConversationExport, read_exports
from ask.history.importer import ImportResult, add_conversation
from ask.history.store import Store
from ask.imports.message_list import read_message_list
from ask.imports.source_data import ImportNotes, make_conversation_id
from ask.text import decode_argument

STDIN_NAME = "-"
ImportFile = tuple[str, Path | BinaryIO]
"""A file to read, or a copy of one that cannot be read twice, and its name in errors."""


def open_import_files(
    names: Sequence[str], cleanup: ExitStack, problems: list[FileError]
) -> tuple[list[ImportFile], list[ConversationExport], list[str]]:
    """Return the exports, the conversations in lists of messages, and what these lack.

    Add the reasons why others cannot be read to `problems`.
    """
    exports: list[ImportFile] = []
    chats: list[ConversationExport] = []
    notes = ImportNotes()
    for name in chain.from_iterable(map(_list_files, names)):
        title = "stdin" if name == STDIN_NAME else decode_argument(name)
        try:
            source = Path(name) if name != STDIN_NAME and os.path.isfile(name) else _copy_file(name, title, cleanup)
            with _open_file(title, source) as file:
                modified = os.fstat(file.fileno()).st_mtime
                chat = read_message_list(file, title, modified, notes)
        except FileError as error:
            problems.append(error)
            continue
        if chat is None:
            exports.append((title, source))
        else:
            chats.append(chat)
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


def _copy_file(name: str, title: str, cleanup: ExitStack) -> BinaryIO:
    """Copy standard input, or another file that cannot be read twice, such as a pipe."""
    copy = cleanup.enter_context(TemporaryFile())  # noqa: SIM115 - the stack closes it
    try:
        with nullcontext(sys.stdin.buffer) if name == STDIN_NAME else Path(name).open("rb") as file:
            copyfileobj(file, copy)
    except OSError as error:
        raise FileError(f"cannot read {title} ({error.strerror})") from error
    return copy


@contextmanager
def _open_file(title: str, source: Path | BinaryIO) -> Iterator[BinaryIO]:
    """Open a file, and a copy again from its beginning."""
    try:
        with source.open("rb") if isinstance(source, Path) else nullcontext(source) as file:
            file.seek(0)
            yield file
    except OSError as error:
        raise FileError(f"cannot read {title} ({error.strerror})") from error


def read_import_files(files: Sequence[ImportFile], problems: list[FileError]) -> Iterator[ConversationExport]:
    """Yield the conversations in the exports; add the reasons why others cannot be read to `problems`."""
    for title, source in files:
        with _open_file(title, source) as file:
            yield from read_exports(file, title, problems)


def add_chats(store: Store, chats: Sequence[ConversationExport]) -> Iterator[ImportResult]:
    """Add the conversations in lists of messages, or the messages that were added to them since the last time."""
    for chat in chats:
        yield add_conversation(store, chat, make_conversation_id)
