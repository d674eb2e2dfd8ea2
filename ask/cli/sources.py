"""What -f names, read: files and folders, standard input, the clipboard, a page of the web. By content, not by name."""

from __future__ import annotations

import glob
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from ask.attachments import (
    ATTACHABLE,
    KINDS,
    LIMIT_IN_ALL,
    LIMITS,
    described,
    media_type_of,
    told_of,
    what_is_taken,
)
from ask.cli.inputs import FILE_LIMIT, as_text, compose_prompt, decode, limit_of, marked, read_bytes
from ask.errors import FileError, ParameterError, UsageError
from ask.messages import Attachment, Message
from ask.text import one_line

if TYPE_CHECKING:
    from ask.cli.target import Target
    from ask.cli.template import Chosen

STDIN = "-"
CLIPBOARD = "clipboard:"
WEB = ("http://", "https://")
FILE_URL = re.compile(r"file:(?://(?:localhost)?)?(?=/)", re.IGNORECASE)
"""The part of a file URL before its path: RFC 8089 allows an empty host, "localhost" and none."""
MOST_FILES = 10_000
"""The most files that one -f can name, by a folder or a pattern."""
WANTED = "text, an image, a PDF or audio"


class Given(NamedTuple):
    """What the user hands over beside the words.

    Attributes:
        texts: each under its name.
        attachments: what goes along as it is.
        piped: the text of standard input.
        left_out: what of a folder is not in it, a line each.
    """

    texts: tuple[tuple[str, str], ...] = ()
    attachments: tuple[Attachment, ...] = ()
    piped: str = ""
    left_out: tuple[str, ...] = ()

    @property
    def lines(self) -> list[str]:
        """What to tell the user of it beside the texts."""
        with_files = ", ".join(map(told_of, self.attachments))
        return [*([f"with {with_files}"] if with_files else []), *(f"left out {one}" for one in self.left_out)]

    def and_more(self, more: Given) -> Given:
        """Add more.

        Raises:
            FileError: the attachments are too large together.
        """
        both = Given(
            self.texts + more.texts,
            self.attachments + more.attachments,
            self.piped + more.piped,
            self.left_out + more.left_out,
        )
        size = sum(len(attachment.data) for attachment in both.attachments)
        if size > LIMIT_IN_ALL:
            raise FileError(f"the files hold {size:,} bytes, more than {LIMIT_IN_ALL:,}", "give fewer, or smaller ones")
        return both


class Means(NamedTuple):
    """What reading takes.

    Attributes:
        seconds: how long to wait for a page of the web, or for a program to open a named pipe.
        environment: of the programs that are run for it, without keys.
        notice: takes a line for the user while a pipe stays silent.
        stdin: reads standard input; None where that holds something else.
    """

    seconds: float
    environment: Mapping[str, str]
    notice: Callable[[str], None]
    stdin: Callable[[], bytes] | None = None


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
        from ask.cli.clipboard import read_clipboard

        return content_of("clipboard", read_clipboard(means.environment))
    if source.lower().startswith(WEB):
        from ask.cli.fetched import fetch

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
            from ask.cli.folder import read_folder

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


def content_of(name: str, data: bytes) -> Given:
    """What a content is: a text, or something that goes along as it is.

    Args:
        name: where it is from.
        data: the content.

    Raises:
        FileError: it is too long, or nothing that a model can take.
    """
    media_type = media_type_of(data)
    kind = KINDS.get(media_type)
    if kind is None:
        return Given(texts=((name, decode(data, name, WANTED)),))
    if media_type not in ATTACHABLE:
        article = "an" if kind.title[0] in "AEIOU" else "a"
        raise FileError(f"{name} is {article} {kind.title}, which no provider takes", f"turn it into {kind.instead}")
    if len(data) > LIMITS[kind.group]:
        raise FileError(f"{name} is longer than {LIMITS[kind.group]} bytes", "give a smaller one")
    return Given(attachments=(Attachment(one_line(short_name(name)), media_type, data),))


def short_name(name: str) -> str:
    """The last part of a path."""
    return name.rstrip("/").rpartition("/")[2] or name


def compose_message(words: str, given: Given, chosen: Chosen | None = None) -> Message:
    """The user's message: a named prompt's text or the words, then the texts as marked blocks, and the attachments.

    Raises:
        UsageError: there is no question.
    """
    names = f"[attached: {', '.join(attachment.name for attachment in given.attachments)}]"
    alone = given.attachments and not (words or given.texts or given.piped.strip())
    said = names if alone else words
    if chosen and chosen.asks:
        text = chosen.question(marked(said, given.texts, given.piped))
    else:
        text = compose_prompt(said, given.texts, given.piped)
    if len(given.attachments) > 1 and not alone:
        text = f"{text}\n\n{names}"
    return Message("user", text, attachments=given.attachments)


def check_taken(attachments: Sequence[Attachment], target: Target) -> None:
    """Refuse what the model that is to be asked does not take.

    Raises:
        ParameterError: there is such an attachment.
    """
    takes = partial(target.provider.takes, target.model)
    for attachment in attachments:
        if not takes(attachment.media_type):
            what = f"{described(attachment.media_type)} ({attachment.name})"
            taken = what_is_taken(takes)
            advice = f"it takes {taken}" if taken else "it takes text alone; name another model with -m, or -p"
            raise ParameterError(f"{target.model} of {target.name} takes no {what}", advice)


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
