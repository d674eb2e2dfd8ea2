"""Ollama: models on this machine, in its own API. https://docs.ollama.com/api

Its streams are NDJSON, arguments are objects, model parameters lie in `options`, and there is no choice of tools:
none on offer is none called. What does not fit the context of a loaded model is cut off at the front without a
word, so every request asks for a context that holds it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from io import StringIO
from typing import Any

from ask import (
    Answer,
    CallDelta,
    ChatRequest,
    Finish,
    HttpRequest,
    Message,
    ModelInfo,
    Native,
    Provider,
    ProviderError,
    ProviderInfo,
    ReasoningDelta,
    Remedy,
    ServerEvent,
    TextDelta,
    ToolCall,
    ToolSpec,
    Usage,
    arguments_object,
    as_dict,
    as_int,
    as_list,
    as_text,
    error_text,
    find_error,
    normalize_tool,
    parse_json,
    read_tool_calls,
)

from .ollama_requests import IMAGE_TYPES, compute_context_size, measure_json_bytes, remove_images, split_parameters

MAX_BYTES_PER_TOKEN = 8
"""More than any text has: a model that read fewer tokens than that makes has not read it all."""

CALL_OVERHEAD = 10_000
"""What a tool call counts besides its line: more than it takes in memory."""
MAX_FIELDS = 100
"""How many fields of a stream's lines are kept."""

FORMAT_ERROR_PATTERN = re.compile(r"grammar|(?:invalid|in|for) format|JSON schema", re.IGNORECASE)
"""How it says, with a status that others retry, that it cannot hold a model to a schema."""


class Ollama(Provider):
    """Ollama's own API."""

    # Requests

    def provider_takes_attachment(self, model: str, media_type: str) -> bool:
        """Images, of models that see; it takes sound too, in the same place, but models make up what they hear."""
        return media_type in IMAGE_TYPES

    def provider_build_request(self, request: ChatRequest, key: str) -> HttpRequest:
        return HttpRequest("/api/chat", self.build_body(request), build_headers(key))

    def build_body(self, request: ChatRequest) -> dict[str, Any]:
        """The body of a chat request."""
        body: dict[str, Any] = {"model": request.model, "stream": request.stream}
        body["messages"] = [self.format_message(message, request.model) for message in request.messages]
        tools = self.provider_format_tools(request.tools)
        if tools and request.tool_choice != "none":
            body["tools"] = tools
        elif request.schema is not None:  # beside tools, it would keep the model from calling any
            body["format"] = dict(request.schema)
        beside, options = split_parameters(request.options)
        texts = [[remove_images(wire) for wire in body["messages"]], tools]
        images = sum(len(message.attachments) for message in request.messages)
        options.setdefault("num_ctx", compute_context_size(texts, options.get("num_predict"), images))
        return body | beside | {"options": options}

    def format_message(self, message: Message, model: str) -> dict[str, Any]:
        """One message in this wire, with the thinking that led to it."""
        if message.role == "tool":
            return self.provider_format_tool_result(message.tool_call_id, message.tool_name, message.content)
        wire: dict[str, Any] = {"role": message.role, "content": message.content}
        if message.attachments:
            wire["images"] = [attachment.base64 for attachment in message.attachments]
        if message.tool_calls:
            wire["tool_calls"] = [
                {"id": call.id, "function": {"name": call.name, "arguments": arguments_object(call.arguments) or {}}}
                for call in message.tool_calls
            ]
        return wire | dict(self.native_for(message, model))

    def provider_format_tools(self, tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
        forms = [normalize_tool(tool, inline_references=True) for tool in tools]
        return [form._replace(parameters=filter_parameters(form.parameters)).as_function() for form in forms]

    def provider_format_tool_result(self, tool_call_id: str, tool_name: str, result: str) -> dict[str, Any]:
        return {"role": "tool", "tool_name": tool_name, "tool_call_id": tool_call_id, "content": result}

    def native_for(self, message: Message, model: str) -> Mapping[str, Any]:
        """Thinking goes to models of the same name, whatever their tag: names here tell no vendor."""
        native = message.native
        same = native is not None and strip_tag(native.model) == strip_tag(model)
        return super().native_for(message, model) if same else {}

    # Answers

    def provider_stream_reader(self) -> OllamaStreamReader:
        return OllamaStreamReader()

    def provider_parse_response(self, response: Mapping[str, Any]) -> Answer:
        message = as_dict(response.get("message"))
        thinking = as_text(message.get("thinking"))
        native = Native(self.info.name, as_text(response.get("model")), {"thinking": thinking}) if thinking else None
        answer = Answer(
            text=as_text(message.get("content")),
            reasoning=thinking,
            finish=Finish.LENGTH if response.get("done_reason") == "length" else Finish.STOP,
            usage=Usage(
                # It sends 0 for "not counted": https://github.com/ollama/ollama/issues/5370
                input_tokens=as_int(response.get("prompt_eval_count")) or None,
                output_tokens=as_int(response.get("eval_count")),
                cached_tokens=as_int(response.get("prompt_eval_cached_count")),
            ),
            native=native,
        )
        if response.get("error"):
            status = as_int(response.get("status")) or 200
            body = json.dumps({"error": response["error"]})
            failure = self.provider_parse_error(status if 400 <= status <= 599 else 200, {}, body)
            failure.answer = answer
            raise failure
        return answer

    def provider_parse_tool_calls(self, response: Mapping[str, Any]) -> list[ToolCall]:
        return read_tool_calls(as_dict(response.get("message")).get("tool_calls"))

    def provider_parse_error(self, status: int, headers: Mapping[str, str], body: str) -> ProviderError:
        error = super().provider_parse_error(status, headers, body)
        error.status = None if status == 200 else status
        error.message = error_text(find_error(parse_json(body))) or error.message
        missing = re.search(r"model ['\"]?([^'\" ]+)['\"]? not found", error.message)
        if missing and status == 404:
            error.advice = f"ollama pull {missing[1]} installs it; ask models -p ollama lists those that are there"
        elif "does not support tools" in error.message:
            error.remedy = Remedy.WITHOUT_TOOLS
            error.advice = "use --no-tools, or a model that can call tools"
        elif "does not support thinking" in error.message:
            error.parameter = "think"
            error.advice = "leave out think and reasoning_effort"
        elif FORMAT_ERROR_PATTERN.search(error.message):
            error.remedy = Remedy.WITHOUT_SCHEMA
        elif "more system memory" in error.message:
            error.remedy = Remedy.NONE
            error.advice = "use a smaller model, or a smaller context (-o num_ctx=N)"
        elif status == 401:
            error.advice = "run ollama signin, or set OLLAMA_API_KEY"
        return error

    def provider_notice(self, request: ChatRequest, answer: Answer) -> str:
        """A line for the user where an answer shows that the front of its request was dropped; else "".

        Thinking of the past does not count: models leave it out themselves. `input_tokens` holds cached ones too,
        and is None where an old server told nothing.
        """
        read = answer.usage.input_tokens
        bare = [message._replace(native=None, attachments=()) for message in request.messages]
        messages = [self.format_message(message, request.model) for message in bare]
        sent = measure_json_bytes([messages, self.provider_format_tools(request.tools)]) // MAX_BYTES_PER_TOKEN
        if read is None or read >= sent:
            return ""
        return (
            f"the model read {read} tokens of at least {sent}, so the front was dropped; "
            "raise -o num_ctx=N, or use a model with a longer context"
        )

    # Models

    def provider_models_request(self, key: str) -> HttpRequest:
        return HttpRequest("/api/tags", None, build_headers(key), "GET")

    def provider_parse_models(self, body: Any) -> list[ModelInfo]:
        entries = [as_dict(entry) for entry in as_list(as_dict(body).get("models"))]
        return [parse_model(entry) for entry in entries if as_text(entry.get("name")) and can_chat(entry)]


class OllamaStreamReader:
    """Reads one stream; see `ask.StreamReader`."""

    def __init__(self) -> None:
        self.ended = self.over = False
        self.size = 0
        self._response_fields: dict[str, Any] = {}
        self._content = StringIO()
        self._thinking = StringIO()
        self._tool_calls: list[Any] = []

    def feed(self, event: ServerEvent) -> list[TextDelta | ReasoningDelta | CallDelta]:
        if self.ended:
            return []
        line = parse_json(event.data)
        if not isinstance(line, dict):
            line = {"error": f"a line that is not of its API: {event.data[:200]}"}
        message = as_dict(line.pop("message", None))
        if len(self._response_fields) < MAX_FIELDS:
            self._response_fields |= {name: value for name, value in line.items() if value is not None}
        self.over = line.get("done") is True
        self.ended = self.over or bool(line.get("error"))
        seen: list[TextDelta | ReasoningDelta | CallDelta] = []
        if thinking := as_text(message.get("thinking")):
            self.size += self._thinking.write(thinking)
            seen.append(ReasoningDelta(thinking))
        if content := as_text(message.get("content")):
            self.size += self._content.write(content)
            seen.append(TextDelta(content))
        calls = as_list(message.get("tool_calls"))
        self.size += len(event.data) if calls else 0
        for call in calls:
            name = as_text(as_dict(as_dict(call).get("function")).get("name"))
            seen.append(CallDelta(len(self._tool_calls), name or "unnamed"))
            self._tool_calls.append(call)
            self.size += CALL_OVERHEAD
        return seen

    def response(self) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": self._content.getvalue()}
        if self._thinking.tell():
            message["thinking"] = self._thinking.getvalue()
        if self._tool_calls:
            message["tool_calls"] = self._tool_calls
        return self._response_fields | {"message": message}


def filter_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool's parameters with what Ollama reads of them, so that the context is not sized for more."""
    return {name: parameters[name] for name in ("type", "properties", "required") if name in parameters}


def build_headers(key: str) -> dict[str, str]:
    """The key as a bearer token, if there is one: ollama.com wants it, a local server does not."""
    return {"Authorization": f"Bearer {key}"} if key else {}


def strip_tag(model: str) -> str:
    """The name of a model without its size and version: "qwen3" of "qwen3:4b"."""
    return model.partition(":")[0]


def can_chat(entry: Mapping[str, Any]) -> bool:
    """Whether an installed model answers: one that only embeds does not, told or, by old servers, shown in names."""
    capabilities = as_list(entry.get("capabilities"))
    if capabilities:
        return "completion" in capabilities
    family = as_text(as_dict(entry.get("details")).get("family"))
    return "bert" not in family and "embed" not in as_text(entry.get("name"))


def parse_model(entry: Mapping[str, Any]) -> ModelInfo:
    """One entry of the list of installed models."""
    details = as_dict(entry.get("details"))
    capabilities = as_list(entry.get("capabilities"))
    return ModelInfo(
        id=as_text(entry.get("name")),
        title=" ".join(filter(None, (as_text(details.get(name)) for name in ("parameter_size", "quantization_level")))),
        context_length=as_int(details.get("context_length")),
        tools="tools" in capabilities if capabilities else None,
    )


provider = Ollama(
    ProviderInfo(
        name="ollama",
        title="Ollama",
        base_url="http://localhost:11434",
        key_env=("OLLAMA_API_KEY",),
        needs_key=False,
        framing="ndjson",
        docs="https://docs.ollama.com/api",
        base_url_env=("OLLAMA_HOST",),
        offline_advice="start it with ollama serve, or set OLLAMA_HOST to where it runs",
        no_model_advice="install one with ollama pull MODEL (https://ollama.com/library)",
    )
)
