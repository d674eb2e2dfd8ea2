"""`ask map --completion-window`: OpenAI answers rows in the background within some hours, at a discount.

Each row is a response of its own, which the ledger stores as a batch of one row.
https://developers.openai.com/api/docs/guides/background
"""

from __future__ import annotations

import secrets
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from typing import Any

from ask.client.provider_client import ProviderClient
from ask.client.retries import choose_retry_delay
from ask.config.settings import Settings
from ask.errors import AskError, NetworkError, ProviderError, UsageError
from ask.map.batch_jobs import TAG_BYTES, UNCLEAR_STATUSES, BatchRunner, is_gone
from ask.map.job import Job
from ask.map.ledger import UNAVAILABLE, Ledger, PendingBatch, RowKey, RowResult
from ask.map.outages import classify_failure
from ask.parsing import STANDARD_TIER, read_dict, read_str
from ask.plugin_api.loaded_provider import LoadedProvider
from ask.plugin_api.provider import BatchApi
from ask.plugin_api.types import Batch, BatchRequest, BatchResult, HttpRequest

PROVIDER = "openai"
PATH = "/responses"
TAG_PREFIX = "ask-row-"
"""The beginning of the tags of responses in the ledger; other tags are those of batches."""
PENDING_STATUSES = ("queued", "in_progress")
CANCELED_STATUS = "cancelled"
CONCURRENCY = 16
"""How many rows are submitted or polled at a time."""
MAX_PENDING_POLLS = 8
"""A poll ends after this many incomplete responses in a row; the next one continues with the others."""
MAX_REFUSALS = 8
"""How often rows that a rate limit refuses are submitted again, with growing delays."""
LOST_ROW = "this row may have been submitted when ask was ended; --retry-failed submits it again"
CANCELED_ROW = "this row was canceled; the same command submits it again"
STANDARD_TIERS = (None, "auto", "default", STANDARD_TIER)


class BackgroundApi(BatchApi):
    """The requests for responses in the background, as a batch API whose batches have one request.

    Args:
        build_headers: returns the headers of a request for an API key.
        window: "2h" or "8h".
    """

    max_requests = CONCURRENCY
    path = PATH
    cancel_suffix = "/cancel"

    def __init__(self, build_headers: Callable[[str], Mapping[str, str]], window: str) -> None:
        super().__init__(build_headers)
        self._window = window

    def build_create_request(self, requests: Sequence[BatchRequest], tag: str, file_id: str, key: str) -> HttpRequest:
        body = requests[0].body
        background = {"background": True, "background_options": {"completion_window": self._window}}
        # A response that is not stored could not be fetched.
        own_fields = {"store": True, "metadata": {**read_dict(body.get("metadata")), self.tag_field: tag}}
        return HttpRequest(PATH, {**body, **background, **own_fields}, self.build_headers(key))

    def parse_batch(self, body: Any) -> Batch:
        response = read_dict(body)
        return Batch(read_str(response.get("id")), response.get("status") not in PENDING_STATUSES)


class BackgroundRunner(BatchRunner):
    """Runs the responses of a job. One instance runs once.

    A row is saved in the ledger before it is submitted, and the id of its response afterwards. The service has no list
    of responses: if the process dies in between, the row fails, instead of being paid twice.

    Args:
        job: the job, with one model.
        create_client: returns a client for a thread.
        ledger: where responses and results are saved.
        window: "2h" or "8h".
        options: the other arguments of `BatchRunner`.
    """

    def __init__(
        self, job: Job, create_client: Callable[[], ProviderClient], ledger: Ledger, window: str, **options: Any
    ) -> None:
        super().__init__(job, create_client(), ledger, **options)
        batch_api = self._api
        self._api = BackgroundApi(lambda key: batch_api.build_get_request(PATH, key).headers, window)
        self._service_tier = window
        self._create_client = create_client
        self._local = threading.local()
        self._last_tag = ""
        """The tag of the response at which the last poll ended."""

    def _fetch(self, build: Callable[[str], HttpRequest], *, may_retry: bool = True) -> Any:
        """Send a request with the client of the calling thread."""
        client = self._local.__dict__.get("client") or self._create_client()
        self._local.client = client
        return client.fetch_document(build, may_retry=may_retry)

    def _create_batch(self, chunk: Sequence[tuple[RowKey, str, Any]]) -> None:
        """Submit rows at the same time. Those that a rate limit refuses are submitted again.

        Raises:
            AskError: one could not be submitted, and neither could others.
        """
        for path in {path for _, path, _ in chunk} - {PATH}:
            raise UsageError(f"the model is not asked at {PATH} but at {path}", "leave out --completion-window")
        rows = list(chunk)
        for refusals in range(1, MAX_REFUSALS + 1):
            refused, error = self._submit_rows(rows)
            if error is None:
                return
            settings: Settings = self._job.requests[0].settings
            delay = choose_retry_delay(error, refusals, settings.backoff) if refused else None
            if delay is None or refusals == MAX_REFUSALS:
                raise error
            time.sleep(delay)
            rows = refused

    def _submit_rows(
        self, rows: Sequence[tuple[RowKey, str, Any]]
    ) -> tuple[list[tuple[RowKey, str, Any]], AskError | None]:
        """Submit rows; return those that were refused because of a rate limit, and the error that concerns others."""
        futures: dict[Future[Any], tuple[str, tuple[RowKey, str, Any]]] = {}
        refused, first_error = [], None
        with ThreadPoolExecutor(CONCURRENCY) as executor:
            try:
                for row in rows:
                    with _defer_signals():
                        tag = TAG_PREFIX + secrets.token_hex(TAG_BYTES)
                        self._ledger.begin_batch(self._job.id, tag, [row[0]])
                        build = partial(self._api.build_create_request, [BatchRequest(tag, *row[1:])], tag, "")
                        # Sent once: after a failure of the network, the response may exist.
                        futures[executor.submit(self._fetch, build, may_retry=False)] = tag, row
                wait(futures)
            finally:
                try:
                    wait(futures)  # after Ctrl-C, too, until the second one
                finally:
                    with _defer_signals():
                        for future, (tag, row) in futures.items():
                            error = self._save_id(tag, row[0], future) if future.done() else None
                            if error is not None and classify_failure(error) == "refusal":
                                refused.append(row)
                            first_error = first_error or error
        return refused, first_error

    def _save_id(self, tag: str, key: RowKey, future: Future[Any]) -> AskError | None:
        """Save the id of a response; return the error if the row was not submitted, unless it concerns only this row.

        After an error that leaves open whether there is a response, the row stays in the ledger without an id.
        """
        try:
            self._ledger.set_batch_id(tag, self._parse_batch(future.result()).id)
        except AskError as error:
            failure = classify_failure(error)
            status = error.status if isinstance(error, ProviderError) else None
            is_client_error = status is not None and 400 <= status < 500 and status not in UNCLEAR_STATUSES
            is_refused = is_client_error or failure == "refusal"
            if not is_refused and failure != "unreachable":
                return error
            is_own_error = failure == "row"
            if is_own_error:
                self._save_results([(key, RowResult("failed", error=str(error)))])
            self._ledger.end_batch(tag)
            return None if is_own_error else error
        self.submitted_rows += 1
        return None

    def _may_submit_again(self, error: NetworkError | ProviderError) -> bool:
        has_lost_rows = any(not pending.batch_id for pending in self._ledger.list_batches(self._job.id))
        return not has_lost_rows and super()._may_submit_again(error)

    def _find_lost_batches(self) -> None:
        """Fail the rows of which it is not known whether they were submitted."""
        for pending in self._ledger.list_batches(self._job.id):
            if not pending.batch_id:
                self._end_batch(pending, self._ledger.find_batch_rows(pending.tag).values(), LOST_ROW)

    def poll(self) -> None:
        """Poll responses until several in a row are incomplete, and collect those that are complete."""
        self._find_lost_batches()
        pending = self._ledger.list_batches(self._job.id)
        position = next((number for number, one in enumerate(pending, 1) if one.tag == self._last_tag), 0)
        pending = pending[position:] + pending[:position]
        unfinished, first_error = 0, None
        with ThreadPoolExecutor(CONCURRENCY) as executor:
            while pending and unfinished < MAX_PENDING_POLLS:
                group, pending = pending[:CONCURRENCY], pending[CONCURRENCY:]
                for one, future in [(one, executor.submit(self._fetch_response, one)) for one in group]:
                    try:
                        response = future.result()
                    except AskError as error:  # the others are collected all the same
                        if is_gone(error) and self._count_missed_poll(one):
                            reason = f"the service no longer has the response {one.batch_id}"
                            self._end_batch(one, self._ledger.find_batch_rows(one.tag).values(), reason)
                            continue
                        first_error = first_error or error
                        if is_gone(error):
                            continue
                    else:
                        self._last_success = time.monotonic()
                        self._gone_polls.pop(one.tag, None)
                        if self._api.parse_batch(response).is_complete:
                            self._collect_response(one, response)
                            unfinished = 0
                            continue
                    unfinished += 1
                    self._last_tag = one.tag
        self._update_counts()
        if first_error:
            raise first_error

    def _fetch_response(self, pending: PendingBatch) -> Any:
        response = self._fetch(partial(self._api.build_poll_request, pending.batch_id))
        if self._api.parse_batch(response).id != pending.batch_id:
            raise ProviderError("the answer is not the response that was asked for", None)
        return response

    def _collect_response(self, pending: PendingBatch, response: Any) -> None:
        """Save the result of a row."""
        keys = self._ledger.find_batch_rows(pending.tag)
        result = self._convert_result(BatchResult("", read_dict(response)), 0)
        if response.get("status") == CANCELED_STATUS and result.status != "answered":
            result = result._replace(status=UNAVAILABLE, error=CANCELED_ROW)  # the response itself has no reason
        saved_keys = self._ledger.find_saved_batch_rows(pending.tag)
        self._save_results([(key, result) for key in keys.values() if key not in saved_keys])
        self._ledger.end_batch(pending.tag)


@contextmanager
def _defer_signals() -> Iterator[None]:
    """Deliver signals that end the program only after the block, so that they cannot interrupt it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    deferred: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    handlers = {number: signal.signal(number, lambda number, _: deferred.append(number)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if deferred:
            signal.raise_signal(deferred[0])


def check_completion_window(provider: LoadedProvider, service_tier: str | None) -> None:
    """Check that a service has completion windows.

    Raises:
        UsageError: it does not.
    """
    if provider.info.name != PROVIDER:
        message = f"{provider.info.title} has no completion windows, which are OpenAI's"
        raise UsageError(message, "leave out --completion-window, or use -p openai")
    if service_tier not in STANDARD_TIERS:
        raise UsageError(
            f"--completion-window does not work with the service tier {service_tier}", "leave out one of them"
        )
