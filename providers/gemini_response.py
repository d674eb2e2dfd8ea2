"""Read Gemini's responses: parts, finish reason and usage."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ask import FinishReason, Usage
from ask.parsing import read_dict, read_int, read_list, read_str

from .gemini_stream import PARTIAL_CALL_FIELDS, SIGNATURE_FIELD

Part = dict[str, Any]

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
    "UNEXPECTED_TOOL_CALL": "the model called a tool where it had none",
    "TOO_MANY_TOOL_CALLS": "the model called too many tools at once",
    "MALFORMED_RESPONSE": "the model wrote an answer that cannot be read",
    "MISSING_THOUGHT_SIGNATURE": "the model misses the signature of an earlier tool call",
    "OTHER": "the model stopped without telling why",
}


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
