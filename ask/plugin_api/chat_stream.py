"""Assembles a Chat Completions stream into the response that the non-streaming API would have returned."""

from __future__ import annotations

import json
from collections.abc import Mapping
from io import StringIO
from typing import Any

from ask.parsing import as_dict, as_int, as_list, as_text, find_error, parse_json
from ask.plugin_api.provider import CallDelta, Delta, ReasoningDelta, ServerEvent, TextDelta

REASONING_FIELDS = ("reasoning", "reasoning_content")
TEXT_FIELDS = ("content", "refusal", *REASONING_FIELDS)
MAX_FIELDS = 100
"""The limit for how many fields of a stream's chunks, its choice and each reasoning detail are kept."""
ITEM_OVERHEAD = 10_000
"""Characters added to `size` for each tool call or `reasoning_details` item, to bound the memory they take."""


class ChatStreamReader:
    """The `ask.StreamReader` for Chat Completions streams."""

    def __init__(self) -> None:
        self.ended = self.over = False
        self.size = 0
        self._top_level_fields: dict[str, Any] = {}
        self._choice_fields: dict[str, Any] = {}
        self._texts: dict[str, StringIO] = {}
        self._calls: list[PartialToolCall] = []
        self._calls_by_index: dict[int, PartialToolCall] = {}
        self._reasoning_details: dict[Any, tuple[dict[str, Any], dict[str, StringIO]]] = {}

    def feed(self, event: ServerEvent) -> list[Delta]:
        if event.data.strip() == "[DONE]":
            self.ended = self.over = True
            return []
        chunk = parse_json(event.data)
        if chunk is None and event.data.strip() != "null":
            chunk = {"error": {"message": f"an event that is not JSON: {event.data[:200]}"}}
        if event.event == "error" and find_error(chunk) is None:
            chunk = {"error": chunk}
        error = find_error(chunk)
        chunk = as_dict(chunk)
        _merge_fields(self._top_level_fields, chunk, "choices", "error")
        if error is not None:
            self._top_level_fields["error"] = error
            self.ended = True
        return [delta for choice in as_list(chunk.get("choices")) for delta in self._read_choice(as_dict(choice))]

    def _read_choice(self, choice: dict[str, Any]) -> list[Delta]:
        if as_int(choice.get("index")):
            return []
        delta = as_dict(choice.get("delta")) or as_dict(choice.get("message"))
        deltas = self._read_text_fields(delta)
        for fragment in as_list(delta.get("reasoning_details")):
            self._add_reasoning_detail(as_dict(fragment))
        for fragment in to_call_list(delta.get("tool_calls")):
            deltas += self._add_call_fragment(as_dict(fragment))
        _merge_fields(self._choice_fields, choice, "delta", "message", "index")
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
            self.size += self._texts.setdefault(name, StringIO()).write(text)
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
            self.size += ITEM_OVERHEAD
        fields, texts = self._reasoning_details.setdefault(key, ({}, {}))
        for name, value in fragment.items():
            if isinstance(value, str) and name in ("text", "summary"):
                self.size += texts.setdefault(name, StringIO()).write(value)
            elif (value is not None or name not in fields) and len(fields) < MAX_FIELDS:
                self.size += len(value) if name in ("data", "signature") and isinstance(value, str) else 0
                fields[name] = value

    def _add_call_fragment(self, fragment: Mapping[str, Any]) -> list[Delta]:
        """Add to the call with the fragment's index, or to the last call if there is none.

        Some services send several calls with one index, or repeat the name in each fragment.
        """
        function = as_dict(fragment.get("function"))
        call_id, name, arguments = as_text(fragment.get("id")), as_text(function.get("name")), function.get("arguments")
        index = as_int(fragment.get("index"))
        call = self._calls_by_index.get(index) if index is not None else next(reversed(self._calls), None)
        if call and name:
            is_finished = bool(call.id) and call.id != call_id if call_id else index is None and bool(call.name)
            call = None if is_finished else call
        if call is None:
            call = PartialToolCall(len(self._calls))
            self._calls.append(call)
            self.size += ITEM_OVERHEAD
        if index is not None:
            self._calls_by_index[index] = call
        call.id = call.id or call_id
        is_new_name = bool(name) and (not call.name or (name != call.name and not call.arguments.tell()))
        if arguments is not None:
            self.size += call.arguments.write(arguments if isinstance(arguments, str) else json.dumps(arguments))
        if not is_new_name:
            return []
        call.name += name
        self.size += len(name)
        return [CallDelta(call.position, call.name)]

    def response(self) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": None}
        message |= {name: text.getvalue() for name, text in self._texts.items()}
        if self._reasoning_details:
            message["reasoning_details"] = [
                fields | {name: text.getvalue() for name, text in texts.items()}
                for fields, texts in self._reasoning_details.values()
            ]
        if self._calls:
            message["tool_calls"] = [call.to_dict() for call in self._calls]
        choice = {"index": 0, "finish_reason": None} | self._choice_fields | {"message": message}
        return self._top_level_fields | {"object": "chat.completion", "choices": [choice]}


def _merge_fields(fields: dict[str, Any], update: Mapping[str, Any], *excluded_names: str) -> None:
    if len(fields) < MAX_FIELDS:
        fields |= {name: value for name, value in update.items() if value is not None and name not in excluded_names}


def to_call_list(calls: Any) -> list[Any]:
    """Return `tool_calls` as a list; some services send a single call in its place."""
    return [calls] if isinstance(calls, dict) else as_list(calls)


class PartialToolCall:
    """A tool call received so far; `position` is its index among the answer's calls."""

    def __init__(self, position: int) -> None:
        self.position = position
        self.id = ""
        self.name = ""
        self.arguments = StringIO()

    def to_dict(self) -> dict[str, Any]:
        """Return the call so far, in the format of the non-streaming API."""
        function = {"name": self.name, "arguments": self.arguments.getvalue()}
        return {"id": self.id, "type": "function", "function": function}
