"""`ask config`: config.toml. Each subcommand is `command` in a module of its own, loaded when called."""

from __future__ import annotations

import click

from ask.cli.groups import LazyGroup

COMMANDS = {
    "list": "List every setting with its value, and where that is from.",
    "get": "Print the value of a setting.",
    "set": "Set a setting in config.toml.",
    "unset": "Take a setting out of config.toml.",
    "path": "Print where config.toml is.",
    "edit": "Change config.toml in your editor.",
}


@click.group("config", cls=LazyGroup, module=__name__, summaries=COMMANDS, default="list")
def command() -> None:
    """See and change the settings in config.toml. Without a command it lists them."""
