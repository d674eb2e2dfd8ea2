"""Sample answers: the content required of each kind, and the samples for Chat Completions and the Responses API."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ask import FinishReason, RawEvent
from ask.parsing import parse_json
from ask.testing.conversation import iterate_fields, iterate_leaves, iterate_parts


@dataclass(frozen=True)
class Expected:
    """The expected content of a sample of one kind.

    Attributes:
        text: the answer's text, or the text before an error; None for any text.
        reasoning: the model's reasoning.
        calls: the tool calls, each as a name and arguments.
        finish: why the answer ended; an answer with calls may also end with `FinishReason.STOP`.
        error: a part of the error's message; "" for no error.
        cut: whether the stream ends before its end marker; such a sample has no form without streaming.
    """

    text: str | None
    reasoning: str = ""
    calls: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    finish: FinishReason = FinishReason.STOP
    error: str = ""
    cut: bool = False


ADD_2_3 = ("add", {"a": 2, "b": 3})
ADD_4_5 = ("add", {"a": 4, "b": 5})
EXPECTED = {
    "text": Expected("Hello, wörld!"),
    "reasoning": Expected("Hello, wörld!", reasoning="Let me think."),
    "call": Expected("", calls=(ADD_2_3,), finish=FinishReason.TOOL_CALLS),
    "parallel": Expected("", calls=(ADD_2_3, ADD_4_5), finish=FinishReason.TOOL_CALLS),
    "text_and_call": Expected("Hello, wörld!", calls=(ADD_2_3,), finish=FinishReason.TOOL_CALLS),
    "reasoning_and_call": Expected("", reasoning="Let me think.", calls=(ADD_2_3,), finish=FinishReason.TOOL_CALLS),
    "length": Expected("Hello, w", finish=FinishReason.LENGTH),
    "filter": Expected(None, finish=FinishReason.CONTENT_FILTER),
    "error": Expected("Hello, w", error="overloaded"),
    "cut": Expected("Hello, w", cut=True),
}
CALL_KINDS = {kind for kind, expected in EXPECTED.items() if expected.calls}
REASONING_KINDS = {kind for kind, expected in EXPECTED.items() if expected.reasoning}

STATE_KEYS = re.compile("signature|encrypted|redacted|opaque|seal|proof", re.IGNORECASE)
"""Names of fields for data that services need back verbatim."""


# Chat Completions

FINISH_REASONS = {
    FinishReason.TOOL_CALLS: "tool_calls",
    FinishReason.LENGTH: "length",
    FinishReason.CONTENT_FILTER: "content_filter",
}
OVERLOADED_ERROR = {"error": {"message": "The model is overloaded", "code": 503}}
USAGE = {"prompt_tokens": 12, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 4}}


def make_chat_response(expected: Expected) -> dict[str, Any]:
    """Return a Chat Completions response with the expected content."""
    message: dict[str, Any] = {"role": "assistant", "content": expected.text or None}
    if expected.reasoning:
        message["reasoning_content"] = expected.reasoning
    if expected.calls:
        message["tool_calls"] = [
            {"id": f"call_{i}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            for i, (name, arguments) in enumerate(expected.calls)
        ]
    choice = {"index": 0, "message": message, "finish_reason": FINISH_REASONS.get(expected.finish, "stop")}
    return {"id": "1", "model": "alpha/one", "choices": [choice], "usage": USAGE}


def make_chat_stream(response: Mapping[str, Any], *, is_cut: bool = False) -> list[RawEvent]:
    """Return the Chat Completions stream of a response, without the end if it is cut off."""
    (choice,) = response["choices"]
    message = choice["message"]
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    for name in ("reasoning_content", "content"):
        text = message.get(name) or ""
        deltas += [{name: half} for half in (text[:7], text[7:]) if half]
    for i, call in enumerate(message.get("tool_calls", ())):
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        deltas.append({"tool_calls": [call | {"index": i, "function": {"name": name, "arguments": arguments[:9]}}]})
        deltas.append({"tool_calls": [{"index": i, "function": {"arguments": arguments[9:]}}]})
    chunks: list[dict[str, Any]] = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    if not is_cut:
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]})
        chunks.append({"choices": [], "usage": response["usage"]})
    return [RawEvent(None, json.dumps({"id": "1", "model": "alpha/one"} | chunk)) for chunk in chunks]


CHAT_COMPLETIONS_WHOLE: dict[str, dict[str, Any]] = {
    kind: make_chat_response(expected) for kind, expected in EXPECTED.items() if not expected.cut
} | {"error": OVERLOADED_ERROR}
CHAT_COMPLETIONS_SAMPLES: dict[str, list[RawEvent]] = {
    kind: make_chat_stream(make_chat_response(expected), is_cut=kind in ("cut", "error"))
    for kind, expected in EXPECTED.items()
}
CHAT_COMPLETIONS_SAMPLES["error"].append(RawEvent(None, json.dumps(OVERLOADED_ERROR)))


# Responses API

RESPONSES_USAGE = {
    "input_tokens": 12,
    "input_tokens_details": {"cached_tokens": 4},
    "output_tokens": 7,
    "output_tokens_details": {"reasoning_tokens": 2},
    "total_tokens": 19,
}
RESPONSES_ERROR = {"message": "The model is overloaded", "code": "server_error"}


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


def make_responses_answer(expected: Expected, status: str = "completed", **fields: Any) -> dict[str, Any]:
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
    return response | {"output": make_output(expected), "usage": RESPONSES_USAGE} | fields


def make_responses_stream(response: dict[str, Any], *, is_cut: bool = False) -> list[RawEvent]:
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


RESPONSES_WHOLE: dict[str, dict[str, Any]] = {
    kind: make_responses_answer(expected) for kind, expected in EXPECTED.items() if not expected.cut
} | {"error": {"error": RESPONSES_ERROR}}
RESPONSES_SAMPLES: dict[str, list[RawEvent]] = {
    kind: make_responses_stream(make_responses_answer(expected), is_cut=expected.cut)
    for kind, expected in EXPECTED.items()
} | {"error": make_responses_stream(make_responses_answer(EXPECTED["error"], "failed", error=RESPONSES_ERROR))}


# Searching samples


def find_second_call_ids(whole: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """Return the texts that may be the id of the second call in the sample "parallel"; none if calls have no ids.

    These are the texts that occur in the second call, except its arguments and signatures, and not in the first.
    """
    parts = iterate_parts(whole.get("parallel", {}))
    call: Any = next(
        (part for _, part in parts if has_arguments(part, ADD_4_5[1]) and not has_arguments(part, ADD_2_3[1])), {}
    )
    first_call = set(iterate_leaves(whole.get("call", {})))
    texts = {leaf for key, leaf in iterate_fields(call) if isinstance(leaf, str) and not STATE_KEYS.search(key)}
    return {text for text in texts - first_call if parse_json(text) != ADD_4_5[1]}


def has_arguments(value: Any, arguments: Mapping[str, Any]) -> bool:
    """Check whether a JSON value contains a call's arguments, as an object or as JSON text."""
    return sends_object(value, arguments) or sends_text(value, arguments)


def sends_object(value: Any, arguments: Mapping[str, Any]) -> bool:
    return any(part == arguments for _, part in iterate_parts(value))


def sends_text(value: Any, arguments: Mapping[str, Any]) -> bool:
    return any(isinstance(leaf, str) and parse_json(leaf) == arguments for leaf in iterate_leaves(value))


def find_state_texts(response: Mapping[str, Any]) -> set[str]:
    """Return the signatures and encrypted parts in a response, which services need back."""
    return {leaf for key, leaf in iterate_fields(response) if isinstance(leaf, str) and leaf and STATE_KEYS.search(key)}
