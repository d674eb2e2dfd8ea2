"""Replacing the older part of a conversation with a summary that the model writes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ask.agent.app_context import AppContext
from ask.agent.request import RunRequest
from ask.agent.run import record_exit_code_on_error, run_request
from ask.agent.system_prompt import read_prompt
from ask.agent.tool_loop import RunResult
from ask.console import StderrConsole
from ask.errors import FileError, IncompleteResponseError, UsageError
from ask.events import Event, Notice
from ask.history.conversations import find_conversation, load_conversation, plan_compaction
from ask.history.entries import read_runs
from ask.history.store import Store
from ask.messages import Message, ReportedUsage


def make_summary_request(request: RunRequest, app: AppContext) -> RunRequest:
    """Return the request that has the older part of a request's conversation summarized.

    Raises:
        UsageError: there is nothing to summarize.
        FileError: the conversation cannot be read.
    """
    with Store(app.app_dirs.history_file) as store:
        compaction = plan_compaction(read_runs(store, find_conversation(store, request.conversation_id)))
    if not compaction.messages:
        raise UsageError("there is nothing to summarize in this conversation")
    return request._replace(
        message_history=compaction.messages,
        user_message=Message("user", read_prompt("compact")),
        reported_usage=ReportedUsage(),
        summary_end_run=compaction.first_kept_run,
        output_format="",
        response_schema=None,
    )


def compact_conversation(
    request: RunRequest, app: AppContext, console: StderrConsole, on_result: Callable[[RunResult], None] | None = None
) -> RunRequest:
    """Have the older messages summarized; return the request that continues from the summary.

    `on_result` is called with the result of the summary's run, also if it failed.

    Raises:
        AskError: there is no summary; the conversation is unchanged.
    """
    summary_request = make_summary_request(request, app)
    result = run_request(summary_request, app, partial(print_notice, console))
    if on_result:
        on_result(result)
    if result.error is not None:
        raise result.error
    with record_exit_code_on_error(result, summary_request, app):
        check_summary(result, console)
    with Store(app.app_dirs.history_file) as store:
        messages = load_conversation(store, find_conversation(store, request.conversation_id)).messages
    return request._replace(message_history=messages, reported_usage=ReportedUsage())


def print_notice(console: StderrConsole, event: Event) -> None:
    """Print an event of a run if it is a notice, and nothing else."""
    if isinstance(event, Notice):
        console.print_notice(event.text)


def check_summary(result: RunResult, console: StderrConsole) -> None:
    """Check that the summary was written and saved, and report it to the user.

    Raises:
        IncompleteResponseError: the model wrote no summary.
        FileError: it is not saved.
    """
    if not result.has_answer or not result.messages[-1].content.strip():
        raise IncompleteResponseError("the model wrote no summary", "try again, or use another model")
    if not result.is_saved:
        raise FileError("the summary was not saved", "the conversation is unchanged")
    console.print_notice(f"a summary now replaces {len(result.messages) - 2} messages")
