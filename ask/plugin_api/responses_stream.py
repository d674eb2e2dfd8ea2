"""Assembles a Responses API stream into the response that the non-streaming API would have returned."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from io import StringIO
from typing import Any

from ask.parsing import ITEM_OVERHEAD, parse_json, read_dict, read_int, read_list, read_str
from ask.plugin_api.chat_completions import ChatStreamReader
from ask.plugin_api.provider import Delta, RawEvent, ReasoningDelta, TextDelta, ToolCallDelta

FINAL_EVENTS = ("response.completed", "response.incomplete", "response.failed")
DELTA_EVENTS = {
    "response.output_text.delta": "message",
    "response.refusal.delta": "message",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.reasoning_text.delta": "reasoning",
    "response.function_call_arguments.delta": "function_call",
}
"""The events that add text, with the type of the item that they add it to."""
TEXT_DIFFERS_NOTICE = "the streamed answer differs from the final answer"


class ResponsesStreamReader:
    """The `ask.StreamReader` for Responses API streams.

    The final event contains the complete response, which replaces what was assembled from the deltas. Text that came
    without deltas, as some services send it, is returned as one delta.

    Args:
        open_chat_reader: creates the reader for a stream that turns out to be in the Chat Completions format.
    """

    def __init__(self, open_chat_reader: Callable[[], Any] = ChatStreamReader) -> None:
        self.complete = False
        self.size = 0
        self.notice = ""
        """Set if the streamed text differs from the final response."""
        self._open_chat_reader = open_chat_reader
        self._chat_reader: Any = None
        self._response: dict[str, Any] = {}
        self._error: Any = None
        self._final_response_seen = False
        self._items: dict[int, PartialItem] = {}
        self._text = StringIO()
        self._has_reasoning = False
        self._call_count = 0

    def feed(self, event: RawEvent) -> list[Delta]:
        if self._final_response_seen and self._chat_reader is None:
            return []
        data = parse_json(event.data)
        fields = read_dict(data)
        if self._chat_reader is not None or ("choices" in fields and not self._items):
            return self._feed_chat_reader(event)
        event_type = read_str(fields.get("type")) or event.event or ""
        if data is None:
            self._set_error({"message": f"an event that is not JSON: {event.data[:200]}"})
        elif event_type in FINAL_EVENTS:
            return self._finish(read_dict(fields.get("response")))
        elif event_type == "error" or fields.get("error"):
            self._set_error(fields.get("error") or fields)
        elif event_type in DELTA_EVENTS:
            return self._add_delta(fields, DELTA_EVENTS[event_type])
        elif event_type in ("response.output_item.added", "response.output_item.done"):
            self.size += len(event.data)
            return self._add_item(fields, is_done=event_type.endswith("done"))
        elif "response" in fields:
            self._response = read_dict(fields["response"])
        return []

    def response(self) -> dict[str, Any]:
        if self._chat_reader is not None:
            return read_dict(self._chat_reader.response())
        output = read_list(self._response.get("output")) if self._final_response_seen else []
        response = self._response | {"output": output or [item.to_dict() for _, item in sorted(self._items.items())]}
        return response | {"error": self._error} if self._error and not response.get("error") else response

    def _feed_chat_reader(self, event: RawEvent) -> list[Delta]:
        reader = self._chat_reader = self._chat_reader or self._open_chat_reader()
        deltas: list[Delta] = reader.feed(event)
        self.complete = reader.complete
        self.size = getattr(reader, "size", self.size + len(event.data))
        return deltas

    def _set_error(self, error: Any) -> None:
        self._error = error
        self.complete = True

    def _get_item(self, fields: Mapping[str, Any], item_type: str) -> PartialItem:
        """Return the item that an event belongs to, which is the last one if the event does not say."""
        index = read_int(fields.get("output_index"))
        index = max(self._items, default=0) if index is None else index
        if index not in self._items:
            self._items[index] = PartialItem({"type": item_type})
            self.size += ITEM_OVERHEAD
        return self._items[index]

    def _add_item(self, fields: Mapping[str, Any], *, is_done: bool) -> list[Delta]:
        value = read_dict(fields.get("item"))
        item = self._get_item(fields, read_str(value.get("type")))
        item.fields = value
        item.is_done = is_done
        deltas = self._announce_call(item)
        return deltas + self._show_missing_text(item) if is_done else deltas

    def _announce_call(self, item: PartialItem) -> list[Delta]:
        if item.is_announced or item.fields.get("type") != "function_call":
            return []
        item.is_announced = True
        self._call_count += 1
        return [ToolCallDelta(self._call_count - 1, read_str(item.fields.get("name")) or "unnamed")]

    def _show_missing_text(self, item: PartialItem) -> list[Delta]:
        """Return what the deltas of a complete item left out; nothing if they differ from it."""
        if item.fields.get("type") == "reasoning":
            return [] if item.text.tell() else self._show_reasoning(read_reasoning(item.fields))
        streamed, text = item.text.getvalue(), read_text(item.fields)
        return self._show_text(text[len(streamed) :]) if text.startswith(streamed) else []

    def _add_delta(self, fields: Mapping[str, Any], item_type: str) -> list[Delta]:
        item = self._get_item(fields, item_type)
        text = read_str(fields.get("delta"))
        part_index = read_int(fields.get("summary_index", fields.get("content_index")))
        is_new_part = part_index != item.part_index or not item.text.tell()
        item.part_index = part_index
        if item_type == "reasoning" and is_new_part and item.text.tell():
            item.text.write(PART_SEPARATOR)
        self.size += item.text.write(text)
        if item_type == "message":
            return self._show_text(text)
        if item_type == "reasoning":
            return self._show_reasoning(text, is_new_part=is_new_part)
        return self._announce_call(item) if item.fields.get("name") else []

    def _show_text(self, text: str) -> list[Delta]:
        self._text.write(text)
        return [TextDelta(text)] if text else []

    def _show_reasoning(self, text: str, *, is_new_part: bool = True) -> list[Delta]:
        """Return reasoning to show; parts are paragraphs."""
        if not text:
            return []
        separator = PART_SEPARATOR if is_new_part and self._has_reasoning else ""
        self._has_reasoning = True
        return [ReasoningDelta(separator + text)]

    def _finish(self, response: dict[str, Any]) -> list[Delta]:
        """Adopt the complete response, and return the text in it that was not streamed."""
        self.complete = self._final_response_seen = True
        self._response = response
        items = list(read_items(response))
        if not items:  # ChatGPT's own service lists none; they are in the events before
            return []
        streamed, text = self._text.getvalue(), "".join(map(read_text, items))
        if not text.startswith(streamed):
            self.notice = "" if text.strip() == streamed.strip() else TEXT_DIFFERS_NOTICE
            text = streamed
        deltas: list[Delta] = []
        if not self._items:
            for item in items:
                deltas += self._show_reasoning(read_reasoning(item))
        deltas += self._show_text(text[len(streamed) :])
        calls = [item for item in items if item.get("type") == "function_call"]
        for call in calls[self._call_count :]:
            deltas += self._announce_call(PartialItem(call))
        return deltas


class PartialItem:
    """An item of the output as received so far: its fields and its text."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = fields
        self.text = StringIO()
        self.part_index: int | None = None
        self.is_done = False
        self.is_announced = False

    def to_dict(self) -> dict[str, Any]:
        """Return the item in the format of the non-streaming API."""
        text = self.text.getvalue()
        if self.is_done or not text:
            return self.fields
        match self.fields.get("type"):
            case "function_call":
                return self.fields | {"arguments": text}
            case "reasoning":
                return self.fields | {"summary": [{"type": "summary_text", "text": text}]}
        return self.fields | {"content": [{"type": "output_text", "text": text}]}


PART_SEPARATOR = "\n\n"
"""Separates the parts of reasoning; each part of a summary begins with a heading."""


def read_items(response: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the items of a response's output."""
    return (read_dict(item) for item in read_list(response.get("output")))


def read_text(item: Mapping[str, Any]) -> str:
    """Return the text of a message item, including refusals; "" for any other item."""
    if item.get("type") != "message":
        return ""
    return "".join(read_str(part.get("text")) + read_str(part.get("refusal")) for part in read_parts(item, "content"))


def read_refusal(item: Mapping[str, Any]) -> str:
    """Return the refusals of a message item."""
    return "".join(read_str(part.get("refusal")) for part in read_parts(item, "content"))


def read_reasoning(item: Mapping[str, Any]) -> str:
    """Return the summary of a reasoning item, or else its text; "" for any other item."""
    if item.get("type") != "reasoning":
        return ""
    texts = [[read_str(part.get("text")) for part in read_parts(item, name)] for name in ("summary", "content")]
    return next(filter(None, map(join_parts, texts)), "")


def join_parts(texts: Sequence[str]) -> str:
    """Join the parts of reasoning to paragraphs."""
    return PART_SEPARATOR.join(filter(None, texts))


def read_parts(item: Mapping[str, Any], name: str) -> Iterator[dict[str, Any]]:
    return (read_dict(part) for part in read_list(item.get(name)))
