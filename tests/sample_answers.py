"""Sample answers for each wire format: a provider, an answer with reasoning and calls, and plain text answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ask import ChatCompletions, Provider, Responses
from providers.anthropic import provider as anthropic
from providers.gemini import provider as gemini
from providers.ollama import provider as ollama
from tests import responses_wire, wire
from tests.model_server import Reply
from tests.providers import anthropic_wire, gemini_wire
from tests.wire import Json

CALLS: tuple[tuple[str, Json], ...] = (("add", {"a": 2, "b": 3}), ("add", {"a": 4, "b": [5, "ö"]}))
FIRST, SECOND = (json.dumps(arguments) for _, arguments in CALLS)


class SampleAnswers(NamedTuple):
    """The answers of a service.

    Attributes:
        provider: A provider of this wire format.
        stream: The events of an answer that reasons, says "Hello, wörld!" and makes all of `CALLS`.
        whole: The same answer, not streamed.
        says: Formats a text as a complete answer, and as the events that stream it.
    """

    provider: Provider
    stream: Sequence[Any]
    whole: Json
    says: Callable[[str], tuple[Json, Sequence[Any]]]

    def reply(self, text: str, *, whole: bool) -> Reply:
        """Return a reply that answers with a text."""
        body, events = self.says(text)
        return self.complete(body) if whole else self.streamed(events)

    def complete(self, body: Json) -> Reply:
        """Return a reply that is not streamed."""
        return replace(wire.whole_reply(body), responses_api=isinstance(self.provider, Responses))

    def streamed(self, events: Sequence[Any]) -> Reply:
        """Return a streamed reply; strings are sent unchanged, other events as JSON."""
        lines = self.provider.provider_info().stream_format == "ndjson"
        framed = [f"{data_of(event)}\n".encode() if lines else server_event(event) for event in events]
        content_type = "application/x-ndjson" if lines else "text/event-stream"
        return Reply([b"".join(framed)], content_type=content_type, responses_api=isinstance(self.provider, Responses))


def data_of(event: Any) -> str:
    return event if isinstance(event, str) else json.dumps(event)


def server_event(event: Any) -> bytes:
    """Format a server-sent event, with its `type` as event name if it has one."""
    kind = event.get("type") if isinstance(event, dict) else None
    name = f"event: {kind}\n" if isinstance(kind, str) and kind.replace(".", "_").isidentifier() else ""
    return f"{name}data: {data_of(event)}\n\n".encode()


def ollama_line(*, done: bool = False, **message: Any) -> Json:
    """Format a line of Ollama's stream, or its complete answer."""
    counts = {"done_reason": "stop", "prompt_eval_count": 12, "eval_count": 7} if done else {}
    return {"model": "m", "message": {"role": "assistant", "content": ""} | message, "done": done} | counts


OLLAMA_CALLS = [{"function": {"name": name, "arguments": arguments}} for name, arguments in CALLS]
ANTHROPIC_CONTENT: list[Json] = [
    {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
    {"type": "text", "text": "Hello, wörld!"},
    *({"type": "tool_use", "id": f"t{i}", "name": name, "input": given} for i, (name, given) in enumerate(CALLS)),
]
GEMINI_PARTS = [
    gemini_wire.thought("Hm."),
    gemini_wire.text("Hello, "),
    gemini_wire.text("wörld!"),
    *(gemini_wire.call(name, signature=gemini_wire.SIGNATURE, **arguments) for name, arguments in CALLS),
]

RESPONSE = responses_wire.response(
    responses_wire.reasoning("Hm.", encrypted="Hm."),
    responses_wire.message("Hello, wörld!"),
    *(responses_wire.call(name, given, f"call_{i}") for i, (name, given) in enumerate(CALLS)),
)


def respond(text: str) -> Json:
    return responses_wire.response(responses_wire.message(text))


SAMPLE_ANSWERS = {
    "openai-chat": SampleAnswers(
        ChatCompletions(name="test", base_url="http://test/v1"),
        [wire.reasoning("Hm."), *wire.stream("Hello, wörld!", CALLS), "[DONE]"],
        wire.answer("Hello, wörld!", CALLS, reasoning="Hm."),
        lambda text: (wire.answer(text), [*wire.stream(text), "[DONE]"]),
    ),
    "openai-responses": SampleAnswers(
        Responses(ChatCompletions(name="test", base_url="http://test/v1")),
        responses_wire.events(RESPONSE),
        RESPONSE,
        lambda text: (respond(text), responses_wire.events(respond(text))),
    ),
    "anthropic": SampleAnswers(
        anthropic,
        [
            *anthropic_wire.begins(),
            *anthropic_wire.thinking(0, "Hm."),
            *anthropic_wire.text(1, "Hello, ", "wörld!"),
            *anthropic_wire.call(2, "add", FIRST[:5], FIRST[5:]),
            *anthropic_wire.call(3, "add", SECOND[:8], SECOND[8:]),
            *anthropic_wire.ends("tool_use"),
        ],
        anthropic_wire.message_of(*ANTHROPIC_CONTENT, reason="tool_use"),
        lambda text: (
            anthropic_wire.message_of({"type": "text", "text": text}),
            [*anthropic_wire.begins(), *anthropic_wire.text(0, text), *anthropic_wire.ends()],
        ),
    ),
    "gemini": SampleAnswers(
        gemini,
        gemini_wire.chunks(*GEMINI_PARTS),
        gemini_wire.whole(*GEMINI_PARTS),
        lambda text: (gemini_wire.whole(gemini_wire.text(text)), gemini_wire.chunks(gemini_wire.text(text))),
    ),
    "ollama": SampleAnswers(
        ollama,
        [
            ollama_line(thinking="Hm."),
            ollama_line(content="Hello, "),
            ollama_line(content="wörld!"),
            *(ollama_line(tool_calls=[call]) for call in OLLAMA_CALLS),
            ollama_line(done=True),
        ],
        ollama_line(done=True, thinking="Hm.", content="Hello, wörld!", tool_calls=OLLAMA_CALLS),
        lambda text: (ollama_line(done=True, content=text), [ollama_line(content=text), ollama_line(done=True)]),
    ),
}
