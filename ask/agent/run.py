"""One run: the tool loop, recorded in the history."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ask.agent.request import RunRequest
from ask.agent.tool_loop import RunResult, ToolLoop
from ask.app import AppContext
from ask.errors import AskError, to_ask_error
from ask.events import Event, Notice
from ask.messages import merge_user_messages
from ask.text import decode_argument


def run_request(request: RunRequest, app: AppContext, on_event: Callable[[Event], None]) -> RunResult:
    """Answer a request: send it, run the tools the model calls, record everything, report events.

    Events are recorded before they are reported, because a reader that goes away ends the run.
    """
    enable_garbage_collection()
    # The user messages at the end of a template are sent as a part of the question, and have no answer without it.
    messages = merge_user_messages((*request.opening_messages, request.user_message))
    *opening_messages, user_message = map(request.secrets.redact_message, messages)
    request = request._replace(
        message_history=(*request.message_history, *opening_messages), user_message=user_message, opening_messages=()
    )
    if request.unanswered:
        from ask.agent.unanswered import describe_left_out

        conversation_id = request.conversation_id if request.settings.save else ""
        for notice in describe_left_out(request.unanswered, conversation_id):
            on_event(Notice(notice))
    if request.settings.options:  # for which the model's profile is needed
        from ask.client.models_list import add_cached_model

        request = request._replace(endpoint=add_cached_model(request.endpoint, app.app_dirs.cache))
    if not request.settings.save:
        return ToolLoop(request, app, on_event).run()
    from ask.console import identify_terminal
    from ask.history.recorder import Recorder, RunMetadata

    metadata = RunMetadata(
        conversation=request.conversation_id,
        provider=request.endpoint.provider_name,
        model=request.endpoint.model,
        system=request.secrets.redact(request.extra_system_prompt),
        directory=decode_argument(str(request.directory)),
        terminal=identify_terminal(app.environment),
        compacts=request.summary_end_run,
    )
    recorder = Recorder(app.app_dirs.history_file, metadata, lambda text: on_event(Notice(text)))

    def record_and_report(event: Event) -> None:
        recorder.on_event(event)
        on_event(event)

    recorder.begin(request.user_message, opening_messages, request.replaced_runs)
    try:
        result = ToolLoop(request, app, record_and_report).run()
    except BaseException as error:
        recorder.end(to_ask_error(error).exit_code)
        raise
    exit_code = result.error.exit_code if result.error else 0
    recorder.end(exit_code, result.error, result.usage, is_refused=result.is_refused)
    result.saved_run_number = recorder.run_number if recorder.is_saving else None
    return result


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
