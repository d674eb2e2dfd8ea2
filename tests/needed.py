"""Programs that a test needs and not every machine has: where the whole suite must pass, they must be there."""

from __future__ import annotations

import os
import shutil

import pytest


def need(*programs: str) -> None:
    """Skip the test where one of these is not installed; under CI, fail."""
    for program in programs:
        if shutil.which(program) is None:
            (pytest.fail if os.environ.get("CI") else pytest.skip)(f"{program} is not installed")


def need_root(reason: str) -> None:
    """Skip the test unless it runs as root, and report the reason."""
    if os.geteuid() != 0:
        pytest.skip(f"needs root: {reason}")
