"""The part of a long conversation that goes into a request: size estimates, and what to leave out or shorten.

Sizes are estimates in tokens, corrected by the usage that the provider reports. The saved conversation is not changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from ask.messages import SUMMARY_PREFIX, Message, ToolSpec, merge_user_messages
from ask.profiles import TOKEN_LIMIT_OPTIONS

BYTES_PER_TOKEN = 3
"""UTF-8 bytes per token, a cautious estimate: 3 Latin letters, 1.5 Cyrillic letters or 1 Chinese character."""
MESSAGE_OVERHEAD_TOKENS = 8
"""Tokens of a message or tool call besides its texts."""
MIN_RATIO, MAX_RATIO = 0.3, 4.0
"""Plausible ratios of reported to estimated tokens.

Beyond these, a provider leaves out cached tokens, or counts more than text.
"""
LOOKUP_TOKENS, CONTINUED_LOOKUP_TOKENS = 12_000, 3_000
"""Tokens from which the models list is consulted about the length of a model's context.

For a new conversation this is more than the longest tool result, since hardly any service has a model with a smaller
context, and the request takes time. A continued conversation will grow.
"""
MAX_RESERVED_TOKENS = 32_000
MIN_RESULT_TOKENS = 200
"""Results of tool calls are not shortened below this."""
SHORTENED_NOTE = "\n[... {:,} bytes left out, because they do not fit the context window ...]\n"
REMOVED_FILE_REASON = "left out, because it does not fit the context window"
COMPACTION_HINT = " (the saved conversation is complete; ask compact summarizes older messages)"
OUTPUT_RESERVE_DIVISOR = 5
"""A fifth of the context is reserved for the answer if no maximum is set."""


def estimate_text_tokens(*texts: str) -> int:
    return len("".join(texts).encode("utf-8", "replace")) // BYTES_PER_TOKEN


def estimate_message_tokens(message: Message) -> int:
    tokens = MESSAGE_OVERHEAD_TOKENS + estimate_text_tokens(message.content, message.tool_call_id)
    for call in message.tool_calls:
        tokens += MESSAGE_OVERHEAD_TOKENS + estimate_text_tokens(call.name, call.arguments, call.id)
    if message.attachments:
        from ask.client.attachment_tokens import estimate_attachment_tokens

        tokens += estimate_attachment_tokens(message.attachments)
    return tokens


def estimate_tool_tokens(tools: Sequence[ToolSpec]) -> int:
    """Estimate the tokens of the tool definitions in a request."""
    if not tools:
        return 0
    return estimate_text_tokens(json.dumps(list(map(ToolSpec.to_function, tools)), ensure_ascii=False))


def calculate_input_limit(context_limit: int, options: Mapping[str, Any]) -> int:
    """Return how many tokens a request may have, leaving space for the answer."""
    max_output = next((options[name] for name in TOKEN_LIMIT_OPTIONS if isinstance(options.get(name), int)), None)
    default_reserve = min(context_limit // OUTPUT_RESERVE_DIVISOR, MAX_RESERVED_TOKENS)
    return context_limit - (default_reserve if max_output is None else min(max(max_output, 0), context_limit // 2))


def should_read_listed_limit(size: int, limits: Sequence[int], *, is_continued: bool) -> bool:
    """Check whether a request may exceed the model's context, whose length only the provider's models list has.

    `limits` are those that are known without it, such as the user's own.
    """
    return size > min([CONTINUED_LOOKUP_TOKENS if is_continued else LOOKUP_TOKENS, *limits])


def find_removable_ranges(messages: Sequence[Message]) -> Iterator[range]:
    """Yield ranges of message indexes that may be left out, in the order of removal.

    These are each exchange (a user message and everything until the next one) except the newest; then, in the newest,
    each round of tool calls with its results except the last; finally the summary.
    """
    has_summary = bool(messages) and messages[0].role == "user" and messages[0].content.startswith(SUMMARY_PREFIX)
    user_indexes = [index for index, message in enumerate(messages) if message.role == "user"][has_summary:]
    if not user_indexes:
        return
    yield from (range(*bounds) for bounds in pairwise([int(has_summary), *user_indexes]) if bounds[0] < bounds[1])
    newest_exchange = range(user_indexes[-1], len(messages))
    yield from (
        range(*bounds) for bounds in pairwise(index for index in newest_exchange if messages[index].role == "assistant")
    )
    if has_summary:
        yield range(1)


def select_kept_indexes(
    messages: Sequence[Message], sizes: Sequence[int], max_tokens: int, target_tokens: int
) -> list[int]:
    """Return the indexes of the messages to send.

    These are all messages if they have at most `max_tokens` tokens. Otherwise messages are removed until about
    `target_tokens` are left; messages that cannot be removed are kept even if they exceed it.
    """
    size = sum(sizes)
    removed: set[int] = set()
    if size > max_tokens:
        for removable in find_removable_ranges(messages):
            if size <= target_tokens:
                break
            removed.update(removable)
            size -= sum(sizes[index] for index in removable)
    return [index for index in range(len(messages)) if index not in removed]


def shorten_result(message: Message, max_tokens: int) -> Message:
    """Return a result without its files, and with only the head and the tail of its text if that is too long.

    A note says how much of the text is missing. A text that would not become shorter is kept.
    """
    if message.attachments:
        from ask.attachments import replace_attachments

        message = replace_attachments(message, lambda _: REMOVED_FILE_REASON)
    text = message.content
    data = text.encode("utf-8", "replace")
    kept = max(max_tokens, MIN_RESULT_TOKENS) * BYTES_PER_TOKEN
    head, tail = data[: kept * 2 // 3], data[len(data) - kept // 3 :]
    note = SHORTENED_NOTE.format(len(data) - len(head) - len(tail))
    if len(head) + len(note) + len(tail) >= len(data):
        return message
    return message._replace(content=head.decode("utf-8", "ignore") + note + tail.decode("utf-8", "ignore"))


def _find_result_limit(sizes: Iterable[int], total: int) -> int:
    """Return the limit for each result with which all together have at most `total` tokens; the small ones stay."""
    remaining, ascending = total, sorted(sizes)
    for position, size in enumerate(ascending):
        share = remaining // (len(ascending) - position)
        if size > share:
            return share
        remaining -= size
    return total


class ContextWindow:
    """The part of a growing conversation that is sent in requests.

    It is truncated in large steps: between two steps each request begins with the previous one, so that provider caches
    work. `overhead_tokens` is the estimated size of the system prompt and the tools.
    """

    def __init__(self, overhead_tokens: int) -> None:
        self._overhead_tokens = overhead_tokens
        self._token_ratio = 1.0
        """Reported tokens per estimated token."""
        self._calibrated_messages = 0
        """How many messages the ratio was measured on; for later ones it is assumed to be at least 1."""
        self._max_tokens: int | None = None
        self._estimates: list[int] = []
        self._removed_indexes: set[int] = set()
        self._shortened: dict[int, Message] = {}
        """The results that are sent in a shorter form, by their positions."""
        self._truncated_before = 0

    @property
    def shortened_count(self) -> int:
        """How many results of tool calls are shortened in requests."""
        return len(self._shortened.keys() - self._removed_indexes)

    def select_messages(self, messages: Sequence[Message]) -> list[Message]:
        """Return the messages for the next request."""
        selected = []
        for index, message in enumerate(messages):
            if index in self._removed_indexes:
                continue
            sent, state = self._shortened.get(index, message), message.provider_state
            if state and index < self._truncated_before:
                sent = sent._replace(provider_state=state._replace(context_truncated=True))
            selected.append(sent)
        return merge_user_messages(selected)

    def calibrate(self, messages: Sequence[Message], reported_tokens: int | None) -> None:
        """Correct the estimates by the tokens reported for a request with these messages."""
        if reported_tokens:
            self._token_ratio = 1.0  # by which `estimate_size` multiplies
            ratio = reported_tokens / max(self.estimate_size(messages), 1)
            self._token_ratio = ratio if MIN_RATIO <= ratio <= MAX_RATIO else 1
            self._calibrated_messages = len(messages)

    def estimate_size(self, messages: Sequence[Message]) -> int:
        """Estimate the tokens of the next request."""
        return self._scaled_overhead + sum(self._estimate_kept(messages).values())

    def fit(self, messages: Sequence[Message], limit: int, options: Mapping[str, Any], *, is_saved: bool) -> str:
        """Leave out of requests what exceeds the context limit; return a notice about it, "" if nothing does."""
        shortened_count = self.shortened_count
        removed_count = self.shrink(messages, calculate_input_limit(limit, options))
        reduction = format_reduction(removed_count, max(self.shortened_count - shortened_count, 0))
        size = self.estimate_size(messages)
        if not reduction and size <= limit:
            return ""
        if size > limit:
            reduction = f"with about {size:,} tokens that cannot be left out" + (reduction and f", {reduction}")
        hint = COMPACTION_HINT if is_saved and removed_count else ""
        return f"the conversation does not fit the context window of {limit:,} tokens; continuing {reduction}{hint}"

    def shrink(self, messages: Sequence[Message], max_tokens: int) -> int:
        """Leave out the oldest messages, and shorten results, if the next request would exceed `max_tokens`.

        Returns how many messages are left out.
        """
        if self._max_tokens is not None:
            max_tokens = min(max_tokens, self._max_tokens)
        max_tokens -= self._scaled_overhead
        return self._truncate(messages, max_tokens, max_tokens * 3 // 4)

    def halve(self, messages: Sequence[Message]) -> int:
        """Leave out about half after a request was rejected as too long. Returns how many messages are left out."""
        size = self.estimate_size(messages)
        self._max_tokens = size * 3 // 4
        return self._truncate(messages, 0, size // 2 - self._scaled_overhead)

    def _truncate(self, messages: Sequence[Message], max_tokens: int, target_tokens: int) -> int:
        # Results first: the model can call a tool again, but not repeat a message of the user.
        if sum(self._estimate_kept(messages).values()) > max_tokens:
            self._shorten_results(messages, max(target_tokens, 0) // 2)
        sizes = self._estimate_kept(messages)
        indexes = [*sizes]
        kept = select_kept_indexes([messages[index] for index in indexes], [*sizes.values()], max_tokens, target_tokens)
        removed = sizes.keys() - {indexes[position] for position in kept}
        if removed:
            self._removed_indexes |= removed
            self._truncated_before = len(messages)
        sizes = self._estimate_kept(messages)
        # What is left must stay, so only its results can become shorter, the longest ones first.
        excess = sum(sizes.values()) - target_tokens
        if sum(sizes.values()) > max(max_tokens, target_tokens):
            results = [size for index, size in sizes.items() if messages[index].role == "tool"]
            self._shorten_results(messages, _find_result_limit(results, max(sum(results) - excess, 0)))
        return len(removed)

    def _shorten_results(self, messages: Sequence[Message], max_tokens: int) -> None:
        """Shorten the results that have more tokens than that."""
        max_tokens = max(max_tokens, MIN_RESULT_TOKENS)
        for index, size in self._estimate_kept(messages).items():
            # A result just above the limit would become hardly shorter.
            if messages[index].role == "tool" and size > max_tokens + 2 * MESSAGE_OVERHEAD_TOKENS + MIN_RESULT_TOKENS:
                scaled = max_tokens * self._estimates[index] // size
                shortened = shorten_result(messages[index], scaled)
                if shortened == messages[index]:
                    continue
                self._shortened[index] = shortened
                self._estimates[index] = estimate_message_tokens(shortened)
                if any(message.role == "assistant" for message in messages[index + 1 :]):
                    self._truncated_before = len(messages)

    @property
    def _scaled_overhead(self) -> int:
        return int(self._overhead_tokens * self._token_ratio)

    def _estimate_kept(self, messages: Sequence[Message]) -> dict[int, int]:
        """Estimate the tokens of the messages that are not left out, by their indexes."""
        self._estimates += map(estimate_message_tokens, messages[len(self._estimates) :])
        uncalibrated_ratio = max(self._token_ratio, 1)
        return {
            index: int(estimate * (self._token_ratio if index < self._calibrated_messages else uncalibrated_ratio))
            for index, estimate in enumerate(self._estimates[: len(messages)])
            if index not in self._removed_indexes
        }


def format_reduction(removed_count: int, shortened_count: int) -> str:
    """Describe to the user how many messages are left out, and how many results are shortened."""
    parts = []
    if removed_count:
        oldest = "oldest message" if removed_count == 1 else f"oldest {removed_count} messages"
        parts.append(f"without the {oldest}")
    if shortened_count:
        parts.append(f"with {shortened_count} shortened tool result{'' if shortened_count == 1 else 's'}")
    return " and ".join(parts)
