"""Finds installed plugins, without importing any.

This reads the metadata of packages. The result is cached until a folder on `sys.path` changes, because reading the
metadata of every installed package takes longer than the rest of startup.
"""

from __future__ import annotations

import json
import os
import re
import sys
from contextlib import suppress
from importlib import import_module
from itertools import starmap
from operator import attrgetter
from pathlib import Path
from typing import Any

from ask.errors import ConfigError
from ask.records import NamedTuple

PROVIDER_GROUP = "ask.providers"
ENTRY_POINT_GROUPS = {
    "providers": PROVIDER_GROUP,
    "tools": "ask.tools",
    "loaders": "ask.loaders",
    "commands": "ask.commands",
}
"""The entry point groups, by their key in the cache file."""
GROUP_PATTERN = re.compile(r"ask[^a-z]", re.IGNORECASE)
"""Groups that look as if they were for ask."""
MIN_GROUP_SIMILARITY = 0.8
"""From which similarity on a group is taken for one of ask's: `ask_providers` or `ask.tool`, not `ask.plugins`."""
MISPLACED = "misplaced"
"""The key of the entry points in groups that look like those of ask, but are not."""
EntryPointTable = dict[str, list[list[str]]]
"""The name, target and distribution of each entry point, by the group's key; of misplaced ones, also the group."""


class PluginEntry(NamedTuple):
    """An entry point of a plugin; `target` is "module:attribute"."""

    name: str
    target: str
    distribution: str

    @property
    def location(self) -> tuple[str, str]:
        """The module, and the name of the object in it; "" for the module itself."""
        module, _, attribute = self.target.partition("[")[0].partition(":")  # "module:object [extra]"
        return module.strip(), attribute.strip()

    def load(self) -> Any:
        """Import the object that the entry point names. The plugin's code may raise any exception, or SystemExit."""
        module, attribute = self.location
        value: Any = import_module(module)
        for part in filter(None, attribute.split(".")):
            value = getattr(value, part)
        return value


class MisplacedEntry(NamedTuple):
    """An entry point in a group that ask does not read, such as `ask.provider`."""

    name: str
    target: str
    distribution: str
    group: str

    def explain(self) -> str:
        """Return why it has no effect, and which group is probably meant."""
        from ask.text import find_similar

        (meant,) = find_similar(self.group.lower(), ENTRY_POINT_GROUPS.values(), 1, MIN_GROUP_SIMILARITY) or (None,)
        groups = meant or f"one of {', '.join(ENTRY_POINT_GROUPS.values())}"
        return f"its entry point {self.name} is in the group {self.group}, which has no effect; it must be {groups}"


class PluginIndex(NamedTuple):
    """The entry points of the installed plugins."""

    providers: dict[str, tuple[PluginEntry, ...]]
    """The entries by provider name, sorted; several for one name are a conflict between distributions."""
    tools: dict[str, tuple[PluginEntry, ...]]
    """The entries by distribution, sorted."""
    loaders: dict[str, tuple[PluginEntry, ...]]
    """The entries by prefix, sorted; several for one prefix are a conflict, as for providers."""
    commands: dict[str, tuple[PluginEntry, ...]]
    """The entries by the name of the command, sorted; several for one name are a conflict, as for providers."""
    misplaced: tuple[MisplacedEntry, ...] = ()


def select_entry(entries: tuple[PluginEntry, ...], kind: str) -> PluginEntry:
    """Return the only entry of a name; `kind` says in an error what has that name.

    Raises:
        ConfigError: two distributions use the name.
    """
    entry, *conflicting_entries = entries
    if conflicting_entries:
        names = " and ".join(each.distribution for each in entries)
        raise ConfigError(f"{names} both have a {kind} named {entry.name}", "uninstall one of them")
    return entry


def find_plugins(cache: Path | None) -> PluginIndex:
    """Find the installed plugins, reading the file `cache` if it is up to date.

    Without a cache file, the metadata is always read.
    """
    stamp = [sys.executable, *map(_make_stamp, sys.path)]
    try:
        cached = json.loads(cache.read_bytes()) if cache and cache.is_file() else {}
        if cached["stamp"] == stamp:
            return _index_plugins(cached)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):  # missing, damaged, or of another version
        pass
    table = _scan_entry_points()
    if cache:
        with suppress(OSError):  # without the cache the next start is slower, nothing more
            from ask.atomic_files import write_private_file

            write_private_file(cache, json.dumps({"stamp": stamp, **table}).encode())
    return _index_plugins(table)


def _index_plugins(table: EntryPointTable) -> PluginIndex:
    index = PluginIndex({}, {}, {}, {}, tuple(sorted(starmap(MisplacedEntry, table[MISPLACED]))))
    for key in ENTRY_POINT_GROUPS:
        groups: dict[str, tuple[PluginEntry, ...]] = getattr(index, key)
        field = "distribution" if key == "tools" else "name"
        for entry in sorted(sorted(starmap(PluginEntry, table[key])), key=attrgetter(field)):
            name = getattr(entry, field)
            groups[name] = (*groups.get(name, ()), entry)
    return index


def _make_stamp(path: str) -> list[Any]:
    """Return an entry of `sys.path`, and when it was modified, as the cache contains them."""
    try:
        return [path, os.stat(path or ".").st_mtime_ns]
    except OSError:
        return [path, 0]


def _scan_entry_points() -> EntryPointTable:
    """Read the entry points of each group from the installed packages' metadata.

    If a distribution is installed twice, the first on `sys.path` wins.
    """
    from importlib.metadata import distributions

    table: EntryPointTable = {key: [] for key in (*ENTRY_POINT_GROUPS, MISPLACED)}
    keys = {group: key for key, group in ENTRY_POINT_GROUPS.items()}
    seen_names: set[str] = set()
    for distribution in distributions():
        with suppress(Exception):  # a broken distribution must not hide the others
            text = distribution.read_text("entry_points.txt") or ""
            if "[ask" not in text.lower() or distribution.name in (None, *seen_names):
                continue
            seen_names.add(distribution.name)
            for entry in distribution.entry_points:
                row = [entry.name, entry.value, distribution.name]
                if entry.group in keys:
                    table[keys[entry.group]].append(row)
                elif GROUP_PATTERN.match(f"{entry.group}."):
                    table[MISPLACED].append([*row, entry.group])
    return table
