"""LM Studio: models on this machine, behind its OpenAI-compatible server. https://lmstudio.ai/docs

Errors arrive as an `error` event in a stream with status 200. A request that is longer than the model's context gets an
empty response.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ask import ChatCompletions, ChatRequest, FinishReason, HttpRequest, ModelInfo, ModelResponse
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

    def provider_models_request(self, key: str) -> HttpRequest:
        # Before LM Studio 0.4, there was only OpenAI's list.
        return HttpRequest("/api/v1/models", None, self.build_headers(key), "GET", fallback_path="/models")

    def provider_parse_models(self, body: Any) -> list[ModelInfo]:
        """Parse the models that can chat, loaded ones first.

        The lists at /api/v1 and /api/v0 show which models are loaded; the one at /v1 does not.
        """
        fields = read_dict(body)
        listed = body if isinstance(body, list) else fields.get("models") or fields.get("data")
        chat = [entry for entry in map(read_dict, read_list(listed)) if not is_embedding_model(entry)]
        models = map(self.parse_model, sorted(chat, key=is_loaded, reverse=True))
        return [model for model in models if model.id]

    def parse_model(self, entry: Mapping[str, Any]) -> ModelInfo:
        """Parse an entry of any of the lists."""
        instance = next(map(read_dict, read_list(entry.get("loaded_instances"))), {})
        loaded_length = read_dict(instance.get("config")).get("context_length") or entry.get("loaded_context_length")
        return ModelInfo(
            id=read_str(entry.get("key") or entry.get("id")),
            title=read_str(entry.get("display_name")),
            context_length=read_int(loaded_length or entry.get("max_context_length")),
            tools=read_tool_support(entry.get("capabilities")),
        )


def is_embedding_model(entry: Mapping[str, Any]) -> bool:
    """Check whether a model only creates embeddings."""
    name = read_str(entry.get("key") or entry.get("id"))
    return entry.get("type") in ("embedding", "embeddings") or name.startswith(EMBEDDING_PREFIX)


def is_loaded(entry: Mapping[str, Any]) -> bool:
    """Check whether a model is loaded, as far as the list shows it."""
    return entry.get("state") == "loaded" or bool(read_list(entry.get("loaded_instances")))


def read_tool_support(capabilities: Any) -> bool | None:
    """Return whether a model is trained to call tools: a flag in the list at /api/v1, a name in the one at /api/v0."""
    if isinstance(capabilities, list):
        return "tool_use" in capabilities
    trained = read_dict(capabilities).get("trained_for_tool_use")
    return trained if isinstance(trained, bool) else None


provider = LMStudio(
    name="lmstudio",
    title="LM Studio",
    base_url="http://localhost:1234/v1",
    key_env=("LMSTUDIO_API_KEY", "LM_API_TOKEN"),
    needs_key=False,
    attachments=IMAGE_TYPES,
    offline_hint="start its server with lms server start, or set LMSTUDIO_BASE_URL to its URL",
    no_models_hint=LOAD_HINT,
)
