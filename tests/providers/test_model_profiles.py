"""The model profiles of the built-in providers: request bodies for each effort, checked with the vendors' own types."""

from __future__ import annotations

import re
from contextlib import nullcontext
from typing import Any

import pytest

from ask import ChatCompletions, Message, Provider, Responses, ToolSpec
from ask.errors import ParameterError
from ask.profiles import EFFORTS, find_profile, parse_pattern
from providers import anthropic, deepseek, gemini, lmstudio, moonshot, ollama, openai, openrouter, xai
from tests import responses_wire, wire
from tests.host_requests import prepare_request
from tests.model_server import ModelServer
from tests.providers.anthropic_wire import read_by_anthropic
from tests.providers.gemini_wire import plain, read_by_google
from tests.providers.test_ollama_requests import read_by_ollama
from tests.recorded_exchanges import send_request

PROVIDERS: dict[str, Provider] = {
    module.provider.info.name: module.provider
    for module in (anthropic, deepseek, gemini, lmstudio, moonshot, ollama, openai, openrouter, xai)
}
QUESTION = [Message("user", "hi")]
TOOL = ToolSpec("add", "Adds.", {"type": "object", "properties": {"a": {"type": "integer"}}})
SERVICE_FIELDS = {"thinking", "reasoning"}
"""Fields of chat requests that OpenAI's types lack."""


def build_body(provider: Provider, model: str, **fields: Any) -> dict[str, Any]:
    """Build the body of a request, and check it with the vendor's types."""
    request = prepare_request(provider, model, QUESTION, **fields)
    body = dict(provider.provider_build_request(request, "key").body or {})
    if isinstance(provider, Responses):
        responses_wire.check_request(body)
    elif provider is PROVIDERS["anthropic"]:
        assert read_by_anthropic(body) == body
    elif provider is PROVIDERS["gemini"]:
        assert read_by_google(body) == plain(body)
    elif provider is PROVIDERS["ollama"]:
        assert read_by_ollama(body) == body
    else:
        checked = wire.without_fields(body, SERVICE_FIELDS | {"cache_control"})
        assert wire.read_by_openai(checked) == checked
    return body


def list_sent(provider: str, model: str, names: tuple[str, ...]) -> list[Any]:
    """Return these fields of the request body for each effort, in ascending order."""
    bodies = [build_body(PROVIDERS[provider], model, options={"reasoning_effort": effort}) for effort in EFFORTS]
    return [tuple(body.get(name) for name in names) if len(names) > 1 else body.get(names[0]) for body in bodies]


@pytest.mark.parametrize(
    ("model", "sent"),
    [
        ("o3", "low low low medium high high high"),
        ("gpt-5-mini", "minimal minimal low medium high high high"),
        ("gpt-5-pro", "high high high high high high high"),
        ("gpt-5.1", "none low low medium high high high"),
        ("gpt-5.1-codex-max", "low low low medium high xhigh xhigh"),
        ("gpt-5.2-2025-12-11", "none low low medium high xhigh xhigh"),
        ("gpt-5.4-pro", "medium medium medium medium high xhigh xhigh"),
        ("gpt-5.5", "none low low medium high xhigh xhigh"),
        ("gpt-5.6-terra", "none low low medium high xhigh max"),
        ("gpt-6-sol", "none low low medium high xhigh max"),
        ("gpt-6-astra", "low low low medium high xhigh max"),
        ("gpt-6.1-sol", "low low low medium high xhigh max"),
        ("gpt-6.2-sol", "low low low medium high xhigh max"),
        ("gpt-6-cyber", "low low low medium high xhigh max"),
        ("gpt-daybreak-red-latest", "low low low medium high xhigh max"),
        ("gpt-9", "none minimal low medium high xhigh max"),
    ],
)
def test_efforts_of_openai_s_models(model: str, sent: str) -> None:
    assert [reasoning["effort"] for reasoning in list_sent("openai", model, ("reasoning",))] == sent.split()


@pytest.mark.parametrize(
    ("model", "sent"),
    [
        ("grok-3-mini", "low low low high high high high"),
        ("grok-4.20-multi-agent-0309", "low low low medium high xhigh xhigh"),
        ("grok-4.3", "none low low medium high high high"),
        ("grok-4.5", "low low low medium high high high"),
        ("grok-4.6", "low low low medium high xhigh xhigh"),
        ("grok-latest", "low low low medium high high high"),
    ],
)
def test_efforts_of_xai_s_models(model: str, sent: str) -> None:
    assert [reasoning["effort"] for reasoning in list_sent("xai", model, ("reasoning",))] == sent.split()


@pytest.mark.parametrize(
    "model", ["grok-code-fast-1", "grok-4-0709", "grok-4-1-fast-reasoning", "grok-4.20", "grok-4.20-0309-reasoning"]
)
def test_grok_models_that_always_reason_are_sent_no_effort(model: str) -> None:
    assert list_sent("xai", model, ("reasoning",)) == [None] * len(EFFORTS)


def test_the_context_of_grok_4_20_is_not_that_of_later_versions() -> None:
    assert find_profile(xai.provider.profiles, "grok-4.20-0309-reasoning").context_length == 1_000_000


def adaptive(effort: str) -> tuple[Any, Any]:
    return {"type": "adaptive"}, {"effort": effort}


def budget(tokens: int) -> tuple[Any, Any]:
    return {"type": "enabled", "budget_tokens": tokens}, None


DISABLED = {"type": "disabled"}, None
BOUND = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
"""What every request with thinking says since Claude 5.1."""
BETWEEN_TOOLS = {"type": "between_tools"}, None


@pytest.mark.parametrize(
    ("model", "none", "minimal", "high", "xhigh"),
    [
        ("claude-haiku-4-5", DISABLED, budget(2048), budget(16384), budget(16384)),
        ("claude-opus-4-20250514", DISABLED, budget(2048), budget(16384), budget(16384)),
        ("claude-sonnet-4-6", DISABLED, adaptive("low"), adaptive("high"), adaptive("max")),
        ("claude-opus-4-8", DISABLED, adaptive("low"), adaptive("high"), adaptive("xhigh")),
        ("claude-opus-5", DISABLED, (None, {"effort": "low"}), (None, {"effort": "high"}), (None, {"effort": "xhigh"})),
        (
            "claude-sonnet-5-5",
            BETWEEN_TOOLS,
            (BOUND, {"effort": "low"}),
            (BOUND, {"effort": "high"}),
            (BOUND, {"effort": "xhigh"}),
        ),
        (
            "claude-opus-5-5",
            (BOUND, {"effort": "low"}),
            (BOUND, {"effort": "low"}),
            (BOUND, {"effort": "high"}),
            (BOUND, {"effort": "xhigh"}),
        ),
    ],
)
def test_efforts_of_anthropic_s_models(model: str, none: Any, minimal: Any, high: Any, xhigh: Any) -> None:
    sent = list_sent("anthropic", model, ("thinking", "output_config"))
    assert (sent[0], sent[1], sent[4], sent[5]) == (none, minimal, high, xhigh)


def test_budgets_are_less_than_the_default_limit() -> None:
    """Anthropic refuses a budget that is not less than max_tokens."""
    for effort in EFFORTS[1:]:
        body = build_body(PROVIDERS["anthropic"], "claude-haiku-4-5", options={"reasoning_effort": effort})
        assert 1024 <= body["thinking"]["budget_tokens"] < body["max_tokens"]


@pytest.mark.parametrize(
    ("model", "field", "sent"),
    [
        ("gemini-2.5-pro", "thinkingBudget", [1024, 1024, 1024, 8192, 24576, 24576, 24576]),
        ("models/gemini-2.5-flash", "thinkingBudget", [0, 1024, 1024, 8192, 24576, 24576, 24576]),
        ("gemini-3-pro-preview", "thinkingLevel", ["low", "low", "low", "high", "high", "high", "high"]),
        ("gemini-3.1-pro-preview", "thinkingLevel", ["low", "low", "low", "medium", "high", "high", "high"]),
        ("gemini-3.5-flash", "thinkingLevel", ["minimal", "minimal", "low", "medium", "high", "high", "high"]),
        ("gemini-3.5-flash-lite", "thinkingLevel", ["minimal", "minimal", "low", "medium", "high", "high", "high"]),
        ("gemini-4-argon", "thinkingLevel", ["low", "low", "low", "medium", "high", "high", "high"]),
        ("models/gemini-4-neon", "thinkingLevel", ["low", "low", "low", "medium", "high", "high", "high"]),
        ("gemini-flash-latest", "thinkingLevel", ["low", "low", "low", "medium", "high", "high", "high"]),
    ],
)
def test_efforts_of_google_s_models(model: str, field: str, sent: list[Any]) -> None:
    configs = [config["thinkingConfig"] for config in list_sent("gemini", model, ("generationConfig",))]
    assert [config[field] for config in configs] == sent
    assert [config["includeThoughts"] for config in configs] == [each != 0 for each in sent]


@pytest.mark.parametrize(
    ("provider", "model", "sent"),
    [
        ("moonshot", "kimi-k3", ["low", "low", "low", "high", "high", "max", "max"]),
        ("moonshot", "kimi-k3.1-pro", ["low", "low", "low", "high", "high", "max", "max"]),
        ("moonshot", "kimi-k2.7-code", [None] * 7),
        ("deepseek", "deepseek-flash", [None, *["low", "low", "high", "high", "max", "max"]]),
        ("lmstudio", "qwen3", ["none", "low", "low", "medium", "high", "high", "high"]),
    ],
)
def test_efforts_of_chat_services(provider: str, model: str, sent: list[Any]) -> None:
    assert list_sent(provider, model, ("reasoning_effort",)) == sent


@pytest.mark.parametrize(
    ("provider", "model", "none", "low"),
    [
        ("moonshot", "kimi-k2.6", {"type": "disabled"}, {"type": "enabled"}),
        ("deepseek", "deepseek-v4-pro", {"type": "disabled"}, None),
    ],
)
def test_thinking_of_chat_services_has_a_switch(provider: str, model: str, none: Any, low: Any) -> None:
    assert list_sent(provider, model, ("thinking",))[:3:2] == [none, low]


@pytest.mark.parametrize("chat", [deepseek.provider, moonshot.provider, openrouter.provider])
def test_responses_api_has_its_own_form_of_efforts(chat: ChatCompletions) -> None:
    model = chat.info.default_model
    for effort in ("none", "low", "high"):
        reasoning = build_body(Responses(chat), model, options={"reasoning_effort": effort})["reasoning"]
        assert reasoning == {"effort": "low" if model == "kimi-k3" and effort == "none" else effort}


@pytest.mark.parametrize(
    ("model", "sent"),
    [
        ("qwen3:8b", [False, "low", "low", "medium", "high", "max", "max"]),
        ("gpt-oss:20b", ["low", "low", "low", "medium", "high", "high", "high"]),
    ],
)
def test_efforts_of_ollama(model: str, sent: list[Any]) -> None:
    assert list_sent("ollama", model, ("think",)) == sent


def test_openrouter_has_all_efforts() -> None:
    sent = list_sent("openrouter", "anthropic/claude-sonnet-5.5", ("reasoning",))
    assert sent == [{"effort": effort} for effort in EFFORTS]


@pytest.mark.parametrize(
    ("provider", "model"),
    [("openai", "gpt-4o"), ("moonshot", "moonshot-v1-8k"), ("gemini", "gemini-2.0-flash"), ("openai", "gpt-4.1-mini")],
)
def test_model_without_reasoning_accepts_only_none(provider: str, model: str) -> None:
    plain_body = build_body(PROVIDERS[provider], model)
    assert build_body(PROVIDERS[provider], model, options={"reasoning_effort": "none"}) == plain_body
    with pytest.raises(ParameterError, match="does not support reasoning"):
        build_body(PROVIDERS[provider], model, options={"reasoning_effort": "high"})


@pytest.mark.parametrize(
    ("provider", "model", "options", "refused"),
    [
        ("openai", "gpt-6-sol", {"temperature": 0.5}, True),
        ("openai", "gpt-6-sol", {"temperature": 0.5, "reasoning_effort": "none"}, False),
        ("openai", "gpt-5.2", {"temperature": 0.5}, False),
        ("openai", "gpt-5.2", {"temperature": 0.5, "reasoning_effort": "low"}, True),
        ("openai", "gpt-4o", {"temperature": 0.5}, False),
        ("anthropic", "claude-sonnet-5-5", {"top_p": 0.5, "reasoning_effort": "none"}, True),
        ("anthropic", "claude-haiku-4-5", {"temperature": 0.5}, False),
        ("anthropic", "claude-haiku-4-5", {"temperature": 0.5, "reasoning_effort": "low"}, True),
        ("moonshot", "kimi-k3", {"temperature": 0.5}, True),
        ("moonshot", "kimi-k3", {"temperature": 1}, False),
        ("xai", "grok-4.3", {"presence_penalty": 1}, True),
        ("xai", "grok-4-fast-non-reasoning", {"presence_penalty": 1}, False),
        ("gemini", "gemini-flash-latest", {"temperature": 0.5}, False),
    ],
)
def test_refused_options(provider: str, model: str, options: dict[str, Any], refused: bool) -> None:
    with pytest.raises(ParameterError) if refused else nullcontext():
        prepare_request(PROVIDERS[provider], model, QUESTION, options=options)


@pytest.mark.parametrize(("model", "has_tools"), [("gpt-6-sol", True), ("gpt-6.1-sol", False), ("gpt-4o", True)])
def test_models_that_always_reason_have_no_tools_on_chat_completions(model: str, has_tools: bool) -> None:
    assert openai.provider.chat.provider_supports_tools(model) == has_tools
    assert openai.provider.provider_supports_tools(model)


@pytest.mark.parametrize("model", ["gemini-2.5-flash", "gemini-3.5-flash"])
def test_schema_and_tools_go_together_from_gemini_3_on(model: str) -> None:
    body = build_body(PROVIDERS["gemini"], model, tools=[TOOL], schema={"type": "object"})
    assert "tools" in body
    assert ("generationConfig" in body) == (model == "gemini-3.5-flash")


@pytest.mark.parametrize(
    ("model", "together"),
    [
        ("google/gemini-3.5-flash", True),
        ("google/gemini-2.5-pro", False),
        ("~anthropic/claude-sonnet-latest", True),
        ("qwen/qwen3", False),
    ],
)
def test_schema_and_tools_go_together_on_openrouter(model: str, together: bool) -> None:
    body = build_body(PROVIDERS["openrouter"], model, tools=[TOOL], schema={"type": "object"})
    assert ("response_format" in body) == together


@pytest.mark.parametrize(
    ("model", "limit"),
    [("claude-sonnet-5-5", 128_000), ("claude-haiku-4-5", 64_000), ("claude-opus-4-1", 32_000), ("claude-x", 32_000)],
)
def test_anthropic_s_limit_is_the_model_s_own(model: str, limit: int) -> None:
    assert build_body(PROVIDERS["anthropic"], model)["max_tokens"] == limit


def test_nearest_effort_is_used_with_one_notice(server: ModelServer) -> None:
    server.reply(wire.says("Hello."))
    request = prepare_request(PROVIDERS["moonshot"], "kimi-k3", QUESTION)._replace(options={"reasoning_effort": "none"})
    exchange = send_request(PROVIDERS["moonshot"], server, request)
    assert exchange.streamed_text == "Hello."
    assert exchange.notices == ["kimi-k3 has no reasoning effort 'none'; using 'low'"]
    assert server.requests[0].json["reasoning_effort"] == "low"


@pytest.mark.parametrize("name", PROVIDERS)
def test_rows_are_valid_and_have_a_source(name: str) -> None:
    profiles = [profile for profile in PROVIDERS[name].profiles if profile.source]
    assert len(profiles) >= len(PROVIDERS[name].profiles) - 1
    for profile in profiles:
        assert (profile.source or "").startswith("https://")
        for pattern in profile.pattern.split("|"):
            parse_pattern(pattern)
        for efforts in (profile.efforts, profile.effort_parameters):
            assert set(efforts or ()) <= set(EFFORTS)


VENDORS = {"anthropic": "anthropic", "deepseek": "deepseek", "gemini": "google", "moonshot": "moonshotai"} | {
    "openai": "openai",
    "xai": "x-ai",
}
"""The names of our providers in genai-prices."""
NOT_FOR_CHAT = re.compile(
    r"embedding|tts|image|realtime|transcribe|whisper|moderation|live|voice|banana|robotics|^(text-)?(ada|babbage|curie|davinci)"
)
RETIRED = re.compile(
    r"claude-(v1|2|3)|deepseek-(chat|reasoner|v3)|gemini-(pro|flash-1|pro-1)|o1-(mini|preview)|codex-mini|computer-use"
)
WITHOUT_KNOWN_EFFORTS = {"gpt-6-rosalind", "gpt-rosalind-discovery", "gpt-rosalind-research", "gpt-chat-latest"}
"""Models about whose efforts the vendor's pages say nothing; `ask` sends what the user sets."""
OPEN_WEIGHTS = re.compile("gemma|gpt-oss")
"""Models whose efforts depend on the service."""


@pytest.mark.parametrize("name", VENDORS)
def test_every_family_in_the_table_of_prices_has_a_profile(name: str) -> None:
    """A family that this test names needs a row in the provider's PROFILES, or an entry in a list above."""
    from genai_prices.data import providers

    ids = [model.id for vendor in providers if vendor.id == VENDORS[name] for model in vendor.models]
    assert len(ids) > 5
    unknown = [
        model
        for model in ids
        if find_profile(PROVIDERS[name].profiles, model).efforts is None
        and not any(pattern.search(model) for pattern in (NOT_FOR_CHAT, RETIRED, OPEN_WEIGHTS))
        and not (name == "gemini" and model.startswith("claude-"))  # on Vertex AI
        and model not in WITHOUT_KNOWN_EFFORTS
    ]
    assert unknown == []
