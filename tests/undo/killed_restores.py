"""Kills runs, and undoing them, at every single moment, and sees what is left.

A program: its arguments are an empty folder, what to kill, one of `KILLS`, and how many moments lie between two kills.
A kill comes right before each thing that is done to the file system, which Python's audit events tell.
"""

from __future__ import annotations

import difflib  # noqa: F401 - so that no import is among the moments, as for the next two
import os
import shutil  # noqa: F401
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import ask.undo.retention  # noqa: F401
from ask.undo.journal import RUN, UNDO, merge_changes
from ask.undo.restore import plan_restore
from tests.undo.runs import Runs
from tests.undo.safe_runs import FolderRuns

MOMENTS = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.symlink", "os.link", "os.chmod")
OLD = "old" * 1_000


def killed_at(moment: int, work: Callable[[], object]) -> bool:
    """Do the work in another process and kill that at a moment; whether it came so far."""
    child = os.fork()
    if not child:
        passed = 0

        def watch(event: str, _: object) -> None:
            nonlocal passed
            if event in MOMENTS:
                passed += 1
                if passed == moment:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(watch)
        work()
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, -signal.SIGKILL), code
    return code != 0


def prepared(folder: Path) -> Runs:
    """A folder with two files, in which nothing has been done yet."""
    folder.mkdir()
    runs = Runs(folder)
    (runs.work / "f").write_text(OLD)
    (runs.work / "g").write_text("old")
    return runs


def change(runs: Runs) -> None:
    """A run that creates, overwrites and edits."""
    runs.begin()
    runs.write("a/b/new", "new")
    runs.write("f", "new")
    runs.edit("f", "new", "newer")
    runs.write("g", "new")
    runs.end()


def remove_halves(runs: Runs | FolderRuns) -> None:
    """A file has a name of its own until it is whole, under which a kill leaves it."""
    for half in runs.work.rglob(".ask-*.tmp"):
        half.unlink()


def kill_a_run(folder: Path, moment: int) -> bool:
    """Whether the run came so far as to be killed. What it left is undone."""
    runs = prepared(folder)
    was = runs.tree()
    killed = killed_at(moment, lambda: change(runs))
    assert (runs.work / "f").read_text() in (OLD, "new", "newer")
    assert (runs.work / "g").read_text() in ("old", "new")
    remove_halves(runs)
    if runs.records:
        runs.undo()
    assert runs.tree() == was, moment
    return killed


def kill_an_undo(folder: Path, moment: int) -> bool:
    """Whether the undo came so far as to be killed. It is begun again, and all of it is taken back."""
    runs = prepared(folder)
    was = runs.tree()
    change(runs)
    became = runs.tree()
    killed = killed_at(moment, runs.undo)
    remove_halves(runs)
    names = tuple(record.name for record in runs.records if record.header.kind == RUN)
    runs.put_back(plan_restore(runs.changes), names)
    assert runs.tree() == was, moment
    undos = [record for record in runs.records if record.header.restored == names]
    runs.put_back(plan_restore(merge_changes(undos)), tuple(record.name for record in undos))
    assert runs.tree() == became, moment
    return killed


def prepared_folder(folder: Path) -> FolderRuns:
    """A folder with some of everything, in which there has been no safe run yet."""
    folder.mkdir()
    runs = FolderRuns(folder)
    for name in ("a", "b", "gone/c", "swapped"):
        (runs.work / name).parent.mkdir(exist_ok=True)
        (runs.work / name).write_text(f"{name}\n")
    os.link(runs.work / "a", runs.work / "gone/twin")
    (runs.work / "link").symlink_to("a")
    (runs.work / "tool").mkdir(mode=0o755)
    return runs


def change_folder(work: Path) -> None:
    """What a safe run does."""
    for name in ("gone/c", "gone/twin", "link", "swapped"):
        (work / name).unlink()
    (work / "gone").rmdir()
    (work / "b").write_text("new")
    (work / "tool").chmod(0o700)
    (work / "swapped").mkdir()
    (work / "swapped/new").write_text("new")
    (work / "a").chmod(0o600)


def kill_a_copy(folder: Path, moment: int) -> bool:
    """Whether a safe run came so far as to be killed. What it left is undone, or it had changed nothing."""
    runs = prepared_folder(folder)
    was = runs.tree()
    killed = killed_at(moment, lambda: runs.run(lambda: change_folder(runs.work)))
    if any(record.has_snapshot for record in runs.records):
        runs.undo()
    assert runs.tree() == was, moment
    return killed


def kill_a_folder_undo(folder: Path, moment: int) -> bool:
    """Whether the undo came so far as to be killed. It is begun again, and all of it is taken back."""
    runs = prepared_folder(folder)
    was = runs.tree()
    runs.run(lambda: change_folder(runs.work))
    became = runs.tree()
    killed = killed_at(moment, runs.undo)
    remove_halves(runs)
    runs.undo()
    assert runs.tree() == was, moment
    runs.undo(UNDO)
    assert runs.tree() == became, moment
    return killed


KILLS = {"run": kill_a_run, "undo": kill_an_undo, "copy": kill_a_copy, "folder-undo": kill_a_folder_undo}


def main(folder: Path, name: str, step: int) -> None:
    """Kill one of these at every so many moments, and say how many there are."""
    moment = 1
    while KILLS[name](folder / f"{moment}", moment):
        moment += step
    sys.stdout.write(f"{moment - 1}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
