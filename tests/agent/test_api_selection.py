"""The choice between OpenAI's two APIs: by config.toml, by the service, and by what a base URL answers."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from ask import ToolCall
from tests import responses_wire, wire
from tests.model_server import ModelServer, Reply, Request
from tests.program import TEST_KEY, Ask, Home
from tests.provider_wires import SERVICES
from tests.responses_wire import call, reasoning, response

WEEK = 7 * 24 * 3600


@pytest.fixture
def ask(ask: Ask, server: ModelServer) -> Ask:
    """With all base URLs on the test's server."""
    env = dict(ask.env)
    for name in ("openai", "xai", "lmstudio", "deepseek", "anthropic"):
        env[f"{name.upper()}_API_KEY"] = TEST_KEY
        env[f"{name.upper()}_BASE_URL"] = server.base_url
    return Ask(env, ask.cwd)


def find_markers(home: Home) -> list[Path]:
    return list(Path(home.env["XDG_CACHE_HOME"], "ask").glob("chat-only/*"))


def list_paths(server: ModelServer) -> list[str]:
    return [request.path.removeprefix("/api/v1") for request in server.requests]


# The fallback


@pytest.mark.parametrize("name", ["openai", "xai"])
def test_the_responses_api_is_the_default(ask: Ask, server: ModelServer, home: Home, name: str) -> None:
    server.reply(responses_wire.says("Hello."))
    assert ask("-p", name, "hi").text == "Hello.\n"
    assert list_paths(server) == ["/responses"]
    assert find_markers(home) == []


@pytest.mark.parametrize("status", [404, 405, 501])
@pytest.mark.parametrize("name", ["openai", "xai"])
def test_a_base_url_without_it_is_asked_on_chat_completions_from_then_on(
    ask: Ask, server: ModelServer, name: str, status: int
) -> None:
    server.reply(responses_wire.whole_reply({"detail": "Not Found"}, status), wire.says("One."), wire.says("Two."))
    result = ask("-p", name, "-m", "local", "hi")
    assert (result.text, result.stderr, result.code) == ("One.\n", "", 0)
    assert ask("-p", name, "-m", "local", "-c", "again").text == "Two.\n"
    assert list_paths(server) == ["/responses", "/chat/completions", "/chat/completions"]
    assert server.unserved == []


def test_rows_in_flight_are_sent_again_to_chat_completions(ask: Ask, server: ModelServer) -> None:
    are_in_flight = threading.Event()

    def answer(request: Request) -> Reply:
        if request.path.endswith("/chat/completions"):
            return wire.whole_reply(wire.answer("Yes."))
        if list_paths(server).count("/responses") == 2:
            are_in_flight.set()
        return Reply((are_in_flight, b"{}"), status=404)

    server.reply(answer)
    result = ask("map", "-q", "-j", "2", "-p", "openai", "-m", "local", "{{line}}?", stdin=b"one\ntwo\n")
    assert (result.code, result.text.count("Yes."), result.stderr) == (0, 2, "")


def test_a_tool_round_stays_on_chat_completions(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(("bash", {"command": "echo one"})), wire.says("Done."))
    assert ask("-p", "openai", "-m", "local", "do it").text == "Done.\n"
    assert len(server.unserved) == 1
    assert list_paths(server) == ["/chat/completions"] * 2
    assert wire.asked(server.requests[1].json).split()[-1] == "one"


def test_another_base_url_is_tried_for_itself(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("Hello."))
    ask("-p", "openai", "hi")
    ask("-p", "openai", "hi", "--base-url", f"{server.base_url}/other")
    assert len(server.unserved) == 2


def test_a_missing_api_is_forgotten_after_a_week(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(wire.says("Hello."))
    ask("-p", "openai", "hi")
    (marker,) = find_markers(home)
    for age, tried in ((WEEK - 60, 1), (WEEK + 60, 2)):
        os.utime(marker, (time.time() - age,) * 2)
        ask("-p", "openai", "hi")
        assert len(server.unserved) == tried


def test_an_unknown_model_is_not_mistaken_for_a_missing_api(ask: Ask, server: ModelServer, home: Home) -> None:
    unknown = {"error": {"message": "The model 'x' does not exist.", "code": "model_not_found"}}
    server.reply(responses_wire.whole_reply(unknown, 404))
    result = ask("-p", "openai", "-m", "x", "hi")
    assert result.code == 6
    assert "The model 'x' does not exist" in result.stderr
    assert find_markers(home) == []
    server.reply(responses_wire.says("Hello."))
    assert ask("-p", "openai", "hi").text == "Hello.\n"


@pytest.mark.parametrize("status", [400, 401, 403])
def test_other_errors_are_reported_as_they_are(ask: Ask, server: ModelServer, status: int) -> None:
    server.reply(responses_wire.fails(status, "No."))
    assert ask("-p", "openai", "hi").code == 6
    assert list_paths(server) == ["/responses"]


def test_a_retry_after_the_fallback_stays_on_chat_completions(ask: Ask, server: ModelServer, home: Home) -> None:
    home.configure("[network]\nbackoff = 0.001\n")
    server.reply(wire.fails(503), wire.says("Hello."))
    assert ask("-p", "openai", "-m", "local", "hi").text == "Hello.\n"
    assert len(server.unserved) == 1


# config.toml


@pytest.mark.parametrize("name", ["openai", "xai"])
def test_chat_is_selected(ask: Ask, server: ModelServer, home: Home, name: str) -> None:
    home.configure(f'[providers.{name}]\napi = "chat"\n')
    server.reply(wire.says("Hello."))
    assert ask("-p", name, "hi").text == "Hello.\n"
    assert list_paths(server) == ["/chat/completions"]
    assert server.unserved == []


@pytest.mark.slow_after_first
@pytest.mark.parametrize("name", ["lmstudio", "deepseek", "openrouter"])
@pytest.mark.parametrize("whole", [False, True], ids=["streamed", "complete"])
def test_responses_is_selected(ask: Ask, server: ModelServer, home: Home, name: str, whole: bool) -> None:
    home.configure(f'[providers.{name}]\napi = "responses"\n')
    items = (reasoning(encrypted="c2VjcmV0"), call("bash", {"command": "echo one"}))
    server.reply(responses_wire.replies(response(*items), stream=not whole))
    server.reply(responses_wire.says("Done.", stream=not whole))
    result = ask("-p", name, "-m", "test-model", *(["--no-stream"] if whole else []), "do it")
    assert (result.text, result.code) == ("Done.\n", 0)
    for request in server.requests:
        responses_wire.check_request(request.json)
    second = server.requests[1].json["input"]
    assert [item.get("type") for item in second[2:]] == ["reasoning", "function_call", "function_call_output"]
    assert (server.requests[0].headers["X-Title"] == "ask") == (name == "openrouter")


@pytest.mark.parametrize(("api", "path"), [("responses", "/responses"), ("chat", "/chat/completions")])
def test_a_described_provider_has_either(ask: Ask, server: ModelServer, home: Home, api: str, path: str) -> None:
    home.configure(f'[providers.local]\nbase_url = "{server.base_url}"\nmodel = "m"\napi = "{api}"\n')
    server.reply(responses_wire.says("Hello.") if api == "responses" else wire.says("Hello."))
    assert ask("-p", "local", "hi").text == "Hello.\n"
    assert list_paths(server) == [path]


@pytest.mark.parametrize("name", ["openai", "local"])
def test_a_selected_api_has_no_fallback(ask: Ask, server: ModelServer, home: Home, name: str) -> None:
    home.configure(f'[providers.{name}]\nbase_url = "{server.base_url}"\nmodel = "m"\napi = "responses"\n')
    server.reply(wire.says("Hello."))
    assert ask("-p", name, "hi").code == 6
    assert (len(server.unserved), server.requests) == (1, [])


def test_a_provider_with_its_own_api_has_no_choice(ask: Ask, server: ModelServer, home: Home) -> None:
    home.configure('[providers.anthropic]\napi = "responses"\n')
    result = ask("-p", "anthropic", "hi")
    assert result.code == 4
    assert "[providers.anthropic]" in result.stderr
    assert server.requests == []


def test_an_unknown_api_is_an_error(ask: Ask, home: Home) -> None:
    home.configure('[providers.openai]\napi = "completions"\n')
    result = ask("-p", "openai", "hi")
    assert result.code == 4
    assert "responses, chat" in result.stderr


# One conversation on several APIs


@pytest.mark.slow
def test_a_conversation_changes_between_all_apis(ask: Ask, server: ModelServer, home: Home) -> None:
    """Responses, Chat Completions of the same provider, Anthropic, and back."""
    tool_call = call("bash", {"command": "echo one"}, "call_1")
    server.reply(
        responses_wire.replies(response(reasoning(encrypted="c2VjcmV0"), tool_call)), responses_wire.says("First.")
    )
    assert ask("-p", "openai", "begin").text == "First.\n"

    home.configure('[providers.openai]\napi = "chat"\n')
    server.reply(wire.calls(("bash", {"command": "echo two"})), wire.says("Second."))
    assert ask("-p", "openai", "-c", "go on").text == "Second.\n"
    body = server.requests[-1].json
    assert wire.read_by_openai(body) == body
    assert "c2VjcmV0" not in str(body)

    anthropic = SERVICES["anthropic"]
    server.reply(anthropic.says(ToolCall("toolu_3", "bash", '{"command": "echo three"}')), anthropic.says("Third."))
    result = ask("-p", "anthropic", "-c", "go on", env={"ANTHROPIC_BASE_URL": server.base_url})
    assert result.text == "Third.\n"
    assert [message.content.split()[-1] for message in anthropic.results(server.requests[-1].json)] == [
        "one",
        "two",
        "three",
    ]

    home.configure("")
    server.reply(responses_wire.says("Fourth."))
    assert ask("-p", "openai", "-c", "go on").text == "Fourth.\n"
    body = server.requests[-1].json
    service = SERVICES["openai"]
    assert [message.content.split()[-1] for message in service.results(body)] == ["one", "two", "three"]
    assert [item.get("encrypted_content") for item in body["input"]].count("c2VjcmV0") == 1
