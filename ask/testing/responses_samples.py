"""Sample answers for the Responses API."""

from __future__ import annotations

import json
from typing import Any

from ask import RawEvent

USAGE = {
    "input_tokens": 12,
    "input_tokens_details": {"cached_tokens": 4},
    "output_tokens": 7,
    "output_tokens_details": {"reasoning_tokens": 2},
    "total_tokens": 19,
}
SUMMARY = {"type": "summary_text", "text": "Let me think."}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [SUMMARY], "encrypted_content": "c2VjcmV0"}
OVERLOADED_ERROR = {"message": "The model is overloaded", "code": "server_error"}


def make_message(text: str, part_type: str = "output_text") -> dict[str, Any]:
    """Return a message item."""
    part = {"type": "refusal", "refusal": text} if part_type == "refusal" else {"type": part_type, "text": text}
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}


def make_call(number: int, arguments: str) -> dict[str, Any]:
    """Return a call of "add"."""
    item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": "add"}
    return item | {"arguments": arguments, "status": "completed"}


def make_response(*items: dict[str, Any], status: str = "completed", **fields: Any) -> dict[str, Any]:
    """Return a response without streaming."""
    response = {"id": "resp_1", "object": "response", "model": "alpha/one", "status": status, "error": None}
    return response | {"output": list(items), "usage": USAGE} | fields


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


HELLO = make_message("Hello, wörld!")
HELLO_W = make_message("Hello, w")
FIRST_CALL = make_call(1, '{"a": 2, "b": 3}')
SECOND_CALL = make_call(2, '{"a": 4, "b": 5}')

RESPONSES_WHOLE: dict[str, dict[str, Any]] = {
    "text": make_response(HELLO),
    "reasoning": make_response(REASONING, HELLO),
    "call": make_response(REASONING | {"summary": []}, FIRST_CALL),
    "parallel": make_response(FIRST_CALL, SECOND_CALL),
    "text_and_call": make_response(HELLO, FIRST_CALL),
    "reasoning_and_call": make_response(REASONING, FIRST_CALL),
    "length": make_response(HELLO_W, status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
    "filter": make_response(make_message("I cannot help with that.", "refusal")),
    "error": {"error": OVERLOADED_ERROR},
}
RESPONSES_SAMPLES: dict[str, list[RawEvent]] = {
    kind: make_stream(response) for kind, response in RESPONSES_WHOLE.items() if kind != "error"
} | {
    "error": make_stream(make_response(HELLO_W, status="failed", error=OVERLOADED_ERROR)),
    "cut": make_stream(make_response(HELLO_W), is_cut=True),
}
