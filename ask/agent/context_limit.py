"""How long a model's context is: as its provider's models list tells, and at most what the user says.

The list is asked for only where a conversation is big, at most once a day, and never long: a run goes on without.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ask.agent.model_selection import ModelEndpoint, create_client
from ask.client.models_cache import find_model, get_cache_file, read_models, write_models
from ask.errors import AskError
from ask.plugin_api.provider import ModelInfo
from ask.settings import Settings

LOOKUP_THRESHOLD, CONTINUED_LOOKUP_THRESHOLD = 12_000, 3_000
"""Tokens from which on the list is looked at: for a first question more than the longest result of a tool, since
hardly any service has a model with less, and a request takes time. A conversation that goes on will grow."""
REMOTE_LIST_MAX_AGE, LOCAL_LIST_MAX_AGE = 86_400.0, 60.0
"""Seconds for which a list is good: of a service, and of a local server, whose models are loaded anew at any time."""
LIST_REQUEST_TIMEOUT = 3.0
"""Seconds without a byte after which the list is not waited for."""
FAILED_LIST_RETRY_DELAY = 600.0
"""Seconds after which a list that could not be had is asked for again."""


def make_context_limit_lookup(
    endpoint: ModelEndpoint, cache_directory: Path, settings: Settings, *, is_continued: bool
) -> Callable[[int], int | None]:
    """What tells the context limit in tokens for a request of about so many; None where it is not known.

    Args:
        endpoint: the provider and model.
        cache_directory: the cache folder.
        settings: tell the user's own limit.
        is_continued: whether an earlier conversation goes on.
    """
    own = [limit for limit in (settings.context_limit, read_num_ctx(settings.options)) if limit]
    big = CONTINUED_LOOKUP_THRESHOLD if is_continued else LOOKUP_THRESHOLD
    listed: list[int | None] = []

    def find_limit(tokens: int) -> int | None:
        if not listed and tokens > min([big, *own]):
            listed.append(read_listed_limit(endpoint, cache_directory, settings))
        return min([*own, *filter(None, listed)], default=None)

    return find_limit


def read_num_ctx(options: Mapping[str, Any]) -> int | None:
    """The context that a local server is told to make room for."""
    size = options.get("num_ctx")
    return size if isinstance(size, int) and size > 0 else None


def read_listed_limit(endpoint: ModelEndpoint, cache_directory: Path, settings: Settings) -> int | None:
    """The model's context as the models list tells it."""
    model = find_model(load_models_list(endpoint, cache_directory, settings), endpoint.model)
    return model.context_length or None if model else None


def load_models_list(endpoint: ModelEndpoint, cache_directory: Path, settings: Settings) -> tuple[ModelInfo, ...]:
    """The provider's models list, from the cache while it is good; an old one, or none, where it cannot be had."""
    file = get_cache_file(cache_directory, endpoint.provider_name, endpoint.base_url)
    kept = read_models(file)
    good = REMOTE_LIST_MAX_AGE if endpoint.provider.info.needs_key else LOCAL_LIST_MAX_AGE
    if kept.age < good:
        return kept.models
    try:
        models = create_client(
            endpoint, discard_notice, settings._replace(timeout=LIST_REQUEST_TIMEOUT, tries=1)
        ).list_models()
    except AskError:
        write_models(file, kept.models, max(good - FAILED_LIST_RETRY_DELAY, 0))
        return kept.models
    write_models(file, models)
    return tuple(models)


def discard_notice(_: str) -> None:
    """Say nothing: what goes wrong with the list is no matter of the user's."""
