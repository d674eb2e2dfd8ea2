"""Moonshot: the provider contract, recorded responses, reasoning that is sent back, and thinking in the text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask import ChatRequest, Message, ProviderState, RawEvent, ReasoningDelta, TextDelta, ToolCall
from ask.errors import ParameterError
from ask.testing import CHAT_COMPLETIONS_SAMPLES, CHAT_COMPLETIONS_WHOLE, ProviderContract
from ask.testing.samples import Expected, make_chat_response, make_chat_stream
from providers.moonshot import ThinkingSplitter
from providers.moonshot import provider as moonshot
from tests import wire
from tests.model_server import ModelServer, Reply
from tests.recorded_exchanges import QUESTION, ExchangeResult, send_request
from tests.recording_tests import RecordingTests

MARKS = [("◁think▷", "◁/think▷"), ("<think>", "</think>")]
OLD = "◁think▷Let me think.◁/think▷\n\nHello, wörld!"
OTHER = "<think>Let me think.</think>Hello, wörld!"
USAGE = {"prompt_tokens": 110, "completion_tokens": 74, "total_tokens": 184}


def make_letter_stream(text: str) -> list[RawEvent]:
    """Return a stream with a delta for each character, so that tags are split everywhere."""
    first, *rest = make_chat_stream(make_chat_response(Expected("")))
    deltas = [{"choices": [{"index": 0, "delta": {"content": letter}}]} for letter in text]
    return [first, *(RawEvent(None, json.dumps(delta)) for delta in deltas), *rest]


class TestMoonshot(ProviderContract):
    provider = moonshot


class TestThinkingInOldMarks(ProviderContract):
    provider = moonshot
    samples = CHAT_COMPLETIONS_SAMPLES | {"reasoning": make_letter_stream(OLD)}
    whole = CHAT_COMPLETIONS_WHOLE | {"reasoning": make_chat_response(Expected(OLD))}


@pytest.mark.slow
class TestThinkingInOtherMarks(ProviderContract):
    provider = moonshot
    samples = CHAT_COMPLETIONS_SAMPLES | {"reasoning": make_letter_stream(OTHER)}
    whole = CHAT_COMPLETIONS_WHOLE | {"reasoning": make_chat_response(Expected(OTHER))}


class TestRecordings(RecordingTests):
    provider = moonshot


def ask(server: ModelServer, *replies: Reply) -> ExchangeResult:
    server.reply(*replies)
    return send_request(moonshot, server, ChatRequest(wire.MODEL, [QUESTION]))


def sent_back(exchange: ExchangeResult) -> dict[str, Any]:
    """Return a response as later requests contain it."""
    message = Message(
        "assistant",
        exchange.result.answer.text,
        exchange.result.tool_calls,
        provider_state=exchange.result.answer.provider_state,
    )
    return moonshot.format_message(message, wire.MODEL)


# Reasoning that goes back


def test_reasoning_and_ids_are_sent_back_with_their_calls(server: ModelServer) -> None:
    fragment = wire.call(0, id="functions.list_dir:0", name="list_dir", arguments="{}")
    exchange = ask(
        server, wire.streams(wire.reasoning("I look.", "reasoning_content"), fragment, wire.finish("tool_calls"))
    )
    back = sent_back(exchange)
    assert back["reasoning_content"] == "I look."
    assert [call["id"] for call in back["tool_calls"]] == ["functions.list_dir:0"]


@pytest.mark.parametrize(
    "state",
    [
        None,
        ProviderState("moonshot", "kimi-k3", {"reasoning_content": ""}),
        ProviderState("anthropic", "claude", {"content": [{"type": "thinking", "thinking": "Hm.", "signature": "x"}]}),
        ProviderState("deepseek", "deepseek-flash", {"reasoning_content": "Hm."}),
    ],
)
def test_calls_without_reasoning_get_a_placeholder(state: ProviderState | None) -> None:
    """Moonshot treats an empty reasoning as missing."""
    message = Message("assistant", "", (ToolCall("toolu_1", "bash", "{}"),), provider_state=state)
    assert moonshot.format_message(message, "kimi-k3")["reasoning_content"] == " "


def test_empty_response_gets_a_placeholder() -> None:
    assert moonshot.format_message(Message("assistant"), "kimi-k3") == {"role": "assistant", "content": " "}


# Thinking in the text


@pytest.mark.parametrize(("begin", "end"), MARKS)
def test_thinking_in_the_text_is_sent_back_separately(server: ModelServer, begin: str, end: str) -> None:
    text = f"{begin}I look.{end}\nOne moment."
    exchange = ask(server, wire.whole_reply(wire.answer(text, [("list_dir", {})])))
    assert (exchange.streamed_text, exchange.result.answer.reasoning) == ("One moment.", "I look.")
    assert (sent_back(exchange)["content"], sent_back(exchange)["reasoning_content"]) == ("One moment.", "I look.")


@pytest.mark.parametrize(("begin", "end"), MARKS)
def test_thinking_truncated_by_the_limit_is_not_an_answer(server: ModelServer, begin: str, end: str) -> None:
    exchange = ask(server, wire.streams(*map(wire.text, f"{begin}I have to{end[:-1]}"), wire.finish("length")))
    assert (exchange.streamed_text, exchange.outcome, exchange.result.answer.text) == ("", "length", "")
    assert exchange.result.answer.reasoning == f"I have to{end[:-1]}"


@pytest.mark.parametrize("text", ["<", "◁th", "  ", "<thin", "I <think> so.", " \n<b>yes</b>", "</think>", "\n{ }"])
def test_text_that_resembles_a_tag_is_kept(server: ModelServer, text: str) -> None:
    exchange = ask(server, wire.streams(*map(wire.text, text), wire.finish()))
    assert (exchange.streamed_text, exchange.result.answer.text, exchange.result.answer.reasoning) == (text, text, "")


def split(pieces: list[str]) -> tuple[str, str]:
    splitter = ThinkingSplitter()
    parts = [part for piece in pieces for part in splitter.feed(piece)] + splitter.finish()
    texts = ["".join(part.text for part in parts if isinstance(part, kind)) for kind in (ReasoningDelta, TextDelta)]
    return texts[0], texts[1]


PIECES = st.sampled_from([*(mark for pair in MARKS for mark in pair), "◁", "<", "/think", " ", "\n", "thought", "ö"])


@given(st.lists(PIECES, max_size=8).map("".join), st.data())
def test_text_is_split_alike_in_any_fragments(text: str, data: st.DataObject) -> None:
    places = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=6)))
    cut = [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]
    assert split(cut) == split([text]) == split(list(text))


# The rest


def test_usage_sent_twice_counts_once(server: ModelServer) -> None:
    ending = [wire.chunk(finish="stop", usage=USAGE), {"choices": [], "usage": USAGE}]
    usage = ask(server, wire.streams(wire.text("Hello."), *ending)).result.answer.usage
    assert (usage.input_tokens, usage.output_tokens) == (110, 74)


def test_usage_inside_the_choice_is_enough(server: ModelServer) -> None:
    usage = ask(server, wire.streams(wire.text("Hello."), wire.chunk(finish="stop", usage=USAGE))).result.answer.usage
    assert (usage.input_tokens, usage.output_tokens) == (110, 74)


@pytest.mark.parametrize(
    "usage",
    [
        {"cached_tokens": 3},
        {"cached_tokens": 3, "prompt_tokens_details": {}},
        {"prompt_tokens_details": {"cached_tokens": 3}},
    ],
)
def test_cached_tokens_are_read_from_either_field(usage: dict[str, Any]) -> None:
    assert moonshot.parse_usage(USAGE | usage).cached_tokens == 3


def test_limit_has_the_name_for_current_models() -> None:
    body = moonshot.build_body(ChatRequest("kimi-k3", [QUESTION], options={"max_tokens": 9}))
    assert (body["max_completion_tokens"], "max_tokens" in body) == (9, False)


def test_thinking_and_effort_are_sent_only_if_set() -> None:
    """Moonshot refuses them together."""
    assert not {"thinking", "reasoning_effort"} & moonshot.build_body(ChatRequest("kimi-k3", [QUESTION])).keys()
    body = moonshot.build_body(ChatRequest("kimi-k2.6", [QUESTION], options={"thinking": {"type": "disabled"}}))
    assert body["thinking"] == {"type": "disabled"}
    assert "reasoning_effort" not in json.dumps(body)


def test_sampling_is_left_to_the_service_and_a_refused_temperature_is_a_parameter_error(server: ModelServer) -> None:
    """https://platform.kimi.ai/docs/api/models-overview: some models accept no temperature but their own."""
    assert not {"temperature", "top_p"} & moonshot.build_body(ChatRequest("kimi-k3", [QUESTION])).keys()
    request = ChatRequest("kimi-k3", [QUESTION], options={"temperature": 0.2})
    with pytest.raises(ParameterError, match="temperature"):
        send_request(moonshot, server, request)
    assert server.requests == []
