"""Sample answers for the Responses API."""

from __future__ import annotations

import json
from typing import Any

from ask import FinishReason, RawEvent
from ask.testing.samples import EXPECTED, Expected

USAGE = {
    "input_tokens": 12,
    "input_tokens_details": {"cached_tokens": 4},
    "output_tokens": 7,
    "output_tokens_details": {"reasoning_tokens": 2},
    "total_tokens": 19,
}
OVERLOADED_ERROR = {"message": "The model is overloaded", "code": "server_error"}


def make_output(expected: Expected) -> list[dict[str, Any]]:
    """Return the items of a response with the expected content; its reasoning is always encrypted, too."""
    items: list[dict[str, Any]] = []
    if expected.reasoning or expected.calls:
        summary = [{"type": "summary_text", "text": expected.reasoning}] if expected.reasoning else []
        items.append({"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "c2VjcmV0"})
    text = expected.text
    if text != "":
        part = {"type": "refusal", "refusal": "No."} if text is None else {"type": "output_text", "text": text}
        items.append({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]})
    for i, (name, arguments) in enumerate(expected.calls, 1):
        call = {"type": "function_call", "id": f"fc_{i}", "call_id": f"call_{i}", "status": "completed", "name": name}
        items.append(call | {"arguments": json.dumps(arguments)})
    return items


def make_response(expected: Expected, status: str = "completed", **fields: Any) -> dict[str, Any]:
    """Return a response without streaming."""
    response: dict[str, Any] = {
        "id": "resp_1",
        "object": "response",
        "model": "alpha/one",
        "status": status,
        "error": None,
    }
    if expected.finish is FinishReason.LENGTH:
        response |= {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    return response | {"output": make_output(expected), "usage": USAGE} | fields


def make_stream(response: dict[str, Any], *, is_cut: bool = False) -> list[RawEvent]:
    """Return the events that stream a response, without the final one if it is cut off."""
    events: list[dict[str, Any]] = [{"type": "response.created", "response": response | {"output": []}}]
    for index, item in enumerate(response["output"]):
        place = {"output_index": index, "item_id": item["id"]}
        empty = item | {name: type(item[name])() for name in ("content", "summary", "arguments") if name in item}
        events.append({"type": "response.output_item.added", "output_index": index, "item": empty})
        for kind, text in list_texts(item):
            events += [place | {"type": f"response.{kind}.delta", "delta": half} for half in (text[:5], text[5:])]
        if not is_cut:
            events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    if not is_cut:
        events.append({"type": f"response.{response['status']}", "response": response})
    return [RawEvent(event["type"], json.dumps(event)) for event in events]


def list_texts(item: dict[str, Any]) -> list[tuple[str, str]]:
    """List the texts of an item, each with the name of its delta event."""
    summary = [("reasoning_summary_text", part["text"]) for part in item.get("summary", ())]
    content = [(part["type"], part.get("text") or part["refusal"]) for part in item.get("content", ())]
    arguments = [("function_call_arguments", item["arguments"])] if "arguments" in item else []
    return summary + content + arguments


_RESPONSES = {kind: make_response(expected) for kind, expected in EXPECTED.items()}
RESPONSES_WHOLE: dict[str, dict[str, Any]] = {kind: _RESPONSES[kind] for kind in _RESPONSES if kind != "cut"} | {
    "error": {"error": OVERLOADED_ERROR}
}
RESPONSES_SAMPLES: dict[str, list[RawEvent]] = {
    kind: make_stream(response, is_cut=kind == "cut") for kind, response in _RESPONSES.items()
} | {"error": make_stream(make_response(EXPECTED["error"], "failed", error=OVERLOADED_ERROR))}
