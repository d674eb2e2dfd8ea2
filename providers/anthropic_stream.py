"""Assemble a stream of Anthropic's Messages API into the message that the API returns without streaming."""

from __future__ import annotations

from io import StringIO
from typing import Any

from ask import Delta, RawEvent, ToolCallDelta
from ask.parsing import (
    ITEM_OVERHEAD,
    decode_arguments,
    find_error,
    merge_fields,
    parse_event,
    read_dict,
    read_int,
    read_list,
    read_str,
)

from .stream_events import to_deltas

INPUT_FIELD = "partial_json"
DELTA_FIELDS = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "input_json_delta": INPUT_FIELD,
}
"""Deltas with their field; apart from that of the input, it is also the field of their block."""


class AnthropicStreamReader:
    """Reads one stream; see `ask.StreamReader`."""

    def __init__(self) -> None:
        self.complete = False
        self.size = 0
        self._start_message({})

    def feed(self, event: RawEvent) -> list[Delta]:
        if self.complete:
            return []
        fields = read_dict(parse_event(event.data))
        event_type = read_str(fields.get("type")) or event.event
        if event_type == "error" or fields.get("error"):
            self._message_fields["error"] = find_error(fields) or {"message": "an error without a message"}
            self.complete = True
        elif event_type == "message_start":
            self._start_message(read_dict(fields.get("message")))
        elif event_type == "content_block_start":
            self.size += ITEM_OVERHEAD + len(event.data)
            return self._start_block(fields)
        elif event_type == "content_block_delta":
            return self._read_delta(fields)
        elif event_type == "message_delta":
            self.size += len(event.data)
            merge_fields(self._message_fields, fields.get("delta"))
            merge_fields(self._usage, fields.get("usage"))
        elif event_type == "message_stop":
            self.complete = True
        return []

    def response(self) -> dict[str, Any]:
        content = [assemble_block(*self._blocks[index]) for index in self._blocks]
        return self._message_fields | {"content": content, "usage": self._usage}

    def _start_message(self, message: dict[str, Any]) -> None:
        """Start a message, discarding an interrupted one: streams that begin again have been seen."""
        self._message_fields: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        merge_fields(self._message_fields, message, "error")
        merge_fields(self._usage, message.get("usage"))
        self._blocks: dict[int | None, tuple[dict[str, Any], dict[str, StringIO]]] = {}
        """Each initial block, and what was added to its fields, by index."""
        self._call_count = 0

    def _start_block(self, fields: dict[str, Any]) -> list[Delta]:
        block = read_dict(fields.get("content_block"))
        self._blocks[read_int(fields.get("index"))] = (block, {})
        if block.get("type") == "tool_use":
            self._call_count += 1
            return [ToolCallDelta(self._call_count - 1, read_str(block.get("name")) or "unnamed")]
        thinking, text = read_str(block.get("thinking")), read_str(block.get("text"))
        return [*to_deltas(thinking, is_reasoning=True), *to_deltas(text, is_reasoning=False)]

    def _read_delta(self, fields: dict[str, Any]) -> list[Delta]:
        delta = read_dict(fields.get("delta"))
        delta_type = read_str(delta.get("type"))
        index = read_int(fields.get("index"))
        if index not in self._blocks:
            return []
        block, buffers = self._blocks[index]
        if delta_type == "citations_delta":
            block["citations"] = [*read_list(block.get("citations")), delta.get("citation")]
            self.size += ITEM_OVERHEAD
        name = DELTA_FIELDS.get(delta_type, "")
        text = read_str(delta.get(name))
        if text:
            self.size += buffers.setdefault(name, StringIO()).write(text)
        return to_deltas(text, is_reasoning=name == "thinking") if name in ("text", "thinking") else []


def assemble_block(block: dict[str, Any], buffers: dict[str, StringIO]) -> dict[str, Any]:
    """Return a block so far; its input is an object, or the raw text if that is not complete JSON."""
    texts = {name: buffer.getvalue() for name, buffer in buffers.items()}
    input_json = texts.pop(INPUT_FIELD, "")
    block = block | {name: read_str(block.get(name)) + text for name, text in texts.items()}
    if input_json.strip():
        arguments = decode_arguments(input_json)
        block["input"] = input_json if arguments is None else arguments
    return block
