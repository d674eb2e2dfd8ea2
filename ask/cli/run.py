"""The `ask` command after its options are parsed: prepare the request, run it, and show the answer."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from ask.agent.request import RunRequest, prepare_request
from ask.agent.run import record_exit_code, record_exit_code_on_error, run_request
from ask.agent.tool_loop import RunResult
from ask.app import AppContext
from ask.config.options import ROW_ARGUMENT, RunOptions
from ask.config.settings import Settings
from ask.console import (
    StandardOutput,
    StderrConsole,
    can_redraw,
    is_for_pager,
    is_in_foreground,
    is_output_terminal,
    should_show_footer,
)
from ask.errors import AskError, RunInterruptedError, UsageError
from ask.render.plain_renderer import PlainRenderer

if TYPE_CHECKING:
    from ask.render.extracted_answer_renderer import ExtractedAnswerRenderer
    from ask.render.json_events import JsonRenderer

    Renderer = PlainRenderer | JsonRenderer


def run_prompt(options: RunOptions, literal_options: Sequence[str] = ()) -> int:
    """Run the prompt of the command line; return the exit code.

    The code is 0, or 130 if the user does not want to run the command in the answer. `literal_options` are the short
    options that are part of the prompt.

    Raises:
        AskError: what ended the run, after everything up to then is shown.
    """
    with open_session(quiet=options.quiet, plain=options.plain, verbose=options.verbose) as app:
        if literal_options and app.console.is_terminal:
            app.console.print_notice(f"treated as part of the question: {' '.join(literal_options)}")
        # Standard input may be a pipe that is part of the question.
        is_on_terminal = app.console.is_terminal and not app.console.is_quiet and is_output_terminal()
        prepared = prepare_request(options, app)
        if app.console.is_terminal:
            from ask.cli.first_run import warn_on_first_run

            warn_on_first_run(prepared.request, app)
        if prepared.unanswered:
            from ask.agent.unanswered import confirm_unanswered, report_left_out

            if is_on_terminal:
                prepared = confirm_unanswered(prepared, app)
        request = prepared.request._replace(shows_text=not options.extract)
        renderer = create_renderer(options, request, app.console)
        extracted_renderer = None
        if request.output_format or options.extract:
            from ask.render.extracted_answer_renderer import ExtractedAnswerRenderer

            extracted_renderer = ExtractedAnswerRenderer(request, renderer, app.console, verbose=options.verbose)
        if prepared.unanswered:
            report_left_out(prepared, renderer.show)
        run_result = run_and_render(
            request,
            app,
            extracted_renderer or renderer,
            replaced_runs=prepared.replaced_runs,
            asks_for_rounds=is_on_terminal and can_ask_for_rounds(options),
            title=prepared.title,
        )
        app.cleanup.enter_context(record_exit_code_on_error(run_result, request, app))
        if run_result.error is not None:
            raise run_result.error
        if extracted_renderer is None or extracted_renderer.is_shown:
            return 0
        from ask.cli.shell_command import exec_in_shell, offer_command

        run_follow_up = partial(run_and_render, app=app, renderer=renderer)
        command = offer_command(
            extracted_renderer.extracted,
            request._replace(message_history=run_result.messages, opening_messages=()),
            run_follow_up,
        )
        if not command:
            record_exit_code(run_result, app, RunInterruptedError.exit_code)
            return RunInterruptedError.exit_code
    with record_exit_code_on_error(run_result, request, app):
        return exec_in_shell(command, request.secrets.build_child_environment())


def can_ask_for_rounds(options: RunOptions) -> bool:
    """Check whether a run on a terminal may ask the user for more tool rounds: no program reads its output."""
    return is_in_foreground() and not (options.as_json or options.as_events)


@contextmanager
def open_session(*, quiet: bool, plain: bool, verbose: bool = False) -> Iterator[AppContext]:
    """Open what every command that asks models needs; redact its errors."""
    app = AppContext(quiet=quiet, plain=plain)
    with app.redact_errors(verbose=verbose), app.cleanup:
        yield app


def create_renderer(options: RunOptions, request: RunRequest, console: StderrConsole) -> Renderer:
    if not (options.as_json or options.as_events):
        return create_text_renderer(options, request, console)
    from ask.render.json_events import JsonRenderer

    return JsonRenderer(StandardOutput(), console, request, json_lines=options.as_events)


def create_text_renderer(options: RunOptions, request: RunRequest, console: StderrConsole) -> PlainRenderer:
    """Create the renderer for text: Markdown on a capable terminal or for a pager, unless it is to be plain."""
    output = StandardOutput(console.environment, show_partial_lines=request.settings.stream)
    raw = bool(request.output_format) or options.extract
    shown = {
        "verbose": options.verbose,
        "shows_usage": options.usage,
        "shows_footer": should_show_footer(request.settings.footer),
    }
    is_paged = is_for_pager(output, console.environment) and not raw
    if options.plain or not (is_paged or can_redraw(output, console.environment)):
        return PlainRenderer(output, console, **shown, raw=raw)
    from ask.render.terminal_renderer import TerminalRenderer

    return TerminalRenderer(output, console, **shown, raw=raw)


def run_and_render(
    request: RunRequest,
    app: AppContext,
    renderer: Renderer | ExtractedAnswerRenderer,
    *,
    replaced_runs: Sequence[int] = (),
    first_kept_run: int | None = None,
    title: str = "",
    asks_for_rounds: bool = False,
) -> RunResult:
    """Run a request and show it. The other arguments are those of `run_request`."""
    app.last_input_time = time.monotonic()
    try:
        run_result = run_request(
            request,
            app,
            renderer.show,
            replaced_runs=replaced_runs,
            first_kept_run=first_kept_run,
            asks_for_rounds=asks_for_rounds,
            title=title,
        )
    finally:
        renderer.stop()
    with record_exit_code_on_error(run_result, request, app):
        renderer.finish(run_result, request.conversation_id if run_result.is_saved else "")
    notify_end(app, request.settings, run_result.error)
    return run_result


def notify_end(app: AppContext, settings: Settings, error: AskError | None) -> None:
    """Announce the end of a run that the user has not interrupted, if it has taken long."""
    if app.console.accepts_notifications and not isinstance(error, RunInterruptedError):
        from ask.agent.notifications import announce_end

        seconds, exit_code = time.monotonic() - app.last_input_time, error.exit_code if error else 0
        announce_end(seconds, exit_code, settings.notifications, app.environment)


def run_row() -> int:
    """Run a row of `ask map --tools`, whose `RunOptions` are on standard input as JSON; return the exit code."""
    try:
        options = RunOptions.from_json(sys.stdin.buffer.read())
    except (ValueError, TypeError, AttributeError):
        raise UsageError(f"{ROW_ARGUMENT} is only for rows of ask map --tools", "see ask map --help") from None
    return run_prompt(options)
