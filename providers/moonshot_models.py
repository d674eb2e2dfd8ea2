"""What Moonshot AI documents about its models. https://platform.kimi.ai/docs/api/models-overview

K3 has efforts, K2.5 and K2.6 can turn thinking off, and other thinking models always think.
"""

from __future__ import annotations

from ask.profiles import ModelProfile

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
