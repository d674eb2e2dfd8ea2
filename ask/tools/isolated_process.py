"""Work on what a stranger wrote, in a process of its own: it may take for ever, or all memory, or crash."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

MEMORY_LIMIT = 2 << 30
"""Bytes that such a process may take."""
_CHILD_CODE = "import sys; sys.path.append(sys.argv.pop(1)); from {module} import main; main()"


def run_in_subprocess(
    module: str, stdin_data: bytes, timeout: float, environment: Mapping[str, str], *arguments: str
) -> bytes:
    """What a module's `main` writes to standard output, in a process of its own.

    Args:
        module: where that is.
        stdin_data: its standard input.
        timeout: how long it may take.
        environment: its environment.
        arguments: its arguments.

    Raises:
        subprocess.SubprocessError: it takes too long (`TimeoutExpired`), or fails (`CalledProcessError`).
    """
    from subprocess import run

    # -P: no file in the working directory is taken for a module.
    command = [
        sys.executable,
        "-P",
        "-c",
        _CHILD_CODE.format(module=module),
        str(Path(__file__).parents[2]),
        *arguments,
    ]
    return run(
        command,
        input=stdin_data,
        capture_output=True,
        timeout=max(timeout, 0.1),
        env=environment,
        start_new_session=True,
        check=True,
    ).stdout


def limit_memory() -> None:
    """Hold this process to `MEMORY_LIMIT`, where the system can."""
    import resource

    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
