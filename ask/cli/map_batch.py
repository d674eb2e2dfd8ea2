"""`ask map --batch`: the rows of a job through the provider's batch API."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

from ask.client.answers import find_requested_tier
from ask.client.endpoint import create_client
from ask.client.retries import RetryNotice
from ask.console import StderrConsole
from ask.errors import AskError, FileError, RunInterruptedError, UsageError
from ask.map.batch_jobs import BatchRunner, get_batch_api, is_gone
from ask.map.completion_window import TAG_PREFIX, BackgroundRunner, check_completion_window
from ask.map.input_rows import Row
from ask.map.job import Job, RowTask
from ask.map.ledger import Ledger, PendingBatch
from ask.messages import Usage
from ask.render.amounts import format_count
from ask.text import format_duration

CONFLICTING_OPTIONS = {
    "engine": ("{option} and --engine cannot be combined", "leave out one of them"),
    "with_tools": ("{option} does not run tools", "leave out --tools or {option}"),
    "decide": ("--decide does not work with {option}", "leave out {option}"),
    "record": ("--record does not work with {option}", "leave out one of them"),
    "max_cost": ("max_cost does not work with {option}, which sends all rows at once", "use --limit"),
    "max_failures": ("--max-failures does not work with {option}, which sends all rows at once", "use --limit"),
}
"""The options that do not work with `--batch` or `--completion-window`, each with an error message and a hint."""
COLLECT_HINT = "run the same command again to collect the answers, or add --cancel"
GONE_HINT = "leave out --detach to ask for it several times, or add --cancel"


def check_batch_flags(flags: Mapping[str, Any], job: Job, ledger: Ledger) -> None:
    """Check that the options of a command go together, and with the state of its job.

    Raises:
        UsageError: they do not.
    """
    pending = ledger.list_batches(job.id)
    window, is_pending = flags["completion_window"], bool(pending)
    option = "--completion-window" if window else "--batch"
    if window and flags["batch"]:
        raise UsageError("--batch and --completion-window cannot be combined", "leave out one of them")
    if not flags["batch"] and not window:
        meaningless = [option for option in ("detach", "cancel", "poll_interval") if flags[option]]
        if meaningless:
            raise UsageError(f"--{meaningless[0].replace('_', '-')} has no effect without --batch", "add --batch")
        if is_pending:
            option = _name_option(pending)
            raise UsageError("rows of this job are in progress", f"add {option} to collect them, or {option} --cancel")
        return
    given = {**flags, "max_cost": job.requests[0].settings.max_cost}
    conflicts = [option for option in CONFLICTING_OPTIONS if given[option] is not None and given[option] is not False]
    if conflicts:
        raise UsageError(*(text.format(option=option) for text in CONFLICTING_OPTIONS[conflicts[0]]))
    if len(job.requests) > 1:
        raise UsageError(f"{option} works with one model only", "run the command once for each model")
    if is_pending and _name_option(pending).partition(" ")[0] != option:
        raise UsageError("rows of this job are in progress", f"use {_name_option(pending)} to collect them")
    if is_pending and flags["fresh"]:
        raise UsageError("rows of this job are in progress", "leave out --fresh to collect them, or cancel it first")
    request = job.requests[0]
    if window:
        check_completion_window(request.endpoint.provider, find_requested_tier(request.settings.options))
    else:
        get_batch_api(request.endpoint.provider)


def _name_option(pending: Sequence[PendingBatch]) -> str:
    """Return the option with which the rows that are in progress were submitted."""
    return "--completion-window 2h" if pending[0].tag.startswith(TAG_PREFIX) else "--batch"


def run_batches(
    flags: Mapping[str, Any],
    job: Job,
    ledger: Ledger,
    read_rows: Callable[[], Iterator[Row]],
    calculate_cost: Callable[[Usage], float | None],
    *,
    shares_answers: bool,
) -> int | None:
    """Submit the rows of a job and wait for the answers.

    Returns:
        the number of rows that were finished before, or None if the answers are still to come.

    Raises:
        AskError: a request failed, or Ctrl-C.
    """
    request, console, window = job.requests[0], job.app.console, flags["completion_window"]
    runner = _create_runner(
        job, ledger, flags, read_rows=read_rows, calculate_cost=calculate_cost, shares_answers=shares_answers
    )

    def show_progress(show: Callable[[str], None] = console.show_status, hint: str = "") -> None:
        batches = format_count(runner.pending_batches, "batch", "batches")
        done = f"{runner.done_rows:,} of {runner.pending_rows:,} rows done in {batches}"
        show(f"{format_count(runner.pending_rows, 'row')} in progress{hint}" if window else f"{done}{hint}")

    waiting = partial(_print_failure, flags, job), flags["wait"], flags["poll_interval"]
    try:
        if flags["cancel"]:
            runner.cancel()
            noun = ("row",) if window else ("batch", "batches")
            console.print_notice(f"canceled {format_count(runner.pending_batches, *noun)}")
        else:
            _submit_rows(runner, console, *waiting)
        if flags["detach"]:
            runner.poll()
            if runner.pending_batches:
                show_progress(console.print_notice, "; run the same command again to collect the answers")
                return None
        while runner.pending_batches:
            runner.wait(show_progress, *waiting)
            if not flags["cancel"]:
                _submit_rows(runner, console, *waiting)  # rows of a batch that was not found, and new rows of the input
    except KeyboardInterrupt:
        interruption = RunInterruptedError("interrupted")
        interruption.hint = COLLECT_HINT
        raise interruption from None
    except AskError as error:
        hint = GONE_HINT if flags["detach"] and is_gone(error) else COLLECT_HINT
        error.hint = "; ".join(filter(None, (error.hint, hint if ledger.list_batches(job.id) else "")))
        error.redact(request.secrets.redact)
        raise
    console.show_status("")
    return runner.finished_earlier or 0


def _create_runner(job: Job, ledger: Ledger, flags: Mapping[str, Any], **options: Any) -> BatchRunner:
    request = job.requests[0]
    runner: BatchRunner | None = None

    def notify(text: str) -> None:
        is_repeated = runner is not None and runner.is_waiting and isinstance(text, RetryNotice)
        if not is_repeated:  # each poll would print three of them
            job.app.console.print_notice(text)

    open_client = partial(create_client, request.endpoint, notify, request.settings, request.secrets)
    options["retry_failed"] = flags["retry_failed"]
    if window := flags["completion_window"]:
        runner = BackgroundRunner(job, open_client, ledger, window, **options)
        return runner
    runner = BatchRunner(job, open_client(), ledger, **options)
    return runner


def _print_failure(flags: Mapping[str, Any], job: Job, error: AskError) -> None:
    """Print why the answers cannot be collected now."""
    limit = "" if is_gone(error) else f" for up to {format_duration(flags['wait'])} (--wait)"
    reason = job.requests[0].secrets.redact(error.summary)
    job.app.console.print_notice(f"{reason}; trying again{limit}")


def _submit_rows(runner: BatchRunner, console: StderrConsole, *waiting: Any) -> None:
    """Submit rows, and print how many were submitted. `waiting` are the arguments of `submit_with_retries`."""
    before = runner.submitted_rows
    runner.submit_with_retries(*waiting)
    if rows := runner.submitted_rows - before:
        batches = format_count(runner.submitted_batches, "batch", "batches")
        where = f" in {batches}" if runner.submitted_batches else ""
        console.print_notice(f"submitted {format_count(rows, 'row')}{where}")


def refuse_row(_: RowTask) -> NoReturn:
    """Refuse to send a row that was added to the input after the batches had ended."""
    raise RunInterruptedError("the input has changed while it was read", exit_code=FileError.exit_code)
