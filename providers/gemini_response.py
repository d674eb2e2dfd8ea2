"""Read Gemini's streams and responses: parts, finish reason and usage."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from io import StringIO
from itertools import pairwise
from typing import Any

from ask import Delta, FinishReason, RawEvent, ToolCallDelta, Usage
from ask.parsing import ITEM_OVERHEAD, find_error, merge_fields, parse_event, read_dict, read_int, read_list, read_str

from .stream_events import to_deltas

Part = dict[str, Any]

SIGNATURE_FIELD = "thoughtSignature"
PARTIAL_CALL_FIELDS = ("partialArgs", "willContinue")
"""Fields of a call that arrives in fragments; an assembled call has them only if it is incomplete."""
PATH_STEP_PATTERN = re.compile(r"""\.([^.\[\]]+)|\[(\d{1,6})\]|\['([^']*)'\]|\["([^"]*)"\]""")
FINISH_REASON_NAMES = (
    *("", "STOP", "MAX_TOKENS", "SAFETY", "RECITATION", "OTHER", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT"),
    *("SPII", "MALFORMED_FUNCTION_CALL", "IMAGE_SAFETY", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS"),
)
"""Finish reasons by number, for servers that send enums as numbers."""
FILTER_REASONS = {
    *("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "ESCALATION", "MODEL_ARMOR"),
    *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"),
}
FAILURE_MESSAGES = {
    "MALFORMED_FUNCTION_CALL": "the model wrote a tool call that cannot be read",
    "UNEXPECTED_TOOL_CALL": "the model called a tool, but none was offered",
    "TOO_MANY_TOOL_CALLS": "the model called too many tools at once",
    "MALFORMED_RESPONSE": "the model wrote an answer that cannot be read",
    "MISSING_THOUGHT_SIGNATURE": "the signature of an earlier tool call is missing",
    "OTHER": "the model stopped without a reason",
}


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
            new_deltas: list[Delta] = []
            for part in read_list(read_dict(candidate.get("content")).get("parts")):
                new_deltas += self._read_part(read_dict(part), len(event.data))
            deltas += new_deltas
            # A finish reason can also come before the result of code, after which the answer continues.
            reason = candidate.get("finishReason")
            is_code_running = reason == "STOP" and self._parts and "executableCode" in self._parts[-1][0]
            if (reason or new_deltas) and error is None:
                self.complete = bool(reason and not is_code_running)
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


def read_parts(response: Mapping[str, Any]) -> list[Part]:
    """Return the parts of the first candidate."""
    candidate = get_first_candidate(response)
    return [read_dict(part) for part in read_list(read_dict(candidate.get("content")).get("parts"))]


def get_first_candidate(response: Mapping[str, Any]) -> dict[str, Any]:
    """Return the first candidate of a response; {} if there is none."""
    return read_dict(next(iter(read_list(response.get("candidates"))), None))


def list_function_calls(parts: Iterable[Part]) -> list[dict[str, Any]]:
    return [part["functionCall"] for part in parts if isinstance(part.get("functionCall"), dict)]


def join_text(parts: Iterable[Part], *, thoughts: bool = False) -> str:
    """Join the text of the parts, or their thoughts."""
    return "".join(read_str(part.get("text")) for part in parts if bool(part.get("thought")) is thoughts)


def to_stored_part(part: Part) -> Part:
    """Return a part as it can be sent back.

    An empty signature is removed, and so are the fields of a function call that arrived in fragments.
    """
    stored = {
        name: value for name, value in part.items() if name != SIGNATURE_FIELD or (value and isinstance(value, str))
    }
    call = part.get("functionCall")
    if isinstance(call, dict):
        stored["functionCall"] = {name: value for name, value in call.items() if name not in PARTIAL_CALL_FIELDS}
    return stored


def is_answer_part(part: Part) -> bool:
    """Check whether a part is neither a thought nor an empty text."""
    return not part.get("thought") and part.get("text") != ""


def format_arguments(call: Mapping[str, Any]) -> str:
    """Return a call's arguments as JSON.

    For an incomplete call the JSON is truncated, so that it cannot be parsed and run.
    """
    args = call.get("args")
    text = args if isinstance(args, str) else json.dumps({} if args is None else args, ensure_ascii=False)
    return text[:-1] if any(call.get(name) for name in PARTIAL_CALL_FIELDS) else text


def read_finish_reason(response: Mapping[str, Any]) -> str:
    """Return Gemini's finish reason; "" if there is none.

    It is "SAFETY" if the prompt itself was blocked.
    """
    if read_dict(response.get("promptFeedback")).get("blockReason"):
        return "SAFETY"
    reason = get_first_candidate(response).get("finishReason")
    number = read_int(reason)
    if number is not None:
        return FINISH_REASON_NAMES[number] if 0 <= number < len(FINISH_REASON_NAMES) else ""
    return read_str(reason)


def format_filter_reason(response: Mapping[str, Any], reason: str) -> str:
    """Return the reason, message and harm categories of a content filter; "" if none applied."""
    prompt, candidate = read_dict(response.get("promptFeedback")), get_first_candidate(response)
    if reason not in FILTER_REASONS:
        return ""
    blocked = prompt.get("blockReason")
    label = f"prompt blocked: {blocked}" if blocked else reason
    message = read_str(prompt.get("blockReasonMessage") if blocked else candidate.get("finishMessage"))
    ratings = (read_dict(rating) for rating in read_list((prompt if blocked else candidate).get("safetyRatings")))
    harms = [read_str(rating.get("category")) for rating in ratings if rating.get("blocked") is True]
    return ": ".join(filter(None, (label, message, ", ".join(filter(None, harms)))))


def to_finish(reason: str, *, has_calls: bool) -> FinishReason:
    """Convert the finish reason; an unknown reason is a normal end."""
    if reason in FILTER_REASONS:
        return FinishReason.CONTENT_FILTER
    if reason in ("MAX_TOKENS", "CONTINUATION"):
        return FinishReason.LENGTH
    return FinishReason.TOOL_CALLS if has_calls else FinishReason.STOP


def parse_usage(usage: Mapping[str, Any]) -> Usage:
    """Parse the token counts.

    Gemini's total is the sum of prompt, tool use prompt, candidates and thoughts.
    https://ai.google.dev/api/generate-content#UsageMetadata
    """
    return Usage(
        input_tokens=sum_counts(usage, "promptTokenCount", "toolUsePromptTokenCount"),
        output_tokens=sum_counts(usage, "candidatesTokenCount", "thoughtsTokenCount"),
        cached_tokens=read_int(usage.get("cachedContentTokenCount")),
        reasoning_tokens=read_int(usage.get("thoughtsTokenCount")),
    )


def sum_counts(usage: Mapping[str, Any], *names: str) -> int | None:
    """Sum the counts that are reported; None if there are none."""
    counts = [count for count in (read_int(usage.get(name)) for name in names) if count is not None]
    return sum(counts) if counts else None
