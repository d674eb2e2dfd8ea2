"""Click classes, options and functions shared by the subcommands."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import click

from ask.cli.commands import CommandContext, find_options_with_value, join_short_options, read_all_help
from ask.console import StandardOutput, StderrConsole
from ask.errors import UsageError
from ask.text import decode_argument, format_one_line

MAX_SUMMARY_CHARACTERS = 200
JSON_OPTION = click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
YES_OPTION = click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
NO_BROWSER_OPTION = click.option(
    "--no-browser", is_flag=True, help="Print the URL, and ask for the one it redirects to."
)
TEXT = decode_argument
"""The type of arguments and options that are text in UTF-8, whatever the locale."""


class Subcommand(click.Command):
    """A command other than `ask` and `ask chat`."""

    context_class = CommandContext

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words = join_short_options(read_all_help(ctx, args), find_options_with_value(self.get_params(ctx)))
        try:
            return super().parse_args(ctx, words)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx  # Click leaves it out if an option lacks its value
            raise


class CommandGroup(click.Group):
    """A group of subcommands, shown in the order of their definition. "list" is run when none is given."""

    command_class = Subcommand
    context_class = CommandContext

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands with complete summaries; Click cuts them to one line."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, command.get_short_help_str(MAX_SUMMARY_CHARACTERS)) for name, command in self.commands.items()]
            )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names):
            args = ["list", *args]
        return super().parse_args(ctx, read_all_help(ctx, args))


def subcommand(name: str, params: Sequence[click.Parameter] = ()) -> Callable[[Callable[..., Any]], click.Command]:
    """Declare a subcommand that belongs to no group; `params` come before those of its decorators."""
    return click.command(name, cls=Subcommand, params=list(params))


def parse_whole_number(minimum: int, maximum: int = sys.maxsize) -> Callable[[str], int]:
    """Return a parser for an option whose value is a whole number in a range.

    Click's IntRange describes the range as a formula, in help and errors.
    """

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = minimum - 1
        if not minimum <= number <= maximum:
            bounds = f"of at least {minimum}" if maximum == sys.maxsize else f"from {minimum} to {maximum}"
            raise click.BadParameter(f"must be a whole number {bounds}, not {text!r}")
        return number

    return parse


def print_notice(text: str) -> None:
    """Print a line for the user to standard error."""
    StderrConsole(os.environ, quiet=False, plain=False).print_notice(format_one_line(text))


def print_text(text: str) -> None:
    """Print text to standard output, with a newline at its end."""
    StandardOutput().write(text.rstrip("\n") + "\n")


def require_confirmation(question: str, hint: str) -> None:
    """Ask for confirmation on the terminal.

    Raises:
        UsageError: there is no terminal to ask on.
        click.Abort: the answer is no.
    """
    from ask.safety.approval import confirm
    from ask.safety.tool_policy import NO_TERMINAL

    answer = confirm(question)
    if answer is None:
        raise UsageError(NO_TERMINAL, hint)
    if not answer:
        raise click.Abort
