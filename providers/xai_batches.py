"""xAI's Batch API. https://docs.x.ai/developers/advanced-api-usage/batch-api

The requests are uploaded in OpenAI's format. Unlike OpenAI's, a batch has counts in place of a status, and the results
are pages of JSON. The responses are those of Chat Completions, also to requests in the format of the Responses API.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from ask import HttpRequest
from ask.batches import Batch, BatchPage, BatchRequest, BatchResult, ResultsRequest
from ask.parsing import format_error_message, read_dict, read_int, read_list, read_str

from .openai_batches import OpenAIBatchApi


class XAIBatchApi(OpenAIBatchApi):
    """xAI's Batch API."""

    cursor_parameter = "pagination_token"
    cancel_suffix = ":cancel"

    def build_create_request(self, requests: Sequence[BatchRequest], tag: str, file_id: str, key: str) -> HttpRequest:
        return HttpRequest("/batches", {"name": tag, "input_file_id": file_id}, self.build_headers(key))

    def parse_batch(self, body: Any) -> Batch:
        batch = read_dict(body)
        state = read_dict(batch.get("state"))
        total, pending = (read_int(state.get(name)) or 0 for name in ("num_requests", "num_pending"))
        rejection = read_str(batch.get("cancel_by_xai_message"))
        # The counts are 0 until the file has been read. A canceled batch may still finish requests.
        is_complete = bool(rejection) or (not pending if total else bool(batch.get("cancel_time")))
        return Batch(
            read_str(batch.get("batch_id")),
            is_complete,
            read_str(batch.get("name")),
            None,  # the API returns only the day
            total or None,
            total - pending,
            rejection,
        )

    def parse_list(self, body: Any) -> BatchPage:
        page = read_dict(body)
        batches = [self.parse_batch(batch) for batch in read_list(page.get("batches"))]
        return BatchPage(batches, read_str(page.get("pagination_token")))

    def build_results_requests(self, batch: Batch, key: str) -> list[ResultsRequest]:
        return [ResultsRequest(self.build_page_request(batch.id, "", key))]

    def build_page_request(self, batch_id: str, cursor: str, key: str) -> HttpRequest:
        """Return the request for a page of results."""
        page = f"&pagination_token={quote(cursor, safe='')}" if cursor else ""
        return self.build_get_request(f"/batches/{quote(batch_id)}/results?limit=1000{page}", key)

    def build_next_results_request(self, batch: Batch, body: Any, key: str) -> HttpRequest | None:
        cursor = read_str(read_dict(body).get("pagination_token"))
        return self.build_page_request(batch.id, cursor, key) if cursor else None

    def parse_results(self, body: Any) -> list[BatchResult]:
        return [parse_result(read_dict(result)) for result in read_list(read_dict(body).get("results"))]


def parse_result(result: dict[str, Any]) -> BatchResult:
    """Parse one result; a response is wrapped in an object whose only field names the kind of the request."""
    custom_id, content = read_str(result.get("batch_request_id")), read_dict(result.get("batch_result"))
    responses = [read_dict(response) for response in read_dict(content.get("response")).values()]
    if responses:
        return BatchResult(custom_id, responses[0])
    return BatchResult(custom_id, error=format_error_message(content.get("error")) or "no explanation")
