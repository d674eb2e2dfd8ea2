"""The usage of a streamed answer, which services report in several parts: none erases what another one counted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask import Usage
from ask.parsing import merge_usage
from tests import responses_wire, wire
from tests.json_strategies import any_json
from tests.model_server import DROP, ModelServer, Reply
from tests.program import Ask, Home
from tests.provider_wires import SERVICES, build_service_variables
from tests.providers import anthropic_wire, gemini_wire
from tests.providers import test_ollama as ollama_wire

Json = dict[str, Any]
ZEROS = {"input_tokens": 0, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
"""https://github.com/envoyproxy/ai-gateway/pull/1631"""


@pytest.fixture
def ask(home: Home, server: ModelServer) -> Ask:
    env = {**home.env, **build_service_variables(server.base_url)}
    return Ask(env, home.work)


def read_usage(ask: Ask, server: ModelServer, name: str, reply: Reply) -> Usage:
    """Return the usage that the command prints."""
    server.reply(reply)
    result = ask("-p", name, "-m", SERVICES[name].model, "--json", "--no-tools", "Hi")
    usage = json.loads(result.text)["usage"]
    return Usage(**{field: usage.get(field) for field in Usage._fields})


def anthropic_stream(start: Json, *ends: Json, is_cut: bool = False) -> Reply:
    begin = [{"type": "message_start", "message": anthropic_wire.message_of(reason=None) | {"usage": start}}]
    delta = {"stop_reason": "end_turn", "stop_sequence": None}
    deltas = [[{"type": "message_delta", "delta": delta, "usage": end}] for end in ends]
    stop = [] if is_cut else [{"type": "message_stop"}]
    return anthropic_wire.streams(begin, anthropic_wire.text(0, "Hello."), *deltas, stop)


@pytest.mark.parametrize(
    ("start", "ends", "expected"),
    [
        ({"input_tokens": 25, "output_tokens": 1}, [{"output_tokens": 7}], (25, 7)),
        ({"input_tokens": 25, "output_tokens": 1}, [ZEROS | {"output_tokens": 7}], (25, 7)),
        ({"input_tokens": 25, "output_tokens": 1}, [{"output_tokens": 7}, ZEROS | {"output_tokens": 0}], (25, 7)),
        ({"input_tokens": 25, "output_tokens": 1}, [ZEROS | {"output_tokens": 0}], (25, None)),
        ({"input_tokens": 25, "output_tokens": 1}, [], (25, None)),
        (ZEROS | {"output_tokens": 0}, [{"input_tokens": 11, "output_tokens": 5}], (11, 5)),
        ({"input_tokens": 30, "output_tokens": 1}, [{"input_tokens": 12, "output_tokens": 5}], (12, 5)),
        ({}, [{}], (None, None)),
    ],
)
def test_anthropic(
    ask: Ask, server: ModelServer, start: Json, ends: Sequence[Json], expected: tuple[int | None, int | None]
) -> None:
    usage = read_usage(ask, server, "anthropic", anthropic_stream(start, *ends))
    assert (usage.input_tokens, usage.output_tokens) == expected


def test_anthropic_cut_off(ask: Ask, server: ModelServer) -> None:
    usage = read_usage(
        ask, server, "anthropic", anthropic_stream({"input_tokens": 25, "output_tokens": 3}, is_cut=True)
    )
    assert (usage.input_tokens, usage.output_tokens) == (25, None)


@pytest.mark.parametrize(
    ("reports", "expected"),
    [
        ([(10, 5), (0, 0)], (10, 5)),
        ([(0, 0), (10, 5)], (10, 5)),
        ([(10, 1), (10, 5)], (10, 5)),
        ([(10, 5), (None, None)], (10, 5)),
        ([(10, None), (None, 5)], (10, 5)),
        ([(0, 0)], (None, None)),
        ([(10, 0)], (10, None)),
    ],
)
def test_chat_completions(
    ask: Ask, server: ModelServer, reports: Sequence[tuple[int | None, int | None]], expected: tuple[int, int]
) -> None:
    chunks = [
        wire.chunk() | {"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": completion}}
        for prompt, completion in reports
    ]
    reply = wire.streams(wire.text("Hello."), wire.finish(), *chunks)
    usage = read_usage(ask, server, "deepseek", reply)
    assert (usage.input_tokens, usage.output_tokens) == expected


def test_chat_completions_with_details(ask: Ask, server: ModelServer) -> None:
    details = {"prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 3}, "cost": 0.5}
    emptied = {"prompt_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0}, "cost": 0}
    chunks = (wire.text("Hello."), wire.finish(), wire.usage(10, 5, **details), wire.usage(0, 0, **emptied))
    usage = read_usage(ask, server, "openrouter", wire.streams(*chunks))
    assert usage == Usage(10, 5, 4, cost=0.5, cache_write_tokens=3)


def test_moonshots_usage_is_in_the_choice_and_then_zero(ask: Ask, server: ModelServer) -> None:
    counts = {"prompt_tokens": 10, "completion_tokens": 5}
    chunks = (wire.text("Hello."), wire.chunk(finish="stop", usage=counts), wire.usage(0, 0))
    usage = read_usage(ask, server, "moonshot", wire.streams(*chunks))
    assert (usage.input_tokens, usage.output_tokens) == (10, 5)


@pytest.mark.parametrize("last", [{}, {"usage": {}}, {"usage": {"input_tokens": 0, "output_tokens": 0}}])
def test_responses(ask: Ask, server: ModelServer, last: Json) -> None:
    whole = responses_wire.response(responses_wire.message("Hello."))
    *begun, final = responses_wire.events(whole)
    progress = {"type": "response.in_progress", "response": whole | {"usage": {"input_tokens": 9, "output_tokens": 4}}}
    final["response"] = {name: value for name, value in final["response"].items() if name != "usage"} | last
    usage = read_usage(ask, server, "openai", responses_wire.streams(*begun, progress, final))
    assert (usage.input_tokens, usage.output_tokens) == (9, 4)


def test_responses_with_cache_writes(ask: Ask, server: ModelServer) -> None:
    details = {"cached_tokens": 4, "cache_write_tokens": 3}
    counts = {"input_tokens": 9, "output_tokens": 4, "input_tokens_details": details}
    reply = responses_wire.streams(
        *responses_wire.events(responses_wire.response(responses_wire.message("Hello.")) | {"usage": counts})
    )
    usage = read_usage(ask, server, "openai", reply)
    assert (usage.input_tokens, usage.cached_tokens, usage.cache_write_tokens) == (9, 4, 3)


# Lifetimes of cache writes


@pytest.mark.parametrize(
    ("details", "writes"),
    [
        (
            {"cache_write_tokens": 5, "cache_write_tokens_details": {"ttl_30m_tokens": 3, "ttl_12h_tokens": 2}},
            (5, None, 2),
        ),
        ({"cache_write_tokens": 0, "cache_write_tokens_details": None}, (0, None, None)),
        ({"cache_creation_input_tokens": 5, "cache_creation": {"ephemeral_5m_input_tokens": 5}}, (5, None, None)),
        ({"cache_creation_input_tokens": 5, "cache_creation": {"ephemeral_1h_input_tokens": 4}}, (5, 4, None)),
        ({"cache_creation_tokens": 5, "cache_creation_token_details": {"ephemeral_1h_input_tokens": 4}}, (5, 4, None)),
    ],
)
@pytest.mark.parametrize("name", ["openai", "deepseek"])
def test_lifetimes_of_cache_writes(
    ask: Ask, server: ModelServer, name: str, details: Json, writes: tuple[int | None, ...]
) -> None:
    if name == "openai":
        counts = {"input_tokens": 9, "output_tokens": 4, "input_tokens_details": details}
        answer = responses_wire.response(responses_wire.message("Hello.")) | {"usage": counts}
        reply = responses_wire.streams(*responses_wire.events(answer))
    else:
        reply = wire.streams(wire.text("Hello."), wire.finish(), wire.usage(9, 4, prompt_tokens_details=details))
    usage = read_usage(ask, server, name, reply)
    found = (usage.cache_write_tokens, usage.cache_write_1h_tokens, usage.cache_write_12h_tokens)
    assert (usage.input_tokens, found) == (9, writes)


# Reported costs


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"cost": 0.5}, 0.5),
        ({"cost": 0}, 0),
        ({"cost": {"input_tokens_cost": 0.1, "output_tokens_cost": 0.2, "request_cost": 0.2, "total_cost": 0.5}}, 0.5),
        ({"estimated_cost": 0.5}, 0.5),
        ({"cost": None, "estimated_cost": "?"}, None),
    ],
)
def test_costs_that_services_report(ask: Ask, server: ModelServer, fields: Json, expected: float | None) -> None:
    server.reply(wire.streams(wire.text("Hello."), wire.finish(), wire.usage(9, 4, **fields)))
    result = ask("-p", "deepseek", "-m", "no-price", "--json", "--no-tools", "Hi")
    usage = json.loads(result.text)["usage"]
    assert (usage["cost"], usage["cost_source"]) == (expected, None if expected is None else "reported")


# Service tiers


def answer_with_tier(name: str, fields: Json) -> Reply:
    """Return an answer of a service, with these fields where it reports the service tier."""
    if name == "openai":
        answer = responses_wire.response(responses_wire.message("Hello.")) | fields
        return responses_wire.streams(*responses_wire.events(answer))
    if name == "anthropic":
        return anthropic_stream({"input_tokens": 9, "output_tokens": 1} | fields, {"output_tokens": 4})
    if name == "gemini":
        first, end = gemini_wire.chunks(gemini_wire.text("Hello."))
        end["usageMetadata"] = {"promptTokenCount": 9, "candidatesTokenCount": 4} | fields
        return gemini_wire.streamed(first, end)
    return wire.streams(wire.text("Hello.") | fields, wire.finish() | fields, wire.usage(9, 4) | fields)


@pytest.mark.parametrize(
    ("name", "reported", "expected"),
    [
        ("openai", {"service_tier": "flex"}, ("service_tier=flex", "flex")),
        # https://github.com/BerriAI/litellm/issues/31837
        ("openai", {"service_tier": "default"}, ("service_tier=priority", "standard")),
        ("openai", {"service_tier": "priority"}, ("service_tier=fast", "priority")),
        ("openai", {"service_tier": "auto"}, ("service_tier=flex", "flex")),
        ("openai", {"service_tier": "auto"}, ("service_tier=auto", None)),
        ("openai", {}, ("temperature=1", None)),
        ("openai", {"service_tier": "\x1b[31mred"}, ("temperature=1", None)),
        ("openai", {"service_tier": ["flex"]}, ("service_tier=flex", "flex")),
        ("deepseek", {"service_tier": "on_demand"}, ("service_tier=auto", "standard")),
        ("deepseek", {"service_tier": None}, ("service_tier=flex", "flex")),
        ("anthropic", {"service_tier": "standard", "speed": "fast"}, ("speed=fast", "fast")),
        ("anthropic", {"service_tier": "standard", "speed": "standard"}, ("speed=fast", "standard")),
        ("anthropic", {"service_tier": "priority"}, ("service_tier=auto", "priority")),
        ("anthropic", {}, ("speed=fast", "fast")),
        ("gemini", {"serviceTier": "flex"}, ("serviceTier=flex", "flex")),
        ("gemini", {"trafficType": "ON_DEMAND"}, ("serviceTier=flex", "standard")),
        ("gemini", {"trafficType": "ON_DEMAND_PRIORITY"}, ("temperature=1", "priority")),
        ("gemini", {"trafficType": "TRAFFIC_TYPE_UNSPECIFIED"}, ("temperature=1", None)),
    ],
)
def test_service_tiers(
    ask: Ask, server: ModelServer, name: str, reported: Json, expected: tuple[str, str | None]
) -> None:
    option, tier = expected
    server.reply(answer_with_tier(name, reported))
    result = ask("-p", name, "-m", SERVICES[name].model, "-o", option, "--json", "--no-tools", "Hi")
    assert json.loads(result.text)["usage"]["service_tier"] == tier


@pytest.mark.parametrize("last", [{}, {"promptTokenCount": 0, "candidatesTokenCount": 0}, {"promptTokenCount": 12}])
def test_gemini(ask: Ask, server: ModelServer, last: Json) -> None:
    first, end = gemini_wire.chunks(gemini_wire.text("Hello."))
    first["usageMetadata"] = {"promptTokenCount": 12, "candidatesTokenCount": 5}
    end["usageMetadata"] = last
    usage = read_usage(ask, server, "gemini", gemini_wire.streamed(first, end))
    assert (usage.input_tokens, usage.output_tokens) == (12, 5)


@pytest.mark.parametrize("late", [{}, {"prompt_eval_count": 0, "eval_count": 0}])
def test_ollama(ask: Ask, server: ModelServer, late: Json) -> None:
    counted = ollama_wire.done(prompt_eval_count=9_999, eval_count=7)
    reply = ollama_wire.streams(
        ollama_wire.text_line("Hello."), counted, ollama_wire.line(message={}, done=True) | late
    )
    usage = read_usage(ask, server, "ollama", reply)
    assert (usage.input_tokens, usage.output_tokens) == (9_999, 7)


@pytest.mark.parametrize("name", ["deepseek", "gemini"])
def test_the_counts_of_an_answer_that_was_cut_off_are_unknown(ask: Ask, server: ModelServer, name: str) -> None:
    if name == "gemini":
        first = gemini_wire.chunks(gemini_wire.text("Hello."), finish=None)
        reply = gemini_wire.streamed(*first)
    else:
        part = wire.text("Hello.") | {"usage": {"prompt_tokens": 10, "completion_tokens": 1}}
        reply = wire.streams(part, DROP, done=False)
    usage = read_usage(ask, server, name, reply)
    assert usage.input_tokens
    assert usage.output_tokens is None


@given(any_json(), any_json(), st.booleans())
def test_any_reports_can_be_merged(first: Any, second: Any, is_final: bool) -> None:
    usage: Json = {}
    for report in (first, second):
        merge_usage(usage, report, is_final=is_final)
    assert isinstance(usage, dict)


@given(st.lists(st.integers(0, 9), min_size=1))
def test_no_report_erases_a_count(counts: Sequence[int]) -> None:
    usage: Json = {}
    for count in counts:
        merge_usage(usage, {"tokens": count}, is_final=False)
    assert usage["tokens"] == max(counts)


@pytest.mark.parametrize("count", [10**30, 1e300, 2**63 - 1])
def test_counts_that_cannot_be_are_left_out(ask: Ask, server: ModelServer, count: float) -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": count}}
    reply = wire.whole_reply(wire.answer("Hello.") | {"usage": usage | {"cost": count}})
    server.reply(reply, reply)
    assert read_usage(ask, server, "openrouter", reply) == Usage(10, 5)
    command = ("map", "-p", "openrouter", "-m", "a/b", "--input-format", "lines", "{{line}}", "-")
    mapped = ask(*command, stdin=b"a\n")
    assert (mapped.code, json.loads(mapped.stdout)["cost"]) == (0, None), mapped.stderr
