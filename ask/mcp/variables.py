"""Fills the environment's variables into what is configured of a server, so that no secret need stand in a file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from ask.errors import ConfigError
from ask.mcp.server_config import ServerConfig

BRACED_PATTERN = r"\$\{(?:env:)?(?P<name>\w+|input:[^}]*)(?::-(?P<default>[^}]*))?\}"
BRACED_VARIABLE = re.compile(BRACED_PATTERN)
"""`${NAME}`, `${NAME:-what else}`, and `${env:NAME}` as VS Code writes it."""
ANY_VARIABLE = re.compile(BRACED_PATTERN + r"|\$(?P<bare>[A-Za-z_]\w*)|(?P<dollar>\$\$)")
"""The same, `$NAME`, and `$$` for a dollar."""


def expand_variables(server: ServerConfig, environment: Mapping[str, str], directory: Path) -> ServerConfig:
    """The server with all variables replaced: in `env` and `headers` as `$NAME` too, elsewhere in braces alone.

    Args:
        server: as configured.
        environment: where the values are from.
        directory: the working directory, which VS Code calls `${workspaceFolder}`.

    Raises:
        ConfigError: a variable is not set, and has no default.
    """
    values = {"workspaceFolder": str(directory), "userHome": str(Path.home()), **environment}
    braces = partial(expand_text, BRACED_VARIABLE, values=values, server=server)
    anywhere = partial(expand_text, ANY_VARIABLE, values=values, server=server)
    return server._replace(
        command=braces(server.command, place="command"),
        args=tuple(braces(text, place="args") for text in server.args),
        cwd=braces(server.cwd, place="cwd"),
        url=braces(server.url, place="url"),
        env={name: anywhere(text, place=f"env.{name}") for name, text in server.env.items()},
        headers={name: anywhere(text, place=f"headers.{name}") for name, text in server.headers.items()},
    )


def expand_text(
    pattern: re.Pattern[str], text: str, *, values: Mapping[str, str], server: ServerConfig, place: str
) -> str:
    """The text with the variables that the pattern finds replaced.

    Raises:
        ConfigError: one is not set.
    """

    def expand_match(match: re.Match[str]) -> str:
        found = match.groupdict()
        if found.get("dollar"):
            return "$"
        name = found["name"] or found["bare"]
        told = values.get(name, found["default"])
        if told is None:
            raise ConfigError(f"the MCP server {server.name} is left out: its {place} needs ${name}", f"set {name}")
        return told

    return pattern.sub(expand_match, text)
