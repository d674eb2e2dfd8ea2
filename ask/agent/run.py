"""One run: the tool loop, recorded in the history."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from ask.agent.request import RunRequest
from ask.agent.tool_loop import RunResult, ToolLoop, format_rounds
from ask.app import AppContext
from ask.client.endpoint import report_retirement
from ask.errors import AskError, FileError, to_ask_error
from ask.events import Event, MessageAdded, Notice
from ask.messages import Attachment, Message, merge_user_messages
from ask.text import decode_argument

if TYPE_CHECKING:
    from ask.client.generated_files import GeneratedFileSaver
    from ask.history.daily_cost import DailyCostLimit
    from ask.history.recorder import Recorder
    from ask.hooks.hook_runner import HookRunner
    from ask.safety.approval import ApprovalResponse
    from ask.safety.tool_policy import PendingToolCall


def run_request(
    request: RunRequest,
    app: AppContext,
    on_event: Callable[[Event], None],
    *,
    replaced_runs: Sequence[int] = (),
    runs_replaced_by_answer: Sequence[int] = (),
    first_kept_run: int | None = None,
    title: str = "",
    asks_for_rounds: bool = False,
) -> RunResult:
    """Answer a request: send it, run the tools the model calls, record everything, report events.

    Args:
        request: the request.
        app: the user's installation.
        on_event: receives the events.
        replaced_runs: the numbers of the saved runs whose questions the request contains.
        runs_replaced_by_answer: the numbers of the saved runs that are replaced if there is an answer.
        first_kept_run: for a request that asks for a summary, the number of the first run that it does not cover.
        title: the title of the conversation if it is new; "" for the beginning of the question.
        asks_for_rounds: whether to ask the user for more tool rounds at the limit, instead of ending the run.
    """
    enable_garbage_collection()
    notify = partial(_report_notice, on_event)
    request, opening_messages = _merge_opening_messages(_add_model_info(request, app))
    report_retirement(request.endpoint, app, notify)
    hooks = request.open_hooks(notify) if first_kept_run is None else None
    recorder = _create_recorder(request, app, notify, first_kept_run, title) if request.settings.save else None
    savers: list[GeneratedFileSaver] = []
    daily_limit = _create_daily_limit(request, app, recorder)
    record_and_report = partial(_record_and_report, recorder, savers, on_event)
    loop = ToolLoop(
        request,
        app,
        record_and_report,
        request_approval=partial(_request_approval, app),
        confirm_more_rounds=partial(_confirm_more_rounds, app, request) if asks_for_rounds else lambda *_: False,
        calls_tools=first_kept_run is None,
        save_files=partial(_save_files, savers, request, app, record_and_report),
        daily_limit=daily_limit,
    )
    if recorder:
        recorder.begin(request.user_message, opening_messages, replaced_runs, runs_replaced_by_answer)
    try:
        if hooks:
            hooks.start_run(request.user_message.content)
        result = loop.run()
    except BaseException as error:
        if recorder:
            recorder.end(to_ask_error(error).exit_code)
        raise
    result.error = result.error or next((saver.error for saver in savers), None)
    _end_run(result, recorder, hooks, daily_limit, notify)
    return result


def _record_and_report(
    recorder: Recorder | None, savers: list[GeneratedFileSaver], on_event: Callable[[Event], None], event: Event
) -> None:
    if recorder:
        recorder.on_event(event)
    on_event(event)  # last, because a reader that goes away ends the run
    if savers and isinstance(event, MessageAdded):
        savers[0].report()


def _add_model_info(request: RunRequest, app: AppContext) -> RunRequest:
    """Return the request with facts from the cached models list, which only model options need."""
    if not request.settings.options:
        return request
    from ask.client.models_list import add_cached_model

    return request._replace(endpoint=add_cached_model(request.endpoint, app.app_dirs.cache))


def _report_notice(on_event: Callable[[Event], None], text: str) -> None:
    on_event(Notice(text))


def _end_run(
    result: RunResult,
    recorder: Recorder | None,
    hooks: HookRunner | None,
    daily_limit: DailyCostLimit | None,
    notify: Callable[[str], None],
) -> None:
    """Record the end of a run, report it to the hooks, and count its cost, unless the history has it."""
    exit_code = result.error.exit_code if result.error else 0
    if recorder:
        recorder.end(exit_code, result.error, result.usage, is_refused=result.is_refused)
        result.saved_run_number = recorder.run_number if recorder.is_saving else None
    if hooks:
        hooks.end_run(exit_code, str(result.error or ""), result.answer)
    if daily_limit and not result.is_saved:
        try:
            daily_limit.add_unsaved_cost(result.cost.dollars or 0.0)
        except FileError as error:
            notify(f"the cost of this run does not count toward the limit of the day: {error}")


def _merge_opening_messages(request: RunRequest) -> tuple[RunRequest, list[Message]]:
    """Return the request with a template's messages in its history, and these messages.

    The user messages at their end are sent as a part of the question, and have no answer without it.
    """
    messages = merge_user_messages((*request.opening_messages, request.user_message))
    *opening_messages, user_message = map(request.secrets.redact_message, messages)
    history = (*request.message_history, *opening_messages)
    merged = request._replace(message_history=history, user_message=user_message, opening_messages=())
    return merged, opening_messages


def _save_files(
    savers: list[GeneratedFileSaver],
    request: RunRequest,
    app: AppContext,
    on_event: Callable[[Event], None],
    files: Sequence[Attachment],
) -> tuple[Attachment, ...]:
    """Save images that the model generated, with the run's saver, which the first of them adds to `savers`."""
    from ask.client.generated_files import GeneratedFileSaver

    if not savers:
        savers.append(GeneratedFileSaver(request.directory, request.settings, app, on_event))
    return savers[0].save(files)


def _create_recorder(
    request: RunRequest, app: AppContext, notify: Callable[[str], None], first_kept_run: int | None, title: str
) -> Recorder:
    from ask.history.recorder import Recorder, RunMetadata
    from ask.process.terminal_identity import identify_terminal

    metadata = RunMetadata(
        conversation=request.conversation_id,
        provider=request.endpoint.provider_name,
        model=request.endpoint.model,
        system=request.secrets.redact(request.extra_system_prompt),
        directory=decode_argument(str(request.directory)),
        terminal=identify_terminal(app.environment),
        first_kept_run=first_kept_run,
        title=request.secrets.redact(title),
    )
    return Recorder(app.app_dirs.history_file, metadata, notify, quiet=app.console.is_quiet)


def _create_daily_limit(request: RunRequest, app: AppContext, recorder: Recorder | None) -> DailyCostLimit | None:
    """Return the limit on the costs of a day; None without one, and for a row, which the job of the row limits."""
    dollars = request.settings.max_cost_per_day
    if dollars is None or request.settings.is_row:
        return None
    from ask.history.daily_cost import DailyCostLimit

    return DailyCostLimit(app, dollars, find_own_run=lambda: recorder.run_number if recorder else 0)


def _request_approval(
    app: AppContext, pending_call: PendingToolCall, request: RunRequest, explain: Callable[[PendingToolCall], str]
) -> ApprovalResponse | None:
    """Ask the user about a tool call; return None if there is nobody to ask."""
    from ask.safety.approval_prompt import can_read_anything, prompt_for_approval

    can_read = request.safe_mode.can_read if request.safe_mode else can_read_anything
    if app.request_approval:
        response: ApprovalResponse | None = app.request_approval(pending_call, can_read)
        return response
    with _announce_question("a tool call waits for your approval", app, request):
        return prompt_for_approval(pending_call, explain=explain, can_read=can_read, use_color=app.console.use_color)


@contextmanager
def _announce_question(text: str, app: AppContext, request: RunRequest) -> Iterator[None]:
    """Notify the user if a question waits for its answer."""
    from ask.agent.notifications import announce_question

    # The sandbox can run only one command at a time.
    with announce_question(partial(_send_notification, text, app, request), waits=bool(request.hooks)):
        yield
    app.last_input_time = time.monotonic()


def _send_notification(text: str, app: AppContext, request: RunRequest) -> None:
    """Notify the user of a run, by the terminal and by the hooks."""
    from ask.agent.notifications import notify

    notify(text, request.settings.notifications, app.environment)
    if hooks := request.open_hooks(app.console.print_notice):
        hooks.report_notification(text)


def _confirm_more_rounds(app: AppContext, request: RunRequest, used: int, more: int) -> bool:
    """Ask the user whether the model may call tools in more rounds."""
    from ask.safety.approval import confirm

    more_rounds = "1 more round" if more == 1 else f"{more} more rounds"
    question = f"ask: reached the limit of {format_rounds(used)}. Continue for {more_rounds}?"
    with _announce_question("the limit of tool rounds is reached; continue?", app, request):
        return bool(confirm(question, default=True))


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
