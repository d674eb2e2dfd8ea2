"""Media types of attachments: detection by content, never by name, and descriptions and token estimates.

How an attachment is sent is up to the provider.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import groupby

from ask.messages import Attachment, Message, merge_user_messages
from ask.records import NamedTuple
from ask.text import format_one_line

SNIFF_BYTES = 4_096
"""Bytes of content used to detect the media type."""


class MediaType(NamedTuple):
    """A kind of file content.

    Attributes:
        group: "image", "PDF" or "audio"; "" if no provider accepts it.
        title: the common name of the format.
        signature: a regular expression that matches the beginning of the content.
        alternative: the formats to convert it to, if no provider accepts it.
    """

    group: str
    title: str
    signature: bytes
    alternative: str = ""


OFFICE_MEDIA_TYPE = "application/zip"
MEDIA_TYPES = {
    "image/png": MediaType("image", "PNG", rb"\x89PNG\r\n\x1a\n"),
    "image/jpeg": MediaType("image", "JPEG", rb"\xff\xd8\xff"),
    "image/gif": MediaType("image", "GIF", rb"GIF8[79]a"),
    "image/webp": MediaType("image", "WebP", rb"RIFF....WEBP"),
    "image/heic": MediaType("image", "HEIC", rb"....ftyp(?:heic|heix|hevc|heim|heis|mif1|msf1)"),
    "application/pdf": MediaType("PDF", "PDF", rb"\s*%PDF-\d"),
    "audio/wav": MediaType("audio", "WAV", rb"RIFF....WAVE"),
    "audio/mpeg": MediaType("audio", "MP3", rb"ID3[\x02-\x04]|\xff[\xf2\xf3\xfa\xfb][\x10-\xef]"),
    "audio/ogg": MediaType("audio", "Ogg", rb"OggS\0"),
    "audio/flac": MediaType("audio", "FLAC", rb"fLaC"),
    "audio/mp4": MediaType("audio", "M4A", rb"....ftypM4[AB] "),
    "audio/aac": MediaType("audio", "AAC", rb"\xff[\xf0\xf1\xf8\xf9][\x40-\xbf]"),
    "audio/aiff": MediaType("audio", "AIFF", rb"FORM....AIF[FC]"),
    "image/avif": MediaType("", "AVIF image", rb"....ftypavi[fs]", "PNG or JPEG"),
    "image/bmp": MediaType("", "BMP image", rb"BM.{4}\0\0\0\0", "PNG or JPEG"),
    "image/tiff": MediaType("", "TIFF image", rb"II\*\0|MM\0\*", "PNG or JPEG"),
    "video/mp4": MediaType("", "video", rb"....ftyp", "single images, or its sound"),
    "video/webm": MediaType("", "video", rb"\x1a\x45\xdf\xa3", "single images, or its sound"),
    OFFICE_MEDIA_TYPE: MediaType("", "ZIP archive", rb"PK\x03\x04", "a PDF or text"),
}
"""The detected media types, by MIME type; the first whose signature matches counts."""
UNKNOWN_TYPE = MediaType("", "", b"")
ATTACHABLE_MEDIA_TYPES = tuple(media_type for media_type, kind in MEDIA_TYPES.items() if kind.group)
"""The MIME types that at least one provider accepts."""
MAX_FILE_BYTES = {"image": 20_000_000, "PDF": 32_000_000, "audio": 25_000_000}
"""The largest size of one file, in bytes."""
MAX_TOTAL_BYTES = 50_000_000
"""The largest size of all files of a message, in bytes: services accept no larger requests."""
MAX_RESULT_FILES = 20
"""The most files that a model gets of one tool result: a request to Claude with more has a lower limit for images."""
MAX_NAME_LENGTH = 255
"""The longest name of a file in a tool result, in characters: the model gets the name too."""
_PDF_PAGE = re.compile(rb"/Type\s*/Page(?!\w)")

IMAGE_TOKENS = 1_600
PAGE_TOKENS = 2_000
"""Tokens of a PDF page, sent as both text and image."""
BYTES_PER_PAGE = 50_000
"""Used for a PDF whose pages cannot be counted because its objects are compressed."""
BYTES_PER_AUDIO_TOKEN = {"audio/wav": 5_000, "audio/aiff": 5_000, "audio/flac": 2_500}
BYTES_PER_COMPRESSED_AUDIO_TOKEN = 500
"""About 32 tokens per second of audio compressed to 16 kB per second."""


def detect_media_type(data: bytes) -> str:
    """Return the MIME type of a content; "" for text and unknown types.

    Only the first `SNIFF_BYTES` bytes count. Anything that decodes as UTF-8 is text, whatever signature it begins with,
    except PDF: a PDF may be valid text.
    """
    head = data[:SNIFF_BYTES]
    matching = (name for name, kind in MEDIA_TYPES.items() if re.match(kind.signature, head, re.DOTALL))
    media_type = next(matching, "")
    return "" if media_type != "application/pdf" and _is_text(head) else media_type


def _is_text(head: bytes) -> bool:
    """Check for UTF-8 without zero bytes. The sample may end in the middle of a character."""
    if b"\0" in head:
        return False
    try:
        head.decode()
    except UnicodeDecodeError as error:
        return len(head) == SNIFF_BYTES and error.start >= SNIFF_BYTES - 3
    return True


def find_attachment(name: str, data: bytes) -> Attachment | None:
    """Return a content as an attachment; None if it is text, or of a type that no provider accepts."""
    media_type = detect_media_type(data)
    return Attachment(name, media_type, data) if media_type in ATTACHABLE_MEDIA_TYPES else None


def describe_media_type(media_type: str) -> str:
    """Describe a MIME type for the user."""
    group, title, *_ = MEDIA_TYPES.get(media_type, UNKNOWN_TYPE)
    return f"{title} {group}" if group in ("image", "audio") else title or media_type or "file"


def describe_attachment(attachment: Attachment) -> str:
    """Describe an attachment for the user: its name, type and size."""
    name, description = format_one_line(attachment.name), describe_media_type(attachment.media_type)
    return f"{name} ({description}, {len(attachment.data):,} bytes)"


def replace_unsupported_attachments(messages: Iterable[Message], is_supported: Callable[[str], bool]) -> list[Message]:
    """Replace unsupported attachments by notes. `is_supported` is called once per MIME type."""
    is_type_supported = cache(is_supported)
    return [replace_attachments(message, is_type_supported) for message in messages]


def replace_attachments(message: Message, is_kept: Callable[[str], bool] = lambda _: False) -> Message:
    """Replace attachments by notes, except those of the MIME types to keep in user messages and tool results."""
    can_keep = message.role in ("user", "tool")
    kept = tuple(each for each in message.attachments if can_keep and is_kept(each.media_type))
    notes = [_describe_hidden_file(each) for each in message.attachments if each not in kept]
    if not notes:
        return message
    return message._replace(content="\n\n".join(filter(None, (message.content, *notes))), attachments=kept)


def _describe_hidden_file(attachment: Attachment, reason: str = "not shown to this model") -> str:
    """Describe a file to a model that does not get it."""
    group = MEDIA_TYPES.get(attachment.media_type, UNKNOWN_TYPE).group or "file"
    return f"[{group} {format_one_line(attachment.name)}, {len(attachment.data):,} bytes: {reason}]"


def limit_attachments(attachments: Sequence[Attachment]) -> tuple[tuple[Attachment, ...], list[str]]:
    """Return the files of a tool result that a model may get, and a note for each of the others.

    The limits are those of files that the user attaches; `MAX_RESULT_FILES` is for tools that return a whole album.
    """
    kept: list[Attachment] = []
    notes: list[str] = []
    for attachment in attachments:
        file = attachment._replace(name=str(attachment.name)[-MAX_NAME_LENGTH:])
        media_type = detect_media_type(file.data)
        max_size = MAX_FILE_BYTES.get(MEDIA_TYPES.get(media_type, UNKNOWN_TYPE).group)
        if max_size is None:
            notes.append(_describe_hidden_file(file, "not shown, because no model reads this type"))
        elif len(file.data) > max_size or sum(len(each.data) for each in (*kept, file)) > MAX_TOTAL_BYTES:
            notes.append(_describe_hidden_file(file, "not shown, because it is too large"))
        elif len(kept) == MAX_RESULT_FILES:
            notes.append(_describe_hidden_file(file, f"not shown, because only {MAX_RESULT_FILES} files are"))
        else:
            kept.append(file._replace(media_type=media_type))
    return tuple(kept), notes


def move_result_files(messages: Sequence[Message]) -> list[Message]:
    """Move the files in tool results to a user message after these results.

    Most formats allow files only in user messages: https://platform.openai.com/docs/api-reference/chat/create
    """
    moved: list[Message] = []
    for is_result, group in groupby(messages, lambda message: message.role == "tool"):
        group_messages = list(group)
        if not is_result or not any(message.attachments for message in group_messages):
            moved += group_messages
            continue
        files = [(message.tool_name, file) for message in group_messages for file in message.attachments]
        names = ", ".join(f"{format_one_line(file.name)} of {tool_name}" for tool_name, file in files)
        moved += [message._replace(attachments=()) for message in group_messages]
        moved.append(Message("user", f"[files in tool results: {names}]", attachments=tuple(file for _, file in files)))
    return merge_user_messages(moved)


def format_supported_types(is_supported: Callable[[str], bool]) -> str:
    """List the attachments that a model accepts, for the user; "" for none."""
    titles_by_group: dict[str, list[str]] = {}
    for media_type in filter(is_supported, ATTACHABLE_MEDIA_TYPES):
        titles_by_group.setdefault(MEDIA_TYPES[media_type].group, []).append(MEDIA_TYPES[media_type].title)
    plurals = {"image": "images", "audio": "audio"}
    return ", ".join(
        group if group == "PDF" else f"{plurals[group]} ({', '.join(titles)})"
        for group, titles in titles_by_group.items()
    )


def estimate_attachment_tokens(attachments: Sequence[Attachment]) -> int:
    """Estimate how many tokens a model counts for attachments."""
    tokens = 0
    for attachment in attachments:
        group, size = MEDIA_TYPES.get(attachment.media_type, UNKNOWN_TYPE).group, len(attachment.data)
        if group == "image":
            tokens += IMAGE_TOKENS
        elif group == "audio":
            tokens += size // BYTES_PER_AUDIO_TOKEN.get(attachment.media_type, BYTES_PER_COMPRESSED_AUDIO_TOKEN) + 1
        else:
            pages = sum(1 for _ in _PDF_PAGE.finditer(attachment.data)) or size // BYTES_PER_PAGE + 1
            tokens += pages * PAGE_TOKENS
    return tokens
