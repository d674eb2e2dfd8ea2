"""The cache of tool lists, with which tools can be offered without starting their servers.

There is one file per server. If it cannot be read or written, the server is started instead.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ask.atomic_files import write_private_file
from ask.mcp.server_config import ServerConfig
from ask.mcp.tool_listing import ServerTools, ToolListing, normalize_listing
from ask.parsing import as_dict, as_number

FORMAT_VERSION = 2
MAX_AGE = 86_400.0
"""Seconds until an entry expires: the fingerprint does not cover everything that a server's tools depend on."""

FIELD_TYPES = {"name": str, "description": str, "schema": dict, "reads_only": bool, "needs_task": bool}
"""The types of the fields of a cached tool."""


class ToolListCache:
    """The cached tool lists in a folder, which need not exist yet."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, server: ServerConfig, fingerprint: str) -> ServerTools | None:
        """Return the tools of a server, None if there is no valid entry with this fingerprint."""
        try:
            entry = as_dict(json.loads(self._build_path(server.name).read_bytes()))
        except (OSError, ValueError, RecursionError):
            return None
        write_time = as_number(entry.get("time"))
        if (entry.get("format"), entry.get("fingerprint")) != (FORMAT_VERSION, fingerprint) or write_time is None:
            return None
        listings, notes = parse_tool_listings(entry.get("tools")), parse_strings(entry.get("notes"))
        if listings is None or notes is None or not 0 <= time.time() - write_time < MAX_AGE:
            return None
        return ServerTools(server, [normalize_listing(server, listing) for listing in listings], notes)

    def write(self, server_tools: ServerTools, fingerprint: str, version: str) -> None:
        """Save the tools of a server.

        `fingerprint` must have been computed before the server was started. `version` is only informative.
        """
        entry: Mapping[str, Any] = {
            "format": FORMAT_VERSION,
            "fingerprint": fingerprint,
            "time": time.time(),
            "version": version,
            "tools": [listing._asdict() for listing in server_tools.tools],
            "notes": list(server_tools.notes),
        }
        with suppress(OSError):
            write_private_file(self._build_path(server_tools.server.name), json.dumps(entry).encode())

    def delete(self, server_name: str) -> None:
        """Delete the entry of a server."""
        with suppress(OSError):
            self._build_path(server_name).unlink()

    def _build_path(self, server_name: str) -> Path:
        return self._folder / f"{server_name}.json"


def parse_tool_listings(value: Any) -> Sequence[ToolListing] | None:
    """Parse cached tools; None if they are invalid."""
    if not isinstance(value, list):
        return None
    tools = []
    for entry in map(as_dict, value):
        types = {field: type(entry.get(field)) for field in ToolListing._fields}
        if types != FIELD_TYPES:
            return None
        tools.append(ToolListing(**{field: entry[field] for field in FIELD_TYPES}))
    return tools


def parse_strings(value: Any) -> list[str] | None:
    """Return a list of strings; None for anything else."""
    return value if isinstance(value, list) and all(isinstance(item, str) for item in value) else None
