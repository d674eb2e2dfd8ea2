"""The command line: the first argument may name a subcommand; everything else is a prompt."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Any

import click

from ask.config.options import ROW_ARGUMENT
from ask.errors import RunInterruptedError, UsageError

COMMANDS = {
    "chat": "Chat with a model.",
    "compact": "Summarize older messages of a conversation.",
    "compare": "Ask several models the same question.",
    "config": "Show and change settings.",
    "context": "List or forget trusted projects.",
    "doctor": "Check the installation and suggest fixes.",
    "help": "Show the help of ask or a command.",
    "history": "List, search, export and delete conversations.",
    "init": "Set up ask in bash, zsh or fish.",
    "keys": "Manage API keys.",
    "map": "Ask one prompt about many rows or files.",
    "mcp": "Manage MCP servers.",
    "models": "List a provider's models.",
    "providers": "List the providers.",
    "safe": "Check whether --safe works here.",
    "skills": "List and show Agent Skills.",
    "templates": "Manage prompt templates (-t).",
    "tools": "List the tools available to models, and manage approvals.",
    "undo": "Restore the files that a run changed.",
    "version": "Print the version.",
}
"""The subcommands with their summaries; each is `command` in the module of its name, imported on demand."""


class CommandContext(click.Context):
    """The context of every command: -h is --help, whose layout suits terminals of any width."""

    def __init__(self, command: click.Command, **settings: Any) -> None:
        super().__init__(command, help_option_names=["-h", "--help"], **settings)

    def make_formatter(self) -> click.HelpFormatter:
        from ask.cli.help_format import HelpFormatter

        return HelpFormatter()


def run_command_line(arguments: Sequence[str]) -> int:
    """Run a command line; return its exit code.

    Raises:
        AskError: the command failed; `ask.__main__` prints the error.
    """
    if arguments == [ROW_ARGUMENT]:
        from ask.cli.run import run_row

        return run_row()
    if not arguments and is_on_terminal():
        arguments = ["chat"]
    name, rest = find_command(arguments)
    command: click.Command = importlib.import_module(f"ask.cli.{name}").command
    program = "ask" if name == "ask" else f"ask {name}"
    try:
        # Not command.main(), which turns a broken pipe into exit code 1.
        with command.make_context(program, list(rest)) as context:
            return command.invoke(context) or 0
    except click.exceptions.Exit as exit_request:
        return exit_request.exit_code
    except click.exceptions.Abort:
        return RunInterruptedError.exit_code
    except click.UsageError as error:
        raise _make_usage_error(error, name, arguments) from None


def _make_usage_error(error: click.UsageError, command_name: str, arguments: Sequence[str]) -> UsageError:
    """Create the error for invalid arguments. For a subcommand, it says how to send them as a prompt instead."""
    hint = f"see {error.ctx.command_path if error.ctx else 'ask'} --help"
    if command_name == "ask":
        hint += ", and -- ends the options"
    elif command_name != "chat" and not any(word.startswith("-") for word in arguments):
        import shlex

        hint += f"; to ask it as a question: ask -- {shlex.join(arguments)}"
    message, _, suggestion = error.format_message().rstrip(".").partition(". Did you mean ")
    return UsageError(f"{message} (did you mean {suggestion})" if suggestion else message, hint)


def find_command(arguments: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Find the command that the arguments call, and its arguments.

    For a prompt, the command is "ask". A prompt may begin with "help" or "version": these are commands only if a
    command name or nothing follows.
    """
    name, rest = (arguments[0], arguments[1:]) if arguments else ("", [])
    is_question = (name == "help" and rest[:1] != ["--help"] and load_command(rest) is None) or (
        name == "version" and list(rest) not in ([], ["--help"], ["-h"])
    )
    return (name, rest) if name in COMMANDS and not is_question else ("ask", arguments)


def load_command(names: Sequence[str]) -> click.Command | None:
    """Load a command by its names, such as ["history", "list"].

    Without names, load `ask` itself. Return None if there is no such command.
    """
    if names and names[0] not in COMMANDS:
        return None
    command: click.Command | None = importlib.import_module(f"ask.cli.{names[0] if names else 'ask'}").command
    for name in names[1:]:
        command = command.get_command(click.Context(command), name) if isinstance(command, click.Group) else None
    return command


def is_on_terminal() -> bool:
    """Check whether standard input and standard output are a terminal."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))
