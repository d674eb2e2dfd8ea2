"""Costs of runs and saved runs, the check that --max-cost knows a price, and the prices that `ask models` lists."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache

from ask.app import AppContext
from ask.client.answers import find_requested_tier
from ask.client.cost import Cost
from ask.client.endpoint import ModelEndpoint, load_provider, resolve_base_url, select_provider_entries
from ask.client.models_cache import REMOTE_LIST_SECONDS, get_cache_file, read_models
from ask.client.prices import (
    OPENROUTER,
    PRICES_EXTRA,
    VENDORS,
    ModelPrices,
    PricedModel,
    is_genai_prices_installed,
    is_prepaid,
    open_price_finder,
    to_prices,
)
from ask.config.base_url import is_local_url
from ask.config.settings import Settings
from ask.errors import AskError, ConfigError
from ask.messages import Usage
from ask.parsing import DECISIONS_TIER
from ask.plugin_api.types import ModelInfo


def calculate_run_cost(app: AppContext, requests: Iterable[tuple[ModelEndpoint, Usage]]) -> Cost:
    """Return the total cost of requests, each with its endpoint and the usage of its answer."""
    finder = app.share(open_price_finder)
    costs = (finder.calculate_cost(to_priced_model(app, endpoint), [usage]) for endpoint, usage in requests)
    return sum(costs, start=Cost())


def to_priced_model(app: AppContext, endpoint: ModelEndpoint) -> PricedModel:
    """Return what the price of a model depends on.

    A model is local if its provider runs models on the user's machine. A local server that only config.toml describes
    may be a proxy to a service that charges, as LiteLLM is.
    """
    info, base_url = endpoint.provider.info, endpoint.base_url
    is_local_server = not info.needs_key and is_local_url(info.base_url)
    if is_local_server and not select_provider_entries(app, info.name):
        is_local_server = app.services.get(info.name, {}).get("is_local", False)
    return PricedModel(info.name, endpoint.model, base_url, is_local_server and is_local_url(base_url))


def make_history_pricing(
    app: AppContext, *, at_current_prices: bool = False
) -> Callable[[str, str, Iterable[Usage], float], Cost]:
    """Return a function that calculates the cost of a saved run from provider, model, usages and start time.

    The base URLs are today's: the history does not contain them. Current prices are found faster: they are cached.
    """

    @cache
    def find_model(provider_name: str, model: str) -> PricedModel:
        try:
            provider = load_provider(app, provider_name)
        except ConfigError:  # no longer installed
            return PricedModel(provider_name, model)
        return to_priced_model(app, ModelEndpoint(provider, model, resolve_base_url(app, provider.info)[0], key=""))

    def calculate_cost(provider: str, model: str, usages: Iterable[Usage], start: float) -> Cost:
        unix_time = None if at_current_prices else start
        return app.share(open_price_finder).calculate_cost(find_model(provider, model), usages, unix_time)

    return calculate_cost


def require_price(app: AppContext, endpoint: ModelEndpoint, settings: Settings, *, makes_decisions: bool) -> None:
    """Make sure that the price of a model, or of its decisions, is known, for --max-cost or --max-cost-per-day.

    If it is not, models lists that may have it are fetched, unless a cached one is less than a day old.

    Raises:
        ConfigError: there is no price.
    """
    model, finder, option = to_priced_model(app, endpoint), app.share(open_price_finder), get_cost_option(settings)
    makes_decisions = makes_decisions and endpoint.provider.get_decision_api(endpoint.model) is not None
    service_tier = DECISIONS_TIER if makes_decisions else find_requested_tier(settings.options)
    if is_prepaid(model.provider, service_tier):
        raise ConfigError(
            f"{option} does not work with the prepaid service tier {service_tier}", "leave out one of them"
        )
    if model.is_local or finder.find_prices(model, service_tier=DECISIONS_TIER if makes_decisions else None):
        return
    failure = ""
    lists = [endpoint] if endpoint.provider.info.reports_cost or model.provider not in VENDORS else []
    if model.provider in VENDORS and model.provider != OPENROUTER:
        lists.append(_make_openrouter_endpoint(app))
    for source in lists:
        try:
            _refresh_models_list(app, source, settings)
        except AskError as error:
            failure = f" ({error.summary})"
        if finder.find_prices(model):
            return
    table = f"[providers.{model.provider}]"
    hint = f"set input_price and output_price of {table} in config.toml; or {format_leave_out_hint(option)}"
    if not is_genai_prices_installed():
        from ask.config.installation import format_install_command

        hint = f"{format_install_command(PRICES_EXTRA)} installs a price list; or {hint}"
    raise ConfigError(f"{option} needs a price for {model.provider}:{model.model}, but none is known{failure}", hint)


def format_leave_out_hint(option: str) -> str:
    """Return the hint to leave out a limit on costs, which may also be in config.toml."""
    return f"leave out {option}, or {option.removeprefix('--').replace('-', '_')} in config.toml"


def get_cost_option(settings: Settings) -> str:
    """Return the name of the option for the limit on costs."""
    return "--max-cost-per-day" if settings.max_cost is None else "--max-cost"


def _refresh_models_list(app: AppContext, endpoint: ModelEndpoint, settings: Settings) -> None:
    """Fetch a models list into the cache, unless the cached one is less than a day old.

    Raises:
        AskError: it cannot be fetched.
    """
    from ask.client.models_list import fetch_models_list

    cached = read_models(get_cache_file(app.app_dirs.cache, endpoint.provider_name, endpoint.base_url))
    if not cached.models or cached.age >= REMOTE_LIST_SECONDS:
        fetch_models_list(endpoint, app.app_dirs.cache, settings)
        app.share(open_price_finder).forget_lists()


def _make_openrouter_endpoint(app: AppContext) -> ModelEndpoint:
    """Return the endpoint of OpenRouter's models list, which is public and needs no key."""
    provider = load_provider(app, OPENROUTER)
    return ModelEndpoint(provider, "", resolve_base_url(app, provider.info)[0], key="")


def find_list_prices(
    app: AppContext, endpoint: ModelEndpoint, models: Sequence[ModelInfo], settings: Settings
) -> list[ModelPrices | None]:
    """Return the prices of a provider's models, for `ask models`, from config.toml or its own list.

    If the provider lists none, they are from genai-prices or from OpenRouter's list, which is then fetched.
    """
    endpoint_model, finder = to_priced_model(app, endpoint), app.share(open_price_finder)
    if configured := finder.find_configured_prices(endpoint_model.provider):
        return [configured] * len(models)
    listed_prices = [to_prices(model, "provider") for model in models]
    if any(listed_prices) or endpoint_model.is_local:
        return listed_prices
    if endpoint_model.provider in VENDORS and not is_genai_prices_installed():
        with suppress(AskError):  # the list of models is useful without prices
            _refresh_models_list(app, _make_openrouter_endpoint(app), settings)
    now = time.time()
    return [finder.find_prices(endpoint_model._replace(model=model.id), now) for model in models]
