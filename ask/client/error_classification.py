"""Classifies provider errors by their text: unsupported tools, rejected schemas, full contexts, bad parameters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ask.client.stated_limits import REQUEST_LIMITS, find_stated_limit
from ask.errors import AskError, NetworkError, ParameterError, ProviderError, RetryAction
from ask.messages import ToolSpec
from ask.plugin_api.types import ChatRequest

TOOLS_UNSUPPORTED_PATTERN = re.compile(
    r"(?:not|n't) support (?:the use of )?(?:tools?|tool use|tool calling|function calling)\b(?! (?:use )?in stream)"
    r"|(?:tools?|tool use|tool calling|function calling)`? (?:is|are) not (?:supported|enabled)"
    r"|(?:/|\bmodel )\S+ is not supported for function calling|no endpoints found that support tool use"
    r"|--enable-auto-tool-choice|tools param requires --jinja"
    r"|(?:unrecognized request arguments?(?: supplied)?|unknown (?:parameter|field)|unsupported parameter)"
    r":? ['\"`]?(?:tool_choice, )?tools\b(?![.\[])|\btools: extra inputs are not permitted",
    re.IGNORECASE,
)
"""Messages that a model cannot call tools, as worded by various services.

vLLM and llama-server name the option with which they must be started: https://github.com/vllm-project/vllm/issues/9986,
https://github.com/defilantech/LLMKube/issues/126. Models that only refuse them in a stream get them without one.
"""

SCHEMA_REJECTED_PATTERN = re.compile(
    r"schema|response.?(?:format|mime)|text\.format|structured.?output|formatted output|output_(?:config|format)"
    # Alibaba: https://github.com/presenton/presenton/issues/184, SGLang, Cohere:
    # https://github.com/OpenRouterTeam/openrouter-examples/issues/71
    r"|json.?mode|guided.?(?:decoding|json)|parameter 'strict'|grammar|too many states",
    re.IGNORECASE,
)
"""Messages that a service cannot enforce schemas, or not this one, as worded by various services."""

CONTEXT_EXCEEDED_PATTERN = re.compile(
    r"context.length.exceeded|exceed_context_size|(?:prompt|input) is too long|prompt too long"
    r"|(?:maximum|available) (?:context|prompt) (?:length|size)|maximum number of tokens allowed"
    r"|exceed(?:s|ed)? (?:the |this |your |model(?:'s)? )*(?:available )?(?:context|token limit)"
    r"|context ?(?:window|size) ?(?:has been )?exceeded|(?:than|with) (?:the )?context length"
    r"|reduce the length of the messages|too many tokens|number of input tokens exceeds|all messages is too long"
    # MiniMax: https://github.com/MiniMax-AI/MiniMax-M2/issues/119, Z.AI:
    # https://github.com/mangowhoiscloud/geode/pull/668, vLLM: https://github.com/vllm-project/vllm/pull/36789
    r"|context window exceeds|prompt exceeds max length|prompt tokens too long|max_tokens must be at least 1, got -"
    r"|exceed max message tokens|(?:exceeds max|maximum allowed) sequence length|greater than max_seq_len",
    re.IGNORECASE,
)
"""Messages that a conversation exceeds the context window, as worded by various services."""

REASONING_REJECTED_PATTERN = re.compile(
    r"encrypted[ _]content\b.* could not be |could not decrypt the provided encrypted_content"
    r"|(?:invalid|corrupted) thought signature|thought signature is (?:not valid|invalid)"
    r"|invalid .?signature.? in .?thinking|thinking.? blocks .*cannot be modified"
    # https://github.com/anomalyco/opencode/issues/25005 and 11571, https://github.com/suitenumerique/conversations/issues/402
    r"|\bthinking\.signature: field required|thinking block must contain|reasoning input is not enabled"
    r"|item with id '?rs_\S+ not found|duplicate item found with id|without its required .{0,12}item"
    # A model that does not reason: https://github.com/openai/openai-agents-python/issues/569
    r"|reasoning (?:input )?items\b|encrypted[ _](?:content|reasoning)\b.* (?:not supported|unsupported)"
    r"|\b(?:reasoning(?:_content|_details)?|thinking)['\"`]? (?:is|are) (?:not supported|unsupported|not allowed)"
    # https://github.com/NousResearch/hermes-agent/issues/11089, https://github.com/Kilo-Org/kilocode/issues/10375
    r"|messages?\b.*\b(?:reasoning(?:_content|_details)?|thinking)\b.*(?:unsupported|not permitted|not allowed)"
    # Fireworks, also behind a gateway whose other models send the field: https://github.com/FerroxLabs/wayland-core/issues/120
    r"|not permitted, field: .?messages\S*\b(?:reasoning(?:_content|_details)?|extra_content)\b",
    re.IGNORECASE | re.DOTALL,
)
"""Messages that the reasoning of an earlier answer is refused, as worded by various services."""

KEY_REJECTED_PATTERN = re.compile(
    r"api.?key (?:not (?:valid|found)|expired)|(?:invalid|incorrect) api.?key", re.IGNORECASE
)
"""Messages about the key that do not have the status 401. Gemini: https://github.com/simonw/llm/issues/1213"""

CREDIT_EXHAUSTED_PATTERN = re.compile(
    r"credit|quota|balance|billing|budget|(?:spend|spending|usage|key) limit", re.IGNORECASE
)
"""Messages that an account is out of credit, among the errors after which another key may help."""
UNAVAILABLE_STATUSES = (402, 408, 429)
"""The statuses below 500 that describe the account or the service, not the request."""

TOOL_INDEX_PATTERNS = (
    re.compile(r"function_?declarations\[(\d+)\]", re.IGNORECASE),
    re.compile(r"\btools\[(\d+)\]"),
    re.compile(r"\btools\.(\d+)\b"),
)
"""How messages name a rejected tool by its index. Gemini's pattern comes first: its tools[0] contains all functions."""
TOOL_NAME_PATTERN = re.compile(
    r"\b(?:function|tool|schema)\b[^'\"`]{0,20}['\"`](?:functions\.)?([\w-]{1,128})['\"`]", re.IGNORECASE
)
"""How messages quote the name of a rejected tool."""

INPUT_UNSUPPORTED_PATTERN = re.compile(
    r"\binput is not supported\b|data required for image input|not support image input", re.IGNORECASE
)
"""Messages of llama-server and Ollama that a model accepts no images or audio; their status is normally retried.

https://github.com/open-webui/open-webui/issues/13077
"""

CONTENT_FILTERED_PATTERN = re.compile(
    r"content.?(?:filter|policy|management|moderation|safety)|\bmoderation\b|\bflagged\b|usage (?:guidelines|polic)"
    r"|\bprompt injection\b"
    # OpenAI: https://github.com/openai/codex/issues/44355, Moonshot: https://platform.kimi.com/docs/api/errors
    r"|\bsafety systems?\b|considered high risk",
    re.IGNORECASE,
)
"""Messages that a filter refuses what a message contains, as worded by various services.

OpenRouter: 403 "requires moderation ... your input was flagged ... no credits were charged".
"""
CONTENT_REFUSED_PATTERN = re.compile(
    rf"{CONTENT_FILTERED_PATTERN.pattern}"
    r"|\b(?:images?|pdf|audio|video|vision|multi-?modal|attachments?|base64|image_url)\b|media.?type"
    r"|document has no pages"  # Gemini, of a damaged PDF: https://github.com/google-gemini/gemini-cli/issues/13808
    # Servers whose messages are text only: https://github.com/opencodeschool/opencode.school/issues/174
    r"|\bcontent\b.{0,30}\b(?:must|should) be a (?:valid )?string|'array' not in 'string'|'text' content type",
    re.IGNORECASE,
)
"""Messages that a filter or a model refuses what a message contains, as worded by various services.

OpenRouter: 404 "No endpoints found that support image input".
"""
REQUEST_REFUSED_STATUSES = (400, 413, 415, 422)
"""The statuses that say that a request is wrong: most likely its messages, if the error does not name another part."""
OTHER_REFUSED_STATUSES = (None, 403, 404, 451, 500)
"""The statuses that some services use for what a message contains; the error must then say so."""
TOOLS_OR_SCHEMA_PATTERN = re.compile(
    r"\btools?[\[.]\d|function_?declarations|rejected the tool|\b(?:tool|function)\b.*\bschema\b"
    rf"|{SCHEMA_REJECTED_PATTERN.pattern}|{TOOLS_UNSUPPORTED_PATTERN.pattern}",
    re.IGNORECASE,
)
MODEL_OR_OPTION_PATTERN = re.compile(
    r"model_not_found|(?:invalid|unknown|unsupported|no such) model|not a valid model"
    r"|model\b.{0,100}\b(?:not (?:found|exist|available|supported)|does not exist|deprecated|retired|decommissioned)"
    # OpenRouter, of models that only generate images
    r"|generation model|output modalities"
    r"|\bparameters?\b|unknown (?:name|field)|unrecognized request argument|extra inputs are not permitted"
    r"|max_\w*tokens|temperature|top_p|reasoning|\beffort\b|thinking|tool_choice|stream_options"
    r"|api.?key(?! id:)|credit(?!s were charged)|quota|billing|location is not supported",
    re.IGNORECASE | re.DOTALL,
)
"""Messages about the model, an option or the account, not about what a message contains."""
UNKNOWN_MODEL_PATTERN = re.compile(
    r"model_not_found|(?:invalid|unknown|no such) model|not a valid model|not found: model"
    r"|models?\b.{0,100}\b(?:not (?:found|exist)|does not exist|deprecated|decommissioned|retired|end of life)"
    # DeepSeek: https://github.com/NousResearch/hermes-agent/issues/113272, Bedrock:
    # https://github.com/thedotmack/claude-mem/issues/2656, Z.ai
    r"|the supported API model names are|model identifier is invalid|模型不存在",
    re.IGNORECASE | re.DOTALL,
)
"""Messages that there is no model of that name, or no longer, as worded by various services."""
REGION_REFUSED_PATTERN = re.compile(
    r"(?:country|region|territory|location)\b.{0,40}\bnot supported|not available in your (?:country|region)",
    re.IGNORECASE,
)
"""Messages that a service, or the provider of a model, refuses the country from which a request comes."""
EFFORT_PARAMETERS = ("think", "thinking")
"""Parameters that `reasoning_effort` becomes; see `ModelProfile.effort_parameters`."""
MESSAGE_PARAMETER_PATTERN = re.compile(r"(?:messages|input|contents?|prompt|system)\b")
"""The parameters of requests that contain the messages."""

_OPTION_NAME_PATTERN = (
    r"[\"'`](?:\w+\.)*{name}[\"'`]|(?:^|[\s.]){name}(?: ?[:=]|(?: value)? (?:is|must|does|should)\b)"
    r"|\b(?:parameters?|arguments?|options?|fields?|invalid|unsupported|unknown|unrecognized):? {name}\b|: {name}\.?$"
)
"""How messages name a rejected parameter: quoted, with a colon, as the subject, or after a word like "parameter"."""


LIMIT_HINTS = {
    "context": "send less, or use a model with a larger context window",
    "rate": "send less, or raise the account's limit of tokens per minute",
    "bytes": "send less, or smaller files",
    "output": "lower it with -o max_tokens=N",
    "images": "attach fewer images, or start a new conversation",
    "tools": "disable some with --disable-tool or tools.disabled",
}


def classify_error(error: ProviderError) -> ProviderError:
    """Derive an error's missing remedy and hint from its text and status.

    The error is changed in place and returned.
    """
    hint, is_final, limit = "", error.retry_action == RetryAction.NONE, find_stated_limit(error)
    if (
        (is_final or error.status == 500)
        and error.status in (400, 404, 422, 500)
        and TOOLS_UNSUPPORTED_PATTERN.search(error.message)
    ):
        error.retry_action, hint = RetryAction.WITHOUT_TOOLS, "use --no-tools, or a model that can call tools"
    elif is_final and error.status in (None, 400, 404, 422) and REASONING_REJECTED_PATTERN.search(error.message):
        error.retry_action = RetryAction.WITHOUT_REASONING
    elif limit is not None:  # whatever the status is: the same request would be refused again
        error.retry_action = RetryAction.SHORTER if limit.kind in REQUEST_LIMITS else RetryAction.NONE
        hint = LIMIT_HINTS[limit.kind]
    elif is_final and (error.status == 413 or is_context_exceeded(error)):
        is_from_proxy = "entity too large" in error.message.lower()  # nginx's client_max_body_size
        hint = "send less, or raise the limit of the proxy" if is_from_proxy else LIMIT_HINTS["context"]
        error.retry_action = RetryAction.SHORTER
    elif error.retry_action.kind == "retry" and INPUT_UNSUPPORTED_PATTERN.search(error.message):
        error.retry_action, hint = RetryAction.NONE, "use a model that accepts such files"
    error.hint = error.hint or hint or _choose_hint(error)
    return error


def find_rejected_tool(error: ProviderError, tools: Sequence[ToolSpec]) -> str:
    """Return the name of the tool that caused a request to be rejected, or ""."""
    if error.status not in (400, 422) or error.retry_action != RetryAction.NONE or find_stated_limit(error):
        return ""
    text = f"{error.parameter or ''} {error.message}"
    for pattern in TOOL_INDEX_PATTERNS:
        match = pattern.search(text)
        if match:
            index = int(match[1])
            return tools[index].name if index < len(tools) else ""
    names = {tool.name for tool in tools}
    return next((name for name in TOOL_NAME_PATTERN.findall(text) if name in names), "")


def explain_rejection(error: ProviderError, request: ChatRequest, tools: Sequence[ToolSpec]) -> AskError:
    """Return the error of a rejected request, with the tool, schema or option that caused it."""
    tool = find_rejected_tool(error, tools)
    if tool:
        error.message = f"the provider rejected the tool {tool}: {error.message}"
        error.hint = f"--disable-tool {tool} disables it"
        return error
    files = request.messages[-1].attachments if request.messages else ()
    may_be_about_files = error.status in (*REQUEST_REFUSED_STATUSES, 404) and not is_model_unknown(error)
    is_about_files = may_be_about_files and CONTENT_REFUSED_PATTERN.search(error.message)
    if files and is_about_files and find_stated_limit(error) is None:
        names = ", ".join(dict.fromkeys(attachment.name for attachment in files))
        error.hint = f"leave out or change {names}"  # services name only the position of a file
    may_be_about_schema = request.schema is not None and error.status in (400, 404, 422, 500, 501)
    if may_be_about_schema and SCHEMA_REJECTED_PATTERN.search(error.message):
        error.retry_action = RetryAction.WITHOUT_SCHEMA
    return convert_to_parameter_error(error, request.options)


def is_context_exceeded(error: ProviderError) -> bool:
    """Check whether a request was rejected because it exceeds the context window."""
    return error.status in (None, 400, 422) and CONTEXT_EXCEEDED_PATTERN.search(error.message) is not None


def is_message_refused(error: AskError) -> bool:
    """Check whether a provider refused what the messages contain, or their length.

    It would refuse them again. An error about an option, a tool, a schema, the model or the account says nothing about
    the messages.
    """
    if not isinstance(error, ProviderError):
        return False
    limit = find_stated_limit(error)
    if error.retry_action == RetryAction.SHORTER or limit is not None:
        return limit is None or limit.kind in ("context", "bytes", "images")
    if error.retry_action != RetryAction.NONE or TOOLS_OR_SCHEMA_PATTERN.search(error.message):
        return False
    # A 403 about images is about the model: https://github.com/openai-php/client/issues/565
    content_pattern = CONTENT_FILTERED_PATTERN if error.status == 403 else CONTENT_REFUSED_PATTERN
    is_about_content = content_pattern.search(error.message) is not None
    is_about_setting = (
        error.parameter and not MESSAGE_PARAMETER_PATTERN.match(error.parameter)
    ) or MODEL_OR_OPTION_PATTERN.search(error.message)
    if error.status in REQUEST_REFUSED_STATUSES:
        return is_about_content or not is_about_setting
    return is_about_content and not is_about_setting and error.status in OTHER_REFUSED_STATUSES


def is_model_unknown(error: AskError | None) -> bool:
    """Check whether a service does not know the model by its name.

    NVIDIA has status 410 for retired ones: https://github.com/ellipticmarketing/modelrelay/pull/68
    """
    is_rejected = isinstance(error, ProviderError) and error.status in (400, 404, 410)
    return is_rejected and UNKNOWN_MODEL_PATTERN.search(str(error)) is not None


def is_region_refused(error: ProviderError) -> bool:
    """Check whether a service refuses the country from which a request comes."""
    return error.status in (400, 403) and REGION_REFUSED_PATTERN.search(error.message) is not None


def can_other_model_help(error: AskError) -> bool:
    """Check whether a request that failed, after its retries, may succeed with another model.

    It may if the service is unreachable, overloaded or fails, the account is out of credit, or the context is too
    short. It may not if the request, the key or the model's name is wrong: the user has to correct these.
    """
    if not isinstance(error, ProviderError):
        return isinstance(error, NetworkError)
    if error.status is None or error.status >= 500 or error.status in UNAVAILABLE_STATUSES:
        return True
    is_out_of_credit = error.retry_action == RetryAction.NEXT_KEY and CREDIT_EXHAUSTED_PATTERN.search(error.message)
    return bool(is_out_of_credit) or error.retry_action.kind == "retry" or error.retry_action == RetryAction.SHORTER


def convert_to_parameter_error(error: ProviderError, options: Mapping[str, Any]) -> AskError:
    """Return a `ParameterError` if the error is about one of the user's `options`.

    Otherwise `error` itself is returned.
    """
    rejected = find_rejected_option(error, options)
    if not rejected:
        return error
    return ParameterError(error.summary, f"remove or change {rejected}")


def find_rejected_option(error: ProviderError, options: Iterable[str]) -> str:
    """Return the name of the option that caused a request to be rejected, or ""."""
    if error.status not in (400, 422):
        return ""
    refused = ("reasoning_effort", error.parameter) if error.parameter in EFFORT_PARAMETERS else (error.parameter,)
    return next((o for o in options if o in refused or is_option_named(o, error.message)), "")


def is_option_named(option: str, message: str) -> bool:
    """Check whether an error message names a parameter.

    Many parameters are also English words, which only count in certain positions.
    """
    name = re.escape(option)
    pattern = rf"\b{name}\b" if "_" in option else _OPTION_NAME_PATTERN.format(name=name)
    return re.search(pattern, message, re.IGNORECASE | re.MULTILINE) is not None


HINTS_BY_TEXT = (
    (REGION_REFUSED_PATTERN.pattern, "the service refuses this country: use another one (-p), or another model (-m)"),
    (r"only (?:supported )?in v1/responses", 'set api = "responses" in [providers.{provider}] of config.toml'),
    (
        r"not a chat model|not support(?:ed for)? (?:chat|generateContent|generate)\b",
        "use a model that can chat (ask models -p {provider})",
    ),
    (r"unexpected endpoint", "check the base URL"),  # LM Studio
    (r"chat template", "use a model that is trained for chat, or start the server with a chat template"),
)
"""Hints for errors whose status says too little."""


def _choose_hint(error: ProviderError) -> str:
    """Return the hint that helps with most errors of that text or status."""
    for pattern, hint in HINTS_BY_TEXT:
        if re.search(pattern, error.message, re.IGNORECASE):
            return hint.format(provider=error.provider)
    if error.status in (None, 403) and is_message_refused(error):
        return "change the prompt, or use another model"
    if error.status == 400 and error.retry_action.kind == "retry":  # the model's fault, not the request's
        return "try again later, or use another model"
    if is_model_unknown(error) or (error.status in (400, 404) and "model" in error.message.lower()):
        return f"ask models -p {error.provider} lists the models"
    hints = {
        400: "change the prompt, the options (-o) or the model (-m)",
        401: "check the key (see ask keys)",
        402: "add credits to your account",
        403: "use another key or model",
        404: "check the model and the base URL",
        405: "check the base URL",
        422: "change the prompt, the options (-o) or the model (-m)",
        429: "wait a while, or use another model",
    }
    return hints.get(error.status or 0, "try again later, or use another model")
