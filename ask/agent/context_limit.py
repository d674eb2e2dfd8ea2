"""The length of a model's context, from the provider's models list and the user's settings.

The list is fetched only for long conversations, at most once a day, with a short timeout: a run works without it.
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
"""Tokens from which the models list is consulted.

For a new conversation this is more than the longest tool result, since hardly any service has a model with a smaller
context, and the request takes time. A continued conversation will grow.
"""
REMOTE_LIST_MAX_AGE, LOCAL_LIST_MAX_AGE = 86_400.0, 60.0
"""Seconds for which a list is valid: that of a service, and of a local server, which may load models at any time."""
LIST_REQUEST_TIMEOUT = 3.0
"""Seconds without a byte after which the request is given up."""
FAILED_LIST_RETRY_DELAY = 600.0
"""Seconds after a failed request before the list is requested again."""


def make_context_limit_lookup(
    endpoint: ModelEndpoint, cache_directory: Path, settings: Settings, *, is_continued: bool
) -> Callable[[int], int | None]:
    """Return a function from the estimated size of a request to the context limit.

    Both are in tokens; None means that the limit is unknown. The function fetches the models list when a request first
    exceeds the threshold or the user's own limit. `is_continued` means that an earlier conversation continues.
    """
    user_limits = [limit for limit in (settings.context_limit, read_num_ctx(settings.options)) if limit]
    threshold = CONTINUED_LOOKUP_THRESHOLD if is_continued else LOOKUP_THRESHOLD
    listed_limits: list[int | None] = []

    def find_limit(tokens: int) -> int | None:
        if not listed_limits and tokens > min([threshold, *user_limits]):
            listed_limits.append(read_listed_limit(endpoint, cache_directory, settings))
        return min([*user_limits, *filter(None, listed_limits)], default=None)

    return find_limit


def read_num_ctx(options: Mapping[str, Any]) -> int | None:
    """Return the context size that the user's options set for a local server."""
    size = options.get("num_ctx")
    return size if isinstance(size, int) and size > 0 else None


def read_listed_limit(endpoint: ModelEndpoint, cache_directory: Path, settings: Settings) -> int | None:
    model = find_model(load_models_list(endpoint, cache_directory, settings), endpoint.model)
    return model.context_length or None if model else None


def load_models_list(endpoint: ModelEndpoint, cache_directory: Path, settings: Settings) -> tuple[ModelInfo, ...]:
    """Return the provider's models list, from the cache while it is valid.

    If it cannot be fetched, this is an old list or ().
    """
    file = get_cache_file(cache_directory, endpoint.provider_name, endpoint.base_url)
    cached = read_models(file)
    max_age = REMOTE_LIST_MAX_AGE if endpoint.provider.info.needs_key else LOCAL_LIST_MAX_AGE
    if cached.age < max_age:
        return cached.models
    try:
        models = create_client(
            endpoint, discard_notice, settings._replace(timeout=LIST_REQUEST_TIMEOUT, tries=1)
        ).list_models()
    except AskError:
        write_models(file, cached.models, max(max_age - FAILED_LIST_RETRY_DELAY, 0))
        return cached.models
    write_models(file, models)
    return tuple(models)


def discard_notice(_: str) -> None:
    """Ignore a notice: a failed models list does not concern the user."""
