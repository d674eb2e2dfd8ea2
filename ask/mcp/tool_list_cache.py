"""The cache of tool lists, with which tools can be offered without starting their servers.

There is one file per server. If it cannot be read or written, the server is started instead.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG

from ask import __version__
from ask.atomic_files import write_private_file
from ask.config.mcp_servers import ServerConfig
from ask.config.type_checks import parse_value
from ask.errors import ConfigError
from ask.mcp.server_config import expand_variables, resolve_server_folder
from ask.mcp.tool_listing import ServerTools, ToolListing, normalize_listing
from ask.parsing import read_dict
from ask.regular_files import read_regular_file

FORMAT_VERSION = 3
MAX_AGE_SECONDS = 86_400.0
"""Seconds until an entry expires: the fingerprint does not cover everything that a server's tools depend on.

A server may set a shorter time with `ttlMs`. 0 counts as not set: it is what SDKs send by default
(https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching), and a tool that is gone is noticed
when it is called.
"""
HANG_SECONDS = 300.0
"""Seconds for which a local server that did not respond is not started again: each start costs its whole timeout."""


class ToolListCache:
    """The cached tool lists in a folder, which need not exist yet."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, server: ServerConfig, fingerprint: str) -> ServerTools | None:
        """Return the tools of a server, or that it does not respond; None if there is no valid entry for it."""
        try:
            entry = read_dict(json.loads(read_regular_file(self._build_path(server.name))))
            if (entry.get("format"), entry.get("fingerprint")) != (FORMAT_VERSION, fingerprint):
                return None
            if not 0 <= time.time() - entry["time"] < min(entry["lifetime"] or MAX_AGE_SECONDS, MAX_AGE_SECONDS):
                return None
            listings = [normalize_listing(server, parse_value(tool, ToolListing)) for tool in entry["tools"]]
            failure = f"{entry['failure']}; ask mcp test {server.name} tries again" if entry.get("failure") else ""
            return ServerTools(server, listings, [str(note) for note in entry["notes"]], failure=failure)
        except (OSError, ValueError, LookupError, TypeError, OverflowError, RecursionError):
            return None

    def write(self, server_tools: ServerTools, fingerprint: str) -> None:
        """Save the tools of a server, or for a while that it does not respond; another failure removes the entry.

        `fingerprint` must have been computed before the server was started.
        """
        server, failure = server_tools.server, server_tools.failure
        if failure and (server.url or server_tools.seconds < server.timeout):
            self.delete(server.name)
            return
        entry = {
            "format": FORMAT_VERSION,
            "fingerprint": fingerprint,
            "time": time.time(),
            "lifetime": HANG_SECONDS if failure else server_tools.lifetime,
            "failure": failure,
            "version": server_tools.version,
            "tools": [listing._asdict() for listing in server_tools.tools],
            "notes": list(server_tools.notes),
        }
        with suppress(OSError):
            write_private_file(self._build_path(server.name), json.dumps(entry).encode())

    def delete(self, server_name: str) -> None:
        with suppress(OSError):
            self._build_path(server_name).unlink()

    def _build_path(self, server_name: str) -> Path:
        return self._folder / f"{server_name}.json"


def compute_fingerprint(server: ServerConfig, environment: Mapping[str, str], directory: Path) -> str:
    """Compute a hash of a server's configuration, with variables expanded, and of the files that its command names.

    A cached tool list is valid as long as it stays the same. The working directory matters only if `cwd` or a file name
    is relative to it. It is "" if a variable is not set, so that the server cannot be started.
    """
    try:
        expanded = expand_variables(server, environment, directory)
    except ConfigError:
        return ""
    table = {**expanded._asdict(), "origin": ""}
    if expanded.cwd:
        table["cwd"] = str(resolve_server_folder(expanded, directory))
    files = list(find_command_files(expanded, environment, directory)) if expanded.command else []
    return hashlib.sha256(json.dumps([__version__, table, files], sort_keys=True).encode()).hexdigest()


def find_command_files(
    server: ServerConfig, environment: Mapping[str, str], directory: Path
) -> Iterator[tuple[str, str, int, int]]:
    """Yield path, real path, size and modification time of the program, and of each file that an argument names.

    An argument may also have the form `--option=FILE`, and be relative to a folder that another one names, as in
    `uv --directory FOLDER run server.py`.
    """
    program = os.path.expanduser(server.command)
    if "/" not in program:
        search_path = server.env.get("PATH", environment.get("PATH", os.defpath))
        program = shutil.which(program, path=search_path) or program
    values = [argument.partition("=")[2] for argument in server.args if argument.startswith("-")]
    names = list(filter(None, (program, *server.args, *values)))
    folder = resolve_server_folder(server, directory)
    folders = [str(folder), *(path for name in names if os.path.isdir(path := os.path.join(folder, name)))]
    for path in dict.fromkeys(os.path.join(folder, name) for name in names for folder in folders):
        with suppress(OSError, ValueError):
            status = os.stat(path)
            if S_ISREG(status.st_mode):  # a folder's modification time changes with every new file
                yield path, os.path.realpath(path), status.st_size, status.st_mtime_ns
