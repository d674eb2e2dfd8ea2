"""The `ask chat` command and its options, which are those of `ask`."""

from __future__ import annotations

from typing import Any

import click

from ask.cli.ask import AskCommand, create_run_options
from ask.cli.ask import command as ask_command

EXCLUDED_OPTIONS = frozenset({"cmd", "code", "extract", "input_events", "no_stdin", "schema", "decide", "version"})
"""Parameter names of the `ask` options that make no sense in a chat."""


class ChatCommand(AskCommand):
    """Accepts the options of `ask` and lists the slash commands in its help."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from ask.cli.chat.commands import list_usages

        with formatter.section("In the chat"):
            formatter.write_dl(list_usages())
        formatter.write_paragraph()
        formatter.write_text("Alt-Enter starts a new line, Tab completes, Ctrl-C stops an answer, Ctrl-D quits.")


@click.command(
    "chat",
    cls=ChatCommand,
    params=[param for param in ask_command.params if param.name not in EXCLUDED_OPTIONS],
)
def command(**flags: Any) -> int:
    """Chat with a language model. The conversation is saved while it happens.

    PROMPT is the first message. If standard input is not a terminal, each of its lines is a message. Continue the
    conversation later with ask -c or ask chat -c.
    """
    from ask.cli.chat.loop import run_chat

    return run_chat(create_run_options(flags, no_stdin=True))
