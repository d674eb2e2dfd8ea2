"""xAI on the Responses API: the provider contract, errors, costs and timeout."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ask import ChatRequest, ProviderError
from ask.agent.provider_selection import ModelSelection, resolve_endpoint
from ask.app import AppContext
from ask.client.endpoint import create_client
from ask.config.config_file import Config
from ask.config.options import RunOptions
from ask.config.precedence import resolve_settings
from ask.errors import ParameterError
from providers.xai import provider as xai
from tests import responses_wire
from tests.model_server import ModelServer, Reply
from tests.program import TEST_KEY, Home
from tests.recorded_exchanges import QUESTION, send_request
from tests.responses_wire import message, response
from tests.shared_reader_contract import SharedReaderContract

BAD_KEY = "Incorrect API key provided: xa***gA. You can obtain an API key from https://console.x.ai."


class TestXAI(SharedReaderContract):
    provider = xai


def test_invalid_key_with_status_400_is_recognized(server: ModelServer) -> None:
    refused = responses_wire.whole_reply({"code": "invalid-argument", "error": BAD_KEY}, 400)
    server.reply(refused, responses_wire.says("Hello."))
    request = ChatRequest("grok-latest", [QUESTION])
    assert send_request(xai, server, request, key="bad|good").streamed_text == "Hello."
    assert [one.headers["Authorization"] for one in server.requests] == ["Bearer bad", "Bearer good"]
    server.reply(refused)
    failure = send_request(xai, server, request).result.error
    assert isinstance(failure, ProviderError)
    assert failure.message == BAD_KEY


def test_parameter_that_a_reasoning_model_refuses_is_named(server: ModelServer) -> None:
    text = "Argument not supported on this model: presencePenalty"
    server.reply(responses_wire.whole_reply({"code": "invalid-argument", "error": text}, 400))
    request = ChatRequest("grok-test", [QUESTION], options={"presence_penalty": 1})
    assert isinstance(send_request(xai, server, request).result.error, ParameterError)


def test_error_inside_a_stream_is_the_sentence_next_to_the_code(server: ModelServer) -> None:
    begun = responses_wire.events(response(message("Hello, w")))[:-2]
    failure = {"type": "error", "code": "Service unavailable", "error": "It is overloaded."}
    server.reply(responses_wire.streams(*begun, failure))
    exchange = send_request(xai, server, ChatRequest("grok-latest", [QUESTION]))
    assert (exchange.streamed_text, str(exchange.result.error).split(" (")[0]) == ("Hello, w", "It is overloaded")


@pytest.mark.parametrize("stream", [True, False])
def test_a_temporary_error_inside_a_response_is_retried(server: ModelServer, stream: bool) -> None:
    """https://github.com/vercel/ai/issues/10533"""
    failure = {"code": "The service is currently unavailable", "error": "Timed out waiting for first token"}
    data = json.dumps(failure)
    failed = Reply([f"data: {data}\n\n".encode()], content_type="text/event-stream", responses_api=True)
    server.reply(
        failed if stream else responses_wire.whole_reply(failure), responses_wire.says("Hello.", stream=stream)
    )
    exchange = send_request(xai, server, ChatRequest("grok-latest", [QUESTION], stream=stream), tries=2)
    assert (exchange.result.answer.text, len(server.requests)) == ("Hello.", 2)


def test_output_includes_reasoning_and_cost_is_converted_from_ticks() -> None:
    usage = {
        "input_tokens": 352,
        "input_tokens_details": {"cached_tokens": 128},
        "output_tokens": 295,
        "output_tokens_details": {"reasoning_tokens": 280},
        "total_tokens": 647,
        "cost_in_usd_ticks": 10_431_000,
    }
    read = xai.parse_usage(usage)
    assert (read.input_tokens, read.output_tokens, read.cached_tokens) == (352, 295, 128)
    assert read.cost == pytest.approx(0.0010431)


@pytest.mark.parametrize(
    ("name", "flags", "config", "expected"),
    [
        ("xai", {}, {}, 900.0),
        ("xai", {"timeout": 300.0}, {}, 300.0),
        ("xai", {}, {"timeout": 300}, 300.0),
        ("openai", {}, {}, 300.0),
    ],
)
def test_reasoning_may_be_silent_for_longer_unless_the_user_sets_a_timeout(
    home: Home, name: str, flags: dict[str, Any], config: dict[str, Any], expected: float
) -> None:
    app = AppContext({**home.env, f"{name.upper()}_API_KEY": TEST_KEY})
    endpoint = resolve_endpoint(app, ModelSelection(name))
    settings = resolve_settings(RunOptions(**flags), {}, Config(config))
    client = create_client(endpoint, lambda _: None, settings)
    assert client._get_transport().stall_timeout == expected
