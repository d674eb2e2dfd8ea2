"""What a summary would stand for: the old part of a conversation, while the newest exchange stays as it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ask.history.conversations import messages_of, verbatim
from ask.history.entries import Conversation, Run, read_runs
from ask.history.store import Store
from ask.messages import Message


class Compaction(NamedTuple):
    """The part of a conversation that a summary would stand for.

    Attributes:
        until: the number of the first run that it would not stand for.
        messages: what was said in that part.
    """

    until: int
    messages: tuple[Message, ...]


def compaction(store: Store, conversation: Conversation) -> Compaction:
    """What of a conversation to summarise.

    Raises:
        FileError: the history cannot be read.
    """
    return compaction_of(read_runs(store, conversation))


def compaction_of(runs: Sequence[Run]) -> Compaction:
    """All but the newest exchange; all where that is the only one, or the longer part."""
    *older, newest = verbatim(runs) or runs[-1:]
    old = tuple(messages_of([run for run in runs if run is not newest]))
    everything = tuple(messages_of(runs))
    if older and length(everything) <= 2 * length(old):
        return Compaction(newest.number, old)
    return Compaction(runs[-1].number + 1, everything)


def length(messages: Sequence[Message]) -> int:
    """Characters of text."""
    return sum(len(message.content) for message in messages)
