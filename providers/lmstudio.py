"""LM Studio: models on this machine, behind its OpenAI-compatible server. https://lmstudio.ai/docs

Errors arrive as an `error` event in a stream with status 200. A request that is longer than the model's context gets an
empty response.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ask import ChatCompletions, ChatRequest, FinishReason, ModelInfo, ModelResponse
from ask.parsing import read_dict, read_int, read_list, read_str
from ask.profiles import ModelProfile

IMAGE_TYPES = ("image/png", "image/jpeg")
"""Its own API also accepts WebP, but this endpoint does not:
https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/1752
"""
LOAD_HINT = "load one with lms load MODEL, or in the app"
EMBEDDING_PREFIX = "text-embedding-"
"""Name prefix of models that only create embeddings; LM Studio ships with one."""


class LMStudio(ChatCompletions):
    """LM Studio, with its models list and its notices."""

    profiles = (ModelProfile("*", "https://lmstudio.ai/docs/developer", ("none", "low", "medium", "high")),)
    error_rules = (
        ("insufficient system resources", None, "unload another model, or use a smaller one"),
        ("(?i:no models? loaded|model is not loaded|failed to load model|unload models)", None, LOAD_HINT),
    )

    def provider_notice(self, request: ChatRequest, answer: ModelResponse) -> str:
        """Return a notice if the response shows an underlying problem, otherwise ""."""
        is_empty = not answer.text.strip() and not answer.usage.output_tokens
        if is_empty and answer.finish_reason in (FinishReason.EMPTY, FinishReason.LENGTH):
            return "an empty answer may mean that the context is too short: lms load MODEL --context-length N"
        return ""

    def provider_parse_models(self, body: Any) -> list[ModelInfo]:
        """Parse the models that can chat, loaded ones first.

        Only the list at /api/v0 shows which models are loaded; the one at /v1 does not.
        """
        entries = [
            read_dict(entry) for entry in read_list(body if isinstance(body, list) else read_dict(body).get("data"))
        ]
        chat = [entry for entry in entries if not is_embedding_model(entry)]
        return super().provider_parse_models(sorted(chat, key=lambda entry: entry.get("state") != "loaded"))

    def parse_model(self, entry: Mapping[str, Any]) -> ModelInfo:
        capabilities = entry.get("capabilities")
        return ModelInfo(
            id=read_str(entry.get("id")),
            context_length=read_int(entry.get("loaded_context_length") or entry.get("max_context_length")),
            tools="tool_use" in capabilities if isinstance(capabilities, list) else None,
        )


def is_embedding_model(entry: Mapping[str, Any]) -> bool:
    """Check whether a model only creates embeddings."""
    return entry.get("type") == "embeddings" or read_str(entry.get("id")).startswith(EMBEDDING_PREFIX)


provider = LMStudio(
    name="lmstudio",
    title="LM Studio",
    base_url="http://localhost:1234/v1",
    key_env=("LMSTUDIO_API_KEY", "LM_API_TOKEN"),
    needs_key=False,
    attachments=IMAGE_TYPES,
    docs="https://lmstudio.ai/docs/developer",
    offline_hint="start its server with lms server start, or set LMSTUDIO_BASE_URL to its URL",
    no_models_hint=LOAD_HINT,
)
