"""The installation as one user sees it: folders, configuration, keys and providers. The choice is `target`'s."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from ask.api_keys import KeyStore, Secrets
from ask.console import StderrConsole
from ask.errors import ConfigError
from ask.plugin_api.chat_completions import STANDARD_MEDIA_TYPES, ChatCompletions
from ask.plugin_api.loader import LoadedProvider, PluginEntry, PluginIndex, check_provider, find_plugins, load_provider
from ask.settings import AppDirs, Config, read_config


class AppContext:
    """What is installed and configured, read when it is first needed.

    Args:
        environment: the process's environment.
        quiet: do not report plugins that load slowly or print something.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ, *, quiet: bool = False) -> None:
        self.environment = environment
        self._quiet = quiet

    @cached_property
    def app_dirs(self) -> AppDirs:
        """Where files live."""
        return AppDirs.from_environment(self.environment)

    @property
    def history_file(self) -> Path:
        """The file of saved conversations."""
        return self.app_dirs.history_file

    @property
    def config_file(self) -> Path:
        """Where config.toml is."""
        return self.app_dirs.config / "config.toml"

    @property
    def prompts_directory(self) -> Path:
        """The folder of the user's own named prompts."""
        return self.app_dirs.config / "prompts"

    @property
    def results_directory(self) -> Path:
        """The folder of results that are too long for a model."""
        return self.app_dirs.data / "results"

    @cached_property
    def config(self) -> Config:
        """What config.toml says."""
        return read_config(self.config_file)

    @cached_property
    def key_store(self) -> KeyStore:
        """The API keys."""
        return KeyStore(self.app_dirs.config / "keys.toml", self.environment)

    @cached_property
    def plugins(self) -> PluginIndex:
        """What is installed."""
        return find_plugins(self.app_dirs.cache / "plugins.json")

    @property
    def provider_plugins(self) -> dict[str, tuple[PluginEntry, ...]]:
        """The installed providers."""
        return self.plugins.providers

    @property
    def tool_plugins(self) -> dict[str, tuple[PluginEntry, ...]]:
        """The installed distributions with tools."""
        return self.plugins.tools

    @property
    def provider_names(self) -> list[str]:
        """The names of all providers, installed or configured, sorted."""
        return sorted(
            {*self.provider_plugins, *(name for name, table in self.config.providers.items() if "base_url" in table)}
        )

    def load_provider(self, name: str) -> LoadedProvider:
        """The provider of that name.

        Raises:
            ConfigError: there is none, or it is broken.
        """
        if name in self.provider_plugins:
            return load_provider(self.provider_plugins[name], self.notify)
        table = self.config.get_provider(name)
        if "base_url" in table:
            described = ChatCompletions(
                name=name,
                base_url=table["base_url"],
                key_env=table.get("key_env", ()),
                default_model=table.get("model", ""),
                needs_key="key_env" in table,
                attachments=STANDARD_MEDIA_TYPES,  # whether it takes them is for the service to say
            )
            return check_provider(described, name, "config.toml")
        from ask.suggestions import suggest

        near = suggest(name, self.provider_names)
        hint = f"did you mean {near}? " if near else ""
        raise ConfigError(f"there is no provider {name!r}", f"{hint}installed are {', '.join(self.provider_names)}")

    def notify(self, text: str) -> None:
        """Report something about a plugin to the user."""
        if not self._quiet:
            redact = self.collect_secrets().redact
            StderrConsole(self.environment, quiet=False, plain=False, redact=redact).print_line(f"ask: {text}")

    def find_key_variables(self, name: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        """The environment variables that may hold a provider's key: as configured, or else its `default`."""
        configured = self.config.get_provider(name).get("key_env")
        return (configured,) if configured else default

    def collect_secrets(self, *extra_keys: str) -> Secrets:
        """All keys there are, to be kept out of everything."""
        variables = [table["key_env"] for table in self.config.providers.values() if "key_env" in table]
        return Secrets(
            self.provider_names, variables, (*self.key_store.read_saved_keys().values(), *extra_keys), self.environment
        )
