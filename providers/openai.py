"""OpenAI's models. https://developers.openai.com/api/reference/resources/responses

The Responses API is the default, because newer models call tools without reasoning on Chat Completions. Audio models,
and compatible services, have Chat Completions only. An account without credit is a 429.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ask import BatchApi, ChatCompletions, ChatRequest, DecisionApi, ProviderError, Responses, RetryAction
from ask.parsing import find_error, parse_json, read_dict, read_str
from ask.profiles import ModelProfile, find_profile

ADD_CREDIT_HINT = "add credit at https://platform.openai.com/settings/organization/billing, or use another key"
RAISE_LIMIT_HINT = "raise the limit at https://platform.openai.com/settings/organization/limits, or use another key"
DEFAULT_MODEL = "gpt-6.2-sol"
"""OpenAI has no alias for its newest general model."""
NO_REASONING_HINT = "use --no-tools, or a model that calls tools without reasoning (-m gpt-6-sol)"

PDF_TYPE = "application/pdf"
IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
AUDIO_TYPES = ("audio/wav", "audio/mpeg")
"""https://developers.openai.com/api/docs/guides/images-vision and .../audio; the only other file type is PDF."""
SAMPLING = ("temperature", "top_p", "logprobs", "top_logprobs")
"""https://developers.openai.com/api/docs/guides/deployment-checklist"""
UP_TO_HIGH = ("low", "medium", "high")
UP_TO_XHIGH = (*UP_TO_HIGH, "xhigh")
UP_TO_MAX = (*UP_TO_XHIGH, "max")
FROM_MEDIUM = ("medium", "high", "xhigh")
PAGE = "https://developers.openai.com/api/docs/models"
REASONING_PAGE = "https://developers.openai.com/api/docs/guides/reasoning"
DECISIONS_PAGE = "https://developers.openai.com/api/reference/resources/decisions"
DEPRECATIONS_PAGE = "https://developers.openai.com/api/docs/deprecations"

PROFILES = (
    ModelProfile("gpt-6-luna|gpt-6-luna-2*", DECISIONS_PAGE, decisions="supported"),
    ModelProfile(
        "gpt-5|gpt-5-mini*|gpt-5-nano*|gpt-5-2025*|o3|o3-2025*", DEPRECATIONS_PAGE, retirement_date="2026-12-11"
    ),
    ModelProfile(
        "gpt-4o|gpt-4o-2024-08*|gpt-4o-2024-11*|gpt-4o-mini|gpt-4o-mini-2024*|gpt-4.1|gpt-4.1-2025*|gpt-4.1-mini*",
        DEPRECATIONS_PAGE,
        retirement_date="2027-01-14",
    ),
    ModelProfile("gpt-audio-mini*", DEPRECATIONS_PAGE, retirement_date="2027-01-20"),
    ModelProfile("gpt-5.1|gpt-5.1-2025*|gpt-5.4-nano*", DEPRECATIONS_PAGE, retirement_date="2027-04-01"),
    # Audio models take no other files.
    ModelProfile("*audio*", f"{PAGE}/gpt-audio", efforts=(), attachments=AUDIO_TYPES),
    # GPT-3.5 and GPT-4
    ModelProfile(
        "gpt-3*",  # also gpt-35-turbo, as Azure writes it, which is not version 35
        f"{PAGE}/gpt-3.5-turbo",
        (),
        reasoning_with_tools=True,
        output_limit=4_096,
        context_length=16_385,
        attachments=(),
    ),
    ModelProfile("gpt-4|gpt-4-0*|gpt-4-1*|gpt-4-32k*", f"{PAGE}/gpt-4", (), attachments=()),
    ModelProfile("gpt-4-turbo*", f"{PAGE}/gpt-4-turbo", (), output_limit=4_096, context_length=128_000),
    ModelProfile("gpt-4o*|chatgpt-4o*", f"{PAGE}/gpt-4o", (), output_limit=16_384, context_length=128_000),
    ModelProfile("gpt-{4.1}*", f"{PAGE}/gpt-4.1", (), output_limit=32_768, context_length=1_047_576),
    ModelProfile("gpt-4*|chatgpt-*", PAGE, ()),
    # o1 to o4
    ModelProfile("o1-mini*|o1-preview*|o3-mini*|gpt-oss*", PAGE, attachments=()),
    ModelProfile("o3-deep-research*|o4-mini-deep-research*", f"{PAGE}/o3-deep-research", ("medium",)),
    ModelProfile(
        "o1|o1-2*|o1-pro*|o3*|o4*",
        f"{PAGE}/o3",
        UP_TO_HIGH,
        default_effort="medium",
        refused_when_reasoning=SAMPLING,
        output_limit=100_000,
        context_length=200_000,
    ),
    # GPT-5 to GPT-5.3. The chat models have one effort or none.
    ModelProfile("gpt-{5}-chat*", f"{PAGE}/gpt-5-chat-latest", (), output_limit=16_384, context_length=128_000),
    ModelProfile("gpt-{5.1+}-chat*", PAGE, ("medium",), output_limit=16_384, context_length=128_000),
    ModelProfile("gpt-{5}-pro*", f"{PAGE}/gpt-5-pro", ("high",), default_effort="high", output_limit=272_000),
    ModelProfile("gpt-{5}-codex*|gpt-{5.1}-codex|gpt-{5.1}-codex-mini*", f"{PAGE}/gpt-5-codex", UP_TO_HIGH),
    ModelProfile("gpt-{5}*", f"{PAGE}/gpt-5", ("minimal", *UP_TO_HIGH), default_effort="medium"),
    ModelProfile("gpt-{5.1-5.2}-codex*", f"{PAGE}/gpt-5.2-codex", UP_TO_XHIGH, default_effort="medium"),
    ModelProfile("gpt-{5.1}*", f"{PAGE}/gpt-5.1", ("none", *UP_TO_HIGH), default_effort="none"),
    ModelProfile("gpt-{5.2-5.5}-pro*", f"{PAGE}/gpt-5.5-pro", FROM_MEDIUM, default_effort="medium"),
    ModelProfile("gpt-{5.2-5.3}*", f"{PAGE}/gpt-5.2", ("none", *UP_TO_XHIGH), default_effort="none"),
    ModelProfile("gpt-{5.4}-mini*|gpt-{5.4}-nano*", f"{PAGE}/gpt-5.4-mini", context_length=400_000),
    ModelProfile("gpt-{5.4}*", f"{PAGE}/gpt-5.4", ("none", *UP_TO_XHIGH), default_effort="none"),
    ModelProfile("gpt-{5.5}*", f"{PAGE}/gpt-5.5", ("none", *UP_TO_XHIGH), default_effort="medium"),
    ModelProfile(
        "gpt-{5.6}*|gpt-{6}-sol*|gpt-{6}-luna*|gpt-{6.1}-terra*",
        f"{PAGE}/gpt-6-sol",
        ("none", *UP_TO_MAX),
        default_effort="medium",
    ),
    ModelProfile(
        "gpt-{6+}-astra*|gpt-{6.1+}-sol*|gpt-{6+}-cyber*|gpt-daybreak*",
        f"{PAGE}/gpt-6.2-sol",
        UP_TO_MAX,
        default_effort="medium",
    ),
    # What several generations have in common. Chat Completions accepts tools only with reasoning turned off.
    ModelProfile(
        "gpt-{5.4+}*|gpt-daybreak*|gpt-rosalind*",
        f"{PAGE}/gpt-6.2-sol",
        reasoning_with_tools=False,
        context_length=1_050_000,
    ),
    ModelProfile(
        "gpt-{5+}*|gpt-daybreak*|gpt-rosalind*",
        REASONING_PAGE,
        refused_when_reasoning=SAMPLING,
        output_limit=128_000,
        context_length=400_000,
    ),
    ModelProfile("*", PAGE, attachments=(*IMAGE_TYPES, PDF_TYPE), schema_with_tools=True),
)
"""Reasoning with tools is about Chat Completions: from GPT-5.4 on, it exists only on the Responses API."""


class OpenAIChat(ChatCompletions):
    """OpenAI on Chat Completions, with the rules of its own models."""

    profiles = PROFILES
    error_rules = (
        # Their type is often insufficient_quota, too: https://developers.openai.com/api/docs/guides/error-codes
        (r'"code":\s*"\w+_(?:spend|usage)_limit_exceeded"', RetryAction.NEXT_KEY, RAISE_LIMIT_HINT),
        ("insufficient_quota|credit_balance_exhausted", RetryAction.NEXT_KEY, ADD_CREDIT_HINT),
        # More tokens than the account may use in a minute: no wait helps.
        ("Request too large", RetryAction.SHORTER, "send less, or raise the account's limit of tokens per minute"),
        ("must be verified to stream", None, "use --no-stream, or verify the organization"),
        ("incorrect_hostname", None, "set OPENAI_BASE_URL to that host, with /v1 at its end"),
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
        from .batch_apis import OpenAIBatchApi

        return OpenAIBatchApi(self.build_headers)

    def provider_decisions(self) -> DecisionApi | None:
        from .decision_apis import OpenAIDecisionApi

        return OpenAIDecisionApi(self.build_headers)

    def provider_parse_error(self, status: int, headers: Mapping[str, str], body: str) -> ProviderError:
        error = super().provider_parse_error(status, headers, body)
        if error.parameter == "max_completion_tokens":
            error.parameter = "max_tokens"
        # https://github.com/openai/openai-python/blob/main/src/openai/types/responses/response_error.py
        details = read_dict(read_dict(find_error(parse_json(body))).get("misalignment"))
        if explanation := " ".join(read_str(details.get("detailed_explanation")).split()):
            # In the message, its words would count as those of the error.
            error.hint = f"{explanation.rstrip('.')}; change the prompt, or use another model"
        return error


SERVER_TOOLS: dict[str, dict[str, Any]] = {
    "web_search": {"type": "web_search"},
    "code_execution": {"type": "code_interpreter", "container": {"type": "auto"}},
    "tool_search": {"type": "tool_search"},
}
"""https://developers.openai.com/api/docs/guides/tools. The search also opens pages, so there is no tool for that."""
INCLUDED_FIELDS = {
    "web_search": "web_search_call.action.sources",
    "code_execution": "code_interpreter_call.outputs",
}
"""What the response reports of a tool only if the request asks for it."""

DOCUMENT_TYPES = tuple(
    f"application/vnd.openxmlformats-officedocument.{kind}"
    for kind in ("wordprocessingml.document", "spreadsheetml.sheet", "presentationml.presentation")
)
"""Chat Completions accepts only PDF: https://developers.openai.com/api/docs/guides/file-inputs"""


class OpenAI(Responses):
    """OpenAI on the Responses API."""

    @property
    def profiles(self) -> Sequence[ModelProfile]:  # type: ignore[override]  # computed, as in the base class
        return [
            profile._replace(attachments=(*profile.attachments, *DOCUMENT_TYPES))
            if PDF_TYPE in (profile.attachments or ()) and profile.attachments
            else profile
            for profile in super().profiles
        ]

    def build_body(self, request: ChatRequest) -> dict[str, Any]:
        body = super().build_body(request)
        fields = [INCLUDED_FIELDS[name] for name in request.server_tools if name in INCLUDED_FIELDS]
        if fields:
            body["include"] = list(dict.fromkeys([*body.get("include", ()), *fields]))
        return body

    def provider_server_tools(self, model: str) -> dict[str, dict[str, Any]]:
        return {} if self.requires_chat(model) else SERVER_TOOLS

    def requires_chat(self, model: str) -> bool:
        return "audio" in model

    def provider_supports_attachment(self, model: str, media_type: str) -> bool:
        return media_type in (find_profile(self.profiles, model).attachments or ())

    def provider_supports_tools(self, model: str) -> bool:
        return True

    def provider_supports_result_attachment(self, model: str, media_type: str) -> bool:
        return not self.requires_chat(model)


provider = OpenAI(
    OpenAIChat(
        name="openai",
        title="OpenAI",
        base_url="https://api.openai.com/v1",
        key_env="OPENAI_API_KEY",
        default_model=DEFAULT_MODEL,
    )
)
