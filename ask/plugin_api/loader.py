"""Finds plugins by their metadata; of providers it loads the one that is chosen, and checks it.

How tools are loaded is in `tool_plugins`. Finding imports no plugin. What was found is kept in the cache folder until
a folder of packages changes, because reading the metadata of every installed package takes longer than all the rest
of a start.
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
from ask.version import DISTRIBUTION

if TYPE_CHECKING:
    from ask.plugin_api.import_guard import NotifyCallback

PROVIDER_GROUP = "ask.providers"
ENTRY_POINT_GROUPS = (PROVIDER_GROUP, "ask.tools")
CACHE_KEYS = ("rows", "tools")
"""Under which each of them is kept."""
EntryPointRows = dict[str, list[list[str]]]
"""By group: the name, target and distribution of each entry point."""


class PluginEntry(NamedTuple):
    """A distribution's word that it has a provider of that name, or tools, at `target` ("module:attribute")."""

    name: str
    target: str
    distribution: str


class PluginCallGuard:
    """A context that turns an exception inside a hook into an error of the provider's, named in it."""

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
    """A provider that passed every check: its hooks, what it says of itself, and the context to call hooks in."""

    hooks: ProviderHooks
    info: ProviderInfo
    call_guard: PluginCallGuard

    def supports_attachment(self, model: str, media_type: str) -> bool:
        """Whether a message to this model may hold a file of that MIME type.

        Raises:
            ProviderError: the plugin failed.
        """
        with self.call_guard:
            return bool(self.hooks.provider_takes_attachment(model=model, media_type=media_type))


class PluginIndex(NamedTuple):
    """The plugins that are installed.

    Attributes:
        providers: every provider name on offer, sorted, with the distributions that claim it.
        tools: every distribution with tools, sorted, with all that it names.
    """

    providers: dict[str, tuple[PluginEntry, ...]]
    tools: dict[str, tuple[PluginEntry, ...]]


def find_plugins(cache: Path | None) -> PluginIndex:
    """What is installed.

    `cache` is the file that keeps the result; None reads the metadata anew.
    """
    stamp = [sys.executable, *([path, _get_modified_time(path)] for path in sys.path)]
    rows = _read_cache(cache, stamp)
    if rows is None:
        rows = _scan_entry_points()
        _write_cache(cache, stamp, rows)
    providers, tools = (sorted(PluginEntry(*row) for row in rows[group]) for group in ENTRY_POINT_GROUPS)
    return PluginIndex(_group_entries("name", providers), _group_entries("distribution", tools))


def find_provider_entries(cache: Path | None) -> dict[str, tuple[PluginEntry, ...]]:
    """Every provider name on offer, as `find_plugins` has them."""
    return find_plugins(cache).providers


def _group_entries(field: str, entries: list[PluginEntry]) -> dict[str, tuple[PluginEntry, ...]]:
    grouped: dict[str, tuple[PluginEntry, ...]] = {}
    for claim in sorted(entries, key=attrgetter(field)):
        key = getattr(claim, field)
        grouped[key] = (*grouped.get(key, ()), claim)
    return grouped


def _get_modified_time(path: str) -> int:
    try:
        return os.stat(path or ".").st_mtime_ns
    except OSError:
        return 0


def _scan_entry_points() -> EntryPointRows:
    """The entry points of each group; of a distribution installed twice, the first counts."""
    from importlib.metadata import distributions

    rows: EntryPointRows = {group: [] for group in ENTRY_POINT_GROUPS}
    seen: set[str] = set()
    for distribution in distributions():
        with suppress(Exception):  # what a broken installation left behind must not hide the others
            text = distribution.read_text("entry_points.txt") or ""
            if not any(f"[{group}]" in text for group in ENTRY_POINT_GROUPS) or distribution.name in (None, *seen):
                continue
            seen.add(distribution.name)
            for entry in distribution.entry_points:
                if entry.group in rows:
                    rows[entry.group].append([entry.name, entry.value, distribution.name])
    return rows


def _read_cache(cache: Path | None, stamp: list[Any]) -> EntryPointRows | None:
    """What is kept, if it is up to date, and whole: an older ask kept less."""
    if cache is None:
        return None
    try:
        kept = json.loads(cache.read_bytes())
        of_group = {group: kept[key] for group, key in zip(ENTRY_POINT_GROUPS, CACHE_KEYS, strict=True)}
        rows = {group: [[str(a), str(b), str(c)] for a, b, c in of_group[group]] for group in ENTRY_POINT_GROUPS}
        return rows if of_group == rows and kept["stamp"] == stamp else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write_cache(cache: Path | None, stamp: list[Any], rows: EntryPointRows) -> None:
    """Keep the rows for the next run; a cache that cannot be written only costs time."""
    if cache is None:
        return
    kept = {key: rows[group] for group, key in zip(ENTRY_POINT_GROUPS, CACHE_KEYS, strict=True)}
    with suppress(OSError):
        write_private_file(cache, json.dumps({"stamp": stamp, **kept}).encode())


def _guard_import(entry: PluginEntry, notify: NotifyCallback) -> AbstractContextManager[None]:
    if entry.distribution == DISTRIBUTION:
        return nullcontext()
    from ask.plugin_api.import_guard import guard_import

    return guard_import(f"{entry.name} ({entry.distribution})", notify)


def load_provider(entries: tuple[PluginEntry, ...], notify: NotifyCallback) -> LoadedProvider:
    """Import and check the provider behind a name; `notify` takes a line about one that is slow or prints something.

    Raises:
        ConfigError: two distributions claim the name, or the plugin is broken; names the distribution.
    """
    claim, *rivals = entries
    if rivals:
        names = " and ".join(c.distribution for c in entries)
        raise ConfigError(f"{names} both have a provider named {claim.name}", "uninstall one of them")
    module_name, _, attribute = claim.target.partition(":")
    with _guard_import(claim, notify):
        try:
            value: Any = import_module(module_name.strip())
            for part in filter(None, attribute.strip().split(".")):
                value = getattr(value, part)
            return check_provider(value, claim.name, claim.distribution)
        except ConfigError:
            raise
        except (Exception, SystemExit) as fault:
            raise make_provider_load_error(
                claim.name, claim.distribution, f"{type(fault).__name__}: {fault}"
            ) from fault


def check_provider(plugin: object, name: str, distribution: str) -> LoadedProvider:
    """Register a provider's hooks with a manager of its own, and see that all are there.

    Raises:
        ConfigError: a class, a missing hook, or one whose name or arguments are not in the contract.
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
    except pluggy.PluginValidationError as fault:
        raise make_provider_load_error(name, distribution, explain_hook_error(str(fault))) from fault
    except Exception as fault:
        raise make_provider_load_error(name, distribution, f"provider_info: {type(fault).__name__}: {fault}") from fault
    if not isinstance(info, ProviderInfo):
        raise make_provider_load_error(name, distribution, "provider_info does not return a ProviderInfo")
    return LoadedProvider(hooks, info, PluginCallGuard(name))


class ProviderManager(pluggy.PluginManager):
    """Takes every callable whose name begins with `provider_` as an implementation, decorated or not."""

    def parse_hookimpl_opts(self, plugin: object, name: str) -> Any:
        if not name.startswith("provider_") or not callable(getattr(plugin, name, None)):
            return None
        return super().parse_hookimpl_opts(plugin, name) or {}


def find_missing_hooks(plugin: object) -> list[str]:
    """The hooks that a provider must have and has not; a module needs all but the optional ones."""
    if isinstance(plugin, Provider):
        return [hook for hook in REQUIRED_HOOKS if getattr(type(plugin), hook) is getattr(Provider, hook)]
    if isinstance(plugin, ModuleType):
        return [hook for hook in list_hook_names() if hook not in vars(plugin) and hook not in OPTIONAL_HOOKS]
    return ["base class: it must be an instance of ask.Provider, or a module"]


def list_hook_names() -> list[str]:
    """The names of all hooks."""
    return [name for name in vars(ProviderHooks) if name.startswith("provider_")]


def explain_hook_error(message: str) -> str:
    """Pluggy's complaint as one line, with the hook that was probably meant."""
    line = " ".join(message.split())
    unknown = next((word.strip("'") for word in line.split() if word.strip("'").startswith("provider_")), "")
    from ask.suggestions import suggest

    near = suggest(unknown, list_hook_names())
    if unknown and unknown not in list_hook_names():
        return f"there is no hook {unknown}" + (f"; did you mean {near}?" if near else "")
    return line


def make_provider_load_error(name: str, distribution: str, reason: str) -> ConfigError:
    """The error for a plugin that cannot be used."""
    where = f" ({distribution})" if distribution else ""
    return ConfigError(f"the provider {name}{where} cannot be loaded", " ".join(reason.split()))
