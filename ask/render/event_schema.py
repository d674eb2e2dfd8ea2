"""The JSON Schema of the events of `--events`, and of the lines that `--input-events` reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ask.messages import Citation, Usage
from ask.render.json_events import PROTOCOL_VERSION
from ask.safety.approval_scope import ApprovalScope

Json = dict[str, Any]

_STRING, _INTEGER, _NUMBER, _BOOLEAN = ({"type": name} for name in ("string", "integer", "number", "boolean"))


def _nullable(schema: Mapping[str, Any]) -> Json:
    return {**schema, "type": [schema["type"], "null"]}


def _array(items: Mapping[str, Any]) -> Json:
    return {"type": "array", "items": items}


def _object(properties: Mapping[str, Any], optional: tuple[str, ...] = ()) -> Json:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": dict(properties), "required": required}


def _describe_usage() -> Json:
    """Return the properties of `ask.Usage`."""
    types = {"cost": _NUMBER, "service_tier": _STRING}
    return {name: _nullable(types.get(name, _INTEGER)) for name in Usage._fields}


_MODEL = {"provider": _nullable(_STRING), "model": _nullable(_STRING)}
_CALL = {"id": _STRING, "name": _STRING, "arguments": _STRING}
_FILE = {"path": _STRING, "media_type": _STRING, "size": _INTEGER}
_CITATION = _object(
    {
        name: {"type": ["string", "integer", "null"]} if name not in ("url", "title") else _nullable(_STRING)
        for name in Citation._fields
    }
)
_TOOL_RESULT = {
    **_CALL,
    "result": _STRING,
    "failed": _BOOLEAN,
    "decision": {"enum": ["allow", "deny", "server"]},
    "exit_status": _nullable(_INTEGER),
    "seconds": _NUMBER,
    "diff": _nullable(_STRING),
    "attachments": _array(_object({"name": _STRING, "media_type": _STRING, "size": _INTEGER})),
}
_RESULT = {
    "conversation": _nullable(_STRING),
    **_MODEL,
    "saved": _BOOLEAN,
    "text": _STRING,
    "data": {},
    "decisions": _array(
        _object(
            {
                "name": _STRING,
                "value": {},
                "probability": _nullable(_NUMBER),
                "probabilities": {"type": "object", "additionalProperties": _NUMBER},
                "refusal": _nullable(_STRING),
            }
        )
    ),
    "reasoning": _STRING,
    "files": _array(_object(_FILE)),
    "tool_calls": _array(_object(_TOOL_RESULT)),
    "server_calls": _array(_object(_TOOL_RESULT)),
    "citations": _array(_CITATION),
    "rounds": _INTEGER,
    "finish": _nullable(_STRING),
    "usage": _object({**_describe_usage(), "cost_source": _nullable(_STRING), "cost_complete": _BOOLEAN}),
    "exit_code": _INTEGER,
    "error": _nullable(_STRING),
}
EVENTS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "start": (
        "a run begins",
        {
            "version": {"const": PROTOCOL_VERSION},
            "conversation": _STRING,
            **_MODEL,
            "directory": _STRING,
            "tools": _array(_STRING),
            "safe_mode": _nullable(_STRING),
        },
    ),
    "text": ("a piece of the answer", {"text": _STRING}),
    "reasoning": ("a piece of the model's reasoning", {"text": _STRING}),
    "tool_call": ("a tool call starts, or was refused; its arguments are JSON", _CALL),
    "tool_output": ("a piece of the output of a running command", {"text": _STRING}),
    "tool_result": ("a tool call has ended", _TOOL_RESULT),
    "citations": ("the sources of an answer", {"citations": _array(_CITATION)}),
    "file": ("an image that the model generated was saved", _FILE),
    "usage": ("the tokens of one answer, and its cost if the service reports it", {**_MODEL, **_describe_usage()}),
    "retry": (
        "a request failed and is sent again",
        {"reason": _STRING, "attempt": _INTEGER, "attempts": _INTEGER, "seconds": _NUMBER},
    ),
    "fallback": ("another provider and model continue", _MODEL),
    "notice": ("a message for the user", {"text": _STRING}),
    "approval": (
        "with --input-events: a tool call needs approval",
        {
            "id": _STRING,
            "name": _STRING,
            "arguments": _STRING,
            "description": _STRING,
            "host": _nullable(_STRING),
            "danger": _nullable(_STRING),
            "diff": _nullable(_STRING),
            "scopes": {"type": "object", "additionalProperties": _array(_STRING)},
        },
    ),
    "input_error": ("with --input-events: a line of input was left out", {"error": _STRING}),
    "result": ("a run has ended, or could not begin", _RESULT),
}
"""The events with their descriptions and fields, in the order in which they occur."""
_OPTIONAL = {"result": ("data", "decisions")}
INPUTS: Mapping[str, tuple[str, Mapping[str, Any], tuple[str, ...]]] = {
    "message": ("a message to the model", {"text": _STRING, "files": _array(_STRING)}, ("files",)),
    "approval": (
        "the answer to an approval event",
        {
            "id": _STRING,
            "decision": {"enum": ["allow", "deny"]},
            "reason": _STRING,
            "command": _STRING,
            "scope": {"enum": [*ApprovalScope, None]},
            "duration": {"enum": ["run", "folder", "always"]},
        },
        ("reason", "command", "scope", "duration"),
    ),
}
"""The lines of input with their descriptions, fields, and the fields that may be missing."""


def build_event_schema() -> Json:
    """Build the JSON Schema of an event, with that of a line of input in `$defs`.

    Further fields and types of events may be added: a program ignores those that it does not know.
    """
    events = [_describe_line(name, text, fields, _OPTIONAL.get(name, ())) for name, (text, fields) in EVENTS.items()]
    inputs = [_describe_line(name, *line) for name, line in INPUTS.items()]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"An event of ask --events, version {PROTOCOL_VERSION}",
        "oneOf": events,
        "$defs": {"input": {"title": "A line that ask --input-events reads", "oneOf": inputs}},
    }


def _describe_line(name: str, description: str, fields: Mapping[str, Any], optional: tuple[str, ...]) -> Json:
    return {"description": description, **_object({"type": {"const": name}, **fields}, optional)}


def list_event_types() -> Iterator[tuple[str, str]]:
    """List the events, and then the lines of input, with their descriptions."""
    for name, (description, _) in EVENTS.items():
        yield name, description
    for name, (description, *_) in INPUTS.items():
        yield f"< {name}", description
