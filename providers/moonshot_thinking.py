"""Separate the thinking that Kimi's older models write at the start of a response, between tags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from ask import Delta, RawEvent, ReasoningDelta, StreamReader, TextDelta
from ask.parsing import read_first_choice, read_list, read_str

from .stream_events import to_deltas

THINKING_TAGS = {"◁think▷": "◁/think▷", "<think>": "</think>"}
"""Opening tags of the thinking, with their closing tags."""


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
