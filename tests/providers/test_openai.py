"""OpenAI on Chat Completions: the provider contract, recorded responses, and the rules of its own models.

tests/providers/test_openai_responses.py tests the Responses API.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ask import ChatRequest, Message, ProviderError, RetryAction, ToolSpec
from ask.errors import ParameterError
from providers.openai import provider
from tests import wire
from tests.decision_services import OPENAI_SAMPLE
from tests.host_requests import prepare_request
from tests.model_server import ModelServer
from tests.recorded_exchanges import ExchangeResult, send_request
from tests.recording_tests import RecordingTests
from tests.shared_reader_contract import SharedReaderContract

openai = provider.chat
QUESTION = [Message("user", "hi")]
TOOLS = [ToolSpec("bash", "Run a command", {"type": "object"})]
NEEDS_NONE = (
    "Function tools with reasoning_effort are not supported for gpt-6-sol in /v1/chat/completions. "
    "To use function tools, use /v1/responses or set reasoning_effort to 'none'."
)
NO_CREDIT = {"message": "You exceeded your current quota.", "param": None, "code": "insufficient_quota"}
HAS_NO_NONE = "Unsupported value: 'reasoning_effort' does not support 'none' with this model."


class TestOpenAI(SharedReaderContract):
    provider = openai
    model = "gpt-6-sol"  # newer ones call tools only on the Responses API
    decision_model = "gpt-6-luna"
    decision_response = OPENAI_SAMPLE


class TestRecordings(RecordingTests):
    provider = openai


def ask_refused(
    server: ModelServer, status: int, error: dict[str, Any], tools: Sequence[ToolSpec] = (), **fields: Any
) -> ExchangeResult:
    """Send a request that is answered with an error first, and then with text."""
    server.reply(wire.whole_reply({"error": error}, status), wire.says("Hello."))
    request = ChatRequest("gpt-test", QUESTION, **fields)
    return send_request(openai, server, request, tools, tries=4)


# Requests


@pytest.mark.parametrize(
    ("options", "limit"),
    [({"max_tokens": 9}, 9), ({"max_completion_tokens": 8}, 8), ({"max_tokens": 9, "max_completion_tokens": 8}, 8)],
)
def test_limit_has_the_name_for_current_models(options: dict[str, int], limit: int) -> None:
    body = openai.build_body(ChatRequest("gpt-6-sol", QUESTION, options=options))
    assert body["max_completion_tokens"] == limit
    assert "max_tokens" not in body


def test_no_limit_is_set_by_default() -> None:
    assert not {"max_tokens", "max_completion_tokens"} & openai.build_body(ChatRequest("gpt-6-sol", QUESTION)).keys()


@pytest.mark.parametrize("model", ["gpt-5.4", "gpt-5.5", "gpt-5.6-terra", "gpt-6-sol", "gpt-6.1-terra", "gpt-5.10"])
def test_reasoning_is_turned_off_for_models_that_need_it_for_tools(model: str) -> None:
    request = prepare_request(openai, model, QUESTION, TOOLS)
    assert openai.build_body(request)["reasoning_effort"] == "none"
    assert openai.build_body(request._replace(tool_choice="none"))["reasoning_effort"] == "none"


@pytest.mark.parametrize(
    "model", ["gpt-4o", "gpt-4.1-mini", "gpt-5", "gpt-5-2025-08-07", "gpt-5.3-codex", "o3", "gpt-35-turbo"]
)
def test_reasoning_of_other_models_is_unchanged(model: str) -> None:
    assert "reasoning_effort" not in openai.build_body(prepare_request(openai, model, QUESTION, TOOLS))


def test_without_tools_reasoning_is_unchanged() -> None:
    assert "reasoning_effort" not in openai.build_body(ChatRequest("gpt-6-sol", QUESTION))


def test_user_s_effort_is_kept() -> None:
    body = openai.build_body(
        prepare_request(openai, "gpt-6-sol", QUESTION, TOOLS, options={"reasoning_effort": "high"})
    )
    assert body["reasoning_effort"] == "high"


# Errors


@pytest.mark.parametrize(
    ("option", "error"),
    [
        (
            "temperature",
            {
                "message": "Unsupported value: 'temperature' does not support 0.5 with this model.",
                "param": "temperature",
                "code": "unsupported_value",
            },
        ),
        ("max_tokens", {"message": "max_tokens is too large: 9.", "param": "max_tokens", "code": "invalid_value"}),
        ("max_tokens", {"message": "That is too much.", "param": "max_completion_tokens", "code": "invalid_value"}),
        ("reasoning_effort", {"message": NEEDS_NONE, "param": "reasoning_effort", "code": None}),
    ],
)
def test_refused_parameter_has_the_user_s_name(server: ModelServer, option: str, error: dict[str, Any]) -> None:
    exchange = ask_refused(server, 400, error, options={option: 0.5})
    assert isinstance(exchange.result.error, ParameterError)
    assert exchange.result.error.hint.endswith(f" {option}")


@pytest.mark.parametrize("message", [NEEDS_NONE, HAS_NO_NONE])
def test_model_without_tools_has_a_hint(server: ModelServer, message: str) -> None:
    exchange = ask_refused(server, 400, {"message": message, "param": "reasoning_effort", "code": None}, tools=TOOLS)
    assert isinstance(exchange.result.error, ProviderError)
    assert exchange.result.error.message == message
    assert "--no-tools" in exchange.result.error.hint
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("code", "page"),
    [
        ("insufficient_quota", "billing"),
        ("credit_balance_exhausted", "billing"),
        ("organization_usage_limit_exceeded", "limits"),
        ("organization_spend_limit_exceeded", "limits"),
        ("project_spend_limit_exceeded", "limits"),
    ],
)
def test_empty_account_is_not_retried(server: ModelServer, code: str, page: str) -> None:
    kind = code if code == "insufficient_quota" else "requests"
    exchange = ask_refused(server, 429, {"message": "Spent.", "type": kind, "code": code})
    assert isinstance(exchange.result.error, ProviderError)
    assert f"https://platform.openai.com/settings/organization/{page}" in exchange.result.error.hint
    assert (len(server.requests), exchange.notices) == (1, [])


def test_tool_with_the_name_of_a_limit_is_not_an_empty_account(server: ModelServer) -> None:
    exchange = ask_refused(server, 400, {"message": "Invalid schema for function 'on_usage_limit_exceeded'"})
    assert isinstance(exchange.result.error, ProviderError)
    assert exchange.result.error.retry_action is not RetryAction.NEXT_KEY


def test_next_key_is_tried_after_an_empty_account(server: ModelServer) -> None:
    server.reply(wire.whole_reply({"error": NO_CREDIT}, 429), wire.says("Hello."))
    assert send_request(openai, server, ChatRequest("gpt-6-sol", QUESTION), key="empty|full").streamed_text == "Hello."
    assert [one.headers["Authorization"] for one in server.requests] == ["Bearer empty", "Bearer full"]


def test_an_organization_that_is_not_verified_gets_the_answer_without_streaming(server: ModelServer) -> None:
    message = "Your organization must be verified to stream this model."
    exchange = ask_refused(server, 400, {"message": message, "param": "stream", "code": "unsupported_value"})
    assert (exchange.result.answer.text, len(exchange.notices)) == ("Hello.", 1)
    assert "stream" not in server.requests[-1].json


def test_rate_limit_is_waited_for(server: ModelServer) -> None:
    exchange = ask_refused(
        server, 429, {"message": "Rate limit reached.", "type": "tokens", "code": "rate_limit_exceeded"}
    )
    assert (exchange.streamed_text, len(server.requests)) == ("Hello.", 2)


def test_request_above_the_limit_of_a_minute_is_not_repeated(server: ModelServer) -> None:
    message = "Request too large for gpt-6-sol on tokens per min (TPM): Limit 30000, Requested 30601."
    exchange = ask_refused(server, 429, {"message": message, "type": "tokens", "code": "rate_limit_exceeded"})
    assert isinstance(exchange.result.error, ProviderError)
    assert "send less" in exchange.result.error.hint
    assert (len(server.requests), exchange.notices) == (1, [])


# Answers


def test_refusal_is_shown_and_not_a_complete_answer(server: ModelServer) -> None:
    server.reply(wire.streams(wire.chunk({"refusal": "I'm sorry, "}), wire.chunk({"refusal": "no."}), wire.finish()))
    exchange = send_request(openai, server, ChatRequest("gpt-6-sol", QUESTION))
    assert (exchange.streamed_text, exchange.outcome) == ("I'm sorry, no.", "filter")
