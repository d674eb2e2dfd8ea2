"""Moonshot AI's Kimi models. https://platform.kimi.ai/docs

They need their reasoning back, and refuse empty texts. Older models write their reasoning into the response text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from ask import (
    ChatCompletions,
    ChatRequest,
    Delta,
    Message,
    ModelResponse,
    RawEvent,
    ReasoningDelta,
    RetryAction,
    StreamReader,
    TextDelta,
    Usage,
)
from ask.parsing import read_first_choice, read_int, read_list, read_str
from ask.profiles import ModelProfile

from .stream_events import to_deltas

QUOTA_ERROR_TYPE = "exceeded_current_quota_error"
"""An account without credit; it has status 429, like a rate limit."""
TOP_UP_HINT = "top up at https://platform.kimi.ai/console, or use another key"
EMPTY_TEXT_PLACEHOLDER = " "
"""Sent instead of an empty text, which Moonshot treats as missing."""

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
"""K3 has efforts, K2.5 and K2.6 can turn thinking off, and other thinking models always think."""

THINKING_TAGS = {"◁think▷": "◁/think▷", "<think>": "</think>"}
"""Opening tags of the thinking, with their closing tags."""


class Moonshot(ChatCompletions):
    """Moonshot, with the reasoning of its models."""

    profiles = PROFILES
    state_fields = ("reasoning_content",)
    error_rules = ((QUOTA_ERROR_TYPE, RetryAction.NEXT_KEY, TOP_UP_HINT),)

    def build_body(self, request: ChatRequest) -> dict[str, Any]:
        body = super().build_body(request)
        if "max_tokens" in body:
            body.setdefault("max_completion_tokens", body.pop("max_tokens"))
        return body

    def format_message(self, message: Message, model: str) -> dict[str, Any]:
        """Format a message.

        Messages with tool calls must have reasoning, even if another provider made the calls; others must have text.
        """
        formatted = super().format_message(message, model)
        if message.tool_calls:
            formatted["reasoning_content"] = formatted.get("reasoning_content") or EMPTY_TEXT_PLACEHOLDER
        elif message.role == "assistant":
            formatted["content"] = formatted["content"] or EMPTY_TEXT_PLACEHOLDER
        return formatted

    def provider_stream_reader(self) -> StreamReader:
        return MoonshotStreamReader(super().provider_stream_reader())

    def provider_parse_response(self, response: Mapping[str, Any]) -> ModelResponse:
        return super().provider_parse_response(separate_thinking(response))

    def parse_usage(self, usage: Mapping[str, Any]) -> Usage:
        """Read cached tokens from OpenAI's field or from Moonshot's own, at the top level."""
        parsed = super().parse_usage(usage)
        if parsed.cached_tokens is None:
            return parsed._replace(cached_tokens=read_int(usage.get("cached_tokens")))
        return parsed


class MoonshotStreamReader:
    """Reports thinking as reasoning deltas; the assembled response keeps Moonshot's original text with the tags.

    Args:
        reader: reads the stream.
    """

    def __init__(self, reader: StreamReader) -> None:
        self._reader = reader
        self._splitter = ThinkingSplitter()

    @property
    def complete(self) -> bool:
        return self._reader.complete

    @property
    def size(self) -> int | None:
        return getattr(self._reader, "size", None)

    def feed(self, event: RawEvent) -> list[Delta]:
        deltas: list[Delta] = []
        for delta in self._reader.feed(event):
            deltas += self._splitter.feed(delta.text) if isinstance(delta, TextDelta) else [delta]
        if self.complete:
            deltas += self._splitter.finish()
        return deltas

    def response(self) -> dict[str, Any]:
        return self._reader.response()


class ThinkingSplitter:
    """Separates thinking from text in a stream, even if a tag is split between fragments."""

    def __init__(self) -> None:
        self._buffer = ""
        self._state: Literal["head", "thinking", "gap", "answer"] = "head"
        self._end_tag = ""

    def feed(self, text: str) -> list[Delta]:
        """Add a fragment and return the deltas so far; text that may belong to a tag is held back."""
        self._buffer += text
        deltas: list[Delta] = []
        if self._state == "head":
            head = self._buffer.lstrip()
            tag = next((tag for tag in THINKING_TAGS if head.startswith(tag)), "")
            if tag:
                self._buffer, self._state, self._end_tag = head.removeprefix(tag), "thinking", THINKING_TAGS[tag]
            elif not any(tag.startswith(head) for tag in THINKING_TAGS):
                self._state = "answer"
        if self._state == "thinking":
            thinking, end_tag, rest = self._buffer.partition(self._end_tag)
            if end_tag:
                self._buffer, self._state = rest, "gap"
            else:
                held_back = len(self._end_tag) - 1
                thinking, self._buffer = thinking[:-held_back], thinking[-held_back:]
            deltas += to_deltas(thinking, is_reasoning=True)
        if self._state == "gap":
            self._buffer = self._buffer.lstrip()
            self._state = "answer" if self._buffer else "gap"
        return deltas + (self.finish() if self._state == "answer" else [])

    def finish(self) -> list[Delta]:
        """Return the text that was held back."""
        rest, self._buffer = self._buffer, ""
        return to_deltas(rest, is_reasoning=self._state == "thinking")


def separate_thinking(response: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the response with the thinking moved from the text to `reasoning_content`."""
    choice = read_first_choice(response)
    message = choice.get("message")
    if not isinstance(message, dict):
        return response
    original_text = read_str(message.get("content"))
    splitter = ThinkingSplitter()
    parts = [*splitter.feed(original_text), *splitter.finish()]
    text = "".join(part.text for part in parts if isinstance(part, TextDelta))
    if text == original_text:
        return response
    thinking = "".join(part.text for part in parts if isinstance(part, ReasoningDelta))
    separated = message | {"content": text, "reasoning_content": read_str(message.get("reasoning_content")) + thinking}
    return {**response, "choices": [choice | {"message": separated}, *read_list(response.get("choices"))[1:]]}


provider = Moonshot(
    name="moonshot",
    title="Moonshot AI",
    base_url="https://api.moonshot.ai/v1",
    key_env="MOONSHOT_API_KEY",
    default_model="kimi-k3",
    docs="https://platform.kimi.ai/docs",
)
