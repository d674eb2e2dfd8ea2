"""Google's Gemini API: generateContent and streamGenerateContent. https://ai.google.dev/api

Fields of a response part, above all its signature, must be sent back on exactly that part. So a response with such
parts is kept as received, and sent again instead of its provider-neutral form.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from itertools import pairwise
from typing import Any
from urllib.parse import quote

from ask import (
    BatchApi,
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
    RetryAction,
    ToolCall,
    ToolCallDelta,
    ToolSpec,
    Usage,
)
from ask.parsing import (
    ITEM_OVERHEAD,
    MEDIA_NOTICE,
    decode_arguments,
    find_error,
    merge_fields,
    merge_usage,
    parse_event,
    parse_json,
    read_dict,
    read_int,
    read_list,
    read_number,
    read_str,
    read_tool_calls,
    to_object_list,
)

from .gemini_models import PROFILES
from .stream_events import to_deltas

Part = dict[str, Any]

SIGNATURE_FIELD = "thoughtSignature"
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
NO_FREE_QUOTA_HINT = "this model is not in the free tier: enable billing, or use another model"
DAILY_QUOTA_HINT = "the daily quota is used up: use another model or key, or try again tomorrow"
NO_TOOLS_HINT = "use --no-tools, or a model that can call tools"


class Gemini(Provider):
    """Gemini's own API."""

    profiles = PROFILES
    error_rules = (
        ("API_KEY_INVALID|key was reported as leaked", RetryAction.NEXT_KEY, "check the key (see ask keys)"),
        ("credits are depleted", RetryAction.NEXT_KEY, "add credits at https://ai.studio/projects, or use another key"),
        # https://github.com/Gitlawb/openclaude/pull/249
        (r"^429 .*\blimit: 0\b", RetryAction.NEXT_KEY, NO_FREE_QUOTA_HINT),
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
        error = self.find_response_error(response, reason)
        answer = ModelResponse(
            text=join_text(parts),
            reasoning=join_text(parts, thoughts=True),
            finish_reason=FinishReason.ERROR if error else to_finish(reason, bool(list_function_calls(parts))),
            usage=parse_usage(read_dict(response.get("usageMetadata"))),
            provider_state=state if needs_state else None,
            finish_message=format_filter_reason(response, reason)
            or (MEDIA_NOTICE if any("inlineData" in part and not part.get("thought") for part in parts) else ""),
        )
        return self.check_answer(answer, error)

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
        from .batch_apis import GeminiBatchApi

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
    """Check whether an error message mentions a parameter, in camel or snake case."""
    snake = re.sub(r"([A-Z])", r"_\1", parameter).lower()
    return re.search(rf"\b({parameter}|{snake})\b", message) is not None


def parse_retry_delay(details: Iterable[Mapping[str, Any]]) -> float | None:
    """Return the seconds until a retry, sent as "17s"; None if there is no such value."""
    delays = (read_number(read_str(detail.get("retryDelay")).removesuffix("s")) for detail in details)
    return next((delay for delay in delays if delay is not None and delay >= 0), None)


# Responses

PARTIAL_CALL_FIELDS = ("partialArgs", "willContinue")
"""Fields of a call that arrives in fragments; an assembled call has them only if it is incomplete."""
PATH_STEP_PATTERN = re.compile(r"""\.([^.\[\]]+)|\[(\d{1,6})\]|\['([^']*)'\]|\["([^"]*)"\]""")
FINISH_REASON_NAMES = (
    *("", "STOP", "MAX_TOKENS", "SAFETY", "RECITATION", "OTHER", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT"),
    *("SPII", "MALFORMED_FUNCTION_CALL", "IMAGE_SAFETY", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS"),
)
"""Finish reasons by number, for servers that send enums as numbers."""
FILTER_REASONS = {
    *("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "ESCALATION", "MODEL_ARMOR"),
    *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"),
}
FAILURE_MESSAGES = {
    "MALFORMED_FUNCTION_CALL": "the model wrote a tool call that cannot be read",
    "UNEXPECTED_TOOL_CALL": "the model called a tool, but none was offered",
    "TOO_MANY_TOOL_CALLS": "the model called too many tools at once",
    "MALFORMED_RESPONSE": "the model wrote an answer that cannot be read",
    "MISSING_THOUGHT_SIGNATURE": "the signature of an earlier tool call is missing",
    "OTHER": "the model stopped without a reason",
}


class GeminiStreamReader:
    """Assembles a stream into the response that the API returns without streaming."""

    def __init__(self) -> None:
        self.complete = False
        self.size = 0
        self.may_end = False
        """Set by a finish reason before any part. Gateways send it while the model reasons, ahead of the answer.

        https://github.com/Chevey339/kelivo/issues/1003
        """
        self._response_fields: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._candidate: dict[str, Any] | None = None
        self._parts: list[tuple[dict[str, Any], StringIO | None]] = []
        """The fields of each part, and its text so far."""
        self._call_count = 0

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
        deltas: list[Delta] = []
        for candidate in map(read_dict, to_object_list(chunk.get("candidates"))):
            if (read_int(candidate.get("index")) or 0) > 0:
                continue
            self._candidate = self._candidate or {}
            merge_fields(self._candidate, candidate, "content")
            new_deltas: list[Delta] = []
            for part in to_object_list(read_dict(candidate.get("content")).get("parts")):
                new_deltas += self._read_part(read_dict(part), len(event.data))
            deltas += new_deltas
            # A finish reason can also come before the result of code, after which the answer continues.
            reason = candidate.get("finishReason")
            is_code_running = reason == "STOP" and self._parts and "executableCode" in self._parts[-1][0]
            self.may_end = reason == "STOP" and not self._parts
            if (reason or new_deltas) and error is None:
                self.complete = bool(reason and not is_code_running and not self.may_end)
        if "usageMetadata" in chunk:
            merge_usage(self._usage, chunk["usageMetadata"], is_final=self.complete)
        return deltas

    def _read_part(self, part: dict[str, Any], event_size: int) -> list[Delta]:
        call, text = part.get("functionCall"), part.get("text")
        part_count = len(self._parts)
        deltas: list[Delta] = []
        if isinstance(call, dict):
            deltas = self._read_call(part, call)
            self.size += event_size
        elif isinstance(text, str):
            fields = {name: value for name, value in part.items() if name != "text"}
            last_fields, last_text = self._parts[-1] if self._parts else ({}, None)
            # A part with a signature stays separate, because it must be sent back as received.
            if last_text is not None and last_fields == fields and SIGNATURE_FIELD not in fields:
                last_text.write(text)
            elif text or SIGNATURE_FIELD in fields:
                last_text = StringIO()
                last_text.write(text)
                self._parts.append((fields, last_text))
            self.size += len(text)
            deltas = to_deltas(text, is_reasoning=bool(part.get("thought")))
        else:
            self._parts.append((part, None))
        if len(self._parts) > part_count:
            self.size += ITEM_OVERHEAD + event_size
        return deltas

    def _read_call(self, part: dict[str, Any], fragment: dict[str, Any]) -> list[Delta]:
        """Add a call, or a fragment to the call that announced more: Vertex AI can send arguments value by value."""
        name = read_str(fragment.get("name"))
        last_call = read_dict(self._parts[-1][0].get("functionCall")) if self._parts else {}
        if name or last_call.get("willContinue") is not True:
            call = {field: value for field, value in fragment.items() if field != "partialArgs"}
            self._parts.append((part | {"functionCall": call}, None))
            self._call_count += 1
        else:
            call = last_call
            call["willContinue"] = fragment.get("willContinue")
        try:
            for value in read_list(fragment.get("partialArgs")):
                set_argument(call, read_dict(value))
        except LookupError:
            call["partialArgs"] = fragment["partialArgs"]
        return [ToolCallDelta(self._call_count - 1, name)] if name else []

    def response(self) -> dict[str, Any]:
        fields = self._response_fields | ({"usageMetadata": self._usage} if self._usage else {})
        if self._candidate is None:
            return fields
        parts = [fields if text is None else {"text": text.getvalue()} | fields for fields, text in self._parts]
        content = {"role": "model", "parts": parts}
        return fields | {"candidates": [{"content": content} | self._candidate]}


def set_argument(call: dict[str, Any], fragment: dict[str, Any]) -> None:
    """Set the argument at a fragment's JSONPath, such as "$.places[0].name"; more of a string is appended.

    Raises:
        LookupError: The path does not exist.
    """
    path = read_str(fragment.get("jsonPath"))
    matches = list(PATH_STEP_PATTERN.finditer(path))
    if not matches or "$" + "".join(match[0] for match in matches) != path:
        raise LookupError(path)
    steps = ["args", *(int(match[2]) if match[2] else str(match[match.lastindex or 0]) for match in matches)]
    container: Any = call
    for step, next_step in pairwise(steps):
        container = enter_step(container, step, [] if isinstance(next_step, int) else {})
    value = next((fragment[name] for name in ("stringValue", "numberValue", "boolValue") if name in fragment), None)
    old_value = enter_step(container, steps[-1], None)
    container[steps[-1]] = old_value + value if isinstance(old_value, str) and isinstance(value, str) else value


def enter_step(container: Any, step: str | int, default: Any) -> Any:
    """Return the value one step further in an object or array, inserting `default` if missing.

    Raises:
        LookupError: The step does not exist.
    """
    if isinstance(container, dict) and isinstance(step, str):
        return container.setdefault(step, default)
    if isinstance(container, list) and isinstance(step, int) and step <= len(container):
        if step == len(container):
            container.append(default)
        return container[step]
    raise LookupError(step)


def read_parts(response: Mapping[str, Any]) -> list[Part]:
    """Return the parts of the first candidate."""
    candidate = get_first_candidate(response)
    return [read_dict(part) for part in read_list(read_dict(candidate.get("content")).get("parts"))]


def get_first_candidate(response: Mapping[str, Any]) -> dict[str, Any]:
    """Return the first candidate of a response; {} if there is none."""
    return read_dict(next(iter(read_list(response.get("candidates"))), None))


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
    """Check whether a part is neither a thought nor an empty text."""
    return not part.get("thought") and part.get("text") != ""


def format_arguments(call: Mapping[str, Any]) -> str:
    """Return a call's arguments as JSON.

    For an incomplete call the JSON is truncated, so that it cannot be parsed and run.
    """
    args = call.get("args")
    text = args if isinstance(args, str) else json.dumps({} if args is None else args, ensure_ascii=False)
    return text[:-1] if any(call.get(name) for name in PARTIAL_CALL_FIELDS) else text


def read_finish_reason(response: Mapping[str, Any]) -> str:
    """Return Gemini's finish reason; "" if there is none.

    It is "SAFETY" if the prompt itself was blocked.
    """
    if read_dict(response.get("promptFeedback")).get("blockReason"):
        return "SAFETY"
    reason = get_first_candidate(response).get("finishReason")
    number = read_int(reason)
    if number is not None:
        return FINISH_REASON_NAMES[number] if 0 <= number < len(FINISH_REASON_NAMES) else ""
    return read_str(reason).upper()


def format_filter_reason(response: Mapping[str, Any], reason: str) -> str:
    """Return the reason, message and harm categories of a content filter; "" if none applied."""
    prompt, candidate = read_dict(response.get("promptFeedback")), get_first_candidate(response)
    if reason not in FILTER_REASONS:
        return ""
    blocked = prompt.get("blockReason")
    label = f"prompt blocked: {blocked}" if blocked else reason
    message = read_str(prompt.get("blockReasonMessage") if blocked else candidate.get("finishMessage"))
    ratings = (read_dict(rating) for rating in read_list((prompt if blocked else candidate).get("safetyRatings")))
    harms = [read_str(rating.get("category")) for rating in ratings if rating.get("blocked") is True]
    return ": ".join(filter(None, (label, message, ", ".join(filter(None, harms)))))


def to_finish(reason: str, has_calls: bool) -> FinishReason:
    """Convert the finish reason; an unknown reason is a normal end."""
    if reason in FILTER_REASONS:
        return FinishReason.CONTENT_FILTER
    if reason in ("MAX_TOKENS", "CONTINUATION"):
        return FinishReason.LENGTH
    return FinishReason.TOOL_CALLS if has_calls else FinishReason.STOP


def parse_usage(usage: Mapping[str, Any]) -> Usage:
    """Parse the token counts.

    Gemini's total is the sum of prompt, tool use prompt, candidates and thoughts.
    https://ai.google.dev/api/generate-content#UsageMetadata
    """
    return Usage(
        input_tokens=sum_counts(usage, "promptTokenCount", "toolUsePromptTokenCount"),
        output_tokens=sum_counts(usage, "candidatesTokenCount", "thoughtsTokenCount"),
        cached_tokens=read_int(usage.get("cachedContentTokenCount")),
        reasoning_tokens=read_int(usage.get("thoughtsTokenCount")),
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
        docs="https://ai.google.dev/api",
    )
)
