"""What servers have listed, kept in the cache folder, so that they need not be started to be offered.

One file for each server. A list that cannot be read, or kept, costs the time that the server takes to start.
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
"""Seconds for which a list is believed: not all that a server depends on can be seen from here."""

FIELD_TYPES = {"name": str, "description": str, "schema": dict, "reads_only": bool, "needs_task": bool}
"""What a tool is kept as."""


class ToolListCache:
    """The lists that are kept.

    Args:
        folder: where; it need not exist.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, server: ServerConfig, fingerprint: str) -> ServerTools | None:
        """What a server offered when it was last started; None where that is not known for sure.

        `fingerprint` is the fingerprint of what it is now.
        """
        try:
            kept = as_dict(json.loads(self._build_path(server.name).read_bytes()))
        except (OSError, ValueError, RecursionError):
            return None
        written = as_number(kept.get("time"))
        if (kept.get("format"), kept.get("fingerprint")) != (FORMAT_VERSION, fingerprint) or written is None:
            return None
        listed, notes = parse_tool_listings(kept.get("tools")), parse_strings(kept.get("notes"))
        if listed is None or notes is None or not 0 <= time.time() - written < MAX_AGE:
            return None
        return ServerTools(server, [normalize_listing(server, one) for one in listed], notes)

    def write(self, server_tools: ServerTools, fingerprint: str, version: str) -> None:
        """Keep what a server offers.

        Args:
            server_tools: what that is.
            fingerprint: the fingerprint of what it was before it was started.
            version: its own name and version, for whoever reads the file.
        """
        table: Mapping[str, Any] = {
            "format": FORMAT_VERSION,
            "fingerprint": fingerprint,
            "time": time.time(),
            "version": version,
            "tools": [one._asdict() for one in server_tools.tools],
            "notes": list(server_tools.notes),
        }
        with suppress(OSError):
            write_private_file(self._build_path(server_tools.server.name), json.dumps(table).encode())

    def delete(self, server_name: str) -> None:
        """Keep nothing of a server any more."""
        with suppress(OSError):
            self._build_path(server_name).unlink()

    def _build_path(self, server_name: str) -> Path:
        return self._folder / f"{server_name}.json"


def parse_tool_listings(value: Any) -> Sequence[ToolListing] | None:
    """The tools of a list as it is kept; None where it is none."""
    if not isinstance(value, list):
        return None
    tools = []
    for entry in map(as_dict, value):
        kinds = {field: type(entry.get(field)) for field in ToolListing._fields}
        if kinds != FIELD_TYPES:
            return None
        tools.append(ToolListing(**{field: entry[field] for field in FIELD_TYPES}))
    return tools


def parse_strings(value: Any) -> list[str] | None:
    """The list of strings; None where it is none."""
    return value if isinstance(value, list) and all(isinstance(one, str) for one in value) else None
