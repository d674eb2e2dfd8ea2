"""What the code says of its command line: commands with their options, exit codes, variables, configuration keys.

Read anew each time, so that a new command or option is there by itself. How it is shown is `manual_text`'s.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

import click

from ask import settings
from ask.cli import COMMANDS
from ask.cli.ask import command as ask_command
from tests.pages import table

README = (Path(__file__).parents[1] / "README.md").read_text()

TABLES = dict(re.findall(r"^\[([a-z]+)(?:\.\w+)?\] +# (.+)$", README, re.MULTILINE)[::-1])
"""The free tables of config.toml, and what the README tells of them, by the first one of a kind."""


class Option(NamedTuple):
    """An option: "-p, --provider", "NAME" ("" for a flag), and its help."""

    names: str
    value: str
    help: str


class Command(NamedTuple):
    """A command.

    Attributes:
        name: as typed: "ask history list".
        arguments: what stands behind it: "[OPTIONS] [ID]".
        paragraphs: its help; one that begins with "\\b\\n" keeps its lines.
        options: all of `ask` itself; of the others all but --help, which each has.
    """

    name: str
    arguments: str
    paragraphs: Sequence[str]
    options: Sequence[Option]


class Key(NamedTuple):
    """A key of config.toml; `kind` and `default` are words."""

    name: str
    kind: str
    default: str
    meaning: str


def ask() -> Command:
    """`ask` itself."""
    return described("ask", ask_command, None)


def subcommands() -> Iterator[Command]:
    """All subcommands, and behind each group what it consists of. Hidden ones are left out."""
    for name in COMMANDS:
        command: click.Command = import_module(f"ask.cli.{name.replace('-', '_')}").command
        yield from family(name, command, click.Context(ask_command, info_name="ask"))


def family(name: str, command: click.Command, parent: click.Context) -> Iterator[Command]:
    """A command, and all below it."""
    if command.hidden:
        return
    yield described(name, command, parent)
    if isinstance(command, click.Group):
        with click.Context(command, info_name=name, parent=parent, **command.context_settings) as context:
            for below in command.list_commands(context):
                found = command.get_command(context, below)
                assert found, f"{name} lists {below}, and has no such command"
                yield from family(below, found, context)


def described(name: str, command: click.Command, parent: click.Context | None) -> Command:
    """What Click knows of a command."""
    with click.Context(command, info_name=name, parent=parent, **command.context_settings) as context:
        text = inspect.cleandoc(command.help or "").partition("\f")[0]
        paragraphs = [paragraph.strip() for paragraph in re.split(r"\n\s*\n", text) if paragraph.strip()]
        options = [read_option(option, context) for option in command.get_params(context) if is_option(option)]
        own = [option for option in options if "--help" not in option.names]
        pieces = [piece for piece in command.collect_usage_pieces(context) if own or piece != "[OPTIONS]"]
        return Command(context.command_path, " ".join(pieces), paragraphs, options if parent is None else own)


def is_option(parameter: click.Parameter) -> TypeGuard[click.Option]:
    """Whether it is an option that the help shows."""
    return isinstance(parameter, click.Option) and not parameter.hidden


def read_option(option: click.Option, context: click.Context) -> Option:
    """An option from its record in Click's help: "-p, --provider NAME", and what it does."""
    names, text = option.get_help_record(context) or ("", "")
    spelt = re.fullmatch(r"((?:--?[\w-]+(?:, | / )?)+)(?: (.*))?", names.strip())
    assert spelt, names
    return Option(spelt[1], spelt[2] or "", re.sub(r"\s+", " ", text))


def exit_codes() -> list[tuple[str, str]]:
    """Each exit code, and when it is the one, as the README tells; a test compares that with the code."""
    return list(table(README, "code").items())


def variables() -> list[tuple[str, str]]:
    """The environment variables and what they mean, as the README tells; a test compares that with the code."""
    return list(table(README, "variable").items())


def keys() -> list[Key]:
    """The keys of config.toml, the free tables last."""
    fixed = [
        Key(name, kind_of(kind), shown(settings.get_default_value(name)), settings.KEY_DESCRIPTIONS[name])
        for name, kind in settings.CONFIG_KEYS.items()
    ]
    sections = {name.partition(".")[0] for name in settings.CONFIG_KEYS if "." in name}
    return [
        *fixed,
        *(Key(name, "table", "", TABLES.get(name, "")) for name in settings.CONFIG_TABLES if name not in sections),
    ]


def kind_of(kind: type | tuple[type, ...]) -> str:
    """A type in the words of TOML."""
    words = {str: "text", bool: "true or false", int: "whole number", float: "number", list: "list of texts"}
    return words[kind[-1] if isinstance(kind, tuple) else kind]


def shown(value: Any) -> str:
    """A default as config.toml would say it; "" for none."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value:
        return f"{value:g}"
    return str(value) if value else ""
