"""DeepSeek. https://api-docs.deepseek.com

Its models reason by default. If a response called tools, its reasoning must be sent back in every later request, even
if it is empty; for other responses it is ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ask import (
    Answer,
    ChatCompletions,
    Message,
    ProviderError,
    Remedy,
    Usage,
    as_int,
    first_choice,
)

IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""https://api-docs.deepseek.com/guides/vision"""


class DeepSeek(ChatCompletions):
    """DeepSeek, with its reasoning, JSON mode and cache statistics."""

    native_fields = ("reasoning_content",)
    error_rules = (("^402 ", None, "top up at https://platform.deepseek.com/top_up"),)

    def provider_takes_attachment(self, model: str, media_type: str) -> bool:
        """Accept images for the flash models; the others are text only."""
        return super().provider_takes_attachment(model, media_type) and "flash" in model

    def response_format(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Request JSON mode, because the API refuses schemas.

        JSON mode requires that a message mentions JSON; the system prompt does.
        """
        return {"type": "json_object"}

    def format_message(self, message: Message, model: str) -> dict[str, Any]:
        formatted = super().format_message(message, model)
        if message.tool_calls:
            formatted.setdefault("reasoning_content", "")
        return formatted

    def parse_usage(self, usage: Mapping[str, Any]) -> Usage:
        parsed = super().parse_usage(usage)
        hits = as_int(usage.get("prompt_cache_hit_tokens"))
        return parsed if hits is None else parsed._replace(cached_tokens=hits)

    def failure(self, response: Mapping[str, Any], answer: Answer) -> ProviderError | None:
        error = super().failure(response, answer)
        if error is None and first_choice(response).get("finish_reason") == "insufficient_system_resource":
            return ProviderError("the service ran out of resources in the middle of the answer", None, Remedy.RETRY())
        return error


provider = DeepSeek(
    name="deepseek",
    title="DeepSeek",
    base_url="https://api.deepseek.com",
    key_env="DEEPSEEK_API_KEY",
    default_model="deepseek-flash",
    attachments=IMAGE_TYPES,
    docs="https://api-docs.deepseek.com",
)
