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
PRICED = ModelInfo("m", input_price=2.0, output_price=10.0, cached_input_price=0.5, cache_write_price=2.5)


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
        (Usage(1_000_000, 0, cache_write_tokens=400_000), 1.2 + 1.0),
        (Usage(1_000_000, 0, 100_000, cache_write_tokens=500_000, cache_write_1h_tokens=200_000), 0.8 + 0.05 + 1.55),
        (Usage(1_000_000, 0, cache_write_tokens=400_000, cache_write_12h_tokens=100_000), 1.2 + 0.75 + 0.5),
        (Usage(100, 0, 40, cache_write_tokens=1_000_000, cache_write_1h_tokens=2_000_000), (40 * 0.5 + 60 * 4) / 1e6),
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


def test_written_tokens_without_a_price_count_as_input(tmp_path: Path) -> None:
    write_list(tmp_path, "own", PRICED._replace(cache_write_price=None))
    usage = Usage(500_000, 0, cache_write_tokens=500_000)
    assert PriceFinder(tmp_path).calculate_cost(PricedModel("own", "m"), [usage]).dollars == pytest.approx(1.0)


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


@pytest.mark.parametrize(
    ("provider", "model", "hour"),
    [("anthropic", "claude-sonnet-5-5", 30_000), ("anthropic", "claude-opus-4-6", 0), ("openai", "gpt-6-sol", 0)],
)
@pytest.mark.parametrize("scale", [1, 300])
def test_cache_writes_cost_what_genai_prices_says(
    provider: str, model: str, hour: int, scale: int, tmp_path: Path
) -> None:
    given, cached, written = 100_000 * scale, 10_000 * scale, 60_000 * scale
    counts = {"input_tokens": given, "cache_read_tokens": cached, "cache_write_tokens": written, "output_tokens": 500}
    hour *= scale
    expected = calc_price(
        GenaiUsage(**counts, **({"cache_write_1h_tokens": hour} if hour else {})),
        model,
        provider_id=provider,
        genai_request_timestamp=datetime.fromtimestamp(NOW, UTC),
    )
    usage = Usage(given, 500, cached, cache_write_tokens=written, cache_write_1h_tokens=hour or None)
    cost = PriceFinder(tmp_path).calculate_cost(PricedModel(provider, model), [usage], NOW)
    assert cost.dollars == pytest.approx(float(expected.total_price))


SERVICE_TIERS = [
    ("openai", "openai", "gpt-5.4", "flex", {"service_tier": "flex"}),
    ("openai", "openai", "gpt-5.4", "priority", {"service_tier": "priority"}),
    ("openai", "openai", "gpt-6.1-terra", "fast", {"service_tier": "fast"}),
    ("openai", "openai", "gpt-4.1", "batch", {"processing": "batch"}),
    ("anthropic", "anthropic", "claude-opus-5-5", "fast", {"speed": "fast"}),
    ("anthropic", "anthropic", "claude-haiku-5-5", "batch", {"processing": "batch"}),
    ("gemini", "google", "gemini-2.5-pro", "batch", {"processing": "batch"}),
]


@pytest.mark.parametrize("row", SERVICE_TIERS, ids=lambda row: "-".join(row[2:4]))
@pytest.mark.parametrize("given", [100_000, 500_000])
def test_a_service_tier_costs_what_genai_prices_says(
    row: tuple[str, str, str, str, dict[str, str]], given: int, tmp_path: Path
) -> None:
    provider, vendor, model, tier, context = row
    counts = GenaiUsage(input_tokens=given, cache_read_tokens=20_000, output_tokens=500)
    moment = datetime(2026, 11, 20, tzinfo=UTC)
    finder, priced = PriceFinder(tmp_path), PricedModel(provider, model)
    expected, standard = (
        float(
            calc_price(
                counts, model, provider_id=vendor, genai_request_timestamp=moment, price_context=known
            ).total_price
        )
        for known in (context, None)
    )
    assert expected != standard
    usage = Usage(given, 500, 20_000, service_tier=tier)
    cost = finder.calculate_cost(priced, [usage], moment.timestamp())
    assert (cost.source, cost.is_complete) == ("genai-prices", True)
    assert cost.dollars == pytest.approx(expected)
    assert finder.calculate_cost(priced, [usage._replace(service_tier="standard")], moment.timestamp()) == (
        finder.calculate_cost(priced, [usage._replace(service_tier=None)], moment.timestamp())
    )


@pytest.mark.parametrize(
    ("provider", "tier", "dollars", "is_complete"),
    [
        ("openai", "batch", 1.5, True),
        ("openai", "flex", 1.5, True),
        ("openai", "priority", 3.0, False),
        ("openai", "ultrafast", 3.0, False),
        ("openai", "scale", None, False),
        ("gemini", "priority", 5.4, True),
        ("gemini", "provisioned_throughput", None, False),
        ("anthropic", "batch", 1.5, True),
        ("anthropic", "priority", None, False),
        ("groq", "flex", 3.0, True),
        ("groq", "mixed", 3.0, False),
    ],
)
def test_a_service_tier_without_a_price_of_its_own(
    provider: str, tier: str, dollars: float | None, is_complete: bool, tmp_path: Path
) -> None:
    write_list(tmp_path, provider, PRICED)
    usage = Usage(1_000_000, 100_000, service_tier=tier)
    cost = PriceFinder(tmp_path).calculate_cost(PricedModel(provider, "m", "http://localhost"), [usage])
    assert cost.is_complete == is_complete
    assert cost.dollars == (dollars and pytest.approx(dollars))


def test_a_reported_cost_wins_over_the_service_tier(tmp_path: Path) -> None:
    usage = Usage(1000, 100, cost=0.25, service_tier="scale")
    cost = PriceFinder(tmp_path).calculate_cost(PricedModel("openai", "gpt-5.4"), [usage])
    assert (cost.dollars, cost.source, cost.is_complete) == (0.25, "reported", True)


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


def test_a_cached_price_ends_with_its_hours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DeepSeek's peak begins at 1:00 UTC: https://api-docs.deepseek.com/quick_start/pricing"""
    model, finder, prices = PricedModel("deepseek", "deepseek-v4-flash"), PriceFinder(tmp_path), []
    for moment in (datetime(2026, 11, 20, 0, 50, tzinfo=UTC), datetime(2026, 11, 20, 1, 5, tzinfo=UTC)):
        monkeypatch.setattr(time, "time", moment.timestamp)
        found = finder.find_prices(model)
        assert found == PriceFinder(tmp_path).find_prices(model) == finder.find_prices(model, moment.timestamp())
        assert found is not None
        prices.append(found.tiers[0].input)
    assert prices[1] == 2 * prices[0]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{",
        '{"openai:gpt-5:00000000:standard": 5}',
        '{"openai:gpt-5:00000000:standard": ["x", [[], ""]]}',
        '{"openai:gpt-5:00000000:standard": [NOW, [[[1, 2]], "genai-prices", true]]}',
        '{"openai:gpt-5:00000000:standard": [NOW, [[[0, 1, 1, 1, 1, 1' + "0" * 400 + ']], "genai-prices", true]]}',
        '{"openai:gpt-5:00000000:standard": [NOW, [[], "genai-prices", true]]}',
        '{"openai:gpt-5:00000000": [NOW, [[[0, 1, 1, 1, 1, 1]], "genai-prices"]]}',
    ],
)
def test_a_damaged_cache_is_replaced(content: str, tmp_path: Path) -> None:
    file = tmp_path / "prices.json"
    file.write_text(content.replace("NOW", str(time.time() + 60)))
    prices = PriceFinder(tmp_path).find_prices(PricedModel("openai", "gpt-5"))
    assert prices and prices.tiers
    assert "gpt-5" in file.read_text()


# OpenRouter's models list


@pytest.mark.parametrize(
    ("model", "price"), [("v/m", 2.0), ("v/m:free", 0.0), ("v/m:nitro", 2.0), ("v/n", 2.0), ("v/n:free", None)]
)
def test_a_free_variant_does_not_cost_what_its_model_costs(model: str, price: float | None, tmp_path: Path) -> None:
    free = ModelInfo("v/m:free", input_price=0, output_price=0)
    write_list(tmp_path, "openrouter", PRICED._replace(id="v/m"), PRICED._replace(id="v/n"), free)
    prices = PriceFinder(tmp_path).find_prices(PricedModel("openrouter", model, "http://localhost"))
    assert (prices and prices.tiers[0].input) == price


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


@pytest.mark.parametrize(
    ("model", "input_tokens", "dollars"),
    [
        ("openai:gpt-6-luna", 272_000, 0.0272),
        ("openai:gpt-6-luna-2026-10-06", 300_000, 0.06),
        ("gemini:gemini-decision-1", 300_000, 0.03),
    ],
)
def test_decisions_have_a_price_of_their_own(model: str, input_tokens: int, dollars: float, tmp_path: Path) -> None:
    provider, _, name = model.partition(":")
    usage = Usage(input_tokens, 0, cached_tokens=1000, service_tier="decisions")
    cost = PriceFinder(tmp_path).calculate_cost(PricedModel(provider, name), [usage])
    assert cost.dollars == pytest.approx(dollars)
    assert (cost.source, cost.is_complete, cost.is_estimated) == ("built-in", True, True)


def test_decisions_of_other_providers_have_the_price_of_the_model(tmp_path: Path) -> None:
    write_list(tmp_path, "own", PRICED)
    usage = Usage(1_000_000, 0, service_tier="decisions")
    cost = PriceFinder(tmp_path).calculate_cost(PricedModel("own", "m", "http://localhost"), [usage])
    assert (cost.dollars, cost.source) == (2.0, "provider")
