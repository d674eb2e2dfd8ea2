"""Prices of models, and the costs of requests at these prices unless the provider reports them.

Prices come from the package genai-prices if it is installed, else from cached models lists: the provider's own, or
OpenRouter's public one (https://openrouter.ai/docs/api-reference/list-available-models), which has the models of most
vendors. Nothing here uses the network.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ask.app import AppContext
from ask.atomic_files import write_private_file
from ask.client.cost import UNKNOWN_COST, Cost
from ask.client.models_cache import find_model, find_newest_file, get_cache_file, read_models
from ask.messages import EMPTY_MAPPING, Usage
from ask.parsing import BATCH_TIER, DECISIONS_TIER, STANDARD_TIER
from ask.plugin_api.types import ModelInfo
from ask.records import NamedTuple
from ask.regular_files import read_regular_file
from ask.text import format_checksum

if TYPE_CHECKING:
    from genai_prices.types import ModelPrice

PRICES_EXTRA = "prices"
OPENROUTER = "openrouter"
GENAI_PRICES = "genai-prices"
BUILT_IN = "built-in"
"""The source of the prices in this module."""
VENDORS: Mapping[str, str] = {
    "anthropic": "anthropic",
    "cohere": "cohere",
    "deepseek": "deepseek",
    "gemini": "google",
    "grok": "x-ai",
    "minimax": "minimax",
    "mistral": "mistralai",
    "moonshot": "moonshotai",
    "openai": "openai",
    "openrouter": "openrouter",
    "perplexity": "perplexity",
    "together": "together",
    "xai": "x-ai",
    "zai": "z-ai",
}
"""The vendor of each provider's models, as genai-prices and OpenRouter's model ids name it."""
TOKENS_PER_PRICE_UNIT = 1_000_000
PRICE_CACHE_SECONDS = 3600.0
"""Seconds for which a price is cached, at most. Some depend on the hour:
https://api-docs.deepseek.com/quick_start/pricing"""
PRICE_PERIOD_SECONDS = 1800
"""Seconds for which a past price is assumed to hold: prices that depend on the hour change on the half hour."""
SERVICE_TIER_FACTORS = {
    ("anthropic", BATCH_TIER): 0.5,  # https://platform.claude.com/docs/en/build-with-claude/batch-processing#pricing
    ("gemini", BATCH_TIER): 0.5,  # https://ai.google.dev/gemini-api/docs/pricing
    ("gemini", "flex"): 0.5,
    ("gemini", "priority"): 1.8,
    ("openai", BATCH_TIER): 0.5,  # https://developers.openai.com/api/docs/pricing
    ("openai", "flex"): 0.5,
}
"""Times the standard price that a service tier costs, where genai-prices has no price for a model."""
COMPLETION_WINDOWS = ("2h", "8h")
"""The tiers of OpenAI's responses in the background, whose discount no price list has."""
CHEAPER_TIERS = frozenset({BATCH_TIER, "flex", "offpeak", *COMPLETION_WINDOWS})
"""Tiers that never cost more than the standard one, so that an estimate at its price is not too low."""
PREPAID_TIERS = frozenset({"scale", "provisioned", "provisioned_throughput"})
"""Tiers with capacity that is paid in advance, not by the token."""
HOUR_FACTOR = 2
"""Times the price of input that an hour in Anthropic's cache costs:
https://platform.claude.com/docs/en/build-with-claude/prompt-caching#pricing"""
HALF_DAY_FACTOR = 2
"""Times the price of writing to OpenAI's cache for 30 minutes that 12 hours cost:
https://developers.openai.com/api/docs/models/gpt-6.1-terra"""
DECISION_PRICE = 0.10
"""The price of a million input tokens of decisions, which have no other."""
LONG_DECISION_TOKENS = 272_000
"""Input tokens above which OpenAI's price is twice that: https://developers.openai.com/api/docs/pricing"""
DECISION_MODELS = {"gemini": "gemini-decision-1", "openai": "gpt-6-luna"}
"""What the names of models begin with whose decisions have that price, by provider. Others report their costs."""
FREE_SUFFIX = ":free"
"""Marks OpenRouter's free variant of a model. Others, such as ":nitro", are sold by the same hosts as the model."""
RELEASE_SUFFIX = r"(-(\d{8}|\d{4}-\d\d-\d\d|latest|preview))+$"


class PricedModel(NamedTuple):
    """A model whose price is looked up.

    Attributes:
        provider: the provider's name.
        model: the model's id in the provider's API.
        base_url: the base URL of requests; "" if it is unknown.
        is_local: whether the model runs on the user's own machine, where requests cost nothing.
    """

    provider: str
    model: str
    base_url: str = ""
    is_local: bool = False


class PriceTier(NamedTuple):
    """Prices in US dollars per million tokens, for requests with more than `min_input_tokens` input tokens."""

    min_input_tokens: float
    input: float
    output: float
    cached_input: float
    cache_write: float
    cache_write_1h: float

    def scale(self, factor: float) -> PriceTier:
        return PriceTier(self.min_input_tokens, *(price * factor for price in self[1:]))


class ModelPrices(NamedTuple):
    """The prices of a model in one service tier.

    Attributes:
        tiers: the prices by the size of the input, lowest first.
        source: where they come from, as in `Cost`.
        is_complete: whether they are not below what the service tier costs.
    """

    tiers: tuple[PriceTier, ...]
    source: str
    is_complete: bool = True

    def calculate_cost(self, usage: Usage) -> Cost:
        """Return the cost of a request. It is incomplete if only its input or only its output was counted."""
        if usage.input_tokens is None and usage.output_tokens is None:
            return UNKNOWN_COST
        is_complete = self.is_complete and usage.input_tokens is not None and usage.output_tokens is not None
        input_tokens, output_tokens = usage.input_tokens or 0, usage.output_tokens or 0
        cached_tokens = min(usage.cached_tokens or 0, input_tokens)
        reached = (tier for tier in reversed(self.tiers) if input_tokens > tier.min_input_tokens)
        tier = next(reached, self.tiers[0])
        written_tokens = min(usage.cache_write_tokens or 0, input_tokens - cached_tokens)
        hour_tokens = min(usage.cache_write_1h_tokens or 0, written_tokens)
        half_day_tokens = min(usage.cache_write_12h_tokens or 0, written_tokens - hour_tokens)
        amounts = (
            (input_tokens - cached_tokens - written_tokens, tier.input),
            (cached_tokens, tier.cached_input),
            (written_tokens - hour_tokens - half_day_tokens, tier.cache_write),
            (hour_tokens, tier.cache_write_1h),
            (half_day_tokens, HALF_DAY_FACTOR * tier.cache_write),
            (output_tokens, tier.output),
        )
        dollars = sum(tokens * price for tokens, price in amounts) / TOKENS_PER_PRICE_UNIT
        return Cost(dollars, frozenset({self.source}), is_complete)


def is_genai_prices_installed() -> bool:
    from importlib.util import find_spec

    return find_spec("genai_prices") is not None


def open_price_finder(app: AppContext) -> PriceFinder:
    return PriceFinder(app.app_dirs.cache, app.config.providers)


class PriceFinder:
    """Finds prices in the tables `[providers.NAME]`, in the caches below `cache_directory`, and in genai-prices."""

    def __init__(self, cache_directory: Path, providers: Mapping[str, Mapping[str, Any]] = EMPTY_MAPPING) -> None:
        self._cache_directory = cache_directory
        self._providers = providers
        self._not_in_genai: set[PricedModel] = set()
        self.forget_lists()

    def forget_lists(self) -> None:
        """Read the cached models lists again when they are needed."""
        self._current_prices = cache(self._find_current_prices)
        self._listed_prices = cache(self._find_listed_prices)
        self._read_models = cache(read_models)

    def calculate_cost(self, model: PricedModel, usages: Iterable[Usage], unix_time: float | None = None) -> Cost:
        """Return the total cost of requests to a model, sent at `unix_time` (None for now)."""
        total = Cost()
        for usage in usages:
            if usage.cost is not None:
                total += Cost.from_report(usage.cost)
            elif model.is_local:
                total += Cost(0.0, frozenset({"local"}))
            else:
                prices = self.find_prices(model, unix_time, usage.service_tier)
                total += prices.calculate_cost(usage) if prices else UNKNOWN_COST
        return total

    def calculate_cache_savings(self, model: PricedModel, usages: Iterable[Usage]) -> float | None:
        """Return how much more requests would have cost without a prompt cache; None if it is unknown.

        It is negative if writing to the cache has cost more than reading from it has saved.
        """
        if model.is_local:
            return None
        total = 0.0
        for usage in usages:
            prices = self.find_prices(model, None, usage.service_tier)
            if prices is None:
                return None
            costs = [
                prices.calculate_cost(each).dollars
                for each in (usage._replace(cached_tokens=None, cache_write_tokens=None), usage)
            ]
            total += (costs[0] or 0.0) - (costs[1] or 0.0)
        return total

    def find_prices(
        self, model: PricedModel, unix_time: float | None = None, service_tier: str | None = None
    ) -> ModelPrices | None:
        """Return the prices of a model at `unix_time`, or now, from the first source that has any.

        `service_tier` is as in `Usage`; None for the standard tier. There is no price for a tier that is prepaid.
        """
        service_tier = service_tier or STANDARD_TIER
        if service_tier == DECISIONS_TIER:
            return _find_decision_prices(model) or self.find_prices(model, unix_time)
        if is_prepaid(model.provider, service_tier):
            return None
        if configured := self.find_configured_prices(model.provider):
            return _adapt_to_service_tier(configured, model, service_tier)
        if unix_time is None:
            return self._current_prices(model, service_tier, int(time.time() // PRICE_PERIOD_SECONDS))
        if model not in self._not_in_genai:
            if prices := _find_genai_prices(model, unix_time, service_tier):
                return prices
            self._not_in_genai.add(model)
        return _adapt_to_service_tier(self._listed_prices(model), model, service_tier)

    def find_configured_prices(self, provider: str) -> ModelPrices | None:
        """Return the prices that config.toml sets for all models of a provider; None unless it sets both."""
        table = self._providers.get(provider, {})
        if not {"input_price", "output_price"} <= table.keys():
            return None
        price = table["input_price"]
        return ModelPrices((PriceTier(0, price, table["output_price"], price, price, price),), "config")

    def _find_listed_prices(self, model: PricedModel) -> ModelPrices | None:
        folder = self._cache_directory
        own_file = get_cache_file(folder, model.provider, model.base_url)
        own_list = self._read_models(own_file if model.base_url else find_newest_file(folder, model.provider))
        listed = find_model(own_list.models, model.model)
        is_other = listed and model.model.endswith(FREE_SUFFIX) and not listed.id.endswith(FREE_SUFFIX)
        if not is_other and (prices := to_prices(listed, "provider")):
            return prices
        vendor = VENDORS.get(model.provider)
        if not vendor:
            return None
        openrouter_list = self._read_models(find_newest_file(folder, OPENROUTER))
        return to_prices(find_vendor_model(openrouter_list.models, vendor, model.model), OPENROUTER)

    def _find_current_prices(self, model: PricedModel, service_tier: str, period: int) -> ModelPrices | None:
        """Find prices in a small cache: genai-prices takes long to load, and OpenRouter's list to read.

        The cache also knows which models genai-prices does not have. A list may have them once it is fetched. `period`
        is the number of the current period: a chat or job may last for hours.
        """
        file, now = self._cache_directory / "prices.json", time.time()
        key = f"{model.provider}:{model.model}:{format_checksum(model.base_url)}:{service_tier}"
        entries = _read_valid_prices(file, now)
        _, cached = entries.get(key, (now, None))
        if cached and cached.source:
            return cached
        found, until = None, now + PRICE_CACHE_SECONDS
        has_new_source = not cached and is_genai_prices_installed()
        if has_new_source:
            found = _find_genai_prices(model, now, service_tier)
            for start in range((period + 1) * PRICE_PERIOD_SECONDS, int(until) + 1, PRICE_PERIOD_SECONDS):
                if found != _find_genai_prices(model, start, service_tier):
                    until = start
                    break
        found = found or _adapt_to_service_tier(self._listed_prices(model), model, service_tier)
        if found or has_new_source:
            entries[key] = until, found or ModelPrices((), "")
            with contextlib.suppress(OSError):
                write_private_file(file, json.dumps(entries).encode())
        return found


def _find_decision_prices(model: PricedModel) -> ModelPrices | None:
    """Return the prices of a vendor's decisions API; None if they are not known."""
    known_model = DECISION_MODELS.get(model.provider)
    if not known_model or not model.model.startswith(known_model):
        return None
    tiers = [PriceTier(0, DECISION_PRICE, 0, DECISION_PRICE, DECISION_PRICE, DECISION_PRICE)]
    if model.provider == "openai":
        tiers.append(tiers[0].scale(2)._replace(min_input_tokens=LONG_DECISION_TOKENS))
    return ModelPrices(tuple(tiers), BUILT_IN)


def _read_valid_prices(file: Path, now: float) -> dict[str, tuple[float, ModelPrices]]:
    """Read the prices in the cache that are still valid, and until when; return {} if it is missing or damaged."""
    try:
        entries = {
            key: (float(until), ModelPrices(tuple(PriceTier(*map(float, t)) for t in tiers), str(source), is_complete))
            for key, (until, (tiers, source, is_complete)) in json.loads(read_regular_file(file)).items()
        }
    except (OSError, ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        return {}
    return {
        key: (until, prices)
        for key, (until, prices) in entries.items()
        if now < until <= now + PRICE_CACHE_SECONDS and bool(prices.tiers) == bool(prices.source)
    }


def is_prepaid(provider: str, service_tier: str | None) -> bool:
    """Check whether a service tier is paid in advance. Anthropic sells its priority tier like that:
    https://platform.claude.com/docs/en/api/service-tiers
    """
    return service_tier in PREPAID_TIERS or (provider, service_tier) == ("anthropic", "priority")


def _find_genai_prices(model: PricedModel, unix_time: float, service_tier: str) -> ModelPrices | None:
    """Return a model's prices from genai-prices, at the start of the period that `unix_time` is in."""
    start = unix_time - unix_time % PRICE_PERIOD_SECONDS
    standard = find_genai_tiers(model, start)
    if not standard:
        return None
    # What genai-prices does not know about a request changes nothing.
    if (tiers := find_genai_tiers(model, start, service_tier)) != standard:
        return ModelPrices(tiers, GENAI_PRICES)
    return _adapt_to_service_tier(ModelPrices(standard, GENAI_PRICES), model, service_tier)


def _adapt_to_service_tier(prices: ModelPrices | None, model: PricedModel, service_tier: str) -> ModelPrices | None:
    """Return standard prices as those of a service tier, by what the vendor states about all models."""
    if prices is None or service_tier == STANDARD_TIER:
        return prices
    factor = SERVICE_TIER_FACTORS.get((model.provider, service_tier))
    if factor is None:
        return prices._replace(is_complete=service_tier in CHEAPER_TIERS)
    return prices._replace(tiers=tuple(tier.scale(factor) for tier in prices.tiers))


@cache
def find_genai_tiers(model: PricedModel, unix_time: float, service_tier: str = STANDARD_TIER) -> tuple[PriceTier, ...]:
    """Return a model's prices from genai-prices; () if it has none, or is not installed.

    They are the standard ones if it has none for the service tier. The base URL identifies services that only
    config.toml describes.
    """
    from datetime import UTC, datetime

    try:
        from genai_prices import Usage as GenaiUsage
        from genai_prices import calc_price
    except ImportError:
        return ()
    moment = datetime.fromtimestamp(unix_time, UTC)
    # OpenAI calls the fast tier a service tier, Anthropic a speed.
    context = {"service_tier": service_tier, "speed": service_tier, "processing": service_tier}
    for service in ({"provider_api_url": model.base_url}, {"provider_id": VENDORS.get(model.provider)}):
        if not all(service.values()):
            continue
        with contextlib.suppress(LookupError, ValueError):
            result = calc_price(
                GenaiUsage(), model.model, genai_request_timestamp=moment, price_context=context, **service
            )
            return _to_tiers(result.model_price)
    return ()


def _to_tiers(price: ModelPrice) -> tuple[PriceTier, ...]:
    """Convert prices from genai-prices, whose tiers apply to all tokens of a request."""
    names = ("input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok", "cache_write_1h_mtok")
    values = [getattr(price, name, None) for name in names]
    if values[0] is None or values[1] is None:
        return ()
    starts = sorted({0, *(tier.start for value in values for tier in getattr(value, "tiers", ()))})

    def get_price_at(value: Any, start: int) -> float:
        steps = [step.price for step in getattr(value, "tiers", ()) if step.start <= start]
        return float(steps[-1] if steps else getattr(value, "base", value))

    cache_write, cache_write_1h = values[3:]
    values[3:] = cache_write, cache_write if cache_write_1h is None else cache_write_1h
    return tuple(
        PriceTier(start, *(get_price_at(values[0] if value is None else value, start) for value in values))
        for start in starts
    )


def to_prices(model: ModelInfo | None, source: str) -> ModelPrices | None:
    """Return the prices in an entry of a models list; None if it has none."""
    if model is None or model.input_price is None or model.output_price is None:
        return None
    # Without a price for cached tokens they count in full, so that the cost is not underestimated.
    cached_price = model.input_price if model.cached_input_price is None else model.cached_input_price
    write_price = model.input_price if model.cache_write_price is None else model.cache_write_price
    # Lists have one price for writing. Only Anthropic writes for an hour.
    hour_price = write_price if model.cache_write_price is None else max(write_price, HOUR_FACTOR * model.input_price)
    prices = (model.input_price, model.output_price, cached_price, write_price, hour_price)
    return ModelPrices((PriceTier(0, *prices),), source)


def find_vendor_model(models: Sequence[ModelInfo], vendor: str, model_id: str) -> ModelInfo | None:
    """Find a vendor's model in OpenRouter's list, where its id may lack a release date and have dots in versions.

    Variants such as ":free" have other prices than the vendor.
    """
    names = {model.id.removeprefix(f"{vendor}/"): model for model in models if model.id.startswith(f"{vendor}/")}
    by_name = {name: names[name] for name in sorted(names, key=len, reverse=True) if ":" not in name}
    by_normal_name = {_normalize_model_name(name): model for name, model in by_name.items()}  # the shortest name wins
    name = model_id.removeprefix("models/")
    return by_name.get(name) or by_normal_name.get(_normalize_model_name(name))


def _normalize_model_name(name: str) -> str:
    return re.sub(RELEASE_SUFFIX, "", name.lower().replace(".", "-"))
