"""Asks git for the files and folders from which it would run programs or read its configuration.

Git itself resolves its configuration: includes, conditions, quoting, worktrees, and the user's own files. Only commands
that run nothing are used, and they get 5 seconds altogether.
"""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

if TYPE_CHECKING:
    from subprocess import Popen
    from types import TracebackType

_TIMEOUT = 5.0
_MAX_PROCESSES = 16
_MAX_INCLUDED_FILES = 100
_LOCATION_OPTIONS = (
    *("--path-format=absolute", "--absolute-git-dir", "--git-common-dir"),
    *("--git-path", "hooks", "--show-toplevel"),
)
_LISTING_OPTIONS = ("--show-origin", "--includes", "--null", "--list")
# Read for any owner: that these may be read does not say that anything of them is run.
_GLOBAL_OPTIONS = ("-c", "safe.directory=*", "-c", "safe.bareRepository=all")
_INCLUDE_KEY = re.compile(r"include(?:if\..*)?\.path", re.DOTALL)
_FOLDER_KEYS = {"core.hookspath", "init.templatedir"}
_COMMAND_KEY = re.compile(
    r"(?:pager|hook)\..*|.*(?:cmd|command|program|helper|driver|clean|smudge|process|textconv|editor|pager|fsmonitor"
    r"|askpass|gitproxy|hook|external|difffilter|path|uploadpack|receivepack|vcs|tunnel|browser|httpd|smtpserver)",
    re.DOTALL,
)
_TOP_LEVEL_SUBSTITUTION = re.compile(r"(?:\$\(|`)\s*git rev-parse --show-toplevel\s*(?:\)|`)")
_VARIABLE_REFERENCE = re.compile(r"\$(?:\{(HOME|PWD)\}|(HOME|PWD)\b)")
_INTERPRETERS = {"sh", "bash", "dash", "zsh", "exec", "node", "perl", "python", "python3", "ruby"}
_PLAIN_PATH = re.compile(r"(?!-)(?!.*://)[^\s$*?`()&|;<>=]+")
_COMMAND_VARIABLES = (
    *("GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "GIT_PAGER", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_ASKPASS", "SSH_ASKPASS"),
    *("GIT_EXTERNAL_DIFF", "GIT_PROXY_COMMAND", "VISUAL", "EDITOR", "PAGER", "BROWSER"),
)


class GitPath(NamedTuple):
    """A path that git uses.

    Attributes:
        path: absolute; it may lead through links, and may be missing.
        placeholder_type: what has to be there while it is missing: "folder", "file" (git fails where an included file is
            a folder), or "" if nothing needs to be.
    """

    path: Path
    placeholder_type: str = ""


class GitRepository(NamedTuple):
    """What git reports about one folder.

    Attributes:
        folder: where git was asked.
        git_dir: the repository's own directory, None outside a repository.
        paths: the paths that git uses there.
        error: why git did not report everything, or "".
    """

    folder: Path
    git_dir: Path | None
    paths: tuple[GitPath, ...]
    error: str = ""


class _GitCommand(NamedTuple):
    arguments: tuple[str, ...]
    folder: Path


class _GitOutput(NamedTuple):
    text: str
    error: str


class _GitSetting(NamedTuple):
    origin: str
    key: str
    value: str


def find_git(environment: Mapping[str, str], writable_folders: Sequence[Path]) -> str | None:
    """Find the user's git, passing over any in a writable folder.

    Args:
        environment: the user's.
        writable_folders: the folders that calls can write.
    """
    for folder in environment.get("PATH", "").split(os.pathsep):
        program = os.path.join(folder, "git")
        if folder.startswith("/") and os.access(program, os.X_OK) and os.path.isfile(program):
            resolved = Path(os.path.realpath(program))
            if not any(resolved.is_relative_to(one) for one in writable_folders):
                return str(resolved)
    return None


class GitReader:
    """Asks git about folders; a context that ends what still runs.

    Args:
        git: the program.
        environment: the user's.
    """

    def __init__(self, git: str, environment: Mapping[str, str]) -> None:
        self._runner = _GitRunner(git, environment)
        self._environment = environment

    def start_reading(self, folders: Sequence[Path]) -> None:
        """Ask about folders, and go on while git looks."""
        self._runner.start([command for folder in folders for command in _build_commands(folder)])

    def read_repositories(self, folders: Sequence[Path]) -> list[GitRepository]:
        """Read what git reports about each of the folders; those that were not asked about yet are.

        Args:
            folders: working directories to ask in; the enclosing repository is found, as git finds it.
        """
        outputs = self._runner.run([command for folder in folders for command in _build_commands(folder)])
        included = _IncludedFiles(self._runner, self._environment.get("HOME", ""))
        return [
            _parse_repository(folder, location, listing, included, self._environment)
            for folder, location, listing in zip(folders, outputs[::2], outputs[1::2], strict=True)
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, _: TracebackType | None
    ) -> None:
        self._runner.close()


def _build_commands(folder: Path) -> tuple[_GitCommand, _GitCommand]:
    return _GitCommand(("rev-parse", *_LOCATION_OPTIONS), folder), _GitCommand(("config", *_LISTING_OPTIONS), folder)


def _parse_repository(
    folder: Path,
    location_output: _GitOutput,
    listing_output: _GitOutput,
    included_files: _IncludedFiles,
    environment: Mapping[str, str],
) -> GitRepository:
    lines = location_output.text.split("\n")[:-1]
    bare = "must be run in a work tree" in location_output.error
    outside = "not a git repository" in location_output.error
    error = "" if outside or bare else location_output.error
    if not error and not outside and len(lines) != (3 if bare else 4):
        error = "a path has a line break, or git is older than 2.31"
    paths: list[GitPath] = []
    git_dir, top = None, folder
    if not error and not outside:
        git_dir, common, hooks = (Path(line) for line in lines[:3])
        top = git_dir if bare else Path(lines[3])
        paths += [
            GitPath(git_dir),
            GitPath(common),
            GitPath(hooks, "folder"),
            *_list_links(git_dir),
            *_list_links(common),
        ]
    settings = included_files.resolve_settings(top, _parse_settings(listing_output.text))
    paths += _find_paths(settings, top, environment)
    hook_folders = [path.path for path in paths if path.placeholder_type == "folder"]
    paths += [link for hook_folder in hook_folders for link in _list_links(hook_folder, "folder")]
    error = error or listing_output.error or included_files.error
    return GitRepository(folder, git_dir, tuple(dict.fromkeys(paths)), error)


class _GitRunner:
    """Runs git several times at once, within a time for all of it."""

    def __init__(self, git: str, environment: Mapping[str, str]) -> None:
        kept = ("HOME", "XDG_CONFIG_HOME", "GIT_DISCOVERY_ACROSS_FILESYSTEM")
        self._command = (git, *_GLOBAL_OPTIONS)
        self._environment = {
            **{name: environment[name] for name in environment if name in kept or name.startswith("GIT_CONFIG_")},
            "PATH": "/usr/bin:/bin",
            "LC_ALL": "C",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_TERMINAL_PROMPT": "0",
        }
        self._deadline = time.monotonic() + _TIMEOUT
        self._started_commands: dict[_GitCommand, Popen[bytes] | _GitOutput] = {}
        self._exit_stack = ExitStack()

    def start(self, commands: Iterable[_GitCommand]) -> None:
        """Start commands whose output will be wanted."""
        for command in commands:
            if command not in self._started_commands:
                self._started_commands[command] = self._start_command(command)

    def run(self, commands: Sequence[_GitCommand]) -> list[_GitOutput]:
        """Run each of the commands, some at once; return what they have written."""
        outputs = []
        for at in range(0, len(commands), _MAX_PROCESSES):
            self.start(commands[at : at + _MAX_PROCESSES])
            outputs += [
                self._read_output(self._started_commands.pop(command)) for command in commands[at : at + _MAX_PROCESSES]
            ]
        return outputs

    def close(self) -> None:
        """End what still runs."""
        self._exit_stack.close()

    def _start_command(self, command: _GitCommand) -> Popen[bytes] | _GitOutput:
        from subprocess import DEVNULL, PIPE, Popen

        try:
            process = Popen(
                [*self._command, *command.arguments],
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=PIPE,
                cwd=command.folder,
                env=self._environment,
                start_new_session=True,
            )
        except OSError as error:  # a folder that is gone, or that the user may not enter
            return _GitOutput("", error.strerror or "error")
        self._exit_stack.enter_context(process)
        self._exit_stack.callback(process.kill)
        return process

    def _read_output(self, process: Popen[bytes] | _GitOutput) -> _GitOutput:
        from subprocess import TimeoutExpired

        if isinstance(process, _GitOutput):
            return process
        try:
            text, error = process.communicate(timeout=max(0.01, self._deadline - time.monotonic()))
        except TimeoutExpired:
            return _GitOutput("", f"no answer within {_TIMEOUT:g} s")
        return _GitOutput(os.fsdecode(text), _parse_error(error) if process.returncode else "")


def _parse_error(text: bytes) -> str:
    lines = [line for line in text.decode(errors="replace").splitlines() if line.startswith(("fatal:", "error:"))]
    return (lines[-1].partition(":")[2].strip() if lines else "")[:200] or "git failed without a reason"


class _IncludedFiles:
    """Configuration files whose condition is not met now: each is listed once."""

    def __init__(self, runner: _GitRunner, home: str) -> None:
        self._runner = runner
        self._home = home
        self._settings_by_path: dict[str, list[_GitSetting]] = {}
        self.error = ""

    def resolve_settings(self, top: Path, settings: Sequence[_GitSetting]) -> list[_GitSetting]:
        """The settings that git reported, and those of all files that it would include under other conditions."""
        found = list(settings)
        seen = {os.path.realpath(top / setting.origin) for setting in settings}
        waiting = found
        while waiting:
            named = {os.path.realpath(path) for path in _find_included_paths(waiting, top, self._home)} - seen
            seen |= named
            waiting = []
            for path in self._list_files({path for path in named if os.path.isfile(path)}):
                waiting += self._settings_by_path[path]
                seen.update(os.path.realpath(setting.origin) for setting in self._settings_by_path[path])
            found += waiting
        return found

    def _list_files(self, paths: set[str]) -> list[str]:
        new = sorted(paths - self._settings_by_path.keys())
        if len(self._settings_by_path) + len(new) > _MAX_INCLUDED_FILES:
            self.error, new = f"more than {_MAX_INCLUDED_FILES} files are included", []
        for path, output in zip(
            new,
            self._runner.run([_GitCommand(("config", "--file", path, *_LISTING_OPTIONS), Path("/")) for path in new]),
            strict=True,
        ):
            self.error = self.error or output.error
            self._settings_by_path[path] = _parse_settings(output.text)
        return sorted(paths & self._settings_by_path.keys())


def _parse_settings(text: str) -> list[_GitSetting]:
    parts = text.split("\0")
    settings = []
    for origin, setting in zip(parts[::2], parts[1::2], strict=False):
        key, _, value = setting.partition("\n")
        settings.append(_GitSetting(origin.removeprefix("file:") if origin.startswith("file:") else "", key, value))
    return settings


def _find_included_paths(settings: Iterable[_GitSetting], top: Path, home: str) -> Iterator[Path]:
    for setting in settings:
        if _INCLUDE_KEY.fullmatch(setting.key.lower()) and setting.value:
            yield (top / setting.origin).parent / _expand_home(setting.value, home)


def _find_paths(settings: Sequence[_GitSetting], top: Path, environment: Mapping[str, str]) -> Iterator[GitPath]:
    """Yield the paths that settings and the user's variables name: git starts programs in the top folder."""
    home = environment.get("HOME", "")
    yield from (GitPath(top / origin) for origin in dict.fromkeys(one.origin for one in settings) if origin)
    yield from (GitPath(path, "file") for path in _find_included_paths(settings, top, home))
    if template := environment.get("GIT_TEMPLATE_DIR"):
        yield GitPath(top / _expand_home(template, home), "folder")
    for name in _COMMAND_VARIABLES:
        yield from _find_command_paths(environment.get(name, ""), top, home, is_command=True)
    for setting in settings:
        key = setting.key.lower()
        if key in _FOLDER_KEYS and setting.value:
            yield GitPath(top / _expand_home(setting.value, home), "folder")
        elif key == "core.attributesfile":
            yield GitPath(top / _expand_home(setting.value, home))
        elif not _INCLUDE_KEY.fullmatch(key):
            is_shell = setting.value.startswith("!")
            yield from _find_command_paths(
                setting.value, top, home, is_command=is_shell or bool(_COMMAND_KEY.fullmatch(key))
            )


def _find_command_paths(value: str, top: Path, home: str, *, is_command: bool) -> Iterator[GitPath]:
    """Yield the files that a command names: those that exist, and the missing program that it would start."""
    command = _VARIABLE_REFERENCE.sub(
        lambda match: home if "HOME" in match[0] else str(top),
        _TOP_LEVEL_SUBSTITUTION.sub(lambda _: str(top), value.removeprefix("!")),
    )
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    program = words[1:2] if words and words[0] in _INTERPRETERS else [word for word in words[:1] if "/" in word]
    if is_command:
        yield from (
            GitPath(top / _expand_home(word, home), "folder") for word in program if _PLAIN_PATH.fullmatch(word)
        )
    if len(words) > 1 or "/" in command:  # else a program that is looked for on PATH, or no path at all
        for word in dict.fromkeys([*words, *re.split(r"[\s;&|()<>\"'`={}!,]+", command)]):
            path = top / _expand_home(word, home)
            if word and _is_file(path):
                yield GitPath(path)


def _expand_home(path: str, home: str) -> str:
    """Replace a leading `~` as git does; an optional path is marked so from git 2.52 on."""
    path = path.removeprefix(":(optional)")
    return home + path[1:] if path == "~" or path.startswith("~/") else os.path.expanduser(path)


def _is_file(path: Path) -> bool:
    with suppress(OSError, ValueError):
        return path.is_file()
    return False


def _list_links(folder: Path, placeholder_type: str = "") -> list[GitPath]:
    """The links in a folder."""
    with suppress(OSError), os.scandir(folder) as entries:
        return [GitPath(Path(entry.path), placeholder_type) for entry in entries if entry.is_symlink()]
    return []
