"""What xAI documents about its models. https://docs.x.ai/developers/models"""

from __future__ import annotations

from ask.profiles import ModelProfile

IMAGE_TYPES = ("image/jpeg", "image/png")
"""https://docs.x.ai/developers/model-capabilities/images/understanding"""
REASONING_PAGE = "https://docs.x.ai/developers/model-capabilities/text/reasoning"
MODELS_PAGE = "https://docs.x.ai/developers/models"
REFUSED = ("presence_penalty", "frequency_penalty", "stop")
UP_TO_HIGH = ("low", "medium", "high")

PROFILES = (
    ModelProfile("*non-reasoning*", MODELS_PAGE, (), refused_options=()),
    # 4.20 came before 4.3.
    ModelProfile("grok-4.20-multi-agent*", REASONING_PAGE, (*UP_TO_HIGH, "xhigh")),
    ModelProfile("grok-4.20*", MODELS_PAGE, refused_options=REFUSED),
    ModelProfile("grok-{4.3}*", REASONING_PAGE, ("none", *UP_TO_HIGH), default_effort="low", context_length=1_000_000),
    ModelProfile("grok-{4.5}*|grok-build-latest", REASONING_PAGE, UP_TO_HIGH, default_effort="high"),
    ModelProfile("grok-{4.6+}*", REASONING_PAGE, (*UP_TO_HIGH, "xhigh"), default_effort="high"),
    ModelProfile("grok-{4.5+}*", MODELS_PAGE, context_length=500_000),
    # The alias moves from model to model; all of them accept these.
    ModelProfile("grok-latest", REASONING_PAGE, UP_TO_HIGH),
    ModelProfile("grok-3-mini*", REASONING_PAGE, ("low", "high")),
    # These always reason, and refuse the parameter.
    ModelProfile("grok-code*|grok-build*", REASONING_PAGE, ("high",), {"high": {}}),
    ModelProfile("grok-{4+}*|grok-latest|grok-3-mini*|grok-code*|grok-build*", REASONING_PAGE, refused_options=REFUSED),
    ModelProfile("grok-2*vision*", MODELS_PAGE, attachments=IMAGE_TYPES),
    ModelProfile("grok-2*|grok-3*|grok-code*|grok-build*|grok-beta*", MODELS_PAGE, attachments=()),
    ModelProfile("*", MODELS_PAGE, attachments=IMAGE_TYPES, schema_with_tools=True),
)
