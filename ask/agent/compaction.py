"""`--compact`: replacing the older part of a conversation by a summary that the model writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ask.agent.app_context import AppContext
from ask.agent.request import RunRequest
from ask.agent.run import record_exit_code_on_error
from ask.agent.system_prompt import read_prompt
from ask.agent.tool_loop import RunResult
from ask.console import StderrConsole
from ask.errors import FileError, IncompleteResponseError, UsageError
from ask.events import Event, Notice
from ask.history.conversations import find_conversation, load_conversation
from ask.history.store import Store
from ask.messages import Message, ReportedUsage

RunFunction = Callable[[RunRequest, AppContext, Callable[[Event], None]], tuple[RunResult, bool]]


def compact_conversation(
    request: RunRequest, app: AppContext, console: StderrConsole, run_request: RunFunction
) -> RunRequest:
    """Return the request to run in place of a request with `--compact`.

    Without a prompt, this is the request for the summary. With one, the summary is requested here by `run_request`, and
    the returned request continues from it.

    Raises:
        AskError: there is no summary; the conversation is unchanged.
    """
    compaction = request.compaction
    if compaction is None or not compaction.messages:
        raise UsageError("there is nothing to summarise in this conversation", "leave out --compact")
    prompt = Message("user", read_prompt("compact"))
    summary_request = request._replace(
        message_history=compaction.messages,
        user_message=prompt,
        reported_usage=ReportedUsage(),
        summary_end_run=compaction.first_kept_run,
        output_format="",
        response_schema=None,
    )
    if not request.user_message.content:
        return summary_request
    messages = run_summary(summary_request, app, console, run_request)
    return request._replace(message_history=messages, reported_usage=ReportedUsage())


def run_summary(
    summary_request: RunRequest, app: AppContext, console: StderrConsole, run_request: RunFunction
) -> Sequence[Message]:
    """Have the summary written; return the messages that continue from it.

    Raises:
        AskError: there is no summary; the conversation is unchanged.
    """
    result, is_saved = run_request(summary_request, app, partial(print_notice, console))
    if result.error is not None:
        raise result.error
    with record_exit_code_on_error(result, summary_request, app):
        check_summary(result, is_saved, console)
    with Store(app.app_dirs.history_file) as store:
        return load_conversation(store, find_conversation(store, summary_request.conversation_id)).messages


def print_notice(console: StderrConsole, event: Event) -> None:
    """Print an event of a run if it is a notice, and nothing else."""
    if isinstance(event, Notice):
        console.print_line(f"ask: {event.text}")


def check_summary(result: RunResult, is_saved: bool, console: StderrConsole) -> None:
    """Check that the summary was written and saved, and report it to the user.

    Raises:
        IncompleteResponseError: the model wrote no summary.
        FileError: it is not saved.
    """
    if not result.has_answer or not result.messages[-1].content.strip():
        raise IncompleteResponseError("the model wrote no summary", "ask again, or try another model")
    if not is_saved:
        raise FileError("the summary is not saved", "the conversation stays as it was")
    console.print_line(f"ask: from now on a summary stands for {len(result.messages) - 2} messages")
