"""Costs of runs and of the history, and --max-cost, with the models lists of a local server."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from ask import Usage
from tests import responses_wire, wire
from tests.history.saved import assistant, save, user
from tests.missing_packages import make_command_without
from tests.model_server import ModelServer, Reply, Request
from tests.program import TEST_KEY, Ask, Home, Result, run
from tests.providers import anthropic_wire

LOCAL = '[providers.local]\nbase_url = "{url}"\n'
OPENROUTER_LIST = {
    "data": [
        {
            "id": "deepseek/deepseek-next",
            "pricing": {"prompt": "0.001", "completion": "0.002", "input_cache_read": "0.0001"},
        }
    ]
}
"""A round is of 10 and 5 tokens, which is $0.02."""


def models_response(*entries: dict[str, object]) -> Reply:
    return wire.whole_reply({"data": list(entries)})


@pytest.fixture
def deepseek(ask: Ask, server: ModelServer) -> Ask:
    """Return `ask` with a provider that reports no costs."""
    env = {"ASK_PROVIDER": "deepseek", "DEEPSEEK_API_KEY": TEST_KEY, "DEEPSEEK_BASE_URL": f"{server.base_url}/deepseek"}
    return Ask({**ask.env, **env}, ask.cwd)


@pytest.fixture
def without_extra(deepseek: Ask, home: Home) -> Callable[..., Result]:
    """Return a function that runs `ask` without genai-prices."""
    command = make_command_without("genai_prices", home)
    return lambda *args: run([*command, *args], env=deepseek.env, cwd=deepseek.cwd)


def list_requests(server: ModelServer) -> list[tuple[str, str]]:
    return [(request.method, request.path) for request in server.requests]


# --max-cost


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
    assert re.search(r"\$0\.06\d*.* --max-cost\n$", result.stderr)
    assert [request.json["tool_choice"] for request in server.requests] == ["auto", "auto", "auto", "none"]


def test_an_answer_without_calls_succeeds_whatever_it_cost(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.streams(wire.text("Hello."), wire.finish(), wire.usage(cost=3.0)))
    assert ask("-p", "openrouter", "--max-cost", "0.05", "hi").code == 0


def test_the_sum_of_costs_has_no_error_of_binary_fractions(ask: Ask, server: ModelServer) -> None:
    calls = [wire.stream(calls=[("bash", {"command": f"true {number}"})]) for number in range(2)]
    server.reply(*(wire.streams(*each, wire.usage(cost=0.1)) for each in calls))
    server.reply(wire.streams(wire.text("Hello."), wire.finish(), wire.usage(cost=0.1)))
    assert json.loads(ask("-p", "openrouter", "--json", "go").text)["usage"]["cost"] == 0.3
    server.reply(wire.streams(wire.text("Hello."), wire.finish(), wire.usage(cost=0.6)))
    ask("-p", "openrouter", "-c", "again")
    assert json.loads(ask("history", "--json").text)[0]["usage"]["cost"] == 0.9
    assert json.loads(ask("history", "stats", "--json").text)["total"]["usage"]["cost"] == 0.9


PRICED: dict[str, object] = {"id": "test/model", "pricing": {"prompt": "0.001", "completion": "0.002"}}
"""A round is of 10 and 5 tokens, which is $0.02."""


@pytest.mark.parametrize(
    ("listed", "code", "told", "asked"),
    [
        (models_response(PRICED), 11, ["~$0.0400", "--max-cost"], 3),
        (models_response({"id": "m"}), 4, ["openrouter", "price", "test/model", "--max-cost"], 1),
        (wire.fails(404, "no such page"), 4, ["(openrouter, 404)", "price", "--max-cost"], 1),
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


def test_input_written_to_a_cache_counts_at_its_price(ask: Ask, server: ModelServer) -> None:
    """40,000 tokens of input cost $0.08, and $0.1 if they are written to the cache."""
    counts = {"input_tokens": 0, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 40_000}
    calling = anthropic_wire.call(0, "bash", '{"command": "true"}')
    called = anthropic_wire.streams(anthropic_wire.begins(**counts), calling, anthropic_wire.ends("tool_use"))
    server.reply(called, anthropic_wire.says("That is all."))
    env = {**ask.env, "ANTHROPIC_BASE_URL": server.base_url, "ANTHROPIC_API_KEY": TEST_KEY}
    result = Ask(env, ask.cwd)("-p", "anthropic", "-m", "claude-sonnet-5-5", "--max-cost", "0.09", "go")
    assert (result.code, result.text) == (11, "That is all.\n")


@pytest.fixture
def openai(ask: Ask, server: ModelServer) -> Ask:
    """Return `ask` with OpenAI, and a model that costs $2.50 and $15 per million tokens."""
    env = {"ASK_PROVIDER": "openai", "ASK_MODEL": "gpt-5.4", "OPENAI_API_KEY": TEST_KEY}
    return Ask({**ask.env, **env, "OPENAI_BASE_URL": server.base_url}, ask.cwd)


def answer_in_tier(*items: dict[str, Any], tier: str | None) -> Reply:
    """Return an answer of the Responses API to 40,000 tokens, with 1,000, served in a tier."""
    counts = {"usage": {"input_tokens": 40_000, "output_tokens": 1000}}
    return responses_wire.streams(
        *responses_wire.events(responses_wire.response(*items) | counts | {"service_tier": tier})
    )


@pytest.mark.parametrize(
    ("tier", "reported", "limit", "code"),
    [
        ("priority", None, "0.15", 11),
        ("priority", "auto", "0.15", 11),
        ("priority", "default", "0.15", 0),
        ("flex", None, "0.06", 0),
        ("default", None, "0.06", 11),
        ("scale", "scale", "0.06", 4),
    ],
)
def test_the_service_tier_decides_when_a_limit_is_reached(
    openai: Ask, server: ModelServer, *, tier: str, reported: str | None, limit: str, code: int
) -> None:
    call = responses_wire.call("bash", {"command": "true"})
    last = answer_in_tier(responses_wire.message("That is all."), tier=reported)
    server.reply(answer_in_tier(call, tier=reported), last)
    result = openai("-o", f"service_tier={tier}", "--max-cost", limit, "go")
    assert result.code == code, result.stderr
    assert len(server.requests) == (0 if code == 4 else 2)


def test_a_prepaid_tier_that_was_not_requested_has_no_limit(openai: Ask, server: ModelServer) -> None:
    server.reply(answer_in_tier(responses_wire.call("bash", {"command": "true"}), tier="scale"))
    result = openai("--max-cost", "1", "go")
    assert (result.code, len(server.requests)) == (4, 1)
    assert "scale" in result.stderr


@pytest.mark.parametrize("status", [404, 500])
def test_without_a_price_nothing_is_sent(ask: Ask, home: Home, server: ModelServer, status: int) -> None:
    home.configure(LOCAL.format(url=server.base_url))
    server.reply(wire.fails(status, "no such page"))
    result = ask("-p", "local", "-m", "m", "--max-cost", "1", "hi")
    assert (result.code, result.stdout) == (4, b"")
    assert all(text in result.stderr for text in (f"(local, {status})", "local:m", "price", "--max-cost"))
    assert [request.method for request in server.requests] == ["GET"]


@pytest.mark.parametrize("amount", ["nan", "inf", "-inf", "1e999", "0", "-1", "abc", ""])
def test_an_invalid_cost_limit_is_refused(ask: Ask, server: ModelServer, amount: str) -> None:
    result = ask("-p", "openrouter", f"--max-cost={amount}", "hi")
    assert (result.code, result.stdout, server.requests) == (2, b"", [])
    assert "--max-cost" in result.stderr
    assert repr(amount) in result.stderr


def test_genai_prices_needs_no_list(deepseek: Ask, server: ModelServer) -> None:
    server.reply(reply_with_cost(None))
    result = deepseek("-m", "deepseek-chat", "--max-cost", "0.00001", "go")
    assert result.code == 11
    notice, *_, error = (line for line in result.stderr.splitlines() if line.startswith("ask: "))
    assert "deepseek reports no cost" in notice
    assert "~$" in error
    assert {method for method, _ in list_requests(server)} == {"POST"}


def reply_by_path(request: Request) -> Reply:
    """Reply as OpenRouter to a request for its models, else as a provider that reports no costs."""
    return wire.whole_reply(OPENROUTER_LIST) if request.method == "GET" else reply_with_cost(None)(request)


def test_openrouters_list_has_prices_of_other_providers(deepseek: Ask, server: ModelServer) -> None:
    server.reply(reply_by_path)
    for attempt in range(2):
        result = deepseek("-m", "deepseek-next", "--max-cost", "0.03", "go")
        assert result.code == 11
        assert "$0.0400" in result.stderr.splitlines()[-1]
        assert result.stderr.count("reports no cost") == 1
        fetched = [request for request in server.requests if request.method == "GET"]
        assert [request.path for request in fetched] == ["/api/v1/models"], f"cached for attempt {attempt}"
    assert "Authorization" not in fetched[0].headers, "the list is public"


@pytest.mark.slow
def test_without_the_extra_an_unknown_price_names_it(without_extra: Callable[..., Result], server: ModelServer) -> None:
    server.reply(reply_by_path)
    result = without_extra("-m", "deepseek-none", "--max-cost", "1", "hi")
    assert (result.code, list_requests(server)) == (4, [("GET", "/api/v1/models")])
    assert "deepseek:deepseek-none" in result.stderr
    assert "[prices]" in result.stderr


def test_a_local_server_costs_nothing(ask: Ask, server: ModelServer) -> None:
    answer = {"message": {"role": "assistant", "content": "Hello."}, "done": True, "done_reason": "stop"}
    server.reply(Reply((json.dumps({**answer, "prompt_eval_count": 10, "eval_count": 5}).encode() + b"\n",)))
    env = {"OLLAMA_BASE_URL": server.base_url.removesuffix("/api/v1")}
    result = ask("-p", "ollama", "-m", "llama", "--max-cost", "0.01", "--json", "hi", env=env)
    assert result.code == 0, result.stderr
    usage = json.loads(result.stdout)["usage"]
    assert (usage["cost"], usage["cost_source"], usage["cost_complete"]) == (0, "local", True)


def test_a_limit_that_nothing_reported_can_enforce_is_an_error(deepseek: Ask, server: ModelServer) -> None:
    server.reply(wire.streams(*wire.stream(calls=[("bash", {"command": "true"})])[:-1]), wire.says("Done."))
    result = deepseek("-m", "deepseek-chat", "--max-cost", "1", "go")
    assert (result.code, len(server.requests)) == (4, 1)
    assert "neither costs nor tokens" in result.stderr


def test_prices_in_config_toml_limit_the_costs_of_any_service(ask: Ask, home: Home, server: ModelServer) -> None:
    described = f'[providers.own]\nbase_url = "{server.base_url}"\nmodel = "m"\ninput_price = 2\n'
    home.configure(described)
    unknown = ask("-p", "own", "--max-cost", "1", "go")
    assert (unknown.code, "output_price" in unknown.stderr) == (4, True), unknown.stderr
    home.configure(described + "output_price = 10.5\n")
    call = wire.call(0, id="call_0", name="bash", arguments='{"command": "true"}')
    server.reply(wire.streams(call, wire.finish("tool_calls"), wire.usage(1_000_000, 0)))
    server.reply(wire.streams(wire.text("Done."), wire.finish(), wire.usage(0, 1_000_000)))
    limited = ask("-p", "own", "--max-cost", "1", "--json", "go")
    usage = json.loads(limited.stdout)["usage"]
    assert (limited.code, usage["cost"], usage["cost_source"]) == (11, 12.5, "config")
    server.reply(wire.whole_reply({"data": [{"id": "m"}]}))
    (listed,) = json.loads(ask("models", "-p", "own", "--json").stdout)
    assert (listed["input_price"], listed["output_price"]) == (2, 10.5)


# Shown costs


def ask_for_usage(ask: Ask, *args: str) -> dict[str, Any]:
    usage: dict[str, Any] = json.loads(ask("--json", *args, "hi").stdout)["usage"]
    return usage


def test_json_has_the_estimate_and_its_source(deepseek: Ask, server: ModelServer) -> None:
    server.reply(wire.says("Hello."))
    usage = ask_for_usage(deepseek, "-m", "deepseek-chat")
    assert usage["cost"] > 0
    assert (usage["cost_source"], usage["cost_complete"]) == ("genai-prices", True)
    usage = ask_for_usage(deepseek, "-m", "deepseek-none")
    assert (usage["cost"], usage["cost_source"], usage["cost_complete"]) == (None, None, False)
    assert {method for method, _ in list_requests(server)} == {"POST"}, "no list is fetched for an answer"


def test_a_reported_cost_is_not_estimated(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.streams(wire.text("Hello."), wire.finish(), wire.usage(cost=0.25)))
    usage = ask_for_usage(ask, "-m", "openai/gpt-5")
    assert (usage["cost"], usage["cost_source"], usage["cost_complete"]) == (0.25, "reported", True)


def test_verbose_marks_an_estimate(deepseek: Ask, server: ModelServer) -> None:
    server.reply(wire.says("Hello."))
    assert re.search(r", ~\$0\.\d+\n$", deepseek("-v", "-m", "deepseek-chat", "hi").stderr)


@pytest.mark.parametrize(
    ("tier", "dollars", "shown"),
    [
        ("default", 0.115, "~$0.115"),
        ("flex", 0.0575, "~$0.0575 (flex)"),
        ("ultrafast", 0.115, "at least ~$0.115 (ultrafast)"),
    ],
)
def test_a_shown_cost_is_that_of_the_service_tier(
    openai: Ask, server: ModelServer, *, tier: str, dollars: float, shown: str
) -> None:
    server.reply(answer_in_tier(responses_wire.message("Hello."), tier=tier))
    usage = ask_for_usage(openai)
    assert (usage["cost"], usage["cost_complete"]) == (pytest.approx(dollars), tier != "ultrafast")
    assert openai("-v", "hi").stderr.endswith(f", {shown}\n")
    stats = json.loads(openai("history", "stats", "--json").stdout)["total"]["usage"]
    assert stats["cost"] == pytest.approx(2 * dollars)
    assert stats["service_tier"] == ("standard" if tier == "default" else tier)


# ask models


def test_models_have_prices_from_genai_prices(deepseek: Ask, server: ModelServer) -> None:
    server.reply(models_response({"id": "deepseek-chat"}, {"id": "deepseek-none"}))
    known, unknown = json.loads(deepseek("models", "--json").stdout)
    assert known["input_price"] > 0
    assert known["output_price"] > 0
    assert (known["price_source"], unknown["price_source"], unknown["input_price"]) == ("genai-prices", None, None)
    assert len(server.requests) == 1


@pytest.mark.slow
def test_models_have_openrouters_prices_without_the_extra(
    without_extra: Callable[..., Result], server: ModelServer
) -> None:
    own = models_response({"id": "deepseek-next"})
    server.reply(lambda request: own if "deepseek" in request.path else reply_by_path(request))
    [row] = json.loads(without_extra("models", "--json").stdout)
    assert (row["input_price"], row["output_price"], row["price_source"]) == (1000, 2000, "openrouter")
    server.reply(wire.says("Hello."))
    usage = json.loads(without_extra("--json", "-m", "deepseek-next", "hi").stdout)["usage"]
    assert (usage["cost"], usage["cost_source"]) == (pytest.approx(0.02), "openrouter")
    [doctor] = [line for line in without_extra("doctor", "--offline", "-v").text.splitlines() if "\tprices\t" in line]
    assert "OpenRouter" in doctor
    assert "[prices]" in doctor


# ask map


def test_each_request_of_a_job_has_its_own_price(ask: Ask, home: Home, server: ModelServer) -> None:
    """More than 200,000 tokens in one request cost twice as much per token, not in several."""
    env = {"GEMINI_BASE_URL": server.base_url.removesuffix("/api/v1"), "GEMINI_API_KEY": TEST_KEY}
    part = {"content": {"parts": [{"text": "yes"}]}}
    counts = {"promptTokenCount": 150_000, "candidatesTokenCount": 0}
    server.reply(
        wire.whole_reply(
            {
                "candidates": [part | {"finishReason": "CONTINUATION", "continuationToken": "t1"}],
                "usageMetadata": counts,
            }
        ),
        wire.whole_reply({"candidates": [part | {"finishReason": "STOP"}], "usageMetadata": counts}),
    )
    command = ("map", "-p", "gemini", "-m", "gemini-2.5-pro", "--input-format", "lines")
    mapped = ask(*command, "{{line}}", "-", stdin=b"a\n", env=env)
    assert (mapped.code, json.loads(mapped.stdout)["cost"]) == (0, pytest.approx(0.3 * 1.25)), mapped.stderr
    rows = (b"word " * 90_000 + b"\n") * 3
    estimate = ask(*command, "{{line}}", "-", "--dry-run", "--no-dedupe", stdin=rows, env=env).stderr
    tokens = int(re.findall(r"about ([\d,]+)", estimate)[0].replace(",", ""))
    assert tokens > 200_000
    assert f"${tokens * 1.25e-6:.2f}" in estimate


# ask history stats


def test_statistics_add_reported_and_estimated_costs(ask: Ask, home: Home) -> None:
    path = home.data / "history.db"
    answers = [assistant("yes", usage=Usage(150_000, 0)), assistant("yes", usage=Usage(150_000, 0))]
    gemini: dict[str, Any] = {"provider": "gemini", "model": "gemini-2.5-pro", "input_tokens": 300_000}
    save(path, "a1", user("q"), *answers, **gemini)
    save(path, "a1", user("q"), assistant("yes"), provider="openrouter", model="m", input_tokens=1, cost=0.5)
    save(path, "a1", user("q"), provider="gemini", model="gemini-2.5-pro", exit_code=6)
    stats = json.loads(ask("history", "stats", "--json").stdout)
    total = stats["total"]["usage"]
    estimate = 0.3 * 1.25  # below the threshold of 200,000 tokens, as each request is
    assert (total["cost"], total["cost_source"], total["cost_complete"]) == (
        pytest.approx(0.5 + estimate),
        "mixed",
        True,
    )
    models = {row["model"]: row["usage"]["cost_source"] for row in stats["models"]}
    assert models == {"gemini:gemini-2.5-pro": "genai-prices", "openrouter:m": "reported"}
    assert f"~${0.5 + estimate:.4f}\n" in ask.on_terminal("history", "stats").text.splitlines(keepends=True)[0]


def test_statistics_say_that_a_sum_lacks_unknown_costs(ask: Ask, home: Home) -> None:
    path = home.data / "history.db"
    save(path, "a1", user("q"), assistant("yes"), provider="openrouter", model="m", input_tokens=1, cost=0.5)
    save(path, "a1", user("q"), assistant("yes", usage=Usage(10, 5)), provider="gone", model="m", input_tokens=10)
    usage = json.loads(ask("history", "stats", "--json").stdout)["total"]["usage"]
    assert (usage["cost"], usage["cost_complete"]) == (0.5, False)
    shown = ask.on_terminal("history", "stats").text
    assert "at least $0.5000" in shown.splitlines()[0]
    assert re.search(r"gone:m.* unknown", shown)
