"""OpenRouter: one key for every vendor's models. https://openrouter.ai/docs

In addition to Chat Completions it has attribution headers, reasoning details that must be sent back unchanged, parsed
PDFs that are sent back, cache markers for Anthropic's and Alibaba's models, and errors that contain the upstream
provider's own error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from ask import (
    BatchApi,
    ChatCompletions,
    ChatRequest,
    DecisionApi,
    FinishReason,
    HttpRequest,
    Message,
    ModelInfo,
    ModelResponse,
    ProviderError,
    RetryAction,
    ToolCall,
    Usage,
)
from ask.parsing import (
    CallIdMap,
    compute_seconds_until,
    find_error,
    fit_call_id,
    get_model_family,
    parse_json,
    parse_retry_after,
    read_date,
    read_dict,
    read_first_choice,
    read_int,
    read_list,
    read_number,
    read_str,
)
from ask.profiles import EFFORTS, ModelProfile, matches

from .anthropic_models import ATTACHMENT_LIMITS

KEY_PATH = "/key"
"""https://openrouter.ai/docs/api_reference/limits#checking-your-limits"""
TOKENS_PER_PRICE = 1_000_000
CACHE_MARKER = {"type": "ephemeral"}
ADD_CREDITS_HINT = "add credits at https://openrouter.ai/settings/credits, or ask for less with -o max_tokens=N"
BUDGET_HINT = "raise the limit, or use another key"
NO_TOOLS_HINT = "use --no-tools, or a model that can call tools (ask models -p openrouter)"
DATA_POLICY_HINT = "allow it at https://openrouter.ai/settings/privacy, or use another model"
SHORTER_HINT = "send less, or use a model with a larger context window"
FEWER_OPTIONS_HINT = "leave out options (-o), or use another model"
IMAGES_HINT = "add -o 'modalities=[\"image\"]'"
IN_FLIGHT_LIMIT = "openrouter_in_flight_budget"
"""Limits the cost of concurrent requests: https://openrouter.ai/docs/api_reference/limits#in-flight-spending-budget"""
SHARED_POOL_LIMIT = "upstream_provider_shared_pool"
"""The only `limit_source` that is not a limit of the user's own."""
REFUSED_STATUSES = (429, 503)
OVERLOAD_CODES = ("capacity_exhausted", "temporarily_unavailable")
OVERLOAD_TYPE = "provider_overloaded"
UPSTREAM_ERROR_FIELDS = ("provider_name", "provider_code", "provider_error_code", "raw")
"""The fields in the metadata of an error that an upstream provider sent."""
GENERIC_MESSAGE = "Provider returned error"
"""OpenRouter's message for an upstream error; what it was may be in `error_type`, which is the same for all vendors.

https://openrouter.ai/docs/api/reference/streaming#errors-after-the-response-is-committed-mid-stream
"""
NATIVE_FAILURES = {
    "MALFORMED_FUNCTION_CALL": "the model wrote a tool call that cannot be read",
    "network_error": "the connection to the model failed",
    "error": "the model stopped with an error",
}
NATIVE_LENGTH_REASONS = ("length", "max_tokens", "max_output_tokens")
IMAGE_TYPES = ("image/png", "image/jpeg", "image/webp", "image/gif")
DECISIONS_PAGE = "https://openrouter.ai/docs/guides/overview/multimodal/decisions"
ATTACHMENT_TYPES = (
    *(*IMAGE_TYPES, "application/pdf"),
    *("audio/wav", "audio/mpeg", "audio/ogg", "audio/flac", "audio/mp4", "audio/aac", "audio/aiff"),
    *("video/mp4", "video/mpeg", "video/quicktime", "video/webm"),
)
"""https://openrouter.ai/docs/features/multimodal. The models list says which model accepts them; all accept PDF."""
SIGNED_FORMAT = "anthropic-claude-v1"
"""https://openrouter.ai/docs/use-cases/reasoning-tokens#preserving-reasoning"""
ROUTER_PREFIXES = ("openrouter", "@preset")
"""Prefixes before the slash for which OpenRouter chooses the model, as in openrouter/auto."""
EXPLICIT_CACHE_VENDORS = ("anthropic", "qwen")
"""Vendors whose models cache only what is marked: https://openrouter.ai/docs/guides/best-practices/prompt-caching"""
REASONING_VENDORS = ("deepseek", "moonshotai")
"""Vendors that refuse a conversation with tools if messages of the assistant have no reasoning."""
REASONING_PLACEHOLDER = " "
"""Not empty, because Moonshot treats empty reasoning as missing."""
SIGNATURE_PLACEHOLDER = {
    "type": "reasoning.encrypted",
    "format": "google-gemini-v1",
    "data": "skip_thought_signature_validator",
    "index": 0,
}
"""Replaces the signature of calls that Gemini did not make."""
OLD_GEMINI_PATTERN = re.compile(r"/(gemini-[12]\b|gemma)")
"""Google's models that need no signatures."""
CALL_ID_PATTERNS = {"anthropic": "[a-zA-Z0-9_-]{1,40}", "mistralai": "[a-zA-Z0-9]{9}"}
"""The call ids that vendors accept, which must also be unique."""
IMAGES_PAGE = "https://openrouter.ai/docs/guides/overview/multimodal/image-generation"
IMAGES_PATH = "/images"
IMAGE_MODELS = (
    "*black-forest-labs/*|*krea/*|*quiver/*|*recraft/*|*sourceful/*"
    "|*/gpt-image*|*/grok-imagine*|*/mai-image*|*/muse-image*|*/seedream*"
)
"""Models that only generate images, which most refuse to do in Chat Completions.

They are not in the models list that ask fetches, which has models for text.
https://github.com/rbb-dev/Open-WebUI-OpenRouter-pipe/issues/61
"""
IMAGES_ONLY = ["image"]
PROFILES = (
    ModelProfile(IMAGE_MODELS, IMAGES_PAGE, (), attachments=IMAGE_TYPES),
    ModelProfile("typesafe/jev*|~typesafe/jev*", DECISIONS_PAGE, (), attachments=IMAGE_TYPES[:2], decisions="only"),
    ModelProfile(
        "*/*-decisions|google/gemini-decision*|perplexity/pplx-decider*|cloudflare/clef*|liquid/d1*"
        "|inception/mercury-decide*|microsoft/microsoft-decision*",
        DECISIONS_PAGE,
        (),
        attachments=IMAGE_TYPES[:3],
        decisions="only",
    ),
    ModelProfile(
        "*google/gemini-{1-2.5}*|*google/gemma*",
        "https://ai.google.dev/gemini-api/docs/structured-output",
        schema_with_tools=False,
    ),
    ModelProfile("*anthropic/*", "https://platform.claude.com/docs/en/build-with-claude/vision", **ATTACHMENT_LIMITS),
    ModelProfile(
        "*anthropic/*|*google/*|*openai/*|*x-ai/*",
        "https://openrouter.ai/docs/features/structured-outputs",
        schema_with_tools=True,
    ),
    # OpenRouter itself replaces an effort that the model does not have.
    ModelProfile(
        "*",
        "https://openrouter.ai/docs/use-cases/reasoning-tokens",
        EFFORTS,
        {effort: {"reasoning": {"effort": effort}} for effort in EFFORTS},
    ),
)
SERVER_TOOLS: dict[str, dict[str, Any]] = {
    "web_search": {"type": "openrouter:web_search"},
    "web_fetch": {"type": "openrouter:web_fetch"},
}
"""https://openrouter.ai/docs/guides/features/server-tools; those for code and tool search are not available on Chat
Completions."""
# Without HTTP-Referer, which must be the URL of the program's website: https://openrouter.ai/docs/app-attribution
ATTRIBUTION_HEADERS = {"X-Title": "ask", "X-OpenRouter-Categories": "cli-agent"}


class OpenRouter(ChatCompletions):
    """OpenRouter, with its additions to Chat Completions.

    Anthropic's check that nothing before the reasoning has changed is not enforced on requests through OpenRouter:
    https://openrouter.ai/docs/cookbook/evaluate-and-optimize/model-migrations/claude-5-5
    """

    profiles = PROFILES
    state_fields = ("reasoning_details", "annotations")
    error_rules = (
        # https://openrouter.ai/docs/guides/features/workspaces/workspace-budgets
        (r'^403 .*(Key limit exceeded|budget of \S+ exceeded|"limit_source")', RetryAction.NEXT_KEY, BUDGET_HINT),
        ("^402 .*(Key limit exceeded|openrouter_key_limit)", RetryAction.NEXT_KEY, BUDGET_HINT),
        ("^402 ", None, ADD_CREDITS_HINT),
        ("^404 .*(support tool use|tool_choice)", RetryAction.WITHOUT_TOOLS, NO_TOOLS_HINT),
        # A strict schema rules out most of the endpoints.
        ("^404 .*data.policy", RetryAction.WITHOUT_SCHEMA, DATA_POLICY_HINT),
        ("^404 .*(requested parameters|require_parameters)", RetryAction.WITHOUT_SCHEMA, FEWER_OPTIONS_HINT),
        (r'^404 .*"excluded_by":\s*\[[^]]*"context_length"', RetryAction.SHORTER, SHORTER_HINT),
        ('^404 .*"excluded_by"', None, FEWER_OPTIONS_HINT),
        ("^40[04] .*(image generation model|output modalities)", None, IMAGES_HINT),
        ("^404 No endpoints found", None, "ask models -p openrouter lists the models"),
    )

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.info = self.info._replace(key_path=KEY_PATH)

    def build_headers(self, key: str) -> dict[str, str]:
        return super().build_headers(key) | ATTRIBUTION_HEADERS

    def provider_server_tools(self, model: str) -> dict[str, dict[str, Any]]:
        return SERVER_TOOLS

    def provider_supports_tools(self, model: str) -> bool:
        return not is_image_model(model)

    def provider_build_request(self, request: ChatRequest, key: str) -> HttpRequest:
        if uses_image_api(request):
            return HttpRequest(IMAGES_PATH, build_image_body(request), self.build_headers(key))
        return super().provider_build_request(request, key)

    def build_body(self, request: ChatRequest) -> dict[str, Any]:
        body, vendor = super().build_body(request), get_model_family(request.model)
        if vendor in CALL_ID_PATTERNS:
            body["messages"] = convert_call_ids(body["messages"], CALL_ID_PATTERNS[vendor])
        if vendor in EXPLICIT_CACHE_VENDORS:
            body["messages"] = add_cache_markers(body["messages"])
        keep_first_parsed_files(body["messages"])
        if "-image" in request.model:
            body.setdefault("modalities", ["image", "text"])
        if request.conversation_id:  # routes its requests to one provider, whose cache has the conversation
            body.setdefault("session_id", request.conversation_id)
        return body

    def format_message(self, message: Message, model: str) -> dict[str, Any]:
        """Add placeholders for the reasoning of other models' messages, which some vendors require.

        https://github.com/earendil-works/pi/pull/987 and https://github.com/cline/cline/issues/8214
        """
        formatted = super().format_message(message, model)
        details = read_list(formatted.get("reasoning_details"))
        vendor = get_model_family(model)
        if message.role == "assistant" and vendor in REASONING_VENDORS and not details:
            formatted["reasoning_content"] = REASONING_PLACEHOLDER
        if message.tool_calls and vendor == "google" and not OLD_GEMINI_PATTERN.search(model):
            is_signed = any(read_dict(detail).get("type") == "reasoning.encrypted" for detail in details)
            placeholder = SIGNATURE_PLACEHOLDER | {"id": formatted["tool_calls"][0]["id"]}
            formatted["reasoning_details"] = details if is_signed else [*details, placeholder]
        return formatted

    def find_provider_state(self, message: Message, model: str) -> Mapping[str, Any]:
        """Leave out reasoning that cannot be sent back; parsed files can be sent to any model."""
        state = dict(super().find_provider_state(message, model))
        if "reasoning_details" in state:
            state["reasoning_details"] = list(filter(is_sendable_detail, read_list(state["reasoning_details"])))
        saved = message.provider_state
        if saved and saved.provider == self.state_owner and "annotations" in saved.data:
            state["annotations"] = saved.data["annotations"]
        return state

    def can_read_state(self, author: str, model: str) -> bool:
        """Also send reasoning to routers and presets, which have no family: OpenRouter drops what they cannot read."""
        return get_model_family(model) in ROUTER_PREFIXES or super().can_read_state(author, model)

    def provider_parse_response(self, response: Mapping[str, Any]) -> ModelResponse:
        """Parse the answer, also if a call was cut off at the token limit: then only the native reason says so."""
        response = unwrap_response(response)
        answer = keep_parsed_files(super().provider_parse_response(response))
        native_reason = read_str(read_first_choice(response).get("native_finish_reason")).lower()
        if native_reason == "continuation" and has_continuation(answer):
            return answer._replace(finish_reason=FinishReason.CONTINUE)
        is_cut_off = native_reason in NATIVE_LENGTH_REASONS
        return answer._replace(finish_reason=FinishReason.LENGTH) if is_cut_off else answer

    def provider_parse_tool_calls(self, response: Mapping[str, Any]) -> list[ToolCall]:
        return super().provider_parse_tool_calls(unwrap_response(response))

    def parse_usage(self, usage: Mapping[str, Any]) -> Usage:
        """Add what the upstream provider charges to the user's own key; otherwise the cost includes it.

        https://openrouter.ai/docs/cookbook/administration/usage-accounting#cost-breakdown
        """
        parsed = super().parse_usage(usage)
        upstream_cost = read_number(read_dict(usage.get("cost_details")).get("upstream_inference_cost"))
        if usage.get("is_byok") is not True or upstream_cost is None:
            return parsed
        return parsed._replace(cost=(parsed.cost or 0) + upstream_cost)

    def find_response_error(self, response: Mapping[str, Any], answer: Any) -> ProviderError | None:
        """Also detect failures for which only the native reason is an error."""
        native_reason = read_str(read_first_choice(response).get("native_finish_reason"))
        if find_error(response) is None and native_reason in NATIVE_FAILURES:
            return ProviderError(NATIVE_FAILURES[native_reason], None, RetryAction.retry())
        error = super().find_response_error(response, answer)
        if error and error.status == 429 and answer.finish_reason is FinishReason.ERROR:
            # OpenRouter checks the user's own limits before the answer begins.
            metadata = read_dict(read_dict(find_error(response)).get("metadata"))
            error.is_overload = error.is_overload or not metadata.get("limit_source")
        return error

    def provider_parse_error(self, status: int, headers: Mapping[str, str], body: str) -> ProviderError:
        """Add the upstream provider, what OpenRouter advises, and whether and when the request may succeed."""
        error = super().provider_parse_error(status, headers, body)
        fields = read_dict(find_error(parse_json(body)))
        metadata, availability = read_dict(fields.get("metadata")), read_dict(fields.get("availability"))
        error.message = add_error_details(error.message, metadata, availability)
        error.hint = choose_hint(metadata, availability) or error.hint
        delay = parse_retry_delay(headers, metadata, availability)
        is_temporary = metadata.get("limit_source") == IN_FLIGHT_LIMIT or (status == 402 and delay is not None)
        is_retried = error.retry_action.kind == "retry"
        if is_temporary or availability.get("retryable") is True or (is_retried and delay is not None):
            error.retry_action = RetryAction.retry(error.retry_action.delay if delay is None else delay)
        elif is_retried and availability.get("retryable") is False:
            error.retry_action = RetryAction.NONE
        if error.status in REFUSED_STATUSES:
            error.is_overload = is_upstream_overload(metadata, availability)
        return error

    def provider_notice(self, request: ChatRequest, answer: ModelResponse) -> str:
        """Name the model that answered if OpenRouter chose it, from fallbacks, as a router or in a preset."""
        is_chosen = request.options.get("models") or get_model_family(request.model) in ROUTER_PREFIXES
        is_other = answer.model not in ("", request.model)
        return f"answered by {join_words(answer.model)}" if is_chosen and is_other else ""

    def provider_batch(self) -> BatchApi | None:
        from .batch_apis import OpenRouterBatchApi

        return OpenRouterBatchApi(self.build_headers)

    def provider_decisions(self) -> DecisionApi | None:
        from .decision_apis import OpenRouterDecisionApi

        return OpenRouterDecisionApi(self.build_headers)

    def parse_model(self, entry: Mapping[str, Any]) -> ModelInfo:
        pricing = read_dict(entry.get("pricing"))
        parameters = entry.get("supported_parameters")
        return ModelInfo(
            id=read_str(entry.get("id")),
            title=read_str(entry.get("name")),
            context_length=read_int(entry.get("context_length")),
            tools="tools" in parameters if isinstance(parameters, list) else None,
            input_price=parse_price(pricing.get("prompt")),
            output_price=parse_price(pricing.get("completion")),
            cached_input_price=parse_price(pricing.get("input_cache_read")),
            cache_write_price=parse_price(pricing.get("input_cache_write")),
            output_limit=read_int(read_dict(entry.get("top_provider")).get("max_completion_tokens")),
            efforts=read_efforts(entry),
            retirement_date=read_date(entry.get("expiration_date")),
        )


def uses_image_api(request: ChatRequest) -> bool:
    """Check whether only images are wanted, because of the model or the option `modalities`."""
    modalities = request.options.get("modalities")
    return modalities == IMAGES_ONLY if modalities else is_image_model(request.model)


def is_image_model(model: str) -> bool:
    return matches(IMAGE_MODELS, model)


def build_image_body(request: ChatRequest) -> dict[str, Any]:
    """Return the body of a request for images: the last message and its images, because there are no conversations."""
    last = next((message for message in reversed(request.messages) if message.role == "user"), None)
    body: dict[str, Any] = {"model": request.model, "prompt": last.content if last else ""}
    images = [file for file in last.attachments if file.media_type.startswith("image/")] if last else []
    if images:
        body["input_references"] = [{"type": "image_url", "image_url": {"url": image.data_url}} for image in images]
    return body | {name: value for name, value in request.options.items() if name not in ("modalities", "reasoning")}


def convert_image_response(response: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a response of the Image API in the format of Chat Completions, and any other unchanged."""
    images = [read_dict(image) for image in read_list(response.get("data"))]
    if response.get("choices") or not images:
        return response
    urls = [
        f"data:{read_str(image.get('media_type')) or 'image/png'};base64,{read_str(image.get('b64_json'))}"
        for image in images
    ]
    message = {"role": "assistant", "content": None, "images": [{"image_url": {"url": url}} for url in urls]}
    return {**response, "choices": [{"index": 0, "finish_reason": "stop", "message": message}]}


def unwrap_response(response: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the response itself if it is, as it sometimes is, in the place of the upstream provider's name.

    https://github.com/pydantic/pydantic-ai/issues/3994
    """
    nested = read_dict(response.get("provider"))
    return nested if nested.get("choices") and not response.get("choices") else convert_image_response(response)


def keep_parsed_files(answer: ModelResponse) -> ModelResponse:
    """Keep only the parsed files of the annotations to send back; the others are the answer's sources.

    With them, OpenRouter does not parse, and charge for, the same file again:
    https://openrouter.ai/docs/guides/overview/multimodal/pdfs#skip-parsing-costs
    """
    state = answer.provider_state
    if state is None or "annotations" not in state.data:
        return answer
    files = [one for one in read_list(state.data["annotations"]) if read_dict(one).get("type") == "file"]
    data = {name: value for name, value in state.data.items() if name != "annotations"}
    data |= {"annotations": files} if files else {}
    return answer._replace(provider_state=state._replace(data=data) if data else None)


def keep_first_parsed_files(messages: list[dict[str, Any]]) -> None:
    """Leave out files that an earlier message has, because several answers may repeat them."""
    known: list[Any] = []
    for message in messages:
        new = [one for one in read_list(message.pop("annotations", None)) if one not in known]
        known += new
        message.update({"annotations": new} if new else {})


def has_continuation(answer: ModelResponse) -> bool:
    """Check whether an answer has the encrypted reasoning with which a Gemini model continues in the next request.

    https://openrouter.ai/docs/cookbook/evaluate-and-optimize/model-migrations/gemini-4
    """
    details = read_list(answer.provider_state.data.get("reasoning_details")) if answer.provider_state else []
    return any(read_dict(detail).get("type") == "reasoning.encrypted" for detail in details)


def is_sendable_detail(detail: Any) -> bool:
    """Check whether reasoning may be sent back: Anthropic refuses text without the signature at its end.

    The signature is missing if the answer was cut off.
    """
    fields = read_dict(detail)
    is_signed_text = fields.get("type") == "reasoning.text" and fields.get("format") == SIGNED_FORMAT
    return not is_signed_text or bool(fields.get("signature"))


def read_efforts(entry: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the efforts of a listed model; None if none are listed.

    https://openrouter.ai/docs/client-sdks/python/components/modelreasoning
    """
    reasoning = read_dict(entry.get("reasoning"))
    if not reasoning:
        return None
    listed = read_list(reasoning.get("supported_efforts")) or EFFORTS
    return tuple(
        effort for effort in EFFORTS if (not reasoning.get("mandatory") if effort == "none" else effort in listed)
    )


def convert_call_ids(messages: list[dict[str, Any]], pattern: str) -> list[dict[str, Any]]:
    """Replace call ids that the vendor of the model refuses, in a conversation that another model began."""
    call_ids = CallIdMap(partial(fit_call_id, pattern))

    def convert(message: dict[str, Any]) -> dict[str, Any]:
        if "tool_call_id" in message:
            return message | {"tool_call_id": call_ids.get_id(message["tool_call_id"])}
        calls = [call | {"id": call_ids.assign_id(call["id"])} for call in message.get("tool_calls", ())]
        return message | ({"tool_calls": calls} if calls else {})

    return list(map(convert, messages))


def add_cache_markers(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add cache markers for models that cache only what is marked.

    The markers are at the system prompt, the end of this request, and the end of the previous request, so that the
    prefix is found after any number of calls. The texts of all messages except the model's own become content parts, so
    that only the markers differ from one round to the next.
    """
    formatted = [message if message["role"] == "assistant" else to_text_part(message) for message in messages]
    last_assistant_index = max((i for i, message in enumerate(formatted) if message["role"] == "assistant"), default=0)
    for end in {0, max(last_assistant_index - 1, 0), len(formatted) - 1}:
        content = formatted[end]["content"]
        texts = [part for part in content if part["type"] == "text"] if isinstance(content, list) else []
        for last in texts[-1:]:  # only texts can be marked
            last["cache_control"] = CACHE_MARKER
    return formatted


def to_text_part(message: dict[str, Any]) -> dict[str, Any]:
    """Convert a message's text to a content part.

    Empty text stays a string, because empty parts are refused.
    """
    text = message["content"]
    return message | {"content": [{"type": "text", "text": text}]} if isinstance(text, str) and text else message


def add_error_details(message: str, metadata: Mapping[str, Any], availability: Mapping[str, Any]) -> str:
    """Return an error's message with the upstream provider, the type of error, and what ruled out all endpoints."""
    upstream = join_words(metadata.get("provider_name"))
    if upstream not in message:
        message = f"{upstream}: {message}"
    error_type = read_str(metadata.get("error_type"))
    if message.endswith(GENERIC_MESSAGE) and error_type not in ("", "unmapped"):
        message += f": {error_type.replace('_', ' ')}"
    detail = join_words(read_dict(availability.get("constraint")).get("detail"))
    return message if detail in message else f"{message.rstrip('.')}: {detail}"


def choose_hint(metadata: Mapping[str, Any], availability: Mapping[str, Any]) -> str:
    """Return what OpenRouter advises after an error; "" if it advises nothing."""
    models = ", ".join(filter(None, map(read_str, read_list(availability.get("fallback_models")))))
    reset = read_str(metadata.get("resets_at"))
    advice = join_words(metadata.get("remedy_hint")) or (f"use another model, such as {models}" if models else "")
    return f"{advice or BUDGET_HINT} (it resets at {reset})" if reset else advice


def is_upstream_overload(metadata: Mapping[str, Any], availability: Mapping[str, Any]) -> bool:
    """Check whether an upstream provider refused a request, not OpenRouter because of a limit of the user's own."""
    source = read_str(metadata.get("limit_source"))
    if source:
        return source == SHARED_POOL_LIMIT
    if availability.get("code") in OVERLOAD_CODES or metadata.get("error_type") == OVERLOAD_TYPE:
        return True
    return any(map(metadata.get, UPSTREAM_ERROR_FIELDS))


def join_words(value: Any) -> str:
    """Return a string on one line; "" for anything else."""
    return " ".join(read_str(value).split())


def parse_retry_delay(
    headers: Mapping[str, str], metadata: Mapping[str, Any], availability: Mapping[str, Any]
) -> float | None:
    """Return the seconds until a retry, from the headers or what the body says.

    The body has them itself or as a copy of upstream headers. The reset time of OpenRouter's own rate limits is in Unix
    milliseconds, of its clock.
    """
    upstream_headers = read_dict(metadata.get("headers"))
    all_headers = {name.lower(): str(value) for name, value in (*upstream_headers.items(), *headers.items())}
    stated = map(read_number, (availability.get("retry_after"), metadata.get("retry_after_seconds")))
    delay = next((each for each in (parse_retry_after(all_headers), *stated) if each is not None), None)
    reset = read_number(all_headers.get("x-ratelimit-reset"))
    if delay is None and reset is not None:
        seconds = compute_seconds_until(reset / 1000, all_headers)
        return seconds if seconds > 0 else None
    return delay


def parse_price(per_token: Any) -> float | None:
    """Convert a price per token to US dollars per million tokens; None if it varies (sent as -1)."""
    dollars = read_number(per_token)
    return None if dollars is None or dollars < 0 else dollars * TOKENS_PER_PRICE


provider = OpenRouter(
    name="openrouter",
    title="OpenRouter",
    base_url="https://openrouter.ai/api/v1",
    key_env="OPENROUTER_API_KEY",
    default_model="~anthropic/claude-sonnet-latest",
    reports_cost=True,
    attachments=ATTACHMENT_TYPES,
)
