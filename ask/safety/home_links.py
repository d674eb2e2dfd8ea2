"""Links in the home directory and in the folders on PATH that lead to files in the writable folders.

Dotfiles are often kept in a repository: `~/.bashrc` is a link to `~/dotfiles/bashrc`, and every new shell runs it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from ask.safety.protected_paths import PROTECTED_NAMES
from ask.safety.shell_syntax import list_search_path

_MAX_ENTRIES = 50_000
"""How many entries of a folder are examined."""
_STARTUP_FOLDERS = (
    *(".ssh", ".gnupg", ".vim", ".vim/plugin", ".emacs.d", ".tmux", ".bashrc.d", ".profile.d", ".zsh", ".zshrc.d"),
    *(".zfunc", ".oh-my-zsh/custom", ".local/bin", ".local/share/applications", ".local/share/systemd/user"),
    *(".local/share/nvim/site/plugin", ".ipython/profile_default/startup", ".cargo", ".docker", ".kube", ".aws"),
    *(".claude/skills", ".codex/skills", ".agents/skills", ".vscode/extensions", ".vscode-server/extensions"),
    *(".kiro/settings", ".junie/mcp", ".tabnine/agent", ".pi/agent", ".continue/mcpServers"),
    *(path for entry in PROTECTED_NAMES for path in entry.detection_paths if path and not path.startswith(".config/")),
)
"""Folders in the home directory from which other programs run or trust files. Links in it itself count, too."""
_CONFIG_FOLDERS = (
    *(
        "ask/skills",
        "ask/templates",
        "fish/conf.d",
        "fish/functions",
        "fish/completions",
        "systemd/user",
        "git/hooks",
        "nvim/lua",
    ),
    *("nvim/plugin", "nvim/after/plugin", "vim/plugin", "emacs/lisp", "Code/User"),
)
"""Such folders in `~/.config`, besides itself and its direct subfolders."""
_STARTUP_VARIABLES = (
    *("BASH_ENV", "ENV", "INPUTRC", "PYTHONSTARTUP", "ZDOTDIR", "XINITRC"),
    "STARSHIP_CONFIG",  # its custom modules run commands before each prompt: https://starship.rs/config/#custom-commands
    # Their --pre, --pager, use_askpass and LESSOPEN name programs.
    *("RIPGREP_CONFIG_PATH", "BAT_CONFIG_PATH", "WGETRC", "LESSKEY", "LESSKEYIN"),
    *("PSQLRC", "SCREENRC", "R_PROFILE", "R_PROFILE_USER", "IPYTHONDIR", "JUPYTER_CONFIG_DIR", "FZF_DEFAULT_OPTS_FILE"),
    # Programs that print credentials: https://docs.aws.amazon.com/sdkref/latest/guide/feature-process-credentials.html
    *("KUBECONFIG", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "DOCKER_CONFIG", "GNUPGHOME"),
    "OPENSSL_CONF",  # names libraries, which Python loads, too: https://docs.openssl.org/master/man5/config/
    *("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO"),
    # Hooks and MCP servers, aliases that begin with !, options such as --output, and other indexes of packages.
    *("CLAUDE_CONFIG_DIR", "CODEX_HOME", "OPENCODE_CONFIG", "OPENCODE_CONFIG_DIR", "GH_CONFIG_DIR", "CURL_HOME"),
    *("PIP_CONFIG_FILE", "UV_CONFIG_FILE", "GOENV"),
    *("HGRCPATH", "JJ_CONFIG", "LG_CONFIG_FILE", "TIGRC_USER", "YAZI_CONFIG_HOME", "DIRENV_CONFIG", "MISE_CONFIG_DIR"),
    *("MISE_GLOBAL_CONFIG_FILE", "NIX_USER_CONF_FILES", "CONTAINERS_CONF", "HELM_PLUGINS", "AZURE_CONFIG_DIR"),
    *("KITTY_CONFIG_DIRECTORY", "WEZTERM_CONFIG_FILE", "ZELLIJ_CONFIG_DIR", "ZELLIJ_CONFIG_FILE", "POSH_THEME"),
    *("FPATH", "ZSH", "ZSH_CUSTOM", "BASH_COMPLETION_USER_DIR", "BASH_COMPLETION_USER_FILE"),
    *("PHPRC", "PHP_INI_SCAN_DIR", "R_ENVIRON", "R_ENVIRON_USER", "NPM_CONFIG_GLOBALCONFIG"),
    *("MAKEFILES", "TF_CLI_CONFIG_FILE", "ANSIBLE_CONFIG", "NPM_CONFIG_USERCONFIG", "npm_config_userconfig"),
)
"""Variables that name files or a folder from which programs start, or with programs to run or trusted certificates."""
_LIST_SEPARATORS = {
    **dict.fromkeys(("KUBECONFIG", "HGRCPATH", "JJ_CONFIG", "NIX_USER_CONF_FILES", "HELM_PLUGINS", "FPATH"), ":"),
    "PHP_INI_SCAN_DIR": ":",
    "LG_CONFIG_FILE": ",",
    "MAKEFILES": " ",
}
_OPTION_VARIABLES = (
    *("NODE_OPTIONS", "RUBYOPT", "PERL5OPT", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"),
    *("VIMINIT", "EXINIT", "LUA_INIT", "DOTNET_STARTUP_HOOKS"),
)
"""Variables with options or commands that may name code: `--require ./trace.js`, `-javaagent:x.jar`, `source vimrc`."""
_OPTION_SEPARATOR = re.compile(r"(?:(?<!\S)-r|[\s=:,|@\"'])+")
_WORD_VARIABLES = ("ENV", "GOENV", "ZSH", "POSH_THEME")
"""Variables that may also be a word, such as ENV=test and GOENV=off: no folder of that name may be read-only then."""
_WORD = re.compile(r"[\w-]+")
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")


def find_linked_paths(environment: Mapping[str, str], writable_folders: Sequence[Path]) -> Iterator[Path]:
    """Yield the links whose targets other programs run or trust, and that lead into the writable folders."""
    prefixes = tuple(f"{folder}/" for folder in writable_folders)
    resolved_folders: dict[str, str] = {}

    def has_target_inside(path: str) -> bool:
        target = f"{_resolve(path, resolved_folders)}/"
        return target.startswith(prefixes) or any(prefix.startswith(target) for prefix in prefixes)

    # /bin is often a link to /usr/bin.
    for folder in dict.fromkeys(map(os.path.realpath, _list_folders(environment))):
        yield from (Path(path) for path in _list_links(folder) if has_target_inside(path))
    home = environment.get("HOME", "")
    if home.startswith("/"):
        hidden_links = (path for path in _list_links(home) if os.path.basename(path).startswith("."))
        yield from (Path(path) for path in hidden_links if has_target_inside(path))
    for path, must_exist in _list_startup_paths(environment):
        # A relative path leads into the folder in which a program is started next.
        for top in writable_folders:
            if has_target_inside(os.path.join(top, path)) and (not must_exist or os.path.isfile(top / path)):
                yield top / path


def _list_startup_paths(environment: Mapping[str, str]) -> Iterator[tuple[str, bool]]:
    """Yield the paths that variables name, and whether that is only certain if there is a file."""
    for variable in _STARTUP_VARIABLES:
        for name in environment.get(variable, "").split(_LIST_SEPARATORS.get(variable, "\0")):
            # Shells expand ENV and BASH_ENV.
            value = re.sub(r"^~(?=/)", "$HOME", name)
            path = _VARIABLE.sub(lambda match: environment.get(match[1] or match[2], ""), value)
            if path and "$" not in path and "://" not in path:  # POSH_THEME may be a URL
                yield path, variable in _WORD_VARIABLES and bool(_WORD.fullmatch(path))
    for variable in _OPTION_VARIABLES:
        for name in filter(None, _OPTION_SEPARATOR.split(environment.get(variable, ""))):
            yield from ((f"{name}{suffix}", True) for suffix in ("", ".js", ".rb"))


def _list_folders(environment: Mapping[str, str]) -> Iterator[str]:
    yield from (folder for folder in list_search_path(environment) if folder.startswith("/"))
    yield from (folder for folder in [environment.get("ZDOTDIR", "")] if folder.startswith("/"))
    home = environment.get("HOME", "")
    if not home.startswith("/"):
        return
    yield from (f"{home}/{name}" for name in ("bin", *_STARTUP_FOLDERS))
    # Not every program is started with XDG_CONFIG_HOME, or respects it.
    for config in dict.fromkeys((environment.get("XDG_CONFIG_HOME") or f"{home}/.config", f"{home}/.config")):
        yield config
        with suppress(OSError), os.scandir(config) as entries:
            yield from [entry.path for entry in islice(entries, _MAX_ENTRIES) if entry.is_dir(follow_symlinks=False)]
        yield from (f"{config}/{name}" for name in _CONFIG_FOLDERS)


def _list_links(folder: str) -> list[str]:
    with suppress(OSError), os.scandir(folder) as entries:
        return [entry.path for entry in islice(entries, _MAX_ENTRIES) if entry.is_symlink()]
    return []


def _resolve(path: str, resolved_folders: dict[str, str]) -> str:
    """Resolve a path, remembering the folders: most links in one folder lead to the same few."""
    for _ in range(40):  # as many links as Linux follows
        folder, _, name = path.rpartition("/")
        resolved = resolved_folders.get(folder)
        if resolved is None:
            resolved = resolved_folders[folder] = os.path.realpath(folder or "/").rstrip("/")
        path = f"{resolved}/{name}"
        try:
            target = os.readlink(path)
        except OSError:  # not a link
            return os.path.normpath(path)
        path = target if target.startswith("/") else f"{resolved}/{target}"
    return path
