"""Runs the rows of a job: sends what is not in the ledger, and writes the output in order."""

from __future__ import annotations

import heapq
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from ask.client.retries import MAX_RETRY_WAIT, choose_retry_delay
from ask.errors import AskError, LimitReachedError, NetworkError, ProviderError, RunInterruptedError, to_ask_error
from ask.map.job import BATCH_ROWS, Job, RowTask, TaskResult
from ask.map.ledger import Ledger, RowResult
from ask.map.output import RowWriter
from ask.map.rate_limit import MAX_CONCURRENCY, RateLimiter
from ask.messages import Usage

WINDOW = 4 * MAX_CONCURRENCY
"""How many rows may be read ahead of the oldest unfinished one, whose output is written first."""
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


@dataclass
class Progress:
    """The state of a run: counts of rows, requests in flight, and the cost of the job in US dollars."""

    answered: int = 0
    failed: int = 0
    resumed: int = 0
    in_flight: int = 0
    cost: float = 0.0


class Engine:
    """Runs a job's rows with threads that each send one request at a time. One instance runs once.

    Args:
        job: the job.
        ledger: where results are saved before they are written.
        limiter: decides when requests are sent.
        writer: writes the output.
        answer_task: answers a task; called in several threads at the same time.
        calculate_cost: returns the cost in US dollars of usage of one of the models; None if it is unknown.
        ordered: whether the output is in the order of the input.
        retry_failed: whether rows that failed in an earlier run are sent again.
        max_failures: the limit for failed rows, and whether it is a percentage of the finished rows.
    """

    def __init__(
        self,
        job: Job,
        ledger: Ledger,
        limiter: RateLimiter,
        writer: RowWriter,
        *,
        answer_task: Callable[[RowTask], TaskResult],
        calculate_cost: Callable[[int, Usage], float | None],
        ordered: bool,
        retry_failed: bool,
        max_failures: tuple[float, bool] | None,
    ) -> None:
        self._job_id = job.id
        self._models = job.models
        self._settings = job.requests[0].settings
        self._ledger = ledger
        self._limiter = limiter
        self._writer = writer
        self._answer_task = answer_task
        self._calculate_cost = calculate_cost
        self._ordered = ordered
        self._retry_failed = retry_failed
        self._max_failures = max_failures
        self._tasks: SimpleQueue[RowTask | None] = SimpleQueue()
        self._results: SimpleQueue[tuple[RowTask, TaskResult]] = SimpleQueue()
        self._ready: deque[RowTask] = deque()
        self._retries: list[tuple[float, int, RowTask]] = []
        self._thread_count = 0
        self._finished: dict[int, dict[str, Any]] = {}
        self._next_position = self._position_count = 0
        self._buffer: list[dict[str, Any]] = []
        self._written_count = 0
        self._earlier_count = ledger.count_answers(job.id)[0] if job.output and job.output.exists() else 0
        """How many rows of the present output file are answered; a shorter output does not replace it."""
        self.is_published = False
        self.progress = Progress(cost=ledger.compute_cost(job.id))
        self._last_progress = 0.0
        self._has_started = self._is_exhausted = self._is_input_idle = False
        self.stop_error: AskError | None = None
        self.first_row_error = ""

    def stop(self, error: AskError) -> None:
        """Send no further request; the run ends once those in flight have finished."""
        self.stop_error = self.stop_error or error

    def run(self, tasks: Iterator[RowTask | None], on_progress: Callable[[Progress], None]) -> None:
        """Run all rows. What ended the run early is in `stop_error`.

        `tasks` are those of `identify_rows`.
        """
        try:
            while True:
                if self._has_room():
                    self._admit_tasks(tasks)
                self._start_tasks()
                self._flush()
                is_waiting = self._ready or self._retries
                if not self.progress.in_flight and (self.stop_error or (self._is_exhausted and not is_waiting)):
                    break
                self._collect(wait=self._is_input_idle or not self._has_room())
                self._report_progress(on_progress)
            self._flush()
            if self._is_exhausted and (self.stop_error is None or self._written_count >= self._earlier_count):
                self._publish()
        finally:
            for _ in range(self._thread_count):
                self._tasks.put(None)

    def _has_room(self) -> bool:
        """Whether there may be another row, and it may be read."""
        if self._is_exhausted or self.stop_error or len(self._ready) >= 2 * self._limiter.concurrency:
            return False
        return not self._ordered or self._position_count - self._next_position < WINDOW

    def _admit_tasks(self, tasks: Iterator[RowTask | None]) -> None:
        """Take the next tasks, and finish those that need no request."""
        for count, task in enumerate(tasks, start=1):
            self._is_input_idle = task is None
            if task is None:
                return
            self._position_count += 1
            if task.stored is None or (task.can_be_sent and self._retry_failed and task.stored.status == "failed"):
                self._ready.append(task)
            else:
                self.progress.resumed += task.can_be_sent
                self._finish(task, task.stored)
            if count == BATCH_ROWS or not self._has_room():
                return
        self._is_exhausted = True

    def _start_tasks(self) -> None:
        """Give tasks to the threads as far as the limits allow."""
        now = time.monotonic()
        while self._retries and self._retries[0][0] <= now:
            self._ready.appendleft(heapq.heappop(self._retries)[2])
        if self._ready and not self._has_started:
            self._check_cost_limit()  # an earlier run may have reached it
        while self._ready and self.stop_error is None and self._limiter.get_delay(now, self.progress.in_flight) == 0:
            if not self._has_started:
                self._has_started = True
                self._flush()
            if self.progress.in_flight == self._thread_count:
                self._thread_count += 1
                threading.Thread(target=self._work, daemon=True).start()
            self._limiter.start(now)
            self.progress.in_flight += 1
            self._tasks.put(self._ready.popleft())

    def _work(self) -> None:
        """Answer tasks until there are no more: the body of a thread."""
        while (task := self._tasks.get()) is not None:
            try:
                outcome = self._answer_task(task)
            except Exception as error:  # noqa: BLE001 - reported by the main thread
                outcome = TaskResult(None, to_ask_error(error))
            self._results.put((task, outcome))

    def _collect(self, *, wait: bool) -> None:
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
            self._finish(task, result)

    def _get_wait(self) -> float:
        """Return the seconds until something may have to be done."""
        waits = [INPUT_INTERVAL if self._is_input_idle else PROGRESS_INTERVAL]
        now = time.monotonic()
        if self._ready and self.stop_error is None:
            delay = self._limiter.get_delay(now, self.progress.in_flight)
            waits += [] if delay is None else [delay]
        if self._retries:
            waits.append(self._retries[0][0] - now)
        return max(min(waits), 0.001)

    def _evaluate(self, task: RowTask, outcome: TaskResult) -> tuple[RowTask, RowResult] | None:
        """Return the final result of a task; None if it is sent again, or if its error stops the job."""
        self.progress.in_flight -= 1
        error, usage, now = outcome.error, outcome.usage, time.monotonic()
        is_refused = isinstance(error, ProviderError) and error.status in REFUSED_STATUSES
        tokens = sum(filter(None, (usage.input_tokens, usage.output_tokens))) or None
        wait = error.retry_action.delay if isinstance(error, ProviderError) else None
        self._limiter.finish(now, is_refused=is_refused, wait=wait, headers=outcome.headers, tokens=tokens)
        cost = self._add_cost(task, usage)
        if error is not None:
            if _is_job_error(error):
                self.stop(error)
                return None
            count = task.refusals + 1 if is_refused else task.attempts
            can_retry = count < (MAX_REFUSALS if is_refused else self._settings.tries)
            delay = choose_retry_delay(error, min(count, 6), self._settings.backoff) if can_retry else None
            if delay is not None:
                task = task._replace(attempts=task.attempts + (not is_refused), refusals=task.refusals + is_refused)
                heapq.heappush(self._retries, (now + delay, task.position, task))
                return None
            if _is_long_refusal(error) or (isinstance(error, NetworkError) and error.offline):
                self.stop(error)
                return None
        result = outcome.result or RowResult("failed", error=str(error))
        return task, result._replace(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, cost=cost)

    def _add_cost(self, task: RowTask, usage: Usage) -> float | None:
        """Add the cost of a request and return it; stop once the limit is reached."""
        cost = self._calculate_cost(task.model_number, usage) if usage != Usage() else None
        self.progress.cost += cost or 0.0
        if cost:
            self._check_cost_limit()
        return cost

    def _check_cost_limit(self) -> None:
        limit, cost = self._settings.max_cost, self.progress.cost
        if limit is not None and cost >= limit:
            self.stop(LimitReachedError(f"reached the cost limit (${cost:.4f} spent)", "raise it with --max-cost"))

    def _finish(self, task: RowTask, result: RowResult) -> None:
        """Count a finished row, and write it once all rows before it are written."""
        if result.status == "answered":
            self.progress.answered += 1
        else:
            self.progress.failed += 1
            self.first_row_error = self.first_row_error or result.error
            if self._has_reached_failure_limit():
                message = f"reached the failure limit ({self.progress.failed} failed)"
                self.stop(LimitReachedError(message, "raise it with --max-failures"))
        record = self._writer.names.build_record(task.columns, self._models[task.model_number], result)
        if not self._ordered:
            self._buffer.append(record)
            return
        self._finished[task.position] = record
        while self._next_position in self._finished:
            self._buffer.append(self._finished.pop(self._next_position))
            self._next_position += 1

    def _has_reached_failure_limit(self) -> bool:
        if self._max_failures is None:
            return False
        (limit, is_percentage), failed = self._max_failures, self.progress.failed
        finished = self.progress.answered + failed
        if is_percentage:
            return finished >= MIN_ROWS_FOR_PERCENTAGE and failed * 100 > limit * finished
        return failed >= limit

    def _flush(self) -> None:
        if self._buffer:
            self._writer.write(self._buffer)
            self._written_count += len(self._buffer)
            self._buffer = []
        if self._has_started and self._written_count >= self._earlier_count:
            self._publish()

    def _publish(self) -> None:
        self._writer.publish()
        self.is_published = True

    def _report_progress(self, on_progress: Callable[[Progress], None]) -> None:
        now = time.monotonic()
        if now - self._last_progress >= PROGRESS_INTERVAL:
            self._last_progress = now
            on_progress(self.progress)


def _is_long_refusal(error: AskError) -> bool:
    """Check whether a rate limit asks for a longer wait than a retry does; it would refuse the other rows, too."""
    return (
        isinstance(error, ProviderError)
        and error.status in REFUSED_STATUSES
        and (error.retry_action.delay or 0.0) > MAX_RETRY_WAIT
    )


def _is_job_error(error: AskError) -> bool:
    """Check whether an error concerns all rows: an invalid key, a missing program, no sandbox."""
    if isinstance(error, RunInterruptedError):
        return True
    if isinstance(error, ProviderError):
        return error.status in STOP_STATUSES or error.retry_action.kind == "next_key"
    return error.exit_code in (3, 4, 7, 8, 13)
