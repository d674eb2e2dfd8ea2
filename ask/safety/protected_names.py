"""The names that other programs run or trust when they open a folder: one table for the code and the docs.

They are read-only wherever they exist. One that does not exist gets a placeholder only where something would run from
it without another question, and only in the top folder: each placeholder is visible to everybody while a run lasts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple


class ProtectedName(NamedTuple):
    """A file or folder that another program reads.

    Attributes:
        name: of the file or folder.
        program: what reads it.
        detection_paths: paths in the home directory that show that the user has this program. If any of them exists, a
            missing file or folder of this name gets a placeholder; "" stands for always.
    """

    name: str
    program: str
    detection_paths: tuple[str, ...] = ()


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
    """Yield the names that get a placeholder in a folder where they are missing.

    Args:
        environment: the user's.
    """
    home = Path(environment.get("HOME") or "/nonexistent")
    config = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
    for entry in PROTECTED_NAMES:
        places = (config / path[8:] if path.startswith(".config/") else home / path for path in entry.detection_paths)
        if "" in entry.detection_paths or any(map(_path_exists, places)):
            yield entry.name
    # Without a whitelist, direnv loads no file that the user has not allowed.
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
