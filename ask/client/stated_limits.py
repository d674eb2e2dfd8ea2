"""The limits that services state when they refuse a request, as worded by various services, and how to meet them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from ask.errors import AskError, ProviderError
from ask.parsing import read_int
from ask.profiles import TOKEN_LIMIT_OPTIONS
from ask.records import NamedTuple

LimitKind = Literal["context", "rate", "bytes", "output", "images", "tools"]


class StatedLimit(NamedTuple):
    """A limit that a service stated when it refused a request.

    Attributes:
        kind: what is limited: "context" and "rate" (tokens per minute) the tokens of a request, "bytes" its size,
            "output" the tokens of the answer, "images" and "tools" their number.
        limit: the largest value that is accepted.
        requested: the value in the request; None if it is not stated.
        input: the tokens of the request without those of the answer; None if they are not stated.
    """

    kind: LimitKind
    limit: int
    requested: int | None = None
    input: int | None = None


NUMBER_GROUP = re.compile(r"\{([a-z]+)\}")
LIMIT_WORDINGS: tuple[tuple[LimitKind, str], ...] = (
    # OpenAI, DeepSeek, OpenRouter: https://github.com/OpenHands/OpenHands/issues/9937
    (
        "context",
        r"maximum context length is {limit} tokens[,.] however\D{0,40} {requested} tokens(?: \({input} (?:in|of) )?",
    ),
    # vLLM: https://github.com/vllm-project/vllm/issues/42474
    (
        "context",
        r"maximum context length is {limit} tokens\. however, you requested \d+ output tokens\D*{input} input tokens",
    ),
    # https://github.com/claude-code-best/claude-code/issues/272
    ("context", r"maximum context length is +{limit} tokens and your request has {input} input tokens"),
    # https://github.com/vllm-project/vllm/pull/36789, Z.AI: https://github.com/foreveryh/claude-code-switch/issues/12
    ("context", r"input length \({requested}\) exceeds model's maximum context length \({limit}\)"),
    ("context", r"request {requested} input tokens exceeds the model's maximum context length {limit}"),
    ("context", r"decoder prompt \(length {requested}\) is longer than the maximum model length of {limit}"),
    # SGLang: https://github.com/anomalyco/opencode/pull/25230, https://github.com/QwenLM/Qwen3/issues/1321
    (
        "context",
        r"maximum context length of {limit} tokens\. you requested a total of {requested} tokens: {input} tokens",
    ),
    ("context", r"input \({requested} tokens\) is longer than the model\S* context length \({limit} tokens\)"),
    # Anthropic: https://github.com/earendil-works/pi/issues/102, https://github.com/docker/docker-agent/issues/569
    ("context", r"prompt is too long: {requested} tokens > {limit}"),
    ("context", r"exceed context limit: {input} \+ \d+ > {limit}"),
    # Gemini: https://github.com/google-gemini/gemini-cli/issues/4692
    ("context", r"input token count \(?{requested}\)? exceeds the maximum number of tokens allowed \(?{limit}"),
    # xAI: https://github.com/cline/cline/issues/3120
    ("context", r"maximum prompt length is {limit} but the request contains {requested} tokens"),
    # GitHub Copilot: https://github.com/jjleng/copilot-more/issues/35
    ("context", r"prompt token count of {requested} exceeds the limit of {limit}"),
    # GitHub Models: https://github.com/cline/cline/issues/2115
    ("context", r"request body too large for \S+ model\. max size: {limit} tokens"),
    # llama.cpp and its Python bindings: https://github.com/ggml-org/llama.cpp/pull/16486
    ("context", r"request \({requested} tokens\) exceeds the available context size \({limit} tokens\)"),
    ("context", r"requested tokens \({requested}\) exceed context window of {limit}"),
    # LM Studio: https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/546
    ("context", r"keep the first {requested} tokens .*context length of only {limit} tokens"),
    ("context", r"n_keep: {requested} *>= *n_ctx: {limit}"),
    # Moonshot: https://github.com/MoonshotAI/kimi-cli/issues/2011
    ("context", r"exceeded model token limit: {limit}(?: \(re ?quested: {requested})?"),
    # Cerebras: https://github.com/cline/cline/issues/5140
    ("context", r"current length is {requested} while limit is {limit}"),
    # DashScope: https://github.com/QwenLM/qwen-code/issues/98
    ("context", r"range of input length should be \[\d+, {limit}\]"),
    # Text Generation Inference, Together: https://github.com/huggingface/text-generation-inference/issues/628
    ("context", r"max_new_tokens` must be <= {limit}\. given: {input} `inputs` tokens"),
    ("context", r"`inputs` must have less than {limit} tokens\. given: {requested}"),
    # SiliconFlow: https://github.com/leookun/cursor-byok/issues/129
    ("context", r"number of input tokens \({requested}\) has exceeded max_prompt_tokens \({limit}\)"),
    # Groq, OpenAI: https://github.com/continuedev/continue/issues/10218
    ("rate", r"tokens per min(?:ute)? \(TPM\): limit {limit}, (?:used \d+, )?requested {requested}"),
    # Proxies: https://github.com/google-gemini/gemini-cli/issues/13776
    ("bytes", r"maximum request body size {limit} exceeded, actual body size {requested}"),
    ("bytes", r"payload size exceeds the limit: {limit} bytes"),
    # OpenAI: https://github.com/ChatGPTNextWeb/NextChat/issues/3195
    ("output", r"supports at most {limit} completion tokens"),
    # Anthropic
    ("output", r"max_tokens: {requested} > {limit}, which is the maximum allowed number of output tokens"),
    # Groq: https://github.com/RooCodeInc/Roo-Code/issues/5729
    ("output", r"max(?:_completion)?_tokens`? must be less than or equal to `?{limit}"),
    # Volcengine: https://github.com/MoonshotAI/kimi-cli/issues/1124
    ("output", r"max(?:_completion)?_tokens`? specified .{0,60}expected a value <= {limit}"),
    # DeepSeek, DashScope: https://github.com/deepseek-ai/DeepSeek-V3/issues/69
    ("output", r"range of max_tokens (?:is|should be) \[\d+, {limit}\]"),
    # Bedrock: https://github.com/sigoden/aichat/pull/813
    ("output", r"maximum tokens you requested exceeds the model limit of {limit}"),
    # OpenRouter: https://github.com/can1357/oh-my-pi/issues/9569
    ("output", r"requested up to {requested} tokens, but can only afford {limit}"),
    # vLLM: https://github.com/vllm-project/vllm/issues/17092
    ("images", r"at most {limit} image"),
    # Anthropic: https://github.com/anthropics/claude-code/issues/24541
    ("images", r"too (?:much media|many images and documents): \d+[\w ]* \+ \d+[\w ]* > {limit}"),
    # https://github.com/anomalyco/opencode/issues/47721, https://github.com/microsoft/vscode/issues/306919
    ("images", r"{requested} images(?: provided)?, (?:exceeding the|but the model supports a) maximum of {limit}"),
    # https://github.com/the-open-agent/openagent/issues/874, https://github.com/QuantumNous/new-api/issues/1233
    ("images", r"too many images in (?:the )?(?:request|message)[.,] max (?:is|allowed is) {limit}"),
    ("images", r"image count {requested} exceeds limit {limit} per request"),
    # OpenAI: https://github.com/anomalyco/opencode/issues/4909
    ("tools", r"'tools': array too long\. expected an array with maximum length {limit}"),
    # Groq: https://github.com/HunorLaczko/ha-groq-cloud-api/issues/25
    ("tools", r"'tools' ?: maximum number of items is {limit}"),
    # Gemini: https://github.com/google-gemini/gemini-cli/issues/19083
    ("tools", r"at most {limit} function declarations"),
    # GitHub Copilot: https://github.com/microsoft/vscode-copilot-release/issues/13065
    ("tools", r"not include more than {limit} tools"),
    ("tools", r"number of tools exceeds {limit}"),
)
"""What is limited, and a pattern of the wording with names for its numbers; case is ignored."""
LIMIT_PATTERNS = [
    (kind, re.compile(NUMBER_GROUP.sub(r"(?P<\1>\\d[\\d,]{0,19})", wording), re.IGNORECASE | re.DOTALL))
    for kind, wording in LIMIT_WORDINGS
]
MIN_OUTPUT_TOKENS = 1_024
"""A lower limit would cut off most answers; it is better to send less of the conversation."""
REQUEST_LIMITS = ("context", "rate", "bytes")
"""The kinds of limits that a request may meet if a part of the conversation is left out."""


def find_stated_limit(error: AskError) -> StatedLimit | None:
    """Return the limit that a request exceeded, if the error states it; its status may be any.

    A rate limit does not count if the request alone does not exceed it: then waiting helps.
    """
    if not isinstance(error, ProviderError):
        return None
    for kind, pattern in LIMIT_PATTERNS:
        match = pattern.search(error.message)
        if match:
            numbers = {name: int(number.replace(",", "")) for name, number in match.groupdict().items() if number}
            limit = StatedLimit(kind, **numbers)
            is_exceeded = kind != "rate" or (limit.requested or 0) > limit.limit
            return limit if is_exceeded and limit.limit > 0 else None
    return None


def calculate_output_limit(limit: StatedLimit, options: Mapping[str, Any]) -> int | None:
    """Return the limit for the answer with which a request meets a stated limit; None if none helps."""
    set_limit = next(filter(None, (read_int(options.get(name)) for name in TOKEN_LIMIT_OPTIONS)), None)
    output_limit = 0
    if limit.kind == "output":
        output_limit = limit.limit
    elif limit.kind == "context" and limit.input is not None:
        output_limit = limit.limit - limit.input
    elif limit.kind == "rate" and limit.requested is not None and set_limit is not None:
        output_limit = limit.limit - (limit.requested - set_limit)
    return output_limit if output_limit >= MIN_OUTPUT_TOKENS else None
