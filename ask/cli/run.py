"""The `ask` command after its options are parsed: prepare the request, run it, and show the answer."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from ask.agent.request import RunRequest, prepare_request
from ask.agent.run import record_exit_code, record_exit_code_on_error, run_request
from ask.agent.tool_loop import RunResult
from ask.app import AppContext
from ask.config.options import ROW_ARGUMENT, RunOptions
from ask.console import StandardOutput, StderrConsole, can_redraw
from ask.errors import AskError, BrokenOutputError, PluginError, RunInterruptedError, UsageError, to_ask_error
from ask.render.plain import PlainRenderer

if TYPE_CHECKING:
    from ask.render.json_events import JsonRenderer
    from ask.render.partial_answer import PartRenderer

    Renderer = PlainRenderer | JsonRenderer


def run_prompt(options: RunOptions, literal_options: Sequence[str] = ()) -> int:
    """Run the prompt of the command line; return the exit code.

    `literal_options` are short options that are part of the prompt.

    It is 0, or 130 if the user does not want to run the command in the answer.

    Raises:
        AskError: what ended the run, after everything up to then is shown.
    """
    with open_session(quiet=options.quiet, plain=options.plain, verbose=options.verbose) as app:
        if literal_options and app.console.is_terminal:
            app.console.print_notice(f"treated as part of the question: {' '.join(literal_options)}")
        prepared = prepare_request(options, app)
        if app.console.is_terminal:
            from ask.cli.first_run import warn_on_first_run

            warn_on_first_run(prepared.request, app)
        if prepared.unanswered and _is_on_terminal(app):
            from ask.agent.unanswered import confirm_unanswered

            prepared = confirm_unanswered(prepared, app)
        request = prepared.request
        renderer = create_renderer(options, request, app.console)
        part_renderer = None
        if request.output_format:
            from ask.render.partial_answer import PartRenderer

            part_renderer = PartRenderer(request, renderer, app.console, verbose=options.verbose)
        if prepared.unanswered:
            from ask.agent.unanswered import report_left_out

            report_left_out(prepared, renderer.show)
        run_result = run_and_render(request, app, part_renderer or renderer, replaced_runs=prepared.replaced_runs)
        app.cleanup.enter_context(record_exit_code_on_error(run_result, request, app))
        if run_result.error is not None:
            raise run_result.error
        if part_renderer is None or part_renderer.is_shown:
            return 0
        from ask.cli.shell_command import exec_in_shell, offer_command

        run_follow_up = partial(run_and_render, app=app, renderer=renderer)
        command = offer_command(
            part_renderer.part,
            request._replace(message_history=run_result.messages, opening_messages=()),
            run_follow_up,
        )
        if not command:
            record_exit_code(run_result, app, RunInterruptedError.exit_code)
            return RunInterruptedError.exit_code
    with record_exit_code_on_error(run_result, request, app):
        return exec_in_shell(command, request.secrets.build_child_environment())


def _is_on_terminal(app: AppContext) -> bool:
    """Check whether a person reads the output. Standard input may be a pipe that is part of the question."""
    return sys.stdout is not None and sys.stdout.isatty() and app.console.is_terminal and not app.console.is_quiet


@contextmanager
def open_session(*, quiet: bool, plain: bool, verbose: bool = False) -> Iterator[AppContext]:
    """Open what every command that asks models needs; redact its errors."""
    app = AppContext(quiet=quiet, plain=plain)
    with redact_errors(app.console, verbose=verbose), app.cleanup:
        yield app


@contextmanager
def redact_errors(console: StderrConsole, *, verbose: bool) -> Iterator[None]:
    """Redact the errors of a block, and convert unexpected ones to AskError.

    With `verbose`, bugs, also those of plugins, are printed with their traceback.
    """
    try:
        yield
    except BrokenOutputError:
        raise
    except Exception as error:  # noqa: BLE001 - any error may contain a key
        ask_error = to_ask_error(error)
        if verbose and (type(ask_error) is AskError or isinstance(error, PluginError)):
            import traceback

            console.print_line("".join(traceback.format_exception(error)).rstrip())
        ask_error.redact(console.redact)
        raise ask_error from None


def create_renderer(options: RunOptions, request: RunRequest, console: StderrConsole) -> Renderer:
    """Create the renderer that the options select."""
    if not (options.as_json or options.as_events):
        return create_text_renderer(request, console, plain=options.plain, verbose=options.verbose)
    from ask.render.json_events import JsonRenderer

    return JsonRenderer(StandardOutput(), console, request, json_lines=options.as_events)


def create_text_renderer(
    request: RunRequest, console: StderrConsole, *, plain: bool, verbose: bool = False
) -> PlainRenderer:
    """Create the renderer for text: Markdown on a capable terminal, unless it is to be plain."""
    output = StandardOutput(console.environment, show_partial_lines=request.settings.stream)
    if plain or not can_redraw(output, console.environment):
        return PlainRenderer(output, console, verbose=verbose)
    from ask.render.terminal import TerminalRenderer

    return TerminalRenderer(output, console, verbose=verbose, raw=bool(request.output_format))


def run_and_render(
    request: RunRequest,
    app: AppContext,
    renderer: Renderer | PartRenderer,
    *,
    replaced_runs: Sequence[int] = (),
    summary_end_run: int | None = None,
) -> RunResult:
    """Run a request and show it."""
    try:
        run_result = run_request(
            request, app, renderer.show, replaced_runs=replaced_runs, summary_end_run=summary_end_run
        )
    finally:
        renderer.stop()
    with record_exit_code_on_error(run_result, request, app):
        renderer.finish(run_result, request.conversation_id if run_result.is_saved else "")
    return run_result


def run_row() -> int:
    """Run a row of `ask map --tools`, whose `RunOptions` are on standard input as JSON; return the exit code."""
    try:
        options = RunOptions.from_json(sys.stdin.buffer.read())
    except (ValueError, TypeError, AttributeError):
        raise UsageError(f"{ROW_ARGUMENT} is only for rows of ask map --tools", "see ask map --help") from None
    return run_prompt(options)
