"""Files that go with a message as they are: what a content is, and how it is told of and weighed.

By content and never by name. What becomes of a file in a request is its provider's to say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ask.messages import Attachment, Message
from ask.text import one_line

HEAD = 4_096
"""Bytes by which a content is known."""


class Kind(NamedTuple):
    """What a content can be.

    Attributes:
        group: "image", "PDF" or "audio"; "" for what no provider takes.
        title: how people call it.
        instead: what to turn it into where no provider takes it.
    """

    group: str
    title: str
    instead: str = ""


KINDS = {
    "image/png": Kind("image", "PNG"),
    "image/jpeg": Kind("image", "JPEG"),
    "image/gif": Kind("image", "GIF"),
    "image/webp": Kind("image", "WebP"),
    "image/heic": Kind("image", "HEIC"),
    "application/pdf": Kind("PDF", "PDF"),
    "audio/wav": Kind("audio", "WAV"),
    "audio/mpeg": Kind("audio", "MP3"),
    "audio/ogg": Kind("audio", "Ogg"),
    "audio/flac": Kind("audio", "FLAC"),
    "audio/mp4": Kind("audio", "M4A"),
    "audio/aac": Kind("audio", "AAC"),
    "audio/aiff": Kind("audio", "AIFF"),
    "image/avif": Kind("", "AVIF image", "PNG or JPEG"),
    "image/bmp": Kind("", "BMP image", "PNG or JPEG"),
    "image/tiff": Kind("", "TIFF image", "PNG or JPEG"),
    "video/mp4": Kind("", "video", "single images, or its sound"),
    "video/webm": Kind("", "video", "single images, or its sound"),
    "application/zip": Kind("", "ZIP archive or Office document", "a PDF or text"),
}
"""What is told apart, by MIME type."""
ATTACHABLE = tuple(media_type for media_type, kind in KINDS.items() if kind.group)
"""What at least one provider takes."""
LIMITS = {"image": 20_000_000, "PDF": 32_000_000, "audio": 25_000_000}
"""Bytes of one file."""
LIMIT_IN_ALL = 50_000_000
"""Bytes of all files of a message: services take no larger request."""

SIGNATURES = (
    (rb"\x89PNG\r\n\x1a\n", "image/png"),
    (rb"\xff\xd8\xff", "image/jpeg"),
    (rb"GIF8[79]a", "image/gif"),
    (rb"RIFF....WEBP", "image/webp"),
    (rb"....ftyp(?:heic|heix|hevc|heim|heis|mif1|msf1)", "image/heic"),
    (rb"RIFF....WAVE", "audio/wav"),
    (rb"ID3[\x02-\x04]|\xff[\xf2\xf3\xfa\xfb][\x10-\xef]", "audio/mpeg"),
    (rb"OggS\0", "audio/ogg"),
    (rb"fLaC", "audio/flac"),
    (rb"....ftypM4[AB] ", "audio/mp4"),
    (rb"\xff[\xf0\xf1\xf8\xf9][\x40-\xbf]", "audio/aac"),
    (rb"FORM....AIF[FC]", "audio/aiff"),
    (rb"....ftypavi[fs]", "image/avif"),
    (rb"BM.{4}\0\0\0\0", "image/bmp"),
    (rb"II\*\0|MM\0\*", "image/tiff"),
    (rb"....ftyp", "video/mp4"),
    (rb"\x1a\x45\xdf\xa3", "video/webm"),
    (rb"PK\x03\x04", "application/zip"),
)
"""How contents begin; the first that fits counts."""
_SIGNATURES = tuple((re.compile(pattern, re.DOTALL), media_type) for pattern, media_type in SIGNATURES)
_PDF = re.compile(rb"\s*%PDF-\d")
_PAGE = re.compile(rb"/Type\s*/Page(?!\w)")

IMAGE_TOKENS = 1_600
PAGE_TOKENS = 2_000
"""Of text and picture together."""
BYTES_PER_PAGE = 50_000
"""Of a PDF that hides its pages in compressed parts."""
BYTES_PER_AUDIO_TOKEN = {"audio/wav": 5_000, "audio/aiff": 5_000, "audio/flac": 2_500}
BYTES_PER_COMPRESSED_AUDIO_TOKEN = 500
"""About 32 tokens a second, of music that is compressed to 16 kB a second."""


def media_type_of(data: bytes) -> str:
    """The MIME type of a content, by its first `HEAD` bytes; "" for text and for what is not known.

    What reads as text is text, however it begins, but for PDF, which may.
    """
    head = data[:HEAD]
    if _PDF.match(head):
        return "application/pdf"
    if _reads_as_text(head):
        return ""
    return next((media_type for pattern, media_type in _SIGNATURES if pattern.match(head)), "")


def _reads_as_text(head: bytes) -> bool:
    """Whether these bytes are UTF-8 without a zero byte; a character at their end may be torn."""
    if b"\0" in head:
        return False
    try:
        head.decode()
    except UnicodeDecodeError as fault:
        return len(head) == HEAD and fault.start >= HEAD - 3
    return True


def described(media_type: str) -> str:
    """What a content of this MIME type is, in words."""
    kind = KINDS.get(media_type)
    if kind is None:
        return media_type or "file"
    return f"{kind.title} {kind.group}" if kind.group in ("image", "audio") else kind.title


def told_of(attachment: Attachment) -> str:
    """An attachment in words: its name, what it is, and how large."""
    return f"{one_line(attachment.name)} ({described(attachment.media_type)}, {len(attachment.data):,} bytes)"


def note_of(attachment: Attachment) -> str:
    """What stands for an attachment where a model does not take it."""
    kind = KINDS.get(attachment.media_type)
    group = (kind.group if kind else "") or "file"
    return f"[{group} {one_line(attachment.name)}, {len(attachment.data):,} bytes: not shown to this model]"


def with_notes(messages: Iterable[Message], takes: Callable[[str], bool]) -> list[Message]:
    """The messages, with a note in the place of each attachment that is not taken, or not the user's.

    Args:
        messages: the conversation.
        takes: tells of a MIME type whether the model takes it.
    """
    known: dict[str, bool] = {}

    def taken(attachment: Attachment) -> bool:
        if attachment.media_type not in known:
            known[attachment.media_type] = takes(attachment.media_type)
        return known[attachment.media_type]

    return [_with_notes(message, taken) if message.attachments else message for message in messages]


def _with_notes(message: Message, taken: Callable[[Attachment], bool]) -> Message:
    shown = {place for place, one in enumerate(message.attachments) if message.role == "user" and taken(one)}
    kept = tuple(one for place, one in enumerate(message.attachments) if place in shown)
    notes = [note_of(one) for place, one in enumerate(message.attachments) if place not in shown]
    content = "\n\n".join(filter(None, (message.content, *notes)))
    return message._replace(content=content, attachments=kept)


def what_is_taken(takes: Callable[[str], bool]) -> str:
    """What may be attached, in words; "" for nothing."""
    groups: dict[str, list[str]] = {}
    for media_type in filter(takes, ATTACHABLE):
        groups.setdefault(KINDS[media_type].group, []).append(KINDS[media_type].title)
    plain = {"PDF": "PDF"}
    named = {"image": "images", "audio": "audio"}
    return ", ".join(plain.get(group) or f"{named[group]} ({', '.join(titles)})" for group, titles in groups.items())


def weight_of(attachments: Sequence[Attachment]) -> int:
    """About as many tokens as attachments have for a model."""
    return sum(map(_tokens, attachments))


def _tokens(attachment: Attachment) -> int:
    kind, size = KINDS.get(attachment.media_type), len(attachment.data)
    if kind and kind.group == "image":
        return IMAGE_TOKENS
    if kind and kind.group == "audio":
        return size // BYTES_PER_AUDIO_TOKEN.get(attachment.media_type, BYTES_PER_COMPRESSED_AUDIO_TOKEN) + 1
    pages = sum(1 for _ in _PAGE.finditer(attachment.data)) or size // BYTES_PER_PAGE + 1
    return pages * PAGE_TOKENS
