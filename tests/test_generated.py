"""The generated files are up to date."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_generated_files_are_up_to_date() -> None:
    check = subprocess.run(
        [sys.executable, "-m", "tests.generated", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert check.returncode == 0, check.stderr
