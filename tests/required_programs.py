"""Skips tests on machines without the programs they need; under CI these tests fail instead."""

from __future__ import annotations

import os
import shutil

import pytest


def require_programs(*programs: str) -> None:
    """Skip the test if one of the programs is not installed; under CI, fail."""
    for program in programs:
        if shutil.which(program) is None:
            (pytest.fail if os.environ.get("CI") else pytest.skip)(f"{program} is not installed")


def require_root(reason: str) -> None:
    """Skip the test unless it runs as root."""
    if os.geteuid() != 0:
        pytest.skip(f"needs root: {reason}")
