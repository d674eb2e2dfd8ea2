"""The files and folders from which git would run programs or read its configuration, as reported by git.

Git resolves its own configuration: includes, conditions, quoting, worktrees, and the user's own files. Only git
commands that start no other program are used, with a total timeout of 5 seconds.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Self

from ask.records import NamedTuple
from ask.safety.git_commands import COMMAND_KEY, GitPath, expand_home, find_command_files, find_existing_files

if TYPE_CHECKING:
    from subprocess import Popen

_TIMEOUT_SECONDS = 5.0
_MAX_PROCESSES = 16
_MAX_INCLUDED_FILES = 100
_MAX_HOOK_BYTES = 10_000
_LOCAL_LEFTHOOK_FILES = tuple(
    f"{name}.{suffix}"
    for name in ("lefthook-local", ".lefthook-local", ".config/lefthook-local")
    for suffix in ("yml", "yaml", "json", "jsonc", "toml")
)
"""The files with a user's own additions. lefthook fails on a folder, but looks at no other one after the first."""
_LOCATION_ARGUMENTS = (
    *("rev-parse", "--path-format=absolute", "--absolute-git-dir", "--git-common-dir"),
    *("--git-path", "hooks", "--show-toplevel"),
)
_LISTING_ARGUMENTS = ("config", "--show-origin", "--includes", "--null", "--list")
# Reading a repository of another owner is safe here, since nothing in it is run.
_GLOBAL_OPTIONS = ("-c", "safe.directory=*", "-c", "safe.bareRepository=all")
_INCLUDE_KEY = re.compile(r"include(?:if\..*)?\.path", re.DOTALL)
_FOLDER_KEYS = {"core.hookspath", "init.templatedir"}
_COMMAND_VARIABLES = (
    *("GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "GIT_PAGER", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_ASKPASS", "SSH_ASKPASS"),
    *("GIT_EXTERNAL_DIFF", "GIT_PROXY_COMMAND", "VISUAL", "EDITOR", "PAGER", "BROWSER"),
)


class GitRepository(NamedTuple):
    """The information that git reports when it is run in a folder."""

    folder: Path
    git_dir: Path | None
    """The repository's .git directory; None outside a repository."""
    paths: tuple[GitPath, ...]
    error: str = ""
    """Why the information is incomplete, or ""."""
    unclear_commands: Mapping[str, str] = MappingProxyType({})
    """The commands that may run files that cannot be determined, by their settings or variables."""


_GitCommand = tuple[Path, tuple[str, ...]]
"""The folder to run git in, and the arguments."""


class GitSetting(NamedTuple):
    origin: str
    key: str
    value: str


def find_git(environment: Mapping[str, str], writable_folders: Sequence[Path]) -> str | None:
    """Find git on the PATH of the user's environment, ignoring any in a writable folder."""
    for folder in environment.get("PATH", "").split(os.pathsep):
        program = os.path.join(folder, "git")
        if folder.startswith("/") and os.access(program, os.X_OK) and os.path.isfile(program):
            resolved = Path(os.path.realpath(program))
            if not any(resolved.is_relative_to(writable) for writable in writable_folders):
                return str(resolved)
    return None


class GitReader:
    """Reads the git configuration of folders, with one timeout for all git processes."""

    def __init__(self, git: str, environment: Mapping[str, str]) -> None:
        inherited_variables = ("HOME", "XDG_CONFIG_HOME", "GIT_DISCOVERY_ACROSS_FILESYSTEM")
        self._command = (git, *_GLOBAL_OPTIONS)
        self._user_environment = environment
        self._environment = {
            **{
                name: value
                for name, value in environment.items()
                if name in inherited_variables or name.startswith("GIT_CONFIG_")
            },
            "PATH": "/usr/bin:/bin",
            "LC_ALL": "C",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_TERMINAL_PROMPT": "0",
        }
        self._deadline = time.monotonic() + _TIMEOUT_SECONDS
        self._processes: dict[_GitCommand, Popen[bytes]] = {}
        """The commands that have been started and not been read."""
        self._outputs: dict[_GitCommand, tuple[str, str]] = {}
        """The output and the error of each command that has ended."""
        self._included_paths: set[str] = set()
        """The included files whose include condition is not met at the moment."""
        self._include_error = ""

    def start_reading(self, folders: Iterable[Path]) -> None:
        """Start git in the first of the folders; `read_repositories` reads its output."""
        for command in islice(_list_commands(folders), _MAX_PROCESSES):
            self._start(command)

    def read_repositories(self, folders: Sequence[Path]) -> list[GitRepository]:
        """Run git in each of the folders, which finds enclosing repositories too."""
        outputs = iter(self._run(list(_list_commands(folders))))
        return [self._parse_repository(folder, *next(outputs), *next(outputs)) for folder in folders]

    def read_setting(self, file: Path, key: str) -> str:
        """Return the value of a setting in a file, without what that includes; "" if it has none."""
        [(value, _)] = self._run([(Path("/"), ("config", "--file", str(file), key))])
        return value.removesuffix("\n")

    def _parse_repository(
        self, folder: Path, location: str, location_error: str, listing: str, listing_error: str
    ) -> GitRepository:
        lines = location.split("\n")[:-1]
        # These texts do not depend on the locale, because LC_ALL is C.
        is_bare = "must be run in a work tree" in location_error
        is_outside = "not a git repository" in location_error
        error = "" if is_outside or is_bare else location_error
        if not error and not is_outside and len(lines) != (3 if is_bare else 4):
            error = "a path has a line break, or git is older than 2.31"
        paths: list[GitPath] = []
        git_dir, top = None, folder
        if not error and not is_outside:
            git_dir, common, hooks = (Path(line) for line in lines[:3])
            top = git_dir if is_bare else Path(lines[3])
            paths += [GitPath(git_dir), GitPath(common), GitPath(hooks, "folder")]
            paths += [*_list_links(git_dir), *_list_links(common), *_find_lefthook_files(hooks, top)]
        settings = self._add_conditional_settings(top, _parse_settings(listing))
        paths += _find_paths(settings, top, self._user_environment)
        unclear = {}
        for name, command in iterate_commands(settings, self._user_environment):
            files = find_command_files(command, top, self._user_environment.get("HOME", ""))
            paths += files.paths
            if files.is_unclear:
                unclear[name] = command
        hook_folders = [path.path for path in paths if path.placeholder_type == "folder"]
        paths += [link for hook_folder in hook_folders for link in _list_links(hook_folder, "folder")]
        error = error or listing_error or self._include_error
        return GitRepository(folder, git_dir, tuple(dict.fromkeys(paths)), error, unclear)

    def _add_conditional_settings(self, top: Path, settings: list[GitSetting]) -> list[GitSetting]:
        """Add the settings of all files that git would include under other conditions."""
        all_settings = list(settings)
        seen_paths = {os.path.realpath(top / setting.origin) for setting in settings}
        while settings:
            included = _find_included_paths(settings, top, self._user_environment.get("HOME", ""))
            new_paths = {os.path.realpath(path) for path in included} - seen_paths
            settings = self._read_included_files(sorted(filter(os.path.isfile, new_paths)))
            seen_paths |= new_paths | {os.path.realpath(setting.origin) for setting in settings}
            all_settings += settings
        return all_settings

    def _read_included_files(self, paths: Sequence[str]) -> list[GitSetting]:
        self._included_paths.update(paths)
        if len(self._included_paths) > _MAX_INCLUDED_FILES:
            self._include_error = f"more than {_MAX_INCLUDED_FILES} files are included"
            return []
        settings = []
        for text, error in self._run([(Path("/"), (*_LISTING_ARGUMENTS, "--file", path)) for path in paths]):
            self._include_error = self._include_error or error
            settings += _parse_settings(text)
        return settings

    def _run(self, commands: Sequence[_GitCommand]) -> list[tuple[str, str]]:
        """Return the outputs and errors of commands, which run at the same time unless they have been run."""
        outputs: list[tuple[str, str]] = []
        for first in range(0, len(commands), _MAX_PROCESSES):
            batch = commands[first : first + _MAX_PROCESSES]
            for command in batch:
                self._start(command)
            outputs += map(self._read, batch)
        return outputs

    def _start(self, command: _GitCommand) -> None:
        """Start a command, unless that has been done already."""
        from subprocess import DEVNULL, PIPE, Popen

        if command in self._processes or command in self._outputs:
            return
        folder, arguments = command
        try:
            self._processes[command] = Popen(
                [*self._command, *arguments],
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=PIPE,
                cwd=folder,
                env=self._environment,
                start_new_session=True,
            )
        except OSError as error:  # the folder is gone or not accessible
            self._outputs[command] = "", error.strerror or "error"

    def _read(self, command: _GitCommand) -> tuple[str, str]:
        """Wait until a command that has been started ends; return its output and error."""
        from subprocess import TimeoutExpired

        if command not in self._outputs:
            process = self._processes[command]
            try:
                output, error = process.communicate(timeout=max(0.01, self._deadline - time.monotonic()))
            except TimeoutExpired:
                return "", f"no response within {_TIMEOUT_SECONDS:g} s"
            self._outputs[command] = os.fsdecode(output), _parse_error(error) if process.returncode else ""
            del self._processes[command]
        return self._outputs[command]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            # If git is a wrapper, its children have the pipes too: reading until they are closed could take forever.
            with process, suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)


def _list_commands(folders: Iterable[Path]) -> Iterator[_GitCommand]:
    """Yield the two commands to run in each of the folders."""
    return ((folder, arguments) for folder in folders for arguments in (_LOCATION_ARGUMENTS, _LISTING_ARGUMENTS))


def _parse_error(text: bytes) -> str:
    lines = [line for line in text.decode(errors="replace").splitlines() if line.startswith(("fatal:", "error:"))]
    return (lines[-1].partition(":")[2].strip() if lines else "")[:200] or "git failed without a message"


def _parse_settings(text: str) -> list[GitSetting]:
    parts = text.split("\0")  # of each setting the origin, then the key and, on the next line, the value
    settings = []
    for origin, setting in zip(parts[::2], parts[1::2], strict=False):
        key, _, value = setting.partition("\n")
        settings.append(GitSetting(origin.removeprefix("file:") if origin.startswith("file:") else "", key, value))
    return settings


def _find_included_paths(settings: Iterable[GitSetting], top: Path, home: str) -> Iterator[Path]:
    for setting in settings:
        if _INCLUDE_KEY.fullmatch(setting.key.lower()) and setting.value:
            yield (top / setting.origin).parent / expand_home(setting.value, home)


def _find_paths(settings: Sequence[GitSetting], top: Path, environment: Mapping[str, str]) -> Iterator[GitPath]:
    """Yield the paths named by settings and environment variables, relative to the top folder like git's programs."""
    home = environment.get("HOME", "")
    yield from (GitPath(top / origin) for origin in dict.fromkeys(setting.origin for setting in settings) if origin)
    yield from (GitPath(path, "file") for path in _find_included_paths(settings, top, home))
    for folder in filter(None, map(environment.get, ("GIT_TEMPLATE_DIR", "GIT_EXEC_PATH"))):
        yield GitPath(top / expand_home(folder, home), "folder")
    for setting in settings:
        key = setting.key.lower()
        if key in _FOLDER_KEYS and setting.value:
            yield GitPath(top / expand_home(setting.value, home), "folder")
        elif key == "core.attributesfile":
            yield GitPath(top / expand_home(setting.value, home))
        elif not _INCLUDE_KEY.fullmatch(key):
            yield from find_existing_files(setting.value, top, home)


def iterate_commands(settings: Iterable[GitSetting], environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the commands in settings and environment variables, after the names of these."""
    for setting in settings:
        key = setting.key.lower()
        if key.startswith("alias.") and not setting.value.startswith("!"):
            yield setting.key, f"git {setting.value}"
        elif key.endswith((".path", ".program")):  # not a shell command
            yield setting.key, shlex.quote(setting.value)
        elif setting.value.startswith("ext::"):
            yield setting.key, setting.value.removeprefix("ext::")
        elif key not in _FOLDER_KEYS and (setting.value.startswith("!") or COMMAND_KEY.fullmatch(key)):
            yield setting.key, setting.value
    yield from ((name, environment[name]) for name in _COMMAND_VARIABLES if name in environment)


def _find_lefthook_files(hooks: Path, top: Path) -> Iterator[GitPath]:
    """Yield the files that lefthook reads if hooks run it. It adds the first local one, even if that is empty."""
    if any(_runs_lefthook(hook) for hook in _list_files(hooks)):
        yield GitPath(top / _LOCAL_LEFTHOOK_FILES[0], "file")
        yield from (GitPath(top / name, "folder") for name in _LOCAL_LEFTHOOK_FILES[1:])
        files = (*_list_files(top), *_list_files(top / ".config"))
        yield from (GitPath(path) for path in files if path.name.startswith(("lefthook", ".lefthook")))


def _runs_lefthook(hook: Path) -> bool:
    with suppress(OSError), hook.open("rb") as file:
        return b"lefthook" in file.read(_MAX_HOOK_BYTES)
    return False


def _list_files(folder: Path) -> list[Path]:
    with suppress(OSError), os.scandir(folder) as entries:
        return [Path(entry.path) for entry in entries if entry.is_file()]
    return []


def _list_links(folder: Path, placeholder_type: str = "") -> list[GitPath]:
    with suppress(OSError), os.scandir(folder) as entries:
        return [GitPath(Path(entry.path), placeholder_type) for entry in entries if entry.is_symlink()]
    return []
