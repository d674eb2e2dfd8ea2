"""`ask config set`: one setting into config.toml."""

from __future__ import annotations

import click

from ask.cli.groups import WordedCommand

FREE_WORDS = {"help_option_names": ["-h", "--help"], "ignore_unknown_options": True}
"""A value may begin with a dash."""


@click.command("set", cls=WordedCommand, context_settings=FREE_WORDS)
@click.argument("key")
@click.argument("value")
def command(*, key: str, value: str) -> None:
    """Set KEY to VALUE in config.toml. Lists are written a,b; model parameters may be JSON.

    \b
    ask config set provider openrouter
    ask config set tools.disabled bash,fetch_url
    ask config set options.temperature 0.2
    ask config set aliases.fast openrouter:vendor/model
    """
    from ask.agent.workspace import Workspace
    from ask.cli.config.effective import tell_of_change
    from ask.cli.config.keys import find_key, read_value
    from ask.config_file import change
    from ask.text import as_text

    workspace, found = Workspace(), find_key(as_text(key))
    kept = change(workspace.config_file, found.parts, read_value(found, as_text(value)))
    tell_of_change(workspace, found.word, comments_kept=kept)
