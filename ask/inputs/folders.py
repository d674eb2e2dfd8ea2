"""`-f FOLDER`: reading the text files in a folder, except those that git ignores. Links are not followed."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pathspec import GitIgnoreSpec
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

from ask.attachments import SNIFF_BYTES, describe_media_type, detect_media_type
from ask.errors import FileError
from ask.inputs.git import GIT_FOLDER, MAX_LISTING_BYTES, GitError, run_git
from ask.inputs.prompt_inputs import MAX_FILES, PromptInputs
from ask.inputs.stdin_and_files import MAX_TEXT_BYTES, decode_text
from ask.records import NamedTuple
from ask.text import decode_argument, join_names

MAX_NAMED_FILES = 3
"""How many files an error message names."""

"""The limit for the names of the files that git tracks."""
SENSITIVE, PACKAGES, PRIVATE_KEY = "may contain secrets", "installed packages", "a private key"
PRIVATE_REASONS = (SENSITIVE, PACKAGES, PRIVATE_KEY)
KERNEL_FOLDERS = ("/dev", "/proc", "/sys")
"""Their files are no data: some have no end, and the environment of each process is among them."""
PACKAGE_FOLDERS = ("node_modules",)
SENSITIVE_NAME_PATTERN = r"\.env(?:\..+)?|.+\.env|\.netrc|\.pgpass|\.git-credentials"
EXAMPLE_SUFFIXES = (".example", ".sample", ".template", ".dist")
PRIVATE_KEY_PATTERN = re.compile(r"^-----BEGIN [A-Z ]*PRIVATE KEY-----|^PuTTY-User-Key-File-", re.MULTILINE)

NESTED_FOLDERS = "(?:/.+)?/"
"""The regular expression of pathspec for `/**/`; that for `*` is `[^/]*`."""
STAR_BEFORE_ANOTHER = re.compile(r"\[\^/\]\*((?:\\.|\[(?:\\.|[^\]\\])+\]|[^][()*?/^$\\])+?)(?=\[\^/\]\*)")
"""A `*` with the text up to the next one in the same name."""


class LinearPattern(GitIgnoreSpecPattern):
    """A pattern that does not try all ways to divide a path among its wildcards, which can take years.

    The first place where the text after a wildcard matches is as good as any other. Like git, it ignores a line that is
    no valid pattern.
    """

    @classmethod
    def pattern_to_regex(cls, pattern: Any) -> tuple[Any, bool | None]:
        try:
            regex, include = super().pattern_to_regex(pattern)
            re.compile(regex or "")
        except (ValueError, re.error):
            return None, None
        first, *parts = STAR_BEFORE_ANOTHER.sub(r"(?>[^/]*?\1)", regex or "").split(NESTED_FOLDERS)
        nested = [rf"(?>(?:/.+?)??/{part}(?=/))" for part in parts[:-1]]
        nested += [NESTED_FOLDERS + part for part in parts[-1:]]
        return regex and "".join((first, *nested)), include


IgnoreRules = tuple[Path, GitIgnoreSpec]
"""A folder, and patterns relative to it."""


def read_folder(
    folder: Path,
    name: str,
    environment: Mapping[str, str] = os.environ,
    notify: Callable[[str], None] = lambda _: None,
) -> PromptInputs:
    """Read the text files in a folder, and list the skipped files in a further text.

    Args:
        folder: the folder.
        name: the folder as the user wrote it.
        environment: the environment of git.
        notify: called with a line for the user if secrets or packages are left out.

    Raises:
        FileError: it cannot be read, contains too much, or contains no text.
    """
    texts: list[tuple[str, str]] = []
    encoding_notes: list[str] = []
    skipped: list[str] = []
    private: list[str] = []
    size = 0
    for entry in walk_files(folder, environment):
        display_path = f"{name.rstrip('/')}/{decode_argument(str(entry.path.relative_to(folder)))}"
        text, reason = _read_text_or_reason(entry, display_path, encoding_notes.append)
        if not reason and not entry.is_in_repository and PRIVATE_KEY_PATTERN.search(text[:SNIFF_BYTES]):
            reason = PRIVATE_KEY
        if reason:
            skipped.append(f"{display_path}: {reason}")
        else:
            texts.append((display_path, text))
            size += len(text)
        if reason in PRIVATE_REASONS:
            private.append(display_path)
        if size > MAX_TEXT_BYTES:
            sizes = sorted(((len(text), path) for path, text in texts), reverse=True)
            largest_files = ", ".join(f"{path} ({length:,})" for length, path in sizes[:MAX_NAMED_FILES])
            advice = f"attach a smaller part, or exclude large files with .gitignore: {largest_files}"
            raise FileError(f"{name} contains more than {MAX_TEXT_BYTES:,} characters of text", advice)
        if len(texts) + len(skipped) > MAX_FILES:
            raise FileError(f"{name} contains more than {MAX_FILES:,} files", "attach a smaller part")
    if private:
        names = join_names(private, MAX_NAMED_FILES)
        notify(f"{name} is not in a git repository; leaving out {names} (-f PATH attaches one)")
    if not texts:
        examples = "; ".join(skipped[:MAX_NAMED_FILES])
        raise FileError(f"{name} contains no text files", f"skipped: {examples}" if examples else "name another")
    if skipped:
        texts.append((name, "\n".join(("Skipped:", *skipped))))
    return PromptInputs(texts=tuple(texts), skipped_files=tuple(skipped), encoding_notes=tuple(encoding_notes))


def _read_text_or_reason(entry: FolderEntry, name: str, notify: Callable[[str], None]) -> tuple[str, str]:
    """Return the text of a file and "", or else "" and why it is skipped.

    At most one byte more than `MAX_TEXT_BYTES` is read. `notify` is called with a line that begins with the name if it
    is not valid UTF-8.
    """
    if entry.skip_reason:
        return "", entry.skip_reason
    try:
        with entry.path.open("rb") as file:
            head = file.read(SNIFF_BYTES)
            media_type = detect_media_type(head)
            if media_type:
                return "", describe_media_type(media_type)
            return decode_text(head + file.read(MAX_TEXT_BYTES + 1 - len(head)), name, notify), ""
    except OSError as error:
        return "", error.strerror or "cannot be read"
    except FileError:
        return "", "binary"


class FolderEntry(NamedTuple):
    """A file to read, or a file or folder that is skipped.

    Attributes:
        path: its path.
        skip_reason: why it is skipped; "" for a file to read.
        is_in_repository: whether git decided that it is not ignored.
    """

    path: Path
    skip_reason: str = ""
    is_in_repository: bool = False


class Repository:
    """The rules by which a git repository ignores files. Outside a repository, only those in the folders apply.

    Attributes:
        rules: the rules that apply to a folder, those of the outermost folder first.
        tracked: the files that git tracks, which are never ignored, and the folders that contain them.
        exists: whether there is a repository.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        folder = folder.absolute()
        folders = [folder, *folder.parents]
        depth = next((depth for depth, root in enumerate(folders) if _is_repository(root)), None)
        self.exists = depth is not None
        self.tracked: frozenset[str] = frozenset()
        self.rules: list[IgnoreRules] = []
        if depth is None:
            return
        root = folders[depth]
        self.tracked = _list_tracked_files(root, environment)
        self.rules += _read_ignore_rules(root, _find_global_excludes(root, environment))
        self.rules += _read_ignore_rules(root, _find_repository_excludes(root, environment))
        for parent in reversed(folders[1 : depth + 1]):
            self.rules += _read_ignore_rules(parent)
        if _is_ignored(folder, self.rules, is_folder=True):
            self.rules = []  # git also uses an ignored folder that is named explicitly


def walk_files(folder: Path, environment: Mapping[str, str] = os.environ) -> Iterator[FolderEntry]:
    """Yield the files under a folder that git would not ignore, sorted, files before subfolders.

    Outside a repository, files that usually contain secrets and installed packages are skipped.
    """
    repository = Repository(folder, environment)
    pending = [(folder, repository, tuple(repository.rules), False)]
    while pending:
        folder, repository, rules, is_parent_ignored = pending.pop()
        rules = (*rules, *_read_ignore_rules(folder))
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            yield FolderEntry(folder, error.strerror or "cannot be read")
            continue
        folders = []
        for entry in entries:
            path, is_folder = Path(entry), entry.is_dir(follow_symlinks=False)
            ignored = is_parent_ignored or _is_ignored(path, rules, is_folder=is_folder)
            if entry.name == GIT_FOLDER or (ignored and str(path.absolute()) not in repository.tracked):
                continue
            if not repository.exists and (reason := _find_private_reason(entry.name, is_folder=is_folder)):
                yield FolderEntry(path, reason)
            elif is_folder and os.path.abspath(path) in KERNEL_FOLDERS:
                yield FolderEntry(path, "belongs to the kernel")
            elif is_folder and _is_repository(path):
                nested = Repository(path, environment)
                folders.append((path, nested, tuple(nested.rules), False))
            elif is_folder:
                folders.append((path, repository, rules, ignored))
            elif entry.is_file(follow_symlinks=False):
                yield FolderEntry(path, is_in_repository=repository.exists)
        pending += reversed(folders)  # the last one is read next


def _is_repository(folder: Path) -> bool:
    """Check whether a folder is the top of a git repository. An empty .git may be a placeholder of safe mode."""
    git_path = folder / GIT_FOLDER
    return os.path.isfile(git_path) or os.path.exists(git_path / "HEAD")


def _find_private_reason(name: str, *, is_folder: bool) -> str:
    """Return why a file or folder should not be sent unless git tracks it; "" if nothing is known against it."""
    if is_folder:
        return PACKAGES if name in PACKAGE_FOLDERS else ""
    is_secret = re.fullmatch(SENSITIVE_NAME_PATTERN, name) and not name.endswith(EXAMPLE_SUFFIXES)
    return SENSITIVE if is_secret else ""


def _list_tracked_files(root: Path, environment: Mapping[str, str]) -> frozenset[str]:
    """Return the files that git tracks and the folders that contain them; none if git is missing or refuses."""
    output = _run_git(root, environment, "ls-files", "-z")
    paths = {str(root / os.fsdecode(name)) for name in output.split(b"\0") if name}
    return frozenset(paths.union(*(map(str, Path(path).parents) for path in paths)))


def _find_global_excludes(root: Path, environment: Mapping[str, str]) -> Path:
    """Return the file with the user's rules for all repositories, which need not exist."""
    configured = _run_git(root, environment, "config", "--type=path", "core.excludesFile").removesuffix(b"\n")
    if configured:
        return Path(os.fsdecode(configured))
    config_folder = environment.get("XDG_CONFIG_HOME") or os.path.expanduser(f"{environment.get('HOME', '~')}/.config")
    return Path(config_folder, "git/ignore")


def _find_repository_excludes(root: Path, environment: Mapping[str, str]) -> Path:
    """Return the file with the rules of a repository that are not part of it."""
    if os.path.isfile(root / GIT_FOLDER):  # a linked worktree or a submodule
        path = _run_git(root, environment, "rev-parse", "--git-path", "info/exclude").removesuffix(b"\n")
        return root / os.fsdecode(path)
    return root / GIT_FOLDER / "info/exclude"


def _run_git(root: Path, environment: Mapping[str, str], *arguments: str) -> bytes:
    """Run git in a repository; return what it prints, b"" if it fails."""
    try:
        return run_git(root, environment, *arguments, limit=MAX_LISTING_BYTES)
    except (OSError, GitError):
        return b""


def _read_ignore_rules(folder: Path, path: Path | None = None) -> list[IgnoreRules]:
    """Read the rules for a folder from `path`, or its .gitignore; [] if there is no such file, or it cannot be read."""
    path = path or folder / ".gitignore"
    if not os.path.isfile(path):  # a repository may contain a link to a device, which has no end
        return []
    try:
        text = path.read_text(encoding="utf-8-sig", errors="surrogateescape")  # git skips a byte order mark, too
    except OSError:
        return []
    # re2 and hyperscan, which pathspec prefers where they are installed, have no atomic groups.
    spec = GitIgnoreSpec.from_lines(text.split("\n"), LinearPattern, backend="simple")
    return [(folder.absolute(), spec)]


def _is_ignored(path: Path, rules: Sequence[IgnoreRules], *, is_folder: bool) -> bool:
    """Check whether git would ignore a path. The innermost rule that matches it decides."""
    for base_folder, spec in reversed(rules):
        relative = path.absolute().relative_to(base_folder).as_posix()
        is_excluded = spec.check_file(f"{relative}/" if is_folder else relative).include
        if is_excluded is not None:
            return is_excluded
    return False
