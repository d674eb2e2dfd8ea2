"""Where the files of `ask` live."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

APP_NAME = "ask"
XDG_FOLDERS = {"config": ".config", "data": ".local/share", "cache": ".cache"}
"""The defaults of the XDG Base Directory Specification (https://specifications.freedesktop.org/basedir-spec/)."""
MACOS_FOLDERS = {
    "config": "Library/Application Support",
    "data": "Library/Application Support",
    "cache": "Library/Caches",
}


class AppDirs(NamedTuple):
    """The folders of `ask`: XDG's if the environment sets them, else the platform's. They need not exist."""

    config: Path
    data: Path
    cache: Path

    @staticmethod
    def from_environment(environment: Mapping[str, str]) -> AppDirs:
        return AppDirs(*(_find_app_dir(environment, kind) for kind in ("config", "data", "cache")))

    @property
    def history_file(self) -> Path:
        """The database of saved conversations."""
        return self.data / "history.db"

    @property
    def config_file(self) -> Path:
        return self.config / "config.toml"

    @property
    def keys_file(self) -> Path:
        return self.config / "keys.toml"

    @property
    def sign_ins(self) -> Path:
        """The folder of sign-ins to MCP servers."""
        return self.config / "sign-ins"

    @property
    def templates(self) -> Path:
        """The folder of the user's own templates."""
        return self.config / "templates"

    @property
    def skills(self) -> Path:
        """The folder of the user's own skills."""
        return self.config / "skills"

    @property
    def trust_file(self) -> Path:
        """The projects whose instructions the user has allowed or declined to send."""
        return self.data / "trusted-projects.json"

    @property
    def ledger_file(self) -> Path:
        """The database of the jobs of `ask map` and their answers."""
        return self.data / "map.db"

    @property
    def results(self) -> Path:
        """The folder for tool results that are too long to send to the model."""
        return self.data / "results"

    @property
    def tool_call_log(self) -> Path:
        return self.data / "audit.jsonl"

    @property
    def approvals_file(self) -> Path:
        """The tool calls that the user has approved for later runs."""
        return self.data / "approvals.json"


def _find_app_dir(environment: Mapping[str, str], kind: str) -> Path:
    xdg_folder = environment.get(f"XDG_{kind.upper()}_HOME", "")
    if xdg_folder.startswith("/"):
        return Path(xdg_folder, APP_NAME)
    folders = MACOS_FOLDERS if sys.platform == "darwin" else XDG_FOLDERS
    return Path.home() / folders[kind] / APP_NAME
