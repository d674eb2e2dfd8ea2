"""Functions that parse untrusted JSON: responses, stream events and the errors in them.

Public for plugins. None of these raises an exception, whatever the JSON contains. Each `read_` function returns a value
of one type, and an empty value of that type, or None, for anything else.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from ask.errors import RetryAction
from ask.messages import ToolCall

DONE_DATA = "[DONE]"
"""The data of the event with which many services end a stream. Stream readers do not get this event."""
RETRY_STATUSES = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 507, *range(520, 528), 529, 530, 599})
"""HTTP statuses that are worth a retry of the same request.

409 is among them in the SDKs of OpenAI and Anthropic. 520 to 527 and 530 are Cloudflare's, when the server behind it
fails: https://github.com/earendil-works/pi/issues/9627
"""
KEEP_ALIVE_EVENTS = ("ping", "keepalive", "keep-alive", "heartbeat")
"""Types of the server-sent events that only keep a connection open."""
ANSWER_FIELDS = ("type", "choices", "candidates")
"""Fields of the events with parts of an answer. One may follow a keep-alive without the blank line between them."""
MAX_FIELDS = 100
"""The limit for how many fields of a stream's chunks, its choice and each reasoning detail are kept."""
MEDIA_NOTICE = "images or audio in the answer are not shown"
"""A `finish_message` for answers that contain other media than text."""
ITEM_OVERHEAD = 10_000
"""Characters added to `size` for each tool call or `reasoning_details` item, to bound the memory they take."""


def read_dict(value: Any) -> dict[str, Any]:
    """Return the value if it is an object, else {}."""
    return value if isinstance(value, dict) else {}


def read_list(value: Any) -> list[Any]:
    """Return the value if it is an array, else []."""
    return value if isinstance(value, list) else []


def read_str(value: Any) -> str:
    """Return the value if it is a string, else "".

    The texts of a list of content parts are joined.
    """
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        return ""
    texts = (read_dict(part).get("text") for part in value)
    return "".join(text for text in texts if isinstance(text, str))


def read_number(value: Any) -> float | None:
    """Return a finite number, parsed if it is a string; None for any other value."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def read_int(value: Any) -> int | None:
    """Return a number, parsed if it is a string, as a truncated integer, or None."""
    number = read_number(value)
    return None if number is None else int(number)


def decode_arguments(text: str) -> dict[str, Any] | None:
    """Parse a call's arguments; return None unless they are an object that can be sent.

    Models write invalid arguments now and then, and services reject a conversation that contains such a call. Objects
    with NaN, infinity or a lone surrogate cannot be sent, either.
    """
    value = parse_json(text)
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def parse_json(text: str) -> Any:
    """Parse JSON; return None if it is invalid."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def format_error_message(error: Any) -> str:
    """Return the message of an error that `find_error` returned as one line; "" if it has none.

    An error passed on by a gateway yields the upstream provider's message, prefixed with that provider's name.
    """
    if isinstance(error, str):
        return " ".join(unwrap_nested_error(error).split())
    fields = read_dict(error)
    metadata = read_dict(fields.get("metadata"))
    raw = metadata.get("raw")
    inner = find_error(parse_json(raw) if isinstance(raw, str) else raw)
    upstream = format_error_message(raw if inner is None else inner) if raw else ""
    if not upstream:
        return format_error_message(read_str(fields.get("message")) or format_error_detail(fields.get("detail")))
    name = " ".join(read_str(metadata.get("provider_name")).split())
    return f"{name}: {upstream}" if name else upstream


def format_error_detail(detail: Any) -> str:
    """Format the `detail` of an error: a string, or FastAPI's validation errors."""
    messages = []
    for entry in map(read_dict, read_list(detail)):
        location = ".".join(str(part) for part in read_list(entry.get("loc")) if part != "body")
        messages.append(": ".join(filter(None, (location, read_str(entry.get("msg"))))))
    return "; ".join(filter(None, messages)) or read_str(detail)


def unwrap_nested_error(text: str) -> str:
    """Replace a nested JSON error at the end of a message with its text."""
    start = text.find("{")
    inner = find_error(parse_json(text[start:])) if start >= 0 else None
    return text if inner is None else text[:start] + format_error_message(inner)


def extract_error_text(body: str) -> str:
    """Return the message of a body that is not JSON: the title of an HTML page, or the first 300 characters."""
    title = re.search(r"<title[^>]*>(.*?)</title>", body, re.IGNORECASE | re.DOTALL)
    text = title.group(1) if title else re.sub(r"<[^>]*>", " ", body)
    return " ".join(text.split())[:300]


def find_error(body: Any) -> Any:
    """Return the error in a response body or stream chunk, or None.

    It may be a string or an object, at the top level, inside the first choice or in a list, or the body itself: an
    object with `message` or `detail` counts as an error, unless it has `choices`.
    """
    if isinstance(body, list):
        errors = (find_error(entry) for entry in body if isinstance(entry, dict))
        return next((error for error in errors if error is not None), None)
    fields = read_dict(body)
    choices = read_list(fields.get("choices"))
    error = fields.get("error") or fields.get("errors") or (read_dict(choices[0]).get("error") if choices else None)
    if error:
        return error[0] if isinstance(error, list) else error
    is_error = "choices" not in fields and any(fields.get(name) for name in ("message", "detail"))
    return fields if is_error or fields.get("object") == "error" else None


def to_object_list(value: Any) -> list[Any]:
    """Return an array; a single object in its place, as some services send `tool_calls`, becomes the only entry."""
    return [value] if isinstance(value, dict) else read_list(value)


def read_first_choice(response: Mapping[str, Any]) -> dict[str, Any]:
    """Return the first choice of a response, or {} if there is none."""
    return read_dict(next(iter(to_object_list(response.get("choices"))), None))


def read_tool_calls(entries: Any) -> list[ToolCall]:
    """Parse a `tool_calls` array, or a single call in its place.

    Missing and duplicate ids are replaced with generated ones. Arguments sent as an object are serialized to JSON. Left
    out are calls with neither a name nor arguments (https://github.com/farion1231/cc-switch/pull/4159), and calls sent
    again under the same id (https://github.com/OpenRouterTeam/ai-sdk-provider/pull/489).
    """
    calls: list[ToolCall] = []
    seen_ids: set[str] = set()
    seen_calls: set[ToolCall] = set()
    for entry in map(read_dict, to_object_list(entries)):
        function = read_dict(entry.get("function")) or entry
        arguments = function.get("arguments")
        arguments_json = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
        call_id, name = read_str(entry.get("id")), read_str(function.get("name"))
        call = ToolCall(call_id, name or "unnamed", arguments_json)
        if (call_id and call in seen_calls) or (not name and not arguments):
            continue
        seen_calls.add(call)
        if not call_id or call_id in seen_ids:
            call_id = generate_call_id()
        seen_ids.add(call_id)
        calls.append(call._replace(id=call_id))
    return calls


def generate_call_id() -> str:
    """Generate a random id for a tool call that came without one."""
    return f"call_{os.urandom(8).hex()}"


class CallIdMap:
    """The ids of the calls in a request, each used once. Calls of other providers may repeat theirs.

    Args:
        convert: returns the id that the service accepts for an id of any provider.
    """

    def __init__(self, convert: Callable[[str], str]) -> None:
        self._convert = convert
        self._assigned: dict[str, str] = {}
        self._used: set[str] = set()

    def assign_id(self, call_id: str) -> str:
        """Return the id for a call, which is its own if possible."""
        assigned, count = self._convert(call_id), 1
        while assigned in self._used:
            count += 1
            assigned = self._convert(f"{call_id}_{count}")
        self._used.add(assigned)
        self._assigned[call_id] = assigned
        return assigned

    def get_id(self, call_id: str) -> str:
        """Return the id that was last assigned to a call."""
        return self._assigned.get(call_id) or self._convert(call_id)


def get_model_family(model: str) -> str:
    """Return the vendor in a model's name ("anthropic" for "anthropic/claude-x"); "" if it names none."""
    vendor, slash, _ = model.partition("/")
    return vendor.lstrip("~") if slash else ""


def parse_retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait according to the `Retry-After` header, which may also be a date; None without one.

    OpenAI's more precise `retry-after-ms` takes precedence, as in OpenAI's SDK.
    """
    lowercase_headers = {name.lower(): value.strip() for name, value in headers.items()}
    value = lowercase_headers.get("retry-after", "")
    for number, per_second in ((lowercase_headers.get("retry-after-ms", ""), 1000), (value, 1)):
        try:
            seconds = float(number) / per_second
        except ValueError:
            continue
        if math.isfinite(seconds):
            return max(0.0, seconds)
    from datetime import UTC, datetime
    from email.utils import parsedate_to_datetime

    try:
        date = parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, (date.replace(tzinfo=date.tzinfo or UTC) - datetime.now(UTC)).total_seconds())


def parse_duration(text: str) -> float | None:
    """Parse a duration such as "6m0s" or "20ms", as OpenAI writes them, to seconds; None if it is not one."""
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", text)
    units = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
    return sum(float(amount) * units[unit] for amount, unit in parts) if parts else None


def parse_event(data: str, event_type: str | None = None, *, after_end: bool = False) -> Any:
    """Parse a stream event; return {} for one to skip, such as a keep-alive.

    Services and proxies keep a stream open with empty data and words such as "ping", before, within and after the
    answer. Damaged JSON, and whatever an event of the type "error" contains, becomes {"error": {"message": ...}}.

    Args:
        data: the data of the event.
        event_type: its type, if it has one.
        after_end: whether the answer is already complete. Damaged JSON cannot be a part of it then, and is skipped.
    """
    value = parse_json(data)
    if event_type in KEEP_ALIVE_EVENTS and not any(name in read_dict(value) for name in ANSWER_FIELDS):
        return {}
    if event_type == "error" and find_error(value) is None:
        error = value or data.strip()
        return {"error": error if isinstance(error, dict) else {"message": str(error)[:200] or "no explanation"}}
    if isinstance(value, dict):
        return {} if value.get("type") in KEEP_ALIVE_EVENTS else value
    if isinstance(value, list):
        return value
    if value is None and data.lstrip().startswith("{") and not after_end:
        return {"error": {"message": f"received an event that is not valid JSON: {data[:200]}"}}
    return {}


def merge_fields(fields: dict[str, Any], update: Any, *excluded_names: str) -> None:
    """Add the fields of a stream event to those of the response; null leaves an earlier value unchanged.

    An object, such as the usage, is only replaced by another object with fields. At most about `MAX_FIELDS` are kept,
    because a broken server may send any number.
    """
    if len(fields) < MAX_FIELDS:
        for name, value in read_dict(update).items():
            if value is None or name in excluded_names:
                continue
            if (isinstance(value, dict) and value) or not isinstance(fields.get(name), dict) or not fields[name]:
                fields[name] = value


def merge_usage(usage: dict[str, Any], update: Any, *, is_final: bool) -> None:
    """Add a report of the usage to earlier ones of the same response.

    A count replaces an earlier one if it is larger, or if the report is final. 0 never does, because services and
    gateways send it for what they have not counted: https://github.com/envoyproxy/ai-gateway/pull/1631
    """
    for name, value in read_dict(update).items():
        earlier = usage.get(name)
        if isinstance(value, dict):
            if value and len(usage) < MAX_FIELDS:
                merged = dict(read_dict(earlier))
                merge_usage(merged, value, is_final=is_final)
                usage[name] = merged
            continue
        count, earlier_count = read_number(value), read_number(earlier)
        if earlier_count is None:
            if value is not None and len(usage) < MAX_FIELDS:
                usage[name] = value
        elif count is not None and count > 0 and (is_final or count > earlier_count):
            usage[name] = value


def choose_retry_action(status: int, headers: Mapping[str, str]) -> RetryAction:
    """Return the default action for an HTTP status.

    It is a retry, after the time in `Retry-After`, for the statuses in `RETRY_STATUSES`, else `RetryAction.NONE`. An
    error status with the header `x-should-retry` is decided by it, as in the SDKs of OpenAI and Anthropic.
    """
    advice = next((value.strip().lower() for name, value in headers.items() if name.lower() == "x-should-retry"), "")
    should_retry = advice == "true" if advice in ("true", "false") and status >= 400 else status in RETRY_STATUSES
    return RetryAction.retry(parse_retry_after(headers)) if should_retry else RetryAction.NONE
