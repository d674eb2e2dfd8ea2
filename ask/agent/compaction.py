"""Replacing the older part of a conversation with a summary that the model writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ask.agent.context_window import estimate_message_tokens
from ask.agent.request import RunRequest
from ask.agent.run import record_exit_code_on_error
from ask.agent.system_prompt import read_prompt
from ask.agent.tool_loop import RunResult
from ask.app import AppContext
from ask.errors import FileError, IncompleteResponseError, UsageError
from ask.history.conversation_lookup import find_conversation
from ask.history.entries import Run, read_runs
from ask.history.saved_messages import build_messages, select_unsummarized_runs
from ask.history.store import Store
from ask.messages import Message, ReportedUsage
from ask.records import NamedTuple


class Compaction(NamedTuple):
    """The part of a conversation that a new summary would replace."""

    first_kept_run: int
    """The number of the first run that is not summarized."""
    messages: tuple[Message, ...]
    """The messages to summarize."""


def plan_compaction(runs: Sequence[Run]) -> Compaction:
    """Choose what a summary should replace.

    Everything but the newest answered run, or everything if that run is the only one or makes up over half of the
    tokens. Questions without an answer are not summarized.
    """
    unsummarized = select_unsummarized_runs(runs)
    answered = [run for run in unsummarized if run.has_answer]
    *older, newest = answered or runs[-1:]
    old = tuple(build_messages([run for run in runs if run is not newest]))
    everything = tuple(build_messages(runs))
    if older and _estimate_tokens(everything) <= 2 * _estimate_tokens(old):
        return Compaction(newest.number, old)
    later = [run.number for run in unsummarized if not answered or run.number > newest.number]
    return Compaction(min(later, default=runs[-1].number + 1), everything)


def _estimate_tokens(messages: Sequence[Message]) -> int:
    return sum(map(estimate_message_tokens, messages))


def compact_conversation(
    request: RunRequest, app: AppContext, run: Callable[[RunRequest, int | None], RunResult]
) -> None:
    """Have the older part of a request's conversation summarized; `run` answers the request for the summary
    of the runs before the one with a number.

    Raises:
        UsageError: there is nothing to summarize, or a summary cannot be saved.
        AskError: there is no summary; the conversation is unchanged.
    """
    if not request.settings.save:
        raise UsageError("a summary must be saved, but saving is disabled", "see history.enabled in ask config")
    with Store(app.app_dirs.history_file, quiet=app.console.is_quiet) as store:
        compaction = plan_compaction(read_runs(store, find_conversation(store, request.conversation_id)))
    if not compaction.messages:
        raise UsageError("there is nothing to summarize in this conversation")
    summary_request = request._replace(
        message_history=compaction.messages,
        user_message=Message("user", read_prompt("compact")),
        reported_usage=ReportedUsage(),
        output_format="",
        response_schema=None,
    )
    result = run(summary_request, compaction.first_kept_run)
    with record_exit_code_on_error(result, summary_request, app):
        if result.error is not None:
            raise result.error
        if not result.has_answer or not result.messages[-1].content.strip():
            raise IncompleteResponseError("the model wrote no summary", "try again, or use another model")
        if not result.is_saved:
            raise FileError("the summary was not saved", "the conversation is unchanged")
        count = len(result.messages) - 2
        app.console.print_notice(f"a summary now replaces {count} message{'' if count == 1 else 's'}")
