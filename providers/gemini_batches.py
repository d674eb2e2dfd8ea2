"""Gemini's Batch API. https://ai.google.dev/gemini-api/docs/batch-api and https://ai.google.dev/api/batch-api

The requests are sent inline, which the API allows up to 20 MB; more requests become more batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ask import HttpRequest
from ask.batches import Batch, BatchApi, BatchPage, BatchRequest, BatchResult
from ask.parsing import format_error_message, read_dict, read_int, read_list, read_str

FINAL_STATES = ("SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED")
ID_FIELD = "key"
"""The field of a request's metadata with its id."""


class GeminiBatchApi(BatchApi):
    """Gemini's Batch API, with inline requests."""

    max_bytes = 19_000_000
    path = "/v1beta"
    list_path = "/v1beta/batches?pageSize=100"
    cursor_parameter = "pageToken"
    cancel_suffix = ":cancel"

    def build_create_request(self, requests: Sequence[BatchRequest], tag: str, file_id: str, key: str) -> HttpRequest:
        entries = [{"request": one.body, "metadata": {ID_FIELD: one.custom_id}} for one in requests]
        body = {"batch": {"displayName": tag, "inputConfig": {"requests": {"requests": entries}}}}
        path = requests[0].path.rpartition(":")[0]
        return HttpRequest(f"{path}:batchGenerateContent", body, self.build_headers(key))

    def parse_batch(self, body: Any) -> Batch:
        """Parse a batch, which may be wrapped in an operation."""
        operation = read_dict(body)
        batch = read_dict(operation.get("metadata")) or operation
        statistics = read_dict(batch.get("batchStats"))
        total, pending = (read_number_text(statistics.get(f"{name}Count")) for name in ("request", "pendingRequest"))
        return Batch(
            read_str(operation.get("name")) or read_str(batch.get("name")),
            read_str(batch.get("state")).endswith(FINAL_STATES),
            read_str(batch.get("displayName")),
            request_count=total,
            finished_count=(total or 0) - (pending or 0),
            error=format_error_message(operation.get("error")),
        )

    def parse_list(self, body: Any) -> BatchPage:
        page = read_dict(body)
        batches = [self.parse_batch(operation) for operation in read_list(page.get("operations"))]
        return BatchPage(batches, read_str(page.get("nextPageToken")))

    def parse_results(self, body: Any) -> list[BatchResult]:
        """Parse the results in a batch, which are in `output` and, in an operation, also in `response`."""
        operation = read_dict(body)
        batch = read_dict(operation.get("metadata")) or operation
        output = read_dict(batch.get("output")) or read_dict(operation.get("response"))
        entries = read_list(read_dict(output.get("inlinedResponses")).get("inlinedResponses"))
        return [parse_result(read_dict(entry)) for entry in entries]


def parse_result(entry: dict[str, Any]) -> BatchResult:
    custom_id = read_str(read_dict(entry.get("metadata")).get(ID_FIELD))
    response = read_dict(entry.get("response"))
    if response:
        return BatchResult(custom_id, response)
    return BatchResult(custom_id, error=format_error_message(entry.get("error")) or "no explanation")


def read_number_text(value: Any) -> int | None:
    """Read a count, which Google's JSON writes as a string."""
    return int(value) if isinstance(value, str) and value.isdigit() else read_int(value)
