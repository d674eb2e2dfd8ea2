"""Parameters of Ollama requests, and the context size that a request needs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ask import as_dict, as_int

PARAMETER_NAMES = {"max_tokens": "num_predict", "max_completion_tokens": "num_predict", "reasoning_effort": "think"}
TOP_LEVEL_PARAMETERS = {"format", "keep_alive", "logprobs", "shift", "think", "top_logprobs", "truncate"}
EFFORT_NAMES = {"none": False, "minimal": "low"}
"""Levels of `reasoning_effort` with another value in Ollama."""
IMAGE_TYPES = ("image/png", "image/jpeg", "image/webp")
TOKENS_PER_IMAGE = 2_048
"""A high estimate: 256 to 1,600 are usual."""
MIN_CONTEXT_SIZE = 8192
RESERVED_OUTPUT_TOKENS = 4096
"""Tokens reserved for the response if `max_tokens` is not set."""
BYTES_PER_TOKEN = 3
"""Bytes of a request's JSON per token, a low estimate: 2.9 to 4.6 have been measured."""


def split_parameters(parameters: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Rename the user's parameters for Ollama; return top-level parameters and those for `options`."""
    top_level: dict[str, Any] = {}
    options: dict[str, Any] = {}
    for given_name, value in parameters.items():
        name = PARAMETER_NAMES.get(given_name, given_name)
        if name == "options":
            options |= as_dict(value)
        elif name == "stop":
            options[name] = [value] if isinstance(value, str) else value
        elif name in TOP_LEVEL_PARAMETERS:
            top_level[name] = EFFORT_NAMES.get(str(value), value) if given_name == "reasoning_effort" else value
        else:
            options[name] = value
    return top_level, options


def remove_images(message: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in message.items() if name != "images"}


def compute_context_size(prompt: Any, max_output_tokens: Any, image_count: int = 0) -> int:
    """Compute the context size, in tokens, for a prompt, its images and the response.

    The size is a power of two, so that it rarely changes within a conversation: each change reloads the model.
    """
    output_tokens = as_int(max_output_tokens) or 0
    prompt_tokens = measure_json_bytes(prompt) // BYTES_PER_TOKEN + image_count * TOKENS_PER_IMAGE
    needed = prompt_tokens + (output_tokens if output_tokens > 0 else RESERVED_OUTPUT_TOKENS)
    return max(MIN_CONTEXT_SIZE, 1 << (needed - 1).bit_length())


def measure_json_bytes(value: Any) -> int:
    """Return the size of a value as JSON in UTF-8."""
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
