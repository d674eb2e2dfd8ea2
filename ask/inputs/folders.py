"""`-f FOLDER`: the text files in it, but for what its .gitignore files leave out. It follows no links."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pathspec import GitIgnoreSpec

from ask.attachments import HEAD, described, media_type_of
from ask.errors import FileError
from ask.inputs.prompt_inputs import MOST_FILES, Given
from ask.inputs.text import FILE_LIMIT, decode
from ask.text import as_text

GIT = ".git"
IGNORE = ".gitignore"
NAMED = 3
"""How many files an error names."""


class Rules(NamedTuple):
    """What one .gitignore file says.

    Attributes:
        folder: where its patterns begin.
        spec: the patterns.
    """

    folder: Path
    spec: GitIgnoreSpec


def read_folder(folder: Path, name: str) -> Given:
    """The texts in a folder, each under its path; what is left out is named in a further text.

    Args:
        folder: where it is.
        name: as the user wrote it.

    Raises:
        FileError: it cannot be read, or holds too much, or no text at all.
    """
    above = rules_above(folder)
    if ignored(folder, above, is_folder=True):
        above = []  # it is named all the same, as with git
    texts: list[tuple[str, str]] = []
    left_out: list[str] = []
    sizes: list[tuple[int, str]] = []
    size = 0
    for path, fault in walk(folder, above):
        shown = f"{name.rstrip('/')}/{as_text(str(path.relative_to(folder)))}"
        text, reason = ("", fault) if fault else read_text(path)
        if reason:
            left_out.append(f"{shown}: {reason}")
        else:
            texts.append((shown, text))
            sizes.append((len(text), shown))
            size += len(text)
        if size > FILE_LIMIT or len(texts) + len(left_out) > MOST_FILES:
            raise too_much(name, sizes, size)
    if not texts:
        first = "; ".join(left_out[:NAMED])
        raise FileError(f"there is no text file in {name}", f"left out: {first}" if first else "name another")
    if left_out:
        texts.append((name, "\n".join(("Left out, as it is no text:", *left_out))))
    return Given(texts=tuple(texts), left_out=tuple(left_out))


def too_much(name: str, sizes: Sequence[tuple[int, str]], size: int) -> FileError:
    """The error for a folder with more than a message can hold."""
    if size <= FILE_LIMIT:
        return FileError(f"{name} holds more than {MOST_FILES:,} files", "name a part of it")
    largest = ", ".join(f"{path} ({length:,})" for length, path in sorted(sizes, reverse=True)[:NAMED])
    advice = f"name a part of it, or let .gitignore leave out what is large: {largest}"
    return FileError(f"{name} holds more than {FILE_LIMIT:,} characters of text", advice)


def read_text(path: Path) -> tuple[str, str]:
    """The text of a file, a little more than may be at most, and "", or else "" and what it is instead."""
    try:
        with path.open("rb") as file:
            head = file.read(HEAD)
            media_type = media_type_of(head)
            if media_type:
                return "", described(media_type)
            return decode(head + file.read(FILE_LIMIT + 1 - len(head)), ""), ""
    except OSError as fault:
        return "", fault.strerror or "cannot be read"
    except FileError:
        return "", "binary"


def walk(folder: Path, rules: Sequence[Rules]) -> Iterator[tuple[Path, str]]:
    """Yield the files under a folder that git would not ignore, in order: those of a folder before its subfolders.

    With each comes "", or with a folder that cannot be read, the reason.
    """
    pending = [(folder, tuple(rules))]
    while pending:
        folder, rules = pending.pop()
        own = read_rules(folder)
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
            if entry.name != GIT and not ignored(Path(entry), rules, is_folder=entry.is_dir(follow_symlinks=False))
        ]
        yield from ((path, "") for path, entry in kept if entry.is_file(follow_symlinks=False))
        pending += [(path, rules) for path, entry in reversed(kept) if entry.is_dir(follow_symlinks=False)]


def rules_above(folder: Path) -> list[Rules]:
    """The rules of the repository around a folder, the outermost first; none outside of one."""
    above = [folder.absolute(), *folder.absolute().parents]
    root = next((place for place, path in enumerate(above) if is_repository(path / GIT)), None)
    if root is None:
        return []
    excluded = read_rules(above[root], f"{GIT}/info/exclude")
    found = [excluded, *(read_rules(path) for path in reversed(above[1 : root + 1]))]
    return [rules for rules in found if rules]


def is_repository(git: Path) -> bool:
    """Check that git would use a `.git`; an empty one may be a placeholder of safe mode."""
    return git.is_file() or (git / "HEAD").exists()


def read_rules(folder: Path, name: str = IGNORE) -> Rules | None:
    """What a folder's .gitignore says; None where there is none that can be read."""
    try:
        text = (folder / name).read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    return Rules(folder.absolute(), GitIgnoreSpec.from_lines(text.splitlines()))


def ignored(path: Path, rules: Sequence[Rules], *, is_folder: bool) -> bool:
    """Whether git would ignore a file or folder: the innermost rule that speaks of it decides."""
    for folder_of, spec in reversed(rules):
        relative = path.absolute().relative_to(folder_of).as_posix()
        said = spec.check_file(f"{relative}/" if is_folder else relative).include
        if said is not None:
            return said
    return False
