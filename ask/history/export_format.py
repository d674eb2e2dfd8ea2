"""The JSON format in which conversations are exported and imported."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

from ask.errors import FileError
from ask.history.entries import (
    MAX_SQLITE_INTEGER,
    MERGED,
    ROLES,
    RUN_STATUSES,
    Conversation,
    HistoryEntry,
    Run,
    ToolCallRecord,
)
from ask.messages import Attachment, ProviderState, Usage
from ask.records import NamedTuple
from ask.text import repair_surrogates

FORMAT, FORMAT_VERSION = "ask-conversation", 1
ID_PATTERN = re.compile(r"[A-Za-z][0-9A-Za-z_-]{0,63}")
"""Ids that cannot be confused with a list position, a path, or an option."""
YEAR_10000 = 253_402_300_800
"""In seconds since 1970."""
RUN_REFERENCES = ("compacts", "replaced_by")
"""The fields of a run that name another run, in a file by its position."""


class ConversationExport(NamedTuple):
    """A conversation with all its runs. Runs read from a file are numbered from 0, in order."""

    conversation: Conversation
    runs: Sequence[Run]


# Export


def to_json_value(export: ConversationExport) -> dict[str, Any]:
    """Convert a conversation to a JSON value."""
    conversation_fields = export.conversation._asdict()
    del conversation_fields["number"]
    run_numbers = [run.number for run in export.runs]
    runs = [_run_to_json(run, run_numbers) for run in export.runs]
    return {"format": FORMAT, "version": FORMAT_VERSION, **conversation_fields, "runs": runs}


def _run_to_json(run: Run, run_numbers: Sequence[int]) -> dict[str, Any]:
    value = run._asdict()
    del value["number"], value["entries"]
    for name in RUN_REFERENCES:
        if value[name] is not None:
            value[name] = sum(number < value[name] for number in run_numbers)
    return {**value, "usage": run.usage._asdict(), "messages": [_message_to_json(entry) for entry in run.entries]}


def _message_to_json(entry: HistoryEntry) -> dict[str, Any]:
    message, state = entry.message, entry.message.provider_state
    return {
        **entry.to_row(),
        "usage": entry.usage._asdict(),
        "calls": [record.to_row() for record in entry.calls],
        "attachments": [{**attachment._asdict(), "data": attachment.base64} for attachment in message.attachments],
        "provider_state": {name: getattr(state, name) for name in STATE_FIELDS} if state else None,
    }


# Import


class Field(NamedTuple):
    """The values that a JSON field may have.

    `field | default` makes it optional.
    """

    types: tuple[type, ...]
    expected: str
    """A description of the values for error messages."""
    is_valid: Callable[[Any], object] = lambda _: True
    """Checks a value of one of the types."""
    fields: Mapping[str, Field] | None = None
    """The fields of an object, or of each object in a list."""
    default: Any = ...
    """The value of a missing field; `...` for a required field. None also allows null."""

    def __or__(self, default: Any) -> Field:
        return self._replace(default=default)


def _fits_sqlite(number: float) -> bool:
    return abs(number) <= MAX_SQLITE_INTEGER  # false for NaN


def _is_base64(text: str) -> bool:
    try:
        b64decode(text, validate=True)
    except ValueError:
        return False
    return True


TEXT = Field((str,), "text")
BOOLEAN = Field((bool,), "true or false")
NUMBER = Field((int, float), "a number", _fits_sqlite)
INTEGER = Field((int,), "a whole number", _fits_sqlite)
TIME = Field((int, float), "a time in seconds since 1970", lambda value: 0 <= value < YEAR_10000)
LIST = Field((list,), "a list")
OBJECT = Field((dict,), "an object")

USAGE_FIELDS = {
    **dict.fromkeys(("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens"), INTEGER | None),
    "cost": NUMBER | None,
}
CALL_FIELDS = {
    **dict.fromkeys(("id", "name", "arguments"), TEXT),
    **dict.fromkeys(("decision", "rule"), TEXT | None),
    "started": TIME | None,
    "seconds": NUMBER | None,
    "failed": BOOLEAN | None,
    "exit_status": INTEGER | None,
}
ATTACHMENT_FIELDS = {"name": TEXT, "media_type": TEXT, "data": Field((str,), "base64", _is_base64)}
STATE_FIELDS = {"provider": TEXT, "model": TEXT, "data": OBJECT}
MESSAGE_FIELDS = {
    "role": Field((str,), f"one of {', '.join(ROLES)}", ROLES.__contains__),
    **dict.fromkeys(("content", "reasoning", "finish", "provider", "model", "tool_call_id", "tool_name"), TEXT | ""),
    "time": TIME | 0,
    "whole": BOOLEAN | True,
    "usage": OBJECT._replace(fields=USAGE_FIELDS) | {},
    "calls": LIST._replace(fields=CALL_FIELDS) | [],
    "attachments": LIST._replace(fields=ATTACHMENT_FIELDS) | [],
    "provider_state": OBJECT._replace(fields=STATE_FIELDS) | None,
}
RUN_FIELDS = {
    **dict.fromkeys(("provider", "model"), TEXT),
    **dict.fromkeys(("version", "system", "directory", "terminal", "error"), TEXT | ""),
    **dict.fromkeys(("compacts", "exit_code", "replaced_by"), INTEGER | None),
    "status": Field((str,), f"one of {', '.join(filter(None, RUN_STATUSES))}", RUN_STATUSES.__contains__) | "",
    "started": TIME | 0,
    "ended": TIME | None,
    "rounds": INTEGER | 0,
    "usage": OBJECT._replace(fields=USAGE_FIELDS) | {},
    "messages": LIST._replace(fields=MESSAGE_FIELDS),
}
CONVERSATION_FIELDS = {
    "format": Field((str,), repr(FORMAT), FORMAT.__eq__),
    "version": INTEGER,
    "id": Field((str,), "an id such as a1b2c3", ID_PATTERN.fullmatch),
    "title": TEXT | "",
    "created": TIME | 0,
    "updated": TIME | 0,
    "runs": LIST._replace(fields=RUN_FIELDS),
}


def from_json_value(value: Any) -> ConversationExport:
    """Parse a conversation from a JSON value; an error names the run, message, and field."""
    fields = _read_fields(value, CONVERSATION_FIELDS)
    if fields["version"] != FORMAT_VERSION:
        raise FileError(f"unsupported export version {fields['version']}", "upgrade it")
    runs = [_make_run(index, **run) for index, run in enumerate(fields["runs"])]
    if not runs:
        raise FileError("the conversation has no runs")
    for run in runs:
        if run.compacts is not None and not 0 <= run.compacts <= len(runs):
            raise FileError(f"run {run.number + 1}: compacts does not refer to a run")
        if run.replaced_by is not None and not run.number < run.replaced_by < len(runs):
            raise FileError(f"run {run.number + 1}: replaced_by does not refer to a later run")
    if not any("status" in run for run in value["runs"]):
        runs = _mark_merged_runs(runs)
    return ConversationExport(Conversation(0, *(fields[name] for name in Conversation._fields[1:])), runs)


def _mark_merged_runs(runs: Sequence[Run]) -> list[Run]:
    """Set the status of runs of an earlier version, which had none, as unanswered_questions.sql does."""
    answered = [run.number for run in runs if run.compacts is None and run.has_answer]
    last = max(answered, default=0)
    return [
        run._replace(status=MERGED) if run.compacts is None and not run.has_answer and run.number < last else run
        for run in runs
    ]


def _make_run(index: int, usage: dict[str, Any], messages: list[dict[str, Any]], **fields: Any) -> Run:
    entries = tuple(_make_entry(message) for message in messages)
    calls: list[ToolCallRecord] = []
    for number, entry in enumerate(entries, 1):  # no provider would accept the conversation
        if entry.calls and entry.message.role != "assistant":
            raise FileError(f"run {index + 1}, message {number}: only an assistant message can contain tool calls")
        if entry.message.role != "tool":
            calls = list(entry.calls)
        elif not calls or calls.pop(0).call.id != entry.message.tool_call_id:
            raise FileError(f"run {index + 1}, message {number}: no earlier call matches this result")
    return Run(number=index, usage=Usage(**usage), entries=entries, **fields)


def _make_entry(fields: dict[str, Any]) -> HistoryEntry:
    state = fields["provider_state"]
    return HistoryEntry.from_row(
        fields,
        ProviderState(**state) if state else None,
        Usage(**fields["usage"]),
        map(ToolCallRecord.from_row, fields["calls"]),
        (Attachment(**{**attachment, "data": b64decode(attachment["data"])}) for attachment in fields["attachments"]),
    )


def _read_fields(value: Any, specs: Mapping[str, Field], location: str = "") -> dict[str, Any]:
    prefix = f"{location}: " if location else ""
    if not isinstance(value, dict):
        raise FileError(f"{prefix}not an object")
    for name in value.keys() - specs.keys():
        raise FileError(f"{prefix}unknown field {name!r}")
    fields = {}
    for name, field in specs.items():
        field_value = value.get(name, field.default)
        if field_value is ...:
            raise FileError(f"{prefix}{name} is missing")
        is_null = field_value is field.default is None
        if not is_null and not (type(field_value) in field.types and field.is_valid(field_value)):
            raise FileError(f"{prefix}{name} is not {field.expected}")
        path = f"{location}, {name}" if location else name
        fields[name] = None if is_null else _convert_value(field_value, field, path)
    return fields


def _convert_value(value: Any, field: Field, path: str) -> Any:
    if isinstance(value, str):
        return repair_surrogates(value)
    if float in field.types:  # as SQLite returns it: an imported conversation must be equal to its original
        return float(value)
    if field.fields is None:
        return value
    if isinstance(value, dict):
        return _read_fields(value, field.fields, path)
    path = path.removesuffix("s")
    return [_read_fields(item, field.fields, f"{path} {number}") for number, item in enumerate(value, 1)]


SURROGATE_PATTERN = re.compile("[\ud800-\udfff]")
WHITESPACE_PATTERN = re.compile(r"\s*")


def to_json_line(export: ConversationExport) -> str:
    """Convert a conversation to one line of JSON, including the newline; the same content gives the same text."""
    text = json.dumps(to_json_value(export), ensure_ascii=False, separators=(",", ":"))
    # The provider state may contain lone surrogates, which UTF-8 cannot encode.
    return SURROGATE_PATTERN.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n"


def read_exports(file: BinaryIO, name: str, problems: list[FileError] | None = None) -> Iterator[ConversationExport]:
    """Yield the conversations in a file: JSON lines, JSON values over several lines, or arrays.

    `name` is the name of the file in error messages. A conversation that cannot be read is left out, and the reason is
    added to `problems`; without that list, it is raised.
    """
    for location, value in _read_values(file):
        export = value if isinstance(value, FileError) else _parse_export(value)
        if not isinstance(export, FileError):
            yield export
            continue
        problem = FileError(f"{name}, {location}: {export.message}", export.hint)
        if problems is None:
            raise problem
        problems.append(problem)


def _parse_export(value: Any) -> ConversationExport | FileError:
    try:
        return from_json_value(value)
    except FileError as error:
        return error


def _read_values(file: BinaryIO) -> Iterator[tuple[str, Any]]:
    """Yield each JSON value of a file, or of an array in it, with its location, and an error for each invalid line."""
    is_first = True
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        rest = file.tell()
        try:
            text = line.decode("utf-8-sig")
            try:
                values = list(_decode_values(text))
            except json.JSONDecodeError:  # values may span lines, but not after one that is a line
                if not is_first:
                    raise
                values = list(_decode_values(text + file.read().decode()))
        except (ValueError, RecursionError) as error:
            file.seek(rest)
            hint = "import what ask history export --json has written" if is_first else ""
            values = [FileError(f"not JSON ({error})", hint)]
        is_first = False
        for position, value in enumerate(values, 1):
            yield f"line {number}" + (f", conversation {position}" if len(values) > 1 else ""), value


def _decode_values(text: str) -> Iterator[Any]:
    decoder, position = json.JSONDecoder(), 0
    while (start := WHITESPACE_PATTERN.match(text, position).end()) < len(text):  # type: ignore[union-attr]
        value, position = decoder.raw_decode(text, start)
        yield from value if isinstance(value, list) else [value]
