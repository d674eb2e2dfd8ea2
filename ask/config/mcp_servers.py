"""The tables `[mcp.servers.NAME]` of config.toml. The files of other programs are converted to such tables, too."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypedDict
from urllib.parse import urlsplit

from ask.config.settings import PositiveSeconds
from ask.errors import ConfigError
from ask.messages import EMPTY_MAPPING
from ask.records import NamedTuple
from ask.text import find_meant_key, format_unknown_key

SERVER_NAME_PATTERN = r"(?!.*__)[A-Za-z0-9_-]{1,32}"
"""Valid names of MCP servers.

The names of a server's tools begin with its name and two underscores.
"""
DEFAULT_START_SECONDS = 10.0


class OAuthConfig(TypedDict, total=False):
    """The keys of a table `[mcp.servers.NAME.oauth]`."""

    client_id: str
    client_secret: str
    private_key: str
    issuer: str
    grant_type: Literal["authorization_code", "client_credentials"]
    scope: str
    redirect_uri: str
    client_metadata_url: str


class ServerConfig(NamedTuple):
    """The configuration of a server; the fields after `origin` are the keys of its table in config.toml."""

    name: str
    """The prefix of its tools' names."""
    origin: Path
    """The file that configures it."""
    type: str = "stdio"
    """"stdio" for a program, or "http" or "sse"."""
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = EMPTY_MAPPING
    """Variables that are added to its environment."""
    cwd: str = ""
    """The folder it runs in; "" for the working directory."""
    url: str = ""
    headers: Mapping[str, str] = EMPTY_MAPPING
    """HTTP headers of each request."""
    oauth: OAuthConfig = OAuthConfig()
    """How to sign in to it, if the defaults do not fit."""
    timeout: PositiveSeconds = DEFAULT_START_SECONDS
    """Seconds that it may take to start."""
    enabled: bool = True
    tools: tuple[str, ...] | None = None
    """The names of the tools to offer, as the server calls them; None for all."""
    disabled_tools: tuple[str, ...] = ()
    """Those of the tools that are not offered."""


SERVER_KEYS = ServerConfig._fields[2:]
RESTRICTIONS = ("enabled", "tools", "disabled_tools")
"""Keys without which more would be offered."""
FOREIGN_DISABLED_TOOLS = ("disabledTools", "excludeTools")
"""`disabled_tools` of Roo Code and Gemini CLI."""
FOREIGN_RESTRICTIONS = ("disabled", "enabled_tools", "includeTools", *FOREIGN_DISABLED_TOOLS)
"""Those of other programs, also of Cline and Codex."""


def check_server_tables(path: Path, servers: Any) -> list[str]:
    """Validate the table `[mcp.servers]`; return warnings about unknown keys.

    Raises:
        ConfigError: a value of the wrong type, a misspelled restriction, or a server without a command or URL.
    """
    if not isinstance(servers, dict):
        raise ConfigError(f"{path}: mcp.servers must be a table", "write [mcp.servers.NAME]")
    warnings: list[str] = []
    for name, table in servers.items():
        if not re.fullmatch(SERVER_NAME_PATTERN, name):
            hint = "use letters, digits, - and single _, at most 32"
            raise ConfigError(f"{path}: {name!r} is not a valid name for an MCP server", hint)
        parse_server_table(name, table, path, warnings)
        _check_restrictions(path, f"mcp.servers.{name}", table)
        key = f"{path}: mcp.servers.{name}"
        if "command" in table and "url" in table:
            raise ConfigError(f"{key} has a command and a URL", "remove one of them")
        if table.get("enabled", True) and not (table.get("command") or table.get("url")):
            raise ConfigError(f"{key} has neither a command nor a URL", "set command, or url")
        if "url" in table and not _is_url(table["url"]):
            raise ConfigError(f"{key}.url must be a URL that starts with http:// or https://")
        target, types = ("URL", ("http", "sse")) if "url" in table else ("command", ("stdio",))
        if table.get("type", types[0]) not in types:
            raise ConfigError(f"{key} has a {target}, so its type is {' or '.join(types)}", "remove type")
        if oauth := table.get("oauth"):
            _check_oauth_table(f"{key}.oauth", oauth)
            if "url" not in table:
                raise ConfigError(f"{key} has no URL to sign in to", "remove oauth")
    return warnings


def _check_restrictions(path: Path, server_key: str, table: Mapping[str, Any]) -> None:
    """Raise a ConfigError for an unknown key that probably means one of `RESTRICTIONS`."""
    for key in table.keys() - {*SERVER_KEYS}:
        if key in FOREIGN_RESTRICTIONS or find_meant_key(key, SERVER_KEYS) in RESTRICTIONS:
            hint = "use enabled, tools and disabled_tools, or remove it with ask config unset"
            problem = f"{path}: {format_unknown_key(key, SERVER_KEYS)} in [{server_key}]"
            raise ConfigError(problem, f"{hint} {server_key}.{key}")


def _is_url(text: str) -> bool:
    """Check for a URL, in which variables are not expanded yet."""
    try:
        urlsplit(text)
    except ValueError:
        return False
    return re.match(r"https?://[^/]", text) is not None


def _check_oauth_table(key: str, table: OAuthConfig) -> None:
    if table.get("grant_type") == "client_credentials" or table.keys() & {"client_secret", "private_key"}:
        # Without an issuer, the MCP server would choose who receives the secret.
        for required in ("client_id", "issuer"):
            if required not in table:
                raise ConfigError(f"{key} has no {required}", f"add {required}")
    if not re.match(r"https://[^/]+/.|$", table.get("client_metadata_url", "")):
        raise ConfigError(f"{key}.client_metadata_url must be an https URL with a path")
    if not re.match(r"http://(127\.0\.0\.1|localhost):\d+/|$", table.get("redirect_uri", "")):
        raise ConfigError(f"{key}.redirect_uri must be a URL such as http://127.0.0.1:8400/callback")


def parse_server_table(name: str, table: Any, origin: Path, warnings: list[str] | None = None) -> ServerConfig:
    """Create a server from its table; add warnings about unknown keys.

    Raises:
        ConfigError: a value has the wrong type.
    """
    from ask.config.table_checks import parse_record_table

    parts = ("mcp", "servers", name)
    values = parse_record_table(origin, parts, table, ServerConfig, keys=SERVER_KEYS, warnings=warnings)
    if values.get("tools") == () and warnings is not None:
        warnings.append(f"{origin}: mcp.servers.{name}.tools is empty, so no tool is offered; without it, all are")
    server_type = values.get("type") or ("http" if "url" in values else "stdio")
    return ServerConfig(**{**values, "name": name, "origin": origin, "type": server_type})
