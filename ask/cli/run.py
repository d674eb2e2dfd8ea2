"""One run of `ask`: wires the parts together, lets the agent work, and sees that all is shown and saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from ask.agent.request import Question, read_question
from ask.agent.run import converse_and_save, converse_as_settled, record_exit_code, recorded_exit_code
from ask.agent.tool_loop import Outcome
from ask.agent.workspace import Workspace
from ask.cli.error_reporting import reporting
from ask.console import Console, Output, can_redraw
from ask.errors import Interrupted
from ask.render.json_output import JsonRenderer
from ask.render.plain import PlainRenderer

if TYPE_CHECKING:
    from ask.render.partial_answer import PartRenderer

Renderer = PlainRenderer | JsonRenderer


def ask(flags: Mapping[str, Any], words: Sequence[str], literal_options: Sequence[str]) -> int:
    """Ask what the command line says; return 0, or 130 where there is a command that the user does not want to run.

    Args:
        flags: the options by name.
        words: the prompt's words.
        literal_options: short options read as part of the question.

    Raises:
        AskError: what ended the run, after everything that was said is shown.
    """
    workspace = Workspace(quiet=flags["quiet"])
    command = None
    console = Console(workspace.environment, quiet=flags["quiet"], plain=flags["plain"])
    with reporting(console, verbose=flags["verbose"]), ExitStack() as cleanup:
        warn_literal_options(literal_options, console)
        question = read_question(flags, words, workspace, console, cleanup)
        if flags["compact"]:
            from ask.agent.compaction import compact

            question = compact(question, workspace, console, converse_and_save)
        renderer = open_renderer(flags, question, console)
        part = None
        if question.form:
            from ask.cli.output_formats import in_form

            part = in_form(question, renderer, flags, console)
        outcome, saved = converse_and_show(question, workspace, part or renderer)
        cleanup.enter_context(recorded_exit_code(outcome, question, workspace))
        if outcome.failure is not None:
            raise outcome.failure
        if question.compacts is not None:
            from ask.agent.compaction import check_summary

            check_summary(outcome, saved, console)
        if part and not part.shown:
            from ask.cli.shell_command import offer

            ask_more = partial(converse_and_show, workspace=workspace, renderer=renderer)
            command = offer(part.part, question._replace(past=outcome.messages), ask_more)
            if not command:
                record_exit_code(outcome, workspace, Interrupted.exit_code)
                return Interrupted.exit_code
    if command is None:
        return 0
    from ask.cli.shell_command import run_in_shell

    with recorded_exit_code(outcome, question, workspace):
        return run_in_shell(command, question.secrets.clean_environment())


def warn_literal_options(literal_options: Sequence[str], console: Console) -> None:
    """Name, on a terminal, the short options that were read as part of the question."""
    if literal_options and console.terminal:
        console.line(f"ask: read as part of the question, not as options: {' '.join(literal_options)}")


def open_renderer(flags: Mapping[str, Any], question: Question, console: Console) -> Renderer:
    """What shows the run in the way that the flags ask for."""
    output, verbose = Output(live=question.settings.stream), flags["verbose"]
    if not (flags["as_json"] or flags["as_events"]):
        if flags["plain"] or not can_redraw(output, console.environment):
            return PlainRenderer(output, console, verbose=verbose)
        from ask.render.terminal import TerminalRenderer

        return TerminalRenderer(output, console, verbose=verbose, as_written=bool(question.form))
    about = {
        "conversation": question.conversation,
        "provider": question.target.name,
        "model": question.target.model,
    }
    return JsonRenderer(
        output,
        console,
        about,
        question.secrets.redactor,
        lines=flags["as_events"],
        structured=question.shape is not None,
    )


def converse_and_show(
    question: Question, workspace: Workspace, renderer: Renderer | PartRenderer
) -> tuple[Outcome, bool]:
    """Let the agent work, and show it; returns too whether it is saved."""
    try:
        outcome, saved = converse_as_settled(question, workspace, renderer.show)
    finally:
        renderer.still()
    with recorded_exit_code(outcome, question, workspace):
        renderer.finish(outcome, question.conversation if saved else "")
    return outcome, saved
