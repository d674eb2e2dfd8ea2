"""config.toml rewritten: one value changed, the comments around it kept, never into something invalid."""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any

from ask.atomic_files import lock_file, write_private_file
from ask.errors import FileError
from ask.settings import check_config, read_toml

UNSET = object()
"""In the place of a value: the key is taken out."""


def find_value(values: Mapping[str, Any], parts: tuple[str, ...]) -> Any:
    """The value at a key; `UNSET` where there is none."""
    value: Any = values
    for part in parts:
        if not isinstance(value, Mapping) or part not in value:
            return UNSET
        value = value[part]
    return value


def find_existing_key(values: Mapping[str, Any], dotted_key: str) -> tuple[str, ...]:
    """The key that a word means among those that are there, tables included; () where there is none."""
    for name, value in values.items():
        if name == dotted_key:
            return (name,)
        if isinstance(value, Mapping) and dotted_key.startswith(f"{name}."):
            rest = find_existing_key(value, dotted_key[len(name) + 1 :])
            if rest:
                return (name, *rest)
    return ()


def update_config_file(path: Path, parts: tuple[str, ...], value: Any) -> bool:
    """Set a value, or take it out; return whether all comments but its own are kept.

    Raises:
        ConfigError: the file is not valid, and would not be after this.
        FileError: it cannot be written.
    """
    import tomllib

    with lock_file(path):
        read_toml(path)
        text = path.read_bytes().decode() if path.exists() else ""
        fresh, kept = update_toml(text, parts, value)
        check_config(path, tomllib.loads(fresh))
        replace_file_content(path, fresh.encode())
    return kept


def update_toml(text: str, parts: tuple[str, ...], value: Any) -> tuple[str, bool]:
    """The text of the file with that change, and whether its comments are kept."""
    import tomllib

    import tomlkit

    wanted = tomllib.loads(text)
    old = find_value(wanted, parts)
    set_value(wanted, parts, value, {})
    try:
        begins_table = len(parts) > 1 and old is UNSET and parts[0] not in tomllib.loads(text)
        document = tomlkit.parse(f"{text.rstrip()}\n\n" if begins_table and text.strip() else text)
        inner = find_value(document, parts)
        lost = isinstance(old, dict | list) and "#" in getattr(inner, "as_string", str)()
        set_value(document, parts, value, tomlkit.table(is_super_table=True))
        fresh = tomlkit.dumps(document)
        if tomllib.loads(fresh) == wanted:
            return fresh, not lost
    except Exception:  # noqa: BLE001, S110 - whatever it cannot do is done without it
        pass
    import tomli_w

    return tomli_w.dumps(wanted), "#" not in text


def set_value(values: MutableMapping[str, Any], parts: tuple[str, ...], value: Any, new_table: Any) -> None:
    """Set a value, or take it out with all tables that it leaves empty; a missing table is made like `new_table`."""
    import copy

    *way, name = parts
    if way and way[0] not in values:
        values[way[0]] = copy.deepcopy(new_table)
    if way:
        inner = values[way[0]]
        set_value(inner, parts[1:], value, new_table)
        if value is UNSET and not inner:
            del values[way[0]]
    elif value is UNSET:
        values.pop(name, None)
    else:
        values[name] = value


def replace_file_content(path: Path, data: bytes) -> None:
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
