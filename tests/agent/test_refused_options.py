"""Options that a model refuses: one of the settings is left out with a notice, one of the command line is an error."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests import responses_wire, wire
from tests.model_server import ModelServer, Reply, Request
from tests.program import TEST_KEY, Ask, Home
from tests.provider_wires import SERVICES

DEFAULTS = {
    "anthropic": (("-m", "claude-sonnet-5-5"), "claude-sonnet-5-5"),
    "openai": (("-m", "gpt-6-sol"), "gpt-6-sol"),
    "moonshot": (("-m", "kimi-k2.6"), "kimi-k2.6"),
}
SERVICE = '[providers.local]\nbase_url = "{url}/v1"\n'


@pytest.fixture
def ask(home: Home, server: ModelServer) -> Ask:
    root = server.base_url.removesuffix("/api/v1")
    env = dict(home.env)
    for name in DEFAULTS:
        env |= {f"{name.upper()}_API_KEY": TEST_KEY, f"{name.upper()}_BASE_URL": root + SERVICES[name].address}
    home.configure(SERVICE.format(url=root))
    return Ask(env, home.work)


def refuses(message: str, status: int = 400, **fields: Any) -> Reply:
    return wire.whole_reply({"error": {"message": message, "type": "invalid_request_error", **fields}}, status)


@pytest.mark.parametrize("provider", list(DEFAULTS))
def test_an_option_of_the_settings_is_left_out(ask: Ask, server: ModelServer, provider: str) -> None:
    ask("config", "set", "options.temperature", "0.2")
    server.reply(SERVICES[provider].says("Yes."))
    options, model = DEFAULTS[provider]
    result = ask("-p", provider, *options, "Really?")
    assert (result.code, result.text) == (0, "Yes.\n")
    assert model in result.stderr
    assert "temperature" in result.stderr
    assert "config.toml" in result.stderr
    assert "temperature" not in json.dumps(server.requests[0].json)


@pytest.mark.parametrize("provider", list(DEFAULTS))
def test_an_option_of_the_command_line_is_an_error(ask: Ask, server: ModelServer, provider: str) -> None:
    ask("config", "set", "options.temperature", "0.3")
    options, _ = DEFAULTS[provider]
    result = ask("-p", provider, *options, "-o", "temperature=0.2", "Really?")
    assert (result.code, server.requests) == (7, [])
    assert "temperature" in result.stderr


def test_the_command_line_unsets_an_option(ask: Ask, server: ModelServer) -> None:
    ask("config", "set", "options.temperature", "0.2")
    server.reply(SERVICES["openai"].says("Yes."))
    result = ask("-p", "openai", "-m", "gpt-4o", "-o", "temperature=", "Really?")
    assert (result.code, result.stderr) == (0, "")
    assert "temperature" not in server.requests[0].json


def test_a_refused_option_of_the_settings_is_left_out_of_the_next_requests(ask: Ask, server: ModelServer) -> None:
    ask("config", "set", "options.seed", "1")
    call = wire.calls(("bash", {"command": "echo hi"}))
    server.reply(refuses("seed: Extra inputs are not permitted"), call, wire.says("Yes."))
    result = ask("-p", "local", "-m", "m", "Really?")
    assert (result.code, result.text) == (0, "Yes.\n")
    assert ["seed" in request.json for request in server.requests] == [True, False, False]
    assert result.stderr.count("leaving out seed") == 1


def test_a_refusal_inside_a_stream_is_resolved_too(ask: Ask, server: ModelServer) -> None:
    ask("config", "set", "options.seed", "1")
    server.reply(wire.streams(wire.error("seed: Extra inputs are not permitted", 400)), wire.says("Yes."))
    result = ask("-p", "local", "-m", "m", "Really?")
    assert (result.code, result.text, len(server.requests)) == (0, "Yes.\n", 2)


def test_a_refused_option_of_the_command_line_is_sent_once(ask: Ask, server: ModelServer) -> None:
    server.reply(refuses("seed: Extra inputs are not permitted"))
    assert ask("-p", "local", "-m", "m", "-o", "seed=1", "Really?").code == 7
    assert len(server.requests) == 1


def test_a_resolved_refusal_does_not_mark_the_question(ask: Ask, server: ModelServer) -> None:
    ask("config", "set", "options.seed", "1")
    server.reply(refuses("seed: Extra inputs are not permitted"), wire.says("Yes."), wire.says("Sure."))
    ask("-p", "local", "-m", "m", "-o", "seed=2", "Really?")
    ask("-p", "local", "-m", "m", "Really?")
    assert "Really?" in str(server.requests[-1].json["messages"])


def test_map_leaves_an_option_of_the_settings_out(ask: Ask, server: ModelServer) -> None:
    ask("config", "set", "options.temperature", "0.2")
    wires = SERVICES["anthropic"]
    server.reply(*(wires.says(text, whole=True) for text in ("a", "b", "c")))
    result = ask("map", "-p", "anthropic", "-m", "claude-sonnet-5-5", "-j", "1", "Again:", stdin=b"1\n2\n3\n")
    assert result.code == 0, result.stderr
    assert not any("temperature" in request.json for request in server.requests)
    assert result.stderr.count("leaving out temperature") == 1


def test_map_learns_from_one_refusal(ask: Ask, server: ModelServer) -> None:
    ask("config", "set", "options.seed", "1")
    answers = [wire.whole_reply(wire.answer(text)) for text in ("a", "b", "c")]
    server.reply(refuses("seed: Extra inputs are not permitted"), *answers)
    result = ask("map", "-p", "local", "-m", "m", "-j", "1", "Again:", stdin=b"1\n2\n3\n")
    assert (result.code, len(server.requests)) == (0, 4), result.stderr
    assert result.stderr.count("leaving out seed") == 1


def test_rows_that_were_refused_at_the_same_time_are_sent_again(ask: Ask, server: ModelServer) -> None:
    ask("config", "set", "options.seed", "1")

    def answer(request: Request) -> Reply:
        if "seed" not in request.json:
            return wire.whole_reply(wire.answer("a"))
        server.wait_for_requests(2)
        return refuses("seed: Extra inputs are not permitted")

    server.reply(answer)
    result = ask("map", "-p", "local", "-m", "m", "-j", "2", "Again:", stdin=b"1\n2\n")
    assert (result.code, len(server.requests)) == (0, 4), result.stderr
    assert result.stderr.count("leaving out seed") == 1


@pytest.mark.slow
def test_map_with_tools_leaves_an_option_of_the_settings_out(ask: Ask, server: ModelServer) -> None:
    ask("config", "set", "options.temperature", "0.2")
    server.reply(SERVICES["anthropic"].says("a"))
    arguments = ("map", "-p", "anthropic", "-m", "claude-sonnet-5-5", "-j", "1", "--tools", "Again:")
    result = ask.process(*arguments, stdin=b"1\n")
    assert result.code == 0, result.stderr


def test_compare_leaves_an_option_of_the_settings_out(ask: Ask, server: ModelServer) -> None:
    ask("config", "set", "options.temperature", "0.2")
    server.reply(SERVICES["openai"].says("Yes."))
    models = ("-m", "openai:gpt-6-sol", "-m", "openai:gpt-4o")
    result = ask("compare", *models, "--json", "Really?")
    assert result.code == 0, result.stderr
    assert {request.json["model"]: "temperature" in request.json for request in server.requests} == {
        "gpt-6-sol": False,
        "gpt-4o": True,
    }


@pytest.mark.parametrize(
    ("message", "status", "expected"),
    [
        ("max_tokens is too large: 90000. This model supports at most 4096 completion tokens", 400, 4096),
        (
            "maximum context length is 131072 tokens. However, you requested about 141607 tokens (10535 of text input,",
            400,
            131072 - 10535,
        ),
        ("This request requires more credits. You requested up to 65536 tokens, but can only afford 2000", 402, 2000),
    ],
)
def test_a_stated_output_limit_is_used(ask: Ask, server: ModelServer, message: str, status: int, expected: int) -> None:
    ask("config", "set", "options.max_tokens", "90000")
    server.reply(refuses(message, status), wire.says("Yes."))
    result = ask("-p", "local", "-m", "m", "Really?")
    assert (result.code, result.text) == (0, "Yes.\n")
    assert server.requests[1].json["max_tokens"] == expected
    assert f"{expected:,}" in result.stderr


def test_anthropics_own_output_limit_is_lowered(ask: Ask, server: ModelServer) -> None:
    message = "max_tokens: 128000 > 64000, which is the maximum allowed number of output tokens for claude-x"
    server.reply(refuses(message), SERVICES["anthropic"].says("Yes."))
    assert ask("-p", "anthropic", "-m", "claude-sonnet-5-5", "Really?").code == 0
    assert [request.json["max_tokens"] for request in server.requests] == [128000, 64000]


def test_an_output_limit_of_the_command_line_is_an_error(ask: Ask, server: ModelServer) -> None:
    message = "max_tokens is too large: 90000. This model supports at most 4096 completion tokens"
    server.reply(refuses(message))
    result = ask("-p", "local", "-m", "m", "-o", "max_tokens=90000", "Really?")
    assert (result.code, len(server.requests)) == (7, 1)
    assert "4096" in result.stderr


def test_a_service_that_refuses_everything_is_asked_three_times(ask: Ask, server: ModelServer) -> None:
    for name in ("seed", "user", "top_k"):
        ask("config", "set", f"options.{name}", "1")
    refusals = [refuses(f"{name}: Extra inputs are not permitted") for name in ("seed", "user", "top_k")]
    server.reply(*refusals)
    assert ask("-p", "local", "-m", "m", "Really?").code == 7
    assert len(server.requests) == 3


def test_responses_name_their_own_parameter(ask: Ask, server: ModelServer) -> None:
    ask("config", "set", "options.verbosity", "low")
    refused = responses_wire.fails(400, "Unsupported parameter", param="text.verbosity")
    server.reply(refused, SERVICES["openai"].says("Yes."))
    assert ask("-p", "openai", "-m", "gpt-6-sol", "Really?").code == 0
    assert "text" not in server.requests[1].json


@pytest.mark.parametrize(
    "message", ["this model does not support tools", "seed: Extra inputs are not permitted", "stream is not supported"]
)
def test_nothing_is_sent_again_after_text_was_shown(ask: Ask, server: ModelServer, message: str) -> None:
    ask("config", "set", "options.seed", "1")
    server.reply(wire.streams(wire.text("Hello"), wire.error(message, 400)), wire.says("Again."))
    result = ask("-p", "local", "-m", "m", "Really?")
    assert (result.text.strip(), len(server.requests)) == ("Hello", 1)
    assert result.code != 0


# Misspelled options


@pytest.mark.parametrize(
    ("name", "meant"), [("temperture", "temperature"), ("max_token", "max_tokens"), ("Temperature", "temperature")]
)
def test_a_misspelled_option_is_sent_with_a_notice(ask: Ask, server: ModelServer, name: str, meant: str) -> None:
    server.reply(wire.says("hello"), wire.says("hello"))
    for arguments in (("-o", f"{name}=1", "hi"), ("map", "-o", f"{name}=1", "Again:")):
        result = ask(*arguments, "-p", "local", "-m", "m", stdin=b"one\n")
        assert result.code == 0, result.stderr
        notices = [line for line in result.stderr.splitlines() if name in line]
        assert len(notices) == 1, result.stderr
        assert meant in notices[0]
    assert [request.json[name] for request in server.requests] == [1, 1]
    assert f"did you mean {meant}?" in ask("config", "set", f"options.{name}", "1").stderr


@pytest.mark.parametrize(
    "name", ["top_a", "top_n_sigma", "max_new_tokens", "min_tokens", "random_seed", "repeat_penalty"]
)
def test_an_option_of_some_services_has_no_notice(ask: Ask, server: ModelServer, name: str) -> None:
    server.reply(wire.says("hello"))
    assert name not in ask("-p", "local", "-m", "m", "-o", f"{name}=1", "hi").stderr
    assert server.requests[0].json[name] == 1
