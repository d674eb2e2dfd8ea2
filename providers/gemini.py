"""Google's Gemini in its own wire: generateContent and streamGenerateContent. https://ai.google.dev/api

What one part of an answer carries, above all its signature, goes back on that very part: so an answer with such
parts is kept as it came, and sent again in place of its neutral form. Streams are `gemini_stream`'s to gather,
answers `gemini_answer`'s to read.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from ask import (
    Answer,
    ChatRequest,
    Finish,
    HttpRequest,
    Message,
    ModelInfo,
    Native,
    Provider,
    ProviderError,
    ProviderInfo,
    Remedy,
    ToolCall,
    ToolSpec,
    arguments_object,
    as_dict,
    as_int,
    as_list,
    as_number,
    as_text,
    default_remedy,
    error_text,
    find_error,
    normalize_tool,
    page_text,
    parse_json,
)

from .gemini_response import (
    FAILURE_MESSAGES,
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
from .gemini_stream import SIGNATURE_FIELD, GeminiStreamReader

SKIP_SIGNATURE = "skip_thought_signature_validator"
"""Stands for the signature of a call that Gemini did not make: https://ai.google.dev/gemini-api/docs/thought-signatures"""
OLD_MODELS_PATTERN = re.compile(r"(gemini-[12]\b|gemma|learnlm)")
"""Models before Gemini 3: they think by a budget of tokens, not by level, and ask for no signatures."""
PARAMETER_NAMES = {
    "top_p": "topP",
    "top_k": "topK",
    "max_tokens": "maxOutputTokens",
    "stop": "stopSequences",
    "frequency_penalty": "frequencyPenalty",
    "presence_penalty": "presencePenalty",
}
"""What Gemini calls the parameters that have a common name."""
TOP_LEVEL_PARAMETERS = ("safetySettings", "cachedContent", "serviceTier")
"""Parameters that stand in the body itself, not in its generationConfig."""
IMAGE_TYPES = ("image/png", "image/jpeg", "image/webp", "image/heic")
ATTACHMENT_TYPES = (
    *(*IMAGE_TYPES, "application/pdf"),
    *("audio/wav", "audio/mpeg", "audio/aiff", "audio/aac", "audio/ogg", "audio/flac"),
)
"""https://ai.google.dev/gemini-api/docs/image-understanding, .../document-processing and .../audio"""
MIME_TYPE_NAMES = {"audio/mpeg": "audio/mp3"}
"""What Gemini calls those that have another name elsewhere."""
THINKING_BUDGETS = {"none": 0, "minimal": 1024, "low": 1024, "medium": 8192, "high": 24576}
"""Tokens to think with: https://ai.google.dev/gemini-api/docs/openai#thinking"""

NO_TOOLS_MESSAGES = ("Function calling is not enabled", "Tool use with function calling is unsupported")


class Gemini(Provider):
    """Gemini's own API."""

    def build_headers(self, key: str) -> dict[str, str]:
        """The key, if there is one."""
        return {"x-goog-api-key": key} if key else {}

    # Requests

    def provider_takes_attachment(self, model: str, media_type: str) -> bool:
        """Gemini sees, reads and hears; Gemma sees."""
        return media_type in (IMAGE_TYPES if "gemma" in model else ATTACHMENT_TYPES)

    def provider_build_request(self, request: ChatRequest, key: str) -> HttpRequest:
        method = "streamGenerateContent?alt=sse" if request.stream else "generateContent"
        model = quote(request.model, safe="/-._~@", errors="replace")
        place = model if "/" in model else f"models/{model}"
        return HttpRequest(f"/v1beta/{place}:{method}", self.build_body(request), self.build_headers(key))

    def build_body(self, request: ChatRequest) -> dict[str, Any]:
        """The body of a request."""
        body: dict[str, Any] = {
            "contents": self.format_contents(request.messages, request.model.removeprefix("models/"))
        }
        system = [
            {"text": message.content} for message in request.messages if message.role == "system" and message.content
        ]
        if system:
            body["systemInstruction"] = {"parts": system}
        schema = self.choose_schema(request)
        if request.tools and not (schema and is_old_model(request.model)):
            mode = "NONE" if request.tool_choice == "none" else "AUTO"
            body["tools"] = self.provider_format_tools(request.tools)
            body["toolConfig"] = {"functionCallingConfig": {"mode": mode}}
        config: dict[str, Any] = {}
        if schema is not None:
            config = {"responseMimeType": "application/json", "responseJsonSchema": schema}
        for name, value in request.options.items():
            if name in TOP_LEVEL_PARAMETERS:
                body[name] = value
            elif name == "reasoning_effort":
                config["thinkingConfig"] = build_thinking_config(str(value), request.model)
            else:
                config[PARAMETER_NAMES.get(name, name)] = (
                    [value] if name == "stop" and isinstance(value, str) else value
                )
        return body | ({"generationConfig": config} if config else {})

    def choose_schema(self, request: ChatRequest) -> dict[str, Any] | None:
        """The schema that a request carries. Models before Gemini 3 refuse one beside tools, so there it waits."""
        if request.schema is None or (request.tools and request.tool_choice != "none" and is_old_model(request.model)):
            return None
        return dict(request.schema)

    def format_contents(self, messages: Iterable[Message], model: str) -> list[dict[str, Any]]:
        """The conversation, where the user's and the model's turns alternate: results are the user's."""
        turns: list[dict[str, Any]] = []
        ids: dict[str, str] = {}
        for message in messages:
            if message.role == "assistant":
                parts = self.format_model_parts(message, model)
                ids |= map_call_ids(message, parts)
            elif message.role == "tool":
                name, given = message.tool_name, ids.get(message.tool_call_id)
                part = self.provider_format_tool_result(message.tool_call_id, name, message.content)
                part["functionResponse"] |= {"id": given} if given else {}
                parts = [part]
            else:
                parts = format_user_parts(message) if message.role == "user" else []
            role = "model" if message.role == "assistant" else "user"
            if parts and turns and turns[-1]["role"] == role:
                turns[-1]["parts"] += parts
            elif parts:
                turns.append({"role": role, "parts": parts})
        return turns

    def native_for(self, message: Message, model: str) -> Mapping[str, Any]:
        """Not across the step to Gemini 3: no signature is known to be read on its other side."""
        crossed = message.native and bool(OLD_MODELS_PATTERN.match(message.native.model)) != bool(
            OLD_MODELS_PATTERN.match(model)
        )
        return {} if crossed else super().native_for(message, model)

    def format_model_parts(self, message: Message, model: str) -> list[Part]:
        """The parts of an answer: as they came, if this model may read them and they say what the message says."""
        parts = [as_dict(part) for part in as_list(self.native_for(message, model).get("parts"))]
        said = [(to_function_name(call.name), (arguments_object(call.arguments) or {})) for call in message.tool_calls]
        came = [
            (call.get("name"), {} if call.get("args") is None else call["args"]) for call in list_function_calls(parts)
        ]
        if (message.content, said) != (join_text(parts), came):
            parts = [{"text": message.content}] if message.content else []
            for call in message.tool_calls:
                arguments = {"name": to_function_name(call.name), "args": (arguments_object(call.arguments) or {})}
                parts.append({"functionCall": arguments})
        first = next((i for i, part in enumerate(parts) if "functionCall" in part), None)
        if first is not None and SIGNATURE_FIELD not in parts[first] and not OLD_MODELS_PATTERN.match(model):
            parts[first] = parts[first] | {SIGNATURE_FIELD: SKIP_SIGNATURE}
        return parts

    def provider_format_tools(self, tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
        declarations: list[dict[str, Any]] = []
        for tool in (normalize_tool(tool, inline_references=True) for tool in tools):
            declaration = {"name": to_function_name(tool.name), "description": tool.description}
            takes_any = bool(tool.parameters["properties"] or tool.parameters.get("additionalProperties"))
            declarations.append(declaration | ({"parametersJsonSchema": dict(tool.parameters)} if takes_any else {}))
        return [{"functionDeclarations": declarations}] if declarations else []

    def provider_format_tool_result(self, tool_call_id: str, tool_name: str, result: str) -> dict[str, Any]:
        return {"functionResponse": {"name": to_function_name(tool_name), "response": {"output": result}}}

    # Answers

    def provider_stream_reader(self) -> GeminiStreamReader:
        return GeminiStreamReader()

    def provider_parse_response(self, response: Mapping[str, Any]) -> Answer:
        parts = read_parts(response)
        reason = read_finish_reason(response)
        kept = [part for part in map(to_stored_part, parts) if SIGNATURE_FIELD in part or is_answer_part(part)]
        needed = any(SIGNATURE_FIELD in part or as_dict(part.get("functionCall")).get("id") for part in kept)
        answer = Answer(
            text=join_text(parts),
            reasoning=join_text(parts, thoughts=True),
            finish=to_finish(reason, has_calls=bool(list_function_calls(parts))),
            usage=parse_usage(as_dict(response.get("usageMetadata"))),
            native=Native(self.info.name, as_text(response.get("modelVersion")), {"parts": kept}) if needed else None,
            reason=format_filter_reason(response, reason),
        )
        failure = self.find_response_error(response, reason)
        if failure:
            failure.answer = answer._replace(finish=Finish.ERROR)
            raise failure
        return answer

    def find_response_error(self, response: Mapping[str, Any], reason: str) -> ProviderError | None:
        """The error that a response holds despite its status of 200, if any."""
        error = find_error(response)
        if error is not None:
            code = as_int(as_dict(error).get("code"))
            status = code if code and 400 <= code <= 599 else 200
            return self.provider_parse_error(status, {}, json.dumps({"error": error}))
        return ProviderError(FAILURE_MESSAGES[reason], None, Remedy.RETRY()) if reason in FAILURE_MESSAGES else None

    def provider_parse_tool_calls(self, response: Mapping[str, Any]) -> list[ToolCall]:
        calls: list[ToolCall] = []
        seen: set[str] = set()
        for wire in list_function_calls(read_parts(response)):
            call_id = as_text(wire.get("id"))
            if not call_id or call_id in seen:
                call_id = f"call_{os.urandom(8).hex()}"
            seen.add(call_id)
            calls.append(ToolCall(call_id, as_text(wire.get("name")) or "unnamed", format_arguments(wire)))
        return calls

    def provider_parse_error(self, status: int, headers: Mapping[str, str], body: str) -> ProviderError:
        error = find_error(parse_json(body))
        message = error_text(error) or page_text(body) or "no explanation"
        named = next((name for name, ours in PARAMETER_NAMES.items() if is_parameter_mentioned(ours, message)), None)
        told = None if status == 200 else status
        failure = ProviderError(message, told, default_remedy(status, headers), parameter=named)
        details = [as_dict(detail) for detail in as_list(as_dict(error).get("details"))]
        if failure.remedy.action == "retry" and failure.remedy.after is None:
            failure.remedy = Remedy.RETRY(parse_retry_delay(details))
        if any(detail.get("reason") == "API_KEY_INVALID" for detail in details):
            failure.remedy = Remedy.NEXT_KEY
            failure.advice = "check the key (ask keys set gemini)"
        elif "credits are depleted" in message:
            failure.remedy = Remedy.NEXT_KEY
            failure.advice = "add credits at https://ai.studio/projects, or use another key"
        elif any("PerDay" in as_text(violation.get("quotaId")) for violation in list_quota_violations(details)):
            failure.remedy = Remedy.NEXT_KEY
            failure.advice = "the quota of this day is used up: use another model or key, or wait for tomorrow"
        elif any(words in message for words in NO_TOOLS_MESSAGES):
            failure.remedy = Remedy.WITHOUT_TOOLS
            failure.advice = "use --no-tools, or a model that can call tools"
        return failure

    # Models

    def provider_models_request(self, key: str) -> HttpRequest:
        return HttpRequest("/v1beta/models?pageSize=1000", None, self.build_headers(key), "GET")

    def provider_parse_models(self, body: Any) -> list[ModelInfo]:
        entries = [as_dict(entry) for entry in as_list(as_dict(body).get("models"))]
        return [
            ModelInfo(
                id=as_text(entry.get("name")).removeprefix("models/"),
                title=as_text(entry.get("displayName")),
                context_length=as_int(entry.get("inputTokenLimit")),
            )
            for entry in entries
            if as_text(entry.get("name")) and "generateContent" in as_list(entry.get("supportedGenerationMethods"))
        ]


def format_user_parts(message: Message) -> list[Part]:
    """The parts of a message of the user's: its files before its text, as Google advises."""
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


def is_old_model(model: str) -> bool:
    """Whether a model is older than Gemini 3."""
    return OLD_MODELS_PATTERN.match(model.removeprefix("models/")) is not None


def to_function_name(name: str) -> str:
    """A tool's name as Gemini takes it."""
    safe = re.sub(r"[^A-Za-z0-9_.-]", "_", name)[:64]
    return safe if re.match(r"[A-Za-z_]", safe) else f"_{safe}"[:64]


def build_thinking_config(effort: str, model: str) -> dict[str, Any]:
    """How hard to think, and to show the thoughts. Gemini 3 always thinks: "none" is as little as it can."""
    if is_old_model(model):
        budget = THINKING_BUDGETS.get(effort, THINKING_BUDGETS["high"])
        return {"thinkingBudget": budget, "includeThoughts": budget > 0}
    return {"thinkingLevel": "minimal" if effort == "none" else effort, "includeThoughts": effort != "none"}


def map_call_ids(message: Message, parts: Sequence[Part]) -> dict[str, str]:
    """The ids that Gemini itself gave to calls, by those under which we know them; "" where it gave none."""
    ids = [as_text(call.get("id")) for call in list_function_calls(parts)]
    return {call.id: given for call, given in zip(message.tool_calls, ids, strict=True)}


def is_parameter_mentioned(parameter: str, message: str) -> bool:
    """Whether an error's message speaks of a parameter, in either way to write it."""
    snake = re.sub(r"([A-Z])", r"_\1", parameter).lower()
    return re.search(rf"\b({parameter}|{snake})\b", message) is not None


def parse_retry_delay(details: Iterable[Mapping[str, Any]]) -> float | None:
    """Seconds until a retry makes sense, told as "17s"; None where it is not."""
    delays = (as_number(as_text(detail.get("retryDelay")).removesuffix("s")) for detail in details)
    return next((delay for delay in delays if delay is not None and delay >= 0), None)


def list_quota_violations(details: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The quotas that a request went over."""
    return [as_dict(violation) for detail in details for violation in as_list(detail.get("violations"))]


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
