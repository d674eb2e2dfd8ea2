"""Responses in the format of Anthropic's Messages API, and a check of our requests with its SDK's types.

An event is a dict with its `type`; a message is a complete, non-streamed response.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from ask import RawEvent
from tests import wire
from tests.model_server import Reply
from tests.wire import Json

MODEL = "claude-test-1"
USAGE = {"input_tokens": 3, "cache_creation_input_tokens": 5, "cache_read_input_tokens": 4, "output_tokens": 7}
"""4 of the 12 input tokens came from the cache."""
PING = {"type": "ping"}


# Events


def begins(**usage: int) -> list[Json]:
    """Return the event that starts a stream, with the input usage."""
    read = {name: USAGE[name] for name in USAGE if name != "output_tokens"} | {"output_tokens": 1}
    message = message_of(reason=None) | {"usage": read | usage}
    return [{"type": "message_start", "message": message}]


def block(index: int, start: Json, *deltas: Json) -> list[Json]:
    """Return the events of one content block."""
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def text(index: int, *pieces: str) -> list[Json]:
    return block(index, {"type": "text", "text": ""}, *({"type": "text_delta", "text": piece} for piece in pieces))


def thinking(index: int, *pieces: str, signature: str = "c2ln") -> list[Json]:
    deltas: list[Json] = [{"type": "thinking_delta", "thinking": piece} for piece in pieces]
    start = {"type": "thinking", "thinking": "", "signature": ""}
    return block(index, start, *deltas, {"type": "signature_delta", "signature": signature})


def call(index: int, name: str, *pieces: str, id: str = "") -> list[Json]:  # noqa: A002 - the wire's own name
    """Return the events of a tool call; `pieces` are the fragments of its arguments."""
    start = {"type": "tool_use", "id": id or f"toolu_{index}", "name": name, "input": {}}
    return block(index, start, *({"type": "input_json_delta", "partial_json": piece} for piece in pieces))


def ends(reason: str = "end_turn", output_tokens: int = 7, **usage: Any) -> list[Json]:
    delta = {"stop_reason": reason, "stop_sequence": None}
    counted = {"output_tokens": output_tokens} | usage
    return [{"type": "message_delta", "delta": delta, "usage": counted}, {"type": "message_stop"}]


def error(kind: str, message: str) -> Json:
    """Return an error, as an event or as the body of an HTTP error."""
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


# Whole answers


def message_of(*content: Json, reason: str | None = "end_turn") -> Json:
    """Build a complete message."""
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": list(content),
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": USAGE,
    }


# Streams as events, and as bytes


def events(*parts: Iterable[Json]) -> list[RawEvent]:
    return [RawEvent(event["type"], json.dumps(event)) for part in parts for event in part]


def streams(*parts: Iterable[Json]) -> Reply:
    """Build a streamed reply that sends each event separately."""
    steps = [f"event: {event.event}\ndata: {event.data}\n\n".encode() for event in events(*parts)]
    return Reply(steps, content_type="text/event-stream; charset=utf-8")


def says(content: str) -> Reply:
    return streams(begins(), text(0, content), ends())


# The judge


def read_by_anthropic(body: Mapping[str, Any]) -> Any:
    """Parse a request body with the SDK's types, `thinking` with those of the beta API; known keys are unchanged."""
    request_type, thinking_type = anthropic_types()
    read = wire.written_out(request_type.validate_python(body))
    if "thinking" in body:
        read["thinking"] = wire.written_out(thinking_type.validate_python(body["thinking"]))
    return read


@cache
def anthropic_types() -> tuple[Any, Any]:
    """Return the types of a request body and of its `thinking`; slow to build."""
    from anthropic.types.beta.beta_thinking_config_param import BetaThinkingConfigParam
    from anthropic.types.message_create_params import MessageCreateParams
    from pydantic import TypeAdapter

    return TypeAdapter(MessageCreateParams), TypeAdapter(BetaThinkingConfigParam)
