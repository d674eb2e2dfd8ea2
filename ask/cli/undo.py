"""`ask undo`: show and restore what a run changed."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import click

from ask.app import AppContext
from ask.cli.click_helpers import print_notice, require_confirmation, subcommand
from ask.config.directories import get_working_directory
from ask.console import BOLD, StandardOutput
from ask.errors import BrokenOutputError, FileError, UsageError
from ask.history.conversation_lookup import find_conversation, find_last_run
from ask.history.store import Store
from ask.process.terminal_identity import identify_terminal
from ask.render.amounts import format_count, format_local_time
from ask.render.table import write_table
from ask.render.text_layout import truncate_text
from ask.text import decode_argument, join_names
from ask.text_diff import MAX_LINE_CHARACTERS, draw_diff, format_unified_diff
from ask.tools.file_access import escape_for_display
from ask.undo.backups import MAX_NAMES, BackupWriter, count_too_large, format_folders, format_path
from ask.undo.journal import (
    REDO,
    RUN,
    UNDO,
    BackupSet,
    JournalHeader,
    PathChange,
    complete_changes,
    find_undone_names,
    lock_backup_sets,
    merge_changes,
    read_backup_set,
    read_backup_sets,
)
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
from ask.undo.trees import ABSENT_STATE, LINK_PREFIX, PathState

MAX_DIFFS = 50
"""Maximum number of diffs, unless --dry-run writes them to a file or a pipe."""
MAX_FILE_BYTES = 2_000_000
"""Maximum size of a file whose lines are compared."""
MAX_LINES_SHOWN = 200
"""Maximum number of lines of one file's diff on a terminal."""


def _print_diffs(steps: Sequence[RestoreStep], app: AppContext, *, diff_only: bool) -> None:
    """Print the diffs of restoring the files, including those that need --force.

    Raises:
        BrokenOutputError: nobody reads the output, and `diff_only` is true.
    """
    output = StandardOutput(app.environment)
    changes = [change for change, status in steps if status in (*ACTION_STATUSES, RestoreStatus.CHANGED_SINCE)]
    shown_changes = changes if diff_only and not output.is_terminal else changes[:MAX_DIFFS]
    try:
        for change in shown_changes:
            _print_change(output, change)
        if len(shown_changes) < len(changes):
            output.write(f"[{len(changes) - len(shown_changes):,} more; ask undo --list shows them]\n", BOLD)
    except BrokenOutputError:
        if diff_only:
            raise


def _print_change(output: StandardOutput, change: PathChange) -> None:
    """Print what would change at a path; symbolic links are not followed."""
    current, original = read_current_state(change), change.original_state
    name = _format_change_name(change)
    if all(state.is_file or state == ABSENT_STATE for state in (current, original)):
        if current.content != original.content:
            try:
                _print_file_diff(output, change, is_file=current.is_file)
            except OSError as error:
                output.write(f"{name} (cannot be shown: {error.strerror})\n", BOLD)
        if None in (current.mode, original.mode) or current.mode == original.mode:
            return
    output.write(f"{name}: {_describe_state(current)} now, {_describe_state(original)} after undo\n", BOLD)


def _print_file_diff(output: StandardOutput, change: PathChange, *, is_file: bool) -> None:
    """Print the diff from a file, if it is one now, to its backup; it is truncated on a terminal.

    Raises:
        OSError: one of them cannot be read.
    """
    name = _format_change_name(change)
    old_path, new_path = change.path if is_file else None, change.copy_path
    sizes = [path.stat().st_size if path else None for path in (old_path, new_path)]
    hunks, reason = None, "too large to show"
    if max(size or 0 for size in sizes) <= MAX_FILE_BYTES:
        contents = [path.read_bytes() if path else b"" for path in (old_path, new_path)]
        reason = "binary"
        if not any(b"\0" in content for content in contents):
            hunks = format_unified_diff(*(content.decode("utf-8", "backslashreplace") for content in contents))
            reason = "too different to show"
    if hunks is None:
        now, then = ("no file" if size is None else format_count(size, "byte") for size in sizes)
        output.write(f"{name} ({reason}): {now} now, {then} after undo\n", BOLD)
        return
    old_name, new_name = (name if path else "/dev/null" for path in (old_path, new_path))
    output.write(f"--- {old_name}\n", BOLD, {name: old_path} if old_path else None)
    output.write(f"+++ {new_name}\n", BOLD)
    # Elsewhere, it is a patch: complete, and with every byte as it is.
    if not output.is_terminal:
        rows = draw_diff(hunks, exact=True)
    else:
        drawn = draw_diff(hunks, limit=MAX_LINES_SHOWN, width=MAX_LINE_CHARACTERS)
        rows = ((truncate_text(text, MAX_LINE_CHARACTERS), style) for text, style in drawn)
    for text, style in rows:
        output.write(f"{text}\n", style)


def _describe_state(state: PathState) -> str:
    if state == ABSENT_STATE:
        return "nothing"
    if state.content.startswith(LINK_PREFIX):
        return escape_for_display(state.content)
    if state.mode is None:
        return "a pipe, socket or device"
    return f"a {'folder' if state.is_folder else 'file'} with mode {state.mode:03o}"


def _summarize_steps(steps: Iterable[RestoreStep], suffix: str = "") -> str:
    """Count the files and folders to restore and to remove; return "" for none.

    The suffix "d" makes it "restored" and "removed".
    """
    nouns = Counter((step.status, "folder" if step.change.is_folder_change else "file") for step in steps)
    counts = []
    for status in ACTION_STATUSES:
        counted_nouns = [format_count(nouns[status, noun], noun) for noun in ("file", "folder") if nouns[status, noun]]
        counts += [f"{status}{suffix} {' and '.join(counted_nouns)}"] if counted_nouns else []
    return ", ".join(counts)


def _format_steps(steps: Iterable[RestoreStep]) -> str:
    """Format the files of some steps with their status on one line.

    Only the outermost of nested folders that remain is named.
    """
    names: list[str] = []
    remaining_folders: set[tuple[Path, RestoreStatus]] = set()
    for change, status in steps:
        if status in REMAINING_FOLDER_STATUSES:
            remaining_folders.add((change.path, status))
        if (change.path.parent, status) not in remaining_folders:
            names.append(f"{_format_change_name(change)} ({status})")
    return join_names(names, MAX_NAMES)


def _format_change_name(change: PathChange) -> str:
    """Format the path of a change, with a trailing slash for a folder."""
    return format_path(change.path) + "/" * change.is_folder_change


PROGRESS_DELAY_SECONDS, PROGRESS_INTERVAL_SECONDS = 1.0, 0.1
"""Time before the first report, and between two updates on a terminal."""


class ProgressLine:
    """Reports the progress of long work.

    On a terminal, it updates one line; otherwise it reports once.
    """

    def __init__(self, app: AppContext) -> None:
        self._console = app.console
        self._due = time.monotonic() + PROGRESS_DELAY_SECONDS

    def __call__(self, work: str, done: int, total: int) -> None:
        """Report that `done` of `total` files are done."""
        now = time.monotonic()
        if now < self._due:
            return
        text = f"{work}: {done:,} of {total:,} files"
        if self._console.is_terminal:
            self._console.show_status(text)
            self._due = now + PROGRESS_INTERVAL_SECONDS
        else:
            print_notice(f"this takes a while ({text})")
            self._due = math.inf

    def clear(self) -> None:
        """Remove the line."""
        self._console.show_status("")


@subcommand("undo")
@click.argument("conversation_id", metavar="[ID]", required=False)
@click.option("--all", "all_runs", is_flag=True, help="Undo all runs of the conversation.")
@click.option("--redo", is_flag=True, help="Reverse the last undo.")
@click.option("-n", "--dry-run", is_flag=True, help="Only show the diff.")
@click.option("--list", "list_only", is_flag=True, help="Only list the files and what would happen to them.")
@click.option("--force", is_flag=True, help="Also restore files that have changed since.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask; without ID, undo only the last run.")
def command(*, conversation_id: str | None, **flags: bool) -> None:
    """Restore the files that write_file and edit_file changed in the last run on this terminal.

    For a run with --safe, all changes in its folders are restored, if the folders could be backed up. With ID, the last
    run of that conversation that changed something is undone (see ask history list). Another undo then undoes the run
    before it. If a file has changed since the run, nothing is restored without --force. With --yes and no ID, only the
    last run is undone: if it changed no files, that is an error, and no earlier run is touched.
    """
    app = AppContext()
    progress = ProgressLine(app)
    unreadable: dict[str, FileError] = {}
    backup_sets = read_backup_sets(app.app_dirs.data, unreadable)
    try:
        selected_sets = _select_backup_sets(backup_sets, conversation_id, flags, app)
    except UsageError:
        _check_unreadable_sets(unreadable)
        raise
    _check_unreadable_sets(unreadable, selected_sets[0].name)
    with lock_backup_sets(selected_sets):
        # Read them again: they may have changed before they were locked.
        reread_sets = (read_backup_set(backup_set.folder) for backup_set in selected_sets)
        current_sets = [complete_changes(backup_set) for backup_set in reread_sets if backup_set]
        changes = merge_changes(current_sets)
        steps = plan_restore(changes, force=flags["force"], progress=progress)
        progress.clear()
        newest = selected_sets[-1]
        runs = f"{len(selected_sets)} runs until" if len(selected_sets) > 1 else "the run of"
        print_notice(f"conversation {newest.header.conversation}, {runs} {format_local_time(newest.started)}")
        if any(backup_set.has_snapshot and not backup_set.has_diff for backup_set in current_sets):
            print_notice("the run did not finish, so its changes cannot be distinguished from later ones")
        uncopied_folders = {
            path: reason for backup_set in current_sets for path, reason in backup_set.uncopied_folders.items()
        }
        if uncopied_folders:
            print_notice(f"{format_folders(uncopied_folders)} was not backed up: changes there are not restored")
        if flags["list_only"]:
            rows = [{"file": _format_change_name(step.change), "what": str(step.status)} for step in steps]
            write_table(rows, as_json=False)
        else:
            _print_diffs(steps, app, diff_only=flags["dry_run"])
            _report_conflicts(steps, force=flags["force"])
        if not (flags["list_only"] or flags["dry_run"]):
            _confirm_and_restore(steps, selected_sets, flags, app, progress)
        elif not any(step.status in ACTION_STATUSES for step in steps):
            print_notice("there is nothing to restore")


def _check_unreadable_sets(unreadable: Mapping[str, FileError], oldest_name: str = "") -> None:
    """Print a notice about each backup set that cannot be read.

    Raises:
        FileError: one of them is newer than the selected ones, so that it may contain what the user wants to restore.
    """
    for name, error in unreadable.items():
        if name > oldest_name:
            raise error
        print_notice(str(error))


def _select_backup_sets(
    backup_sets: Sequence[BackupSet], conversation_id: str | None, flags: Mapping[str, bool], app: AppContext
) -> list[BackupSet]:
    """Select the backup sets to restore, oldest first: those of a conversation, or else of this terminal.

    Raises:
        UsageError: there are none, or the options contradict each other.
    """
    redo, all_runs = flags["redo"], flags["all_runs"]
    if redo and all_runs:
        raise UsageError("--redo reverses the entire last undo", "leave out --all")
    kind = UNDO if redo else RUN
    undone_names = find_undone_names(backup_sets)
    of_kind = [
        backup_set
        for backup_set in backup_sets
        if backup_set.header.kind == kind and (backup_set.changes or backup_set.has_snapshot or backup_set.complete)
    ]
    restorable = [backup_set for backup_set in of_kind if backup_set.name not in undone_names]
    matching = _filter_backup_sets(restorable, conversation_id, app)
    if not matching:
        others = [] if conversation_id and not redo else restorable
        is_undone = not redo and bool(_filter_backup_sets(of_kind, conversation_id, app))
        raise _make_nothing_error(conversation_id, others, app, redo=redo, is_undone=is_undone)
    newest = matching[-1]
    if conversation_id is None and not redo:
        _check_last_run(newest, backup_sets, flags, app)
    if redo:  # an undo that was killed and repeated has several backup sets
        return [backup_set for backup_set in restorable if backup_set.header.restored == newest.header.restored]
    if all_runs:
        return [backup_set for backup_set in restorable if backup_set.header.conversation == newest.header.conversation]
    return [newest]


def _check_last_run(
    selected: BackupSet, backup_sets: Sequence[BackupSet], flags: Mapping[str, bool], app: AppContext
) -> None:
    """Print a notice if an earlier run than the last is selected.

    This happens if the last run has nothing to restore.

    Raises:
        UsageError: with --yes, because the user would not be asked about the earlier run.
    """
    terminal, directory = _identify_place(app)
    try:
        with Store(app.app_dirs.history_file, create=False) as store:
            last_run = find_last_run(store, terminal, directory)
    except (FileError, UsageError):
        return  # without a history, the newest backup is all that is known
    if last_run is None or (flags["all_runs"] and selected.header.conversation == last_run[0]):
        return
    conversation, started = last_run
    for backup_set in backup_sets:
        is_last = backup_set.header.conversation == conversation and backup_set.started >= started
        if is_last and backup_set.header.kind == RUN and (backup_set.changes or backup_set.has_snapshot):
            return
    last = f"the last run (conversation {conversation}, {format_local_time(started)})"
    message = f"{last} changed no files that can be restored"
    if flags["yes"] and not (flags["dry_run"] or flags["list_only"]):
        hint = f"ask undo shows an earlier run and asks; ask undo -y {selected.header.conversation} undoes it"
        raise UsageError(message, hint)
    print_notice(f"{message}; this is an earlier one")


def _identify_place(app: AppContext) -> tuple[str, str]:
    """Return the terminal, "" for none, and the working directory, as runs are saved with them."""
    return identify_terminal(app.environment), decode_argument(str(get_working_directory()))


def _make_nothing_error(
    conversation_id: str | None, others: Sequence[BackupSet], app: AppContext, *, redo: bool, is_undone: bool
) -> UsageError:
    """Return the error that there is nothing to restore or redo.

    `others` are the backup sets of other places that could be restored, and `is_undone` says that those of this place
    have been.
    """
    problem = "there is no undo to reverse" if redo else "no files to restore"
    place = "from this terminal" if _identify_place(app)[0] else "in this folder"
    scope = f"in conversation {conversation_id}" if conversation_id else place
    if is_undone:
        hint = f"ask undo --redo{f' {conversation_id}' if conversation_id else ''} reverses the last undo"
    elif others:
        name, time_text = others[-1].header.conversation, format_local_time(others[-1].started)
        what, option, effect = ("undo", "--redo ", "reverses") if redo else ("run that changed files", "", "undoes")
        hint = (
            f"elsewhere, the last {what} was in conversation {name}, {time_text}: ask undo {option}{name} {effect} it"
        )
    elif redo:
        hint = "ask undo -n shows what can be undone"
    else:
        article = "another" if conversation_id else "a"
        hint = f"ask undo ID undoes {article} conversation from ask history list"
    return UsageError(f"{problem} {scope}", hint)


def _filter_backup_sets(
    backup_sets: Sequence[BackupSet], conversation_id: str | None, app: AppContext
) -> list[BackupSet]:
    """Filter the backup sets by conversation, or else by terminal or directory.

    Without a terminal, the directory is used.

    Raises:
        UsageError: there is no such conversation.
    """
    if conversation_id is None:
        terminal, directory = _identify_place(app)
        if terminal:
            return [backup_set for backup_set in backup_sets if backup_set.header.terminal == terminal]
        return [backup_set for backup_set in backup_sets if backup_set.header.directory == directory]
    exact_matches = [backup_set for backup_set in backup_sets if backup_set.header.conversation == conversation_id]
    if exact_matches:
        return exact_matches
    with Store(app.app_dirs.history_file, create=False) as store:
        full_id = find_conversation(store, decode_argument(conversation_id)).id
    return [backup_set for backup_set in backup_sets if backup_set.header.conversation == full_id]


def _report_conflicts(steps: Sequence[RestoreStep], *, force: bool) -> None:
    """Print which files cannot be restored.

    Raises:
        FileError: a file cannot be restored, and `force` is false.
    """
    unrestored = [step for step in steps if step.status not in (*ACTION_STATUSES, RestoreStatus.UNCHANGED)]
    conflicts = _format_steps(step for step in unrestored if step.status in CONFLICT_STATUSES)
    if conflicts and not force:
        raise FileError(f"nothing was restored because of {conflicts}", "--force restores what it can")
    if unrestored:
        print_notice(f"not restored: {_format_steps(unrestored)}")


def _confirm_and_restore(
    steps: list[RestoreStep],
    backup_sets: Sequence[BackupSet],
    flags: Mapping[str, bool],
    app: AppContext,
    progress: ProgressLine,
) -> None:
    """Ask for confirmation unless --yes is given, and restore the files.

    Raises:
        click.Abort: the answer is no.
        AskError: there is no terminal to ask on, or the files cannot be restored.
    """
    summary = _summarize_steps(steps)
    lost_count = count_too_large(change for change, status in steps if status in ACTION_STATUSES)
    if lost_count:
        print_notice(f"--redo cannot restore {lost_count} of these files, which are too large to back up")
    if summary and not flags["yes"]:
        hint = "pass --yes to skip the question, or --dry-run to only show the diff"
        require_confirmation(f"{summary.capitalize()}?", hint)
    changes = [step.change for step in steps]
    # The files may have changed while the user was asked.
    if not flags["yes"] and plan_restore(changes, force=flags["force"], progress=progress) != steps:
        raise FileError("nothing was restored: a file has just changed", "try again")
    terminal, directory = _identify_place(app)
    header = JournalHeader(
        conversation=backup_sets[-1].header.conversation,
        directory=directory,
        terminal=terminal,
        kind=REDO if flags["redo"] else UNDO,
        restored=tuple(backup_set.name for backup_set in backup_sets),
    )
    failed_steps = apply_restore(steps, BackupWriter(app.app_dirs.data, header, print_notice), progress)
    progress.clear()
    failed_paths = {step.change.path for step in failed_steps}
    summary = _summarize_steps((step for step in steps if step.change.path not in failed_paths), "d")
    redo_hint = "" if flags["redo"] else "; ask undo --redo reverses this"
    print_notice(f"{summary}{redo_hint}" if summary else "there is nothing to restore")
    if failed_steps:
        raise FileError(f"not removed: {_format_steps(failed_steps)}", "check its content and remove it yourself")
