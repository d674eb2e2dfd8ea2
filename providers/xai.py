"""xAI's Grok models. https://docs.x.ai

The Responses API is the default: Chat Completions is deprecated and cannot send reasoning back. Errors are a sentence
next to a code, and an invalid key is a 400.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ask import BatchApi, ChatCompletions, ModelInfo, ProviderError, Responses, RetryAction, Usage
from ask.parsing import read_int, read_number
from ask.profiles import ModelProfile

ADD_CREDITS_HINT = "buy credits or raise the limit at https://console.x.ai, or use another key"
STALL_TIMEOUT_SECONDS = 900.0
"""https://docs.x.ai/developers/model-capabilities/text/best-practices"""
TICKS_PER_DOLLAR = 10**10
"""The unit of a response's cost."""
MAX_TOP_LOGPROBS = 8
"""https://docs.x.ai/docs/api-reference"""
PRICE_UNITS_PER_DOLLAR = 10_000
"""Prices in the models list are in US cents per hundred million tokens."""

IMAGE_TYPES = ("image/jpeg", "image/png")
"""https://docs.x.ai/developers/model-capabilities/images/understanding"""
REASONING_PAGE = "https://docs.x.ai/developers/model-capabilities/text/reasoning"
MODELS_PAGE = "https://docs.x.ai/developers/models"
REFUSED = ("presence_penalty", "frequency_penalty", "stop")
UP_TO_HIGH = ("low", "medium", "high")

PROFILES = (
    ModelProfile("*non-reasoning*", MODELS_PAGE, (), refused_options=()),
    # 4.20 came before 4.3, so these must be found before the rows for later versions.
    ModelProfile("grok-4.20-multi-agent*", REASONING_PAGE, (*UP_TO_HIGH, "xhigh"), {}),
    ModelProfile("grok-4.20*", MODELS_PAGE, refused_options=REFUSED, context_length=1_000_000),
    # These always reason, and refuse the parameter.
    ModelProfile("grok-4.20*|grok-{4-4.2}*|grok-code*", REASONING_PAGE, ("high",), {"high": {}}, "high"),
    ModelProfile("grok-{4.3}*", REASONING_PAGE, ("none", *UP_TO_HIGH), default_effort="low", context_length=1_000_000),
    ModelProfile("grok-{4.5}*|grok-build-latest", REASONING_PAGE, UP_TO_HIGH, default_effort="high"),
    ModelProfile("grok-{4.6+}*", REASONING_PAGE, (*UP_TO_HIGH, "xhigh"), default_effort="high"),
    ModelProfile("grok-{4.5+}*", MODELS_PAGE, context_length=500_000),
    # The alias moves from model to model; all of them accept these.
    ModelProfile("grok-latest", REASONING_PAGE, UP_TO_HIGH),
    ModelProfile("grok-3-mini*", REASONING_PAGE, ("low", "high")),
    ModelProfile("grok-2*|grok-3*|grok-beta*", MODELS_PAGE, ()),
    ModelProfile("grok-build*", REASONING_PAGE, ("high",), {"high": {}}),
    ModelProfile("grok-{4+}*|grok-latest|grok-3-mini*|grok-code*|grok-build*", REASONING_PAGE, refused_options=REFUSED),
    ModelProfile("grok-2*vision*", MODELS_PAGE, attachments=IMAGE_TYPES),
    ModelProfile("grok-2*|grok-3*|grok-code*|grok-build*|grok-beta*", MODELS_PAGE, attachments=()),
    ModelProfile("*", MODELS_PAGE, attachments=IMAGE_TYPES, schema_with_tools=True),
)
"""https://docs.x.ai/developers/models"""


class XAIChat(ChatCompletions):
    """xAI on Chat Completions, with its errors, usage and prices."""

    profiles = PROFILES
    error_rules = (
        ("^400 .*API key", RetryAction.NEXT_KEY, "check the key (see ask keys)"),
        ("credits|spending limit", RetryAction.NEXT_KEY, ADD_CREDITS_HINT),
    )

    def provider_batch(self) -> BatchApi | None:
        from .batch_apis import XAIBatchApi

        return XAIBatchApi(self.build_headers)

    def provider_logprob_options(self) -> dict[str, Any]:
        return {"logprobs": True, "top_logprobs": MAX_TOP_LOGPROBS}

    def provider_parse_error(self, status: int, headers: Mapping[str, str], body: str) -> ProviderError:
        error = super().provider_parse_error(status, headers, body)
        error.parameter = error.parameter or find_parameter_name(error.message)
        return error

    def parse_usage(self, usage: Mapping[str, Any]) -> Usage:
        """Count reasoning as output, as it is billed; only the total includes it."""
        parsed = super().parse_usage(usage)
        total = read_int(usage.get("total_tokens"))
        if total is not None and parsed.input_tokens is not None:
            parsed = parsed._replace(output_tokens=total - parsed.input_tokens)
        return add_cost(parsed, usage)

    def parse_model(self, entry: Mapping[str, Any]) -> ModelInfo:
        model = super().parse_model(entry)
        return model._replace(
            input_price=parse_price(entry.get("prompt_text_token_price")),
            output_price=parse_price(entry.get("completion_text_token_price")),
            cached_input_price=parse_price(entry.get("cached_prompt_text_token_price")),
        )


SERVER_TOOLS: dict[str, dict[str, Any]] = {
    "web_search": {"type": "web_search"},
    "x_search": {"type": "x_search"},
    "code_execution": {"type": "code_interpreter"},
}
"""https://docs.x.ai/developers/tools/overview"""


class XAI(Responses):
    """xAI on the Responses API."""

    def provider_server_tools(self, model: str) -> dict[str, dict[str, Any]]:
        return SERVER_TOOLS

    def provider_supports_result_attachment(self, model: str, media_type: str) -> bool:
        return True  # verified in https://github.com/vercel/ai/issues/17381

    def parse_usage(self, usage: Mapping[str, Any]) -> Usage:
        return add_cost(super().parse_usage(usage), usage)


def add_cost(parsed: Usage, usage: Mapping[str, Any]) -> Usage:
    """Add the cost that a response reports."""
    ticks = read_number(usage.get("cost_in_usd_ticks"))
    return parsed if ticks is None else parsed._replace(cost=ticks / TICKS_PER_DOLLAR)


def find_parameter_name(message: str) -> str | None:
    """Return the parameter that an error message names, converted from camel case to snake case."""
    match = re.search(r"\b[a-z]+(?:[A-Z][a-z]+)+\b", message)
    return re.sub(r"(?=[A-Z])", "_", match[0]).lower() if match else None


def parse_price(listed_price: Any) -> float | None:
    """Convert a listed price to US dollars per million tokens; None if it is missing."""
    number = read_number(listed_price)
    return None if number is None else number / PRICE_UNITS_PER_DOLLAR


provider = XAI(
    XAIChat(
        name="xai",
        title="xAI",
        base_url="https://api.x.ai/v1",
        key_env=("XAI_API_KEY", "GROK_API_KEY"),
        default_model="grok-latest",
        reports_cost=True,
        stall_timeout=STALL_TIMEOUT_SECONDS,
    )
)
