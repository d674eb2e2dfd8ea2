"""`ask config`: show and change the settings in config.toml."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click

from ask.agent.app_context import AppContext
from ask.api_keys import format_variable_prefix
from ask.cli.editor import edit_file
from ask.cli.groups import JSON_OPTION, CommandGroup
from ask.config_file import UNSET, find_existing_key, find_value, update_config_file
from ask.console import StandardOutput, StderrConsole
from ask.errors import ConfigError, UsageError
from ask.inputs.model_options import DEDICATED_OPTIONS, parse_model_options
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
    "api": "the OpenAI API to use: responses or chat",
}


class EffectiveSetting(NamedTuple):
    """A setting with its value, and the variable or file that it is from."""

    key: str
    value: Any
    origin: str
    description: str = ""


def find_overriding_variable(app: AppContext, key: str) -> str:
    """Find the variable that overrides a key; return "" if none is set."""
    environment = app.environment
    table, _, name = key.partition(".")
    provider, _, name = name.rpartition(".")
    if key in ("provider", "model"):
        variable = f"ASK_{key.upper()}"
        return variable if environment.get(variable) else ""
    if key in SWITCH_VARIABLES:
        switch = read_switch(environment, SWITCH_VARIABLES[key])
        is_effective = switch or (switch is False and key != "safe.enabled")  # a variable cannot turn safe mode off
        return SWITCH_VARIABLES[key] if is_effective else ""
    variable = f"{format_variable_prefix(provider)}_BASE_URL"
    return variable if table == "providers" and name == "base_url" and environment.get(variable) else ""


def find_effective_setting(app: AppContext, key: str) -> EffectiveSetting:
    """Return the effective setting of a key in `CONFIG_KEYS`."""
    from ask.agent.model_selection import find_configured_model

    variable, description = find_overriding_variable(app, key), KEY_DESCRIPTIONS[key]
    value = find_value(app.config.values, tuple(key.split(".")))
    if variable:
        text: Any = app.environment[variable]
        return EffectiveSetting(
            key, read_switch(app.environment, variable) if key in SWITCH_VARIABLES else text, variable, description
        )
    if key == "model" and app.environment.get("ASK_PROVIDER"):  # the configured model may be for another provider
        value = find_configured_model(app, app.environment["ASK_PROVIDER"], is_provider_named=False) or UNSET
    if value is UNSET:
        return EffectiveSetting(key, to_toml_value(get_default_value(key)), DEFAULT_ORIGIN, description)
    return EffectiveSetting(key, value, CONFIG_FILE_ORIGIN, description)


def to_toml_value(default: Any) -> Any:
    """Convert a default to the type that config.toml uses."""
    if isinstance(default, frozenset | tuple):
        return sorted(default)
    return int(default) if isinstance(default, float) and default.is_integer() else default


def iter_effective_settings(app: AppContext) -> Iterator[EffectiveSetting]:
    """Yield all settings: `CONFIG_KEYS`, aliases, model parameters, providers."""
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
        for key in PROVIDER_KEYS:
            setting = find_provider_setting(app, name, key)
            if setting.value is not None:
                yield setting


def find_provider_setting(app: AppContext, provider_name: str, key_name: str) -> EffectiveSetting:
    """Return the effective setting of a provider's key."""
    key = f"providers.{provider_name}.{key_name}"
    variable, description = find_overriding_variable(app, key), PROVIDER_KEY_DESCRIPTIONS[key_name]
    if variable:
        return EffectiveSetting(key, app.environment[variable], variable, description)
    return EffectiveSetting(key, app.config.get_provider(provider_name).get(key_name), CONFIG_FILE_ORIGIN, description)


def print_change_warnings(app: AppContext, key: str, *, comments_kept: bool) -> None:
    """Print notices about surprising effects of a change to config.toml."""
    console = StderrConsole(app.environment, quiet=False, plain=False)
    if not comments_kept:
        console.print_line(f"ask: comments in {app.app_dirs.config_file} are lost")
    provider = app.config.get("provider")
    if key == "provider" and provider and provider not in app.provider_names:
        console.print_line(f"ask: there is no provider {provider!r} yet (ask providers lists them)")
    variable = find_overriding_variable(app, key)
    if variable:
        console.print_line(f"ask: ${variable} is set, and comes before config.toml")
    for warning in app.config.warnings:
        console.print_line(f"ask: {warning}")


API_KEY_PATTERN = re.compile(r"(?:keys\.|providers\.)?(.*?)[._-]?(?:ai_|api_?)?key|keys\.(.*)", re.IGNORECASE)
"""Keys that look like an API key; one of the groups is the provider."""


class ConfigKey(NamedTuple):
    """A key of config.toml, and the types that its value may have; () allows any."""

    parts: tuple[str, ...]
    types: tuple[type, ...] = ()

    @property
    def dotted_key(self) -> str:
        """The key as a user writes it."""
        return ".".join(self.parts)


def parse_key(dotted_key: str) -> ConfigKey:
    """Parse a dotted key.

    Raises:
        UsageError: there is no such key, or it looks like an API key.
    """
    if dotted_key in CONFIG_KEYS:
        types = CONFIG_KEYS[dotted_key]
        return ConfigKey(tuple(dotted_key.split(".")), types if isinstance(types, tuple) else (types,))
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
    """List the keys of a provider's table."""
    return [f"providers.{provider}.{name}" for name in PROVIDER_KEYS]


def reject_api_key(dotted_key: str) -> None:
    """Reject a key that looks like an API key.

    The error names the command that saves API keys.

    Raises:
        UsageError: the key looks like an API key.
    """
    match = API_KEY_PATTERN.fullmatch(dotted_key)
    if match:
        provider = (match[1] or match[2] or "").removeprefix("options.").lower() or "PROVIDER"
        raise UsageError("API keys are not kept in config.toml", f"ask keys set {provider}")


def parse_value(key: ConfigKey, text: str) -> Any:
    """Parse the value of a key.

    Raises:
        UsageError: the value has the wrong type or is out of range.
        ParameterError: a model parameter is out of range.
    """
    if key.parts[0] == "options":
        name = key.parts[1]
        if name in DEDICATED_OPTIONS:
            raise UsageError(f"{name} is no model parameter", f"use {DEDICATED_OPTIONS[name]}")
        value = parse_model_options([f"{name}={text}"])[name]
    else:
        value = next(
            (VALUE_PARSERS[value_type](text) for value_type in key.types if can_parse(VALUE_PARSERS[value_type], text)),
            text,
        )
    if has_null(value):
        raise UsageError("config.toml cannot hold null", "ask config unset takes a key out")
    try:
        check_config(Path(), nest_value(key.parts, value))
    except ConfigError as error:
        raise UsageError(error.message.partition(": ")[2], error.advice) from None
    return value


def has_null(value: Any) -> bool:
    """Check whether a value contains a null, which TOML cannot represent."""
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return value is None or any(map(has_null, children))


def nest_value(parts: tuple[str, ...], value: Any) -> dict[str, Any]:
    """Return a configuration with only this value."""
    for part in reversed(parts):
        value = {part: value}
    return dict(value)


def can_parse(parser: Callable[[str], Any], text: str) -> bool:
    """Check whether a parser accepts a text."""
    try:
        parser(text)
    except (ValueError, click.BadParameter, RecursionError):
        return False
    return True


def parse_list(text: str) -> list[Any]:
    """Parse the items of "a,b" or of a JSON array."""
    if text.lstrip().startswith("["):
        return list(json.loads(text))
    return [item.strip() for item in text.split(",") if item.strip()]


VALUE_PARSERS: dict[type, Callable[[str], Any]] = {
    str: str,
    int: int,
    float: float,
    bool: lambda text: click.BOOL.convert(text, None, None),
    list: parse_list,
}
"""Parsers for the values of each type."""


def format_value(dotted_key: str, value: Any) -> str:
    """Format a value so that `parse_value` accepts it.

    Strings and lists of simple strings are text, everything else is JSON.
    """
    if dotted_key.startswith("options."):
        is_text = isinstance(value, str) and not can_parse(json.loads, value)
    else:
        is_text = isinstance(value, str)
        if isinstance(value, list) and all(isinstance(item, str) and parse_list(item) == [item] for item in value):
            return ",".join(value)
    return str(value) if is_text else json.dumps(value, ensure_ascii=False)


@command.command("list", short_help="List every setting with its value, and where that is from.")
@JSON_OPTION
def list_command(*, as_json: bool) -> None:
    """List every setting with its value and where that is from: a variable, config.toml, or the default."""
    app = AppContext()
    for warning in app.config.warnings:
        StderrConsole(app.environment, quiet=False, plain=False).print_line(f"ask: {warning}")
    rows = [
        {
            "key": setting.key,
            "value": setting.value if as_json or setting.value is None else format_value(setting.key, setting.value),
            "from": setting.origin,
            "meaning": setting.description,
        }
        for setting in iter_effective_settings(app)
    ]
    write_table(StandardOutput(), rows, as_json=as_json)


@command.command("get", short_help="Print the value of a setting.")
@click.argument("key")
@click.option("--json", "as_json", is_flag=True, help="Print the value as JSON.")
def get_command(*, key: str, as_json: bool) -> None:
    """Print the value of KEY: the one that counts, from environment, config.toml or default.

    It is printed as `ask config set` takes it; a table such as providers.groq as JSON. Nothing set is exit code 4.
    """
    app, dotted_key = AppContext(), decode_argument(key)
    values = app.config.values
    parts = find_existing_key(values, dotted_key)
    if dotted_key in CONFIG_KEYS:
        value = find_effective_setting(app, dotted_key).value
    elif parts and not (len(parts) == 3 and parts[0] == "providers"):
        value = find_value(values, parts)
    else:
        parts = parse_key(dotted_key).parts
        value = find_provider_setting(app, *parts[1:]).value if parts[0] == "providers" else None
    if value is None or value == "":
        raise ConfigError(f"{dotted_key} is not set", "ask config list shows what is")
    StandardOutput().write(
        (json.dumps(value, ensure_ascii=False) if as_json else format_value(dotted_key, value)) + "\n"
    )


SET_CONTEXT_SETTINGS = {"ignore_unknown_options": True}
"""Lets a value begin with a dash."""


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
    app, config_key = AppContext(), parse_key(decode_argument(key))
    comments_kept = update_config_file(
        app.app_dirs.config_file, config_key.parts, parse_value(config_key, decode_argument(value))
    )
    print_change_warnings(app, config_key.dotted_key, comments_kept=comments_kept)


@command.command("unset", short_help="Take a setting out of config.toml.")
@click.argument("key")
def unset_command(*, key: str) -> None:
    """Take KEY out of config.toml: a setting, a table such as providers.groq, or what is misspelt there."""
    app, dotted_key = AppContext(), decode_argument(key)
    parts = find_existing_key(read_toml(app.app_dirs.config_file), dotted_key)
    if not parts:
        parse_key(dotted_key)
        raise ConfigError(
            f"{dotted_key} is not set in {app.app_dirs.config_file}", "ask config list shows where values are from"
        )
    comments_kept = update_config_file(app.app_dirs.config_file, parts, UNSET)
    print_change_warnings(app, dotted_key, comments_kept=comments_kept)


@command.command("path", short_help="Print where config.toml is.")
def path_command() -> None:
    """Print where config.toml is, or would be."""
    StandardOutput().write(f"{AppContext().app_dirs.config_file}\n")


NEW_CONFIG_TEXT = b"# The settings of ask: `ask config list` shows them all.\n"
"""Initial content of a new file in the editor."""


@command.command("edit", short_help="Change config.toml in your editor.")
def edit_command() -> None:
    """Change config.toml in the editor that VISUAL or EDITOR names.

    What you write takes its place once it is valid; as long as it is not, go on editing, or give it up.
    """
    app = AppContext()
    console = StderrConsole(app.environment, quiet=False, plain=False)
    edit_file(app.app_dirs.config_file, NEW_CONFIG_TEXT, lambda copy: read_config(copy).warnings, console)
