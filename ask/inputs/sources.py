"""What -f names, read: files and folders, standard input, the clipboard, a page of the web. By content, not by name."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from ask.attachments import (
    LIMITS,
)
from ask.errors import FileError, UsageError
from ask.inputs.prompt_inputs import MOST_FILES, Given, Means, content_of
from ask.inputs.text import FILE_LIMIT, limit_of, read_bytes
from ask.text import as_text

if TYPE_CHECKING:
    pass

STDIN = "-"
CLIPBOARD = "clipboard:"
WEB = ("http://", "https://")
FILE_URL = re.compile(r"file:(?://(?:localhost)?)?(?=/)", re.IGNORECASE)
"""The part of a file URL before its path: RFC 8089 allows an empty host, "localhost" and none."""


def gather(sources: Iterable[str], means: Means) -> Given:
    """Read everything that -f names, in order.

    Raises:
        UsageError: standard input cannot be one of them.
        FileError: something cannot be read, is too long, or is nothing that a model can take.
        NetworkError: a page cannot be had.
        MissingProgram: the clipboard cannot be had.
    """
    given = Given()
    seen = False
    for source in sources:
        if source == STDIN and seen:
            raise UsageError("-f - is given twice", "there is one standard input")
        seen = seen or source == STDIN
        given = given.and_more(read_source(source, means))
    return given


def read_source(source: str, means: Means) -> Given:
    """Read what one -f names; raises as `gather`."""
    if source == STDIN:
        if means.stdin is None:
            raise UsageError("-f - reads standard input, which is not to be read here", "name a file")
        return of_stdin(means.stdin())
    if source == CLIPBOARD:
        from ask.inputs.clipboard import read_clipboard

        return content_of("clipboard", read_clipboard(means.environment))
    if source.lower().startswith(WEB):
        from ask.inputs.web_pages import fetch

        return fetch(source, means)
    return read_path(parse_file_url(source), means)


def parse_file_url(source: str) -> str:
    """Return the path in a file URL, or the source itself where it is none."""
    scheme = FILE_URL.match(source)
    return unquote(source[scheme.end() :]) if scheme else source


def of_stdin(data: bytes) -> Given:
    """What standard input holds; nothing where that is empty.

    Raises:
        FileError: it is nothing that a model can take.
    """
    given = content_of("standard input", data)
    named = tuple(attachment._replace(name="stdin") for attachment in given.attachments)
    return Given(attachments=named, piped="".join(text for _, text in given.texts))


def read_path(path: str, means: Means) -> Given:
    """Read a file, a folder, or the files that match a pattern, as in 'src/*.py'.

    Raises:
        FileError: it cannot be read, is too long, or is nothing that a model can take.
    """
    name = as_text(path)
    try:
        place = Path(path).expanduser()
        if path and place.is_dir():
            from ask.inputs.folders import read_folder

            return read_folder(place, name)
        if glob.has_magic(path) and not place.exists():
            return read_matches(str(place), name, means)
        data = read_bytes(place, max(FILE_LIMIT, *LIMITS.values()), means.seconds, means.notice)
    except OSError as error:
        raise FileError(f"cannot read {name} ({error.strerror})") from error
    except (ValueError, RuntimeError) as error:  # a zero byte in the name, or no such user's home
        raise FileError(f"cannot read {name} ({error})") from error
    limit = limit_of(data, FILE_LIMIT)
    if len(data) > limit:
        raise FileError(f"{name} is longer than {limit} bytes", "give a part of it")
    return content_of(name, data)


def read_matches(pattern: str, name: str, means: Means) -> Given:
    """Read the files that match a pattern, in which `**` also matches folders within folders.

    Raises:
        FileError: there are none or too many, or one of them cannot be read.
    """
    given, size, count = Given(), 0, 0
    for path in sorted(glob.iglob(pattern, recursive=True)):
        if not Path(path).is_file():
            continue
        given = given.and_more(read_path(path, means))
        size, count = size + len("".join(text for _, text in given.texts[-1:])), count + 1
        if size > FILE_LIMIT or count > MOST_FILES:
            raise FileError(f"the files that match {name} are more than a message can contain", "name fewer")
    if not count:
        raise FileError(f"no file matches {name}", "check the pattern and the folder")
    return given


def dropped_paths(typed: str) -> list[str]:
    """The paths in what was typed, or dropped on a terminal, which quotes them and parts them by blanks."""
    import shlex

    if exists(typed):
        return [typed]
    try:
        words = shlex.split(typed)
    except ValueError:
        return [typed]
    return words if len(words) == 1 or (words and all(map(exists, words))) else [typed]


def exists(path: str) -> bool:
    """Whether there is a file or folder of that name."""
    try:
        return Path(parse_file_url(path)).expanduser().exists()
    except (OSError, ValueError, RuntimeError):
        return False
