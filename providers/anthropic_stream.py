"""Gathers a stream of Anthropic's Messages API into the message that the API returns without streaming."""

from __future__ import annotations

from dataclasses import dataclass, field
from io import StringIO
from typing import Any

from ask import (
    CallDelta,
    Delta,
    ReasoningDelta,
    ServerEvent,
    TextDelta,
    arguments_object,
    as_dict,
    as_int,
    as_list,
    as_text,
    find_error,
    parse_json,
)

TEXT_DELTAS = {"text_delta": "text", "thinking_delta": "thinking"}
"""The deltas that hold text, each with its field, which is also its block's field and type."""
BLOCK_SIZE = 10_000
"""What a block counts besides its text: more than it takes in memory."""


class MessageStreamReader:
    """Reads one stream; see `ask.StreamReader`."""

    def __init__(self) -> None:
        self.ended = self.over = False
        self.size = 0
        self._head: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._blocks: dict[int, PartialBlock] = {}
        self._calls = 0

    def feed(self, event: ServerEvent) -> list[Delta]:
        if self.ended:
            return []
        data = parse_json(event.data)
        if data is None:
            data = {"error": {"message": f"an event that is not JSON: {event.data[:200]}"}}
        fields = as_dict(data)
        kind = as_text(fields.get("type")) or event.event
        if kind == "error" or fields.get("error"):
            self._head["error"] = find_error(fields) or {"message": "an error without a word"}
            self.ended = True
        elif kind == "message_start":
            self._begin(as_dict(fields.get("message")))
        elif kind == "content_block_start":
            self.size += BLOCK_SIZE + len(event.data)
            return self._begin_block(fields)
        elif kind == "content_block_delta":
            return self._read_delta(fields)
        elif kind == "message_delta":
            self.size += len(event.data)
            self._head |= without_nulls(fields.get("delta"))
            self._usage |= without_nulls(fields.get("usage"))
        elif kind == "message_stop":
            self.ended = self.over = True
        return []

    def response(self) -> dict[str, Any]:
        content = [block.whole() for block in self._blocks.values()]
        return self._head | {"content": content, "usage": self._usage}

    def _begin(self, message: dict[str, Any]) -> None:
        """Begin a message, with nothing left of one that broke off where this one begins (seen)."""
        self._head = {name: value for name, value in message.items() if name != "error"}
        self._usage = without_nulls(message.get("usage"))
        self._blocks = {}
        self._calls = 0

    def _begin_block(self, fields: dict[str, Any]) -> list[Delta]:
        start = as_dict(fields.get("content_block"))
        place = as_int(fields.get("index"))
        self._blocks[len(self._blocks) if place is None else place] = PartialBlock(start)
        if start.get("type") == "tool_use":
            self._calls += 1
            return [CallDelta(self._calls - 1, as_text(start.get("name")) or "unnamed")]
        return [*shown("thinking", as_text(start.get("thinking"))), *shown("text", as_text(start.get("text")))]

    def _read_delta(self, fields: dict[str, Any]) -> list[Delta]:
        delta = as_dict(fields.get("delta"))
        kind = as_text(delta.get("type"))
        place = as_int(fields.get("index"))
        place = max(len(self._blocks) - 1, 0) if place is None else place
        if place not in self._blocks:
            if kind not in TEXT_DELTAS:
                return []
            self._blocks[place] = PartialBlock({"type": TEXT_DELTAS[kind]})
            self.size += BLOCK_SIZE
        block = self._blocks[place]
        if kind in TEXT_DELTAS:
            name = TEXT_DELTAS[kind]
            text = as_text(delta.get(name))
            self.size += block.texts.setdefault(name, StringIO()).write(text)
            return shown(name, text)
        if kind == "input_json_delta":
            self.size += block.input.write(as_text(delta.get("partial_json")))
        elif kind == "signature_delta":
            block.start["signature"] = delta.get("signature")
            self.size += len(as_text(delta.get("signature")))
        elif kind == "citations_delta":
            block.start["citations"] = citations = as_list(block.start.get("citations"))
            citations.append(delta.get("citation"))
            self.size += BLOCK_SIZE
        return []


@dataclass
class PartialBlock:
    """What has come of one content block: how it began, and the pieces of its texts and its input since."""

    start: dict[str, Any]
    texts: dict[str, StringIO] = field(default_factory=dict)
    input: StringIO = field(default_factory=StringIO)

    @property
    def kind(self) -> Any:
        return self.start.get("type")

    def whole(self) -> dict[str, Any]:
        """The block so far; its input is an object, or the text as it came where that is no whole object."""
        block = dict(self.start)
        for name, written in self.texts.items():
            block[name] = as_text(block.get(name)) + written.getvalue()
        text = self.input.getvalue()
        if text.strip():
            value = arguments_object(text)
            block["input"] = text if value is None else value
        return block


def shown(name: str, text: str) -> list[Delta]:
    """What a user sees of a piece of text or thinking."""
    if not text:
        return []
    return [TextDelta(text) if name == "text" else ReasoningDelta(text)]


def without_nulls(value: Any) -> dict[str, Any]:
    """The fields of an object that are told: a number that is null, or not told again, stays what it was."""
    return {name: part for name, part in as_dict(value).items() if part is not None}
