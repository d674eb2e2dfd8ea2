"""One run of `run_prompt`: wires the parts together, lets the agent work, and sees that all is shown and saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from ask.agent.app_context import AppContext
from ask.agent.request import RunRequest, prepare_request
from ask.agent.run import record_exit_code, record_exit_code_on_error, run_and_record, run_request
from ask.agent.tool_loop import RunResult
from ask.cli.error_reporting import redact_errors
from ask.console import StandardOutput, StderrConsole, can_redraw
from ask.errors import RunInterruptedError
from ask.render.json_output import JsonRenderer
from ask.render.plain import PlainRenderer

if TYPE_CHECKING:
    from ask.render.partial_answer import PartRenderer

Renderer = PlainRenderer | JsonRenderer


def run_prompt(flags: Mapping[str, Any], words: Sequence[str], literal_options: Sequence[str]) -> int:
    """Ask what the command line says; return 0, or 130 where there is a command that the user does not want to run.

    Args:
        flags: the options by name.
        words: the prompt's words.
        literal_options: short options read as part of the question.

    Raises:
        AskError: what ended the run, after everything that was said is shown.
    """
    workspace = AppContext(quiet=flags["quiet"])
    command = None
    console = StderrConsole(workspace.environment, quiet=flags["quiet"], plain=flags["plain"])
    with redact_errors(console, verbose=flags["verbose"]), ExitStack() as cleanup:
        warn_literal_options(literal_options, console)
        question = prepare_request(flags, words, workspace, console, cleanup)
        if flags["compact"]:
            from ask.agent.compaction import compact_conversation

            question = compact_conversation(question, workspace, console, run_and_record)
        renderer = create_renderer(flags, question, console)
        part = None
        if question.output_format:
            from ask.cli.output_formats import create_part_renderer

            part = create_part_renderer(question, renderer, flags, console)
        outcome, saved = run_and_render(question, workspace, part or renderer)
        cleanup.enter_context(record_exit_code_on_error(outcome, question, workspace))
        if outcome.error is not None:
            raise outcome.error
        if question.summary_end_run is not None:
            from ask.agent.compaction import check_summary

            check_summary(outcome, saved, console)
        if part and not part.is_shown:
            from ask.cli.shell_command import offer_command

            ask_more = partial(run_and_render, app=workspace, renderer=renderer)
            command = offer_command(part.part, question._replace(message_history=outcome.messages), ask_more)
            if not command:
                record_exit_code(outcome, workspace, RunInterruptedError.exit_code)
                return RunInterruptedError.exit_code
    if command is None:
        return 0
    from ask.cli.shell_command import exec_in_shell

    with record_exit_code_on_error(outcome, question, workspace):
        return exec_in_shell(command, question.secrets.build_child_environment())


def warn_literal_options(literal_options: Sequence[str], console: StderrConsole) -> None:
    """Name, on a terminal, the short options that were read as part of the question."""
    if literal_options and console.is_terminal:
        console.print_line(f"ask: read as part of the question, not as options: {' '.join(literal_options)}")


def create_renderer(flags: Mapping[str, Any], request: RunRequest, console: StderrConsole) -> Renderer:
    """What shows the run in the way that the flags ask for."""
    output, verbose = StandardOutput(show_partial_lines=request.settings.stream), flags["verbose"]
    if not (flags["as_json"] or flags["as_events"]):
        if flags["plain"] or not can_redraw(output, console.environment):
            return PlainRenderer(output, console, verbose=verbose)
        from ask.render.terminal import TerminalRenderer

        return TerminalRenderer(output, console, verbose=verbose, raw=bool(request.output_format))
    about = {
        "conversation": request.conversation_id,
        "provider": request.endpoint.provider_name,
        "model": request.endpoint.model,
    }
    return JsonRenderer(
        output,
        console,
        about,
        request.secrets.redactor,
        json_lines=flags["as_events"],
        structured=request.response_schema is not None,
    )


def run_and_render(request: RunRequest, app: AppContext, renderer: Renderer | PartRenderer) -> tuple[RunResult, bool]:
    """Let the agent work, and show it; returns too whether it is saved."""
    try:
        outcome, saved = run_request(request, app, renderer.show)
    finally:
        renderer.stop()
    with record_exit_code_on_error(outcome, request, app):
        renderer.finish(outcome, request.conversation_id if saved else "")
    return outcome, saved
