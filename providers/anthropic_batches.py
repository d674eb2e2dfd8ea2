"""Anthropic's Message Batches API. https://platform.claude.com/docs/en/build-with-claude/batch-processing

A batch has no metadata, so a lost one can be recognized only by its number of requests, and, once it has ended, by
the ids in its results.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote

from ask import HttpRequest
from ask.batches import Batch, BatchApi, BatchRequest, BatchResult, ResultsRequest
from ask.parsing import find_error, format_error_message, read_dict, read_int, read_str

PATH = "/v1/messages/batches"
MESSAGES = {
    "expired": "the batch expired before this request was sent",
    "canceled": "the batch was canceled before this request was sent",
}
"""Messages by type of result."""


class AnthropicBatchApi(BatchApi):
    """Anthropic's Message Batches API."""

    max_requests = 100_000
    max_bytes = 256_000_000
    path = PATH
    list_path = f"{PATH}?limit=1000"
    cursor_parameter = "after_id"
    cancel_suffix = "/cancel"

    def build_create_request(self, requests: Sequence[BatchRequest], tag: str, file_id: str, key: str) -> HttpRequest:
        body = {"requests": [{"custom_id": one.custom_id, "params": one.body} for one in requests]}
        return HttpRequest(PATH, body, self.build_headers(key))

    def parse_batch(self, body: Any) -> Batch:
        batch = read_dict(body)
        counts = {name: read_int(count) or 0 for name, count in read_dict(batch.get("request_counts")).items()}
        total = sum(counts.values())
        return Batch(
            read_str(batch.get("id")),
            batch.get("processing_status") == "ended",
            created=parse_time(read_str(batch.get("created_at"))),
            request_count=total or None,
            finished_count=total - counts.get("processing", 0),
        )

    def build_results_requests(self, batch: Batch, key: str) -> list[ResultsRequest]:
        # The documented address of `results_url`, which is relative to the base URL here, so that a gateway works.
        path = f"{PATH}/{quote(batch.id)}/results"
        return [ResultsRequest(self.build_get_request(path, key), is_jsonl=True)]

    def parse_results(self, body: Any) -> list[BatchResult]:
        line = read_dict(body)
        custom_id, result = read_str(line.get("custom_id")), read_dict(line.get("result"))
        result_type = read_str(result.get("type"))
        if result_type == "succeeded":
            return [BatchResult(custom_id, read_dict(result.get("message")))]
        message = MESSAGES.get(result_type) or format_error_message(find_error(read_dict(result.get("error"))))
        return [BatchResult(custom_id, error=message or result_type or "no explanation")]


def parse_time(text: str) -> float | None:
    """Parse a time in the format of RFC 3339."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None
