"""Requests that exceed what a model or its service accepts: they become smaller, as far as is known by how much."""

from __future__ import annotations

import json

import pytest

from ask import ToolCall
from ask.agent.context_window import BYTES_PER_TOKEN
from tests import wire
from tests.model_server import ModelServer, Reply, Request
from tests.program import Ask, Home
from tests.provider_wires import SERVICES, build_service_variables

SERVICE = '[providers.local]\nbase_url = "{url}/v1"\n'
LONG_CALL = ToolCall("call_1", "bash", '{"command": "seq 1 6000"}')
LONG_RESULT = wire.calls(("bash", {"command": "seq 1 6000"}))
REFUSED = "request (11025 tokens) exceeds the available context size (8192 tokens), try increasing it"
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\0\0\0\0"


@pytest.fixture
def ask(home: Home, server: ModelServer) -> Ask:
    root = server.base_url.removesuffix("/api/v1")
    env = {**home.env, **build_service_variables(server.base_url)}
    home.configure(SERVICE.format(url=root))
    return Ask(env, home.work)


def refuses(message: str, status: int = 400) -> Reply:
    return wire.whole_reply({"error": {"message": message}}, status)


def list_results(server: ModelServer, number: int = -1) -> list[str]:
    messages = server.requests[number].json["messages"]
    return [message["content"] for message in messages if message["role"] == "tool"]


def test_a_result_is_shortened_to_a_stated_limit(ask: Ask, server: ModelServer) -> None:
    server.reply(LONG_RESULT, refuses(REFUSED), wire.says("Many."))
    result = ask("-p", "local", "-m", "m", "Count")
    assert (result.code, result.text) == (0, "Many.\n"), result.stderr
    [whole], [shortened] = list_results(server, 1), list_results(server)
    assert len(whole) > len(shortened) > 3_000
    assert "\n1\n2\n3\n" in shortened[:100]
    assert "6000" in shortened[-100:]
    assert "shortened tool result" in result.stderr
    assert "context_limit = 8192" in result.stderr


def test_a_result_stays_shortened_in_the_next_requests(ask: Ask, server: ModelServer) -> None:
    server.reply(LONG_RESULT, refuses(REFUSED), wire.calls(("bash", {"command": "echo hi"})), wire.says("Many."))
    result = ask("-p", "local", "-m", "m", "Count")
    assert (result.code, len(server.requests)) == (0, 4)
    sizes = [sum(map(len, wire.list_strings(request.json))) // BYTES_PER_TOKEN for request in server.requests]
    assert sizes[3] < 8192 < sizes[1]


@pytest.mark.parametrize("name", ["anthropic", "openai", "gemini", "ollama", "openrouter", "deepseek", "lmstudio"])
def test_a_result_is_shortened_with_each_api(ask: Ask, server: ModelServer, name: str) -> None:
    service = SERVICES[name]
    refused = service.refuses(400, {"error": {"message": REFUSED}})
    server.reply(service.says(LONG_CALL), refused, service.says("Many."))
    result = ask("-p", name, "-m", service.model, "Count")
    assert (result.code, result.text) == (0, "Many.\n"), result.stderr
    sizes = [len(json.dumps(request.json)) for request in server.requests]
    assert sizes[2] < sizes[1]


@pytest.mark.parametrize(
    "setting", ["context_limit = 6000\n", '[[providers.local.models]]\npattern = "m"\ncontext_length = 6000\n']
)
def test_a_result_is_shortened_to_a_known_limit(ask: Ask, server: ModelServer, home: Home, setting: str) -> None:
    file = home.config / "config.toml"
    file.write_text(setting + file.read_text() if "[[" not in setting else file.read_text() + setting)
    server.reply(LONG_RESULT, wire.says("Many."))
    result = ask("-p", "local", "-m", "m", "Count")
    assert result.code == 0, result.stderr
    assert [request.method for request in server.requests].count("POST") == 2
    assert sum(map(len, wire.list_strings(server.requests[-1].json))) // BYTES_PER_TOKEN < 6000
    assert "shortened tool result" in result.stderr


def test_small_results_are_left_alone(ask: Ask, server: ModelServer) -> None:
    small = ("bash", {"command": "echo small"})
    server.reply(wire.calls(("bash", {"command": "seq 1 6000"}), small), refuses(REFUSED), wire.says("Many."))
    assert ask("-p", "local", "-m", "m", "Count").code == 0
    assert list_results(server, 1)[1] == list_results(server)[1]


def test_an_old_result_is_shortened_without_a_stated_limit(ask: Ask, server: ModelServer) -> None:
    server.reply(LONG_RESULT, refuses("context_length_exceeded"), wire.says("Many."))
    assert ask("-p", "local", "-m", "m", "Count").code == 0
    assert len(list_results(server)[0]) < len(list_results(server, 1)[0])


def test_a_message_that_is_too_large_alone_is_an_error(ask: Ask, server: ModelServer) -> None:
    server.reply(refuses(REFUSED))
    result = ask("-p", "local", "-m", "m", "word " * 9_000)
    assert (result.code, [request.method for request in server.requests].count("POST")) == (6, 1), result.stderr
    assert "cannot be left out" in result.stderr


def test_a_conversation_is_shortened_twice_at_most(ask: Ask, server: ModelServer) -> None:
    server.reply(*[wire.says("word " * 500)] * 8, refuses("context_length_exceeded"))
    ask("-p", "local", "-m", "m", "More")
    for _ in range(7):
        ask("-c", "-p", "local", "-m", "m", "More")
    count = len(server.requests)
    result = ask("-c", "-p", "local", "-m", "m", "More")
    posts = [request for request in server.requests[count:] if request.method == "POST"]
    assert (result.code, len(posts)) == (6, 3), result.stderr


def test_tokens_per_minute_are_used_as_a_limit(ask: Ask, server: ModelServer) -> None:
    message = "Request too large for model `m` on tokens per minute (TPM): Limit 6000, Requested 11025, please reduce"
    server.reply(LONG_RESULT, refuses(message, 413), wire.says("Many."))
    result = ask("-p", "local", "-m", "m", "Count")
    assert (result.code, len(server.requests)) == (0, 3), result.stderr
    assert len(list_results(server)[0]) < len(list_results(server, 1)[0])


@pytest.mark.parametrize("status", [400, 429, 500])
def test_the_status_of_a_stated_limit_does_not_matter(ask: Ask, server: ModelServer, status: int) -> None:
    server.reply(LONG_RESULT, refuses(REFUSED, status), wire.says("Many."))
    assert (ask("-p", "local", "-m", "m", "Count").code, len(server.requests)) == (0, 3)


def test_only_as_many_tools_are_offered_as_accepted(ask: Ask, server: ModelServer) -> None:
    message = "Invalid 'tools': array too long. Expected an array with maximum length 3, but got an array with length 9"
    server.reply(refuses(message), wire.says("Yes."))
    result = ask("-p", "local", "-m", "m", "Really?")
    assert (result.code, len(server.requests[1].json["tools"])) == (0, 3)
    assert "tools" in result.stderr
    assert "tools.disabled" in result.stderr


def test_the_newest_images_are_kept(ask: Ask, server: ModelServer, home: Home) -> None:
    """Also in the next run, although the one that was left out had the same content."""

    def answer(request: Request) -> Reply:
        if request.body and sum(count_images(request)) > 2:
            return refuses("At most 2 image(s) may be provided")
        return wire.says("Yes.")

    (home.work / "a.png").write_bytes(PNG)
    server.reply(answer)
    ask("-p", "local", "-m", "m", "-f", "a.png", "What?")
    for arguments in (["-f", "a.png"], ["-f", "a.png"], []):
        result = ask("-c", "-p", "local", "-m", "m", *arguments, "What?")
        assert (result.code, result.text) == (0, "Yes.\n"), result.stderr
    assert [count for count in count_images(server.requests[-1]) if count] == [1, 1]


def count_images(request: Request) -> list[int]:
    """Count the images of each message in a request."""
    return [str(message["content"]).count("image_url'") // 2 for message in request.json["messages"]]


def test_more_images_than_accepted_in_one_message_are_an_error(ask: Ask, server: ModelServer, home: Home) -> None:
    (home.work / "a.png").write_bytes(PNG)
    (home.work / "b.png").write_bytes(PNG + b"b")
    server.reply(refuses("At most 1 image(s) may be provided in one request."))
    result = ask("-p", "local", "-m", "m", "-f", "a.png", "-f", "b.png", "What?")
    assert (result.code, len(server.requests)) == (6, 1)
    assert "fewer images" in result.stderr


def test_map_rows_and_rate_limits_are_unchanged(ask: Ask, server: ModelServer) -> None:
    server.reply(refuses(REFUSED), wire.whole_reply(wire.answer("a")))
    result = ask("map", "-p", "local", "-m", "m", "-j", "1", "Again:", stdin=b"1\n2\n")
    assert (result.code, len(server.requests)) == (12, 2)


def test_files_that_were_left_out_already_are_no_reason_for_another_request(
    ask: Ask, server: ModelServer, home: Home
) -> None:
    (home.work / "a.png").write_bytes(PNG)
    too_long = refuses("prompt token count of 9000 exceeds the limit of 3000")
    server.reply(wire.says("One."), LONG_RESULT, too_long, refuses("image input is not supported"))
    ask("-p", "local", "-m", "m", "-f", "a.png", "What?")
    assert ask("-c", "-p", "local", "-m", "m", "Count").code == 6
    bodies = [request.body for request in server.requests if request.body]
    assert len(set(bodies)) == len(bodies) == 4


def test_files_that_a_refused_request_did_not_contain_are_sent_later(ask: Ask, server: ModelServer, home: Home) -> None:
    (home.work / "a.png").write_bytes(PNG)
    too_long = refuses("prompt token count of 9000 exceeds the limit of 3000")
    too_large = refuses("too large", 413)
    replies = [wire.says("One."), LONG_RESULT, too_long, too_large, wire.says("Two."), wire.says("Yes.")]
    server.reply(lambda request: replies.pop(0) if request.body else wire.fails(404))
    ask("-p", "local", "-m", "m", "-f", "a.png", "What?")
    for text in ("Two.", "Yes."):
        assert ask("-c", "-p", "local", "-m", "m", "Count").text == f"{text}\n"
    images = [sum(count_images(request)) for request in server.requests if request.body]
    assert images == [1, 1, 1, 0, 0, 1]
