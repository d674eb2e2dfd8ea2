"""Words for what putting files back means: as a list, as differences, and in a line. `undo` does it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from ask.agent.workspace import Workspace
from ask.console import BOLD, Output, wants_colour
from ask.errors import ReaderGone
from ask.render.diff import write_diff
from ask.tools.file_access import shown
from ask.undo.journal import ABSENT, FOLDER_HERE, LINK_TO, Change, Mark
from ask.undo.path_display import _some, shown_path
from ask.undo.restore import STAYING, WORK, State, Step, mark_now

MOST_SHOWN = 50
"""How many differences are shown, unless they are all that is wanted and go to a file or a pipe."""


def list_files(steps: Sequence[Step]) -> None:
    """Print each file, and what is to become of it."""
    from ask.render.table import write_table

    rows = [{"file": shown_name(step.change), "what": str(step.state)} for step in steps]
    write_table(Output(), rows, as_json=False)


def show_difference(steps: Sequence[Step], workspace: Workspace, *, must_be_seen: bool) -> None:
    """Print what putting back changes, and what would be changed by force.

    Raises:
        ReaderGone: nobody reads it, though that was all that was wanted.
    """
    output = Output(colour=wants_colour(workspace.environment))
    changes = [change for change, state in steps if state in (*WORK, State.CHANGED)]
    seen = changes if must_be_seen and not output.terminal else changes[:MOST_SHOWN]
    try:
        for change in seen:
            if change.root is None:
                now = change.path if change.path.exists() else None
                write_diff(output, shown_path(change.path), now, change.was.copy if change.was else None)
            else:
                _show_in_folder(output, change)
        if len(seen) < len(changes):
            output.write(f"[{len(changes) - len(seen):,} more; ask undo --list names them]\n", BOLD)
    except ReaderGone:
        if must_be_seen:
            raise


def _show_in_folder(output: Output, change: Change) -> None:
    """Print what changes in a folder of a safe run, where a link is only ever a link."""
    now, then = mark_now(change) or Mark(ABSENT), change.first
    contents = [mark.content for mark in (now, then)]
    name = shown_name(change)
    if any(mark.of_file for mark in (now, then)) and all(
        mark.of_file or mark.content == ABSENT for mark in (now, then)
    ):
        if contents[0] != contents[1]:
            copy = change.was.copy if change.was else None
            try:
                write_diff(output, name, change.path if now.of_file else None, copy)
            except OSError as fault:
                output.write(f"{name} (cannot be shown: {fault.strerror})\n", BOLD)
        if ABSENT in contents or now.mode == then.mode:
            return
    output.write(f"{name}: {_what(now)} now, {_what(then)} once put back\n", BOLD)


def _what(mark: Mark) -> str:
    if mark.content == ABSENT:
        return "nothing"
    if mark.content.startswith(LINK_TO):
        return shown(mark.content)
    if mark.mode is None:
        return "a pipe, socket or device"
    return f"a {'folder' if mark.content == FOLDER_HERE else 'file'} with mode {mark.mode:03o}"


def summary(steps: Sequence[Step]) -> str:
    """How many files and folders are put back and removed; "" for none."""
    counts = []
    for state in WORK:
        of_folders = [step.change.of_folder for step in steps if step.state is state]
        pairs = ((of_folders.count(False), "file"), (of_folders.count(True), "folder"))
        things = [f"{count} {what}{'s' * (count > 1)}" for count, what in pairs if count]
        counts += [f"{state} {' and '.join(things)}"] if things else []
    return ", ".join(counts)


def named(steps: Iterable[Step]) -> str:
    """The files of some steps and what is to become of them, on one line; of folders that stay, the outermost."""
    names: list[str] = []
    staying: set[tuple[Path, State]] = set()
    for change, state in steps:
        if state in STAYING:
            staying.add((change.path, state))
        if (change.path.parent, state) not in staying:
            names.append(f"{shown_name(change)} ({state})")
    return _some(names)


def shown_name(change: Change) -> str:
    """The name of what a change is about, with a slash behind that of a folder."""
    return shown_path(change.path) + "/" * change.of_folder
