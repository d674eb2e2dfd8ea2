"""The content blocks of a prompt as a message with files."""

from __future__ import annotations

import mimetypes
import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from acp import schema

from ask.attachments import decode_base64
from ask.errors import FileError, UsageError
from ask.records import NamedTuple
from ask.text import format_blocks

ContentBlock = (
    schema.TextContentBlock
    | schema.ImageContentBlock
    | schema.AudioContentBlock
    | schema.ResourceContentBlock
    | schema.EmbeddedResourceContentBlock
)


class PromptContent(NamedTuple):
    """The text of a prompt, and the files to attach, as the values of -f."""

    text: str
    files: Sequence[str]


def read_prompt(blocks: Sequence[ContentBlock], folder: Path) -> PromptContent:
    """Convert the blocks of a prompt. Binary data are written to files in a folder.

    Raises:
        UsageError: data are not valid base64.
        FileError: a file cannot be written.
    """
    words: list[str] = []
    texts: list[tuple[str, str]] = []
    files: list[str] = []
    for block in blocks:
        if isinstance(block, schema.TextContentBlock):
            words.append(block.text)
        elif isinstance(block, schema.ResourceContentBlock):
            path, lines = _parse_uri(block.uri)
            is_readable = bool(path) and os.access(path, os.R_OK)
            if is_readable:
                files.append(path)
            note = "" if is_readable else " (not attached: it cannot be read)"  # a file that is not saved yet
            words.append(f"`{path}{lines}`{note}" if path else f"[{block.name}]({block.uri})")
        elif isinstance(block, schema.EmbeddedResourceContentBlock):
            path, lines = _parse_uri(block.resource.uri)
            if isinstance(block.resource, schema.TextResourceContents):
                texts.append((f"{path}{lines}" or block.resource.uri, block.resource.text))
            else:
                media_type = block.resource.mime_type or "application/octet-stream"
                files.append(_write_file(folder, len(files), block.resource.blob, media_type, Path(path).name))
        else:
            files.append(_write_file(folder, len(files), block.data, block.mime_type))
    return PromptContent(format_blocks("".join(words).strip(), texts, ""), files)


def _parse_uri(uri: str) -> tuple[str, str]:
    """Return the absolute path of a file:// URI, and its lines as in `#L1:3`; two empty strings for another URI."""
    try:
        parts = urlsplit(uri)
    except ValueError:  # no URI
        return "", ""
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
        return "", ""
    path = unquote(parts.path)
    if "\0" in path:  # no file has such a name
        return "", ""
    return path, f"#{parts.fragment}" if parts.fragment else ""


def _write_file(folder: Path, number: int, data: str, media_type: str, name: str = "") -> str:
    try:
        content = decode_base64(data)
    except ValueError:
        raise UsageError(f"the data of a block with the type {media_type} are not base64", "send it again") from None
    subfolder = folder / str(number)
    subfolder.mkdir()
    suffix = mimetypes.guess_extension(media_type) or ""
    path = subfolder / (name if name.strip(".") else f"{media_type.partition('/')[0]}{suffix}")
    try:
        path.write_bytes(content)
    except OSError as error:
        raise FileError(f"cannot save the data of the block {path.name!r} ({error.strerror})", "send less") from error
    return str(path)
