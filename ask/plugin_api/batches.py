"""The types of `provider_batch`: a batch API, which answers many requests within a day for less money."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from ask.parsing import format_error_message, read_dict, read_int, read_list, read_number, read_str
from ask.plugin_api.provider import HttpRequest
from ask.records import NamedTuple

FINAL_STATUSES = ("completed", "failed", "expired", "cancelled")
"""The statuses of complete batches in OpenAI's format."""


class BatchRequest(NamedTuple):
    """One request of a batch.

    Attributes:
        custom_id: its id, which the result has, too: at most 64 letters, digits, "_" and "-".
        path: the path of the `HttpRequest` that `provider_build_request` returned.
        body: its body.
    """

    custom_id: str
    path: str
    body: Mapping[str, Any]


class Batch(NamedTuple):
    """The state of a batch.

    Attributes:
        id: the service's id.
        is_complete: whether no further request will be answered: all are, or the batch has expired, failed or was
            canceled.
        tag: the tag that it was created with; "" if the service does not return it.
        created: when it was created, in seconds since 1970; None if it is not reported.
        request_count: the number of requests; None if it is not reported.
        finished_count: how many of them are finished.
        error: why the service rejected the whole batch; "" if it did not.
        result_files: the ids of the files with the results, for services that have such files.
    """

    id: str
    is_complete: bool
    tag: str = ""
    created: float | None = None
    request_count: int | None = None
    finished_count: int = 0
    error: str = ""
    result_files: tuple[str, ...] = ()


class BatchPage(NamedTuple):
    """One page of a list of batches; `cursor` is "" on the last one."""

    batches: Sequence[Batch]
    cursor: str = ""


class BatchResult(NamedTuple):
    """The result of one request: a response for `provider_parse_response`, or an error message."""

    custom_id: str
    response: Mapping[str, Any] | None = None
    error: str = ""


class ResultsRequest(NamedTuple):
    """A request for results. With `is_jsonl`, each line of the response is a JSON value, else the whole response is."""

    request: HttpRequest
    is_jsonl: bool = False


class BatchApi:
    """The batch API of a service: builds its requests and parses its responses. It does no I/O.

    ask creates a batch with `build_create_request`, after `build_upload_request` if that returns a request. It asks for
    the state with `build_poll_request` until the batch is complete, and then for the results.

    Args:
        build_headers: returns the headers of a request for an API key.

    Attributes:
        max_requests: the limit for the requests of one batch.
        max_bytes: the limit for their size as JSON.
        path: the path to which a batch's id is appended.
        list_path: the path of the list of batches, with a query.
        cursor_parameter: the parameter for the cursor of a page of the list.
        tag_field: the field of a batch's metadata that contains the tag, if the service stores metadata.
        cancel_suffix: what is appended to a batch's path to cancel it; "" if the service cannot.
    """

    max_requests = 50_000
    max_bytes = 100_000_000
    path = "/batches"
    list_path = "/batches?limit=100"
    cursor_parameter = "after"
    tag_field = "ask_batch"
    cancel_suffix = ""

    def __init__(self, build_headers: Callable[[str], Mapping[str, str]]) -> None:
        self.build_headers = build_headers

    def build_upload_request(self, requests: Sequence[BatchRequest], tag: str, key: str) -> HttpRequest | None:
        """Return the request that uploads the requests as a file; None, the default, if the create request has them."""
        return None

    def parse_upload(self, body: Any) -> str:
        """Return the id of the uploaded file."""
        raise NotImplementedError

    def build_create_request(self, requests: Sequence[BatchRequest], tag: str, file_id: str, key: str) -> HttpRequest:
        """Return the request that creates a batch.

        Args:
            requests: its requests.
            tag: identifies it: it is found again by this tag in the list of batches.
            file_id: the id of the uploaded file with the requests; "" without one.
            key: the API key.
        """
        raise NotImplementedError

    def build_get_request(self, path: str, key: str) -> HttpRequest:
        """Return a GET request."""
        return HttpRequest(path, None, self.build_headers(key), "GET")

    def build_poll_request(self, batch_id: str, key: str) -> HttpRequest:
        """Return the request for the state of a batch."""
        return self.build_get_request(f"{self.path}/{quote(batch_id)}", key)

    def parse_batch(self, body: Any) -> Batch:
        """Parse the response to a create, poll or cancel request, by default in OpenAI's format."""
        batch = read_dict(body)
        counts = read_dict(batch.get("request_counts"))
        errors = [batch.get("error"), *read_list(read_dict(batch.get("errors")).get("data"))]
        files = (read_str(batch.get(name)) for name in ("output_file_id", "error_file_id"))
        return Batch(
            read_str(batch.get("id")),
            batch.get("status") in FINAL_STATUSES,
            read_str(read_dict(batch.get("metadata")).get(self.tag_field)),
            read_number(batch.get("created_at")),
            read_int(counts.get("total")) or None,  # 0 until the file is validated
            (read_int(counts.get("completed")) or 0) + (read_int(counts.get("failed")) or 0),
            "; ".join(filter(None, dict.fromkeys(map(format_error_message, errors)))),
            tuple(filter(None, files)),
        )

    def build_list_request(self, cursor: str, key: str) -> HttpRequest:
        """Return the request for a page of the list of batches; `cursor` is "" for the first one."""
        page = f"&{self.cursor_parameter}={quote(cursor, safe='')}" if cursor else ""
        return self.build_get_request(self.list_path + page, key)

    def parse_list(self, body: Any) -> BatchPage:
        """Parse a page of the list of batches, by default in OpenAI's format."""
        page = read_dict(body)
        batches = [self.parse_batch(batch) for batch in read_list(page.get("data"))]
        return BatchPage(batches, read_str(page.get("last_id")) if page.get("has_more") else "")

    def build_cancel_request(self, batch_id: str, key: str) -> HttpRequest | None:
        """Return the request that cancels a batch; None for a service that cannot."""
        if not self.cancel_suffix:
            return None
        return HttpRequest(f"{self.path}/{quote(batch_id)}{self.cancel_suffix}", None, self.build_headers(key))

    def build_results_requests(self, batch: Batch, key: str) -> list[ResultsRequest]:
        """Return the requests for the results of a complete batch, which may come in any order.

        By default, they are in the response to the poll request.
        """
        return [ResultsRequest(self.build_poll_request(batch.id, key))]

    def build_next_results_request(self, batch: Batch, body: Any, key: str) -> HttpRequest | None:
        """Return the request for the page of results after `body`; None, the default, if there is none."""
        return None

    def parse_results(self, body: Any) -> list[BatchResult]:
        """Parse a JSON value of a response with results."""
        raise NotImplementedError
