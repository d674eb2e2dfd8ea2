"""config.toml rewritten: one value changed, the comments around it kept, never into something invalid."""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any

from ask.atomic_files import locked, write_private_file
from ask.errors import FileError
from ask.settings import check_config, read_toml

REMOVED = object()
"""In the place of a value: the key is taken out."""


def find_value(values: Mapping[str, Any], parts: tuple[str, ...]) -> Any:
    """The value at a key; `REMOVED` where there is none."""
    value: Any = values
    for part in parts:
        if not isinstance(value, Mapping) or part not in value:
            return REMOVED
        value = value[part]
    return value


def find_written(values: Mapping[str, Any], word: str) -> tuple[str, ...]:
    """The key that a word means among those that are there, tables included; () where there is none."""
    for name, value in values.items():
        if name == word:
            return (name,)
        if isinstance(value, Mapping) and word.startswith(f"{name}."):
            rest = find_written(value, word[len(name) + 1 :])
            if rest:
                return (name, *rest)
    return ()


def change(path: Path, parts: tuple[str, ...], value: Any) -> bool:
    """Set a value, or take it out; return whether all comments but its own are kept.

    Raises:
        ConfigError: the file is not valid, and would not be after this.
        FileError: it cannot be written.
    """
    import tomllib

    with locked(path):
        read_toml(path)
        text = path.read_bytes().decode() if path.exists() else ""
        fresh, kept = rewritten(text, parts, value)
        check_config(path, tomllib.loads(fresh))
        write(path, fresh.encode())
    return kept


def rewritten(text: str, parts: tuple[str, ...], value: Any) -> tuple[str, bool]:
    """The text of the file with that change, and whether its comments are kept."""
    import tomllib

    import tomlkit

    wanted = tomllib.loads(text)
    old = find_value(wanted, parts)
    put(wanted, parts, value, {})
    try:
        begins_table = len(parts) > 1 and old is REMOVED and parts[0] not in tomllib.loads(text)
        document = tomlkit.parse(f"{text.rstrip()}\n\n" if begins_table and text.strip() else text)
        inner = find_value(document, parts)
        lost = isinstance(old, dict | list) and "#" in getattr(inner, "as_string", str)()
        put(document, parts, value, tomlkit.table(is_super_table=True))
        fresh = tomlkit.dumps(document)
        if tomllib.loads(fresh) == wanted:
            return fresh, not lost
    except Exception:  # noqa: BLE001, S110 - whatever it cannot do is done without it
        pass
    import tomli_w

    return tomli_w.dumps(wanted), "#" not in text


def put(values: MutableMapping[str, Any], parts: tuple[str, ...], value: Any, table: Any) -> None:
    """Set a value, or take it out with all tables that it leaves empty; a missing table is made like `table`."""
    import copy

    *way, name = parts
    if way and way[0] not in values:
        values[way[0]] = copy.deepcopy(table)
    if way:
        inner = values[way[0]]
        put(inner, parts[1:], value, table)
        if value is REMOVED and not inner:
            del values[way[0]]
    elif value is REMOVED:
        values.pop(name, None)
    else:
        values[name] = value


def write(path: Path, data: bytes) -> None:
    """Replace the content of the file, which keeps its permissions; a link keeps pointing to it.

    Raises:
        FileError: it cannot be written.
    """
    try:
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(0, "it is read-only")
        write_private_file(path, data, keep_mode=True, durable=True)
    except OSError as error:
        raise FileError(f"cannot write {path} ({error.strerror})") from error
