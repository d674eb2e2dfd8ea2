"""OpenAI's models. https://developers.openai.com/api/reference/resources/responses

The Responses API is the default, because newer models call tools without reasoning on Chat Completions. Audio models,
and compatible services, have Chat Completions only. An account without credit is a 429.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ask import ChatCompletions, ChatRequest, ProviderError, Responses, RetryAction
from ask.profiles import find_profile

from .openai_models import PROFILES

if TYPE_CHECKING:
    from ask.batches import BatchApi

ADD_CREDIT_HINT = "add credit at https://platform.openai.com/settings/organization/billing, or use another key"
DEFAULT_MODEL = "gpt-6-sol"
NO_REASONING_HINT = f"use --no-tools, or a model that calls tools without reasoning (-m {DEFAULT_MODEL})"


class OpenAIChat(ChatCompletions):
    """OpenAI on Chat Completions, with the rules of its own models."""

    profiles = PROFILES
    error_rules = (
        ("insufficient_quota|credit_balance_exhausted", RetryAction.NEXT_KEY, ADD_CREDIT_HINT),
        ("reasoning_effort", None, NO_REASONING_HINT),
    )

    def provider_supports_tools(self, model: str) -> bool:
        """Check whether the model calls tools without reasoning; some always reason."""
        profile = find_profile(self.profiles, model)
        return profile.reasoning_with_tools is not False or "none" in (profile.efforts or ("none",))

    def build_body(self, request: ChatRequest) -> dict[str, Any]:
        body = super().build_body(request)
        if "max_tokens" in body:
            body.setdefault("max_completion_tokens", body.pop("max_tokens"))
        if "tools" in body and request.profile.reasoning_with_tools is False:
            body.setdefault("reasoning_effort", "none")
        return body

    def provider_batch(self) -> BatchApi | None:
        from .openai_batches import OpenAIBatchApi

        return OpenAIBatchApi(self.build_headers)

    def provider_parse_error(self, status: int, headers: Mapping[str, str], body: str) -> ProviderError:
        error = super().provider_parse_error(status, headers, body)
        if error.parameter == "max_completion_tokens":
            error.parameter = "max_tokens"
        return error


class OpenAI(Responses):
    """OpenAI on the Responses API."""

    def requires_chat(self, model: str) -> bool:
        return "audio" in model

    def provider_supports_tools(self, model: str) -> bool:
        return True


provider = OpenAI(
    OpenAIChat(
        name="openai",
        title="OpenAI",
        base_url="https://api.openai.com/v1",
        key_env="OPENAI_API_KEY",
        default_model=DEFAULT_MODEL,
        docs="https://developers.openai.com/api/reference/resources/responses",
    )
)
