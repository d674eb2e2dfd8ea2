"""`ask mcp`: the servers whose tools a model may call. Each subcommand is `command` in a module of its own."""

from __future__ import annotations

import click

from ask.cli.groups import LazyGroup

COMMANDS = {
    "list": "List the MCP servers, or the tools of one.",
    "add": "Add an MCP server to config.toml.",
    "remove": "Take an MCP server out of config.toml.",
    "test": "Start MCP servers, and say what they are.",
}


@click.group("mcp", cls=LazyGroup, module=__name__, summaries=COMMANDS, default="list")
def command() -> None:
    """See and keep the MCP servers, whose tools a model may call. Without a command it lists them."""
