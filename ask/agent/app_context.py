"""The environment of a command: the user's folders, configuration, API keys and plugins, and the console."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from functools import cached_property
from typing import TYPE_CHECKING

from ask.console import StderrConsole
from ask.secrets import KeyStore, Secrets
from ask.settings import AppDirs, Config, read_usable_config

if TYPE_CHECKING:
    from ask.client.prices import PriceFinder
    from ask.plugin_api.loader import PluginIndex
    from ask.safety.approval_store import ApprovalStore


class AppContext:
    """The user's folders, configuration, keys and plugins, read on first use.

    Attributes:
        console: standard error.
        cleanup: is closed at the end of the command, and ends what was started.
        replay_file: the recording that answers all requests; "" for none.
        needs_keys: whether requests will be sent. If it is false, the keys of providers are not retrieved, so that no
            key command runs.
        used_keys: the keys of the models to ask, which may be given as an option.
    """

    def __init__(
        self, environment: Mapping[str, str] = os.environ, *, quiet: bool = False, plain: bool = False
    ) -> None:
        self.environment = dict(environment)  # `os.environ` decodes a value each time it is read
        self.console = StderrConsole(environment, quiet=quiet, plain=plain)
        self.cleanup = ExitStack()
        self.replay_file = environment.get("ASK_REPLAY", "")
        self.needs_keys = not self.replay_file
        self.used_keys: set[str] = set()
        self._secret_keys: set[str] = set()
        self._secrets: Secrets | None = None

    @cached_property
    def app_dirs(self) -> AppDirs:
        return AppDirs.from_environment(self.environment)

    @cached_property
    def config(self) -> Config:
        return read_usable_config(self.app_dirs.config_file)

    @cached_property
    def key_store(self) -> KeyStore:
        return KeyStore(self.app_dirs.keys_file, self.environment, self.config.providers)

    @cached_property
    def plugins(self) -> PluginIndex:
        """The installed plugins."""
        from ask.plugin_api.loader import find_plugins

        return find_plugins(self.app_dirs.cache / "plugins.json")

    @cached_property
    def approvals(self) -> ApprovalStore:
        """The approvals of this run, and those remembered from earlier ones."""
        from ask.safety.approval_store import ApprovalStore

        return ApprovalStore(self.app_dirs.approvals_file)

    @cached_property
    def price_finder(self) -> PriceFinder:
        from ask.client.prices import PriceFinder

        return PriceFinder(self.app_dirs.cache)

    @property
    def provider_names(self) -> list[str]:
        """The sorted names of all providers, installed or configured in config.toml."""
        configured = (name for name, table in self.config.providers.items() if "base_url" in table)
        return sorted({*self.plugins.providers, *configured})

    def notify(self, text: str) -> None:
        """Print a notice about a plugin for the user."""
        self.console.print_notice(self.collect_secrets().redact(text))

    def collect_secrets(self) -> Secrets:
        """Collect the secrets known so far, for redaction and for the environment of child processes.

        These are the API keys, and the tokens of sign-ins to MCP servers.
        """
        keys = {*self.key_store.list_known_keys(), *self.used_keys}
        if self.app_dirs.sign_ins.is_dir():
            from ask.mcp.sign_in_store import list_tokens

            keys |= {*list_tokens(self.app_dirs.sign_ins)}
        if self._secrets is None or keys != self._secret_keys:
            variables = [table["key_env"] for table in self.config.providers.values() if "key_env" in table]
            self._secret_keys = keys
            self._secrets = Secrets(self.provider_names, variables, keys, self.environment)
        return self._secrets
