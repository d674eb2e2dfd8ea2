"""What the listing subcommands share: a strict reading of their words, and the table at the end."""

from __future__ import annotations

import shlex
from collections.abc import Callable
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


def misread(error: click.UsageError, ctx: click.Context, words: list[str]) -> UsageError:
    """The error for words that a subcommand cannot make sense of."""
    said = [*ctx.command_path.split()[1:], *words]
    reason = error.format_message().rstrip(".")
    question = "" if any(word.startswith("-") for word in words) else f"; as a question: ask -- {shlex.join(said)}"
    return UsageError(reason, f"see {ctx.command_path} --help{question}")


def listing(name: str) -> Callable[[Callable[..., Any]], click.Command]:
    """A subcommand of that name that prints a table."""
    return click.command(name, cls=WordedCommand, context_settings={"help_option_names": ["-h", "--help"]})
