"""The vendors' own SDKs with the batch services of the tests, which shows that these are like the real ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import BytesIO
from typing import TYPE_CHECKING, Any

import pytest

from tests.batch_services import AnthropicService, GeminiService, OpenAIService, XAIService
from tests.model_server import ModelServer

if TYPE_CHECKING:  # the SDKs take seconds to import, which each process would need to collect the tests
    from google import genai
    from openai import OpenAI


def make_lines(url: str, *prompts: str) -> bytes:
    """Return a file of requests in OpenAI's format."""
    bodies = [
        {"model": "m", "input" if "responses" in url else "messages": [{"role": "user", "content": p}]} for p in prompts
    ]
    lines = [{"custom_id": str(n), "method": "POST", "url": url, "body": body} for n, body in enumerate(bodies)]
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


@pytest.fixture
def openai_client(server: ModelServer) -> Iterator[OpenAI]:
    from openai import OpenAI

    with OpenAI(api_key="k", base_url=server.base_url, max_retries=0) as client:
        yield client


@pytest.mark.parametrize("endpoint", ["/v1/responses", "/v1/chat/completions"])
def test_openai(server: ModelServer, openai_client: OpenAI, endpoint: Any) -> None:
    from openai.types import Batch, FileObject

    server.reply(OpenAIService())
    batches = openai_client.batches
    uploaded = openai_client.files.create(file=("in.jsonl", make_lines(endpoint, "a", "bad", "late")), purpose="batch")
    FileObject.model_validate(uploaded.model_dump())
    options: Any = {"endpoint": endpoint, "completion_window": "24h", "metadata": {"name": "x"}}
    batch = batches.create(input_file_id=uploaded.id, **options)
    assert (batch.status, batch.metadata) == ("in_progress", {"name": "x"})
    batches.retrieve(batch.id)
    ended = Batch.model_validate(batches.retrieve(batch.id).model_dump())
    assert (ended.status, ended.output_file_id is not None, ended.error_file_id is not None) == ("expired", True, True)
    lines = [json.loads(line) for line in openai_client.files.content(str(ended.output_file_id)).text.splitlines()]
    assert [(line["custom_id"], line["response"]["status_code"]) for line in lines] == [("0", 200)]
    batches.create(input_file_id=uploaded.id, **options)
    assert [one.id for one in batches.list(limit=1)] == ["batch_2", "batch_1"]
    assert batches.cancel("batch_2").status == "cancelled"


def test_xai_takes_openai_files(server: ModelServer, openai_client: OpenAI) -> None:
    server.reply(XAIService())
    uploaded = openai_client.files.create(file=("in.jsonl", make_lines("/v1/responses", "a")), purpose="batch")
    batch: Any = openai_client.post("/batches", body={"name": "x", "input_file_id": uploaded.id}, cast_to=object)
    assert (batch["name"], batch["state"]["num_pending"]) == ("x", 1)
    for _ in range(2):
        batch = openai_client.get(f"/batches/{batch['batch_id']}", cast_to=object)
    assert batch["state"]["num_pending"] == 0


@pytest.mark.slow
def test_anthropic(server: ModelServer) -> None:
    from anthropic import Anthropic
    from anthropic.types.messages import MessageBatch

    service = AnthropicService()
    service.url = server.base_url.removesuffix("/v1")
    server.reply(service)
    with Anthropic(api_key="k", base_url=service.url, max_retries=0) as client:
        batches = client.messages.batches
        prompts = ("a", "bad", "late")
        requests: Any = [
            {
                "custom_id": prompt,
                "params": {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": prompt}]},
            }
            for prompt in prompts
        ]
        batch = batches.create(requests=requests)
        assert batch.processing_status == "in_progress"
        batches.retrieve(batch.id)
        ended = MessageBatch.model_validate(batches.retrieve(batch.id).model_dump())
        assert ended.processing_status == "ended"
        results = {line.custom_id: line.result for line in batches.results(batch.id)}
        assert {name: result.type for name, result in results.items()} == dict(
            zip(prompts, ("succeeded", "errored", "expired"), strict=True)
        )
        assert results["a"].type == "succeeded"
        assert results["a"].message.content[0].type == "text"
        assert [one.id for one in batches.list()] == [batch.id]
        batches.cancel(batch.id)
        assert {line.result.type for line in batches.results(batch.id)} == {"canceled"}


@pytest.fixture
def gemini_client(server: ModelServer) -> Iterator[genai.Client]:
    from google import genai

    options = genai.types.HttpOptions(base_url=server.base_url.removesuffix("/v1"), api_version="v1beta")
    with genai.Client(api_key="k", http_options=options) as client:
        yield client


@pytest.mark.slow
def test_gemini(server: ModelServer, gemini_client: genai.Client) -> None:
    service = GeminiService()
    server.reply(service)
    requests: Any = [
        {"contents": [{"role": "user", "parts": [{"text": prompt}]}], "metadata": {"key": prompt}}
        for prompt in ("a", "bad")
    ]
    batch = gemini_client.batches.create(model=service.model, src=requests, config={"display_name": "x"})
    name = str(batch.name)
    assert str(batch.state) == "JobState.JOB_STATE_RUNNING"
    gemini_client.batches.get(name=name)
    ended = gemini_client.batches.get(name=name)
    assert (str(ended.state), ended.display_name) == ("JobState.JOB_STATE_SUCCEEDED", "x")
    assert ended.dest is not None
    refused, answered = ended.dest.inlined_responses or []
    assert answered.metadata == {"key": "a"}
    assert answered.response is not None
    assert answered.response.text == "A"
    assert refused.error is not None
    assert [one.name for one in gemini_client.batches.list()] == [name]
    gemini_client.batches.cancel(name=name)
    assert str(gemini_client.batches.get(name=name).state) == "JobState.JOB_STATE_CANCELLED"


@pytest.mark.slow
def test_gemini_files(server: ModelServer, gemini_client: genai.Client) -> None:
    from google.genai.types import GenerateContentResponse

    service = GeminiService()
    server.reply(service)
    requests = {prompt: {"contents": [{"role": "user", "parts": [{"text": prompt}]}]} for prompt in ("a", "bad")}
    lines = "".join(json.dumps({"key": key, "request": request}) + "\n" for key, request in requests.items())
    uploaded = gemini_client.files.upload(
        file=BytesIO(lines.encode()), config={"mime_type": "application/jsonl", "display_name": "in"}
    )
    assert (uploaded.size_bytes, uploaded.display_name, str(uploaded.state)) == (len(lines), "in", "FileState.ACTIVE")
    batch = gemini_client.batches.create(model=service.model, src=str(uploaded.name), config={"display_name": "x"})
    gemini_client.batches.get(name=str(batch.name))
    ended = gemini_client.batches.get(name=str(batch.name))
    assert ended.dest is not None
    assert ended.dest.inlined_responses is None
    content = gemini_client.files.download(file=str(ended.dest.file_name))
    refused, answered = map(json.loads, content.splitlines())
    response = GenerateContentResponse.model_validate(answered["response"])
    assert (answered["key"], response.text, refused["key"]) == ("a", "A", "bad")
    assert refused["error"]["message"]
