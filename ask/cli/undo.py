"""`ask undo`: puts back the files that a run changed, after it has shown what that means."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

from ask.cli.groups import WordedCommand

if TYPE_CHECKING:
    from ask.agent.workspace import Workspace
    from ask.undo.journal import Record
    from ask.undo.restore import Step


PATIENCE = 1.0
INTERVAL = 0.1
"""Seconds between two reports on a terminal."""


class ProgressLine:
    """Reports the progress of long work: on a terminal in one line that changes, otherwise once.

    Args:
        workspace: where things are.
        patience: seconds after which progress is reported.
    """

    def __init__(self, workspace: Workspace, patience: float = PATIENCE) -> None:
        from ask.console import Console

        self._console = Console(workspace.environment, quiet=False, plain=False)
        self._due = time.monotonic() + patience

    def __call__(self, work: str, done: int, total: int) -> None:
        """Report that `done` of `total` files are done."""
        now = time.monotonic()
        if now < self._due:
            return
        text = f"{work}: {done:,} of {total:,} files"
        if self._console.terminal:
            self._console.status(text)
            self._due = now + INTERVAL
        else:
            say(f"this takes a while ({text})")
            self._due = math.inf

    def clear(self) -> None:
        """Remove the line."""
        self._console.status("")


class Wanted(NamedTuple):
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


@click.command("undo", cls=WordedCommand, context_settings={"help_option_names": ["-h", "--help"]})
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
    from ask.agent.workspace import Workspace

    undo(Wanted(**flags), Workspace())  # type: ignore[arg-type]


def undo(wanted: Wanted, workspace: Workspace) -> None:
    """Find the run, show what is to be done, ask, and do it.

    Raises:
        AskError: it cannot be done.
    """
    from ask.cli.put_back import list_files, show_difference
    from ask.undo.folder_diff import with_folders
    from ask.undo.journal import held, merge, read_record, read_records
    from ask.undo.path_display import named_folders
    from ask.undo.restore import plan

    progress = ProgressLine(workspace)
    records = choose(read_records(workspace.places.data), wanted, workspace)
    with held(records):
        found = [with_folders(record) for record in (read_record(one.folder) for one in records) if record]
        changes = merge(found)
        steps = plan(changes, force=wanted.force, progress=progress)
        progress.clear()
        say(describe(records))
        if any(record.copied and not record.ended for record in found):
            say("the run did not come to its end: what has changed since cannot be told from what it changed")
        uncopied = {path: why for record in found for path, why in record.uncopied.items()}
        if uncopied:
            say(f"there is no copy of {named_folders(uncopied)}: what the run changed there is not put back")
        if wanted.names:
            list_files(steps)
            return
        show_difference(steps, workspace, must_be_seen=wanted.show)
        refuse(steps, force=wanted.force)
        if not wanted.show:
            carry_out(steps, records, wanted, workspace, progress)


def choose(records: Sequence[Record], wanted: Wanted, workspace: Workspace) -> list[Record]:
    """The records to put back, the oldest first.

    Raises:
        UsageError: there are none, or the command line contradicts itself.
    """
    from ask.errors import UsageError
    from ask.undo.journal import RUN, UNDO, undone

    if wanted.redo and wanted.everything:
        raise UsageError("--redo brings back what the last undo took away, all of it", "leave out --all")
    kind = UNDO if wanted.redo else RUN
    gone = undone(records)
    of_kind = [one for one in records if one.about.kind == kind and (one.changes or one.copied or one.whole)]
    open_ones = [one for one in of_kind if one.name not in gone]
    here = matching(open_ones, wanted.conversation, workspace)
    if not here:
        what = "there is no undo to take back" if wanted.redo else "there are no files to put back"
        where = f"in conversation {wanted.conversation}" if wanted.conversation else "from here"
        raise UsageError(f"{what} {where}", "ask undo ID takes a conversation, ask history list shows them")
    last = here[-1]
    if wanted.conversation is None and not wanted.redo:
        check_last_run(last, records, wanted, workspace)
    if wanted.redo:  # one that was killed, too, and had to be begun again
        return [one for one in open_ones if one.about.of == last.about.of]
    if wanted.everything:
        return [one for one in open_ones if one.about.conversation == last.about.conversation]
    return [last]


def check_last_run(chosen: Record, records: Sequence[Record], wanted: Wanted, workspace: Workspace) -> None:
    """Report that the last run has nothing to put back, if the chosen one is an earlier run.

    Raises:
        UsageError: it is, and nobody would be asked about it.
    """
    from ask.errors import FileError, UsageError
    from ask.history.conversations import find_last_run
    from ask.history.store import Store
    from ask.history.terminal_id import this_terminal
    from ask.render.times import local_time
    from ask.settings import working_directory
    from ask.text import as_text
    from ask.undo.journal import RUN

    try:
        with Store(workspace.history, create=False) as store:
            last = find_last_run(store, this_terminal(workspace.environment), as_text(str(working_directory())))
    except (FileError, UsageError):
        return  # without a history, the newest backup is all that is known
    if last is None:
        return
    conversation, started = last
    kept = (record for record in records if record.about.kind == RUN and (record.changes or record.copied))
    if any(record.began >= started for record in kept if record.about.conversation == conversation):
        return
    if wanted.everything and chosen.about.conversation == conversation:
        return
    message = f"the last run (conversation {conversation}, {local_time(started)}) changed no files that can be put back"
    if wanted.yes and not (wanted.show or wanted.names):
        hint = f"ask undo asks about an earlier run; ask undo -y {chosen.about.conversation} takes that one"
        raise UsageError(message, hint)
    say(f"{message}; this is an earlier one")


def matching(records: Sequence[Record], conversation: str | None, workspace: Workspace) -> list[Record]:
    """Those of a conversation, or else of this terminal; without a terminal, of this directory.

    Raises:
        UsageError: there is no such conversation.
    """
    from ask.errors import UsageError
    from ask.history.terminal_id import this_terminal
    from ask.settings import working_directory
    from ask.text import as_text

    if conversation is None:
        terminal, directory = this_terminal(workspace.environment), as_text(str(working_directory()))
        if terminal:
            return [one for one in records if one.about.terminal == terminal]
        return [one for one in records if one.about.directory == directory]
    exactly = [one for one in records if one.about.conversation == conversation]
    if exactly:
        return exactly
    from ask.history.conversations import find
    from ask.history.store import Store

    try:
        with Store(workspace.history, create=False) as store:
            found = find(store, as_text(conversation)).id
    except UsageError as error:
        question = f"as a question: ask -- undo {conversation}"
        raise UsageError(error.message, f"{error.advice}; {question}") from None
    return [one for one in records if one.about.conversation == found]


def describe(records: Sequence[Record]) -> str:
    """Whose files these are, on one line."""
    from ask.render.times import local_time

    last = records[-1]
    several = f"{len(records)} runs until" if len(records) > 1 else "the run of"
    return f"conversation {last.about.conversation}, {several} {local_time(last.began)}"


def refuse(steps: Sequence[Step], *, force: bool) -> None:
    """See that every file can be put back, or else, with force, say which cannot.

    Raises:
        FileError: one cannot.
    """
    from ask.cli.put_back import named
    from ask.errors import FileError
    from ask.undo.restore import REFUSED, STAYING, State

    refused = named(step for step in steps if step.state in REFUSED)
    if refused and not force:
        raise FileError(f"nothing is put back because of {refused}", "--force puts back what can be")
    left = named(step for step in steps if step.state in (*REFUSED, *STAYING, State.NO_FILE))
    if left:
        say(f"left as it is: {left}")


def carry_out(
    steps: list[Step], records: Sequence[Record], wanted: Wanted, workspace: Workspace, progress: ProgressLine
) -> None:
    """Ask, unless that is not wanted, and put the files back.

    Raises:
        click.Abort: the answer is no.
        AskError: nobody can be asked, or it cannot be done.
    """
    from ask.cli.put_back import named, summary
    from ask.errors import FileError
    from ask.history.terminal_id import this_terminal
    from ask.settings import working_directory
    from ask.text import as_text
    from ask.undo.backups import Keeper
    from ask.undo.journal import REDO, UNDO, About
    from ask.undo.restore import State, plan, put_back

    work = summary(steps)
    warn_of_loss(steps)
    if work and not (wanted.yes or agreed(work)):
        say("nothing is put back")
        raise click.Abort
    changes = [step.change for step in steps]
    if not wanted.yes and plan(changes, force=wanted.force, progress=progress) != steps:  # while the user thought
        raise FileError("nothing is put back: a file has changed in the meantime", "try again")
    about = About(
        conversation=records[-1].about.conversation,
        directory=as_text(str(working_directory())),
        terminal=this_terminal(workspace.environment),
        kind=REDO if wanted.redo else UNDO,
        of=tuple(record.name for record in records),
    )
    left = put_back(steps, Keeper(workspace.places.data, about, say), progress)
    progress.clear()
    as_they_were = all(step.state is State.AS_IT_WAS for step in steps)
    still_there = {step.change.path for step in left}
    work = summary([step for step in steps if step.change.path not in still_there])
    back = "" if wanted.redo else "; ask undo --redo takes that back"
    nothing = "there is nothing to put back" + ": all files are as they were" * as_they_were
    say(f"done: {work}{back}" if work else nothing)
    if left:
        raise FileError(f"not removed: {named(left)}", "see what is in it, and remove it yourself")


def warn_of_loss(steps: Sequence[Step]) -> None:
    """Say where what is there now cannot be kept."""
    from ask.undo.backups import too_large
    from ask.undo.restore import WORK

    lost = too_large(change for change, state in steps if state in WORK and change.root)
    if lost:
        say(f"--redo will not bring back {lost} of these files, which are too large to be kept")


def agreed(work: str) -> bool:
    """Whether the user wants it.

    Raises:
        UsageError: there is no terminal to ask on.
    """
    from ask.errors import UsageError
    from ask.safety.approval import confirm

    answer = confirm(f"{work.capitalize()}?")
    if answer is None:
        raise UsageError("there is no terminal to ask on", "--yes does it without asking, --dry-run only shows it")
    return answer


def say(text: str) -> None:
    """Tell the user something, beside the difference."""
    from ask.text import one_line

    click.echo(f"ask: {one_line(text)}", err=True)
