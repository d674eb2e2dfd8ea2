"""Answers of Gemini 4 that take several requests.

https://ai.google.dev/gemini-api/docs/generate-content/long-decode
"""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping
from typing import Any

import pytest

from ask import Attachment, ChatRequest, FinishReason, Message, ProviderState, ToolCall, ToolSpec, Usage
from providers.gemini import Gemini
from providers.gemini import provider as gemini
from tests import recorded_exchanges
from tests.host_requests import prepare_request
from tests.model_server import DROP, HOLD, ModelServer, Reply
from tests.program import Ask, Home
from tests.providers import gemini_wire as wire
from tests.providers.test_gemini import TestGemini as GeminiContract
from tests.recorded_exchanges import ExchangeResult

QUESTION = ChatRequest("gemini-4-argon", [Message("user", "Write a book.")], options={"temperature": 0.5})


def part(*parts: Any, token: str = "", finish: str | None = None, output: int = 5) -> dict[str, Any]:
    """Build a chunk of a stream, or a whole response."""
    candidate = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    candidate |= {"continuationToken": token} if token else {}
    candidate |= {"finishReason": finish} if finish else {}
    usage = {"promptTokenCount": 10 + output, "candidatesTokenCount": output}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-4-argon"}


def broken(*bodies: dict[str, Any]) -> Reply:
    """Build a stream whose connection breaks."""
    reply = wire.streamed(*bodies)
    return Reply([*reply.steps, DROP], content_type=reply.content_type)


def whole(body: dict[str, Any]) -> Reply:
    return Reply((json.dumps(body).encode(),))


def send(server: ModelServer, *replies: Reply, stream: bool = True, tries: int = 1) -> ExchangeResult:
    server.reply(*replies)
    return recorded_exchanges.send_request(gemini, server, QUESTION._replace(stream=stream), tries=tries)


def list_tokens(server: ModelServer) -> list[Any]:
    """Return the token of each request, after checking that all else is the same."""
    bodies = [request.json for request in server.requests]
    tokens = [body.pop("continuationToken", None) for body in bodies]
    assert all(body == bodies[0] for body in bodies)
    return tokens


@pytest.mark.parametrize("stream", [True, False])
def test_an_answer_is_continued_until_it_is_complete(server: ModelServer, stream: bool) -> None:
    signed = wire.text("three.", thoughtSignature=wire.SIGNATURE)
    bodies = [
        part(wire.thought("Hm. "), wire.text("One, "), token="t1", finish="CONTINUATION", output=7),
        part(wire.text("two, "), token="t2", finish="CONTINUATION"),
        part(signed, finish="STOP", output=3),
    ]
    exchange = send(server, *(wire.streamed(body) if stream else whole(body) for body in bodies), stream=stream)
    answer = exchange.result.answer
    assert (exchange.outcome, exchange.streamed_text, exchange.notices) == ("ok", "One, two, three.", [])
    assert (answer.text, answer.reasoning, answer.finish_reason) == ("One, two, three.", "Hm. ", FinishReason.STOP)
    assert list_tokens(server) == [None, "t1", "t2"]
    assert exchange.result.usages == (Usage(17, 7), Usage(15, 5), Usage(13, 3))
    assert answer.usage == Usage(17, 15)
    assert answer.provider_state is not None
    assert answer.provider_state.data["parts"] == [wire.text("One, "), wire.text("two, "), signed]


def test_a_request_with_a_token_is_one_that_google_s_sdk_sends() -> None:
    body = gemini.build_body(QUESTION._replace(continuation_token="dG9rZW4="))
    assert body["continuationToken"] == "dG9rZW4="
    assert wire.read_by_google(body) == wire.plain(body)


def test_a_request_of_gemini_4_with_everything_is_one_that_google_s_sdk_sends() -> None:
    call = ToolCall("toolu_1", "add", '{"a": 1}')
    foreign = ProviderState("anthropic", "claude-opus-5-5", {"content": [{"type": "thinking", "thinking": "Hm."}]})
    image = Attachment("a.png", "image/png", b"png")
    messages = [
        Message("system", "Be kind."),
        Message("user", "What is this?", attachments=(image,)),
        Message("assistant", "", (call,), provider_state=foreign),
        Message("tool", "Error: no", (), call.id, call.name, is_error=True),
        Message("assistant", "Hm.", provider_state=foreign),
        Message("user", "Again."),
    ]
    tool = ToolSpec("add", "Adds.", {"type": "object", "properties": {"a": {"type": "integer"}}})
    options = {"reasoning_effort": "none", "service_tier": "flex", "max_tokens": 262_144}
    schema = {"type": "object", "properties": {"b": {"type": "string"}}}
    request = prepare_request(gemini, "gemini-4-argon", messages, [tool], options=options, schema=schema)
    body = dict(gemini.provider_build_request(request, "key").body or {})
    assert wire.read_by_google(body) == wire.plain(body)
    assert body["serviceTier"] == "flex"
    config = body["generationConfig"]
    assert config["thinkingConfig"]["thinkingLevel"] == "low"
    assert (config["maxOutputTokens"], config["responseJsonSchema"]) == (262_144, schema)


def test_calls_of_all_parts_are_made(server: ModelServer) -> None:
    exchange = send(
        server,
        wire.streamed(part(wire.call(a=1), token="t1", finish="CONTINUATION")),
        wire.streamed(part(wire.call(a=2), finish="STOP")),
    )
    assert exchange.calls == (("add", {"a": 1}), ("add", {"a": 2}))


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_stream_that_breaks_off_is_resumed_from_its_last_token(server: ModelServer, is_clean: bool) -> None:
    chunks = part(wire.text("One, ")), part(wire.text("two, "), token="t1"), part(wire.text("thr"))
    exchange = send(
        server,
        wire.streamed(*chunks) if is_clean else broken(*chunks),
        wire.streamed(part(wire.text("th")), part(wire.text("ree.")), part(finish="STOP")),
    )
    assert list_tokens(server) == [None, "t1"]
    assert (exchange.outcome, exchange.streamed_text) == ("ok", "One, two, three.")
    assert exchange.result.answer.text == "One, two, three."
    assert len(exchange.notices) == 1


def test_text_that_is_written_anew_replaces_what_came_after_the_token(server: ModelServer) -> None:
    exchange = send(
        server,
        broken(part(wire.text("One, "), token="t1"), part(wire.text("two")), part(wire.text("!"))),
        wire.streamed(part(wire.text("three."), finish="STOP")),
    )
    assert exchange.result.answer.text == "One, three."
    assert exchange.streamed_text == "One, two!three."


def test_an_error_in_the_stream_is_resumed_if_it_may_pass(server: ModelServer) -> None:
    overloaded = {"error": {"code": 503, "message": "Overloaded.", "status": "UNAVAILABLE"}}
    exchange = send(
        server,
        wire.streamed(part(wire.text("One, "), token="t1"), overloaded),
        wire.streamed(part(wire.text("two."), finish="STOP")),
    )
    assert (exchange.outcome, exchange.streamed_text) == ("ok", "One, two.")
    denied = {"error": {"code": 403, "message": "No.", "status": "PERMISSION_DENIED"}}
    exchange = send(server, wire.streamed(part(wire.text("One, "), token="t1"), denied))
    assert (exchange.outcome, exchange.result.answer.text, len(server.requests)) == ("error", "One, ", 3)


def test_a_stream_that_breaks_off_while_the_model_thinks_is_resumed(server: ModelServer) -> None:
    exchange = send(server, broken(part(token="t1")), wire.streamed(part(wire.text("One."), finish="STOP")))
    assert (exchange.outcome, exchange.streamed_text, list_tokens(server)) == ("ok", "One.", [None, "t1"])


def test_three_requests_without_a_new_token_are_the_last(server: ModelServer) -> None:
    exchange = send(
        server,
        broken(part(wire.text("One, "), token="t1")),
        broken(part(wire.text("two, "))),
        Reply((DROP,)),
        Reply((b"{}",), status=503),
        wire.streamed(part(wire.text("two."), finish="STOP")),
    )
    assert list_tokens(server) == [None, "t1", "t1", "t1"]
    assert exchange.result.answer.text == "One, two, "
    assert exchange.result.error is not None
    assert exchange.result.tool_calls == ()


def test_a_limit_that_brings_no_new_token_ends_the_answer(server: ModelServer) -> None:
    again = wire.streamed(part(wire.text("One, "), token="t1", finish="CONTINUATION"))
    exchange = send(server, again, again, again)
    assert (exchange.outcome, list_tokens(server)) == ("length", [None, "t1"])


def test_a_response_without_an_answer_does_not_complete_one(server: ModelServer) -> None:
    first = whole(part(wire.text("One, "), token="t1", finish="CONTINUATION"))
    exchange = send(server, first, whole({}), whole(part(wire.text("two."), finish="STOP")), stream=False)
    assert (exchange.outcome, exchange.result.answer.text, list_tokens(server)) == (
        "ok",
        "One, two.",
        [None, "t1", "t1"],
    )
    exchange = send(server, first, whole({}), stream=False)
    assert (exchange.outcome, exchange.result.answer.text) == ("cut", "One, ")


@pytest.mark.parametrize("finish", ["MAX_TOKENS", "STOP", "SAFETY"])
def test_an_answer_that_ended_is_not_continued(server: ModelServer, finish: str) -> None:
    send(server, wire.streamed(part(wire.text("One, "), token="t1"), part(finish=finish, token="t2")))
    assert len(server.requests) == 1


def test_a_refused_continuation_keeps_what_arrived(server: ModelServer) -> None:
    first = wire.streamed(part(wire.text("One, "), token="t1", finish="CONTINUATION"))
    refusal = Reply((json.dumps({"error": {"code": 400, "message": "Token expired."}}).encode(),), status=400)
    exchange = send(server, first, refusal)
    assert (exchange.outcome, exchange.result.answer.text) == ("error", "One, ")
    assert "Token expired" in str(exchange.result.error)


def test_a_row_is_continued(ask: Ask, server: ModelServer) -> None:
    server.reply(
        whole(part(wire.text("One, "), token="t1", finish="CONTINUATION", output=7)),
        whole(part(wire.text("two."), finish="STOP", output=3)),
    )
    env = {"GEMINI_BASE_URL": server.base_url, "GEMINI_API_KEY": "key"}
    result = ask(
        "map",
        "-p",
        "gemini",
        "-m",
        "gemini-4-argon",
        "--input-format",
        "lines",
        "Count: {{line}}",
        "-",
        stdin=b"x\n",
        env=env,
    )
    assert result.code == 0, result.stderr
    row = json.loads(result.stdout.splitlines()[0])
    assert (result.code, list_tokens(server)) == (0, [None, "t1"])
    assert "One, two." in json.dumps(row)


def test_a_long_answer_outlives_its_key_and_its_server(ask: Ask, home: Home, server: ModelServer) -> None:
    """An access token for Vertex AI lasts an hour at most, and a server may go away with part of an answer."""
    count = home.path / "count"
    with ModelServer() as other:
        home.configure(
            f'''[network]
backoff = 0.01
[providers.mine]
base_url = ["{other.base_url}", "{server.base_url}"]
api = "gemini"
model = "gemini-4-argon"
key_command = "echo >> {count}; echo token-$(wc -l < {count})-0123456789"
'''
        )
        expired = Reply((json.dumps({"error": {"code": 401, "message": "It expired."}}).encode(),), status=401)
        other.reply(
            wire.streamed(part(wire.text("One, "), token="t1", finish="CONTINUATION")),
            expired,
            broken(part(wire.text("two, "), token="t2")),
        )
        server.reply(wire.streamed(part(wire.text("three."), finish="STOP")))
        answered = ask("-p", "mine", "go")
        assert (answered.code, answered.stdout) == (0, b"One, two, three.\n"), answered.stderr
        keys = [request.headers["x-goog-api-key"].split("-")[1] for request in other.requests + server.requests]
        assert (keys, list_tokens(other), list_tokens(server)) == (list("1122"), [None, "t1", "t1"], ["t2"])


def test_ctrl_c_keeps_what_the_parts_have_brought(ask: Ask, server: ModelServer) -> None:
    resumed = wire.streamed(part(wire.text("two, ")))
    server.reply(
        wire.streamed(part(wire.text("One, "), token="t1", finish="CONTINUATION")),
        Reply([*resumed.steps, HOLD], content_type=resumed.content_type),
    )
    env = {"GEMINI_BASE_URL": server.base_url, "GEMINI_API_KEY": "key"}
    with ask.start("-p", "gemini", "-m", "gemini-4-argon", "go", env=env) as process:
        process.wait_for("two, ")
        process.signal(signal.SIGINT)
        assert process.finish().code == 130
    assert ask("history", "show", "--json").text.count("One, two, ") == 1


class Forgetful(Gemini):
    """It keeps only the last response, or nothing of the reason why it ended."""

    keeps_token = False

    def provider_join_responses(self, response: Mapping[str, Any], continuation: Mapping[str, Any]) -> dict[str, Any]:
        joined = super().provider_join_responses(response, continuation)
        if not self.keeps_token:
            return dict(continuation or response)
        (candidate,) = joined["candidates"]
        return joined | {"candidates": [candidate | {"continuationToken": "t", "finishReason": "CONTINUATION"}]}


@pytest.mark.parametrize("keeps_token", [False, True])
def test_the_contract_finds_responses_that_are_not_joined(keeps_token: bool) -> None:
    mistaken = Forgetful(gemini.info)
    mistaken.keeps_token = keeps_token
    suite = type("Suite", (GeminiContract,), {"provider": mistaken})()
    with pytest.raises(AssertionError, match="provider_join_responses"):
        suite.test_answer_is_continued()


@pytest.mark.parametrize("stream", [True, False])
def test_each_part_of_an_answer_has_its_sources(server: ModelServer, stream: bool) -> None:
    bodies = [
        part(wire.text("Foxes are red."), token="t1", finish="CONTINUATION"),
        part(wire.text("Foxes eat mice."), finish="STOP"),
    ]
    for number, body in enumerate(bodies):
        segment = {"startIndex": 6, "endIndex": 9}
        body["candidates"][0]["groundingMetadata"] = {
            "webSearchQueries": [f"foxes {number}"],
            "groundingChunks": [{"web": {"uri": f"https://fox.example/{number}", "title": "Fox"}}],
            "groundingSupports": [{"segment": segment, "groundingChunkIndices": [0]}],
        }
        body["candidates"][0]["urlContextMetadata"] = {"urlMetadata": [{"retrievedUrl": f"https://b.example/{number}"}]}
    exchange = send(server, *(wire.streamed(body) if stream else whole(body) for body in bodies), stream=stream)
    answer = exchange.result.answer
    assert [(each.url, answer.text[each.start : each.end]) for each in answer.citations] == [
        ("https://fox.example/0", "are"),
        ("https://fox.example/1", "eat"),
    ]
    assert [(call.name, json.loads(call.arguments)) for call in answer.server_calls] == [
        ("web_search", {"query": "foxes 0"}),
        ("web_search", {"query": "foxes 1"}),
        ("web_fetch", {"url": "https://b.example/0"}),
        ("web_fetch", {"url": "https://b.example/1"}),
    ]
