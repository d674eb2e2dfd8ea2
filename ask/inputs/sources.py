"""What -f names, read: files and folders, standard input, the clipboard, a page of the web. By content, not by name."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from ask.attachments import (
    MAX_FILE_BYTES,
)
from ask.errors import FileError, UsageError
from ask.inputs.prompt_inputs import MAX_FILES, InputReaders, PromptInputs, parse_content
from ask.inputs.text import FILE_LIMIT, find_size_limit, read_bytes
from ask.text import decode_argument

if TYPE_CHECKING:
    pass

STDIN = "-"
CLIPBOARD = "clipboard:"
WEB_PREFIXES = ("http://", "https://")
FILE_URL_PATTERN = re.compile(r"file:(?://(?:localhost)?)?(?=/)", re.IGNORECASE)
"""The part of a file URL before its path: RFC 8089 allows an empty host, "localhost" and none."""


def read_inputs(sources: Iterable[str], readers: InputReaders) -> PromptInputs:
    """Read everything that -f names, in order.

    Raises:
        UsageError: standard input cannot be one of them.
        FileError: something cannot be read, is too long, or is nothing that a model can take.
        NetworkError: a page cannot be had.
        MissingProgram: the clipboard cannot be had.
    """
    given = PromptInputs()
    seen = False
    for source in sources:
        if source == STDIN and seen:
            raise UsageError("-f - is given twice", "there is one standard input")
        seen = seen or source == STDIN
        given = given.merge(read_source(source, readers))
    return given


def read_source(source: str, readers: InputReaders) -> PromptInputs:
    """Read what one -f names; raises as `read_inputs`."""
    if source == STDIN:
        if readers.read_stdin is None:
            raise UsageError("-f - reads standard input, which is not to be read here", "name a file")
        return parse_stdin_content(readers.read_stdin())
    if source == CLIPBOARD:
        from ask.inputs.clipboard import read_clipboard

        return parse_content("clipboard", read_clipboard(readers.environment))
    if source.lower().startswith(WEB_PREFIXES):
        from ask.inputs.web_pages import read_url

        return read_url(source, readers)
    return read_path(parse_file_url(source), readers)


def parse_file_url(source: str) -> str:
    """Return the path in a file URL, or the source itself where it is none."""
    scheme = FILE_URL_PATTERN.match(source)
    return unquote(source[scheme.end() :]) if scheme else source


def parse_stdin_content(data: bytes) -> PromptInputs:
    """What standard input holds; nothing where that is empty.

    Raises:
        FileError: it is nothing that a model can take.
    """
    given = parse_content("standard input", data)
    named = tuple(attachment._replace(name="stdin") for attachment in given.attachments)
    return PromptInputs(attachments=named, stdin_text="".join(text for _, text in given.texts))


def read_path(path: str, readers: InputReaders) -> PromptInputs:
    """Read a file, a folder, or the files that match a pattern, as in 'src/*.py'.

    Raises:
        FileError: it cannot be read, is too long, or is nothing that a model can take.
    """
    name = decode_argument(path)
    try:
        place = Path(path).expanduser()
        if path and place.is_dir():
            from ask.inputs.folders import read_folder

            return read_folder(place, name)
        if glob.has_magic(path) and not place.exists():
            return read_glob(str(place), name, readers)
        data = read_bytes(place, max(FILE_LIMIT, *MAX_FILE_BYTES.values()), readers.timeout, readers.notify)
    except OSError as error:
        raise FileError(f"cannot read {name} ({error.strerror})") from error
    except (ValueError, RuntimeError) as error:  # a zero byte in the name, or no such user's home
        raise FileError(f"cannot read {name} ({error})") from error
    limit = find_size_limit(data, FILE_LIMIT)
    if len(data) > limit:
        raise FileError(f"{name} is longer than {limit} bytes", "give a part of it")
    return parse_content(name, data)


def read_glob(pattern: str, display_name: str, readers: InputReaders) -> PromptInputs:
    """Read the files that match a pattern, in which `**` also matches folders within folders.

    Raises:
        FileError: there are none or too many, or one of them cannot be read.
    """
    given, size, count = PromptInputs(), 0, 0
    for path in sorted(glob.iglob(pattern, recursive=True)):
        if not Path(path).is_file():
            continue
        given = given.merge(read_path(path, readers))
        size, count = size + len("".join(text for _, text in given.texts[-1:])), count + 1
        if size > FILE_LIMIT or count > MAX_FILES:
            raise FileError(f"the files that match {display_name} are more than a message can contain", "name fewer")
    if not count:
        raise FileError(f"no file matches {display_name}", "check the pattern and the folder")
    return given


def parse_dropped_paths(text: str) -> list[str]:
    """The paths in what was typed, or dropped on a terminal, which quotes them and parts them by blanks."""
    import shlex

    if path_exists(text):
        return [text]
    try:
        words = shlex.split(text)
    except ValueError:
        return [text]
    return words if len(words) == 1 or (words and all(map(path_exists, words))) else [text]


def path_exists(path: str) -> bool:
    """Whether there is a file or folder of that name."""
    try:
        return Path(parse_file_url(path)).expanduser().exists()
    except (OSError, ValueError, RuntimeError):
        return False
