"""Moonshot: the provider contract, recorded responses, and reasoning that is sent back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ask import ChatRequest, Message, ProviderState, ToolCall
from ask.errors import ParameterError
from providers.moonshot import provider as moonshot
from tests import wire
from tests.model_server import ModelServer, Reply
from tests.recorded_exchanges import QUESTION, ExchangeResult, send_request
from tests.recording_tests import RecordingTests
from tests.shared_reader_contract import SharedReaderContract

USAGE = {"prompt_tokens": 110, "completion_tokens": 74, "total_tokens": 184}


class TestMoonshot(SharedReaderContract):
    provider = moonshot


class TestRecordings(RecordingTests):
    provider = moonshot


def ask(server: ModelServer, *replies: Reply) -> ExchangeResult:
    server.reply(*replies)
    return send_request(moonshot, server, ChatRequest(wire.MODEL, [QUESTION]))


def sent_back(exchange: ExchangeResult) -> dict[str, Any]:
    """Return a response as later requests contain it."""
    return moonshot.format_message(exchange.message, wire.MODEL)


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
