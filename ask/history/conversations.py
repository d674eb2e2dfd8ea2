"""Conversations as they were: how they continue, their steps, and which part a summary replaces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ask.context_window import SUMMARY, Told
from ask.errors import UsageError
from ask.history.entries import CallRecord, Conversation, Entry, Run, read_runs
from ask.history.store import Store
from ask.messages import Message

LONGEST_NUMBER = 9
"""Digits of the highest number that a list may have."""
CANDIDATES = 5

MAY_HAVE_RUN = "Error: interrupted; it may or may not have run"
NEVER_RAN = "Error: not run: the run was interrupted before it"

SEE_LIST = "ask history list shows what there is"


class Continuation(NamedTuple):
    """What a run needs to go on with a conversation.

    Attributes:
        id: of the conversation.
        provider: whom it asked last.
        model: which model.
        system: what the user added to the system prompt.
        messages: what was said, every call answered.
        told: what that model's provider told of their size.
    """

    id: str
    provider: str
    model: str
    system: str
    messages: tuple[Message, ...]
    told: Told


def newest_here(store: Store, terminal: str, directory: str) -> Conversation:
    """The conversation that this terminal was in last; without a terminal, the newest in this directory.

    Raises:
        UsageError: there is none.
        FileError: the history cannot be read.
    """
    column, place, value = ("terminal", "on", terminal) if terminal else ("directory", "in", directory)
    newest = f"SELECT conversation FROM runs WHERE {column} = ? ORDER BY number DESC LIMIT 1"
    found = _select(store, f"WHERE number = ({newest})", value)
    if not found:
        advice = "ask history list shows all, and --resume ID goes on with one"
        raise UsageError(f"there is no conversation {place} this {column} to continue", advice)
    return found[0]


def find_last_run(store: Store, terminal: str, directory: str) -> tuple[str, float] | None:
    """Find the last run on this terminal or, without a terminal, in this directory, except runs that only summarized.

    Returns the id of its conversation and when it began, in seconds since 1970.

    Raises:
        FileError: the history cannot be read.
    """
    column, value = ("terminal", terminal) if terminal else ("directory", directory)
    rows = store.rows(
        "SELECT conversations.id, started FROM runs JOIN conversations ON conversations.number = runs.conversation "
        f"WHERE {column} = ? AND compacts IS NULL ORDER BY runs.number DESC LIMIT 1",
        [value],
    )
    return next(((row[0], row[1]) for row in rows), None)


def find(store: Store, wanted: str) -> Conversation:
    """The conversation of that id, or at that place in the list (1 is the newest), or whose id alone begins so.

    Raises:
        UsageError: there is none, or there are several.
        FileError: the history cannot be read.
    """
    found = _select(store, "WHERE id = ?", wanted)
    if not found and wanted.isdecimal() and len(wanted) <= LONGEST_NUMBER and int(wanted):
        found = _select(store, "ORDER BY updated DESC, number DESC LIMIT 1 OFFSET ?", int(wanted) - 1)
    if not found and wanted:
        found = _select(store, "WHERE substr(id, 1, ?) = ? LIMIT ?", len(wanted), wanted, CANDIDATES)
    if not found:
        raise UsageError(f"there is no conversation {wanted!r}", SEE_LIST)
    if len(found) > 1:
        names = ", ".join(conversation.id for conversation in found)
        raise UsageError(f"{wanted!r} is the beginning of several conversations", f"name one of {names}")
    return found[0]


def _select(store: Store, clauses: str, *values: object) -> list[Conversation]:
    return [Conversation(*row) for row in store.rows(f"SELECT * FROM conversations {clauses}", values)]


def continuation(store: Store, conversation: Conversation) -> Continuation:
    """The conversation as the next run takes it up.

    Raises:
        FileError: the history cannot be read.
    """
    runs = read_runs(store, conversation)
    last = next((run for run in reversed(runs) if run.compacts is None), runs[-1])
    messages = tuple(messages_of(runs))
    told = told_by(last.provider, last.model, runs, messages)
    return Continuation(conversation.id, last.provider, last.model, last.system, messages, told)


def messages_of(runs: Sequence[Run]) -> Iterator[Message]:
    """What a model is told of earlier runs: a summary of what one stands for, and then all that was said.

    Run by run: two may have been under way at the same time. What a run that wrote a summary asked for is left out.
    """
    writer = newest_summary(runs)
    if writer is not None:
        yield Message("user", SUMMARY + summary_of(writer))
    for run in verbatim(runs):
        yield from answered(run.entries)


def verbatim(runs: Sequence[Run]) -> list[Run]:
    """The runs that no summary stands for."""
    writer = newest_summary(runs)
    first = (writer.compacts or 0) if writer is not None else 0
    return [run for run in runs if run.number >= first and run.compacts is None]


def newest_summary(runs: Sequence[Run]) -> Run | None:
    """The run that wrote the summary that counts."""
    return next((run for run in reversed(runs) if run.compacts is not None and summary_of(run)), None)


def summary_of(run: Run) -> str:
    """The summary that a run wrote; "" where it came to none."""
    return "".join(entry.message.content for entry in run.entries if entry.message.role == "assistant" and entry.whole)


def told_by(provider: str, model: str, runs: Sequence[Run], messages: Sequence[Message]) -> Told:
    """What a model's provider told of the size of these messages, which the runs come to.

    The greatest of its answers counts: later requests with fewer tokens held a part of the conversation alone. What
    was told before a summary was written is of another conversation.
    """
    writer = newest_summary(runs)
    since = writer.number if writer is not None else 0
    places = {id(message): place for place, message in enumerate(messages)}
    return max(
        (
            Told(entry.usage.input_tokens or 0, places[id(entry.message)])
            for run in runs
            if run.number > since and (run.provider, run.model) == (provider, model)
            for entry in run.entries
            if entry.usage.input_tokens and id(entry.message) in places
        ),
        default=Told(),
    )


def answered(entries: Sequence[Entry]) -> Iterator[Message]:
    """The messages of a run, every call with a result: also one that was under way when the run was ended."""
    unanswered: list[CallRecord] = []
    for entry in entries:
        if entry.message.role == "tool":
            unanswered = unanswered[1:]
        else:
            yield from map(made_up_result, unanswered)
            unanswered = list(entry.calls)
        yield entry.message
    yield from map(made_up_result, unanswered)


def made_up_result(record: CallRecord) -> Message:
    """The result of a call whose own was never seen."""
    text = NEVER_RAN if record.started is None else MAY_HAVE_RUN
    return Message("tool", text, tool_call_id=record.call.id, tool_name=record.call.name)


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
