"""The files, attachments and piped text that accompany a prompt."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ask.attachments import (
    ATTACHABLE,
    KINDS,
    LIMIT_IN_ALL,
    LIMITS,
    media_type_of,
    told_of,
)
from ask.errors import FileError
from ask.inputs.text import decode
from ask.messages import Attachment
from ask.text import one_line

if TYPE_CHECKING:
    pass

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
