"""Media types of attachments: detection by content, never by name, and descriptions.

How an attachment is sent is up to the provider.
"""

from __future__ import annotations

import json
import re
from binascii import a2b_base64
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import groupby

from ask.messages import Attachment, Message, merge_user_messages
from ask.records import NamedTuple
from ask.text import format_block, format_one_line, format_size

SNIFF_BYTES = 4_096
"""Bytes of content used to detect the media type."""


class MediaType(NamedTuple):
    """A kind of file content.

    Attributes:
        group: "image", "PDF", "audio" or "video"; "" if no provider accepts it.
        title: the common name of the format.
        signature: a regular expression that matches the beginning of the content.
        advice: what to do with it, if no provider accepts it.
    """

    group: str
    title: str
    signature: bytes
    advice: str = ""


_URL_ALPHABET = str.maketrans("-_", "+/")
OFFICE_MEDIA_TYPE = "application/zip"
_NO_SIGNATURE = rb"(?!)"
"""For types that are recognized by the parts of a ZIP archive: see `ask.client.document_text`."""
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
    "image/avif": MediaType("", "AVIF image", rb"....ftypavi[fs]", "convert it to PNG or JPEG"),
    "image/bmp": MediaType("", "BMP image", rb"BM.{4}\0\0\0\0", "convert it to PNG or JPEG"),
    "image/tiff": MediaType("", "TIFF image", rb"II\*\0|MM\0\*", "convert it to PNG or JPEG"),
    "video/quicktime": MediaType("video", "MOV", rb"....ftypqt  "),
    "video/3gpp": MediaType("video", "3GP", rb"....ftyp3g"),
    "video/mp4": MediaType("video", "MP4", rb"....ftyp"),
    "video/webm": MediaType("video", "WebM", rb"\x1a\x45\xdf\xa3.{0,60}webm"),
    "video/mpeg": MediaType("video", "MPEG", rb"\0\0\x01[\xba\xb3]"),
    "video/x-msvideo": MediaType("video", "AVI", rb"RIFF....AVI "),
    "video/x-matroska": MediaType("", "Matroska video", rb"\x1a\x45\xdf\xa3", "convert it to MP4 or WebM"),
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": MediaType(
        "document", "Word", _NO_SIGNATURE
    ),
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": MediaType("document", "Excel", _NO_SIGNATURE),
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": MediaType(
        "document", "PowerPoint", _NO_SIGNATURE
    ),
    "application/x-ole-storage": MediaType(
        "",
        "Office document with a password, or of before 2007",
        rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
        "convert it to a PDF or .docx",
    ),
    "application/gzip": MediaType("", "gzip file", rb"\x1f\x8b\x08", "unpack it"),
    OFFICE_MEDIA_TYPE: MediaType(
        "", "ZIP archive", rb"PK\x03\x04", "unpack it and attach the folder, or convert it to a PDF"
    ),
}
"""The detected media types, by MIME type; the first whose signature matches counts."""
UNKNOWN_TYPE = MediaType("", "", b"")
SUFFIXES = {"image/jpeg": "jpg", "image/svg+xml": "svg", "application/zip": "zip", "audio/mpeg": "mp3"}
"""The suffixes of file names that differ from the second part of the MIME type."""
PLURALS = {"image": "images", "PDF": "PDFs", "audio": "audio", "video": "videos", "document": "documents"}
"""The names of the groups in messages."""
ATTACHABLE_MEDIA_TYPES = tuple(media_type for media_type, kind in MEDIA_TYPES.items() if kind.group)
"""The MIME types that at least one provider accepts."""
MAX_FILE_BYTES = {
    "image": 20_000_000,
    "PDF": 32_000_000,
    "audio": 25_000_000,
    "video": 50_000_000,
    "document": 32_000_000,
}
"""The largest size of one file, in bytes."""
MAX_TOTAL_BYTES = 50_000_000
"""The largest size of all files of a message, in bytes: services accept no larger requests."""
MAX_RESULT_FILES = 20
"""The most files that a model gets of one tool result: a request to Claude with more has a lower limit for images."""
MAX_NAME_CHARACTERS = 255
"""The longest name of a file in a tool result: the model gets the name too."""
PDF_TYPE = "application/pdf"


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
    """Check for UTF-8 without zero bytes. A sample of `SNIFF_BYTES` bytes may end in the middle of a character."""
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


def identify_generated_files(files: Iterable[Attachment]) -> tuple[Attachment, ...]:
    """Return the files that a model generated with the types of their data, and with names that fit these."""
    identified = []
    for file in files:
        media_type = detect_media_type(file.data) or ("image/svg+xml" if b"<svg" in file.data[:SNIFF_BYTES] else "")
        suffix = SUFFIXES.get(media_type) or media_type.partition("/")[2] or "bin"
        identified.append(Attachment(f"image.{suffix}", media_type or "application/octet-stream", file.data))
    return tuple(identified)


def describe_media_type(media_type: str) -> str:
    """Describe a MIME type for the user."""
    group, title, *_ = MEDIA_TYPES.get(media_type, UNKNOWN_TYPE)
    return f"{title} {group}" if group in ("image", "audio", "video", "document") else title or media_type or "file"


def describe_attachment(attachment: Attachment) -> str:
    """Describe an attachment for the user: its name, type and size."""
    name, description = format_one_line(attachment.name), describe_media_type(attachment.media_type)
    return f"{name} ({description}, {format_size(len(attachment.data))})"


def replace_unsupported_attachments(
    messages: Iterable[Message], model: str, is_supported: Callable[[str], bool]
) -> list[Message]:
    """Replace what a model does not accept by notes, except documents, whose text is sent instead.

    `is_supported` is called once per MIME type.
    """
    is_type_supported = cache(lambda media_type: is_document(media_type) or is_supported(media_type))

    def explain(file: Attachment) -> str:
        if is_type_supported(file.media_type):
            return ""
        return f"{model} does not accept {describe_refused_type(file.media_type, is_type_supported)}"

    return [replace_attachments(message, explain) for message in messages]


def decode_base64(text: str) -> bytes:
    """Decode Base64 as other programs send it: also wrapped, as a data URL, or with the characters for URLs.

    https://github.com/nota/gyazo-mcp-server/pull/129, https://github.com/modelcontextprotocol/python-sdk/issues/342

    Raises:
        ValueError: it is not Base64.
    """
    encoded = text.partition(",")[2] if text.startswith("data:") else text
    encoded = "".join(encoded.split()).translate(_URL_ALPHABET).rstrip("=")
    return a2b_base64(encoded + "=" * (-len(encoded) % 4), strict_mode=True)


def replace_attachments(message: Message, explain: Callable[[Attachment], str]) -> Message:
    """Replace attachments by notes with the reason that `explain` returns; "" keeps one."""
    reasons = [(each, explain(each)) for each in message.attachments]
    kept = tuple(each for each, reason in reasons if not reason)
    return _add_notes(message._replace(attachments=kept), [(each, reason) for each, reason in reasons if reason])


def replace_file(message: Message, file: Attachment, replacement: Attachment | None, reason: str = "") -> Message:
    """Return a message with another file in place of one, or with a note about it and the reason."""
    files = [replacement if each is file else each for each in message.attachments]
    changed = message._replace(attachments=tuple(filter(None, files)))
    return changed if replacement else _add_notes(changed, [(file, reason)])


def remove_result_file(message: Message, name: str) -> Message:
    """Return a tool result with notes for its files of this name; unchanged if it has none."""
    kept = tuple(each for each in message.attachments if each.name != name)
    removed = [(each, "removed by the user") for each in message.attachments if each.name == name]
    return _add_notes(message._replace(attachments=kept), removed)


def _add_notes(message: Message, hidden_files: Iterable[tuple[Attachment, str]]) -> Message:
    """Add a note for each file that is not in the message, with the reason."""
    notes = [_describe_hidden_file(*each) for each in hidden_files]
    return message._replace(content="\n\n".join(filter(None, (message.content, *notes)))) if notes else message


def describe_refused_type(media_type: str, is_supported: Callable[[str], bool]) -> str:
    """Return "images", "PDFs", "audio" or "videos", or the format if the model accepts others of its kind."""
    kind = MEDIA_TYPES.get(media_type, UNKNOWN_TYPE)
    plural = PLURALS.get(kind.group, "files of this type")
    accepts_others = any(other.group == kind.group and is_supported(name) for name, other in MEDIA_TYPES.items())
    return f"{kind.title} {plural}" if accepts_others and kind.group in PLURALS else plural


def _describe_hidden_file(attachment: Attachment, reason: str) -> str:
    """Describe a file to a model that does not get it."""
    group = MEDIA_TYPES.get(attachment.media_type, UNKNOWN_TYPE).group or "file"
    return f"[{group} {format_one_line(attachment.name)}, {format_size(len(attachment.data))}: {reason}]"


def limit_attachments(attachments: Sequence[Attachment]) -> tuple[tuple[Attachment, ...], list[str]]:
    """Return the files of a tool result that a model may get, and for each of the others its text or a note.

    The limits are those of files that the user attaches; `MAX_RESULT_FILES` is for tools that return a whole album.
    """
    kept: list[Attachment] = []
    notes: list[str] = []
    for attachment in attachments:
        file = attachment._replace(name=str(attachment.name)[-MAX_NAME_CHARACTERS:])
        media_type = detect_media_type(file.data)
        max_size = MAX_FILE_BYTES.get(MEDIA_TYPES.get(media_type, UNKNOWN_TYPE).group)
        if max_size is None and not media_type and _is_text(file.data):
            text = file.data.decode("utf-8", "backslashreplace")
            notes.append(format_block("file", text, f" name={json.dumps(file.name, ensure_ascii=False)}"))
        elif max_size is None:
            notes.append(_describe_hidden_file(file, "not shown, because no model reads this type"))
        elif len(file.data) > max_size or sum(len(each.data) for each in (*kept, file)) > MAX_TOTAL_BYTES:
            notes.append(_describe_hidden_file(file, "not shown, because it is too large"))
        elif len(kept) == MAX_RESULT_FILES:
            notes.append(_describe_hidden_file(file, f"not shown, because only {MAX_RESULT_FILES} files are"))
        else:
            kept.append(file._replace(media_type=media_type))
    return tuple(kept), notes


def move_result_files(messages: Iterable[Message], is_kept: Callable[[str], bool] = lambda _: False) -> list[Message]:
    """Move the files in tool results, except those of the MIME types to keep, to a user message after these results.

    Many formats allow files only in user messages: https://platform.openai.com/docs/api-reference/chat/create
    """
    is_type_kept = cache(is_kept)
    moved: list[Message] = []
    for _, group in groupby(messages, lambda message: message.role == "tool"):
        files: list[tuple[str, Attachment]] = []
        for message in group:
            if message.role != "tool" or not message.attachments:
                moved.append(message)
                continue
            kept = tuple(file for file in message.attachments if is_type_kept(file.media_type))
            files += [(message.tool_name, file) for file in message.attachments if file not in kept]
            moved.append(message._replace(attachments=kept))
        if files:
            names = ", ".join(f"{format_one_line(file.name)} of {tool_name}" for tool_name, file in files)
            text = f"[files in tool results: {names}]"
            moved.append(Message("user", text, attachments=tuple(file for _, file in files)))
    return merge_user_messages(moved)


def move_answer_files(messages: Iterable[Message], is_kept: Callable[[str], bool]) -> list[Message]:
    """Move the images that models generated, except those of the MIME types to keep, to the next user message.

    Few formats allow them in answers. The model can so edit an image, whichever model has generated it.
    """
    is_type_kept = cache(is_kept)
    moved: list[Message] = []
    pending: list[Attachment] = []
    for message in messages:
        if message.role == "assistant" and message.attachments:
            kept = tuple(file for file in message.attachments if is_type_kept(file.media_type))
            pending += [file for file in message.attachments if file not in kept]
            moved.append(message._replace(attachments=kept))
        elif message.role == "user" and pending:
            names = ", ".join(format_one_line(file.name) for file in pending)
            text = f"[generated in earlier answers: {names}]"
            content = "\n\n".join(filter(None, (text, message.content)))
            moved.append(message._replace(content=content, attachments=(*pending, *message.attachments)))
            pending = []
        else:
            moved.append(message)
    return moved


def is_document(media_type: str) -> bool:
    """Check for an Office document, which is converted to text for a model that does not accept it."""
    return MEDIA_TYPES.get(media_type, UNKNOWN_TYPE).group == "document"


def replace_by_text(message: Message, file: Attachment, text: str) -> Message:
    """Return a message with the text of a file in place of the file."""
    block = format_block("file", text, f" name={json.dumps(file.name, ensure_ascii=False)}")
    kept = tuple(each for each in message.attachments if each is not file)
    return message._replace(content="\n\n".join(filter(None, (message.content, block))), attachments=kept)


def format_supported_types(is_supported: Callable[[str], bool]) -> str:
    """List the attachments that a model accepts, for the user; "" for none."""
    titles_by_group: dict[str, list[str]] = {}
    for media_type in filter(is_supported, ATTACHABLE_MEDIA_TYPES):
        titles_by_group.setdefault(MEDIA_TYPES[media_type].group, []).append(MEDIA_TYPES[media_type].title)
    return ", ".join(
        group if group == "PDF" else f"{PLURALS[group]} ({', '.join(titles)})"
        for group, titles in titles_by_group.items()
    )
