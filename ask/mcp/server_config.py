"""Configured MCP servers, from config.toml or from the JSON files of other programs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ask.errors import ConfigError
from ask.mcp_settings import SERVER_KEYS, SERVER_NAME_PATTERN, check_server_tables
from ask.messages import EMPTY_MAPPING
from ask.parsing import as_dict, as_list
from ask.settings import Config

MCP_EXTRA = "mcp"
"""The extra whose package speaks to servers."""
JSON_FILE_NAME = "mcp.json"
"""The file in the folder of config.toml that is read by itself."""
DEFAULT_START_TIMEOUT = 10.0


class ServerConfig(NamedTuple):
    """A configured server.

    Attributes:
        name: what its tools' names begin with.
        origin: the file that it is configured in.
        type: "stdio" where it is a program, else "http" or "sse".
        command: the program.
        args: its arguments.
        env: what is added to its environment.
        cwd: where it runs; "" for the working directory.
        url: where it is.
        headers: sent with each request.
        timeout: seconds that it may take to start.
        enabled: whether it is used at all.
        tools: the only tools to offer of it, by its own names; () for all.
    """

    name: str
    origin: Path
    type: str = "stdio"
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = EMPTY_MAPPING
    cwd: str = ""
    url: str = ""
    headers: Mapping[str, str] = EMPTY_MAPPING
    timeout: float = DEFAULT_START_TIMEOUT
    enabled: bool = True
    tools: tuple[str, ...] = ()


class ConfiguredServers(NamedTuple):
    """What is configured, by name in the order of the files; `warnings` are lines about what is not understood."""

    servers: Mapping[str, ServerConfig]
    warnings: Sequence[str] = ()


def find_servers(config: Config, config_dir: Path) -> ConfiguredServers:
    """All servers. Where two files name one, config.toml comes first, then the folder's mcp.json, then the others.

    Args:
        config: the content of config.toml, which is checked.
        config_dir: the folder of config.toml.
    """
    own = config_dir / "config.toml"
    servers = {name: parse_server_table(name, table, own) for name, table in config.get("mcp.servers", {}).items()}
    warnings: list[str] = []
    named = [config_dir / Path(file).expanduser() for file in config.get("mcp.files", ())]
    for path in dict.fromkeys(
        [*([config_dir / JSON_FILE_NAME] if (config_dir / JSON_FILE_NAME).exists() else []), *named]
    ):
        try:
            found = read_servers(path)
        except ConfigError as error:
            warnings.append(str(error))
            continue
        warnings += found.warnings
        servers |= {name: one for name, one in found.servers.items() if name not in servers}
    return ConfiguredServers(servers, warnings)


def parse_server_table(name: str, table: Mapping[str, Any], origin: Path) -> ServerConfig:
    """The server that a checked table describes."""
    kind = table.get("type") or ("http" if "url" in table else "stdio")
    known: dict[str, Any] = {key: value for key, value in table.items() if key in SERVER_KEYS}
    known |= {key: tuple(value) for key, value in known.items() if isinstance(value, list)}
    return ServerConfig(**{**known, "name": name, "origin": origin, "type": kind})


def to_server_table(server: ServerConfig) -> dict[str, Any]:
    """What config.toml is to hold of a server; what is as usual is left out."""
    usual = ServerConfig(server.name, server.origin, type="http" if server.url else "stdio")
    told = {key: value for key, value in server._asdict().items() if value != getattr(usual, key)}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in told.items()}


STRING_PATTERN = r'("(?:\\.|[^"\\])*")'
JSONC_PATTERNS = tuple(
    re.compile(f"{STRING_PATTERN}|{extra}", re.DOTALL) for extra in (r"//[^\n]*|/\*.*?\*/", r",(?=\s*[}\]])")
)
"""What JSON has not but VS Code takes, comments and a comma behind the last item; and strings, which may hold it."""
TYPE_ALIASES = {"streamable-http": "http", "streamableHttp": "http", "streamable_http": "http"}
SIZE_LIMIT = 10_000_000
"""Bytes that such a file may have."""


def read_servers(path: Path) -> ConfiguredServers:
    """The servers in a file; its warnings are about those that cannot be used.

    Raises:
        ConfigError: it cannot be read, or is no such file.
    """
    content = read_json(path)
    tables = content.get("mcpServers", content.get("servers")) if isinstance(content, dict) else None
    if not isinstance(tables, dict):
        raise ConfigError(f"{path} names no MCP servers", 'it should hold {"mcpServers": {NAME: ...}}')
    servers: dict[str, ServerConfig] = {}
    warnings = []
    for name, entry in tables.items():
        fit = normalize_server_name(name)
        try:
            table = normalize_server_entry(as_dict(entry))
            list(check_server_tables(path, {fit: table}))
        except ConfigError as error:
            warnings.append(f"{error.message}; it is left out")
            continue
        if fit in servers:
            warnings.append(f"{path}: {name!r} would be {fit}, as another one is; it is left out")
        servers.setdefault(fit, parse_server_table(fit, table, path))
    return ConfiguredServers(servers, warnings)


def read_json(path: Path) -> Any:
    """The content of a JSON file, which may have comments.

    Raises:
        ConfigError: it cannot be read, or is not JSON.
    """
    try:
        with path.open("rb") as file:
            data = file.read(SIZE_LIMIT + 1)
    except OSError as fault:
        raise ConfigError(f"cannot read {path} ({fault.strerror})", "correct mcp.files in config.toml") from fault
    if len(data) > SIZE_LIMIT:
        raise ConfigError(f"{path} has more than {SIZE_LIMIT:,} bytes", "it is no list of MCP servers")
    try:
        text = data.decode("utf-8-sig")
        try:
            return json.loads(text)
        except json.JSONDecodeError as fault:
            for extra in JSONC_PATTERNS:
                text = extra.sub(lambda match: match[1] or " ", text)
            try:
                return json.loads(text)
            except json.JSONDecodeError:
                raise fault from None
    except (ValueError, RecursionError) as fault:
        raise ConfigError(f"{path} is not valid JSON ({fault})", "correct that line") from fault


def normalize_server_entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    """An entry in the words of config.toml. What other programs keep beside it is for them."""
    # Some count a timeout in milliseconds, and some for calls.
    taken = SERVER_KEYS.keys() - {"timeout"}
    table = {key: value for key, value in entry.items() if key in taken and value is not None}
    url = entry.get("url") or entry.get("serverUrl") or entry.get("httpUrl")
    if url and "command" not in table:
        table["url"] = url
    if "type" in table:
        table["type"] = TYPE_ALIASES.get(str(table["type"]), table["type"])
    if entry.get("disabled") is True:
        table["enabled"] = False
    for part in ("env", "headers"):
        if isinstance(table.get(part), dict):
            table[part] = {name: str(value) for name, value in table[part].items() if value is not None}
    if "*" in as_list(table.get("tools")):
        del table["tools"]
    return table


def normalize_server_name(name: str) -> str:
    """A name that a server may have here, as near as can be to what it has there."""
    if SERVER_NAME_PATTERN.fullmatch(name):
        return name
    fit = re.sub(r"_{2,}", "_", re.sub(r"[^A-Za-z0-9_-]", "_", name))[:32]
    return fit if SERVER_NAME_PATTERN.fullmatch(fit) else "server"
