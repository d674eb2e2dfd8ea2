"""Where files live: the folders of ask, and the working directory."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from ask.errors import FileError


def get_working_directory() -> Path:
    """Return the current working directory.

    Raises:
        FileError: it has been deleted.
    """
    try:
        return Path.cwd()
    except OSError as error:
        raise FileError(f"cannot use the working directory ({error.strerror})", "change to another folder") from error


def get_logical_path(directory: Path, environment: Mapping[str, str]) -> Path:
    """Return the path by which a shell has changed to a directory, with its links; without any if that is unknown."""
    path = environment.get("PWD", "")
    is_current = path.startswith("/") and os.path.realpath(path) == os.path.realpath(directory)
    return Path(path) if is_current else directory


APP_NAME = "ask"
DATA_FOLDER_HINT = "set XDG_DATA_HOME to a folder that can be written"
XDG_FOLDERS = {"config": ".config", "data": ".local/share", "cache": ".cache"}
"""The defaults of the XDG Base Directory Specification (https://specifications.freedesktop.org/basedir-spec/)."""
MACOS_FOLDERS = {
    "config": "Library/Application Support",
    "data": "Library/Application Support",
    "cache": "Library/Caches",
}
RESULTS_FOLDER = "results"
"""The folder in the data folder for tool results that were too long for the model."""
SAFE_STATE_FOLDER, SCAN_RECORD_NAME = "safe", "scans.json"
"""The folder for the state of safe mode in the data folder, and the file with the folders that calls could change."""
RETIREMENTS_NAME = "retirements.json"
"""The file in the cache with the dates on which listed models are retired, and the models reported today."""


class AppDirs:
    """The folders of `ask` and the files in them. They need not exist.

    Attributes:
        history_file: the database of saved conversations.
        sign_ins: the folder of sign-ins to MCP servers.
        logins: the folder of sign-ins to providers.
        templates: the folder of the user's own templates.
        skills: the folder of the user's own skills.
        installed_skills: the folder of those installed from repositories, to which links in `skills` lead.
        trust_file: the projects whose instructions the user has allowed or declined to send.
        ledger_file: the database of the jobs of `ask map` and their answers.
        results: the folder for tool results that are too long to send to the model.
        scan_record: what safe mode has found in the folders in which calls could write.
        approvals_file: the tool calls that the user has approved for later runs.
    """

    def __init__(self, config: Path, data: Path, cache: Path) -> None:
        self.config = config
        self.config_file = config / "config.toml"
        self.keys_file = config / "keys.toml"
        self.sign_ins = config / "sign-ins"
        self.logins = config / "logins"
        self.templates = config / "templates"
        self.skills = config / "skills"
        self.installed_skills = config / "installed-skills"
        self.data = data
        self.history_file = data / "history.db"
        self.trust_file = data / "trusted-projects.json"
        self.trust_marks = data / "trust-marks"
        self.ledger_file = data / "map.db"
        self.results = data / RESULTS_FOLDER
        self.tool_call_log = data / "audit.jsonl"
        self.approvals_file = data / "approvals.json"
        self.scan_record = data / SAFE_STATE_FOLDER / SCAN_RECORD_NAME
        self.cache = cache

    @staticmethod
    def from_environment(environment: Mapping[str, str]) -> AppDirs:
        """Return the folders that the environment sets, as in XDG, and for others those of the platform."""
        folders = []
        for kind, default in (MACOS_FOLDERS if sys.platform == "darwin" else XDG_FOLDERS).items():
            xdg_folder = environment.get(f"XDG_{kind.upper()}_HOME", "")
            folder = Path(xdg_folder) if xdg_folder.startswith("/") else Path.home() / default
            folders.append(folder / APP_NAME)
        return AppDirs(*folders)
