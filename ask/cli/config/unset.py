"""`ask config unset`: a setting, or a whole table, out of config.toml."""

from __future__ import annotations

import click

from ask.cli.groups import listing


@listing("unset")
@click.argument("key")
def command(*, key: str) -> None:
    """Take KEY out of config.toml: a setting, a table such as providers.groq, or what is misspelt there."""
    from ask.agent.workspace import Workspace
    from ask.cli.config.effective import tell_of_change
    from ask.cli.config.keys import find_key
    from ask.config_file import REMOVED, change, find_written
    from ask.errors import ConfigError
    from ask.settings import read_toml
    from ask.text import as_text

    workspace, word = Workspace(), as_text(key)
    parts = find_written(read_toml(workspace.config_file), word)
    if not parts:
        find_key(word)
        raise ConfigError(
            f"{word} is not set in {workspace.config_file}", "ask config list shows where values are from"
        )
    kept = change(workspace.config_file, parts, REMOVED)
    tell_of_change(workspace, word, comments_kept=kept)
