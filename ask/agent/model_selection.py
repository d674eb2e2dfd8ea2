"""The choice of provider, model, address and key: by flags, conversation, environment and configuration, in turn."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from ask.agent.app_context import AppContext
from ask.api_keys import format_variable_prefix
from ask.client.preconnect import Preconnection, preconnect
from ask.client.provider_client import ProviderClient
from ask.client.transport import Transport
from ask.errors import ConfigError, NetworkError, ProviderError
from ask.messages import Usage
from ask.plugin_api.loader import LoadedProvider
from ask.plugin_api.provider import ProviderInfo
from ask.redaction import NO_SECRETS, Redactor
from ask.settings import Settings

if TYPE_CHECKING:
    from requests.adapters import BaseAdapter

PREFERRED_PROVIDER = "openrouter"
TOKENS_PER_PRICE_UNIT = 1_000_000
LOCAL_DOMAIN_SUFFIXES = (".localhost", ".local", ".internal", ".lan", ".home.arpa")
"""Ends of host names that public DNS does not have: RFC 6761, 6762 and 8375, ICANN, and what routers use."""


class ModelEndpoint(NamedTuple):
    """A provider with all that a request to it needs.

    Attributes:
        provider: the loaded plugin.
        model: the model to ask; "" for the first that the provider lists.
        base_url: where its requests go.
        key: its key, "" for none, or several with "|" between them.
        adapter: answers in place of the network, for an embedded provider.
        preconnection: the first connection to it, where that is being opened already.
    """

    provider: LoadedProvider
    model: str
    base_url: str
    key: str
    adapter: BaseAdapter | None = None
    preconnection: Preconnection | None = None

    @property
    def provider_name(self) -> str:
        """The provider's name."""
        return self.provider.info.name


class ModelSelection(NamedTuple):
    """What flags say of the target; None or "" where they say nothing.

    Attributes:
        provider: its name.
        model: the model, or provider:model, or an alias.
        base_url: where its requests go.
        key: its key.
        conversation_model: provider and model of the conversation that goes on.
        template_model: what a named prompt says, the model as with -m.
    """

    provider: str | None = None
    model: str | None = None
    base_url: str | None = None
    key: str | None = None
    conversation_model: tuple[str, str] = ("", "")
    template_model: tuple[str, str] = ("", "")


def resolve_endpoint(app: AppContext, selection: ModelSelection) -> ModelEndpoint:
    """The provider and model to use, and how to reach them.

    Raises:
        ConfigError: no such provider, or no key.
    """
    name, model = resolve_provider_and_model(app, selection)
    loaded = app.load_provider(name)
    model = model or app.config.get_provider(loaded.info.name).get("model") or loaded.info.default_model
    base_url = selection.base_url or resolve_base_url(app, loaded.info)
    return create_endpoint(loaded, model, base_url, selection.key or resolve_key(app, loaded.info, base_url))


def create_endpoint(provider: LoadedProvider, model: str, base_url: str, key: str) -> ModelEndpoint:
    """The target with what answers for it, where that is not the network."""
    with provider.call_guard:
        return ModelEndpoint(provider, model, base_url, key, provider.hooks.provider_adapter())


def start_preconnection(endpoint: ModelEndpoint) -> ModelEndpoint:
    """The target, to which a connection is opened from now on."""
    return endpoint if endpoint.adapter else endpoint._replace(preconnection=preconnect(endpoint.base_url))


def resolve_provider_and_model(app: AppContext, selection: ModelSelection) -> tuple[str, str]:
    """The provider's name, and the model where one was named for it."""
    provider, model = selection.provider, selection.model
    last_provider, last_model = selection.conversation_model
    named_provider, named_model = selection.template_model
    if not named_provider:
        named_provider, named_model = split_model_name(app, named_model)
    if named_provider and provider in (None, named_provider):  # before the conversation's, and otherwise like it
        same = last_provider == named_provider
        last_provider, last_model = named_provider, named_model or (last_model if same else "")
    elif not provider and not named_provider:
        model = model or named_model
    if provider:
        last = last_model if provider == last_provider else ""
        return provider, model or last or find_configured_model(app, provider, is_provider_named=True)
    prefix, model = split_model_name(app, model or "")
    if prefix:
        return prefix, model
    if last_provider:
        return last_provider, model or last_model or find_configured_model(app, last_provider, is_provider_named=True)
    environment, config = app.environment, app.config
    name = (
        environment.get("ASK_PROVIDER")
        or config.get("provider")
        or find_provider_with_key(app, selection.base_url or "")
    )
    return name, model or find_configured_model(app, name, is_provider_named=False)


def split_model_name(app: AppContext, model: str) -> tuple[str, str]:
    """Provider and model where the name of a model, or of an alias, holds both; else "" and the model."""
    model = app.config.aliases.get(model, model)
    prefix, colon, rest = model.partition(":")
    return (prefix, rest) if colon and prefix in app.provider_names else ("", model)


def find_configured_model(app: AppContext, provider_name: str, *, is_provider_named: bool) -> str:
    """The model of environment or configuration, each only for the provider that is set beside it.

    One that is set without a provider is for the provider that comes about where none is `named`.
    """
    environment, config = app.environment, app.config
    for provider, model in (
        (environment.get("ASK_PROVIDER"), environment.get("ASK_MODEL")),
        (config.get("provider"), config.get("model")),
    ):
        if model and (provider == provider_name or not (provider or is_provider_named)):
            return str(model)
        is_provider_named = is_provider_named or bool(provider)
    return ""


def find_provider_with_key(app: AppContext, base_url: str) -> str:
    """Find the first provider that has a key, or else one whose base URL is a local server's.

    Raises:
        ConfigError: there is neither.
    """
    names = (PREFERRED_PROVIDER, *app.provider_names)
    for name in names:
        if app.key_store.find(name, app.find_key_variables(name))[0]:
            return name
    for name in names:
        configured = app.config.get_provider(name).get("base_url", "")
        if is_local_url(base_url or app.environment.get(f"{format_variable_prefix(name)}_BASE_URL") or configured):
            return name
    raise ConfigError(
        "no provider has a key", f"{format_key_hint(PREFERRED_PROVIDER)}, or try -p demo, which needs none"
    )


def resolve_key(app: AppContext, info: ProviderInfo, base_url: str) -> str:
    """A provider's key, or several with "|" between them; "" where there is none and none is needed.

    Raises:
        ConfigError: it needs one and has none.
    """
    variables = app.find_key_variables(info.name, info.key_env)
    key, _ = app.key_store.find(info.name, variables)
    if not key and requires_key(app, info, base_url):
        advice = f"{format_key_hint(info.name, *variables)}, or try -p demo, which needs none"
        raise ConfigError(f"no key for {info.name}", advice)
    return key


def requires_key(app: AppContext, info: ProviderInfo, base_url: str) -> bool:
    """Check whether requests to a provider need a key: a local server needs one only where config.toml says which."""
    configured = "key_env" in app.config.get_provider(info.name)
    return info.needs_key and (configured or not is_local_url(base_url))


def is_local_url(url: str) -> bool:
    """Check whether a URL names this machine or a private network, by an address or by a name that is never public."""
    try:
        host = (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:
        return False
    try:
        address = ip_address(host)
    except ValueError:
        return bool(host) and ("." not in host or host.endswith(LOCAL_DOMAIN_SUFFIXES))
    return address.is_loopback or address.is_private or address.is_link_local


def format_key_hint(provider_name: str, variable: str = "", *_: str) -> str:
    """How a user gives a provider its key."""
    return f"set {variable or format_variable_prefix(provider_name) + '_API_KEY'} or run `ask keys set {provider_name}`"


def resolve_base_url(app: AppContext, info: ProviderInfo) -> str:
    """Where a provider's requests go: as environment, configuration or its own word says, in that order."""
    environment = app.environment
    told = (environment.get(variable, "").strip() for variable in info.base_url_env)
    return (
        environment.get(f"{format_variable_prefix(info.name)}_BASE_URL")
        or next((complete_base_url(value, info.base_url) for value in told if value), "")
        or app.config.get_provider(info.name).get("base_url")
        or info.base_url
    )


def complete_base_url(address: str, default_url: str) -> str:
    """An address that may lack its scheme and port, as OLLAMA_HOST does, with those of a provider's own base URL.

    An address that servers listen on, 0.0.0.0, becomes one that can be reached.
    """
    own = urlsplit(default_url)
    scheme, _, rest = address.strip("'\"").rpartition("://")
    place, slash, path = rest.partition("/")
    if place.count(":") > 1 and not place.startswith("["):
        place = f"[{place}]"
    host, port = re.fullmatch(r"(\[.*\]|[^:]*):?(.*)", place, re.DOTALL).groups()  # type: ignore[union-attr]
    host = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(host, host)  # noqa: S104 - read, not bound
    number = port if port.isdigit() else "" if scheme else own.port
    return f"{scheme or own.scheme}://{host}{f':{number}' if number else ''}{slash}{path}"


def create_client(
    endpoint: ModelEndpoint, notify: Callable[[str], None], settings: Settings, redactor: Redactor = NO_SECRETS
) -> ProviderClient:
    """Make a provider ready to be asked; `notify` takes what there is to say meanwhile."""
    transport = Transport(endpoint.base_url, settings.timeout, endpoint.adapter, endpoint.preconnection)
    return ProviderClient(
        endpoint.provider,
        transport,
        endpoint.key,
        tries=settings.tries,
        backoff=settings.backoff,
        on_notice=notify,
        redactor=redactor,
    )


def create_cost_calculator(endpoint: ModelEndpoint, client: ProviderClient) -> Callable[[Usage], float]:
    """What usage of the model costs in US dollars: as its answers tell, or else by the prices in the models list.

    Where answers should tell and do not, as through a proxy, the list is asked for then, and the function that is
    returned raises what this one does.

    Raises:
        ConfigError: neither is told.
        AskError: the models list could not be had.
    """
    by_price = cache(partial(create_price_calculator, endpoint, client))
    if not endpoint.provider.info.tells_cost:
        return by_price()
    return lambda usage: by_price()(usage) if usage.cost is None else usage.cost


def create_price_calculator(endpoint: ModelEndpoint, client: ProviderClient) -> Callable[[Usage], float]:
    """What usage of the model costs by the prices in the models list.

    Cached tokens count in full, so that a limit is never passed unseen.

    Raises:
        ConfigError: the list does not tell them.
        AskError: it could not be had.
    """
    try:
        models = client.list_models()
    except (ProviderError, NetworkError) as failure:
        failure.message = f"the price list that --max-cost needs could not be had: {failure.message}"
        failure.advice = "; ".join(filter(None, (failure.advice, "leave out --max-cost to go on without")))
        raise
    for model in models:
        if model.id == endpoint.model and model.input_price is not None and model.output_price is not None:
            return partial(
                compute_cost, model.input_price / TOKENS_PER_PRICE_UNIT, model.output_price / TOKENS_PER_PRICE_UNIT
            )
    raise ConfigError(
        f"{endpoint.provider_name} tells neither cost nor prices of {endpoint.model}", "leave out --max-cost"
    )


def compute_cost(input_price: float, output_price: float, usage: Usage) -> float:
    """What usage costs at these prices per token."""
    return (usage.input_tokens or 0) * input_price + (usage.output_tokens or 0) * output_price


def fetch_first_model(endpoint: ModelEndpoint, notify: Callable[[str], None], settings: Settings) -> str:
    """The first model that a provider lists: of a local server, one that is installed there.

    Raises:
        ConfigError: it lists none.
        AskError: the list could not be had.
    """
    models = create_client(endpoint, notify, settings).list_models()
    if not models:
        advice = endpoint.provider.info.no_model_advice or f"name one with -m (ask models -p {endpoint.provider_name})"
        raise ConfigError(f"{endpoint.provider_name} has no model to ask", advice)
    return models[0].id
