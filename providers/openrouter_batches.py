"""OpenRouter's Batch API. https://openrouter.ai/docs/batch-quickstart

A batch is for one model and cannot be canceled. It has no metadata, so a lost one can be recognized only by its number
of requests, and, once it has ended, by the ids in its results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ask import HttpRequest
from ask.batches import BatchApi, BatchRequest, BatchResult
from ask.parsing import find_error, format_error_message, read_dict, read_list, read_str


class OpenRouterBatchApi(BatchApi):
    """OpenRouter's Batch API."""

    max_requests = 5_000

    def build_create_request(self, requests: Sequence[BatchRequest], tag: str, file_id: str, key: str) -> HttpRequest:
        entries = [
            {"custom_id": one.custom_id, "body": {name: one.body[name] for name in one.body if name != "model"}}
            for one in requests
        ]
        # The body is read as a stream, so the requests come last.
        body = {
            "endpoint": f"/v1{requests[0].path}",
            "model": requests[0].body["model"],
            "completion_window": "24h",
            "requests": entries,
        }
        return HttpRequest("/batches", body, self.build_headers(key))

    def parse_results(self, body: Any) -> list[BatchResult]:
        return [parse_result(read_dict(result)) for result in read_list(read_dict(body).get("results"))]


def parse_result(result: dict[str, Any]) -> BatchResult:
    custom_id, response = read_str(result.get("custom_id")), read_dict(result.get("response"))
    body = read_dict(response.get("body"))
    error = result.get("error") or find_error(body)
    if error or not body:
        return BatchResult(custom_id, error=format_error_message(error) or "no explanation")
    return BatchResult(custom_id, body)
