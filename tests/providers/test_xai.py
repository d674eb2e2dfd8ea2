"""xAI on Chat Completions: the provider contract, recorded responses, errors, usage and prices.

tests/providers/test_xai_responses.py tests the Responses API.
"""

from __future__ import annotations

from typing import Any

import pytest

from ask import ChatRequest, ProviderError
from ask.errors import ParameterError
from providers.xai import provider
from tests import wire
from tests.model_server import ModelServer
from tests.recorded_exchanges import QUESTION, ExchangeResult, send_request
from tests.recording_tests import RecordingTests
from tests.shared_reader_contract import SharedReaderContract

xai = provider.chat
INVALID = "Client specified an invalid argument"
BAD_KEY = "Incorrect API key provided: xa***gA. You can obtain an API key from https://console.x.ai."


class TestXAI(SharedReaderContract):
    provider = xai


class TestRecordings(RecordingTests):
    provider = xai


def ask_refused(
    server: ModelServer, status: int, message: str, options: dict[str, Any] | None = None
) -> ExchangeResult:
    """Send a request that is answered with an error in xAI's format."""
    server.reply(wire.whole_reply({"code": INVALID, "error": message}, status))
    return send_request(xai, server, ChatRequest("grok-test", [QUESTION], options=options or {}), tries=4)


# Errors


def test_error_message_is_the_sentence_next_to_the_code(server: ModelServer) -> None:
    failure = ask_refused(server, 404, "The model grok-beta was deprecated. Please use grok-3 instead.").result.error
    assert isinstance(failure, ProviderError)
    assert failure.summary == "The model grok-beta was deprecated. Please use grok-3 instead (xai, 404)"


def test_invalid_key_with_status_400_is_recognized(server: ModelServer) -> None:
    failure = ask_refused(server, 400, BAD_KEY).result.error
    assert isinstance(failure, ProviderError)
    assert failure.message == BAD_KEY
    assert "ask keys" in failure.hint
    assert len(server.requests) == 1


def test_next_key_is_tried_after_an_invalid_one(server: ModelServer) -> None:
    server.reply(wire.whole_reply({"code": INVALID, "error": BAD_KEY}, 400), wire.says("Hello."))
    exchange = send_request(xai, server, ChatRequest("grok-latest", [QUESTION]), key="bad|good")
    assert exchange.streamed_text == "Hello."
    assert [one.headers["Authorization"] for one in server.requests] == ["Bearer bad", "Bearer good"]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("reasoning_effort", "Model grok-code-fast-1 does not support parameter reasoningEffort."),
        ("reasoning_effort", "Argument not supported on this model: reasoningEffort"),
        ("presence_penalty", "Argument not supported on this model: presencePenalty"),
        ("frequency_penalty", "Model grok-4 does not support parameter frequencyPenalty."),
        ("stop", "Argument not supported on this model: stop"),
    ],
)
def test_parameter_that_a_reasoning_model_refuses_is_named(server: ModelServer, option: str, message: str) -> None:
    failure = ask_refused(server, 400, message, {option: "x"}).result.error
    assert isinstance(failure, ParameterError)
    assert failure.hint.endswith(f" {option}")


def test_other_error_names_no_option(server: ModelServer) -> None:
    exchange = ask_refused(
        server, 400, "Each message must have at least one content element.", {"reasoning_effort": "low"}
    )
    assert isinstance(exchange.result.error, ProviderError)


def test_error_inside_a_stream_is_read_like_any_other(server: ModelServer) -> None:
    server.reply(wire.streams(wire.text("Hello, w"), {"code": "Service unavailable", "error": "It is overloaded."}))
    exchange = send_request(xai, server, ChatRequest("grok-latest", [QUESTION]))
    assert (exchange.streamed_text, str(exchange.result.error).split(" (")[0]) == ("Hello, w", "It is overloaded")


# Numbers


@pytest.mark.parametrize(
    ("usage", "output"),
    [
        ({"total_tokens": 513, "completion_tokens_details": {"reasoning_tokens": 196}}, 222),
        ({"total_tokens": 317}, 26),
        ({}, 26),
    ],
)
def test_output_includes_reasoning(usage: dict[str, Any], output: int) -> None:
    read = xai.parse_usage({"prompt_tokens": 291, "completion_tokens": 26} | usage)
    assert (read.input_tokens, read.output_tokens, read.cost) == (291, output, None)


def test_cost_is_converted_from_ticks() -> None:
    usage = {"prompt_tokens": 291, "completion_tokens": 26, "cost_in_usd_ticks": 1_330_500}
    assert xai.parse_usage(usage).cost == pytest.approx(0.00013305)


def test_prices_become_dollars_per_million_tokens() -> None:
    listed = {"id": "grok-4.3", "context_length": 1_000_000}
    prices = {"prompt_text_token_price": 12_500, "completion_text_token_price": 25_000}
    priced, bare = xai.provider_parse_models({"object": "list", "data": [listed | prices, listed | {"id": "bare"}]})
    assert (priced.id, priced.context_length, priced.input_price, priced.output_price) == (
        "grok-4.3",
        1_000_000,
        1.25,
        2.5,
    )
    assert (bare.input_price, bare.output_price) == (None, None)


def test_key_is_found_under_either_name() -> None:
    assert xai.info.key_env == ("XAI_API_KEY", "GROK_API_KEY")
