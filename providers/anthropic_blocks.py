"""The blocks that messages of Anthropic's API are made of: what they hold, and what of them may go back."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ask import Attachment, as_dict, as_list, as_text

CACHE_MARKER = {"type": "ephemeral"}
THINKING_FIELDS = {"thinking": "signature", "redacted_thinking": "data"}
"""Blocks of thinking, each with the field that vouches for it."""
REQUIRED_FIELDS = {**THINKING_FIELDS, "text": "text"}
"""Blocks that are refused where such a field is blank."""
INVALID_CHARACTERS = re.compile(r"[^a-zA-Z0-9_-]")
"""What ids and names of tools may not hold."""
MAX_TOOL_NAME_LENGTH = 128
IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""https://platform.claude.com/docs/en/build-with-claude/vision"""
PDF_TYPE = "application/pdf"
MAX_TITLE_LENGTH = 200


def format_text_blocks(*texts: str) -> list[dict[str, Any]]:
    """A block for each text; none for a blank one, which the API refuses."""
    return [{"type": "text", "text": text} for text in texts if text.strip()]


def format_file_block(attachment: Attachment) -> dict[str, Any]:
    """An image or a document. They stand before the text, where the models understand them best."""
    source = {"type": "base64", "media_type": attachment.media_type, "data": attachment.base64}
    if attachment.media_type != PDF_TYPE:
        return {"type": "image", "source": source}
    return {"type": "document", "source": source, "title": attachment.name[:MAX_TITLE_LENGTH] or "document"}


def read_blocks(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The blocks of a message in the API's own shape."""
    return [block for block in as_list(message.get("content")) if isinstance(block, dict)]


def join_text(blocks: Sequence[Mapping[str, Any]]) -> str:
    return "".join(as_text(block.get("text")) for block in blocks if block.get("type") == "text")


def list_call_ids(blocks: Sequence[Mapping[str, Any]]) -> list[str]:
    """The ids of the calls among blocks."""
    return [as_text(block.get("id")) for block in blocks if block.get("type") == "tool_use"]


def format_refusal_reason(response: Mapping[str, Any]) -> str:
    """What a refusal says of its cause: the category of the policy, and an explanation; "" where there is none."""
    details = as_dict(response.get("stop_details"))
    if response.get("stop_reason") != "refusal":
        return ""
    return ": ".join(filter(None, (as_text(details.get("category")), as_text(details.get("explanation")))))


def can_send_back(block: Mapping[str, Any], *, include_thinking: bool = True) -> bool:
    """Whether a block may go back: blank texts, though the API sends them, and unsigned thinking are refused."""
    kind = as_text(block.get("type"))
    if kind in THINKING_FIELDS and not include_thinking:
        return False
    return kind not in REQUIRED_FIELDS or as_text(block.get(REQUIRED_FIELDS[kind])).strip() != ""


def add_cache_markers(body: dict[str, Any]) -> None:
    """Mark what to cache: tools and system text, the end of this request, and the end of the one before.

    The last is where this request finds its prefix however many calls came between: from a mark, the API looks
    back no more than 20 blocks.
    """
    fixed = as_list(body.get("system")) or as_list(body.get("tools"))
    users = [as_list(message.get("content")) for message in body["messages"] if message["role"] == "user"]
    for blocks in (fixed, *users[-2:]):
        full = [block for block in blocks if block.get("type") != "tool_result" or "content" in block]
        for last in full[-1:]:
            last["cache_control"] = CACHE_MARKER


class CallIdMap:
    """The ids of a conversation's calls as the API takes them: of few characters, and each only once.

    Other providers' may hold a dot or a colon, and begin anew in every answer.
    """

    def __init__(self) -> None:
        self._wire_ids: dict[str, str] = {}
        self._used_ids: set[str] = set()

    def assign_id(self, call_id: str) -> str:
        """The id for a call that is new in the conversation."""
        base = INVALID_CHARACTERS.sub("_", call_id) or "call"
        wire, count = base, 1
        while wire in self._used_ids:
            count += 1
            wire = f"{base}_{count}"
        self._used_ids.add(wire)
        self._wire_ids[call_id] = wire
        return wire

    def get_id(self, call_id: str) -> str:
        """The id of the newest call that had this one."""
        return self._wire_ids.get(call_id) or self.assign_id(call_id)


def sanitize_tool_name(name: str) -> str:
    """A tool's name as the API takes it, which a model made up or another provider allowed."""
    return INVALID_CHARACTERS.sub("_", name)[:MAX_TOOL_NAME_LENGTH] or "unnamed"
