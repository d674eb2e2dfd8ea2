"""Facts about a model from the provider's models list: the length of its context, and its correct name.

The list is fetched only for long conversations and unknown models, at most once a day, with a short timeout: a run
works without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ask.client.endpoint import ModelEndpoint, create_client
from ask.client.error_classification import is_model_unknown
from ask.client.models_cache import (
    FAILED_LIST_RETRY_SECONDS,
    LOCAL_LIST_SECONDS,
    REMOTE_LIST_SECONDS,
    find_model,
    get_cache_file,
    read_models,
    write_models,
)
from ask.client.retirement import find_retirement_date, format_retirement, is_due, keep_retirement_dates
from ask.config.settings import Settings
from ask.errors import AskError, ProviderError
from ask.plugin_api.loaded_provider import discard_notice
from ask.plugin_api.types import HttpRequest, ModelInfo
from ask.text import find_similar

if TYPE_CHECKING:
    from ask.client.provider_client import ProviderClient

LIST_TIMEOUT_SECONDS = 3.0
"""Seconds without a byte after which the request is given up."""
MAX_SUGGESTIONS = 3
KEY_REFUSED_STATUSES = (401, 403)


def read_listed_limit(endpoint: ModelEndpoint, cache_directory: Path, settings: Settings) -> int | None:
    """Return the model's context limit, in tokens; None if it is unknown."""
    models = _read_models_list(endpoint, cache_directory, settings)
    return _add_listed_model(endpoint, models).provider.find_profile(endpoint.model).context_length


def _read_models_list(endpoint: ModelEndpoint, cache_directory: Path, settings: Settings) -> Sequence[ModelInfo]:
    """Return the provider's models list, which is fetched if the cached one is too old.

    If that fails, the old one is used.
    """
    file = get_cache_file(cache_directory, endpoint.provider_name, endpoint.base_url)
    models, age = read_models(file)
    max_age = REMOTE_LIST_SECONDS if endpoint.provider.info.needs_key else LOCAL_LIST_SECONDS
    if age >= max_age:
        try:
            models = fetch_models_list(endpoint, cache_directory, settings)
        except AskError:
            write_models(file, models, max(max_age - FAILED_LIST_RETRY_SECONDS, 0))
    return models


def find_intended_model(
    error: AskError, endpoint: ModelEndpoint, cache_directory: Path, settings: Settings, aliases: Iterable[str]
) -> str:
    """Return the listed model that is meant by a name that the service does not know; "" if there is none.

    Then the error's hint suggests models, and aliases of the user, with similar names.
    """
    if not is_model_unknown(error):
        return ""
    models = _read_models_list(endpoint, cache_directory, settings)
    date = find_retirement_date(endpoint.provider, endpoint.model, cache_directory)
    if date and is_due(date, 0):
        error.hint = f"{format_retirement(endpoint.model, date)}; {error.hint}"
    if model := _find_same_model(models, endpoint):
        return model
    others = [*aliases, *(model.id for model in models if model.id != endpoint.model)]
    if similar := find_similar(endpoint.model, others, MAX_SUGGESTIONS):
        error.hint = f"did you mean {' or '.join(similar)}? {error.hint}"
    return ""


def _find_same_model(models: Sequence[ModelInfo], endpoint: ModelEndpoint) -> str:
    """Return the only listed model whose name differs from an unknown one in no letter or digit; "" if there is none.

    People write openai/gpt-6-sol for gpt-6-sol or the reverse, claude-sonnet-5.5 for claude-sonnet-5-5, and with -p
    still provider:model.
    """
    name = _simplify_model_name(endpoint.model.removeprefix(f"{endpoint.provider_name}:"))
    same = [model.id for model in models if _simplify_model_name(model.id) == name]
    return same[0] if len(same) == 1 and same[0] != endpoint.model else ""


def _simplify_model_name(model_id: str) -> str:
    """Return the letters and digits of a model's name, without its vendor."""
    name = model_id.strip().rpartition("/")[2].lower().removesuffix(":latest")
    return "".join(filter(str.isalnum, name))


def add_cached_model(endpoint: ModelEndpoint, cache_directory: Path) -> ModelEndpoint:
    """Add what the provider's models list says about the model, if a list of any age is cached."""
    file = get_cache_file(cache_directory, endpoint.provider_name, endpoint.base_url)
    return _add_listed_model(endpoint, read_models(file).models)


def _add_listed_model(endpoint: ModelEndpoint, models: Sequence[ModelInfo]) -> ModelEndpoint:
    model = find_model(models, endpoint.model)
    return endpoint._replace(provider=endpoint.provider.with_listed_model(model, endpoint.model)) if model else endpoint


def fetch_models_list(endpoint: ModelEndpoint, cache_directory: Path, settings: Settings) -> tuple[ModelInfo, ...]:
    """Fetch the provider's models list into the cache, and return it.

    Raises:
        AskError: it cannot be fetched.
    """
    settings = settings._replace(timeout=LIST_TIMEOUT_SECONDS, tries=1)
    models = create_client(endpoint, discard_notice, settings).list_models()
    keep_models_list(endpoint, cache_directory, models)
    return tuple(models)


def check_key(endpoint: ModelEndpoint, client: ProviderClient) -> None:
    """Check the key of a service whose models list is public.

    Raises:
        AskError: the service refuses it.
    """
    path = endpoint.provider.info.key_path
    if not (path and endpoint.key):
        return

    def build(key: str) -> HttpRequest | None:
        request = endpoint.provider.hooks.provider_models_request(key)
        return request and request._replace(path=path)

    try:
        client.fetch_document(build)
    except ProviderError as error:
        if error.status in KEY_REFUSED_STATUSES:
            raise  # any other may be from a proxy that has no such path


def keep_models_list(endpoint: ModelEndpoint, cache_directory: Path, models: Sequence[ModelInfo]) -> None:
    """Write a provider's models list to the cache."""
    write_models(get_cache_file(cache_directory, endpoint.provider_name, endpoint.base_url), models)
    keep_retirement_dates(endpoint.provider_name, models, cache_directory)
