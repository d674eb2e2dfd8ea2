"""`ask compare`: one question for several models."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import click

from ask.agent.request import RunRequest, add_models, prepare_without_message, read_user_message
from ask.app import AppContext
from ask.cli.ask import create_run_options, select_options, split_models
from ask.cli.click_helpers import subcommand
from ask.cli.run import create_text_renderer, notify_end, open_session
from ask.client.endpoint import report_plugin_output
from ask.compare.answers import ModelAnswer, ask_model, ask_models, combine_answers, judge_answers
from ask.compare.views import ColumnComparison, ComparisonView, JsonComparison, SectionComparison, fits_columns
from ask.config.options import RunOptions
from ask.console import STDOUT, StandardOutput, StderrConsole, can_redraw
from ask.errors import UsageError
from ask.render.live_region import LiveRegion

OPTIONS = select_options(
    *("provider", "system", "files", "options", "effort", "server_tools"),
    *("plain", "quiet", "record", "no_stdin", "timeout"),
)


@subcommand("compare", OPTIONS)
@click.argument("words", metavar="[PROMPT]...", nargs=-1)
@click.option("-m", "--model", "models", metavar="A,B", multiple=True, callback=split_models, help="Models to ask.")
@click.option("--race", is_flag=True, help="Print the first complete answer; cancel the others.")
@click.option("--judge", metavar="NAME", help="Have this model pick and explain the best answer.")
@click.option("--combine", metavar="NAME", help="Have this model combine the answers into one.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end, as in a pipe.")
def command(**flags: Any) -> None:
    """Ask several models the same question, at the same time.

    On a terminal the answers stream side by side; in a pipe, they are one JSON object. Only the tools of -T are
    offered, and nothing is saved.

    \b
    ask compare -m openai:gpt-6.2-sol -m xai:grok-latest "is 91 prime?"
    ask compare -p demo -m a -m b --race "hello"
    ask compare -m A -m B --judge C -f draft.md "shorten this"
    """
    if len(flags["models"]) < 2:
        question = shlex.join(["compare", *flags["words"]])
        hint = f"name them as in -m A,B; to ask it as a question: ask -- {question}"
        raise UsageError("compare needs at least two models", hint)
    if flags["race"] and (flags["judge"] or flags["combine"]):
        raise UsageError("--race keeps one answer, so there is nothing to judge or combine", "leave out --race")
    with open_session(quiet=flags["quiet"], plain=flags["plain"]) as app:
        console = app.console
        requests, judge, combiner = _prepare_requests(flags, app)
        view = _create_view(flags, requests, console)
        shows_text = isinstance(view, ColumnComparison)
        requests = tuple(request._replace(shows_text=shows_text) for request in requests)
        answers = _collect_answers(requests, app, view, race=flags["race"])
        try:
            complete = _select_complete(answers, console)
            if len(complete) == 1 and (judge or combiner):
                console.print_notice("only one model answered, so there is nothing to judge or combine")
                return
            if judge:
                console.show_status(f"waiting for {judge.endpoint.full_name} to judge the answers")
                view.show_verdict(*judge_answers(judge, complete, app, view.show_notice))
            if combiner:
                console.show_status(f"waiting for {combiner.endpoint.full_name} to combine the answers")
                combined = ask_model(combine_answers(combiner, complete), app, view.show_combined)
                view.show_combined(combined)
                combined.check()
        finally:
            console.show_status("")
            view.finish()
        notify_end(app, requests[0].settings, None)


def _prepare_requests(
    flags: Mapping[str, Any], app: AppContext
) -> tuple[tuple[RunRequest, ...], RunRequest | None, RunRequest | None]:
    """Return the requests to all models, and those to the judge and to the model that combines the answers.

    Raises:
        AskError: an option or the configuration is invalid, or an input cannot be read.
    """
    options = create_run_options(flags, model=flags["models"][0], no_tools=True, no_save=True)
    prepared = prepare_without_message(options, app)
    message = read_user_message(options, prepared, app)
    request = prepared.request._replace(user_message=message, fallbacks=())
    requests = add_models(request, flags["models"][1:], options, app)
    # The models may accept different parameters, so the judge gets only those of the configuration.
    own_settings = request.settings._replace(options=app.config.options, given_options=frozenset(), server_tools=())
    own = request._replace(settings=own_settings)
    judge, combiner = (
        add_models(own, [flags[name]], options, app, may_decide=name == "judge")[1] if flags[name] else None
        for name in ("judge", "combine")
    )
    return requests, judge, combiner


def _collect_answers(
    requests: Sequence[RunRequest], app: AppContext, view: ComparisonView, *, race: bool
) -> list[ModelAnswer | None]:
    """Ask all models; return their answers, None for those canceled because another model won the race."""
    app.cleanup.enter_context(report_plugin_output([request.endpoint for request in requests], app.notify))
    answers: list[ModelAnswer | None] = [None] * len(requests)
    with closing(ask_models(requests, app)) as batches:
        try:
            for batch in batches:
                for number, event in batch:
                    if isinstance(event, ModelAnswer):
                        answers[number] = event
                    view.show(number, event)
                    if race and isinstance(event, ModelAnswer) and not event.error:
                        return answers
                view.refresh()
        finally:
            view.end_answers()
    return answers


def _select_complete(answers: Sequence[ModelAnswer | None], console: StderrConsole) -> list[ModelAnswer]:
    """Return the complete answers, and print why models did not answer.

    Raises:
        AskError: none of them answered; it is the error of the first one.
    """
    complete = [answer for answer in answers if answer and not answer.error]
    failed = [answer for answer in answers if answer and answer.error]
    for answer in failed if complete else failed[1:]:
        console.print_notice(f"{answer.endpoint.full_name}: {answer.error}")
    if not complete:
        failed[0].check()
    return complete


def _create_view(flags: Mapping[str, Any], requests: Sequence[RunRequest], console: StderrConsole) -> ComparisonView:
    """Create the view that the options and the terminal select."""
    output = StandardOutput(console.environment)
    if flags["as_json"] or not output.is_terminal:
        return JsonComparison(output, console)
    names = [request.endpoint.full_name for request in requests]
    open_renderer = partial(create_text_renderer, RunOptions(plain=flags["plain"]), requests[0], console)
    if not flags["race"] and not flags["plain"] and can_redraw(output, console.environment):
        live_region = LiveRegion(output.write_raw, STDOUT, console.environment)
        if fits_columns(len(names), live_region.size.columns):
            return ColumnComparison(output, console, open_renderer, names, live_region)
    return SectionComparison(output, console, open_renderer, names, race=flags["race"])
