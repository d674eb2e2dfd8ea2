"""The settings as a run would find them, each with where it is from; options of a command line left out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ask.agent.model_selection import model_set_for
from ask.agent.workspace import Workspace
from ask.api_keys import stem
from ask.config_file import REMOVED, find_value
from ask.console import Console
from ask.settings import KEYS, MEANINGS, PROVIDER_KEYS, SWITCHES, default_of, read_switch

FILE, DEFAULT = "config.toml", "default"
PROVIDER_MEANINGS = {
    "base_url": "where its requests go",
    "key_env": "the environment variable that holds its key",
    "model": "the model to ask where none is named",
}


class Setting(NamedTuple):
    """A setting's value, None for none, and where it is from: a variable, config.toml, or the default."""

    key: str
    value: Any
    origin: str
    meaning: str = ""


def find_variable(workspace: Workspace, key: str) -> str:
    """The environment variable that is set and comes before config.toml for a key; "" for none."""
    environment = workspace.environment
    table, _, name = key.partition(".")
    provider, _, name = name.rpartition(".")
    if key in ("provider", "model"):
        variable = f"ASK_{key.upper()}"
        return variable if environment.get(variable) else ""
    if key in SWITCHES:
        switched = read_switch(environment, SWITCHES[key])
        counts = switched or (switched is False and key != "safe.enabled")  # nothing switches safe mode off
        return SWITCHES[key] if counts else ""
    variable = f"{stem(provider)}_BASE_URL"
    return variable if table == "providers" and name == "base_url" and environment.get(variable) else ""


def effective(workspace: Workspace, key: str) -> Setting:
    """A setting of `KEYS` as a run would find it."""
    variable, meaning = find_variable(workspace, key), MEANINGS[key]
    value = find_value(workspace.config.values, tuple(key.split(".")))
    if variable:
        read: Any = workspace.environment[variable]
        return Setting(
            key, read_switch(workspace.environment, variable) if key in SWITCHES else read, variable, meaning
        )
    if key == "model" and workspace.environment.get("ASK_PROVIDER"):  # for which it need not be
        value = model_set_for(workspace, workspace.environment["ASK_PROVIDER"], named=False) or REMOVED
    if value is REMOVED:
        return Setting(key, plain(default_of(key)), DEFAULT, meaning)
    return Setting(key, value, FILE, meaning)


def plain(default: Any) -> Any:
    """A default as config.toml would have it."""
    if isinstance(default, frozenset | tuple):
        return sorted(default)
    return int(default) if isinstance(default, float) and default.is_integer() else default


def every_setting(workspace: Workspace) -> Iterator[Setting]:
    """All settings: those that everybody has, then the user's aliases, model parameters and providers."""
    yield from (effective(workspace, key) for key in KEYS)
    config = workspace.config
    yield from (
        Setting(f"aliases.{name}", value, FILE, "what -m takes for it") for name, value in config.aliases.items()
    )
    yield from (Setting(f"options.{name}", value, FILE, "model parameter") for name, value in config.options.items())
    for name in sorted({*workspace.names, *config.providers}):
        for part in PROVIDER_KEYS:
            setting = of_provider(workspace, name, part)
            if setting.value is not None:
                yield setting


def of_provider(workspace: Workspace, name: str, part: str) -> Setting:
    """What is set for a provider."""
    key = f"providers.{name}.{part}"
    variable, meaning = find_variable(workspace, key), PROVIDER_MEANINGS[part]
    if variable:
        return Setting(key, workspace.environment[variable], variable, meaning)
    return Setting(key, workspace.config.provider(name).get(part), FILE, meaning)


def tell_of_change(workspace: Workspace, key: str, *, comments_kept: bool) -> None:
    """Say on standard error what a user may not expect after config.toml was changed."""
    console = Console(workspace.environment, quiet=False, plain=False)
    if not comments_kept:
        console.line(f"ask: comments in {workspace.config_file} are lost")
    named = workspace.config.get("provider")
    if key == "provider" and named and named not in workspace.names:
        console.line(f"ask: there is no provider {named!r} yet (ask providers lists them)")
    variable = find_variable(workspace, key)
    if variable:
        console.line(f"ask: ${variable} is set, and comes before config.toml")
    for warning in workspace.config.warnings:
        console.line(f"ask: {warning}")
