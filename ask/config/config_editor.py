"""Changes to single values of config.toml that keep its comments and never leave an invalid file."""

from __future__ import annotations

import copy
import os
from codecs import BOM_UTF8
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any

from ask.atomic_files import convert_write_errors, lock_file, write_private_file
from ask.config.config_file import check_config, decode_config, read_toml, split_invalid_entries
from ask.errors import ConfigError
from ask.regular_files import read_regular_file

UNSET = object()
"""Stands for the absence of a value: setting it removes the key."""


def find_value(values: Mapping[str, Any], parts: tuple[str, ...]) -> Any:
    """Return the value at a key path, or `UNSET`."""
    value: Any = values
    for part in parts:
        if not isinstance(value, Mapping) or part not in value:
            return UNSET
        value = value[part]
    return value


def find_existing_key(values: Mapping[str, Any], dotted_key: str) -> tuple[str, ...]:
    """Split a dotted key into the path of an existing key or table.

    Names may contain dots. Returns () if nothing matches.
    """
    for name, value in values.items():
        if name == dotted_key:
            return (name,)
        if isinstance(value, Mapping) and dotted_key.startswith(f"{name}."):
            rest = find_existing_key(value, dotted_key[len(name) + 1 :])
            if rest:
                return (name, *rest)
    return ()


def update_config_file(path: Path, parts: tuple[str, ...], value: Any) -> bool:
    """Set or remove a value; return whether all other comments are kept.

    A value can be removed from a file that is invalid for other reasons, too.

    Raises:
        ConfigError: the file is not TOML, or is invalid after the change.
        FileError: the file cannot be written.
    """
    import tomllib

    with lock_file(path):
        read_toml(path)
        data = read_regular_file(path) if path.exists() else b""
        text = decode_config(data)
        new_text, comments_kept = update_toml(text, parts, value)
        errors: Mapping[str, ConfigError] = {}
        try:
            values, errors = split_invalid_entries(path, tomllib.loads(new_text))
            check_config(path, values)
        except ConfigError:
            if value is not UNSET:
                raise
        for length in range(1, len(parts) + 1):  # an invalid entry does not keep the user from changing others
            if error := errors.get(".".join(parts[:length])):
                raise error
        if "\r\n" in text:
            new_text = new_text.replace("\r\n", "\n").replace("\n", "\r\n")
        replace_file_content(path, new_text.encode("utf-8-sig" if data.startswith(BOM_UTF8) else "utf-8"))
    return comments_kept


def update_toml(text: str, parts: tuple[str, ...], value: Any) -> tuple[str, bool]:
    """Return the changed text, and whether all other comments are kept."""
    import tomllib

    import tomlkit

    expected = tomllib.loads(text)
    old_value = find_value(expected, parts)
    set_value(expected, parts, value, {})
    try:
        begins_table = len(parts) > 1 and old_value is UNSET and parts[0] not in tomllib.loads(text)
        document = tomlkit.parse(f"{text.rstrip()}\n\n" if begins_table and text.strip() else text)
        old_item = find_value(document, parts)
        loses_comments = isinstance(old_value, dict | list) and "#" in getattr(old_item, "as_string", str)()
        set_value(document, parts, value, tomlkit.table(is_super_table=True))
        new_text = tomlkit.dumps(document)
        if tomllib.loads(new_text) == expected:
            return new_text, not loses_comments
    except Exception:  # noqa: BLE001, S110 - tomlkit fails on some valid files: write without comments
        pass
    import tomli_w

    return tomli_w.dumps(expected), "#" not in text


def set_value(values: MutableMapping[str, Any], parts: tuple[str, ...], value: Any, new_table: Any) -> None:
    """Set a value, or remove it with the tables that become empty. Missing tables are copies of `new_table`."""
    *tables, name = parts
    if tables and tables[0] not in values:
        values[tables[0]] = copy.deepcopy(new_table)
    if tables:
        table = values[tables[0]]
        set_value(table, parts[1:], value, new_table)
        if value is UNSET and not table:
            del values[tables[0]]
    elif value is UNSET:
        values.pop(name, None)
    else:
        values[name] = value


def replace_file_content(path: Path, data: bytes) -> None:
    """Replace the content of a file, keeping its permissions and symbolic links to it.

    Raises:
        FileError: it cannot be written.
    """
    with convert_write_errors(path):
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(0, "it is read-only")
        write_private_file(path, data, keep_mode=True, durable=True)
