"""Assemble a stream of Anthropic's Messages API into the message that the API returns without streaming."""

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
"""Text deltas with their field, which is also the field and type of their block."""
BLOCK_OVERHEAD = 10_000
"""Size counted for each block in addition to its text; more than it needs in memory."""


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
        event_type = as_text(fields.get("type")) or event.event
        if event_type == "error" or fields.get("error"):
            self._message_fields["error"] = find_error(fields) or {"message": "an error without a word"}
            self.ended = True
        elif event_type == "message_start":
            self._start_message(as_dict(fields.get("message")))
        elif event_type == "content_block_start":
            self.size += BLOCK_OVERHEAD + len(event.data)
            return self._start_block(fields)
        elif event_type == "content_block_delta":
            return self._read_delta(fields)
        elif event_type == "message_delta":
            self.size += len(event.data)
            self._message_fields |= drop_nulls(fields.get("delta"))
            self._usage |= drop_nulls(fields.get("usage"))
        elif event_type == "message_stop":
            self.ended = self.over = True
        return []

    def response(self) -> dict[str, Any]:
        content = [block.to_dict() for block in self._blocks.values()]
        return self._message_fields | {"content": content, "usage": self._usage}

    def _start_message(self, message: dict[str, Any]) -> None:
        """Start a message, discarding an interrupted one: streams that begin again have been seen."""
        self._message_fields = {name: value for name, value in message.items() if name != "error"}
        self._usage = drop_nulls(message.get("usage"))
        self._blocks = {}
        self._call_count = 0

    def _start_block(self, fields: dict[str, Any]) -> list[Delta]:
        block = as_dict(fields.get("content_block"))
        index = as_int(fields.get("index"))
        self._blocks[len(self._blocks) if index is None else index] = PartialBlock(block)
        if block.get("type") == "tool_use":
            self._call_count += 1
            return [CallDelta(self._call_count - 1, as_text(block.get("name")) or "unnamed")]
        return [*to_deltas("thinking", as_text(block.get("thinking"))), *to_deltas("text", as_text(block.get("text")))]

    def _read_delta(self, fields: dict[str, Any]) -> list[Delta]:
        delta = as_dict(fields.get("delta"))
        delta_type = as_text(delta.get("type"))
        index = as_int(fields.get("index"))
        index = max(len(self._blocks) - 1, 0) if index is None else index
        if index not in self._blocks:
            if delta_type not in TEXT_DELTA_FIELDS:
                return []
            self._blocks[index] = PartialBlock({"type": TEXT_DELTA_FIELDS[delta_type]})
            self.size += BLOCK_OVERHEAD
        block = self._blocks[index]
        if delta_type in TEXT_DELTA_FIELDS:
            name = TEXT_DELTA_FIELDS[delta_type]
            text = as_text(delta.get(name))
            self.size += block.text_buffers.setdefault(name, StringIO()).write(text)
            return to_deltas(name, text)
        if delta_type == "input_json_delta":
            self.size += block.input_buffer.write(as_text(delta.get("partial_json")))
        elif delta_type == "signature_delta":
            block.initial_block["signature"] = delta.get("signature")
            self.size += len(as_text(delta.get("signature")))
        elif delta_type == "citations_delta":
            block.initial_block["citations"] = citations = as_list(block.initial_block.get("citations"))
            citations.append(delta.get("citation"))
            self.size += BLOCK_OVERHEAD
        return []


@dataclass
class PartialBlock:
    """A content block as received so far: its initial fields, and the fragments of its texts and input."""

    initial_block: dict[str, Any]
    text_buffers: dict[str, StringIO] = field(default_factory=dict)
    input_buffer: StringIO = field(default_factory=StringIO)

    @property
    def block_type(self) -> Any:
        return self.initial_block.get("type")

    def to_dict(self) -> dict[str, Any]:
        """Return the block so far; its input is an object, or the raw text if that is not complete JSON."""
        block = dict(self.initial_block)
        for name, buffer in self.text_buffers.items():
            block[name] = as_text(block.get(name)) + buffer.getvalue()
        text = self.input_buffer.getvalue()
        if text.strip():
            value = arguments_object(text)
            block["input"] = text if value is None else value
        return block


def to_deltas(field_name: str, text: str) -> list[Delta]:
    """Return the delta to display for a fragment of text or thinking."""
    if not text:
        return []
    return [TextDelta(text) if field_name == "text" else ReasoningDelta(text)]


def drop_nulls(value: Any) -> dict[str, Any]:
    """Return the fields that are not null: null means that an earlier value still applies."""
    return {name: item for name, item in as_dict(value).items() if item is not None}
