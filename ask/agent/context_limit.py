"""How long a model's context is: as its provider's models list tells, and at most what the user says.

The list is asked for only where a conversation is big, at most once a day, and never long: a run goes on without.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ask.agent.model_selection import Target, open_exchange
from ask.client.models_cache import cache_file, find_model, keep_models, read_models
from ask.errors import AskError
from ask.plugin_api.provider import ModelInfo
from ask.settings import Settings

BIG, BIG_FOR_CONTINUED = 12_000, 3_000
"""Tokens from which on the list is looked at: for a first question more than the longest result of a tool, since
hardly any service has a model with less, and a request takes time. A conversation that goes on will grow."""
DAY, MINUTE = 86_400.0, 60.0
"""Seconds for which a list is good: of a service, and of a local server, whose models are loaded anew at any time."""
PATIENCE = 3.0
"""Seconds without a byte after which the list is not waited for."""
RETRY = 600.0
"""Seconds after which a list that could not be had is asked for again."""


def context_limit(target: Target, cache: Path, settings: Settings, *, continued: bool) -> Callable[[int], int | None]:
    """What tells the context limit in tokens for a request of about so many; None where it is not known.

    Args:
        target: the provider and model.
        cache: the cache folder.
        settings: tell the user's own limit.
        continued: whether an earlier conversation goes on.
    """
    own = [limit for limit in (settings.context_limit, asked_for(settings.options)) if limit]
    big = BIG_FOR_CONTINUED if continued else BIG
    listed: list[int | None] = []

    def limit(tokens: int) -> int | None:
        if not listed and tokens > min([big, *own]):
            listed.append(listed_limit(target, cache, settings))
        return min([*own, *filter(None, listed)], default=None)

    return limit


def asked_for(options: Mapping[str, Any]) -> int | None:
    """The context that a local server is told to make room for."""
    size = options.get("num_ctx")
    return size if isinstance(size, int) and size > 0 else None


def listed_limit(target: Target, cache: Path, settings: Settings) -> int | None:
    """The model's context as the models list tells it."""
    model = find_model(models_of(target, cache, settings), target.model)
    return model.context_length or None if model else None


def models_of(target: Target, cache: Path, settings: Settings) -> tuple[ModelInfo, ...]:
    """The provider's models list, from the cache while it is good; an old one, or none, where it cannot be had."""
    file = cache_file(cache, target.name, target.base_url)
    kept = read_models(file)
    good = DAY if target.provider.info.needs_key else MINUTE
    if kept.age < good:
        return kept.models
    try:
        models = open_exchange(target, ignore, settings._replace(timeout=PATIENCE, tries=1)).models()
    except AskError:
        keep_models(file, kept.models, max(good - RETRY, 0))
        return kept.models
    keep_models(file, models)
    return tuple(models)


def ignore(_: str) -> None:
    """Say nothing: what goes wrong with the list is no matter of the user's."""
