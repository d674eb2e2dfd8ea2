"""Selection of OpenAI's API, Responses or Chat Completions, by the key `api` of a provider's table in config.toml."""

from __future__ import annotations

from collections.abc import Mapping

from ask.errors import ConfigError
from ask.plugin_api.chat_completions import STANDARD_MEDIA_TYPES, ChatCompletions
from ask.plugin_api.loaded_provider import LoadedProvider
from ask.plugin_api.loader import check_provider
from ask.plugin_api.provider import Provider
from ask.plugin_api.responses import Responses


def create_configured_provider(name: str, table: Mapping[str, str]) -> LoadedProvider:
    """Create the provider that a table in config.toml describes."""
    chat = ChatCompletions(
        name=name,
        base_url=table["base_url"],
        key_env=table.get("key_env", ()),
        default_model=table.get("model", ""),
        needs_key="key_env" in table,
        attachments=STANDARD_MEDIA_TYPES,  # a service that does not support them reports an error
    )
    provider = Responses(chat) if table.get("api") == "responses" else chat
    return check_provider(provider, name, "config.toml")


def select_api(provider: LoadedProvider, api: str) -> LoadedProvider:
    """Return a provider on "responses" or "chat", whichever its default is.

    Raises:
        ConfigError: the service has an API of its own.
    """
    plugin, name = provider.plugin, provider.info.name
    selected: Provider | None = None
    if isinstance(plugin, Responses):
        selected = plugin if api == "responses" else plugin.chat
    elif isinstance(plugin, ChatCompletions):
        selected = Responses(plugin) if api == "responses" else plugin
    if selected is None:
        raise ConfigError(f"{name} has an API of its own", f"remove api from [providers.{name}] in config.toml")
    return provider if selected is plugin else check_provider(selected, name, "config.toml")
