"""Unusual parts of a stream, on every wire: what arrived intact is never lost because of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask import AskError, FinishReason, ModelResponse, ProviderError, RawEvent, Usage
from ask.client.provider_client import RequestResult
from ask.parsing import parse_json
from tests import wire
from tests.model_server import RESET, ModelServer, Reply, Step
from tests.providers.test_fuzz import MADE, REQUEST, TOOL
from tests.recorded_exchanges import send_request
from tests.sample_answers import SAMPLE_ANSWERS, SampleAnswers, data_of, server_event

TEXT = "Hello, wörld!"
SSE_JUNK = (
    *(b"data:\n\n", b"data: \n\n", b"data: ping\n\n", b"data: [PING]\n\n", b"data: : keep-alive\n\n"),
    *(b"event: ping\ndata:\n\n", b"event: ping\ndata: {}\n\n", b'event: ping\ndata: {"message": "alive"}\n\n'),
    *(b": comment\n\n", b":\n", b"id: 7\n\n", b"retry: 3000\n\n", b"event: unknown\n\n", b"unknown: x\n\n", b"\n"),
    *(b"data: null\n\n", b"data: 1\n\n", b'data: "alive"\n\n', b"data: []\n\n", b"data: {}\n\n"),
    *(
        b'data: {"type": "ping"}\n\n',
        b'data: {"type": "ping", "message": "waiting for a GPU"}\n\n',
        b'data: {"type": "keepalive"}\n\n',
        b'event: x\ndata: {"type": "unknown.kind"}\n\n',
    ),
)
NDJSON_JUNK = (
    b"\n",
    b" \r\n",
    b"ping\n",
    b": comment\n",
    b"null\n",
    b"[]\n",
    b"{}\n",
    b'{"type": "ping"}\n',
    b"data:\n",
)
ODD_ENTRIES: tuple[Any, ...] = (None, [], "x", 7, {}, {"type": "unknown"}, [{}])

samples = pytest.mark.parametrize("sample", SAMPLE_ANSWERS.values(), ids=SAMPLE_ANSWERS.keys())


class Parsed(NamedTuple):
    text: str
    calls: list[Any]
    usage: Usage


def is_ndjson(sample: SampleAnswers) -> bool:
    return sample.provider.provider_info().stream_format == "ndjson"


def encode(sample: SampleAnswers, event: Any) -> bytes:
    return f"{data_of(event)}\n".encode() if is_ndjson(sample) else server_event(event)


def run(model: ModelServer, sample: SampleAnswers, *steps: Step, **changes: Any) -> RequestResult:
    """Return the result of a stream with these steps."""
    model.reply(replace(sample.streamed(()), steps=steps, **changes))
    return send_request(sample.provider, model, REQUEST, [TOOL]).result


def parse(result: RequestResult) -> Parsed:
    assert result.error is None, result.error
    return Parsed(result.answer.text, [json.loads(call.arguments) for call in result.tool_calls], result.answer.usage)


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


# Keep-alives and other events that belong to no answer


@pytest.mark.slow_after_first
@samples
@given(data=st.data())
def test_events_that_are_no_part_of_the_answer_change_nothing(
    model: ModelServer, sample: SampleAnswers, data: st.DataObject
) -> None:
    expected = parse(run(model, sample, *(encode(sample, event) for event in sample.stream)))
    junk = st.lists(st.sampled_from(NDJSON_JUNK if is_ndjson(sample) else SSE_JUNK), max_size=2).map(b"".join)
    body = b"".join(data.draw(junk) + encode(sample, event) for event in sample.stream) + data.draw(junk)
    line_end = data.draw(st.sampled_from([b"\n", b"\r\n"] if is_ndjson(sample) else [b"\n", b"\r\n", b"\r"]))
    body = data.draw(st.sampled_from([b"", b"\xef\xbb\xbf"])) + body.replace(b"\r", b"").replace(b"\n", line_end)
    result = parse(run(model, sample, body, framing=data.draw(st.sampled_from(["chunked", "length", "close"]))))
    assert result == expected
    assert (result.text, result.calls) == (TEXT, MADE)


@samples
@pytest.mark.parametrize("junk", [b"data:\n\n", b"data: ping\n\n", b"event: ping\ndata: {}\n\n", b"data: [PING]\n\n"])
def test_stream_of_nothing_but_keep_alives_is_an_error(model: ModelServer, sample: SampleAnswers, junk: bytes) -> None:
    result = run(model, sample, junk * 3)
    assert result.error is not None
    assert result.error.exit_code in (6, 10)


@samples
def test_damaged_json_within_the_answer_is_an_error_that_keeps_the_text(
    model: ModelServer, sample: SampleAnswers
) -> None:
    events = [encode(sample, event) for event in sample.says("Hello.")[1]]
    damaged = b'{"choices": [\n' if is_ndjson(sample) else b'data: {"choices": [\n\n'
    place = next(i for i, event in enumerate(events) if b"output_text.delta" in event or b"Hello." in event) + 1
    result = run(model, sample, *events[:place], damaged, *events[place:])
    if is_ndjson(sample) or place < len(events):
        assert isinstance(result.error, ProviderError)
    assert result.answer.text == "Hello."


@samples
@pytest.mark.parametrize(
    "error",
    [
        {"object": "error", "message": "It broke.", "type": "BadRequestError", "code": 400},
        {"type": "about:blank", "title": "Bad", "status": 400, "detail": "It broke."},
        [{"error": {"message": "It broke.", "code": 400}}],
        {"error": "It broke."},
        "It broke.",
    ],
)
def test_an_event_of_the_type_error_is_an_error_whatever_it_contains(
    model: ModelServer, sample: SampleAnswers, error: Any
) -> None:
    if is_ndjson(sample):
        return
    result = run(model, sample, f"event: error\ndata: {json.dumps(error)}\n\n".encode())
    assert isinstance(result.error, ProviderError)
    assert result.error.message == "It broke."


def test_an_event_of_the_type_error_keeps_the_usage_and_the_text(model: ModelServer) -> None:
    chunk = {
        "error": {"message": "It broke."},
        "choices": [{"index": 0, "delta": {"content": "Hel"}, "finish_reason": "error"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 1},
    }
    result = run(model, SAMPLE_ANSWERS["openai-chat"], f"event: error\ndata: {json.dumps(chunk)}\n\n".encode())
    assert isinstance(result.error, ProviderError)
    assert (result.answer.text, result.answer.usage.output_tokens) == ("Hel", 1)


# Unusual parts within an event


def insert_everywhere(value: Any, entry: Any) -> Iterator[Any]:
    """Yield a value with an entry added to one of the lists in it, at its start and its end."""
    if isinstance(value, list):
        yield [entry, *value]
        yield [*value, entry]
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        for changed in insert_everywhere(value[key], entry):
            copy = deepcopy(value)
            copy[key] = changed
            yield copy


def read(sample: SampleAnswers, events: Sequence[Any]) -> Parsed:
    """Read events without the network; the error of an answer is ignored."""
    reader = sample.provider.provider_stream_reader()
    for event in events:
        kind = event.get("type") if isinstance(event, dict) else None
        if event != "[DONE]":
            reader.feed(RawEvent(kind if isinstance(kind, str) else None, data_of(event)))
    calls = sample.provider.provider_parse_tool_calls(reader.response())
    answer = ModelResponse()
    try:
        answer = sample.provider.provider_parse_response(reader.response())
    except ProviderError as error:
        answer = error.partial_response or answer
    return Parsed(answer.text, [parse_json(call.arguments) for call in calls], answer.usage)


@samples
def test_an_unusual_entry_of_any_list_costs_nothing_else(sample: SampleAnswers) -> None:
    expected = read(sample, sample.stream)
    for i, event in enumerate(sample.stream):
        for entry in ODD_ENTRIES:
            for changed in insert_everywhere(event, entry):
                result = read(sample, [*sample.stream[:i], changed, *sample.stream[i + 1 :]])
                if result.calls != expected.calls:  # the list belongs to the arguments
                    assert len(result.calls) == len(MADE), changed
                    assert '"b": [' in data_of(event), changed
                else:
                    assert result == expected, changed
                assert result.text == TEXT, changed


@samples
def test_an_event_of_another_shape_costs_only_what_was_in_it(sample: SampleAnswers) -> None:
    for i, event in enumerate(sample.stream):
        own = json.dumps(event, ensure_ascii=False)
        for wrong in (*ODD_ENTRIES, {"type": None}, {"type": 7}, {"choices": None}, {"message": None}):
            result = read(sample, [*sample.stream[:i], wrong, *sample.stream[i + 1 :]])
            assert all(piece in result.text for piece in ("Hello,", "wörld!") if piece not in own), (i, wrong)
            is_about_calls = any(word in own for word in ("add", "arguments", "partial_json"))
            assert all(made in result.calls for made in MADE) or is_about_calls, (i, wrong)
            assert any(made in result.calls for made in MADE), (i, wrong)


def test_only_the_first_of_several_answers_is_read(model: ModelServer) -> None:
    sample = SAMPLE_ANSWERS["openai-chat"]
    starts = [wire.chunk({"role": "assistant", "content": ""}, index=i) for i in (0, 1)]
    texts = [wire.chunk({"content": text}, index=i) for i, text in ((0, "Hel"), (1, "By"), (0, "lo."), (1, "e."))]
    ends = [wire.chunk(finish=reason, index=i) for i, reason in ((1, "length"), (0, "stop"))]
    result = run(model, sample, wire.sse(*starts, *texts, *ends))
    assert (parse(result).text, result.answer.finish_reason) == ("Hello.", FinishReason.STOP)


# After the end


AFTER_THE_END: dict[str, tuple[Step, ...]] = {
    "reset": (RESET,),
    "garbage": (b"\x00\xff garbage\n\n",),
    "damaged": (b'data: {"choices": [{"del\n\n', b'{"broken\n'),
    "words": (b"data: upstream closed\n\n",),
}


@samples
@pytest.mark.parametrize("after", AFTER_THE_END.values(), ids=AFTER_THE_END.keys())
def test_defect_after_the_end_changes_nothing(model: ModelServer, sample: SampleAnswers, after: Sequence[Step]) -> None:
    end = -1 if sample.stream[-1] == "[DONE]" else None
    body = b"".join(encode(sample, event) for event in sample.stream[:end])
    result = parse(run(model, sample, body, 0.02, *after))
    assert (result.text, result.calls) == (TEXT, MADE)


@samples
@pytest.mark.parametrize("trailer", [b"zz\r\nno chunk\r\n0\r\n\r\n", b"ffff\r\ndata: x"], ids=["invalid", "truncated"])
def test_broken_framing_after_the_end_changes_nothing(
    model: ModelServer, sample: SampleAnswers, trailer: bytes
) -> None:
    """The broken bytes arrive together with the last part of the answer."""
    body = b"".join(encode(sample, event) for event in sample.stream)
    chunks = b"%x\r\n%s\r\n%s" % (len(body), body, trailer)
    headers = {"Transfer-Encoding": "chunked"}
    result = parse(run(model, sample, chunks, framing="close", headers=headers))
    assert (result.text, result.calls) == (TEXT, MADE)


# One format where another is expected


@samples
def test_lines_of_json_in_place_of_server_sent_events_are_read(model: ModelServer, sample: SampleAnswers) -> None:
    lines = [f"{data_of(event)}\n".encode() for event in sample.stream]
    result = parse(run(model, sample, *lines, content_type="application/json"))
    assert (result.text, result.calls) == (TEXT, MADE)


@samples
def test_server_sent_events_in_place_of_lines_are_read(model: ModelServer, sample: SampleAnswers) -> None:
    result = parse(run(model, sample, *map(server_event, sample.stream), content_type="application/json"))
    assert (result.text, result.calls) == (TEXT, MADE)


@samples
@pytest.mark.parametrize("indent", [None, 2])
def test_complete_answer_in_place_of_a_stream_is_read(
    model: ModelServer, sample: SampleAnswers, indent: int | None
) -> None:
    body = json.dumps(sample.whole, indent=indent).encode()
    for framing in ("chunked", "length"):
        result = parse(run(model, sample, body, content_type="text/event-stream", framing=framing))
        assert (result.text, result.calls) == (TEXT, MADE)
    # The connection breaks after the answer.
    result = parse(run(model, sample, body, 0.02, RESET, framing="length"))
    assert (result.text, result.calls) == (TEXT, MADE)


@samples
def test_events_without_blank_lines_between_them_are_read(model: ModelServer, sample: SampleAnswers) -> None:
    lines = [f"data: {data_of(event)}\n".encode() for event in sample.stream]
    for keep_alive in (
        b"",
        b"data: ping\n",
        b"event: ping\n",
        b"event: ping\ndata: {}\n",
        b"event: ping\ndata: ping\n",
    ):
        if keep_alive and is_ndjson(sample):
            continue
        result = parse(run(model, sample, keep_alive + keep_alive.join(lines) + keep_alive))
        assert (result.text, result.calls) == (TEXT, MADE), keep_alive


@samples
@pytest.mark.parametrize("status", [200, 503])
def test_html_page_in_place_of_a_stream_is_an_error_with_its_title(
    model: ModelServer, sample: SampleAnswers, status: int
) -> None:
    page = b"<!doctype html>\n<html><head><title>Sign in</title></head>\n<body>data: x</body></html>"
    model.reply(Reply((page,), status=status, content_type="text/html", responses_api=True))
    error = send_request(sample.provider, model, REQUEST, [TOOL]).result.error
    assert isinstance(error, AskError)
    assert "Sign in" in str(error)
