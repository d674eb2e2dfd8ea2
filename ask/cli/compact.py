"""`ask compact`: replace the older part of a conversation with a summary."""

from __future__ import annotations

from typing import Any

import click

from ask.cli.ask import get_default_options, select_options
from ask.cli.groups import subcommand

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
    from ask.cli.run import run_compaction

    run_compaction({**get_default_options(), **flags, "resume": conversation, "go_on": conversation is None})
