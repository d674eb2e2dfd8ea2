"""DeepSeek. https://api-docs.deepseek.com

Its models reason by default. Of an answer that called tools they need the reasoning back in every later request,
even where it is empty; of any other answer they ignore it.
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
TOP_UP_HINT = "top up at https://platform.deepseek.com/top_up"


class DeepSeek(ChatCompletions):
    """DeepSeek, with its reasoning, its JSON answers and its cache numbers."""

    native_fields = ("reasoning_content",)

    def provider_takes_attachment(self, model: str, media_type: str) -> bool:
        """The flash models see; any other refuses what is not text."""
        return super().provider_takes_attachment(model, media_type) and "flash" in model

    def response_format(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """It refuses a schema, and guarantees JSON where a message speaks of it, as the system message does."""
        return {"type": "json_object"}

    def format_message(self, message: Message, model: str) -> dict[str, Any]:
        wire = super().format_message(message, model)
        if message.tool_calls:
            wire.setdefault("reasoning_content", "")
        return wire

    def parse_usage(self, usage: Mapping[str, Any]) -> Usage:
        read = super().parse_usage(usage)
        hits = as_int(usage.get("prompt_cache_hit_tokens"))
        return read if hits is None else read._replace(cached_tokens=hits)

    def failure(self, response: Mapping[str, Any], answer: Answer) -> ProviderError | None:
        failure = super().failure(response, answer)
        if failure is None and first_choice(response).get("finish_reason") == "insufficient_system_resource":
            return ProviderError("the service ran out of resources in the middle of the answer", None, Remedy.RETRY())
        return failure

    def provider_parse_error(self, status: int, headers: Mapping[str, str], body: str) -> ProviderError:
        error = super().provider_parse_error(status, headers, body)
        if status == 402:
            error.advice = TOP_UP_HINT
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
