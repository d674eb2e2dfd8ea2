"""Assemble a Gemini stream into the response that `generateContent` would have returned."""

from __future__ import annotations

import re
from io import StringIO
from itertools import pairwise
from typing import Any

from ask import Delta, RawEvent, ToolCallDelta
from ask.parsing import ITEM_OVERHEAD, find_error, merge_fields, parse_event, read_dict, read_int, read_list, read_str

from .stream_events import to_deltas

SIGNATURE_FIELD = "thoughtSignature"
PARTIAL_CALL_FIELDS = ("partialArgs", "willContinue")
"""Fields of a call that arrives in fragments; an assembled call has them only if it is incomplete."""
PATH_STEP_PATTERN = re.compile(r"""\.([^.\[\]]+)|\[(\d{1,6})\]|\['([^']*)'\]|\["([^"]*)"\]""")


class GeminiStreamReader:
    """Reads one stream; see `ask.StreamReader`."""

    def __init__(self) -> None:
        self.complete = False
        self.size = 0
        self._response_fields: dict[str, Any] = {}
        self._candidate: dict[str, Any] | None = None
        self._parts: list[tuple[dict[str, Any], StringIO | None]] = []
        """The fields of each part, and its text so far."""
        self._call_count = 0

    def feed(self, event: RawEvent) -> list[Delta]:
        chunk = parse_event(event.data)
        error = find_error(chunk)
        chunk = read_dict(chunk)
        merge_fields(self._response_fields, chunk, "candidates", "error")
        if error is not None:
            self._response_fields["error"] = error
        self.complete = (
            self.complete or error is not None or bool(read_dict(chunk.get("promptFeedback")).get("blockReason"))
        )
        deltas: list[Delta] = []
        for candidate in map(read_dict, read_list(chunk.get("candidates"))):
            if read_int(candidate.get("index")):
                continue
            self._candidate = self._candidate or {}
            merge_fields(self._candidate, candidate, "content")
            self.complete = self.complete or bool(candidate.get("finishReason"))
            for part in read_list(read_dict(candidate.get("content")).get("parts")):
                deltas += self._read_part(read_dict(part), len(event.data))
        return deltas

    def _read_part(self, part: dict[str, Any], event_size: int) -> list[Delta]:
        call, text = part.get("functionCall"), part.get("text")
        part_count = len(self._parts)
        deltas: list[Delta] = []
        if isinstance(call, dict):
            deltas = self._read_call(part, call)
            self.size += event_size
        elif isinstance(text, str):
            fields = {name: value for name, value in part.items() if name != "text"}
            last_fields, last_text = self._parts[-1] if self._parts else ({}, None)
            # A part with a signature stays separate, because it must be sent back as received.
            if last_text is not None and last_fields == fields and SIGNATURE_FIELD not in fields:
                last_text.write(text)
            elif text or SIGNATURE_FIELD in fields:
                last_text = StringIO()
                last_text.write(text)
                self._parts.append((fields, last_text))
            self.size += len(text)
            deltas = to_deltas(text, is_reasoning=bool(part.get("thought")))
        else:
            self._parts.append((part, None))
        if len(self._parts) > part_count:
            self.size += ITEM_OVERHEAD + event_size
        return deltas

    def _read_call(self, part: dict[str, Any], fragment: dict[str, Any]) -> list[Delta]:
        """Add a call, or a fragment to the call that announced more: Vertex AI can send arguments value by value."""
        name = read_str(fragment.get("name"))
        last_call = read_dict(self._parts[-1][0].get("functionCall")) if self._parts else {}
        if name or last_call.get("willContinue") is not True:
            call = {field: value for field, value in fragment.items() if field != "partialArgs"}
            self._parts.append((part | {"functionCall": call}, None))
            self._call_count += 1
        else:
            call = last_call
            call["willContinue"] = fragment.get("willContinue")
        try:
            for value in read_list(fragment.get("partialArgs")):
                set_argument(call, read_dict(value))
        except LookupError:
            call["partialArgs"] = fragment["partialArgs"]
        return [ToolCallDelta(self._call_count - 1, name)] if name else []

    def response(self) -> dict[str, Any]:
        if self._candidate is None:
            return dict(self._response_fields)
        parts = [fields if text is None else {"text": text.getvalue()} | fields for fields, text in self._parts]
        content = {"role": "model", "parts": parts}
        return self._response_fields | {"candidates": [{"content": content} | self._candidate]}


def set_argument(call: dict[str, Any], fragment: dict[str, Any]) -> None:
    """Set the argument at a fragment's JSONPath, such as "$.places[0].name"; more of a string is appended.

    Raises:
        LookupError: The path does not exist.
    """
    path = read_str(fragment.get("jsonPath"))
    matches = list(PATH_STEP_PATTERN.finditer(path))
    if not matches or "$" + "".join(match[0] for match in matches) != path:
        raise LookupError(path)
    steps = ["args", *(int(match[2]) if match[2] else str(match[match.lastindex or 0]) for match in matches)]
    container: Any = call
    for step, next_step in pairwise(steps):
        container = enter_step(container, step, [] if isinstance(next_step, int) else {})
    value = next((fragment[name] for name in ("stringValue", "numberValue", "boolValue") if name in fragment), None)
    old_value = enter_step(container, steps[-1], None)
    container[steps[-1]] = old_value + value if isinstance(old_value, str) and isinstance(value, str) else value


def enter_step(container: Any, step: str | int, default: Any) -> Any:
    """Return the value one step further in an object or array, inserting `default` if missing.

    Raises:
        LookupError: The step does not exist.
    """
    if isinstance(container, dict) and isinstance(step, str):
        return container.setdefault(step, default)
    if isinstance(container, list) and isinstance(step, int) and step <= len(container):
        if step == len(container):
            container.append(default)
        return container[step]
    raise LookupError(step)
