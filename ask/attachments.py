"""Files that go with a message as they are: what a content is, and how it is told of and weighed.

By content and never by name. What becomes of a file in a request is its provider's to say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ask.messages import Attachment, Message
from ask.text import format_one_line

SNIFF_BYTES = 4_096
"""Bytes by which a content is known."""


class MediaType(NamedTuple):
    """What a content can be.

    Attributes:
        group: "image", "PDF" or "audio"; "" for what no provider takes.
        title: how people call it.
        alternative: what to turn it into where no provider takes it.
    """

    group: str
    title: str
    alternative: str = ""


MEDIA_TYPES = {
    "image/png": MediaType("image", "PNG"),
    "image/jpeg": MediaType("image", "JPEG"),
    "image/gif": MediaType("image", "GIF"),
    "image/webp": MediaType("image", "WebP"),
    "image/heic": MediaType("image", "HEIC"),
    "application/pdf": MediaType("PDF", "PDF"),
    "audio/wav": MediaType("audio", "WAV"),
    "audio/mpeg": MediaType("audio", "MP3"),
    "audio/ogg": MediaType("audio", "Ogg"),
    "audio/flac": MediaType("audio", "FLAC"),
    "audio/mp4": MediaType("audio", "M4A"),
    "audio/aac": MediaType("audio", "AAC"),
    "audio/aiff": MediaType("audio", "AIFF"),
    "image/avif": MediaType("", "AVIF image", "PNG or JPEG"),
    "image/bmp": MediaType("", "BMP image", "PNG or JPEG"),
    "image/tiff": MediaType("", "TIFF image", "PNG or JPEG"),
    "video/mp4": MediaType("", "video", "single images, or its sound"),
    "video/webm": MediaType("", "video", "single images, or its sound"),
    "application/zip": MediaType("", "ZIP archive or Office document", "a PDF or text"),
}
"""What is told apart, by MIME type."""
ATTACHABLE_MEDIA_TYPES = tuple(media_type for media_type, kind in MEDIA_TYPES.items() if kind.group)
"""What at least one provider takes."""
MAX_FILE_BYTES = {"image": 20_000_000, "PDF": 32_000_000, "audio": 25_000_000}
"""Bytes of one file."""
MAX_TOTAL_BYTES = 50_000_000
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
_SIGNATURE_PATTERNS = tuple((re.compile(pattern, re.DOTALL), media_type) for pattern, media_type in SIGNATURES)
_PDF_HEADER = re.compile(rb"\s*%PDF-\d")
_PDF_PAGE = re.compile(rb"/Type\s*/Page(?!\w)")

IMAGE_TOKENS = 1_600
PAGE_TOKENS = 2_000
"""Of text and picture together."""
BYTES_PER_PAGE = 50_000
"""Of a PDF that hides its pages in compressed parts."""
BYTES_PER_AUDIO_TOKEN = {"audio/wav": 5_000, "audio/aiff": 5_000, "audio/flac": 2_500}
BYTES_PER_COMPRESSED_AUDIO_TOKEN = 500
"""About 32 tokens a second, of music that is compressed to 16 kB a second."""


def detect_media_type(data: bytes) -> str:
    """The MIME type of a content, by its first `SNIFF_BYTES` bytes; "" for text and for what is not known.

    What reads as text is text, however it begins, but for PDF, which may.
    """
    head = data[:SNIFF_BYTES]
    if _PDF_HEADER.match(head):
        return "application/pdf"
    if _is_text(head):
        return ""
    return next((media_type for pattern, media_type in _SIGNATURE_PATTERNS if pattern.match(head)), "")


def _is_text(head: bytes) -> bool:
    """Whether these bytes are UTF-8 without a zero byte; a character at their end may be torn."""
    if b"\0" in head:
        return False
    try:
        head.decode()
    except UnicodeDecodeError as fault:
        return len(head) == SNIFF_BYTES and fault.start >= SNIFF_BYTES - 3
    return True


def describe_media_type(media_type: str) -> str:
    """What a content of this MIME type is, in words."""
    kind = MEDIA_TYPES.get(media_type)
    if kind is None:
        return media_type or "file"
    return f"{kind.title} {kind.group}" if kind.group in ("image", "audio") else kind.title


def describe_attachment(attachment: Attachment) -> str:
    """An attachment in words: its name, what it is, and how large."""
    return f"{format_one_line(attachment.name)} ({describe_media_type(attachment.media_type)}, {len(attachment.data):,} bytes)"


def format_omission_note(attachment: Attachment) -> str:
    """What stands for an attachment where a model does not take it."""
    kind = MEDIA_TYPES.get(attachment.media_type)
    group = (kind.group if kind else "") or "file"
    return f"[{group} {format_one_line(attachment.name)}, {len(attachment.data):,} bytes: not shown to this model]"


def replace_unsupported_attachments(messages: Iterable[Message], is_supported: Callable[[str], bool]) -> list[Message]:
    """The messages, with a note in the place of each attachment that is not taken, or not the user's.

    Args:
        messages: the conversation.
        is_supported: tells of a MIME type whether the model takes it.
    """
    known: dict[str, bool] = {}

    def is_attachment_supported(attachment: Attachment) -> bool:
        if attachment.media_type not in known:
            known[attachment.media_type] = is_supported(attachment.media_type)
        return known[attachment.media_type]

    return [
        _replace_unsupported(message, is_attachment_supported) if message.attachments else message
        for message in messages
    ]


def _replace_unsupported(message: Message, is_supported: Callable[[Attachment], bool]) -> Message:
    shown = {place for place, one in enumerate(message.attachments) if message.role == "user" and is_supported(one)}
    kept = tuple(one for place, one in enumerate(message.attachments) if place in shown)
    notes = [format_omission_note(one) for place, one in enumerate(message.attachments) if place not in shown]
    content = "\n\n".join(filter(None, (message.content, *notes)))
    return message._replace(content=content, attachments=kept)


def format_supported_types(is_supported: Callable[[str], bool]) -> str:
    """What may be attached, in words; "" for nothing."""
    groups: dict[str, list[str]] = {}
    for media_type in filter(is_supported, ATTACHABLE_MEDIA_TYPES):
        groups.setdefault(MEDIA_TYPES[media_type].group, []).append(MEDIA_TYPES[media_type].title)
    plain = {"PDF": "PDF"}
    named = {"image": "images", "audio": "audio"}
    return ", ".join(plain.get(group) or f"{named[group]} ({', '.join(titles)})" for group, titles in groups.items())


def estimate_attachment_tokens(attachments: Sequence[Attachment]) -> int:
    """About as many tokens as attachments have for a model."""
    return sum(map(_estimate_tokens, attachments))


def _estimate_tokens(attachment: Attachment) -> int:
    kind, size = MEDIA_TYPES.get(attachment.media_type), len(attachment.data)
    if kind and kind.group == "image":
        return IMAGE_TOKENS
    if kind and kind.group == "audio":
        return size // BYTES_PER_AUDIO_TOKEN.get(attachment.media_type, BYTES_PER_COMPRESSED_AUDIO_TOKEN) + 1
    pages = sum(1 for _ in _PDF_PAGE.finditer(attachment.data)) or size // BYTES_PER_PAGE + 1
    return pages * PAGE_TOKENS
