"""One request and its answer, in this process against a real server: what is tried again, and what a turn is."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from email.utils import formatdate
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask import Answer, AskError, ChatRequest, Finish, Message, ProviderError, Remedy, TextDelta, ToolSpec, Usage
from ask.client.provider_client import ProviderClient, RequestResult
from ask.client.transport import Transport
from ask.plugin_api.loader import check_provider
from ask_providers.openrouter import provider as openrouter
from tests import wire
from tests.any_json import with_any_part
from tests.model_server import DROP, HOLD, RESET, ModelServer, Reply, Step

TOOL = ToolSpec("bash", "Run a command", {"type": "object"})
QUESTION = ChatRequest("m", [Message("user", "hi")], [TOOL])
BASH = ("bash", {"command": "ls"})
COMMENT = b": OPENROUTER PROCESSING\n\n"


class Came(NamedTuple):
    """What came of asking: the turn, the text that was shown, the notices."""

    turn: RequestResult
    shown: str
    notices: list[str]

    @property
    def failure(self) -> str:
        """The error as the user sees it; "" where there is none."""
        return str(self.turn.error or "")


def put(
    server: ModelServer,
    *replies: Reply,
    request: ChatRequest = QUESTION,
    tries: int = 4,
    backoff: float = 0.001,
    stall: float = 20,
) -> Came:
    """Ask OpenRouter's provider."""
    server.reply(*replies)
    notices: list[str] = []
    shown: list[str] = []
    exchange = ProviderClient(
        check_provider(openrouter, "openrouter", "ask-gents"),
        Transport(server.base_url, stall),
        "key",
        tries=tries,
        backoff=backoff,
        on_notice=notices.append,
    )
    turn = exchange.send(request, lambda delta: shown.append(delta.text if isinstance(delta, TextDelta) else ""))
    return Came(turn, "".join(shown), notices)


def raw(*steps: Step, content_type: str = "text/event-stream", **more: Any) -> Reply:
    return Reply(steps, content_type=content_type, **more)


# Tried again


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504, 529])
def test_a_temporary_error_is_retried_with_a_notice(server: ModelServer, status: int) -> None:
    came = put(server, wire.fails(status, "busy"), wire.says("here"))
    assert (came.turn.answer.text, came.shown, came.failure) == ("here", "here", "")
    [notice] = came.notices
    assert all(part in notice for part in (f"busy (openrouter, {status})", "0.0 s", "1 of 3"))


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 413, 418, 422, 501])
def test_a_permanent_error_is_not_retried(server: ModelServer, status: int) -> None:
    came = put(server, wire.fails(status, "no"), wire.says("here"))
    assert came.failure.startswith(f"no (openrouter, {status}): ")
    assert (len(server.requests), came.notices) == (1, [])


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
def test_an_answer_that_fails_before_any_text_is_retried(server: ModelServer, reply: Reply) -> None:
    came = put(server, reply, reply, wire.says("here"))
    assert (came.turn.answer.text, came.failure, len(came.notices)) == ("here", "", 2)


@pytest.mark.parametrize(
    "first",
    [wire.text("some"), wire.reasoning("hm"), wire.call(0, id="a", name="bash", arguments='{"comm')],
    ids=["text", "reasoning", "call"],
)
@pytest.mark.parametrize("ending", [DROP, RESET, HOLD, wire.error(code=503), "nonsense"])
def test_nothing_is_retried_once_text_was_shown(server: ModelServer, first: Any, ending: Any) -> None:
    came = put(server, wire.streams(first, 0.02, ending), wire.says("here"), stall=0.3)
    assert (len(server.requests), came.notices) == (1, [])
    assert came.turn.tool_calls == ()
    assert came.failure
    assert came.shown == came.turn.answer.text == ("some" if first == wire.text("some") else "")


def test_after_four_failures_the_last_is_the_error(server: ModelServer) -> None:
    came = put(server, *(wire.fails(500, f"failure {number}") for number in range(5)))
    assert came.failure.startswith("failure 3 (openrouter, 500): ")
    assert (len(server.requests), len(came.notices)) == (4, 3)


def test_the_backoff_doubles(server: ModelServer) -> None:
    came = put(server, wire.fails(500), backoff=0.2)
    pauses = [float(re.findall(r"in ([\d.]+) s", notice)[0]) for notice in came.notices]
    assert all(0.1 <= pause <= 0.31 * 2**number for number, pause in enumerate(pauses))
    sent = [request.time for request in server.requests]
    waits = [later - earlier for earlier, later in pairwise(sent)]
    assert all(wait >= 0.1 * 2**number for number, wait in enumerate(waits))


@pytest.mark.parametrize(
    ("value", "least"),
    [("0", 0), ("0.2", 0.2), ("-5", 0), ("nonsense", 0), ("", 0), ("inf", 0), (formatdate(0, usegmt=True), 0)],
)
@pytest.mark.parametrize("status", [429, 402])
def test_the_retry_after_header_is_respected(server: ModelServer, value: str, least: float, status: int) -> None:
    came = put(server, wire.fails(status, headers={"Retry-After": value}), wire.says("here"))
    if status == 402 and value in ("nonsense", "", "inf"):
        assert came.failure  # a pause that makes sense is the only reason to try that again
        return
    assert came.turn.answer.text == "here"
    first, second = server.requests
    assert least <= second.time - first.time < least + 2


@pytest.mark.parametrize(("ends", "told"), [([wire.finish(), "[DONE]"], None), ([wire.finish()], 10)])
def test_a_late_usage_is_waited_for_unless_nothing_can_follow(
    server: ModelServer, ends: list[Any], told: int | None
) -> None:
    came = put(server, wire.streams(wire.text("here"), *ends, 0.6, wire.usage(), DROP))
    assert (came.turn.answer.text, came.failure) == ("here", "")
    assert came.turn.answer.usage.input_tokens == told


@pytest.mark.parametrize(
    "piece",
    [
        wire.text("word "),
        wire.reasoning("word "),
        wire.call(0, id="a", name="bash", arguments="  "),
        wire.chunk({"function_call": {"name": "bash", "arguments": "  "}}),
    ],
    ids=["text", "reasoning", "call", "old call"],
)
def test_an_answer_that_keeps_growing_may_take_longer_than_the_timeout(server: ModelServer, piece: Any) -> None:
    came = put(server, wire.streams(wire.text("so "), *[piece, 0.2] * 3, wire.text("far"), wire.finish()), stall=0.4)
    assert came.failure == ""
    assert (came.shown[:3], came.shown[-3:]) == ("so ", "far")


def test_amounts_below_nothing_are_not_known(server: ModelServer) -> None:
    came = put(server, wire.streams(wire.text("here"), wire.finish(), wire.usage(-1, -5, cost=-0.5)))
    assert came.turn.answer.usage == Usage()
    came = put(server, wire.streams(wire.text("here"), wire.finish(), wire.usage(0, -5, cost=0)))
    assert came.turn.answer.usage == Usage(0, None, None, 0)


@pytest.mark.parametrize("value", ["0", "-5", "0.01", formatdate(0, usegmt=True)])
def test_a_short_retry_after_does_not_shorten_the_backoff(server: ModelServer, value: str) -> None:
    put(server, *[wire.fails(429, headers={"Retry-After": value})] * 4, backoff=0.04)
    waits = [later.time - earlier.time for earlier, later in pairwise(server.requests)]
    assert len(waits) == 3
    assert all(wait >= 0.02 * 2**number for number, wait in enumerate(waits))


def test_retry_after_ms_is_respected(server: ModelServer) -> None:
    headers = {"Retry-After-Ms": "300", "Retry-After": "1"}
    came = put(server, wire.fails(429, "slow down", headers=headers), wire.says("here"))
    [notice] = came.notices
    assert all(part in notice for part in ("slow down (openrouter, 429)", "0.3 s", "1 of 3"))


def test_retry_after_may_be_a_date(server: ModelServer) -> None:
    came = put(
        server, wire.fails(503, headers={"Retry-After": formatdate(time.time() + 2, usegmt=True)}), wire.says("here")
    )
    assert 0.5 < server.requests[1].time - server.requests[0].time < 4
    assert came.turn.answer.text == "here"


@pytest.mark.parametrize(
    ("value", "told"),
    [("61", "61"), ("3600", "3600"), ("Fri, 01 Jan 2100 00:00:00 GMT", r"\d{10}"), ("1e300", r"10+\d*")],
)
def test_a_long_retry_after_is_an_error(server: ModelServer, value: str, told: str) -> None:
    came = put(server, wire.fails(429, "slow down", headers={"Retry-After": value}), wire.says("here"))
    assert re.fullmatch(rf"slow down \(openrouter, 429\): it asks to wait {told} s", came.failure)
    assert len(server.requests) == 1


def test_a_model_without_tool_support_is_left_to_the_caller(server: ModelServer) -> None:
    came = put(server, wire.fails(404, "No endpoints found that support tool use"), wire.says("here"))
    assert isinstance(came.turn.error, ProviderError)
    assert came.turn.error.remedy == Remedy.WITHOUT_TOOLS
    assert (len(server.requests), came.shown, came.notices) == (1, "", [])


# What a turn is


@pytest.mark.parametrize("asked", [True, False], ids=["stream asked", "whole asked"])
@pytest.mark.parametrize("whole", [True, False], ids=["whole sent", "stream sent"])
@pytest.mark.parametrize("label", ["text/event-stream", "application/json", "text/plain", ""])
@pytest.mark.parametrize("before", [b"", b"\n\n  \n", b"\xef\xbb\xbf"])
def test_streams_and_bodies_are_recognized_by_content(
    server: ModelServer, asked: bool, whole: bool, label: str, before: bytes
) -> None:
    body = (
        json.dumps(wire.answer("two words", [BASH])).encode() if whole else wire.sse(*wire.stream("two words", [BASH]))
    )
    came = put(server, raw(before + body, content_type=label), request=QUESTION._replace(stream=asked))
    assert (came.shown, came.turn.answer.text, came.failure) == ("two words", "two words", "")
    assert [(call.name, json.loads(call.arguments)) for call in came.turn.tool_calls] == [BASH]
    assert came.turn.answer.usage.input_tokens == 10


@pytest.mark.parametrize(
    ("finish", "message"), [("length", "token limit"), ("content_filter", "filter"), ("stop", "nothing")]
)
@pytest.mark.parametrize("whole", [True, False])
def test_an_incomplete_answer_has_no_calls(server: ModelServer, finish: str, message: str, whole: bool) -> None:
    content, calls = (None, ()) if finish == "stop" else ("text", [BASH])
    answer = wire.whole_reply(wire.answer(content, calls, finish=finish))
    came = put(server, answer if whole else wire.streams(*wire.stream(content, calls, finish=finish)))
    assert came.turn.tool_calls == ()
    assert message in came.failure
    assert (came.turn.error or AskError("")).exit_code == 10
    assert came.shown == (content or "")


@pytest.mark.parametrize("ended", ["finish", "marker"])
def test_a_finish_reason_or_the_end_marker_is_an_end(server: ModelServer, ended: str) -> None:
    chunks = [wire.text("all"), *([wire.finish()] if ended == "finish" else [])]
    assert put(server, wire.streams(*chunks, done=ended == "marker")).turn.error is None


def test_a_stream_without_an_end_is_cut(server: ModelServer) -> None:
    came = put(server, wire.streams(wire.text("some"), done=False))
    assert (came.shown, came.turn.answer.finish) == ("some", Finish.CUT)
    assert (came.turn.error or AskError("")).exit_code == 10


@pytest.mark.parametrize("cut", [b'data: {"choices": [{"delta": {"content": "b"', b'data: {"choices": [{}', b"dat"])
def test_a_line_cut_short_is_a_cut_and_no_error_of_the_providers(server: ModelServer, cut: bytes) -> None:
    came = put(server, raw(wire.event(wire.text("a")), cut, framing="close"))
    assert (came.shown, came.turn.answer.finish) == ("a", Finish.CUT)
    assert (came.turn.error or AskError("")).exit_code == 10


@pytest.mark.parametrize("body", [b"[]", b"[1, 2]", b"[[]]", b"{}", b"null", b"42", b'"text"', b"true", b"OK", b"<p>"])
@pytest.mark.parametrize("status", [200, 400, 500])
def test_a_body_that_is_no_answer_is_an_error(server: ModelServer, body: bytes, status: int) -> None:
    came = put(server, raw(body, status=status, content_type="application/json"))
    assert came.turn.error is not None
    assert came.turn.error.exit_code == (10 if (status, body) == (200, b"{}") else 6)
    assert came.shown == ""
    assert came.turn.error.advice


@pytest.mark.parametrize("body", ["[" * 200_000, '{"a":' * 200_000, '{"n": ' + "9" * 5000 + "}"])
def test_json_beyond_all_measure_is_an_error(server: ModelServer, body: str) -> None:
    for reply in (raw(body.encode()), wire.streams(body), raw(body.encode(), status=400)):
        assert put(server, reply, tries=1).turn.error is not None


def test_an_error_in_a_plugin_names_its_provider(server: ModelServer) -> None:
    server.reply(wire.says("here"))
    broken = ChatRequest("m", [Message("user", "hi", attachments=3)])  # type: ignore[arg-type]
    assert put(server, request=broken._replace(messages=[None])).failure.startswith(  # type: ignore[list-item]
        "the provider's plugin failed: AttributeError"
    )
    failure = put(server, request=broken._replace(messages=[None])).turn.error  # type: ignore[list-item]
    assert isinstance(failure, ProviderError)
    assert failure.provider == "openrouter"


# Anything at all


@pytest.fixture(scope="module")
def any_server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@st.composite
def spoilt_streams(draw: st.DrawFn) -> bytes:
    """A stream with events dropped, doubled, reordered, altered or broken, and possibly cut."""
    events: list[Any] = [*wire.stream("two words", [BASH]), wire.reasoning("hm"), wire.error()]
    events = draw(st.lists(st.sampled_from(events), max_size=8) | st.just(wire.stream("two words", [BASH])))
    for place in draw(st.sets(st.integers(0, 7), max_size=2)):
        if place < len(events):
            events[place] = draw(
                with_any_part(events[place]).map(json.dumps) | st.text(max_size=9) | st.binary(max_size=9)
            )
    stream = wire.sse(*events, done=draw(st.booleans()))
    return stream[: draw(st.integers(0, len(stream)))] if draw(st.booleans()) else stream


def judge(came: Came) -> None:
    """What holds for every turn, whatever came."""
    turn = came.turn
    assert isinstance(turn.answer, Answer)
    assert turn.error is None or not turn.tool_calls
    if turn.error is None:
        assert turn.tool_calls or turn.answer.text.strip() or turn.answer.finish is Finish.CONTINUE
        assert turn.answer.finish in (Finish.STOP, Finish.TOOL_CALLS, Finish.CONTINUE)
    else:
        assert isinstance(turn.error, AskError)
        assert turn.error.exit_code in (6, 10)
        assert "unforeseen" not in came.failure
        assert "plugin failed" not in came.failure
    for call in turn.tool_calls:
        assert call.id
        assert call.name
    json.dumps(turn.answer.text, ensure_ascii=False).encode()


@given(spoilt_streams(), st.integers(1, 60), st.sampled_from(["chunked", "length", "close"]))
def test_no_stream_whatever_breaks_a_turn(any_server: ModelServer, stream: bytes, size: int, framing: Any) -> None:
    judge(put(any_server, raw(*wire.chop(stream, size), framing=framing), tries=1))


@given(
    with_any_part(wire.answer("text", [BASH], reasoning="r")).map(json.dumps) | st.text(max_size=20),
    st.sampled_from([200, 200, 200, 400, 500]),
    st.booleans(),
)
def test_no_whole_body_whatever_breaks_a_turn(any_server: ModelServer, body: str, status: int, cut: bool) -> None:
    data = body.encode(errors="replace")
    judge(put(any_server, raw(data[: len(data) // 2] if cut else data, status=status), tries=1))
