"""The vendors' batch APIs: requests that are answered within a day, for less money.

Anthropic and OpenRouter store no name or metadata of a batch. There, a lost one can be recognized only by its number of
requests, and, once it has ended, by the ids in its results.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote

from ask import Batch, BatchApi, BatchPage, BatchRequest, BatchResult, HttpRequest, ResultsRequest
from ask.parsing import find_error, format_error_message, read_dict, read_int, read_list, read_number, read_str

JSONL_TYPE = "application/jsonl"


def build_multipart(boundary: str, *parts: tuple[str, bytes]) -> bytes:
    """Return a multipart body. Each part is its headers and its data, in which the boundary must not occur."""
    pieces = [
        piece for headers, data in parts for piece in (f"--{boundary}\r\n{headers}\r\n\r\n".encode(), data, b"\r\n")
    ]
    return b"".join([*pieces, f"--{boundary}--\r\n".encode()])


SERVICE_STATUSES = (408, 429, 500, 502, 503, 504, 529)
SERVICE_ERRORS = (
    *("batch_expired", "server_error", "api_error", "overloaded_error", "rate_limit_error", "timeout_error"),
    *SERVICE_STATUSES,
    *(4, 8, 13, 14),
)
"""Codes and types of errors that are the service's own. The numbers below 100 are Google's, for a deadline that has
passed, an exhausted resource, an internal error and an unavailable service:
https://github.com/googleapis/googleapis/blob/master/google/rpc/code.proto
"""


def is_service_error(error: Any) -> bool:
    """Check whether the same request may succeed some time later."""
    details = read_dict(error)
    return any(details.get(name) in SERVICE_ERRORS for name in ("code", "type"))


def make_result(custom_id: str, response: dict[str, Any], error: Any) -> BatchResult:
    """Return the result of a request: its response, or the message of its error if there is none."""
    if response:
        return BatchResult(custom_id, response)
    return BatchResult(custom_id, None, format_error_message(error) or "no explanation", is_service_error(error))


ANTHROPIC_PATH = "/v1/messages/batches"
ANTHROPIC_MESSAGES = {
    "expired": "the batch expired before this request was sent",
    "canceled": "the batch was canceled before this request was sent",
}
"""Messages by type of result, for the types that have none of their own."""


class AnthropicBatchApi(BatchApi):
    """Anthropic's Message Batches API. https://platform.claude.com/docs/en/build-with-claude/batch-processing"""

    max_requests = 100_000
    max_bytes = 256_000_000
    path = ANTHROPIC_PATH
    list_path = f"{ANTHROPIC_PATH}?limit=1000"
    cursor_parameter = "after_id"
    cancel_suffix = "/cancel"

    def build_create_request(self, requests: Sequence[BatchRequest], tag: str, file_id: str, key: str) -> HttpRequest:
        body = {"requests": [{"custom_id": request.custom_id, "params": request.body} for request in requests]}
        return HttpRequest(ANTHROPIC_PATH, body, self.build_headers(key))

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
        path = f"{ANTHROPIC_PATH}/{quote(batch.id)}/results"
        return [ResultsRequest(self.build_get_request(path, key), is_jsonl=True)]

    def parse_results(self, body: Any) -> list[BatchResult]:
        line = read_dict(body)
        custom_id, result = read_str(line.get("custom_id")), read_dict(line.get("result"))
        result_type = read_str(result.get("type"))
        if result_type == "succeeded":
            return [BatchResult(custom_id, read_dict(result.get("message")))]
        error = find_error(read_dict(result.get("error")))
        message = ANTHROPIC_MESSAGES.get(result_type) or format_error_message(error)
        is_unavailable = result_type in ANTHROPIC_MESSAGES or is_service_error(error)
        return [BatchResult(custom_id, None, message or result_type or "no explanation", is_unavailable)]


def parse_time(text: str) -> float | None:
    """Parse a time in the format of RFC 3339."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


OPENAI_MESSAGES = {"batch_expired": "the batch expired before this request was sent"}
"""Messages by error code that are clearer than the service's own."""
OPENAI_PREFIX = "/v1"
"""The `url` of a request includes the version, which is otherwise a part of the base URL."""


class OpenAIBatchApi(BatchApi):
    """OpenAI's Batch API. https://developers.openai.com/api/docs/guides/batch

    The requests are uploaded as a JSONL file. The results are in two files, one with the responses and one with the
    errors; an expired or canceled batch has those of the requests that were finished.
    """

    max_bytes = 200_000_000
    cancel_suffix = "/cancel"

    def build_upload_request(self, requests: Sequence[BatchRequest], tag: str, key: str) -> HttpRequest | None:
        lines = (
            {
                "custom_id": request.custom_id,
                "method": "POST",
                "url": OPENAI_PREFIX + request.path,
                "body": request.body,
            }
            for request in requests
        )
        data = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines).encode()
        # The tag, which is random, does not occur in the file.
        file_part = f'Content-Disposition: form-data; name="file"; filename="{tag}.jsonl"\r\nContent-Type: {JSONL_TYPE}'
        content = build_multipart(tag, ('Content-Disposition: form-data; name="purpose"', b"batch"), (file_part, data))
        headers = {**self.build_headers(key), "Content-Type": f"multipart/form-data; boundary={tag}"}
        return HttpRequest("/files", None, headers, content=content)

    def parse_upload(self, body: Any) -> str:
        return read_str(read_dict(body).get("id"))

    def build_create_request(self, requests: Sequence[BatchRequest], tag: str, file_id: str, key: str) -> HttpRequest:
        body = {
            "input_file_id": file_id,
            "endpoint": OPENAI_PREFIX + requests[0].path,
            "completion_window": "24h",
            "metadata": {self.tag_field: tag},
        }
        return HttpRequest("/batches", body, self.build_headers(key))

    def build_results_requests(self, batch: Batch, key: str) -> list[ResultsRequest]:
        paths = (f"/files/{quote(file_id)}/content" for file_id in batch.result_files)
        return [ResultsRequest(self.build_get_request(path, key), is_jsonl=True) for path in paths]

    def parse_results(self, body: Any) -> list[BatchResult]:
        line = read_dict(body)
        custom_id, response = read_str(line.get("custom_id")), read_dict(line.get("response"))
        response_body = read_dict(response.get("body"))
        status = read_int(response.get("status_code")) or 200
        error = line.get("error") or (find_error(response_body) if status >= 400 else None)
        if error or status >= 400:
            code = read_str(read_dict(error).get("code"))
            message = OPENAI_MESSAGES.get(code) or format_error_message(error) or f"HTTP status {status}"
            return [BatchResult(custom_id, None, message, status in SERVICE_STATUSES or is_service_error(error))]
        return [BatchResult(custom_id, response_body)]


class XAIBatchApi(OpenAIBatchApi):
    """xAI's Batch API. https://docs.x.ai/developers/advanced-api-usage/batch-api

    The requests are uploaded in OpenAI's format. Unlike OpenAI's, a batch has counts in place of a status, and the
    results are pages of JSON. The responses are those of Chat Completions, also to requests in the format of the
    Responses API.
    """

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
        """Parse a page of results. The only field of each response names the kind of its request."""
        results = []
        for entry in map(read_dict, read_list(read_dict(body).get("results"))):
            custom_id, content = read_str(entry.get("batch_request_id")), read_dict(entry.get("batch_result"))
            responses = [read_dict(response) for response in read_dict(content.get("response")).values()]
            failure = make_result(custom_id, {}, content.get("error"))
            results.append(BatchResult(custom_id, responses[0]) if responses else failure)
        return results


class OpenRouterBatchApi(BatchApi):
    """OpenRouter's Batch API. https://openrouter.ai/docs/batch-quickstart

    A batch is for one model and cannot be canceled.
    """

    max_requests = 5_000

    def build_create_request(self, requests: Sequence[BatchRequest], tag: str, file_id: str, key: str) -> HttpRequest:
        entries = [
            {
                "custom_id": request.custom_id,
                "body": {name: request.body[name] for name in request.body if name != "model"},
            }
            for request in requests
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
        results, responses = [], []
        for entry in map(read_dict, read_list(read_dict(body).get("results"))):
            response_body = read_dict(read_dict(entry.get("response")).get("body"))
            error = entry.get("error") or find_error(response_body)
            responses += [] if error else [response_body]
            results.append(make_result(read_str(entry.get("custom_id")), {} if error else response_body, error))
        share_batch_cost(read_dict(read_dict(body).get("usage")), responses)
        return results


def share_batch_cost(usage: Mapping[str, Any], responses: Sequence[dict[str, Any]]) -> None:
    """Add the cost of a batch to its responses in proportion to their tokens, unless they have costs of their own.

    It does not include what the user's own upstream key pays.
    """
    cost = read_number(usage.get("cost"))
    usages = [read_dict(response.get("usage")) for response in responses]
    if cost is None or usage.get("is_byok") is True or any("cost" in each for each in usages):
        return
    counts = [read_int(each.get("total_tokens")) or 0 for each in usages]
    weights = counts if all(counts) else [1] * len(counts)
    for response, each, weight in zip(responses, usages, weights, strict=True):
        response["usage"] = each | {"cost": cost * weight / sum(weights)}


GEMINI_FINAL_STATES = ("SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED")
GEMINI_ID_FIELD = "key"
"""The field of a line, or of an inline request's metadata, with the id of the request."""
GEMINI_MAX_INLINE_BYTES = 19_000_000
"""The size of the requests up to which they are sent inline: the API accepts 20 MB with everything around them."""


class GeminiBatchApi(BatchApi):
    """Gemini's Batch API. https://ai.google.dev/gemini-api/docs/batch-api and https://ai.google.dev/api/batch-api

    A few requests are sent inline, and the results are in the batch. More are uploaded as a JSONL file, and the results
    are in another one. Files are deleted after two days (https://ai.google.dev/gemini-api/docs/files).
    """

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
        lines = ({GEMINI_ID_FIELD: request.custom_id, "request": request.body} for request in requests)
        data = "\n".join(json.dumps(line, separators=(",", ":")) for line in lines).encode()
        if len(data) <= GEMINI_MAX_INLINE_BYTES:
            return None
        metadata = json.dumps({"file": {"displayName": tag, "mimeType": JSONL_TYPE}})
        # The tag, which is random, does not occur in the file.
        metadata_part = ("Content-Type: application/json; charset=utf-8", metadata.encode())
        content = build_multipart(tag, metadata_part, (f"Content-Type: {JSONL_TYPE}", data))
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
            entries = [
                {"request": request.body, "metadata": {GEMINI_ID_FIELD: request.custom_id}} for request in requests
            ]
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
            read_str(batch.get("state")).endswith(GEMINI_FINAL_STATES),
            read_str(batch.get("displayName")),
            request_count=total,
            finished_count=(total or 0) - (pending or 0),
            error=format_error_message(operation.get("error")),
            result_files=tuple(filter(None, [read_str(self.read_output(operation).get("responsesFile"))])),
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
        if GEMINI_ID_FIELD in value:
            return [self.parse_result(value)]
        entries = read_list(read_dict(self.read_output(value).get("inlinedResponses")).get("inlinedResponses"))
        return [self.parse_result(read_dict(entry)) for entry in entries]

    def read_output(self, operation: dict[str, Any]) -> dict[str, Any]:
        """Return the output of a batch, which an operation may wrap. Its `response` is then the output, too."""
        batch = read_dict(operation.get("metadata")) or operation
        return read_dict(batch.get("output")) or read_dict(operation.get("response"))

    def parse_result(self, entry: dict[str, Any]) -> BatchResult:
        metadata = read_dict(entry.get("metadata"))
        custom_id = read_str(entry.get(GEMINI_ID_FIELD)) or read_str(metadata.get(GEMINI_ID_FIELD))
        return make_result(custom_id, read_dict(entry.get("response")), entry.get("error"))
