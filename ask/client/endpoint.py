"""Providers and the endpoints of models: loading them, their base URLs and keys, and clients for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from ask.app import AppContext
from ask.client.provider_client import ProviderClient
from ask.config.base_url import complete_base_url, is_local_url, repair_base_url
from ask.config.secrets import KEYRING, NO_SECRETS, Redactor, find_key_problem, format_variable_prefix
from ask.config.settings import Settings
from ask.errors import ConfigError
from ask.plugin_api.loaded_provider import LoadedProvider
from ask.plugin_api.loader import check_provider, switch_api
from ask.plugin_api.loader import load_provider as load_plugin
from ask.plugin_api.types import ProviderInfo
from ask.records import NamedTuple

if TYPE_CHECKING:
    from ask.client.adjustments import RequestAdjustments
    from ask.client.chat_fallback import ChatFallback
    from ask.client.preconnect import Preconnection
    from ask.client.transport import Transport


class ModelEndpoint(NamedTuple):
    """A provider and model, with everything that is needed to send requests.

    Attributes:
        provider: the loaded plugin.
        model: the model; "" for the first one that the provider lists.
        base_url: the base URL of requests.
        key: the API key; "" for none, or several separated by "|".
        preconnection: the first connection, if it is already being opened.
        key_origin: where the key is set, as messages name it.
        chat_fallback: the provider on Chat Completions, if the base URL may not have the Responses API.
    """

    provider: LoadedProvider
    model: str
    base_url: str
    key: str
    preconnection: Preconnection | None = None
    key_origin: str = ""
    chat_fallback: ChatFallback | None = None

    @property
    def provider_name(self) -> str:
        return self.provider.info.name

    @property
    def full_name(self) -> str:
        """The endpoint as `provider:model`."""
        return f"{self.provider_name}:{self.model}"


def load_provider(app: AppContext, name: str) -> LoadedProvider:
    """Load a provider by its name: an installed plugin, or a service that config.toml describes.

    Raises:
        ConfigError: there is none of that name, or it is broken.
    """
    entries = app.plugins.providers.get(name)
    provider = load_plugin(entries, app.notify) if entries else None
    name = provider.info.name if provider else name
    app.config.check_entry(f"providers.{name}")  # without its table, requests could go to another address
    table, models = app.config.get_provider(name), app.config.get_models(name)
    if not provider and "base_url" in table:
        provider = _create_configured_provider(name, table)
    if provider and "api" in table:
        provider = select_api(provider, table["api"])
    if provider:
        return provider.with_profiles(models, ()) if models else provider
    from ask.text import format_suggestion

    hint = format_suggestion(name, app.provider_names, f"use one of {', '.join(app.provider_names)}")
    raise ConfigError(f"unknown provider {name!r}", hint)


def load_providers(app: AppContext) -> Iterator[tuple[str, LoadedProvider]]:
    """Load all providers, and yield each once with its name.

    A broken plugin causes a notice.
    """
    for name in app.provider_names:
        try:
            provider = load_provider(app, name)
        except ConfigError as error:
            app.notify(str(error))
            continue
        if name == provider.info.name or provider.info.name not in app.provider_names:
            yield name, provider


def _create_configured_provider(name: str, table: Mapping[str, str]) -> LoadedProvider:
    """Create the provider that a table in config.toml describes, on Chat Completions."""
    from ask.plugin_api.chat_completions import STANDARD_MEDIA_TYPES, ChatCompletions

    chat = ChatCompletions(
        name=name,
        base_url=table["base_url"],
        key_env=table.get("key_env", ()),
        default_model=table.get("model", ""),
        needs_key="key_env" in table,
        attachments=STANDARD_MEDIA_TYPES,  # a service that does not support them reports an error
    )
    return check_provider(chat, name, "config.toml")


def select_api(provider: LoadedProvider, api: str) -> LoadedProvider:
    """Return a provider on "responses" or "chat", whichever its default is.

    Raises:
        ConfigError: the service has an API of its own.
    """
    if not provider.openai_api:
        name = provider.info.name
        raise ConfigError(
            f"{name} does not use one of OpenAI's APIs, so api cannot be set",
            f"remove api from [providers.{name}] in config.toml",
        )
    return switch_api(provider, api)


def resolve_key(app: AppContext, info: ProviderInfo, base_url: str) -> str:
    """Return a provider's key; "" if there is none and none is needed, or if no request will be sent.

    Raises:
        AskError: it needs a key and has none, or the key cannot be retrieved.
    """
    if app.replay_file:
        return ""
    if app.needs_keys:
        key, origin = app.key_store.find(info.name, info.key_env)
    else:
        key, origin = "", app.key_store.find_origin(info.name, info.key_env)
    if not origin and requires_key(app, info, base_url):
        variables = app.key_store.list_variables(info.name, info.key_env)
        advice = f"{format_key_hint(info.name, *variables)}; -p demo works without a key"
        raise ConfigError(f"no API key for {info.name}", advice)
    return remove_unusable_keys(app, info.name, key, origin)


def remove_unusable_keys(app: AppContext, provider_name: str, key: str, origin: str) -> str:
    """Return the keys that can be sent, separated by "|", and print a notice about the others.

    Raises:
        ConfigError: none can be sent.
    """
    problems = {each: find_key_problem(each) for each in key.split("|")}
    usable_keys = [each for each, problem in problems.items() if not problem]
    problem = next(filter(None, problems.values()), "")
    if problem and not any(usable_keys):
        is_saved = origin in (KEYRING, str(app.key_store.path))
        hint = f"run `ask keys set {provider_name}` again" if is_saved else "set it to the key alone"
        raise ConfigError(f"the key for {provider_name} in {origin} {problem}", hint)
    if problem:
        app.console.print_notice(f"left out a key for {provider_name} in {origin}: it {problem}")
    return "|".join(usable_keys)


def requires_key(app: AppContext, info: ProviderInfo, base_url: str) -> bool:
    """Check whether requests to a provider need a key.

    A local server needs one only if config.toml names its variable.
    """
    configured = "key_env" in app.config.get_provider(info.name)
    return info.needs_key and (configured or not is_local_url(base_url))


def format_key_hint(provider_name: str, variable: str = "", *_: str) -> str:
    """Tell the user how to set a provider's key."""
    return f"set {variable or format_variable_prefix(provider_name) + '_API_KEY'} or run `ask keys set {provider_name}`"


def resolve_base_url(app: AppContext, info: ProviderInfo) -> str:
    """Return a provider's base URL from environment, configuration or its own default."""
    return find_base_url(app, info)[0]


def find_base_url(app: AppContext, info: ProviderInfo, option: str = "") -> tuple[str, str]:
    """Return a provider's base URL and where it is set, as messages name it."""
    environment, prefix = app.environment, format_variable_prefix(info.name)
    variables = (f"{prefix}_BASE_URL", f"{prefix}_API_BASE")  # the second is the name in older SDKs and in LiteLLM
    for origin, value in (("--base-url", option), *((name, environment.get(name, "")) for name in variables)):
        if value.strip():
            return repair_base_url(value), origin
    for variable in info.base_url_env:
        if value := environment.get(variable, "").strip():
            return complete_base_url(value, info.base_url), variable
    if value := app.config.get_provider(info.name).get("base_url", ""):
        return repair_base_url(value), f"base_url in [providers.{info.name}] of config.toml"
    return info.base_url, ""


def create_client(
    endpoint: ModelEndpoint,
    notify: Callable[[str], None],
    settings: Settings,
    redactor: Redactor = NO_SECRETS,
    on_headers: Callable[[Mapping[str, str]], None] | None = None,
    *,
    output_format: str = "",
    shows_text: bool = True,
    adjustments: RequestAdjustments | None = None,
) -> ProviderClient:
    """Create a client for an endpoint, which records requests or replays a recording if the settings say so.

    Args:
        endpoint: the provider and model.
        notify: called with notices for the user, such as retries.
        settings: the settings of the run.
        redactor: removes secrets from requests and answers.
        on_headers: called with the headers of each response.
        output_format: the format of the answers, as in `RunRequest`, for a recording.
        shows_text: whether the text of an answer is shown while it arrives.
        adjustments: what refusals have shown about the model, if several clients share it.
    """
    client_class: Callable[..., ProviderClient] = ProviderClient
    if settings.record or settings.replay:
        from ask.client.recording import RecordingClient, ReplayClient

        recording_class = RecordingClient if settings.record else ReplayClient
        client_class = partial(recording_class, settings.record or settings.replay, settings.system, output_format)
    timeout = settings.timeout or endpoint.provider.info.stall_timeout

    def open_transport() -> Transport:
        from ask.client.transport import Transport

        return Transport(endpoint.base_url, timeout, endpoint.preconnection)

    if endpoint.chat_fallback:
        endpoint.chat_fallback.set_limits(timeout, notify)
    return client_class(
        endpoint.provider.with_limits(timeout, notify),
        open_transport,
        endpoint.key,
        key_origin=endpoint.key_origin,
        tries=settings.tries,
        backoff=settings.backoff,
        on_notice=notify,
        redactor=redactor,
        chat_fallback=endpoint.chat_fallback,
        on_headers=on_headers,
        shows_text=shows_text,
        given_options=settings.given_options,
        adjustments=adjustments,
    )


def fetch_first_model(endpoint: ModelEndpoint, notify: Callable[[str], None], settings: Settings) -> str:
    """Return the first model that a provider lists. Local servers list installed models.

    Raises:
        ConfigError: it lists none.
        AskError: the list cannot be fetched.
    """
    if settings.replay:
        from ask.client.recording import find_recorded_model

        return find_recorded_model(settings.replay, endpoint.provider_name)
    models = create_client(endpoint, notify, settings).list_models()
    if not models:
        advice = endpoint.provider.info.no_models_hint or (
            f"pass one with -m (ask models -p {endpoint.provider_name} lists them)"
        )
        raise ConfigError(f"{endpoint.provider_name} has no models", advice)
    return models[0].id
