"""Invalid messages that clients send to `ask mcp serve`: they are repaired, or answered with an error."""

from __future__ import annotations

import json
from contextlib import suppress

import mcp_types as types
from anyio.abc import ObjectSendStream
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from ask.config.strict_json import JSON_ERRORS
from ask.parsing import read_dict
from ask.text import describe_parse_error

REQUEST_METHODS = ("initialize", "ping", "tools/")
"""The beginnings of the methods of requests; those of all notifications begin with "notifications/"."""


async def forward_messages(
    source: ReadStream[SessionMessage | Exception],
    target: ObjectSendStream[SessionMessage | Exception],
    replies: WriteStream[SessionMessage],
) -> None:
    """Forward messages; repair invalid ones, which the SDK would leave unanswered, or answer them with an error."""
    async with target:
        async for item in source:
            if isinstance(item, SessionMessage) and _is_request_with_invalid_id(item.message):
                error = _create_error(types.INVALID_REQUEST, "the id is neither a string nor an integer", None)
                await replies.send(SessionMessage(error))
            elif isinstance(item, SessionMessage):
                await target.send(item)
            elif isinstance(item, ValidationError) and (repaired := _repair(item)):
                message, is_reply = repaired
                await (replies if is_reply else target).send(SessionMessage(message))


def _is_request_with_invalid_id(message: types.JSONRPCMessage) -> bool:
    """Check for a request whose id is null or a fraction, which the SDK takes for a notification and ignores."""
    return isinstance(message, types.JSONRPCNotification) and message.method.startswith(REQUEST_METHODS)


def _repair(error: ValidationError) -> tuple[types.JSONRPCMessage, bool] | None:
    """Return the message, or an error, and whether that is for the client; None for an empty line.

    A string that was cut within a character has half of a surrogate pair, which the SDK does not accept. An invalid
    response becomes an error for the server's request, which would wait for it.
    """
    details = error.errors()
    value = next((each["input"] for each in details if isinstance(each["input"], dict) and "id" in each["input"]), {})
    if details[0]["type"] == "json_invalid":
        line = str(details[0]["input"])
        if not line.strip():
            return None
        try:
            value = json.loads(line)
            text = json.dumps(value, ensure_ascii=False).encode(errors="replace")
        except JSON_ERRORS as json_error:
            return _create_error(types.PARSE_ERROR, f"invalid JSON: {describe_parse_error(json_error)}", None), True
        with suppress(ValidationError):
            return types.jsonrpc_message_adapter.validate_json(text, by_name=False), False
    fields = read_dict(value)
    message_id = fields.get("id")
    message_id = message_id if isinstance(message_id, int | str) else None
    is_reply = message_id is None or "method" in fields
    return _create_error(types.INVALID_REQUEST, "not a JSON-RPC message", message_id), is_reply


def _create_error(code: int, message: str, message_id: types.RequestId | None) -> types.JSONRPCError:
    return types.JSONRPCError(jsonrpc="2.0", id=message_id, error=types.ErrorData(code=code, message=message))
