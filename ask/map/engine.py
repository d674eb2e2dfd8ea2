"""Runs the rows of a job: reads them, sends what is not in the ledger, and writes the output in order."""

from __future__ import annotations

import heapq
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from ask.errors import (
    AskError,
    LimitReachedError,
    NetworkError,
    ProviderError,
    RunInterruptedError,
    UsageError,
    to_ask_error,
)
from ask.map.ledger import Ledger, RowKey, RowResult
from ask.map.output import ColumnNames, RowWriter
from ask.map.rate_limit import MAX_CONCURRENCY, RateLimiter
from ask.map.rows import Row
from ask.messages import EMPTY_MAPPING, Usage
from ask.retries import choose_retry_delay

WINDOW = 4 * MAX_CONCURRENCY
"""How many rows may be read ahead of the oldest unfinished one, whose output is written first."""
BATCH_ROWS = 500
"""How many rows that need no request are handled before progress is shown."""
PROGRESS_INTERVAL = 0.25
"""Seconds between progress reports."""
INPUT_INTERVAL = 0.02
"""Seconds after which an input that had no further row is read again."""
MAX_REFUSALS = 30
"""How often one row may be refused by a rate limit before it fails."""
REFUSED_STATUSES = (429, 529)
STOP_STATUSES = (401, 402, 404)
"""HTTP statuses for an invalid key, an exhausted account or an unknown model, with which every row would fail."""
MIN_ROWS_FOR_PERCENTAGE = 20
"""How many rows must have finished before a percentage of failures stops the job."""


NO_KEY = RowKey(b"", 0)


class RowTask(NamedTuple):
    """A row to send.

    Attributes:
        position: the position of its output.
        columns: the columns of the input row.
        model_number: which of the job's models to ask.
        key: its identity in the ledger.
        message: what to send, as `Job.identify` returned it.
        attempts: how often it was sent and failed.
        refusals: how often it was refused by a rate limit.
    """

    position: int
    columns: Mapping[str, Any]
    model_number: int
    key: RowKey = NO_KEY
    message: Any = None
    attempts: int = 1
    refusals: int = 0


class TaskResult(NamedTuple):
    """What a worker returns: the result of a row or the error that it failed with, and the last response's headers."""

    result: RowResult | None
    error: AskError | None = None
    usage: Usage = Usage()
    headers: Mapping[str, str] = EMPTY_MAPPING


class EngineOptions(NamedTuple):
    """The limits of a run.

    Attributes:
        ordered: whether the output is in the order of the input.
        retry_failed: whether rows that failed in an earlier run are sent again.
        max_cost: the limit for the whole job, in US dollars.
        max_failures: the limit for failed rows: a number, or a percentage of the finished rows.
        is_percentage: whether `max_failures` is a percentage.
        tries: how often a row is sent if it fails for reasons that may pass.
        backoff: seconds before the second attempt.
    """

    ordered: bool = True
    retry_failed: bool = False
    max_cost: float | None = None
    max_failures: float | None = None
    is_percentage: bool = False
    tries: int = 4
    backoff: float = 0.5


class Progress(NamedTuple):
    """The state of a run: counts of rows, the cost of the job in US dollars, and requests in flight."""

    answered: int
    failed: int
    resumed: int
    in_flight: int
    cost: float
    concurrency: int


class Engine:
    """Runs a job's rows with threads that each send one request at a time. One instance runs once.

    Args:
        job_id: the job in the ledger.
        models: the job's models, for the output.
        ledger: where results are saved before they are written.
        limiter: decides when requests are sent.
        open_runner: creates the function that answers a task; called once in each thread.
        identify: returns the message of a row for one of the models and its digest; raises AskError if the row has
            none.
        calculate_cost: returns the cost in US dollars of usage of one of the models; None if it is unknown.
        options: the limits.
    """

    def __init__(
        self,
        job_id: str,
        models: Sequence[str],
        ledger: Ledger,
        limiter: RateLimiter,
        *,
        open_runner: Callable[[], Callable[[RowTask], TaskResult]],
        identify: Callable[[Row, int, int], tuple[Any, bytes]],
        calculate_cost: Callable[[int, Usage], float | None],
        options: EngineOptions,
    ) -> None:
        self._job_id = job_id
        self._models = models
        self._ledger = ledger
        self._limiter = limiter
        self._open_runner = open_runner
        self._identify = identify
        self._calculate_cost = calculate_cost
        self._options = options
        self._tasks: SimpleQueue[RowTask | None] = SimpleQueue()
        self._results: SimpleQueue[tuple[RowTask, TaskResult]] = SimpleQueue()
        self._ready: deque[RowTask] = deque()
        self._retries: list[tuple[float, int, RowTask]] = []
        self._thread_count = self._in_flight = 0
        self._finished: dict[int, dict[str, Any]] = {}
        self._next_position = self._position_count = 0
        self._buffer: list[dict[str, Any]] = []
        self._answered = self._failed = self._resumed = 0
        self._cost = ledger.compute_cost(job_id)
        self._last_progress = 0.0
        self._has_started = False
        self._row_count = 0
        self._is_input_idle = False
        self.stop_error: AskError | None = None

    def stop(self, error: AskError) -> None:
        """Send no further request; the run ends once those in flight have finished."""
        self.stop_error = self.stop_error or error

    def run(
        self,
        rows: Iterator[Row | None],
        names: ColumnNames,
        writer: RowWriter,
        on_progress: Callable[[Progress], None],
    ) -> Progress:
        """Run all rows; return the final state. What ended the run early is in `stop_error`.

        `rows` may yield None while no further row has arrived.
        """
        is_exhausted = False
        try:
            while True:
                if not is_exhausted and self._has_room():
                    is_exhausted = self._admit_rows(rows, names)
                self._start_tasks(writer)
                self._flush(writer)
                if not self._in_flight and (self.stop_error or (is_exhausted and not self._is_waiting)):
                    break
                can_admit = not is_exhausted and not self._is_input_idle and self._has_room()
                self._collect(names, wait=not can_admit)
                self._report_progress(on_progress)
            self._flush(writer)
            if is_exhausted or self._has_started:
                writer.publish()
        finally:
            for _ in range(self._thread_count):
                self._tasks.put(None)
        return self.progress

    @property
    def progress(self) -> Progress:
        return Progress(
            self._answered, self._failed, self._resumed, self._in_flight, self._cost, self._limiter.concurrency
        )

    @property
    def _is_waiting(self) -> bool:
        """Whether rows wait to be sent."""
        return bool(self._ready or self._retries)

    def _has_room(self) -> bool:
        """Whether another batch of rows may be read."""
        if len(self._ready) >= 2 * self._limiter.concurrency or self.stop_error:
            return False
        return not self._options.ordered or self._position_count - self._next_position < WINDOW

    def _admit_rows(self, rows: Iterator[Row | None], names: ColumnNames) -> bool:
        """Read rows and finish those that need no request; return whether there are no more."""
        tasks: list[RowTask] = []
        digests: list[bytes] = []
        is_exhausted = False
        while len(tasks) < BATCH_ROWS:
            try:
                row = next(rows)
            except StopIteration:
                is_exhausted = True
                break
            self._is_input_idle = row is None
            if row is None:
                break
            self._row_count += 1
            for model_number in range(len(self._models)):
                identified = self._identify_row(self._row_count, row, model_number, names)
                if identified:
                    tasks.append(identified[0])
                    digests.append(identified[1])
        found = self._ledger.find_results(self._job_id, digests) if digests else []
        for task, (key, stored) in zip(tasks, found, strict=True):
            if stored and not (stored.status == "failed" and self._options.retry_failed):
                self._resumed += 1
                self._finish(task, stored, names)
            else:
                self._ready.append(task._replace(key=key))
        return is_exhausted

    def _identify_row(
        self, number: int, row: Row, model_number: int, names: ColumnNames
    ) -> tuple[RowTask, bytes] | None:
        """Return the task of a row and its digest; None for a row that cannot be sent, which is then finished."""
        position = self._position_count
        self._position_count += 1
        try:
            if row.error:
                raise UsageError(row.error)
            message, digest = self._identify(row, number, model_number)
        except AskError as error:
            task = RowTask(position, row.columns, model_number)
            self._finish(task, RowResult("failed", error=f"{row.location}: {error}"), names)
            return None
        return RowTask(position, row.columns, model_number, NO_KEY, message), digest

    def _start_tasks(self, writer: RowWriter) -> None:
        """Give tasks to the threads as far as the limits allow."""
        now = time.monotonic()
        while self._retries and self._retries[0][0] <= now:
            self._ready.appendleft(heapq.heappop(self._retries)[2])
        while self._ready and self.stop_error is None and self._limiter.get_delay(now, self._in_flight) == 0:
            if not self._has_started:
                self._has_started = True
                self._flush(writer)
                writer.publish()
            if self._in_flight == self._thread_count:
                self._thread_count += 1
                threading.Thread(target=self._work, daemon=True).start()
            self._limiter.start(now)
            self._in_flight += 1
            self._tasks.put(self._ready.popleft())

    def _work(self) -> None:
        """Answer tasks until there are no more: the body of a thread."""
        runner = None
        while (task := self._tasks.get()) is not None:
            try:
                runner = runner or self._open_runner()
                outcome = runner(task)
            except Exception as error:  # noqa: BLE001 - reported by the main thread
                outcome = TaskResult(None, error if isinstance(error, AskError) else to_ask_error(error))
            self._results.put((task, outcome))

    def _collect(self, names: ColumnNames, *, wait: bool) -> None:
        """Handle the results that have arrived; with `wait`, wait for the next one or until another task may start."""
        batch = []
        timeout = self._get_wait() if wait else 0.0
        try:
            batch.append(self._results.get(timeout=timeout) if timeout else self._results.get_nowait())
            while True:
                batch.append(self._results.get_nowait())
        except Empty:
            pass
        finished = [entry for task, outcome in batch if (entry := self._evaluate(task, outcome))]
        if finished:
            self._ledger.save_results(self._job_id, [(task.key, result) for task, result in finished])
        for task, result in finished:
            self._finish(task, result, names)

    def _get_wait(self) -> float:
        """Return the seconds until something may have to be done."""
        waits = [INPUT_INTERVAL if self._is_input_idle else PROGRESS_INTERVAL]
        now = time.monotonic()
        if self._ready and self.stop_error is None:
            delay = self._limiter.get_delay(now, self._in_flight)
            waits += [] if delay is None else [delay]
        if self._retries:
            waits.append(self._retries[0][0] - now)
        return max(min(waits), 0.001)

    def _evaluate(self, task: RowTask, outcome: TaskResult) -> tuple[RowTask, RowResult] | None:
        """Return the final result of a task; None if it is sent again, or if its error stops the job."""
        self._in_flight -= 1
        error, now = outcome.error, time.monotonic()
        is_refused = isinstance(error, ProviderError) and error.status in REFUSED_STATUSES
        tokens = sum(filter(None, (outcome.usage.input_tokens, outcome.usage.output_tokens))) or None
        self._limiter.finish(now, is_refused=is_refused, headers=outcome.headers, tokens=tokens)
        cost = self._add_cost(task, outcome.usage)
        if outcome.result is not None:
            return task, outcome.result._replace(cost=cost)
        assert error is not None, "an outcome has a result or an error"  # noqa: S101
        if is_job_error(error):
            self.stop(error)
            return None
        count = task.refusals + 1 if is_refused else task.attempts
        can_retry = count < (MAX_REFUSALS if is_refused else self._options.tries)
        delay = choose_retry_delay(error, min(count, 6), self._options.backoff) if can_retry else None
        if delay is not None:
            task = task._replace(attempts=task.attempts + (not is_refused), refusals=task.refusals + is_refused)
            heapq.heappush(self._retries, (now + delay, task.position, task))
            return None
        if isinstance(error, NetworkError) and error.offline:
            self.stop(error)
            return None
        usage = outcome.usage
        return task, RowResult("failed", "", "", usage.input_tokens, usage.output_tokens, cost, str(error))

    def _add_cost(self, task: RowTask, usage: Usage) -> float | None:
        """Add the cost of a request and return it; stop once the limit is reached."""
        cost = self._calculate_cost(task.model_number, usage) if usage != Usage() else None
        self._cost += cost or 0.0
        limit = self._options.max_cost
        if cost and limit is not None and self._cost >= limit:
            self.stop(LimitReachedError(f"the job has cost ${self._cost:.4f}", "--max-cost allows more"))
        return cost

    def _finish(self, task: RowTask, result: RowResult, names: ColumnNames) -> None:
        """Count a finished row, and write it once all rows before it are written."""
        if result.status == "answered":
            self._answered += 1
        else:
            self._failed += 1
            if self._has_reached_failure_limit():
                self.stop(LimitReachedError(f"{self._failed} rows failed", "--max-failures allows more"))
        record = names.build_record(task.columns, self._models[task.model_number], result)
        if not self._options.ordered:
            self._buffer.append(record)
            return
        self._finished[task.position] = record
        while self._next_position in self._finished:
            self._buffer.append(self._finished.pop(self._next_position))
            self._next_position += 1

    def _has_reached_failure_limit(self) -> bool:
        limit, finished = self._options.max_failures, self._answered + self._failed
        if limit is None:
            return False
        if self._options.is_percentage:
            return finished >= MIN_ROWS_FOR_PERCENTAGE and self._failed * 100 > limit * finished
        return self._failed >= limit

    def _flush(self, writer: RowWriter) -> None:
        if self._buffer:
            writer.write(self._buffer)
            self._buffer = []

    def _report_progress(self, on_progress: Callable[[Progress], None]) -> None:
        now = time.monotonic()
        if now - self._last_progress >= PROGRESS_INTERVAL:
            self._last_progress = now
            on_progress(self.progress)


def is_job_error(error: AskError) -> bool:
    """Check whether an error concerns all rows: an invalid key, a missing program, no sandbox."""
    if isinstance(error, RunInterruptedError):
        return True
    if isinstance(error, ProviderError):
        return error.status in STOP_STATUSES or error.retry_action.kind == "next_key"
    return error.exit_code in (3, 4, 7, 8, 13)
