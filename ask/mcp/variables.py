"""Expansion of environment variables in the configuration of servers, so that files need not contain secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from ask.errors import ConfigError
from ask.mcp.server_config import ServerConfig

BRACED_PATTERN = r"\$\{(?:env:)?(?P<name>\w+|input:[^}]*)(?::-(?P<default>[^}]*))?\}"
BRACED_VARIABLE = re.compile(BRACED_PATTERN)
"""`${NAME}`, `${NAME:-default}`, and `${env:NAME}` as in VS Code."""
ANY_VARIABLE = re.compile(BRACED_PATTERN + r"|\$(?P<bare>[A-Za-z_]\w*)|(?P<dollar>\$\$)")
"""`BRACED_VARIABLE`, `$NAME`, and `$$` for a dollar sign."""


def expand_variables(server: ServerConfig, environment: Mapping[str, str], directory: Path) -> ServerConfig:
    """Expand all variables in a server's configuration: `$NAME` only in `env` and `headers`, `${NAME}` everywhere.

    `${workspaceFolder}`, as in VS Code, is the working directory.

    Raises:
        ConfigError: a variable is not set and has no default.
    """
    values = {"workspaceFolder": str(directory), "userHome": str(Path.home()), **environment}
    expand_braced = partial(expand_text, BRACED_VARIABLE, values=values, server=server)
    expand_any = partial(expand_text, ANY_VARIABLE, values=values, server=server)
    return server._replace(
        command=expand_braced(server.command, key="command"),
        args=tuple(expand_braced(text, key="args") for text in server.args),
        cwd=expand_braced(server.cwd, key="cwd"),
        url=expand_braced(server.url, key="url"),
        env={name: expand_any(text, key=f"env.{name}") for name, text in server.env.items()},
        headers={name: expand_any(text, key=f"headers.{name}") for name, text in server.headers.items()},
    )


def expand_text(
    pattern: re.Pattern[str], text: str, *, values: Mapping[str, str], server: ServerConfig, key: str
) -> str:
    """Replace the variables that match a pattern. `key` is named in errors.

    Raises:
        ConfigError: a variable is not set and has no default.
    """

    def expand_match(match: re.Match[str]) -> str:
        groups = match.groupdict()
        if groups.get("dollar"):
            return "$"
        name = groups["name"] or groups["bare"]
        value = values.get(name, groups["default"])
        if value is None:
            raise ConfigError(f"the MCP server {server.name} is left out: its {key} needs ${name}", f"set {name}")
        return value

    return pattern.sub(expand_match, text)
