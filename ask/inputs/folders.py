"""`-f FOLDER`: reading the text files in a folder, except those ignored by git. Links are not followed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pathspec import GitIgnoreSpec

from ask.attachments import SNIFF_BYTES, describe_media_type, detect_media_type
from ask.errors import FileError
from ask.inputs.prompt_inputs import MAX_FILES, PromptInputs
from ask.inputs.readers import FILE_LIMIT, decode_text
from ask.text import decode_argument

GIT_FOLDER = ".git"
IGNORE_FILE = ".gitignore"
MAX_NAMED_FILES = 3
"""How many files an error message names."""


class IgnoreRules(NamedTuple):
    """The patterns of one .gitignore file, relative to `folder`."""

    folder: Path
    spec: GitIgnoreSpec


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
    sizes: list[tuple[int, str]] = []
    size = 0
    for path, error in walk_files(folder, parent_rules):
        display_path = f"{name.rstrip('/')}/{decode_argument(str(path.relative_to(folder)))}"
        text, reason = ("", error) if error else read_text_or_reason(path)
        if reason:
            skipped.append(f"{display_path}: {reason}")
        else:
            texts.append((display_path, text))
            sizes.append((len(text), display_path))
            size += len(text)
        if size > FILE_LIMIT or len(texts) + len(skipped) > MAX_FILES:
            raise make_folder_limit_error(name, sizes, size)
    if not texts:
        examples = "; ".join(skipped[:MAX_NAMED_FILES])
        raise FileError(f"there is no text file in {name}", f"left out: {examples}" if examples else "name another")
    if skipped:
        texts.append((name, "\n".join(("Left out, as it is no text:", *skipped))))
    return PromptInputs(texts=tuple(texts), skipped_files=tuple(skipped))


def make_folder_limit_error(name: str, sizes: Sequence[tuple[int, str]], size: int) -> FileError:
    """Create the error for a folder with more than a message can contain."""
    if size <= FILE_LIMIT:
        return FileError(f"{name} holds more than {MAX_FILES:,} files", "name a part of it")
    largest_files = ", ".join(f"{path} ({length:,})" for length, path in sorted(sizes, reverse=True)[:MAX_NAMED_FILES])
    advice = f"name a part of it, or let .gitignore leave out what is large: {largest_files}"
    return FileError(f"{name} holds more than {FILE_LIMIT:,} characters of text", advice)


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
        own_rules = read_ignore_rules(folder)
        rules = (*rules, own_rules) if own_rules else tuple(rules)
        try:
            with os.scandir(folder) as scan:
                entries = sorted(scan, key=lambda entry: entry.name)
        except OSError as error:
            yield folder, error.strerror or "cannot be read"
            continue
        included = [
            (Path(entry), entry)
            for entry in entries
            if entry.name != GIT_FOLDER
            and not is_ignored(Path(entry), rules, is_folder=entry.is_dir(follow_symlinks=False))
        ]
        yield from ((path, "") for path, entry in included if entry.is_file(follow_symlinks=False))
        pending += [(path, rules) for path, entry in reversed(included) if entry.is_dir(follow_symlinks=False)]


def read_parent_rules(folder: Path) -> list[IgnoreRules]:
    """Return the ignore rules of the repository around a folder, the outermost first.

    Outside a repository there are none.
    """
    folders = [folder.absolute(), *folder.absolute().parents]
    root_index = next((index for index, path in enumerate(folders) if is_git_directory(path / GIT_FOLDER)), None)
    if root_index is None:
        return []
    exclude_rules = read_ignore_rules(folders[root_index], f"{GIT_FOLDER}/info/exclude")
    all_rules = [exclude_rules, *(read_ignore_rules(path) for path in reversed(folders[1 : root_index + 1]))]
    return [rules for rules in all_rules if rules]


def is_git_directory(git_path: Path) -> bool:
    """Check whether git would use a `.git`. An empty one may be a placeholder of safe mode."""
    return git_path.is_file() or (git_path / "HEAD").exists()


def read_ignore_rules(folder: Path, file_name: str = IGNORE_FILE) -> IgnoreRules | None:
    """Read a folder's .gitignore; None if there is none or it cannot be read."""
    try:
        text = (folder / file_name).read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    return IgnoreRules(folder.absolute(), GitIgnoreSpec.from_lines(text.splitlines()))


def is_ignored(path: Path, rules: Sequence[IgnoreRules], *, is_folder: bool) -> bool:
    """Check whether git would ignore a path. The innermost rule that matches it decides."""
    for base_folder, spec in reversed(rules):
        relative = path.absolute().relative_to(base_folder).as_posix()
        is_excluded = spec.check_file(f"{relative}/" if is_folder else relative).include
        if is_excluded is not None:
            return is_excluded
    return False
