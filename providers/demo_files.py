"""What the demo says of files that came with a question: it cannot look at them, but tells what they are."""

from __future__ import annotations

from binascii import a2b_base64
from collections.abc import Iterator, Mapping
from typing import Any

from ask import as_dict, as_list, as_text

ATTACHMENTS = (
    *("image/png", "image/jpeg", "image/gif", "image/webp", "image/heic", "application/pdf"),
    *("audio/wav", "audio/mpeg", "audio/ogg", "audio/flac", "audio/mp4", "audio/aac", "audio/aiff"),
)
BEFORE = "I am the embedded demo, not a language model: I cannot look at files, but these came."
PNG = b"\x89PNG\r\n\x1a\n"


def as_words(content: Any) -> str:
    """The text of a message's content, in parts or not."""
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    return "".join(as_text(as_dict(part).get("text")) for part in parts)


def about_files(content: Any) -> str:
    """What the files in a message's content are, a line each; "" without any."""
    lines = [f"- {line}" for part in as_list(content) for line in _about(as_dict(part))]
    return "\n".join([BEFORE, "", *lines]) if lines else ""


def _about(part: Mapping[str, Any]) -> Iterator[str]:
    if part.get("type") == "input_audio":
        audio = as_dict(part.get("input_audio"))
        yield f"audio: {as_text(audio.get('format'))}, {len(_decoded(as_text(audio.get('data')))):,} bytes"
    elif part.get("type") == "file":
        file = as_dict(part.get("file"))
        yield f"file {as_text(file.get('filename'))}: {_of_url(as_text(file.get('file_data')))}"
    elif part.get("type") == "image_url":
        yield f"image: {_of_url(as_text(as_dict(part.get('image_url')).get('url')))}"


def _of_url(url: str) -> str:
    """The MIME type and size of what a data URL holds, and of a PNG its measures."""
    head, _, data = url.partition(",")
    content = _decoded(data)
    measures = ""
    if content.startswith(PNG) and len(content) >= 24:
        width, height = (int.from_bytes(content[place : place + 4], "big") for place in (16, 20))
        measures = f", {width} x {height} pixels"
    return f"{head.removeprefix('data:').partition(';')[0]}, {len(content):,} bytes{measures}"


def _decoded(data: str) -> bytes:
    try:
        return a2b_base64(data)
    except ValueError:
        return b""
