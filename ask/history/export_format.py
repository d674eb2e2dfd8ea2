"""The JSON format in which conversations are exported and imported."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, BinaryIO, NoReturn

from ask.config.type_checks import ValuePath, WrongTypeError, parse_value
from ask.errors import FileError
from ask.history.entries import (
    MERGED,
    ROLES,
    RUN_STATUSES,
    Conversation,
    HistoryEntry,
    Run,
    ToolCallRecord,
)
from ask.messages import Attachment, Citation, ProviderState, ServerToolCall, Usage
from ask.records import Constraint, NamedTuple
from ask.text import describe_parse_error, repair_surrogates

FORMAT, FORMAT_VERSION = "ask-conversation", 2
ID_PATTERN = re.compile(r"[A-Za-z][0-9A-Za-z_-]{0,63}")
"""Ids that cannot be confused with a list position, a path, or an option."""
YEAR_10000 = 253_402_300_800
"""In seconds since 1970."""
RENAMED_FIELDS = {
    "compacts": "first_kept_run",
    "whole": "complete",
    "finish": "finish_reason",
    "native": "provider_state",
}
"""The fields of runs and messages that version 1 of the format named differently."""
RUN_REFERENCES = ("first_kept_run", "replaced_by")
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
        "attachments": [
            {"name": file.name, "media_type": file.media_type, "data": file.base64} for file in message.attachments
        ],
        "provider_state": {name: getattr(state, name) for name in _StateFields._fields} if state else None,
        "citations": [citation._asdict() for citation in entry.citations],
        "server_calls": [call._asdict() for call in entry.server_calls],
        "refused_files": [*entry.refused_files],
    }


# Import


Text = Annotated[str, Constraint("text", convert=repair_surrogates)]
Time = Annotated[float, Constraint("a time in seconds since 1970", lambda seconds: 0 <= seconds < YEAR_10000)]


class _CallFields(NamedTuple):
    id: Text
    name: Text
    arguments: Text
    decision: Text | None = None
    rule: Text | None = None
    started: Time | None = None
    seconds: float | None = None
    failed: bool | None = None
    exit_status: int | None = None


class _AttachmentFields(NamedTuple):
    name: Text
    media_type: Text
    data: bytes


class _StateFields(NamedTuple):
    provider: Text
    model: Text
    data: Mapping[str, Any]


class _CitationFields(NamedTuple):
    url: Text
    title: Text = ""
    cited_text: Text = ""
    start: int | None = None
    end: int | None = None


class _ServerCallFields(NamedTuple):
    name: Text
    arguments: Text
    result: Text = ""
    failed: bool = False


class _MessageFields(NamedTuple):
    role: Annotated[str, Constraint(f"one of {', '.join(ROLES)}", ROLES.__contains__)]
    content: Text = ""
    reasoning: Text = ""
    finish_reason: Text = ""
    provider: Text = ""
    model: Text = ""
    tool_call_id: Text = ""
    tool_name: Text = ""
    time: Time = 0.0
    complete: bool = True
    usage: Usage = Usage()
    calls: tuple[_CallFields, ...] = ()
    attachments: tuple[_AttachmentFields, ...] = ()
    provider_state: _StateFields | None = None
    citations: tuple[_CitationFields, ...] = ()
    server_calls: tuple[_ServerCallFields, ...] = ()
    refused_files: tuple[Text, ...] = ()


class _RunFields(NamedTuple):
    provider: Text
    model: Text
    messages: tuple[_MessageFields, ...]
    version: Text = ""
    system: Text = ""
    directory: Text = ""
    terminal: Text = ""
    error: Text = ""
    first_kept_run: int | None = None
    exit_code: int | None = None
    replaced_by: int | None = None
    status: Annotated[str, Constraint(f"one of {', '.join(filter(None, RUN_STATUSES))}", RUN_STATUSES.__contains__)] = (
        ""
    )
    started: Time = 0.0
    ended: Time | None = None
    rounds: int = 0
    usage: Usage = Usage()


class _ConversationFields(NamedTuple):
    format: Annotated[str, Constraint(repr(FORMAT), FORMAT.__eq__)]
    version: int
    id: Annotated[str, Constraint("an id such as a1b2c3", ID_PATTERN.fullmatch)]
    runs: tuple[_RunFields, ...]
    title: Text = ""
    created: Time = 0.0
    updated: Time = 0.0


def from_json_value(value: Any) -> ConversationExport:
    """Parse a conversation from a JSON value; an error names the run, message, and field."""
    if isinstance(value, dict) and value.get("version") == 1:
        value = _rename_fields(value)
    try:
        fields = parse_value(value, _ConversationFields, on_unknown_key=_refuse_key)
    except WrongTypeError as error:
        problem = error.problem.replace("a table", "an object").replace("of tables", "of objects")
        if error.path and isinstance(error.path[-1], str):
            raise _make_error(error.path[:-1], f"{error.path[-1]} {problem}") from None
        raise _make_error(error.path, problem) from None
    if fields.version not in (1, FORMAT_VERSION):
        raise FileError(f"unsupported export version {fields.version}", "upgrade it")
    runs = [_make_run(index, run) for index, run in enumerate(fields.runs)]
    if not runs:
        raise FileError("the conversation has no runs")
    for run in runs:
        if run.first_kept_run is not None and not 0 <= run.first_kept_run <= len(runs):
            raise FileError(f"run {run.number + 1}: first_kept_run does not refer to a run")
        if run.replaced_by is not None and not run.number < run.replaced_by < len(runs):
            raise FileError(f"run {run.number + 1}: replaced_by does not refer to a later run")
    if not any("status" in run for run in value["runs"]):
        runs = _mark_merged_runs(runs)
    return ConversationExport(Conversation(0, fields.id, fields.title, fields.created, fields.updated), runs)


def _rename_fields(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a conversation, run or message of version 1 with the current names of its fields."""
    renamed = {RENAMED_FIELDS.get(name, name): value for name, value in record.items()}
    for name in ("runs", "messages"):
        if isinstance(renamed.get(name), list):
            renamed[name] = [_rename_fields(part) if isinstance(part, dict) else part for part in renamed[name]]
    return renamed


def _refuse_key(path: ValuePath, _: Any) -> NoReturn:
    raise _make_error(path[:-1], f"unknown field {path[-1]!r}")


def _make_error(path: ValuePath, problem: str) -> FileError:
    """Return an error that names the place, for example "run 1, message 2"."""
    parts: list[str] = []
    for part in path:
        if isinstance(part, int):
            parts[-1] = f"{parts[-1].removesuffix('s')} {part + 1}"
        else:
            parts.append(part)
    return FileError(f"{', '.join(parts)}: {problem}" if parts else problem)


def _mark_merged_runs(runs: Sequence[Run]) -> list[Run]:
    """Set the status of runs of an earlier version, which had none, as unanswered_questions.sql does."""
    answered = [run.number for run in runs if run.first_kept_run is None and run.has_answer]
    last = max(answered, default=0)
    return [
        run._replace(status=MERGED) if run.first_kept_run is None and not run.has_answer and run.number < last else run
        for run in runs
    ]


def _make_run(index: int, fields: _RunFields) -> Run:
    entries = tuple(map(_make_entry, fields.messages))
    calls: list[ToolCallRecord] = []
    for number, entry in enumerate(entries, 1):  # no provider would accept the conversation
        if entry.calls and entry.message.role != "assistant":
            raise FileError(f"run {index + 1}, message {number}: only an assistant message can contain tool calls")
        if entry.message.role != "tool":
            calls = list(entry.calls)
        elif not calls or calls.pop(0).call.id != entry.message.tool_call_id:
            raise FileError(f"run {index + 1}, message {number}: no earlier call matches this result")
    values = fields._asdict()
    del values["messages"]
    return Run(number=index, entries=entries, **values)


def _make_entry(fields: _MessageFields) -> HistoryEntry:
    entry = HistoryEntry.from_row(
        fields._asdict(),
        ProviderState(*fields.provider_state) if fields.provider_state else None,
        fields.usage,
        (ToolCallRecord.from_row(call._asdict()) for call in fields.calls),
        (Attachment(*attachment) for attachment in fields.attachments),
    )
    return entry._replace(
        citations=tuple(Citation(*citation) for citation in fields.citations),
        server_calls=tuple(ServerToolCall(*call) for call in fields.server_calls),
        refused_files=fields.refused_files,
    )


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
            values = [FileError(f"not JSON ({describe_parse_error(error)})", hint)]
        is_first = False
        for position, value in enumerate(values, 1):
            yield f"line {number}" + (f", conversation {position}" if len(values) > 1 else ""), value


def _decode_values(text: str) -> Iterator[Any]:
    decoder, position = json.JSONDecoder(), 0
    while (start := WHITESPACE_PATTERN.match(text, position).end()) < len(text):  # type: ignore[union-attr]
        value, position = decoder.raw_decode(text, start)
        yield from value if isinstance(value, list) else [value]
