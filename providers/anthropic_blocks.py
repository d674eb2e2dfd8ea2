"""Content blocks of Anthropic's messages: build them, read them, and decide which can be sent back."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ask import Attachment
from ask.parsing import read_dict, read_list, read_str

CACHE_MARKER = {"type": "ephemeral"}
THINKING_FIELDS = {"thinking": "signature", "redacted_thinking": "data"}
"""Types of thinking blocks, with the field that authenticates each."""
REQUIRED_FIELDS = {**THINKING_FIELDS, "text": "text"}
"""Block types that the API refuses if this field is blank."""
INVALID_CHARACTERS = re.compile(r"[^a-zA-Z0-9_-]")
"""Characters that are not allowed in call ids and tool names."""
MAX_TOOL_NAME_LENGTH = 128
IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""https://platform.claude.com/docs/en/build-with-claude/vision"""
PDF_TYPE = "application/pdf"
MAX_TITLE_LENGTH = 200


def format_text_blocks(*texts: str) -> list[dict[str, Any]]:
    """Format a block for each text, except blank ones, which the API refuses."""
    return [{"type": "text", "text": text} for text in texts if text.strip()]


def format_file_block(attachment: Attachment) -> dict[str, Any]:
    """Format an image or document. Files go before the text, as Anthropic recommends."""
    source = {"type": "base64", "media_type": attachment.media_type, "data": attachment.base64}
    if attachment.media_type != PDF_TYPE:
        return {"type": "image", "source": source}
    return {"type": "document", "source": source, "title": attachment.name[:MAX_TITLE_LENGTH] or "document"}


def read_blocks(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [block for block in read_list(message.get("content")) if isinstance(block, dict)]


def join_text(blocks: Sequence[Mapping[str, Any]]) -> str:
    return "".join(read_str(block.get("text")) for block in blocks if block.get("type") == "text")


def list_call_ids(blocks: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the ids of the tool calls among the blocks."""
    return [read_str(block.get("id")) for block in blocks if block.get("type") == "tool_use"]


def format_refusal_reason(response: Mapping[str, Any]) -> str:
    """Return the policy category and explanation of a refusal; "" if the response is not one."""
    details = read_dict(response.get("stop_details"))
    if response.get("stop_reason") != "refusal":
        return ""
    return ": ".join(filter(None, (read_str(details.get("category")), read_str(details.get("explanation")))))


def can_send_back(block: Mapping[str, Any], *, include_thinking: bool = True) -> bool:
    """Check whether a block may be sent back.

    The API refuses blank text, although it sends such blocks, and unsigned thinking.
    """
    block_type = read_str(block.get("type"))
    if block_type in THINKING_FIELDS and not include_thinking:
        return False
    return block_type not in REQUIRED_FIELDS or read_str(block.get(REQUIRED_FIELDS[block_type])).strip() != ""


def add_cache_markers(body: dict[str, Any]) -> None:
    """Mark what to cache: the end of tools and system prompt, this request and the previous one.

    The last marker lets this request find its prefix after any number of calls: the API looks back at most 20 blocks
    from a marker.
    """
    prefix = read_list(body.get("system")) or read_list(body.get("tools"))
    user_contents = [read_list(message.get("content")) for message in body["messages"] if message["role"] == "user"]
    for blocks in (prefix, *user_contents[-2:]):
        cacheable = [block for block in blocks if block.get("type") != "tool_result" or "content" in block]
        for last in cacheable[-1:]:
            last["cache_control"] = CACHE_MARKER


def sanitize_call_id(call_id: str) -> str:
    """Return a call id that the API accepts. Ids of other providers may contain a dot or colon."""
    return INVALID_CHARACTERS.sub("_", call_id) or "call"


def sanitize_tool_name(name: str) -> str:
    """Return a tool name that the API accepts.

    A model or another provider may have used other characters.
    """
    return INVALID_CHARACTERS.sub("_", name)[:MAX_TOOL_NAME_LENGTH] or "unnamed"
