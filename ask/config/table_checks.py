"""Checks of the tables in config.toml and in files like it, with messages that name the file and the key."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from ask.config.type_checks import MISSING, ValuePath, WrongTypeError, format_path, get_fields, parse_value
from ask.errors import ConfigError
from ask.profiles import ModelProfile, find_pattern_problem
from ask.text import find_meant_key, format_unknown_key

DESTINATION_KEYS = ("base_url", "headers")
"""The keys of `[providers.NAME]` without which data would be sent elsewhere, or be kept there."""
DESTINATION_PATTERN = re.compile(r"url|\buri|endpoint|host|address|api_?base|headers", re.IGNORECASE)
"""Matches the keys that other programs use for these."""
_SECRET_KEYS = {"env", "headers", "oauth", "url"}
"""Keys whose values may be or contain secrets, so that errors do not contain them."""


def check_table(path: Path, parts: ValuePath, table: Any) -> None:
    """Raise a ConfigError unless a value is a table."""
    if not isinstance(table, dict):
        raise ConfigError(f"{path}: {format_path(parts)} must be a table", f"write [{format_path(parts)}]")


def _parse_table(
    path: Path, parts: ValuePath, table: Any, hints: Mapping[str, Any], warnings: list[str]
) -> dict[str, Any]:
    """Return the known keys of a table with values of the hinted types; add warnings about the others.

    Raises:
        ConfigError: it is not a table, or a value is of the wrong type or out of range.
    """
    check_table(path, parts, table)
    section = format_path(parts)
    warnings += [f"{path}: {format_unknown_key(name, hints)} in [{section}]" for name in table if name not in hints]
    known = [name for name in table if name in hints]
    return {name: parse_table_value(path, (*parts, name), table[name], hints[name], warnings) for name in known}


def parse_record_table(
    path: Path, parts: ValuePath, table: Any, record_type: Any, *, keys: Collection[str], warnings: list[str] | None
) -> dict[str, Any]:
    """Return the values of a table whose keys are these fields of a record, as `_parse_table` does."""
    hints = {key: get_fields(record_type)[key] for key in keys}
    return _parse_table(path, parts, table, hints, [] if warnings is None else warnings)


def parse_table_value(path: Path, parts: ValuePath, value: Any, hint: Any, warnings: list[str]) -> Any:
    """Convert a value to the hinted type; add warnings about unknown keys in it.

    Raises:
        ConfigError: a value is of the wrong type or out of range.
    """

    def add_warning(key_path: ValuePath, record_type: Any) -> None:
        *outer, name = key_path
        unknown_key = format_unknown_key(str(name), get_fields(record_type))
        warnings.append(f"{path}: {unknown_key} in [{format_path(tuple(outer))}]")

    try:
        return parse_value(value, hint, parts, add_warning)
    except WrongTypeError as error:
        advice = "" if _SECRET_KEYS.intersection(error.path) else f"it is {error.value!r}"
        raise ConfigError(f"{path}: {error}", "add it" if error.value is MISSING else advice) from None


def check_provider_table(
    path: Path, parts: ValuePath, table: Any, hints: Mapping[str, Any], warnings: list[str]
) -> None:
    """Validate a table `[providers.NAME]`; add warnings about unknown keys.

    Raises:
        ConfigError: a value is of the wrong type, a row about models has no valid pattern, or an unknown key may be one
            of `DESTINATION_KEYS`.
    """
    values = _parse_table(path, parts, table, {**hints, "models": tuple[ModelProfile, ...]}, warnings)
    for name in table.keys() - values.keys():
        if find_meant_key(name, hints) in DESTINATION_KEYS or DESTINATION_PATTERN.search(name):
            section = format_path(parts)
            problem = f"{path}: {format_unknown_key(name, hints)} in [{section}]"
            raise ConfigError(problem, f"use base_url and headers, or remove it with ask config unset {section}.{name}")
    if values.get("base_url") == ():
        raise ConfigError(f"{path}: {format_path((*parts, 'base_url'))} is an empty list", "add a URL, or remove it")
    for position, profile in enumerate(values.get("models", ())):
        if problem := find_pattern_problem(profile.pattern):
            key = format_path((*parts, "models", position, "pattern"))
            raise ConfigError(f"{path}: {key} is {profile.pattern!r}", problem)


def parse_models(rows: Any) -> tuple[ModelProfile, ...]:
    """Convert rows `[[providers.NAME.models]]` that have been checked."""
    return parse_value(rows, tuple[ModelProfile, ...])
