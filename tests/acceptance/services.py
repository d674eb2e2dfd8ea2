"""The nine services that ask speaks to: answers as the bytes each one sends, and what a request to it says.

Nothing here imports the program: the acceptance tests see it as its users and its providers do.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.model_server import Reply

Json = dict[str, Any]


class Call(NamedTuple):
    """A tool call as the model makes it."""

    name: str
    arguments: Json
    id: str = "call_1"


@dataclass
class Transcript:
    """What a request says, whatever its format."""

    system: str = ""
    user: list[str] = field(default_factory=list)
    assistant: list[str] = field(default_factory=list)
    calls: list[tuple[str, Any]] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    tools: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Service:
    """A provider and its format. `address` ends its base URL; `path` begins the path of a request."""

    name: str
    address: str
    path: str
    model: str = "test-model"

    def reply(self, text: str = "", calls: Sequence[Call] = (), *, whole: bool = False) -> Reply:
        """An answer with this text and these calls: a stream, or one JSON body."""
        raise NotImplementedError

    def read(self, body: Json) -> Transcript:
        """Read a request."""
        raise NotImplementedError


def json_reply(body: Json, status: int = 200) -> Reply:
    return Reply((json.dumps(body).encode(),), status=status)


def event_stream(events: Iterable[Json | str], *, named: bool = False) -> Reply:
    """Server-sent events, each in a write of its own; `named` gives each an `event:` line from its type."""
    steps = []
    for event in events:
        data = event if isinstance(event, str) else json.dumps(event, ensure_ascii=False)
        name = f"event: {event['type']}\n" if named and not isinstance(event, str) else ""
        steps.append(f"{name}data: {data}\n\n".encode())
    return Reply(steps, content_type="text/event-stream")


def words(text: str) -> list[str]:
    """The text in pieces that join to it."""
    return [piece + " " for piece in text.split(" ")[:-1]] + text.split(" ")[-1:] if text else []


def join_text(content: Any) -> str:
    """The text of a message's content: a string, or parts."""
    if isinstance(content, str) or content is None:
        return content or ""
    return "".join(part.get("text", "") for part in content)


class ChatCompletionsService(Service):
    """OpenAI's Chat Completions and those that copied it."""

    def reply(self, text: str = "", calls: Sequence[Call] = (), *, whole: bool = False) -> Reply:
        reason = "tool_calls" if calls else "stop"
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        if whole:
            message: Json = {"role": "assistant", "content": text or None}
            functions = [{"name": call.name, "arguments": json.dumps(call.arguments)} for call in calls]
            if calls:
                message["tool_calls"] = [
                    {"id": call.id, "type": "function", "function": function}
                    for call, function in zip(calls, functions, strict=True)
                ]
            choice = {"index": 0, "message": message, "finish_reason": reason}
            return json_reply({"id": "1", "object": "chat.completion", "choices": [choice], "usage": usage})
        deltas: list[Json] = [{"content": word} for word in words(text)]
        for index, call in enumerate(calls):
            arguments = json.dumps(call.arguments)
            start = {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}}
            deltas.append({"tool_calls": [{"index": index, **start}]})
            parts = (arguments[:3], arguments[3:])
            deltas += [{"tool_calls": [{"index": index, "function": {"arguments": part}}]} for part in parts]
        choices: list[Json] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
        choices.append({"index": 0, "delta": {}, "finish_reason": reason})
        chunks: list[Json] = [{"id": "1", "object": "chat.completion.chunk", "choices": [choice]} for choice in choices]
        return event_stream([*chunks, {"id": "1", "choices": [], "usage": usage}, "[DONE]"])

    def read(self, body: Json) -> Transcript:
        found = Transcript(tools=[tool["function"]["name"] for tool in body.get("tools", [])])
        for message in body["messages"]:
            text = join_text(message.get("content"))
            if message["role"] == "system":
                found.system += text
            elif message["role"] == "user":
                found.user.append(text)
            elif message["role"] == "tool":
                found.results.append(text)
            else:
                found.assistant.append(text)
                for call in message.get("tool_calls", []):
                    found.calls.append((call["function"]["name"], json.loads(call["function"]["arguments"])))
        return found


class AnthropicService(Service):
    """Anthropic's Messages."""

    def reply(self, text: str = "", calls: Sequence[Call] = (), *, whole: bool = False) -> Reply:
        reason = "tool_use" if calls else "end_turn"
        start = {"id": "msg_1", "type": "message", "role": "assistant", "model": self.model}
        usage = {"input_tokens": 10, "output_tokens": 5}
        blocks: list[Json] = [{"type": "text", "text": text}] if text else []
        blocks += [{"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments} for call in calls]
        if whole:
            return json_reply({**start, "content": blocks, "stop_reason": reason, "usage": usage})
        events: list[Json] = [{"type": "message_start", "message": {**start, "content": [], "usage": usage}}]
        for index, block in enumerate(blocks):
            if block["type"] == "text":
                empty: Json = {"type": "text", "text": ""}
                deltas: list[Json] = [{"type": "text_delta", "text": word} for word in words(text)]
            else:
                empty = {**block, "input": {}}
                arguments = json.dumps(block["input"])
                parts = (arguments[:3], arguments[3:])
                deltas = [{"type": "input_json_delta", "partial_json": part} for part in parts]
            events.append({"type": "content_block_start", "index": index, "content_block": empty})
            events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
            events.append({"type": "content_block_stop", "index": index})
        events.append({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 5}})
        return event_stream([*events, {"type": "message_stop"}], named=True)

    def read(self, body: Json) -> Transcript:
        tools = [tool["name"] for tool in body.get("tools", [])]
        found = Transcript(join_text(body["system"]), tools=tools)
        for message in body["messages"]:
            content = message["content"]
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
            spoken = "".join(block["text"] for block in blocks if block["type"] == "text")
            if message["role"] == "assistant":
                found.assistant.append(spoken)
            elif spoken:
                found.user.append(spoken)
            for block in blocks:
                if block["type"] == "tool_use":
                    found.calls.append((block["name"], block["input"]))
                elif block["type"] == "tool_result":
                    found.results.append(join_text(block.get("content")))
        return found


class GeminiService(Service):
    """Gemini's generateContent."""

    def reply(self, text: str = "", calls: Sequence[Call] = (), *, whole: bool = False) -> Reply:
        parts: list[Json] = [{"text": text}] if whole and text else [{"text": word} for word in words(text)]
        for place, call in enumerate(calls):
            signature = {"thoughtSignature": "c2lnbmF0dXJl"} if place == 0 else {}
            parts.append({"functionCall": {"name": call.name, "args": call.arguments}, **signature})
        usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}

        def chunk(some: list[Json], reason: str | None) -> Json:
            candidate: Json = {"content": {"role": "model", "parts": some}, "index": 0}
            if reason:
                candidate["finishReason"] = reason
            return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": self.model}

        if whole:
            return json_reply(chunk(parts, "STOP"))
        return event_stream([*(chunk([part], None) for part in parts[:-1]), chunk(parts[-1:], "STOP")])

    def read(self, body: Json) -> Transcript:
        tools = [one["name"] for tool in body.get("tools", []) for one in tool.get("functionDeclarations", [])]
        found = Transcript(join_text(body["systemInstruction"]["parts"]), tools=tools)
        for turn in body["contents"]:
            spoken = "".join(part.get("text", "") for part in turn["parts"])
            if turn["role"] == "model":
                found.assistant.append(spoken)
            elif spoken:
                found.user.append(spoken)
            for part in turn["parts"]:
                if call := part.get("functionCall"):
                    found.calls.append((call["name"], call["args"]))
                if response := part.get("functionResponse"):
                    found.results.append(str(next(iter(response["response"].values()))))
        return found


class OllamaService(Service):
    """Ollama's own chat API: one JSON object per line."""

    def reply(self, text: str = "", calls: Sequence[Call] = (), *, whole: bool = False) -> Reply:
        tool_calls = [{"function": {"name": call.name, "arguments": call.arguments}} for call in calls]
        end = {"done": True, "done_reason": "stop", "prompt_eval_count": 9999, "eval_count": 5}
        message: Json = {"role": "assistant", "content": text}
        if whole:
            return json_reply({"model": self.model, "message": message | {"tool_calls": tool_calls}, **end})
        messages: list[Json] = [{"role": "assistant", "content": word} for word in words(text)]
        if calls:
            messages.append({"role": "assistant", "content": "", "tool_calls": tool_calls})
        lines: list[Json] = [{"model": self.model, "message": one, "done": False} for one in messages]
        lines.append({"model": self.model, "message": {"role": "assistant", "content": ""}, **end})
        return Reply([json.dumps(line).encode() + b"\n" for line in lines], content_type="application/x-ndjson")

    def read(self, body: Json) -> Transcript:
        found = Transcript(tools=[tool["function"]["name"] for tool in body.get("tools", [])])
        for message in body["messages"]:
            if message["role"] == "system":
                found.system += message["content"]
            elif message["role"] == "user":
                found.user.append(message["content"])
            elif message["role"] == "tool":
                found.results.append(message["content"])
            else:
                found.assistant.append(message["content"])
                for call in message.get("tool_calls", []):
                    found.calls.append((call["function"]["name"], call["function"]["arguments"]))
        return found


SERVICES: dict[str, Service] = {
    service.name: service
    for service in (
        ChatCompletionsService("openrouter", "/api/v1", "/api/v1/chat/completions", "vendor/test-model"),
        ChatCompletionsService("openai", "/v1", "/v1/chat/completions"),
        AnthropicService("anthropic", "", "/v1/messages"),
        OllamaService("ollama", "", "/api/chat"),
        ChatCompletionsService("deepseek", "", "/chat/completions"),
        ChatCompletionsService("lmstudio", "/v1", "/v1/chat/completions"),
        ChatCompletionsService("moonshot", "/v1", "/v1/chat/completions"),
        ChatCompletionsService("xai", "/v1", "/v1/chat/completions"),
        GeminiService("gemini", "", "/v1beta/models/"),
    )
}
OPENROUTER = SERVICES["openrouter"]
