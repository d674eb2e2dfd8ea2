"""What OpenAI documents about its models. https://developers.openai.com/api/docs/models

Reasoning with tools is about Chat Completions: from GPT-5.4 on, it exists only on the Responses API.
"""

from __future__ import annotations

from ask.profiles import ModelProfile

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

PROFILES = (
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
    # From GPT-5.4 on, Chat Completions accepts tools only with reasoning turned off.
    ModelProfile(
        "gpt-{5.4}-mini*|gpt-{5.4}-nano*",
        f"{PAGE}/gpt-5.4-mini",
        ("none", *UP_TO_XHIGH),
        default_effort="none",
        reasoning_with_tools=False,
        context_length=400_000,
    ),
    ModelProfile(
        "gpt-{5.4}*", f"{PAGE}/gpt-5.4", ("none", *UP_TO_XHIGH), default_effort="none", reasoning_with_tools=False
    ),
    ModelProfile(
        "gpt-{5.5}*", f"{PAGE}/gpt-5.5", ("none", *UP_TO_XHIGH), default_effort="medium", reasoning_with_tools=False
    ),
    ModelProfile(
        "gpt-{5.6}*|gpt-{6}-sol*|gpt-{6}-luna*|gpt-{6.1}-terra*",
        f"{PAGE}/gpt-6-sol",
        ("none", *UP_TO_MAX),
        default_effort="medium",
        reasoning_with_tools=False,
    ),
    ModelProfile(
        "gpt-{6+}-astra*|gpt-{6.1+}-sol*",
        f"{PAGE}/gpt-6.1-sol",
        UP_TO_MAX,
        default_effort="medium",
        reasoning_with_tools=False,
    ),
    # What several generations have in common
    ModelProfile("gpt-{5.4+}*", f"{PAGE}/gpt-6.1-sol", reasoning_with_tools=False, context_length=1_050_000),
    ModelProfile(
        "gpt-{5+}*",
        REASONING_PAGE,
        refused_when_reasoning=SAMPLING,
        output_limit=128_000,
        context_length=400_000,
    ),
    ModelProfile("*", PAGE, attachments=(*IMAGE_TYPES, "application/pdf"), schema_with_tools=True),
)
