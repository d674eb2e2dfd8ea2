"""The MCP servers that the user has configured: in config.toml, and in the JSON files that other programs use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ask.config import Config
from ask.errors import ConfigError
from ask.messages import NOTHING
from ask.server_tables import SERVER_KEYS

EXTRA = "mcp"
"""The extra whose package speaks to servers."""
JSON_FILE = "mcp.json"
"""The file in the folder of config.toml that is read by itself."""
START_TIMEOUT = 10.0


class Server(NamedTuple):
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
    env: Mapping[str, str] = NOTHING
    cwd: str = ""
    url: str = ""
    headers: Mapping[str, str] = NOTHING
    timeout: float = START_TIMEOUT
    enabled: bool = True
    tools: tuple[str, ...] = ()


class Found(NamedTuple):
    """What is configured, by name in the order of the files; `warnings` are lines about what is not understood."""

    servers: Mapping[str, Server]
    warnings: Sequence[str] = ()


def find_servers(config: Config, folder: Path) -> Found:
    """All servers. Where two files name one, config.toml comes first, then the folder's mcp.json, then the others.

    Args:
        config: the content of config.toml, which is checked.
        folder: the folder of config.toml.
    """
    own = folder / "config.toml"
    servers = {name: from_table(name, table, own) for name, table in config.get("mcp.servers", {}).items()}
    warnings: list[str] = []
    named = [folder / Path(file).expanduser() for file in config.get("mcp.files", ())]
    for path in dict.fromkeys([*([folder / JSON_FILE] if (folder / JSON_FILE).exists() else []), *named]):
        from ask.mcp.json_files import read_servers

        try:
            found = read_servers(path)
        except ConfigError as error:
            warnings.append(str(error))
            continue
        warnings += found.warnings
        servers |= {name: one for name, one in found.servers.items() if name not in servers}
    return Found(servers, warnings)


def from_table(name: str, table: Mapping[str, Any], origin: Path) -> Server:
    """The server that a checked table describes."""
    kind = table.get("type") or ("http" if "url" in table else "stdio")
    known: dict[str, Any] = {key: value for key, value in table.items() if key in SERVER_KEYS}
    known |= {key: tuple(value) for key, value in known.items() if isinstance(value, list)}
    return Server(**{**known, "name": name, "origin": origin, "type": kind})


def as_table(server: Server) -> dict[str, Any]:
    """What config.toml is to hold of a server; what is as usual is left out."""
    usual = Server(server.name, server.origin, type="http" if server.url else "stdio")
    told = {key: value for key, value in server._asdict().items() if value != getattr(usual, key)}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in told.items()}
