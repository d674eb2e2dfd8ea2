"""Conversion of tool results to text for the model. Images, audio and files are described, not sent."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ask.parsing import read_dict
from ask.tools.base import ToolResult

if TYPE_CHECKING:
    from mcp_types import CallToolResult

EMPTY_RESULT = "[the tool returned nothing]"
MEDIA_KEYS = ("data", "blob")
"""Keys in which MCP puts the Base64 data of images, audio and files, next to `mimeType`."""
DUPLICATE = object()
"""A marker for structured content that the content list contains too."""


def to_tool_result(result: CallToolResult) -> ToolResult:
    """Convert the result of a call.

    Servers should repeat structured content as text (https://modelcontextprotocol.io/specification, "Structured
    Content"), so it is used only if there is no text.
    """
    texts = [text for text in map(format_content_block, result.content) if text]
    has_text = any(part.type == "text" and part.text for part in result.content)
    if result.structured_content is not None and not has_text:
        structured = drop_duplicates(result.structured_content, result.content)
        if structured is not DUPLICATE:
            texts.append(json.dumps(structured, ensure_ascii=False))
    return ToolResult("\n".join(texts) or EMPTY_RESULT, failed=bool(result.is_error))


def format_content_block(block: Any) -> str:
    """Format a content block: return text unchanged and describe anything else."""
    if block.type == "text":
        return str(block.text)
    if block.type in ("image", "audio"):
        return f"[{block.type} {block.mime_type}, {format_size(block.data)}, not shown]"
    if block.type == "resource_link":
        description = " ".join(filter(None, (block.mime_type, block.title or block.name)))
        return f"[link to {block.uri}: {description}]"
    resource = block.resource
    if hasattr(resource, "text"):
        return f"[resource {resource.uri}]\n{resource.text}"
    return f"[resource {resource.uri} {resource.mime_type or ''}, {format_size(resource.blob)}, not shown]".replace(
        " ,", ","
    )


def drop_duplicates(structured_content: Any, blocks: Sequence[Any]) -> Any:
    """Return structured content without parts that `blocks` contain already; `DUPLICATE` if nothing remains.

    Remaining media are replaced by their size, since a model cannot read Base64.
    """
    dumps = [part.model_dump(mode="json", by_alias=True, exclude_none=True) for part in blocks]
    media = {text for dump in dumps for text in (dump.get("data"), read_dict(dump.get("resource")).get("blob")) if text}

    def drop_from(value: Any) -> Any:
        if isinstance(value, str):
            base64 = value.rpartition(";base64,")[2]
            return f"[{format_size(base64)}, not shown]" if base64 in media else value
        if isinstance(value, list):
            items = [item for item in map(drop_from, value) if item is not DUPLICATE]
            return items if items or not value else DUPLICATE
        if not isinstance(value, dict):
            return value
        if {key: item for key, item in value.items() if item is not None} in dumps:
            return DUPLICATE
        texts = {key: text for key in MEDIA_KEYS if isinstance(text := value.get(key), str)}
        if isinstance(value.get("mimeType"), str):
            value = {**value, **{key: f"[{format_size(text)}, not shown]" for key, text in texts.items()}}
        remaining = {key: rest for key, item in value.items() if (rest := drop_from(item)) is not DUPLICATE}
        return remaining if remaining or not value else DUPLICATE

    return drop_from(structured_content)


def format_size(encoded_data: str) -> str:
    """Format the decoded size of Base64 data."""
    return f"{len(encoded_data.rstrip('=')) * 3 // 4:,} bytes"
