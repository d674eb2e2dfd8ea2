"""Thinking that Kimi's older models write at the head of an answer, between marks: told apart from the answer.

`MoonshotStreamReader` does so for what is shown, `separate_thinking` for a whole response.
"""

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
"""What begins the thinking, and what ends it."""


class MoonshotStreamReader(ChatStreamReader):
    """Shows thinking as what it is; the response stays Moonshot's own, marks included."""

    def __init__(self) -> None:
        super().__init__()
        self._splitter = ThinkingSplitter()

    def feed(self, event: ServerEvent) -> list[Delta]:
        seen: list[Delta] = []
        for delta in super().feed(event):
            seen += self._splitter.feed(delta.text) if isinstance(delta, TextDelta) else [delta]
        if self.ended:
            seen += self._splitter.finish()
        return seen


class ThinkingSplitter:
    """Splits a text that comes in pieces, however they cut the marks."""

    def __init__(self) -> None:
        self._buffer = ""
        self._state: Literal["head", "thinking", "gap", "answer"] = "head"
        self._end_tag = ""

    def feed(self, text: str) -> list[TextDelta | ReasoningDelta]:
        """Take a piece; return what is clear by now. What may be the beginning of a mark is held back."""
        self._buffer += text
        seen: list[TextDelta | ReasoningDelta] = []
        if self._state == "head":
            self._read_head()
        if self._state == "thinking":
            seen += self._read_thinking()
        if self._state == "gap":
            self._buffer = self._buffer.lstrip()
            self._state = "answer" if self._buffer else "gap"
        if self._state == "answer":
            seen += self.finish()
        return seen

    def finish(self) -> list[TextDelta | ReasoningDelta]:
        """What is held, now that no mark can come of it."""
        held, self._buffer = self._buffer, ""
        if not held:
            return []
        return [ReasoningDelta(held) if self._state == "thinking" else TextDelta(held)]

    def _read_head(self) -> None:
        """Find out whether the text begins with thinking."""
        head = self._buffer.lstrip()
        begun = next((mark for mark in THINKING_TAGS if head.startswith(mark)), "")
        if begun:
            self._buffer, self._state, self._end_tag = head.removeprefix(begun), "thinking", THINKING_TAGS[begun]
        elif not any(mark.startswith(head) for mark in THINKING_TAGS):
            self._state = "answer"

    def _read_thinking(self) -> list[ReasoningDelta]:
        thinking, found, rest = self._buffer.partition(self._end_tag)
        if found:
            self._buffer, self._state = rest, "gap"
        else:
            begun = next((n for n in range(len(self._end_tag) - 1, 0, -1) if thinking.endswith(self._end_tag[:n])), 0)
            clear = len(thinking) - begun
            thinking, self._buffer = thinking[:clear], thinking[clear:]
        return [ReasoningDelta(thinking)] if thinking else []


def separate_thinking(response: Mapping[str, Any]) -> Mapping[str, Any]:
    """The response with the thinking in its text moved to where newer models have it."""
    choices = as_list(response.get("choices"))
    choice = first_choice(response)
    message = as_dict(choice.get("message"))
    said = as_text(message.get("content"))
    splitter = ThinkingSplitter()
    parts = [*splitter.feed(said), *splitter.finish()]
    text = "".join(part.text for part in parts if isinstance(part, TextDelta))
    if text == said:
        return response
    thinking = "".join(part.text for part in parts if isinstance(part, ReasoningDelta))
    apart = message | {"content": text, "reasoning_content": as_text(message.get("reasoning_content")) + thinking}
    return {**response, "choices": [choice | {"message": apart}, *choices[1:]]}
