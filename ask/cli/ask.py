"""The `ask` command and its options; `ask.cli.run` runs the prompt, and is imported after the options are parsed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from ask.cli import COMMANDS, is_on_terminal
from ask.cli.argument_parsing import OptionNames, parse_command_line, parse_dollars, parse_seconds
from ask.errors import RunInterruptedError, UsageError
from ask.version import VERSION

TYPO_SIMILARITY = 0.8
"""Minimum similarity of a word to a command to count as a typo: "hello" is not "help"."""
MAX_LISTED_FILES = 4
"""Maximum number of files that an error lists."""


class AskCommand(click.Command):
    """Separates the options from the prompt before Click parses the options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        flags = {name for option in options if option.is_flag for name in option.opts}
        valued = {name for option in options if not option.is_flag for name in option.opts}
        parsed = parse_command_line(args, OptionNames(flags, valued))
        rest = super().parse_args(ctx, list(parsed.options))
        with_files = ctx.params["files"] or parsed.misplaced_option.startswith(("-f", "--file"))
        if with_files and not parsed.explicit:
            check_no_stray_files(ctx.params["files"], parsed.words)
        if ctx.params["as_json"] and ctx.params["as_events"]:
            raise UsageError("--json and --events are different outputs", "use one of them")
        if parsed.misplaced_option:
            option = parsed.misplaced_option
            hint = f"put options first, or quote the question; to ask about {option}, put -- before the question"
            raise UsageError(f"{option} is among the words of the question", hint)
        ctx.meta["ask.words"], ctx.meta["ask.literal_options"] = parsed.words, parsed.literal_options
        ctx.meta["ask.explicit"] = parsed.explicit
        return rest

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return ["[OPTIONS]", "[PROMPT]..."]

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))
        formatter.write_paragraph()
        formatter.write_text("Options come first, or after a question in quotes. -- ends the options.")


def find_mistyped_command(words: Sequence[str]) -> str:
    """Find the command that a prompt nearly names; return "" if there is none.

    Only a prompt of one word, or of "help" and one word, is checked.
    """
    from ask.suggestions import find_misspelled

    *before, word = words or ("",)
    if before not in ([], ["help"]):
        return ""
    similar_command = find_misspelled(word.lower(), COMMANDS, TYPO_SIMILARITY)
    return " ".join(("ask", *before, similar_command)) if similar_command else ""


def check_no_stray_files(files: Sequence[str], words: Sequence[str]) -> None:
    """Reject a prompt with file names, from a pattern that the shell has expanded.

    `-f *.txt` becomes `-f a.txt b.txt c.txt`, and -f only takes the first file.

    Raises:
        UsageError: a word of the prompt is a file.
    """
    from os.path import exists, isfile
    from shlex import join, quote

    stray_files = [
        word
        for position, word in enumerate(words)
        if not word.startswith("-") and (isfile(word) or (exists(word) and (position == 0 or "/" in word)))
    ]
    if not stray_files:
        return
    options = [f"-f {quote(file)}" for file in (*files, *stray_files)]
    suggestion = " ".join(options if len(options) <= MAX_LISTED_FILES else [*options[:MAX_LISTED_FILES], "..."])
    question = " ".join(word for word in words if word not in stray_files and not word.startswith("-")) or "QUESTION"
    raise UsageError(
        f"{join(stray_files[:1])} is a file, and a word of the question",
        f"write ask {suggestion} {quote(question)}, or quote the pattern: -f '*.txt'",
    )


def parse_comma_list(_: click.Context, __: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """Split values such as "a,b" at commas."""
    return tuple(name.strip() for part in value for name in part.split(",") if name.strip())


@click.command("ask", cls=AskCommand, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("-p", "--provider", metavar="NAME", help="Ask this provider (ask providers lists them).")
@click.option("-m", "--model", metavar="NAME", help="Ask this model; without -p also as provider:model.")
@click.option("--base-url", metavar="URL", help="Reach the provider at this address.")
@click.option("--key", metavar="KEY", help="Use this API key.")
@click.option("-s", "--system", metavar="TEXT", help="Add to the system prompt; @file reads a file.")
@click.option("-f", "--file", "files", metavar="PATH", multiple=True, help="Add a file, folder, image, PDF or URL.")
@click.option("-o", "--option", "options", metavar="KEY=VALUE", multiple=True, help="Set a model parameter.")
@click.option("-t", "--template", metavar="NAME", help="Ask with this named prompt, or NAME:TASK (ask prompts list).")
@click.option("--var", "variables", metavar="K=V", multiple=True, help="With -t: fill in a {{placeholder}}.")
@click.option("-c", "--continue", "go_on", is_flag=True, help="Go on with this terminal's newest conversation.")
@click.option("--resume", metavar="ID", help="Go on with this conversation (ask history list).")
@click.option("--compact", is_flag=True, help="With -c or --resume: first replace what is old by a summary.")
@click.option("--no-save", is_flag=True, help="Keep neither the conversation nor what files held before.")
@click.option("--no-tools", is_flag=True, help="Let the model call no tools.")
@click.option("--disable-tool", metavar="A,B", multiple=True, callback=parse_comma_list, help="Leave these tools out.")
@click.option("--tool", "functions", metavar="FILE:FUNCTION", multiple=True, help="Offer this Python function too.")
@click.option("--max-rounds", metavar="N", type=click.IntRange(1), help="Allow N rounds of tool calls (10).")
@click.option("--max-cost", metavar="USD", type=parse_dollars, help="Allow no more rounds once this is spent.")
@click.option("--command-timeout", metavar="S", type=parse_seconds, help="Stop a command after S s (30).")
@click.option("--confirm", is_flag=True, help="Ask before every call that runs or writes.")
@click.option("-y", "--yes", is_flag=True, help="Answer yes to what --confirm asks.")
@click.option("--safe", is_flag=True, help="Confine what tools can do to this folder, without network.")
@click.option("--allow-dir", "allow_dirs", metavar="DIR", multiple=True, help="With --safe: also write this folder.")
@click.option("--allow-host", "allow_hosts", metavar="HOST", multiple=True, help="With --safe: fetch from this host.")
@click.option("--allow-tool", "allow_tools", metavar="NAME", multiple=True, help="With --safe: offer this tool too.")
@click.option("--cmd", is_flag=True, help="Answer with one shell command; on a terminal, offer to run it.")
@click.option("--code", is_flag=True, help="Answer with code alone.")
@click.option("--schema", metavar="S", help="Answer with JSON that fits: a JSON Schema, its file, or name, age int.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object when done.")
@click.option("--events", "as_events", is_flag=True, help="Print events as JSON lines.")
@click.option("--no-stream", is_flag=True, help="Print the answer when it is whole.")
@click.option("--plain", is_flag=True, help="No colour.")
@click.option("-q", "--quiet", is_flag=True, help="Nothing on standard error but the error that ends the run.")
@click.option("-v", "--verbose", is_flag=True, help="Show tool results, reasoning and what was used.")
@click.option("--no-stdin", is_flag=True, help="Do not read standard input.")
@click.option("--timeout", metavar="S", type=parse_seconds, help="Give up when the answer has not grown for S s (300).")
@click.version_option(VERSION, "-V", "--version", message="ask %(version)s")
@click.pass_context
def command(ctx: click.Context, /, **flags: Any) -> int:
    """Ask a language model. It may run tools here, in this folder, to find the answer.

    \b
    ask why is the sky blue
    make 2>&1 | ask "what broke?"
    ask -p demo "which files are here?"
    """
    from ask.cli.run import run_prompt
    from ask.text import format_one_line

    words = ctx.meta["ask.words"]
    if is_on_terminal() and not ctx.meta["ask.explicit"] and (similar := find_mistyped_command(words)):
        text = format_one_line(" ".join(words))
        question = f"ask: {text!r} is not a command; did you mean {similar!r}? Send it as a question?"
        from ask.safety.approval import confirm

        if not confirm(question):
            return RunInterruptedError.exit_code
    return run_prompt(flags, ctx.meta["ask.words"], ctx.meta["ask.literal_options"])
