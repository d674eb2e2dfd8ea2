"""`-f FOLDER`: reading the text files in a folder, except those ignored by git. Links are not followed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from pathspec import GitIgnoreSpec
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

from ask.attachments import SNIFF_BYTES, describe_media_type, detect_media_type
from ask.errors import FileError
from ask.inputs.prompt_inputs import MAX_FILES, PromptInputs
from ask.inputs.readers import FILE_LIMIT, decode_text
from ask.text import decode_argument

GIT_FOLDER = ".git"
MAX_NAMED_FILES = 3
"""How many files an error message names."""


NESTED_FOLDERS = "(?:/.+)?/"
"""What `/**/` is in the regular expressions of pathspec; `*` is `[^/]*`."""
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
"""A folder, and the patterns of its .gitignore file, relative to it."""


def read_folder(folder: Path, name: str) -> PromptInputs:
    """Read the text files in a folder, and list the skipped files in a further text.

    `name` is the folder as the user wrote it.

    Raises:
        FileError: it cannot be read, contains too much, or contains no text.
    """
    parent_rules = read_parent_rules(folder)
    if is_ignored(folder, parent_rules, is_folder=True):
        parent_rules = []  # git also uses an ignored folder that is named explicitly
    texts: list[tuple[str, str]] = []
    skipped: list[str] = []
    size = 0
    for path, error in walk_files(folder, parent_rules):
        display_path = f"{name.rstrip('/')}/{decode_argument(str(path.relative_to(folder)))}"
        text, reason = ("", error) if error else read_text_or_reason(path)
        if reason:
            skipped.append(f"{display_path}: {reason}")
        else:
            texts.append((display_path, text))
            size += len(text)
        if size > FILE_LIMIT:
            sizes = sorted(((len(text), path) for path, text in texts), reverse=True)
            largest_files = ", ".join(f"{path} ({length:,})" for length, path in sizes[:MAX_NAMED_FILES])
            advice = f"attach a smaller part, or exclude large files with .gitignore: {largest_files}"
            raise FileError(f"{name} contains more than {FILE_LIMIT:,} characters of text", advice)
        if len(texts) + len(skipped) > MAX_FILES:
            raise FileError(f"{name} contains more than {MAX_FILES:,} files", "attach a smaller part")
    if not texts:
        examples = "; ".join(skipped[:MAX_NAMED_FILES])
        raise FileError(f"{name} contains no text files", f"skipped: {examples}" if examples else "name another")
    if skipped:
        texts.append((name, "\n".join(("Skipped, not text:", *skipped))))
    return PromptInputs(texts=tuple(texts), skipped_files=tuple(skipped))


def read_text_or_reason(path: Path) -> tuple[str, str]:
    """Return the text of a file and "", or else "" and why it is skipped.

    At most one byte more than `FILE_LIMIT` is read.
    """
    try:
        with path.open("rb") as file:
            head = file.read(SNIFF_BYTES)
            media_type = detect_media_type(head)
            if media_type:
                return "", describe_media_type(media_type)
            return decode_text(head + file.read(FILE_LIMIT + 1 - len(head)), ""), ""
    except OSError as error:
        return "", error.strerror or "cannot be read"
    except FileError:
        return "", "binary"


def walk_files(folder: Path, rules: Sequence[IgnoreRules]) -> Iterator[tuple[Path, str]]:
    """Yield the files under a folder that git would not ignore.

    They are sorted, files before subfolders. Each comes with "", or for a folder that cannot be read, with the reason.
    """
    pending = [(folder, tuple(rules))]
    while pending:
        folder, rules = pending.pop()
        rules = (*rules, *read_ignore_rules(folder))
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            yield folder, error.strerror or "cannot be read"
            continue
        folders = []
        for entry in entries:
            path, is_folder = Path(entry), entry.is_dir(follow_symlinks=False)
            if entry.name == GIT_FOLDER or is_ignored(path, rules, is_folder=is_folder):
                continue
            if is_folder:
                folders.append((path, rules))
            elif entry.is_file(follow_symlinks=False):
                yield path, ""
        pending += reversed(folders)


def read_parent_rules(folder: Path) -> list[IgnoreRules]:
    """Return the ignore rules of the repository around a folder, the outermost first.

    Outside a repository there are none.
    """
    folders = [folder.absolute(), *folder.absolute().parents]
    for index, root in enumerate(folders):
        git_path = root / GIT_FOLDER
        if git_path.is_file() or (git_path / "HEAD").exists():  # an empty .git may be a placeholder of safe mode
            rules = read_ignore_rules(root, f"{GIT_FOLDER}/info/exclude")
            return [*rules, *chain.from_iterable(map(read_ignore_rules, reversed(folders[1 : index + 1])))]
    return []


def read_ignore_rules(folder: Path, file_name: str = ".gitignore") -> list[IgnoreRules]:
    """Read the rules of a folder; [] if there is no file with rules, or it cannot be read."""
    path = folder / file_name
    if not path.is_file():  # a repository may contain a link to a device, which has no end
        return []
    try:
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return []
    # re2 and hyperscan, which pathspec prefers where they are installed, have no atomic groups.
    spec = GitIgnoreSpec.from_lines(text.splitlines(), LinearPattern, backend="simple")
    return [(folder.absolute(), spec)]


def is_ignored(path: Path, rules: Sequence[IgnoreRules], *, is_folder: bool) -> bool:
    """Check whether git would ignore a path. The innermost rule that matches it decides."""
    for base_folder, spec in reversed(rules):
        relative = path.absolute().relative_to(base_folder).as_posix()
        is_excluded = spec.check_file(f"{relative}/" if is_folder else relative).include
        if is_excluded is not None:
            return is_excluded
    return False
