"""Selection of provider, model, base URL and API key.

Command line options come first, then the conversation, the environment and the configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from ask.app import AppContext
from ask.client.endpoint import (
    ModelEndpoint,
    explain_ignored,
    find_key_origin,
    format_key_hint,
    is_vendor_url,
    list_other_base_urls,
    load_provider,
    load_providers,
    open_sign_in,
    remove_unusable_keys,
    resolve_base_url,
    resolve_headers,
    resolve_key,
    select_provider_entries,
)
from ask.config.base_url import (
    add_default_path,
    expand_base_url,
    is_local_url,
    is_same_service,
    list_url_passwords,
    repair_base_url,
    split_base_url,
)
from ask.config.key_store import KEY_COMMAND, SIGNED_IN, format_variable_prefix
from ask.errors import AskError, ConfigError
from ask.messages import DecisionQuestion
from ask.plugin_api.loaded_provider import LoadedProvider
from ask.records import NamedTuple

PREFERRED_PROVIDER = "openrouter"


class ModelSelection(NamedTuple):
    """The user's choice of provider and model; None or "" if nothing was chosen.

    Attributes:
        provider: the provider's name.
        model: a model, provider:model, or an alias.
        base_url: the base URL of requests.
        key: the API key.
        conversation_model: provider and model of the conversation that is continued.
        template_model: provider and model of the template, the model in any form that -m accepts.
        key_origin: where `key` is set, as messages name it; "" if it is the provider's own, which was found before.
        other_base_urls: further base URLs of the same service, if `base_url` is one of several.
    """

    provider: str | None = None
    model: str | None = None
    base_url: str | None = None
    key: str | None = None
    conversation_model: tuple[str, str] = ("", "")
    template_model: tuple[str, str] = ("", "")
    key_origin: str = "--key"
    other_base_urls: tuple[str, ...] = ()


def resolve_endpoint(app: AppContext, selection: ModelSelection) -> ModelEndpoint:
    """Resolve the provider, model, base URL and key to use.

    Raises:
        ConfigError: there is no such provider, or no key.
    """
    name, model = resolve_provider_and_model(app, selection)
    if ignored := explain_ignored(app, name):
        app.notify(ignored)
    provider = load_provider(app, name)
    model = model or app.config.providers.get(provider.info.name, {}).get("model") or provider.info.default_model
    base_url, base_url_origin = resolve_base_url(app, provider.info, selection.base_url or "")
    has_default_url = base_url.rstrip("/") == provider.info.base_url
    if "${" in base_url:
        base_url = expand_base_url(provider.info.name, app.environment, base_url)
    other_base_urls = tuple(
        add_default_path(repair_base_url(url), provider.info.base_url) for url in selection.other_base_urls
    ) or list_other_base_urls(app, provider.info, base_url_origin)
    for url in () if app.replay_file else (*filter(None, [base_url]), *other_base_urls):
        if split_base_url(url) is None:
            from ask.client.network_errors import make_invalid_base_url_error

            raise make_invalid_base_url_error(url, base_url_origin or f"base_url of the provider {name}")
    base_url = add_default_path(base_url, provider.info.base_url)
    if selection.key:
        key_origin = selection.key_origin or app.key_store.find_origin(provider.info.name, provider.info.key_env)
        key = remove_unusable_keys(app, provider.info.name, selection.key, key_origin)
    else:
        key, key_origin = resolve_key(app, provider.info, base_url)
    app.used_keys.update({key}, *map(list_url_passwords, (base_url, *other_base_urls)))
    if is_local_url(base_url):
        app.local_keys.add(key)
    chat_fallback = None
    has_set_api = "api" in app.config.providers.get(provider.info.name, {})
    if provider.openai_api == "responses" and not (has_default_url or has_set_api):
        from ask.client.chat_fallback import create_chat_fallback

        chat_fallback = create_chat_fallback(provider, base_url, app.app_dirs.cache)
    base_urls = [base_url, *other_base_urls]
    if select_provider_entries(app, provider.info.name):
        is_own_url = all(is_same_service(url, provider.info.base_url) for url in base_urls)
    else:  # what config.toml describes may be a proxy
        is_own_url = all(map(is_vendor_url, base_urls))
    renewable_origins = (KEY_COMMAND, str(app.key_store.path))
    return ModelEndpoint(
        provider,
        model,
        base_url,
        key,
        key_origin=key_origin,
        chat_fallback=chat_fallback,
        is_own_url=is_own_url,
        other_base_urls=other_base_urls,
        headers=resolve_headers(app, provider.info.name),
        renew_key=partial(app.key_store.renew, provider.info.name) if key_origin in renewable_origins else None,
        sign_in=open_sign_in(app, provider.info.name) if key_origin == SIGNED_IN else None,
    )


def resolve_other_endpoint(app: AppContext, selection: ModelSelection, current: ModelEndpoint) -> ModelEndpoint:
    """Resolve an endpoint like `resolve_endpoint`. Another model of the current provider uses its base URL and key."""
    if resolve_provider_and_model(app, selection)[0] != current.provider_name:
        return resolve_endpoint(app, selection)
    selection = selection._replace(base_url=current.base_url, other_base_urls=current.other_base_urls)
    if not current.sign_in:
        selection = selection._replace(key=current.key, key_origin=current.key_origin)
    return resolve_endpoint(app, selection)


def resolve_fallbacks(
    app: AppContext, models: Sequence[str], endpoint: ModelEndpoint, skip: Callable[[str], None] | None = None
) -> tuple[ModelEndpoint, ...]:
    """Resolve the models to ask if `endpoint` cannot answer. One without a provider is of the same provider.

    `skip` is called with the reason why a model cannot be used, which is then left out.

    Raises:
        ConfigError: without `skip`, a provider does not exist, has no key, or is named without a model.
    """
    fallbacks = []
    for model in models:
        try:
            fallbacks.append(_resolve_fallback(app, model, endpoint))
        except ConfigError as error:
            if skip is None:
                raise
            skip(f"{error.message}; skipping it")
    return tuple(fallbacks)


def _resolve_fallback(app: AppContext, model: str, endpoint: ModelEndpoint) -> ModelEndpoint:
    if app.has_provider(model) and model not in app.config.aliases:
        raise ConfigError(
            f"the fallback {model!r} is a provider, not a model",
            f"pass a model, or {model}: for the provider's default",
        )
    try:
        return resolve_other_endpoint(
            app, ModelSelection(model=model, conversation_model=(endpoint.provider_name, "")), endpoint
        )
    except ConfigError as error:
        error.message = f"cannot use the fallback {model!r}: {error.message}"
        raise


def resolve_provider_and_model(app: AppContext, selection: ModelSelection) -> tuple[str, str]:
    """Return the provider's name, and its model if one is set for it."""
    provider, model = selection.provider, selection.model
    conversation_provider, conversation_model = selection.conversation_model
    template_provider, template_model = selection.template_model
    if not template_provider:
        template_provider, template_model = _split_model_name(app, template_model)
    if template_provider and provider in (None, template_provider):
        # It replaces the conversation's provider, and is otherwise treated alike.
        if conversation_provider != template_provider:
            conversation_model = ""
        conversation_provider, conversation_model = template_provider, template_model or conversation_model
    elif not provider and not template_provider:
        model = model or template_model
    if not provider:
        prefix, model = _split_model_name(app, model or "")
        if prefix:
            return prefix, model
        provider = conversation_provider
    if provider:
        default_model = conversation_model if provider == conversation_provider else ""
        return provider, model or default_model or find_configured_model(app, provider, is_provider_named=True)
    name = next((name for name, _ in _list_default_models(app) if name), "")
    name = name or _find_provider_with_key(app, selection.base_url or "")
    return name, model or find_configured_model(app, name, is_provider_named=False)


def find_default_provider(environment: Mapping[str, str]) -> str:
    """Return the provider of a run that names none; "" if there is none, as without a key."""
    with suppress(AskError):
        return resolve_provider_and_model(AppContext(environment), ModelSelection())[0]
    return ""


def _list_default_models(app: AppContext) -> list[tuple[str, str]]:
    """Return the provider and model that the environment sets, then those of the configuration; "" where unset.

    A model may name its provider, as in provider:model, or be an alias.
    """
    environment, config = app.environment, app.config
    defaults = []
    for provider, model in (
        (environment.get("ASK_PROVIDER", "").strip(), environment.get("ASK_MODEL", "").strip()),
        (str(config.get("provider") or ""), str(config.get("model") or "")),
    ):
        prefix, name = _split_model_name(app, model) if model else ("", "")
        defaults.append((prefix or provider, name))
    return defaults


def _split_model_name(app: AppContext, model: str) -> tuple[str, str]:
    """Split provider:model, or an alias for it. For a model without a provider, return "" and the model.

    A first part that is no provider belongs to the model, as in qwen3:4b, unless nothing follows it.
    """
    app.config.check_entry(f"aliases.{model}")
    model = app.config.aliases.get(model, model)
    prefix, colon, rest = model.partition(":")
    if colon:
        app.config.check_entry(f"providers.{prefix}")
    is_provider = colon and (not rest or app.has_provider(prefix))
    return (prefix, rest) if prefix and is_provider else ("", model)


def find_configured_model(app: AppContext, provider_name: str, *, is_provider_named: bool) -> str:
    """Return the model that the environment or configuration sets for a provider.

    A model applies only to the provider that is set in the same place. A model that is set without a provider applies
    to the default provider, when none is named.
    """
    for provider, model in _list_default_models(app):
        if model and (provider == provider_name or not (provider or is_provider_named)):
            return model
        is_provider_named = is_provider_named or bool(provider)
    return ""


def list_configured_models(app: AppContext) -> dict[str, tuple[LoadedProvider, str]]:
    """Return the models that the environment and config.toml name, by the places where they do; unusable ones not."""
    config = app.config
    selections = {
        "default": ModelSelection(),
        **{f"fallback {name}": ModelSelection(model=name) for name in config.get("fallback", ())},
        **{f"alias {name}": ModelSelection(model=name) for name in config.aliases},
        **{f"model of {name}": ModelSelection(name) for name, table in config.providers.items() if "model" in table},
    }
    models = {}
    for place, selection in selections.items():
        try:
            name, model = resolve_provider_and_model(app, selection)
            provider = load_provider(app, name)
        except ConfigError:
            continue
        table = config.providers.get(provider.info.name, {})
        models[place] = provider, model or table.get("model") or provider.info.default_model
    return models


def _find_provider_with_key(app: AppContext, base_url: str) -> str:
    """Find the first provider with a key, or else one with a local base URL, or else with a key in another variable.

    Only the last step, for variables such as GOOGLE_API_KEY that a provider itself names, loads the providers.

    Raises:
        ConfigError: there is neither.
    """
    if app.replay_file:
        from ask.client.recording import find_recorded_provider

        return find_recorded_provider(app.replay_file) or PREFERRED_PROVIDER
    names = (PREFERRED_PROVIDER, *app.provider_names)
    for name in names:
        if find_key_origin(app, name):
            return name
    for name in names:
        configured = app.config.providers.get(name, {}).get("base_url", "")
        if is_local_url(base_url or app.environment.get(f"{format_variable_prefix(name)}_BASE_URL") or configured):
            return name
    for name, provider in load_providers(app):
        if find_key_origin(app, name, provider.info.key_env):
            return name
    for name in app.services:
        if find_key_origin(app, name):
            return name
    raise ConfigError("no API key is set", f"{format_key_hint(PREFERRED_PROVIDER)}; -p demo works without a key")


def check_decision_model(
    endpoint: ModelEndpoint,
    questions: Sequence[DecisionQuestion],
    options: Mapping[str, Any],
) -> None:
    """Check that a model can answer a request with these questions of `--decide` and model parameters, or without any.

    Raises:
        ParameterError: it has neither a decisions API nor logprobs, or makes nothing but decisions.
        UsageError: an option has no effect.
    """
    if questions or endpoint.provider.find_profile(endpoint.model).decisions == "only":
        from ask.client.decisions import check_decisions

        check_decisions(endpoint.provider, endpoint.model, questions, options)
