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

TEXT_DELTA_FIELDS = {"text_delta": "text", "thinking_delta": "thinking"}
"""The deltas that hold text, each with its field, which is also its block's field and type."""
BLOCK_OVERHEAD = 10_000
"""What a block counts besides its text: more than it takes in memory."""


class AnthropicStreamReader:
    """Reads one stream; see `ask.StreamReader`."""

    def __init__(self) -> None:
        self.ended = self.over = False
        self.size = 0
        self._message_fields: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._blocks: dict[int, PartialBlock] = {}
        self._call_count = 0

    def feed(self, event: ServerEvent) -> list[Delta]:
        if self.ended:
            return []
        data = parse_json(event.data)
        if data is None:
            data = {"error": {"message": f"an event that is not JSON: {event.data[:200]}"}}
        fields = as_dict(data)
        kind = as_text(fields.get("type")) or event.event
        if kind == "error" or fields.get("error"):
            self._message_fields["error"] = find_error(fields) or {"message": "an error without a word"}
            self.ended = True
        elif kind == "message_start":
            self._start_message(as_dict(fields.get("message")))
        elif kind == "content_block_start":
            self.size += BLOCK_OVERHEAD + len(event.data)
            return self._start_block(fields)
        elif kind == "content_block_delta":
            return self._read_delta(fields)
        elif kind == "message_delta":
            self.size += len(event.data)
            self._message_fields |= drop_nulls(fields.get("delta"))
            self._usage |= drop_nulls(fields.get("usage"))
        elif kind == "message_stop":
            self.ended = self.over = True
        return []

    def response(self) -> dict[str, Any]:
        content = [block.to_dict() for block in self._blocks.values()]
        return self._message_fields | {"content": content, "usage": self._usage}

    def _start_message(self, message: dict[str, Any]) -> None:
        """Begin a message, with nothing left of one that broke off where this one begins (seen)."""
        self._message_fields = {name: value for name, value in message.items() if name != "error"}
        self._usage = drop_nulls(message.get("usage"))
        self._blocks = {}
        self._call_count = 0

    def _start_block(self, fields: dict[str, Any]) -> list[Delta]:
        start = as_dict(fields.get("content_block"))
        place = as_int(fields.get("index"))
        self._blocks[len(self._blocks) if place is None else place] = PartialBlock(start)
        if start.get("type") == "tool_use":
            self._call_count += 1
            return [CallDelta(self._call_count - 1, as_text(start.get("name")) or "unnamed")]
        return [*to_deltas("thinking", as_text(start.get("thinking"))), *to_deltas("text", as_text(start.get("text")))]

    def _read_delta(self, fields: dict[str, Any]) -> list[Delta]:
        delta = as_dict(fields.get("delta"))
        kind = as_text(delta.get("type"))
        place = as_int(fields.get("index"))
        place = max(len(self._blocks) - 1, 0) if place is None else place
        if place not in self._blocks:
            if kind not in TEXT_DELTA_FIELDS:
                return []
            self._blocks[place] = PartialBlock({"type": TEXT_DELTA_FIELDS[kind]})
            self.size += BLOCK_OVERHEAD
        block = self._blocks[place]
        if kind in TEXT_DELTA_FIELDS:
            name = TEXT_DELTA_FIELDS[kind]
            text = as_text(delta.get(name))
            self.size += block.text_buffers.setdefault(name, StringIO()).write(text)
            return to_deltas(name, text)
        if kind == "input_json_delta":
            self.size += block.input_buffer.write(as_text(delta.get("partial_json")))
        elif kind == "signature_delta":
            block.initial_block["signature"] = delta.get("signature")
            self.size += len(as_text(delta.get("signature")))
        elif kind == "citations_delta":
            block.initial_block["citations"] = citations = as_list(block.initial_block.get("citations"))
            citations.append(delta.get("citation"))
            self.size += BLOCK_OVERHEAD
        return []


@dataclass
class PartialBlock:
    """What has come of one content block: how it began, and the pieces of its texts and its input since."""

    initial_block: dict[str, Any]
    text_buffers: dict[str, StringIO] = field(default_factory=dict)
    input_buffer: StringIO = field(default_factory=StringIO)

    @property
    def block_type(self) -> Any:
        return self.initial_block.get("type")

    def to_dict(self) -> dict[str, Any]:
        """The block so far; its input is an object, or the text as it came where that is no whole object."""
        block = dict(self.initial_block)
        for name, written in self.text_buffers.items():
            block[name] = as_text(block.get(name)) + written.getvalue()
        text = self.input_buffer.getvalue()
        if text.strip():
            value = arguments_object(text)
            block["input"] = text if value is None else value
        return block


def to_deltas(field_name: str, text: str) -> list[Delta]:
    """What a user sees of a piece of text or thinking."""
    if not text:
        return []
    return [TextDelta(text) if field_name == "text" else ReasoningDelta(text)]


def drop_nulls(value: Any) -> dict[str, Any]:
    """The fields of an object that are told: a number that is null, or not told again, stays what it was."""
    return {name: part for name, part in as_dict(value).items() if part is not None}
