"""What a run kept: a folder with copies of files, and a journal that says what they were and what became of them.

The journal is written before a file is, so that a run that is killed at any moment leaves a record that is right:
what a file holds tells whether the write took place. Each line is a JSON object. A safe run copies whole folders
beside, of which `folders` knows; what differs in them ends up as `Change` values too. Whoever has the journal locked
still writes it.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from ask.atomic_files import Ownership
from ask.errors import FileError

FOLDER = "originals"
"""The folder in the data folder that has a folder for each run."""
JOURNAL = "journal"
COPIES = "folders"
"""The folder in a record that has the copies of whole folders."""
ABSENT, FOLDER_HERE, LINK_TO, SPECIAL = "", "folder", "link to ", "special"
"""Stand for the digest where there is nothing, a folder, a link (its target follows), or a pipe, socket or device."""
RUN, UNDO, REDO = "run", "undo", "redo"
WHOLE, COPIED, ENDED = _SAYINGS = "end", "folders", "left"
"""Kinds of lines that stand for themselves: see `Record`."""


OWNERS = 0o700
"""What a folder's owner must be permitted for work in it."""


class About(NamedTuple):
    """Whose record it is.

    Attributes:
        conversation: the id of the conversation.
        directory: where the run took place.
        terminal: on which terminal, "" for none.
        kind: `RUN`, or what put files back: `UNDO` for those of a run, `REDO` for those of an undo.
        of: the names of the records whose files were put back.
    """

    conversation: str
    directory: str
    terminal: str
    kind: str = RUN
    of: tuple[str, ...] = ()


class Mark(NamedTuple):
    """What tells what there is at a path.

    Attributes:
        content: the SHA-256 of a file's content in hexadecimal, or what stands for one: `ABSENT`, `FOLDER_HERE` ...
        mode: the permissions of a file or folder; None where they are not known, or do not count.
    """

    content: str
    mode: int | None = None

    @property
    def of_file(self) -> bool:
        """Whether there is a file."""
        return self.content not in {ABSENT, FOLDER_HERE, SPECIAL} and not self.content.startswith(LINK_TO)

    def agrees(self, other: Mark) -> bool:
        """Whether both may tell the same thing."""
        return self.content == other.content and (None in (self.mode, other.mode) or self.mode == other.mode)


GONE = Mark(ABSENT)


class Original(NamedTuple):
    """What was at a path.

    Attributes:
        copy: where the content of a file is; None for what is no file.
        digest: of that content, or what stands for it, as in a `Mark`.
        owned: whose it was.
        modified: when it was changed last, in ns since 1970; None where that is not kept.
        inode: the number of a file that had further names, 0 for any other.
        twins: those names, as far as they are known.
    """

    copy: Path | None
    digest: str
    owned: Ownership
    modified: int | None = None
    inode: int = 0
    twins: tuple[Path, ...] = ()


class Change(NamedTuple):
    """What became of one file, or in the folders of a safe run, of a folder or a link too.

    Attributes:
        path: of the file, without links in it.
        was: what it was at first; None where there was none.
        wrote: what tells all that it became, if that took place.
        folders: those that were made for it, the outermost first.
        lost: why the original could not be kept, "" where it was.
        torn: whether something else changed it between two of the runs that did.
        root: the folder of a safe run that it is in, below which no link is followed; None for what a tool wrote.
    """

    path: Path
    was: Original | None
    wrote: frozenset[Mark]
    folders: tuple[Path, ...] = ()
    lost: str = ""
    torn: bool = False
    root: Path | None = None

    @property
    def first(self) -> Mark:
        """What tells what it was at first."""
        if self.was is None:
            return GONE
        has_mode = self.was.copy is not None or self.was.digest == FOLDER_HERE
        return Mark(self.was.digest, self.was.owned.mode if self.root and has_mode else None)

    @property
    def anchor(self) -> Path:
        """The folder below which no link is followed."""
        return self.root or self.path.parent

    @property
    def of_folder(self) -> bool:
        """Whether putting it back makes a folder or removes one."""
        marks = {self.first} if self.was else self.wrote
        return any(mark.content == FOLDER_HERE for mark in marks)

    def leaves(self, now: Mark) -> bool:
        """Whether that may be what there is after this change, or after an undo of it that was killed.

        Such an undo may leave a folder that is opened up, and nothing in the place of a folder or for one.
        """
        marks = (self.first, *self.wrote)
        if any(now.agrees(mark) for mark in self.wrote):
            return True
        if now.content == FOLDER_HERE:
            return any(mark.content == FOLDER_HERE and now.mode == (mark.mode or 0) | OWNERS for mark in marks)
        kinds = {mark.content == FOLDER_HERE for mark in marks}
        return now == GONE and len(kinds) == 2 and self.was is not None


class Record(NamedTuple):
    """What one run kept.

    Attributes:
        folder: where.
        about: whose it is.
        changes: what a journal tells, by path.
        whole: whether an undo came to its end.
        copied: whether whole folders are copied; `folders` tells what became of them.
        ended: whether it is noted in what state the run left them.
        uncopied: folders in them that could not be copied, and why.
    """

    folder: Path
    about: About
    changes: Mapping[Path, Change]
    whole: bool
    copied: bool = False
    ended: bool = False
    uncopied: Mapping[Path, str] = MappingProxyType({})

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.folder.name

    @property
    def began(self) -> float:
        """When it began, in seconds since 1970."""
        return began(self.name)


def began(name: str) -> float:
    """When the record of that name began, in seconds since 1970."""
    return int(name.partition("-")[0]) / 1e9


def read_records(data: Path) -> list[Record]:
    """All records in a data folder, the oldest first.

    Raises:
        FileError: one cannot be read, or makes no sense.
    """
    records = (read_record(folder) for folder in record_folders(data))
    return [record for record in records if record]


def record_folders(data: Path) -> list[Path]:
    """The folders of all records, the oldest first.

    Raises:
        FileError: they cannot be listed.
    """
    try:
        names = sorted(os.listdir(data / FOLDER))
    except FileNotFoundError:
        return []
    except OSError as fault:
        raise FileError(f"cannot read {data / FOLDER} ({fault.strerror})") from fault
    return [data / FOLDER / name for name in names if name.partition("-")[0].isdecimal()]


def read_record(folder: Path) -> Record | None:
    """A record; None for one that is only being begun, or has just been removed.

    Raises:
        FileError: it cannot be read, or makes no sense.
    """
    journal = folder / JOURNAL
    try:
        # What follows the last line end was never written whole, and what it announces was not done.
        lines = journal.read_bytes().split(b"\n")[:-1]
        if not lines:
            return None
        head, *rest = map(json.loads, lines)
        about = About(**{**head, "of": tuple(head["of"])})
        changes: dict[Path, Change] = {}
        for line in rest:
            if line["kind"] not in _SAYINGS:
                _take(changes, folder, line)
        said = [line["kind"] for line in rest]
    except FileNotFoundError:
        return None
    except OSError as fault:
        raise FileError(f"cannot read {journal} ({fault.strerror})") from fault
    except (ValueError, TypeError, KeyError, AttributeError) as fault:
        raise FileError(f"{journal} makes no sense", f"remove {folder}, or upgrade ask") from fault
    return Record(folder, about, changes, whole=WHOLE in said, copied=COPIED in said, ended=ENDED in said)


def _take(changes: dict[Path, Change], folder: Path, line: Mapping[str, Any]) -> None:
    path = Path(line["path"])
    if line["kind"] == "again":
        known = changes[path]
        changes[path] = known._replace(wrote=known.wrote | {Mark(line["wrote"])})
        return
    copy = folder / str(int(line["copy"])) if line["copy"] else None
    if line["kind"] == "file":
        was = Original(copy, line["digest"], Ownership(*line["owned"]), inode=line.get("inode", 0)) if copy else None
        folders = tuple(map(Path, line["folders"]))
        changes[path] = Change(path, was, frozenset([Mark(line["wrote"])]), folders, line["lost"])
        return
    if line["kind"] != "thing":
        raise ValueError(line["kind"])
    was = Original(copy, line["digest"], Ownership(*line["owned"]), line["modified"]) if line["digest"] else None
    wrote = frozenset([Mark(*line["wrote"])])
    changes[path] = Change(path, was, wrote, lost=line["lost"], root=Path(line["root"]))


def merge(records: Iterable[Record]) -> list[Change]:
    """The changes of several records, the oldest first, as if they were one's."""
    merged: dict[Path, Change] = {}
    for record in records:
        for path, later in record.changes.items():
            change = merged.get(path)
            if change is None:
                merged[path] = later
                continue
            torn = not (later.first.agrees(change.first) or change.leaves(later.first))
            merged[path] = change._replace(
                wrote=change.wrote | later.wrote,
                folders=(*change.folders, *(made for made in later.folders if made not in change.folders)),
                torn=change.torn or later.torn or bool(torn and not later.lost),
                root=change.root or later.root,
            )
    return list(merged.values())


def undone(records: Sequence[Record]) -> set[str]:
    """The names of the records whose files were put back, and are so still."""
    names: set[str] = set()
    for record in reversed(records):
        if record.whole and record.name not in names:
            names.update(record.about.of)
    return names


@contextmanager
def held(records: Iterable[Record]) -> Iterator[None]:
    """Nobody else puts these back, or removes them, while the block is run.

    Raises:
        FileError: one is still being written, or put back by somebody else.
    """
    with ExitStack() as stack:
        for record in records:
            try:
                journal = stack.enter_context((record.folder / JOURNAL).open("rb+"))
            except OSError as fault:
                raise FileError(f"cannot open {record.folder / JOURNAL} ({fault.strerror})") from fault
            if not lock(journal.fileno()):
                raise FileError("a run that changed these files is still under way", "try again when it has ended")
        yield


def lock(journal: int) -> bool:
    """Lock a journal until it is closed; return whether nobody else has. A file system without locks is no obstacle."""
    try:
        fcntl.flock(journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True
