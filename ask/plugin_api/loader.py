"""Finds installed plugins, and loads and checks the selected provider; `ask.tools.plugins` loads tools.

Finding plugins reads package metadata and imports nothing. The result is cached until a folder on `sys.path` changes,
because reading the metadata of every installed package takes longer than the rest of startup.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import AbstractContextManager, nullcontext, suppress
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pluggy

from ask.atomic_files import write_private_file
from ask.errors import AskError, ConfigError, ProviderError
from ask.plugin_api.hookspecs import PROJECT_NAME, ProviderHooks
from ask.plugin_api.provider import OPTIONAL_HOOKS, REQUIRED_HOOKS, Provider, ProviderInfo
from ask.suggestions import suggest
from ask.version import DISTRIBUTION

if TYPE_CHECKING:
    from ask.plugin_api.import_guard import NotifyCallback

PROVIDER_GROUP = "ask.providers"
ENTRY_POINT_GROUPS = (PROVIDER_GROUP, "ask.tools")
CACHE_KEYS = ("rows", "tools")
"""The JSON keys of the entry point groups in the cache file, in the same order."""
EntryPointRows = dict[str, list[list[str]]]
"""The name, target and distribution of each entry point, by group."""


class PluginEntry(NamedTuple):
    """An entry point for a provider or for tools; `target` is "module:attribute"."""

    name: str
    target: str
    distribution: str


class PluginCallGuard:
    """A context manager that turns an unexpected exception inside a hook into a `ProviderError`."""

    def __init__(self, provider_name: str) -> None:
        self._provider_name = provider_name

    def __enter__(self) -> None:
        pass

    def __exit__(self, exception_type: type[BaseException] | None, exception: BaseException | None, _: object) -> None:
        if isinstance(exception, Exception) and not isinstance(exception, AskError):
            message = f"the provider's plugin failed: {type(exception).__name__}: {exception}"
            error = ProviderError(message, advice="-v shows where")
            error.provider = self._provider_name
            raise error from exception


class LoadedProvider(NamedTuple):
    """A checked provider: its hooks, its description, the context manager in which to call hooks, and the plugin."""

    hooks: ProviderHooks
    info: ProviderInfo
    call_guard: PluginCallGuard
    plugin: object = None

    def supports_attachment(self, model: str, media_type: str) -> bool:
        """Check whether a message to this model may contain a file of this MIME type."""
        with self.call_guard:
            return bool(self.hooks.provider_takes_attachment(model=model, media_type=media_type))


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
    rows = _read_cache(cache, stamp)
    if rows is None:
        rows = _scan_entry_points()
        _write_cache(cache, stamp, rows)
    providers, tools = (sorted(PluginEntry(*row) for row in rows[group]) for group in ENTRY_POINT_GROUPS)
    return PluginIndex(_group_entries("name", providers), _group_entries("distribution", tools))


def find_provider_entries(cache: Path | None) -> dict[str, tuple[PluginEntry, ...]]:
    """Find the installed providers by name; see `find_plugins`."""
    return find_plugins(cache).providers


def _group_entries(field: str, entries: list[PluginEntry]) -> dict[str, tuple[PluginEntry, ...]]:
    grouped: dict[str, tuple[PluginEntry, ...]] = {}
    for entry in sorted(entries, key=attrgetter(field)):
        key = getattr(entry, field)
        grouped[key] = (*grouped.get(key, ()), entry)
    return grouped


def _get_modified_time(path: str) -> int:
    try:
        return os.stat(path or ".").st_mtime_ns
    except OSError:
        return 0


def _scan_entry_points() -> EntryPointRows:
    """Read the entry points of each group from the installed packages' metadata.

    If a distribution is installed twice, the first on `sys.path` wins.
    """
    from importlib.metadata import distributions

    rows: EntryPointRows = {group: [] for group in ENTRY_POINT_GROUPS}
    seen_names: set[str] = set()
    for distribution in distributions():
        with suppress(Exception):  # a broken distribution must not hide the others
            text = distribution.read_text("entry_points.txt") or ""
            has_plugins = any(f"[{group}]" in text for group in ENTRY_POINT_GROUPS)
            if not has_plugins or distribution.name in (None, *seen_names):
                continue
            seen_names.add(distribution.name)
            for entry in distribution.entry_points:
                if entry.group in rows:
                    rows[entry.group].append([entry.name, entry.value, distribution.name])
    return rows


def _read_cache(cache: Path | None, stamp: list[Any]) -> EntryPointRows | None:
    """Return the cached rows if they are up to date and valid.

    The cache of an older version of ask may lack a group.
    """
    if cache is None:
        return None
    try:
        cached = json.loads(cache.read_bytes())
        cached_rows = {group: cached[key] for group, key in zip(ENTRY_POINT_GROUPS, CACHE_KEYS, strict=True)}
        rows = {group: [[str(a), str(b), str(c)] for a, b, c in cached_rows[group]] for group in ENTRY_POINT_GROUPS}
        return rows if cached_rows == rows and cached["stamp"] == stamp else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write_cache(cache: Path | None, stamp: list[Any], rows: EntryPointRows) -> None:
    if cache is None:
        return
    rows_by_key = {key: rows[group] for group, key in zip(ENTRY_POINT_GROUPS, CACHE_KEYS, strict=True)}
    with suppress(OSError):  # without the cache the next start is slower, nothing more
        write_private_file(cache, json.dumps({"stamp": stamp, **rows_by_key}).encode())


def _guard_import(entry: PluginEntry, notify: NotifyCallback) -> AbstractContextManager[None]:
    if entry.distribution == DISTRIBUTION:
        return nullcontext()
    from ask.plugin_api.import_guard import guard_import

    return guard_import(f"{entry.name} ({entry.distribution})", notify)


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
    with _guard_import(entry, notify):
        try:
            value: Any = import_module(module_name.strip())
            for part in filter(None, attribute.strip().split(".")):
                value = getattr(value, part)
            return check_provider(value, entry.name, entry.distribution)
        except ConfigError:
            raise
        except (Exception, SystemExit) as error:
            reason = f"{type(error).__name__}: {error}"
            raise make_provider_load_error(entry.name, entry.distribution, reason) from error


def check_provider(plugin: object, name: str, distribution: str) -> LoadedProvider:
    """Check that a plugin implements the provider hooks, and register it.

    Raises:
        ConfigError: it is a class, lacks a hook, or has a hook with an unknown name or argument.
    """
    if isinstance(plugin, type):
        raise make_provider_load_error(
            name, distribution, f"{plugin.__name__} is a class; the entry point must name an instance"
        )
    missing = find_missing_hooks(plugin)
    if missing:
        raise make_provider_load_error(name, distribution, f"it has no {', '.join(missing)}")
    manager = ProviderManager(PROJECT_NAME)
    manager.add_hookspecs(ProviderHooks)
    try:
        manager.register(plugin, name)
        manager.check_pending()
        hooks = cast("ProviderHooks", manager.hook)
        info = hooks.provider_info()
    except pluggy.PluginValidationError as error:
        raise make_provider_load_error(name, distribution, explain_hook_error(str(error))) from error
    except Exception as error:
        raise make_provider_load_error(name, distribution, f"provider_info: {type(error).__name__}: {error}") from error
    if not isinstance(info, ProviderInfo):
        raise make_provider_load_error(name, distribution, "provider_info does not return a ProviderInfo")
    return LoadedProvider(hooks, info, PluginCallGuard(name), plugin)


class ProviderManager(pluggy.PluginManager):
    """A plugin manager that treats every `provider_*` callable as a hook implementation, decorated or not."""

    def parse_hookimpl_opts(self, plugin: object, name: str) -> Any:
        if not name.startswith("provider_") or not callable(getattr(plugin, name, None)):
            return None
        return super().parse_hookimpl_opts(plugin, name) or {}


def find_missing_hooks(plugin: object) -> list[str]:
    """List the required hooks that a plugin does not implement.

    An instance may inherit the hooks that have a default; a module must define all but the optional ones.
    """
    if isinstance(plugin, Provider):
        return [hook for hook in REQUIRED_HOOKS if getattr(type(plugin), hook) is getattr(Provider, hook)]
    if isinstance(plugin, ModuleType):
        return [hook for hook in list_hook_names() if hook not in vars(plugin) and hook not in OPTIONAL_HOOKS]
    return ["base class: it must be an instance of ask.Provider, or a module"]


def list_hook_names() -> list[str]:
    return [name for name in vars(ProviderHooks) if name.startswith("provider_")]


def explain_hook_error(message: str) -> str:
    """Return pluggy's error as one line, or a suggestion for a misspelled hook."""
    line = " ".join(message.split())
    hook = next((word.strip("'") for word in line.split() if word.strip("'").startswith("provider_")), "")
    suggestion = suggest(hook, list_hook_names())
    if hook and hook not in list_hook_names():
        return f"there is no hook {hook}" + (f"; did you mean {suggestion}?" if suggestion else "")
    return line


def make_provider_load_error(name: str, distribution: str, reason: str) -> ConfigError:
    """Return the error for a provider plugin that cannot be used."""
    source = f" ({distribution})" if distribution else ""
    return ConfigError(f"the provider {name}{source} cannot be loaded", " ".join(reason.split()))
