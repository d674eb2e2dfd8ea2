"""Rebuild the messages of a saved conversation to resume it with or to show, and choose what a summary replaces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ask.history.entries import (
    REFUSED,
    Conversation,
    HistoryEntry,
    Run,
    ToolCallRecord,
    is_answer,
    read_runs,
)
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

REFUSED_RESULT = "[left out: the provider refused this result]"


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
    messages = [message for message in messages if message.role != "assistant" or is_answer(message)]
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
                has_ended = run.exit_code is not None
                questions.insert(0, UnansweredQuestion(question, run.status == REFUSED, run.number, has_ended))
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
