"""The command line. The first argument alone may name a subcommand; anything else asks."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

import click

COMMANDS = {
    "keys": "Keep API keys: set, list, remove.",
    "models": "List a provider's models.",
    "providers": "List the providers.",
    "tools": "List the tools that a model may call.",
}
"""The subcommands; each is `command` in the module of its name, loaded when it is called."""


def run(arguments: Sequence[str]) -> int:
    """Run a command line; return its exit code.

    Raises:
        AskError, click.ClickException: it failed; `ask.__main__` says so.
    """
    name = arguments[0] if arguments and arguments[0] in COMMANDS else "ask"
    command: click.Command = importlib.import_module(f"ask.cli.{name}").command
    program, rest = ("ask", arguments) if name == "ask" else (f"ask {name}", arguments[1:])
    try:
        # Not command.main, which turns a reader that has gone into exit code 1.
        with command.make_context(program, list(rest)) as context:
            return command.invoke(context) or 0
    except click.exceptions.Exit as ending:
        return ending.exit_code
