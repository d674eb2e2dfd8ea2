"""OpenAI's Batch API. https://developers.openai.com/api/docs/guides/batch

The requests are uploaded as a JSONL file. The results are in two files, one with the responses and one with the
errors; an expired or canceled batch has those of the requests that were finished.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from ask import HttpRequest
from ask.batches import Batch, BatchApi, BatchRequest, BatchResult, ResultsRequest
from ask.parsing import find_error, format_error_message, read_dict, read_int, read_str

ERROR_MESSAGES = {"batch_expired": "the batch expired before this request was sent"}
"""Messages by error code that are clearer than the service's own."""
API_PREFIX = "/v1"
"""The `url` of a request includes the version, which is otherwise a part of the base URL."""


class OpenAIBatchApi(BatchApi):
    """OpenAI's Batch API."""

    max_bytes = 200_000_000
    cancel_suffix = "/cancel"

    def build_upload_request(self, requests: Sequence[BatchRequest], tag: str, key: str) -> HttpRequest | None:
        lines = (
            {"custom_id": one.custom_id, "method": "POST", "url": API_PREFIX + one.path, "body": one.body}
            for one in requests
        )
        data = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines).encode()
        # The tag, which is random, does not occur in the file.
        content = b"".join(
            [
                f'--{tag}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'.encode(),
                f'--{tag}\r\nContent-Disposition: form-data; name="file"; filename="{tag}.jsonl"\r\n'.encode(),
                b"Content-Type: application/jsonl\r\n\r\n",
                data,
                f"\r\n--{tag}--\r\n".encode(),
            ]
        )
        headers = {**self.build_headers(key), "Content-Type": f"multipart/form-data; boundary={tag}"}
        return HttpRequest("/files", None, headers, content=content)

    def parse_upload(self, body: Any) -> str:
        return read_str(read_dict(body).get("id"))

    def build_create_request(self, requests: Sequence[BatchRequest], tag: str, file_id: str, key: str) -> HttpRequest:
        body = {
            "input_file_id": file_id,
            "endpoint": API_PREFIX + requests[0].path,
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
            message = ERROR_MESSAGES.get(code) or format_error_message(error) or f"HTTP status {status}"
            return [BatchResult(custom_id, error=message)]
        return [BatchResult(custom_id, response_body)]
