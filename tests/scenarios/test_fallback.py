"""Fallbacks: other models continue a run when its own model cannot answer."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import groupby
from typing import Any

import pytest

from ask import Message, ToolCall
from tests import wire
from tests.model_server import HOLD, ModelServer, Reply
from tests.program import TEST_KEY, Ask, Home, Result
from tests.provider_wires import SERVICES, Reasoning, Wire
from tests.providers import anthropic_wire
from tests.sample_files import png

OPENAI, ANTHROPIC, OLLAMA, OPENROUTER = (SERVICES[name] for name in ("openai", "anthropic", "ollama", "openrouter"))
CLAUDE, LLAMA = f"anthropic:{ANTHROPIC.model}", f"ollama:{OLLAMA.model}"
CHAIN = ("--fallback", f"{CLAUDE}, {LLAMA}")
ECHO = ToolCall("call_echo", "bash", '{"command": "echo one"}')
OVERLOADED = {"error": {"message": "Overloaded", "type": "server_error"}}
CLOSED = "http://127.0.0.1:9"
"""An address that refuses connections."""
Servers = dict[str, ModelServer]


@pytest.fixture
def servers() -> Iterator[Servers]:
    """A server for each provider."""
    with ExitStack() as stack:
        yield {wire.name: stack.enter_context(ModelServer()) for wire in (OPENAI, ANTHROPIC, OLLAMA, OPENROUTER)}


@pytest.fixture
def ask(home: Home, servers: Servers) -> Ask:
    """With OpenAI as the default provider, and two tries for each request."""
    configure(home)
    env = dict(home.env)
    for name, server in servers.items():
        env[f"{name.upper()}_API_KEY"] = TEST_KEY
        env[f"{name.upper()}_BASE_URL"] = server.base_url.removesuffix("/api/v1") + SERVICES[name].address
    return Ask(env, home.work)


def configure(home: Home, fallback: str = "") -> None:
    settings = f'provider = "openai"\n{fallback}\n[network]\ntries = 2\nbackoff = 0.001\n'
    home.configure(settings)


def count_requests(servers: Servers) -> list[int]:
    return [len(servers[service.name].requests) for service in (OPENAI, ANTHROPIC, OLLAMA)]


def read_conversation(service: Wire, servers: Servers, request: int = -1) -> list[Message]:
    """Return the messages that a provider received, after checking them by its rules."""
    return service.read_conversation(servers[service.name].requests[request].json)


def read_result(result: Result) -> Any:
    return json.loads(result.text.splitlines()[-1])


def read_history(ask: Ask) -> Any:
    """Return the runs of the newest conversation."""
    return json.loads(ask("history", "show", "1", "--json").stdout)["runs"]


def list_answer_models(run: Any) -> list[str]:
    """Return the models of the answers of a run; "" stands for its own."""
    return [message["model"] for message in run["messages"] if message["role"] == "assistant"]


# Which failures


@pytest.mark.parametrize(
    ("status", "error", "requests"),
    [
        (500, {"message": "it failed"}, 2),
        (503, {"message": "overloaded"}, 2),
        (429, {"message": "slow down", "type": "rate_limit_error"}, 2),
        (402, {"message": "pay first"}, 1),
        (429, {"message": "You exceeded your current quota", "code": "insufficient_quota"}, 1),
        (400, {"message": "Your input is too long", "code": "context_length_exceeded"}, 1),
        (413, {"message": "too large"}, 1),
    ],
)
def test_the_next_model_answers_after_a_failure_that_is_not_the_users(
    status: int, error: dict[str, str], requests: int, ask: Ask, servers: Servers
) -> None:
    servers["openai"].reply(OPENAI.refuses(status, {"error": error}))
    servers["anthropic"].reply(ANTHROPIC.says("Hello."))
    result = ask(*CHAIN, "hi")
    assert (result.code, result.text) == (0, "Hello.\n")
    assert count_requests(servers) == [requests, 1, 0]
    notice = result.stderr.splitlines()[-1]
    assert all(part in notice for part in (f"openai:{OPENAI.model}", error["message"], CLAUDE))
    assert read_conversation(ANTHROPIC, servers)[1:] == [Message("user", "hi")]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_mistake_in_the_request_ends_the_run(status: int, ask: Ask, servers: Servers) -> None:
    error = {"message": "the request is wrong", "type": "invalid_request_error"}
    # A 404 of the Responses API leads to Chat Completions, which answers the same.
    servers["openai"].reply(OPENAI.refuses(status, {"error": error}))
    result = ask(*CHAIN, "hi")
    assert (result.code, result.text) == (6, "")
    assert count_requests(servers)[1:] == [0, 0]
    assert "cannot answer" not in result.stderr


def test_a_refused_connection_leads_to_the_next_model(ask: Ask, servers: Servers) -> None:
    servers["ollama"].reply(OLLAMA.says("Hello."))
    env = {"OPENAI_BASE_URL": f"{CLOSED}/v1", "ANTHROPIC_BASE_URL": CLOSED}
    result = ask(*CHAIN, "hi", env=env)
    assert (result.code, result.text) == (0, "Hello.\n")
    assert [line.count("continuing with") for line in result.stderr.splitlines()] == [1, 1]


def test_a_provider_whose_first_model_cannot_be_fetched_is_replaced(ask: Ask, servers: Servers) -> None:
    servers["anthropic"].reply(ANTHROPIC.says("Hello."))
    env = {"LMSTUDIO_BASE_URL": CLOSED, "OLLAMA_BASE_URL": CLOSED}
    command = ("-p", "lmstudio", "--fallback", "ollama:", "hi")
    result = ask(*command, "--fallback", CLAUDE, env=env)
    assert (result.code, result.text) == (0, "Hello.\n"), result.stderr
    assert [line.count("continuing with") for line in result.stderr.splitlines()] == [1, 1]
    assert ask(*command, env=env).code == 5


def test_exhausted_credit_that_anthropic_reports_as_400_leads_to_the_next_model(ask: Ask, servers: Servers) -> None:
    message = "Your credit balance is too low to access the Anthropic API."
    body = {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
    servers["anthropic"].reply(ANTHROPIC.refuses(400, body))
    servers["ollama"].reply(OLLAMA.says("Hello."))
    result = ask("-p", "anthropic", "--fallback", LLAMA, "hi")
    assert (result.code, result.text) == (0, "Hello.\n")


def test_if_all_fail_the_error_names_all_of_them(ask: Ask, servers: Servers) -> None:
    servers["openai"].reply(OPENAI.refuses(503, OVERLOADED))
    servers["anthropic"].reply(ANTHROPIC.refuses(529, OVERLOADED))
    result = ask(*CHAIN, "--json", "hi", env={"OLLAMA_BASE_URL": CLOSED})
    value = read_result(result)
    assert (result.code, value["exit_code"], value["provider"]) == (5, 5, "ollama")
    for text in (value["error"], result.stderr.splitlines()[-1]):
        assert all(name in text for name in (f"openai:{OPENAI.model}", CLAUDE, LLAMA))
    assert read_history(ask)[-1]["exit_code"] == 5


def test_an_answer_that_has_begun_is_never_continued_by_another_model(ask: Ask, servers: Servers) -> None:
    servers["openai"].reply(OPENAI.says("Half an", cut=True))
    result = ask(*CHAIN, "hi")
    assert (result.code, result.text) == (10, "Half an\n")
    assert count_requests(servers) == [1, 0, 0]


def test_an_answer_that_the_provider_paused_is_not_continued_either(ask: Ask, servers: Servers) -> None:
    pause = anthropic_wire.streams(
        anthropic_wire.begins(), anthropic_wire.text(0, "Half an"), anthropic_wire.ends("pause_turn")
    )
    servers["anthropic"].reply(pause, ANTHROPIC.refuses(529, OVERLOADED))
    result = ask("-p", "anthropic", "--fallback", LLAMA, "hi")
    assert (result.code, result.text) == (6, "Half an\n")
    assert count_requests(servers) == [0, 3, 0]


def test_without_streaming_a_partial_answer_is_dropped(ask: Ask, servers: Servers) -> None:
    partial = wire.answer("Half an")
    partial["choices"][0]["error"] = {"code": 502, "message": "upstream failed"}
    servers["openrouter"].reply(wire.whole_reply(partial))
    servers["anthropic"].reply(ANTHROPIC.says("Hello.", whole=True))
    result = ask("-p", "openrouter", *CHAIN, "--no-stream", "hi")
    assert (result.code, result.text) == (0, "Hello.\n")


def test_without_streaming_a_partial_answer_is_shown_if_no_model_is_left(ask: Ask, servers: Servers) -> None:
    partial = wire.answer("Half an")
    partial["choices"][0]["error"] = {"code": 502, "message": "upstream failed"}
    servers["openrouter"].reply(wire.whole_reply(partial))
    result = ask("-p", "openrouter", "--fallback", "openai:", "--no-stream", "hi", env={"OPENAI_BASE_URL": CLOSED})
    assert (result.code, result.text) == (5, "")
    result = ask("-p", "openrouter", "--fallback", "", "--no-stream", "hi")
    assert (result.code, result.text) == (6, "Half an\n")


def test_reasoning_that_was_shown_does_not_prevent_it(ask: Ask, servers: Servers) -> None:
    servers["anthropic"].reply(ANTHROPIC.says(Reasoning("Hm.", "c2ln"), cut=True))
    servers["ollama"].reply(OLLAMA.says("Hello."))
    result = ask("-p", "anthropic", "--fallback", LLAMA, "hi")
    assert (result.code, result.text) == (0, "Hello.\n")


def test_ctrl_c_ends_the_run(ask: Ask, servers: Servers) -> None:
    servers["openai"].reply(Reply((HOLD,)))
    with ask.start(*CHAIN, "hi") as running:
        servers["openai"].wait_for_requests(1)
        running.signal(signal.SIGINT)
        assert running.finish().code == 130
    assert count_requests(servers) == [1, 0, 0]


def test_a_conversation_is_first_shortened_for_its_own_model(ask: Ask, servers: Servers) -> None:
    too_long = OPENAI.refuses(400, {"error": {"message": "Your input is too long", "code": "context_length_exceeded"}})
    servers["openai"].reply(OPENAI.says("One."), too_long, OPENAI.says("Two."), too_long)
    servers["anthropic"].reply(ANTHROPIC.says("Three."))
    assert ask("first").text == "One.\n"
    assert ask("-c", *CHAIN, "second").text == "Two.\n"
    assert ask("-c", *CHAIN, "third").text == "Three.\n"
    received = read_conversation(ANTHROPIC, servers)[1:]
    assert [message.content for message in received] == ["first", "One.", "second", "Two.", "third"]


# In the middle of a tool loop


def test_it_keeps_the_tool_results_and_drops_the_reasoning_of_another_provider(ask: Ask, servers: Servers) -> None:
    servers["openai"].reply(OPENAI.says(Reasoning("Look.", "c2ln"), "Looking.", ECHO), OPENAI.refuses(503, OVERLOADED))
    second = ToolCall("toolu_2", "bash", '{"command": "echo two"}')
    servers["anthropic"].reply(ANTHROPIC.says(second), ANTHROPIC.refuses(529, OVERLOADED))
    servers["ollama"].reply(OLLAMA.says("Done."))
    result = ask(*CHAIN, "--events", "do it")
    assert result.code == 0
    assert count_requests(servers) == [3, 3, 1]
    received = read_conversation(OLLAMA, servers)
    assert [message.role for message in received] == ["system", "user", "assistant", "tool", "assistant", "tool"]
    assert [message.content.split()[-1] for message in received if message.role == "tool"] == ["one", "two"]
    assert b"Look." not in servers["anthropic"].requests[0].body
    assert b"c2ln" not in servers["anthropic"].requests[0].body

    events = [json.loads(line) for line in result.text.splitlines()]
    types = [event["type"] for event in events if event["type"] not in ("notice", "retry", "usage")]
    assert [event_type for event_type, _ in groupby(types)] == [  # a slow stream has several events of text
        *("start", "reasoning", "text", "tool_call", "tool_output", "tool_result", "fallback"),
        *("tool_call", "tool_output", "tool_result", "fallback", "text", "result"),
    ]
    switches = [(event["provider"], event["model"]) for event in events if event["type"] == "fallback"]
    assert switches == [("anthropic", ANTHROPIC.model), ("ollama", OLLAMA.model)]
    final = events[-1]
    assert (final["provider"], final["model"], final["rounds"]) == ("ollama", OLLAMA.model, 2)

    run = read_history(ask)[-1]
    assert (run["provider"], run["model"]) == ("openai", OPENAI.model)
    assert list_answer_models(run) == ["", ANTHROPIC.model, OLLAMA.model]


def test_tools_are_offered_only_to_models_that_support_them(ask: Ask, servers: Servers, home: Home) -> None:
    body = {"error": f"registry.ollama.ai/library/{OLLAMA.model} does not support tools"}
    servers["openai"].reply(OPENAI.refuses(503, OVERLOADED))
    servers["ollama"].reply(OLLAMA.refuses(400, body), OLLAMA.says("One."), ANTHROPIC.refuses(500, OVERLOADED))
    servers["anthropic"].reply(ANTHROPIC.says("Two."))
    assert ask("--fallback", LLAMA, "--fallback", CLAUDE, "hi").text == "One.\n"
    assert OLLAMA.offered(servers["ollama"].requests[1].json) == []
    assert ask("--fallback", LLAMA, "--fallback", CLAUDE, "hi").text == "Two.\n"
    assert ANTHROPIC.offered(servers["anthropic"].requests[0].json)


def test_the_fallback_explains_its_own_tool_call(ask: Ask, servers: Servers) -> None:
    servers["openai"].reply(OPENAI.refuses(503, OVERLOADED))
    servers["anthropic"].reply(ANTHROPIC.says(ECHO), ANTHROPIC.says("It prints a word."), ANTHROPIC.says("Done."))
    answers = [("Run this?", "?"), ("It prints a word.", ""), ("Run this?", "y")]
    assert ask.on_terminal(*CHAIN, "--confirm", "do it", answers=answers).code == 0
    assert count_requests(servers) == [2, 3, 0]


def test_the_round_limit_counts_the_rounds_of_all_models(ask: Ask, servers: Servers) -> None:
    servers["openai"].reply(OPENAI.says(ECHO), OPENAI.refuses(503, OVERLOADED))
    servers["anthropic"].reply(ANTHROPIC.says("Enough."))
    result = ask(*CHAIN, "--max-rounds", "1", "do it")
    assert (result.code, result.text) == (11, "Enough.\n")


def test_the_cost_limit_counts_the_cost_of_all_models(ask: Ask, servers: Servers) -> None:
    first = wire.streams(*wire.stream(None, [("bash", {"command": "echo one"})])[:-1], wire.usage(cost=0.6))
    second = wire.streams(*wire.stream(None, [("bash", {"command": "echo two"})])[:-1], wire.usage(cost=0.5))
    servers["openrouter"].reply(first, wire.fails(503), wire.fails(503), second, wire.says("Enough."))
    result = ask("-p", "openrouter", "-m", "a", "--fallback", "b", "--max-cost", "1", "do it")
    assert (result.code, result.text) == (11, "Enough.\n")
    assert [request.json["model"] for request in servers["openrouter"].requests] == ["a", "a", "a", "b", "b"]
    assert servers["openrouter"].requests[-1].json["tool_choice"] == "none"


# The conversation


def test_the_next_run_asks_the_first_model_again(ask: Ask, servers: Servers) -> None:
    servers["openai"].reply(*[OPENAI.refuses(503, OVERLOADED)] * 2, OPENAI.says("I am back."))
    servers["anthropic"].reply(ANTHROPIC.says("Hello."))
    assert ask(*CHAIN, "hi").text == "Hello.\n"
    result = ask("-c", "and now?")
    assert (result.text, result.stderr) == ("I am back.\n", "")
    assert [message.content for message in read_conversation(OPENAI, servers)[1:]] == ["hi", "Hello.", "and now?"]
    assert [run["model"] for run in read_history(ask)] == [OPENAI.model] * 2
    shown = ask("history", "show", "1").text
    assert shown.count(CLAUDE) == 1
    runs = {row["model"]: row["runs"] for row in json.loads(ask("history", "stats", "--json").stdout)["models"]}
    assert runs == {f"openai:{OPENAI.model}": 2, CLAUDE: 1}


def test_each_message_of_a_chat_starts_with_the_chosen_model(ask: Ask, servers: Servers) -> None:
    servers["openai"].reply(*[OPENAI.refuses(503, OVERLOADED)] * 2, OPENAI.says("I am back."))
    servers["anthropic"].reply(ANTHROPIC.says("Hello."))
    result = ask("chat", *CHAIN, stdin=b"hi\nand now?\n")
    assert (result.code, result.text) == (0, "Hello.\nI am back.\n")
    assert count_requests(servers) == [3, 1, 0]


def test_a_schema_and_attachments_go_to_the_next_model(ask: Ask, servers: Servers) -> None:
    (ask.cwd / "a.png").write_bytes(png())
    servers["openai"].reply(OPENAI.refuses(503, OVERLOADED))
    servers["anthropic"].reply(ANTHROPIC.says('{"name": "Ada"}'))
    result = ask(*CHAIN, "--schema", "name", "-f", "a.png", "who?")
    assert (result.code, json.loads(result.text)) == (0, {"name": "Ada"})
    body = servers["anthropic"].requests[0].json
    assert "output_config" in body
    assert [block["type"] for block in body["messages"][0]["content"]] == ["image", "text"]


def test_a_model_that_does_not_support_the_attachment_is_skipped(ask: Ask, servers: Servers, home: Home) -> None:
    (ask.cwd / "a.png").write_bytes(png())
    servers["openai"].reply(OPENAI.refuses(503, OVERLOADED))
    servers["anthropic"].reply(ANTHROPIC.says("A dot."))
    result = ask("--fallback", "deepseek:", *CHAIN, "-f", "a.png", "what?", env={"DEEPSEEK_API_KEY": TEST_KEY})
    assert (result.code, result.text) == (0, "A dot.\n")
    assert "deepseek" in result.stderr


# The list of fallbacks


def test_a_model_without_a_provider_is_of_the_same_provider(ask: Ask, servers: Servers) -> None:
    servers["openai"].reply(*[OPENAI.refuses(503, OVERLOADED)] * 2, OPENAI.says("Hello."))
    key = "sk-other-0123456789"
    result = ask("--fallback", "gpt-other", "--key", key, "hi")
    assert (result.code, result.text) == (0, "Hello.\n")
    last = servers["openai"].requests[-1]
    assert (last.json["model"], last.headers["Authorization"]) == ("gpt-other", f"Bearer {key}")


def test_the_option_replaces_the_setting(ask: Ask, servers: Servers, home: Home) -> None:
    configure(home, f'fallback = ["fast"]\n[aliases]\nfast = "{CLAUDE}"')
    servers["openai"].reply(OPENAI.refuses(503, OVERLOADED))
    servers["anthropic"].reply(ANTHROPIC.says("One."))
    servers["ollama"].reply(OLLAMA.says("Two."))
    assert ask("hi").text == "One.\n"
    assert ask("--fallback", LLAMA, "hi").text == "Two.\n"
    assert ask("--fallback", "", "hi").code == 6


def test_the_chosen_model_is_not_its_own_fallback(ask: Ask, servers: Servers, home: Home) -> None:
    configure(home, f'fallback = ["openai:{OPENAI.model}"]')
    servers["openai"].reply(OPENAI.refuses(503, OVERLOADED))
    result = ask("hi")
    assert (result.code, len(servers["openai"].requests)) == (6, 2)
    assert "none of" not in result.stderr


@pytest.mark.parametrize(
    ("fallback", "env", "expected"),
    [
        (CLAUDE, {"ANTHROPIC_API_KEY": "", "ANTHROPIC_BASE_URL": "https://a.invalid"}, "ANTHROPIC_API_KEY"),
        ("anthropic", {}, "anthropic:"),
    ],
)
def test_a_fallback_that_cannot_be_used_is_an_error_before_anything_is_sent(
    fallback: str, env: dict[str, str], expected: str, ask: Ask, servers: Servers
) -> None:
    result = ask("--fallback", fallback, "hi", env=env)
    assert (result.code, result.text, count_requests(servers)) == (4, "", [0, 0, 0])
    assert expected in result.stderr


def test_a_fallback_to_an_unknown_provider_is_an_error(ask: Ask, servers: Servers) -> None:
    result = ask("--fallback", "antropic:", "go")
    assert (result.code, "unknown provider 'antropic'" in result.stderr) == (4, True), result.stderr
    assert count_requests(servers) == [0, 0, 0]
