"""`ProviderClient` against a real server: retries, and the results of complete and incomplete answers."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from email.utils import formatdate
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask import (
    AskError,
    ChatCompletions,
    ChatRequest,
    FinishReason,
    HttpRequest,
    Message,
    ModelResponse,
    ProviderError,
    RawEvent,
    RetryAction,
    TextDelta,
    ToolCall,
    ToolSpec,
    Usage,
)
from ask.client.provider_client import ProviderClient, RequestResult
from ask.client.transport import Transport
from ask.config.redaction import Redactor
from ask.errors import PluginError
from ask.messages import Delta, ReasoningDelta
from ask.plugin_api.provider_loading import check_provider
from ask_providers.openrouter import provider as openrouter
from tests import wire
from tests.json_strategies import replace_any_part
from tests.model_server import DROP, HOLD, RESET, ModelServer, Reply, Step

TOOL = ToolSpec("bash", "Run a command", {"type": "object"})
QUESTION = ChatRequest("m", [Message("user", "hi")])
BASH = ("bash", {"command": "ls"})
COMMENT = b": OPENROUTER PROCESSING\n\n"


class SendOutcome(NamedTuple):
    """The result of a request, with the text and the notices shown to the user."""

    result: RequestResult
    shown_text: str
    notices: list[str]

    @property
    def error_text(self) -> str:
        """The error as shown to the user, or ""."""
        return str(self.result.error or "")


def send(
    server: ModelServer,
    *replies: Reply,
    request: ChatRequest = QUESTION,
    tries: int = 4,
    backoff: float = 0.001,
    stall: float = 20,
) -> SendOutcome:
    """Send a request with OpenRouter's provider."""
    server.reply(*replies)
    notices: list[str] = []
    shown_text: list[str] = []
    client = ProviderClient(
        check_provider(openrouter, "openrouter", "ask-gents"),
        lambda: Transport(server.base_url, stall),
        "key",
        tries=tries,
        backoff=backoff,
        on_notice=notices.append,
    )
    result = client.send(
        request, lambda delta: shown_text.append(delta.text if isinstance(delta, TextDelta) else ""), [TOOL]
    )
    return SendOutcome(result, "".join(shown_text), notices)


def raw(*steps: Step, content_type: str = "text/event-stream", **more: Any) -> Reply:
    return Reply(steps, content_type=content_type, **more)


# Retries


@pytest.mark.parametrize(
    "status", [408, 409, 425, 429, 500, 502, 503, 504, 507, 520, 521, 522, 523, 524, 525, 526, 527, 529, 530, 599]
)
def test_temporary_error_is_retried_with_a_notice(server: ModelServer, status: int) -> None:
    outcome = send(server, wire.fails(status, "busy"), wire.says("here"))
    assert (outcome.result.answer.text, outcome.shown_text, outcome.error_text) == ("here", "here", "")
    [notice] = outcome.notices
    assert all(part in notice for part in (f"busy (openrouter, {status})", "0.0 s", "1 of 3"))


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 413, 418, 421, 422, 444, 460, 498, 499, 501, 505])
def test_permanent_error_is_not_retried(server: ModelServer, status: int) -> None:
    outcome = send(server, wire.fails(status, "no"), wire.says("here"))
    assert outcome.error_text.startswith(f"no (openrouter, {status}): ")
    assert (len(server.requests), outcome.notices) == (1, [])


@pytest.mark.parametrize(
    "reply",
    [
        raw(DROP),
        raw(RESET),
        raw(b"", DROP),
        raw(b"", RESET),
        raw(COMMENT, 0.01, RESET),
        raw(COMMENT, framing="close"),
        raw(b""),
        raw(b'{"choices": [', DROP, framing="length"),
        raw(b'{"choices": [', framing="close"),
        wire.streams(wire.error(code=503)),
        wire.whole_reply(wire.error(code=502)),
        wire.whole_reply(wire.answer(finish="error")),
        wire.streams(wire.chunk(finish="stop", native_finish_reason="MALFORMED_FUNCTION_CALL")),
    ],
)
def test_failure_before_the_first_delta_is_retried(server: ModelServer, reply: Reply) -> None:
    outcome = send(server, reply, reply, wire.says("here"))
    assert (outcome.result.answer.text, outcome.error_text, len(outcome.notices)) == ("here", "", 2)


@pytest.mark.parametrize(
    "first",
    [wire.text("some"), wire.reasoning("hm"), wire.call(0, id="a", name="bash", arguments='{"comm')],
    ids=["text", "reasoning", "call"],
)
@pytest.mark.parametrize("failure_step", [DROP, RESET, HOLD, wire.error(code=503), "{nonsense"])
def test_failure_after_the_first_delta_is_not_retried(server: ModelServer, first: Any, failure_step: Any) -> None:
    outcome = send(server, wire.streams(first, 0.02, failure_step), wire.says("here"), stall=0.3)
    assert (len(server.requests), outcome.notices) == (1, [])
    assert outcome.result.tool_calls == ()
    assert outcome.error_text
    assert outcome.shown_text == outcome.result.answer.text == ("some" if first == wire.text("some") else "")


@pytest.mark.parametrize("code", [409, 425, 520, 524, 530, "599"])
def test_temporary_status_in_a_body_with_status_200_is_retried(server: ModelServer, code: Any) -> None:
    failure = wire.error("the upstream failed", code)
    outcome = send(server, wire.whole_reply(failure), wire.streams(failure), wire.says("here"))
    assert (outcome.result.answer.text, len(outcome.notices)) == ("here", 2)


ENDS_WITHOUT_REASON = {
    "text, then the usage": ([wire.text("some"), wire.usage()], "some"),
    "keep-alives in between": ([wire.text("some"), "ping", wire.usage(), "", b": x\n\n"], "some"),
}


@pytest.mark.parametrize(("chunks", "text"), ENDS_WITHOUT_REASON.values(), ids=ENDS_WITHOUT_REASON.keys())
def test_usage_after_text_ends_an_answer_with_a_notice(server: ModelServer, chunks: Any, text: str) -> None:
    outcome = send(server, wire.streams(*chunks, done=False))
    assert (outcome.result.answer.text, outcome.error_text, outcome.result.answer.usage.output_tokens) == (text, "", 5)
    assert ["may be incomplete" in notice for notice in outcome.notices] == [True]


CUT_OFF: dict[str, list[Any]] = {
    "text alone": [wire.text("some")],
    "reasoning": [wire.reasoning("some"), wire.usage()],
    "blank usage": [wire.text("some"), wire.usage() | {"usage": None}],
    "usage beside text": [wire.text("some") | {"usage": {"prompt_tokens": 1}}],
    "text after the usage": [wire.text("so"), wire.usage(), wire.text("me")],
    "a call": [wire.text("some"), wire.call(0, id="a", name="bash", arguments="{}"), wire.usage()],
    "a reset": [wire.text("some"), wire.usage(), 0.02, RESET],
    "a dropped connection": [wire.text("some"), wire.usage(), 0.02, DROP],
}


@pytest.mark.parametrize("chunks", CUT_OFF.values(), ids=CUT_OFF.keys())
def test_less_than_usage_after_text_is_cut_off(server: ModelServer, chunks: list[Any]) -> None:
    outcome = send(server, wire.streams(*chunks, done=False))
    assert outcome.result.error is not None
    assert (outcome.result.error.exit_code, outcome.result.tool_calls) == (10, ())
    assert outcome.result.answer.finish_reason is FinishReason.STREAM_INCOMPLETE


def test_words_in_place_of_an_answer_are_shown(server: ModelServer) -> None:
    outcome = send(server, wire.streams("ping", "upstream overloaded", done=False), tries=1)
    assert "upstream overloaded" in outcome.error_text


def test_errors_after_done_are_ignored(server: ModelServer) -> None:
    outcome = send(server, wire.streams(wire.text("some"), "[DONE]", wire.error(), "{", wire.usage(), done=False))
    assert (outcome.result.answer.text, outcome.error_text, outcome.result.answer.usage.output_tokens) == (
        "some",
        "",
        5,
    )


def test_last_of_four_failures_is_the_error(server: ModelServer) -> None:
    outcome = send(server, *(wire.fails(500, f"failure {number}") for number in range(5)))
    assert outcome.error_text.startswith("failure 3 (openrouter, 500): ")
    assert (len(server.requests), len(outcome.notices)) == (4, 3)


def test_backoff_doubles(server: ModelServer) -> None:
    outcome = send(server, wire.fails(500), backoff=0.2)
    pauses = [float(re.findall(r"in ([\d.]+) s", notice)[0]) for notice in outcome.notices]
    assert all(0.1 <= pause <= 0.31 * 2**number for number, pause in enumerate(pauses))
    send_times = [request.time for request in server.requests]
    waits = [later - earlier for earlier, later in pairwise(send_times)]
    assert all(wait >= 0.1 * 2**number for number, wait in enumerate(waits))


@pytest.mark.parametrize(
    ("value", "min_delay"),
    [("0", 0), ("0.2", 0.2), ("-5", 0), ("nonsense", 0), ("", 0), ("inf", 0), (formatdate(0, usegmt=True), 0)],
)
@pytest.mark.parametrize("status", [429, 402])
def test_retry_after_is_respected(server: ModelServer, value: str, min_delay: float, status: int) -> None:
    outcome = send(server, wire.fails(status, headers={"Retry-After": value}), wire.says("here"))
    if status == 402 and value in ("nonsense", "", "inf"):
        assert outcome.error_text  # status 402 is retried only if the header is valid
        return
    assert outcome.result.answer.text == "here"
    first, second = server.requests
    assert min_delay <= second.time - first.time < min_delay + 2


@pytest.mark.parametrize(("ending_chunks", "expected"), [([wire.finish(), "[DONE]"], None), ([wire.finish()], 10)])
def test_late_usage_is_awaited_unless_nothing_can_follow(
    server: ModelServer, ending_chunks: list[Any], expected: int | None
) -> None:
    outcome = send(server, wire.streams(wire.text("here"), *ending_chunks, 0.6, wire.usage(), DROP))
    assert (outcome.result.answer.text, outcome.error_text) == ("here", "")
    assert outcome.result.answer.usage.input_tokens == expected


@pytest.mark.parametrize(
    "piece",
    [
        wire.text("word "),
        wire.reasoning("word "),
        wire.call(0, id="a", name="bash", arguments="  "),
    ],
    ids=["text", "reasoning", "call"],
)
def test_growing_answer_may_take_longer_than_the_timeout(server: ModelServer, piece: Any) -> None:
    outcome = send(
        server, wire.streams(wire.text("so "), *[piece, 0.3] * 3, wire.text("far"), wire.finish()), stall=0.8
    )
    assert outcome.error_text == ""
    assert (outcome.shown_text[:3], outcome.shown_text[-3:]) == ("so ", "far")


def test_negative_usage_is_unknown(server: ModelServer) -> None:
    outcome = send(server, wire.streams(wire.text("here"), wire.finish(), wire.usage(-1, -5, cost=-0.5)))
    assert outcome.result.answer.usage == Usage()
    outcome = send(server, wire.streams(wire.text("here"), wire.finish(), wire.usage(0, -5, cost=0)))
    assert outcome.result.answer.usage == Usage(cost=0)


@pytest.mark.parametrize("value", ["0", "-5", "0.01", formatdate(0, usegmt=True)])
def test_short_retry_after_does_not_shorten_the_backoff(server: ModelServer, value: str) -> None:
    send(server, *[wire.fails(429, headers={"Retry-After": value})] * 4, backoff=0.04)
    waits = [later.time - earlier.time for earlier, later in pairwise(server.requests)]
    assert len(waits) == 3
    assert all(wait >= 0.02 * 2**number for number, wait in enumerate(waits))


def test_retry_after_ms_is_respected(server: ModelServer) -> None:
    headers = {"Retry-After-Ms": "300", "Retry-After": "1"}
    outcome = send(server, wire.fails(429, "slow down", headers=headers), wire.says("here"))
    [notice] = outcome.notices
    assert all(part in notice for part in ("slow down (openrouter, 429)", "0.3 s", "1 of 3"))


def test_retry_after_may_be_a_date(server: ModelServer) -> None:
    outcome = send(
        server, wire.fails(503, headers={"Retry-After": formatdate(time.time() + 2, usegmt=True)}), wire.says("here")
    )
    assert 0.5 < server.requests[1].time - server.requests[0].time < 4
    assert outcome.result.answer.text == "here"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("61", "1.0 min"),
        ("30000", "8.3 h"),
        ("31536000", "8760.0 h"),
        ("Fri, 01 Jan 2100 00:00:00 GMT", "over a year"),
        ("1e300", "over a year"),
    ],
)
def test_long_retry_after_is_an_error(server: ModelServer, value: str, expected: str) -> None:
    outcome = send(server, wire.fails(429, "slow down", headers={"Retry-After": value}), wire.says("here"))
    assert re.fullmatch(rf"slow down \(openrouter, 429\): the server asks to wait {expected}", outcome.error_text)
    assert len(server.requests) == 1


def test_model_without_tool_support_is_left_to_the_caller(server: ModelServer) -> None:
    outcome = send(server, wire.fails(404, "No endpoints found that support tool use"), wire.says("here"))
    assert isinstance(outcome.result.error, ProviderError)
    assert outcome.result.error.retry_action == RetryAction.WITHOUT_TOOLS
    assert (len(server.requests), outcome.shown_text, outcome.notices) == (1, "", [])


# Results


@pytest.mark.parametrize("is_stream_requested", [True, False], ids=["stream asked", "whole asked"])
@pytest.mark.parametrize("is_json", [True, False], ids=["whole sent", "stream sent"])
@pytest.mark.parametrize("content_type", ["text/event-stream", "application/json", "text/plain", ""])
@pytest.mark.parametrize("prefix", [b"", b"\n\n  \n", b"\xef\xbb\xbf"])
def test_streams_and_bodies_are_recognized_by_content(
    server: ModelServer, is_stream_requested: bool, is_json: bool, content_type: str, prefix: bytes
) -> None:
    body = (
        json.dumps(wire.answer("two words", [BASH])).encode()
        if is_json
        else wire.sse(*wire.stream("two words", [BASH]))
    )
    outcome = send(
        server, raw(prefix + body, content_type=content_type), request=QUESTION._replace(stream=is_stream_requested)
    )
    assert (outcome.shown_text, outcome.result.answer.text, outcome.error_text) == ("two words", "two words", "")
    assert [(call.name, json.loads(call.arguments)) for call in outcome.result.tool_calls] == [BASH]
    assert outcome.result.answer.usage.input_tokens == 10


@pytest.mark.parametrize(
    ("finish", "message"), [("length", "token limit"), ("content_filter", "filter"), ("stop", "empty")]
)
@pytest.mark.parametrize("is_json", [True, False])
def test_incomplete_answer_has_no_calls(server: ModelServer, finish: str, message: str, is_json: bool) -> None:
    content, calls = (None, ()) if finish == "stop" else ("text", [BASH])
    answer = wire.whole_reply(wire.answer(content, calls, finish=finish))
    outcome = send(server, answer if is_json else wire.streams(*wire.stream(content, calls, finish=finish)))
    assert outcome.result.tool_calls == ()
    assert message in outcome.error_text
    assert (outcome.result.error or AskError("")).exit_code == 10
    assert outcome.shown_text == (content or "")


@pytest.mark.parametrize("end", ["finish", "marker"])
def test_finish_reason_or_end_marker_ends_the_stream(server: ModelServer, end: str) -> None:
    chunks = [wire.text("all"), *([wire.finish()] if end == "finish" else [])]
    assert send(server, wire.streams(*chunks, done=end == "marker")).result.error is None


def test_stream_without_an_end_is_incomplete(server: ModelServer) -> None:
    outcome = send(server, wire.streams(wire.text("some"), done=False))
    assert (outcome.shown_text, outcome.result.answer.finish_reason) == ("some", FinishReason.STREAM_INCOMPLETE)
    assert (outcome.result.error or AskError("")).exit_code == 10


@pytest.mark.parametrize(
    "partial_line", [b'data: {"choices": [{"delta": {"content": "b"', b'data: {"choices": [{}', b"dat"]
)
def test_incomplete_line_is_not_a_provider_error(server: ModelServer, partial_line: bytes) -> None:
    outcome = send(server, raw(wire.event(wire.text("a")), partial_line, framing="close"))
    assert (outcome.shown_text, outcome.result.answer.finish_reason) == ("a", FinishReason.STREAM_INCOMPLETE)
    assert (outcome.result.error or AskError("")).exit_code == 10


@pytest.mark.parametrize("body", [b"[]", b"[1, 2]", b"[[]]", b"{}", b"null", b"42", b'"text"', b"true", b"OK", b"<p>"])
@pytest.mark.parametrize("status", [200, 400, 500])
def test_body_without_an_answer_is_an_error(server: ModelServer, body: bytes, status: int) -> None:
    outcome = send(server, raw(body, status=status, content_type="application/json"))
    assert outcome.result.error is not None
    assert outcome.result.error.exit_code == (10 if (status, body) == (200, b"{}") else 6)
    assert outcome.shown_text == ""
    assert outcome.result.error.hint


@pytest.mark.parametrize("body", ["[" * 200_000, '{"a":' * 200_000, '{"n": ' + "9" * 5000 + "}"])
def test_extreme_json_is_an_error(server: ModelServer, body: str) -> None:
    for reply in (raw(body.encode()), wire.streams(body), raw(body.encode(), status=400)):
        assert send(server, reply, tries=1).result.error is not None


def test_a_provider_may_build_its_own_next_key_remedy(server: ModelServer) -> None:
    class Plugin(ChatCompletions):
        def provider_parse_error(self, status: int, headers: Mapping[str, str], body: str) -> ProviderError:
            return ProviderError("no", status, retry_action=RetryAction("next_key"))

    server.reply(wire.whole_reply({"error": "no"}, 403), wire.says("Hello."))
    notices: list[str] = []
    plugin = check_provider(Plugin(name="own", base_url=server.base_url), "own", "own-plugin")
    client = ProviderClient(
        plugin, lambda: Transport(server.base_url, 20), "bad|good", tries=1, backoff=0, on_notice=notices.append
    )
    assert client.send(QUESTION, lambda _: None, [TOOL]).answer.text == "Hello."


def test_tools_and_tool_results_are_formatted_once_even_if_the_request_is_retried(server: ModelServer) -> None:
    hooks: list[str] = []

    class Plugin(ChatCompletions):
        def provider_format_tools(self, tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
            hooks.append("provider_format_tools")
            return super().provider_format_tools(tools)

        def provider_format_tool_result(self, tool_call_id: str, tool_name: str, result: str) -> dict[str, Any]:
            hooks.append(f"provider_format_tool_result {tool_call_id}")
            return super().provider_format_tool_result(tool_call_id, tool_name, result)

        def provider_build_request(self, request: ChatRequest, key: str) -> HttpRequest:
            hooks.append("provider_build_request")
            return super().provider_build_request(request, key)

    server.reply(wire.fails(503), wire.says("Hello."))
    plugin = check_provider(Plugin(name="own", base_url=server.base_url), "own", "own-plugin")
    client = ProviderClient(
        plugin, lambda: Transport(server.base_url, 20), "", tries=2, backoff=0.001, on_notice=lambda _: None
    )
    calls = (ToolCall("1", "bash", '{"command": "ls"}'), ToolCall("2", "bash", '{"command": "pwd"}'))
    results = [Message("tool", f"result {call.id}", (), call.id, call.name) for call in calls]
    request = QUESTION._replace(messages=[*QUESTION.messages, Message("assistant", "", calls), *results])
    assert client.send(request, lambda _: None, [TOOL]).answer.text == "Hello."
    formatting_hooks = ["provider_format_tool_result 1", "provider_format_tool_result 2", "provider_format_tools"]
    assert (sorted(hooks[:3]), hooks[3:]) == (formatting_hooks, ["provider_build_request"] * 2)
    assert server.requests[0].json == server.requests[1].json
    assert [message.get("content") for message in server.requests[1].json["messages"][2:]] == ["result 1", "result 2"]


def test_plugin_error_names_its_provider(server: ModelServer) -> None:
    server.reply(wire.says("here"))
    outcome = send(server, request=QUESTION._replace(schema=1, tool_choice="none"))  # type: ignore[arg-type]
    assert isinstance(outcome.result.error, PluginError)
    assert all(text in outcome.error_text for text in ("openrouter", "provider_build_request", "AttributeError"))


# Arbitrary responses


@pytest.fixture(scope="module")
def any_server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@st.composite
def corrupt_streams(draw: st.DrawFn) -> bytes:
    """Generate a stream with missing, duplicate, reordered, changed or malformed events, possibly truncated."""
    events: list[Any] = [*wire.stream("two words", [BASH]), wire.reasoning("hm"), wire.error()]
    events = draw(st.lists(st.sampled_from(events), max_size=8) | st.just(wire.stream("two words", [BASH])))
    for index in draw(st.sets(st.integers(0, 7), max_size=2)):
        if index < len(events):
            events[index] = draw(
                replace_any_part(events[index]).map(json.dumps) | st.text(max_size=9) | st.binary(max_size=9)
            )
    stream = wire.sse(*events, done=draw(st.booleans()))
    return stream[: draw(st.integers(0, len(stream)))] if draw(st.booleans()) else stream


def check_outcome(outcome: SendOutcome) -> None:
    """Check the invariants of a result."""
    result = outcome.result
    assert isinstance(result.answer, ModelResponse)
    assert result.error is None or not result.tool_calls
    if result.error is None:
        assert result.tool_calls or result.answer.text.strip() or result.answer.finish_reason is FinishReason.CONTINUE
        assert result.answer.finish_reason in (FinishReason.STOP, FinishReason.TOOL_CALLS, FinishReason.CONTINUE)
    else:
        assert isinstance(result.error, AskError)
        assert result.error.exit_code in (6, 10)
        assert "internal error" not in outcome.error_text
        assert "has a bug" not in outcome.error_text
    for call in result.tool_calls:
        assert call.id
        assert call.name
    json.dumps(result.answer.text, ensure_ascii=False).encode()


def test_models_list_is_requested_with_the_next_key(server: ModelServer) -> None:
    server.reply(wire.fails(401), wire.whole_reply({"data": [{"id": "a/b"}]}))
    client = ProviderClient(
        check_provider(openrouter, "openrouter", "ask-gents"),
        lambda: Transport(server.base_url, 20),
        "bad|good",
        tries=1,
        backoff=0.001,
        on_notice=lambda text: None,
    )
    assert [model.id for model in client.list_models()] == ["a/b"]
    assert [request.headers["Authorization"] for request in server.requests] == ["Bearer bad", "Bearer good"]


@given(corrupt_streams(), st.integers(1, 60), st.sampled_from(["chunked", "length", "close"]))
def test_any_stream_yields_a_valid_result(any_server: ModelServer, stream: bytes, size: int, framing: Any) -> None:
    check_outcome(send(any_server, raw(*wire.chop(stream, size), framing=framing), tries=1))


@given(
    replace_any_part(wire.answer("text", [BASH], reasoning="r")).map(json.dumps) | st.text(max_size=20),
    st.sampled_from([200, 200, 200, 400, 500]),
    st.booleans(),
)
def test_any_body_yields_a_valid_result(any_server: ModelServer, body: str, status: int, is_cut: bool) -> None:
    data = body.encode(errors="replace")
    check_outcome(send(any_server, raw(data[: len(data) // 2] if is_cut else data, status=status), tries=1))


# Reasoning in the text


class LocalService(ChatCompletions):
    """A service without HTTP that streams reasoning in the text."""

    def provider_send(self, request: HttpRequest, timeout: float) -> Iterator[RawEvent]:
        yield from wire.events(wire.sse(*map(wire.text, "<think>Hm.</think>\n\nYes."), wire.finish()))


def make_local_client() -> ProviderClient:
    provider = LocalService(name="local", base_url="", needs_key=False)
    loaded = check_provider(provider, "local", "ask-gents")
    return ProviderClient(loaded, lambda: Transport("http://localhost", 1), "", tries=1, backoff=0, on_notice=print)


@pytest.mark.parametrize("is_stream", [True, False])
def test_reasoning_in_the_text_of_a_plugin_is_separated(is_stream: bool) -> None:
    deltas: list[Delta] = []
    answer = make_local_client().send(QUESTION._replace(stream=is_stream), deltas.append).answer
    assert (answer.reasoning, answer.text) == ("Hm.", "Yes.")
    assert "".join(delta.text for delta in deltas if isinstance(delta, TextDelta)) == "Yes."
    assert is_stream or len(deltas) == 2


def test_reasoning_in_the_text_of_a_batch_result_is_separated() -> None:
    answer = make_local_client().parse_response(QUESTION, wire.answer("Hm.</think>\n\nYes.")).answer
    assert (answer.reasoning, answer.text) == ("Hm.", "Yes.")


def test_text_that_continues_an_answer_is_not_at_the_start_of_one() -> None:
    request = QUESTION._replace(messages=[*QUESTION.messages, Message("assistant", "```html\n")])
    deltas: list[Delta] = []
    answer = make_local_client().send(request, deltas.append).answer
    assert answer.text == "".join(delta.text for delta in deltas) == "<think>Hm.</think>\n\nYes."  # type: ignore[union-attr]


def send_with_secret(server: ModelServer, secret: str, *chunks: wire.Json) -> tuple[RequestResult, list[Delta]]:
    server.reply(wire.streams(*chunks, wire.finish()))
    deltas: list[Delta] = []
    client = ProviderClient(
        check_provider(openrouter, "openrouter", "ask-gents"),
        lambda: Transport(server.base_url, 5),
        "key",
        tries=1,
        backoff=0,
        on_notice=print,
        redactor=Redactor([secret]),
    )
    return client.send(QUESTION, deltas.append), deltas


def test_secrets_in_reasoning_are_removed(server: ModelServer) -> None:
    chunks = map(wire.text, "<think>secret-word</think>secret-word")
    result, deltas = send_with_secret(server, "secret-word", *chunks)
    assert "secret-word" not in f"{result} {deltas}"
    assert result.tagged_text == "<think>[key removed]</think>[key removed]"


@pytest.mark.parametrize("chunks", [[wire.reasoning("I like cats")], [*map(wire.text, "<think>I like cats</think>")]])
def test_reasoning_that_ends_like_the_start_of_a_key_is_shown_before_the_answer(
    server: ModelServer, chunks: list[wire.Json]
) -> None:
    _, deltas = send_with_secret(server, "sk-0123456789", *chunks, *map(wire.text, ["He", "llo", "."]))
    assert (
        "".join(delta.text for delta in deltas if isinstance(delta, TextDelta | ReasoningDelta)) == "I like catsHello."
    )
