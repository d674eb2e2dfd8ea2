"""From the result of a server's tool to the text that the model gets. What is no text is said in words."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ask.tools import ToolResult

if TYPE_CHECKING:
    from mcp_types import CallToolResult

NOTHING = "[the tool returned nothing]"


def as_result(result: CallToolResult) -> ToolResult:
    """The result of a call."""
    texts = [text for text in map(as_text, result.content) if text]
    has_text = any(part.type == "text" and part.text for part in result.content)
    if result.structured_content is not None and not has_text:
        texts.append(json.dumps(result.structured_content, ensure_ascii=False))
    return ToolResult("\n".join(texts) or NOTHING, failed=bool(result.is_error))


def as_text(part: Any) -> str:
    """One part of a result: text as it is, all else in words."""
    if part.type == "text":
        return str(part.text)
    if part.type in ("image", "audio"):
        return f"[{part.type} {part.mime_type}, {size(part.data)}, not shown]"
    if part.type == "resource_link":
        about = " ".join(filter(None, (part.mime_type, part.title or part.name)))
        return f"[link to {part.uri}: {about}]"
    resource = part.resource
    if hasattr(resource, "text"):
        return f"[resource {resource.uri}]\n{resource.text}"
    return f"[resource {resource.uri} {resource.mime_type or ''}, {size(resource.blob)}, not shown]".replace(" ,", ",")


def size(base64: str) -> str:
    """How many bytes a text in base64 stands for."""
    return f"{len(base64.rstrip('=')) * 3 // 4:,} bytes"
