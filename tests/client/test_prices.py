"""Prices from models lists and genai-prices, and the costs calculated from them."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from genai_prices import Usage as GenaiUsage
from genai_prices import calc_price

from ask import ModelInfo, Usage
from ask.client.cost import UNKNOWN_COST, Cost
from ask.client.models_cache import get_cache_file, write_models
from ask.client.prices import PricedModel, PriceFinder, find_genai_tiers, find_vendor_model

NOW = datetime(2026, 6, 1, tzinfo=UTC).timestamp()
PRICED = ModelInfo("m", input_price=2.0, output_price=10.0, cached_input_price=0.5)


def write_list(folder: Path, provider: str, *models: ModelInfo) -> None:
    write_models(get_cache_file(folder, provider, "http://localhost"), models)


def test_a_reported_cost_wins(tmp_path: Path) -> None:
    usage = Usage(1000, 100, cost=0.25)
    cost = PriceFinder(tmp_path).calculate_cost(PricedModel("openai", "gpt-5"), [usage, usage])
    assert (cost.dollars, cost.source, cost.is_complete, cost.is_estimated) == (0.5, "reported", True, False)


def test_a_local_model_costs_nothing(tmp_path: Path) -> None:
    cost = PriceFinder(tmp_path).calculate_cost(PricedModel("ollama", "llama", is_local=True), [Usage(10, 5), Usage()])
    assert (cost.dollars, cost.source, cost.is_complete) == (0.0, "local", True)


def test_a_cost_without_price_or_tokens_is_unknown(tmp_path: Path) -> None:
    finder = PriceFinder(tmp_path)
    assert finder.calculate_cost(PricedModel("own", "m"), [Usage(10, 5)]) == UNKNOWN_COST
    assert finder.calculate_cost(PricedModel("openai", "gpt-5"), [Usage()]) == UNKNOWN_COST
    assert finder.calculate_cost(PricedModel("own", "m"), []) == Cost()


@pytest.mark.parametrize("usage", [Usage(1_000_000, None), Usage(None, 100_000)])
def test_the_cost_of_only_input_or_output_is_incomplete(usage: Usage, tmp_path: Path) -> None:
    write_list(tmp_path, "own", PRICED)
    cost = PriceFinder(tmp_path).calculate_cost(PricedModel("own", "m", "http://localhost"), [usage])
    assert (cost.dollars is not None, cost.is_complete) == (True, False)


def test_a_sum_knows_that_part_of_it_is_unknown(tmp_path: Path) -> None:
    cost = PriceFinder(tmp_path).calculate_cost(PricedModel("own", "m"), [Usage(10, 5), Usage(cost=0.5)])
    assert (cost.dollars, cost.is_complete) == (0.5, False)
    mixed = cost + Cost(1.0, frozenset({"genai-prices"}))
    assert (mixed.dollars, mixed.source, mixed.is_estimated, mixed.is_complete) == (1.5, "mixed", True, False)


@pytest.mark.parametrize(
    ("usage", "dollars"),
    [
        (Usage(1_000_000, 0), 2.0),
        (Usage(1_000_000, 100_000, cached_tokens=400_000), 1.2 + 0.2 + 1.0),
        (Usage(100, 0, cached_tokens=1_000_000), 100 * 0.5 / 1e6),
        (Usage(None, 100_000), 1.0),
    ],
)
def test_the_price_of_cached_tokens_is_used(usage: Usage, dollars: float, tmp_path: Path) -> None:
    write_list(tmp_path, "own", PRICED)
    cost = PriceFinder(tmp_path).calculate_cost(PricedModel("own", "m", "http://localhost"), [usage])
    assert cost.source == "provider"
    assert cost.dollars == pytest.approx(dollars)


def test_cached_tokens_without_a_price_count_in_full(tmp_path: Path) -> None:
    write_list(tmp_path, "own", PRICED._replace(cached_input_price=None))
    cost = PriceFinder(tmp_path).calculate_cost(PricedModel("own", "m"), [Usage(500_000, 0, 500_000)])
    assert cost.dollars == pytest.approx(1.0)


def test_a_models_list_is_read_again_after_it_was_fetched(tmp_path: Path) -> None:
    finder, model = PriceFinder(tmp_path), PricedModel("own", "m")
    assert finder.find_prices(model) is None
    write_list(tmp_path, "own", PRICED)
    assert finder.find_prices(model) is None
    finder.forget_lists()
    assert finder.find_prices(model) is not None


# genai-prices


@pytest.mark.parametrize(
    ("provider", "vendor", "model"),
    [
        ("openai", "openai", "gpt-5"),
        ("anthropic", "anthropic", "claude-sonnet-4-5"),
        ("gemini", "google", "gemini-2.5-pro"),
        ("deepseek", "deepseek", "deepseek-chat"),
        ("moonshot", "moonshotai", "kimi-k2-0905-preview"),
        ("xai", "x-ai", "grok-4"),
        ("grok", "x-ai", "grok-4"),
    ],
)
@pytest.mark.parametrize("tokens", [(1000, 400, 50), (300_000, 100_000, 5000)])
def test_costs_agree_with_genai_prices(
    provider: str, vendor: str, model: str, tokens: tuple[int, int, int], tmp_path: Path
) -> None:
    given, cached, written = tokens
    expected = calc_price(
        GenaiUsage(input_tokens=given, cache_read_tokens=cached, output_tokens=written),
        model,
        provider_id=vendor,
        genai_request_timestamp=datetime.fromtimestamp(NOW, UTC),
    )
    cost = PriceFinder(tmp_path).calculate_cost(PricedModel(provider, model), [Usage(given, written, cached)], NOW)
    assert cost.source == "genai-prices"
    assert cost.dollars == pytest.approx(float(expected.total_price))


def test_each_request_has_its_own_tier(tmp_path: Path) -> None:
    finder, model = PriceFinder(tmp_path), PricedModel("gemini", "gemini-2.5-pro")
    one = finder.calculate_cost(model, [Usage(300_000, 0)], NOW).dollars
    two = finder.calculate_cost(model, [Usage(150_000, 0)] * 2, NOW).dollars
    assert one and two
    assert one > two


def test_a_service_in_the_configuration_is_found_by_its_base_url() -> None:
    model = PricedModel("mine", "llama-3.3-70b-versatile", "https://api.groq.com/openai/v1")
    assert find_genai_tiers(model, NOW)
    assert not find_genai_tiers(model._replace(base_url="https://example.com/v1"), NOW)


def test_prices_are_cached_with_their_absence(tmp_path: Path) -> None:
    known, unknown = PricedModel("openai", "gpt-5"), PricedModel("openai", "gpt-0")
    assert [PriceFinder(tmp_path).find_prices(model) is not None for model in (known, unknown)] == [True, False]
    file = tmp_path / "prices.json"
    written = file.stat().st_mtime_ns
    first = PriceFinder(tmp_path).find_prices(known)
    assert first == PriceFinder(tmp_path).find_prices(known, datetime.now(UTC).timestamp())
    assert PriceFinder(tmp_path).find_prices(unknown) is None
    assert file.stat().st_mtime_ns == written


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{",
        '{"openai:gpt-5:00000000": 5}',
        '{"openai:gpt-5:00000000": ["x", [[], ""]]}',
        '{"openai:gpt-5:00000000": [NOW, [[[1, 2]], "genai-prices"]]}',
    ],
)
def test_a_damaged_cache_is_replaced(content: str, tmp_path: Path) -> None:
    file = tmp_path / "prices.json"
    file.write_text(content.replace("NOW", str(time.time())))
    assert PriceFinder(tmp_path).find_prices(PricedModel("openai", "gpt-5"))
    assert "gpt-5" in file.read_text()


# OpenRouter's models list

LISTED = [
    ModelInfo(f"{vendor}/{name}", input_price=price, output_price=price)
    for vendor, name, price in (
        ("anthropic", "claude-sonnet-4.5", 3.0),
        ("anthropic", "claude-sonnet-4.5:free", 0.0),
        ("openai", "gpt-4o", 2.5),
        ("openai", "gpt-4o-2024-05-13", 5.0),
        ("google", "gemini-3-pro-preview", 2.0),
        ("moonshotai", "kimi-k2-0905", 0.4),
    )
]


@pytest.mark.parametrize(
    ("vendor", "model", "price"),
    [
        ("anthropic", "claude-sonnet-4-5-20250929", 3.0),
        ("anthropic", "claude-sonnet-4-5", 3.0),
        ("openai", "gpt-4o-2024-05-13", 5.0),
        ("openai", "gpt-4o-2024-08-06", 2.5),
        ("google", "models/gemini-3-pro-preview", 2.0),
        ("google", "gemini-3-pro", 2.0),
        ("moonshotai", "kimi-k2-0905-preview", 0.4),
        ("openai", "gpt-4o-mini", None),
        ("openai", "claude-sonnet-4-5", None),
    ],
)
def test_a_vendors_model_is_found_in_openrouters_list(vendor: str, model: str, price: float | None) -> None:
    found = find_vendor_model(LISTED, vendor, model)
    assert (found and found.input_price) == price
