"""A home directory and a folder that is scanned as at the start of a run in safe mode."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from ask.safety.folder_scan import inspect_filesystem
from ask.safety.sandbox_config import HostFilesystem
from ask.safety.sandbox_folders import build_sandbox_config

NOTHING_BEFORE = HostFilesystem()


class Folders:
    """A home directory and a folder to scan."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.home, self.work = base / "home", base / "work"
        for folder in (self.home, self.work, base / "config", base / "data"):
            folder.mkdir()
        self.placeholders: dict[str, bool] = {}
        self.warnings: list[str] = []
        self.filesystem = HostFilesystem()

    def write(self, name: str, text: str = "x") -> Path:
        path = self.base / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def git(self, *words: str, folder: str = "work") -> None:
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.home)}
        subprocess.run(["git", *words], cwd=self.base / folder, env=environment, check=True, capture_output=True)

    def scan(
        self, directory: str = "work", before: HostFilesystem = NOTHING_BEFORE, *allowed: str, **environment: str
    ) -> set[str]:
        """Scan a folder and create the placeholders. Return the protected paths relative to the base."""
        sandbox_config = build_sandbox_config(
            self.base / directory,
            [self.base / name for name in allowed],
            config_dir=self.base / "config",
            cache_dir=self.base / "cache",
            data_dir=self.base / "data",
            overflow_directory=self.base / "data/results/x",
            environment={"PATH": os.environ["PATH"], "HOME": str(self.home), **environment},
        )
        self.filesystem, self.warnings = inspect_filesystem(sandbox_config, self._create_placeholders, before)
        for path in (*self.filesystem.protected_paths, *self.filesystem.hidden_files, *self.filesystem.hidden_folders):
            assert os.path.realpath(path) == str(path)
        return self._names(self.filesystem.protected_paths)

    def _create_placeholders(self, paths: Mapping[Path, bool]) -> None:
        self.placeholders = {str(path.relative_to(self.base)): is_folder for path, is_folder in paths.items()}
        for path, is_folder in paths.items():
            if not path.exists():
                path.mkdir() if is_folder else path.touch()

    def _names(self, paths: tuple[Path, ...]) -> set[str]:
        return {str(path.relative_to(self.base)) for path in paths if path.is_relative_to(self.base)}

    @property
    def hidden(self) -> set[str]:
        return self._names((*self.filesystem.hidden_files, *self.filesystem.hidden_folders))
