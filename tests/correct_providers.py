"""Three correct providers with wire formats unlike each other and `native_provider`, and their samples.

`Robin` sends typed server-sent events, content in parts and arguments as JSON text. `Heron` has the system prompt
outside of the messages, results inside user messages, no choice of "none" and no `size`. `Finch` is a module whose
stream repeats the text so far, and whose service knows no ids.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any

from ask import (
    Attachment,
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
    decode_arguments,
    extract_error_text,
    find_error,
    format_error_message,
    format_unknown_reason,
    generate_call_id,
    parse_event,
    parse_json,
    read_dict,
    read_int,
    read_list,
    read_str,
)


def to_events(lines: Iterable[Mapping[str, Any]]) -> list[RawEvent]:
    """Return server-sent events whose type is in their data."""
    return [RawEvent(line.get("type"), json.dumps(line, ensure_ascii=False)) for line in lines]


# Robin: Cohere's kind of API

ROBIN_REASONS = {"MAX_TOKENS": FinishReason.LENGTH, "BLOCKED": FinishReason.CONTENT_FILTER}


class RobinReader:
    """Collects typed events into a message with content parts and calls."""

    def __init__(self) -> None:
        self.complete = False
        self.size = 0
        self.parts: list[dict[str, str]] = []
        self.calls: list[dict[str, Any]] = []
        self.end: dict[str, Any] = {}

    def feed(self, event: RawEvent) -> list[Delta]:
        data = read_dict(parse_event(event.data, event.event))
        delta = read_dict(data.get("delta"))
        if data.get("type") == "content-delta":
            kind, text = ("thinking", delta.get("thinking")) if "thinking" in delta else ("text", delta.get("text"))
            return self.add_text(kind, read_str(text))
        call = read_dict(delta.get("tool_call"))
        if data.get("type") == "tool-call-start":
            self.calls.append({"id": read_str(call.get("id")), "name": read_str(call.get("name")), "arguments": ""})
            self.add_arguments(call)
            return [ToolCallDelta(len(self.calls) - 1, self.calls[-1]["name"] or "unnamed")]
        if data.get("type") == "tool-call-delta" and self.calls:
            self.add_arguments(call)
        if data.get("type") == "message-end" or "error" in data:
            self.end = delta if "error" not in data else {"error": data["error"]}
            self.complete = True
        return []

    def add_text(self, kind: str, text: str) -> list[Delta]:
        if not text:
            return []
        if not self.parts or self.parts[-1]["type"] != kind:
            self.parts.append({"type": kind, kind: ""})
        self.parts[-1][kind] += text
        self.size += len(text)
        return [ReasoningDelta(text) if kind == "thinking" else TextDelta(text)]

    def add_arguments(self, call: Mapping[str, Any]) -> None:
        text = read_str(call.get("arguments"))
        self.calls[-1]["arguments"] += text
        self.size += len(text)

    def response(self) -> dict[str, Any]:
        message = {"role": "assistant", "content": [dict(part) for part in self.parts]}
        return self.end | {"message": message | {"tool_calls": [dict(call) for call in self.calls]}}


class Robin(Provider):
    """A provider that sends the model's thinking back in later requests."""

    reader = RobinReader

    def provider_supports_attachment(self, model: str, media_type: str) -> bool:
        return media_type.startswith("image/")

    def provider_format_tools(self, tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
        return [{"type": "function", "function": self.normalize_tool(tool)._asdict()} for tool in tools]

    def provider_format_tool_result(self, tool_call_id: str, tool_name: str, result: str) -> dict[str, Any]:
        document = {"type": "document", "document": {"data": result}}
        return {"role": "tool", "tool_call_id": tool_call_id, "content": [document]}

    def provider_build_request(self, request: ChatRequest, key: str) -> HttpRequest:
        body: dict[str, Any] = {"messages": [self.format_message(each, request.model) for each in request.messages]}
        if request.tools:
            body["tools"] = [dict(tool) for tool in request.tools]
            body |= {"tool_choice": "NONE"} if request.tool_choice == "none" else {}
        if request.schema is not None:
            body["response_format"] = {"type": "json_object", "schema": request.schema}
        body |= {"model": request.model, "stream": request.stream, **request.options}
        return HttpRequest("/v2/chat", body, {"Authorization": f"bearer {key}"} if key else {})

    def format_message(self, message: Message, model: str) -> dict[str, Any]:
        if message.role == "tool":
            return dict(message.formatted_result or {})
        content = [*self.find_provider_state(message, model).get("thinking", ())]
        if message.content:
            content.append({"type": "text", "text": message.content})
        content += map(self.format_file, message.attachments)
        formatted: dict[str, Any] = {"role": message.role, "content": content}
        if message.tool_calls:
            formatted["tool_calls"] = [self.format_call(call) for call in message.tool_calls]
        return formatted

    def format_file(self, file: Attachment) -> dict[str, Any]:
        return {"type": "image_url", "image_url": {"url": file.data_url, "detail": "auto"}}

    def format_call(self, call: ToolCall) -> dict[str, Any]:
        arguments = "{}" if decode_arguments(call.arguments) is None else call.arguments
        return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}

    def provider_stream_reader(self) -> RobinReader:
        return self.reader()

    def provider_parse_response(self, response: Mapping[str, Any]) -> ModelResponse:
        message, reason = read_dict(response.get("message")), response.get("finish_reason")
        parts = [read_dict(part) for part in read_list(message.get("content"))]
        thinking = [part for part in parts if part.get("type") == "thinking"]
        state = ProviderState(self.info.name, "", {"thinking": thinking}) if thinking else None
        answer = ModelResponse(
            "".join(read_str(part.get("text")) for part in parts),
            "".join(read_str(part.get("thinking")) for part in thinking),
            ROBIN_REASONS.get(read_str(reason), FinishReason.STOP),
            self.parse_usage(read_dict(response.get("usage"))),
            state,
            format_unknown_reason(reason, ROBIN_REASONS),
        )
        error = response.get("error")
        return self.check_answer(answer, self.parse_embedded_error(error) if error else None)

    def parse_usage(self, usage: Mapping[str, Any]) -> Usage:
        tokens = read_dict(usage.get("tokens"))
        return Usage(
            read_int(tokens.get("input_tokens")),
            read_int(tokens.get("output_tokens")),
            read_int(usage.get("cached_tokens")),
        )

    def provider_parse_tool_calls(self, response: Mapping[str, Any]) -> list[ToolCall]:
        calls = map(read_dict, read_list(read_dict(response.get("message")).get("tool_calls")))
        return self.make_ids_unique([self.parse_call(call) for call in calls])

    def parse_call(self, call: Mapping[str, Any]) -> ToolCall:
        return ToolCall(
            read_str(call.get("id")), read_str(call.get("name")) or "unnamed", read_str(call.get("arguments"))
        )

    @staticmethod
    def make_ids_unique(calls: list[ToolCall]) -> list[ToolCall]:
        seen: set[str] = {""}
        unique = []
        for call in calls:
            unique.append(call._replace(id=generate_call_id()) if call.id in seen else call)
            seen.add(call.id)
        return unique


ROBIN = Robin(ProviderInfo("robin", "Robin", "https://robin.example", "robin-a", ("ROBIN_API_KEY",)))
ROBIN_USAGE = {"tokens": {"input_tokens": 12, "output_tokens": 7}, "cached_tokens": 5}


def robin_parts(*texts: tuple[str, str]) -> list[dict[str, Any]]:
    return [{"type": "content-delta", "index": 0, "delta": {kind: text}} for kind, text in texts]


def robin_call(number: int, arguments: str) -> list[dict[str, Any]]:
    start = {"id": f"add:{number}", "name": "add", "arguments": ""}
    pieces = [{"type": "tool-call-delta", "delta": {"tool_call": {"arguments": each}}} for each in arguments.split("|")]
    return [{"type": "tool-call-start", "delta": {"tool_call": start}}, *pieces]


def robin_stream(*lines: dict[str, Any], reason: str = "COMPLETE") -> list[RawEvent]:
    end = {"type": "message-end", "delta": {"finish_reason": reason, "usage": ROBIN_USAGE}}
    return to_events([{"type": "message-start", "id": "1"}, *lines, *([end] if reason else [])])


def robin_whole(*texts: tuple[str, str], calls: int = 0, reason: str = "COMPLETE") -> dict[str, Any]:
    content = [{"type": kind, kind: text} for kind, text in texts]
    arguments = ('{"a": 2, "b": 3}', '{"a":4,"b":5}')
    tool_calls = [{"id": f"add:{i}", "name": "add", "arguments": arguments[i]} for i in range(calls)]
    message = {"role": "assistant", "content": content, "tool_calls": tool_calls}
    return {"finish_reason": reason, "usage": ROBIN_USAGE, "message": message}


HELLO, THINKING = ("text", "Hello, wörld!"), ("thinking", "Let me think.")
HELLO_PIECES = (("text", "Hel"), ("text", "lo, "), ("text", "wörld!"))
CUT = ("text", "Hello, w")
CALL, SECOND_CALL = robin_call(0, '{"a": 2,| "b": 3}'), robin_call(1, '{"a":4,|"b":5}')
ROBIN_ERROR = {"error": {"message": "robin is overloaded", "code": 503}}
ROBIN_SAMPLES = {
    "text": robin_stream(*robin_parts(*HELLO_PIECES)),
    "reasoning": robin_stream(*robin_parts(("thinking", "Let me "), ("thinking", "think."), HELLO)),
    "call": robin_stream(*CALL, reason="TOOL_CALL"),
    "parallel": robin_stream(*CALL, *SECOND_CALL, reason="TOOL_CALL"),
    "text_and_call": robin_stream(*robin_parts(HELLO), *CALL, reason="TOOL_CALL"),
    "reasoning_and_call": robin_stream(*robin_parts(THINKING), *CALL, reason="TOOL_CALL"),
    "length": robin_stream(*robin_parts(CUT), reason="MAX_TOKENS"),
    "filter": robin_stream(*robin_parts(CUT), reason="BLOCKED"),
    "error": [*robin_stream(*robin_parts(CUT), reason=""), *to_events([ROBIN_ERROR])],
    "cut": robin_stream(*robin_parts(CUT), reason=""),
}
ROBIN_WHOLE = {
    "text": robin_whole(HELLO),
    "reasoning": robin_whole(THINKING, HELLO),
    "call": robin_whole(calls=1, reason="TOOL_CALL"),
    "parallel": robin_whole(calls=2, reason="TOOL_CALL"),
    "text_and_call": robin_whole(HELLO, calls=1, reason="TOOL_CALL"),
    "reasoning_and_call": robin_whole(THINKING, calls=1, reason="TOOL_CALL"),
    "length": robin_whole(CUT, reason="MAX_TOKENS"),
    "filter": robin_whole(CUT, reason="BLOCKED"),
    "error": ROBIN_ERROR,
}


# Heron: the kind of API of Bedrock's Converse

HERON_REASONS = {
    "max_tokens": FinishReason.LENGTH,
    "guardrail_intervened": FinishReason.CONTENT_FILTER,
    "tool_use": FinishReason.TOOL_CALLS,
    "end_turn": FinishReason.STOP,
}


class HeronReader:
    """Collects blocks by their index. The arguments of a call arrive as text, and are an object without streaming."""

    def __init__(self) -> None:
        self.complete = False
        self._blocks: dict[Any, dict[str, Any]] = {}
        self._end: dict[str, Any] = {}
        self._call_count = 0

    def feed(self, event: RawEvent) -> list[Delta]:
        data = read_dict(parse_event(event.data))
        if "contentBlockStart" in data:
            return self._start_call(read_dict(data["contentBlockStart"]))
        if "contentBlockDelta" in data:
            return self._add(read_dict(data["contentBlockDelta"]))
        if "messageStop" in data:
            self._end["stopReason"] = read_dict(data["messageStop"]).get("stopReason")
        if "metadata" in data:
            self._end["usage"] = read_dict(data["metadata"]).get("usage")
            self.complete = True
        if (error := find_error(data)) is not None:
            self._end["error"] = error
            self.complete = True
        return []

    def _start_call(self, start: Mapping[str, Any]) -> list[Delta]:
        use = read_dict(read_dict(start.get("start")).get("toolUse"))
        if not use:
            return []
        name = read_str(use.get("name")) or "unnamed"
        call = {"toolUseId": read_str(use.get("toolUseId")), "name": name, "input": ""}
        self._blocks[read_int(start.get("contentBlockIndex"))] = {"toolUse": call}
        self._call_count += 1
        return [ToolCallDelta(self._call_count - 1, name)]

    def _add(self, data: Mapping[str, Any]) -> list[Delta]:
        delta, index = read_dict(data.get("delta")), read_int(data.get("contentBlockIndex"))
        block = self._blocks.setdefault(index, {})
        if "toolUse" in delta:
            if "toolUse" in block:
                block["toolUse"]["input"] += read_str(read_dict(delta["toolUse"]).get("input"))
            return []
        if "reasoningContent" in delta:
            part = read_dict(delta["reasoningContent"])
            reasoning = block.setdefault("reasoningContent", {"text": "", "signature": ""})
            reasoning["text"] += read_str(part.get("text"))
            reasoning["signature"] += read_str(part.get("signature"))
            return [ReasoningDelta(text)] if (text := read_str(part.get("text"))) else []
        text = read_str(delta.get("text"))
        block["text"] = block.get("text", "") + text
        return [TextDelta(text)] if text else []

    def response(self) -> dict[str, Any]:
        content = [self._finish(block) for block in self._blocks.values()]
        return self._end | {"output": {"message": {"role": "assistant", "content": content}}}

    @staticmethod
    def _finish(block: Mapping[str, Any]) -> dict[str, Any]:
        if "toolUse" not in block:
            return json.loads(json.dumps(block))  # type: ignore[no-any-return]
        arguments = decode_arguments(block["toolUse"]["input"] or "{}")
        return {"toolUse": block["toolUse"] | ({} if arguments is None else {"input": arguments})}


class Heron(Provider):
    """A provider whose messages alternate between user and assistant."""

    reader = HeronReader

    def provider_supports_attachment(self, model: str, media_type: str) -> bool:
        return media_type in ("image/png", "image/jpeg", "application/pdf")

    def provider_format_tools(self, tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
        return [
            {"toolSpec": {"name": each.name, "description": each.description, "inputSchema": {"json": each.parameters}}}
            for each in (self.normalize_tool(tool) for tool in tools)
        ]

    def provider_format_tool_result(self, tool_call_id: str, tool_name: str, result: str) -> dict[str, Any]:
        return {"toolResult": {"toolUseId": tool_call_id, "content": [{"text": result}]}}

    def provider_build_request(self, request: ChatRequest, key: str) -> HttpRequest:
        body: dict[str, Any] = {"messages": self.format_messages(request)}
        system = [{"text": message.content} for message in request.messages if message.role == "system"]
        if system:
            body["system"] = system
        if request.tools and request.tool_choice == "auto":  # the service cannot forbid calls of tools that it knows
            body["toolConfig"] = {"tools": [*request.tools]}
        if request.options:
            body["inferenceConfig"] = dict(request.options)
        kind = "converse-stream" if request.stream else "converse"
        headers = {"X-Heron-Key": key} if key else {}
        return HttpRequest(f"/model/{request.model}/{kind}", body, headers)

    def format_messages(self, request: ChatRequest) -> list[dict[str, Any]]:
        formatted: list[dict[str, Any]] = []
        for message in request.messages:
            if message.role == "system":
                continue
            role = "assistant" if message.role == "assistant" else "user"
            if not formatted or formatted[-1]["role"] != role:
                formatted.append({"role": role, "content": []})
            formatted[-1]["content"] += self.format_blocks(message, request.model)
        return formatted

    def format_blocks(self, message: Message, model: str) -> list[Any]:
        if message.role == "tool":
            return [message.formatted_result]
        blocks: list[Any] = [*self.find_provider_state(message, model).get("blocks", ())]
        blocks += [{"text": message.content}] if message.content else []
        for file in message.attachments:
            kind, name = file.media_type.split("/")
            block = {"format": name, "source": {"bytes": file.base64}}
            blocks.append({"image": block} if kind == "image" else {"document": block | {"name": "document"}})
        blocks += [
            {
                "toolUse": {
                    "toolUseId": call.id,
                    "name": call.name,
                    "input": decode_arguments(call.arguments) or {},
                }
            }
            for call in message.tool_calls
        ]
        return blocks

    def provider_stream_reader(self) -> HeronReader:
        return self.reader()

    def provider_parse_response(self, response: Mapping[str, Any]) -> ModelResponse:
        blocks = self.read_blocks(response)
        reasoning = [read_dict(block["reasoningContent"]) for block in blocks if "reasoningContent" in block]
        usage = {name: read_int(count) for name, count in read_dict(response.get("usage")).items()}
        inputs = ("inputTokens", "cacheReadInputTokens", "cacheWriteInputTokens")
        counted = [count for name in inputs if (count := usage.get(name)) is not None]
        reason = response.get("stopReason")
        kept = [{"reasoningContent": part} for part in reasoning if part.get("signature")]
        answer = ModelResponse(
            text="".join(read_str(block.get("text")) for block in blocks),
            reasoning="".join(read_str(part.get("text")) for part in reasoning),
            finish_reason=HERON_REASONS.get(read_str(reason), FinishReason.STOP),
            usage=Usage(sum(counted) if counted else None, usage.get("outputTokens"), usage.get(inputs[1])),
            provider_state=ProviderState("heron", "", {"blocks": kept}) if kept else None,
            finish_message=format_unknown_reason(reason, HERON_REASONS),
        )
        if (error := find_error(response)) is not None:
            raised = self.provider_parse_error(503, {}, json.dumps({"error": error}))
            raised.partial_response = answer
            raise raised
        return answer

    @staticmethod
    def read_blocks(response: Mapping[str, Any]) -> list[dict[str, Any]]:
        message = read_dict(read_dict(response.get("output")).get("message"))
        return [read_dict(block) for block in read_list(message.get("content"))]

    def provider_parse_tool_calls(self, response: Mapping[str, Any]) -> list[ToolCall]:
        calls: dict[str, ToolCall] = {}
        for block in self.read_blocks(response):
            use = read_dict(block.get("toolUse"))
            if not use:
                continue
            given, call_id = use.get("input"), read_str(use.get("toolUseId"))
            if not call_id or call_id in calls:
                call_id = generate_call_id()
            arguments = given if isinstance(given, str) else json.dumps(given)
            calls[call_id] = ToolCall(call_id, read_str(use.get("name")) or "unnamed", arguments)
        return list(calls.values())

    def provider_models_request(self, key: str) -> HttpRequest:
        return HttpRequest("/models", None, {"X-Heron-Key": key} if key else {}, "GET")

    def provider_parse_models(self, body: Any) -> list[ModelInfo]:
        entries = map(read_dict, read_list(read_dict(body).get("modelSummaries")))
        return [ModelInfo(name) for entry in entries if (name := read_str(entry.get("modelId")))]


HERON = Heron(ProviderInfo("heron", "Heron", "https://heron.example", "", ("HERON_API_KEY",)))
HERON_MODELS = {"modelSummaries": [{"modelId": "heron-1"}]}
HERON_USAGE = {"inputTokens": 6, "outputTokens": 7, "cacheReadInputTokens": 4, "cacheWriteInputTokens": 2}
HERON_ADDS = ({"a": 2, "b": 3}, {"a": 4, "b": 5})


def heron_stream(*blocks: Sequence[Mapping[str, Any]], reason: str = "end_turn") -> list[RawEvent]:
    lines: list[dict[str, Any]] = [{"messageStart": {"role": "assistant"}}]
    for i, block in enumerate(blocks):
        for delta in block:
            kind = "contentBlockStart" if "start" in delta else "contentBlockDelta"
            lines.append({kind: {"contentBlockIndex": i, **(delta if "start" in delta else {"delta": delta})}})
        lines.append({"contentBlockStop": {"contentBlockIndex": i}})
    if reason:
        lines += [{"messageStop": {"stopReason": reason}}, {"metadata": {"usage": HERON_USAGE}}]
    return [RawEvent(None, json.dumps(line)) for line in lines]


def heron_call(number: int) -> list[dict[str, Any]]:
    text = json.dumps(HERON_ADDS[number])
    start = {"toolUse": {"toolUseId": f"tooluse_{number}", "name": "add"}}
    return [{"start": start}, *({"toolUse": {"input": part}} for part in (text[:4], text[4:10], text[10:]))]


def heron_whole(*content: Mapping[str, Any], reason: str = "end_turn") -> dict[str, Any]:
    message = {"role": "assistant", "content": list(content)}
    return {"output": {"message": message}, "stopReason": reason, "usage": HERON_USAGE}


def heron_use(number: int) -> dict[str, Any]:
    return {"toolUse": {"toolUseId": f"tooluse_{number}", "name": "add", "input": HERON_ADDS[number]}}


HERON_HELLO = [{"text": "Hello, "}, {"text": "wörld!"}]
HERON_THOUGHT = [
    {"reasoningContent": {"text": "Let me "}},
    {"reasoningContent": {"text": "think."}},
    {"reasoningContent": {"signature": "c2lnbg=="}},
]
HERON_WHOLE_THOUGHT = {"reasoningContent": {"text": "Let me think.", "signature": "c2lnbg=="}}
HERON_ERROR = {"message": "Heron is overloaded"}
HERON_SAMPLES = {
    "text": heron_stream(HERON_HELLO),
    "reasoning": heron_stream(HERON_THOUGHT, HERON_HELLO),
    "call": heron_stream(heron_call(0), reason="tool_use"),
    "parallel": heron_stream(heron_call(0), heron_call(1), reason="tool_use"),
    "text_and_call": heron_stream(HERON_HELLO, heron_call(0), reason="tool_use"),
    "reasoning_and_call": heron_stream(HERON_THOUGHT, heron_call(0), reason="tool_use"),
    "length": heron_stream([{"text": "Hello, w"}], reason="max_tokens"),
    "filter": heron_stream([{"text": "Hello, w"}], reason="guardrail_intervened"),
    "error": [*heron_stream([{"text": "Hello, w"}], reason=""), RawEvent(None, json.dumps(HERON_ERROR))],
    "cut": heron_stream([{"text": "Hello, w"}], reason=""),
}
HERON_TEXT = {"text": "Hello, wörld!"}
HERON_WHOLE = {
    "text": heron_whole(HERON_TEXT),
    "reasoning": heron_whole(HERON_WHOLE_THOUGHT, HERON_TEXT),
    "call": heron_whole(heron_use(0), reason="tool_use"),
    "parallel": heron_whole(heron_use(0), heron_use(1), reason="tool_use"),
    "text_and_call": heron_whole(HERON_TEXT, heron_use(0), reason="tool_use"),
    "reasoning_and_call": heron_whole(HERON_WHOLE_THOUGHT, heron_use(0), reason="tool_use"),
    "length": heron_whole({"text": "Hello, w"}, reason="max_tokens"),
    "filter": heron_whole({"text": "Hello, w"}, reason="guardrail_intervened"),
    "error": HERON_ERROR,
}


# Finch: a local server, whose lines repeat the text so far


class FinchReader:
    """Takes each line in place of the one before it."""

    complete = False

    def __init__(self) -> None:
        self._line: dict[str, Any] = {}

    @property
    def size(self) -> int:
        return sum(len(read_str(self._line.get(name))) for name in ("output", "trace")) + len(
            json.dumps(self._line.get("invoke", ()))
        )

    def feed(self, event: RawEvent) -> list[Delta]:
        line = parse_json(event.data)
        if not isinstance(line, dict) or not {"output", "fail"} & line.keys():
            return []
        deltas: list[Delta] = []
        for name, delta_type in (("trace", ReasoningDelta), ("output", TextDelta)):
            if added := read_str(line.get(name))[len(read_str(self._line.get(name))) :]:
                deltas.append(delta_type(added))
        known = len(read_list(self._line.get("invoke")))
        invoked = map(read_dict, read_list(line.get("invoke"))[known:])
        deltas += [ToolCallDelta(i, read_str(call.get("fn")) or "unnamed") for i, call in enumerate(invoked, known)]
        self._line = self._line | line
        self.complete = "stop" in line or "fail" in line
        return deltas

    def response(self) -> dict[str, Any]:
        return dict(self._line)


class Finch(Provider):
    """A provider without a key, ids, attachments, usage or a filter."""

    reader = FinchReader

    def provider_format_tools(self, tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
        return [{"fn": tool.name, "help": tool.description, "schema": dict(tool.parameters)} for tool in tools]

    def provider_format_tool_result(self, tool_call_id: str, tool_name: str, result: str) -> dict[str, Any]:
        return {"from": "tool", "fn": tool_name, "say": result}

    def provider_build_request(self, request: ChatRequest, key: str) -> HttpRequest:
        log = []
        for message in request.messages:
            entry: dict[str, Any] = {"from": message.role, "say": message.content}
            if message.role == "tool":
                entry = dict(message.formatted_result or {})
            if message.tool_calls:
                entry["invoke"] = [
                    {"fn": c.name, "with": decode_arguments(c.arguments) or {}} for c in message.tool_calls
                ]
            log.append(entry)
        body: dict[str, Any] = {"model": request.model, "log": log, "stream": request.stream}
        if request.tools and request.tool_choice != "none":
            body["functions"] = list(request.tools)
        return HttpRequest("/generate", {**body, "params": dict(request.options)})

    def provider_stream_reader(self) -> FinchReader:
        return self.reader()

    def provider_parse_response(self, response: Mapping[str, Any]) -> ModelResponse:
        stop = response.get("stop")
        answer = ModelResponse(
            read_str(response.get("output")),
            read_str(response.get("trace")),
            FinishReason.LENGTH if stop == "limit" else FinishReason.STOP,
            finish_message=format_unknown_reason(stop, ("limit",)),
        )
        if "fail" in response:
            error = ProviderError(" ".join(str(response["fail"]).split()) or "failed")
            error.partial_response = answer
            raise error
        return answer

    def provider_parse_tool_calls(self, response: Mapping[str, Any]) -> list[ToolCall]:
        calls = map(read_dict, read_list(response.get("invoke")))
        return [
            ToolCall(generate_call_id(), read_str(call.get("fn")) or "unnamed", json.dumps(call.get("with")))
            for call in calls
        ]

    def provider_parse_error(self, status: int, headers: Mapping[str, str], body: str) -> ProviderError:
        parsed = read_dict(parse_json(body))
        text = read_str(parsed.get("fail")) or format_error_message(find_error(parsed)) or extract_error_text(body)
        return ProviderError(" ".join(text.split()) or "no explanation", status, choose_retry_action(status, headers))


def make_finch() -> ModuleType:
    """Return the provider as a module, whose hooks are functions."""
    module = ModuleType("finch")
    provider = Finch(
        ProviderInfo("finch", "Finch", "http://localhost:9999", "", needs_key=False, stream_format="ndjson")
    )
    for hook in vars(Finch):
        if hook.startswith("provider_"):
            setattr(module, hook, getattr(provider, hook))
    module.provider_info = provider.provider_info  # type: ignore[attr-defined]
    module.provider_supports_tools = lambda model: True  # type: ignore[attr-defined]
    return module


FINCH_ADDS = [{"fn": "add", "with": {"a": 2, "b": 3}}, {"fn": "add", "with": {"a": 4, "b": 5}}]


def finch_stream(*lines: Mapping[str, Any], stop: str = "end") -> list[RawEvent]:
    last = [{**lines[-1], "stop": stop}] if stop else []
    return [RawEvent(None, json.dumps(line)) for line in (*lines, *last)]


FINCH_HELLO = ({"output": "Hello, "}, {"output": "Hello, wörld!"})
FINCH_THOUGHT = {"trace": "Let me think.", "output": ""}
FINCH_SAMPLES = {
    "text": finch_stream(*FINCH_HELLO),
    "reasoning": finch_stream(FINCH_THOUGHT, FINCH_THOUGHT | {"output": "Hello, wörld!"}),
    "call": finch_stream({"output": "", "invoke": FINCH_ADDS[:1]}),
    "parallel": finch_stream({"output": "", "invoke": FINCH_ADDS[:1]}, {"output": "", "invoke": FINCH_ADDS}),
    "text_and_call": finch_stream(*FINCH_HELLO, FINCH_HELLO[1] | {"invoke": FINCH_ADDS[:1]}),
    "reasoning_and_call": finch_stream(FINCH_THOUGHT, FINCH_THOUGHT | {"invoke": FINCH_ADDS[:1]}),
    "length": finch_stream({"output": "Hello, w"}, stop="limit"),
    "error": [RawEvent(None, '{"output": "Hello, w"}'), RawEvent(None, '{"fail": "finch is overloaded"}')],
    "cut": [RawEvent(None, '{"output": "Hello, w"}')],
}
FINCH_WHOLE = {kind: json.loads(events[-1].data) for kind, events in FINCH_SAMPLES.items() if kind != "cut"}


# The attributes of their test classes

ROBIN_SUITE: dict[str, Any] = {"provider": ROBIN, "samples": ROBIN_SAMPLES, "unstreamed_samples": ROBIN_WHOLE}
HERON_SUITE: dict[str, Any] = {
    "provider": HERON,
    "model": "heron-1",
    "models": HERON_MODELS,
    "samples": HERON_SAMPLES,
    "unstreamed_samples": HERON_WHOLE,
    "unsupported": {"schema"},
}
FINCH_SUITE: dict[str, Any] = {
    "provider": make_finch(),
    "samples": FINCH_SAMPLES,
    "unstreamed_samples": FINCH_WHOLE,
    "unsupported": {"attachments", "usage", "filter", "schema", "reasoning_history"},
}
