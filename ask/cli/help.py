"""`ask help`: show the help of ask or of one of its commands."""

from __future__ import annotations

import click

from ask.cli.commands import load_command
from ask.cli.groups import subcommand


@subcommand("help")
@click.argument("command", nargs=-1, metavar="[COMMAND]...")
def command(command: tuple[str, ...]) -> None:
    """Show the help of ask or of COMMAND, for example: ask help history list.

    Anything else after `ask help` is a question.
    """
    target = load_command(command)
    if target is not None:
        name = " ".join(("ask", *command))
        click.echo(target.get_help(target.context_class(target, info_name=name)))
