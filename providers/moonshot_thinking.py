"""Thinking that Kimi's older models write at the head of an answer, between marks: told apart from the answer.

`MoonshotStreamReader` does so for what is shown, `with_thinking_apart` for a whole response.
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

MARKS = {"◁think▷": "◁/think▷", "<think>": "</think>"}
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
            seen += self._splitter.end()
        return seen


class ThinkingSplitter:
    """Splits a text that comes in pieces, however they cut the marks."""

    def __init__(self) -> None:
        self._held = ""
        self._part: Literal["head", "thinking", "gap", "answer"] = "head"
        self._mark = ""

    def feed(self, piece: str) -> list[TextDelta | ReasoningDelta]:
        """Take a piece; return what is clear by now. What may be the beginning of a mark is held back."""
        self._held += piece
        seen: list[TextDelta | ReasoningDelta] = []
        if self._part == "head":
            self._read_head()
        if self._part == "thinking":
            seen += self._read_thinking()
        if self._part == "gap":
            self._held = self._held.lstrip()
            self._part = "answer" if self._held else "gap"
        if self._part == "answer":
            seen += self.end()
        return seen

    def end(self) -> list[TextDelta | ReasoningDelta]:
        """What is held, now that no mark can come of it."""
        held, self._held = self._held, ""
        if not held:
            return []
        return [ReasoningDelta(held) if self._part == "thinking" else TextDelta(held)]

    def _read_head(self) -> None:
        """Find out whether the text begins with thinking."""
        head = self._held.lstrip()
        begun = next((mark for mark in MARKS if head.startswith(mark)), "")
        if begun:
            self._held, self._part, self._mark = head.removeprefix(begun), "thinking", MARKS[begun]
        elif not any(mark.startswith(head) for mark in MARKS):
            self._part = "answer"

    def _read_thinking(self) -> list[ReasoningDelta]:
        thinking, found, rest = self._held.partition(self._mark)
        if found:
            self._held, self._part = rest, "gap"
        else:
            begun = next((n for n in range(len(self._mark) - 1, 0, -1) if thinking.endswith(self._mark[:n])), 0)
            clear = len(thinking) - begun
            thinking, self._held = thinking[:clear], thinking[clear:]
        return [ReasoningDelta(thinking)] if thinking else []


def with_thinking_apart(response: Mapping[str, Any]) -> Mapping[str, Any]:
    """The response with the thinking in its text moved to where newer models have it."""
    choices = as_list(response.get("choices"))
    choice = first_choice(response)
    message = as_dict(choice.get("message"))
    said = as_text(message.get("content"))
    splitter = ThinkingSplitter()
    parts = [*splitter.feed(said), *splitter.end()]
    text = "".join(part.text for part in parts if isinstance(part, TextDelta))
    if text == said:
        return response
    thinking = "".join(part.text for part in parts if isinstance(part, ReasoningDelta))
    apart = message | {"content": text, "reasoning_content": as_text(message.get("reasoning_content")) + thinking}
    return {**response, "choices": [choice | {"message": apart}, *choices[1:]]}
