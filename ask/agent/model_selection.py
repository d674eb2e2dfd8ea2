"""The choice of provider, model, address and key: by flags, conversation, environment and configuration, in turn."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from ask.agent.workspace import Workspace
from ask.api_keys import stem
from ask.client.preconnect import Dial, dial
from ask.client.provider_client import Exchange
from ask.client.transport import Transport
from ask.errors import ConfigError, NetworkError, ProviderError
from ask.messages import Usage
from ask.plugin_api.loader import LoadedProvider
from ask.plugin_api.provider import ProviderInfo
from ask.redaction import NO_SECRETS, Redactor
from ask.settings import Settings

if TYPE_CHECKING:
    from requests.adapters import BaseAdapter

FIRST_CHOICE = "openrouter"
TOKENS_PER_PRICE = 1_000_000
LOCAL_DOMAINS = (".localhost", ".local", ".internal", ".lan", ".home.arpa")
"""Ends of host names that public DNS does not have: RFC 6761, 6762 and 8375, ICANN, and what routers use."""


class Target(NamedTuple):
    """A provider with all that a request to it needs.

    Attributes:
        provider: the loaded plugin.
        model: the model to ask; "" for the first that the provider lists.
        base_url: where its requests go.
        key: its key, "" for none, or several with "|" between them.
        adapter: answers in place of the network, for an embedded provider.
        dialled: the first connection to it, where that is being opened already.
    """

    provider: LoadedProvider
    model: str
    base_url: str
    key: str
    adapter: BaseAdapter | None = None
    dialled: Dial | None = None

    @property
    def name(self) -> str:
        """The provider's name."""
        return self.provider.info.name


class Wish(NamedTuple):
    """What flags say of the target; None or "" where they say nothing.

    Attributes:
        provider: its name.
        model: the model, or provider:model, or an alias.
        base_url: where its requests go.
        key: its key.
        last: provider and model of the conversation that goes on.
        named: what a named prompt says, the model as with -m.
    """

    provider: str | None = None
    model: str | None = None
    base_url: str | None = None
    key: str | None = None
    last: tuple[str, str] = ("", "")
    named: tuple[str, str] = ("", "")


def choose(workspace: Workspace, wish: Wish) -> Target:
    """The provider and model to use, and how to reach them.

    Raises:
        ConfigError: no such provider, or no key.
    """
    name, model = name_and_model(workspace, wish)
    loaded = workspace.load(name)
    model = model or workspace.config.provider(loaded.info.name).get("model") or loaded.info.default_model
    base_url = wish.base_url or base_url_of(workspace, loaded.info)
    return reached(loaded, model, base_url, wish.key or key_of(workspace, loaded.info, base_url))


def reached(provider: LoadedProvider, model: str, base_url: str, key: str) -> Target:
    """The target with what answers for it, where that is not the network."""
    with provider.faults:
        return Target(provider, model, base_url, key, provider.hooks.provider_adapter())


def dialled(target: Target) -> Target:
    """The target, to which a connection is opened from now on."""
    return target if target.adapter else target._replace(dialled=dial(target.base_url))


def name_and_model(workspace: Workspace, wish: Wish) -> tuple[str, str]:
    """The provider's name, and the model where one was named for it."""
    provider, model = wish.provider, wish.model
    last_provider, last_model = wish.last
    named_provider, named_model = wish.named
    if not named_provider:
        named_provider, named_model = parted(workspace, named_model)
    if named_provider and provider in (None, named_provider):  # before the conversation's, and otherwise like it
        same = last_provider == named_provider
        last_provider, last_model = named_provider, named_model or (last_model if same else "")
    elif not provider and not named_provider:
        model = model or named_model
    if provider:
        last = last_model if provider == last_provider else ""
        return provider, model or last or model_set_for(workspace, provider, named=True)
    prefix, model = parted(workspace, model or "")
    if prefix:
        return prefix, model
    if last_provider:
        return last_provider, model or last_model or model_set_for(workspace, last_provider, named=True)
    environment, config = workspace.environment, workspace.config
    name = environment.get("ASK_PROVIDER") or config.get("provider") or first_with_key(workspace, wish.base_url or "")
    return name, model or model_set_for(workspace, name, named=False)


def parted(workspace: Workspace, model: str) -> tuple[str, str]:
    """Provider and model where the name of a model, or of an alias, holds both; else "" and the model."""
    model = workspace.config.aliases.get(model, model)
    prefix, colon, rest = model.partition(":")
    return (prefix, rest) if colon and prefix in workspace.names else ("", model)


def model_set_for(workspace: Workspace, name: str, *, named: bool) -> str:
    """The model of environment or configuration, each only for the provider that is set beside it.

    One that is set without a provider is for the provider that comes about where none is `named`.
    """
    environment, config = workspace.environment, workspace.config
    for provider, model in (
        (environment.get("ASK_PROVIDER"), environment.get("ASK_MODEL")),
        (config.get("provider"), config.get("model")),
    ):
        if model and (provider == name or not (provider or named)):
            return str(model)
        named = named or bool(provider)
    return ""


def first_with_key(workspace: Workspace, base_url: str) -> str:
    """Find the first provider that has a key, or else one whose base URL is a local server's.

    Raises:
        ConfigError: there is neither.
    """
    names = (FIRST_CHOICE, *workspace.names)
    for name in names:
        if workspace.keys.find(name, workspace.key_variables(name))[0]:
            return name
    for name in names:
        configured = workspace.config.provider(name).get("base_url", "")
        if is_local_url(base_url or workspace.environment.get(f"{stem(name)}_BASE_URL") or configured):
            return name
    raise ConfigError("no provider has a key", f"{how_to_set(FIRST_CHOICE)}, or try -p demo, which needs none")


def key_of(workspace: Workspace, info: ProviderInfo, base_url: str) -> str:
    """A provider's key, or several with "|" between them; "" where there is none and none is needed.

    Raises:
        ConfigError: it needs one and has none.
    """
    variables = workspace.key_variables(info.name, info.key_env)
    key, _ = workspace.keys.find(info.name, variables)
    if not key and needs_key(workspace, info, base_url):
        advice = f"{how_to_set(info.name, *variables)}, or try -p demo, which needs none"
        raise ConfigError(f"no key for {info.name}", advice)
    return key


def needs_key(workspace: Workspace, info: ProviderInfo, base_url: str) -> bool:
    """Check whether requests to a provider need a key: a local server needs one only where config.toml says which."""
    configured = "key_env" in workspace.config.provider(info.name)
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
        return bool(host) and ("." not in host or host.endswith(LOCAL_DOMAINS))
    return address.is_loopback or address.is_private or address.is_link_local


def how_to_set(name: str, variable: str = "", *_: str) -> str:
    """How a user gives a provider its key."""
    return f"set {variable or stem(name) + '_API_KEY'} or run `ask keys set {name}`"


def base_url_of(workspace: Workspace, info: ProviderInfo) -> str:
    """Where a provider's requests go: as environment, configuration or its own word says, in that order."""
    environment = workspace.environment
    told = (environment.get(variable, "").strip() for variable in info.base_url_env)
    return (
        environment.get(f"{stem(info.name)}_BASE_URL")
        or next((completed(value, info.base_url) for value in told if value), "")
        or workspace.config.provider(info.name).get("base_url")
        or info.base_url
    )


def completed(address: str, base_url: str) -> str:
    """An address that may lack its scheme and port, as OLLAMA_HOST does, with those of a provider's own base URL.

    An address that servers listen on, 0.0.0.0, becomes one that can be reached.
    """
    own = urlsplit(base_url)
    scheme, _, rest = address.strip("'\"").rpartition("://")
    place, slash, path = rest.partition("/")
    if place.count(":") > 1 and not place.startswith("["):
        place = f"[{place}]"
    host, port = re.fullmatch(r"(\[.*\]|[^:]*):?(.*)", place, re.DOTALL).groups()  # type: ignore[union-attr]
    host = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(host, host)  # noqa: S104 - read, not bound
    number = port if port.isdigit() else "" if scheme else own.port
    return f"{scheme or own.scheme}://{host}{f':{number}' if number else ''}{slash}{path}"


def open_exchange(
    target: Target, notice: Callable[[str], None], settings: Settings, redactor: Redactor = NO_SECRETS
) -> Exchange:
    """Make a provider ready to be asked; `notice` takes what there is to say meanwhile."""
    transport = Transport(target.base_url, settings.timeout, target.adapter, target.dialled)
    return Exchange(
        target.provider,
        transport,
        target.key,
        tries=settings.tries,
        backoff=settings.backoff,
        notice=notice,
        redactor=redactor,
    )


def cost_counter(target: Target, exchange: Exchange) -> Callable[[Usage], float]:
    """What usage of the model costs in US dollars: as its answers tell, or else by the prices in the models list.

    Where answers should tell and do not, as through a proxy, the list is asked for then, and the function that is
    returned raises what this one does.

    Raises:
        ConfigError: neither is told.
        AskError: the models list could not be had.
    """
    by_price = cache(partial(price_counter, target, exchange))
    if not target.provider.info.tells_cost:
        return by_price()
    return lambda usage: by_price()(usage) if usage.cost is None else usage.cost


def price_counter(target: Target, exchange: Exchange) -> Callable[[Usage], float]:
    """What usage of the model costs by the prices in the models list.

    Cached tokens count in full, so that a limit is never passed unseen.

    Raises:
        ConfigError: the list does not tell them.
        AskError: it could not be had.
    """
    try:
        models = exchange.models()
    except (ProviderError, NetworkError) as failure:
        failure.message = f"the price list that --max-cost needs could not be had: {failure.message}"
        failure.advice = "; ".join(filter(None, (failure.advice, "leave out --max-cost to go on without")))
        raise
    for model in models:
        if model.id == target.model and model.input_price is not None and model.output_price is not None:
            return partial(cost_by_price, model.input_price / TOKENS_PER_PRICE, model.output_price / TOKENS_PER_PRICE)
    raise ConfigError(f"{target.name} tells neither cost nor prices of {target.model}", "leave out --max-cost")


def cost_by_price(input_price: float, output_price: float, usage: Usage) -> float:
    """What usage costs at these prices per token."""
    return (usage.input_tokens or 0) * input_price + (usage.output_tokens or 0) * output_price


def first_model(target: Target, notice: Callable[[str], None], settings: Settings) -> str:
    """The first model that a provider lists: of a local server, one that is installed there.

    Raises:
        ConfigError: it lists none.
        AskError: the list could not be had.
    """
    models = open_exchange(target, notice, settings).models()
    if not models:
        advice = target.provider.info.no_model_advice or f"name one with -m (ask models -p {target.name})"
        raise ConfigError(f"{target.name} has no model to ask", advice)
    return models[0].id
