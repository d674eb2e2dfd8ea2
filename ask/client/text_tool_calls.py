"""Answers that contain a tool call as text, because the server or the model has not written it as one."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ask.messages import FinishReason, ModelResponse, ToolSpec

TEXT_CALL_MARKERS = (
    *("<tool_call", "<|tool_call", "<function=", "<invoke ", "[TOOL_REQUEST]", "to=functions."),
    *("<\uff5ctool\u2581call", "<\uff5cDSML\uff5c"),  # DeepSeek
    *("[TOOL_CALLS]", "<|python_tag|>", "```tool_code", "functools[{"),  # Mistral, Llama 3, Gemma 3, Phi-4
)
"""What the tool calls of various models begin with if their server does not recognize them; others are bare JSON.

https://github.com/NousResearch/hermes-agent/pull/83023, https://github.com/NousResearch/hermes-agent/pull/84231
"""
JSON_CALL_PATTERN = re.compile(r"\s*(?:```(?:json)?\s*)?(?:\[\s*)?\{")
"""The beginning of calls in JSON, also in a block of Markdown: https://github.com/ollama/ollama/issues/13519"""
JSON_CALL_WORDS = ('"arguments"', '"parameters"', '"tool_use"')
PYTHON_CALL_PATTERN = re.compile(r"\s*\[\s*(\w+)\(\w+\s*=")
"""The beginning of the calls of Llama 4: https://docs.vllm.ai/en/v0.22.1/api/vllm/tool_parsers/llama4_pythonic_tool_parser"""
JSON_NAME_PATTERN = re.compile(r'"name"\s*:\s*"([^"]*)"')


def describe_missing_call(answer: ModelResponse, tools: Sequence[ToolSpec]) -> str:
    """Return a notice if an answer without calls to any of the tools should have had some; "" otherwise.

    A call in the text is not run, because the text may be an example, or quote what a tool returned.
    """
    text = answer.text
    if python_call := PYTHON_CALL_PATTERN.match(text):
        is_call = any(tool.name == python_call[1] for tool in tools)
    elif JSON_CALL_PATTERN.match(text) and any(map(text.__contains__, JSON_CALL_WORDS)):
        is_call = any(tool.name in JSON_NAME_PATTERN.findall(text) for tool in tools)
    else:
        is_call = any(map(text.__contains__, TEXT_CALL_MARKERS)) and any(tool.name in text for tool in tools)
    if is_call:
        return "this model wrote a tool call as text, so nothing was run; use a model that is trained to call tools"
    if answer.finish_reason is FinishReason.TOOL_CALLS:
        return "the model stopped to call a tool, but its answer contains no call"
    return ""
