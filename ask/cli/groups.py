"""What the subcommands share: a strict reading of their words, and the options of those that list."""

from __future__ import annotations

import importlib
import keyword
import shlex
from collections.abc import Callable, Mapping
from typing import Any

import click

from ask.errors import UsageError

JSON_OPTION = click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")


class WordedCommand(click.Command):
    """Says, where its words make no sense, how to ask them as a question instead."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            raise misread(error, ctx, words) from None


class WordedGroup(click.Group):
    """Says, where its words make no sense, how to ask them as a question instead.

    Args:
        default: the subcommand that is meant where none is named; "" for none.
    """

    def __init__(self, *args: Any, default: str = "", **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self._default = default

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if self._default and (not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names)):
            args = [self._default, *args]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            raise misread(error, ctx, args) from None


class LazyGroup(WordedGroup):
    """A group whose subcommands are each `command` in a module of its own, loaded when it is called.

    Args:
        module: the package that the modules are in; one named like a keyword of Python ends in an underscore.
        summaries: what each subcommand does, by its name.
    """

    def __init__(self, *, module: str, summaries: Mapping[str, str], **attributes: Any) -> None:
        super().__init__(**attributes, context_settings={"help_option_names": ["-h", "--help"]})
        self._module, self._summaries = module, summaries

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._summaries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._summaries:
            return None
        name = f"{cmd_name}_" if keyword.iskeyword(cmd_name) else cmd_name
        command: click.Command = importlib.import_module(f"{self._module}.{name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(self._summaries.items()))


def misread(error: click.UsageError, ctx: click.Context, words: list[str]) -> UsageError:
    """The error for words that a subcommand cannot make sense of."""
    said = [*ctx.command_path.split()[1:], *words]
    reason = error.format_message().rstrip(".")
    question = "" if any(word.startswith("-") for word in words) else f"; as a question: ask -- {shlex.join(said)}"
    return UsageError(reason, f"see {ctx.command_path} --help{question}")


def listing(name: str) -> Callable[[Callable[..., Any]], click.Command]:
    """A subcommand of that name that prints a table."""
    return click.command(name, cls=WordedCommand, context_settings={"help_option_names": ["-h", "--help"]})
