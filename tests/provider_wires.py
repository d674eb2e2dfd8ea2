"""The nine services with their wire formats: builds answers, and validates and parses requests.

Answers are built from the same parts for every wire format, and requests are parsed to the same neutral messages.
"""

from __future__ import annotations

import base64
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any, NamedTuple

from ask import Attachment, Message, Provider, ToolCall
from providers import anthropic, deepseek, gemini, lmstudio, moonshot, ollama, openai, openrouter, xai
from tests import responses_wire
from tests import wire as chat_wire
from tests.model_server import Reply
from tests.program import TEST_KEY
from tests.providers import anthropic_wire, gemini_wire
from tests.providers import test_ollama as ollama_wire
from tests.providers.test_ollama_requests import read_by_ollama, without_newer
from tests.wire import Json, without_fields

CALL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Tool names that all services accept."""
LONGEST_CHAT_ID = 40
LONGEST_CALL_ID = 64
ANTHROPIC_ID = re.compile(r"[A-Za-z0-9_-]+")
ANTHROPIC_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")
GEMINI_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")


class Reasoning(NamedTuple):
    """Reasoning before an answer, with its signature in base64."""

    text: str
    signature: str


Part = str | Reasoning | ToolCall
"""A part of an answer: text, reasoning, or a call, whose arguments may be invalid JSON."""


@dataclass(frozen=True)
class Wire(ABC):
    """A service and its wire format.

    Attributes:
        provider: The provider under test.
        address: The path of its base URL, in the form that the vendor's own SDK takes.
        path: The path of chat requests, beginning with `address`.
        model: The model that answers.
        required_reasoning_fields: The fields of `Reasoning` that the model must get back with tool results.
    """

    provider: Provider
    address: str
    path: str
    model: str
    required_reasoning_fields: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.provider.info.name

    @abstractmethod
    def says(self, *parts: Part, whole: bool = False, cut: bool = False) -> Reply:
        """Return an answer of these parts: streamed unless `whole`, without its end if `cut`."""

    def refuses(self, status: int, body: Json) -> Reply:
        """Return an error."""
        return chat_wire.whole_reply(body, status)

    @abstractmethod
    def validate(self, body: Json) -> None:
        """Fail if the service would reject the request, by the types of its SDK and additional rules."""

    @abstractmethod
    def read(self, body: Json) -> Iterator[Message]:
        """Parse a request as neutral messages; ids and names that the wire format lacks are ""."""

    @abstractmethod
    def offered(self, body: Json) -> list[str]:
        """Return the names of the tools in a request."""

    def read_conversation(self, body: Json) -> list[Message]:
        """Validate and parse a request: one system prompt first, each call answered at once and in order."""
        self.validate(body)
        messages = list(self.read(body))
        assert [message.role for message in messages].count("system") == 1
        assert messages[0].role == "system"
        open_calls: list[ToolCall] = []
        for message in messages:
            if message.role == "tool":
                call = open_calls.pop(0)
                assert message.tool_call_id == call.id
                assert message.tool_name in ("", call.name)
                continue
            assert not open_calls
            open_calls = list(message.tool_calls)
            ids = [call.id for call in open_calls if call.id]
            assert len(set(ids)) == len(ids)
            assert all(isinstance(json.loads(call.arguments), dict) for call in open_calls)
        assert not open_calls
        return messages

    def system(self, body: Json) -> str:
        return self.read_conversation(body)[0].content

    def asked(self, body: Json) -> list[str]:
        """Return the user's prompt."""
        return [message.content for message in self.read_conversation(body) if message.role == "user"]

    def results(self, body: Json) -> list[Message]:
        return [message for message in self.read_conversation(body) if message.role == "tool"]


def join_text(parts: Sequence[Part]) -> str:
    return "".join(part for part in parts if isinstance(part, str))


def list_calls(parts: Sequence[Part]) -> list[ToolCall]:
    return [part for part in parts if isinstance(part, ToolCall)]


def decode_arguments(call: ToolCall) -> Any:
    """Decode arguments for wire formats that send JSON values; NaN, which Python accepts, is invalid."""
    try:
        value = json.loads(call.arguments)
        json.dumps(value, allow_nan=False)
    except ValueError:
        return call.arguments
    return value


# Chat Completions


def reasoning_details(thought: Reasoning) -> Json:
    """Return reasoning in OpenRouter's format."""
    detail = {"type": "reasoning.text", "text": thought.text, "signature": thought.signature, "index": 0}
    return {"reasoning": thought.text, "reasoning_details": [detail]}


def reasoning_content(thought: Reasoning) -> Json:
    return {"reasoning_content": thought.text}


@dataclass(frozen=True)
class Chat(Wire):
    """Chat Completions. `thinking` returns the message fields for reasoning; `beyond` are fields that OpenAI lacks."""

    thinking: Callable[[Reasoning], Json] = reasoning_content
    beyond: tuple[str, ...] = ()

    def says(self, *parts: Part, whole: bool = False, cut: bool = False) -> Reply:
        reason = "tool_calls" if list_calls(parts) else "stop"
        if whole:
            return chat_wire.whole_reply(self.answer(parts, reason) | {"model": self.model})
        chunks: list[Json] = []
        for part in parts:
            if isinstance(part, str):
                chunks.append(chat_wire.text(part))
            elif isinstance(part, Reasoning):
                chunks.append(chat_wire.chunk(self.thinking(part)))
            else:
                index = list_calls(parts).index(part)
                chunks.append(chat_wire.call(index, id=part.id, name=part.name, arguments=""))
                chunks.append(chat_wire.call(index, arguments=part.arguments))
        if not cut:
            chunks += [chat_wire.finish(reason), chat_wire.usage()]
        return chat_wire.streams(*(chunk | {"model": self.model} for chunk in chunks), done=not cut)

    def answer(self, parts: Sequence[Part], reason: str) -> Json:
        more: Json = {}
        for part in parts:
            more |= self.thinking(part) if isinstance(part, Reasoning) else {}
        calls = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in list_calls(parts)
        ]
        more |= {"tool_calls": calls} if calls else {}
        return chat_wire.answer(join_text(parts) or None, finish=reason, **more)

    def validate(self, body: Json) -> None:
        plain = without_fields(body, set(self.beyond))
        assert chat_wire.read_by_openai(plain) == plain
        calls = [call for message in self.read(body) for call in message.tool_calls]
        assert all(CALL_NAME.fullmatch(call.name) and len(call.id) <= LONGEST_CHAT_ID for call in calls)

    def read(self, body: Json) -> Iterator[Message]:
        for message in body["messages"]:
            calls = [
                ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"])
                for call in message.get("tool_calls", [])
            ]
            content = message["content"] or ""
            files = read_files(content)
            yield Message(
                message["role"], read_content(content), tuple(calls), message.get("tool_call_id", ""), "", files
            )

    def offered(self, body: Json) -> list[str]:
        return [tool["function"]["name"] for tool in body.get("tools", [])]


# Responses


class ResponsesApi(Wire):
    """OpenAI's Responses API."""

    def refuses(self, status: int, body: Json) -> Reply:
        return responses_wire.whole_reply(body, status)

    def says(self, *parts: Part, whole: bool = False, cut: bool = False) -> Reply:
        texts = groupby(parts, lambda part: isinstance(part, str))
        joined = (part for is_text, group in texts for part in (["".join(map(str, group))] if is_text else group))
        made = responses_wire.response(*map(self.item, joined), model=self.model)
        if whole:
            return responses_wire.whole_reply(made)
        return responses_wire.streams(*responses_wire.events(made)[: -1 if cut else None])

    def item(self, part: Part) -> Json:
        if isinstance(part, str):
            return responses_wire.message(part)
        if isinstance(part, Reasoning):
            return responses_wire.reasoning(part.text, encrypted=part.signature)
        return responses_wire.call(part.name, part.arguments, part.id)

    def validate(self, body: Json) -> None:
        responses_wire.check_request(body)
        calls = [item for item in body["input"] if item.get("type") == "function_call"]
        assert all(CALL_NAME.fullmatch(call["name"]) and len(call["call_id"]) <= LONGEST_CALL_ID for call in calls)
        assert len({call["call_id"] for call in calls}) == len(calls)

    def read(self, body: Json) -> Iterator[Message]:
        """Parse the items; those that the model wrote in a row are one message."""
        assistant: Message | None = None
        for item in body["input"]:
            kind = item.get("type", "message")
            if kind == "function_call":
                call = ToolCall(item["call_id"], item["name"], item["arguments"])
                before = assistant or Message("assistant")
                assistant = before._replace(tool_calls=(*before.tool_calls, call))
                continue
            if assistant and kind != "reasoning" and item.get("role") != "assistant":
                yield assistant
                assistant = None
            if kind == "function_call_output":
                output = item["output"]
                yield Message("tool", read_content(output), (), item["call_id"], "", read_files(output))
            elif kind == "message" and item["role"] == "assistant":
                before = assistant or Message("assistant")
                assistant = before._replace(content=before.content + read_content(item["content"]))
            elif kind == "message":
                yield Message(item["role"], read_content(item["content"]), attachments=read_files(item["content"]))
        if assistant:
            yield assistant

    def offered(self, body: Json) -> list[str]:
        return [tool["name"] for tool in body.get("tools", [])]


def read_content(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def read_files(content: Any) -> tuple[Attachment, ...]:
    """Return the files in a list of content parts, in any service's format, decoded and without their names."""
    return tuple(filter(None, map(decode_file, content if isinstance(content, list) else [])))


def decode_file(part: Json) -> Attachment | None:
    """Return the file in a content part; None for a part of text or of a call."""
    match part:
        case {"image_url": {"url": str(url)}} | {"image_url": str(url)}:
            return decode_data_url(url)
        case {"file": {"file_data": str(url)}} | {"type": "input_file", "file_data": str(url)}:
            return decode_data_url(url)
        case {"input_audio": {"data": str(data), "format": str(name)}}:
            return Attachment("", f"audio/{name}", base64.b64decode(data))
        case {"source": {"type": "base64", "media_type": str(media_type), "data": str(data)}}:
            return Attachment("", media_type, base64.b64decode(data))
        case {"inlineData": {"mimeType": str(media_type), "data": str(data)}}:
            return Attachment("", media_type, base64.b64decode(data))
    return None


def decode_data_url(url: str) -> Attachment:
    media_type, data = url.removeprefix("data:").split(";base64,")
    return Attachment("", media_type, base64.b64decode(data))


# Anthropic


class Anthropic(Wire):
    def says(self, *parts: Part, whole: bool = False, cut: bool = False) -> Reply:
        reason = "tool_use" if list_calls(parts) else "end_turn"
        if whole:
            return chat_wire.whole_reply(anthropic_wire.message_of(*map(self.block, parts), reason=reason))
        blocks: list[list[Json]] = []
        for place, part in enumerate(parts):
            if isinstance(part, str):
                blocks.append(anthropic_wire.text(place, part))
            elif isinstance(part, Reasoning):
                blocks.append(anthropic_wire.thinking(place, part.text, signature=part.signature))
            else:
                blocks.append(anthropic_wire.call(place, part.name, part.arguments, id=part.id))
        end = [] if cut else [anthropic_wire.ends(reason)]
        return anthropic_wire.streams(anthropic_wire.begins(), *blocks, *end)

    def block(self, part: Part) -> Json:
        if isinstance(part, str):
            return {"type": "text", "text": part}
        if isinstance(part, Reasoning):
            return {"type": "thinking", "thinking": part.text, "signature": part.signature}
        return {"type": "tool_use", "id": part.id, "name": part.name, "input": decode_arguments(part)}

    def validate(self, body: Json) -> None:
        assert anthropic_wire.read_by_anthropic(body) == body
        check_turns(body["messages"])
        blocks = [*body["system"], *(block for message in body["messages"] for block in message["content"])]
        assert all(block["text"].strip() for block in blocks if block["type"] == "text")
        ids = [block["id"] for block in blocks if block["type"] == "tool_use"]
        assert all(ANTHROPIC_ID.fullmatch(call_id) for call_id in ids)
        assert all(ANTHROPIC_NAME.fullmatch(block["name"]) for block in blocks if block["type"] == "tool_use")
        assert len(set(ids)) == len(ids)

    def read(self, body: Json) -> Iterator[Message]:
        yield Message("system", "\n\n".join(block["text"] for block in body["system"]))
        for message in body["messages"]:
            text = "".join(block["text"] for block in message["content"] if block["type"] == "text")
            if message["role"] == "assistant":
                calls = [
                    ToolCall(block["id"], block["name"], json.dumps(block["input"]))
                    for block in message["content"]
                    if block["type"] == "tool_use"
                ]
                yield Message("assistant", text, tuple(calls))
                continue
            for block in message["content"]:
                if block["type"] == "tool_result":
                    content = block.get("content", "")
                    yield Message("tool", read_content(content), (), block["tool_use_id"], "", read_files(content))
            if text:
                assert message["content"][-1]["type"] == "text", "results come before what the user says"
                yield Message("user", text, attachments=read_files(message["content"]))

    def offered(self, body: Json) -> list[str]:
        return [tool["name"] for tool in body.get("tools", [])]


def check_turns(turns: Sequence[Json]) -> None:
    """Check that user and model alternate, starting with the user."""
    assert [turn["role"] == "user" for turn in turns] == [place % 2 == 0 for place in range(len(turns))]


# Gemini


class Gemini(Wire):
    def says(self, *parts: Part, whole: bool = False, cut: bool = False) -> Reply:
        made = self.parts(parts)
        if whole:
            return chat_wire.whole_reply(gemini_wire.whole(*made))
        return gemini_wire.streamed(*gemini_wire.chunks(*made, finish=None if cut else "STOP"))

    def parts(self, parts: Sequence[Part]) -> list[Json]:
        """Return Gemini's parts; a signature is on the first call, or else on the last text."""
        made: list[Json] = []
        signature = next((part.signature for part in parts if isinstance(part, Reasoning)), "")
        bearer = next((place for place, part in enumerate(parts) if isinstance(part, ToolCall)), len(parts) - 1)
        for place, part in enumerate(parts):
            if isinstance(part, str):
                one = gemini_wire.text(part)
            elif isinstance(part, Reasoning):
                one = gemini_wire.thought(part.text)
            else:
                one = gemini_wire.call(part.name, id=part.id)
                one["functionCall"]["args"] = decode_arguments(part)
            made.append(one | ({"thoughtSignature": signature} if signature and place == bearer else {}))
        return made

    def validate(self, body: Json) -> None:
        assert gemini_wire.read_by_google(body) == gemini_wire.plain(body)
        turns = body["contents"]
        # A message that follows results has a turn of its own.
        check_turns(
            [turn for last, turn in pairwise([{}, *turns]) if not (turn["role"] == "user" and has_results(last))]
        )
        for turn in turns:
            assert not has_results(turn) or all("functionResponse" in part for part in turn["parts"])
            calls = [part for part in turn["parts"] if "functionCall" in part]
            assert all(GEMINI_NAME.fullmatch(call["functionCall"]["name"]) for call in calls)
            assert all(call.get("thoughtSignature") for call in calls[:1]), "Gemini 3 refuses such a call"

    def read(self, body: Json) -> Iterator[Message]:
        yield Message("system", "".join(part["text"] for part in body["systemInstruction"]["parts"]))
        for turn in body["contents"]:
            spoken = [part["text"] for part in turn["parts"] if "text" in part and not part.get("thought")]
            for part in turn["parts"]:
                if "functionResponse" in part:
                    given = part["functionResponse"]
                    output, files = given["response"]["output"], read_files(given.get("parts", []))
                    yield Message("tool", output, (), given.get("id", ""), given["name"], files)
            calls = [part["functionCall"] for part in turn["parts"] if "functionCall" in part]
            if turn["role"] == "model":
                made = (ToolCall(call.get("id", ""), call["name"], json.dumps(call.get("args", {}))) for call in calls)
                yield Message("assistant", "".join(spoken), tuple(made))
            elif spoken:
                yield Message("user", "".join(spoken), attachments=read_files(turn["parts"]))

    def offered(self, body: Json) -> list[str]:
        return [one["name"] for tool in body.get("tools", []) for one in tool["functionDeclarations"]]


def has_results(turn: Json) -> bool:
    return any("functionResponse" in part for part in turn.get("parts", []))


# Ollama

ALL_READ = 9_999
"""Context tokens, enough that no request was truncated."""


class Ollama(Wire):
    def says(self, *parts: Part, whole: bool = False, cut: bool = False) -> Reply:
        lines = [self.line(part) for part in parts]
        counts: Json = {"prompt_eval_count": ALL_READ}
        if not whole:
            return ollama_wire.streams(*lines, *([] if cut else [ollama_wire.done(**counts)]))
        message: Json = {"content": join_text(parts)}
        for line in lines:
            line_message = line["message"]
            message |= {"thinking": line_message["thinking"]} if "thinking" in line_message else {}
            if "tool_calls" in line_message:
                message["tool_calls"] = message.get("tool_calls", []) + line_message["tool_calls"]
        return chat_wire.whole_reply(ollama_wire.whole(**message) | counts)

    def line(self, part: Part) -> Json:
        if isinstance(part, str):
            return ollama_wire.text_line(part)
        if isinstance(part, Reasoning):
            return ollama_wire.thinking_line(part.text)
        return ollama_wire.call_line(part.name, decode_arguments(part), id=part.id)

    def validate(self, body: Json) -> None:
        assert read_by_ollama(body) == without_newer(body)

    def read(self, body: Json) -> Iterator[Message]:
        for message in body["messages"]:
            calls = [
                ToolCall(call["id"], call["function"]["name"], json.dumps(call["function"]["arguments"]))
                for call in message.get("tool_calls", [])
            ]
            names = message.get("tool_call_id", ""), message.get("tool_name", "")
            files = tuple(Attachment("", "", base64.b64decode(data)) for data in message.get("images", []))
            yield Message(message["role"], message["content"], tuple(calls), *names, files)

    def offered(self, body: Json) -> list[str]:
        return [tool["function"]["name"] for tool in body.get("tools", [])]


CONTENT = ("reasoning_content",)
SERVICES: dict[str, Wire] = {
    one.name: one
    for one in (
        Chat(
            openrouter.provider,
            "/api/v1",
            "/api/v1/chat/completions",
            "anthropic/claude-test",
            ("text", "signature"),
            reasoning_details,
            ("reasoning_details", "cache_control"),
        ),
        ResponsesApi(openai.provider, "/v1", "/v1/responses", openai.DEFAULT_MODEL, ("text", "signature")),
        Anthropic(anthropic.provider, "", "/v1/messages", anthropic_wire.MODEL, ("text", "signature")),
        Ollama(ollama.provider, "", "/api/chat", ollama_wire.MODEL, ("text",)),
        Chat(deepseek.provider, "", "/chat/completions", "deepseek-test", ("text",), beyond=CONTENT),
        Chat(lmstudio.provider, "/v1", "/v1/chat/completions", "local-test"),
        Chat(moonshot.provider, "/v1", "/v1/chat/completions", "kimi-test", ("text",), beyond=CONTENT),
        ResponsesApi(xai.provider, "/v1", "/v1/responses", "grok-test", ("text", "signature")),
        Gemini(gemini.provider, "", "/v1beta/models/", gemini_wire.MODEL, ("signature",)),
    )
}
"""All services by name."""


def build_service_variables(base_url: str) -> dict[str, str]:
    """Build the variables with which `ask` finds all services at a `ModelServer`."""
    root = base_url.removesuffix("/api/v1")
    return {
        variable: value
        for name, service in SERVICES.items()
        for variable, value in (
            (f"{name.upper()}_API_KEY", TEST_KEY),
            (f"{name.upper()}_BASE_URL", root + service.address),
        )
    }
