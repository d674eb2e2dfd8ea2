"""What decides which tools a server lists, as far as that can be seen without starting it."""

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
    """A hash of all that is configured of a server, variables filled in, and of the files that its command names.

    The working directory counts where it makes a difference in those: in a relative `cwd`, or which file is meant.

    Args:
        server: as configured.
        environment: where the values of variables are from, and `PATH`.
        directory: the working directory.

    Raises:
        ConfigError: a variable is not set.
    """
    filled = expand_variables(server, environment, directory)
    told = {**filled._asdict(), "origin": "", "env": dict(filled.env), "headers": dict(filled.headers)}
    if filled.cwd:
        told["cwd"] = str(resolve_server_folder(filled, directory))
    files = list(find_command_files(filled, environment, directory)) if filled.command else []
    return hashlib.sha256(json.dumps([VERSION, told, files], sort_keys=True).encode()).hexdigest()


def resolve_server_folder(server: ServerConfig, directory: Path) -> Path:
    """Where a server runs."""
    return directory / os.path.expanduser(server.cwd)


def find_command_files(
    server: ServerConfig, environment: Mapping[str, str], directory: Path
) -> Iterator[tuple[str, str, int, int] | None]:
    """The program, and each file that an argument names, `--option=FILE` too: path, what it is, size and time."""
    folder = resolve_server_folder(server, directory)
    program = os.path.expanduser(server.command)
    if "/" not in program:
        path = server.env.get("PATH", environment.get("PATH", os.defpath))
        program = shutil.which(program, path=path) or program
    yield describe_file(folder, program)
    for word in server.args:
        yield describe_file(folder, word)
        if word.startswith("-") and "=" in word:
            yield describe_file(folder, word.partition("=")[2])


def describe_file(folder: Path, name: str) -> tuple[str, str, int, int] | None:
    """A file as it is now; None where there is none of that name."""
    path = os.path.join(folder, name)
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    # What is in a folder changes with all that is done there.
    return (path, os.path.realpath(path), status.st_size, status.st_mtime_ns) if S_ISREG(status.st_mode) else None
