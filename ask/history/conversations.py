"""Find saved conversations, rebuild the messages to resume them with, and choose what a summary replaces."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from ask.errors import UsageError
from ask.history.entries import (
    REFUSED,
    Conversation,
    HistoryEntry,
    Run,
    ToolCallRecord,
    query_conversations,
    read_runs,
)
from ask.history.store import Store
from ask.messages import (
    SUMMARY_PREFIX,
    Message,
    ReportedUsage,
    ResumedConversation,
    UnansweredQuestion,
    merge_user_messages,
)
from ask.records import NamedTuple

MAX_POSITION_DIGITS = 9
"""Longer numbers are not list positions, and may be beyond what SQLite can store."""
MAX_CANDIDATES = 5

INTERRUPTED_RESULT = "Error: interrupted; it may or may not have run"
NOT_RUN_RESULT = "Error: not run: the run was interrupted before it"
REFUSED_RESULT = "[left out: the provider refused this result]"

NEWEST_RUN_FIRST = "started > ?, started DESC, runs.number DESC"
"""Sorts runs by time. An imported one is neither newer because it was added last, nor because it is from the future."""
LIST_HINT = "ask history list shows all conversations"


def find_current_conversation(store: Store, terminal: str, directory: str) -> Conversation:
    """Find the conversation that `--continue` continues.

    It is the last one of this terminal or, without a terminal, of this directory.
    Raises a UsageError if there is none.
    """
    column, preposition, value = ("terminal", "on", terminal) if terminal else ("directory", "in", directory)
    newest = f"SELECT conversation FROM runs WHERE {column} = ? ORDER BY {NEWEST_RUN_FIRST} LIMIT 1"
    matches = query_conversations(store, f"WHERE number = ({newest})", value, time.time())
    if not matches:
        hint = "ask history list shows all; --resume ID continues one"
        raise UsageError(f"there is no conversation {preposition} this {column} to continue", hint)
    return matches[0]


def find_newest_conversation(store: Store) -> Conversation:
    """Return the newest conversation that has a run; a history without one is a UsageError."""
    has_run = "EXISTS (SELECT 1 FROM runs WHERE conversation = conversations.number)"
    order = "ORDER BY updated DESC, number DESC LIMIT 1"
    matches = query_conversations(store, f"WHERE {has_run} AND updated <= ? {order}", time.time())
    matches = matches or query_conversations(store, f"WHERE {has_run} {order}")
    if not matches:
        raise UsageError("no saved conversations", "each question starts one")
    return matches[0]


def find_last_run(store: Store, terminal: str, directory: str) -> tuple[str, float] | None:
    """Find the last run on this terminal or, without a terminal, in this directory.

    Runs that only wrote a summary do not count. Returns the id of the conversation and the run's start time, in seconds
    since 1970.
    """
    column, value = ("terminal", terminal) if terminal else ("directory", directory)
    rows = store.fetch_rows(
        "SELECT conversations.id, started FROM runs JOIN conversations ON conversations.number = runs.conversation "
        f"WHERE {column} = ? AND compacts IS NULL ORDER BY {NEWEST_RUN_FIRST} LIMIT 1",
        [value, time.time()],
    )
    return next(((row[0], row[1]) for row in rows), None)


def find_conversation(store: Store, reference: str) -> Conversation:
    """Find a conversation by id, list position (1 is the newest), or id prefix.

    Raises a UsageError if there is no match, or if the prefix is that of several conversations.
    """
    matches = query_conversations(store, "WHERE id = ?", reference)
    if not matches and reference.isdecimal() and len(reference) <= MAX_POSITION_DIGITS and int(reference):
        matches = query_conversations(store, "ORDER BY updated DESC, number DESC LIMIT 1 OFFSET ?", int(reference) - 1)
    if not matches and reference:
        matches = query_conversations(
            store, "WHERE substr(id, 1, ?) = ? LIMIT ?", len(reference), reference, MAX_CANDIDATES
        )
    if not matches:
        raise UsageError(f"there is no conversation {reference!r}", LIST_HINT)
    if len(matches) > 1:
        ids = ", ".join(conversation.id for conversation in matches)
        raise UsageError(f"{reference!r} matches several conversations", f"use one of {ids}")
    return matches[0]


def load_conversation(
    store: Store, conversation: Conversation, *, with_older_questions: bool = False
) -> ResumedConversation:
    """Load what a new run needs to continue a conversation.

    `with_older_questions` includes the last unanswered questions even if later ones were answered.
    """
    runs = read_runs(store, conversation)
    last = next((run for run in reversed(runs) if run.compacts is None), runs[-1])
    messages = tuple(build_messages(runs))
    reported_usage = find_reported_usage(last.provider, last.model, runs, messages)
    unanswered = tuple(find_unanswered_questions(runs, before_answers=with_older_questions))
    return ResumedConversation(
        conversation.id, (last.provider, last.model), last.system, messages, reported_usage, unanswered
    )


def build_messages(runs: Sequence[Run]) -> Iterator[Message]:
    """Build the messages that a new run sends for the earlier ones.

    The last summary comes first, then the messages that it does not cover, grouped by run because runs may have
    overlapped in time. The messages of runs that wrote a summary are left out, questions without an answer, and answers
    of which only reasoning has arrived.
    """
    summary_run = _find_summary_run(runs)
    if summary_run is not None:
        yield Message("user", SUMMARY_PREFIX + extract_summary(summary_run))
    for run in select_unsummarized_runs(runs):
        if run.has_answer:
            messages = [step.message for step in pair_calls_with_results(run.entries)]
            messages = [message for message in messages if message.role != "assistant" or any(message[1:])]
            yield from select_accepted_messages(messages, is_refused=run.status == REFUSED)


def select_accepted_messages(messages: Sequence[Message], *, is_refused: bool) -> list[Message]:
    """Return the messages of an answered run that later requests contain.

    A request to correct the last answer is left out if it was not followed by another. With `is_refused`, the results
    after the last answer are replaced: the provider would refuse the conversation again.
    """
    answers = [index for index, message in enumerate(messages) if message.role == "assistant"]
    if not answers:
        return [*messages]
    *earlier, last_answer = messages[: answers[-1] + 1]
    results = [message for message in messages[answers[-1] + 1 :] if message.role == "tool"]
    if is_refused and results:
        # The cause may also be in what the provider returned with the calls, such as a signature.
        last_answer = last_answer._replace(provider_state=None)
        results = [message._replace(content=REFUSED_RESULT, attachments=()) for message in results]
    return [*earlier, last_answer, *results]


def find_unanswered_questions(runs: Sequence[Run], *, before_answers: bool = False) -> list[UnansweredQuestion]:
    """Return the questions after the last answer.

    With `before_answers`, if there are none to send again, return the last ones before it instead.
    """
    questions: list[UnansweredQuestion] = []
    for run in reversed(select_unsummarized_runs(runs)):
        if not run.has_answer:
            messages = [entry.message for entry in run.entries if entry.message.role == "user"]
            for question in merge_user_messages(messages):  # one, or none if it is damaged
                questions.insert(0, UnansweredQuestion(question, run.status == REFUSED, run.number))
        elif not before_answers or not all(question.is_refused for question in questions):
            break
    return questions


def select_unsummarized_runs(runs: Sequence[Run]) -> list[Run]:
    """Return the runs that the last summary does not cover, except summary runs and replaced ones."""
    summary_run = _find_summary_run(runs)
    first = (summary_run.compacts or 0) if summary_run is not None else 0
    return [run for run in runs if run.number >= first and run.compacts is None and run.replaced_by is None]


def _find_summary_run(runs: Sequence[Run]) -> Run | None:
    """Find the last run that wrote a summary."""
    return next((run for run in reversed(runs) if run.compacts is not None and extract_summary(run)), None)


def extract_summary(run: Run) -> str:
    """Return the summary that a run wrote, or "" if it failed to write one."""
    return "".join(
        entry.message.content for entry in run.entries if entry.message.role == "assistant" and entry.complete
    )


def find_reported_usage(provider: str, model: str, runs: Sequence[Run], messages: Sequence[Message]) -> ReportedUsage:
    """Find the largest size of these messages that the model's provider has reported.

    Later requests with fewer tokens contained only part of the conversation. Reports from before the last summary are
    ignored: they describe messages that are no longer sent.
    """
    summary_run = _find_summary_run(runs)
    since = summary_run.number if summary_run is not None else 0
    positions = {id(message): position for position, message in enumerate(messages)}
    return max(
        (
            ReportedUsage(entry.usage.input_tokens or 0, positions[id(entry.message)])
            for run in runs
            if run.number > since
            for entry in run.entries
            if (entry.provider or run.provider, entry.model or run.model) == (provider, model)
            and entry.usage.input_tokens
            and id(entry.message) in positions
        ),
        default=ReportedUsage(),
    )


class ToolCallStep(NamedTuple):
    """A tool call with the message of its result."""

    record: ToolCallRecord
    message: Message
    has_result: bool = True
    """False if the run ended before there was a result; `message` is then a synthetic one."""

    @property
    def result(self) -> str:
        """The text of the result."""
        return self.message.content


def pair_calls_with_results(entries: Sequence[HistoryEntry]) -> Iterator[HistoryEntry | ToolCallStep]:
    """Yield the messages of a run, with each result joined to its tool call.

    A call that was interrupted gets a result: providers reject a conversation in which one has none.
    """
    pending_calls: list[ToolCallRecord] = []
    for entry in entries:
        if entry.message.role == "tool" and pending_calls:
            yield ToolCallStep(pending_calls.pop(0), entry.message)
            continue
        yield from map(_make_step_without_result, pending_calls)
        pending_calls = list(entry.calls)
        yield entry
    yield from map(_make_step_without_result, pending_calls)


def _make_step_without_result(record: ToolCallRecord) -> ToolCallStep:
    text = NOT_RUN_RESULT if record.started is None else INTERRUPTED_RESULT
    message = Message("tool", text, tool_call_id=record.call.id, tool_name=record.call.name)
    return ToolCallStep(record, message, has_result=False)
