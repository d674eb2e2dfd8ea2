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
from ask.history.listing import find_titles
from ask.history.store import Store
from ask.messages import (
    INTERRUPTED_REASON,
    NOT_RUN_REASON,
    SUMMARY_PREFIX,
    Message,
    ReportedUsage,
    ResumedConversation,
    ToolCall,
    UnansweredQuestion,
    merge_user_messages,
)
from ask.records import NamedTuple
from ask.text import format_age, format_one_line

MAX_POSITION_DIGITS = 9
"""Longer numbers are not list positions, and may be beyond what SQLite can store."""
MAX_CANDIDATES = 5
MAX_TITLE_EXCERPT_CHARACTERS = 40
"""Characters of a title in an error that names several conversations."""

REFUSED_RESULT = "[left out: the provider refused this result]"

NEWEST_RUN_FIRST = "started > ?, started DESC, runs.number DESC"
"""Sorts runs by time. An imported one is neither newer because it was added last, nor because it is from the future."""
LIST_HINT = "ask history list shows all conversations"


def find_current_conversation(store: Store, *, terminal: str = "", directory: str = "") -> Conversation | None:
    """Find the conversation that -c continues: that of the last run on a terminal or, without one, in a directory."""
    column, value = ("terminal", terminal) if terminal else ("directory", directory)
    newest = f"SELECT conversation FROM runs WHERE {column} = ? ORDER BY {NEWEST_RUN_FIRST} LIMIT 1"
    return next(iter(query_conversations(store, f"WHERE number = ({newest})", value, time.time())), None)


def find_newest_conversation(store: Store) -> Conversation:
    """Return the newest conversation that has a run.

    Raises:
        UsageError: there is none.
    """
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
        f"WHERE {column} = ? AND first_kept_run IS NULL ORDER BY {NEWEST_RUN_FIRST} LIMIT 1",
        [value, time.time()],
    )
    return next(((row[0], row[1]) for row in rows), None)


def find_conversation(store: Store, reference: str, *, by_title: bool = False) -> Conversation:
    """Find a conversation by id, list position (1 is the newest), id prefix or, with `by_title`, words of its title.

    Raises:
        UsageError: there is no match, or there are several.
    """
    matches = query_conversations(store, "WHERE id = ?", reference)
    is_position = reference.isdecimal() and len(reference) <= MAX_POSITION_DIGITS and int(reference) > 0
    if not matches and is_position:
        matches = query_conversations(store, "ORDER BY updated DESC, number DESC LIMIT 1 OFFSET ?", int(reference) - 1)
    if not matches and reference:
        matches = query_conversations(
            store, "WHERE substr(id, 1, ?) = ? LIMIT ?", len(reference), reference, MAX_CANDIDATES + 1
        )
    if not matches and by_title and reference.strip() and not reference.isdecimal():
        titles = find_titles(store, reference, MAX_CANDIDATES + 1)
        matches = [match for title in titles for match in query_conversations(store, "WHERE id = ?", title.id)]
    if not matches:
        raise UsageError(f"there is no conversation {reference!r}", LIST_HINT)
    if len(matches) > 1:
        candidates = [_format_candidate(match) for match in matches[:MAX_CANDIDATES]]
        more = "; ask history list shows more" * (len(matches) > MAX_CANDIDATES)
        raise UsageError(f"{reference!r} matches several conversations", f"use one of {', '.join(candidates)}{more}")
    return matches[0]


def _format_candidate(conversation: Conversation) -> str:
    """Format a conversation so that it can be told from others with its title."""
    title = format_one_line(conversation.title, MAX_TITLE_EXCERPT_CHARACTERS)
    return f"{conversation.id} ({title}, {format_age(conversation.updated, time.time())})"


def load_conversation(
    store: Store, conversation: Conversation, *, with_older_questions: bool = False
) -> ResumedConversation:
    """Load what a new run needs to continue a conversation.

    `with_older_questions` includes the last unanswered questions even if later ones were answered.
    """
    runs = read_runs(store, conversation)
    last = next((run for run in reversed(runs) if run.first_kept_run is None), runs[-1])
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
            yield from build_run_messages(run)


def build_run_messages(run: Run) -> list[Message]:
    """Build the messages of an answered run that later requests contain."""
    messages = [step.message for step in pair_calls_with_results(run.entries)]
    messages = [message for message in messages if message.role != "assistant" or any(message[1:])]
    return select_accepted_messages(messages, is_refused=run.status == REFUSED)


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
    first = (summary_run.first_kept_run or 0) if summary_run is not None else 0
    return [run for run in runs if run.number >= first and run.first_kept_run is None and run.replaced_by is None]


def _find_summary_run(runs: Sequence[Run]) -> Run | None:
    """Find the last run that wrote a summary."""
    return next((run for run in reversed(runs) if run.first_kept_run is not None and extract_summary(run)), None)


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
        return self.message.content


def pair_calls_with_results(entries: Sequence[HistoryEntry]) -> Iterator[HistoryEntry | ToolCallStep]:
    """Yield the messages of a run, with each result joined to its tool call.

    A call that was interrupted gets a result: providers reject a conversation in which one has none.
    """
    pending_calls: list[ToolCallRecord] = []
    for entry in entries:
        if entry.message.role == "tool" and pending_calls:
            record = pending_calls.pop(0)
            yield ToolCallStep(record, entry.message._replace(is_error=bool(record.failed)))
            continue
        yield from map(_make_step_without_result, pending_calls)
        pending_calls = list(entry.calls)
        yield entry
    yield from map(_make_step_without_result, pending_calls)


def list_shown_steps(entries: Sequence[HistoryEntry]) -> Iterator[HistoryEntry | ToolCallStep]:
    """Yield the messages and calls of a run as they are shown: also the calls that a service ran itself.

    These come before the answer that they are a part of.
    """
    for step in pair_calls_with_results(entries):
        for call in step.server_calls if isinstance(step, HistoryEntry) else ():
            record = ToolCallRecord(ToolCall("", call.name, call.arguments), failed=call.failed)
            yield ToolCallStep(record, Message("tool", call.result, tool_name=call.name))
        yield step


def _make_step_without_result(record: ToolCallRecord) -> ToolCallStep:
    reason = NOT_RUN_REASON if record.started is None else INTERRUPTED_REASON
    message = Message("tool", f"Error: {reason}", (), record.call.id, record.call.name, is_error=True)
    return ToolCallStep(record, message, has_result=False)
