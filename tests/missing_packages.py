"""Runs `ask` as if an optional package were not installed."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.program import Home

ROOT = Path(__file__).parents[1]


def make_command_without(package: str, home: Home) -> list[str]:
    """Return an `ask` command in an environment with all installed packages but those that begin so.

    Packages of the system, which may include them, are left out, too (`-S`).
    """
    packages = home.path / "packages"
    packages.mkdir()
    (installed,) = {Path(path) for path in sys.path if path.endswith("site-packages")}
    for entry in installed.iterdir():
        if not entry.name.startswith((package, "__editable__")):
            (packages / entry.name).symlink_to(entry)
    folders = {"ask": "ask", **{f"ask_{folder}": folder for folder in ("providers", "prompts", "completions", "shell")}}
    for name, folder in folders.items():
        (packages / name).symlink_to(ROOT / folder)
    start = f"import sys; sys.path.append({str(packages)!r}); from ask.__main__ import main; main()"
    return [sys._base_executable, "-I", "-S", "-c", start]  # type: ignore[attr-defined]
