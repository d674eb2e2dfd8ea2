"""One run: the tool loop, recorded in the history."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ask.agent.request import RunRequest
from ask.agent.tool_loop import RunResult, ToolLoop
from ask.app import AppContext
from ask.errors import AskError, to_ask_error
from ask.events import Event, Notice
from ask.messages import merge_user_messages
from ask.text import decode_argument

if TYPE_CHECKING:
    from ask.history.recorder import Recorder
    from ask.safety.approval import ApprovalResponse
    from ask.safety.policy import PendingToolCall


def run_request(
    request: RunRequest,
    app: AppContext,
    on_event: Callable[[Event], None],
    *,
    replaced_runs: Sequence[int] = (),
    summary_end_run: int | None = None,
) -> RunResult:
    """Answer a request: send it, run the tools the model calls, record everything, report events.

    Events are recorded before they are reported, because a reader that goes away ends the run.

    Args:
        request: the request.
        app: the user's installation.
        on_event: receives the events.
        replaced_runs: the numbers of the saved runs whose questions the request contains.
        summary_end_run: for a request that asks for a summary, the number of the first run that it does not cover.
    """
    enable_garbage_collection()
    # The user messages at the end of a template are sent as a part of the question, and have no answer without it.
    messages = merge_user_messages((*request.opening_messages, request.user_message))
    *opening_messages, user_message = map(request.secrets.redact_message, messages)
    request = request._replace(
        message_history=(*request.message_history, *opening_messages), user_message=user_message, opening_messages=()
    )
    if request.settings.options:  # for which the model's profile is needed
        from ask.client.models_list import add_cached_model

        request = request._replace(endpoint=add_cached_model(request.endpoint, app.app_dirs.cache))
    calls_tools = summary_end_run is None
    if not request.settings.save:
        return ToolLoop(request, app, on_event, request_approval=_request_approval, calls_tools=calls_tools).run()
    recorder = _create_recorder(request, app, on_event, summary_end_run)

    def record_and_report(event: Event) -> None:
        recorder.on_event(event)
        on_event(event)

    recorder.begin(request.user_message, opening_messages, replaced_runs)
    try:
        loop = ToolLoop(request, app, record_and_report, request_approval=_request_approval, calls_tools=calls_tools)
        result = loop.run()
    except BaseException as error:
        recorder.end(to_ask_error(error).exit_code)
        raise
    exit_code = result.error.exit_code if result.error else 0
    recorder.end(exit_code, result.error, result.usage, is_refused=result.is_refused)
    result.saved_run_number = recorder.run_number if recorder.is_saving else None
    return result


def _create_recorder(
    request: RunRequest, app: AppContext, on_event: Callable[[Event], None], summary_end_run: int | None
) -> Recorder:
    from ask.console import identify_terminal
    from ask.history.recorder import Recorder, RunMetadata

    metadata = RunMetadata(
        conversation=request.conversation_id,
        provider=request.endpoint.provider_name,
        model=request.endpoint.model,
        system=request.secrets.redact(request.extra_system_prompt),
        directory=decode_argument(str(request.directory)),
        terminal=identify_terminal(app.environment),
        compacts=summary_end_run,
    )
    return Recorder(app.app_dirs.history_file, metadata, lambda text: on_event(Notice(text)))


def _request_approval(
    pending_call: PendingToolCall, request: RunRequest, explain: Callable[[PendingToolCall], str]
) -> ApprovalResponse | None:
    """Ask the user about a tool call; return None if there is no terminal."""
    from ask.safety.approval import can_read_anything, prompt_for_approval

    can_read = request.safe_mode.can_read if request.safe_mode else can_read_anything
    return prompt_for_approval(pending_call, explain=explain, can_read=can_read)


def enable_garbage_collection() -> None:
    """Collect garbage from here on, but none of what has been created until now."""
    if not gc.isenabled():  # only before the first message of a chat: later garbage should be collected
        gc.freeze()
        # The tokens of Markdown and code, and the rows of a job, would otherwise be traversed all the time.
        gc.set_threshold(20_000)
        gc.enable()


@contextmanager
def record_exit_code_on_error(result: RunResult, request: RunRequest, app: AppContext) -> Iterator[None]:
    """Correct the saved exit code if an exception ends the process after the run."""
    try:
        yield
    except BaseException as error:
        ask_error = error if isinstance(error, AskError) else None
        if ask_error is not None:
            ask_error.redact(request.secrets.redact)
        record_exit_code(result, app, to_ask_error(error).exit_code, ask_error)
        raise


def record_exit_code(result: RunResult, app: AppContext, exit_code: int, error: AskError | None = None) -> None:
    """Correct the exit code of a run in the history, if it is saved there."""
    if result.saved_run_number is not None:
        from ask.history.recorder import correct_exit_code

        correct_exit_code(app.app_dirs.history_file, result.saved_run_number, exit_code, error)
