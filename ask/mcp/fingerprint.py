"""Fingerprints of servers: a cached tool list is valid as long as the fingerprint is the same."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from stat import S_ISREG

from ask.mcp.server_config import ServerConfig
from ask.mcp.variables import expand_variables
from ask.version import VERSION


def compute_fingerprint(server: ServerConfig, environment: Mapping[str, str], directory: Path) -> str:
    """Compute a hash of a server's configuration, with variables expanded, and of the files that its command names.

    The working directory matters only if `cwd` or a file name is relative to it.

    Raises:
        ConfigError: a variable is not set.
    """
    expanded = expand_variables(server, environment, directory)
    table = {**expanded._asdict(), "origin": "", "env": dict(expanded.env), "headers": dict(expanded.headers)}
    if expanded.cwd:
        table["cwd"] = str(resolve_server_folder(expanded, directory))
    files = list(find_command_files(expanded, environment, directory)) if expanded.command else []
    return hashlib.sha256(json.dumps([VERSION, table, files], sort_keys=True).encode()).hexdigest()


def resolve_server_folder(server: ServerConfig, directory: Path) -> Path:
    """Return the folder in which a server is started."""
    return directory / os.path.expanduser(server.cwd)


def find_command_files(
    server: ServerConfig, environment: Mapping[str, str], directory: Path
) -> Iterator[tuple[str, str, int, int] | None]:
    """Yield the program, and each file that an argument names, also as `--option=FILE`; see `describe_file`."""
    folder = resolve_server_folder(server, directory)
    program = os.path.expanduser(server.command)
    if "/" not in program:
        path = server.env.get("PATH", environment.get("PATH", os.defpath))
        program = shutil.which(program, path=path) or program
    yield describe_file(folder, program)
    for argument in server.args:
        yield describe_file(folder, argument)
        if argument.startswith("-") and "=" in argument:
            yield describe_file(folder, argument.partition("=")[2])


def describe_file(folder: Path, name: str) -> tuple[str, str, int, int] | None:
    """Return the path, real path, size and modification time of a file, None if it is not a regular file."""
    path = os.path.join(folder, name)
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    # Not for folders, whose modification time changes with every new file.
    return (path, os.path.realpath(path), status.st_size, status.st_mtime_ns) if S_ISREG(status.st_mode) else None
