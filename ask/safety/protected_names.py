"""Names of files and folders that other programs run or trust when they open a folder.

They are read-only wherever they exist. A missing one gets a placeholder only if a program would run something from it
without asking, and only in the top folder, because placeholders are visible to other programs during a run. The
documentation is checked against this table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple


class ProtectedName(NamedTuple):
    """The name of a file or folder that another program reads."""

    name: str
    program: str
    detection_paths: tuple[str, ...] = ()
    """Paths in the home directory whose existence shows that the user has this program.

    If any of them exists, the name gets a placeholder if it is missing; "" means always.
    """


_VS_CODE_PATHS = (".vscode", ".vscode-server", ".config/Code", ".config/VSCodium", ".cursor", ".windsurf")

PROTECTED_NAMES = (
    ProtectedName(".git", "git", ("",)),
    ProtectedName(".gitattributes", "git"),
    ProtectedName(".gitmodules", "git"),
    ProtectedName(".husky", "husky"),
    ProtectedName(".pre-commit-config.yaml", "pre-commit"),
    ProtectedName("lefthook.yml", "lefthook"),
    ProtectedName(".lefthook.yml", "lefthook"),
    ProtectedName(".envrc", "direnv"),
    ProtectedName(".direnv", "direnv"),
    ProtectedName(".vscode", "VS Code and its relatives", _VS_CODE_PATHS),
    ProtectedName(".devcontainer", "Dev Containers"),
    ProtectedName(".devcontainer.json", "Dev Containers"),
    ProtectedName(".idea", "the IDEs of JetBrains", (".config/JetBrains",)),
    ProtectedName(".zed", "Zed", (".config/zed",)),
    ProtectedName(".nvim.lua", "Neovim"),
    ProtectedName(".exrc", "Vim and Neovim"),
    ProtectedName(".cargo", "Cargo, and rust-analyzer through it"),
    ProtectedName(".mcp.json", "Claude Code and other agents"),
    ProtectedName(".claude", "Claude Code", (".claude", ".claude.json")),
    ProtectedName(".codex", "Codex", (".codex",)),
    ProtectedName(".cursor", "Cursor", (".cursor",)),
    ProtectedName(".gemini", "Gemini CLI", (".gemini",)),
    ProtectedName(".agents", "agents"),
    ProtectedName(".ask", "ask"),
)
PROTECTED_NAME_SET = frozenset(entry.name for entry in PROTECTED_NAMES)


def find_placeholder_names(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the names that get a placeholder if they are missing, judging by the user's environment."""
    home = Path(environment.get("HOME") or "/nonexistent")
    config = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
    for entry in PROTECTED_NAMES:
        detection_paths = (
            config / path[8:] if path.startswith(".config/") else home / path for path in entry.detection_paths
        )
        if "" in entry.detection_paths or any(map(_path_exists, detection_paths)):
            yield entry.name
    # Without a whitelist, direnv loads only files that the user has allowed.
    direnv = Path(environment.get("DIRENV_CONFIG") or config / "direnv")
    if any("whitelist" in _read_text(direnv / name) for name in ("direnv.toml", "config.toml")):
        yield ".envrc"


def _path_exists(path: Path) -> bool:
    with suppress(OSError):
        return path.exists()
    return False


def _read_text(path: Path) -> str:
    with suppress(OSError):
        return path.read_text(errors="replace") if path.is_file() else ""
    return ""
