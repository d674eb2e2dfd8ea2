"""Separate the thinking that Kimi's older models write at the start of a response, between tags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from ask import (
    ChatStreamReader,
    Delta,
    ReasoningDelta,
    ServerEvent,
    TextDelta,
    as_dict,
    as_list,
    as_text,
    first_choice,
)

THINKING_TAGS = {"◁think▷": "◁/think▷", "<think>": "</think>"}
"""Opening tags of the thinking, with their closing tags."""


class MoonshotStreamReader(ChatStreamReader):
    """Reports thinking as reasoning deltas; the assembled response keeps Moonshot's original text with the tags."""

    def __init__(self) -> None:
        super().__init__()
        self._splitter = ThinkingSplitter()

    def feed(self, event: ServerEvent) -> list[Delta]:
        deltas: list[Delta] = []
        for delta in super().feed(event):
            deltas += self._splitter.feed(delta.text) if isinstance(delta, TextDelta) else [delta]
        if self.ended:
            deltas += self._splitter.finish()
        return deltas


class ThinkingSplitter:
    """Separates thinking from text in a stream, even if a tag is split between fragments."""

    def __init__(self) -> None:
        self._buffer = ""
        self._state: Literal["head", "thinking", "gap", "answer"] = "head"
        self._end_tag = ""

    def feed(self, text: str) -> list[TextDelta | ReasoningDelta]:
        """Add a fragment and return the deltas so far; text that may begin a tag is held back."""
        self._buffer += text
        deltas: list[TextDelta | ReasoningDelta] = []
        if self._state == "head":
            self._read_head()
        if self._state == "thinking":
            deltas += self._read_thinking()
        if self._state == "gap":
            self._buffer = self._buffer.lstrip()
            self._state = "answer" if self._buffer else "gap"
        if self._state == "answer":
            deltas += self.finish()
        return deltas

    def finish(self) -> list[TextDelta | ReasoningDelta]:
        """Return the text that was held back, once it can no longer begin a tag."""
        rest, self._buffer = self._buffer, ""
        if not rest:
            return []
        return [ReasoningDelta(rest) if self._state == "thinking" else TextDelta(rest)]

    def _read_head(self) -> None:
        """Check whether the text begins with an opening tag."""
        text = self._buffer.lstrip()
        opening_tag = next((tag for tag in THINKING_TAGS if text.startswith(tag)), "")
        if opening_tag:
            self._buffer, self._state, self._end_tag = (
                text.removeprefix(opening_tag),
                "thinking",
                THINKING_TAGS[opening_tag],
            )
        elif not any(tag.startswith(text) for tag in THINKING_TAGS):
            self._state = "answer"

    def _read_thinking(self) -> list[ReasoningDelta]:
        thinking, end_tag, rest = self._buffer.partition(self._end_tag)
        if end_tag:
            self._buffer, self._state = rest, "gap"
        else:
            partial_length = next(
                (n for n in range(len(self._end_tag) - 1, 0, -1) if thinking.endswith(self._end_tag[:n])), 0
            )
            safe_length = len(thinking) - partial_length
            thinking, self._buffer = thinking[:safe_length], thinking[safe_length:]
        return [ReasoningDelta(thinking)] if thinking else []


def separate_thinking(response: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the response with the thinking moved from the text to `reasoning_content`."""
    choices = as_list(response.get("choices"))
    choice = first_choice(response)
    message = as_dict(choice.get("message"))
    original_text = as_text(message.get("content"))
    splitter = ThinkingSplitter()
    parts = [*splitter.feed(original_text), *splitter.finish()]
    text = "".join(part.text for part in parts if isinstance(part, TextDelta))
    if text == original_text:
        return response
    thinking = "".join(part.text for part in parts if isinstance(part, ReasoningDelta))
    separated = message | {"content": text, "reasoning_content": as_text(message.get("reasoning_content")) + thinking}
    return {**response, "choices": [choice | {"message": separated}, *choices[1:]]}
