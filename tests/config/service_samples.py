"""A stream and an error of each service in the table, as its own servers send them.

Each was written after the page, the SDK or the recording that is named beside it, with the text, the model and the
counts replaced. `COMMON` lists the services for which no more than the shape that they document, OpenAI's, was found.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests import responses_wire, wire
from tests.model_server import Reply
from tests.providers import anthropic_wire, gemini_wire
from tests.wire import Json

TEXT, REASON = "Hello there.", "no such model"
USAGE = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
Sample = tuple[Reply, Reply]


def chunk(delta: Json | None = None, *, finish: str | None = None, choice: Json | None = None, **fields: Any) -> Json:
    """Return a chunk with the fields that all services send."""
    first = {"index": 0, "delta": delta or {}, "finish_reason": finish} | (choice or {})
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "some/model"} | {
        "choices": [first],
        **fields,
    }


def usage_chunk(**fields: Any) -> Json:
    return chunk() | {"choices": [], "usage": USAGE} | fields


def stream(*chunks: Json, done: bool = True) -> Reply:
    return Reply((wire.sse(*chunks, done=done),), content_type="text/event-stream")


def refusal(body: Any, status: int = 404) -> Reply:
    return Reply((json.dumps(body).encode(),), status=status)


def openai_error(**fields: Any) -> Json:
    return {"error": {"message": REASON, "type": "invalid_request_error", "param": None, "code": None} | fields}


def words(**first: Any) -> list[Json]:
    """Return a chunk with the role, and two with the text."""
    return [chunk({"role": "assistant", "content": "", **first}), *(chunk({"content": text}) for text in PIECES)]


PIECES = ("Hello ", "there.")
COMMON = ("bedrock", "huggingface", "litellm", "nvidia", "sglang", "vercel")
PLAIN = stream(*words(), chunk(finish="stop"), usage_chunk())
ENDS_WITH_USAGE = stream(*words(), chunk(finish="stop", usage=USAGE))
TIMES = {"queue_time": 0.06, "prompt_time": 0.0002, "completion_time": 0.8, "total_time": 0.86}
SEARCH = {
    "type": "search_results",
    "queries": ["sky"],
    "results": [{"id": 1, "url": "https://a.test", "title": "A"}],
}
FILTERS = [{"blocked": False, "source_type": "prompt", "content_filter_results": {"hate": {"filtered": False}}}]
VERTEX_PARTS = [gemini_wire.text(piece) for piece in PIECES]
VERTEX_USAGE = {"promptTokenCount": 9, "candidatesTokenCount": 3, "trafficType": "ON_DEMAND"}
RESPONSES_USAGE = {"input_tokens": 9, "output_tokens": 3, "total_tokens": 12}


def response_stream(*items: Json, **fields: Any) -> Reply:
    response = responses_wire.response(*items, responses_wire.message(TEXT), usage=RESPONSES_USAGE, **fields)
    return responses_wire.replies(response)


SAMPLES: Mapping[str, Sample] = {
    # https://www.alibabacloud.com/help/en/model-studio/deep-thinking and .../error-code
    "alibaba": (
        stream(
            chunk({"role": "assistant", "content": None, "reasoning_content": ""}),
            chunk({"content": None, "reasoning_content": "Hm."}),
            *(chunk({"content": text, "reasoning_content": None}) for text in PIECES),
            chunk({"content": "", "reasoning_content": None}, finish="stop"),
            usage_chunk(),
        ),
        refusal(openai_error(code="model_not_found") | {"request_id": "1"}),
    ),
    # The recording of Azure; the error is in Microsoft's questions and answers.
    "azure": (
        response_stream(content_filters=FILTERS, prompt_cache_retention="24h"),
        refusal({"error": {"code": "DeploymentNotFound", "message": f"The API deployment does not exist: {REASON}"}}),
    ),
    "bedrock": (PLAIN, refusal(openai_error(code="model_not_found"))),
    # https://inference-docs.cerebras.ai/api-reference/chat-completions, and its SDK for the flat error
    "cerebras": (
        stream(*words(reasoning="Hm."), chunk(finish="stop"), usage_chunk(time_info=TIMES)),
        refusal({"message": REASON, "type": "not_found_error", "param": "model", "code": "model_not_found"}),
    ),
    # The error as several projects have logged it; the stream has the usage with the finish reason.
    "cloudflare": (
        ENDS_WITH_USAGE,
        refusal(
            {
                "errors": [{"message": f"AiError: {REASON}", "code": 5007}],
                "success": False,
                "result": {},
                "messages": [],
            },
            400,
        ),
    ),
    # https://docs.cohere.com/docs/compatibility-api; the error is that of Cohere's own API.
    "cohere": (ENDS_WITH_USAGE, refusal({"id": "1", "message": REASON})),
    # https://deepinfra.com/docs/advanced/openai_api
    "deepinfra": (
        stream(*words(), chunk(finish="stop", usage=USAGE | {"estimated_cost": 0.000001})),
        refusal({"detail": {"error": REASON}}),
    ),
    # https://github.com/fw-ai-external/python-sdk; the error as its users have logged it
    "fireworks": (
        stream(
            *words(reasoning_content="Hm."),
            chunk(finish="stop", usage=USAGE | {"prompt_tokens_details": {"cached_tokens": 0}}, perf_metrics=None),
        ),
        refusal({"error": {"message": REASON, "param": "model", "code": "NOT_FOUND", "type": "error"}}),
    ),
    # A recording in https://github.com/vercel/ai (packages/groq): the usage is in x_groq alone.
    "groq": (
        stream(
            chunk({"role": "assistant", "content": ""}, x_groq={"id": "req_1"}),
            *(chunk({"content": text}, choice={"logprobs": None}) for text in PIECES),
            chunk(finish="stop", x_groq={"id": "req_1", "usage": USAGE | TIMES}),
        ),
        refusal({"error": {"message": REASON, "type": "invalid_request_error", "code": "model_not_found"}}),
    ),
    "huggingface": (PLAIN, refusal(openai_error(code="model_not_found", param="model"), 400)),
    # https://docs.litellm.ai/docs/exception_mapping: the code is the status as text
    "litellm": (PLAIN, refusal(openai_error(param="model", code="400"), 400)),
    # https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md
    "llamacpp": (
        stream(
            chunk({"role": "assistant", "content": None}),
            *words(reasoning_content="Hm.")[1:],
            chunk(finish="stop"),
            usage_chunk(timings={"prompt_n": 9, "predicted_n": 3}),
        ),
        refusal({"error": {"code": 404, "message": REASON, "type": "not_found_error"}}),
    ),
    # https://github.com/lidge-jun/opencodex/pull/3321: errors are OpenAI's; reasoning is encrypted.
    "meta": (
        response_stream(responses_wire.reasoning(encrypted="c2ln")),
        refusal(openai_error(code="model_not_found", param="model")),
    ),
    # https://platform.minimax.io/docs/api-reference/text-anthropic-api; the error as its users have logged it
    "minimax": (
        anthropic_wire.streams(
            anthropic_wire.begins(input_tokens=0, cache_creation_input_tokens=0, cache_read_input_tokens=0),
            [anthropic_wire.PING],
            anthropic_wire.thinking(0, "Hm."),
            anthropic_wire.text(1, *PIECES),
            anthropic_wire.ends(output_tokens=3, input_tokens=9, cache_read_input_tokens=0),
        ),
        refusal(anthropic_wire.error("invalid_request_error", f"{REASON} (2013)"), 400),
    ),
    # https://docs.mistral.ai/studio-api/conversations/reasoning, and its SDK for the error
    "mistral": (
        stream(
            chunk(
                {"role": "assistant", "content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}]}
            ),
            chunk({"content": [{"type": "text", "text": PIECES[0]}]}),
            chunk({"content": PIECES[1]}, finish="stop", usage=USAGE),
        ),
        refusal({"object": "error", "message": REASON, "type": "invalid_model", "param": None, "code": "1500"}, 400),
    ),
    # The error of its functions: https://docs.api.nvidia.com/nim/reference/llm-apis
    "nvidia": (PLAIN, refusal({"status": 404, "title": "Not Found", "detail": f"Function not found: {REASON}"})),
    # https://github.com/perplexityai/perplexity-py: an item of its own with what was found
    "perplexity": (
        response_stream(SEARCH),
        refusal({"error": {"message": REASON, "type": "invalid_model", "code": 400}}, 400),
    ),
    "sglang": (PLAIN, refusal({"object": "error", "message": REASON, "type": "NotFound", "param": None, "code": 404})),
    # https://github.com/togethercomputer/together-py: the role in each delta, and "eos" for the end
    "together": (
        stream(
            *(
                chunk({"role": "assistant", "content": text, "token_id": 1}, choice={"seed": None, "logprobs": None})
                for text in PIECES
            ),
            chunk({"role": "assistant", "content": ""}, finish="eos", choice={"seed": 7}, usage=USAGE),
        ),
        refusal(openai_error(code="model_not_available") | {"id": "o1"}),
    ),
    "vercel": (PLAIN, refusal({"error": {"message": REASON, "type": "model_not_found"}, "generationId": "gen_1"})),
    # The types of google-genai, for both of its services
    "vertex": (
        gemini_wire.streamed(
            *(one | {"usageMetadata": {"trafficType": "ON_DEMAND"}} for one in gemini_wire.chunks(*VERTEX_PARTS)[:-1]),
            gemini_wire.whole(gemini_wire.text(""))
            | {"usageMetadata": VERTEX_USAGE, "createTime": "2026-11-27T00:00:00Z"},
        ),
        refusal({"error": {"code": 404, "message": REASON, "status": "NOT_FOUND"}}),
    ),
    # https://github.com/vllm-project/vllm/blob/main/vllm/entrypoints/openai: reasoning, and the code as a number
    "vllm": (
        stream(
            chunk({"role": "assistant", "content": ""}),
            chunk({"reasoning": "Hm.", "reasoning_content": "Hm."}),
            *(chunk({"content": text}) for text in PIECES),
            chunk({"content": ""}, finish="stop", choice={"stop_reason": None}),
            usage_chunk(),
        ),
        refusal({"error": {"message": REASON, "type": "NotFoundError", "param": "model", "code": 404}}),
    ),
    # https://docs.z.ai/api-reference/api-code
    "zai": (
        stream(
            *words(reasoning_content="Hm."), chunk({"role": "assistant", "content": ""}, finish="stop", usage=USAGE)
        ),
        refusal({"error": {"code": "1211", "message": REASON}}, 400),
    ),
}
