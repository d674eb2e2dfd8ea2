"""Finds installed plugins, and loads and checks the selected provider; `ask.tools.plugins` loads tools.

Finding plugins reads package metadata and imports nothing. The result is cached until a folder on `sys.path` changes,
because reading the metadata of every installed package takes longer than the rest of startup.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from importlib import import_module
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import pluggy

from ask import __distribution__
from ask.errors import ConfigError
from ask.plugin_api.loaded_provider import LoadedProvider
from ask.plugin_api.provider import MODULE_HOOKS, REQUIRED_HOOKS, TOOL_HOOKS, Provider
from ask.plugin_api.types import ProviderInfo
from ask.profiles import ModelProfile
from ask.records import NamedTuple

if TYPE_CHECKING:
    from ask.plugin_api.chat_completions import ChatCompletions
    from ask.plugin_api.import_guard import NotifyCallback
    from ask.plugin_api.responses import Responses

PROJECT_NAME = "ask"

PROVIDER_GROUP = "ask.providers"
GROUPS = {"providers": PROVIDER_GROUP, "tools": "ask.tools"}
"""The entry point groups, by their key in the cache file."""
EntryPointTable = dict[str, list[list[str]]]
"""The name, target and distribution of each entry point, by the group's key."""


class PluginEntry(NamedTuple):
    """An entry point for a provider or for tools; `target` is "module:attribute"."""

    name: str
    target: str
    distribution: str


class PluginIndex(NamedTuple):
    """The entry points of the installed plugins."""

    providers: dict[str, tuple[PluginEntry, ...]]
    """The entries by provider name, sorted; several for one name are a conflict between distributions."""
    tools: dict[str, tuple[PluginEntry, ...]]
    """The entries by distribution, sorted."""


def find_plugins(cache: Path | None) -> PluginIndex:
    """Find the installed plugins, reading the file `cache` if it is up to date.

    Without a cache file, the metadata is always read.
    """
    stamp = [sys.executable, *([path, _get_modified_time(path)] for path in sys.path)]
    try:
        cached = json.loads(cache.read_bytes()) if cache else {}
        if cached["stamp"] == stamp:
            return _index_plugins(cached)
    except (OSError, ValueError, KeyError, TypeError):  # missing, damaged, or of another version
        pass
    table = _scan_entry_points()
    if cache:
        with suppress(OSError):  # without the cache the next start is slower, nothing more
            from ask.atomic_files import write_private_file

            write_private_file(cache, json.dumps({"stamp": stamp, **table}).encode())
    return _index_plugins(table)


def _index_plugins(table: EntryPointTable) -> PluginIndex:
    return PluginIndex(_group_entries("name", table["providers"]), _group_entries("distribution", table["tools"]))


def _group_entries(field: str, rows: list[list[str]]) -> dict[str, tuple[PluginEntry, ...]]:
    get_key = attrgetter(field)
    entries = sorted(sorted(PluginEntry(*row) for row in rows), key=get_key)
    return {key: tuple(group) for key, group in groupby(entries, get_key)}


def _get_modified_time(path: str) -> int:
    try:
        return os.stat(path or ".").st_mtime_ns
    except OSError:
        return 0


def _scan_entry_points() -> EntryPointTable:
    """Read the entry points of each group from the installed packages' metadata.

    If a distribution is installed twice, the first on `sys.path` wins.
    """
    from importlib.metadata import distributions

    table: EntryPointTable = {key: [] for key in GROUPS}
    seen_names: set[str] = set()
    for distribution in distributions():
        with suppress(Exception):  # a broken distribution must not hide the others
            text = distribution.read_text("entry_points.txt") or ""
            has_plugins = any(f"[{group}]" in text for group in GROUPS.values())
            if not has_plugins or distribution.name in (None, *seen_names):
                continue
            seen_names.add(distribution.name)
            for key, group in GROUPS.items():
                entries = distribution.entry_points.select(group=group)
                table[key] += [[entry.name, entry.value, distribution.name] for entry in entries]
    return table


def load_provider(entries: tuple[PluginEntry, ...], notify: NotifyCallback) -> LoadedProvider:
    """Import and check the provider with these entries.

    A slow import, and output during the import, is reported to `notify`.

    Raises:
        ConfigError: two distributions use the name, or the plugin is broken.
    """
    entry, *conflicting_entries = entries
    if conflicting_entries:
        names = " and ".join(each.distribution for each in entries)
        raise ConfigError(f"{names} both have a provider named {entry.name}", "uninstall one of them")
    module_name, _, attribute = entry.target.partition(":")
    guard: AbstractContextManager[None] = nullcontext()
    if entry.distribution != __distribution__:
        from ask.plugin_api.import_guard import guard_import

        guard = guard_import(f"{entry.name} ({entry.distribution})", notify)
    with guard:
        try:
            value: Any = import_module(module_name.strip())
            for part in filter(None, attribute.strip().split(".")):
                value = getattr(value, part)
            return check_provider(value, entry.name, entry.distribution)
        except ConfigError:
            raise
        except (Exception, SystemExit) as error:
            reason = f"{type(error).__name__}: {error}"
            raise _make_provider_load_error(entry.name, entry.distribution, reason) from error


def check_provider(plugin: object, name: str, distribution: str) -> LoadedProvider:
    """Check that a plugin implements the required provider hooks, and register it with the defaults of the others.

    Raises:
        ConfigError: it is a class, lacks a required hook, or has a hook with an unknown name or argument.
    """
    make_error = partial(_make_provider_load_error, name, distribution)
    if isinstance(plugin, type):
        raise make_error(f"{plugin.__name__} is a class; the entry point must name an instance")
    if not isinstance(plugin, Provider | ModuleType):
        raise make_error("it must be an instance of ask.Provider, or a module")
    manager = ProviderManager(PROJECT_NAME)
    manager.add_hookspecs(Provider)
    try:
        manager.register(plugin, name)
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        raise make_error(explain_hook_error(str(error))) from error
    if missing := _find_missing_hooks(plugin):
        raise make_error(f"missing: {', '.join(missing)}")
    try:
        info = manager.hook.provider_info()
    except Exception as error:
        raise make_error(f"provider_info: {type(error).__name__}: {error}") from error
    if not isinstance(info, ProviderInfo):
        raise make_error("provider_info does not return a ProviderInfo")
    profiles = tuple(getattr(plugin, "profiles", ()))
    if not all(isinstance(profile, ModelProfile) for profile in profiles):
        raise make_error("profiles must be rows of ask.profiles.ModelProfile")
    default = Provider(info)
    functions = {
        hook: _find_implementation(getattr(manager.hook, hook)) or getattr(default, hook) for hook in list_hook_names()
    }
    return LoadedProvider(
        functions,
        info,
        plugin=plugin,
        profiles=profiles,
        is_third_party=distribution not in (__distribution__, "config.toml"),
        missing_tool_hooks=[hook for hook in TOOL_HOOKS if not defines_hook(plugin, hook)],
    )


def switch_api(provider: LoadedProvider, api: str) -> LoadedProvider:
    """Return a provider that speaks one of OpenAI's APIs on "responses" or "chat"."""
    if provider.openai_api == api:
        return provider
    if api == "responses":
        from ask.plugin_api.responses import Responses

        plugin: Provider = Responses(cast("ChatCompletions", provider.plugin))
    else:
        plugin = cast("Responses", provider.plugin).chat
    switched = check_provider(plugin, provider.info.name, "" if provider.is_third_party else __distribution__)
    return switched.with_profiles(provider.configured_profiles, provider.listed_profiles)


class ProviderManager(pluggy.PluginManager):
    """A plugin manager for the hooks of `Provider`; every `provider_*` callable implements one."""

    def parse_hookspec_opts(self, module_or_class: Any, name: str) -> Any:
        return {"firstresult": True} if name.startswith("provider_") else None

    def parse_hookimpl_opts(self, plugin: object, name: str) -> Any:
        return {} if name.startswith("provider_") and callable(getattr(plugin, name, None)) else None


def _find_implementation(hook: pluggy.HookCaller) -> Callable[..., Any] | None:
    """Return the function with which the plugin implements a hook, to be called with all arguments as keywords.

    None if it does not. The function itself may have only some of the arguments.
    """
    if not hook.get_hookimpls():  # only a module can omit hooks
        return None
    (implementation,) = hook.get_hookimpls()
    function, accepted = implementation.function, {*implementation.argnames, *implementation.kwargnames}
    if hook.spec is None or accepted.issuperset(hook.spec.argnames):
        return function
    return lambda **arguments: function(**{name: arguments[name] for name in arguments.keys() & accepted})


def _find_missing_hooks(plugin: Provider | ModuleType) -> list[str]:
    """List the required hooks that a plugin does not define.

    The tool hooks are required here only from an instance that inherits `provider_supports_tools`, which returns True.
    """
    required: tuple[str, ...] = REQUIRED_HOOKS
    if isinstance(plugin, ModuleType):
        required = MODULE_HOOKS + required
    elif not defines_hook(plugin, "provider_supports_tools"):
        required = TOOL_HOOKS + required
    return [hook for hook in required if not defines_hook(plugin, hook)]


def defines_hook(plugin: Provider | ModuleType, hook: str) -> bool:
    """Check whether a plugin defines a hook. Inheriting the default does not count."""
    if isinstance(plugin, ModuleType):
        return callable(vars(plugin).get(hook))
    return getattr(getattr(plugin, hook), "__func__", None) is not getattr(Provider, hook)


def list_hook_names() -> list[str]:
    return [name for name in vars(Provider) if name.startswith("provider_")]


def explain_hook_error(message: str) -> str:
    """Return pluggy's error, or a suggestion for a misspelled hook."""
    from ask.text import format_suggestion

    hook = next((word.strip("'") for word in message.split() if word.strip("'").startswith("provider_")), "")
    if not hook or hook in list_hook_names():
        return message
    hint = format_suggestion(hook, list_hook_names(), otherwise="")
    return f"unknown hook {hook}" + (f"; {hint}" if hint else "")


def _make_provider_load_error(name: str, distribution: str, reason: str) -> ConfigError:
    """Return the error for a provider plugin that cannot be used."""
    source = f" ({distribution})" if distribution else ""
    return ConfigError(f"cannot load the provider {name}{source}", " ".join(reason.split()))
