"""Files and folders in the writable folders that calls must not change, including links that lead to them.

The names in `PROTECTED_NAMES` belong to files and folders that other programs run or trust when they open a folder.
They are read-only wherever they exist. A missing one gets a placeholder only if a program would run something from it
without asking, and only in the top folder, because placeholders are visible to other programs during a run. The
documentation is checked against this table.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ask.config.symbolic_links import resolve_links
from ask.errors import SafetyError
from ask.records import NamedTuple
from ask.safety.mounts import is_below
from ask.safety.sandbox_config import select_outermost
from ask.safety.shell_syntax import list_search_path
from ask.tools.base import RunToolContext, ToolError
from ask.tools.file_access import is_empty, resolve_path

PlaceholderCreator = Callable[[Mapping[Path, bool]], None]
"""Creates placeholders for resolved paths; the value says whether to create a folder or an empty file.

Existing empty paths are passed, too: they may be the placeholders of another run.
"""

SHOWN_ONCE = "(shown once)"
"""The end of warnings about what only the user can change, which are not repeated in later runs."""
_SYSTEM_VIM_FILES = ("/etc/vimrc", "/etc/vim/vimrc", "/etc/vim/vimrc.local")
_EXRC_COMMAND = re.compile(
    r"^(?!\s*\").*(?:\bexrc\b|\bset?(?:g|l|global|local)?\s(?:.*\s)?ex\b|&(?:[gl]:)?ex\b)", re.MULTILINE
)
"""A command of Vim that may set 'exrc'."""
_MAX_NAME_BYTES = 255
"""The longest name of a file on Linux (NAME_MAX)."""


class ProtectedName(NamedTuple):
    """The name of a file or folder that another program reads."""

    name: str
    program: str
    detection_paths: tuple[str, ...] = ()
    """Paths in the home directory whose existence shows that the user has this program.

    If any of them exists, the name gets a placeholder if it is missing; "" means always.
    """
    placeholder_type: str = "folder"
    """As in `GitPath`."""


_CRUSH_PATHS = (".config/crush", ".local/share/crush")
_OPENCODE_PATHS = (".config/opencode", ".local/share/opencode")
_KILO_PATHS = (".config/kilo", ".kilocode")
_EXTENSION_FOLDERS = (".config/Code/User/globalStorage", ".vscode-server/data/User/globalStorage")
_ROO_PATHS = tuple(f"{folder}/rooveterinaryinc.roo-cline" for folder in _EXTENSION_FOLDERS)
_CLINE_PATHS = tuple(f"{folder}/saoudrizwan.claude-dev" for folder in _EXTENSION_FOLDERS)
_VS_CODE_PATHS = (".vscode", ".vscode-server", ".config/Code", ".config/VSCodium", ".cursor", ".windsurf")

PROTECTED_NAMES = (
    ProtectedName(".git", "git", ("",)),
    ProtectedName(".gitattributes", "git"),
    ProtectedName(".gitmodules", "git"),
    ProtectedName(".hg", "Mercurial"),
    ProtectedName(".jj", "Jujutsu"),
    ProtectedName(".husky", "husky"),
    ProtectedName(".pre-commit-config.yaml", "pre-commit"),
    ProtectedName(".pre-commit-config.yml", "prek"),
    ProtectedName("prek.toml", "prek"),
    ProtectedName("lefthook.yml", "lefthook"),
    ProtectedName(".lefthook.yml", "lefthook"),
    # Those in the folders around a repository are read, and can name pagers and commands: lazygit asks nothing.
    ProtectedName(".lazygit.yml", "lazygit", (".config/lazygit",), "file"),
    ProtectedName(".envrc", "direnv"),
    ProtectedName(".direnv", "direnv"),
    # Trusts a folder, not the content of its files: https://shopify.github.io/shadowenv/trust
    ProtectedName(".shadowenv.d", "Shadowenv"),
    # mise trusts a folder, not the content of a file (https://mise.jdx.dev/paranoid.html), and reads these before each
    # prompt. Missing ones get a placeholder in a trusted folder.
    ProtectedName("mise.toml", "mise"),
    ProtectedName(".mise.toml", "mise"),
    ProtectedName("mise.local.toml", "mise"),
    ProtectedName(".mise.local.toml", "mise"),
    ProtectedName(".mise", "mise"),
    ProtectedName(".vscode", "VS Code and editors based on it", _VS_CODE_PATHS),
    # Its settings apply at once if the editor has opened it, as those of .vscode do.
    ProtectedName("*.code-workspace", "VS Code and editors based on it"),
    ProtectedName(".devcontainer", "Dev Containers"),
    ProtectedName(".devcontainer.json", "Dev Containers"),
    ProtectedName(".idea", "JetBrains IDEs", (".config/JetBrains",)),
    ProtectedName(".zed", "Zed", (".config/zed",)),
    ProtectedName(".helix", "Helix", (".config/helix",)),
    ProtectedName(".nvim.lua", "Neovim"),
    ProtectedName(".nvimrc", "Neovim"),
    ProtectedName(".exrc", "Vim and Neovim"),
    ProtectedName(".vimrc", "Vim"),
    ProtectedName(".gvimrc", "Vim"),
    ProtectedName("_vimrc", "Vim on Windows"),
    # Its .vim/coc-settings.json names language servers, which coc.nvim starts with the first file that is opened.
    ProtectedName(".vim", "coc.nvim", (".config/coc",)),
    ProtectedName(".cargo", "Cargo and rust-analyzer"),
    ProtectedName(".mcp.json", "Claude Code and other agents"),
    ProtectedName(".claude", "Claude Code", (".claude", ".claude.json")),
    ProtectedName(".codex", "Codex", (".codex",)),
    ProtectedName(".cursor", "Cursor", (".cursor",)),
    ProtectedName(".gemini", "Gemini CLI", (".gemini",)),
    ProtectedName(".qwen", "Qwen Code", (".qwen",)),
    ProtectedName(".windsurf", "Windsurf", (".windsurf", ".codeium/windsurf")),
    ProtectedName(".kiro", "Kiro", (".kiro",)),
    # These start the MCP servers of `.amazonq/mcp.json`, `.junie/mcp/mcp.json`, `.roo/mcp.json` and `.trae/mcp.json`.
    ProtectedName(".amazonq", "Amazon Q", (".aws/amazonq",)),
    ProtectedName(".junie", "Junie", (".junie",)),
    ProtectedName(".roo", "Roo Code", _ROO_PATHS),
    ProtectedName(".trae", "Trae", (".trae",)),
    # Cline runs the programs in `.clinerules/hooks`, the next two the hooks of their `settings.json`.
    ProtectedName(".clinerules", "Cline", (".cline", *_CLINE_PATHS)),
    ProtectedName(".codebuddy", "CodeBuddy", (".codebuddy",)),
    ProtectedName(".iflow", "iFlow", (".iflow",)),
    # These run the hooks of `.augment/settings.json` and `.qoder/settings.json` (https://docs.qoder.com/cli/hooks), and
    # the MCP servers of `.continue/mcpServers`; the last two also those of folders that the user has trusted.
    ProtectedName(".augment", "Augment", (".augment",)),
    ProtectedName(".qoder", "Qoder", (".qoder",)),
    ProtectedName(".continue", "Continue", (".continue",)),
    ProtectedName(".vibe", "Mistral Vibe", (".vibe",)),
    ProtectedName(".tabnine", "Tabnine", (".tabnine",)),
    # The newer Kilo Code is based on opencode: https://kilo.ai/docs/automate/mcp/using-in-kilo-code
    ProtectedName(".kilocode", "Kilo Code", _KILO_PATHS),
    ProtectedName(".kilo", "Kilo Code", _KILO_PATHS),
    ProtectedName("kilo.json", "Kilo Code", _KILO_PATHS, "file"),
    ProtectedName("kilo.jsonc", "Kilo Code", _KILO_PATHS, "file"),
    ProtectedName(".factory", "Factory Droid", (".factory",)),
    ProtectedName(".pi", "pi", (".pi",)),
    # Crush runs MCP servers, language servers and hooks without asking: https://github.com/charmbracelet/crush/pull/3607
    ProtectedName("crush.json", "Crush", _CRUSH_PATHS, "file"),
    ProtectedName(".crush.json", "Crush", _CRUSH_PATHS, "file"),
    # aider runs the commands in it when it starts: https://github.com/Aider-AI/aider/issues/5254
    ProtectedName(".aider.conf.yml", "aider", (".aider",), "file"),
    # opencode runs plugins and MCP servers without asking: https://github.com/anomalyco/opencode/issues/7163
    # It fails if its file is a folder.
    ProtectedName(".opencode", "opencode", _OPENCODE_PATHS),
    ProtectedName("opencode.json", "opencode", _OPENCODE_PATHS, "file"),
    ProtectedName("opencode.jsonc", "opencode", _OPENCODE_PATHS, "file"),
    ProtectedName(".agents", "agents"),
    ProtectedName(".ask", "ask"),
)
PROTECTED_NAME_SET = frozenset(entry.name for entry in PROTECTED_NAMES)
_PROTECTED_SUFFIXES = tuple(name[1:] for name in PROTECTED_NAME_SET if name.startswith("*"))
_MISE_NAMES = (
    *("mise.toml", ".mise.toml", "mise.local.toml", ".mise.local.toml", ".mise", "mise/config.toml"),
    *("mise/config.local.toml", ".config/mise", ".config/mise.toml", ".config/mise.local.toml", ".tool-versions"),
)
"""The files and folders that mise reads in a folder, also if the user trusted it because of another one."""


def is_protected_name(name: str) -> bool:
    """Check whether other programs run or trust files and folders of this name."""
    return name in PROTECTED_NAME_SET or name.endswith(_PROTECTED_SUFFIXES)


def find_placeholders(environment: Mapping[str, str], folders: Sequence[Path]) -> Iterator[tuple[Path, str]]:
    """Yield what gets a placeholder in the folders if it is missing, with its type, judging by the environment."""
    home = environment.get("HOME") or "/nonexistent"
    config = environment.get("XDG_CONFIG_HOME") or f"{home}/.config"
    for name, placeholder_type in _find_placeholder_names(environment, home, config):
        yield from ((folder / name, placeholder_type) for folder in folders)
    for folder in _find_mise_folders(environment, home, config, folders):
        yield from ((folder / name, "folder") for name in _MISE_NAMES)


def _find_mise_folders(
    environment: Mapping[str, str], home: str, config: str, folders: Sequence[Path]
) -> Iterator[Path]:
    """Yield the folders in which mise would load a new file without asking."""
    settings = Path(environment.get("MISE_CONFIG_DIR") or f"{config}/mise") / "config.toml"
    if "MISE_TRUSTED_CONFIG_PATHS" in environment or "trusted_config_paths" in _read_text(settings):
        yield from folders
    state = environment.get("MISE_STATE_DIR") or f"{environment.get('XDG_STATE_HOME') or f'{home}/.local/state'}/mise"
    with suppress(OSError):
        for link in sorted(Path(state, "trusted-configs").iterdir()):
            path = Path(os.path.realpath(link))
            if is_in_any(path, folders):
                yield path if os.path.isdir(path) else path.parent


def find_direnv_watches(environment: Mapping[str, str]) -> list[Path]:
    """Return the files that direnv, loaded in the user's shell, reads again without asking when they change or appear.

    direnv asks only about a changed `.envrc`, not about what that loads: `.envrc.local`, `.env`, `flake.nix`.
    """
    with suppress(ValueError, zlib.error, AttributeError, KeyError, TypeError):
        watches = json.loads(zlib.decompress(urlsafe_b64decode(environment.get("DIRENV_WATCHES", ""))))
        return [Path(watch.get("path") or watch["Path"]) for watch in watches]
    return []


def _read_text(file: str | Path) -> str:
    """Read a file in which a program may be configured; "" if there is none."""
    with suppress(OSError):
        return Path(file).read_text(errors="replace") if os.path.isfile(file) else ""
    return ""


def _find_placeholder_names(environment: Mapping[str, str], home: str, config: str) -> Iterator[tuple[str, str]]:
    for entry in PROTECTED_NAMES:
        paths = [
            f"{config}/{path.removeprefix('.config/')}" if path.startswith(".config/") else f"{home}/{path}"
            for path in entry.detection_paths
        ]
        if "" in entry.detection_paths or any(map(os.path.exists, paths)):
            yield entry.name, entry.placeholder_type
    # Without a whitelist, direnv loads only files that the user has allowed.
    direnv = Path(environment.get("DIRENV_CONFIG") or f"{config}/direnv")
    for path in (direnv / "direnv.toml", direnv / "config.toml"):
        if "whitelist" in _read_text(path):
            yield ".envrc", "folder"
    # Vim reads these in the working directory only with the option 'exrc'; Neovim asks first.
    names = (f"{home}/.vimrc", f"{home}/.vim/vimrc", f"{config}/vim/vimrc", f"{home}/.exrc")
    commands = (environment.get("VIMINIT", ""), *map(_read_text, (*names, *_SYSTEM_VIM_FILES)))
    if any(map(_EXRC_COMMAND.search, commands)):
        yield from ((name, "folder") for name in (".vimrc", ".exrc", ".gvimrc"))


class ProtectedPaths:
    """Collects the protected paths in the writable folders, with all links resolved.

    With `by_mounts`, they are for a sandbox, where a missing path needs a placeholder and calls can replace a link.
    """

    def __init__(self, writable_folders: Sequence[Path], *, by_mounts: bool = True) -> None:
        self._writable_folders = writable_folders
        self._by_mounts = by_mounts
        self._existing_paths: dict[Path, None] = {}
        self._placeholders: dict[Path, bool] = {}
        self._links: dict[Path, str] = {}
        self.unreadable_folders: dict[Path, None] = {}
        """The folders to hide because what is in them cannot be seen. Calls own them, and can make them readable."""
        self.warnings: list[str] = []
        """Gaps in the protection."""

    def add_warning(self, warning: str) -> None:
        """Add a warning unless it is already there."""
        if warning not in self.warnings:
            self.warnings.append(warning)

    def hide_unreadable(self, path: Path) -> bool:
        """Hide the outermost folder on a resolved path that this process cannot list and search; return whether one is.

        Raises:
            SafetyError: it contains a writable folder, or is one.
        """
        root = next((folder for folder in self._writable_folders if path.is_relative_to(folder)), None)
        if root is None:
            return False
        for folder in (root, *(parent for parent in reversed(path.parents) if is_in_any(parent, (root,))), path):
            if folder in self.unreadable_folders:
                return True
            if not os.path.isdir(folder):
                return False
            if not os.access(folder, os.R_OK | os.X_OK):
                if any(each.is_relative_to(folder) for each in self._writable_folders):
                    raise SafetyError(f"{folder} cannot be listed", f"run chmod u+rwx {folder}")
                self.unreadable_folders[folder] = None
                self.add_warning(f"{folder} is hidden in this run, because it cannot be listed")
                return True
        return False

    def protect(
        self, path: Path, placeholder_type: str = "", *, used_by: str = "other programs", reject_links: bool = True
    ) -> None:
        """Protect the target of an absolute path, and each link on the way to it.

        For `placeholder_type`, see `GitPath`. `used_by` is named in warnings. If there is a placeholder, a link that
        cannot be protected is an error instead of a warning, unless `reject_links` is false.

        Raises:
            SafetyError: a link on the way could be replaced.
        """
        target, links = resolve_links(path)
        for link in links if self._by_mounts else ():
            self._protect_link(link, used_by, reject_links=reject_links and bool(placeholder_type))
        root = next((folder for folder in self._writable_folders if target.is_relative_to(folder)), None)
        if self.hide_unreadable(target):
            return
        if any(folder.is_relative_to(target) for folder in self._writable_folders):
            self.add_warning(f"{target} is used by {used_by} and cannot be protected: tools can write there")
        elif root is not None and not self._by_mounts:
            if placeholder_type or os.path.lexists(target):
                self._existing_paths[target] = None
        elif root is not None:
            steps = [target, *target.parents]
            steps = steps[: steps.index(root)][::-1]
            # The first component that a call could replace.
            first = next((step for step in steps if _is_replaceable(step, target)), target)
            exists = os.path.lexists(first)
            if exists and not is_empty(first):
                self._existing_paths[first] = None
            elif (exists and first == target) or (placeholder_type and len(os.fsencode(first.name)) <= _MAX_NAME_BYTES):
                is_folder = os.path.isdir(first) if exists else first != target or placeholder_type == "folder"
                self._placeholders.setdefault(first, is_folder)

    def _protect_link(self, link: Path, used_by: str, *, reject_links: bool) -> None:
        """Protect a link by making its folder read-only, since nothing can be mounted on a link."""
        if not is_in_any(link, self._writable_folders):
            return
        if not any(folder.is_relative_to(link.parent) for folder in self._writable_folders):
            self._links.setdefault(link, used_by)
        elif reject_links:
            raise SafetyError(
                f"{link} is a link, which --safe cannot protect", "replace it with the file or folder itself"
            )
        else:
            self.add_warning(f"{link} is used by {used_by} and cannot be protected: it is a link")

    def finalize(self, create_placeholders: PlaceholderCreator | None) -> list[Path]:
        """Create the placeholders, if there are any, and return the outermost protected paths.

        Raises:
            SafetyError: a placeholder could not be created.
        """
        if create_placeholders:
            create_placeholders(self._placeholders)
        for path in self._placeholders:
            if not os.path.lexists(path) and os.access(path.parent, os.W_OK):
                raise SafetyError(f"--safe cannot create the placeholder {path}", "check whether the disk is full")
        paths = [*self._existing_paths, *(path for path in self._placeholders if os.path.lexists(path))]
        for link, used_by in self._links.items():
            if not is_in_any(link, paths):
                paths.append(link.parent)
                self.add_warning(
                    f"{link.parent} is read-only in this run: it contains {link.name}, a link used by {used_by}"
                )
        return select_outermost(paths)


def is_project_file(path: str, context: RunToolContext) -> bool:
    """Check whether a path leads to a file in the working directory that no other program may run or trust.

    Hidden files can be startup files, if the home directory is the working directory, or the workflows of a CI service.
    """
    try:
        target = Path(os.path.realpath(resolve_path(path, context)))
    except (OSError, ToolError):
        return False
    directory = Path(os.path.realpath(context.directory))
    search_path = list_search_path(context.environment)
    if str(target.parent) in {os.path.realpath(folder) for folder in search_path if folder}:  # such as ~/bin
        return False
    return target.is_relative_to(directory) and not any(
        part.startswith(".") or is_protected_name(part.lower()) for part in target.relative_to(directory).parts
    )


def is_in_any(path: Path, folders: Iterable[Path]) -> bool:
    """Check whether a path is one of the folders or inside one."""
    return any(is_below(str(path), str(folder)) for folder in folders)


def _is_replaceable(path: Path, target: Path) -> bool:
    """Check whether a call could replace a path: it is missing, empty, or a file where a folder is expected."""
    return is_empty(path) or not os.path.lexists(path) or (path != target and not os.path.isdir(path))
