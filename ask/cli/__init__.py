"""The command line. The first argument alone may name a subcommand; anything else asks."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

import click

COMMANDS = {
    "chat": "Talk: one conversation, message after message.",
    "config": "See and change the settings.",
    "doctor": "Look for what is missing or broken, and say what to do.",
    "history": "See, search and keep the saved conversations.",
    "init": "Make ask a part of bash, zsh or fish.",
    "keys": "Keep API keys: set, list, remove.",
    "mcp": "Keep MCP servers, whose tools a model may call.",
    "models": "List a provider's models.",
    "prompts": "See and keep named prompts, which -t asks with.",
    "providers": "List the providers.",
    "safe": "Say what --safe would do here, and what is missing for it.",
    "tools": "List the tools that a model may call.",
    "undo": "Put back the files that a run changed.",
}
"""The subcommands; each is `command` in the module of its name, loaded when it is called."""


def run_command_line(arguments: Sequence[str]) -> int:
    """Run a command line; return its exit code.

    Raises:
        AskError, click.ClickException: it failed; `ask.__main__` says so.
    """
    name, rest = find_command(arguments)
    command: click.Command = importlib.import_module(f"ask.cli.{name}").command
    program = "ask" if name == "ask" else f"ask {name}"
    try:
        # Not command.main, which turns a reader that has gone into exit code 1.
        with command.make_context(program, list(rest)) as context:
            return command.invoke(context) or 0
    except click.exceptions.Exit as ending:
        return ending.exit_code


def find_command(arguments: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Find the command that the arguments call, and the arguments that are left for it; "ask" for a question."""
    if arguments and arguments[0] in COMMANDS:
        return arguments[0], arguments[1:]
    return "ask", arguments
