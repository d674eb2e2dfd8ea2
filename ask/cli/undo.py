"""`ask undo`: show and restore what a run changed."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from ask.agent.app_context import AppContext
from ask.cli.groups import subcommand
from ask.console import BOLD, StandardOutput, StderrConsole, should_use_color
from ask.errors import BrokenOutputError, FileError, UsageError
from ask.history.conversations import find_conversation, find_last_run
from ask.history.store import Store
from ask.history.terminal_id import identify_terminal
from ask.render.diff import write_diff
from ask.render.table import write_table
from ask.render.times import format_local_time
from ask.safety.approval import confirm
from ask.settings import get_working_directory
from ask.text import decode_argument, format_one_line
from ask.tools.file_access import escape_for_display
from ask.undo.backups import FileBackups, count_too_large
from ask.undo.folder_diff import add_folder_changes
from ask.undo.journal import (
    ABSENT,
    FOLDER_MARKER,
    LINK_PREFIX,
    REDO,
    RUN,
    UNDO,
    JournalHeader,
    PathChange,
    PathState,
    find_undone_names,
    lock_backup_sets,
    merge_changes,
    read_backup_set,
    read_backup_sets,
)
from ask.undo.path_display import _join_names, format_folders, format_path
from ask.undo.restore import (
    ACTION_STATUSES,
    CONFLICT_STATUSES,
    REMAINING_FOLDER_STATUSES,
    RestoreStatus,
    RestoreStep,
    apply_restore,
    plan_restore,
    read_current_state,
)

if TYPE_CHECKING:
    from ask.undo.journal import BackupSet

MAX_DIFFS = 50
"""How many differences are shown, unless they are all that is wanted and go to a file or a pipe."""


def print_file_states(steps: Sequence[RestoreStep]) -> None:
    """Print each file, and what is to become of it."""
    rows = [{"file": format_change_name(step.change), "what": str(step.status)} for step in steps]
    write_table(StandardOutput(), rows, as_json=False)


def print_diffs(steps: Sequence[RestoreStep], app: AppContext, *, diff_only: bool) -> None:
    """Print what putting back changes, and what would be changed by force.

    Raises:
        ReaderGone: nobody reads it, though that was all that was wanted.
    """
    output = StandardOutput(color=should_use_color(app.environment))
    changes = [change for change, state in steps if state in (*ACTION_STATUSES, RestoreStatus.CHANGED_SINCE)]
    seen = changes if diff_only and not output.is_terminal else changes[:MAX_DIFFS]
    try:
        for change in seen:
            if change.root is None:
                now = change.path if change.path.exists() else None
                write_diff(
                    output, format_path(change.path), now, change.original.copy_path if change.original else None
                )
            else:
                _print_folder_change(output, change)
        if len(seen) < len(changes):
            output.write(f"[{len(changes) - len(seen):,} more; ask undo --list names them]\n", BOLD)
    except BrokenOutputError:
        if diff_only:
            raise


def _print_folder_change(output: StandardOutput, change: PathChange) -> None:
    """Print what changes in a folder of a safe run, where a link is only ever a link."""
    now, then = read_current_state(change) or PathState(ABSENT), change.original_state
    contents = [mark.content for mark in (now, then)]
    name = format_change_name(change)
    if any(mark.is_file for mark in (now, then)) and all(
        mark.is_file or mark.content == ABSENT for mark in (now, then)
    ):
        if contents[0] != contents[1]:
            copy = change.original.copy_path if change.original else None
            try:
                write_diff(output, name, change.path if now.is_file else None, copy)
            except OSError as fault:
                output.write(f"{name} (cannot be shown: {fault.strerror})\n", BOLD)
        if ABSENT in contents or now.mode == then.mode:
            return
    output.write(f"{name}: {_describe_state(now)} now, {_describe_state(then)} once put back\n", BOLD)


def _describe_state(state: PathState) -> str:
    if state.content == ABSENT:
        return "nothing"
    if state.content.startswith(LINK_PREFIX):
        return escape_for_display(state.content)
    if state.mode is None:
        return "a pipe, socket or device"
    return f"a {'folder' if state.content == FOLDER_MARKER else 'file'} with mode {state.mode:03o}"


def summarize_steps(steps: Sequence[RestoreStep]) -> str:
    """How many files and folders are put back and removed; "" for none."""
    counts = []
    for state in ACTION_STATUSES:
        of_folders = [step.change.is_folder_change for step in steps if step.status is state]
        pairs = ((of_folders.count(False), "file"), (of_folders.count(True), "folder"))
        things = [f"{count} {what}{'s' * (count > 1)}" for count, what in pairs if count]
        counts += [f"{state} {' and '.join(things)}"] if things else []
    return ", ".join(counts)


def format_steps(steps: Iterable[RestoreStep]) -> str:
    """The files of some steps and what is to become of them, on one line; of folders that stay, the outermost."""
    names: list[str] = []
    staying: set[tuple[Path, RestoreStatus]] = set()
    for change, state in steps:
        if state in REMAINING_FOLDER_STATUSES:
            staying.add((change.path, state))
        if (change.path.parent, state) not in staying:
            names.append(f"{format_change_name(change)} ({state})")
    return _join_names(names)


def format_change_name(change: PathChange) -> str:
    """The name of what a change is about, with a slash behind that of a folder."""
    return format_path(change.path) + "/" * change.is_folder_change


PROGRESS_DELAY = 1.0
PROGRESS_INTERVAL = 0.1
"""Seconds between two reports on a terminal."""


class ProgressLine:
    """Reports the progress of long work: on a terminal in one line that changes, otherwise once.

    Args:
        workspace: where things are.
        patience: seconds after which progress is reported.
    """

    def __init__(self, app: AppContext, delay: float = PROGRESS_DELAY) -> None:
        self._console = StderrConsole(app.environment, quiet=False, plain=False)
        self._due = time.monotonic() + delay

    def __call__(self, work: str, done: int, total: int) -> None:
        """Report that `done` of `total` files are done."""
        now = time.monotonic()
        if now < self._due:
            return
        text = f"{work}: {done:,} of {total:,} files"
        if self._console.is_terminal:
            self._console.show_status(text)
            self._due = now + PROGRESS_INTERVAL
        else:
            print_notice(f"this takes a while ({text})")
            self._due = math.inf

    def clear(self) -> None:
        """Remove the line."""
        self._console.show_status("")


class UndoSelection(NamedTuple):
    """What to put back, and how.

    Attributes:
        conversation: whose; None for what was done last on this terminal.
        everything: all of the conversation, not its last run alone.
        redo: what the last undo took away.
        show: only show the difference.
        names: only list the files.
        force: put back what has changed since, too.
        yes: do not ask.
    """

    conversation: str | None
    everything: bool
    redo: bool
    show: bool
    names: bool
    force: bool
    yes: bool


@subcommand("undo")
@click.argument("conversation", metavar="[ID]", required=False)
@click.option("--all", "everything", is_flag=True, help="Put back what all runs of the conversation changed.")
@click.option("--redo", is_flag=True, help="Bring back what the last undo took away.")
@click.option("-n", "--dry-run", "show", is_flag=True, help="Only show the difference.")
@click.option("--list", "names", is_flag=True, help="Only list the files, and what would become of each.")
@click.option("--force", is_flag=True, help="Put back also what has changed since.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
def command(**flags: bool) -> None:
    """Put back the files that write_file and edit_file changed in the last run on this terminal.

    Of a run with --safe, all that it changed in its folders is put back, as far as there is a copy of them.
    With ID, the last run of that conversation that changed something (ask history list). Once undone, a run counts
    no more, and the next undo takes the one before. A file that has changed since keeps all from being put back.
    With --yes and no ID, nothing is put back if the last run has nothing to put back.
    """
    run_undo(UndoSelection(**flags), AppContext())  # type: ignore[arg-type]


def run_undo(selection: UndoSelection, app: AppContext) -> None:
    """Find the run, show what is to be done, ask, and do it.

    Raises:
        AskError: it cannot be done.
    """
    progress = ProgressLine(app)
    records = select_records(read_backup_sets(app.app_dirs.data), selection, app)
    with lock_backup_sets(records):
        found = [add_folder_changes(record) for record in (read_backup_set(one.folder) for one in records) if record]
        changes = merge_changes(found)
        steps = plan_restore(changes, force=selection.force, progress=progress)
        progress.clear()
        print_notice(describe_records(records))
        if any(record.has_snapshot and not record.has_diff for record in found):
            print_notice("the run did not come to its end: what has changed since cannot be told from what it changed")
        uncopied = {path: why for record in found for path, why in record.uncopied_folders.items()}
        if uncopied:
            print_notice(f"there is no copy of {format_folders(uncopied)}: what the run changed there is not put back")
        if selection.names:
            print_file_states(steps)
            return
        print_diffs(steps, app, diff_only=selection.show)
        check_restorable(steps, force=selection.force)
        if not selection.show:
            confirm_and_restore(steps, records, selection, app, progress)


def select_records(records: Sequence[BackupSet], selection: UndoSelection, app: AppContext) -> list[BackupSet]:
    """The records to put back, the oldest first.

    Raises:
        UsageError: there are none, or the command line contradicts itself.
    """
    if selection.redo and selection.everything:
        raise UsageError("--redo brings back what the last undo took away, all of it", "leave out --all")
    kind = UNDO if selection.redo else RUN
    gone = find_undone_names(records)
    of_kind = [one for one in records if one.header.kind == kind and (one.changes or one.has_snapshot or one.complete)]
    open_ones = [one for one in of_kind if one.name not in gone]
    here = filter_records(open_ones, selection.conversation, app)
    if not here:
        what = "there is no undo to take back" if selection.redo else "there are no files to put back"
        where = f"in conversation {selection.conversation}" if selection.conversation else "from here"
        raise UsageError(f"{what} {where}", "ask undo ID takes a conversation, ask history list shows them")
    last = here[-1]
    if selection.conversation is None and not selection.redo:
        check_last_run(last, records, selection, app)
    if selection.redo:  # one that was killed, too, and had to be begun again
        return [one for one in open_ones if one.header.of == last.header.of]
    if selection.everything:
        return [one for one in open_ones if one.header.conversation == last.header.conversation]
    return [last]


def check_last_run(
    selected: BackupSet, records: Sequence[BackupSet], selection: UndoSelection, app: AppContext
) -> None:
    """Report that the last run has nothing to put back, if the chosen one is an earlier run.

    Raises:
        UsageError: it is, and nobody would be asked about it.
    """
    try:
        with Store(app.history_file, create=False) as store:
            last = find_last_run(
                store, identify_terminal(app.environment), decode_argument(str(get_working_directory()))
            )
    except (FileError, UsageError):
        return  # without a history, the newest backup is all that is known
    if last is None:
        return
    conversation, started = last
    kept = (record for record in records if record.header.kind == RUN and (record.changes or record.has_snapshot))
    if any(record.started >= started for record in kept if record.header.conversation == conversation):
        return
    if selection.everything and selected.header.conversation == conversation:
        return
    message = f"the last run (conversation {conversation}, {format_local_time(started)}) changed no files that can be put back"
    if selection.yes and not (selection.show or selection.names):
        hint = f"ask undo asks about an earlier run; ask undo -y {selected.header.conversation} takes that one"
        raise UsageError(message, hint)
    print_notice(f"{message}; this is an earlier one")


def filter_records(records: Sequence[BackupSet], conversation_id: str | None, app: AppContext) -> list[BackupSet]:
    """Those of a conversation, or else of this terminal; without a terminal, of this directory.

    Raises:
        UsageError: there is no such conversation.
    """
    if conversation_id is None:
        terminal, directory = identify_terminal(app.environment), decode_argument(str(get_working_directory()))
        if terminal:
            return [one for one in records if one.header.terminal == terminal]
        return [one for one in records if one.header.directory == directory]
    exactly = [one for one in records if one.header.conversation == conversation_id]
    if exactly:
        return exactly
    try:
        with Store(app.history_file, create=False) as store:
            found = find_conversation(store, decode_argument(conversation_id)).id
    except UsageError as error:
        question = f"as a question: ask -- undo {conversation_id}"
        raise UsageError(error.message, f"{error.advice}; {question}") from None
    return [one for one in records if one.header.conversation == found]


def describe_records(records: Sequence[BackupSet]) -> str:
    """Whose files these are, on one line."""
    last = records[-1]
    several = f"{len(records)} runs until" if len(records) > 1 else "the run of"
    return f"conversation {last.header.conversation}, {several} {format_local_time(last.started)}"


def check_restorable(steps: Sequence[RestoreStep], *, force: bool) -> None:
    """See that every file can be put back, or else, with force, say which cannot.

    Raises:
        FileError: one cannot.
    """
    refused = format_steps(step for step in steps if step.status in CONFLICT_STATUSES)
    if refused and not force:
        raise FileError(f"nothing is put back because of {refused}", "--force puts back what can be")
    left = format_steps(
        step
        for step in steps
        if step.status in (*CONFLICT_STATUSES, *REMAINING_FOLDER_STATUSES, RestoreStatus.SPECIAL_FILE)
    )
    if left:
        print_notice(f"left as it is: {left}")


def confirm_and_restore(
    steps: list[RestoreStep],
    records: Sequence[BackupSet],
    selection: UndoSelection,
    app: AppContext,
    progress: ProgressLine,
) -> None:
    """Ask, unless that is not wanted, and put the files back.

    Raises:
        click.Abort: the answer is no.
        AskError: nobody can be asked, or it cannot be done.
    """
    work = summarize_steps(steps)
    warn_about_redo(steps)
    if work and not (selection.yes or confirm_restore(work)):
        print_notice("nothing is put back")
        raise click.Abort
    changes = [step.change for step in steps]
    if (
        not selection.yes and plan_restore(changes, force=selection.force, progress=progress) != steps
    ):  # while the user thought
        raise FileError("nothing is put back: a file has changed in the meantime", "try again")
    about = JournalHeader(
        conversation=records[-1].header.conversation,
        directory=decode_argument(str(get_working_directory())),
        terminal=identify_terminal(app.environment),
        kind=REDO if selection.redo else UNDO,
        of=tuple(record.name for record in records),
    )
    left = apply_restore(steps, FileBackups(app.app_dirs.data, about, print_notice), progress)
    progress.clear()
    as_they_were = all(step.status is RestoreStatus.UNCHANGED for step in steps)
    still_there = {step.change.path for step in left}
    work = summarize_steps([step for step in steps if step.change.path not in still_there])
    back = "" if selection.redo else "; ask undo --redo takes that back"
    nothing = "there is nothing to put back" + ": all files are as they were" * as_they_were
    print_notice(f"done: {work}{back}" if work else nothing)
    if left:
        raise FileError(f"not removed: {format_steps(left)}", "see what is in it, and remove it yourself")


def warn_about_redo(steps: Sequence[RestoreStep]) -> None:
    """Say where what is there now cannot be kept."""
    lost = count_too_large(change for change, state in steps if state in ACTION_STATUSES and change.root)
    if lost:
        print_notice(f"--redo will not bring back {lost} of these files, which are too large to be kept")


def confirm_restore(summary: str) -> bool:
    """Whether the user wants it.

    Raises:
        UsageError: there is no terminal to ask on.
    """
    answer = confirm(f"{summary.capitalize()}?")
    if answer is None:
        raise UsageError("there is no terminal to ask on", "--yes does it without asking, --dry-run only shows it")
    return answer


def print_notice(text: str) -> None:
    """Tell the user something, beside the difference."""
    click.echo(f"ask: {format_one_line(text)}", err=True)
