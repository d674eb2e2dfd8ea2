"""Runs the rows of a job: sends what is not in the ledger, and writes the output in order."""

from __future__ import annotations

import heapq
import math
import pickle
import resource
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from queue import Empty, SimpleQueue
from typing import Any

from ask.client.retries import MAX_RETRY_WAIT_SECONDS, choose_retry_delay
from ask.errors import AskError, FileError, LimitReachedError, NetworkError, ProviderError, to_ask_error
from ask.map.cost_limits import CostLimits
from ask.map.deduplication import WaitingCopies, copy_result, find_original
from ask.map.job import BATCH_ROWS, Job, RowTask, TaskResult, save_row_files
from ask.map.ledger import Ledger, RowResult, Status
from ask.map.outages import OutageMonitor, classify_failure, may_be_row_failure
from ask.map.output import RowWriter
from ask.map.rate_limit import RateLimiter
from ask.messages import Usage

MAX_HELD_BYTES = 64_000_000
"""No more rows are read while those that wait for an earlier one, whose output comes first, take so much memory."""
HELD_ROW_BYTES = 200
"""What a waiting row takes besides its output."""
PROGRESS_SECONDS = 0.25
"""Seconds between progress reports."""
INPUT_POLL_SECONDS = 0.02
"""Seconds after which an input that had no further row is read again."""
MAX_DOUBLINGS = 6
"""How often the delay before a retry doubles: a row may be refused up to `MAX_REFUSALS` times."""
LATER_REFUSAL_SECONDS = 1.0
"""What a refusal is assumed to take at most if earlier requests of the same row may have taken the rest of its time."""
MAX_REFUSALS = 30
"""How often one row may be refused by a rate limit before it fails."""
MIN_ROWS_FOR_PERCENTAGE = 20
"""How many rows must have finished before a percentage of failures stops the job."""


@dataclass
class Progress:
    """The state of a run: counts of rows, requests in flight, and the cost (in US dollars) and tokens of the job.

    The failed rows include the `unavailable` ones, which failed because of the service. The answered ones include the
    `refused` ones, in which the model refused some of the questions of `--decide`. The `shared` rows were not sent:
    they got the answer, or the error, of another row with the same request. `refusal` is why the service has refused
    all requests for some time, as by a rate limit; "" if it has not.
    """

    answered: int = 0
    failed: int = 0
    resumed: int = 0
    in_flight: int = 0
    cost: float = 0.0
    usage: Usage = field(default_factory=Usage)
    unavailable: int = 0
    shared: int = 0
    refused: int = 0
    refusal: str = ""


class Engine:
    """Runs a job's rows with threads that each send one request at a time. One instance runs once.

    Args:
        job: the job.
        ledger: where results are saved before they are written.
        limiter: decides when requests are sent.
        writer: writes the output.
        answer_task: answers a task; called in several threads at the same time.
        limits: decide whether the job can afford another request.
        calculate_cost: returns the cost in US dollars of requests to one of the models; None if it is unknown.
        ordered: whether the output is in the order of the input.
        retried_statuses: the statuses of rows of an earlier run that are sent again.
        max_failures: the limit for failed rows, and whether it is a percentage of the finished rows.
        max_wait: how many seconds to wait for a service that has failed.
        on_pause: is called with the reason when the job pauses.
        on_resume: is called with the seconds since the last answer when it continues.
        on_result: is called with each finished row, also of earlier runs.
        shares_answers: whether rows with the same request are sent once.
    """

    def __init__(
        self,
        job: Job,
        ledger: Ledger,
        limiter: RateLimiter,
        writer: RowWriter,
        *,
        answer_task: Callable[[RowTask], TaskResult],
        limits: CostLimits,
        calculate_cost: Callable[[int, Sequence[Usage]], float | None],
        ordered: bool,
        retried_statuses: Collection[Status],
        max_failures: tuple[float, bool] | None,
        max_wait: float,
        on_pause: Callable[[str], None],
        on_resume: Callable[[float], None],
        on_result: Callable[[RowTask, RowResult], None] | None = None,
        shares_answers: bool = False,
    ) -> None:
        self._job = job
        self._models = job.models
        self._settings = job.requests[0].settings
        self._ledger, self._limiter, self._writer = ledger, limiter, writer
        self._answer_task = answer_task
        self._limits = limits
        self._calculate_cost = calculate_cost
        self._ordered, self._retried_statuses = ordered, retried_statuses
        self._max_failures = max_failures
        self._max_wait = max_wait
        self._on_pause, self._on_resume, self._on_result = on_pause, on_resume, on_result
        self._shares_answers = shares_answers
        self._waiting_copies = WaitingCopies()
        self._copies: list[tuple[RowTask, RowResult]] = []
        self._outage = OutageMonitor(self._settings.backoff, max_wait)
        self._tasks: SimpleQueue[RowTask | None] = SimpleQueue()
        self._results: SimpleQueue[tuple[RowTask, TaskResult, float]] = SimpleQueue()
        self._ready: deque[RowTask] = deque()
        self._retries: list[tuple[float, int, RowTask]] = []
        self._last_tries: list[RowTask] = []
        self._last_service_error: AskError | None = None
        self._thread_count, self._max_threads = 0, math.inf
        self._finished: dict[int, bytes] = {}
        """The output of rows that wait for an earlier one, by position, encoded because that takes less memory."""
        self._held_bytes = self._next_position = 0
        self._buffer: list[dict[str, Any]] = []
        self._written_count = 0
        self._earlier_count = ledger.count_answers(job.id)[0] if job.output and job.output.exists() else 0.0
        """How many rows of the present output file are answered; a shorter output does not replace it."""
        if job.shard:
            self._earlier_count = math.inf  # the file of a shard shows that it is complete
        self.is_published = self._has_write_failed = False
        usage = ledger.compute_usage(job.id)
        self.progress = Progress(cost=usage.cost or 0.0, usage=usage._replace(cost=None))
        self._saved_cost = self.progress.cost
        limits.begin(self.progress.cost)
        self._last_progress = 0.0
        self._has_started = self._is_exhausted = self._is_input_idle = False
        self.stop_error: AskError | None = None
        self._input_error: AskError | None = None
        self.first_row_error = ""

    def stop(self, error: AskError) -> None:
        """Send no further request; the run ends once those in flight have finished."""
        self.stop_error = self.stop_error or error

    def stop_after_input(self, error: AskError) -> None:
        """End the run with an error of the input once the rows before it are answered."""
        self._input_error = error

    def run(self, tasks: Iterator[RowTask | None], on_progress: Callable[[Progress], None]) -> None:
        """Run all rows. What ended the run early is in `stop_error`.

        `tasks` are those of `identify_rows`.
        """
        try:
            while True:
                if self._has_room():
                    self._admit_tasks(tasks)
                self._check_outage()
                self._start_tasks()
                self._flush()
                is_waiting = self._ready or self._retries or self._last_tries or self._copies
                if not self.progress.in_flight and (self.stop_error or (self._is_exhausted and not is_waiting)):
                    break
                self._collect(wait=not self._copies and (self._is_input_idle or not self._has_room()))
                self._report_progress(on_progress)
            self._flush()
            self.stop_error = self.stop_error or self._input_error
            try:
                self._limits.save(self.progress.cost)
            except FileError as error:
                self.stop(error)
            with self._stop_at_write_error():
                if self._is_exhausted and (self.stop_error is None or self._has_enough_rows()):
                    self._publish()
                self._writer.close()
        finally:
            for _ in range(self._thread_count):
                self._tasks.put(None)

    def _has_room(self) -> bool:
        """Check whether another row may be read."""
        if self._is_exhausted or self.stop_error or len(self._ready) >= 2 * self._limiter.concurrency:
            return False
        return self._held_bytes + self._waiting_copies.held_bytes < MAX_HELD_BYTES

    def _admit_tasks(self, tasks: Iterator[RowTask | None]) -> None:
        """Take the next tasks, and finish those that need no request."""
        for count, task in enumerate(tasks, start=1):
            self._is_input_idle = task is None
            if task is None:
                return
            stored = task.stored_result
            if self._share_answer(task):
                pass
            elif stored is None or (task.can_be_sent and stored.status in self._retried_statuses):
                self._ready.append(task._replace(usage=stored.usage) if stored else task)
                self._waiting_copies.begin(task)
            else:
                self.progress.resumed += task.can_be_sent
                self._finish(task, stored)
            if count == BATCH_ROWS or not self._has_room():
                return
        self._is_exhausted = True

    def _share_answer(self, task: RowTask) -> bool:
        """Give a row without an answer the result of an earlier one with the same request, if there is one.

        Also where it failed: the same request would most likely fail again.
        """
        stored = task.stored_result
        if not self._shares_answers or not task.can_be_sent or (stored and stored.status == "answered"):
            return False
        original = find_original(task, self._ledger)
        if original == task.key:
            return False
        if self._waiting_copies.wait_for(original, task):
            return True
        result = self._ledger.find_result(self._job.id, original)
        is_final = stored is not None and stored.status not in self._retried_statuses
        if result is None or (is_final and result.status != "answered"):
            return False
        self._copies.append((task, copy_result(result)))
        return True

    def _check_outage(self) -> None:
        """Pause if the service has failed; stop if it has failed for too long."""
        now, outage, error = time.monotonic(), self._outage, self._last_service_error
        if error is None or self.stop_error:
            return
        has_other_rows = not self._is_exhausted or any(task.attempts == 1 for task in self._ready)
        if outage.should_pause(now, has_other_rows=has_other_rows):
            outage.pause(now)
            waiting = [task for _, _, task in sorted(self._retries)] + self._last_tries
            self._ready.extend(task._replace(attempts=1, is_last_try=False) for task in waiting)
            self._retries, self._last_tries = [], []
            if self._max_wait:
                self._on_pause(outage.describe(now, error))
        if outage.has_expired(now):
            if may_be_row_failure(error):
                self._save_failures(error)
            self.stop(NetworkError(outage.describe(now, error), "--wait allows a longer outage"))
        elif not (self._ready or self._retries or self._has_room() or outage.is_suspected):
            # The end of the job, or of the rows that may be read ahead.
            delay = self._settings.backoff * 2.0 ** min(self._settings.tries - 1, MAX_DOUBLINGS)
            for task in self._last_tries:
                self._schedule_retry(task._replace(is_last_try=True), now + delay)
            self._last_tries = []

    def _save_failures(self, error: AskError) -> None:
        """Note in the ledger which rows have failed: the next run does not pause for them again."""
        failed = RowResult("unavailable", error=str(error), time=time.time())
        sent = [task for task in self._ready if task.tries]
        results = [(task.key, failed.add_usage(task.usage)._replace(tries=task.tries)) for task in sent]
        self._ledger.save_results(self._job.id, results)

    def _schedule_retry(self, task: RowTask, moment: float) -> None:
        """Send a task again at that time."""
        heapq.heappush(self._retries, (moment, task.position, task))

    def _get_delay(self, now: float) -> float | None:
        """Return the seconds until a task may be sent; None if one must finish before."""
        in_flight = self.progress.in_flight
        if in_flight >= self._max_threads or not self._limits.can_afford(self.progress.cost, in_flight):
            return None
        if not self._outage.is_paused:
            return self._limiter.get_delay(now, in_flight)
        return self._outage.get_probe_delay(now) if in_flight < self._limiter.concurrency else None

    def _start_tasks(self) -> None:
        """Give tasks to the threads as far as the limits allow."""
        now = time.monotonic()
        while self._retries and self._retries[0][0] <= now:
            # First, because the output of later rows waits for it.
            self._ready.appendleft(heapq.heappop(self._retries)[2])
        if self._ready:
            self._check_other_costs(now)
        while self._ready and self.stop_error is None and self._get_delay(now) == 0:
            if self._outage.is_paused:
                self._outage.note_probe(now)
            if not self._has_started:
                self._has_started = True
                self._flush()
            if self.progress.in_flight == self._thread_count and not self._add_thread():
                return
            self._limiter.start(now)
            self._outage.note_start(now)
            self.progress.in_flight += 1
            task = self._ready.popleft()
            self._tasks.put(task._replace(tries=task.tries + 1))

    def _add_thread(self) -> bool:
        """Start a thread; return False if the system allows no more, as in a container with a limit for processes.

        Raises:
            AskError: there is none, or the memory is limited (ulimit -v), which the requests need, too.
        """
        try:
            threading.Thread(target=self._answer_tasks, daemon=True).start()
        except RuntimeError:
            count = self._thread_count
            if not count or resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
                hint = "send fewer requests at a time (-j), or raise the limit (ulimit -u, ulimit -v)"
                raise AskError(f"the system allows no more than {count} threads", hint) from None
            self._max_threads = count
            return False
        self._thread_count += 1
        return True

    def _answer_tasks(self) -> None:
        """Answer tasks until there are no more: the body of a thread."""
        while (task := self._tasks.get()) is not None:
            start = time.monotonic()
            try:
                outcome = self._answer_task(task)
            except Exception as error:  # noqa: BLE001 - reported by the main thread
                outcome = TaskResult(None, to_ask_error(error))
            self._results.put((task, outcome, time.monotonic() - start))

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
        copies, self._copies = self._copies, []
        finished = [entry for each in batch if (entry := self._evaluate(*each))]
        self._save_and_finish([*copies, *finished])
        for task, result in finished:
            waiting = self._waiting_copies.end(task.key)
            while rows := list(islice(waiting, BATCH_ROWS)):
                self._save_and_finish([(row, copy_result(result)) for row in rows])
                self._flush()

    def _save_and_finish(self, finished: Sequence[tuple[RowTask, RowResult]]) -> None:
        """Save the results of rows, and what requests have cost; then write the rows."""
        cost, self._saved_cost = self.progress.cost - self._saved_cost, self.progress.cost
        if finished or cost:
            self._ledger.save_results(self._job.id, [(task.key, result) for task, result in finished], cost)
        for task, result in finished:
            self._finish(task, result)

    def _get_wait(self) -> float:
        """Return the seconds until something may have to be done."""
        waits = [INPUT_POLL_SECONDS if self._is_input_idle else PROGRESS_SECONDS]
        now = time.monotonic()
        if self._ready and self.stop_error is None and (delay := self._get_delay(now)) is not None:
            waits.append(delay)
        if self._retries:
            waits.append(self._retries[0][0] - now)
        return max(min(waits), 0.001)

    def _evaluate(self, task: RowTask, outcome: TaskResult, latency: float) -> tuple[RowTask, RowResult] | None:
        """Return the final result of a task; None if it is sent again, or if its error stops the job."""
        self.progress.in_flight -= 1
        error, usage, now = outcome.error, outcome.usage, time.monotonic()
        failure = (outcome.failure or classify_failure(error)) if error else None
        tokens = sum(filter(None, (usage.input_tokens, usage.output_tokens))) or None
        wait = error.retry_action.delay if isinstance(error, ProviderError) else None
        is_refused = failure == "refusal"
        self._limiter.finish(
            now,
            latency=min(latency, LATER_REFUSAL_SECONDS) if is_refused and not outcome.is_first_request else latency,
            is_refused=is_refused,
            is_overload=isinstance(error, ProviderError) and error.is_overload,
            wait=wait,
            headers=outcome.headers,
            tokens=tokens,
        )
        self._limits.note_request(is_paid=error is None or usage != Usage())
        task = task._replace(usage=task.usage + usage._replace(cost=self._add_cost(task, usage, outcome.usages)))
        if error is None or failure == "row":
            self._note_answer(now)
            if error and self._retry_after_delay(task, error, now):
                return None
        elif failure == "job" or (failure == "unreachable" and not self._outage.has_answered):
            self.stop(error)
            return None
        elif is_refused:
            self.progress.refusal = error.summary if self._outage.is_quiet(now) else ""
            if self._retry_refused(task, error, now):
                return None
        elif self._retry_unavailable(task, error, now):
            return None
        result = outcome.result or RowResult("failed")
        if error is not None:
            result = result._replace(status="failed" if failure == "row" else "unavailable", error=str(error))
        if outcome.files:
            try:
                result = save_row_files(self._job, result, outcome.files, task.position + 1)
            except FileError as file_error:
                result = result._replace(status="failed", error=str(file_error))
        return task, result.add_usage(task.usage)._replace(time=time.time(), latency=latency, tries=task.tries)

    def _note_answer(self, now: float) -> None:
        """End a pause, since the service answers."""
        if self._outage.is_paused and not self.stop_error:
            self._on_resume(self._outage.get_silence(now))
        self._outage.note_answer(now)
        self.progress.refusal = ""

    def _retry_refused(self, task: RowTask, error: AskError, now: float) -> bool:
        """Send a row again that was refused, or stop; return False if it was refused too often."""
        delay = choose_retry_delay(error, min(task.refusals + 1, MAX_DOUBLINGS), self._settings.backoff)
        if delay is None and _is_long_refusal(error):
            self.stop(error)
            return True
        if delay is None or task.refusals + 1 >= MAX_REFUSALS:
            return False
        self._schedule_retry(task._replace(refusals=task.refusals + 1), now + delay)
        return True

    def _retry_unavailable(self, task: RowTask, error: AskError, now: float) -> bool:
        """Send a row again that failed because of the service; return False if that was its last try."""
        self._last_service_error = error
        if self._outage.is_paused:
            self._ready.append(task)  # the next probe is another row, in case that this one makes a server fail
            return True
        if task.is_last_try:
            return False
        failed_earlier = task.stored_result is not None and task.stored_result.status == "unavailable"
        is_first = task.attempts == 1
        self._outage.note_failure(task.position, error, is_first=is_first, failed_earlier=failed_earlier)
        if not self._retry_after_delay(task, error, now):
            self._last_tries.append(task)
        return True

    def _retry_after_delay(self, task: RowTask, error: AskError, now: float) -> bool:
        """Send a row again after a delay if that may help and it has tries left; return whether it is sent."""
        delay = None
        if task.attempts < self._settings.tries:
            delay = choose_retry_delay(error, min(task.attempts, MAX_DOUBLINGS), self._settings.backoff)
        if delay is not None:
            self._schedule_retry(task._replace(attempts=task.attempts + 1), now + delay)
        return delay is not None

    def _add_cost(self, task: RowTask, usage: Usage, usages: Sequence[Usage]) -> float | None:
        """Add the cost of a row's requests and return it; stop once the limit is reached."""
        cost = self._calculate_cost(task.model_number, usages or [usage]) if usage != Usage() else None
        self.progress.cost += cost or 0.0
        self.progress.usage += usage._replace(cost=None)
        if cost:
            self._check_cost_limit()
        return cost

    def _check_other_costs(self, now: float) -> None:
        """Stop if an earlier run has reached the limit of the job, or other runs that of the day."""
        try:
            if self._limits.refresh(now, self.progress.cost) or not self._has_started:
                self._check_cost_limit()
        except FileError as error:
            self.stop(error)

    def _check_cost_limit(self) -> None:
        if error := self._limits.find_reached(self.progress.cost):
            self.stop(error)

    def _finish(self, task: RowTask, result: RowResult) -> None:
        """Count a finished row, and write it once all rows before it are written."""
        if result.status == "answered":
            self.progress.answered += 1
            self.progress.refused += bool(result.error)
        else:
            self.progress.failed += 1
            self.progress.unavailable += result.status == "unavailable"
            self.first_row_error = self.first_row_error or result.error
            if self._has_reached_failure_limit():
                message = f"reached the failure limit ({self.progress.failed} failed)"
                self.stop(LimitReachedError(message, "raise it with --max-failures"))
        self.progress.shared += result.tries == 0
        if self._on_result:
            self._on_result(task, result)
        record = self._writer.names.build_record(task.columns, self._models[task.model_number], result)
        if self._ordered and task.position != self._next_position:
            encoded = self._finished[task.position] = pickle.dumps(record)
            self._held_bytes += len(encoded) + HELD_ROW_BYTES
            return
        self._buffer.append(record)
        self._next_position += 1
        while self._finished and (encoded := self._finished.pop(self._next_position, b"")):
            self._held_bytes -= len(encoded) + HELD_ROW_BYTES
            self._buffer.append(pickle.loads(encoded))  # noqa: S301 - encoded above
            self._next_position += 1
            if len(self._buffer) >= BATCH_ROWS:
                self._flush()

    def _has_reached_failure_limit(self) -> bool:
        if self._max_failures is None:
            return False
        (limit, is_percentage), failed = self._max_failures, self.progress.failed
        finished = self.progress.answered + failed
        if is_percentage:
            return finished >= MIN_ROWS_FOR_PERCENTAGE and failed * 100 > limit * finished
        return failed >= limit

    def _flush(self) -> None:
        with self._stop_at_write_error():
            if self._buffer and not self._has_write_failed:
                self._writer.write(self._buffer)
                self._written_count += len(self._buffer)
            self._buffer = []
            if self._has_started and self._has_enough_rows():
                self._publish()

    def _has_enough_rows(self) -> bool:
        """Check that the output has a row, and as many as that of the previous run."""
        return self._written_count >= max(1, self._earlier_count)

    @contextmanager
    def _stop_at_write_error(self) -> Iterator[None]:
        """Stop if the output cannot be written. The answers in flight are still saved in the ledger."""
        try:
            yield
        except FileError as error:
            self.stop_error, self._has_write_failed, self.is_published = error, True, False
            self._buffer = []

    def _publish(self) -> None:
        if self._has_write_failed:
            return
        self._writer.publish()
        if not self.is_published:
            self._ledger.touch_job(self._job.id)  # the output is now of this job
            self.is_published = True

    def _report_progress(self, on_progress: Callable[[Progress], None]) -> None:
        now = time.monotonic()
        if now - self._last_progress >= PROGRESS_SECONDS:
            self._last_progress = now
            on_progress(self.progress)


def _is_long_refusal(error: AskError) -> bool:
    """Check whether a rate limit asks for a longer wait than a retry does; it would refuse the other rows, too."""
    return isinstance(error, ProviderError) and (error.retry_action.delay or 0.0) > MAX_RETRY_WAIT_SECONDS
