"""The JSON format in which conversations are exported and imported."""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, BinaryIO, Literal, NamedTuple

from ask.errors import FileError
from ask.history.entries import MAX_SQLITE_INTEGER, Conversation, HistoryEntry, Run, ToolCallRecord
from ask.messages import Attachment, Message, Native, ToolCall, Usage
from ask.text import repair_surrogates

FORMAT, FORMAT_VERSION = "ask-conversation", 1
ID_PATTERN = re.compile(r"[A-Za-z][0-9A-Za-z_-]{0,63}")
"""Ids that cannot be confused with a list position, a path, or an option."""
ROLES = ("user", "assistant", "tool")
YEAR_10000 = 253_402_300_800
"""The largest integer that SQLite can store."""


class ConversationExport(NamedTuple):
    """A conversation with all its runs. Runs read from a file are numbered from 0, in order."""

    conversation: Conversation
    runs: Sequence[Run]


# Export


def to_json_value(export: ConversationExport) -> dict[str, Any]:
    """Convert a conversation to a JSON value."""
    _, *fields = export.conversation
    conversation_fields = dict(zip(Conversation._fields[1:], fields, strict=True))
    run_numbers = [run.number for run in export.runs]
    return {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        **conversation_fields,
        "runs": [_run_to_json(run, run_numbers) for run in export.runs],
    }


def _run_to_json(run: Run, run_numbers: Sequence[int]) -> dict[str, Any]:
    value = run._asdict()
    del value["number"], value["entries"]
    if run.compacts is not None:
        value["compacts"] = sum(number < run.compacts for number in run_numbers)
    return {**value, "usage": run.usage._asdict(), "messages": [_message_to_json(entry) for entry in run.entries]}


def _message_to_json(entry: HistoryEntry) -> dict[str, Any]:
    message, native = entry.message, entry.message.native
    return {
        "time": entry.time,
        "role": message.role,
        "content": message.content,
        "whole": entry.complete,
        "reasoning": entry.reasoning,
        "finish": entry.finish_reason,
        "tool_call_id": message.tool_call_id,
        "tool_name": message.tool_name,
        "usage": entry.usage._asdict(),
        "calls": [_call_to_json(record) for record in entry.calls],
        "attachments": [
            {**attachment._asdict(), "data": b64encode(attachment.data).decode()} for attachment in message.attachments
        ],
        "native": {name: getattr(native, name) for name in NATIVE_FIELDS} if native else None,
    }


def _call_to_json(record: ToolCallRecord) -> dict[str, Any]:
    value = record._asdict()
    call: ToolCall = value.pop("call")
    failed = None if record.failed is None else bool(record.failed)
    return {**call._asdict(), **value, "failed": failed}


# Import


class FieldSpec(NamedTuple):
    """The valid values of a JSON field.

    `spec | default` makes the field optional.
    """

    is_valid: Callable[[Any], bool]
    expected: str
    """A description of valid values for error messages."""
    default: Any = ...
    """The value of a missing field; `...` for a required field. None also allows null."""

    def __or__(self, default: Any) -> FieldSpec:
        return self._replace(default=default)


def _is_number(value: Any) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and abs(value) <= MAX_SQLITE_INTEGER
        and isfinite(value)
    )


TEXT = FieldSpec(lambda value: isinstance(value, str), "text")
BOOLEAN = FieldSpec(lambda value: isinstance(value, bool), "true or false")
NUMBER = FieldSpec(_is_number, "a number")
INTEGER = FieldSpec(lambda value: _is_number(value) and isinstance(value, int), "a whole number")
TIME = FieldSpec(lambda value: _is_number(value) and 0 <= value < YEAR_10000, "a time in seconds since 1970")
LIST = FieldSpec(lambda value: isinstance(value, list), "a list")
OBJECT = FieldSpec(lambda value: isinstance(value, dict), "an object")

CONVERSATION_FIELDS = {
    "format": FieldSpec(lambda value: value == FORMAT, repr(FORMAT)),
    "version": INTEGER,
    "id": FieldSpec(lambda value: isinstance(value, str) and bool(ID_PATTERN.fullmatch(value)), "an id such as a1b2c3"),
    "title": TEXT | "",
    "created": TIME | 0,
    "updated": TIME | 0,
    "runs": LIST,
}
RUN_FIELDS = {
    "started": TIME | 0,
    "ended": TIME | None,
    "compacts": INTEGER | None,
    "version": TEXT | "",
    "provider": TEXT,
    "model": TEXT,
    "system": TEXT | "",
    "directory": TEXT | "",
    "terminal": TEXT | "",
    "exit_code": INTEGER | None,
    "error": TEXT | "",
    "rounds": INTEGER | 0,
    "usage": OBJECT | {},
    "messages": LIST,
}
MESSAGE_FIELDS = {
    "time": TIME | 0,
    "role": FieldSpec(lambda value: value in ROLES, f"one of {', '.join(ROLES)}"),
    "content": TEXT | "",
    "whole": BOOLEAN | True,
    "reasoning": TEXT | "",
    "finish": TEXT | "",
    "tool_call_id": TEXT | "",
    "tool_name": TEXT | "",
    "usage": OBJECT | {},
    "calls": LIST | [],
    "attachments": LIST | [],
    "native": OBJECT | None,
}
CALL_FIELDS = {
    "id": TEXT,
    "name": TEXT,
    "arguments": TEXT,
    "started": TIME | None,
    "seconds": NUMBER | None,
    "failed": BOOLEAN | None,
    "decision": TEXT | None,
    "rule": TEXT | None,
    "exit_status": INTEGER | None,
}
ATTACHMENT_FIELDS = {"name": TEXT, "media_type": TEXT, "data": TEXT}
NATIVE_FIELDS = {"provider": TEXT, "model": TEXT, "data": OBJECT}
USAGE_FIELDS = {
    **dict.fromkeys(("input_tokens", "output_tokens", "cached_tokens"), INTEGER | None),
    "cost": NUMBER | None,
}


def from_json_value(value: Any) -> ConversationExport:
    """Parse a conversation from a JSON value; an error names the run, message, and field."""
    version = value.get("version") if isinstance(value, dict) and value.get("format") == FORMAT else None
    if INTEGER.is_valid(version) and version != FORMAT_VERSION:
        raise FileError(f"version {version} of the form is not known to this ask", "upgrade it")
    fields = _read_fields(value, "", CONVERSATION_FIELDS)
    runs = [_parse_run(run, position) for position, run in enumerate(fields["runs"])]
    if not runs:
        raise FileError("the conversation has no runs")
    for run in runs:
        if run.compacts is not None and not 0 <= run.compacts <= len(runs):
            raise FileError(f"run {run.number + 1}: compacts names no run")
    conversation_fields = (fields["id"], fields["title"], float(fields["created"]), float(fields["updated"]))
    return ConversationExport(Conversation(0, *conversation_fields), runs)


def _parse_run(value: Any, run_index: int) -> Run:
    location = f"run {run_index + 1}: "
    fields = _read_fields(value, location, RUN_FIELDS)
    messages = fields.pop("messages")
    fields["usage"] = _parse_usage(fields["usage"], location)
    entries = [
        _parse_entry(message, f"run {run_index + 1}, message {number}: ") for number, message in enumerate(messages, 1)
    ]
    _check_results_have_calls(entries, run_index)
    return Run(**_convert_to_float(fields, "started", "ended"), number=run_index, entries=tuple(entries))


def _check_results_have_calls(entries: Sequence[HistoryEntry], run_index: int) -> None:
    """Refuse a tool result without a call: no provider would accept the conversation."""
    calls: list[ToolCallRecord] = []
    for number, entry in enumerate(entries, 1):
        if entry.message.role != "tool":
            calls = list(entry.calls)
        elif not calls or calls.pop(0).call.id != entry.message.tool_call_id:
            raise FileError(f"run {run_index + 1}, message {number}: it is the result of no call before it")


def _parse_entry(value: Any, location: str) -> HistoryEntry:
    fields = _read_fields(value, location, MESSAGE_FIELDS)
    records = [_parse_call(call, location) for call in fields["calls"]]
    if records and fields["role"] != "assistant":
        raise FileError(f"{location}only an assistant calls tools")
    role: Literal["user", "assistant", "tool"] = fields["role"]
    native = (
        _read_fields(fields["native"], f"{location}native: ", NATIVE_FIELDS) if fields["native"] is not None else None
    )
    message = Message(
        role=role,
        content=fields["content"],
        tool_calls=tuple(record.call for record in records),
        tool_call_id=fields["tool_call_id"],
        tool_name=fields["tool_name"],
        attachments=tuple(_parse_attachment(attachment, location) for attachment in fields["attachments"]),
        native=Native(**native) if native else None,
    )
    details = (fields["whole"], fields["reasoning"], fields["finish"])
    return HistoryEntry(
        float(fields["time"]), message, *details, _parse_usage(fields["usage"], location), tuple(records)
    )


def _parse_call(value: Any, location: str) -> ToolCallRecord:
    fields = _convert_to_float(_read_fields(value, f"{location}a call: ", CALL_FIELDS), "started", "seconds")
    return ToolCallRecord(ToolCall(*(fields.pop(name) for name in ToolCall._fields)), **fields)


def _parse_attachment(value: Any, location: str) -> Attachment:
    fields = _read_fields(value, f"{location}an attachment: ", ATTACHMENT_FIELDS)
    try:
        return Attachment(fields["name"], fields["media_type"], b64decode(fields["data"], validate=True))
    except ValueError:
        raise FileError(f"{location}an attachment: data is not base64") from None


def _parse_usage(value: Any, location: str) -> Usage:
    return Usage(**_convert_to_float(_read_fields(value, f"{location}usage: ", USAGE_FIELDS), "cost"))


def _convert_to_float(fields: dict[str, Any], *names: str) -> dict[str, Any]:
    """Convert these fields to float, as SQLite returns them.

    Otherwise an exported and imported conversation would differ from its original.
    """
    return fields | {name: float(fields[name]) for name in names if fields[name] is not None}


def _read_fields(value: Any, location: str, specs: Mapping[str, FieldSpec]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise FileError(f"{location}it is not an object")
    fields = {}
    for name, spec in specs.items():
        field_value = value.get(name, spec.default)
        if field_value is ...:
            raise FileError(f"{location}{name} is missing")
        if field_value is not spec.default and not spec.is_valid(field_value):
            raise FileError(f"{location}{name} is not {spec.expected}")
        fields[name] = repair_surrogates(field_value) if isinstance(field_value, str) else field_value
    for name in value:
        if name not in specs:
            raise FileError(f"{location}there is no field {name!r} in this form")
    return fields


MAX_READ_SIZE = 1 << 29
"""The largest line, or the largest file that is not JSON lines, in bytes."""
SURROGATE_PATTERN = re.compile("[\ud800-\udfff]")
WHITESPACE_PATTERN = re.compile(r"\s*")


def to_json_line(export: ConversationExport) -> str:
    """Convert a conversation to one line of JSON, including the newline; the same content gives the same text."""
    text = json.dumps(to_json_value(export), ensure_ascii=False, separators=(",", ":"))
    # The provider state may contain lone surrogates, which UTF-8 cannot encode.
    return SURROGATE_PATTERN.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n"


def read_exports(file: BinaryIO, name: str) -> Iterator[ConversationExport]:
    """Yield the conversations in a file.

    It may contain JSON lines, JSON values over several lines, or arrays.

    `name` is the name of the file in error messages.
    """
    for location, value in _read_values(file, name):
        try:
            yield from_json_value(value)
        except FileError as error:
            raise FileError(f"{name}, {location}: {error.message}", error.advice) from None


def _read_values(file: BinaryIO, name: str) -> Iterator[tuple[str, Any]]:
    """Yield each JSON value of a file, or of an array in it, with its location."""
    number, found_value = 0, False
    while line := _read_bytes(file, name):
        number += 1
        text = _decode_text(line, f"{name}, line {number}")
        if not text or text.isspace():
            continue
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            if found_value or not isinstance(error, ValueError):
                raise FileError(f"{name}, line {number}: {_format_json_error(error)}") from None
            yield from _decode_multiline(text + _decode_text(_read_bytes(file, name, read_all=True), name), name)
            return
        found_value = True
        yield from _expand_array(value, f"line {number}")


def _decode_multiline(text: str, name: str) -> Iterator[tuple[str, Any]]:
    """Yield each JSON value, with its location; values may span several lines."""
    decoder, position, number = json.JSONDecoder(), WHITESPACE_PATTERN.match(text).end(), 0  # type: ignore[union-attr]
    while position < len(text):
        number += 1
        try:
            value, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError) as error:
            raise FileError(f"{name}: {_format_json_error(error)}") from None
        yield from _expand_array(value, f"conversation {number}")
        position = WHITESPACE_PATTERN.match(text, end).end()  # type: ignore[union-attr]


def _expand_array(value: Any, location: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, list):
        yield from ((f"conversation {number}", item) for number, item in enumerate(value, 1))
    else:
        yield location, value


def _read_bytes(file: BinaryIO, name: str, *, read_all: bool = False) -> bytes:
    try:
        data = file.read(MAX_READ_SIZE + 1) if read_all else file.readline(MAX_READ_SIZE + 1)
    except OSError as error:
        raise FileError(f"cannot read {name} ({error.strerror})") from error
    if len(data) > MAX_READ_SIZE:
        raise FileError(f"{name} is too large to be read at once", "export one conversation a line")
    return data


def _decode_text(data: bytes, location: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FileError(f"{location} is not UTF-8 text") from None


def _format_json_error(error: ValueError | RecursionError) -> str:
    if isinstance(error, json.JSONDecodeError):
        location = f" in its line {error.lineno}, column {error.colno}" if error.lineno > 1 else ""
        return f"this is not JSON ({error.msg}{location})"
    return f"this JSON {'is nested too deeply' if isinstance(error, RecursionError) else 'holds too long a number'}"
