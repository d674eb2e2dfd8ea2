"""Moonshot AI's Kimi models. https://platform.kimi.ai/docs

They need their reasoning back, and refuse empty texts.
"""

from __future__ import annotations

from typing import Any

from ask import (
    ChatCompletions,
    ChatRequest,
    Message,
    RetryAction,
)
from ask.profiles import ModelProfile

QUOTA_ERROR_TYPE = "exceeded_current_quota_error"
"""An account without credit; it has status 429, like a rate limit."""
TOP_UP_HINT = "top up at https://platform.kimi.ai/console, or use another key"
EMPTY_TEXT_PLACEHOLDER = " "
"""Sent instead of an empty text, which Moonshot treats as missing."""

IMAGE_TYPES = ("image/png", "image/jpeg", "image/webp", "image/gif")
"""https://platform.kimi.ai/docs/guide/use-kimi-vision-model"""
SAMPLING = ("temperature", "top_p", "n", "presence_penalty", "frequency_penalty")
"""The options whose values are fixed from K2.5 on."""
MODELS_PAGE = "https://platform.kimi.ai/docs/api/models-overview"
ALWAYS_ON = {"high": dict[str, object]()}
SWITCH = {"none": {"thinking": {"type": "disabled"}}, "high": {"thinking": {"type": "enabled"}}}

PROFILES = (
    ModelProfile(
        "kimi-k{3+}*",
        "https://platform.kimi.ai/docs/guide/use-thinking-effort",
        ("low", "high", "max"),
        default_effort="max",
        output_limit=1_048_576,
        context_length=1_048_576,
    ),
    ModelProfile("kimi-k{2.7}*|kimi-k2-thinking*", MODELS_PAGE, ("high",), ALWAYS_ON, "high"),
    ModelProfile("kimi-k{2.5-2.6}*", MODELS_PAGE, ("none", "high"), SWITCH, "high"),
    ModelProfile("kimi-k{2}*", MODELS_PAGE, (), attachments=()),
    ModelProfile("kimi-k{2.5+}*", MODELS_PAGE, refused_options=SAMPLING, context_length=262_144),
    ModelProfile("moonshot-v1*vision*", MODELS_PAGE, (), attachments=IMAGE_TYPES),
    ModelProfile("moonshot-v1*", MODELS_PAGE, (), attachments=()),
    ModelProfile("*", MODELS_PAGE, attachments=IMAGE_TYPES),
)
"""K3 has efforts, K2.5 and K2.6 can turn thinking off, and other thinking models always think."""


class Moonshot(ChatCompletions):
    """Moonshot, with the reasoning of its models."""

    profiles = PROFILES
    state_fields = ("reasoning_content",)
    error_rules = ((QUOTA_ERROR_TYPE, RetryAction.NEXT_KEY, TOP_UP_HINT),)

    def build_body(self, request: ChatRequest) -> dict[str, Any]:
        body = super().build_body(request)
        if "max_tokens" in body:
            body.setdefault("max_completion_tokens", body.pop("max_tokens"))
        return body

    def format_message(self, message: Message, model: str) -> dict[str, Any]:
        """Format a message.

        Messages with tool calls must have reasoning, even if another provider made the calls; others must have text.
        """
        formatted = super().format_message(message, model)
        if message.tool_calls:
            formatted["reasoning_content"] = formatted.get("reasoning_content") or EMPTY_TEXT_PLACEHOLDER
        elif message.role == "assistant":
            formatted["content"] = formatted["content"] or EMPTY_TEXT_PLACEHOLDER
        return formatted


provider = Moonshot(
    name="moonshot",
    title="Moonshot AI",
    base_url="https://api.moonshot.ai/v1",
    key_env="MOONSHOT_API_KEY",
    default_model="kimi-k3",
)
