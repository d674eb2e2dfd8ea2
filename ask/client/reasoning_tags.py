"""Reasoning that a server leaves in the text of an answer, between tags at its start."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from itertools import islice
from operator import methodcaller
from typing import Any

from ask.messages import Delta, ReasoningDelta, TextDelta
from ask.parsing import parse_json

THINK_END = "</think>"
REASONING_TAGS = {
    "<think>": THINK_END,  # DeepSeek R1, Qwen3, MiniMax: https://github.com/MiniMax-AI/MiniMax-M2/issues/18
    "<thinking>": "</thinking>",  # Amazon Nova: https://github.com/LibreChat-AI/agents/pull/40
    "<thought>": "</thought>",  # Gemma 4: https://github.com/vectorize-io/hindsight/issues/1644
    "<reasoning>": "</reasoning>",  # Qwen3.5: https://github.com/Siddhesh2377/ToolNeuron/issues/78
    "◁think▷": "◁/think▷",  # Kimi: https://docs.sglang.io/docs/advanced_features/separate_reasoning
    "[THINK]": "[/THINK]",  # Magistral: https://github.com/RooCodeInc/Roo-Code/issues/8522
    "<seed:think>": "</seed:think>",  # Seed-OSS: https://github.com/anomalyco/opencode/issues/3703
    # Gemma 4 in LM Studio: https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/2013
    "<|channel>thought": "<channel|>",
    "<mm:think>": "</mm:think>",  # MiniMax M3: https://github.com/vllm-project/vllm/issues/45687
    # Marco-o1 and OpenThinker: https://github.com/Infinitix-LLC/gpt_markdown/issues/42
    "<Thought>": "</Thought>",
    "<|begin_of_thought|>": "<|end_of_thought|>",
}
"""The opening tags, with their closing tags."""
FIRST_END_TAGS = (THINK_END, REASONING_TAGS["<mm:think>"])
"""Closing tags with which a text can begin, because the server has separated the reasoning, or there is none.

GLM: https://github.com/QwenLM/qwen-code/pull/6033, MiniMax M3 in SGLang: https://github.com/sgl-project/sglang/pull/28715
"""
OPENING_TAG_PATTERN = "|".join(map(re.escape, REASONING_TAGS))
MAX_BLOCKS = 16
"""No real answer begins with this many blocks of reasoning; what follows them is text."""
SEPARATOR = "\n\n"
"""Separates the reasoning of two blocks, and that in the text from what the provider returned in its own field."""
QUOTES = ("`", "'", '"')
"""Characters around a tag that a text only mentions."""
FENCE_PATTERN = r"(?m)^[ \t]*(?:```|~~~)"


class ReasoningSplitter:
    """Forwards the deltas of an answer, whose text may begin with reasoning in tags; that becomes reasoning deltas.

    Only what may belong to a tag is held back. The text of an answer without a tag at its start is never delayed.

    Args:
        on_delta: receives the deltas.
        is_open: whether the text begins inside a `<think>` block, because the opening tag is part of the prompt.
        is_live: whether reasoning is forwarded before its block has ended.
    """

    def __init__(self, on_delta: Callable[[Delta], None], *, is_open: bool = False, is_live: bool = True) -> None:
        self._on_delta = on_delta
        self._is_open = is_open
        self._is_live = is_live
        self._has_started = False
        """Whether text has been forwarded: what follows is never reasoning."""
        self._buffer = ""
        """The text that has arrived and was not forwarded."""
        self._end_tag = ""
        """The tag that closes the block; "" outside of one."""
        self._block_count = 0
        self._block_text: list[str] = []
        """The text of the current block that was forwarded; if the block never ends, it is text."""
        self._held_reasoning: list[str] = []
        self._has_block_reasoning = False
        self._last_character = ""
        """The last character of the block that was forwarded."""
        self._field_reasoning: list[str] = []
        """The reasoning that the provider returned in its own field."""
        self._has_field_reasoning = False
        self._has_reasoning = False

    def feed(self, delta: Delta) -> None:
        if self._has_started:
            self._on_delta(delta)
        elif isinstance(delta, TextDelta):
            self._buffer += delta.text
            while self._read_block() if self._end_tag else self._read_start():
                pass
        else:
            if isinstance(delta, ReasoningDelta):
                self._field_reasoning.append(delta.text)
                self._has_field_reasoning = self._has_field_reasoning or bool(delta.text.strip())
                self._has_reasoning = self._has_reasoning or self._has_field_reasoning
            self._on_delta(delta)

    def finish(self, *, unclosed_is_text: bool) -> None:
        """Forward the rest. A block that has not ended remains reasoning or is forwarded once more as text."""
        if self._end_tag:
            self._read_block(is_end=True)
        if self._end_tag and not unclosed_is_text:
            self._add_reasoning(self._buffer.rstrip())
            self._forward_held_reasoning()
        elif text := "".join(self._block_text) + (self._buffer if self._end_tag else self._get_start()):
            self._on_delta(TextDelta(text))
        self._buffer = ""

    def _get_start(self) -> str:
        """Return the text at the start of an answer; after a block, without the empty lines before it."""
        return _strip_empty_lines(self._buffer) if self._block_count else self._buffer

    def _read_start(self) -> bool:
        """Look for an opening tag; return whether there is one. Other text ends the start of the answer."""
        head = self._buffer.lstrip()
        tags = (*REASONING_TAGS, *FIRST_END_TAGS)
        if head not in tags and any(map(methodcaller("startswith", head), tags)):
            return False  # the text may become a tag
        end_tag = next(filter(head.startswith, FIRST_END_TAGS), "")
        if end_tag and self._block_count < MAX_BLOCKS:
            self._buffer = head.removeprefix(end_tag)
            self._block_count += 1
            return True
        match = re.match(OPENING_TAG_PATTERN, head)
        tag = match[0] if match else ""
        is_open = self._is_open and not self._has_reasoning and not self._block_count
        start = self._get_start()
        if self._block_count == MAX_BLOCKS or not (tag or is_open):
            self._has_started = True
            self._buffer = ""
            self._on_delta(TextDelta(start))
            return False
        self._end_tag = REASONING_TAGS.get(tag, THINK_END)
        self._block_text = [start.removesuffix(head) + tag]
        self._buffer = head.removeprefix(tag)
        self._has_block_reasoning = False
        return True

    def _read_block(self, *, is_end: bool = False) -> bool:
        """Forward the reasoning in a block; return whether it ends. `is_end` says that no further text comes.

        A closing tag in backquotes is part of the reasoning: https://github.com/ggml-org/llama.cpp/issues/27661
        """
        buffer, start = self._buffer, 0
        while (position := buffer.find(self._end_tag, start)) >= 0:
            start = position + len(self._end_tag)
            is_quoted = (buffer[position - 1] if position else self._last_character) == "`"
            if is_quoted and start == len(buffer) and not is_end:
                return False  # the next character decides
            if not (is_quoted and buffer[start : start + 1] == "`"):
                self._add_reasoning(buffer[:position].rstrip())
                self._forward_held_reasoning()
                self._buffer, self._end_tag, self._block_text = buffer[start:], "", []
                self._block_count += 1
                return True
        position = buffer.rfind(self._end_tag[0], 1 - len(self._end_tag))
        is_partial = position >= 0 and self._end_tag.startswith(buffer[position:])
        reasoning = (buffer[:position] if is_partial else buffer).rstrip()
        self._last_character = reasoning[-1:] or self._last_character
        self._block_text.append(reasoning)
        self._buffer = self._buffer[len(reasoning) :]
        self._add_reasoning(reasoning)
        return False

    def _add_reasoning(self, text: str) -> None:
        if not self._has_block_reasoning:
            text = text.lstrip()
        if not text:
            return
        if self._is_live and not self._has_field_reasoning:
            self._on_delta(ReasoningDelta(text if self._has_block_reasoning else self._separate(text)))
        else:
            self._held_reasoning.append(text)
        self._has_block_reasoning = True

    def _forward_held_reasoning(self) -> None:
        """Forward reasoning that was held back, unless the provider's own field has it, too.

        llama.cpp's --reasoning-format deepseek-legacy fills both: https://github.com/ggml-org/llama.cpp/pull/16394
        """
        reasoning, self._held_reasoning = "".join(self._held_reasoning), []
        if reasoning and reasoning not in "".join(self._field_reasoning):
            self._on_delta(ReasoningDelta(self._separate(reasoning)))

    def _separate(self, reasoning: str) -> str:
        """Return reasoning with a separator from what comes before it."""
        separator, self._has_reasoning = SEPARATOR if self._has_reasoning else "", True
        return separator + reasoning


def separate_reasoning(
    text: str, field_reasoning: str, *, unclosed_is_text: bool, lone_end_counts: bool, is_open: bool
) -> tuple[str, str]:
    """Return the reasoning of a complete answer, and the text without it.

    Args:
        text: the text, which may begin with reasoning.
        field_reasoning: the reasoning that the provider returned in its own field.
        unclosed_is_text: whether a block that does not end is text.
        lone_end_counts: whether the text before a `</think>` without an opening tag is reasoning.
        is_open: see `ReasoningSplitter`.
    """
    position = _find_lone_end(text) if lone_end_counts and not is_open else None
    if position is not None:
        reasoning, rest = text[:position].strip(), text[position + len(THINK_END) :]
        is_repeated = reasoning in field_reasoning
        parts = [field_reasoning] if is_repeated else filter(None, [field_reasoning, reasoning])
        return SEPARATOR.join(parts), _strip_empty_lines(rest)
    if not (is_open or _begins_with_tag(text)):
        return field_reasoning, text
    deltas: list[Delta] = []
    splitter = ReasoningSplitter(deltas.append, is_open=is_open, is_live=False)
    if field_reasoning:
        splitter.feed(ReasoningDelta(field_reasoning))
    splitter.feed(TextDelta(text))
    splitter.finish(unclosed_is_text=unclosed_is_text)
    reasoning, text = (
        "".join(delta.text for delta in deltas if isinstance(delta, delta_type))
        for delta_type in (ReasoningDelta, TextDelta)
    )
    return reasoning, text


def _begins_with_tag(text: str) -> bool:
    """Check whether a text begins with an opening tag, or with one of `FIRST_END_TAGS`."""
    head = text[:100].lstrip() or text.lstrip()  # without copying most of a long text
    return head.startswith((*REASONING_TAGS, *FIRST_END_TAGS))


def _find_lone_end(text: str) -> int | None:
    """Return the position of the `</think>` that ends reasoning without an opening tag; None if there is none.

    A tag in a code block, in quotes, or in JSON belongs to the text.
    """
    if THINK_END not in text or _begins_with_tag(text) or parse_json(text) is not None:
        return None
    for match in islice(re.finditer(THINK_END, text), MAX_BLOCKS):
        before, following = text[: match.start()], text[match.end() : match.end() + 1]
        if "<think>" in before:
            return None
        is_quoted = following in QUOTES and before.endswith(following)
        if not is_quoted and len(re.findall(FENCE_PATTERN, before)) % 2 == 0:
            return match.start()
    return None


def has_tag(state: Mapping[str, Any]) -> bool:
    """Check whether the data of a provider state has a tag in one of its strings."""
    text = json.dumps(dict(state), ensure_ascii=False)
    return any(tag in text for tags in REASONING_TAGS.items() for tag in tags)


def _strip_empty_lines(text: str) -> str:
    """Remove white space at the start of a text, except for the indent of its first line."""
    content = text.lstrip()
    indent = text[: len(text) - len(content)].rpartition("\n")
    return indent[2] + content if content and indent[1] else content
