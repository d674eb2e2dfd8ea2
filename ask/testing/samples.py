"""Sample answers: the content required of each kind, and the samples for the Chat Completions API."""

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


def make_chat_stream(*deltas: dict[str, Any], finish: str | None = "stop") -> list[RawEvent]:
    """Return a Chat Completions stream, cut off after the last delta without `finish`."""
    chunks: list[dict[str, Any]] = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    if finish:
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
        chunks.append({"choices": [], "usage": USAGE})
    return [RawEvent(None, json.dumps({"id": "1", "model": "alpha/one"} | chunk)) for chunk in chunks]


def make_chat_response(finish: str, **message: Any) -> dict[str, Any]:
    """Return a Chat Completions response without streaming."""
    choice = {"index": 0, "message": {"role": "assistant", "content": None} | message, "finish_reason": finish}
    return {"id": "1", "model": "alpha/one", "choices": [choice], "usage": USAGE}


def make_call_fragment(index: int, arguments: str, *, is_first: bool = True) -> dict[str, Any]:
    """Return the first or a later fragment of a call of "add"."""
    fragment: dict[str, Any] = {"index": index, "function": {"arguments": arguments}}
    if is_first:
        fragment |= {"id": f"call_{index}", "type": "function", "function": {"name": "add", "arguments": arguments}}
    return fragment


USAGE = {"prompt_tokens": 12, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 4}}
HELLO_DELTAS = ({"content": "Hello, "}, {"content": "wörld!"})
THOUGHT_DELTAS = ({"reasoning_content": "Let me "}, {"reasoning_content": "think."})
FIRST_CALL_DELTAS = (
    {"tool_calls": [make_call_fragment(0, "")]},
    {"tool_calls": [make_call_fragment(0, '{"a": 2, "b": 3}', is_first=False)]},
)
SECOND_CALL_DELTAS = (
    {"tool_calls": [make_call_fragment(1, '{"a": 4,')]},
    {"tool_calls": [make_call_fragment(1, ' "b": 5}', is_first=False)]},
)
OVERLOADED_ERROR = {"error": {"message": "The model is overloaded", "code": 503}}

CHAT_COMPLETIONS_SAMPLES: dict[str, list[RawEvent]] = {
    "text": make_chat_stream({"role": "assistant", "content": ""}, *HELLO_DELTAS),
    "reasoning": make_chat_stream(*THOUGHT_DELTAS, *HELLO_DELTAS),
    "call": make_chat_stream(*FIRST_CALL_DELTAS, finish="tool_calls"),
    "parallel": make_chat_stream(*FIRST_CALL_DELTAS, *SECOND_CALL_DELTAS, finish="tool_calls"),
    "text_and_call": make_chat_stream(*HELLO_DELTAS, *FIRST_CALL_DELTAS, finish="tool_calls"),
    "reasoning_and_call": make_chat_stream(*THOUGHT_DELTAS, *FIRST_CALL_DELTAS, finish="tool_calls"),
    "length": make_chat_stream({"content": "Hello, w"}, finish="length"),
    "filter": make_chat_stream({"content": "Hello, w"}, finish="content_filter"),
    "error": [*make_chat_stream({"content": "Hello, w"}, finish=None), RawEvent(None, json.dumps(OVERLOADED_ERROR))],
    "cut": make_chat_stream({"content": "Hello, w"}, finish=None),
}
CHAT_COMPLETIONS_WHOLE: dict[str, dict[str, Any]] = {
    "text": make_chat_response("stop", content="Hello, wörld!"),
    "reasoning": make_chat_response("stop", content="Hello, wörld!", reasoning_content="Let me think."),
    "call": make_chat_response("tool_calls", tool_calls=[make_call_fragment(0, '{"a": 2, "b": 3}')]),
    "parallel": make_chat_response(
        "tool_calls", tool_calls=[make_call_fragment(0, '{"a": 2, "b": 3}'), make_call_fragment(1, '{"a": 4, "b": 5}')]
    ),
    "text_and_call": make_chat_response(
        "tool_calls", content="Hello, wörld!", tool_calls=[make_call_fragment(0, '{"a": 2, "b": 3}')]
    ),
    "reasoning_and_call": make_chat_response(
        "tool_calls",
        reasoning_content="Let me think.",
        tool_calls=[make_call_fragment(0, '{"a": 2, "b": 3}')],
    ),
    "length": make_chat_response("length", content="Hello, w"),
    "filter": make_chat_response("content_filter", content="Hello, w"),
    "error": OVERLOADED_ERROR,
}


def find_second_call_ids(whole: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """Return the texts that may be the id of the second call in the sample "parallel"; none if calls have no ids.

    These are the texts that occur in the second call, except its arguments and signatures, and not in the first.
    """
    parts = iterate_parts(whole.get("parallel", {}))
    call: Any = next(
        (part for part in parts if has_arguments(part, ADD_4_5[1]) and not has_arguments(part, ADD_2_3[1])), {}
    )
    first_call = set(iterate_leaves(whole.get("call", {})))
    texts = {leaf for key, leaf in iterate_fields(call) if isinstance(leaf, str) and not STATE_KEYS.search(key)}
    return {text for text in texts - first_call if parse_json(text) != ADD_4_5[1]}


def has_arguments(value: Any, arguments: Mapping[str, Any]) -> bool:
    """Check whether a JSON value contains a call's arguments, as an object or as JSON text."""
    return sends_object(value, arguments) or sends_text(value, arguments)


def sends_object(value: Any, arguments: Mapping[str, Any]) -> bool:
    return any(part == arguments for part in iterate_parts(value))


def sends_text(value: Any, arguments: Mapping[str, Any]) -> bool:
    return any(isinstance(leaf, str) and parse_json(leaf) == arguments for leaf in iterate_leaves(value))


def find_state_texts(response: Mapping[str, Any]) -> set[str]:
    """Return the signatures and encrypted parts in a response, which services need back."""
    return {leaf for key, leaf in iterate_fields(response) if isinstance(leaf, str) and leaf and STATE_KEYS.search(key)}
