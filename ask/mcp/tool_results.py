"""Conversion of tool results to text and files for the model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ask.attachments import ATTACHABLE_MEDIA_TYPES, MAX_RESULT_FILES, decode_base64, find_attachment
from ask.mcp.connection import read_entries
from ask.mcp.process import MAX_MESSAGE_BYTES
from ask.messages import Attachment
from ask.parsing import read_dict
from ask.text import format_one_line
from ask.tools.base import ToolResult
from ask.tools.fetch_url import find_file_name

if TYPE_CHECKING:
    from mcp import Client

EMPTY_RESULT = "[the tool returned nothing]"
MEDIA_KEYS = ("data", "blob")
"""Keys in which MCP puts the Base64 data of images, audio and files, next to `mimeType`."""
RESULT_KEYS = ("content", "structuredContent", "isError", "resultType", "_meta")
MAX_UNKNOWN_CHARACTERS = 10_000
"""Maximum number of characters of a text in an unknown content block."""
MAX_LINKED_BYTES = MAX_MESSAGE_BYTES * 7 // 10
"""Maximum size of a linked resource, which becomes larger in Base64."""
DUPLICATE = object()
"""A marker for structured content that the content list contains too."""


async def read_linked_files(client: Client, result: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a result of a call in which links to images, PDFs and audio of the server are replaced by these resources.

    A link stays a link if the resource cannot be read, or is of another type: the model may not need it.
    """
    content = result.get("content")
    if client.server_capabilities.resources is None or not isinstance(content, list):
        return result
    read_count, blocks = 0, list[Any]()
    for block in content:
        if _is_link_to_file(block) and read_count < MAX_RESULT_FILES:
            read_count += 1
            with suppress(Exception):  # the call itself has succeeded
                contents = read_entries(await client.read_resource(block["uri"]), "contents")
                blocks += [{"type": "resource", "resource": resource} for resource in contents]
                continue
        blocks.append(block)
    return {**result, "content": blocks}


def _is_link_to_file(value: Any) -> bool:
    """Check for a link to a resource that a model may be able to see or hear, and that fits into a message."""
    block = read_dict(value)
    size = block.get("size")
    is_small = not isinstance(size, int) or size <= MAX_LINKED_BYTES
    is_link = block.get("type") == "resource_link" and isinstance(block.get("uri"), str)
    return is_link and is_small and block.get("mimeType") in ATTACHABLE_MEDIA_TYPES


def to_tool_result(result: Mapping[str, Any]) -> ToolResult:
    """Convert the result of a call, as the server sent it.

    Servers should repeat structured content as text (https://modelcontextprotocol.io/specification, "Structured
    Content"), so it is used only if there is no text. What the protocol does not define is passed on as JSON.
    """
    content, structured = result.get("content"), result.get("structuredContent")
    blocks = content if isinstance(content, list) else [] if content is None else [content]
    files = [_read_attachment(block) for block in blocks]
    shown = zip(blocks, files, strict=True)
    texts = [text for block, file in shown if (text := format_content_block(block, is_shown=file is not None))]
    has_text = any(block if isinstance(block, str) else read_dict(block).get("text") for block in blocks)
    if structured is not None and not has_text:
        structured = _drop_duplicates(structured, list(map(read_dict, blocks)))
        if structured is not DUPLICATE:
            texts.append(json.dumps(structured, ensure_ascii=False))
    unknown = {key: value for key, value in result.items() if key not in RESULT_KEYS}
    if unknown and content is None and not texts:
        texts.append(json.dumps(unknown, ensure_ascii=False))
    failed = result.get("isError") in (True, "true")  # some servers send text
    return ToolResult("\n".join(texts) or EMPTY_RESULT, failed, attachments=tuple(filter(None, files)))


def _read_attachment(value: Any) -> Attachment | None:
    """Return the image, PDF or audio in a content block; None for any other block, and for invalid Base64."""
    block = read_dict(value)
    resource = read_dict(block.get("resource"))
    encoded = resource.get("blob") if block.get("type") == "resource" else block.get("data")
    if not isinstance(encoded, str):
        return None
    try:
        data = decode_base64(encoded)
    except ValueError:
        return None
    return find_attachment(find_file_name(_format_field(resource, "uri")) or _format_field(block, "type"), data)


def format_content_block(value: Any, *, is_shown: bool = False) -> str:
    """Format a content block: return text unchanged and describe anything else.

    An unknown block is passed on as JSON, without long texts, which may be encoded data.
    """
    block = {"type": "text", "text": value} if isinstance(value, str) else read_dict(value)
    kind, media_type = block.get("type"), _format_field(block, "mimeType")
    resource = read_dict(block.get("resource"))
    if kind == "text" and isinstance(block.get("text"), str):
        return str(block["text"])
    if kind in ("image", "audio"):
        return _format_media(f"{kind} {media_type}", block.get("data"), is_shown=is_shown)
    if kind == "resource_link":
        name = _format_field(block, "title") or _format_field(block, "name")
        description = " ".join(filter(None, (media_type, name)))
        return f"[link to {_format_field(block, 'uri')}: {description}]"
    if kind == "resource" and resource:
        return _format_resource(resource, is_shown=is_shown)
    return json.dumps(_shorten_texts(value), ensure_ascii=False)


def _format_resource(resource: Mapping[str, Any], *, is_shown: bool) -> str:
    """Format a resource inside a result: its text, or a description."""
    title = f"resource {_format_field(resource, 'uri')}".rstrip()
    if isinstance(resource.get("text"), str):
        return f"[{title}]\n{resource['text']}"
    return _format_media(f"{title} {_format_field(resource, 'mimeType')}", resource.get("blob"), is_shown=is_shown)


def _format_media(title: str, data: Any, *, is_shown: bool) -> str:
    """Describe an image, audio or a file by its size, or by the address that some servers send in place of it."""
    size = _format_size(data) if isinstance(data, str) else "without data"
    if isinstance(data, str) and data.startswith(("http://", "https://")):
        size = format_one_line(data, MAX_UNKNOWN_CHARACTERS)
    return f"[{title.rstrip()}, {size}{'' if is_shown else ', not shown'}]"


def _format_field(block: Mapping[str, Any], key: str) -> str:
    """Return a field that should be a text; "" if it is missing."""
    value = block.get(key)
    return "" if value is None else str(value)


def _shorten_texts(value: Any) -> Any:
    """Return a JSON value without its long texts."""
    if isinstance(value, dict):
        return {key: _shorten_texts(item) for key, item in value.items()}
    if isinstance(value, list):
        return list(map(_shorten_texts, value))
    is_long = isinstance(value, str) and len(value) > MAX_UNKNOWN_CHARACTERS
    return f"[{len(value):,} characters, not shown]" if is_long else value


def _drop_duplicates(structured_content: Any, blocks: Sequence[Mapping[str, Any]]) -> Any:
    """Return structured content without parts that `blocks` contain already; `DUPLICATE` if nothing remains.

    Remaining media are replaced by their size, since a model cannot read Base64.
    """
    dumps = [{key: item for key, item in block.items() if item is not None} for block in blocks]
    encoded = (text for dump in dumps for text in (dump.get("data"), read_dict(dump.get("resource")).get("blob")))
    media = {text for text in encoded if text and isinstance(text, str)}

    def drop_from(value: Any) -> Any:
        if isinstance(value, str):
            base64 = value.rpartition(";base64,")[2]
            return f"[{_format_size(base64)}, not shown]" if base64 in media else value
        if isinstance(value, list):
            items = [item for item in map(drop_from, value) if item is not DUPLICATE]
            return items if items or not value else DUPLICATE
        if not isinstance(value, dict):
            return value
        if {key: item for key, item in value.items() if item is not None} in dumps:
            return DUPLICATE
        texts = {key: text for key in MEDIA_KEYS if isinstance(text := value.get(key), str)}
        if isinstance(value.get("mimeType"), str):
            value = {**value, **{key: f"[{_format_size(text)}, not shown]" for key, text in texts.items()}}
        remaining = {key: rest for key, item in value.items() if (rest := drop_from(item)) is not DUPLICATE}
        return remaining if remaining or not value else DUPLICATE

    return drop_from(structured_content)


def _format_size(encoded_data: str) -> str:
    """Format the decoded size of Base64 data."""
    return f"{len(encoded_data.rpartition(',')[2].rstrip('=')) * 3 // 4:,} bytes"
