"""Streams from public bug reports about similar programs: each answer arrives, and each intact call runs.

The reports describe what a service or a gateway sent; the bytes are written anew here.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from ask.messages import EMPTY_MAPPING
from tests import responses_wire, wire
from tests.model_server import RESET, ModelServer, Reply, Step
from tests.program import TEST_KEY, Ask
from tests.providers import anthropic_wire, gemini_wire
from tests.sample_answers import ollama_line, server_event

UPSTREAM_TIMEOUT = b'{"error": {"code": 524, "message": "upstream timed out"}}'
OVERLOADED = {"type": "service_unavailable_error", "code": "server_is_overloaded", "message": "overloaded"}
CONTENT = "the content of note.txt"
ARGUMENTS = '{"filepath": "note.txt"}'


class Case(NamedTuple):
    """A reported stream; it contains the text "Hello.", or a call that reads note.txt, unless there is an `error`."""

    link: str
    oddity: str
    steps: Sequence[Step]
    content_type: str = "text/event-stream"
    status: int = 200
    calls: int = 0
    error: int = 0
    notice: str = ""
    headers: Mapping[str, str] = EMPTY_MAPPING
    is_retried: bool = False


def sse(*events: Any) -> bytes:
    return b"".join(event if isinstance(event, bytes) else server_event(event) for event in events)


def call_part(**fragment: Any) -> dict[str, Any]:
    return wire.chunk({"tool_calls": [fragment]})


def function(arguments: str | None, name: str | None = None) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def anthropic_delta(index: int, **delta: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def anthropic_start(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def call_in_pieces(*pieces: str) -> list[bytes]:
    """Return the stream of a call whose arguments come in these pieces."""
    start = call_part(index=0, id="a", type="function", function=function("", "read_file"))
    return [sse(start, *(call_part(index=0, function=function(piece)) for piece in pieces), *CALLS_END)]


def numbered(*chunks: Any) -> list[Any]:
    return [chunk | {"choices": [chunk["choices"][0] | {"index": i}]} for i, chunk in enumerate(chunks)]


HEL, LO, STOP, USAGE, DONE = wire.text("Hel"), wire.text("lo."), wire.finish(), wire.usage(), b"data: [DONE]\n\n"
FINAL_HEL = wire.chunk({"content": "Hel"}, finish="stop")
CALLS_END = (wire.finish("tool_calls"), USAGE, DONE)
TWO_CHOICES = wire.answer("I read it.", finish="tool_calls")
TWO_CHOICES["choices"] += wire.answer(None, [("read_file", ARGUMENTS)])["choices"]
TOOL_START = anthropic_start(0, type="tool_use", id="t1", name="read_file", input={})
TOOL_INPUT = anthropic_delta(0, type="input_json_delta", partial_json=ARGUMENTS)
STOP_BLOCK = {"type": "content_block_stop", "index": 0}
RESPONSE = responses_wire.response(responses_wire.message("Hello."))
RESPONSE_EVENTS = responses_wire.events(RESPONSE)
CALL_EVENTS = responses_wire.events(
    responses_wire.response(responses_wire.call("read_file", {"filepath": "note.txt"}, "c"))
)


def completed(changes: Mapping[str, Any], events: Sequence[Any] = RESPONSE_EVENTS, without: str = "") -> bytes:
    """Return the events of a response whose last one is changed."""
    response = {name: value for name, value in events[-1]["response"].items() if name != without}
    return sse(*events[:-1], events[-1] | {"response": {**response, **changes}})


CASES: dict[str, list[Case]] = {
    "openrouter": [
        Case(
            "https://github.com/openai/openai-python/issues/3833",
            "events that have only `retry:` or `id:`",
            [sse(b"retry: 3000\n\n", HEL, b"id: 7\n\n", LO, STOP, USAGE, DONE)],
        ),
        Case(
            "https://github.com/omnigent-ai/omnigent/pull/1474",
            "empty `data:` between the chunks",
            [sse(HEL, b"data:\n\n", LO, STOP, b"data:\n\n", USAGE, DONE, b"data:\n\n")],
        ),
        Case(
            "https://github.com/NousResearch/hermes-agent/issues/111887",
            "a bare `data:` and `event: ping`, and nothing else",
            [b"data:\n\n", b"event: ping\n\n"],
            error=10,
        ),
        Case(
            "https://github.com/theopenco/llmgateway/pull/2334",
            "comments with and without a blank line, after `id:` fields",
            [sse(b"id: 1\n", HEL, b": ping\n\n", b": ping\n", LO, STOP, USAGE, DONE)],
        ),
        Case(
            "https://github.com/pipecat-ai/pipecat/pull/4688",
            "the last part of the arguments under the next index",
            [
                sse(
                    call_part(index=0, id="a", type="function", function=function("", "read_file")),
                    call_part(index=0, function=function(ARGUMENTS[:9])),
                    call_part(index=1, function=function(ARGUMENTS[9:])),
                    *CALLS_END,
                )
            ],
            calls=1,
        ),
        Case(
            "https://github.com/dirac-run/dirac/pull/215",
            "the arguments of two calls under other indices",
            [
                sse(
                    call_part(index=0, id="a", type="function", function=function("", "read_file")),
                    call_part(index=1, function=function(ARGUMENTS[:9])),
                    call_part(index=1, function=function(ARGUMENTS[9:])),
                    call_part(index=1, id="b", type="function", function=function("", "read_file")),
                    call_part(index=2, function=function(ARGUMENTS)),
                    *CALLS_END,
                )
            ],
            calls=2,
        ),
        Case(
            "https://github.com/openclaw/openclaw/pull/97474",
            "server-sent events labeled as JSON",
            [sse(HEL, LO, STOP, USAGE, DONE)],
            content_type="application/json",
        ),
        Case(
            "https://github.com/rexxars/eventsource-parser/pull/31",
            "no blank line between the events",
            [sse(HEL, LO, STOP, USAGE, DONE).replace(b"\n\n", b"\n")],
        ),
        Case(
            "https://github.com/Soju06/codex-lb/pull/1011",
            "line separators of Unicode inside the JSON",
            [
                json.dumps(HEL | {"id": "\u2028\u0085"}, ensure_ascii=False).encode().join((b"data: ", b"\n\n")),
                sse(LO, STOP, USAGE, DONE),
            ],
        ),
        Case(
            "https://github.com/earendil-works/pi/pull/7441",
            "the usage without choices, then the end, without a finish reason",
            [sse(HEL, LO, USAGE)],
            notice="may be incomplete",
        ),
        Case(
            "https://github.com/ayunis-core/ayunis-core/pull/885",
            "a proxy resets the connection after the finish reason and the usage",
            [sse(HEL, LO, STOP, USAGE), 0.02, RESET],
        ),
        Case(
            "https://github.com/vercel/ai/pull/12901",
            'the `type` of a call is missing, null or ""',
            [
                sse(
                    call_part(index=0, id="a", type=None, function=function("", "read_file")),
                    call_part(index=0, type="", function=function(ARGUMENTS)),
                    *CALLS_END,
                )
            ],
            calls=1,
        ),
        Case(
            "https://github.com/vercel/ai/pull/14760",
            "the name of a call after its arguments",
            [
                sse(
                    call_part(index=0, id="a", type="function", function={"arguments": ""}),
                    call_part(index=0, function={"arguments": ARGUMENTS}),
                    call_part(index=0, function=function("", "read_file")),
                    *CALLS_END,
                )
            ],
            calls=1,
        ),
        Case(
            "https://github.com/vercel/ai/issues/7238",
            "calls without an index",
            [sse(call_part(id="a", type="function", function=function(ARGUMENTS, "read_file")), *CALLS_END)],
            calls=1,
        ),
        Case(
            "https://github.com/continuedev/continue/issues/13225",
            "calls without an id",
            [
                sse(
                    call_part(index=0, function=function("", "read_file")),
                    call_part(index=0, function=function(ARGUMENTS)),
                    *CALLS_END,
                )
            ],
            calls=1,
        ),
        Case(
            "https://github.com/SamSaffron/term-llm/pull/454",
            "the JSON of an event on several `data:` lines",
            [
                "\n".join(f"data:{line}" for line in json.dumps(HEL, indent=1).split("\n")).encode() + b"\n\n",
                sse(LO, STOP, USAGE, DONE),
            ],
        ),
        Case(
            "https://github.com/elastic/elasticsearch/issues/153980",
            "CRLF, and a pause within the blank line between two events",
            [sse(HEL).replace(b"\n", b"\r\n")[:-1], 0.02, b"\n" + sse(LO, STOP, USAGE, DONE).replace(b"\n", b"\r\n")],
        ),
        Case(
            "https://github.com/odysseus-dev/odysseus/pull/1701",
            "no space after `data:`",
            [sse(HEL, LO, STOP, USAGE, DONE).replace(b"data: ", b"data:")],
        ),
        Case(
            "https://github.com/CommandCodeAI/command-code/issues/785",
            "the stream ends silently within the arguments of a call",
            [sse(call_part(index=0, id="a", type="function", function=function(ARGUMENTS[:9], "read_file")))],
            error=10,
        ),
        Case(
            "https://github.com/vllm-project/vllm/pull/36944",
            "the last text in the chunk with the finish reason",
            [sse(HEL, wire.chunk({"content": "lo."}, finish="stop"), DONE)],
        ),
        Case(
            "https://github.com/paiml/aprender/pull/2015",
            "`data:` twice",
            [sse(HEL, LO, STOP, USAGE, DONE).replace(b"data: ", b"data: data: ")],
        ),
        Case(
            "https://github.com/earendil-works/pi/issues/6762",
            "control characters within the JSON of an event",
            [
                sse(wire.text("A\tB\x1b "), HEL, LO, STOP, USAGE, DONE)
                .replace(b"\\t", b"\t")
                .replace(b"\\u001b", b"\x1b")
            ],
        ),
        Case(
            "https://github.com/BerriAI/litellm/issues/4537",
            "an empty object before the arguments",
            call_in_pieces("{}", ARGUMENTS[:9], ARGUMENTS[9:]),
            calls=1,
        ),
        Case(
            "https://github.com/NousResearch/hermes-agent/pull/35718",
            "all arguments so far in each chunk",
            call_in_pieces(ARGUMENTS[:1], ARGUMENTS[:9], ARGUMENTS[:15], ARGUMENTS),
            calls=1,
        ),
        Case(
            "https://github.com/vllm-project/vllm/issues/51697",
            "all arguments again after their last piece",
            call_in_pieces(ARGUMENTS[:9], ARGUMENTS[9:], ARGUMENTS),
            calls=1,
        ),
        Case(
            "https://github.com/BerriAI/litellm/issues/20480",
            "the same, as a JSON string",
            call_in_pieces(ARGUMENTS[:9], ARGUMENTS[9:], json.dumps(ARGUMENTS)),
            calls=1,
        ),
        Case(
            "https://github.com/microsoft/foundry-local/issues/263",
            "the number of the chunk as the index of its choice",
            [sse(*numbered(HEL, LO, STOP), USAGE, DONE)],
        ),
        Case(
            "https://github.com/huggingface/text-generation-inference/pull/1648",
            "the same, from 1",
            [sse(*numbered(STOP, HEL, LO, STOP)[1:], USAGE, DONE)],
        ),
        Case(
            "https://github.com/HKUDS/nanobot/pull/1555",
            "text and calls in separate choices",
            [json.dumps(TWO_CHOICES).encode()],
            content_type="application/json",
            calls=1,
        ),
        Case(
            "https://github.com/open-webui/open-webui/issues/16377",
            "a finish reason in each chunk, and pauses",
            [sse(FINAL_HEL), 0.1, sse(FINAL_HEL), 2.3, sse(LO, STOP, USAGE, DONE)],
        ),
        Case(
            "https://github.com/kirill-markin/expense-budget-tracker/pull/279",
            "the type of a temporary error in a stream, without a status",
            [sse({"error": {"type": "server_error", "message": "it failed", "param": None, "code": None}})],
            is_retried=True,
        ),
        Case(
            "https://docs.nestjs.com/controllers#status-code",
            "HTTP 201",
            [sse(HEL, LO, STOP, USAGE, DONE)],
            status=201,
        ),
        Case(
            "https://github.com/agentgateway/agentgateway/issues/3040",
            "a Content-Encoding of the upstream's body, which the gateway has decompressed",
            [json.dumps(wire.answer("Hello.")).encode()],
            content_type="application/json",
            headers={"Content-Encoding": "br"},
        ),
        Case(
            "https://github.com/freelensapp/freelens-ai-extension/issues/272",
            "the same with gzip",
            [sse(HEL, LO, STOP, USAGE, DONE)],
            headers={"Content-Encoding": "gzip"},
        ),
        Case(
            "https://github.com/gadievron/raptor/pull/547",
            "a compressed body without Content-Encoding",
            [gzip.compress(sse(HEL, LO)) + gzip.compress(sse(STOP, USAGE, DONE))],
        ),
        Case(
            "https://github.com/MiniMax-AI/MiniMax-M2/issues/62",
            "HTTP 500 for an empty account, which is not retried",
            [b'{"error": {"message": "insufficient balance (1008)"}}'],
            status=500,
            content_type="application/json",
            error=6,
        ),
        Case(
            "https://github.com/lucasjinreal/Crane/pull/121",
            "an error as plain text after a part of the answer",
            [sse(HEL, b"data: error: engine died\n\n")],
            error=6,
            notice="engine died (",
        ),
        Case(
            "https://github.com/earendil-works/pi/issues/9627",
            "HTTP 520 without a body",
            [b""],
            status=520,
            is_retried=True,
        ),
        Case(
            "https://github.com/earendil-works/pi/issues/6239",
            "HTTP 524 without a body",
            [b""],
            status=524,
            is_retried=True,
        ),
        Case(
            "https://github.com/sudoprivacy/sudocode/pull/722",
            "an upstream's 524 in a body with status 200",
            [UPSTREAM_TIMEOUT],
            content_type="application/json",
            is_retried=True,
        ),
    ],
    "openai": [
        Case(
            "https://github.com/QuantumNous/new-api/issues/4362",
            "`response.completed` with an empty output",
            [completed({"output": []})],
        ),
        Case(
            "https://github.com/decolua/9router/issues/705",
            "`response.completed` without output and usage",
            [completed({}, without="output")],
        ),
        Case(
            "https://github.com/BerriAI/litellm/pull/32724",
            "`response.completed` without the call that was streamed",
            [completed({"output": [responses_wire.message("")]}, CALL_EVENTS)],
            calls=1,
        ),
        Case(
            "https://github.com/Wei-Shaw/sub2api/issues/5140",
            "text without annotations in `response.completed`",
            [
                completed(
                    {"output": [{"type": "message", "id": "m", "content": [{"type": "output_text", "text": "Hello."}]}]}
                )
            ],
        ),
        Case(
            "https://github.com/openai/openai-python/issues/3321",
            "`response.completed` with an output of null",
            [completed({"output": None})],
        ),
        Case(
            "https://github.com/maximhq/bifrost/issues/5169",
            "reasoning, and text under the same index, without events that add their items",
            [
                sse(
                    {"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "Hm."},
                    {"type": "response.output_text.delta", "output_index": 0, "delta": "Hello."},
                    {"type": "response.completed", "response": {"status": "completed"}},
                )
            ],
        ),
        Case(
            "https://github.com/anomalyco/opencode/issues/26129",
            "an overload in an event",
            [sse({"type": "error", "sequence_number": 2, "error": OVERLOADED})],
            is_retried=True,
        ),
        Case(
            "https://github.com/XiaomiMiMo/MiMo-Code/issues/2083",
            "an overload in the response",
            [
                sse(
                    {
                        "type": "response.failed",
                        "response": RESPONSE | {"status": "failed", "output": [], "error": OVERLOADED},
                    }
                )
            ],
            is_retried=True,
        ),
        Case(
            "https://github.com/tjardoo/openai-client/pull/170",
            "events of the undocumented type keepalive",
            [sse({"type": "keepalive", "sequence_number": 1}).join(server_event(event) for event in RESPONSE_EVENTS)],
        ),
        Case(
            "https://github.com/openai/openai-python/issues/2722",
            "keep-alives between the events",
            [b"data:\n\nevent: ping\ndata: ping\n\n".join(server_event(event) for event in RESPONSE_EVENTS)],
        ),
    ],
    "anthropic": [
        Case(
            "https://github.com/anthropics/anthropic-sdk-typescript/issues/879",
            "two blocks with one index",
            [
                sse(
                    *anthropic_wire.begins(),
                    *anthropic_wire.block(0, {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}),
                    *anthropic_wire.text(0, "Hel"),
                    *anthropic_wire.text(0, "lo."),
                    *anthropic_wire.ends(),
                )
            ],
        ),
        Case(
            "https://github.com/sgl-project/sglang/pull/24294",
            "text within an open tool call",
            [
                sse(
                    *anthropic_wire.begins(),
                    TOOL_START,
                    anthropic_delta(0, type="text_delta", text="\n"),
                    TOOL_INPUT,
                    STOP_BLOCK,
                    *anthropic_wire.ends("tool_use"),
                )
            ],
            calls=1,
        ),
        Case(
            "https://github.com/Oaklight/llm-rosetta/issues/246",
            "text with the index of the thinking before it",
            [
                sse(
                    *anthropic_wire.begins(),
                    *anthropic_wire.thinking(0, "Hm."),
                    anthropic_start(1, type="text", text=""),
                    anthropic_delta(0, type="text_delta", text="Hello."),
                    *anthropic_wire.ends(),
                )
            ],
        ),
        Case(
            "https://github.com/invergent-ai/surogate/issues/113",
            "a block starts before the one before has stopped",
            [
                sse(
                    *anthropic_wire.begins(),
                    anthropic_start(0, type="text", text=""),
                    anthropic_delta(0, type="text_delta", text="So: "),
                    anthropic_start(1, type="tool_use", id="t1", name="read_file", input={}),
                    anthropic_delta(1, type="input_json_delta", partial_json=ARGUMENTS),
                    *anthropic_wire.ends("tool_use"),
                )
            ],
            calls=1,
        ),
        Case(
            "https://github.com/farion1231/cc-switch/pull/2557",
            "a call that starts without input",
            [
                sse(
                    *anthropic_wire.begins(),
                    anthropic_start(0, type="tool_use", id="t1", name="read_file"),
                    TOOL_INPUT,
                    STOP_BLOCK,
                    *anthropic_wire.ends("tool_use"),
                )
            ],
            calls=1,
        ),
        Case(
            "https://github.com/can1357/oh-my-pi/pull/8319",
            "the first text in the start of its block",
            [
                sse(
                    *anthropic_wire.begins(),
                    anthropic_start(0, type="text", text="Hel"),
                    anthropic_delta(0, type="text_delta", text="lo."),
                    STOP_BLOCK,
                    *anthropic_wire.ends(),
                )
            ],
        ),
        Case(
            "https://github.com/BerriAI/litellm/pull/33315",
            "deltas without content",
            [
                sse(
                    *anthropic_wire.begins(),
                    anthropic_start(0, type="text", text=""),
                    anthropic_delta(0),
                    anthropic_delta(0, type="thinking_delta"),
                    anthropic_delta(0, type="text_delta", text="Hello."),
                    anthropic_delta(0, type="text_delta", text=""),
                    *anthropic_wire.ends(),
                )
            ],
        ),
        Case(
            "https://github.com/esengine/DeepSeek-Reasonix/pull/8756",
            "the stream ends after the stop reason, without `message_stop`",
            [sse(*anthropic_wire.begins(), *anthropic_wire.text(0, "Hello."), anthropic_wire.ends()[0])],
        ),
    ],
    "gemini": [
        Case(
            "https://github.com/Chevey339/kelivo/issues/1003",
            "a finish reason long before the first text",
            [
                sse({"candidates": [{"content": {"parts": []}, "finishReason": "STOP"}]}),
                2.3,
                sse({"candidates": [{"content": {"parts": [{"text": "Hello."}]}}]}),
                sse({"candidates": [{"content": {"parts": []}, "finishReason": "STOP"}]}),
            ],
        ),
        Case(
            "https://github.com/symfony/ai/pull/1610",
            "a last chunk without content",
            [
                sse(
                    {"candidates": [{"content": {"parts": [{"text": "Hello."}]}}]},
                    {"candidates": [{"finishReason": "STOP", "index": 0}]},
                )
            ],
        ),
        Case(
            "https://github.com/brekkylab/ailoy/pull/434",
            "the finish reason in the chunk after the call",
            [
                sse(
                    {"candidates": [{"content": {"parts": [gemini_wire.call("read_file", filepath="note.txt")]}}]},
                    {"candidates": [{"content": {"role": "model"}, "finishReason": "STOP"}]},
                )
            ],
            calls=1,
        ),
        Case(
            "https://github.com/BerriAI/litellm/pull/29167",
            "chunks with metadata only",
            [
                sse(
                    {"candidates": [{"groundingMetadata": {"webSearchQueries": ["x"]}, "index": 0}]},
                    {"candidates": [{"content": {"parts": [{"text": "Hello."}]}}]},
                    {"candidates": [], "usageMetadata": None},
                    {"candidates": [{"content": {}, "finishReason": "STOP"}]},
                )
            ],
        ),
        Case(
            "https://github.com/googleapis/python-genai/pull/487",
            "keep-alives between the chunks",
            [
                sse(
                    b": this is a keep-alive\n\n",
                    {"candidates": [{"content": {"parts": [{"text": "Hello."}]}}]},
                    b"data: [PING]\n\nevent: ping\ndata: {}\n\n",
                    {"candidates": [{"content": {}, "finishReason": "STOP"}]},
                    b"data: ping\n\n",
                )
            ],
        ),
    ],
    "ollama": [
        Case(
            "https://docs.ollama.com/api/chat",
            '`done_reason` with `"done": false`',
            [
                b"\n".join(
                    json.dumps(line).encode()
                    for line in (ollama_line(content="Hello."), ollama_line() | {"done_reason": "stop"})
                )
                + b"\n"
            ],
            content_type="application/x-ndjson",
        ),
    ],
}
LISTED = [(provider, case) for provider, cases in CASES.items() for case in cases]


def final_reply(provider: str) -> Reply:
    """Return the answer after a call or a retry, which is complete and not streamed."""
    body: Any = {
        "openrouter": wire.answer("Hello."),
        "openai": RESPONSE,
        "anthropic": anthropic_wire.message_of({"type": "text", "text": "Hello."}),
        "gemini": gemini_wire.whole(gemini_wire.text("Hello.")),
        "ollama": ollama_line(done=True, content="Hello."),
    }[provider]
    return Reply((json.dumps(body).encode() + b"\n",), responses_api=provider == "openai")


@pytest.mark.parametrize(
    ("provider", "case"), LISTED, ids=[case.link.removeprefix("https://github.com/") for _, case in LISTED]
)
def test_reported_stream_is_read(ask: Ask, server: ModelServer, provider: str, case: Case) -> None:
    (ask.cwd / "note.txt").write_text(CONTENT)
    reply = Reply(case.steps, case.status, case.content_type, case.headers, responses_api=provider == "openai")
    server.reply(reply, *([] if case.error else [final_reply(provider)]))
    env = {f"{provider.upper()}_API_KEY": TEST_KEY, f"{provider.upper()}_BASE_URL": server.base_url}
    result = ask("-p", provider, "-m", "vendor/model", "--json", "say hello", env=env)
    assert result.code == case.error, result.stderr
    if not case.error:
        assert json.loads(result.stdout)["text"].endswith("Hello.")
    assert case.notice in result.stderr
    if case.error != 10:
        assert len(server.requests) == 1 + bool(case.calls) + case.is_retried
    results = server.requests[-1].body.decode().count(CONTENT)
    assert results == case.calls, server.requests[-1].body.decode()[-1500:]
