"""Functions that parse untrusted JSON, such as responses, events and errors, and the base class of stream readers.

No function raises an exception, whatever the JSON contains. Each `read_` function returns a value of one type, and an
empty value of that type, or None, for anything else.
"""

from __future__ import annotations

import json
import math
import os
import re
import time
from binascii import a2b_base64, crc32
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from io import StringIO
from typing import Any, Literal

from ask.errors import RETRY_STATUSES, RetryAction
from ask.messages import Attachment, Delta, RawEvent, ReasoningDelta, TextDelta, ToolCall, ToolCallDelta

__all__ = [
    "AnswerAccumulator",
    "AnswerPart",
    "CallIdMap",
    "choose_retry_action",
    "decode_arguments",
    "extract_error_text",
    "find_error",
    "fit_call_id",
    "format_error_message",
    "format_unknown_reason",
    "generate_call_id",
    "get_model_family",
    "merge_fields",
    "merge_usage",
    "parse_duration",
    "parse_event",
    "parse_json",
    "parse_retry_after",
    "read_date",
    "read_dict",
    "read_first_choice",
    "read_image",
    "read_int",
    "read_list",
    "read_number",
    "read_service_tier",
    "read_str",
    "read_tool_calls",
    "to_object_list",
]
"""The public names; the others are for ask's own modules."""
DONE_DATA = "[DONE]"
"""The data of the event with which many services end a stream. Stream readers do not get this event."""
DATE_PATTERN = re.compile(r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])(?!\d)")
MAX_DATE_SECONDS = 253_402_300_800
"""The end of the year 9999."""
KEEP_ALIVE_EVENTS = ("ping", "keepalive", "keep-alive", "heartbeat")
"""Types of the server-sent events that only keep a connection open."""
ANSWER_FIELDS = ("type", "choices", "candidates")
"""Fields of the events with parts of an answer. One may follow a keep-alive without the blank line between them."""
SUCCESS_REASONS = frozenset(
    {"stop", "stopped", "stopsequence", "stoptoken", "eos", "eostoken", "eosfound", "end", "endturn", "done"}
    | {"complete", "completed", "finish", "finished", "success", "normal", "finishreasonstop", "null"}
    | {"toolcall", "toolcalls", "tooluse", "functioncall", "functioncalls"}
)
"""What services call the ordinary end of an answer, in lower-case letters only."""
MAX_FIELDS = 100
"""The limit for how many fields of a stream's chunks, its choice and each reasoning detail are kept."""
MAX_USAGE_DEPTH = 5
"""The limit for how many objects within one another a report of the usage may have."""
STANDARD_TIER, FAST_TIER, BATCH_TIER, DECISIONS_TIER = "standard", "fast", "batch", "decisions"
STANDARD_TIER_WORDS = frozenset({STANDARD_TIER, "default", "standard_only", "on_demand", "unspecified"})
UNKNOWN_TIER_WORDS = frozenset({"auto", "traffic_type_unspecified"})
TIER_PATTERN = re.compile(r"[a-z0-9_.-]{1,40}")
_LENIENT_DECODER = json.JSONDecoder(strict=False)
MAX_CHECKED_CHARACTERS = 100_000_000
"""The limit for what is parsed to see if a call's arguments are complete, as any of countless fragments may be last."""
AUDIO_NOTICE = "audio in the answer is not saved"
"""A `finish_message` for answers that contain audio."""
CHARACTERS_PER_MEDIA_CHARACTER = 0.1
"""How much a Base64 character of an image counts in `size`: images are larger than any text, and kept only once."""
ITEM_OVERHEAD_CHARACTERS = 10_000
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
    texts = (read_dict(part).get("text") for part in read_list(value))
    return "".join(text for text in texts if isinstance(text, str))


def read_number(value: Any) -> float | None:
    """Return a finite number, parsed if it is a string; None for any other value."""
    if value is None or isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def read_int(value: Any) -> int | None:
    """Return a number, parsed if it is a string, as a truncated integer, or None."""
    number = value if type(value) is int and abs(value) < 1 << 53 else read_number(value)  # exact as a float, too
    return None if number is None else int(number)


def read_image(value: Any) -> Attachment | None:
    """Return an image that a model generated, from its data as Base64 or as a `data:` URL; None for anything else."""
    text = read_str(value)
    if text.startswith("data:"):
        header, _, text = text.partition(",")
        if not header.endswith(";base64"):
            return None
    elif "://" in text[:20]:
        return None
    try:
        data = a2b_base64(text)
    except ValueError:  # not Base64, or not ASCII
        return None
    return Attachment("", "", data) if data else None


def decode_arguments(text: str) -> dict[str, Any] | None:
    """Parse a call's arguments; return None unless they are an object that can be sent.

    Services reject conversations with invalid arguments. NaN, infinity and lone surrogates cannot be sent, either.
    """
    value = parse_json(text, strict=True)
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def parse_json(text: str, *, strict: bool = False) -> Any:
    """Parse JSON; return None if it is invalid. Unless `strict`, control characters in strings may be unescaped."""
    try:
        return json.loads(text) if strict else _LENIENT_DECODER.decode(text)
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
        sources = (fields, read_dict(fields.get("message")))  # Mistral's message is an object with the detail
        texts = (read_str(source.get("message")) or format_error_detail(source.get("detail")) for source in sources)
        return format_error_message(next(filter(None, texts), ""))
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
    """Replace a nested JSON error at the end of a message with its text, and an HTML page with its title."""
    if page := re.search(r"<(?:!doctype html|html)\b.*</[^>]*>?", text, re.IGNORECASE | re.DOTALL):
        return text[: page.start()] + extract_error_text(page[0]) + text[page.end() :]
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
    object with `message` or `detail` and without `choices` or `data`. A string may have the reason or a code beside it.
    """
    if isinstance(body, list):
        return next(filter(None, map(find_error, filter(read_dict, body))), None)
    fields = read_dict(body)
    error = fields.get("error") or fields.get("errors") or read_dict(fields.get("detail")).get("error")  # DeepInfra
    error = error or read_first_choice(fields).get("error")
    if error:
        error = error[0] if isinstance(error, list) else error
        if isinstance(error, dict) or not fields.keys() & {"code", "status", "message", "detail", "error_description"}:
            return error
        texts = (read_str(error), read_str(fields.get("message")), read_str(fields.get("error_description")))
        return fields | {"message": ": ".join(dict.fromkeys(filter(None, texts)))}
    if isinstance(fields.get("Message"), str):  # Bedrock
        return fields["Message"]
    is_answer = "choices" in fields or read_list(fields.get("data")) or "role" in read_dict(fields.get("message"))
    is_error = not is_answer and any(fields.get(name) for name in ("message", "detail"))
    return fields if is_error or fields.get("object") == "error" else None


def to_object_list(value: Any) -> list[Any]:
    """Return an array; a single object in its place, as some services send `tool_calls`, becomes the only entry."""
    return [value] if isinstance(value, dict) else read_list(value)


def format_unknown_reason(reason: Any, known: Collection[str] = ()) -> str:
    """Return the `finish_message` for a finish reason that may mean anything; "" for a known one, or none.

    `known` are the reasons that the provider maps to a `FinishReason`; the usual names of success are known, too.
    """
    if not isinstance(reason, str) or reason in known or re.sub("[^a-z]", "", reason.lower()) in SUCCESS_REASONS | {""}:
        return ""
    return f"the answer may be incomplete: the service ended it with the reason {reason!r}"


def read_first_choice(response: Mapping[str, Any]) -> dict[str, Any]:
    """Return the first choice of a response, or {} if there is none."""
    return read_dict(next(iter(to_object_list(response.get("choices"))), None))


def read_tool_calls(entries: Any) -> list[ToolCall]:
    """Parse a `tool_calls` array, or a single call in its place.

    An entry has an "id", a "name" and "arguments", the last two possibly inside "function" as in Chat Completions.
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


def fit_call_id(pattern: str, call_id: str) -> str:
    """Return the id if it matches the pattern, else a checksum of it with nine digits, the only length for Mistral.

    The same id always results in the same one, for the call and for its result.
    """
    return call_id if re.fullmatch(pattern, call_id) else f"{crc32(call_id.encode('utf-8', 'replace')):09x}"


def get_model_family(model: str) -> str:
    """Return the vendor in a model's name ("anthropic" for "anthropic/claude-x"); "" if it names none."""
    return model.partition("/")[0].lstrip("~") if "/" in model else ""


def parse_retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait according to the `Retry-After` header, which may also be a date; None without one.

    OpenAI's more precise `retry-after-ms` takes precedence, as in OpenAI's SDK. A date counts by the server's clock.
    """
    lowercase_headers = {name.lower(): value.strip() for name, value in headers.items()}
    milliseconds = read_number(lowercase_headers.get("retry-after-ms"))
    seconds = read_number(lowercase_headers.get("retry-after")) if milliseconds is None else milliseconds / 1000
    if seconds is None and (date := _read_header_date(lowercase_headers, "retry-after")) is not None:
        seconds = compute_seconds_until(date, lowercase_headers)
    return None if seconds is None else max(0.0, seconds)


def compute_seconds_until(unix_time: float, headers: Mapping[str, str]) -> float:
    """Compute the seconds until a time of the server's clock, which is the header `date` of its response."""
    return unix_time - (_read_header_date(headers, "date") or time.time())


def _read_header_date(headers: Mapping[str, str], name: str) -> float | None:
    """Return the Unix time of the date in a header; None if there is none."""
    from email.utils import mktime_tz, parsedate_tz

    with suppress(ValueError, OverflowError):
        return mktime_tz(fields) if (fields := parsedate_tz(headers.get(name, ""))) else None
    return None


def parse_duration(text: str) -> float | None:
    """Parse a duration such as "6m0s" or "20ms", as OpenAI writes them, to seconds; None if it is not one."""
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|milli|s|m(?!o)|h|d)", text)  # also of words, but no "more" or "months"
    units = {"ms": 0.001, "milli": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
    return sum(float(amount) * units[unit] for amount, unit in parts) if parts else None


def parse_event(data: str, event_type: str | None = None, *, after_end: bool = False) -> Any:
    """Parse a stream event; return {} for one to skip, such as a keep-alive.

    Services and proxies keep a stream open with empty data and words such as "ping", before, within and after the
    answer. Damaged JSON becomes {"error": {"message": ...}}, and an event of the type "error" always has an `error`.

    Args:
        data: the data of the event.
        event_type: its type, if it has one.
        after_end: whether the answer is already complete. Damaged JSON cannot be a part of it then, and is skipped.
    """
    value = parse_json(data)
    if event_type in KEEP_ALIVE_EVENTS and not any(name in read_dict(value) for name in ANSWER_FIELDS):
        return {}
    if event_type == "error":
        error = find_error(value) or read_dict(value) or str(value or data).strip()[:200] or "no explanation"
        return read_dict(value) | {"error": error if isinstance(error, dict) else {"message": str(error)}}
    if isinstance(value, (dict, list)):
        return {} if read_dict(value).get("type") in KEEP_ALIVE_EVENTS else value
    # Crane sends errors as "error: …": https://github.com/lucasjinreal/Crane/pull/121
    if value is None and data.lstrip().startswith(("{", "error: ")) and not after_end:
        return {"error": {"message": f"received an event that is not valid JSON: {data[:200]}"}}
    return {}


def read_date(value: Any) -> str | None:
    """Return the date, as YYYY-MM-DD, of an RFC 3339 time, a date, or a time in seconds since 1970; None for others."""
    if isinstance(value, str):
        match = DATE_PATTERN.match(value)
        return match[0] if match else None
    seconds = read_number(value)
    return time.strftime("%Y-%m-%d", time.gmtime(seconds)) if seconds and 0 < seconds < MAX_DATE_SECONDS else None


def merge_fields(fields: dict[str, Any], update: Any, *excluded_names: str) -> None:
    """Add the fields of a stream event to those of the response; null leaves an earlier value unchanged.

    An object, such as the usage, is only replaced by another object with fields. At most about 100 are kept, because a
    broken server may send any number.
    """
    if len(fields) < MAX_FIELDS:
        for name, value in read_dict(update).items():
            if value is None or name in excluded_names:
                continue
            if (isinstance(value, dict) and value) or not isinstance(fields.get(name), dict) or not fields[name]:
                fields[name] = value


def read_service_tier(*values: Any) -> str | None:
    """Return the service tier of an answer for `Usage.service_tier`; None if it is not reported.

    The first of `values` that names one counts. Several words mean the standard tier; Vertex AI reports a traffic type
    such as ON_DEMAND_FLEX. "auto" leaves the choice to the service.
    """
    for value in filter(None, values):
        tier = read_str(value).lower().removeprefix("on_demand_")
        if TIER_PATTERN.fullmatch(tier) and tier not in UNKNOWN_TIER_WORDS:
            return STANDARD_TIER if tier in STANDARD_TIER_WORDS else tier
    return None


def merge_usage(usage: dict[str, Any], update: Any, *, is_final: bool, max_depth: int = MAX_USAGE_DEPTH) -> None:
    """Add a report of the usage to earlier ones of the same response.

    A count replaces an earlier one if it is larger, or if the report is final. 0 never does: gateways send it for what
    they have not counted (https://github.com/envoyproxy/ai-gateway/pull/1631). Objects beyond `max_depth` are ignored.
    """
    for name, value in read_dict(update).items():
        earlier = usage.get(name)
        if isinstance(value, dict):
            if value and len(usage) < MAX_FIELDS and max_depth:
                usage[name] = merged = dict(read_dict(earlier))
                merge_usage(merged, value, is_final=is_final, max_depth=max_depth - 1)
            continue
        count, earlier_count = read_number(value), read_number(earlier)
        if earlier_count is None:
            if value is not None and len(usage) < MAX_FIELDS:
                usage[name] = value
        elif count is not None and count > 0 and (is_final or count > earlier_count):
            usage[name] = value


class AnswerPart:
    """A part of an answer, as far as it was received: text, reasoning or a tool call.

    Attributes:
        kind: "text", "reasoning" or "call".
        id: a call's id; "" for none.
        name: the name of the tool that a call is for.
        fields: what else the service sent with the part, such as a signature.
        is_object: whether a call's arguments were sent as an object, not as text.
        position: a call's index among the calls.
        buffer: collects the text.
    """

    __slots__ = ("_checked_size", "_last_character", "buffer", "fields", "id", "is_object", "kind", "name", "position")

    def __init__(self, kind: Literal["text", "reasoning", "call"], position: int = 0) -> None:
        self.kind = kind
        self.position = position
        self.id = ""
        self.name = ""
        self.fields: dict[str, Any] = {}
        self.buffer = StringIO()
        self.is_object = False
        self._checked_size = 0
        """How many characters of a call's arguments were parsed to see whether they are complete."""
        self._last_character = ""

    @property
    def text(self) -> str:
        """The text so far; of a call, its arguments as the model wrote them."""
        return self.buffer.getvalue()

    @property
    def arguments(self) -> dict[str, Any] | str:
        """A call's arguments as an object, or as the text that they are if it is not a JSON object."""
        text = self.text
        arguments = decode_arguments(text) if text.strip() else {}
        return text if arguments is None else arguments

    def has_all_arguments(self) -> bool:
        """Check whether the arguments so far are a JSON object, so that more of them belong to another call."""
        if self._last_character != "}" or self._checked_size > MAX_CHECKED_CHARACTERS:
            return False
        text = self.text
        self._checked_size += len(text)
        return decode_arguments(text) is not None

    def add_arguments(self, arguments: Any) -> int:
        """Add a call's arguments, or a piece of them as text; return by how many characters they grew."""
        self.is_object = not isinstance(arguments, str)
        text = json.dumps(arguments, ensure_ascii=False) if self.is_object else arguments
        self._last_character = text.rstrip()[-1:] or self._last_character
        count = self.buffer.tell()
        # Some services repeat what came before in each piece: https://github.com/NousResearch/hermes-agent/pull/35718
        is_repeated = text.startswith("{") and 0 < count <= len(text) and text.startswith(self.text)
        return self.buffer.write(text[count if is_repeated else 0 :])

    def add_fields(self, fields: Mapping[str, Any]) -> int:
        """Add the fields that are not None; return the number of their characters."""
        added = {name: value for name, value in fields.items() if value is not None}
        self.fields |= added
        return sum(len(value if isinstance(value, str) else json.dumps(value)) for value in added.values())


class AnswerAccumulator:
    """The base class of stream readers: collects an answer, and the deltas of each event.

    A subclass implements `read_event`, which passes what an event contains to the `add_` methods, and `response`. The
    arguments of these methods are untrusted JSON values: those of a wrong type count as missing.

    Attributes:
        complete: whether the answer is complete; see `ask.StreamReader`.
        size: the characters of the answer so far; see `ask.StreamReader`.
        parts: its parts, in the order in which they began.
        calls: its tool calls.
        usage: the usage reported so far, in the service's format.
        finish_reason: the service's reason for the end; "" without one.
        error: the error in the stream; None without one.
    """

    def __init__(self) -> None:
        self.complete = False
        self.size = 0
        self.parts: list[AnswerPart] = []
        self.calls: list[AnswerPart] = []
        self.usage: dict[str, Any] = {}
        self.finish_reason = ""
        self.error: Any = None
        self._deltas: list[Delta] = []
        self._parts_by_index: dict[Any, AnswerPart] = {}

    def feed(self, event: RawEvent) -> list[Delta]:
        """Process one event and return the deltas to show to the user."""
        value = parse_event(event.data, event.event, after_end=self.complete)
        fields = read_dict(value)
        if event.event and "type" not in fields:
            fields = fields | {"type": event.event}
        self._deltas = []
        if fields.get("error") or fields.get("type") == "error":
            self.fail(find_error(value) or fields)
        if fields:
            self.read_event(fields)
        elif value and (error := find_error(value)):  # in a list
            self.fail(error)
        return self._deltas

    def read_event(self, fields: dict[str, Any]) -> None:
        """Read one event, of which `fields` is the JSON; its "type" is that of the server-sent event if it has none.

        An `error`, or an event of the type "error", was already passed to `fail`. Ignore events of unknown types.
        """
        raise NotImplementedError("read_event")

    def response(self) -> dict[str, Any]:
        """Return the answer so far, in the format of the non-streaming API.

        The default is for a provider without such a format: "text", "reasoning", "finish_reason", "usage", "error", and
        "calls", a list for `read_tool_calls`; nothing that is empty is included.
        """
        answer = {
            "text": self.text,
            "reasoning": self.reasoning,
            "calls": [
                {"id": call.id, "name": call.name, "arguments": call.arguments if call.is_object else call.text}
                | call.fields
                for call in self.calls
            ],
            "finish_reason": self.finish_reason,
            "usage": self.usage,
            "error": self.error,
        }
        return {name: value for name, value in answer.items() if value}

    @property
    def text(self) -> str:
        """The text of the answer so far."""
        return "".join(part.text for part in self.parts if part.kind == "text")

    @property
    def reasoning(self) -> str:
        """The reasoning so far."""
        return "".join(part.text for part in self.parts if part.kind == "reasoning")

    def add_text(self, text: Any, index: Any = None, **fields: Any) -> None:
        """Add to the text.

        Args:
            text: the next piece.
            index: which of several texts it belongs to, if the service sends several, in the order of `parts`.
            fields: other fields for `AnswerPart.fields`; None leaves an earlier value unchanged.
        """
        if piece := self._add("text", text, index, fields):
            self._deltas.append(TextDelta(piece))

    def add_reasoning(self, text: Any, index: Any = None, **fields: Any) -> None:
        """Add to the reasoning; the arguments are those of `add_text`."""
        if piece := self._add("reasoning", text, index, fields):
            self._deltas.append(ReasoningDelta(piece))

    def _add(self, kind: Literal["text", "reasoning"], value: Any, index: Any, fields: dict[str, Any]) -> str:
        """Add to the part of this kind and index, and return the text that was added."""
        text = value if isinstance(value, str) else read_str(value)
        if fields:
            fields = {name: field for name, field in fields.items() if field is not None}
        if text or fields:
            key = (kind, index if index is None or isinstance(index, (int, str)) else read_int(index))
            part = self._parts_by_index.get(key)
            if part is None:
                part = self._parts_by_index[key] = self._add_part(AnswerPart(kind))
                self.size += len(index) if isinstance(index, str) else 0
            self.size += part.buffer.write(text)
            if fields:
                self.size += part.add_fields(fields)
        return text

    def _add_part(self, part: AnswerPart) -> AnswerPart:
        self.parts.append(part)
        self.size += ITEM_OVERHEAD_CHARACTERS
        return part

    def add_call(
        self, index: Any = None, *, call_id: Any = "", name: Any = "", arguments: Any = None, **fields: Any
    ) -> None:
        """Add a tool call, or a fragment of one.

        A fragment belongs to the call with its index, or to the last call if it has none. Some services send several
        calls with one index, or even one id, or repeat the name in each fragment. Others send the rest of the arguments
        under the next index, without id and name.

        Args:
            index: the service's number or name for the call, if it has one.
            call_id: its id.
            name: the tool's name.
            arguments: its arguments, or the next piece of them, as text, or all of them as an object.
            fields: other fields for `AnswerPart.fields`; None leaves an earlier value unchanged.
        """
        call_id, name = read_str(call_id), read_str(name)
        if index is not None and not isinstance(index, (int, str)):
            index = read_int(index)
        if not (call_id or name or arguments or (index in self._parts_by_index and any(fields.values()))):
            return
        call = self._find_call(index, call_id, name, arguments)
        if call is None:
            call = self._add_part(AnswerPart("call", len(self.calls)))
            self.calls.append(call)
        if index is not None:
            if isinstance(index, str) and index not in self._parts_by_index:
                self.size += len(index)
            self._parts_by_index[index] = call
        if call_id and not call.id:
            call.id = call_id
            self.size += len(call_id)
        if fields:
            self.size += call.add_fields(fields)
        is_new_name = bool(name) and (not call.name or (name != call.name and not call.buffer.tell()))
        if arguments is not None:
            self.size += call.add_arguments(arguments)
        if is_new_name:
            call.name += name
            self.size += len(name)
            self._deltas.append(ToolCallDelta(call.position, call.name))

    def _find_call(self, index: int | str | None, call_id: str, name: str, arguments: Any) -> AnswerPart | None:
        """Return the call that a fragment belongs to; None for a new one."""
        call = self._parts_by_index.get(index) if index is not None else next(reversed(self.calls), None)
        if call and name:
            is_finished = bool(call.id) and call.id != call_id if call_id else index is None and bool(call.name)
            has_arguments = arguments.strip() if isinstance(arguments, str) else arguments
            call = None if is_finished or (has_arguments and call.has_all_arguments()) else call
        if call is None and not (call_id or name) and self.calls and not self.calls[-1].has_all_arguments():
            call = self.calls[-1]  # Nebius: https://github.com/pipecat-ai/pipecat/pull/4688
        return call

    def add_usage(self, usage: Any) -> None:
        """Add a report of the usage to earlier ones; see `merge_usage`."""
        merge_usage(self.usage, usage, is_final=self.complete)

    def finish(self, reason: Any = "", usage: Any = None) -> None:
        """Note the end of the answer, with the reason and the usage if they come with it."""
        self.complete = True
        self.finish_reason = read_str(reason) or self.finish_reason
        self.add_usage(usage)

    def fail(self, error: Any) -> None:
        """Note an error, which ends the answer; one after the end does not matter."""
        if not self.complete:
            self.error = error or {"message": "an error without a message"}
            self.complete = True


def choose_retry_action(status: int, headers: Mapping[str, str]) -> RetryAction:
    """Return the default action for an HTTP status.

    It is a retry, after the time in `Retry-After`, for temporary statuses (408, 409, 425, 429, 500, 502 to 504, 507,
    520 to 527, 529, 530 and 599), else `RetryAction.NONE`. An error status with the header `x-should-retry` is decided
    by it, as in the SDKs of OpenAI and Anthropic.
    """
    advice = next((value.strip().lower() for name, value in headers.items() if name.lower() == "x-should-retry"), "")
    should_retry = advice == "true" if advice in ("true", "false") and status >= 400 else status in RETRY_STATUSES
    return RetryAction.retry(parse_retry_after(headers)) if should_retry else RetryAction.NONE
