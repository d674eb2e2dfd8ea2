"""Sample answers: what one of each kind must say in any wire, and those of the Chat Completions wire."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ask import Finish, ServerEvent


@dataclass(frozen=True)
class Expected:
    """What a sample of one kind holds.

    Attributes:
        text: the answer's text; None for any.
        reasoning: the model's reasoning.
        calls: the tool calls, each a name and its arguments.
        finish: why the answer ended; one with calls may also end with STOP.
        error: a word in the error's message; the text then is what a stream said before it.
        cut: whether the stream stops short of its end marker; such a kind has no whole form.
    """

    text: str | None
    reasoning: str = ""
    calls: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    finish: Finish = Finish.STOP
    error: str = ""
    cut: bool = False


ADD_2_3 = ("add", {"a": 2, "b": 3})
ADD_4_5 = ("add", {"a": 4, "b": 5})
EXPECTED = {
    "text": Expected("Hello, wörld!"),
    "reasoning": Expected("Hello, wörld!", reasoning="Let me think."),
    "call": Expected("", calls=(ADD_2_3,), finish=Finish.TOOL_CALLS),
    "parallel": Expected("", calls=(ADD_2_3, ADD_4_5), finish=Finish.TOOL_CALLS),
    "text_and_call": Expected("Hello, wörld!", calls=(ADD_2_3,), finish=Finish.TOOL_CALLS),
    "length": Expected("Hello, w", finish=Finish.LENGTH),
    "filter": Expected(None, finish=Finish.FILTER),
    "error": Expected("Hello, w", error="overloaded"),
    "cut": Expected("Hello, w", cut=True),
}
CALL_KINDS = {kind for kind, expected in EXPECTED.items() if expected.calls}


def chat_stream(*deltas: dict[str, Any], finish: str | None = "stop") -> list[ServerEvent]:
    """A stream in the Chat Completions wire; without a `finish`, cut after the last delta."""
    chunks: list[dict[str, Any]] = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    if finish:
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
        chunks.append({"choices": [], "usage": USAGE})
    events = [ServerEvent(None, json.dumps({"id": "1", "model": "alpha/one"} | chunk)) for chunk in chunks]
    return [*events, ServerEvent(None, "[DONE]")] if finish else events


def chat_whole(finish: str, **message: Any) -> dict[str, Any]:
    """A whole answer in the Chat Completions wire."""
    choice = {"index": 0, "message": {"role": "assistant", "content": None} | message, "finish_reason": finish}
    return {"id": "1", "model": "alpha/one", "choices": [choice], "usage": USAGE}


def chat_call(index: int, arguments: str, *, begins: bool = True) -> dict[str, Any]:
    """A call of "add", or a later fragment of one."""
    call: dict[str, Any] = {"index": index, "function": {"arguments": arguments}}
    if begins:
        call |= {"id": f"call_{index}", "type": "function", "function": {"name": "add", "arguments": arguments}}
    return call


USAGE = {"prompt_tokens": 12, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 4}}
HELLO = ({"content": "Hello, "}, {"content": "wörld!"})
FIRST_CALL = ({"tool_calls": [chat_call(0, "")]}, {"tool_calls": [chat_call(0, '{"a": 2, "b": 3}', begins=False)]})
SECOND_CALL = ({"tool_calls": [chat_call(1, '{"a": 4,')]}, {"tool_calls": [chat_call(1, ' "b": 5}', begins=False)]})
OVERLOADED = {"error": {"message": "The model is overloaded", "code": 503}}

CHAT_COMPLETIONS_SAMPLES: dict[str, list[ServerEvent]] = {
    "text": chat_stream({"role": "assistant", "content": ""}, *HELLO),
    "reasoning": chat_stream({"reasoning_content": "Let me "}, {"reasoning_content": "think."}, *HELLO),
    "call": chat_stream(*FIRST_CALL, finish="tool_calls"),
    "parallel": chat_stream(*FIRST_CALL, *SECOND_CALL, finish="tool_calls"),
    "text_and_call": chat_stream(*HELLO, *FIRST_CALL, finish="tool_calls"),
    "length": chat_stream({"content": "Hello, w"}, finish="length"),
    "filter": chat_stream({"content": "Hello, w"}, finish="content_filter"),
    "error": [*chat_stream({"content": "Hello, w"}, finish=None), ServerEvent(None, json.dumps(OVERLOADED))],
    "cut": chat_stream({"content": "Hello, w"}, finish=None),
}
CHAT_COMPLETIONS_WHOLE: dict[str, dict[str, Any]] = {
    "text": chat_whole("stop", content="Hello, wörld!"),
    "reasoning": chat_whole("stop", content="Hello, wörld!", reasoning_content="Let me think."),
    "call": chat_whole("tool_calls", tool_calls=[chat_call(0, '{"a": 2, "b": 3}')]),
    "parallel": chat_whole(
        "tool_calls", tool_calls=[chat_call(0, '{"a": 2, "b": 3}'), chat_call(1, '{"a": 4, "b": 5}')]
    ),
    "text_and_call": chat_whole("tool_calls", content="Hello, wörld!", tool_calls=[chat_call(0, '{"a": 2, "b": 3}')]),
    "length": chat_whole("length", content="Hello, w"),
    "filter": chat_whole("content_filter", content="Hello, w"),
    "error": OVERLOADED,
}
