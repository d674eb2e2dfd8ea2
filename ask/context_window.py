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

SUMMARY = "[This summary stands for the conversation until here.]\n\n"
"""What a summary begins with, in a message of the user's."""

BYTES_PER_TOKEN = 3
"""Of UTF-8, few rather than many: three Latin letters, one and a half Cyrillic ones, or one Chinese character."""
PER_MESSAGE = 8
"""Tokens that a message takes beside its texts; a call does too."""
LEAST_RATIO, MOST_RATIO = 0.3, 4.0
"""Between what a provider tells and the estimate. Beyond, it leaves out what was cached, or counts more than text."""
MOST_FOR_ANSWER = 32_000
SHARE_FOR_ANSWER = 5
"""A fifth of the context is kept free for the answer where nobody says how long it may be."""
LONGEST_ANSWER = ("max_tokens", "max_completion_tokens")


class Told(NamedTuple):
    """What a provider told of a request: the tokens in it, and how many messages it held, the oldest first."""

    tokens: int = 0
    messages: int = 0


def tokens_in(*texts: str) -> int:
    """About as many tokens as these texts have."""
    return sum(len(text.encode("utf-8", "replace")) for text in texts) // BYTES_PER_TOKEN


def weight_of(message: Message) -> int:
    """About as many tokens as a message has."""
    calls = sum(PER_MESSAGE + tokens_in(call.name, call.arguments, call.id) for call in message.tool_calls)
    return PER_MESSAGE + tokens_in(message.content, message.tool_call_id) + calls + weight_of_files(message)


def weight_of_files(message: Message) -> int:
    """About as many tokens as a message's attachments have."""
    if not message.attachments:
        return 0
    from ask.attachments import weight_of as weight

    return weight(message.attachments)


def weight_of_tools(tools: Sequence[ToolSpec]) -> int:
    """About as many tokens as the descriptions of tools have."""
    return tokens_in(json.dumps([tool.as_function() for tool in tools], ensure_ascii=False))


def room(limit: int, options: Mapping[str, Any]) -> int:
    """The tokens that a request may have under a context limit, so that there is space for the answer."""
    wanted = next((options[name] for name in LONGEST_ANSWER if isinstance(options.get(name), int)), None)
    usual = min(limit // SHARE_FOR_ANSWER, MOST_FOR_ANSWER)
    return limit - (usual if wanted is None else min(max(wanted, 0), limit // 2))


def pieces(messages: Sequence[Message]) -> Iterator[range]:
    """The places of what may be left out, in the order in which it goes.

    First each exchange but the newest: a question with all that followed. Then, of the newest, each round of calls
    with its results but the last. At last the summary of what was before.
    """
    summarised = bool(messages) and messages[0].role == "user" and messages[0].content.startswith(SUMMARY)
    questions = [place for place, message in enumerate(messages) if message.role == "user"][summarised:]
    if not questions:
        return
    yield from (range(*edges) for edges in pairwise([int(summarised), *questions]) if edges[0] < edges[1])
    newest = range(questions[-1], len(messages))
    yield from (range(*edges) for edges in pairwise(p for p in newest if messages[p].role == "assistant"))
    if summarised:
        yield range(1)


def fit(messages: Sequence[Message], sizes: Sequence[int], most: int, aim: int) -> list[int]:
    """The places of the messages that stay: all where they have `most` tokens, else what has about `aim`.

    Where what must stay has more, it stays all the same.
    """
    size = sum(sizes)
    left_out: set[int] = set()
    if size > most:
        for piece in pieces(messages):
            if size <= aim:
                break
            left_out.update(piece)
            size -= sum(sizes[place] for place in piece)
    return [place for place in range(len(messages)) if place not in left_out]


def turns(messages: Sequence[Message]) -> list[Message]:
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


class Window:
    """The part of a growing conversation that requests hold.

    It is cut in steps, so that between two of them each request begins with the one before it, as caches need it.

    Args:
        fixed: about as many tokens as every request has beside the conversation.
    """

    def __init__(self, fixed: int) -> None:
        self._fixed = fixed
        self._ratio = 1.0
        """How many tokens there are for each that was estimated."""
        self._known = 0
        """The number of messages that it was found with; of what came since, there is rather more."""
        self._most: int | None = None
        self._weights: list[int] = []
        self._left_out: set[int] = set()
        self._displaced = 0

    def view(self, messages: Sequence[Message]) -> list[Message]:
        """What of the conversation the next request holds."""
        kept = ((place, messages[place]) for place in self._places(messages))
        return turns([displaced(message) if place < self._displaced else message for place, message in kept])

    def learn(self, messages: Sequence[Message], tokens: int | None) -> None:
        """Take what was told of the size of a request that held what is in view of these messages."""
        if tokens:
            weight = self._fixed + sum(self._weigh(messages))
            ratio = tokens / max(weight, 1)
            self._ratio = ratio if LEAST_RATIO <= ratio <= MOST_RATIO else 1
            self._known = len(messages)

    def size(self, messages: Sequence[Message]) -> int:
        """About as many tokens as the next request has."""
        return self._base + sum(self._sizes(messages))

    def shrink(self, messages: Sequence[Message], most: int) -> int:
        """Leave out the oldest where the next request would have more tokens; return how many messages that takes."""
        most = (most if self._most is None else min(most, self._most)) - self._base
        return self._keep(messages, most, most * 3 // 4)

    def halve(self, messages: Sequence[Message]) -> int:
        """Leave out about half, as a request of this size was refused; return how many messages that takes."""
        size = self.size(messages)
        self._most = size * 3 // 4
        return self._keep(messages, 0, size // 2 - self._base)

    def _keep(self, messages: Sequence[Message], most: int, aim: int) -> int:
        places = self._places(messages)
        kept = fit([messages[place] for place in places], self._sizes(messages), most, aim)
        gone = {*places}.difference(places[place] for place in kept)
        if gone:
            self._left_out |= gone
            self._displaced = len(messages)
        return len(gone)

    def _places(self, messages: Sequence[Message]) -> list[int]:
        return [place for place in range(len(messages)) if place not in self._left_out]

    def _weigh(self, messages: Sequence[Message]) -> list[int]:
        self._weights += map(weight_of, messages[len(self._weights) :])
        return [self._weights[place] for place in self._places(messages)]

    @property
    def _base(self) -> int:
        return int(self._fixed * self._ratio)

    def _sizes(self, messages: Sequence[Message]) -> list[int]:
        """The tokens of each message in view."""
        since = max(self._ratio, 1)
        known = zip(self._places(messages), self._weigh(messages), strict=True)
        return [int(weight * (self._ratio if place < self._known else since)) for place, weight in known]


def no_limit(tokens: int) -> None:
    """The context limit where none is known."""


def too_long_for(limit: int | None) -> str:
    """Why something is left out, in words."""
    return f"the conversation is too long for a context of {limit:,} tokens"


def without_oldest(count: int) -> str:
    """What a request goes without, in words."""
    return "without its oldest message" if count == 1 else f"without its oldest {count} messages"


def displaced(message: Message) -> Message:
    """The message, its native parts marked as those of one before which something has changed."""
    return message._replace(native=message.native._replace(displaced=True)) if message.native else message
