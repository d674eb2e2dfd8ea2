"""`ask config`: show and change the settings in config.toml."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click

from ask.agent.app_context import AppContext
from ask.agent.model_selection import find_configured_model
from ask.api_keys import format_variable_prefix
from ask.cli.editor import edit_file
from ask.cli.groups import JSON_OPTION, CommandGroup
from ask.config_file import UNSET, find_existing_key, find_value, update_config_file
from ask.console import StandardOutput, StderrConsole
from ask.errors import ConfigError, UsageError
from ask.inputs.text import DEDICATED_OPTIONS, parse_model_options
from ask.render.table import write_table
from ask.settings import (
    CONFIG_KEYS,
    KEY_DESCRIPTIONS,
    PROVIDER_KEYS,
    SWITCH_VARIABLES,
    check_config,
    format_unknown_key,
    get_default_value,
    read_config,
    read_switch,
    read_toml,
)
from ask.text import decode_argument


@click.group("config", cls=CommandGroup, default="list")
def command() -> None:
    """See and change the settings in config.toml. Without a command it lists them."""


CONFIG_FILE_ORIGIN, DEFAULT_ORIGIN = "config.toml", "default"
PROVIDER_KEY_DESCRIPTIONS = {
    "base_url": "where its requests go",
    "key_env": "the environment variable that holds its key",
    "model": "the model to ask where none is named",
}


class EffectiveSetting(NamedTuple):
    """A setting's value, None for none, and where it is from: a variable, config.toml, or the default."""

    key: str
    value: Any
    origin: str
    description: str = ""


def find_overriding_variable(app: AppContext, key: str) -> str:
    """The environment variable that is set and comes before config.toml for a key; "" for none."""
    environment = app.environment
    table, _, name = key.partition(".")
    provider, _, name = name.rpartition(".")
    if key in ("provider", "model"):
        variable = f"ASK_{key.upper()}"
        return variable if environment.get(variable) else ""
    if key in SWITCH_VARIABLES:
        switched = read_switch(environment, SWITCH_VARIABLES[key])
        counts = switched or (switched is False and key != "safe.enabled")  # nothing switches safe mode off
        return SWITCH_VARIABLES[key] if counts else ""
    variable = f"{format_variable_prefix(provider)}_BASE_URL"
    return variable if table == "providers" and name == "base_url" and environment.get(variable) else ""


def find_effective_setting(app: AppContext, key: str) -> EffectiveSetting:
    """A setting of `KEYS` as a run would find it."""
    variable, meaning = find_overriding_variable(app, key), KEY_DESCRIPTIONS[key]
    value = find_value(app.config.values, tuple(key.split(".")))
    if variable:
        read: Any = app.environment[variable]
        return EffectiveSetting(
            key, read_switch(app.environment, variable) if key in SWITCH_VARIABLES else read, variable, meaning
        )
    if key == "model" and app.environment.get("ASK_PROVIDER"):  # for which it need not be
        value = find_configured_model(app, app.environment["ASK_PROVIDER"], is_provider_named=False) or UNSET
    if value is UNSET:
        return EffectiveSetting(key, to_toml_value(get_default_value(key)), DEFAULT_ORIGIN, meaning)
    return EffectiveSetting(key, value, CONFIG_FILE_ORIGIN, meaning)


def to_toml_value(default: Any) -> Any:
    """A default as config.toml would have it."""
    if isinstance(default, frozenset | tuple):
        return sorted(default)
    return int(default) if isinstance(default, float) and default.is_integer() else default


def iter_effective_settings(app: AppContext) -> Iterator[EffectiveSetting]:
    """All settings: those that everybody has, then the user's aliases, model parameters and providers."""
    yield from (find_effective_setting(app, key) for key in CONFIG_KEYS)
    config = app.config
    yield from (
        EffectiveSetting(f"aliases.{name}", value, CONFIG_FILE_ORIGIN, "what -m takes for it")
        for name, value in config.aliases.items()
    )
    yield from (
        EffectiveSetting(f"options.{name}", value, CONFIG_FILE_ORIGIN, "model parameter")
        for name, value in config.options.items()
    )
    for name in sorted({*app.provider_names, *config.providers}):
        for part in PROVIDER_KEYS:
            setting = find_provider_setting(app, name, part)
            if setting.value is not None:
                yield setting


def find_provider_setting(app: AppContext, provider_name: str, key_name: str) -> EffectiveSetting:
    """What is set for a provider."""
    key = f"providers.{provider_name}.{key_name}"
    variable, meaning = find_overriding_variable(app, key), PROVIDER_KEY_DESCRIPTIONS[key_name]
    if variable:
        return EffectiveSetting(key, app.environment[variable], variable, meaning)
    return EffectiveSetting(key, app.config.get_provider(provider_name).get(key_name), CONFIG_FILE_ORIGIN, meaning)


def print_change_warnings(app: AppContext, key: str, *, comments_kept: bool) -> None:
    """Say on standard error what a user may not expect after config.toml was changed."""
    console = StderrConsole(app.environment, quiet=False, plain=False)
    if not comments_kept:
        console.print_line(f"ask: comments in {app.config_file} are lost")
    named = app.config.get("provider")
    if key == "provider" and named and named not in app.provider_names:
        console.print_line(f"ask: there is no provider {named!r} yet (ask providers lists them)")
    variable = find_overriding_variable(app, key)
    if variable:
        console.print_line(f"ask: ${variable} is set, and comes before config.toml")
    for warning in app.config.warnings:
        console.print_line(f"ask: {warning}")


API_KEY_PATTERN = re.compile(r"(?:keys\.|providers\.)?(.*?)[._-]?(?:ai_|api_?)?key|keys\.(.*)", re.IGNORECASE)
"""Words that mean an API key, of the provider in the one group or the other."""


class ConfigKey(NamedTuple):
    """A key of config.toml: the names on the way to it, and the types that its value may have, () for any."""

    parts: tuple[str, ...]
    types: tuple[type, ...] = ()

    @property
    def dotted_key(self) -> str:
        """The key as a user writes it."""
        return ".".join(self.parts)


def parse_key(dotted_key: str) -> ConfigKey:
    """The key that a word means.

    Raises:
        UsageError: there is no such key, or it means an API key.
    """
    if dotted_key in CONFIG_KEYS:
        kind = CONFIG_KEYS[dotted_key]
        return ConfigKey(tuple(dotted_key.split(".")), kind if isinstance(kind, tuple) else (kind,))
    table, _, name = dotted_key.partition(".")
    if table == "aliases" and name:
        return ConfigKey((table, name), (str,))
    reject_api_key(dotted_key)
    if table == "options" and name:
        if "." in name:
            raise UsageError(
                f"{dotted_key} is within a value", f"set the whole of options.{name.split('.')[0]}, as JSON"
            )
        return ConfigKey((table, name))
    if table == "providers":
        provider, _, name = name.rpartition(".")
        if provider and name in PROVIDER_KEYS:
            return ConfigKey((table, provider, name), (str,))
        raise UsageError(
            format_unknown_key(dotted_key, list_provider_keys(provider or name)), "ask config list shows all"
        )
    raise UsageError(
        format_unknown_key(dotted_key, [*CONFIG_KEYS, "options.", "aliases."]), "ask config list shows all"
    )


def list_provider_keys(provider: str) -> list[str]:
    """The keys that a provider's table may hold."""
    return [f"providers.{provider}.{name}" for name in PROVIDER_KEYS]


def reject_api_key(dotted_key: str) -> None:
    """Point to where API keys are kept.

    Raises:
        UsageError: the word means one.
    """
    match = API_KEY_PATTERN.fullmatch(dotted_key)
    if match:
        provider = (match[1] or match[2] or "").removeprefix("options.").lower() or "PROVIDER"
        raise UsageError("API keys are not kept in config.toml", f"ask keys set {provider}")


def parse_value(key: ConfigKey, text: str) -> Any:
    """The value that a word is for a key.

    Raises:
        UsageError: of the wrong type or out of range.
        ParameterError: a model parameter out of its range.
    """
    if key.parts[0] == "options":
        name = key.parts[1]
        if name in DEDICATED_OPTIONS:
            raise UsageError(f"{name} is no model parameter", f"use {DEDICATED_OPTIONS[name]}")
        value = parse_model_options([f"{name}={text}"])[name]
    else:
        value = next((VALUE_PARSERS[kind](text) for kind in key.types if can_parse(VALUE_PARSERS[kind], text)), text)
    if has_null(value):
        raise UsageError("config.toml cannot hold null", "ask config unset takes a key out")
    try:
        check_config(Path(), nest_value(key.parts, value))
    except ConfigError as error:
        raise UsageError(error.message.partition(": ")[2], error.advice) from None
    return value


def has_null(value: Any) -> bool:
    """Whether there is a null in a value, for which TOML has no word."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return value is None or any(map(has_null, inner))


def nest_value(parts: tuple[str, ...], value: Any) -> dict[str, Any]:
    """A configuration that holds nothing but this value."""
    for part in reversed(parts):
        value = {part: value}
    return dict(value)


def can_parse(parser: Callable[[str], Any], text: str) -> bool:
    """Whether a reader can read the text."""
    try:
        parser(text)
    except (ValueError, click.BadParameter, RecursionError):
        return False
    return True


def parse_list(text: str) -> list[Any]:
    """The names in "a,b", or in a JSON array."""
    if text.lstrip().startswith("["):
        return list(json.loads(text))
    return [name.strip() for name in text.split(",") if name.strip()]


VALUE_PARSERS: dict[type, Callable[[str], Any]] = {
    str: str,
    int: int,
    float: float,
    bool: lambda text: click.BOOL.convert(text, None, None),
    list: parse_list,
}
"""What makes a value of each type from a word."""


def format_value(dotted_key: str, value: Any) -> str:
    """A value as a word that `parse_value` takes: text and lists of names as they are, all else as JSON."""
    if dotted_key.startswith("options."):
        plain = isinstance(value, str) and not can_parse(json.loads, value)
    else:
        plain = isinstance(value, str)
        if isinstance(value, list) and all(isinstance(name, str) and parse_list(name) == [name] for name in value):
            return ",".join(value)
    return str(value) if plain else json.dumps(value, ensure_ascii=False)


@command.command("list", short_help="List every setting with its value, and where that is from.")
@JSON_OPTION
def list_command(*, as_json: bool) -> None:
    """List every setting with its value and where that is from: a variable, config.toml, or the default."""
    workspace = AppContext()
    for warning in workspace.config.warnings:
        StderrConsole(workspace.environment, quiet=False, plain=False).print_line(f"ask: {warning}")
    rows = [
        {
            "key": setting.key,
            "value": setting.value if as_json or setting.value is None else format_value(setting.key, setting.value),
            "from": setting.origin,
            "meaning": setting.description,
        }
        for setting in iter_effective_settings(workspace)
    ]
    write_table(StandardOutput(), rows, as_json=as_json)


@command.command("get", short_help="Print the value of a setting.")
@click.argument("key")
@click.option("--json", "as_json", is_flag=True, help="Print the value as JSON.")
def get_command(*, key: str, as_json: bool) -> None:
    """Print the value of KEY: the one that counts, from environment, config.toml or default.

    It is printed as `ask config set` takes it; a table such as providers.groq as JSON. Nothing set is exit code 4.
    """
    workspace, word = AppContext(), decode_argument(key)
    values = workspace.config.values
    written = find_existing_key(values, word)
    if word in CONFIG_KEYS:
        value = find_effective_setting(workspace, word).value
    elif written and not (len(written) == 3 and written[0] == "providers"):
        value = find_value(values, written)
    else:
        parts = parse_key(word).parts
        value = find_provider_setting(workspace, *parts[1:]).value if parts[0] == "providers" else None
    if value is None or value == "":
        raise ConfigError(f"{word} is not set", "ask config list shows what is")
    StandardOutput().write((json.dumps(value, ensure_ascii=False) if as_json else format_value(word, value)) + "\n")


SET_CONTEXT_SETTINGS = {"ignore_unknown_options": True}
"""A value may begin with a dash."""


@command.command("set", short_help="Set a setting in config.toml.", context_settings=SET_CONTEXT_SETTINGS)
@click.argument("key")
@click.argument("value")
def set_command(*, key: str, value: str) -> None:
    """Set KEY to VALUE in config.toml. Lists are written a,b; model parameters may be JSON.

    \b
    ask config set provider openrouter
    ask config set tools.disabled bash,fetch_url
    ask config set options.temperature 0.2
    ask config set aliases.fast openrouter:vendor/model
    """
    workspace, found = AppContext(), parse_key(decode_argument(key))
    kept = update_config_file(workspace.config_file, found.parts, parse_value(found, decode_argument(value)))
    print_change_warnings(workspace, found.dotted_key, comments_kept=kept)


@command.command("unset", short_help="Take a setting out of config.toml.")
@click.argument("key")
def unset_command(*, key: str) -> None:
    """Take KEY out of config.toml: a setting, a table such as providers.groq, or what is misspelt there."""
    workspace, word = AppContext(), decode_argument(key)
    parts = find_existing_key(read_toml(workspace.config_file), word)
    if not parts:
        parse_key(word)
        raise ConfigError(
            f"{word} is not set in {workspace.config_file}", "ask config list shows where values are from"
        )
    kept = update_config_file(workspace.config_file, parts, UNSET)
    print_change_warnings(workspace, word, comments_kept=kept)


@command.command("path", short_help="Print where config.toml is.")
def path_command() -> None:
    """Print where config.toml is, or would be."""
    StandardOutput().write(f"{AppContext().config_file}\n")


NEW_CONFIG_TEXT = b"# The settings of ask: `ask config list` shows them all.\n"
"""What the editor shows where there is no file yet."""


@command.command("edit", short_help="Change config.toml in your editor.")
def edit_command() -> None:
    """Change config.toml in the editor that VISUAL or EDITOR names.

    What you write takes its place once it is valid; as long as it is not, go on editing, or give it up.
    """
    workspace = AppContext()
    console = StderrConsole(workspace.environment, quiet=False, plain=False)
    edit_file(workspace.config_file, NEW_CONFIG_TEXT, lambda copy: read_config(copy).warnings, console)
