"""The installation as one user sees it: folders, configuration, keys and providers. The choice is `target`'s."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from ask.api_keys import KeyStore, Secrets
from ask.console import Console
from ask.errors import ConfigError
from ask.plugin_api.chat_completions import USUAL_ATTACHMENTS, ChatCompletions
from ask.plugin_api.loader import Claim, Found, LoadedProvider, check_provider, find_plugins, load_provider
from ask.settings import Config, Places, read_config


class Workspace:
    """What is installed and configured, read when it is first needed.

    Args:
        environment: the process's environment.
        quiet: do not report plugins that load slowly or print something.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ, *, quiet: bool = False) -> None:
        self.environment = environment
        self._quiet = quiet

    @cached_property
    def places(self) -> Places:
        """Where files live."""
        return Places.find(self.environment)

    @property
    def history(self) -> Path:
        """The file of saved conversations."""
        return self.places.history

    @property
    def config_file(self) -> Path:
        """Where config.toml is."""
        return self.places.config / "config.toml"

    @property
    def prompts(self) -> Path:
        """The folder of the user's own named prompts."""
        return self.places.config / "prompts"

    @property
    def results(self) -> Path:
        """The folder of results that are too long for a model."""
        return self.places.data / "results"

    @cached_property
    def config(self) -> Config:
        """What config.toml says."""
        return read_config(self.config_file)

    @cached_property
    def keys(self) -> KeyStore:
        """The API keys."""
        return KeyStore(self.places.config / "keys.toml", self.environment)

    @cached_property
    def plugins(self) -> Found:
        """What is installed."""
        return find_plugins(self.places.cache / "plugins.json")

    @property
    def claims(self) -> dict[str, tuple[Claim, ...]]:
        """The installed providers."""
        return self.plugins.providers

    @property
    def tool_plugins(self) -> dict[str, tuple[Claim, ...]]:
        """The installed distributions with tools."""
        return self.plugins.tools

    @property
    def names(self) -> list[str]:
        """The names of all providers, installed or configured, sorted."""
        return sorted({*self.claims, *(name for name, table in self.config.providers.items() if "base_url" in table)})

    def load(self, name: str) -> LoadedProvider:
        """The provider of that name.

        Raises:
            ConfigError: there is none, or it is broken.
        """
        if name in self.claims:
            return load_provider(self.claims[name], self.notify)
        table = self.config.provider(name)
        if "base_url" in table:
            described = ChatCompletions(
                name=name,
                base_url=table["base_url"],
                key_env=table.get("key_env", ()),
                default_model=table.get("model", ""),
                needs_key="key_env" in table,
                attachments=USUAL_ATTACHMENTS,  # whether it takes them is for the service to say
            )
            return check_provider(described, name, "config.toml")
        from ask.suggestions import suggest

        near = suggest(name, self.names)
        hint = f"did you mean {near}? " if near else ""
        raise ConfigError(f"there is no provider {name!r}", f"{hint}installed are {', '.join(self.names)}")

    def notify(self, text: str) -> None:
        """Report something about a plugin to the user."""
        if not self._quiet:
            redact = self.secrets().redact
            Console(self.environment, quiet=False, plain=False, redact=redact).line(f"ask: {text}")

    def key_variables(self, name: str, own: tuple[str, ...] = ()) -> tuple[str, ...]:
        """The environment variables that may hold a provider's key: as configured, or else its `own`."""
        configured = self.config.provider(name).get("key_env")
        return (configured,) if configured else own

    def secrets(self, *further: str) -> Secrets:
        """All keys there are, to be kept out of everything."""
        variables = [table["key_env"] for table in self.config.providers.values() if "key_env" in table]
        return Secrets(self.names, variables, (*self.keys.stored().values(), *further), self.environment)
