"""Providers and the endpoints of models: loading them, their base URLs and keys, and clients for them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ask import __distribution__
from ask.app import AppContext, load_services
from ask.config.base_url import (
    add_default_path,
    complete_base_url,
    expand_base_url,
    format_config_origin,
    is_local_url,
    is_same_service,
    list_url_passwords,
    repair_base_url,
)
from ask.config.config_file import VARIABLE_PATTERN
from ask.config.directories import RETIREMENTS_NAME
from ask.config.key_repair import find_key_problem, is_valid_key
from ask.config.key_store import KEYRING, SIGN_IN_PROVIDERS, SIGNED_IN, format_variable_prefix
from ask.config.redaction import NO_SECRETS, Redactor
from ask.config.settings import Settings
from ask.errors import ConfigError
from ask.messages import EMPTY_MAPPING, DecisionQuestion
from ask.plugin_api.installed_plugins import PluginEntry
from ask.plugin_api.loaded_provider import LoadedProvider
from ask.plugin_api.provider import Provider
from ask.plugin_api.provider_loading import check_provider, switch_api
from ask.plugin_api.provider_loading import load_provider as load_plugin
from ask.plugin_api.types import ProviderInfo
from ask.profiles import ModelProfile
from ask.records import NamedTuple
from ask.text import format_suggestion

if TYPE_CHECKING:
    from ask.client.adjustments import RequestAdjustments
    from ask.client.chat_fallback import ChatFallback
    from ask.client.preconnect import Preconnection
    from ask.client.provider_client import ProviderClient
    from ask.client.saved_sign_in import SavedSignIn
    from ask.client.transport import Transport


CALL_ID_PATTERNS = {"": "", "alphanumeric-9": "[a-zA-Z0-9]{9}"}
"""Regular expressions for the forms of call ids in the table of services."""
PROVIDERS_BY_WORD = {"claude": "anthropic", "google": "gemini", "gpt": "openai", "kimi": "moonshot"}
"""Names of services in other programs, with the names of the providers here."""
GATEWAY_STATE_FIELDS = ("reasoning_details",)
"""OpenRouter's field, which other gateways have copied: a service that sends it needs it back for some models."""
HEADER_NAME_PATTERN = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
VENDOR_URLS = (
    *("https://api.openai.com", "https://openai.azure.com"),
    *("https://api.anthropic.com", "https://generativelanguage.googleapis.com"),
)
"""Where an API is its vendor's own, or is run with the vendor's software, as OpenAI's is at Azure."""


API_CLASSES = {"messages": ("ask_providers.anthropic", "Anthropic"), "gemini": ("ask_providers.gemini", "Gemini")}
"""The classes of the APIs that ask has from a built-in provider, by the value of the setting `api`.

Their constructors take a `ProviderInfo`.
"""


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
        is_own_url: whether the base URL is the service's own; see `ChatRequest.is_own_url`.
        other_base_urls: further base URLs of the same service, to use if the server cannot be reached.
        headers: the user's headers, to add to each request.
        renew_key: returns another key than a rejected one, as `KeyStore.renew` does; None for a key that cannot change.
        sign_in: the sign-in whose access token is the key, if the user has signed in.
    """

    provider: LoadedProvider
    model: str
    base_url: str
    key: str
    preconnection: Preconnection | None = None
    key_origin: str = ""
    chat_fallback: ChatFallback | None = None
    is_own_url: bool = True
    other_base_urls: tuple[str, ...] = ()
    headers: Mapping[str, str] = EMPTY_MAPPING
    renew_key: Callable[[str], str] | None = None
    sign_in: SavedSignIn | None = None

    @property
    def base_urls(self) -> tuple[str, ...]:
        return (self.base_url, *self.other_base_urls)

    def prefer_server(self, base_url: str) -> ModelEndpoint:
        """Return the endpoint with one of its base URLs first."""
        others = tuple(url for url in self.base_urls if url != base_url)
        return self._replace(base_url=base_url, other_base_urls=others)

    @property
    def provider_name(self) -> str:
        return self.provider.info.name

    @property
    def full_name(self) -> str:
        """The endpoint as `provider:model`."""
        return f"{self.provider_name}:{self.model}"


def load_provider(app: AppContext, name: str) -> LoadedProvider:
    """Load a provider by its name: an installed plugin, or a service that config.toml or the table describes.

    Raises:
        ConfigError: there is none of that name, or it is broken.
    """
    app.config.check_entry(f"providers.{name}")  # without its table, requests could go to another address
    entries = select_provider_entries(app, name)
    provider = load_plugin(entries, app.notify) if entries else None
    if provider and provider.info.name != name:
        name = provider.info.name
        app.config.check_entry(f"providers.{name}")
    table: Mapping[str, Any] = app.config.providers.get(name, {})
    row: Mapping[str, Any] = EMPTY_MAPPING
    if not provider:
        row = load_services().get(name, row)
        table = {**row, **table, "models": table.get("models")}
        app.service_key_variables.update(row.get("key_env", ()))
    if not provider and "base_url" in table:
        provider = _create_described_provider(name, table, row)
    elif provider and "key_header" in table:
        advice = f"remove key_header from [providers.{name}] in config.toml"
        raise ConfigError(f"{name} is not a described service, so key_header cannot be set", advice)
    elif provider and "api" in table:
        provider = select_api(provider, table["api"])
    if provider and table.get("models"):
        from ask.config.table_checks import parse_models

        return provider.with_profiles(parse_models(table["models"]), ())
    if provider:
        return provider
    raise _make_unknown_error(app, name)


def select_provider_entries(app: AppContext, name: str) -> tuple[PluginEntry, ...]:
    """Return the entry points of a provider; () if it is a service of config.toml, or unknown.

    A built-in provider comes first, then config.toml, then packages: none of them can take over the key and the
    requests of a provider that was there before.
    """
    entries = app.plugins.providers.get(name, ())
    for entry in entries:
        if entry.distribution == __distribution__:
            return (entry,)
    return () if "base_url" in app.config.providers.get(name, {}) else entries


def explain_ignored(app: AppContext, name: str) -> str:
    """Return why providers of packages with this name are not used, and what to do; "" if there is none."""
    entries, used = app.plugins.providers.get(name, ()), select_provider_entries(app, name)
    if entries == used:
        return ""
    packages = " and ".join(entry.distribution for entry in entries if entry not in used)
    ignored = f"the provider {name} of {packages} is not used"
    if not used:
        advice = f"remove base_url there to use the package, whose address {format_variable_prefix(name)}_BASE_URL sets"
        return f"{ignored}, because config.toml has a base_url in [providers.{name}]: {advice}"
    return f"{ignored}, because {name} is built in: uninstall {packages}, or have its authors rename it"


def _make_unknown_error(app: AppContext, name: str) -> ConfigError:
    if entry := next((entry for entry in app.plugins.misplaced if entry.name == name), None):
        return ConfigError(f"unknown provider {name!r}", f"{entry.distribution} is installed, but {entry.explain()}")
    if name in app.config.providers:
        problem = f"unknown provider {name!r}: [providers.{name}] in config.toml has no base_url"
        return ConfigError(problem, f"ask config set providers.{name}.base_url URL adds it")
    all_names = [*app.provider_names, *app.services]
    meant = PROVIDERS_BY_WORD.get(name.lower(), name)
    hint = format_suggestion(meant, all_names, f"use one of {', '.join(app.provider_names)}, or of ask providers --all")
    return ConfigError(f"unknown provider {name!r}", hint)


def report_plugin_output(
    endpoints: Iterable[ModelEndpoint], notify: Callable[[str], None]
) -> AbstractContextManager[None]:
    """Return a context in which the hooks of packages are called in several threads, and their output is reported."""
    names = {endpoint.provider_name for endpoint in endpoints if endpoint.provider.is_third_party}
    if not names:
        return nullcontext()
    from ask.plugin_api.output_capture import report_output

    return report_output(" or ".join(sorted(names)), notify)


def find_provider_origin(app: AppContext, name: str) -> str:
    """Return where a provider comes from, as lists name it: a distribution or config.toml."""
    distributions = [entry.distribution for entry in select_provider_entries(app, name)]
    return ", ".join(distributions) or ("config.toml" if name in app.provider_names else __distribution__)


def list_configured_services(app: AppContext) -> list[str]:
    """List the services of the table that have a key, or to which a setting applies."""
    return [
        name
        for name, row in app.services.items()
        if app.config.providers.get(name)
        or find_key_origin(app, name, row.get("key_env", ()))
        or app.environment.get(f"{format_variable_prefix(name)}_BASE_URL")
    ]


def load_providers(app: AppContext, services: Iterable[str] = ()) -> Iterator[tuple[str, LoadedProvider]]:
    """Load all installed and configured providers and these services, and yield each once with its name.

    A broken plugin causes a notice.
    """
    for name in sorted({*app.provider_names, *services}):
        try:
            provider = load_provider(app, name)
        except ConfigError as error:
            app.notify(str(error))
            continue
        if name == provider.info.name or provider.info.name not in app.provider_names:
            yield name, provider


def _create_described_provider(name: str, table: Mapping[str, Any], row: Mapping[str, Any]) -> LoadedProvider:
    """Create the provider that a table in config.toml describes.

    `row` has what the table of services adds; it is empty for a service that only config.toml describes.
    """
    api, base_url, variables = table.get("api", "chat"), table["base_url"], table.get("key_env", ())
    info: dict[str, Any] = {
        "name": name,
        "title": row.get("title", name),
        "base_url": base_url,
        "default_model": table.get("model", ""),
        "key_env": (variables,) if isinstance(variables, str) else tuple(variables),
        "needs_key": "key_env" in table,
    }
    if row and is_local_url(base_url):
        info["offline_hint"] = f"start {row['title']}, or set {format_variable_prefix(name)}_BASE_URL to its address"
    plugin: Any
    if api in API_CLASSES:
        module, class_name = API_CLASSES[api]
        plugin = getattr(import_module(module), class_name)(ProviderInfo(**info))
        if not is_vendor_url(base_url):
            plugin.has_batches = False
            plugin.error_rules = plugin.common_error_rules
            plugin.requires_signatures = False
            plugin.caches_all_models = row.get("caches_all_models", False)
    else:
        plugin = _create_chat_provider(info, row)
    plugin.key_header = table.get("key_header", plugin.key_header)
    if not re.fullmatch(HEADER_NAME_PATTERN, plugin.key_header):
        problem = f"key_header of {name} is {plugin.key_header!r}, which is not the name of a header"
        raise ConfigError(problem, f"correct it in [providers.{name}] of config.toml")
    if "models" in row:
        rows = [ModelProfile(source=row["page"], **facts) for facts in row["models"]]
        plugin.profiles = (*rows, *plugin.profiles)
    provider = check_provider(plugin, name, __distribution__ if base_url == row.get("base_url") else "config.toml")
    return switch_api(provider, api) if api == "responses" else provider


def _create_chat_provider(info: Mapping[str, Any], row: Mapping[str, Any]) -> Provider:
    from ask.plugin_api.chat_completions import STANDARD_MEDIA_TYPES, ChatCompletions

    # A service that does not support an attachment reports an error.
    chat = ChatCompletions(**info, attachments=row.get("attachments", STANDARD_MEDIA_TYPES))
    chat.call_id_pattern = CALL_ID_PATTERNS[row.get("call_id", "")]
    chat.requests_usage = row.get("requests_usage", True)
    chat.state_fields = row.get("state_fields", GATEWAY_STATE_FIELDS)
    return chat


def is_vendor_url(base_url: str) -> bool:
    """Check whether a base URL is that of the vendor of its API; any other may be a proxy."""
    return any(is_same_service(base_url, url) for url in VENDOR_URLS)


def select_api(provider: LoadedProvider, api: str) -> LoadedProvider:
    """Return a plugin's provider on "responses" or "chat", whichever its default is.

    Raises:
        ConfigError: the service has an API of its own, or the setting is one.
    """
    name = provider.info.name
    if not provider.openai_api:
        advice = f"remove api from [providers.{name}] in config.toml"
        raise ConfigError(f"{name} does not use one of OpenAI's APIs, so api cannot be set", advice)
    if api not in ("responses", "chat"):
        advice = f"describe the service in a table of another name, with base_url and api = {api!r}"
        raise ConfigError(f"api of {name} can only be responses or chat, not {api}", advice)
    return switch_api(provider, api)


def find_key_origin(app: AppContext, name: str, variables: Iterable[str] = ()) -> str:
    """Find where a provider's key is set, as `KeyStore.find_origin` does, or `SIGNED_IN` if the user has signed in."""
    if origin := app.key_store.find_origin(name, variables):
        return origin
    if not (app.app_dirs.logins / f"{name}.json").exists():  # before an import
        return ""
    from ask.client.saved_sign_in import is_signed_in

    return SIGNED_IN if is_signed_in(app.app_dirs.logins, name, app.environment) else ""


def open_sign_in(app: AppContext, provider_name: str) -> SavedSignIn:
    """Return the sign-in to a provider, which all requests of this command share."""
    from ask.client.saved_sign_in import SavedSignIn

    sign_ins = app.share(_create_sign_ins)
    if provider_name not in sign_ins:
        sign_ins[provider_name] = SavedSignIn(
            app.app_dirs.logins,
            provider_name,
            app.environment,
            notify=app.notify,
            on_tokens=lambda tokens: app.add_tokens(tokens[:2]),
        )
    return sign_ins[provider_name]


def _create_sign_ins(app: AppContext) -> dict[str, SavedSignIn]:
    return {}


def resolve_key(app: AppContext, info: ProviderInfo, base_url: str) -> tuple[str, str]:
    """Return a provider's key and where it is set; "" if there is none and none is needed, or no request will be sent.

    The access token of a sign-in may have expired: each request gets a valid one.

    Raises:
        AskError: it needs a key and has none, or the key cannot be retrieved.
    """
    if app.replay_file:
        return "", ""
    if app.needs_keys:
        key, origin = app.key_store.find(info.name, info.key_env)
    else:
        key, origin = "", app.key_store.find_origin(info.name, info.key_env)
    origin = origin or find_key_origin(app, info.name)
    if app.needs_keys and origin == SIGNED_IN:
        return open_sign_in(app, info.name).read_token(), origin
    if not origin and requires_key(app, info, base_url):
        if info.name in SIGN_IN_PROVIDERS:
            from ask.client.saved_sign_in import make_sign_in_error

            raise make_sign_in_error(info.name, app.environment)
        variables = app.key_store.list_variables(info.name, info.key_env)
        advice = f"{format_key_hint(info.name, *variables)}; -p demo works without a key"
        raise ConfigError(f"no API key for {info.name}", advice)
    return remove_unusable_keys(app, info.name, key, origin), origin


def remove_unusable_keys(app: AppContext, provider_name: str, key: str, origin: str) -> str:
    """Return the keys that can be sent, separated by "|", and print a notice about the others.

    Raises:
        ConfigError: none can be sent.
    """
    usable_keys, first_problem = [], ""
    for each in key.split("|"):
        if problem := find_key_problem(each):
            first_problem = first_problem or problem
        else:
            usable_keys.append(each)
    if first_problem and not any(usable_keys):
        is_saved = origin in (KEYRING, str(app.key_store.path))
        hint = f"run `ask keys set {provider_name}` again" if is_saved else "set it to the key alone"
        raise ConfigError(f"the key for {provider_name} in {origin} {first_problem}", hint)
    if first_problem:
        app.console.print_notice(f"left out a key for {provider_name} in {origin}: it {first_problem}")
    return "|".join(usable_keys)


def requires_key(app: AppContext, info: ProviderInfo, base_url: str) -> bool:
    """Check whether requests to a provider need a key.

    A local server, or one with a password in its URL, needs one only if config.toml names its variable.
    """
    configured = "key_env" in app.config.providers.get(info.name, {})
    may_lack_key = is_local_url(base_url) or list_url_passwords(base_url)
    return info.needs_key and (configured or info.name in SIGN_IN_PROVIDERS or not may_lack_key)


def format_key_hint(provider_name: str, variable: str = "", *_: str) -> str:
    """Tell the user how to set a provider's key."""
    return f"set {variable or format_variable_prefix(provider_name) + '_API_KEY'} or run `ask keys set {provider_name}`"


def resolve_base_url(app: AppContext, info: ProviderInfo, option: str = "") -> tuple[str, str]:
    """Return a provider's base URL and where it is set, as messages name it; "" for the provider's default.

    The places in the order in which they count are `--base-url`, `<NAME>_BASE_URL`, the provider's own variables,
    config.toml, and the default.
    """
    prefix, environment = format_variable_prefix(info.name), app.environment
    if option.strip():
        return repair_base_url(option), "--base-url"
    for variable in (f"{prefix}_BASE_URL", f"{prefix}_API_BASE"):  # the second is of older SDKs and LiteLLM
        if (value := environment.get(variable, "")).strip():
            return repair_base_url(value), variable
    for variable in info.base_url_env:
        if value := environment.get(variable, "").strip():
            return complete_base_url(value, info.base_url), variable
    if configured_url := app.config.providers.get(info.name, {}).get("base_url"):
        return repair_base_url(configured_url), format_config_origin(info.name)
    return info.base_url, ""


def list_other_base_urls(app: AppContext, info: ProviderInfo, origin: str) -> tuple[str, ...]:
    """Return the base URLs after the first, if config.toml has several and they apply.

    `origin` is where the first is set, as `resolve_base_url` returns it.

    Raises:
        ConfigError: a variable in one is not set.
    """
    others = app.config.base_urls.get(info.name, ())[1:]
    if not others or origin != format_config_origin(info.name):
        return ()
    expanded = (expand_base_url(info.name, app.environment, repair_base_url(url)) for url in others)
    return tuple(add_default_path(url, info.base_url) for url in expanded)


def resolve_headers(app: AppContext, name: str) -> Mapping[str, str]:
    """Return the headers that config.toml adds to a provider's requests, with the values of their variables.

    A recording needs none.

    Raises:
        ConfigError: a variable is not set, or a header cannot be sent.
    """
    table: Mapping[str, str] = app.config.providers.get(name, {}).get("headers", EMPTY_MAPPING)
    headers: dict[str, str] = {}
    for header, text in () if app.replay_file else table.items():

        def expand(match: re.Match[str], header: str = header) -> str:
            if value := app.environment.get(match[1], "").strip():
                return value
            advice = f"set {match[1]}, or change headers in [providers.{name}] of config.toml"
            raise ConfigError(f"the header {header} of {name} needs {match[1]}, which is not set", advice)

        value = re.sub(VARIABLE_PATTERN, expand, text).strip()
        if not (re.fullmatch(HEADER_NAME_PATTERN, header) and is_valid_key(value)):
            problem = f"the header {header!r} of {name} contains a character that cannot be sent"
            raise ConfigError(problem, f"correct headers in [providers.{name}] of config.toml")
        headers[header] = value
    return headers


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
    questions: Sequence[DecisionQuestion] = (),
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
        questions: the questions that the model decides in each request, instead of writing text.
    """
    timeout = settings.timeout or endpoint.provider.info.stall_timeout

    def open_transport(base_url: str) -> Transport:
        from ask.client.transport import Transport

        preconnection = endpoint.preconnection if base_url == endpoint.base_url else None
        return Transport(base_url, timeout, preconnection, endpoint.headers)

    latest_key = endpoint.renew_key("") if endpoint.renew_key else ""
    provider, chat_fallback = _limit_provider(endpoint, timeout, notify, questions)
    return _select_client_class(settings, output_format)(
        provider,
        partial(open_transport, endpoint.base_url),
        latest_key or endpoint.key,
        key_origin=endpoint.key_origin,
        tries=settings.tries,
        backoff=settings.backoff,
        on_notice=notify,
        redactor=redactor,
        chat_fallback=chat_fallback,
        on_headers=on_headers,
        shows_text=shows_text,
        given_options=settings.given_options,
        adjustments=adjustments,
        other_transports=[partial(open_transport, url) for url in endpoint.other_base_urls],
        renew_key=endpoint.sign_in.get_token if endpoint.sign_in else endpoint.renew_key,
        read_token=endpoint.sign_in.get_token if endpoint.sign_in else None,
        trace_request=_trace_requests(endpoint, settings, notify, redactor) if settings.traces else None,
    )


def _select_client_class(settings: Settings, output_format: str) -> Callable[..., ProviderClient]:
    if not (settings.record or settings.replay):
        from ask.client.provider_client import ProviderClient

        return ProviderClient
    from ask.client.recording import RecordingClient, ReplayClient

    recording_class = RecordingClient if settings.record else ReplayClient
    return partial(recording_class, settings.record or settings.replay, settings.system, output_format)


def _trace_requests(
    endpoint: ModelEndpoint, settings: Settings, notify: Callable[[str], None], redactor: Redactor
) -> Callable[..., Any] | None:
    """Return what sends a request once in a span; None if traces cannot be sent."""
    from ask.traces.lifecycle import open_tracer

    tracer = open_tracer(settings, notify)
    if tracer is None:
        return None
    base_url = "" if endpoint.other_base_urls else endpoint.base_url
    return partial(tracer.trace_request, provider=endpoint.provider_name, base_url=base_url, redactor=redactor)


def _limit_provider(
    endpoint: ModelEndpoint, timeout: float, notify: Callable[[str], None], questions: Sequence[DecisionQuestion]
) -> tuple[LoadedProvider, ChatFallback | None]:
    """Return the provider of a client's requests, and the one on Chat Completions that may replace it."""
    provider, chat_fallback = endpoint.provider.with_limits(timeout, notify), endpoint.chat_fallback
    if chat_fallback:
        chat_fallback.set_limits(timeout, notify)
    if questions:
        from ask.client.decisions import use_decision_api

        if chat_fallback and not provider.get_decision_api(endpoint.model):
            # Compatible servers have logprobs on Chat Completions, and not all of them on the Responses API.
            provider = chat_fallback.provider
        return use_decision_api(provider, endpoint.model, questions), None
    return provider, chat_fallback


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


def report_retirement(endpoint: ModelEndpoint, app: AppContext, notify: Callable[[str], None]) -> None:
    """Report once a day that a model will soon be retired, as far as its profile and cached models lists show."""
    provider, model, cache = endpoint.provider, endpoint.model, app.app_dirs.cache
    if provider.find_profile(model).retirement_date or (cache / RETIREMENTS_NAME).exists():
        from ask.client.retirement import report_once_a_day

        report_once_a_day(provider, model, cache, notify)
