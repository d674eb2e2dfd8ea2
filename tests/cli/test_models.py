"""`ask models`: lists the models of a provider and reports failures."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests import wire
from tests.model_server import HOLD, ModelServer, Reply
from tests.program import TEST_KEY, Ask, Home

ENTRY = {
    "id": "vendor/model",
    "name": "Vendor: Model",
    "context_length": 200_000,
    "supported_parameters": ["tools", "seed"],
    "pricing": {"prompt": "0.0000005", "completion": "0.000015"},
}
MODELS = wire.whole_reply({"data": [ENTRY]})


@pytest.fixture(autouse=True)
def quick_retries(home: Home) -> None:
    home.configure("[network]\nbackoff = 0.01\ntries = 2\n")


def test_the_list_is_fetched_with_the_key(ask: Ask, server: ModelServer) -> None:
    server.reply(MODELS)
    result = ask("models", "-p", "openrouter")
    assert (result.code, result.stderr) == (0, "")
    assert result.text == "vendor/model\tVendor: Model\t200000\tyes\t0.5\t15\tprovider\t\t\n"
    (request,) = server.requests
    assert (request.method, request.path, request.body) == ("GET", "/api/v1/models", b"")
    assert request.headers["Authorization"] == f"Bearer {TEST_KEY}"


def test_a_provider_as_an_argument_is_an_error_that_names_its_option(ask: Ask) -> None:
    result = ask("models", "ollama")
    assert (result.code, result.stderr.count("\n")) == (2, 1)
    assert "ask models -p ollama" in result.stderr


def test_unreported_fields_are_empty(ask: Ask, server: ModelServer) -> None:
    entries = [
        {"id": "router", "pricing": {"prompt": "-1", "completion": "-1"}, "supported_parameters": []},
        {"id": "bare", "name": None, "context_length": None, "pricing": None},
    ]
    server.reply(wire.whole_reply({"data": entries}))
    bare, router = json.loads(ask("models", "--json").stdout)
    assert (bare["id"], bare["context"], bare["tools"], bare["input_price"]) == ("bare", None, None, None)
    assert (router["id"], router["tools"], router["input_price"], router["output_price"]) == (
        "router",
        False,
        None,
        None,
    )


@pytest.mark.parametrize(
    "body",
    [
        # https://github.com/exo-explore/exo/pull/590, https://github.com/songquanpeng/one-api/issues/128
        {"object": "list", "models": [{"id": "a"}, {"id": "b/c:d"}]},
        {"models": [{"name": "A", "model": "a"}, {"name": "B", "model": "b/c:d"}]},
        ["a", {"id": "b/c:d"}],
        {"code": 0, "message": "success", "data": [{"id": "a"}, {"id": "b/c:d"}]},
        {"data": [{"id": "a"}, {"id": "b/c:d"}, {"id": "a"}, None, {}, {"id": 7}]},
    ],
)
def test_lists_of_other_forms_are_read(ask: Ask, server: ModelServer, body: Any) -> None:
    server.reply(wire.whole_reply(body))
    models = json.loads(ask("models", "-p", "vllm", "--json", env={"VLLM_BASE_URL": server.base_url}).stdout)
    assert [model["id"] for model in models] == ["a", "b/c:d"]


@pytest.mark.parametrize("name", ["context_length", "context_window", "max_model_len", "max_context_length"])
def test_the_context_is_read_from_the_field_of_each_server(ask: Ask, server: ModelServer, name: str) -> None:
    # https://github.com/turnstonelabs/turnstone/pull/252
    server.reply(wire.whole_reply({"data": [{"id": "a", name: 32_768}]}))
    (model,) = json.loads(ask("models", "-p", "vllm", "--json", env={"VLLM_BASE_URL": server.base_url}).stdout)
    assert model["context"] == 32_768


def test_the_demo_provider_lists_its_models(ask: Ask, server: ModelServer) -> None:
    assert ask("models", "-p", "demo").text.startswith("demo\t")
    assert server.requests == []


@pytest.mark.parametrize(
    ("reply", "code", "expected"),
    [
        (wire.fails(401, f"bad key {TEST_KEY}"), 6, "(openrouter, 401)"),
        (wire.fails(404, "nothing here"), 6, "nothing here"),
        (Reply((b"<html>down</html>",), content_type="text/html"), 6, "openrouter"),
        (wire.whole_reply({"data": []}), 6, "openrouter does not list its models"),
        (wire.whole_reply({"error": {"message": "it broke", "code": 400}}), 6, "openrouter"),
        (Reply((b"[1, 2]",)), 6, "openrouter"),
        (Reply((b'{"data": 1}',)), 6, "openrouter"),
        (Reply((HOLD,)), 5, "no new data"),
    ],
)
def test_failures_are_one_line_errors(reply: Reply, code: int, expected: str, ask: Ask, server: ModelServer) -> None:
    server.reply(reply)
    result = ask("models", "--timeout", "0.3")
    assert (result.code, result.stdout) == (code, b"")
    assert result.stderr.startswith("ask: ")
    assert result.stderr.count("\n") == 1
    assert expected in result.stderr
    assert TEST_KEY not in result.stderr


def test_temporary_failures_are_retried(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.fails(503, "busy"), MODELS)
    result = ask("models")
    assert result.text.startswith("vendor/model\t")
    assert "retrying" in result.stderr
    assert result.stderr.count("\n") == 1


def test_exit_codes_of_network_and_configuration_errors(ask: Ask, server: ModelServer) -> None:
    refused = ask("models", env={"OPENROUTER_BASE_URL": "http://127.0.0.1:1/v1"})
    assert (refused.code, "connection refused" in refused.stderr) == (5, True)
    unknown = ask("models", "-p", "opnrouter")
    assert (unknown.code, "did you mean openrouter?" in unknown.stderr) == (4, True)
    assert ask("models", "-p", "openrouter", env={"OPENROUTER_API_KEY": "", "OPENROUTER_BASE_URL": ""}).code == 4
    assert server.requests == []


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "soon"])
def test_a_timeout_is_reported_with_its_option(seconds: str, ask: Ask, server: ModelServer) -> None:
    result = ask("models", "--timeout", seconds)
    assert (result.code, server.requests) == (2, [])
    assert "--timeout" in result.stderr


def test_a_listed_effort_comes_before_what_is_known_otherwise(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.whole_reply({"data": [ENTRY | {"reasoning": {"mandatory": True}}]}), wire.says("Hello."))
    ask("models", "-p", "openrouter")
    result = ask("-m", "vendor/model", "-o", "reasoning_effort=none", "hi")
    assert (result.code, result.text) == (0, "Hello.\n")
    assert "'none'; using 'minimal'" in result.stderr
    assert server.requests[-1].json["reasoning"] == {"effort": "minimal"}
