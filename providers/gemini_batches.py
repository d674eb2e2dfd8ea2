"""Gemini's Batch API. https://ai.google.dev/gemini-api/docs/batch-api and https://ai.google.dev/api/batch-api

Up to 20 MB of requests are sent inline, and the results are in the batch. More are uploaded as a JSONL file, and the
results are in another one. Files are deleted after two days (https://ai.google.dev/gemini-api/docs/files).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from ask import HttpRequest
from ask.batches import Batch, BatchApi, BatchPage, BatchRequest, BatchResult, ResultsRequest
from ask.parsing import format_error_message, read_dict, read_int, read_list, read_str

FINAL_STATES = ("SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED")
ID_FIELD = "key"
"""The field of a line, or of an inline request's metadata, with the id of the request."""
FILE_TYPE = "application/jsonl"
MAX_INLINE_BYTES = 19_000_000


class GeminiBatchApi(BatchApi):
    """Gemini's Batch API."""

    max_bytes = 2_000_000_000
    path = "/v1beta"
    list_path = "/v1beta/batches?pageSize=100"
    cursor_parameter = "pageToken"
    cancel_suffix = ":cancel"

    def build_upload_request(self, requests: Sequence[BatchRequest], tag: str, key: str) -> HttpRequest | None:
        """Return the request that uploads the requests as a file; None if they can be sent inline.

        Metadata and file are sent in one request, as Google's JavaScript SDK does:
        https://github.com/google-gemini/generative-ai-js/blob/main/packages/main/src/server/file-manager.ts
        """
        lines = (json.dumps({ID_FIELD: one.custom_id, "request": one.body}, separators=(",", ":")) for one in requests)
        data = "\n".join(lines).encode()
        if len(data) <= MAX_INLINE_BYTES:
            return None
        metadata = json.dumps({"file": {"displayName": tag, "mimeType": FILE_TYPE}})
        # The tag, which is random, does not occur in the file.
        content = b"".join(
            [
                f"--{tag}\r\nContent-Type: application/json; charset=utf-8\r\n\r\n{metadata}\r\n".encode(),
                f"--{tag}\r\nContent-Type: {FILE_TYPE}\r\n\r\n".encode(),
                data,
                f"\r\n--{tag}--\r\n".encode(),
            ]
        )
        headers = {
            **self.build_headers(key),
            "Content-Type": f"multipart/related; boundary={tag}",
            "X-Goog-Upload-Protocol": "multipart",
        }
        return HttpRequest("/upload/v1beta/files", None, headers, content=content)

    def parse_upload(self, body: Any) -> str:
        return read_str(read_dict(read_dict(body).get("file")).get("name"))

    def build_create_request(self, requests: Sequence[BatchRequest], tag: str, file_id: str, key: str) -> HttpRequest:
        input_config: dict[str, Any] = {"fileName": file_id}
        if not file_id:
            entries = [{"request": one.body, "metadata": {ID_FIELD: one.custom_id}} for one in requests]
            input_config = {"requests": {"requests": entries}}
        body = {"batch": {"displayName": tag, "inputConfig": input_config}}
        path = requests[0].path.rpartition(":")[0]
        return HttpRequest(f"{path}:batchGenerateContent", body, self.build_headers(key))

    def parse_batch(self, body: Any) -> Batch:
        """Parse a batch, which may be wrapped in an operation."""
        operation = read_dict(body)
        batch = read_dict(operation.get("metadata")) or operation
        statistics = read_dict(batch.get("batchStats"))
        total, pending = (read_int(statistics.get(f"{name}Count")) for name in ("request", "pendingRequest"))
        return Batch(
            read_str(operation.get("name")) or read_str(batch.get("name")),
            read_str(batch.get("state")).endswith(FINAL_STATES),
            read_str(batch.get("displayName")),
            request_count=total,
            finished_count=(total or 0) - (pending or 0),
            error=format_error_message(operation.get("error")),
            result_files=tuple(filter(None, [read_str(read_output(operation).get("responsesFile"))])),
        )

    def parse_list(self, body: Any) -> BatchPage:
        page = read_dict(body)
        batches = [self.parse_batch(operation) for operation in read_list(page.get("operations"))]
        return BatchPage(batches, read_str(page.get("nextPageToken")))

    def build_results_requests(self, batch: Batch, key: str) -> list[ResultsRequest]:
        if not batch.result_files:
            return super().build_results_requests(batch, key)
        paths = (f"/download/v1beta/{quote(file_id)}:download?alt=media" for file_id in batch.result_files)
        return [ResultsRequest(self.build_get_request(path, key), is_jsonl=True) for path in paths]

    def parse_results(self, body: Any) -> list[BatchResult]:
        """Parse a line of a results file, or the inline results of a batch."""
        value = read_dict(body)
        if ID_FIELD in value:
            return [parse_result(value)]
        entries = read_list(read_dict(read_output(value).get("inlinedResponses")).get("inlinedResponses"))
        return [parse_result(read_dict(entry)) for entry in entries]


def read_output(operation: dict[str, Any]) -> dict[str, Any]:
    """Return the output of a batch, which an operation may wrap. Its `response` is then the output, too."""
    batch = read_dict(operation.get("metadata")) or operation
    return read_dict(batch.get("output")) or read_dict(operation.get("response"))


def parse_result(entry: dict[str, Any]) -> BatchResult:
    custom_id = read_str(entry.get(ID_FIELD)) or read_str(read_dict(entry.get("metadata")).get(ID_FIELD))
    response = read_dict(entry.get("response"))
    if response:
        return BatchResult(custom_id, response)
    return BatchResult(custom_id, error=format_error_message(entry.get("error")) or "no explanation")
