"""The JSON format in which conversations are exported and imported."""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, BinaryIO, Literal, NamedTuple

from ask.errors import FileError
from ask.history.entries import CallRecord, Conversation, Entry, Run
from ask.messages import Attachment, Message, Native, ToolCall, Usage
from ask.text import mend

FORMAT, VERSION = "ask-conversation", 1
ID = re.compile(r"[A-Za-z][0-9A-Za-z_-]{0,63}")
"""Ids that no number in a list, no path and no option can be taken for."""
ROLES = ("user", "assistant", "tool")
YEAR_10000 = 253_402_300_800
LARGEST = 2**63 - 1
"""The largest whole number that a row may hold."""


class Saved(NamedTuple):
    """A conversation with all its runs. Where it was read from a file, runs are numbered by their place."""

    conversation: Conversation
    runs: Sequence[Run]


# Out


def as_value(saved: Saved) -> dict[str, Any]:
    """The conversation in its form for files."""
    _, *fields = saved.conversation
    about = dict(zip(Conversation._fields[1:], fields, strict=True))
    numbers = [run.number for run in saved.runs]
    return {"format": FORMAT, "version": VERSION, **about, "runs": [_run_value(run, numbers) for run in saved.runs]}


def _run_value(run: Run, numbers: Sequence[int]) -> dict[str, Any]:
    value = run._asdict()
    del value["number"], value["entries"]
    if run.compacts is not None:
        value["compacts"] = sum(number < run.compacts for number in numbers)
    return {**value, "usage": run.usage._asdict(), "messages": [_message_value(entry) for entry in run.entries]}


def _message_value(entry: Entry) -> dict[str, Any]:
    message, native = entry.message, entry.message.native
    return {
        "time": entry.time,
        "role": message.role,
        "content": message.content,
        "whole": entry.whole,
        "reasoning": entry.reasoning,
        "finish": entry.finish,
        "tool_call_id": message.tool_call_id,
        "tool_name": message.tool_name,
        "usage": entry.usage._asdict(),
        "calls": [_call_value(record) for record in entry.calls],
        "attachments": [
            {**attachment._asdict(), "data": b64encode(attachment.data).decode()} for attachment in message.attachments
        ],
        "native": {name: getattr(native, name) for name in NATIVE_FIELDS} if native else None,
    }


def _call_value(record: CallRecord) -> dict[str, Any]:
    value = record._asdict()
    call: ToolCall = value.pop("call")
    failed = None if record.failed is None else bool(record.failed)
    return {**call._asdict(), **value, "failed": failed}


# In


class Kind(NamedTuple):
    """What a field may hold.

    Attributes:
        fits: whether a value does.
        wanted: what it should be, in words.
        default: for one that is missing; None also allows null.
    """

    fits: Callable[[Any], bool]
    wanted: str
    default: Any = ...

    def __or__(self, default: Any) -> Kind:
        return self._replace(default=default)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST and isfinite(value)


TEXT = Kind(lambda value: isinstance(value, str), "text")
FLAG = Kind(lambda value: isinstance(value, bool), "true or false")
NUMBER = Kind(_is_number, "a number")
INTEGER = Kind(lambda value: _is_number(value) and isinstance(value, int), "a whole number")
TIME = Kind(lambda value: _is_number(value) and 0 <= value < YEAR_10000, "a time in seconds since 1970")
LIST = Kind(lambda value: isinstance(value, list), "a list")
OBJECT = Kind(lambda value: isinstance(value, dict), "an object")

CONVERSATION_FIELDS = {
    "format": Kind(lambda value: value == FORMAT, repr(FORMAT)),
    "version": INTEGER,
    "id": Kind(lambda value: isinstance(value, str) and bool(ID.fullmatch(value)), "an id such as a1b2c3"),
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
    "role": Kind(lambda value: value in ROLES, f"one of {', '.join(ROLES)}"),
    "content": TEXT | "",
    "whole": FLAG | True,
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
    "failed": FLAG | None,
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


def from_value(value: Any) -> Saved:
    """The conversation that is in a JSON value.

    Raises:
        FileError: it is none, or not of a kind that this program knows; the message names the place.
    """
    version = value.get("version") if isinstance(value, dict) and value.get("format") == FORMAT else None
    if INTEGER.fits(version) and version != VERSION:
        raise FileError(f"version {version} of the form is not known to this ask", "upgrade it")
    fields = _fields(value, "", CONVERSATION_FIELDS)
    runs = [_run(run, place) for place, run in enumerate(fields["runs"])]
    if not runs:
        raise FileError("the conversation has no runs")
    for run in runs:
        if run.compacts is not None and not 0 <= run.compacts <= len(runs):
            raise FileError(f"run {run.number + 1}: compacts names no run")
    about = (fields["id"], fields["title"], float(fields["created"]), float(fields["updated"]))
    return Saved(Conversation(0, *about), runs)


def _run(value: Any, place: int) -> Run:
    where = f"run {place + 1}: "
    fields = _fields(value, where, RUN_FIELDS)
    messages = fields.pop("messages")
    fields["usage"] = _usage(fields["usage"], where)
    entries = [_entry(message, f"run {place + 1}, message {number}: ") for number, message in enumerate(messages, 1)]
    _check_pairs(entries, place)
    return Run(**_with_real(fields, "started", "ended"), number=place, entries=tuple(entries))


def _check_pairs(entries: Sequence[Entry], place: int) -> None:
    """Refuse a result without a call: no provider would take the conversation up again."""
    calls: list[CallRecord] = []
    for number, entry in enumerate(entries, 1):
        if entry.message.role != "tool":
            calls = list(entry.calls)
        elif not calls or calls.pop(0).call.id != entry.message.tool_call_id:
            raise FileError(f"run {place + 1}, message {number}: it is the result of no call before it")


def _entry(value: Any, where: str) -> Entry:
    fields = _fields(value, where, MESSAGE_FIELDS)
    records = [_record(call, where) for call in fields["calls"]]
    if records and fields["role"] != "assistant":
        raise FileError(f"{where}only an assistant calls tools")
    role: Literal["user", "assistant", "tool"] = fields["role"]
    native = _fields(fields["native"], f"{where}native: ", NATIVE_FIELDS) if fields["native"] is not None else None
    message = Message(
        role=role,
        content=fields["content"],
        tool_calls=tuple(record.call for record in records),
        tool_call_id=fields["tool_call_id"],
        tool_name=fields["tool_name"],
        attachments=tuple(_attachment(attachment, where) for attachment in fields["attachments"]),
        native=Native(**native) if native else None,
    )
    said = (fields["whole"], fields["reasoning"], fields["finish"])
    return Entry(float(fields["time"]), message, *said, _usage(fields["usage"], where), tuple(records))


def _record(value: Any, where: str) -> CallRecord:
    fields = _with_real(_fields(value, f"{where}a call: ", CALL_FIELDS), "started", "seconds")
    return CallRecord(ToolCall(*(fields.pop(name) for name in ToolCall._fields)), **fields)


def _attachment(value: Any, where: str) -> Attachment:
    fields = _fields(value, f"{where}an attachment: ", ATTACHMENT_FIELDS)
    try:
        return Attachment(fields["name"], fields["media_type"], b64decode(fields["data"], validate=True))
    except ValueError:
        raise FileError(f"{where}an attachment: data is not base64") from None


def _usage(value: Any, where: str) -> Usage:
    return Usage(**_with_real(_fields(value, f"{where}usage: ", USAGE_FIELDS), "cost"))


def _with_real(fields: dict[str, Any], *names: str) -> dict[str, Any]:
    """The fields, those of these names as the database gives them back: never whole numbers."""
    return fields | {name: float(fields[name]) for name in names if fields[name] is not None}


def _fields(value: Any, where: str, kinds: Mapping[str, Kind]) -> dict[str, Any]:
    """The fields of an object, each checked."""
    if not isinstance(value, dict):
        raise FileError(f"{where}it is not an object")
    fields = {}
    for name, kind in kinds.items():
        given = value.get(name, kind.default)
        if given is ...:
            raise FileError(f"{where}{name} is missing")
        if given is not kind.default and not kind.fits(given):
            raise FileError(f"{where}{name} is not {kind.wanted}")
        fields[name] = mend(given) if isinstance(given, str) else given
    for name in value:
        if name not in kinds:
            raise FileError(f"{where}there is no field {name!r} in this form")
    return fields


LONGEST = 1 << 29
"""Bytes of the longest line, and of the longest file that is no JSON lines."""
HALF = re.compile("[\ud800-\udfff]")
SPACE = re.compile(r"\s*")


def as_line(saved: Saved) -> str:
    """The conversation as one line of JSON, its end included; the same text for the same content."""
    text = json.dumps(as_value(saved), ensure_ascii=False, separators=(",", ":"))
    # Half a character, which what a provider wants back verbatim may hold, is no UTF-8.
    return HALF.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n"


def read_saved(file: BinaryIO, name: str) -> Iterator[Saved]:
    """The conversations in a file, in order. `name` is what errors call it.

    Raises:
        FileError: it cannot be read, or holds something else.
    """
    for place, value in _values(file, name):
        try:
            yield from_value(value)
        except FileError as fault:
            raise FileError(f"{name}, {place}: {fault.message}", fault.advice) from None


def _values(file: BinaryIO, name: str) -> Iterator[tuple[str, Any]]:
    """Each JSON value of a file, or of an array in it, with its place in words."""
    number, seen = 0, False
    while line := _read(file, name):
        number += 1
        text = _text(line, f"{name}, line {number}")
        if not text or text.isspace():
            continue
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as fault:
            if seen or not isinstance(fault, ValueError):
                raise FileError(f"{name}, line {number}: {_why(fault)}") from None
            yield from _laid_out(text + _text(_read(file, name, whole=True), name), name)
            return
        seen = True
        yield from _each(value, f"line {number}")


def _laid_out(text: str, name: str) -> Iterator[tuple[str, Any]]:
    """Each JSON value of a text in which they may take several lines."""
    decoder, place, number = json.JSONDecoder(), SPACE.match(text).end(), 0  # type: ignore[union-attr]
    while place < len(text):
        number += 1
        try:
            value, end = decoder.raw_decode(text, place)
        except (ValueError, RecursionError) as fault:
            raise FileError(f"{name}: {_why(fault)}") from None
        yield from _each(value, f"conversation {number}")
        place = SPACE.match(text, end).end()  # type: ignore[union-attr]


def _each(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, list):
        yield from ((f"conversation {number}", item) for number, item in enumerate(value, 1))
    else:
        yield place, value


def _read(file: BinaryIO, name: str, *, whole: bool = False) -> bytes:
    try:
        data = file.read(LONGEST + 1) if whole else file.readline(LONGEST + 1)
    except OSError as fault:
        raise FileError(f"cannot read {name} ({fault.strerror})") from fault
    if len(data) > LONGEST:
        raise FileError(f"{name} is too large to be read at once", "export one conversation a line")
    return data


def _text(data: bytes, where: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FileError(f"{where} is not UTF-8 text") from None


def _why(fault: ValueError | RecursionError) -> str:
    if isinstance(fault, json.JSONDecodeError):
        where = f" in its line {fault.lineno}, column {fault.colno}" if fault.lineno > 1 else ""
        return f"this is not JSON ({fault.msg}{where})"
    return f"this JSON {'is nested too deeply' if isinstance(fault, RecursionError) else 'holds too long a number'}"
