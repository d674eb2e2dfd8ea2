"""A conversation with reasoning goes on with a model that does not reason, or whose service refuses the reasoning."""

from __future__ import annotations

from typing import Any

import pytest

from tests import responses_wire
from tests.model_server import ModelServer
from tests.program import TEST_KEY, Ask, Home

REFUSAL = (
    "Reasoning input items can only be provided to a reasoning or computer use model. "
    "Remove reasoning items from your input and try again."
)
"""https://github.com/openai/openai-agents-python/issues/569"""
SERVICE = '[providers.local]\nbase_url = "{url}/v1"\napi = "responses"\n'


@pytest.fixture
def ask(home: Home, server: ModelServer) -> Ask:
    root = server.base_url.removesuffix("/api/v1")
    env = {f"{name}_{part}": TEST_KEY for name in ("OPENAI", "XAI") for part in ("API_KEY",)}
    env |= {f"{name}_BASE_URL": f"{root}/v1" for name in ("OPENAI", "XAI")}
    home.configure(SERVICE.format(url=root))
    return Ask({**home.env, **env}, home.work)


def thought(model: str) -> dict[str, Any]:
    return responses_wire.response(
        responses_wire.reasoning("Pondering."), responses_wire.message("It is short."), model=model
    )


def list_types(server: ModelServer, number: int = -1) -> list[str]:
    return [item.get("type", "message") for item in server.requests[number].json["input"]]


@pytest.mark.parametrize(
    ("provider", "first", "second"),
    [
        ("openai", "gpt-5", "gpt-4o"),
        ("openai", "o3", "gpt-4.1"),
        ("xai", "grok-4", "grok-3"),
        ("local", "gpt-5", "gpt-4.1-mini"),
    ],
)
def test_reasoning_is_not_sent_to_a_model_without_it(
    ask: Ask, server: ModelServer, provider: str, first: str, second: str
) -> None:
    server.reply(responses_wire.replies(thought(first)), responses_wire.says("Again."), responses_wire.says("Yes."))
    ask("-p", provider, "-m", first, "What?")
    for _ in range(2):
        result = ask("-c", "-p", provider, "-m", second, "And then?")
        assert (result.code, result.stderr) == (0, "")
        assert "reasoning" not in list_types(server)
        assert "It is short." in str(server.requests[-1].json["input"])


def test_reasoning_is_sent_to_another_model_that_reasons(ask: Ask, server: ModelServer) -> None:
    server.reply(responses_wire.replies(thought("gpt-5")), responses_wire.says("Again."))
    ask("-p", "openai", "-m", "gpt-5", "What?")
    ask("-c", "-p", "openai", "-m", "gpt-5.2", "And then?")
    assert "reasoning" in list_types(server)


def test_a_fallback_without_reasoning_gets_none(ask: Ask, server: ModelServer) -> None:
    down = responses_wire.fails(500)
    server.reply(responses_wire.replies(thought("gpt-5")), down, responses_wire.says("Again."))
    ask("-p", "openai", "-m", "gpt-5", "What?")
    (ask.cwd.parent / "config" / "ask" / "config.toml").open("a").write("[network]\ntries = 1\n")
    result = ask("-c", "-p", "openai", "-m", "gpt-5", "--fallback", "openai:gpt-4o", "And then?")
    assert (result.code, result.text) == (0, "Again.\n")
    assert ("reasoning" in list_types(server, 1), "reasoning" in list_types(server)) == (True, False)


def test_a_refusal_is_answered_with_a_request_without_reasoning(ask: Ask, server: ModelServer) -> None:
    refused = responses_wire.fails(400, REFUSAL, param="input")
    server.reply(responses_wire.replies(thought("some")), refused, responses_wire.says("Again."))
    ask("-p", "local", "-m", "some", "What?")
    result = ask("-c", "-p", "local", "-m", "some-small", "And then?")
    assert (result.code, result.text) == (0, "Again.\n")
    assert ("reasoning" in list_types(server, 1), "reasoning" in list_types(server)) == (True, False)
    assert "efforts = []" in result.stderr
    server.reply(responses_wire.says("Fine."))
    assert "refused" not in ask("-c", "-p", "local", "-m", "some", "And now?").stderr


def test_without_reasoning_to_leave_out_the_refusal_is_reported(ask: Ask, server: ModelServer) -> None:
    server.reply(responses_wire.fails(400, REFUSAL, param="input"))
    assert (ask("-p", "local", "-m", "some", "What?").code, len(server.requests)) == (6, 1)


@pytest.mark.parametrize("param", ["include", None])
def test_a_model_without_reasoning_is_not_asked_to_return_it(ask: Ask, server: ModelServer, param: str | None) -> None:
    """The name of a deployment need not be that of its model, which may be gpt-4.1."""
    refused = responses_wire.fails(400, "Encrypted content is not supported with this model.", param=param)
    server.reply(refused, responses_wire.says("Yes."))
    result = ask("-p", "local", "-m", "prod", "What?")
    assert (result.code, result.text) == (0, "Yes.\n")
    assert ["include" in request.json for request in server.requests] == [True, False]
