"""What happened in a run, in the order in which it was shown: messages, and calls each with its result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ask.history.conversations import made_up_result
from ask.history.entries import CallRecord, Entry


class Called(NamedTuple):
    """A call and its result; `seen` is False where the run ended before there was one, and `result` says so."""

    record: CallRecord
    result: str
    seen: bool = True


def steps(entries: Sequence[Entry]) -> Iterator[Entry | Called]:
    """The messages of a run, each result joined to its call."""
    waiting: list[CallRecord] = []
    for entry in entries:
        if entry.message.role == "tool" and waiting:
            yield Called(waiting.pop(0), entry.message.content)
            continue
        yield from map(_unseen, waiting)
        waiting = list(entry.calls)
        yield entry
    yield from map(_unseen, waiting)


def _unseen(record: CallRecord) -> Called:
    return Called(record, made_up_result(record).content, seen=False)
