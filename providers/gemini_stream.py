"""Assemble a Gemini stream into the response that `generateContent` would have returned."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from io import StringIO
from typing import Any

from ask import CallDelta, Delta, ReasoningDelta, ServerEvent, TextDelta, as_dict, as_int, as_list, as_text, find_error

SIGNATURE_FIELD = "thoughtSignature"
PARTIAL_CALL_FIELDS = ("partialArgs", "willContinue")
"""Fields of a call that arrives in fragments."""
MAX_FIELDS = 100
"""Maximum number of fields kept of the response, and of a candidate."""
PART_OVERHEAD = 10_000
"""Size counted for each part in addition to its text; more than it needs in memory."""
PATH_STEP_PATTERN = re.compile(r"""\.([^.\[\]]+)|\[(\d{1,6})\]|\['([^']*)'\]|\["([^"]*)"\]""")


class GeminiStreamReader:
    """Reads one stream; see `ask.StreamReader`."""

    def __init__(self) -> None:
        self.ended = False
        self.size = 0
        self._event_size = 0
        self._response_fields: dict[str, Any] = {}
        self._candidate: dict[str, Any] | None = None
        self._parts: list[PartialPart] = []
        self._call_count = 0
        self._open_call: PartialFunctionCall | None = None

    def feed(self, event: ServerEvent) -> list[Delta]:
        try:
            chunk = json.loads(event.data)
        except (ValueError, RecursionError):
            chunk = {"error": {"message": f"an event that is not JSON: {event.data[:200]}"}}
        self._event_size = len(event.data)
        error = find_error(chunk)
        chunk = as_dict(chunk)
        fields = self._response_fields
        for name, value in chunk.items():
            if (
                value is not None
                and name not in ("candidates", "error")
                and (name in fields or len(fields) < MAX_FIELDS)
            ):
                fields[name] = value
        if error is not None:
            self._response_fields["error"] = error
        self.ended = self.ended or error is not None or bool(as_dict(chunk.get("promptFeedback")).get("blockReason"))
        return [
            delta
            for candidate in as_list(chunk.get("candidates"))
            for delta in self._read_candidate(as_dict(candidate))
        ]

    def _read_candidate(self, candidate: dict[str, Any]) -> list[Delta]:
        if as_int(candidate.get("index")):
            return []
        merged = self._candidate = self._candidate or {}
        if len(merged) < MAX_FIELDS:
            merged |= {name: value for name, value in candidate.items() if name != "content" and value is not None}
        self.ended = self.ended or bool(candidate.get("finishReason"))
        parts = as_list(as_dict(candidate.get("content")).get("parts"))
        return [delta for part in parts for delta in self._read_part(as_dict(part))]

    def _read_part(self, part: dict[str, Any]) -> list[Delta]:
        call = part.get("functionCall")
        if isinstance(call, dict):
            self.size += PART_OVERHEAD + self._event_size
            return self._read_call(part, call)
        other_fields = {name: value for name, value in part.items() if name != "text"}
        text = part.get("text")
        if not isinstance(text, str):
            self.size += PART_OVERHEAD + self._event_size
            self._parts.append(PartialPart(other_fields))
            return []
        last = self._parts[-1] if self._parts else None
        if last and last.is_continued_by(other_fields):
            last.add_text(text)
        elif text or SIGNATURE_FIELD in other_fields:
            self._parts.append(PartialPart(other_fields))
            self._parts[-1].add_text(text)
            self.size += PART_OVERHEAD + self._event_size
        self.size += len(text)
        if not text:
            return []
        return [ReasoningDelta(text) if part.get("thought") else TextDelta(text)]

    def _read_call(self, part: dict[str, Any], call: dict[str, Any]) -> list[Delta]:
        if self._open_call and not call.get("name"):
            self._open_call.add_fragment(call)
        else:
            self._open_call = PartialFunctionCall(call)
            self._parts.append(PartialPart(part, call=self._open_call))
            self._call_count += 1
        if self._open_call.complete:
            self._open_call = None
        name = as_text(call.get("name"))
        return [CallDelta(self._call_count - 1, name)] if name else []

    def response(self) -> dict[str, Any]:
        if self._candidate is None:
            return dict(self._response_fields)
        content = {"role": "model", "parts": [part.to_dict() for part in self._parts]}
        return self._response_fields | {"candidates": [{"content": content} | self._candidate]}


@dataclass
class PartialPart:
    """A part as received so far: its fields, and the fragments of its text or its call."""

    fields: dict[str, Any]
    text: StringIO | None = None
    call: PartialFunctionCall | None = None

    def add_text(self, text: str) -> None:
        self.text = self.text or StringIO()
        self.text.write(text)

    def is_continued_by(self, fields: Mapping[str, Any]) -> bool:
        """Check whether a text with these fields continues this one.

        A part with a signature stays separate, because it must be sent back as received.
        """
        return self.text is not None and self.fields == fields and SIGNATURE_FIELD not in fields

    def to_dict(self) -> dict[str, Any]:
        """Return the part as a complete response would contain it."""
        if self.call:
            return self.fields | {"functionCall": self.call.to_dict()}
        return self.fields if self.text is None else {"text": self.text.getvalue()} | self.fields


class PartialFunctionCall:
    """A function call with its arguments in one piece or value by value.

    Vertex AI sends single values if partial arguments were requested.
    """

    def __init__(self, call: Mapping[str, Any]) -> None:
        self._fields = {name: value for name, value in call.items() if name not in PARTIAL_CALL_FIELDS}
        self._arguments = dict(as_dict(call.get("args")))
        self._continued_path = ""
        self._is_invalid = False
        self.add_fragment(call)

    def add_fragment(self, call: Mapping[str, Any]) -> None:
        """Add a fragment; it is the last unless it announces another."""
        for value in as_list(call.get("partialArgs")):
            try:
                self._add_value(as_dict(value))
                self._fields["args"] = self._arguments
            except LookupError:
                self._is_invalid = True
        self.complete = call.get("willContinue") is not True

    def _add_value(self, fragment: dict[str, Any]) -> None:
        """Set a value at its path; a string may arrive in several fragments.

        Raises:
            LookupError: The path does not exist.
        """
        path = as_text(fragment.get("jsonPath"))
        *parents, last = parse_json_path(path)
        container: Any = self._arguments
        for step, next_step in zip(parents, [*parents, last][1:], strict=True):
            container = enter_step(container, step, [] if isinstance(next_step, int) else {})
        values = [value for name, value in fragment.items() if name in ("stringValue", "numberValue", "boolValue")]
        value = values[0] if values else None
        old_value = enter_step(container, last, None)
        is_continuation = self._continued_path == path and isinstance(old_value, str) and isinstance(value, str)
        container[last] = old_value + value if is_continuation else value
        self._continued_path = path if fragment.get("willContinue") is True else ""

    def to_dict(self) -> dict[str, Any]:
        """Return the call as a complete response would contain it.

        An incomplete or invalid call is marked as unfinished.
        """
        return self._fields if self.complete and not self._is_invalid else self._fields | {"willContinue": True}


def parse_json_path(path: str) -> list[str | int]:
    """Parse a JSONPath such as "$.places[0].name" into steps.

    Raises:
        LookupError: It is not such a path.
    """
    matches = list(PATH_STEP_PATTERN.finditer(path))
    if not matches or "$" + "".join(match[0] for match in matches) != path:
        raise LookupError(path)
    return [int(match[2]) if match[2] else str(match[match.lastindex or 0]) for match in matches]


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
