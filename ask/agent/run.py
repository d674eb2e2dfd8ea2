"""One run: connects the model, the tools and the history, and runs the tool loop."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from functools import partial

from ask.agent.app_context import AppContext
from ask.agent.call_explanation import explain_tool_call
from ask.agent.context_limit import make_context_limit_lookup
from ask.agent.model_selection import create_client, create_cost_calculator
from ask.agent.request import RunRequest
from ask.agent.run_backups import RunBackups
from ask.agent.system_prompt import build_system_prompt
from ask.agent.tool_loop import Agent, RunParameters, RunResult
from ask.agent.tool_runner import ToolRunner
from ask.errors import AskError, BrokenOutputError, RunInterruptedError, to_ask_error
from ask.events import Event, Notice, ToolCallOutput
from ask.safety.approval import can_read_anything, prompt_for_approval
from ask.safety.policy import PendingToolCall, ToolPolicy
from ask.safety.tool_call_log import AuditLog
from ask.text import decode_argument
from ask.tools.base import ToolContext

CONTEXT_TRUNCATED_HINT = " (all of it stays saved, and ask -c --compact replaces what is old by a summary)"


def run_request(request: RunRequest, app: AppContext, on_event: Callable[[Event], None]) -> tuple[RunResult, bool]:
    """Run a request and save it unless saving is disabled. Returns the result, and whether it is saved."""
    request = request._replace(user_message=request.secrets.redactor.redact_message(request.user_message))
    if request.settings.save:
        return run_and_record(request, app, on_event)
    return run_agent(request, app, on_event), False


def run_and_record(request: RunRequest, app: AppContext, on_event: Callable[[Event], None]) -> tuple[RunResult, bool]:
    """Run a request and save it. Returns the result, and whether it is saved.

    Events are saved before they are forwarded, because a closed output ends the run.
    """
    from ask.history.ids import identify_terminal
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

    def record_and_forward(event: Event) -> None:
        recorder.on_event(event)
        on_event(event)

    recorder.begin(request.user_message)
    try:
        result = run_agent(request, app, record_and_forward)
    except BaseException as error:
        recorder.end(get_exit_code(error))
        raise
    recorder.end(result.error.exit_code if result.error else 0, result.error, result.usage)
    result.saved_run_number = recorder.run_number if recorder.is_saving else None
    return result, recorder.is_saving


@contextmanager
def record_exit_code_on_error(result: RunResult, request: RunRequest, app: AppContext) -> Iterator[None]:
    """Correct the saved exit code if an exception ends the process after the run."""
    try:
        yield
    except BaseException as error:
        ask_error = error if isinstance(error, AskError) else None
        if ask_error is not None:
            ask_error.take_out(request.secrets.redact)
        record_exit_code(result, app, get_exit_code(error), ask_error)
        raise


def record_exit_code(result: RunResult, app: AppContext, exit_code: int, error: AskError | None = None) -> None:
    """Correct the exit code of a run in the history, if it is saved there."""
    if result.saved_run_number is not None:
        from ask.history.recorder import correct_exit_code

        correct_exit_code(app.app_dirs.history_file, result.saved_run_number, exit_code, error)


def get_exit_code(error: BaseException) -> int:
    """Return the exit code of a process that ends with this exception."""
    match error:
        case SystemExit(code=int(code)):
            return code
        case KeyboardInterrupt():
            return RunInterruptedError.exit_code
        case BrokenPipeError():
            return BrokenOutputError.exit_code
        case AskError():
            return error.exit_code
        case Exception():
            return to_ask_error(error).exit_code
    return AskError.exit_code


def run_agent(request: RunRequest, app: AppContext, on_event: Callable[[Event], None]) -> RunResult:
    """Create the client, the tools and the backups, and run the tool loop."""
    settings, endpoint = request.settings, request.endpoint
    client = create_client(endpoint, lambda text: on_event(Notice(text)), settings, request.secrets.redactor)
    build_prompt = partial(
        build_system_prompt,
        user_prompt=settings.system,
        today=date.today(),
        directory=request.directory,
        environment=app.environment,
        placeholders=request.safe_mode.placeholders if request.safe_mode else (),
    )
    parameters = RunParameters(
        endpoint.model,
        partial(
            build_prompt,
            format_prompt_name=request.output_format,
            schema=request.response_schema.schema_text if request.response_schema else "",
        ),
        [tool.spec for tool in request.tools],
        settings.options,
        settings.stream,
        settings.max_rounds,
        reported_usage=request.reported_usage,
        find_context_limit=make_context_limit_lookup(
            endpoint, app.app_dirs.cache, settings, is_continued=bool(request.message_history)
        ),
        truncation_hint=CONTEXT_TRUNCATED_HINT if settings.save else "",
        tool_calls_disabled=request.summary_end_run is not None,
    )
    if request.response_schema is not None:
        parameters = parameters._replace(
            schema=request.response_schema.json_schema, validate_answer=request.response_schema.find_problem
        )
    if settings.max_cost is not None:
        parameters = parameters._replace(
            max_cost=settings.max_cost, calculate_cost=create_cost_calculator(endpoint, client)
        )
    with RunBackups(request, app, on_event) as backups:
        tool_runner = create_tool_runner(
            request, app, partial(explain_tool_call, client, endpoint.model, build_prompt), backups, on_event
        )
        if not gc.isenabled():  # only before the first message of a chat: later garbage should be collected
            gc.freeze()
            gc.enable()
        result = Agent(client, tool_runner, on_event).run([*request.message_history, request.user_message], parameters)
    if result.error is not None:
        result.error.take_out(request.secrets.redact)  # before the error is saved
    return result


def create_tool_runner(
    request: RunRequest,
    app: AppContext,
    explain_call: Callable[[PendingToolCall], str],
    backups: RunBackups,
    on_event: Callable[[Event], None],
) -> ToolRunner:
    settings, secrets, safe_mode = request.settings, request.secrets, request.safe_mode
    context = ToolContext(
        directory=request.directory,
        environment=secrets.build_child_environment(),
        command_timeout=settings.command_timeout,
        spill_directory=safe_mode.sandbox_config.overflow_directory if safe_mode else app.app_dirs.results,
        on_output=lambda text: on_event(ToolCallOutput(secrets.redact(text))),
        keep_original=backups.before_write,
        redactor=secrets.redactor,
        restrict_hosts=safe_mode.allowed_hosts if safe_mode else None,
    )
    return ToolRunner(
        request.tools,
        context,
        safe_mode.policy if safe_mode else ToolPolicy(confirm=settings.confirm, assume_yes=settings.assume_yes),
        request_approval=partial(
            prompt_for_approval, explain=explain_call, can_read=safe_mode.can_read if safe_mode else can_read_anything
        ),
        audit_log=AuditLog(app.app_dirs.tool_call_log, request.conversation_id),
        redactor=secrets.redactor,
        on_event=on_event,
        before_execute=backups.before_tool_call,
    )
