"""`ask config`: show and change the settings in config.toml."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from ask.app import AppContext
from ask.cli.click_helpers import JSON_OPTION, TEXT, CommandGroup, print_notice, print_text
from ask.cli.editor import edit_file
from ask.config.config_editor import UNSET, find_existing_key, find_value, set_value, update_config_file
from ask.config.config_file import (
    KNOWN_KEYS,
    PROVIDER_KEYS,
    BaseUrls,
    check_config,
    find_misspelled_options,
    read_config,
    read_toml,
)
from ask.config.key_store import format_variable_prefix
from ask.config.model_options import DEDICATED_OPTIONS, parse_model_options
from ask.config.precedence import read_switch
from ask.config.settings import SETTINGS, convert_to_seconds, get_default_value, get_kind
from ask.errors import ConfigError, UsageError
from ask.mcp.server_config import find_servers
from ask.records import NamedTuple
from ask.render.table import write_table
from ask.text import format_suggestion, format_unknown_key, mask_password


@click.group("config", cls=CommandGroup)
def command() -> None:
    """Show and change the settings in config.toml. Without a command, list them."""


CONFIG_FILE_ORIGIN, DEFAULT_ORIGIN = "config.toml", "default"
LIST_HINT = "ask config list shows all settings"


def _read_overriding_variable(app: AppContext, key: str) -> tuple[str, Any]:
    """Return the variable that overrides a key, and its value; ("", None) for none."""
    setting = SETTINGS.get(key)
    variable = setting.variable if setting else ""
    if setting and setting.type is bool:
        value: Any = read_switch(app.environment, variable)
        is_effective = value or (value is False and key != "safe.enabled")  # a variable cannot turn safe mode off
    else:
        if key.startswith("providers.") and key.endswith(".base_url"):
            variable = f"{format_variable_prefix(key[len('providers.') : -len('.base_url')])}_BASE_URL"
        value = is_effective = app.environment.get(variable)
    return (variable, value) if is_effective else ("", None)


def _find_effective_value(app: AppContext, parts: tuple[str, ...]) -> tuple[Any, str]:
    """Return the effective value at a key path, None if there is none, and the variable or file that it is from."""
    key = ".".join(parts)
    variable, value = _read_overriding_variable(app, key)
    if variable:
        return value, variable
    value = find_value(app.config.values, parts)
    if key == "model" and (provider := app.environment.get("ASK_PROVIDER")):
        from ask.agent.provider_selection import find_configured_model

        # The configured model may be for another provider.
        value = find_configured_model(app, provider, is_provider_named=False) or UNSET
    if value is not UNSET:
        return value, CONFIG_FILE_ORIGIN
    default = get_default_value(key) if key in SETTINGS else None
    if isinstance(default, frozenset | tuple):
        default = sorted(default)
    elif isinstance(default, float) and default.is_integer():
        default = int(default)
    return default, DEFAULT_ORIGIN


def _list_settings(app: AppContext) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the key paths of all settings with their descriptions: also aliases, model parameters and providers."""
    yield from ((tuple(key.split(".")), setting.description) for key, setting in SETTINGS.items())
    yield from ((("aliases", name), "the model that -m selects by this name") for name in app.config.aliases)
    yield from ((("options", name), "model parameter") for name in app.config.options)
    for name in sorted({*app.provider_names, *app.config.providers}):
        for key, setting in PROVIDER_KEYS.items():
            parts = ("providers", name, key)
            if _find_effective_value(app, parts)[0] is not None:
                yield parts, setting.description


def change_setting(app: AppContext, parts: tuple[str, ...], value: Any) -> None:
    """Set or remove a value in config.toml, and print a notice if its comments are lost.

    Raises:
        ConfigError: the file is invalid, before or after the change.
        FileError: the file cannot be written.
    """
    if not update_config_file(app.app_dirs.config_file, parts, value):
        print_notice(f"comments in {app.app_dirs.config_file} will be lost")


def _print_warnings(app: AppContext) -> None:
    for warning in (*app.config.warnings, *find_misspelled_options(app.config.options)):
        print_notice(warning)


def _print_change_notices(app: AppContext, key: str) -> None:
    """Print notices about surprising effects of a change to config.toml, or about what else is invalid in it."""
    try:
        provider = app.config.get("provider")
    except ConfigError as error:
        print_notice(str(error))
        return
    if key == "provider" and provider and not app.has_provider(provider):
        print_notice(f"there is no provider {provider!r} yet (see ask providers)")
    variable, _ = _read_overriding_variable(app, key)
    if variable:
        print_notice(f"${variable} is set and takes precedence over config.toml")
    _print_warnings(app)


API_KEY_PATTERN = re.compile(r"(?:keys\.|providers\.)?(.*?)[._-]?(?:ai_|api_?)?key|keys\.(.*)", re.IGNORECASE)
"""Keys that look like an API key; one of the groups is the provider."""
TABLE_PATTERN = re.compile(r"hooks(\..+)?|mcp\.servers(\..+)?|providers\.[^.]+\.models(\..+)?")
"""Keys that no command sets, in tables with parts that depend on each other."""
SERVER_KEYS = {"enabled": bool, "timeout": float, "tools": list, "disabled_tools": list, "cwd": str}
"""The keys of a table `[mcp.servers.NAME]` that can be changed alone, with their kinds."""


class ConfigKey(NamedTuple):
    """The path of a key in config.toml, and the type of its value; None for model parameters, which may have any."""

    parts: tuple[str, ...]
    type: Any


def parse_key(dotted_key: str) -> ConfigKey:
    """Parse a dotted key.

    Raises:
        UsageError: there is no such key, or it looks like an API key.
    """
    if dotted_key in SETTINGS:
        return ConfigKey(tuple(dotted_key.split(".")), SETTINGS[dotted_key].type)
    table, _, name = dotted_key.partition(".")
    if table == "aliases" and name:
        return ConfigKey((table, name), str)
    path, _, last = dotted_key.rpartition(".")
    if path.startswith("mcp.servers.") and last in SERVER_KEYS:
        return ConfigKey(("mcp", "servers", path.removeprefix("mcp.servers."), last), SERVER_KEYS[last])
    provider, separator, header = name.partition(".headers.")
    if table == "providers" and separator and provider and header:
        return ConfigKey((table, provider, "headers", header), str)
    _refuse_other_keys(dotted_key)
    if table == "options" and name:
        if "." in name:
            hint = f"set all of options.{name.split('.')[0]} as JSON"
            raise UsageError(f"{dotted_key} is part of a value", hint)
        return ConfigKey((table, name), None)
    if table != "providers":
        known_keys = [f"options.{name or 'NAME'}", f"aliases.{name or 'NAME'}", *KNOWN_KEYS]
        if name in PROVIDER_KEYS:
            known_keys.append(f"providers.{dotted_key}")
    else:
        provider, _, provider_key = name.rpartition(".")
        if provider and provider_key in PROVIDER_KEYS:
            return ConfigKey((table, provider, provider_key), PROVIDER_KEYS[provider_key].type)
        known_keys = [f"providers.{provider or provider_key}.{known_key}" for known_key in PROVIDER_KEYS]
    raise UsageError(format_unknown_key(dotted_key, known_keys), LIST_HINT)


def _refuse_other_keys(dotted_key: str) -> None:
    """Raise `UsageError` for a key that looks like an API key, or that only `ask config edit` changes."""
    if TABLE_PATTERN.fullmatch(dotted_key):
        raise UsageError(f"{dotted_key} can only be changed in an editor", "ask config edit opens config.toml")
    if match := API_KEY_PATTERN.fullmatch(dotted_key):
        provider = (match[1] or match[2] or "").removeprefix("options.").lower() or "PROVIDER"
        raise UsageError("API keys are not stored in config.toml", f"ask keys set {provider}")


def parse_value(key: ConfigKey, text: str) -> Any:
    """Parse the value of a key.

    Raises:
        UsageError: the value has the wrong type or is out of range.
        ParameterError: a model parameter is out of range.
    """
    if key.type == BaseUrls and re.match(r"(?i)(?!https?:|(?:http\+)?unix:)[\w+.-]+://", text):
        raise UsageError(f"{'.'.join(key.parts)} must be an http(s) address", "write it as https://HOST/PATH")
    if key.type is None:
        name = key.parts[1]
        if name in DEDICATED_OPTIONS:
            raise UsageError(f"{name} is not a model parameter", f"use {DEDICATED_OPTIONS[name]}")
        value = parse_model_options([f"{name}={text}"])[name]
    else:
        try:
            value = VALUE_PARSERS.get(get_kind(key.type), str)(text)
        except (ValueError, click.BadParameter, RecursionError):
            value = text  # check_config says what is expected
    values: dict[str, Any] = {}
    if key.parts[:2] == ("mcp", "servers"):
        set_value(values, (*key.parts[:-1], "command"), "true", {})  # a server without one is an error
    set_value(values, key.parts, value, {})
    import tomli_w

    try:
        tomli_w.dumps(values)
        check_config(Path(), values)
    except TypeError:
        raise UsageError("config.toml cannot contain null", "ask config unset removes a setting") from None
    except ConfigError as error:
        is_table = get_kind(key.type) is Mapping
        hint = f"ask config set {'.'.join(key.parts)}.NAME VALUE sets one" if is_table else error.hint
        raise UsageError(error.message.partition(": ")[2], hint) from None
    return convert_to_seconds(value) if get_kind(key.type) is float and isinstance(value, str) else value


def _parse_number(text: str) -> float:
    """Parse a number; one without a fraction is an int."""
    try:
        return int(text)
    except ValueError:
        return float(text)


def parse_list(text: str) -> list[Any]:
    """Parse the items of "a,b" or of a JSON array."""
    if text.lstrip().startswith("["):
        return list(json.loads(text))
    return [item.strip() for item in text.split(",") if item.strip()]


def _parse_base_urls(text: str) -> str | list[str]:
    """Parse one URL, or several in a list. A URL may contain a comma."""
    urls = parse_list(text)
    is_list = text.lstrip().startswith("[") or len(urls) > 1
    return urls if urls and is_list and all("://" in str(url) for url in urls) else text


VALUE_PARSERS: dict[Any, Callable[[str], Any]] = {
    Mapping: json.loads,
    BaseUrls: _parse_base_urls,
    int: int,
    float: _parse_number,
    bool: lambda text: click.BOOL.convert(text, None, None),
    list: parse_list,
}
"""Parsers for the values of each kind; those of others are text."""


def format_value(dotted_key: str, value: Any) -> str:
    """Format a value so that `parse_value` accepts it.

    Strings and lists of simple strings are text, everything else is JSON.
    """
    is_parameter = dotted_key.startswith("options.")
    if isinstance(value, list) and not (is_parameter or (len(value) == 1 and dotted_key.endswith(".base_url"))):
        # Only items that `parse_list` reads back unchanged.
        if all(isinstance(item, str) and re.fullmatch(r"[^\s,\[](?:[^,]*[^\s,])?", item) for item in value):
            return ",".join(value)
    elif isinstance(value, str) and not (is_parameter and _is_json(value)):
        return value
    return json.dumps(value, ensure_ascii=False)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


@command.command("list", short_help="List all settings, their values, and where they are set.")
@JSON_OPTION
def list_command(*, as_json: bool) -> None:
    """List all settings, their values, and where they are set: a variable, config.toml, or the default."""
    app = AppContext()
    _print_warnings(app)
    rows = []
    for parts, description in _list_settings(app):
        key, (value, origin) = ".".join(parts), _find_effective_value(app, parts)
        if key.endswith(".headers"):
            value = app.collect_secrets().redact_value(value)
        elif value and key.endswith(".base_url"):
            value = mask_password(value) if isinstance(value, str) else list(map(mask_password, value))
        shown_value = value if as_json or value is None else format_value(key, value)
        rows.append({"key": key, "value": shown_value, "from": origin, "meaning": description})
    write_table(rows, as_json=as_json, optional=("meaning", "from"))


@command.command("get", short_help="Print the value of a setting.")
@click.argument("key", type=TEXT)
@click.option("--json", "as_json", is_flag=True, help="Print the value as JSON.")
def get_command(*, key: str, as_json: bool) -> None:
    """Print the effective value of KEY: from the environment, config.toml or the default.

    The format is that of `ask config set`; a table such as providers.groq is printed as JSON. If KEY is not set, the
    exit code is 4.
    """
    app = AppContext()
    existing_key = () if key in SETTINGS else find_existing_key(app.config.values, key)
    value, _ = _find_effective_value(app, existing_key or parse_key(key).parts)
    if value is None or value == "":
        raise ConfigError(f"{key} is not set", "ask config list shows which settings are set")
    text = json.dumps(value, ensure_ascii=False) if as_json else format_value(key, value)
    print_text(text)


@command.command(
    "set", short_help="Change a setting in config.toml.", context_settings={"ignore_unknown_options": True}
)
@click.argument("key", type=TEXT)
@click.argument("value", type=TEXT)
def set_command(*, key: str, value: str) -> None:
    """Set KEY to VALUE in config.toml. Lists are written a,b; model parameters may be JSON.

    \b
    ask config set provider openrouter
    ask config set tools.disabled bash,fetch_url
    ask config set options.temperature 0.2
    ask config set aliases.fast openrouter:vendor/model
    """
    config_key = parse_key(key)
    parsed_value = parse_value(config_key, value)
    if config_key.parts[:2] == ("mcp", "servers"):
        _check_server_key(AppContext(), config_key.parts, parsed_value)
    app = AppContext()
    change_setting(app, config_key.parts, parsed_value)
    _print_change_notices(app, ".".join(config_key.parts))


def _check_server_key(app: AppContext, parts: tuple[str, ...], value: Any) -> None:
    """Check that a key of an MCP server can be set in config.toml.

    Raises:
        UsageError: there is no such server, or another file configures it, so that it can only be disabled.
    """
    *_, name, key = parts
    if f"mcp.servers.{name}" in app.config.errors:
        return  # the change may correct it
    servers = find_servers(app.config, app.app_dirs.config).servers
    dotted_key = f"mcp.servers.{name}.enabled"
    if name not in servers:
        raise UsageError(f"unknown MCP server {name!r}", format_suggestion(name, servers, "ask mcp list shows them"))
    server = servers[name]
    if key == "enabled" and not value:
        return
    if not (server.command or server.url):
        raise UsageError(f"config.toml only disables {name}", f"ask config unset {dotted_key} enables it")
    if server.origin != app.app_dirs.config_file:
        hint = f"edit that file; ask config set {dotted_key} false disables it"
        raise UsageError(f"{name} is configured in {server.origin}", hint)


@command.command("unset", short_help="Remove a setting from config.toml.")
@click.argument("key", type=TEXT)
def unset_command(*, key: str) -> None:
    """Remove KEY from config.toml: a setting, a table such as providers.groq, or an unknown key."""
    app = AppContext()
    parts = find_existing_key(read_toml(app.app_dirs.config_file), key)
    if not parts:
        if not TABLE_PATTERN.fullmatch(key):
            parse_key(key)
        hint = "ask config list shows where each value comes from"
        raise ConfigError(f"{key} is not set in {app.app_dirs.config_file}", hint)
    change_setting(app, parts, UNSET)
    _print_change_notices(app, key)


@command.command("path", short_help="Print the path of config.toml.")
def path_command() -> None:
    """Print the path of config.toml, whether or not the file exists."""
    print_text(str(AppContext().app_dirs.config_file))


NEW_CONFIG_TEXT = b"# Settings of ask. `ask config list` lists them all.\n"
"""Initial content of a new file in the editor."""


@command.command("edit", short_help="Edit config.toml in your editor.")
def edit_command() -> None:
    """Edit config.toml in the editor set by VISUAL or EDITOR.

    Changes are saved only if they are valid: otherwise you can edit again or discard them.
    """
    path = AppContext().app_dirs.config_file
    edit_file(path, NEW_CONFIG_TEXT, read_config)
    for warning in read_config(path).warnings:
        print_notice(warning)
