"""`-f git:diff` and `-f git:REV`, and running git so that it runs nothing that a repository names.

A repository may be hostile: an archive can contain a .git folder, whose configuration names commands for many
occasions, and hooks.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE, Popen
from tempfile import TemporaryFile
from threading import Timer

from ask.config.directories import get_working_directory
from ask.config.foreign_links import check_input
from ask.errors import FileError, MissingDependencyError
from ask.inputs.content_types import parse_content
from ask.inputs.prompt_inputs import InputReaders, PromptInputs
from ask.inputs.stdin_and_files import MAX_TEXT_BYTES
from ask.messages import EMPTY_MAPPING
from ask.records import NamedTuple
from ask.text import decode_argument, format_one_line, format_size, join_names

GIT_FOLDER = ".git"
OBJECTS = "objects"
COMMIT_FILES, COMMIT_FOLDERS = ("HEAD", "packed-refs"), ("refs", "logs", "reftable", OBJECTS)
"""The files and folders of a repository that name or contain its commits."""
NAME_END = re.compile(r"\.\.|[~^@{}]")
"""What separates the names of commits in a revision such as ORIG_HEAD~2..main."""
UNSAFE_PATH_PATTERN = re.compile(rb"[/\0](?:\.{0,2}|\.git)[/\0]", re.IGNORECASE)
"""A path in the index that git itself would refuse to add: it is absolute, or leads out of the folder or into .git."""
LFS_POINTER = b"version https://git-lfs.github.com/spec/"
"""The beginning of a file that a repository has in place of one in Git LFS."""
GIT_CONFIG_VARIABLES = ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_SYSTEM")
"""The variables of git that apply to all repositories."""
FORMS_HINT = "git:diff is what is not committed, staged or not, and git:HEAD the last commit"
GIT_TIMEOUT_SECONDS = 20.0
MAX_ERROR_BYTES = 10_000
MAX_LISTING_BYTES = 1 << 30
MAX_PATH_BYTES = 10_000
MAX_NAME_CHARACTERS = 200
MAX_NAMED_FILES = 3
"""How many untracked files a notice names."""
SAFE_VARIABLES = {
    "GIT_ALLOW_PROTOCOL": "none",  # a partial clone fetches what it lacks, perhaps with a command that it names
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
SAFE_SETTINGS = {
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.quotePath": "false",
    "diff.autoRefreshIndex": "false",  # writing the index would run the hook post-index-change
}
FILTER_PATTERN = re.compile(r"(filter\..*\.)(?:clean|smudge|process|required)", re.DOTALL)
PATCH_OPTIONS = (
    *("--no-color", "--no-ext-diff", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/", "--no-relative"),
    "--submodule=short",  # otherwise git runs in submodules, whose settings name other commands
)
SHOW_OPTIONS = (
    *("--patch", "--cc", "--format=medium"),  # settings name other formats, which may verify signatures with a command
    *("--no-show-signature", "--no-notes"),
    "--end-of-options",
)


NETWORK_VARIABLES = (
    *("GIT_ASKPASS", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSH_VARIANT"),
    *("GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "GIT_SSL_CERT", "GIT_SSL_KEY"),
)
"""The variables of git with which users reach their servers."""
REASON_PREFIXES = ("fatal:", "error:")
NO_REMOTE = "Could not read from remote repository"
FILE_SIZE_UNIT_BYTES = 512
"""The unit of `ulimit -f`."""


class GitNetwork(NamedTuple):
    """What git may do to fetch from another repository.

    Attributes:
        protocols: the allowed ones, separated by colons: a repository must not name a command or a local file.
        seconds: how long it may take.
        max_file_bytes: the size of the largest file that it may write, such as the pack with all that it fetches.
    """

    protocols: str
    seconds: float
    max_file_bytes: int


class GitError(Exception):
    """Git failed, took too long or cannot be started; the message says why."""


def load_git(rest: str, readers: InputReaders) -> PromptInputs:
    """Return the uncommitted changes for "diff", otherwise what `git show` prints about a revision.

    Raises:
        FileError: there is no repository, no such revision or no change, or the text is too long.
        MissingDependencyError: git is not installed.
    """
    source = f"git:{rest}"
    name = decode_argument(source)
    if not rest:
        raise FileError(f"{name} names no revision", FORMS_HINT)
    folder = get_working_directory()
    if readers.app_dirs:
        check_input(Path(), readers.app_dirs)
    try:
        _check_owner(folder, readers.environment, NAME_END.split(rest.partition(":")[0]))
        if rest == "diff":
            data = _read_changes(folder, readers)
        else:
            data = run_git(folder, readers.environment, "show", *PATCH_OPTIONS, *SHOW_OPTIONS, rest, "--")
    except FileNotFoundError:
        raise MissingDependencyError("git is not installed", f"{name} needs it") from None
    except GitError as error:
        hint = FORMS_HINT if str(error).startswith("bad revision") else ""
        raise FileError(f"cannot read {format_one_line(name)} ({error})", hint) from None
    except OSError as error:  # the revision is too long
        raise FileError(f"cannot run {format_one_line(name, MAX_NAME_CHARACTERS)} ({error.strerror})") from None
    if not data:
        raise FileError(f"{format_one_line(name)} is empty")
    return parse_content(name, data, MAX_TEXT_BYTES, keep_location=readers.keep_location)


def _check_owner(folder: Path, environment: Mapping[str, str], names: Sequence[str]) -> None:
    """Check that a repository does not show the commits of another one, which its author may not have.

    Linked worktrees and submodules share them, and the other repository knows of that. Git looks for commits with
    these `names` also in the repository's own folder, as for ORIG_HEAD.

    Raises:
        GitError: it does, or git failed.
    """
    options = ("--is-bare-repository", "--absolute-git-dir", "--git-common-dir", "--git-path", OBJECTS)
    is_bare, *lines = run_git(folder, environment, "rev-parse", *options).splitlines()
    git_folder, common_folder, _ = own = [Path(folder, os.fsdecode(line)).resolve() for line in lines]
    owner = next((each for each in (folder, *folder.parents) if (each / GIT_FOLDER).exists()), folder).resolve()
    if not _is_linked_worktree(owner / GIT_FOLDER, git_folder, common_folder):
        others = [each.parent for path in own for each in (path, *path.parents) if each.name == GIT_FOLDER]
        # Only git clone --separate-git-dir makes a .git file that leads out of the folder; its target is not bare.
        if is_bare == b"true" and not git_folder.is_relative_to(owner):
            others.append(git_folder)
        if other := next((each for each in others if not owner.is_relative_to(each)), None):
            raise GitError(f"its commits are those of another repository, {format_one_line(str(other))}")
    links = [link for path in (git_folder, common_folder) for link in _iterate_links(path)]
    named = [os.path.join(path, name) for path in (git_folder, common_folder) for name in names if name[:1] != "/"]
    for path in (*links, *filter(os.path.lexists, named)):
        target = Path(os.path.realpath(path))
        if not any(map(target.is_relative_to, own)):
            raise GitError(f"its commits may be those of another repository: {format_one_line(path)} is a link")


def _is_linked_worktree(git_file: Path, git_folder: Path, common_folder: Path) -> bool:
    """Check whether a repository has been made by `git worktree add`: its main repository knows its .git file."""
    if git_folder.parent.parent != common_folder:
        return False
    # In a linked worktree, both are files. A hostile repository may have a device or a named pipe instead.
    if git_file.is_file() and (git_folder / "gitdir").is_file():
        with suppress(OSError, ValueError), (git_folder / "gitdir").open("rb") as file:
            worktree = Path(git_folder, os.fsdecode(file.read(MAX_PATH_BYTES).removesuffix(b"\n")))
            return worktree.resolve() == git_file
    return False


def _iterate_links(git_folder: Path) -> Iterator[str]:
    """Yield the links in a repository that could lead to the branches or objects of another one."""
    yield from filter(os.path.islink, (os.path.join(git_folder, name) for name in (*COMMIT_FILES, *COMMIT_FOLDERS)))
    for name in COMMIT_FOLDERS:
        for folder, folders, files in os.walk(os.path.join(git_folder, name)):
            yield from filter(os.path.islink, (os.path.join(folder, each) for each in (*folders, *files)))
            if name == OBJECTS:  # nobody can guess the names of the files in its folders
                break


def _read_changes(folder: Path, readers: InputReaders) -> bytes:
    """Return the difference between the last commit, if there is one, and the files. Report untracked files.

    Raises:
        GitError: git failed, or the repository names files in other folders as its own.
    """
    environment = readers.environment
    top = Path(os.fsdecode(run_git(folder, environment, "rev-parse", "--show-toplevel").removesuffix(b"\n")))
    if not (folder.resolve().is_relative_to(top.resolve()) and (top / GIT_FOLDER).exists()):
        raise GitError("the settings of the repository name another folder for its files")
    # Git reads the files of the index without checking their paths, which whoever has made the index can choose.
    if UNSAFE_PATH_PATTERN.search(b"\0" + run_git(top, environment, "ls-files", "-z", limit=MAX_LISTING_BYTES)):
        raise GitError("the index of the repository names a file that cannot be in it")
    try:
        base = run_git(folder, environment, "rev-parse", "--verify", "--quiet", "HEAD^{commit}").decode().strip()
    except GitError:
        base = run_git(folder, environment, "hash-object", "-t", "tree", "--stdin").decode().strip()  # the empty tree
    # Comparing a file with a commit runs the filters of its attributes.
    keys = run_git(folder, environment, "config", "--list", "--name-only", "-z").split(b"\0")
    prefixes = {match[1] for key in keys if (match := FILTER_PATTERN.fullmatch(os.fsdecode(key)))}
    settings = {f"{prefix}{name}": "" for prefix in prefixes for name in ("clean", "smudge", "process")}
    settings |= {f"{prefix}required": "false" for prefix in prefixes}
    options = (*PATCH_OPTIONS, "--ignore-submodules=dirty", base, "--")
    data = run_git(folder, environment, "diff", *options, settings=settings)
    _report_untracked_files(top, readers)
    return data


def _report_untracked_files(top: Path, readers: InputReaders) -> None:
    options = ("--others", "--exclude-standard", "--directory", "--no-empty-directory", "-z")
    with suppress(GitError):
        listing = run_git(top, readers.environment, "ls-files", *options, limit=MAX_LISTING_BYTES)
        if names := [decode_argument(os.fsdecode(name)) for name in listing.split(b"\0")[:-1]]:
            named = format_one_line(join_names(names, MAX_NAMED_FILES))
            readers.notify(f"git:diff leaves out what is untracked: {named} (git add -N PATH includes it)")


def run_git(
    folder: Path,
    environment: Mapping[str, str],
    *arguments: str,
    settings: Mapping[str, str] = EMPTY_MAPPING,
    limit: int = MAX_TEXT_BYTES,
    stdin: bytes = b"",
    network: GitNetwork | None = None,
) -> bytes:
    """Run git in a folder and return what it prints. `settings` override those of the repository.

    Only with a `network` can it fetch.

    Raises:
        GitError: it failed, took too long, or printed more than `limit` bytes.
        FileNotFoundError: it is not installed.
    """
    command, seconds = ["git", "--no-pager", *arguments], GIT_TIMEOUT_SECONDS
    if network:
        blocks, seconds = network.max_file_bytes // FILE_SIZE_UNIT_BYTES, network.seconds
        command = ["sh", "-c", 'ulimit -f "$0" && exec "$@"', str(blocks), *command]
    with TemporaryFile() as errors, TemporaryFile() as given:
        given.write(stdin)
        given.seek(0)
        process = Popen(
            command,
            cwd=folder,
            env=_prepare_environment(environment, settings, network),
            stdin=given,
            stdout=PIPE,
            stderr=errors,
            start_new_session=True,
        )

        def kill() -> None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)

        timer = Timer(seconds, kill)
        timer.start()
        try:
            assert process.stdout, "it is a pipe"  # noqa: S101
            with process.stdout:
                output = process.stdout.read(limit + 1)
            if len(output) <= limit:
                process.wait()
        finally:
            timer.cancel()
            if process.returncode is None:
                kill()
                process.wait()
        if len(output) > limit:
            raise GitError(f"larger than {format_size(limit)}")
        if process.returncode:
            errors.seek(0)
            raise GitError(_parse_error(errors.read(MAX_ERROR_BYTES), process.returncode, seconds))
        return output


def _prepare_environment(
    environment: Mapping[str, str], settings: Mapping[str, str], network: GitNetwork | None
) -> dict[str, str]:
    # A git hook sets variables such as GIT_DIR, which are about another repository.
    git_environment = {name: value for name, value in environment.items() if not name.startswith("GIT_")}
    allowed = (*GIT_CONFIG_VARIABLES, *(NETWORK_VARIABLES if network else ()))
    git_environment |= {name: environment[name] for name in allowed if name in environment}
    all_settings = SAFE_SETTINGS | dict(settings)
    git_environment |= SAFE_VARIABLES | {"GIT_CONFIG_COUNT": str(len(all_settings))}
    if network:
        git_environment["GIT_ALLOW_PROTOCOL"] = network.protocols
    for number, (key, value) in enumerate(all_settings.items()):  # not with -c, whose names cannot contain "="
        git_environment |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return git_environment


def _parse_error(text: bytes, exit_status: int, seconds: float) -> str:
    """Return the reason that git printed."""
    if exit_status == -signal.SIGKILL:
        return f"git did not end within {seconds:g} s"
    lines = [line for line in text.decode(errors="replace").splitlines() if line.strip()]
    numbers = [number for number, line in enumerate(lines) if line.startswith(REASON_PREFIXES)]
    if not numbers:
        return f"git failed with status {exit_status}"
    number = numbers[-1]
    if number and NO_REMOTE in lines[number]:  # ssh or the server has printed why
        number -= 1
    reason = lines[number]
    return format_one_line(reason.partition(":")[2] if reason.startswith(REASON_PREFIXES) else reason)
