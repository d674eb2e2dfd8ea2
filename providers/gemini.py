"""Google's Gemini API: generateContent and streamGenerateContent. https://ai.google.dev/api

Fields of a response part, above all its signature, must be sent back on exactly that part. So a response with such
parts is kept as received, and sent again instead of its provider-neutral form.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from typing import Any
from urllib.parse import quote

from ask import (
    BatchApi,
    ChatRequest,
    DecisionApi,
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
    RetryAction,
    ServerToolCall,
    ServerToolDelta,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolSpec,
    Usage,
)
from ask.parsing import (
    AUDIO_NOTICE,
    CHARACTERS_PER_MEDIA_CHARACTER,
    ITEM_OVERHEAD_CHARACTERS,
    AnswerAccumulator,
    decode_arguments,
    find_error,
    format_unknown_reason,
    merge_fields,
    parse_event,
    parse_json,
    read_dict,
    read_image,
    read_int,
    read_list,
    read_number,
    read_service_tier,
    read_str,
    read_tool_calls,
    to_object_list,
)

from .gemini_arguments import set_argument
from .gemini_finish import (
    CONTINUATION,
    KNOWN_REASONS,
    format_filter_reason,
    get_first_candidate,
    make_failure,
    read_finish_reason,
    to_finish,
)
from .gemini_models import MIME_TYPE_NAMES, PROFILES, RESULT_ATTACHMENT_TYPES
from .gemini_server_tools import (
    SERVER_TOOLS,
    is_server_part,
    join_metadata,
    merge_grounding,
    read_citations,
    read_part_call,
    read_reported_calls,
    read_server_calls,
)

Part = dict[str, Any]

SIGNATURE_FIELD = "thoughtSignature"
SKIP_SIGNATURE = "skip_thought_signature_validator"
"""Replaces the signature of a call that Gemini did not make: https://ai.google.dev/gemini-api/docs/thought-signatures
"""
OLD_MODELS_PATTERN = re.compile(r"(gemini-[12]\b|gemma|learnlm)")
MAX_TOP_LOGPROBS = 20
"""https://ai.google.dev/api/generate-content#generationconfig"""
PARAMETER_NAMES = {
    "top_p": "topP",
    "top_k": "topK",
    "max_tokens": "maxOutputTokens",
    "stop": "stopSequences",
    "frequency_penalty": "frequencyPenalty",
    "presence_penalty": "presencePenalty",
    "service_tier": "serviceTier",
    "reasoning_effort": "thinkingLevel",
}
"""Gemini's names of common parameters."""
TOP_LEVEL_PARAMETERS = ("safetySettings", "cachedContent", "serviceTier", "store")
"""Parameters that belong in the body itself, not in its generationConfig."""
NO_FREE_QUOTA_HINT = "this model is not in the free tier: enable billing, or use another model"
DAILY_QUOTA_HINT = "the daily quota is used up: use another model or key, or try again tomorrow"
NO_TOOLS_HINT = "use --no-tools, or a model that can call tools"


class Gemini(Provider):
    """Gemini's own API."""

    profiles = PROFILES
    key_header = "x-goog-api-key"
    has_batches = True
    """Whether the service has the API for batches."""
    common_error_rules = (
        ("Function calling is not enabled", RetryAction.WITHOUT_TOOLS, NO_TOOLS_HINT),
        ("Tool use with function calling is unsupported", RetryAction.WITHOUT_TOOLS, NO_TOOLS_HINT),
    )
    """The rules that also apply to other services with this API."""
    error_rules = (
        ("API_KEY_INVALID|key was reported as leaked", RetryAction.NEXT_KEY, "check the key (see ask keys)"),
        ("credits are depleted", RetryAction.NEXT_KEY, "add credits at https://ai.studio/projects, or use another key"),
        # https://github.com/Gitlawb/openclaude/pull/249
        (r"^429 .*\blimit: 0\b", RetryAction.NEXT_KEY, NO_FREE_QUOTA_HINT),
        (r'"quotaId":\s*"[^"]*PerDay', RetryAction.NEXT_KEY, DAILY_QUOTA_HINT),
        *common_error_rules,
    )

    # Requests

    def provider_build_request(self, request: ChatRequest, key: str) -> HttpRequest:
        method = "streamGenerateContent?alt=sse" if request.stream else "generateContent"
        model = quote(request.model, safe="/-._~@", errors="replace")
        path = model if "/" in model else f"models/{model}"
        return HttpRequest(f"/v1beta/{path}:{method}", self.build_body(request), self.build_key_header(key))

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
        if not (schema and request.profile.schema_with_tools is False):
            body |= self.build_tool_parameters(request)
        if request.continuation_token:
            body["continuationToken"] = request.continuation_token
        config: dict[str, Any] = {}
        # Older models refuse to include thoughts if they do not think, as some do by default.
        if request.show_reasoning and request.profile.efforts and not is_old_model(request.model):
            config["thinkingConfig"] = {"includeThoughts": True}
        if schema is not None:
            config |= {"responseMimeType": "application/json", "responseJsonSchema": schema}
        for name, value in request.options.items():
            gemini_name = PARAMETER_NAMES.get(name, name)
            if gemini_name in TOP_LEVEL_PARAMETERS:
                body[gemini_name] = value
            elif name == "reasoning_effort":
                config["thinkingConfig"] = {"thinkingLevel": value, "includeThoughts": True}
            else:
                config[gemini_name] = [value] if name == "stop" and isinstance(value, str) else value
        return body | ({"generationConfig": config} if config else {})

    def build_tool_parameters(self, request: ChatRequest) -> dict[str, Any]:
        """Build `tools` and `toolConfig`. With tools of both kinds, the mode is left to the service."""
        tools = [*request.tools, *request.server_tools.values()]
        config: dict[str, Any] = {}
        if request.tools and (request.tool_choice == "none" or not request.server_tools):
            config["functionCallingConfig"] = {"mode": "NONE" if request.tool_choice == "none" else "AUTO"}
        if request.tools and request.server_tools:
            config["includeServerSideToolInvocations"] = True
        return ({"tools": tools} if tools else {}) | ({"toolConfig": config} if config else {})

    def provider_server_tools(self, model: str) -> dict[str, dict[str, Any]]:
        return {} if model.removeprefix("models/").startswith(("gemma", "learnlm")) else SERVER_TOOLS

    def choose_schema(self, request: ChatRequest) -> dict[str, Any] | None:
        """Return the schema to send, if any.

        Models before Gemini 3 refuse a schema together with tools; it is sent once no more tools may be called.
        """
        has_callable_tools = (request.tools and request.tool_choice != "none") or request.server_tools
        if request.schema is None or (has_callable_tools and request.profile.schema_with_tools is False):
            return None
        return dict(request.schema)

    def format_contents(self, messages: Iterable[Message], model: str) -> list[dict[str, Any]]:
        """Format the conversation as alternating user and model turns.

        Tool results belong to user turns. A user message after them has a turn of its own.
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
                files = {"parts": format_file_parts(message)} if message.attachments else {}
                parts = [{"functionResponse": function_response | ({"id": original_id} if original_id else {}) | files}]
            else:
                parts = format_user_parts(message) if message.role == "user" else []
            role = "model" if message.role == "assistant" else "user"
            # Next to results, other parts are a 400 on Vertex AI, and some models answer nothing:
            # https://github.com/pydantic/pydantic-ai/issues/4210
            starts_turn = message.role == "user" and turns and "functionResponse" in turns[-1]["parts"][-1]
            if parts and turns and turns[-1]["role"] == role and not starts_turn:
                turns[-1]["parts"] += parts
            elif parts:
                turns.append({"role": role, "parts": parts})
        return turns

    def can_read_state(self, author: str, model: str) -> bool:
        """Check that both are Gemini 3 or both older.

        It is not documented that signatures are valid across these generations. An alias such as gemini-flash-latest
        can be of either.
        """
        is_same_generation = model.endswith("-latest") or is_old_model(author) == is_old_model(model)
        return is_same_generation and super().can_read_state(author, model)

    def format_model_parts(self, message: Message, model: str) -> list[Part]:
        """Format an assistant message.

        The stored parts are used if this model can read them and they match the message; otherwise parts are built from
        its text and calls.
        """
        state = self.find_provider_state(message, model)
        parts = [sanitize_call_name(read_dict(part)) for part in read_list(state.get("parts"))]
        calls = [(to_function_name(call.name), decode_arguments(call.arguments) or {}) for call in message.tool_calls]
        stored_calls = [
            (call.get("name"), {} if call.get("args") is None else call["args"]) for call in list_function_calls(parts)
        ]
        parts = insert_images(parts, message)
        if (message.content, calls) != (join_text(parts), stored_calls):
            parts = [{"text": message.content}] if message.content else []
            parts += format_file_parts(message)
            if "image" in model and not is_old_model(model):
                # https://github.com/googleapis/js-genai/issues/1116: these models require one on texts, too
                parts = [part | {SIGNATURE_FIELD: SKIP_SIGNATURE} for part in parts]
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

    def provider_supports_result_attachment(self, model: str, media_type: str) -> bool:
        return media_type in RESULT_ATTACHMENT_TYPES and not is_old_model(model.removeprefix("models/"))

    def provider_supports_answer_attachment(self, model: str, media_type: str) -> bool:
        return media_type in RESULT_ATTACHMENT_TYPES

    def provider_format_tool_result(self, tool_call_id: str, tool_name: str, result: str) -> dict[str, Any]:
        return {"functionResponse": {"name": to_function_name(tool_name), "response": {"output": result}}}

    # Answers

    def provider_stream_reader(self) -> GeminiStreamReader:
        return GeminiStreamReader()

    def provider_parse_response(self, response: Mapping[str, Any]) -> ModelResponse:
        parts = read_parts(response)
        reason = read_finish_reason(response)
        stored_parts = [
            part
            for part in map(to_stored_part, parts)
            if SIGNATURE_FIELD in part or is_answer_part(part) or is_server_part(part)
        ]
        needs_state = any(
            SIGNATURE_FIELD in part or read_dict(part.get("functionCall")).get("id") or is_server_part(part)
            for part in stored_parts
        )
        candidate = get_first_candidate(response)
        model = read_str(response.get("modelVersion")).removeprefix("models/")
        state = ProviderState(self.info.name, model, {"parts": list(map(remove_image_data, stored_parts))})
        media = [read_dict(part.get("inlineData")) for part in parts if not part.get("thought")]
        images = [read_image(each.get("data")) for each in media if not is_audio(each)]
        error = self.find_response_error(response, reason)
        answer = ModelResponse(
            text=join_text(parts),
            reasoning=join_text(parts, thoughts=True),
            finish_reason=FinishReason.ERROR if error else to_finish(reason, bool(list_function_calls(parts))),
            usage=parse_usage(read_dict(response.get("usageMetadata"))),
            provider_state=state if needs_state else None,
            finish_message=format_filter_reason(response, reason)
            or (AUDIO_NOTICE if any(map(is_audio, media)) else "")
            or format_unknown_reason(reason, KNOWN_REASONS),
            # A complete answer, and one with any other reason, cannot be continued.
            continuation_token=read_str(candidate.get("continuationToken")) if reason in ("", CONTINUATION) else "",
            attachments=tuple(filter(None, images)),
            citations=read_citations(parts, candidate),
            server_calls=read_server_calls(parts, candidate),
        )
        return self.check_answer(answer, error)

    def provider_logprob_options(self) -> dict[str, Any]:
        return {"responseLogprobs": True, "logprobs": MAX_TOP_LOGPROBS}

    def provider_parse_logprobs(self, response: Mapping[str, Any]) -> list[dict[str, Any]]:
        from .gemini_logprobs import read_logprobs

        return read_logprobs(get_first_candidate(response))

    def provider_join_responses(self, response: Mapping[str, Any], continuation: Mapping[str, Any]) -> dict[str, Any]:
        """Join the responses of a long answer.

        Each continues from the last token before it: https://ai.google.dev/gemini-api/docs/generate-content/long-decode
        """
        earlier, later = get_first_candidate(response), get_first_candidate(continuation)
        kept = read_parts(response)[: read_int(earlier.get(KEPT_PARTS))]
        parts = [*kept, *read_parts(continuation)]
        candidate = {name: value for name, value in earlier.items() if name not in ("finishReason", KEPT_PARTS)} | later
        if "continuationToken" in later:
            if KEPT_PARTS in later:
                candidate[KEPT_PARTS] = len(kept) + later[KEPT_PARTS]
        elif "finishReason" in later:
            candidate.pop("continuationToken", None)
        else:
            candidate[KEPT_PARTS] = len(kept)
        candidate |= join_metadata(earlier, later, len(kept))
        candidate["content"] = {"role": "model", "parts": parts}
        fields = {name: value for name, value in response.items() if name != "error"}
        return fields | dict(continuation) | {"candidates": [candidate]}

    def find_response_error(self, response: Mapping[str, Any], reason: str) -> ProviderError | None:
        """Return the error in a response with status 200, if any."""
        error = find_error(response)
        if error is not None:
            return self.parse_embedded_error(error)
        return make_failure(reason, bool(list_function_calls(read_parts(response))))

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
        if not self.has_batches:
            return None
        from .batch_apis import GeminiBatchApi

        return GeminiBatchApi(self.build_key_header)

    def provider_decisions(self) -> DecisionApi | None:
        if not self.has_batches:  # a compatible service
            return None
        from .decision_apis import GeminiDecisionApi

        return GeminiDecisionApi(self.build_key_header)

    # Models

    def provider_models_request(self, key: str) -> HttpRequest:
        # The largest page, https://ai.google.dev/api/models#method:-models.list
        return HttpRequest("/v1beta/models?pageSize=1000", None, self.build_key_header(key), "GET")

    def provider_parse_models(self, body: Any) -> list[ModelInfo]:
        lists = read_dict(body)
        entries = [read_dict(entry) for entry in read_list(lists.get("models"))]
        models = [
            ModelInfo(
                id=read_str(entry.get("name")).removeprefix("models/"),
                title=read_str(entry.get("displayName")),
                context_length=read_int(entry.get("inputTokenLimit")),
            )
            for entry in entries
            if read_str(entry.get("name")) and "generateContent" in read_list(entry.get("supportedGenerationMethods"))
        ]
        # Vertex lists all that it offers, without methods: publishers/google/models/NAME.
        names = [read_str(read_dict(entry).get("name")) for entry in read_list(lists.get("publisherModels"))]
        publisher_models = [name.rpartition("/")[2] for name in names]
        return models + [ModelInfo(id=name) for name in publisher_models if name.startswith("gemini-")]


def is_old_model(model: str) -> bool:
    """Check whether a model is older than Gemini 3, and so needs no signatures."""
    return OLD_MODELS_PATTERN.match(model) is not None


def format_file_parts(message: Message) -> list[Part]:
    return [
        {
            "inlineData": {
                "mimeType": MIME_TYPE_NAMES.get(attachment.media_type, attachment.media_type),
                "data": attachment.base64,
            }
        }
        for attachment in message.attachments
    ]


def format_user_parts(message: Message) -> list[Part]:
    """Format a user message: files before text, as Google recommends."""
    files = format_file_parts(message)
    return [*files, {"text": message.content}] if message.content or not files else files


def insert_images(parts: Sequence[Part], message: Message) -> list[Part]:
    """Return the stored parts of an answer with the data of its images; none if the images have changed.

    Parts that an earlier version stored have the data themselves.
    """
    empty = [part for part in parts if is_empty_image(part)]
    if len(empty) != len(message.attachments):
        return []
    files = iter(format_file_parts(message))
    return [part | next(files) if is_empty_image(part) else part for part in parts]


def is_empty_image(part: Part) -> bool:
    """Check whether a stored part is an image whose data are in the message's attachments."""
    return read_dict(part.get("inlineData")).get("data") == ""


def remove_image_data(part: Part) -> Part:
    """Return a part without the data of an image, which is also in the attachments of the answer."""
    inline_data = read_dict(part.get("inlineData"))
    is_attached = not part.get("thought") and not is_audio(inline_data) and read_image(inline_data.get("data"))
    return part | {"inlineData": inline_data | {"data": ""}} if is_attached else part


def is_audio(inline_data: Mapping[str, Any]) -> bool:
    return read_str(inline_data.get("mimeType")).startswith("audio/")


def to_function_name(name: str) -> str:
    """Convert a tool name to a function name that Gemini accepts."""
    safe = re.sub(r"[^A-Za-z0-9_.-]", "_", name)[:64]
    return safe if re.match(r"[A-Za-z_]", safe) else f"_{safe}"[:64]


def sanitize_call_name(part: Part) -> Part:
    """Return a part whose function call, if any, has the name that its result will have."""
    call = part.get("functionCall")
    if not isinstance(call, dict):
        return part
    return part | {"functionCall": call | {"name": to_function_name(read_str(call.get("name")))}}


def map_call_ids(message: Message, parts: Sequence[Part]) -> dict[str, str]:
    """Map our call ids to the ids that Gemini gave; "" if it gave none."""
    ids = [read_str(call.get("id")) for call in list_function_calls(parts)]
    return {call.id: original_id for call, original_id in zip(message.tool_calls, ids, strict=True)}


def is_parameter_mentioned(parameter: str, message: str) -> bool:
    """Check whether an error message mentions a parameter, in camel case, snake case or as words."""
    pattern = re.sub(r"([A-Z])", r"[ _]?\1", parameter)
    return re.search(rf"\b{pattern}\b", message, re.IGNORECASE) is not None


def parse_retry_delay(details: Iterable[Mapping[str, Any]]) -> float | None:
    """Return the seconds until a retry, sent as "17s"; None if there is no such value."""
    delays = (read_number(read_str(detail.get("retryDelay")).removesuffix("s")) for detail in details)
    return next((delay for delay in delays if delay is not None and delay >= 0), None)


# Responses

PARTIAL_CALL_FIELDS = ("partialArgs", "willContinue")
"""Fields of a call that arrives in fragments; an assembled call has them only if it is incomplete."""
KEPT_PARTS = "keptParts"
"""Our field for how many parts of a broken stream came before its last continuation token."""


class GeminiStreamReader(AnswerAccumulator):
    """Assembles a stream into the response that the API returns without streaming."""

    def __init__(self) -> None:
        super().__init__()
        self.may_end = False
        """Set by a finish reason before any part. Gateways send it while the model reasons, ahead of the answer.

        https://github.com/Chevey339/kelivo/issues/1003
        """
        self._response_fields: dict[str, Any] = {}
        self._candidate: dict[str, Any] | None = None
        self._parts: list[tuple[dict[str, Any], StringIO | None]] = []
        """The fields of each part, and its text so far."""
        self._last_call: dict[str, Any] = {}
        self._call_count = 0
        self._kept_part_count: int | None = None
        """How many parts came before the last continuation token, if there was one."""
        self._server_calls: list[ServerToolCall] = []
        self._reported_count = 0

    def feed(self, event: RawEvent) -> list[Delta]:
        chunk = parse_event(event.data, event.event, after_end=self.complete)
        error = find_error(chunk)
        chunk = read_dict(chunk)
        merge_fields(self._response_fields, chunk, "candidates", "error", "usageMetadata")
        if error is not None:
            self._response_fields["error"] = error
        self.complete = (
            self.complete or error is not None or bool(read_dict(chunk.get("promptFeedback")).get("blockReason"))
        )
        self._deltas = []
        for candidate in map(read_dict, to_object_list(chunk.get("candidates"))):
            if (read_int(candidate.get("index")) or 0) > 0:
                continue
            self._candidate = self._candidate or {}
            merge_fields(self._candidate, candidate, "content", "groundingMetadata")
            if grounding := read_dict(candidate.get("groundingMetadata")):
                self._candidate["groundingMetadata"] = merge_grounding(
                    read_dict(self._candidate.get("groundingMetadata")), grounding
                )
                self.size += len(event.data)
            delta_count = len(self._deltas)
            for part in to_object_list(read_dict(candidate.get("content")).get("parts")):
                self._read_part(read_part(part), len(event.data))
            if candidate.get("continuationToken"):
                self._kept_part_count = len(self._parts)
            # A finish reason can also come before the result of code, after which the answer continues.
            reason = candidate.get("finishReason")
            is_code_running = reason == "STOP" and self._parts and self._parts[-1][0].get("executableCode")
            self.may_end = reason == "STOP" and not self._parts
            if (reason or len(self._deltas) > delta_count) and error is None:
                self.complete = bool(reason and not is_code_running and not self.may_end)
            self._show_reported_calls()
        if "usageMetadata" in chunk:
            self.add_usage(chunk["usageMetadata"])
        return self._deltas

    def _read_part(self, part: dict[str, Any], event_size: int) -> None:
        call, text = part.get("functionCall"), part.get("text")
        part_count = len(self._parts)
        if isinstance(call, dict):
            self._read_call(part, call)
            self.size += event_size
        elif isinstance(text, str):
            fields = {name: value for name, value in part.items() if name != "text"}
            last_fields, last_text = self._parts[-1] if self._parts else ({}, None)
            # A part with a signature stays separate, because it must be sent back as received.
            # What follows a continuation token does, too, because another request may send it again.
            is_after_token = len(self._parts) == self._kept_part_count
            if last_text is not None and last_fields == fields and SIGNATURE_FIELD not in fields and not is_after_token:
                last_text.write(text)
            elif text or SIGNATURE_FIELD in fields:
                last_text = StringIO()
                last_text.write(text)
                self._parts.append((fields, last_text))
            self.size += len(text)
            if text:
                self._deltas.append(ReasoningDelta(text) if part.get("thought") else TextDelta(text))
        else:
            if call_with_result := read_part_call(part, [fields for fields, _ in self._parts]):
                self._server_calls.append(call_with_result)
                self._deltas.append(ServerToolDelta(call_with_result))
            self._parts.append((part, None))
            if "inlineData" in part:
                event_size = int(event_size * CHARACTERS_PER_MEDIA_CHARACTER)
        if len(self._parts) > part_count:
            self.size += ITEM_OVERHEAD_CHARACTERS + event_size

    def _show_reported_calls(self) -> None:
        """Show the calls that only the candidate reports, mostly at its end."""
        reported = read_reported_calls(self._candidate or {}, self._server_calls)
        self._deltas += map(ServerToolDelta, reported[self._reported_count :])
        self._reported_count = max(self._reported_count, len(reported))

    def _read_call(self, part: dict[str, Any], fragment: dict[str, Any]) -> None:
        """Add a call, or a fragment to the call that announced more: Vertex AI can send arguments value by value."""
        fragment, name = read_part(fragment), read_str(fragment.get("name"))
        call = self._last_call
        if name or call.get("willContinue") is not True:
            call = self._last_call = {field: value for field, value in fragment.items() if field != "partialArgs"}
            self._parts.append((part | {"functionCall": call}, None))
            self._call_count += 1
        else:
            call["willContinue"] = fragment.get("willContinue")
        try:
            for value in read_list(fragment.get("partialArgs")):
                set_argument(call, read_part(value))
        except LookupError:
            call["partialArgs"] = fragment["partialArgs"]
        if name:
            self._deltas.append(ToolCallDelta(self._call_count - 1, name))

    def response(self) -> dict[str, Any]:
        fields = self._response_fields | ({"usageMetadata": self.usage} if self.usage else {})
        if self._candidate is None:
            return fields
        parts = [fields if text is None else {"text": text.getvalue()} | fields for fields, text in self._parts]
        candidate = {"content": {"role": "model", "parts": parts}} | self._candidate
        if self._kept_part_count is not None and "finishReason" not in candidate:
            candidate[KEPT_PARTS] = self._kept_part_count
        return fields | {"candidates": [candidate]}


def read_parts(response: Mapping[str, Any]) -> list[Part]:
    """Return the parts of the first candidate."""
    candidate = get_first_candidate(response)
    return [read_part(part) for part in read_list(read_dict(candidate.get("content")).get("parts"))]


def read_part(part: Any) -> Part:
    """Return a part without null fields, which gateways send for every kind of content that it is not."""
    return {name: value for name, value in read_dict(part).items() if value is not None}


def list_function_calls(parts: Iterable[Part]) -> list[dict[str, Any]]:
    return [part["functionCall"] for part in parts if isinstance(part.get("functionCall"), dict)]


def join_text(parts: Iterable[Part], *, thoughts: bool = False) -> str:
    """Join the text of the parts, or their thoughts."""
    return "".join(read_str(part.get("text")) for part in parts if bool(part.get("thought")) is thoughts)


def to_stored_part(part: Part) -> Part:
    """Return a part as it can be sent back.

    An empty signature is removed, and so are the fields of a function call that arrived in fragments.
    """
    stored = {
        name: value for name, value in part.items() if name != SIGNATURE_FIELD or (value and isinstance(value, str))
    }
    call = part.get("functionCall")
    if isinstance(call, dict):
        stored["functionCall"] = {name: value for name, value in call.items() if name not in PARTIAL_CALL_FIELDS}
    return stored


def is_answer_part(part: Part) -> bool:
    """Check whether a part is neither a thought nor empty, nor has an empty text."""
    return bool(part) and not part.get("thought") and part.get("text") != ""


def format_arguments(call: Mapping[str, Any]) -> str:
    """Return a call's arguments as JSON.

    For an incomplete call the JSON is truncated, so that it cannot be parsed and run.
    """
    args = call.get("args")
    text = args if isinstance(args, str) else json.dumps({} if args is None else args, ensure_ascii=False)
    return text[:-1] if any(call.get(name) for name in PARTIAL_CALL_FIELDS) else text


def parse_usage(usage: Mapping[str, Any]) -> Usage:
    """Parse the token counts and the tier, which Vertex AI reports as a traffic type.

    Gemini's total is the sum of prompt, tool use prompt, candidates and thoughts.
    https://ai.google.dev/api/generate-content#UsageMetadata
    """
    return Usage(
        input_tokens=sum_counts(usage, "promptTokenCount", "toolUsePromptTokenCount"),
        output_tokens=sum_counts(usage, "candidatesTokenCount", "thoughtsTokenCount"),
        cached_tokens=read_int(usage.get("cachedContentTokenCount")),
        reasoning_tokens=read_int(usage.get("thoughtsTokenCount")),
        service_tier=read_service_tier(usage.get("serviceTier"), usage.get("trafficType")),
    )


def sum_counts(usage: Mapping[str, Any], *names: str) -> int | None:
    """Sum the counts that are reported; None if there are none."""
    counts = [count for count in (read_int(usage.get(name)) for name in names) if count is not None]
    return sum(counts) if counts else None


provider = Gemini(
    ProviderInfo(
        name="gemini",
        title="Gemini",
        base_url="https://generativelanguage.googleapis.com",
        default_model="gemini-flash-latest",
        key_env=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        base_url_env=("GOOGLE_GEMINI_BASE_URL",),  # as in Google's SDK
    )
)
