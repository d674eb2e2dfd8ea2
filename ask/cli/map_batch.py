"""`ask map --batch`: the rows of a job through the provider's batch API."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

from ask.client.endpoint import create_client
from ask.console import StderrConsole
from ask.errors import AskError, FileError, RunInterruptedError, UsageError
from ask.map.batch_jobs import BatchRunner, get_batch_api
from ask.map.job import Job, RowTask
from ask.map.ledger import Ledger
from ask.map.rows import Row
from ask.messages import Usage
from ask.render.amounts import format_count

CONFLICTING_OPTIONS = {
    "engine": ("--batch and --engine cannot be combined", "leave out one of them"),
    "with_tools": ("--batch does not run tools", "leave out --tools or --batch"),
    "decide": ("--decide does not work with --batch", "leave out --batch: decisions are cheap without it"),
    "record": ("--record does not work with --batch", "leave out one of them"),
    "max_cost": ("max_cost does not work with --batch, which sends all rows at once", "use --limit"),
    "max_failures": ("--max-failures does not work with --batch, which sends all rows at once", "use --limit"),
}
"""The options that do not work with `--batch`, each with an error message and a hint."""
COLLECT_HINT = "run the same command again to collect the answers, or add --cancel"


def check_batch_flags(flags: Mapping[str, Any], job: Job, ledger: Ledger) -> None:
    """Check that the options of a command go together, and with the state of its job.

    Raises:
        UsageError: they do not.
    """
    is_pending = bool(ledger.list_batches(job.id))
    if not flags["batch"]:
        meaningless = [option for option in ("detach", "cancel", "poll_interval") if flags[option]]
        if meaningless:
            raise UsageError(f"--{meaningless[0].replace('_', '-')} has no effect without --batch", "add --batch")
        if is_pending:
            raise UsageError("this job has a batch in progress", "add --batch to collect it, or --batch --cancel")
        return
    given = {**flags, "max_cost": job.requests[0].settings.max_cost}
    conflicts = [option for option in CONFLICTING_OPTIONS if given[option] is not None and given[option] is not False]
    if conflicts:
        raise UsageError(*CONFLICTING_OPTIONS[conflicts[0]])
    if len(job.requests) > 1:
        raise UsageError("--batch works with one model only", "run the command once for each model")
    if is_pending and flags["fresh"]:
        raise UsageError("this job has a batch in progress", "leave out --fresh to collect it, or cancel it first")
    get_batch_api(job.requests[0].endpoint.provider)


def run_batches(
    flags: Mapping[str, Any],
    job: Job,
    ledger: Ledger,
    read_rows: Callable[[], Iterator[Row]],
    calculate_cost: Callable[[Usage], float | None],
) -> int | None:
    """Submit the rows of a job and wait for the answers.

    Returns:
        the number of rows that were finished before, or None if the answers are still to come.

    Raises:
        AskError: a request failed, or Ctrl-C.
    """
    request, console = job.requests[0], job.app.console
    client = create_client(request.endpoint, console.print_notice, request.settings, request.secrets)
    runner = BatchRunner(
        job,
        client,
        ledger,
        read_rows=read_rows,
        calculate_cost=calculate_cost,
        retry_failed=flags["retry_failed"],
    )

    def show_progress(show: Callable[[str], None] = console.show_status, hint: str = "") -> None:
        batches = format_count(runner.pending_batches, "batch", "batches")
        show(f"{runner.done_rows:,} of {runner.pending_rows:,} rows done in {batches}{hint}")

    try:
        if flags["cancel"]:
            runner.cancel()
            console.print_notice(f"canceled {format_count(runner.pending_batches, 'batch', 'batches')}")
        else:
            _submit_rows(runner, console)
        if flags["detach"]:
            runner.poll()
            if runner.pending_batches:
                show_progress(console.print_notice, "; run the same command again to collect the answers")
                return None
        while runner.pending_batches:
            runner.wait(show_progress, flags["poll_interval"])
            if not flags["cancel"]:
                _submit_rows(runner, console)  # rows of a batch that was not found, and new rows of the input
    except KeyboardInterrupt:
        interruption = RunInterruptedError("interrupted")
        interruption.hint = COLLECT_HINT
        raise interruption from None
    except AskError as error:
        error.hint = "; ".join(filter(None, (error.hint, COLLECT_HINT if ledger.list_batches(job.id) else "")))
        error.redact(request.secrets.redact)
        raise
    console.show_status("")
    return runner.finished_earlier or 0


def _submit_rows(runner: BatchRunner, console: StderrConsole) -> None:
    """Submit rows, and print how many were submitted."""
    before = runner.submitted_rows
    runner.submit()
    rows = runner.submitted_rows - before
    if rows:
        batches = format_count(runner.submitted_batches, "batch", "batches")
        console.print_notice(f"submitted {format_count(rows, 'row')} in {batches}")


def refuse_row(_: RowTask) -> NoReturn:
    """Refuse to send a row that was added to the input after the batches had ended."""
    raise RunInterruptedError("the input has changed while it was read", exit_code=FileError.exit_code)
