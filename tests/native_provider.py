"""A provider with a wire format of its own, a correct one, and its samples for `ask.testing`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from ask import (
    ChatRequest,
    Delta,
    FinishReason,
    HttpRequest,
    Message,
    ModelInfo,
    ModelResponse,
    Provider,
    ProviderError,
    ProviderInfo,
    ProviderState,
    RawEvent,
    ReasoningDelta,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolSpec,
    Usage,
)
from ask.parsing import (
    choose_retry_action,
    extract_error_text,
    format_unknown_reason,
    generate_call_id,
    parse_json,
    read_dict,
    read_int,
    read_list,
    read_str,
)

FINISH_REASONS = {
    "length": FinishReason.LENGTH,
    "blocked": FinishReason.CONTENT_FILTER,
    "tools": FinishReason.TOOL_CALLS,
}
INFO = ProviderInfo(
    name="wren",
    title="Wren",
    base_url="https://wren.example/v1",
    default_model="wren-1",
    key_env=("WREN_API_KEY",),
    stream_format="ndjson",
)


class WrenReader:
    """Collects the lines of a stream into the answer that the service gives without streaming."""

    def __init__(self) -> None:
        self.complete = False
        self.answer: dict[str, Any] = {"text": "", "thought": "", "calls": []}

    def feed(self, event: RawEvent) -> list[Delta]:
        line = read_dict(parse_json(event.data))
        self.answer |= {name: line[name] for name in ("end", "fault", "tokens", "signature", "model") if name in line}
        self.complete = "end" in self.answer or "fault" in self.answer
        deltas: list[Delta] = []
        if text := read_str(line.get("text")):
            self.answer["text"] += text
            deltas.append(TextDelta(text))
        if thought := read_str(line.get("thought")):
            self.answer["thought"] += thought
            deltas.append(ReasoningDelta(thought))
        if "call" in line:
            self.answer["calls"].append(line["call"])
            name = read_str(read_dict(line["call"]).get("tool")) or "unnamed"
            deltas.append(ToolCallDelta(len(self.answer["calls"]) - 1, name))
        return deltas

    def response(self) -> dict[str, Any]:
        return self.answer


class Wren(Provider):
    """A provider that uses every hook."""

    reader = WrenReader
    suite: Mapping[str, Any] = {}
    """The attributes of its test class; set below."""

    def __init__(self, info: ProviderInfo = INFO) -> None:
        super().__init__(info)

    def provider_supports_attachment(self, model: str, media_type: str) -> bool:
        return media_type in ("image/png", "image/jpeg")

    def provider_format_tools(self, tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
        return [{"tool": tool.name, "about": tool.description, "takes": dict(tool.parameters)} for tool in tools]

    def provider_format_tool_result(self, tool_call_id: str, tool_name: str, result: str) -> dict[str, Any]:
        return {"role": "tool", "answers": tool_call_id, "text": result}

    def build_body(self, request: ChatRequest) -> dict[str, Any]:
        turns = [self.format_turn(message, request.model) for message in request.messages]
        body: dict[str, Any] = {"model": request.model, "live": request.stream, "turns": turns}
        if request.tools:
            body |= {"tools": list(request.tools), "may_call": request.tool_choice == "auto"}
        if request.schema is not None:
            body["form"] = dict(request.schema)
        return body | dict(request.options)

    def format_turn(self, message: Message, model: str) -> dict[str, Any]:
        if message.role == "tool":
            return dict(message.formatted_result or {})
        turn: dict[str, Any] = {"role": message.role, "text": message.content}
        if message.tool_calls:
            turn["calls"] = [self.format_call(call) for call in message.tool_calls]
        if message.attachments:
            turn["files"] = [{"type": each.media_type, "data": each.base64} for each in message.attachments]
        return turn | dict(self.find_provider_state(message, model))

    def format_call(self, call: ToolCall) -> dict[str, Any]:
        return {"ref": call.id, "tool": call.name, "with": read_dict(parse_json(call.arguments))}

    def provider_build_request(self, request: ChatRequest, key: str) -> HttpRequest:
        return HttpRequest("/talk", self.build_body(request), self.build_headers(key))

    def build_headers(self, key: str) -> dict[str, str]:
        return {"X-Wren-Key": key} if key else {}

    def provider_stream_reader(self) -> WrenReader:
        return self.reader()

    def provider_parse_response(self, response: Mapping[str, Any]) -> ModelResponse:
        tokens = read_dict(response.get("tokens"))
        signature, thought = response.get("signature"), read_str(response.get("thought"))
        state = {"thought": thought, "signature": signature} if isinstance(signature, str) else None
        answer = ModelResponse(
            text=read_str(response.get("text")),
            reasoning=thought,
            finish_reason=FINISH_REASONS.get(read_str(response.get("end")), FinishReason.STOP),
            usage=Usage(
                read_int(tokens.get("read")), read_int(tokens.get("written")), read_int(tokens.get("from_cache"))
            ),
            provider_state=ProviderState("wren", read_str(response.get("model")), state) if state else None,
            finish_message=format_unknown_reason(response.get("end"), FINISH_REASONS),
        )
        if response.get("fault"):
            error = self.provider_parse_error(503, {}, json.dumps(response))
            error.partial_response = answer
            raise error
        return answer

    def provider_parse_tool_calls(self, response: Mapping[str, Any]) -> list[ToolCall]:
        return [self.parse_call(call) for call in map(read_dict, read_list(response.get("calls")))]

    def parse_call(self, call: Mapping[str, Any]) -> ToolCall:
        return ToolCall(
            read_str(call.get("ref")) or generate_call_id(),
            read_str(call.get("tool")) or "unnamed",
            json.dumps(read_dict(call.get("with"))),
        )

    def provider_parse_error(self, status: int, headers: Mapping[str, str], body: str) -> ProviderError:
        fault = read_str(read_dict(parse_json(body)).get("fault")) or extract_error_text(body)
        message = " ".join(fault.split()) or "no explanation"
        return ProviderError(message, status, choose_retry_action(status, headers))

    def provider_models_request(self, key: str) -> HttpRequest:
        return HttpRequest("/models", None, self.build_headers(key), "GET")

    def provider_parse_models(self, body: Any) -> list[ModelInfo]:
        models = map(read_dict, read_list(read_dict(body).get("models")))
        return [ModelInfo(name) for name in (read_str(model.get("name")) for model in models) if name]


def make_module(provider: Provider, *hooks: str) -> ModuleType:
    """Return a module with these hooks of a provider, by default all that it has."""
    module = ModuleType("wren_module")
    for hook in hooks or [name for name in dir(provider) if name.startswith("provider_")]:
        setattr(module, hook, getattr(provider, hook))
    return module


TOKENS = {"read": 12, "written": 7, "from_cache": 4, "to_cache": 3}


def stream(*lines: dict[str, Any], end: str = "stop") -> list[RawEvent]:
    last = {"end": end, "tokens": TOKENS, "model": "wren-1"}
    return [RawEvent(None, json.dumps(line)) for line in (*lines, *([last] if end else []))]


def response(end: str = "stop", **fields: Any) -> dict[str, Any]:
    empty = {"text": "", "thought": "", "calls": []}
    return empty | {"end": end, "tokens": TOKENS, "model": "wren-1"} | fields


HELLO = ({"text": "Hello, "}, {"text": "wörld!"})
THOUGHT = {"thought": "Let me think."}
SIGNATURE = {"signature": "c2lnbmF0dXJl"}
CALLS = (
    {"ref": "w-1", "tool": "add", "with": {"a": 2, "b": 3}},
    {"ref": "w-2", "tool": "add", "with": {"a": 4, "b": 5}},
)
FAULT = {"fault": "Wren is overloaded"}

SAMPLES = {
    "text": stream(*HELLO),
    "reasoning": stream(THOUGHT, SIGNATURE, *HELLO),
    "call": stream({"call": CALLS[0]}, end="tools"),
    "parallel": stream({"call": CALLS[0]}, {"call": CALLS[1]}, end="tools"),
    "text_and_call": stream(*HELLO, {"call": CALLS[0]}, end="tools"),
    "reasoning_and_call": stream(THOUGHT, SIGNATURE, {"call": CALLS[0]}, end="tools"),
    "length": stream({"text": "Hello, w"}, end="length"),
    "filter": stream({"text": "Hello, w"}, end="blocked"),
    "error": [*stream({"text": "Hello, w"}, end=""), RawEvent(None, json.dumps(FAULT))],
    "cut": stream({"text": "Hello, w"}, end=""),
}
WHOLE = {
    "text": response(text="Hello, wörld!"),
    "reasoning": response(text="Hello, wörld!", **THOUGHT, **SIGNATURE),
    "call": response("tools", calls=[CALLS[0]]),
    "parallel": response("tools", calls=list(CALLS)),
    "text_and_call": response("tools", text="Hello, wörld!", calls=[CALLS[0]]),
    "reasoning_and_call": response("tools", calls=[CALLS[0]], **THOUGHT, **SIGNATURE),
    "length": response("length", text="Hello, w"),
    "filter": response("blocked", text="Hello, w"),
    "error": FAULT,
}
SUITE: dict[str, Any] = {"samples": SAMPLES, "unstreamed_samples": WHOLE}
"""The attributes of a test class for a provider with this wire format."""
Wren.suite = SUITE
