"""The batch APIs of five services, as far as `ask` uses them, to run on a `ModelServer`.

Each answers a request with its prompt in capital letters. A prompt with "bad" is refused, one with "late" expires. The
results are in reverse order. A batch ends with its second poll.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email import message_from_bytes
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from tests import wire
from tests.model_server import Ending, Reply, Request

Json = dict[str, Any]


def json_reply(value: Any, status: int = 200) -> Reply:
    return Reply((json.dumps(value, indent=2).encode(),), status=status)


def jsonl_reply(*values: Any) -> Reply:
    return Reply(("".join(json.dumps(value) + "\n" for value in values).encode(),), content_type="application/x-jsonl")


@dataclass
class FakeBatch:
    """A batch: its id, what identifies it, and its requests, each an id, a path and a body."""

    id: str
    tag: str
    requests: list[tuple[str, str, Json]]
    input_file: str = ""
    polls: int = 0
    canceled: bool = False
    created: float = field(default_factory=time.time)

    def finished(self) -> list[tuple[str, Json]]:
        """Return the requests that have a response or an error, in reverse order."""
        if self.canceled:
            return []
        return [(name, body) for name, _, body in reversed(self.requests) if "late" not in get_prompt(body)]

    @property
    def unfinished(self) -> list[str]:
        done = {name for name, _ in self.finished()}
        return [name for name, _, _ in self.requests if name not in done]


def get_prompt(body: Json) -> str:
    """Return the last text in a request of any of the formats."""
    content: Any = (body.get("messages") or body.get("input") or body["contents"])[-1]
    while not isinstance(content, str):
        if isinstance(content, list):
            content = content[-1]
        else:
            content = content.get("content") or content.get("parts") or content.get("text")
    return content


class BatchService:
    """A service.

    Attributes:
        create_ending: how the answer ends after the next batch was created, instead of with its state.
        is_paused: whether batches do not end.
        rejection: why each batch is rejected when it is validated; "" to accept it.
        creates: the bodies of all requests that created a batch.
    """

    environment: ClassVar[Mapping[str, str]] = {}
    name = model = ""
    root = "/api/v1"

    def __init__(self) -> None:
        self.batches: dict[str, FakeBatch] = {}
        self.files: dict[str, bytes] = {}
        self.create_ending: Ending | None = None
        self.rejection = ""
        self.is_paused = False
        self.creates: list[Json] = []

    def __call__(self, request: Request) -> Reply:
        parts = urlsplit(request.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        path = parts.path.removeprefix(self.root).strip("/")
        return self.handle(request, path, query) or json_reply({"error": {"message": f"no such path: {path}"}}, 404)

    def handle(self, request: Request, path: str, query: Mapping[str, str]) -> Reply | None:
        raise NotImplementedError

    def add(self, tag: str, requests: list[tuple[str, str, Json]], *, prefix: str = "batch_") -> FakeBatch:
        assert requests
        assert len({name for name, _, _ in requests}) == len(requests)
        for _, _, body in requests:
            assert not body.get("stream"), "a batch does not stream"
        batch = FakeBatch(f"{prefix}{len(self.batches) + 1}", tag, requests)
        self.batches[batch.id] = batch
        return batch

    def created(self, reply: Reply) -> Reply:
        ending, self.create_ending = self.create_ending, None
        return Reply((ending,)) if ending else reply

    def poll(self, batch: FakeBatch) -> bool:
        """Count a poll and return whether the batch has ended."""
        batch.polls += not self.is_paused
        return self.has_ended(batch)

    @staticmethod
    def has_ended(batch: FakeBatch) -> bool:
        return batch.polls > 1 or batch.canceled


def read_parts(request: Request) -> Any:
    """Return the parts of a multipart body."""
    head = f"Content-Type: {request.headers['Content-Type']}\r\n\r\n".encode()
    return message_from_bytes(head + request.body).get_payload()


def read_form(request: Request) -> dict[str, bytes]:
    """Return the fields of a form."""
    parts = read_parts(request)
    return {part.get_param("name", header="content-disposition"): part.get_payload(decode=True) for part in parts}


def build_response(path: str, body: Json) -> Json:
    """Return the response to a request to the Responses API or Chat Completions."""
    text = get_prompt(body).upper()
    if path.endswith("/responses"):
        content = [{"type": "output_text", "text": text, "annotations": []}]
        message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}
        usage = {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12}
        common = {"id": "resp_1", "object": "response", "status": "completed", "model": "m", "error": None}
        return common | {"output": [message], "usage": usage}
    return wire.answer(text) | {"usage": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}}


class OpenAIService(BatchService):
    """https://developers.openai.com/api/docs/guides/batch and the types of OpenAI's SDK."""

    name, model = "openai", "gpt-6-sol"
    response: Json | None = None
    """The response to every request; None for one with its prompt."""

    def handle(self, request: Request, path: str, query: Mapping[str, str]) -> Reply | None:
        match request.method, path.split("/"):
            case "POST", ["files"]:
                return self.upload(request)
            case "GET", ["files", file_id, "content"]:
                return Reply((self.files[file_id],), content_type="application/octet-stream")
            case "POST", ["batches"]:
                return self.created(self.create(request.json))
            case "GET", ["batches"]:
                return json_reply(self.list(query))
            case "GET", ["batches", batch_id] if batch_id in self.batches:
                self.poll(self.batches[batch_id])
            case "POST", ["batches", batch_id, "cancel"]:
                self.batches[batch_id].canceled = True
            case _:
                return None
        return json_reply(self.describe(self.batches[path.split("/")[1]]))

    def upload(self, request: Request) -> Reply:
        fields = read_form(request)
        if fields["purpose"] != b"batch":
            return json_reply({"error": {"message": "wrong purpose"}}, 400)
        file_id = f"file-{len(self.files) + 1}"
        self.files[file_id] = fields["file"]
        described = {"id": file_id, "object": "file", "bytes": len(fields["file"]), "created_at": int(time.time())}
        return json_reply(described | {"filename": "in.jsonl", "purpose": "batch", "status": "processed"})

    def read_lines(self, file_id: str) -> list[tuple[str, str, Json]]:
        lines = [json.loads(line) for line in self.files[file_id].splitlines()]
        assert all(line["method"] == "POST" and line["url"].startswith("/v1/") for line in lines)
        return [(line["custom_id"], line["url"], line["body"]) for line in lines]

    def create(self, body: Json) -> Reply:
        self.creates.append(body)
        requests = self.read_lines(body["input_file_id"])
        assert {path for _, path, _ in requests} == {body["endpoint"]}
        assert body["completion_window"] == "24h"
        batch = self.add(json.dumps(body.get("metadata")), requests)
        batch.input_file = body["input_file_id"]
        return json_reply(self.describe(batch))

    def list(self, query: Mapping[str, str]) -> Json:
        newest = list(reversed(self.batches))
        start = newest.index(query["after"]) + 1 if "after" in query else 0
        page = newest[start : start + int(query.get("limit", 20))]
        data = [self.describe(self.batches[one]) for one in page]
        ends = {"first_id": page[0] if page else None, "last_id": page[-1] if page else None}
        return {"object": "list", "data": data, **ends, "has_more": start + len(page) < len(newest)}

    def describe(self, batch: FakeBatch) -> Json:
        described: Json = {
            "id": batch.id, "object": "batch", "endpoint": batch.requests[0][1], "completion_window": "24h",
            "created_at": int(batch.created), "input_file_id": batch.input_file, "errors": None,
            "metadata": json.loads(batch.tag), "status": "in_progress", "output_file_id": None, "error_file_id": None,
            "request_counts": {"total": len(batch.requests), "completed": 0, "failed": 0},
        }  # fmt: skip
        if self.rejection:
            errors = {"object": "list", "data": [{"code": "invalid", "message": self.rejection, "line": 1}]}
            return described | {"status": "failed", "errors": errors}
        if not self.has_ended(batch):
            return described
        described["status"] = "cancelled" if batch.canceled else "expired" if batch.unfinished else "completed"
        return described | self.write_files(batch)

    def write_files(self, batch: FakeBatch) -> Json:
        outputs: dict[str, list[Json]] = {"output_file_id": [], "error_file_id": []}
        paths = {name: path for name, path, _ in batch.requests}
        for custom_id, body in batch.finished():
            is_bad = "bad" in get_prompt(body)
            answer = self.response or build_response(paths[custom_id], body)
            content = {"error": {"message": "this is bad"}} if is_bad else answer
            response = {"status_code": 400 if is_bad else 200, "request_id": "req_1", "body": content}
            line = {"id": "batch_req_1", "custom_id": custom_id, "response": response, "error": None}
            outputs["error_file_id" if is_bad else "output_file_id"].append(line)
        if not batch.canceled:
            error = {"code": "batch_expired", "message": "This request could not be executed before the window ended."}
            outputs["error_file_id"] += [
                {"id": "batch_req_1", "custom_id": one, "response": None, "error": error} for one in batch.unfinished
            ]
        ids = {name: f"{batch.id}-{name}" for name, lines in outputs.items() if lines}
        for name, file_id in ids.items():
            self.files[file_id] = "".join(json.dumps(line) + "\n" for line in outputs[name]).encode()
        return {name: ids.get(name) for name in outputs}


class XAIService(OpenAIService):
    """https://docs.x.ai/developers/rest-api-reference/inference/batches: the results are chat completions."""

    name, model = "xai", "grok-4.3"

    def handle(self, request: Request, path: str, query: Mapping[str, str]) -> Reply | None:
        if request.method == "POST" and path.endswith(":cancel"):
            batch = self.batches[path.removeprefix("batches/").removesuffix(":cancel")]
            batch.canceled = True
            return json_reply(self.describe(batch))
        if path.endswith("/results"):
            return json_reply(self.list_results(self.batches[path.split("/")[1]], query))
        return super().handle(request, path, query)

    def create(self, body: Json) -> Reply:
        self.creates.append(body)
        assert set(body) == {"name", "input_file_id"}
        return json_reply(self.describe(self.add(body["name"], self.read_lines(body["input_file_id"]))))

    def list(self, query: Mapping[str, str]) -> Json:
        return {"batches": [self.describe(batch) for batch in self.batches.values()], "pagination_token": None}

    def describe(self, batch: FakeBatch) -> Json:
        pending = 0 if self.has_ended(batch) else len(batch.requests)
        state = {"num_requests": len(batch.requests), "num_pending": pending, "num_cancelled": 0}
        canceled = "2026-10-02" if batch.canceled else None
        common = {"batch_id": batch.id, "name": batch.tag, "create_time": "2026-10-01", "cancel_time": canceled}
        if self.rejection:
            state |= {"num_requests": 0, "num_pending": 0}
        return common | {"cancel_by_xai_message": self.rejection or None, "state": state}

    def list_results(self, batch: FakeBatch, query: Mapping[str, str]) -> Json:
        results: list[Json] = []
        if self.rejection:
            return {"results": results, "pagination_token": None}
        for name, body in batch.finished():
            response = {"response": {"chat_get_completion": build_response("/chat/completions", body)}}
            result: Json = {"error": "this is bad"} if "bad" in get_prompt(body) else response
            results.append({"batch_request_id": name, "batch_result": result})
        results += [{"batch_request_id": one, "batch_result": {"error": "Batch cancelled"}} for one in batch.unfinished]
        start = int(query.get("pagination_token", 0))
        token = str(start + 2) if start + 2 < len(results) else None
        return {"results": results[start : start + 2], "pagination_token": token}


class OpenRouterService(OpenAIService):
    """https://openrouter.ai/docs/batch-quickstart and its SDKs' types; there is no metadata and no canceling."""

    name, model = "openrouter", "vendor/model"

    def handle(self, request: Request, path: str, query: Mapping[str, str]) -> Reply | None:
        return None if path.startswith("files") or path.endswith("cancel") else super().handle(request, path, query)

    def create(self, body: Json) -> Reply:
        self.creates.append(body)
        assert list(body)[-1] == "requests", "the requests must be last"
        assert "model" not in body["requests"][0]["body"]
        requests = [(one["custom_id"], body["endpoint"], one["body"]) for one in body["requests"]]
        return json_reply(self.describe(self.add("", requests)) | {"status": "validating"}, 202)

    def describe(self, batch: FakeBatch) -> Json:
        ended = self.has_ended(batch)
        counts = {"total": len(batch.requests), "completed": 0, "failed": 0}
        status = "in_progress" if not ended else "expired" if batch.unfinished else "completed"
        results = self.build_results(batch) if ended else []
        common = {"id": batch.id, "object": "batch", "created_at": int(batch.created), "completion_window": "24h"}
        return common | {
            "endpoint": "/v1/chat/completions", "model": self.model, "status": status, "error": None,
            "request_counts": counts, "results": results if ended else None,
            "usage": {"cost": 0.25 * sum(1 for one in results if one["response"])} if ended else None,
        }  # fmt: skip

    def build_results(self, batch: FakeBatch) -> list[Json]:
        results: list[Json] = []
        for name, body in batch.finished():
            usage = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
            response = {"status_code": 200, "body": build_response("", body) | {"usage": usage}}
            error = {"code": "400", "message": "this is bad"} if "bad" in get_prompt(body) else None
            one = {"id": "r", "custom_id": name, "error": error, "response": None if error else response}
            results.append(one)
        expired = {"code": "batch_expired", "message": "expired"}
        return results + [{"id": "r", "custom_id": one, "error": expired, "response": None} for one in batch.unfinished]


class AnthropicService(BatchService):
    """https://platform.claude.com/docs/en/api/messages/batches and the types of Anthropic's SDK."""

    name, model, root = "anthropic", "claude-sonnet-5-5", "/api/v1/messages"

    def handle(self, request: Request, path: str, query: Mapping[str, str]) -> Reply | None:
        assert request.headers["anthropic-version"]
        match request.method, path.split("/"):
            case "POST", ["batches"]:
                self.creates.append(request.json)
                requests = [(one["custom_id"], "", one["params"]) for one in request.json["requests"]]
                return self.created(json_reply(self.describe(self.add("", requests, prefix="msgbatch_"))))
            case "GET", ["batches"]:
                data = [self.describe(batch) for batch in reversed(self.batches.values())]
                return json_reply({"data": data, "first_id": None, "last_id": None, "has_more": False})
            case "GET", ["batches", batch_id]:
                self.poll(self.batches[batch_id])
                return json_reply(self.describe(self.batches[batch_id]))
            case "GET", ["batches", batch_id, "results"]:
                return jsonl_reply(*self.build_results(self.batches[batch_id]))
            case "POST", ["batches", batch_id, "cancel"]:
                self.batches[batch_id].canceled = True
                return json_reply(self.describe(self.batches[batch_id]))
        return None

    def describe(self, batch: FakeBatch) -> Json:
        ended = self.has_ended(batch)
        created = datetime.fromtimestamp(batch.created, UTC).isoformat()
        total = len(batch.requests)
        counts = {"processing": 0 if ended else total, "succeeded": total if ended else 0}
        address = f"{self.url}/v1/messages/batches/{batch.id}/results" if ended else None
        return {
            "id": batch.id, "type": "message_batch", "created_at": created, "expires_at": created, "ended_at": None,
            "archived_at": None, "cancel_initiated_at": None, "results_url": address,
            "processing_status": "ended" if ended else "in_progress",
            "request_counts": counts | {"errored": 0, "canceled": 0, "expired": 0},
        }  # fmt: skip

    url = ""

    def build_results(self, batch: FakeBatch) -> list[Json]:
        results: list[Json] = []
        for name, body in batch.finished():
            message = {
                "id": "msg_1", "type": "message", "role": "assistant", "model": self.model, "stop_reason": "end_turn",
                "stop_sequence": None, "content": [{"type": "text", "text": get_prompt(body).upper()}],
                "usage": {"input_tokens": 10, "output_tokens": 2},
            }  # fmt: skip
            error = {"type": "error", "error": {"type": "invalid_request_error", "message": "this is bad"}}
            is_bad = "bad" in get_prompt(body)
            result: Json = {"type": "errored", "error": error} if is_bad else {"type": "succeeded", "message": message}
            results.append({"custom_id": name, "result": result})
        reason = "canceled" if batch.canceled else "expired"
        return results + [{"custom_id": one, "result": {"type": reason}} for one in batch.unfinished]


class GeminiService(BatchService):
    """https://ai.google.dev/api/batch-api, https://ai.google.dev/api/files and the types of Google's SDK."""

    name, model, root = "gemini", "gemini-3.8-flash", "/api/v1beta"

    def __init__(self) -> None:
        super().__init__()
        self.uploads: list[Json] = []

    def handle(self, request: Request, path: str, query: Mapping[str, str]) -> Reply | None:
        if path == f"models/{self.model}:batchGenerateContent":
            return self.created(json_reply(self.describe(self.create(request.json))))
        if path == "api/upload/v1beta/files":
            return self.upload(request, query)
        if path == "batches":
            return json_reply({"operations": [self.describe(batch) for batch in self.batches.values()]})
        if path.endswith(":cancel"):
            self.batches[path.removesuffix(":cancel")].canceled = True
            return json_reply({})
        if path in self.batches:
            self.poll(self.batches[path])
            return json_reply(self.describe(self.batches[path]))
        return self.download(path, query)

    def create(self, body: Json) -> FakeBatch:
        self.creates.append(body)
        source = body["batch"]["inputConfig"]
        if "fileName" in source:
            lines = [json.loads(line) for line in self.files[source["fileName"]].splitlines()]
            requests = [(line["key"], "", line["request"]) for line in lines]
        else:
            assert len(json.dumps(body)) < 20_000_000
            entries = enumerate(source["requests"]["requests"])
            requests = [((one.get("metadata") or {}).get("key", str(n)), "", one["request"]) for n, one in entries]
        batch = self.add(body["batch"]["displayName"], requests, prefix="batches/")
        batch.input_file = source.get("fileName", "")
        return batch

    def upload(self, request: Request, query: Mapping[str, str]) -> Reply:
        """Answer an upload in one request, or one of the two requests of a resumable upload."""
        if request.headers["X-Goog-Upload-Protocol"] == "multipart":
            metadata, file = read_parts(request)
            return self.store(json.loads(metadata.get_payload(decode=True))["file"], file.get_payload(decode=True))
        if request.headers["X-Goog-Upload-Command"] == "start":
            self.uploads.append(request.json["file"])
            url = f"http://{request.headers['Host']}{request.path}?upload_id={len(self.uploads) - 1}"
            return Reply((b"{}",), headers={"X-Goog-Upload-URL": url, "X-Goog-Upload-Status": "active"})
        assert request.headers["X-Goog-Upload-Command"] == "upload, finalize"
        return self.store(self.uploads[int(query["upload_id"])], request.body)

    def download(self, path: str, query: Mapping[str, str]) -> Reply | None:
        file_id = path.removeprefix("api/v1/download/v1beta/").removesuffix(":download")
        if query != {"alt": "media"} or file_id not in self.files:
            return None
        return Reply((self.files[file_id],), content_type="application/octet-stream")

    def store(self, metadata: Json, content: bytes) -> Reply:
        file_id = f"files/in-{len(self.files) + 1}"
        self.files[file_id] = content
        described = {"name": file_id, "sizeBytes": str(len(content)), "state": "ACTIVE", "source": "UPLOADED"}
        for name, alias in (("displayName", "display_name"), ("mimeType", "mime_type")):  # it accepts both
            described[name] = metadata.get(name) or metadata[alias]
        reply = json_reply({"file": described})
        return replace(reply, headers={"X-Goog-Upload-Status": "final"})

    def describe(self, batch: FakeBatch) -> Json:
        ended = self.has_ended(batch)
        state = "RUNNING" if not ended else "CANCELLED" if batch.canceled else "SUCCEEDED"
        total = str(len(batch.requests))
        metadata: Json = {
            "@type": "type.googleapis.com/google.ai.generativelanguage.v1main.GenerateContentBatch",
            "model": f"models/{self.model}", "displayName": batch.tag, "state": f"BATCH_STATE_{state}",
            "name": batch.id, "createTime": datetime.fromtimestamp(batch.created, UTC).isoformat(),
            "batchStats": {"requestCount": total} | ({} if ended else {"pendingRequestCount": total}),
        }  # fmt: skip
        if ended and batch.input_file:
            file_id = f"files/{batch.id.replace('/', '-')}"
            metadata["output"] = {"responsesFile": file_id}
            lines = [{"key": one.pop("metadata")["key"], **one} for one in self.build_results(batch)]
            self.files[file_id] = "".join(json.dumps(line) + "\n" for line in lines).encode()
        elif ended:
            metadata["output"] = {"inlinedResponses": {"inlinedResponses": self.build_results(batch)}}
        return {"name": batch.id, "metadata": metadata, "done": ended}

    def build_results(self, batch: FakeBatch) -> list[Json]:
        results: list[Json] = []
        for name, body in batch.finished():
            parts = [{"text": get_prompt(body).upper()}]
            candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
            usage = {"promptTokenCount": 10, "candidatesTokenCount": 2, "totalTokenCount": 12}
            error = {"error": {"code": 3, "message": "this is bad"}}
            response = {"response": {"candidates": [candidate], "usageMetadata": usage}}
            results.append({"metadata": {"key": name}, **(error if "bad" in get_prompt(body) else response)})
        return results


SERVICES = (OpenAIService, XAIService, OpenRouterService, AnthropicService, GeminiService)
