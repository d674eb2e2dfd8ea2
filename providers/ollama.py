"""Ollama: models on this machine, with its own API. https://docs.ollama.com/api

Streams are NDJSON, arguments are objects, model parameters go into `options`, and there is no `tool_choice`: to prevent
calls, no tools are sent. Input that exceeds the context of the loaded model is silently truncated at the front, so
every request asks for a context that is large enough.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ask import (
    ChatRequest,
    FinishReason,
    HttpRequest,
    Message,
    ModelInfo,
    ModelResponse,
    Provider,
    ProviderError,
    ProviderInfo,
    ProviderState,
    RetryAction,
    ToolCall,
    ToolSpec,
    Usage,
)
from ask.parsing import (
    AnswerAccumulator,
    decode_arguments,
    format_error_message,
    format_unknown_reason,
    merge_fields,
    read_dict,
    read_int,
    read_list,
    read_str,
    read_tool_calls,
    to_object_list,
)
from ask.profiles import ModelProfile

PARAMETER_NAMES = {"max_tokens": "num_predict", "max_completion_tokens": "num_predict"}
TOP_LEVEL_PARAMETERS = {"format", "keep_alive", "logprobs", "shift", "think", "top_logprobs", "truncate"}
IMAGE_TYPES = ("image/png", "image/jpeg", "image/webp")
"""For models with vision. The API also takes audio in the same field, but the models invent what they hear."""
THINKING_PAGE = "https://docs.ollama.com/capabilities/thinking"
THINK_VALUES = {"none": False, "low": "low", "medium": "medium", "high": "high", "max": "max"}
PROFILES = (
    ModelProfile("gpt-oss*", THINKING_PAGE, ("low", "medium", "high")),
    ModelProfile(
        "*",
        THINKING_PAGE,
        tuple(THINK_VALUES),
        {effort: {"think": value} for effort, value in THINK_VALUES.items()},
        attachments=IMAGE_TYPES,
    ),
)
TOKENS_PER_IMAGE = 2_048
"""A high estimate: 256 to 1,600 are usual."""
MAX_TOP_LOGPROBS = 20
"""https://docs.ollama.com/api/chat"""
MIN_CONTEXT_TOKENS = 8192
RESERVED_OUTPUT_TOKENS = 4096
"""Tokens reserved for the response if `max_tokens` is not set."""
BYTES_PER_TOKEN = 3
"""Bytes of a request's JSON per token, a low estimate: 2.9 to 4.6 have been measured."""
MAX_BYTES_PER_TOKEN = 8
"""More than any text has: if the model read fewer tokens than this implies, the input was truncated."""


class Ollama(Provider):
    """Ollama's own API."""

    profiles = PROFILES
    error_rules = (
        ("does not support tools", RetryAction.WITHOUT_TOOLS, "use --no-tools, or a model that can call tools"),
        ("error parsing tool call", RetryAction.retry(), ""),  # https://github.com/ollama/ollama/issues/12884
        ("does not support thinking", None, "leave out think and reasoning_effort"),
        ("(?i:grammar|(?:invalid|in|for) format|JSON schema)", RetryAction.WITHOUT_SCHEMA, ""),
        (
            "more system memory|out of memory|failed to allocate",
            RetryAction.NONE,
            "use a smaller model, or a smaller context (-o num_ctx=N)",
        ),
        ("^401 ", None, "run ollama signin, or set OLLAMA_API_KEY"),
    )

    # Requests

    def provider_build_request(self, request: ChatRequest, key: str) -> HttpRequest:
        return HttpRequest("/api/chat", self.build_body(request), self.build_key_header(key))

    def build_body(self, request: ChatRequest) -> dict[str, Any]:
        body: dict[str, Any] = {"model": request.model, "stream": request.stream}
        body["messages"] = [self.format_message(message, request.model) for message in request.messages]
        if request.tools and request.tool_choice != "none":
            body["tools"] = list(request.tools)
        elif request.schema is not None:  # together with tools, it would prevent all calls
            body["format"] = dict(request.schema)
        top_level, options = split_parameters(request.options)
        prompt_size = self.measure_prompt(request)
        images = sum(len(message.attachments) for message in request.messages)
        options.setdefault("num_ctx", compute_context_size(prompt_size, options.get("num_predict"), images))
        return body | top_level | {"options": options}

    def measure_prompt(self, request: ChatRequest) -> int:
        """Return the bytes of the messages and tools as JSON, without images."""
        texts = [self.format_message(message._replace(attachments=()), request.model) for message in request.messages]
        prompt = [texts, list(request.tools)]
        return len(json.dumps(prompt, ensure_ascii=False).encode("utf-8", "replace"))

    def format_message(self, message: Message, model: str) -> dict[str, Any]:
        """Format a message together with the thinking that led to it.

        Images are in user messages only. In a tool message, models such as qwen3-vl do not get them:
        https://github.com/ollama/ollama/blob/main/model/renderers/qwen3vl.go
        """
        if message.role == "tool":
            return dict(message.formatted_result or {})
        formatted: dict[str, Any] = {"role": message.role, "content": message.content}
        if message.attachments:
            formatted["images"] = [attachment.base64 for attachment in message.attachments]
        if message.tool_calls:
            formatted["tool_calls"] = [
                {"id": call.id, "function": {"name": call.name, "arguments": decode_arguments(call.arguments) or {}}}
                for call in message.tool_calls
            ]
        thinking = self.find_provider_state(message, model).get("thinking")
        return formatted | {"thinking": thinking} if thinking else formatted

    def provider_format_tools(self, tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
        specs = [Provider.normalize_tool(tool, inline_references=True) for tool in tools]
        return [spec._replace(parameters=filter_parameters(spec.parameters)).to_function() for spec in specs]

    def provider_format_tool_result(self, tool_call_id: str, tool_name: str, result: str) -> dict[str, Any]:
        return {"role": "tool", "tool_name": tool_name, "tool_call_id": tool_call_id, "content": result}

    def can_read_state(self, author: str, model: str) -> bool:
        """Check that the models have the same name, whatever their tag ("4b" in "qwen3:4b").

        Ollama's model names include no vendor, so the name is the only sign of a common family.
        """
        is_same_name = author.partition(":")[0] == model.partition(":")[0]
        return is_same_name and super().can_read_state(author, model)

    # Answers

    def provider_stream_reader(self) -> OllamaStreamReader:
        return OllamaStreamReader()

    def provider_parse_response(self, response: Mapping[str, Any]) -> ModelResponse:
        message = read_dict(response.get("message"))
        thinking = read_str(message.get("thinking"))
        state = (
            ProviderState(self.info.name, read_str(response.get("model")), {"thinking": thinking}) if thinking else None
        )
        answer = ModelResponse(
            text=read_str(message.get("content")),
            reasoning=thinking,
            finish_reason=FinishReason.LENGTH if response.get("done_reason") == "length" else FinishReason.STOP,
            usage=Usage(
                # Ollama sends 0 for "not counted": https://github.com/ollama/ollama/issues/5370
                input_tokens=read_int(response.get("prompt_eval_count")) or None,
                output_tokens=read_int(response.get("eval_count")),
                cached_tokens=read_int(response.get("prompt_eval_cached_count")),
            ),
            provider_state=state,
            finish_message=format_unknown_reason(response.get("done_reason"), ("length", "load", "unload")),
        )
        if not response.get("error"):
            return answer
        error = {"message": format_error_message(response["error"]), "status": response.get("status")}
        return self.check_answer(answer, self.parse_embedded_error(error))

    def provider_parse_tool_calls(self, response: Mapping[str, Any]) -> list[ToolCall]:
        return read_tool_calls(read_dict(response.get("message")).get("tool_calls"))

    def provider_logprob_options(self) -> dict[str, Any]:
        return {"logprobs": True, "top_logprobs": MAX_TOP_LOGPROBS}

    def provider_parse_logprobs(self, response: Mapping[str, Any]) -> list[dict[str, Any]]:
        return list(map(read_dict, read_list(response.get("logprobs"))))

    def provider_parse_error(self, status: int, headers: Mapping[str, str], body: str) -> ProviderError:
        error = super().provider_parse_error(status, headers, body)
        missing = re.search(r"model ['\"]?([^'\" ]+)['\"]? not found", error.message)
        if missing and status == 404:
            error.hint = f"ollama pull {missing[1]} installs it; ask models -p ollama lists the installed models"
        elif re.search("does not support thinking|think value", error.message):
            error.parameter = "think"
        return error

    def provider_notice(self, request: ChatRequest, answer: ModelResponse) -> str:
        """Return a notice if the response shows that the front of the request was dropped, otherwise "".

        Past thinking does not count, because models drop it themselves. `input_tokens` includes cached tokens; None
        means that an old server did not report it.
        """
        tokens_read = answer.usage.input_tokens
        messages = [message._replace(provider_state=None) for message in request.messages]
        minimum = self.measure_prompt(request._replace(messages=messages)) // MAX_BYTES_PER_TOKEN
        if tokens_read is None or tokens_read >= minimum:
            return ""
        return (
            f"the model read {tokens_read} tokens of at least {minimum}, so the beginning was dropped; "
            "raise -o num_ctx=N, or use a model with a longer context"
        )

    # Models

    def provider_models_request(self, key: str) -> HttpRequest:
        return HttpRequest("/api/tags", None, self.build_key_header(key), "GET")

    def provider_parse_models(self, body: Any) -> list[ModelInfo]:
        entries = [read_dict(entry) for entry in read_list(read_dict(body).get("models"))]
        return [parse_model(entry) for entry in entries if read_str(entry.get("name")) and can_chat(entry)]


COUNT_FIELDS = ("prompt_eval_count", "eval_count", "prompt_eval_cached_count")


class OllamaStreamReader(AnswerAccumulator):
    """Reads one stream; see `ask.StreamReader`."""

    def __init__(self) -> None:
        super().__init__()
        self._response_fields: dict[str, Any] = {}

    def read_event(self, fields: dict[str, Any]) -> None:
        message = read_dict(fields.get("message"))
        merge_fields(self._response_fields, fields, "message", "error", *COUNT_FIELDS)
        # Some servers send the reason for the end with `"done": false`.
        if fields.get("done") or fields.get("done_reason"):
            self.finish()
        self.add_usage({name: fields[name] for name in COUNT_FIELDS if name in fields})
        self.add_reasoning(message.get("thinking"))
        self.add_text(message.get("content"))
        for call in map(read_dict, to_object_list(message.get("tool_calls"))):
            if function := read_dict(call.get("function")):
                name = read_str(function.get("name")) or "unnamed"
                self.add_call(len(self.calls), call_id=call.get("id"), name=name, arguments=function.get("arguments"))

    def response(self) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": self.text}
        if reasoning := self.reasoning:
            message["thinking"] = reasoning
        if self.calls:
            message["tool_calls"] = [
                {"id": call.id, "function": {"name": call.name, "arguments": call.arguments}} for call in self.calls
            ]
        error = {"error": self.error} if self.error else {}
        return self._response_fields | self.usage | error | {"message": message}


def filter_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Keep only the schema keywords that Ollama reads.

    Otherwise the context would be sized for text that is never sent to the model.
    """
    return {name: parameters[name] for name in ("type", "properties", "required") if name in parameters}


def split_parameters(parameters: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Rename the user's parameters for Ollama; return top-level parameters and those for `options`."""
    top_level: dict[str, Any] = {}
    options: dict[str, Any] = {}
    for given_name, value in parameters.items():
        name = PARAMETER_NAMES.get(given_name, given_name)
        if name == "options":
            options |= read_dict(value)
        elif name == "stop":
            options[name] = [value] if isinstance(value, str) else value
        elif name in TOP_LEVEL_PARAMETERS:
            top_level[name] = value
        else:
            options[name] = value
    return top_level, options


def compute_context_size(prompt_size: int, max_output_tokens: Any, image_count: int = 0) -> int:
    """Compute the context size, in tokens, for a prompt of so many bytes, its images and the response.

    The size is a power of two, so that it rarely changes within a conversation: each change reloads the model.
    """
    output_tokens = read_int(max_output_tokens) or 0
    prompt_tokens = prompt_size // BYTES_PER_TOKEN + image_count * TOKENS_PER_IMAGE
    needed = prompt_tokens + (output_tokens if output_tokens > 0 else RESERVED_OUTPUT_TOKENS)
    return max(MIN_CONTEXT_TOKENS, 1 << (needed - 1).bit_length())


def can_chat(entry: Mapping[str, Any]) -> bool:
    """Check whether an installed model can chat, or only creates embeddings.

    Old servers do not list capabilities; for them the name decides.
    """
    capabilities = read_list(entry.get("capabilities"))
    if capabilities:
        return "completion" in capabilities
    family = read_str(read_dict(entry.get("details")).get("family"))
    return "bert" not in family and "embed" not in read_str(entry.get("name"))


def parse_model(entry: Mapping[str, Any]) -> ModelInfo:
    """Parse one entry of the list of installed models."""
    details = read_dict(entry.get("details"))
    capabilities = read_list(entry.get("capabilities"))
    return ModelInfo(
        id=read_str(entry.get("name")),
        title=" ".join(
            filter(None, (read_str(details.get(name)) for name in ("parameter_size", "quantization_level")))
        ),
        context_length=read_int(details.get("context_length")),
        tools="tools" in capabilities if capabilities else None,
    )


provider = Ollama(
    ProviderInfo(
        name="ollama",
        title="Ollama",
        base_url="http://localhost:11434",
        key_env=("OLLAMA_API_KEY",),
        needs_key=False,
        stream_format="ndjson",
        base_url_env=("OLLAMA_HOST",),
        offline_hint="start it with ollama serve, or set OLLAMA_HOST to its address",
        no_models_hint="install one with ollama pull MODEL (https://ollama.com/library)",
    )
)
