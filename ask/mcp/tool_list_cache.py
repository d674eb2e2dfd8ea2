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
from ask.mcp.server_config import Server
from ask.mcp.tool_listing import Listed, Offer, made_fit
from ask.parsing import as_dict, as_number

FORMAT = 2
FRESH = 86_400.0
"""Seconds for which a list is believed: not all that a server depends on can be seen from here."""

KINDS = {"name": str, "description": str, "schema": dict, "reads_only": bool, "needs_task": bool}
"""What a tool is kept as."""


class KeptLists:
    """The lists that are kept.

    Args:
        folder: where; it need not exist.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, server: Server, mark: str) -> Offer | None:
        """What a server offered when it was last started; None where that is not known for sure.

        `mark` is the fingerprint of what it is now.
        """
        try:
            kept = as_dict(json.loads(self._file(server.name).read_bytes()))
        except (OSError, ValueError, RecursionError):
            return None
        written = as_number(kept.get("time"))
        if (kept.get("format"), kept.get("fingerprint")) != (FORMAT, mark) or written is None:
            return None
        listed, notes = as_listed(kept.get("tools")), as_texts(kept.get("notes"))
        if listed is None or notes is None or not 0 <= time.time() - written < FRESH:
            return None
        return Offer(server, [made_fit(server, one) for one in listed], notes)

    def keep(self, offer: Offer, mark: str, version: str) -> None:
        """Keep what a server offers.

        Args:
            offer: what that is.
            mark: the fingerprint of what it was before it was started.
            version: its own name and version, for whoever reads the file.
        """
        table: Mapping[str, Any] = {
            "format": FORMAT,
            "fingerprint": mark,
            "time": time.time(),
            "version": version,
            "tools": [one._asdict() for one in offer.tools],
            "notes": list(offer.notes),
        }
        with suppress(OSError):
            write_private_file(self._file(offer.server.name), json.dumps(table).encode())

    def forget(self, name: str) -> None:
        """Keep nothing of a server any more."""
        with suppress(OSError):
            self._file(name).unlink()

    def _file(self, name: str) -> Path:
        return self._folder / f"{name}.json"


def as_listed(value: Any) -> Sequence[Listed] | None:
    """The tools of a list as it is kept; None where it is none."""
    if not isinstance(value, list):
        return None
    tools = []
    for entry in map(as_dict, value):
        kinds = {field: type(entry.get(field)) for field in Listed._fields}
        if kinds != KINDS:
            return None
        tools.append(Listed(**{field: entry[field] for field in KINDS}))
    return tools


def as_texts(value: Any) -> list[str] | None:
    """The list of strings; None where it is none."""
    return value if isinstance(value, list) and all(isinstance(one, str) for one in value) else None
