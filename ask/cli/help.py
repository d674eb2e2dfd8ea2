"""`ask help`: show the help of ask or of one of its commands."""

from __future__ import annotations

import click

from ask.cli.click_helpers import print_text, subcommand
from ask.cli.commands import ALL_HELP, COMMANDS, get_own_names, load_command
from ask.cli.plugin_commands import get_plugin_help


@subcommand("help")
@click.argument("command", nargs=-1, metavar="[COMMAND]...")
@click.option("--all", "shows_all", is_flag=True, help="Also show what is rarely needed.")
def command(command: tuple[str, ...], *, shows_all: bool) -> None:
    """Show the help of ask or of COMMAND, for example: ask help history list.

    Anything else after `ask help` is a question.
    """
    target = load_command(command)
    if target is not None and command and get_own_names(command)[0] not in COMMANDS:
        print_text(get_plugin_help(target, command))
    elif target is not None:
        name = " ".join(("ask", *get_own_names(command)))
        context = target.context_class(target, info_name=name)
        if shows_all:
            context.meta[ALL_HELP] = True
        print_text(target.get_help(context))
