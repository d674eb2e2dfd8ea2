"""Assembles a Chat Completions stream into the response that the non-streaming API would have returned."""

from __future__ import annotations

import json
from collections.abc import Mapping
from io import StringIO
from typing import Any

from ask.parsing import as_dict, as_int, as_list, as_text
from ask.plugin_api.provider import CallDelta, Delta, ReasoningDelta, ServerEvent, TextDelta

REASONING_FIELDS = ("reasoning", "reasoning_content")
TEXT_FIELDS = ("content", "refusal", *REASONING_FIELDS)


def find_error(body: Any) -> Any:
    """Return the error in a response body or stream chunk, or None.

    It may be a string or an object, at the top level, inside the first choice or in a list, or the body itself.
    """
    if isinstance(body, list):
        errors = (find_error(entry) for entry in body if isinstance(entry, dict))
        return next((error for error in errors if error is not None), None)
    fields = as_dict(body)
    choices = as_list(fields.get("choices"))
    error = fields.get("error") or fields.get("errors") or (as_dict(choices[0]).get("error") if choices else None)
    if error:
        return error[0] if isinstance(error, list) else error
    is_error = "choices" not in fields and any(fields.get(name) for name in ("message", "detail"))
    return fields if is_error or fields.get("object") == "error" else None


DETAIL_CONTENT_FIELDS = ("text", "summary", "data", "signature")
"""The fields of a `reasoning_details` item that contain model output."""
MAX_FIELDS = 100
"""The limit for how many fields of a stream's chunks, its choice and each reasoning detail are kept."""
ITEM_OVERHEAD = 10_000
"""Characters added to `size` for each tool call or `reasoning_details` item, to bound the memory they take."""


class ChatStreamReader:
    """The `ask.StreamReader` for Chat Completions streams."""

    def __init__(self) -> None:
        self.ended = self.over = False
        self._text_size = 0
        self._top_level_fields: dict[str, Any] = {}
        self._text_fields: dict[str, StringIO] = {}
        self._tool_calls = ToolCallAssembler()
        self._legacy_calls = ToolCallAssembler()
        self._reasoning_details: dict[Any, dict[str, Any]] = {}
        self._reasoning_detail_texts: dict[tuple[Any, str], StringIO] = {}
        self._choice_fields: dict[str, Any] = {"index": 0, "finish_reason": None}

    @property
    def size(self) -> int:
        return self._text_size + self._tool_calls.size + self._legacy_calls.size

    def feed(self, event: ServerEvent) -> list[Delta]:
        try:
            chunk = json.loads(event.data)
        except (ValueError, RecursionError):
            if event.data.strip() == "[DONE]":
                self.ended = self.over = True
                return []
            chunk = {"error": {"message": f"an event that is not JSON: {event.data[:200]}"}}
        if event.event == "error" and find_error(chunk) is None:
            chunk = {"error": chunk}
        error = find_error(chunk)
        chunk = as_dict(chunk)
        fields = self._top_level_fields
        for name, value in chunk.items():
            if value is not None and name not in ("choices", "error") and (name in fields or len(fields) < MAX_FIELDS):
                fields[name] = value
        if error is not None:
            fields["error"] = error
            self.ended = True
        deltas: list[Delta] = []
        for choice in as_list(chunk.get("choices")):
            deltas += self._read_choice(as_dict(choice))
        return deltas

    def _read_choice(self, choice: dict[str, Any]) -> list[Delta]:
        index = choice.get("index")
        if index and as_int(index):
            return []
        delta = as_dict(choice.get("delta")) or as_dict(choice.get("message"))
        deltas = self._read_text_fields(delta)
        for fragment in as_list(delta.get("reasoning_details")):
            self._add_reasoning_detail(as_dict(fragment))
        for fragment in to_call_list(delta.get("tool_calls")):
            deltas += self._tool_calls.add_fragment(as_dict(fragment))
        if delta.get("function_call"):
            legacy_deltas = self._legacy_calls.add_fragment({"index": 0, "function": delta["function_call"]})
            deltas += [] if self._tool_calls else legacy_deltas
        fields = self._choice_fields
        for name, value in choice.items():
            has_room = name in fields or len(fields) < MAX_FIELDS
            if name not in ("delta", "message", "index") and value is not None and has_room:
                fields[name] = value
        self.ended = self.ended or choice.get("finish_reason") is not None
        return deltas

    def _read_text_fields(self, delta: dict[str, Any]) -> list[Delta]:
        """Read text and reasoning; reasoning sent in two fields is returned once."""
        deltas: list[Delta] = []
        reasoning = ""
        for name, value in delta.items():
            if value is None or name not in TEXT_FIELDS:
                continue
            text = as_text(value)
            self._text_fields.setdefault(name, StringIO()).write(text)
            self._text_size += len(text)
            if name in REASONING_FIELDS:
                reasoning = reasoning or text
            elif text:
                deltas.append(TextDelta(text))
        return [ReasoningDelta(reasoning), *deltas] if reasoning else deltas

    def _add_reasoning_detail(self, fragment: dict[str, Any]) -> None:
        """Join fragments by type and index; the last may have only the signature.

        Encrypted data comes in one piece and is never joined.
        """
        is_encrypted = fragment.get("data") is not None
        key = len(self._reasoning_details) if is_encrypted else (str(fragment.get("type")), str(fragment.get("index")))
        if key not in self._reasoning_details:
            self._reasoning_details[key] = {}
            self._text_size += ITEM_OVERHEAD
        detail = self._reasoning_details[key]
        for name, value in fragment.items():
            if name in DETAIL_CONTENT_FIELDS and isinstance(value, str):
                self._text_size += len(value)
            if name in ("text", "summary") and isinstance(value, str):
                detail[name] = ""
                self._reasoning_detail_texts.setdefault((key, name), StringIO()).write(value)
            elif (value is not None or name not in detail) and len(detail) < MAX_FIELDS:
                detail[name] = value

    def response(self) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": None}
        message |= {name: text.getvalue() for name, text in self._text_fields.items()}
        if self._reasoning_details:
            for (key, name), text in self._reasoning_detail_texts.items():
                self._reasoning_details[key][name] = text.getvalue()
            message["reasoning_details"] = list(self._reasoning_details.values())
        calls = self._tool_calls.to_dicts() or [
            call for call in self._legacy_calls.to_dicts() if call["function"]["name"]
        ]
        if calls:
            message["tool_calls"] = calls
        return self._top_level_fields | {
            "object": "chat.completion",
            "choices": [self._choice_fields | {"message": message}],
        }


def to_call_list(calls: Any) -> list[Any]:
    """Return `tool_calls` as a list; some services send a single call in its place."""
    return [calls] if isinstance(calls, dict) else as_list(calls)


class ToolCallAssembler:
    """Assembles streamed tool calls, identified by index, or by order if there is none."""

    def __init__(self) -> None:
        self.size = 0
        self._calls: list[PartialToolCall] = []
        self._calls_by_index: dict[int, PartialToolCall] = {}

    def __len__(self) -> int:
        return len(self._calls)

    def add_fragment(self, fragment: Mapping[str, Any]) -> list[Delta]:
        """Add a fragment, and return a `CallDelta` if it adds to the call's name."""
        function = as_dict(fragment.get("function"))
        call_id, name = as_text(fragment.get("id")), as_text(function.get("name"))
        index = as_int(fragment.get("index"))
        call = self._calls_by_index.get(index) if index is not None else next(reversed(self._calls), None)
        if call is None or (name and call.is_finished_by(call_id, index)):
            call = PartialToolCall(len(self._calls))
            self._calls.append(call)
            self.size += ITEM_OVERHEAD
        if index is not None:
            self._calls_by_index[index] = call
        call.id = call.id or call_id
        appends_name = call.should_append_name(name)
        arguments = function.get("arguments")
        if arguments is not None:
            text = arguments if isinstance(arguments, str) else json.dumps(arguments)
            self.size += call.arguments.write(text)
        if not appends_name:
            return []
        call.name += name
        self.size += len(name)
        return [CallDelta(call.position, call.name)]

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return the calls received so far, in the format of the non-streaming API."""
        return [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments.getvalue()}}
            for call in self._calls
        ]


class PartialToolCall:
    """A tool call received so far; `position` is its index among the answer's calls."""

    def __init__(self, position: int) -> None:
        self.position = position
        self.id = ""
        self.name = ""
        self.arguments = StringIO()

    def should_append_name(self, name: str) -> bool:
        """Check whether a name is a new part of this call's name.

        Some services repeat the full name instead.
        """
        return bool(name) and (not self.name or (name != self.name and not self.arguments.tell()))

    def is_finished_by(self, call_id: str, index: int | None) -> bool:
        """Check whether a fragment that contains a name begins another call."""
        if call_id:
            return bool(self.id) and self.id != call_id
        return index is None and bool(self.name)
