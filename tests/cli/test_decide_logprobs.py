"""`ask --decide` with models that have no decisions API: probabilities from the logprobs of an answer in JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ask.schemas.token_probabilities import TokenLogprob
from tests import logprob_wires, responses_wire, wire
from tests.model_server import ModelServer
from tests.program import TEST_KEY, Ask, Home
from tests.providers.gemini_wire import plain, read_by_google
from tests.providers.test_ollama_requests import read_by_ollama

SCHEMA = 'kind "bug" | "billing" | "other", urgent bool'
EXPECTED = {"kind": "billing", "kind_p": 0.6, "urgent": True, "urgent_p": 0.75}


def make_token(text: str, alternatives: dict[str, float]) -> TokenLogprob:
    listed = [(each.encode(), math.log(probability)) for each, probability in alternatives.items()]
    return TokenLogprob(text.encode(), math.log(alternatives[text]), listed)


TOKENS = [
    make_token('{"kind": "', {'{"kind": "': 1.0}),
    make_token("b", {"b": 0.7, "other": 0.3}),
    make_token("illing", {"illing": 0.6 / 0.7, "ug": 0.1 / 0.7}),
    make_token('", "urgent": ', {'", "urgent": ': 1.0}),
    make_token("true", {"true": 0.75, "false": 0.25}),
    make_token("}", {"}": 1.0}),
]


def ask_service(ask: Ask, server: ModelServer, provider: str, model: str, *options: str) -> Any:
    base_url = server.base_url.removesuffix("/api/v1") if provider in ("ollama", "gemini") else server.base_url
    service = ("-p", provider, "--base-url", base_url, "--key", TEST_KEY, "-m", model)
    return ask(*service, "--schema", SCHEMA, "--decide", *options, "Which?")


@pytest.mark.parametrize(
    ("provider", "model", "make_answer", "check_body"),
    [
        ("openai", "gpt-4.1", logprob_wires.to_chat_answer, wire.read_by_openai),
        ("lmstudio", "qwen3-4b", logprob_wires.to_chat_answer, wire.read_by_openai),
        ("gemini", "gemini-2.5-flash", logprob_wires.to_gemini_answer, read_by_google),
        ("ollama", "qwen3:4b", logprob_wires.to_ollama_answer, read_by_ollama),
    ],
)
def test_probabilities_are_those_of_the_tokens(
    ask: Ask,
    server: ModelServer,
    *,
    provider: str,
    model: str,
    make_answer: Callable[[Sequence[TokenLogprob]], Any],
    check_body: Callable[[Any], Any],
) -> None:
    server.reply(wire.whole_reply(make_answer(TOKENS)))
    result = ask_service(ask, server, provider, model)
    assert result.code == 0, result.stderr
    assert json.loads(result.text) == EXPECTED
    [request] = server.requests
    assert check_body(request.json) == (plain(request.json) if provider == "gemini" else request.json)
    assert "billing" in json.dumps(request.json)


def test_the_responses_api_is_asked_where_it_is_known(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(responses_wire.whole_reply(logprob_wires.to_responses_answer(TOKENS)))
    config = f'[providers.own]\nbase_url = "{server.base_url}"\napi = "responses"\n'
    home.configure(config)
    result = ask("-p", "own", "-m", "model", "--schema", SCHEMA, "--decide", "Which?")
    assert json.loads(result.text) == EXPECTED
    [request] = server.requests
    assert request.json["include"] == ["message.output_text.logprobs"]
    responses_wire.check_request(request.json)


def test_the_likeliest_answer_is_asked_for_unless_the_user_says_otherwise(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.whole_reply(logprob_wires.to_chat_answer(TOKENS)))
    ask_service(ask, server, "openai", "gpt-4.1")
    ask_service(ask, server, "openai", "gpt-4.1", "-o", "temperature=0.5", "-o", "top_logprobs=5")
    values = [(request.json["temperature"], request.json["top_logprobs"]) for request in server.requests]
    assert values == [(0, 20), (0.5, 5)]


def test_models_that_reason_have_logprobs_without_reasoning(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.whole_reply(logprob_wires.to_chat_answer(TOKENS)))
    result = ask_service(ask, server, "openai", "gpt-6-sol")
    assert (result.code, server.requests) == (7, [])
    assert "--effort none" in result.stderr
    assert json.loads(ask_service(ask, server, "openai", "gpt-6-sol", "--effort", "none").text) == EXPECTED
    result = ask_service(ask, server, "openai", "gpt-6.2-sol")
    assert result.code == 7
    assert "--effort none" not in result.stderr  # this model always reasons
    assert len(server.requests) == 1


def test_a_model_that_always_refuses_logprobs_needs_no_other_effort(ask: Ask, server: ModelServer, home: Home) -> None:
    home.configure(
        '[[providers.openai.models]]\npattern = "own*"\nefforts = ["none", "low"]\nrefused_options = ["logprobs"]\n'
    )
    result = ask_service(ask, server, "openai", "own-1")
    assert (result.code, server.requests) == (7, [])
    assert "--effort" not in result.stderr


@pytest.mark.parametrize("provider", ["openai", "openrouter"])
def test_effort_has_no_effect_on_a_decisions_api(ask: Ask, server: ModelServer, provider: str) -> None:
    model = {"openai": "gpt-6-luna", "openrouter": "openai/gpt-6-luna-decisions"}[provider]
    result = ask_service(ask, server, provider, model, "--effort", "low")
    assert (result.code, server.requests) == (2, [])


def test_text_around_the_answer_has_no_probabilities(ask: Ask, server: ModelServer) -> None:
    before = [
        make_token('<think>{"kind": "bug"}</think>\n```json\n', {'<think>{"kind": "bug"}</think>\n```json\n': 1.0})
    ]
    server.reply(
        wire.whole_reply(logprob_wires.to_chat_answer([*before, *TOKENS, make_token("\n```", {"\n```": 1.0})]))
    )
    assert json.loads(ask_service(ask, server, "openai", "gpt-4.1").text) == EXPECTED


@pytest.mark.parametrize(
    ("text", "finish"),
    [("I cannot say.", "stop"), ('{"kind": "bug", "urg', "length"), ('{"kind": "spam", "urgent": true}', "stop")],
)
def test_an_answer_without_values_decides_nothing(ask: Ask, server: ModelServer, text: str, finish: str) -> None:
    body = logprob_wires.to_chat_answer([make_token(text, {text: 0.5, "x": 0.5})])
    body["choices"][0]["finish_reason"] = finish
    server.reply(wire.whole_reply(body))
    result = ask_service(ask, server, "openai", "gpt-4.1")
    assert result.code == 10
    assert "kind" in result.stderr
    assert not result.text or json.loads(result.text)["kind"] is None


def test_tokens_that_do_not_form_the_answer_decide_nothing(ask: Ask, server: ModelServer) -> None:
    body = logprob_wires.to_chat_answer(TOKENS)
    del body["choices"][0]["logprobs"]["content"][1]
    server.reply(wire.whole_reply(body))
    assert ask_service(ask, server, "openai", "gpt-4.1").code == 10
