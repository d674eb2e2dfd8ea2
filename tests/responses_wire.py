"""Builds answers in the format of OpenAI's Responses API, and checks requests with the types of the `openai` SDK.

An item is an entry of a response's `output`; a response is a complete, non-streamed answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from ask import RawEvent
from tests import wire
from tests.model_server import Ending, Reply
from tests.wire import Json

MODEL = "gpt-test"
USAGE = {
    "input_tokens": 12,
    "input_tokens_details": {"cache_write_tokens": 0, "cached_tokens": 4},
    "output_tokens": 7,
    "output_tokens_details": {"reasoning_tokens": 5},
    "total_tokens": 19,
}


# Items


def message(text: str = "", *, refusal: str = "", **fields: Any) -> Json:
    parts: list[Json] = [{"type": "output_text", "text": text, "annotations": []}] if text or not refusal else []
    parts += [{"type": "refusal", "refusal": refusal}] if refusal else []
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": parts}
    return item | fields


def reasoning(*summary: str, encrypted: str | None = "c2ln", **fields: Any) -> Json:
    parts = [{"type": "summary_text", "text": text} for text in summary]
    item = {"type": "reasoning", "id": "rs_1", "summary": parts}
    return item | ({} if encrypted is None else {"encrypted_content": encrypted}) | fields


def call(name: str, arguments: Any, call_id: str = "call_1", **fields: Any) -> Json:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    item = {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "name": name, "arguments": text}
    return item | {"status": "completed"} | fields


# Responses and streams


def response(*output: Json, status: str = "completed", reason: str = "", error: Any = None, **fields: Any) -> Json:
    """Return a complete response; `reason` is why it is incomplete."""
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": status,
        "error": error,
        "incomplete_details": {"reason": reason} if reason else None,
        "instructions": None,
        "metadata": {},
        "model": MODEL,
        "output": list(output),
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": USAGE,
    } | fields


def events(whole: Json, *, pieces: int = 2) -> list[Json]:
    """Return the events that stream a response, with each text in so many deltas."""
    begun = whole | {"status": "in_progress", "output": [], "usage": None, "error": None, "incomplete_details": None}
    made: list[Json] = [{"type": "response.created", "response": begun}]
    for index, item in enumerate(whole["output"]):
        made += item_events(index, item, pieces)
    made.append({"type": f"response.{whole['status']}", "response": whole})
    return [event | {"sequence_number": number} for number, event in enumerate(made)]


def item_events(index: int, item: Json, pieces: int) -> Iterator[Json]:
    place = {"output_index": index, "item_id": item.get("id", "")}
    empty = {
        name: type(value)() if name in ("content", "summary", "arguments") else value for name, value in item.items()
    }
    empty |= {"status": "in_progress"} if "status" in item else {}
    yield {"type": "response.output_item.added", "output_index": index, "item": empty}
    if "arguments" in item:
        for piece in split(item["arguments"], pieces):
            yield place | {"type": f"response.{item['type']}_arguments.delta", "delta": piece}
    for number, part in enumerate(item.get("summary", [])):
        for piece in split(part["text"], pieces):
            kind = "response.reasoning_summary_text.delta"
            yield place | {"type": kind, "summary_index": number, "delta": piece}
    for number, part in enumerate(item.get("content", [])):
        field = "refusal" if part["type"] == "refusal" else "text"
        for piece in split(part[field], pieces):
            kind = f"response.{part['type']}.delta"
            more: Json = {"logprobs": []} if field == "text" and part["type"] == "output_text" else {}
            yield place | more | {"type": kind, "content_index": number, "delta": piece}
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def split(text: str, pieces: int) -> list[str]:
    """Split a text into so many pieces, fewer if it is short."""
    size = max(1, -(-len(text) // pieces))
    return [text[start : start + size] for start in range(0, len(text), size)]


def error(message: str = "it failed", code: str = "server_error") -> Json:
    return {"type": "error", "code": code, "message": message, "param": None, "sequence_number": 9}


def to_server_event(event: Json) -> RawEvent:
    return RawEvent(event["type"], json.dumps(event, ensure_ascii=False))


# Replies


def streams(*parts: Json | bytes | float | Ending) -> Reply:
    """Return a streamed reply that sends each event separately, with its type as name."""
    steps = [
        f"event: {part['type']}\ndata: {json.dumps(part, ensure_ascii=False)}\n\n".encode()
        if isinstance(part, dict)
        else part
        for part in parts
    ]
    return Reply(steps, content_type="text/event-stream", responses_api=True)


def replies(whole: Json, *, stream: bool = True) -> Reply:
    """Return a reply with a response, streamed or not."""
    return streams(*events(whole)) if stream else whole_reply(whole)


def says(text: str, *, stream: bool = True) -> Reply:
    return replies(response(message(text)), stream=stream)


def whole_reply(body: Json, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
    """Return a reply with a body that is not streamed."""
    return Reply((json.dumps(body, ensure_ascii=False).encode(),), status, headers=headers or {}, responses_api=True)


def fails(status: int, message: str = "it failed", **fields: Any) -> Reply:
    return whole_reply({"error": {"message": message, "type": "error", "param": None, "code": None} | fields}, status)


# Checks by the SDK's types


def read_by_openai(body: Mapping[str, Any]) -> Any:
    """Parse a request body with the SDK's types; the result equals the body if it matches them."""
    return wire.written_out(request_type().validate_python(body))


def check_request(body: Mapping[str, Any]) -> None:
    assert read_by_openai(body) == body


def check_events(stream: Sequence[Json]) -> None:
    """Check that events match the SDK's types."""
    for event in stream:
        event_type().validate_python(event)


@cache
def request_type() -> Any:
    from openai.types.responses.response_create_params import ResponseCreateParams
    from pydantic import TypeAdapter

    return TypeAdapter(ResponseCreateParams)


@cache
def event_type() -> Any:
    from openai.types.responses import ResponseStreamEvent
    from pydantic import TypeAdapter

    return TypeAdapter(ResponseStreamEvent)
