"""`ask prompts`: the named prompts. Each subcommand is `command` in a module of its own, loaded when called."""

from __future__ import annotations

import click

from ask.cli.groups import LazyGroup

COMMANDS = {
    "list": "List the named prompts, yours and those that come with ask.",
    "show": "Print a named prompt.",
    "new": "Make one of your own.",
    "edit": "Change one of yours, or a copy of one that comes with ask.",
}


@click.group("prompts", cls=LazyGroup, module=__name__, summaries=COMMANDS, default="list")
def command() -> None:
    """See and keep named prompts, which `ask -t NAME` asks with. Without a command it lists them."""
