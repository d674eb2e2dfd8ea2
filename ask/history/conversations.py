"""Conversations as they were: how they continue, their steps, and which part a summary replaces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ask.context_window import SUMMARY_PREFIX, ReportedUsage
from ask.errors import UsageError
from ask.history.entries import Conversation, HistoryEntry, Run, ToolCallRecord, read_runs
from ask.history.store import Store
from ask.messages import Message

MAX_POSITION_DIGITS = 9
"""Digits of the highest number that a list may have."""
MAX_CANDIDATES = 5

INTERRUPTED_RESULT = "Error: interrupted; it may or may not have run"
NOT_RUN_RESULT = "Error: not run: the run was interrupted before it"

LIST_HINT = "ask history list shows what there is"


class ResumedConversation(NamedTuple):
    """What a run needs to go on with a conversation.

    Attributes:
        id: of the conversation.
        provider: whom it asked last.
        model: which model.
        system: what the user added to the system prompt.
        messages: what was said, every call answered.
        reported_usage: what that model's provider told of their size.
    """

    id: str
    provider: str
    model: str
    system: str
    messages: tuple[Message, ...]
    reported_usage: ReportedUsage


def find_current_conversation(store: Store, terminal: str, directory: str) -> Conversation:
    """The conversation that this terminal was in last; without a terminal, the newest in this directory.

    Raises:
        UsageError: there is none.
        FileError: the history cannot be read.
    """
    column, place, value = ("terminal", "on", terminal) if terminal else ("directory", "in", directory)
    newest = f"SELECT conversation FROM runs WHERE {column} = ? ORDER BY number DESC LIMIT 1"
    found = _query_conversations(store, f"WHERE number = ({newest})", value)
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
    rows = store.fetch_rows(
        "SELECT conversations.id, started FROM runs JOIN conversations ON conversations.number = runs.conversation "
        f"WHERE {column} = ? AND compacts IS NULL ORDER BY runs.number DESC LIMIT 1",
        [value],
    )
    return next(((row[0], row[1]) for row in rows), None)


def find_conversation(store: Store, reference: str) -> Conversation:
    """The conversation of that id, or at that place in the list (1 is the newest), or whose id alone begins so.

    Raises:
        UsageError: there is none, or there are several.
        FileError: the history cannot be read.
    """
    found = _query_conversations(store, "WHERE id = ?", reference)
    if not found and reference.isdecimal() and len(reference) <= MAX_POSITION_DIGITS and int(reference):
        found = _query_conversations(store, "ORDER BY updated DESC, number DESC LIMIT 1 OFFSET ?", int(reference) - 1)
    if not found and reference:
        found = _query_conversations(
            store, "WHERE substr(id, 1, ?) = ? LIMIT ?", len(reference), reference, MAX_CANDIDATES
        )
    if not found:
        raise UsageError(f"there is no conversation {reference!r}", LIST_HINT)
    if len(found) > 1:
        names = ", ".join(conversation.id for conversation in found)
        raise UsageError(f"{reference!r} is the beginning of several conversations", f"name one of {names}")
    return found[0]


def _query_conversations(store: Store, clauses: str, *parameters: object) -> list[Conversation]:
    return [Conversation(*row) for row in store.fetch_rows(f"SELECT * FROM conversations {clauses}", parameters)]


def load_conversation(store: Store, conversation: Conversation) -> ResumedConversation:
    """The conversation as the next run takes it up.

    Raises:
        FileError: the history cannot be read.
    """
    runs = read_runs(store, conversation)
    last = next((run for run in reversed(runs) if run.compacts is None), runs[-1])
    messages = tuple(build_messages(runs))
    told = find_reported_usage(last.provider, last.model, runs, messages)
    return ResumedConversation(conversation.id, last.provider, last.model, last.system, messages, told)


def build_messages(runs: Sequence[Run]) -> Iterator[Message]:
    """What a model is told of earlier runs: a summary of what one stands for, and then all that was said.

    Run by run: two may have been under way at the same time. What a run that wrote a summary asked for is left out.
    """
    writer = find_summary_run(runs)
    if writer is not None:
        yield Message("user", SUMMARY_PREFIX + extract_summary(writer))
    for run in select_unsummarized_runs(runs):
        yield from add_missing_results(run.entries)


def select_unsummarized_runs(runs: Sequence[Run]) -> list[Run]:
    """The runs that no summary stands for."""
    writer = find_summary_run(runs)
    first = (writer.compacts or 0) if writer is not None else 0
    return [run for run in runs if run.number >= first and run.compacts is None]


def find_summary_run(runs: Sequence[Run]) -> Run | None:
    """The run that wrote the summary that counts."""
    return next((run for run in reversed(runs) if run.compacts is not None and extract_summary(run)), None)


def extract_summary(run: Run) -> str:
    """The summary that a run wrote; "" where it came to none."""
    return "".join(
        entry.message.content for entry in run.entries if entry.message.role == "assistant" and entry.complete
    )


def find_reported_usage(provider: str, model: str, runs: Sequence[Run], messages: Sequence[Message]) -> ReportedUsage:
    """What a model's provider told of the size of these messages, which the runs come to.

    The greatest of its answers counts: later requests with fewer tokens held a part of the conversation alone. What
    was told before a summary was written is of another conversation.
    """
    writer = find_summary_run(runs)
    since = writer.number if writer is not None else 0
    places = {id(message): place for place, message in enumerate(messages)}
    return max(
        (
            ReportedUsage(entry.usage.input_tokens or 0, places[id(entry.message)])
            for run in runs
            if run.number > since and (run.provider, run.model) == (provider, model)
            for entry in run.entries
            if entry.usage.input_tokens and id(entry.message) in places
        ),
        default=ReportedUsage(),
    )


def add_missing_results(entries: Sequence[HistoryEntry]) -> Iterator[Message]:
    """The messages of a run, every call with a result: also one that was under way when the run was ended."""
    unanswered: list[ToolCallRecord] = []
    for entry in entries:
        if entry.message.role == "tool":
            unanswered = unanswered[1:]
        else:
            yield from map(make_synthetic_result, unanswered)
            unanswered = list(entry.calls)
        yield entry.message
    yield from map(make_synthetic_result, unanswered)


def make_synthetic_result(record: ToolCallRecord) -> Message:
    """The result of a call whose own was never seen."""
    text = NOT_RUN_RESULT if record.started is None else INTERRUPTED_RESULT
    return Message("tool", text, tool_call_id=record.call.id, tool_name=record.call.name)


class ToolCallStep(NamedTuple):
    """A call and its result; `has_result` is False where the run ended before there was one, and `result` says so."""

    record: ToolCallRecord
    result: str
    has_result: bool = True


def pair_calls_with_results(entries: Sequence[HistoryEntry]) -> Iterator[HistoryEntry | ToolCallStep]:
    """The messages of a run, each result joined to its call."""
    waiting: list[ToolCallRecord] = []
    for entry in entries:
        if entry.message.role == "tool" and waiting:
            yield ToolCallStep(waiting.pop(0), entry.message.content)
            continue
        yield from map(_make_step_without_result, waiting)
        waiting = list(entry.calls)
        yield entry
    yield from map(_make_step_without_result, waiting)


def _make_step_without_result(record: ToolCallRecord) -> ToolCallStep:
    return ToolCallStep(record, make_synthetic_result(record).content, has_result=False)


class Compaction(NamedTuple):
    """The part of a conversation that a summary would stand for.

    Attributes:
        first_kept_run: the number of the first run that it would not stand for.
        messages: what was said in that part.
    """

    first_kept_run: int
    messages: tuple[Message, ...]


def load_compaction(store: Store, conversation: Conversation) -> Compaction:
    """What of a conversation to summarise.

    Raises:
        FileError: the history cannot be read.
    """
    return plan_compaction(read_runs(store, conversation))


def plan_compaction(runs: Sequence[Run]) -> Compaction:
    """All but the newest exchange; all where that is the only one, or the longer part."""
    *older, newest = select_unsummarized_runs(runs) or runs[-1:]
    old = tuple(build_messages([run for run in runs if run is not newest]))
    everything = tuple(build_messages(runs))
    if older and count_characters(everything) <= 2 * count_characters(old):
        return Compaction(newest.number, old)
    return Compaction(runs[-1].number + 1, everything)


def count_characters(messages: Sequence[Message]) -> int:
    """Characters of text."""
    return sum(len(message.content) for message in messages)
