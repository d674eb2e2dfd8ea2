"""Finds provider plugins by their metadata, loads the one that is chosen, and checks it.

Finding imports no plugin. What was found is kept in the cache folder until a folder of packages changes,
because reading the metadata of every installed package takes longer than all the rest of a start.
"""

from __future__ import annotations

import difflib
import json
import os
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, cast

import pluggy

from ask.errors import AskError, ConfigError, ProviderError
from ask.hookspecs import PROJECT, ProviderHooks
from ask.provider import REQUIRED_HOOKS, Provider, ProviderInfo

GROUP = "ask.providers"


class Claim(NamedTuple):
    """A distribution's word that it has a provider of that name, at `target` ("module:attribute")."""

    name: str
    target: str
    distribution: str


class Faults:
    """A context that turns an exception inside a hook into an error of the provider's, named in it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, _: object) -> None:
        if isinstance(fault, Exception) and not isinstance(fault, AskError):
            message = f"the provider's plugin failed: {type(fault).__name__}: {fault}"
            error = ProviderError(message, advice="-v shows where")
            error.provider = self._name
            raise error from fault


class LoadedProvider(NamedTuple):
    """A provider that passed every check: its hooks, what it says of itself, and the context to call hooks in."""

    hooks: ProviderHooks
    info: ProviderInfo
    faults: Faults


def find_claims(cache: Path | None) -> dict[str, tuple[Claim, ...]]:
    """Every provider name on offer, sorted, with the distributions that claim it.

    `cache` is the file that keeps the result; None reads the metadata anew.
    """
    stamp = [sys.executable, *([path, _changed(path)] for path in sys.path)]
    rows = _read_cache(cache, stamp)
    if rows is None:
        rows = _scan()
        _write_cache(cache, stamp, rows)
    claims: dict[str, tuple[Claim, ...]] = {}
    for name, target, distribution in sorted(rows):
        claims[name] = (*claims.get(name, ()), Claim(name, target, distribution))
    return claims


def _changed(path: str) -> int:
    try:
        return os.stat(path or ".").st_mtime_ns
    except OSError:
        return 0


def _scan() -> list[list[str]]:
    """Name, target and distribution of each entry point; of a distribution installed twice, the first counts."""
    from importlib.metadata import distributions

    rows: list[list[str]] = []
    seen: set[str] = set()
    for distribution in distributions():
        with suppress(Exception):  # what a broken installation left behind must not hide the others
            text = distribution.read_text("entry_points.txt") or ""
            if f"[{GROUP}]" not in text or distribution.name in (None, *seen):
                continue
            seen.add(distribution.name)
            rows += [[e.name, e.value, distribution.name] for e in distribution.entry_points if e.group == GROUP]
    return rows


def _read_cache(cache: Path | None, stamp: list[Any]) -> list[list[str]] | None:
    if cache is None:
        return None
    try:
        kept = json.loads(cache.read_bytes())
        rows = [[str(name), str(target), str(distribution)] for name, target, distribution in kept["rows"]]
        return rows if kept["rows"] == rows and kept["stamp"] == stamp else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write_cache(cache: Path | None, stamp: list[Any], rows: list[list[str]]) -> None:
    """Keep the rows for the next run; a cache that cannot be written only costs time."""
    if cache is None:
        return
    fresh = cache.with_name(f"{cache.name}.{os.getpid()}")
    try:
        cache.parent.mkdir(parents=True, exist_ok=True)
        fresh.write_text(json.dumps({"stamp": stamp, "rows": rows}))
        fresh.replace(cache)
    except OSError:
        with suppress(OSError):
            fresh.unlink()


def load_provider(claims: tuple[Claim, ...]) -> LoadedProvider:
    """Import and check the provider behind a name.

    Raises:
        ConfigError: two distributions claim the name, or the plugin is broken; names the distribution.
    """
    claim, *rivals = claims
    if rivals:
        names = " and ".join(c.distribution for c in claims)
        raise ConfigError(f"{names} both have a provider named {claim.name}", "uninstall one of them")
    module_name, _, attribute = claim.target.partition(":")
    try:
        value: Any = import_module(module_name.strip())
        for part in filter(None, attribute.strip().split(".")):
            value = getattr(value, part)
    except (Exception, SystemExit) as fault:
        raise broken(claim.name, claim.distribution, f"{type(fault).__name__}: {fault}") from fault
    return check_provider(value, claim.name, claim.distribution)


def check_provider(value: object, name: str, distribution: str) -> LoadedProvider:
    """Register a provider's hooks with a manager of its own, and see that all are there.

    Raises:
        ConfigError: a class, a missing hook, or one whose name or arguments are not in the contract.
    """
    if isinstance(value, type):
        raise broken(name, distribution, f"{value.__name__} is a class; the entry point must name an instance")
    missing = missing_hooks(value)
    if missing:
        raise broken(name, distribution, f"it has no {', '.join(missing)}")
    manager = ProviderManager(PROJECT)
    manager.add_hookspecs(ProviderHooks)
    try:
        manager.register(value, name)
        manager.check_pending()
        hooks = cast("ProviderHooks", manager.hook)
        info = hooks.provider_info()
    except pluggy.PluginValidationError as fault:
        raise broken(name, distribution, explain(str(fault))) from fault
    except Exception as fault:
        raise broken(name, distribution, f"provider_info: {type(fault).__name__}: {fault}") from fault
    if not isinstance(info, ProviderInfo):
        raise broken(name, distribution, "provider_info does not return a ProviderInfo")
    return LoadedProvider(hooks, info, Faults(name))


class ProviderManager(pluggy.PluginManager):
    """Takes every callable whose name begins with `provider_` as an implementation, decorated or not."""

    def parse_hookimpl_opts(self, plugin: object, name: str) -> Any:
        if not name.startswith("provider_") or not callable(getattr(plugin, name, None)):
            return None
        return super().parse_hookimpl_opts(plugin, name) or {}


def missing_hooks(value: object) -> list[str]:
    """The hooks that a provider must have and has not; a module needs every one."""
    if isinstance(value, Provider):
        return [hook for hook in REQUIRED_HOOKS if getattr(type(value), hook) is getattr(Provider, hook)]
    if isinstance(value, ModuleType):
        return [hook for hook in hook_names() if hook not in vars(value) and hook != "provider_adapter"]
    return ["base class: it must be an instance of ask.Provider, or a module"]


def hook_names() -> list[str]:
    """The names of all hooks."""
    return [name for name in vars(ProviderHooks) if name.startswith("provider_")]


def explain(fault: str) -> str:
    """Pluggy's complaint as one line, with the hook that was probably meant."""
    line = " ".join(fault.split())
    unknown = next((word.strip("'") for word in line.split() if word.strip("'").startswith("provider_")), "")
    nearest = difflib.get_close_matches(unknown, hook_names(), 1)
    if unknown and unknown not in hook_names():
        return f"there is no hook {unknown}" + (f"; did you mean {nearest[0]}?" if nearest else "")
    return line


def broken(name: str, distribution: str, reason: str) -> ConfigError:
    """The error for a plugin that cannot be used."""
    where = f" ({distribution})" if distribution else ""
    return ConfigError(f"the provider {name}{where} cannot be loaded", " ".join(reason.split()))
