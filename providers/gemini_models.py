"""What Google documents about its models. https://ai.google.dev/gemini-api/docs/models

Gemini 3 and 4 have thinking levels and cannot turn thinking off; Gemini 2.5 has a budget in tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ask.profiles import EFFORTS, ModelProfile

IMAGE_TYPES = ("image/png", "image/jpeg", "image/webp", "image/heic")
ATTACHMENT_TYPES = (
    *(*IMAGE_TYPES, "application/pdf"),
    *("audio/wav", "audio/mpeg", "audio/aiff", "audio/aac", "audio/ogg", "audio/flac"),
    *("video/mp4", "video/mpeg", "video/quicktime", "video/x-msvideo", "video/webm", "video/3gpp"),
)
"""https://ai.google.dev/gemini-api/docs/image-understanding, .../document-processing, .../audio
and .../video-understanding

A PDF may have 1,000 pages, as open-source programs quote the page.
"""
RESULT_ATTACHMENT_TYPES = ("image/png", "image/jpeg", "image/webp", "application/pdf")
"""For Gemini 3 and later: https://ai.google.dev/gemini-api/docs/function-calling#multimodal"""
MIME_TYPE_NAMES = {"audio/mpeg": "audio/mp3", "video/quicktime": "video/mov", "video/x-msvideo": "video/avi"}
"""MIME types for which Gemini uses another name."""
THINKING_PAGE = "https://ai.google.dev/gemini-api/docs/thinking"
LEVELS: Mapping[str, Mapping[str, Any]] = {
    effort: {"thinkingConfig": {"thinkingLevel": effort, "includeThoughts": True}} for effort in EFFORTS[1:]
}
BUDGETS = {"none": 0, "minimal": 1_024, "low": 1_024, "medium": 8_192, "high": 24_576}
"""Thinking tokens by effort: https://ai.google.dev/gemini-api/docs/openai#thinking"""
BUDGET_PARAMETERS: Mapping[str, Mapping[str, Any]] = {
    effort: {"thinkingConfig": {"thinkingBudget": budget, "includeThoughts": budget > 0}}
    for effort, budget in BUDGETS.items()
}

GEMINI_4_PAGE = "https://ai.google.dev/gemini-api/docs/generate-content/latest-model"
OMNI_PAGE = "https://docs.cloud.google.com/gemini-enterprise-agent-platform/models/gemini/omni-1-2-flash"

PROFILES = (
    ModelProfile(
        "gemini-decision*",
        "https://ai.google.dev/gemini-api/docs/models",
        (),
        context_length=262_144,
        decisions="only",
    ),
    ModelProfile("gemini-omni*", OMNI_PAGE, (), attachments=IMAGE_TYPES),
    ModelProfile("gemini-{4+}-*cyber*", GEMINI_4_PAGE, default_effort="high"),
    ModelProfile(
        "gemini-{4+}*",
        GEMINI_4_PAGE,
        ("low", "medium", "high"),
        default_effort="medium",
        output_limit=1_048_576,
        context_length=1_048_576,
    ),
    ModelProfile("gemini-{3+}-flash-image*", THINKING_PAGE, ("minimal", "high")),
    ModelProfile(
        "gemini-{3+}-flash-lite*|gemini-flash-lite-latest|gemini-{3-3.6}-flash*",
        THINKING_PAGE,
        ("minimal", "low", "medium", "high"),
    ),
    ModelProfile(
        "gemini-{3.7+}-flash*|gemini-flash-latest",
        "https://ai.google.dev/gemini-api/docs/generate-content/whats-new-gemini-3.7",
        ("low", "medium", "high"),
        default_effort="medium",
    ),
    ModelProfile("gemini-{3}-pro*", THINKING_PAGE, ("low", "high"), default_effort="high"),
    ModelProfile("gemini-{3.1+}-pro*|gemini-pro-latest", THINKING_PAGE, ("low", "medium", "high")),
    ModelProfile(
        "gemini-{3+}*|gemini-*latest",
        THINKING_PAGE,
        effort_parameters=LEVELS,
        output_limit=65_536,
        context_length=1_048_576,
    ),
    ModelProfile("gemini-{2.5}-pro*", THINKING_PAGE, ("minimal", "low", "medium", "high")),
    ModelProfile(
        "gemini-{2.5}*", THINKING_PAGE, tuple(BUDGETS), BUDGET_PARAMETERS, output_limit=65_536, context_length=1_048_576
    ),
    ModelProfile("gemini-{1-2}*|learnlm*", THINKING_PAGE, (), output_limit=8_192),
    ModelProfile(
        "gemini-{1-2.5}*|gemma*|learnlm*",
        "https://ai.google.dev/gemini-api/docs/structured-output",
        schema_with_tools=False,
    ),
    ModelProfile(
        "gemini-{1-2.5}*|gemma*|learnlm*",
        "https://ai.google.dev/gemini-api/docs/tool-combination",
        server_tools_with_tools=False,
    ),
    ModelProfile("gemma*", "https://ai.google.dev/gemma/docs/core", attachments=IMAGE_TYPES),
    ModelProfile("*", "https://ai.google.dev/gemini-api/docs/models", attachments=ATTACHMENT_TYPES, pdf_pages=1_000),
)
