"""Google's Gemini API: generateContent and streamGenerateContent. https://ai.google.dev/api

Fields of a response part, above all its signature, must be sent back on exactly that part. So a response with such
parts is kept as received, and sent again instead of its provider-neutral form.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

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
)
from ask.parsing import (
    MEDIA_NOTICE,
    decode_arguments,
    find_error,
    parse_json,
    read_dict,
    read_int,
    read_list,
    read_number,
    read_str,
    read_tool_calls,
)

from .gemini_models import PROFILES
from .gemini_response import (
    FAILURE_MESSAGES,
    SIGNATURE_FIELD,
    GeminiStreamReader,
    Part,
    format_arguments,
    format_filter_reason,
    is_answer_part,
    join_text,
    list_function_calls,
    parse_usage,
    read_finish_reason,
    read_parts,
    to_finish,
    to_stored_part,
)

if TYPE_CHECKING:
    from ask.batches import BatchApi

SKIP_SIGNATURE = "skip_thought_signature_validator"
"""Replaces the signature of a call that Gemini did not make: https://ai.google.dev/gemini-api/docs/thought-signatures
"""
OLD_MODELS_PATTERN = re.compile(r"(gemini-[12]\b|gemma|learnlm)")
PARAMETER_NAMES = {
    "top_p": "topP",
    "top_k": "topK",
    "max_tokens": "maxOutputTokens",
    "stop": "stopSequences",
    "frequency_penalty": "frequencyPenalty",
    "presence_penalty": "presencePenalty",
}
"""Gemini's names of common parameters."""
TOP_LEVEL_PARAMETERS = ("safetySettings", "cachedContent", "serviceTier")
"""Parameters that belong in the body itself, not in its generationConfig."""
MIME_TYPE_NAMES = {"audio/mpeg": "audio/mp3"}
"""MIME types for which Gemini uses another name."""
DAILY_QUOTA_HINT = "the daily quota is used up: use another model or key, or try again tomorrow"
NO_TOOLS_HINT = "use --no-tools, or a model that can call tools"


class Gemini(Provider):
    """Gemini's own API."""

    profiles = PROFILES
    error_rules = (
        ("API_KEY_INVALID|key was reported as leaked", RetryAction.NEXT_KEY, "check the key (ask keys set gemini)"),
        ("credits are depleted", RetryAction.NEXT_KEY, "add credits at https://ai.studio/projects, or use another key"),
        (r'"quotaId":\s*"[^"]*PerDay', RetryAction.NEXT_KEY, DAILY_QUOTA_HINT),
        ("Function calling is not enabled", RetryAction.WITHOUT_TOOLS, NO_TOOLS_HINT),
        ("Tool use with function calling is unsupported", RetryAction.WITHOUT_TOOLS, NO_TOOLS_HINT),
    )

    def build_headers(self, key: str) -> dict[str, str]:
        return {"x-goog-api-key": key} if key else {}

    # Requests

    def provider_build_request(self, request: ChatRequest, key: str) -> HttpRequest:
        method = "streamGenerateContent?alt=sse" if request.stream else "generateContent"
        model = quote(request.model, safe="/-._~@", errors="replace")
        path = model if "/" in model else f"models/{model}"
        return HttpRequest(f"/v1beta/{path}:{method}", self.build_body(request), self.build_headers(key))

    def build_body(self, request: ChatRequest) -> dict[str, Any]:
        body: dict[str, Any] = {
            "contents": self.format_contents(request.messages, request.model.removeprefix("models/"))
        }
        system = [
            {"text": message.content} for message in request.messages if message.role == "system" and message.content
        ]
        if system:
            body["systemInstruction"] = {"parts": system}
        schema = self.choose_schema(request)
        if request.tools and not (schema and request.profile.schema_with_tools is False):
            mode = "NONE" if request.tool_choice == "none" else "AUTO"
            body["tools"] = list(request.tools)
            body["toolConfig"] = {"functionCallingConfig": {"mode": mode}}
        config: dict[str, Any] = {}
        # Older models refuse to include thoughts if they do not think, as some do by default.
        if request.show_reasoning and request.profile.efforts and not is_old_model(request.model):
            config["thinkingConfig"] = {"includeThoughts": True}
        if schema is not None:
            config |= {"responseMimeType": "application/json", "responseJsonSchema": schema}
        for name, value in request.options.items():
            if name in TOP_LEVEL_PARAMETERS:
                body[name] = value
            elif name == "reasoning_effort":
                config["thinkingConfig"] = {"thinkingLevel": value, "includeThoughts": True}
            else:
                config[PARAMETER_NAMES.get(name, name)] = (
                    [value] if name == "stop" and isinstance(value, str) else value
                )
        return body | ({"generationConfig": config} if config else {})

    def choose_schema(self, request: ChatRequest) -> dict[str, Any] | None:
        """Return the schema to send, if any.

        Models before Gemini 3 refuse a schema together with tools; it is sent once no more tools may be called.
        """
        has_callable_tools = request.tools and request.tool_choice != "none"
        if request.schema is None or (has_callable_tools and request.profile.schema_with_tools is False):
            return None
        return dict(request.schema)

    def format_contents(self, messages: Iterable[Message], model: str) -> list[dict[str, Any]]:
        """Format the conversation as alternating user and model turns.

        Tool results belong to user turns.
        """
        turns: list[dict[str, Any]] = []
        ids: dict[str, str] = {}
        for message in messages:
            if message.role == "assistant":
                parts = self.format_model_parts(message, model)
                ids |= map_call_ids(message, parts)
            elif message.role == "tool":
                original_id = ids.get(message.tool_call_id)
                function_response = read_dict(read_dict(message.formatted_result).get("functionResponse"))
                parts = [{"functionResponse": function_response | ({"id": original_id} if original_id else {})}]
            else:
                parts = format_user_parts(message) if message.role == "user" else []
            role = "model" if message.role == "assistant" else "user"
            if parts and turns and turns[-1]["role"] == role:
                turns[-1]["parts"] += parts
            elif parts:
                turns.append({"role": role, "parts": parts})
        return turns

    def find_provider_state(self, message: Message, model: str) -> Mapping[str, Any]:
        """Drop the stored parts between Gemini 3 and older models.

        It is not documented that signatures are valid across these generations. An alias such as gemini-flash-latest
        can be of either.
        """
        state = message.provider_state
        if state and not model.endswith("-latest") and is_old_model(state.model) != is_old_model(model):
            return {}
        return super().find_provider_state(message, model)

    def format_model_parts(self, message: Message, model: str) -> list[Part]:
        """Format an assistant message.

        The stored parts are used if this model can read them and they match the message; otherwise parts are built from
        its text and calls.
        """
        parts = [read_dict(part) for part in read_list(self.find_provider_state(message, model).get("parts"))]
        calls = [(to_function_name(call.name), decode_arguments(call.arguments) or {}) for call in message.tool_calls]
        stored_calls = [
            (call.get("name"), {} if call.get("args") is None else call["args"]) for call in list_function_calls(parts)
        ]
        if (message.content, calls) != (join_text(parts), stored_calls):
            parts = [{"text": message.content}] if message.content else []
            parts += [{"functionCall": {"name": name, "args": arguments}} for name, arguments in calls]
        first_call = next((i for i, part in enumerate(parts) if "functionCall" in part), None)
        if first_call is not None and SIGNATURE_FIELD not in parts[first_call] and not is_old_model(model):
            parts[first_call] = parts[first_call] | {SIGNATURE_FIELD: SKIP_SIGNATURE}
        return parts

    def provider_format_tools(self, tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
        declarations: list[dict[str, Any]] = []
        for tool in (Provider.normalize_tool(tool, inline_references=True) for tool in tools):
            declaration = {"name": to_function_name(tool.name), "description": tool.description}
            has_parameters = bool(tool.parameters["properties"] or tool.parameters.get("additionalProperties"))
            declarations.append(
                declaration | ({"parametersJsonSchema": dict(tool.parameters)} if has_parameters else {})
            )
        return [{"functionDeclarations": declarations}] if declarations else []

    def provider_format_tool_result(self, tool_call_id: str, tool_name: str, result: str) -> dict[str, Any]:
        return {"functionResponse": {"name": to_function_name(tool_name), "response": {"output": result}}}

    # Answers

    def provider_stream_reader(self) -> GeminiStreamReader:
        return GeminiStreamReader()

    def provider_parse_response(self, response: Mapping[str, Any]) -> ModelResponse:
        parts = read_parts(response)
        reason = read_finish_reason(response)
        stored_parts = [part for part in map(to_stored_part, parts) if SIGNATURE_FIELD in part or is_answer_part(part)]
        needs_state = any(
            SIGNATURE_FIELD in part or read_dict(part.get("functionCall")).get("id") for part in stored_parts
        )
        model = read_str(response.get("modelVersion")).removeprefix("models/")
        state = ProviderState(self.info.name, model, {"parts": stored_parts})
        answer = ModelResponse(
            text=join_text(parts),
            reasoning=join_text(parts, thoughts=True),
            finish_reason=to_finish(reason, has_calls=bool(list_function_calls(parts))),
            usage=parse_usage(read_dict(response.get("usageMetadata"))),
            provider_state=state if needs_state else None,
            finish_message=format_filter_reason(response, reason)
            or (MEDIA_NOTICE if any("inlineData" in part and not part.get("thought") for part in parts) else ""),
        )
        error = self.find_response_error(response, reason)
        if error:
            error.partial_response = answer._replace(finish_reason=FinishReason.ERROR)
            raise error
        return answer

    def find_response_error(self, response: Mapping[str, Any], reason: str) -> ProviderError | None:
        """Return the error in a response with status 200, if any."""
        error = find_error(response)
        if error is not None:
            return self.parse_embedded_error(error)
        failure = FAILURE_MESSAGES.get(reason)
        return ProviderError(failure, None, RetryAction.retry()) if failure else None

    def provider_parse_tool_calls(self, response: Mapping[str, Any]) -> list[ToolCall]:
        calls = list_function_calls(read_parts(response))
        return read_tool_calls([{"id": c.get("id"), "function": c | {"arguments": format_arguments(c)}} for c in calls])

    def provider_parse_error(self, status: int, headers: Mapping[str, str], body: str) -> ProviderError:
        provider_error = super().provider_parse_error(status, headers, body)
        message = provider_error.message
        provider_error.parameter = next(
            (name for name, gemini_name in PARAMETER_NAMES.items() if is_parameter_mentioned(gemini_name, message)),
            None,
        )
        error = find_error(parse_json(body))
        details = [read_dict(detail) for detail in read_list(read_dict(error).get("details"))]
        if provider_error.retry_action.kind == "retry" and provider_error.retry_action.delay is None:
            provider_error.retry_action = RetryAction.retry(parse_retry_delay(details))
        return provider_error

    def provider_batch(self) -> BatchApi | None:
        from .batches import GeminiBatchApi

        return GeminiBatchApi(self.build_headers)

    # Models

    def provider_models_request(self, key: str) -> HttpRequest:
        return HttpRequest("/v1beta/models?pageSize=1000", None, self.build_headers(key), "GET")

    def provider_parse_models(self, body: Any) -> list[ModelInfo]:
        entries = [read_dict(entry) for entry in read_list(read_dict(body).get("models"))]
        return [
            ModelInfo(
                id=read_str(entry.get("name")).removeprefix("models/"),
                title=read_str(entry.get("displayName")),
                context_length=read_int(entry.get("inputTokenLimit")),
            )
            for entry in entries
            if read_str(entry.get("name")) and "generateContent" in read_list(entry.get("supportedGenerationMethods"))
        ]


def is_old_model(model: str) -> bool:
    """Check whether a model is older than Gemini 3, and so needs no signatures."""
    return OLD_MODELS_PATTERN.match(model) is not None


def format_user_parts(message: Message) -> list[Part]:
    """Format a user message: files before text, as Google recommends."""
    files: list[Part] = [
        {
            "inlineData": {
                "mimeType": MIME_TYPE_NAMES.get(attachment.media_type, attachment.media_type),
                "data": attachment.base64,
            }
        }
        for attachment in message.attachments
    ]
    return [*files, {"text": message.content}] if message.content or not files else files


def to_function_name(name: str) -> str:
    """Convert a tool name to a function name that Gemini accepts."""
    safe = re.sub(r"[^A-Za-z0-9_.-]", "_", name)[:64]
    return safe if re.match(r"[A-Za-z_]", safe) else f"_{safe}"[:64]


def map_call_ids(message: Message, parts: Sequence[Part]) -> dict[str, str]:
    """Map our call ids to the ids that Gemini gave; "" if it gave none."""
    ids = [read_str(call.get("id")) for call in list_function_calls(parts)]
    return {call.id: original_id for call, original_id in zip(message.tool_calls, ids, strict=True)}


def is_parameter_mentioned(parameter: str, message: str) -> bool:
    """Check whether an error message mentions a parameter, in camel or snake case."""
    snake = re.sub(r"([A-Z])", r"_\1", parameter).lower()
    return re.search(rf"\b({parameter}|{snake})\b", message) is not None


def parse_retry_delay(details: Iterable[Mapping[str, Any]]) -> float | None:
    """Return the seconds until a retry, sent as "17s"; None if there is no such value."""
    delays = (read_number(read_str(detail.get("retryDelay")).removesuffix("s")) for detail in details)
    return next((delay for delay in delays if delay is not None and delay >= 0), None)


provider = Gemini(
    ProviderInfo(
        name="gemini",
        title="Gemini",
        base_url="https://generativelanguage.googleapis.com",
        default_model="gemini-flash-latest",
        key_env=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        docs="https://ai.google.dev/api",
    )
)
