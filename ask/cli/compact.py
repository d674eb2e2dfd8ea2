"""`ask compact`: replace the older part of a conversation with a summary."""

from __future__ import annotations

from typing import Any

import click

from ask.agent.compaction import compact_conversation
from ask.agent.request import RunRequest, prepare_without_message
from ask.agent.tool_loop import RunResult
from ask.cli.ask import create_run_options, select_options
from ask.cli.click_helpers import subcommand
from ask.cli.run import create_renderer, open_session, run_and_render

OPTIONS = select_options(
    *("provider", "model", "base_url", "key", "options"),
    *("as_json", "no_stream", "plain", "quiet", "verbose", "timeout"),
)


@subcommand("compact", OPTIONS)
@click.argument("conversation", metavar="[ID]", required=False)
def command(*, conversation: str | None, **flags: Any) -> None:
    """Replace the older messages of a conversation with a summary, and print it.

    Without an ID, this is the terminal's last conversation, as with ask -c. The saved messages are kept; only
    what is sent to the model becomes shorter. -m selects another model for the summary only.

    \b
    ask compact && ask -c "where were we?"
    """
    options = create_run_options(flags, resume=conversation, continue_last=conversation is None)
    with open_session(quiet=options.quiet, plain=options.plain, verbose=options.verbose) as app:

        def summarize(request: RunRequest, first_kept_run: int | None) -> RunResult:
            renderer = create_renderer(options, request, app.console)
            return run_and_render(request, app, renderer, first_kept_run=first_kept_run)

        compact_conversation(prepare_without_message(options, app).request, app, summarize)
