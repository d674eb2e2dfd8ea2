"""What a request to Ollama needs beyond its messages: parameters by its names, and a context that holds all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ask import as_dict, as_int

PARAMETER_NAMES = {"max_tokens": "num_predict", "max_completion_tokens": "num_predict", "reasoning_effort": "think"}
TOP_LEVEL_PARAMETERS = {"format", "keep_alive", "logprobs", "shift", "think", "top_logprobs", "truncate"}
EFFORT_NAMES = {"none": False, "minimal": "low"}
"""What it calls the levels of `reasoning_effort` that it knows by another name."""
IMAGE_TYPES = ("image/png", "image/jpeg", "image/webp")
TOKENS_PER_IMAGE = 2_048
"""Rather many: 256 to 1,600 are usual."""
MIN_CONTEXT_SIZE = 8192
RESERVED_OUTPUT_TOKENS = 4096
"""Tokens, where `max_tokens` does not say how long the answer may be."""
BYTES_PER_TOKEN = 3
"""Of a request's JSON, few rather than many: 2.9 to 4.6 were seen."""


def split_parameters(parameters: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The user's parameters by Ollama's names: those beside `options`, and those in it."""
    beside: dict[str, Any] = {}
    options: dict[str, Any] = {}
    for told, value in parameters.items():
        name = PARAMETER_NAMES.get(told, told)
        if name == "options":
            options |= as_dict(value)
        elif name == "stop":
            options[name] = [value] if isinstance(value, str) else value
        elif name in TOP_LEVEL_PARAMETERS:
            beside[name] = EFFORT_NAMES.get(str(value), value) if told == "reasoning_effort" else value
        else:
            options[name] = value
    return beside, options


def remove_images(message: Mapping[str, Any]) -> dict[str, Any]:
    """The message with nothing but texts in it."""
    return {name: value for name, value in message.items() if name != "images"}


def compute_context_size(prompt: Any, max_output_tokens: Any, image_count: int = 0) -> int:
    """Tokens of context that hold a prompt, so many images and the answer.

    Powers of two, so that few rounds of a conversation change it: with each change the model is loaded anew.
    """
    answer = as_int(max_output_tokens) or 0
    read = measure_json_bytes(prompt) // BYTES_PER_TOKEN + image_count * TOKENS_PER_IMAGE
    needed = read + (answer if answer > 0 else RESERVED_OUTPUT_TOKENS)
    return max(MIN_CONTEXT_SIZE, 1 << (needed - 1).bit_length())


def measure_json_bytes(value: Any) -> int:
    """Of the value as JSON, in UTF-8."""
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
