"""What Anthropic documents about its models. https://platform.claude.com/docs/en/about-claude/models/overview

Models from Claude 5 on think unless the request says otherwise, and refuse budgets; older ones think only on request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ask.profiles import ModelProfile

IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""https://platform.claude.com/docs/en/build-with-claude/vision"""
PDF_TYPE = "application/pdf"
ATTACHMENT_LIMITS: Mapping[str, Any] = {
    "image_bytes": 7_864_320,  # 10 MiB in Base64: https://github.com/kolega-ai/kolega-code/pull/354
    "image_side": 8_000,
    "many_images_side": 2_000,
    "pdf_pages": 600,
}
"""Read on 2026-11-27: https://platform.claude.com/docs/en/build-with-claude/vision and .../pdf-support"""
SAMPLING = ("temperature", "top_p", "top_k")
ALL_EFFORTS = ("low", "medium", "high", "xhigh", "max")
OFF = {"thinking": {"type": "disabled"}}
OFF_BETWEEN_TOOLS = {"thinking": {"type": "between_tools"}}
ON_REQUEST: Mapping[str, Mapping[str, Any]] = {
    "none": OFF,
    **{effort: {"thinking": {"type": "adaptive"}, "reasoning_effort": effort} for effort in ALL_EFFORTS},
}
"""For models that do not think by default: https://platform.claude.com/docs/en/build-with-claude/adaptive-thinking"""
BUDGETS = {"low": 2_048, "medium": 8_192, "high": 16_384}
"""Thinking tokens for models that have no effort, or not with thinking; less than the default limit of the answer."""
BUDGET_PARAMETERS: Mapping[str, Mapping[str, Any]] = {
    "none": OFF,
    **{effort: {"thinking": {"type": "enabled", "budget_tokens": tokens}} for effort, tokens in BUDGETS.items()},
}
MODELS_PAGE = "https://platform.claude.com/docs/en/models"
EFFORT_PAGE = "https://platform.claude.com/docs/en/build-with-claude/effort"
BUDGET_PAGE = "https://platform.claude.com/docs/en/build-with-claude/extended-thinking"

PROFILES = (
    ModelProfile(
        "claude-sonnet-{5.5+}*",
        f"{MODELS_PAGE}/sonnet-5-5/whats-new-sonnet-5-5",
        ("none", *ALL_EFFORTS),
        {"none": OFF_BETWEEN_TOOLS},
        default_effort="high",
    ),
    ModelProfile(
        "claude-haiku-{5.5+}*",
        f"{MODELS_PAGE}/haiku-5-5/whats-new-haiku-5-5",
        ("none", *ALL_EFFORTS),
        default_effort="medium",
    ),
    ModelProfile("claude-opus-{5.5+}*", f"{MODELS_PAGE}/opus-5-5/overview", ALL_EFFORTS, default_effort="medium"),
    ModelProfile("claude-fable-*|claude-mythos-*", EFFORT_PAGE, ALL_EFFORTS, default_effort="high"),
    ModelProfile(
        "claude-opus-{5}*|claude-sonnet-{5}*",
        "https://platform.claude.com/docs/en/about-claude/models/whats-new-opus-5",
        ("none", *ALL_EFFORTS),
        default_effort="high",
    ),
    ModelProfile("claude-opus-{4.7-4.9}*", EFFORT_PAGE, ("none", *ALL_EFFORTS), ON_REQUEST, "none"),
    ModelProfile("claude-opus-{4.6}*", f"{MODELS_PAGE}/overview", output_limit=128_000),
    ModelProfile(
        "claude-opus-{4.6}*|claude-sonnet-{4.6}*",
        EFFORT_PAGE,
        ("none", "low", "medium", "high", "max"),
        ON_REQUEST,
        "none",
        refused_when_reasoning=("temperature", "top_k"),
        output_limit=64_000,
        context_length=1_000_000,
    ),
    ModelProfile("claude-opus-{4-4.1}*", BUDGET_PAGE, output_limit=32_000),
    ModelProfile(
        "claude-opus-{4-4.5}*|claude-sonnet-{4-4.5}*|claude-haiku-{4-4.5}*",
        BUDGET_PAGE,
        ("none", *BUDGETS),
        BUDGET_PARAMETERS,
        "none",
        refused_when_reasoning=("temperature", "top_k"),
        output_limit=64_000,
        context_length=200_000,
        pdf_pages=100,
    ),
    ModelProfile(
        "claude-opus-{4.7+}*|claude-sonnet-{4.7+}*|claude-haiku-{4.7+}*|claude-fable-*|claude-mythos-*",
        MODELS_PAGE,
        refused_options=SAMPLING,
        output_limit=128_000,
        context_length=1_000_000,
    ),
    ModelProfile(
        "*", MODELS_PAGE, effort_parameters={"none": OFF}, attachments=(*IMAGE_TYPES, PDF_TYPE), **ATTACHMENT_LIMITS
    ),
)


def must_not_think(thinking: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> bool:
    """Check whether the API refuses a thinking budget: after the results of calls in a turn without thinking.

    Such calls are another model's, or their thinking was left out. https://github.com/anomalyco/opencode/issues/3077
    A model with a budget thinks only at the start of a turn, and thinking must not change before its end:
    https://platform.claude.com/docs/en/build-with-claude/extended-thinking
    """
    turn: list[str] = []
    for message in reversed(messages):
        block_types = [block["type"] for block in message["content"]]
        if message["role"] == "user" and "tool_result" not in block_types:
            break
        turn += block_types
    has_thinking = any("thinking" in block_type for block_type in turn)
    return thinking.get("type") == "enabled" and "tool_result" in turn and not has_thinking
