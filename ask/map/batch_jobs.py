"""Runs the rows of a job through the provider's batch API: submits them, waits, and collects the results."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any

from ask.client.citations import citations_to_json, remove_positions, select_final_citations
from ask.client.provider_client import ProviderClient
from ask.errors import AskError, FileError, IncompleteResponseError, NetworkError, ProviderError, UsageError
from ask.map.deduplication import find_original
from ask.map.input_rows import Row
from ask.map.job import BATCH_ROWS, Job, identify_rows, save_row_files
from ask.map.ledger import FAILED, UNAVAILABLE, Ledger, PendingBatch, RowKey, RowResult, Status
from ask.map.outages import classify_failure
from ask.messages import EMPTY_MAPPING, FinishReason, Message, Usage
from ask.parsing import BATCH_TIER
from ask.plugin_api.loaded_provider import LoadedProvider
from ask.plugin_api.provider import BatchApi
from ask.plugin_api.types import Batch, BatchRequest, BatchResult, ChatRequest
from ask.tools.server_tools import get_server_tools

MAX_CHUNK_BYTES = 50_000_000
"""The limit for the requests of one batch, which are in memory at once."""
ENVELOPE_BYTES = 300
"""More than the fields around the body of a request take."""
FIRST_POLL_SECONDS, MAX_POLL_SECONDS = 2.0, 60.0
POLL_INTERVAL_FACTOR = 1.5
MAX_GONE_POLLS = 10
"""How many polls in a row must miss a batch or its results: Anthropic returns 404 for some that exist."""
TAG_BYTES = 8
GONE_STATUSES = (404, 410)
"""HTTP statuses for results that were deleted: Anthropic keeps them for 29 days."""
TEMPORARY_FAILURES = ("refusal", "service", "unreachable")
"""What a failure concerns that is over some time later."""
ENDED_STATUSES = (400, 409)
"""HTTP statuses of a request to cancel a batch that has ended."""
UNCLEAR_STATUSES = (408, 409)
"""HTTP statuses after which a batch may exist all the same: a timeout, or a conflict with the same request."""
CLOCK_TOLERANCE_SECONDS = 300.0
"""How many seconds the provider's clock may be behind."""


class BatchRunner:
    """Runs the batches of a job. One instance runs once.

    A batch is saved in the ledger with the keys of its rows before it is created, and its id afterwards. If the
    process dies in between, the next one looks for the batch in the provider's list.

    Args:
        job: the job, with one model.
        client: sends the requests to a provider with a batch API.
        ledger: where batches and results are saved.
        read_rows: returns the rows of the input from the first one.
        calculate_cost: returns the cost of a request in US dollars; None if it is unknown.
        retry_failed: whether rows that failed in an earlier run are submitted again.
        shares_answers: whether rows with the same request are submitted once.

    Attributes:
        finished_earlier: rows that were finished before this run; None until rows are submitted.
        submitted_rows: rows that this run submitted.
        submitted_batches: batches that this run created.
        pending_batches: batches whose results are not collected.
        pending_rows: their rows.
        done_rows: how many of these the provider has finished.
        is_waiting: whether it polls until all results are collected.
    """

    def __init__(
        self,
        job: Job,
        client: ProviderClient,
        ledger: Ledger,
        *,
        read_rows: Callable[[], Iterator[Row]],
        calculate_cost: Callable[[Usage], float | None],
        retry_failed: bool = False,
        shares_answers: bool = False,
    ) -> None:
        self._job = job
        self._api = get_batch_api(client.provider)
        self._client = client
        self._ledger = ledger
        self._read_rows = read_rows
        self._calculate_cost = calculate_cost
        self._retry_failed = retry_failed
        self._shares_answers = shares_answers
        self._service_tier = BATCH_TIER
        self._last_success = 0.0
        self._done_rows: dict[str, int] = {}
        self._gone_polls: dict[str, int] = {}
        """How many polls in a row have missed the results of a batch."""
        self._begin = time.time()
        self._created_ids: set[str] = set()
        self._foreign_ids: set[str] = set()
        """Batches that were taken for a lost one, until their results turned out to be of other requests."""
        self.finished_earlier: int | None = None
        self.submitted_rows = self.submitted_batches = 0
        self.pending_batches = self.pending_rows = self.done_rows = 0
        self.is_waiting = False

    def submit(self) -> None:
        """Submit the rows that have no result and are in no batch.

        Raises:
            AskError: a batch could not be created.
        """
        self._find_lost_batches()
        self._ledger.restart_rows()
        chunk: list[tuple[RowKey, str, Any]] = []
        size, finished = 0, 0
        max_bytes = min(self._api.max_bytes, MAX_CHUNK_BYTES)
        for task in filter(None, identify_rows(self._job, self._ledger, self._read_rows())):
            if not task.can_be_sent:  # reported when the output is written
                continue
            key = task.key
            stored = task.stored_result
            is_finished = stored is not None and self._is_final(stored)
            finished += is_finished
            if is_finished or self._ledger.is_in_batch(self._job.id, key):
                continue
            if self._shares_answers and find_original(task, self._ledger) != key:
                continue
            try:
                request = self._client.build_request(self._build_chat_request(task.message))
                row_size = len(json.dumps(request.body)) + ENVELOPE_BYTES
                if row_size > max_bytes:
                    raise UsageError("the row is larger than a batch may be")
            except AskError as error:
                self._save_results([(key, RowResult(FAILED, error=str(error)))])
                continue
            if chunk and (size + row_size > max_bytes or len(chunk) >= self._api.max_requests):
                self._create_batch(chunk)
                chunk, size = [], 0
            chunk.append((key, request.path, request.body))
            size += row_size
        if chunk:
            self._create_batch(chunk)
        if self.finished_earlier is None:
            self.finished_earlier = finished
        self._retry_failed = False  # rows that fail now are for the next run
        self._update_counts()

    def _is_final(self, stored: RowResult) -> bool:
        """Check whether a row is not submitted again in this run."""
        is_new = (stored.time or 0.0) >= self._begin
        return is_new or stored.is_final(retry_failed=self._retry_failed)

    def _build_chat_request(self, message: Message) -> ChatRequest:
        request = self._job.requests[0]
        schema = request.response_schema
        return ChatRequest(
            model=request.endpoint.model,
            messages=(Message("system", self._job.system_prompts[0]), message),
            options=request.settings.options,
            stream=False,
            schema=schema.value if schema else None,
            is_own_url=request.endpoint.is_own_url,
            server_tools=dict.fromkeys(get_server_tools(request.settings), EMPTY_MAPPING),
        )

    def _save_results(self, rows: Sequence[tuple[RowKey, RowResult]]) -> None:
        """Save the results of rows, with what they used in earlier runs."""
        redact = self._job.requests[0].secrets.redact
        totals = []
        for key, result in rows:
            earlier = self._ledger.find_result(self._job.id, key)
            total = result.add_usage(earlier.usage) if earlier else result
            totals.append((key, total._replace(error=redact(result.error))))
        self._ledger.save_results(self._job.id, totals, sum(result.cost or 0.0 for _, result in rows))

    def _create_batch(self, chunk: Sequence[tuple[RowKey, str, Any]]) -> None:
        tag = f"ask-{secrets.token_hex(TAG_BYTES)}"
        requests = [BatchRequest(f"{tag}-{number}", path, body) for number, (_, path, body) in enumerate(chunk)]
        self._ledger.begin_batch(self._job.id, tag, [key for key, _, _ in chunk])
        try:
            upload = self._client.fetch_document(partial(self._api.build_upload_request, requests, tag))
            file_id = "" if upload is None else self._api.parse_upload(upload)
            build = partial(self._api.build_create_request, requests, tag, file_id)
            # Sent once: after a failure of the network, the batch may exist.
            batch = self._parse_batch(self._client.fetch_document(build, may_retry=False))
        except ProviderError as error:
            if error.status is not None and 400 <= error.status < 500 and error.status not in UNCLEAR_STATUSES:
                self._ledger.end_batch(tag)
            if error.status in (404, 405):
                error.hint = f"without a batch API, leave out --batch; {error.hint}"
            raise
        self._ledger.set_batch_id(tag, batch.id)
        self._created_ids.add(batch.id)
        self.submitted_rows += len(chunk)
        self.submitted_batches += 1

    def _parse_batch(self, body: Any) -> Batch:
        batch = self._api.parse_batch(body)
        if not batch.id:
            raise ProviderError("the answer is not a batch", None)
        return batch

    def _find_lost_batches(self) -> None:
        """Find the batches that were perhaps created just before a crash, and forget those that were not."""
        lost = [batch for batch in self._ledger.list_batches(self._job.id) if not batch.batch_id]
        if not lost:
            return
        listed = [
            batch
            for batch in self._iter_listed_batches()
            if batch.id not in self._foreign_ids and not self._ledger.is_batch_known(batch.id)
        ]
        for batch in lost:
            found = next((one for one in listed if _is_same_batch(one, batch)), None)
            if found is None:
                self._ledger.end_batch(batch.tag)
            else:
                listed.remove(found)
                self._ledger.set_batch_id(batch.tag, found.id)

    def _iter_listed_batches(self) -> Iterator[Batch]:
        cursor = ""
        while True:
            page = self._api.parse_list(self._client.fetch_document(partial(self._api.build_list_request, cursor)))
            yield from page.batches
            if not page.cursor or page.cursor == cursor:
                return
            cursor = page.cursor

    def poll(self) -> None:
        """Ask for the state of all batches once, and collect the results of the complete ones.

        Raises:
            AskError: one of them failed; the others are collected.
        """
        self._find_lost_batches()
        first_error = None
        for pending in self._ledger.list_batches(self._job.id):
            try:
                batch = self._parse_batch(
                    self._client.fetch_document(partial(self._api.build_poll_request, pending.batch_id))
                )
                self._done_rows[pending.tag] = batch.finished_count
                if batch.is_complete:
                    self._collect(pending, batch)
            except (NetworkError, ProviderError) as error:
                first_error = first_error or error
            else:
                self._last_success = time.monotonic()
        self._update_counts()
        if first_error:
            raise first_error

    def wait(
        self,
        on_progress: Callable[[], None],
        on_failure: Callable[[AskError], None],
        max_wait: float,
        interval: float | None = None,
    ) -> None:
        """Poll until all results are collected.

        Args:
            on_progress: is called after each poll.
            on_failure: is called with the error if a poll fails, and again only after one has not failed.
            max_wait: for how many seconds all polls may fail because of the network or the service.
            interval: seconds between polls; None for 2 seconds at first and a minute later.

        Raises:
            AskError: polls have failed for too long, or in a way that waiting does not change.
        """
        delay = FIRST_POLL_SECONDS if interval is None else interval
        self.is_waiting = True
        self._last_success, failures, has_failed = time.monotonic(), 0, False
        while True:
            begin = time.monotonic()
            try:
                self.poll()
                failures = 0
            except (NetworkError, ProviderError) as error:
                failures = 1 if self._last_success >= begin else failures + 1
                if not is_gone(error):
                    self._check_temporary(error, max_wait)
                elif failures >= MAX_GONE_POLLS:
                    raise
                if not has_failed:
                    on_failure(error)
            has_failed = failures > 0
            on_progress()
            if not failures and not self.pending_batches:
                self.is_waiting = False
                return
            time.sleep(delay)
            if interval is None:
                delay = min(delay * POLL_INTERVAL_FACTOR, MAX_POLL_SECONDS)

    def submit_with_retries(
        self, on_failure: Callable[[AskError], None], max_wait: float, interval: float | None = None
    ) -> None:
        """Submit rows, and try again while the service fails. The arguments are those of `wait`.

        A batch that a gateway reported as failed may appear in the provider's list only some time later.

        Raises:
            AskError: it has failed for too long, or in a way that waiting does not change.
        """
        delay = min(MAX_POLL_SECONDS, max_wait) if interval is None else interval
        self._last_success, batch_count, has_failed = time.monotonic(), self.submitted_batches, False
        while True:
            try:
                self.submit()
            except (NetworkError, ProviderError) as error:
                if self.submitted_batches > batch_count:
                    self._last_success, batch_count, has_failed = time.monotonic(), self.submitted_batches, False
                if not self._may_submit_again(error):
                    raise
                requested = error.retry_action.delay if isinstance(error, ProviderError) else None
                pause = max(delay, requested or 0.0)
                self._check_temporary(error, max_wait - (requested or 0.0))
                if not has_failed:
                    on_failure(error)
                has_failed = self.is_waiting = True
            else:
                self.is_waiting = False
                return
            time.sleep(pause)

    def _may_submit_again(self, error: NetworkError | ProviderError) -> bool:
        """Check that an error is not from a wrong address, and not from a service that may have accepted the batch.

        After a failure that leaves this open, the batch is looked for in the provider's list. A service whose answer is
        not a batch may have no such list.
        """
        if classify_failure(error) == "unreachable" and not self.submitted_batches:
            return False
        return isinstance(error, NetworkError) or (error.status or 0) >= 300

    def _check_temporary(self, error: AskError, max_wait: float) -> None:
        """Raise an error of a request unless it may be over some time later, within `max_wait` seconds."""
        if classify_failure(error) not in TEMPORARY_FAILURES:
            raise error
        if time.monotonic() - self._last_success >= max_wait:
            raise NetworkError(error.summary, "--wait allows a longer outage") from error

    def cancel(self) -> None:
        """Cancel all batches. They end once the provider has finished the requests that it is working on.

        Raises:
            UsageError: there is no batch, or the provider cannot cancel one.
        """
        self._find_lost_batches()
        pending = self._ledger.list_batches(self._job.id)
        if not pending:
            raise UsageError("no rows of this job are in progress")
        for one in pending:
            try:
                build = partial(self._api.build_cancel_request, one.batch_id)
                canceled = self._client.fetch_document(build, final_statuses=ENDED_STATUSES)
            except ProviderError as error:
                if is_gone(error):
                    self._end_batch(one, self._ledger.find_batch_rows(one.tag).values(), error.summary)
                elif error.status not in ENDED_STATUSES:
                    raise
                continue
            if canceled is None:
                name = self._client.provider.info.title
                raise UsageError(f"{name} cannot cancel a batch", "leave out --cancel to collect its results")
        self._update_counts()

    def _collect(self, pending: PendingBatch, batch: Batch) -> None:
        """Save the results of a complete batch. Rows without a result fail."""
        keys = self._ledger.find_batch_rows(pending.tag)
        saved_keys = self._ledger.find_saved_batch_rows(pending.tag)  # before a download was cut off
        missing = set(keys)
        status, reason = UNAVAILABLE, batch.error or "the batch ended without an answer to this row"
        # A gateway may give the results of our batch other ids.
        is_certain = batch.tag == pending.tag or batch.id in self._created_ids
        results = self._iter_results(batch)
        try:
            while group := list(islice(results, BATCH_ROWS)):
                numbers = [_parse_number(pending.tag, result.custom_id) for result in group]
                if not is_certain and len(missing) == len(keys) and set(numbers) == {None}:  # one like our batch
                    self._foreign_ids.add(batch.id)
                    self._ledger.set_batch_id(pending.tag, "")
                    return
                # Of several results of a row, a response is kept.
                ordered = sorted(zip(numbers, group, strict=True), key=lambda entry: entry[1].response is not None)
                numbered = {number: result for number, result in ordered if number in missing}
                missing.difference_update(numbered)
                self._save_results(
                    [
                        (keys[number], self._convert_result(result, number))
                        for number, result in numbered.items()
                        if keys[number] not in saved_keys
                    ]
                )
        except ProviderError as error:
            if not (is_gone(error) and self._count_missed_poll(pending)):
                raise
            status, reason = FAILED, error.summary  # the answers may be paid for
        self._end_batch(pending, [keys[number] for number in sorted(missing)], reason, status)

    def _count_missed_poll(self, pending: PendingBatch) -> bool:
        """Count a poll that missed a batch's results; return whether to give up, after too many in a row."""
        self._gone_polls[pending.tag] = self._gone_polls.get(pending.tag, 0) + 1
        return self._gone_polls[pending.tag] >= MAX_GONE_POLLS

    def _end_batch(
        self, pending: PendingBatch, unanswered: Iterable[RowKey], reason: str, status: Status = FAILED
    ) -> None:
        self._save_results([(key, RowResult(status, error=reason)) for key in unanswered])
        self._ledger.end_batch(pending.tag)

    def _iter_results(self, batch: Batch) -> Iterator[BatchResult]:
        for number, entry in enumerate(self._api.build_results_requests(batch, "")):
            # The default value keeps the number of this iteration.
            def build(key: str, number: int = number) -> Any:
                return self._api.build_results_requests(batch, key)[number].request

            if entry.is_jsonl:
                for value in self._client.fetch_lines(build):
                    yield from self._api.parse_results(value)
                continue
            body = self._client.fetch_document(build)
            while body is not None:
                yield from self._api.parse_results(body)
                body = self._client.fetch_document(partial(self._api.build_next_results_request, batch, body))

    def _convert_result(self, result: BatchResult, number: int) -> RowResult:
        row = RowResult(UNAVAILABLE if result.is_unavailable else FAILED, error=result.error)
        if result.response is None:
            return row
        try:
            parsed = self._client.parse_response(self._build_chat_request(Message("user", "")), result.response)
            # Only Anthropic's answers report that they are from a batch; OpenAI's report the default tier.
            usage = parsed.answer.usage
            usage = usage if usage == Usage() else usage._replace(service_tier=self._service_tier)
            row = row.add_usage(usage._replace(cost=self._calculate_cost(usage)))
            schema = self._job.requests[0].response_schema
            citations = select_final_citations(parsed.answer)
            citations = remove_positions(citations) if schema else citations
            row = row._replace(citations=citations_to_json(citations))
            if parsed.error:
                part, reason = parsed.answer.final_text, parsed.answer.finish_reason
                row = row._replace(answer=part, finish_reason=reason, error=str(parsed.error))
                if isinstance(parsed.error, ProviderError) and classify_failure(parsed.error) in TEMPORARY_FAILURES:
                    row = row._replace(status=UNAVAILABLE)
                return save_row_files(self._job, row, parsed.answer.attachments, number + 1)
            if parsed.answer.finish_reason is FinishReason.CONTINUE:
                raise IncompleteResponseError("the service paused the answer", "run the job without --batch")
            answer = schema.extract_json(parsed.answer.final_text) if schema else parsed.answer.final_text
            row = row._replace(answer=answer, finish_reason=parsed.answer.finish_reason)
            row = save_row_files(self._job, row, parsed.answer.attachments, number + 1)
        except FileError as error:
            return row._replace(error=str(error))
        except AskError as error:
            return row._replace(error=str(error), answer="", finish_reason="")
        return row._replace(status="answered", error="")

    def _update_counts(self) -> None:
        pending = self._ledger.list_batches(self._job.id)
        self.pending_batches = len(pending)
        self.pending_rows = sum(batch.row_count for batch in pending)
        self.done_rows = sum(self._done_rows.get(batch.tag, 0) for batch in pending)


def get_batch_api(provider: LoadedProvider) -> BatchApi:
    """Return a provider's batch API.

    Raises:
        UsageError: the provider has none.
    """
    api = provider.get_batch_api()
    if api is None:
        raise UsageError(f"{provider.info.title} has no batch API", "leave out --batch")
    return api


def _is_same_batch(listed: Batch, lost: PendingBatch) -> bool:
    """Check whether a batch in the provider's list may be a lost one.

    A provider that does not return tags leaves it open until the results arrive.
    """
    if listed.tag:
        return listed.tag == lost.tag
    is_older = listed.created is not None and listed.created < lost.created - CLOCK_TOLERANCE_SECONDS
    return not is_older and listed.request_count in (None, lost.row_count)


def is_gone(error: AskError) -> bool:
    """Check whether a service no longer has a batch or its results."""
    return isinstance(error, ProviderError) and error.status in GONE_STATUSES and error.is_from_api


def _parse_number(tag: str, custom_id: str) -> int | None:
    """Return the position of a row in a batch; None if the id is not one of the batch."""
    number = custom_id.removeprefix(f"{tag}-")
    return int(number) if number != custom_id and number.isdigit() else None
