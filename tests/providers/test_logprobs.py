"""Tests for the logprobs of answers: how each API is asked for them, and how its responses are read."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from ask import ChatRequest, Message, Provider
from ask.client.logprob_decision_api import parse_token
from ask.schemas.token_probabilities import TokenLogprob
from providers.gemini import provider as gemini
from providers.ollama import provider as ollama
from providers.openai import OpenAIChat
from providers.openai import provider as openai
from providers.xai import provider as xai
from tests import logprob_wires, responses_wire, wire
from tests.providers.gemini_wire import plain, read_by_google
from tests.providers.test_ollama_requests import read_by_ollama
from tests.simulated_model import SimulatedModel, learn_vocabulary

TEXTS = {b'{"kind":"bug"}': 0.5, b'{"kind":"billing"}': 0.3, b'{"kind":"caf\xc3\xa9"}': 0.2}
TOKENS = SimulatedModel(TEXTS, learn_vocabulary((*TEXTS,), 10), 0.0, Random(1)).sample(Random(3), 5)
TALK = (Message("system", "Be kind."), Message("user", "hi"))
chat = OpenAIChat(name="openai", base_url="https://api.openai.com/v1")


def build_body(provider: Provider, model: str) -> Any:
    options = provider.provider_logprob_options()
    request = ChatRequest(model, TALK, options=options, stream=False, schema={"type": "object", "properties": {}})
    return provider.provider_build_request(request, "key").body


def read_tokens(provider: Provider, response: Any) -> list[TokenLogprob]:
    return list(map(parse_token, provider.provider_parse_logprobs(response)))


def test_chat_completions_has_logprobs() -> None:
    body = build_body(chat, "gpt-4.1")
    assert (body["logprobs"], body["top_logprobs"]) == (True, 20)
    assert wire.read_by_openai(body) == body
    response = logprob_wires.to_chat_answer(TOKENS)
    from openai.types.chat import ChatCompletion  # slow to import

    ChatCompletion.model_validate({**response, "created": 1}, strict=True)
    assert read_tokens(chat, response) == [token._replace(alternatives=tuple(token.alternatives)) for token in TOKENS]


def test_the_responses_api_has_logprobs() -> None:
    body = build_body(openai, "gpt-4.1")
    assert (body["include"], body["top_logprobs"]) == (["message.output_text.logprobs"], 20)
    responses_wire.check_request(body)
    response = logprob_wires.to_responses_answer(TOKENS)
    assert read_tokens(openai, response) == [token._replace(alternatives=tuple(token.alternatives)) for token in TOKENS]


def test_xai_lists_fewer_tokens() -> None:
    body = build_body(xai, "grok-4.5")
    assert body["top_logprobs"] == 8
    responses_wire.check_request(body)


def test_gemini_has_logprobs() -> None:
    body = build_body(gemini, "gemini-2.5-flash")
    assert (body["generationConfig"]["responseLogprobs"], body["generationConfig"]["logprobs"]) == (True, 20)
    assert read_by_google(body) == plain(body)
    response = logprob_wires.to_gemini_answer(TOKENS)
    from google.genai.types import GenerateContentResponse

    GenerateContentResponse.model_validate(response)
    assert read_tokens(gemini, response) == [token._replace(alternatives=tuple(token.alternatives)) for token in TOKENS]


def test_ollama_has_logprobs() -> None:
    body = build_body(ollama, "qwen3:4b")
    assert (body["logprobs"], body["top_logprobs"]) == (True, 20)
    assert read_by_ollama(body) == body
    response = logprob_wires.to_ollama_answer(TOKENS)
    from ollama._types import ChatResponse

    ChatResponse.model_validate(response)
    assert read_tokens(ollama, response) == [token._replace(alternatives=tuple(token.alternatives)) for token in TOKENS]


@pytest.mark.parametrize("provider", [chat, openai, gemini, ollama])
@pytest.mark.parametrize("value", [None, 5, [], [None], {"content": 1}, {"content": [1]}, {"chosenCandidates": [1]}])
def test_malformed_logprobs_have_no_tokens_with_text(provider: Provider, value: Any) -> None:
    response = {
        "choices": [{"logprobs": value}],
        "candidates": [{"logprobsResult": value}],
        "output": [{"type": "message", "content": [{"logprobs": value}, value]}, value],
        "logprobs": value,
    }
    assert all(token.token == b"" for token in read_tokens(provider, response))
