"""Describe attached files in the demo, which reports only their type and size."""

from __future__ import annotations

from binascii import a2b_base64
from collections.abc import Iterator, Mapping
from typing import Any

from ask import as_dict, as_list, as_text

ATTACHMENT_TYPES = (
    *("image/png", "image/jpeg", "image/gif", "image/webp", "image/heic", "application/pdf"),
    *("audio/wav", "audio/mpeg", "audio/ogg", "audio/flac", "audio/mp4", "audio/aac", "audio/aiff"),
)
FILES_INTRODUCTION = "I am the embedded demo, not a language model: I cannot look at files, but these came."
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def extract_text(content: Any) -> str:
    """Return the text of a message's content, which may be a string or a list of parts."""
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    return "".join(as_text(as_dict(part).get("text")) for part in parts)


def describe_files(content: Any) -> str:
    """Describe the files in a message's content, one per line; "" if there are none."""
    lines = [f"- {line}" for part in as_list(content) for line in _describe_part(as_dict(part))]
    return "\n".join([FILES_INTRODUCTION, "", *lines]) if lines else ""


def _describe_part(part: Mapping[str, Any]) -> Iterator[str]:
    if part.get("type") == "input_audio":
        audio = as_dict(part.get("input_audio"))
        yield f"audio: {as_text(audio.get('format'))}, {len(_decode_base64(as_text(audio.get('data')))):,} bytes"
    elif part.get("type") == "file":
        file = as_dict(part.get("file"))
        yield f"file {as_text(file.get('filename'))}: {_describe_data_url(as_text(file.get('file_data')))}"
    elif part.get("type") == "image_url":
        yield f"image: {_describe_data_url(as_text(as_dict(part.get('image_url')).get('url')))}"


def _describe_data_url(url: str) -> str:
    """Return the MIME type and size of the content of a data URL, and the dimensions of a PNG."""
    head, _, data = url.partition(",")
    content = _decode_base64(data)
    dimensions = ""
    if content.startswith(PNG_SIGNATURE) and len(content) >= 24:
        width, height = (int.from_bytes(content[offset : offset + 4], "big") for offset in (16, 20))
        dimensions = f", {width} x {height} pixels"
    return f"{head.removeprefix('data:').partition(';')[0]}, {len(content):,} bytes{dimensions}"


def _decode_base64(data: str) -> bytes:
    try:
        return a2b_base64(data)
    except ValueError:
        return b""
