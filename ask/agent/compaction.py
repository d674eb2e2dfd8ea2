"""`--compact`: the model writes a summary, which then stands for the old part of a conversation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ask.agent.app_context import AppContext
from ask.agent.request import RunRequest
from ask.agent.run import record_exit_code_on_error
from ask.agent.system_prompt import read_prompt
from ask.agent.tool_loop import RunResult
from ask.console import StderrConsole
from ask.context_window import ReportedUsage
from ask.errors import FileError, IncompleteResponseError, UsageError
from ask.events import Event, Notice
from ask.history.conversations import find_conversation, load_conversation
from ask.history.store import Store
from ask.messages import Message

RunFunction = Callable[[RunRequest, AppContext, Callable[[Event], None]], tuple[RunResult, bool]]


def compact_conversation(
    request: RunRequest, app: AppContext, console: StderrConsole, run_request: RunFunction
) -> RunRequest:
    """What to ask in place of the question: for the summary, where there is no question.

    Otherwise the summary is asked for here, and the question goes on from it.

    Args:
        request: what the user asks.
        app: where the conversation is saved.
        console: takes a line about what happens.
        run_request: asks a question, shows its events, and saves it; tells whether that worked.

    Raises:
        AskError: there is no summary; nothing has changed then.
    """
    part = request.compaction
    if part is None or not part.messages:
        raise UsageError("there is nothing to summarise in this conversation", "leave out --compact")
    wanted = Message("user", read_prompt("compact"))
    of_summary = request._replace(
        message_history=part.messages,
        user_message=wanted,
        reported_usage=ReportedUsage(),
        summary_end_run=part.first_kept_run,
        output_format="",
        response_schema=None,
    )
    if not request.user_message.content:
        return of_summary
    past = run_summary(of_summary, app, console, run_request)
    return request._replace(message_history=past, reported_usage=ReportedUsage())


def run_summary(
    summary_request: RunRequest, app: AppContext, console: StderrConsole, run_request: RunFunction
) -> Sequence[Message]:
    """Have the summary written; what is said from then on to have been said.

    Raises:
        AskError: there is no summary; nothing has changed then.
    """
    outcome, saved = run_request(summary_request, app, partial(print_notice, console))
    if outcome.error is not None:
        raise outcome.error
    with record_exit_code_on_error(outcome, summary_request, app):
        check_summary(outcome, saved, console)
    with Store(app.history_file) as store:
        return load_conversation(store, find_conversation(store, summary_request.conversation_id)).messages


def print_notice(console: StderrConsole, event: Event) -> None:
    """Show of a run what the user should know, and nothing else."""
    if isinstance(event, Notice):
        console.print_line(f"ask: {event.text}")


def check_summary(result: RunResult, is_saved: bool, console: StderrConsole) -> None:
    """See that a summary has come about, and say so.

    Raises:
        IncompleteAnswer: the model wrote none.
        FileError: it is not saved.
    """
    if not result.has_answer or not result.messages[-1].content.strip():
        raise IncompleteResponseError("the model wrote no summary", "ask again, or try another model")
    if not is_saved:
        raise FileError("the summary is not saved", "the conversation stays as it was")
    console.print_line(f"ask: from now on a summary stands for {len(result.messages) - 2} messages")
