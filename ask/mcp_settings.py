"""Validation of the `[mcp.servers.NAME]` tables of config.toml."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from ask.errors import ConfigError

SERVER_KEYS = {
    "command": "a string",
    "args": "a list of strings",
    "env": "a table of strings",
    "cwd": "a string",
    "url": "a string",
    "headers": "a table of strings",
    "type": "one of stdio, http, sse",
    "timeout": "a number of seconds above 0",
    "enabled": "true or false",
    "tools": "a list of strings",
}
"""The allowed keys, and the type of each."""
SERVER_NAME_PATTERN = re.compile(r"(?!.*__)[A-Za-z0-9_-]{1,32}")
"""Valid server names.

The names of a server's tools begin with its name and two underscores.
"""
SERVER_NAME_HINT = "use letters, digits, - and single _, at most 32"
MAX_TIMEOUT_SECONDS = 31_536_000
"""One year."""


def check_server_tables(path: Path, servers: Any) -> Iterator[tuple[str, str]]:
    """Check the table `[mcp.servers]`, yielding each unknown key as (table, key).

    `path` is the file to name in errors.

    Raises:
        ConfigError: a value of the wrong type, or a server without a command or URL.
    """
    if not isinstance(servers, dict):
        raise ConfigError(f"{path}: mcp.servers must be a table", "write [mcp.servers.NAME]")
    for name, table in servers.items():
        table_name = f"mcp.servers.{name}"
        if not SERVER_NAME_PATTERN.fullmatch(name):
            raise ConfigError(f"{path}: {name!r} is no name for an MCP server", SERVER_NAME_HINT)
        if not isinstance(table, dict):
            raise ConfigError(f"{path}: {table_name} must be a table", f"write [{table_name}]")
        for key, value in table.items():
            if key not in SERVER_KEYS:
                yield table_name, key
            elif not _is_valid_value(SERVER_KEYS[key], value):
                _raise_invalid_value(path, f"{table_name}.{key}", SERVER_KEYS[key], value)
        _check_server_type(path, table_name, table)


def _check_server_type(path: Path, table_name: str, table: Mapping[str, Any]) -> None:
    if "command" in table and "url" in table:
        raise ConfigError(f"{path}: {table_name} has a command and a URL", "leave one of them out")
    if table.get("enabled", True) and not (table.get("command") or table.get("url")):
        raise ConfigError(f"{path}: {table_name} has neither a command nor a URL", "set command, or url")
    if "url" in table and not re.match(r"https?://[^/]", table["url"]):
        _raise_invalid_value(path, f"{table_name}.url", "a URL that begins with http:// or https://", table["url"])
    if table.get("type", "stdio") != "stdio" and "command" in table:
        raise ConfigError(f"{path}: {table_name} has a command, so its type is stdio", "leave type out")
    if table.get("type") == "stdio" and "url" in table:
        raise ConfigError(f"{path}: {table_name} has a URL, so its type is http or sse", "leave type out")


def _is_valid_value(expected: str, value: Any) -> bool:
    if expected.startswith("one of"):
        return value in ("stdio", "http", "sse")
    if expected == "a string":
        return isinstance(value, str) and "\0" not in value
    if expected == "true or false":
        return isinstance(value, bool)
    if expected == "a list of strings":
        return isinstance(value, list) and all(isinstance(item, str) and "\0" not in item for item in value)
    if expected == "a table of strings":
        return isinstance(value, dict) and all(isinstance(item, str) and "\0" not in item for item in value.values())
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= MAX_TIMEOUT_SECONDS


def _raise_invalid_value(path: Path, key: str, expected: str, value: Any) -> NoReturn:
    # env, headers and url may contain secrets.
    advice = "" if key.endswith((".env", ".headers", ".url")) else f"it is {value!r}"
    raise ConfigError(f"{path}: {key} must be {expected}", advice)
