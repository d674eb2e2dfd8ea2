"""`ask history`: the saved conversations. Each subcommand is `command` in a module of its own, loaded when called."""

from __future__ import annotations

import click

from ask.cli.groups import LazyGroup

COMMANDS = {
    "list": "List the conversations, the newest first.",
    "show": "Show a conversation.",
    "search": "Find words in all conversations.",
    "export": "Write conversations as Markdown, JSON or a web page.",
    "import": "Take in what was exported as JSON.",
    "delete": "Delete conversations.",
    "stats": "Tell runs, tokens and cost by day, model and tool.",
}


@click.group("history", cls=LazyGroup, module=__name__, summaries=COMMANDS, default="list")
def command() -> None:
    """See, search and keep the saved conversations. Without a command it lists them."""
