"""The selection of model, API key and base URL, and the cost limit."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from ask.agent.model_selection import complete_base_url, is_local_url
from tests import wire
from tests.model_server import ModelServer, Reply, Request
from tests.program import Ask, Home

KEYS = ("sk-first-0123456789", "sk-second-0123456789", "sk-third-0123456789")
LOCAL = '[providers.local]\nbase_url = "{url}"\n'


def configure(home: Home, text: str) -> None:
    home.config.mkdir(exist_ok=True)
    (home.config / "config.toml").write_text(text)


def models_response(*entries: dict[str, object]) -> Reply:
    return wire.whole_reply({"data": list(entries)})


# Models


@pytest.mark.parametrize(
    ("arguments", "model"), [(["-m", "fast"], "a/model"), (["-p", "openrouter", "-m", "fast"], "fast")]
)
def test_an_alias_is_resolved_unless_a_provider_is_named(
    arguments: list[str], model: str, ask: Ask, home: Home, server: ModelServer
) -> None:
    configure(home, '[aliases]\nfast = "openrouter:a/model"')
    server.reply(wire.says("Hello."))
    assert ask(*arguments, "hi").code == 0
    assert server.requests[0].json["model"] == model


def test_without_a_model_the_first_listed_one_is_used(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, LOCAL.format(url=server.base_url))
    server.reply(models_response({"id": "loaded"}, {"id": "another"}), wire.says("Hello."))
    result = ask("-p", "local", "--json", "hi")
    assert (result.code, '"model": "loaded"' in result.text) == (0, True)
    assert [request.method for request in server.requests] == ["GET", "POST"]
    assert server.requests[1].json["model"] == "loaded"


def test_a_provider_that_lists_no_model_is_a_config_error(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, LOCAL.format(url=server.base_url))
    server.reply(models_response())
    result = ask("-p", "local", "hi")
    assert (result.code, result.stdout) == (4, b"")
    assert all(told in result.stderr for told in ("local", "-m", "ask models -p local"))


# Keys


@pytest.mark.parametrize("status", [401, 402, 429])
def test_several_keys_are_tried_in_turn(status: int, ask: Ask, server: ModelServer) -> None:
    server.reply(wire.fails(status, f"not {KEYS[0]}"), wire.fails(status), wire.says("Hello."))
    result = ask("-p", "openrouter", "hi", env={"OPENROUTER_API_KEY": " | ".join(KEYS)})
    assert (result.code, result.text) == (0, "Hello.\n")
    assert [request.headers["Authorization"] for request in server.requests] == [f"Bearer {key}" for key in KEYS]
    assert result.stderr.count("next key") == 2
    assert not any(key in result.stderr for key in KEYS)


def test_the_key_that_worked_is_used_for_the_rounds_that_follow(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.fails(401), wire.calls(("list_dir", {"dirpath": "."})), wire.says("Nothing."))
    assert ask("-p", "openrouter", "hi", env={"OPENROUTER_API_KEY": "|".join(KEYS)}).code == 0
    assert [request.headers["Authorization"][7:] for request in server.requests] == [KEYS[0], KEYS[1], KEYS[1]]


def test_when_the_last_key_fails_its_error_is_reported(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.fails(401, "User not found."))
    result = ask("-p", "openrouter", "hi", env={"OPENROUTER_API_KEY": "|".join(KEYS)})
    assert result.code == 6
    assert "User not found (openrouter, 401)" in result.stderr.splitlines()[-1]
    assert len(server.requests) == 3


# Addresses


@pytest.mark.parametrize(
    ("told", "reached"),
    [
        ("box", "http://box:11434"),
        ("box:80", "http://box:80"),
        (":8000", "http://127.0.0.1:8000"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:1", "http://127.0.0.1:1"),
        ("[::]:2", "http://[::1]:2"),
        ("[::1]", "http://[::1]:11434"),
        ("::1", "http://[::1]:11434"),
        ("::", "http://[::1]:11434"),
        ('"gpu:8080"', "http://gpu:8080"),
        ("gpu:x", "http://gpu:11434"),
        ("https://box.example", "https://box.example"),
        ("http://0.0.0.0:3/path", "http://127.0.0.1:3/path"),
    ],
)
def test_an_address_without_scheme_or_port_gets_the_providers_defaults(told: str, reached: str) -> None:
    assert complete_base_url(told, "http://localhost:11434") == reached


# Cost


def reply_with_cost(cost: float | None) -> Callable[[Request], Reply]:
    """Reply with endless tool calls, each response at this cost."""

    def script(request: Request) -> Reply:
        if request.method == "GET":
            return models_response({"id": "m", "pricing": {"prompt": "0"}})
        if request.json.get("tool_choice") == "none":
            return wire.says("That is all.")
        number = len(request.json["messages"])
        chunks = [
            *wire.stream(calls=[("bash", {"command": f"true {number}"})]),
            wire.usage(cost=cost),
        ]
        return wire.streams(*chunks)

    return script


def test_at_the_cost_limit_the_model_answers_once_more_without_calls(ask: Ask, server: ModelServer) -> None:
    server.reply(reply_with_cost(0.02))
    result = ask("-p", "openrouter", "--max-cost", "0.05", "go")
    assert (result.code, result.text) == (11, "That is all.\n")
    assert re.search(r"\$0\.06\d*.* --max-cost .*\n$", result.stderr)
    assert [request.json["tool_choice"] for request in server.requests] == ["auto", "auto", "auto", "none"]


def test_an_answer_without_calls_succeeds_whatever_it_cost(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.streams(wire.text("Hello."), wire.finish(), wire.usage(cost=3.0)))
    assert ask("-p", "openrouter", "--max-cost", "0.05", "hi").code == 0


PRICED: dict[str, object] = {"id": "test/model", "pricing": {"prompt": "0.001", "completion": "0.002"}}
"""A round is of 10 and 5 tokens, which is $0.02."""


@pytest.mark.parametrize(
    ("listed", "code", "told", "asked"),
    [
        (models_response(PRICED), 11, ["$0.0400", "--max-cost"], 3),
        (models_response({"id": "m"}), 4, ["openrouter", "price", "test/model", "--max-cost"], 1),
        (wire.fails(404, "no such page"), 6, ["(openrouter, 404)", "price", "--max-cost"], 1),
    ],
    ids=["price", "none", "no list"],
)
def test_responses_without_a_cost_are_counted_by_price(
    ask: Ask, server: ModelServer, *, listed: Reply, code: int, told: list[str], asked: int
) -> None:
    server.reply(lambda request: listed if request.method == "GET" else reply_with_cost(None)(request))
    result = ask("-p", "openrouter", "-m", "test/model", "--max-cost", "0.03", "go")
    assert result.code == code
    assert all(text in result.stderr.splitlines()[-1] for text in told)
    assert [request.method for request in server.requests].count("POST") == asked
    assert [request.method for request in server.requests].count("GET") == 1


@pytest.mark.parametrize("status", [404, 500])
def test_a_failed_request_for_prices_is_reported(ask: Ask, home: Home, server: ModelServer, status: int) -> None:
    configure(home, LOCAL.format(url=server.base_url) + "[network]\ntries = 1\n")
    server.reply(wire.fails(status, "no such page"))
    result = ask("-p", "local", "-m", "m", "--max-cost", "1", "hi")
    assert (result.code, result.stdout) == (6, b"")
    assert all(told in result.stderr for told in (f"(local, {status})", "price", "--max-cost"))


@pytest.mark.parametrize("amount", ["nan", "inf", "-inf", "1e999", "0", "-1", "abc", ""])
def test_an_invalid_cost_limit_is_refused(ask: Ask, server: ModelServer, amount: str) -> None:
    result = ask("-p", "openrouter", f"--max-cost={amount}", "hi")
    assert (result.code, result.stdout, server.requests) == (2, b"", [])
    assert "--max-cost" in result.stderr
    assert repr(amount) in result.stderr


def test_a_cost_limit_without_costs_or_prices_is_an_error(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, LOCAL.format(url=server.base_url))
    server.reply(models_response({"id": "m"}))
    result = ask("-p", "local", "-m", "m", "--max-cost", "1", "hi")
    assert (result.code, result.stdout) == (4, b"")
    assert all(told in result.stderr for told in ("local", "price", "--max-cost"))
    assert [request.method for request in server.requests] == ["GET"]


# Local servers


@pytest.mark.parametrize(
    "host",
    [
        *("localhost", "LOCALHOST:8080", "api.localhost", "127.0.0.1:8080", "127.9.9.9", "[::1]:1", "0.0.0.0"),
        *(
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.5:11434",
            "[fe80::1]",
            "[fd00::1]",
            "gpu-box",
            "nas.local",
            "nas.local.",
        ),
    ],
)
def test_local_addresses_are_recognized(host: str) -> None:
    assert is_local_url(f"http://{host}/v1")


@pytest.mark.parametrize(
    "url",
    [
        *("http://8.8.8.8/v1", "https://api.example.com/v1", "http://172.32.0.1", "http://[2606:4700::1]/", ""),
        *("http://localhost.example.com", "http://local", "http://127.0.0.1@example.com/", "http://[bad", "nonsense"),
    ],
)
def test_public_addresses_are_not_local(url: str) -> None:
    assert is_local_url(url) == (url == "http://local")


@pytest.mark.parametrize("provider", [[], ["-p", "openai"], ["-p", "anthropic"]])
def test_a_local_server_needs_no_key(provider: list[str], home: Home, server: ModelServer) -> None:
    ask = Ask(home.env, home.work)
    server.reply(wire.says("Hello."))
    ask(*provider, "--base-url", server.base_url, "-m", "m", "hi")
    assert len(server.requests) >= 1
    assert not {"Authorization", "x-api-key"}.intersection(server.requests[0].headers)
    for line in (["--base-url", "https://api.invalid/v1"], []):
        assert ask(*provider, *line, "hi").code == 4


def test_a_local_address_in_the_environment_or_config_toml_needs_no_key(home: Home, server: ModelServer) -> None:
    ask = Ask(home.env, home.work)
    server.reply(wire.says("Hello."))
    assert ask("-m", "m", "hi", env={"OPENROUTER_BASE_URL": server.base_url}).code == 0
    configure(home, f'[providers.openrouter]\nbase_url = "{server.base_url}"\n')
    assert ask("-m", "m", "hi").code == 0
