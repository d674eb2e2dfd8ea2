"""The environment of a command: the user's folders, configuration, API keys and plugins, and the console."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from ask.config.base_url import is_local_url
from ask.config.config_file import Config, read_config
from ask.config.directories import AppDirs
from ask.config.secrets import KeyStore, Secrets, format_variable_prefix, list_key_variables, list_sign_in_tokens
from ask.console import StderrConsole

if TYPE_CHECKING:
    from ask.plugin_api.loader import PluginIndex


T = TypeVar("T")
LOCAL_PROVIDERS = ("lmstudio", "ollama")


class AppContext:
    """The user's folders, configuration, keys and plugins, read on first use.

    Attributes:
        console: standard error.
        cleanup: is closed at the end of the command, and ends what was started.
        replay_file: the recording that answers all requests; "" for none.
        needs_keys: whether requests will be sent. If it is false, the keys of providers are not retrieved, so that no
            key command runs.
        used_keys: the keys of the models to ask, which may be given as an option.
        local_keys: those of them that are sent to this machine or network.
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
        self.local_keys: set[str] = set()
        self._secret_keys: set[str] = set()
        self._shared: dict[Callable[[AppContext], Any], Any] = {}
        self._secrets: Secrets | None = None

    @cached_property
    def app_dirs(self) -> AppDirs:
        return AppDirs.from_environment(self.environment)

    @cached_property
    def config(self) -> Config:
        return read_config(self.app_dirs.config_file)

    @cached_property
    def key_store(self) -> KeyStore:
        return KeyStore(self.app_dirs.keys_file, self.environment, self.config.providers)

    @cached_property
    def plugins(self) -> PluginIndex:
        """The installed plugins."""
        from ask.plugin_api.loader import find_plugins

        return find_plugins(self.app_dirs.cache / "plugins.json")

    def share(self, create: Callable[[AppContext], T]) -> T:
        """Return the object that `create` makes for this command; it is only created once."""
        if create not in self._shared:
            self._shared[create] = create(self)
        shared: T = self._shared[create]
        return shared

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
            keys |= {*list_sign_in_tokens(self.app_dirs.sign_ins)}
        if self._secrets is None or keys != self._secret_keys:
            variables = [table["key_env"] for table in self.config.providers.values() if "key_env" in table]
            self._secret_keys = keys
            local_keys = {*self.local_keys, *self._list_local_keys()}
            self._secrets = Secrets(self.provider_names, variables, keys, self.environment, local_keys)
        return self._secrets

    def _list_local_keys(self) -> Iterator[str]:
        """Yield the keys that the environment sets for services on this machine or network."""
        for name in self.provider_names:
            table = self.config.get_provider(name)
            base_url = self.environment.get(f"{format_variable_prefix(name)}_BASE_URL") or table.get("base_url", "")
            if is_local_url(base_url) or (name in LOCAL_PROVIDERS and not base_url):
                for variable in (table.get("key_env", ""), *list_key_variables(name)):
                    yield self.environment.get(variable, "").strip()
