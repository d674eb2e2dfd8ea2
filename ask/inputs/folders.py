"""`-f FOLDER`: the text files in it, but for what its .gitignore files leave out. It follows no links."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pathspec import GitIgnoreSpec

from ask.attachments import SNIFF_BYTES, describe_media_type, detect_media_type
from ask.errors import FileError
from ask.inputs.prompt_inputs import MAX_FILES, PromptInputs
from ask.inputs.text import FILE_LIMIT, decode_text
from ask.text import decode_argument

GIT_FOLDER = ".git"
IGNORE_FILE = ".gitignore"
MAX_NAMED_FILES = 3
"""How many files an error names."""


class IgnoreRules(NamedTuple):
    """What one .gitignore file says.

    Attributes:
        folder: where its patterns begin.
        spec: the patterns.
    """

    folder: Path
    spec: GitIgnoreSpec


def read_folder(folder: Path, name: str) -> PromptInputs:
    """The texts in a folder, each under its path; what is left out is named in a further text.

    Args:
        folder: where it is.
        name: as the user wrote it.

    Raises:
        FileError: it cannot be read, or holds too much, or no text at all.
    """
    above = read_parent_rules(folder)
    if is_ignored(folder, above, is_folder=True):
        above = []  # it is named all the same, as with git
    texts: list[tuple[str, str]] = []
    left_out: list[str] = []
    sizes: list[tuple[int, str]] = []
    size = 0
    for path, fault in walk_files(folder, above):
        shown = f"{name.rstrip('/')}/{decode_argument(str(path.relative_to(folder)))}"
        text, reason = ("", fault) if fault else read_text_or_reason(path)
        if reason:
            left_out.append(f"{shown}: {reason}")
        else:
            texts.append((shown, text))
            sizes.append((len(text), shown))
            size += len(text)
        if size > FILE_LIMIT or len(texts) + len(left_out) > MAX_FILES:
            raise make_folder_limit_error(name, sizes, size)
    if not texts:
        first = "; ".join(left_out[:MAX_NAMED_FILES])
        raise FileError(f"there is no text file in {name}", f"left out: {first}" if first else "name another")
    if left_out:
        texts.append((name, "\n".join(("Left out, as it is no text:", *left_out))))
    return PromptInputs(texts=tuple(texts), skipped_files=tuple(left_out))


def make_folder_limit_error(name: str, sizes: Sequence[tuple[int, str]], size: int) -> FileError:
    """The error for a folder with more than a message can hold."""
    if size <= FILE_LIMIT:
        return FileError(f"{name} holds more than {MAX_FILES:,} files", "name a part of it")
    largest = ", ".join(f"{path} ({length:,})" for length, path in sorted(sizes, reverse=True)[:MAX_NAMED_FILES])
    advice = f"name a part of it, or let .gitignore leave out what is large: {largest}"
    return FileError(f"{name} holds more than {FILE_LIMIT:,} characters of text", advice)


def read_text_or_reason(path: Path) -> tuple[str, str]:
    """The text of a file, a little more than may be at most, and "", or else "" and what it is instead."""
    try:
        with path.open("rb") as file:
            head = file.read(SNIFF_BYTES)
            media_type = detect_media_type(head)
            if media_type:
                return "", describe_media_type(media_type)
            return decode_text(head + file.read(FILE_LIMIT + 1 - len(head)), ""), ""
    except OSError as fault:
        return "", fault.strerror or "cannot be read"
    except FileError:
        return "", "binary"


def walk_files(folder: Path, rules: Sequence[IgnoreRules]) -> Iterator[tuple[Path, str]]:
    """Yield the files under a folder that git would not ignore, in order: those of a folder before its subfolders.

    With each comes "", or with a folder that cannot be read, the reason.
    """
    pending = [(folder, tuple(rules))]
    while pending:
        folder, rules = pending.pop()
        own = read_ignore_rules(folder)
        rules = (*rules, own) if own else tuple(rules)
        try:
            with os.scandir(folder) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError as error:
            yield folder, error.strerror or "cannot be read"
            continue
        kept = [
            (Path(entry), entry)
            for entry in entries
            if entry.name != GIT_FOLDER
            and not is_ignored(Path(entry), rules, is_folder=entry.is_dir(follow_symlinks=False))
        ]
        yield from ((path, "") for path, entry in kept if entry.is_file(follow_symlinks=False))
        pending += [(path, rules) for path, entry in reversed(kept) if entry.is_dir(follow_symlinks=False)]


def read_parent_rules(folder: Path) -> list[IgnoreRules]:
    """The rules of the repository around a folder, the outermost first; none outside of one."""
    above = [folder.absolute(), *folder.absolute().parents]
    root = next((place for place, path in enumerate(above) if is_git_directory(path / GIT_FOLDER)), None)
    if root is None:
        return []
    excluded = read_ignore_rules(above[root], f"{GIT_FOLDER}/info/exclude")
    found = [excluded, *(read_ignore_rules(path) for path in reversed(above[1 : root + 1]))]
    return [rules for rules in found if rules]


def is_git_directory(git_path: Path) -> bool:
    """Check that git would use a `.git`; an empty one may be a placeholder of safe mode."""
    return git_path.is_file() or (git_path / "HEAD").exists()


def read_ignore_rules(folder: Path, file_name: str = IGNORE_FILE) -> IgnoreRules | None:
    """What a folder's .gitignore says; None where there is none that can be read."""
    try:
        text = (folder / file_name).read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    return IgnoreRules(folder.absolute(), GitIgnoreSpec.from_lines(text.splitlines()))


def is_ignored(path: Path, rules: Sequence[IgnoreRules], *, is_folder: bool) -> bool:
    """Whether git would ignore a file or folder: the innermost rule that speaks of it decides."""
    for folder_of, spec in reversed(rules):
        relative = path.absolute().relative_to(folder_of).as_posix()
        said = spec.check_file(f"{relative}/" if is_folder else relative).include
        if said is not None:
            return said
    return False
