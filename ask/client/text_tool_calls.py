"""Answers that contain a tool call as text, because the server or the model has not written it as one."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ask.messages import FinishReason, ModelResponse, ToolSpec

TEXT_CALL_MARKERS = (
    *("<tool_call", "<|tool_call", "<function=", "<invoke ", "[TOOL_REQUEST]", "to=functions."),
    *("<\uff5ctool\u2581call", "<\uff5cDSML\uff5c"),  # DeepSeek
)
"""What the tool calls of various models begin with if their server does not recognize them; others are bare JSON.

https://github.com/NousResearch/hermes-agent/pull/83023, https://github.com/NousResearch/hermes-agent/pull/84231
"""
JSON_CALL_PATTERN = re.compile(r"\s*(?:```(?:json)?\s*)?\{")
"""The beginning of a call in JSON, also in a block of Markdown: https://github.com/ollama/ollama/issues/13519"""
JSON_NAME_PATTERN = re.compile(r'"name"\s*:\s*"([^"]*)"')


def describe_missing_call(answer: ModelResponse, tools: Sequence[ToolSpec]) -> str:
    """Return a notice if an answer without calls to any of the tools should have had some; "" otherwise.

    A call in the text is not run, because the text may be an example, or quote what a tool returned.
    """
    text = answer.text
    has_arguments = '"arguments"' in text or '"parameters"' in text
    if has_arguments and JSON_CALL_PATTERN.match(text):
        is_call = any(tool.name in JSON_NAME_PATTERN.findall(text) for tool in tools)
    else:
        is_call = any(map(text.__contains__, TEXT_CALL_MARKERS)) and any(tool.name in text for tool in tools)
    if is_call:
        return "this model wrote a tool call as text, so nothing was run; use a model that is trained to call tools"
    if answer.finish_reason is FinishReason.TOOL_CALLS:
        return "the model stopped to call a tool, but its answer contains no call"
    return ""
