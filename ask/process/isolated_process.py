"""Run a module in a subprocess with limits on time and memory, to process untrusted input."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

MAX_MEMORY_BYTES = 2 << 30
"""Memory limit of the subprocess."""
_PYTHON_VARIABLES = ("PATH", "HOME", "PYTHONPATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "LANG")
_CHILD_CODE = "import sys; sys.path.append(sys.argv.pop(1)); from {module} import main; main()"


def run_in_subprocess(
    module: str, stdin_data: bytes, timeout: float, *arguments: str, environment: Mapping[str, str] | None = None
) -> bytes:
    """Run a module's `main` in a subprocess and return what it writes to stdout.

    Without an `environment`, it gets only what Python needs.

    Raises:
        subprocess.SubprocessError: it took too long (`TimeoutExpired`) or failed (`CalledProcessError`).
    """
    from subprocess import run

    code, root = _CHILD_CODE.format(module=module), str(Path(__file__).parents[2])
    if environment is None:
        environment = {name: os.environ[name] for name in _PYTHON_VARIABLES if name in os.environ}
    return run(
        [sys.executable, "-P", "-c", code, root, *arguments],  # -P: no modules from the working directory
        input=stdin_data,
        capture_output=True,
        timeout=max(timeout, 0.1),
        env=environment,
        start_new_session=True,
        check=True,
    ).stdout


def limit_memory() -> None:
    """Limit this process to `MAX_MEMORY_BYTES`, if the system supports it."""
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
