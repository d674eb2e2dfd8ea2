"""The command line as the code defines it: commands, options, exit codes, variables and configuration keys.

Read from the code each time, so that a new command or option is included automatically. `tests.manual` formats it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeGuard

import click

from ask.cli.ask import command as ask_command
from ask.cli.commands import COMMANDS
from ask.config import config_file, settings
from tests.doc_pages import read_table

DOCS = Path(__file__).parents[1] / "docs"
CONFIGURATION = (DOCS / "configuration.md").read_text()

TABLES = dict(re.findall(r"^\[([a-z]+)(?:\.\w+)?\] +# (.+)$", CONFIGURATION, re.MULTILINE)[::-1])
"""The tables of config.toml with names chosen by the user, and their description in docs/configuration.md."""


class OptionReference(NamedTuple):
    """An option: "-p, --provider", its metavar ("" for a flag) and its help."""

    names: str
    value: str
    help: str


class CommandReference(NamedTuple):
    """A command.

    Attributes:
        name: As typed: "ask history list".
        arguments: What follows it in its usage line: "[OPTIONS] [ID]".
        paragraphs: Its help; a paragraph that begins with "\\b\
    " keeps its line breaks.
        options: All options of `ask`; of the subcommands all except --help, which every command has.
    """

    name: str
    arguments: str
    paragraphs: Sequence[str]
    options: Sequence[OptionReference]


class ConfigKeyReference(NamedTuple):
    """A key of config.toml; `kind` and `default` are formatted for readers."""

    name: str
    kind: str
    default: str
    meaning: str


def describe_ask() -> CommandReference:
    return describe_command("ask", ask_command, None)


def list_subcommands() -> Iterator[CommandReference]:
    """Return all visible subcommands, each group followed by its own."""
    for name in COMMANDS:
        command: click.Command = import_module(f"ask.cli.{name.replace('-', '_')}").command
        yield from describe_with_subcommands(name, command, click.Context(ask_command, info_name="ask"))


def describe_with_subcommands(name: str, command: click.Command, parent: click.Context) -> Iterator[CommandReference]:
    if command.hidden:
        return
    yield describe_command(name, command, parent)
    if isinstance(command, click.Group):
        with command.context_class(command, info_name=name, parent=parent) as context:
            for below in command.list_commands(context):
                found = command.get_command(context, below)
                assert found, f"{name} lists {below}, and has no such command"
                yield from describe_with_subcommands(below, found, context)


def describe_command(name: str, command: click.Command, parent: click.Context | None) -> CommandReference:
    with command.context_class(command, info_name=name, parent=parent) as context:
        text = inspect.cleandoc(command.help or "").partition("\f")[0]
        paragraphs = [paragraph.strip() for paragraph in re.split(r"\n\s*\n", text) if paragraph.strip()]
        options = [
            read_option(option, context) for option in command.get_params(context) if is_documented_option(option)
        ]
        own = [option for option in options if "--help" not in option.names]
        pieces = [piece for piece in command.collect_usage_pieces(context) if own or piece != "[OPTIONS]"]
        return CommandReference(context.command_path, " ".join(pieces), paragraphs, options if parent is None else own)


def is_documented_option(parameter: click.Parameter) -> TypeGuard[click.Option]:
    return isinstance(parameter, click.Option) and not parameter.hidden


def read_option(option: click.Option, context: click.Context) -> OptionReference:
    """Parse an option from its record in Click's help: "-p, --provider NAME" and a description."""
    names, text = option.get_help_record(context) or ("", "")
    spelt = re.fullmatch(r"((?:--?[\w-]+(?:, | / )?)+)(?: (.*))?", names.strip())
    assert spelt, names
    return OptionReference(spelt[1], spelt[2] or "", re.sub(r"\s+", " ", text))


def read_exit_codes() -> list[tuple[str, str]]:
    """Read exit codes and their meaning from docs/scripts.md; a test compares them with the code."""
    return list(read_table((DOCS / "scripts.md").read_text(), "code").items())


def read_variables() -> list[tuple[str, str]]:
    """Read environment variables and their meaning from docs/configuration.md; a test compares them with the code."""
    return list(read_table(CONFIGURATION, "variable").items())


def list_config_keys() -> list[ConfigKeyReference]:
    """Return the keys of config.toml, tables with names chosen by the user last."""
    fixed = [
        ConfigKeyReference(
            name, format_type(setting.type), format_default(settings.get_default_value(name)), setting.description
        )
        for name, setting in settings.SETTINGS.items()
    ]
    sections = {name.partition(".")[0] for name in settings.SETTINGS if "." in name}
    return [
        *fixed,
        *(
            ConfigKeyReference(name, "table", "", TABLES.get(name, ""))
            for name in config_file.CONFIG_TABLES
            if name not in sections
        ),
    ]


def format_type(kind: type) -> str:
    """Name a Python type in the terms of TOML."""
    words = {
        str: "text",
        Literal: "text",
        bool: "true or false",
        int: "whole number",
        float: "number",
        list: "list of texts",
    }
    return words[settings.get_kind(kind)]


def format_default(value: Any) -> str:
    """Format a default as in config.toml; "" for none."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value:
        return f"{value:g}"
    return str(value) if value else ""
