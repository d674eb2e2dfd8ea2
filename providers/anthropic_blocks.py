"""The blocks that messages of Anthropic's API are made of: what they hold, and what of them may go back."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ask import Attachment, as_dict, as_list, as_text

CACHE_MARKER = {"type": "ephemeral"}
THINKING = {"thinking": "signature", "redacted_thinking": "data"}
"""Blocks of thinking, each with the field that vouches for it."""
NEEDED = {**THINKING, "text": "text"}
"""Blocks that are refused where such a field is blank."""
ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")
"""What ids and names of tools may not hold."""
LONGEST_NAME = 128
IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""https://platform.claude.com/docs/en/build-with-claude/vision"""
PDF = "application/pdf"
LONGEST_TITLE = 200


def text_blocks(*texts: str) -> list[dict[str, Any]]:
    """A block for each text; none for a blank one, which the API refuses."""
    return [{"type": "text", "text": text} for text in texts if text.strip()]


def file_block(attachment: Attachment) -> dict[str, Any]:
    """An image or a document. They stand before the text, where the models understand them best."""
    source = {"type": "base64", "media_type": attachment.media_type, "data": attachment.base64}
    if attachment.media_type != PDF:
        return {"type": "image", "source": source}
    return {"type": "document", "source": source, "title": attachment.name[:LONGEST_TITLE] or "document"}


def content_of(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The blocks of a message in the API's own shape."""
    return [block for block in as_list(message.get("content")) if isinstance(block, dict)]


def text_of(blocks: Sequence[Mapping[str, Any]]) -> str:
    return "".join(as_text(block.get("text")) for block in blocks if block.get("type") == "text")


def calls_of(blocks: Sequence[Mapping[str, Any]]) -> list[str]:
    """The ids of the calls among blocks."""
    return [as_text(block.get("id")) for block in blocks if block.get("type") == "tool_use"]


def refusal_reason(response: Mapping[str, Any]) -> str:
    """What a refusal says of its cause: the category of the policy, and an explanation; "" where there is none."""
    details = as_dict(response.get("stop_details"))
    if response.get("stop_reason") != "refusal":
        return ""
    return ": ".join(filter(None, (as_text(details.get("category")), as_text(details.get("explanation")))))


def may_return(block: Mapping[str, Any], *, thinking: bool = True) -> bool:
    """Whether a block may go back: blank texts, though the API sends them, and unsigned thinking are refused."""
    kind = as_text(block.get("type"))
    if kind in THINKING and not thinking:
        return False
    return kind not in NEEDED or as_text(block.get(NEEDED[kind])).strip() != ""


def mark_for_caching(body: dict[str, Any]) -> None:
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


class CallIds:
    """The ids of a conversation's calls as the API takes them: of few characters, and each only once.

    Other providers' may hold a dot or a colon, and begin anew in every answer.
    """

    def __init__(self) -> None:
        self._wire: dict[str, str] = {}
        self._used: set[str] = set()

    def begin(self, call_id: str) -> str:
        """The id for a call that is new in the conversation."""
        base = ILLEGAL.sub("_", call_id) or "call"
        wire, count = base, 1
        while wire in self._used:
            count += 1
            wire = f"{base}_{count}"
        self._used.add(wire)
        self._wire[call_id] = wire
        return wire

    def of(self, call_id: str) -> str:
        """The id of the newest call that had this one."""
        return self._wire.get(call_id) or self.begin(call_id)


def legal_name(name: str) -> str:
    """A tool's name as the API takes it, which a model made up or another provider allowed."""
    return ILLEGAL.sub("_", name)[:LONGEST_NAME] or "unnamed"
