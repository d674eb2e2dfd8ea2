"""Click classes, options and functions shared by the subcommands."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from ask.cli.help_format import format_help
from ask.console import StandardOutput, StderrConsole
from ask.errors import UsageError
from ask.messages import EMPTY_MAPPING
from ask.text import format_one_line

MAX_SUMMARY = 200
HELP_OPTIONS = {"help_option_names": ["-h", "--help"]}
JSON_OPTION = click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")


class PromptHintCommand(click.Command):
    """A subcommand whose usage errors say how to send the arguments as a prompt instead."""

    get_help = format_help

    def __init__(self, name: str, *, context_settings: Mapping[str, Any] = EMPTY_MAPPING, **attributes: Any) -> None:
        super().__init__(name, context_settings={**HELP_OPTIONS, **context_settings}, **attributes)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        arguments = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            raise make_usage_error(error, ctx, arguments) from None


class CommandGroup(click.Group):
    """A group of subcommands, shown in the order of their definition. "list" is run when none is given."""

    command_class = PromptHintCommand
    get_help = format_help

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, context_settings=dict(HELP_OPTIONS), **attributes)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands with complete summaries; Click cuts them to one line."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, command.get_short_help_str(MAX_SUMMARY)) for name, command in self.commands.items()]
            )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names):
            args = ["list", *args]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            raise make_usage_error(error, ctx, args) from None


def make_usage_error(error: click.UsageError, ctx: click.Context, arguments: list[str]) -> UsageError:
    """Create the error for invalid arguments of a subcommand."""
    words = [*ctx.command_path.split()[1:], *arguments]
    hint = f"see {ctx.command_path} --help"
    if not any(word.startswith("-") for word in arguments):
        hint += f"; to ask it as a question: ask -- {shlex.join(words)}"
    return UsageError(error.format_message().rstrip("."), hint)


def subcommand(name: str, params: Sequence[click.Parameter] = ()) -> Callable[[Callable[..., Any]], click.Command]:
    """Declare a subcommand that belongs to no group; `params` come before those of its decorators."""
    return click.command(name, cls=PromptHintCommand, params=list(params))


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

    answer = confirm(question)
    if answer is None:
        raise UsageError("no terminal to confirm on", hint)
    if not answer:
        raise click.Abort
