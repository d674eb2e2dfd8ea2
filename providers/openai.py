"""OpenAI's models. https://developers.openai.com/api/reference/resources/responses

The Responses API is the default, because newer models call tools without reasoning on Chat Completions. Audio models,
and compatible services, have Chat Completions only. An account without credit is a 429.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ask import ChatCompletions, ChatRequest, ProviderError, Responses, RetryAction

ADD_CREDIT_HINT = "add credit at https://platform.openai.com/settings/organization/billing, or use another key"
DEFAULT_MODEL = "gpt-6-sol"
NO_REASONING_HINT = f"use --no-tools, or a model that calls tools without reasoning (-m {DEFAULT_MODEL})"
IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
AUDIO_TYPES = ("audio/wav", "audio/mpeg")
"""https://developers.openai.com/api/docs/guides/images-vision and .../audio; the only other file type is PDF."""
TEXT_ONLY_PATTERN = re.compile(r"gpt-3\.5|gpt-4(?:-\d{4}|-32k|$)|o1-(?:mini|preview)|o3-mini|gpt-oss")
REASONING_DEFAULT_VERSION = (5, 5)
"""The GPT version from which Chat Completions accepts tools only with reasoning turned off."""


class OpenAIChat(ChatCompletions):
    """OpenAI on Chat Completions, with the rules of its own models."""

    supports_schema_with_tools = True
    error_rules = (
        ("insufficient_quota|credit_balance_exhausted", RetryAction.NEXT_KEY, ADD_CREDIT_HINT),
        ("reasoning_effort", None, NO_REASONING_HINT),
    )

    def provider_supports_attachment(self, model: str, media_type: str) -> bool:
        """Accept audio for the audio models, and other files for models with vision.

        The audio models have no vision.
        """
        is_audio_model = "audio" in model
        if media_type in AUDIO_TYPES or is_audio_model:
            return is_audio_model and media_type in AUDIO_TYPES
        return super().provider_supports_attachment(model, media_type) and not TEXT_ONLY_PATTERN.match(model)

    def build_body(self, request: ChatRequest) -> dict[str, Any]:
        body = super().build_body(request)
        if "max_tokens" in body:
            body.setdefault("max_completion_tokens", body.pop("max_tokens"))
        if "tools" in body and parse_gpt_version(request.model) >= REASONING_DEFAULT_VERSION:
            body.setdefault("reasoning_effort", "none")
        return body

    def provider_parse_error(self, status: int, headers: Mapping[str, str], body: str) -> ProviderError:
        error = super().provider_parse_error(status, headers, body)
        if error.parameter == "max_completion_tokens":
            error.parameter = "max_tokens"
        return error


class OpenAI(Responses):
    """OpenAI on the Responses API."""

    def requires_chat(self, model: str) -> bool:
        return "audio" in model


def parse_gpt_version(model: str) -> tuple[int, int]:
    """Return (5, 6) for "gpt-5.6-terra"; (0, 0) for a model that is not a numbered GPT."""
    match = re.match(r"gpt-(\d)(?:\.(\d+))?(?!\d)", model)
    return (int(match[1]), int(match[2] or 0)) if match else (0, 0)


provider = OpenAI(
    OpenAIChat(
        name="openai",
        title="OpenAI",
        base_url="https://api.openai.com/v1",
        key_env="OPENAI_API_KEY",
        default_model=DEFAULT_MODEL,
        attachments=(*IMAGE_TYPES, "application/pdf", *AUDIO_TYPES),
        docs="https://developers.openai.com/api/reference/resources/responses",
    )
)
