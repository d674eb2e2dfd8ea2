"""Sample answers: the content required of each kind, and the samples for Chat Completions and the Responses API."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from ask import DecisionAnswer, DecisionQuestion, FinishReason, RawEvent
from ask.parsing import parse_json
from ask.testing.conversation import iterate_fields, iterate_leaves, iterate_parts


@dataclass(frozen=True)
class ExpectedAnswer:
    """The expected content of a sample of one kind.

    Attributes:
        text: the answer's text, or the text before an error; None for any text.
        reasoning: the model's reasoning.
        calls: the tool calls, each as a name and arguments.
        finish_reason: why the answer ended; an answer with calls may also end with `FinishReason.STOP`.
        error: a part of the error's message; "" for no error.
        is_cut: whether the stream ends before its end marker; such a sample has no form without streaming.
        sources: the addresses of the answer's sources.
        server_calls: the calls of the service's own tools, each as a name and arguments; an answer may have none, if
            the service does not report them.
    """

    text: str | None
    reasoning: str = ""
    calls: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    finish_reason: FinishReason = FinishReason.STOP
    error: str = ""
    is_cut: bool = False
    sources: tuple[str, ...] = ()
    server_calls: tuple[tuple[str, Mapping[str, Any]], ...] = ()


ADD_2_3 = ("add", {"a": 2, "b": 3})
ADD_4_5 = ("add", {"a": 4, "b": 5})
EXPECTED = {
    "text": ExpectedAnswer("Hello, wörld!"),
    "reasoning": ExpectedAnswer("Hello, wörld!", reasoning="Let me think."),
    "call": ExpectedAnswer("", calls=(ADD_2_3,), finish_reason=FinishReason.TOOL_CALLS),
    "parallel": ExpectedAnswer("", calls=(ADD_2_3, ADD_4_5), finish_reason=FinishReason.TOOL_CALLS),
    "text_and_call": ExpectedAnswer("Hello, wörld!", calls=(ADD_2_3,), finish_reason=FinishReason.TOOL_CALLS),
    "reasoning_and_call": ExpectedAnswer(
        "", reasoning="Let me think.", calls=(ADD_2_3,), finish_reason=FinishReason.TOOL_CALLS
    ),
    "length": ExpectedAnswer("Hello, w", finish_reason=FinishReason.LENGTH),
    "filter": ExpectedAnswer(None, finish_reason=FinishReason.CONTENT_FILTER),
    "error": ExpectedAnswer("Hello, w", error="overloaded"),
    "cut": ExpectedAnswer("Hello, w", is_cut=True),
    "sources": ExpectedAnswer(
        "Hello, wörld!",
        sources=("https://example.com/hello",),
        server_calls=(("web_search", {"query": "hello"}),),
    ),
}
"""What the sample of each kind must contain. The usage in the sample "text" is 12 input and 7 output tokens.

If the service counts tokens read from its cache, or written to it, they are among the 12. The sample "sources" is only
for services with tools of their own: see `Provider.provider_server_tools`.
"""
CALL_KINDS = {kind for kind, expected in EXPECTED.items() if expected.calls}
SOURCE_KINDS = {kind for kind, expected in EXPECTED.items() if expected.sources}
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


def make_chat_response(expected: ExpectedAnswer, *, thinks_in_content: bool = False) -> dict[str, Any]:
    """Return a Chat Completions response with the expected content."""
    message: dict[str, Any] = {"role": "assistant", "content": expected.text or None}
    if expected.reasoning and thinks_in_content:
        message["content"] = [_make_thinking_part(expected.reasoning)]
        message["content"] += [{"type": "text", "text": expected.text}] if expected.text else []
    elif expected.reasoning:
        message["reasoning_content"] = expected.reasoning
    if expected.calls:
        message["tool_calls"] = [
            {"id": f"call_{i}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            for i, (name, arguments) in enumerate(expected.calls)
        ]
    if expected.sources:
        message["annotations"] = [_make_annotation(url, nested=True) for url in expected.sources]
        message["reasoning_details"] = [
            {"type": "reasoning.server_tool_call", "tool_name": name, "arguments": json.dumps(arguments), "result": "1"}
            for name, arguments in expected.server_calls
        ]
    choice = {"index": 0, "message": message, "finish_reason": FINISH_REASONS.get(expected.finish_reason, "stop")}
    return {"id": "1", "model": "alpha/one", "choices": [choice], "usage": USAGE}


def _make_annotation(url: str, *, nested: bool) -> dict[str, Any]:
    """Return the annotation that names a source of the first five characters."""
    fields = {"url": url, "title": "Hello", "start_index": 0, "end_index": 5}
    return {"type": "url_citation"} | ({"url_citation": fields} if nested else fields)


def _make_thinking_part(text: str) -> dict[str, Any]:
    """Return a part of the content with thinking, as Mistral sends it."""
    return {"type": "thinking", "thinking": [{"type": "text", "text": text}]}


def make_chat_stream(response: Mapping[str, Any], *, is_cut: bool = False) -> list[RawEvent]:
    """Return the Chat Completions stream of a response, without the end if it is cut off."""
    (choice,) = response["choices"]
    message = choice["message"]
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    for name in ("reasoning_content", "content"):
        value = message.get(name) or ""
        if isinstance(value, list):
            thinking, *value = value
            text = thinking["thinking"][0]["text"]
            deltas += [{name: [_make_thinking_part(half)]} for half in (text[:7], text[7:])]
            value = value[0]["text"] if value else ""
        deltas += [{name: half} for half in (value[:7], value[7:]) if half]
    deltas += [{name: message[name]} for name in ("reasoning_details", "annotations") if name in message]
    for i, call in enumerate(message.get("tool_calls", ())):
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        deltas.append({"tool_calls": [call | {"index": i, "function": {"name": name, "arguments": arguments[:9]}}]})
        deltas.append({"tool_calls": [{"index": i, "function": {"arguments": arguments[9:]}}]})
    chunks: list[dict[str, Any]] = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    if not is_cut:
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]})
        chunks.append({"choices": [], "usage": response["usage"]})
    return [RawEvent(None, json.dumps({"id": "1", "model": "alpha/one"} | chunk)) for chunk in chunks]


Samples = tuple[dict[str, list[RawEvent]], dict[str, dict[str, Any]]]
"""Streamed and unstreamed samples."""


@cache
def make_chat_samples(*, thinks_in_content: bool = False) -> Samples:
    """Return the samples of a service, whose reasoning is in a field of its own or in the content."""
    responses = {
        kind: make_chat_response(expected, thinks_in_content=thinks_in_content) for kind, expected in EXPECTED.items()
    }
    streams = {
        kind: make_chat_stream(response, is_cut=kind in ("cut", "error")) for kind, response in responses.items()
    }
    streams["error"].append(RawEvent(None, json.dumps(OVERLOADED_ERROR)))
    del responses["cut"]
    return streams, responses | {"error": OVERLOADED_ERROR}


CHAT_COMPLETIONS_SAMPLES = make_chat_samples()[0]
"""The samples of `samples` for the Chat Completions API."""
CHAT_COMPLETIONS_UNSTREAMED = make_chat_samples()[1]
"""The samples of `unstreamed_samples` for the Chat Completions API."""


# Responses API

RESPONSES_USAGE = {
    "input_tokens": 12,
    "input_tokens_details": {"cached_tokens": 4},
    "output_tokens": 7,
    "output_tokens_details": {"reasoning_tokens": 2},
    "total_tokens": 19,
}
RESPONSES_ERROR = {"message": "The model is overloaded", "code": "server_error"}


def make_output(expected: ExpectedAnswer) -> list[dict[str, Any]]:
    """Return the items of a response with the expected content; its reasoning is always encrypted, too."""
    items: list[dict[str, Any]] = []
    if expected.reasoning or expected.calls:
        summary = [{"type": "summary_text", "text": expected.reasoning}] if expected.reasoning else []
        items.append({"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "c2VjcmV0"})
    items += [
        {
            "type": f"{name}_call",
            "id": f"ws_{i}",
            "status": "completed",
            "action": {"type": "search", **arguments},
        }
        for i, (name, arguments) in enumerate(expected.server_calls, 1)
    ]
    text = expected.text
    if text != "":
        part: dict[str, Any] = {"type": "refusal", "refusal": "No."}
        if text is not None:
            part = {"type": "output_text", "text": text}
        if expected.sources:
            part["annotations"] = [_make_annotation(url, nested=False) for url in expected.sources]
        items.append({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]})
    for i, (name, arguments) in enumerate(expected.calls, 1):
        call = {"type": "function_call", "id": f"fc_{i}", "call_id": f"call_{i}", "status": "completed", "name": name}
        items.append(call | {"arguments": json.dumps(arguments)})
    return items


def make_responses_answer(expected: ExpectedAnswer, status: str = "completed", **fields: Any) -> dict[str, Any]:
    """Return a response without streaming."""
    response: dict[str, Any] = {
        "id": "resp_1",
        "object": "response",
        "model": "alpha/one",
        "status": status,
        "error": None,
    }
    if expected.finish_reason is FinishReason.LENGTH:
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


RESPONSES_UNSTREAMED: dict[str, dict[str, Any]] = {
    kind: make_responses_answer(expected) for kind, expected in EXPECTED.items() if not expected.is_cut
} | {"error": {"error": RESPONSES_ERROR}}
"""The samples of `unstreamed_samples` for the Responses API."""
RESPONSES_SAMPLES: dict[str, list[RawEvent]] = {
    kind: make_responses_stream(make_responses_answer(expected), is_cut=expected.is_cut)
    for kind, expected in EXPECTED.items()
} | {"error": make_responses_stream(make_responses_answer(EXPECTED["error"], "failed", error=RESPONSES_ERROR))}
"""The samples of `samples` for the Responses API."""


# Searching samples


def find_second_call_ids(responses: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """Return the texts that may be the id of the second call in the sample "parallel"; none if calls have no ids.

    These are the texts that occur in the second call, except its arguments and signatures, and not in the first.
    """
    parts = iterate_parts(responses.get("parallel", {}))
    call: Any = next(
        (part for _, part in parts if has_arguments(part, ADD_4_5[1]) and not has_arguments(part, ADD_2_3[1])), {}
    )
    first_call = set(iterate_leaves(responses.get("call", {})))
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


DECISION_QUESTIONS = (
    DecisionQuestion("urgent", "predicate", (True, False), "a person waits"),
    DecisionQuestion("kind", "choice", ("bug", "order"), "what it is about"),
    DecisionQuestion("anger", "score", (1, 2, 3), "how angry the writer is"),
    DecisionQuestion("spam", "predicate", (True, False), "it is an advertisement"),
)
"""The questions that `decision_response` answers.

`urgent` and `spam` are predicates, `kind` is a choice between "bug" and "order", and `anger` a score from 1 to 3.
"""
EXPECTED_DECISIONS = (
    DecisionAnswer("urgent", False, 0.75, (0.25, 0.75)),
    DecisionAnswer("kind", "order", 0.875, (0.125, 0.875)),
    DecisionAnswer("anger", 2, 0.5, (0.25, 0.5, 0.25)),
)
"""The answers that `decision_response` must have.

`urgent` is true with a probability of 0.25; `kind` is "order" with 0.875 and "bug" with 0.125; the levels of `anger`
have 0.25, 0.5 and 0.25. `spam` is refused, or has no answer.
"""
