"""The prompts and resources that servers listed last, for shell completion, which never starts a server."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from ask.atomic_files import write_private_file
from ask.regular_files import read_regular_file

AddressKind = Literal["prompts", "resources"]
Address = tuple[str, str]
"""The name of a prompt or the URI of a resource, and its description."""


def write_addresses(cache_dir: Path, server_name: str, kind: AddressKind, addresses: Iterable[Address]) -> None:
    """Save what a server has listed. It does not matter if that fails."""
    with suppress(OSError):
        write_private_file(_build_path(cache_dir, server_name, kind), json.dumps([*addresses]).encode())


def read_addresses(cache_dir: Path, server_name: str, kind: AddressKind) -> Sequence[Address] | None:
    """Return what a server has listed; None if it has not been asked yet."""
    try:
        rows = json.loads(read_regular_file(_build_path(cache_dir, server_name, kind)))
        return [(str(name), str(description)) for name, description in rows]
    except (OSError, ValueError, TypeError, RecursionError):
        return None


def _build_path(cache_dir: Path, server_name: str, kind: AddressKind) -> Path:
    return cache_dir / "mcp" / f"{server_name}.{kind}.json"
