"""What of a long conversation goes into a request: how much there is, what fits, and what is left out for it.

Sizes are in tokens. They are estimates, set right by what the provider tells of the requests before. Nothing here
asks or sends anything, and the conversation itself stays whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from ask.messages import Message, ToolSpec

SUMMARY_PREFIX = "[This summary stands for the conversation until here.]\n\n"
"""What a summary begins with, in a message of the user's."""

BYTES_PER_TOKEN = 3
"""Of UTF-8, few rather than many: three Latin letters, one and a half Cyrillic ones, or one Chinese character."""
MESSAGE_OVERHEAD_TOKENS = 8
"""Tokens that a message takes beside its texts; a call does too."""
MIN_RATIO, MAX_RATIO = 0.3, 4.0
"""Between what a provider tells and the estimate. Beyond, it leaves out what was cached, or counts more than text."""
MAX_OUTPUT_RESERVE = 32_000
OUTPUT_RESERVE_DIVISOR = 5
"""A fifth of the context is kept free for the answer where nobody says how long it may be."""
MAX_TOKENS_OPTIONS = ("max_tokens", "max_completion_tokens")


class ReportedUsage(NamedTuple):
    """What a provider told of a request: the tokens in it, and how many messages it held, the oldest first."""

    tokens: int = 0
    message_count: int = 0


def estimate_text_tokens(*texts: str) -> int:
    """About as many tokens as these texts have."""
    return sum(len(text.encode("utf-8", "replace")) for text in texts) // BYTES_PER_TOKEN


def estimate_message_tokens(message: Message) -> int:
    """About as many tokens as a message has."""
    calls = sum(
        MESSAGE_OVERHEAD_TOKENS + estimate_text_tokens(call.name, call.arguments, call.id)
        for call in message.tool_calls
    )
    return (
        MESSAGE_OVERHEAD_TOKENS
        + estimate_text_tokens(message.content, message.tool_call_id)
        + calls
        + estimate_file_tokens(message)
    )


def estimate_file_tokens(message: Message) -> int:
    """About as many tokens as a message's attachments have."""
    if not message.attachments:
        return 0
    from ask.attachments import estimate_attachment_tokens as weight

    return weight(message.attachments)


def estimate_tool_tokens(tools: Sequence[ToolSpec]) -> int:
    """About as many tokens as the descriptions of tools have."""
    return estimate_text_tokens(json.dumps([tool.as_function() for tool in tools], ensure_ascii=False))


def calculate_input_limit(context_limit: int, options: Mapping[str, Any]) -> int:
    """The tokens that a request may have under a context limit, so that there is space for the answer."""
    wanted = next((options[name] for name in MAX_TOKENS_OPTIONS if isinstance(options.get(name), int)), None)
    usual = min(context_limit // OUTPUT_RESERVE_DIVISOR, MAX_OUTPUT_RESERVE)
    return context_limit - (usual if wanted is None else min(max(wanted, 0), context_limit // 2))


def find_removable_ranges(messages: Sequence[Message]) -> Iterator[range]:
    """The places of what may be left out, in the order in which it goes.

    First each exchange but the newest: a question with all that followed. Then, of the newest, each round of calls
    with its results but the last. At last the summary of what was before.
    """
    summarised = bool(messages) and messages[0].role == "user" and messages[0].content.startswith(SUMMARY_PREFIX)
    questions = [place for place, message in enumerate(messages) if message.role == "user"][summarised:]
    if not questions:
        return
    yield from (range(*edges) for edges in pairwise([int(summarised), *questions]) if edges[0] < edges[1])
    newest = range(questions[-1], len(messages))
    yield from (range(*edges) for edges in pairwise(p for p in newest if messages[p].role == "assistant"))
    if summarised:
        yield range(1)


def select_kept_indexes(
    messages: Sequence[Message], sizes: Sequence[int], max_tokens: int, target_tokens: int
) -> list[int]:
    """The places of the messages that stay: all where they have `max_tokens` tokens, else what has about `target_tokens`.

    Where what must stay has more, it stays all the same.
    """
    size = sum(sizes)
    left_out: set[int] = set()
    if size > max_tokens:
        for piece in find_removable_ranges(messages):
            if size <= target_tokens:
                break
            left_out.update(piece)
            size -= sum(sizes[place] for place in piece)
    return [place for place in range(len(messages)) if place not in left_out]


def merge_user_messages(messages: Sequence[Message]) -> list[Message]:
    """The messages, those of the user that follow each other as one: some models refuse them otherwise."""
    joined: list[Message] = []
    for message in messages:
        if message.role == "user" and joined and joined[-1].role == "user":
            before = joined[-1]
            content = f"{before.content}\n\n{message.content}"
            joined[-1] = before._replace(content=content, attachments=(*before.attachments, *message.attachments))
        else:
            joined.append(message)
    return joined


class ContextWindow:
    """The part of a growing conversation that requests hold.

    It is cut in steps, so that between two of them each request begins with the one before it, as caches need it.

    Args:
        fixed: about as many tokens as every request has beside the conversation.
    """

    def __init__(self, overhead_tokens: int) -> None:
        self._overhead_tokens = overhead_tokens
        self._token_ratio = 1.0
        """How many tokens there are for each that was estimated."""
        self._calibrated_messages = 0
        """The number of messages that it was found with; of what came since, there is rather more."""
        self._max_tokens: int | None = None
        self._estimates: list[int] = []
        self._removed_indexes: set[int] = set()
        self._truncated_before = 0

    def select_messages(self, messages: Sequence[Message]) -> list[Message]:
        """What of the conversation the next request holds."""
        kept = ((place, messages[place]) for place in self._list_kept_indexes(messages))
        return merge_user_messages(
            [mark_context_truncated(message) if place < self._truncated_before else message for place, message in kept]
        )

    def calibrate(self, messages: Sequence[Message], reported_tokens: int | None) -> None:
        """Take what was told of the size of a request that held what is in view of these messages."""
        if reported_tokens:
            weight = self._overhead_tokens + sum(self._estimate_kept_messages(messages))
            ratio = reported_tokens / max(weight, 1)
            self._token_ratio = ratio if MIN_RATIO <= ratio <= MAX_RATIO else 1
            self._calibrated_messages = len(messages)

    def estimate_size(self, messages: Sequence[Message]) -> int:
        """About as many tokens as the next request has."""
        return self._scaled_overhead + sum(self._scale_estimates(messages))

    def shrink(self, messages: Sequence[Message], max_tokens: int) -> int:
        """Leave out the oldest where the next request would have more tokens; return how many messages that takes."""
        max_tokens = (
            max_tokens if self._max_tokens is None else min(max_tokens, self._max_tokens)
        ) - self._scaled_overhead
        return self._truncate(messages, max_tokens, max_tokens * 3 // 4)

    def halve(self, messages: Sequence[Message]) -> int:
        """Leave out about half, as a request of this size was refused; return how many messages that takes."""
        size = self.estimate_size(messages)
        self._max_tokens = size * 3 // 4
        return self._truncate(messages, 0, size // 2 - self._scaled_overhead)

    def _truncate(self, messages: Sequence[Message], max_tokens: int, target_tokens: int) -> int:
        places = self._list_kept_indexes(messages)
        kept = select_kept_indexes(
            [messages[place] for place in places], self._scale_estimates(messages), max_tokens, target_tokens
        )
        gone = {*places}.difference(places[place] for place in kept)
        if gone:
            self._removed_indexes |= gone
            self._truncated_before = len(messages)
        return len(gone)

    def _list_kept_indexes(self, messages: Sequence[Message]) -> list[int]:
        return [place for place in range(len(messages)) if place not in self._removed_indexes]

    def _estimate_kept_messages(self, messages: Sequence[Message]) -> list[int]:
        self._estimates += map(estimate_message_tokens, messages[len(self._estimates) :])
        return [self._estimates[place] for place in self._list_kept_indexes(messages)]

    @property
    def _scaled_overhead(self) -> int:
        return int(self._overhead_tokens * self._token_ratio)

    def _scale_estimates(self, messages: Sequence[Message]) -> list[int]:
        """The tokens of each message in view."""
        since = max(self._token_ratio, 1)
        known = zip(self._list_kept_indexes(messages), self._estimate_kept_messages(messages), strict=True)
        return [
            int(weight * (self._token_ratio if place < self._calibrated_messages else since)) for place, weight in known
        ]


def no_context_limit(tokens: int) -> None:
    """The context limit where none is known."""


def format_too_long(context_limit: int | None) -> str:
    """Why something is left out, in words."""
    return f"the conversation is too long for a context of {context_limit:,} tokens"


def format_removed_messages(count: int) -> str:
    """What a request goes without, in words."""
    return "without its oldest message" if count == 1 else f"without its oldest {count} messages"


def mark_context_truncated(message: Message) -> Message:
    """The message, its native parts marked as those of one before which something has changed."""
    return message._replace(native=message.native._replace(displaced=True)) if message.native else message
