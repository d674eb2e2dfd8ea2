"""The environment of a command: the user's folders, configuration, API keys and plugins, and the console."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cached_property
from importlib import import_module
from typing import Any, TypeVar

from ask.config.base_url import is_local_url, list_url_passwords
from ask.config.config_file import Config, read_config
from ask.config.directories import AppDirs
from ask.config.key_store import KeyStore, format_variable_prefix, list_key_variables
from ask.config.options import RunOptions
from ask.config.secrets import (
    Secrets,
    list_collector_secrets,
    list_header_secrets,
    list_sign_in_tokens,
)
from ask.config.settings import Settings
from ask.console import StderrConsole
from ask.errors import AskError, BrokenOutputError, PluginError, to_ask_error
from ask.plugin_api.installed_plugins import PluginIndex, find_plugins

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
        keeps_loader_processes: whether the process of a loader serves all its calls, as for the rows of `ask map`.
        service_key_variables: the variables that may contain the keys of the services from the table that are used.
        request_approval: asks the program that answers for the user about a tool call, and returns None if it has gone
            away; None to ask on the terminal.
        last_input_time: when the user has last started a run or answered a question, by the monotonic clock.
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
        self.service_key_variables: set[str] = set()
        self.keeps_loader_processes = False
        self.request_approval: Callable[[Any, Any], Any] | None = None
        self.last_input_time = time.monotonic()
        self._notices: set[str] = set()
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
        return find_plugins(self.app_dirs.cache / "plugins.json")

    def read_settings(self) -> Settings:
        """Return the settings of a run without options.

        Raises:
            ConfigError: an environment variable is invalid.
        """
        from ask.config.precedence import resolve_settings

        return resolve_settings(RunOptions(), self.environment, self.config)

    def share(self, create: Callable[[AppContext], T]) -> T:
        """Return the object that `create` makes for this command; it is only created once."""
        if create not in self._shared:
            self._shared[create] = create(self)
        shared: T = self._shared[create]
        return shared

    @property
    def provider_names(self) -> list[str]:
        """The sorted names of all providers, installed or configured in config.toml."""
        names = set(self.plugins.providers)
        for name, table in self.config.providers.items():
            if "base_url" in table:
                names.add(name)
        return sorted(names)

    @cached_property
    def services(self) -> Mapping[str, Mapping[str, Any]]:
        """The rows of the table of services, without those whose names are installed or described in config.toml.

        Reading it takes time, so it is only read for other names and for lists.
        """
        names = self.provider_names
        return {name: row for name, row in load_services().items() if name not in names}

    def has_provider(self, name: str) -> bool:
        """Check whether there is a provider of a name, also in the table of services."""
        return name in self.provider_names or name in self.services

    def notify(self, text: str) -> None:
        """Print a notice about a plugin for the user, once."""
        notice = self.collect_secrets().redact(text)
        if notice not in self._notices:
            self._notices.add(notice)
            self.console.print_notice(notice)

    @contextmanager
    def redact_errors(self, *, verbose: bool) -> Iterator[None]:
        """Redact the errors of a block, and convert unexpected ones to AskError.

        With `verbose`, bugs, also those of plugins, are printed with their traceback.
        """
        try:
            yield
        except BrokenOutputError:
            raise
        except Exception as error:  # noqa: BLE001 - any error may contain a key
            ask_error = to_ask_error(error)
            # Only a bug is converted to AskError itself; errors that users can cause have classes of their own.
            if verbose and (type(ask_error) is AskError or isinstance(error, PluginError)):
                import traceback

                self.console.print_line("".join(traceback.format_exception(error)).rstrip())
            ask_error.redact(self.console.redact)
            raise ask_error from None

    def add_tokens(self, tokens: Collection[str]) -> None:
        """Redact the tokens of a sign-in, which may have been refreshed in the middle of a run."""
        self.used_keys.update(tokens)
        if self._secrets:
            self._secrets.add(tokens)

    def collect_secrets(self) -> Secrets:
        """Collect the secrets known so far, for redaction and for the environment of child processes.

        These are the API keys, and the tokens of sign-ins to providers and MCP servers.
        """
        keys = {*self.key_store.list_known_keys(), *self.used_keys}
        if self.app_dirs.sign_ins.is_dir():
            keys |= {*list_sign_in_tokens(self.app_dirs.sign_ins)}
        if self.app_dirs.logins.is_dir():
            from ask.config.logins import list_login_tokens

            keys |= {*list_login_tokens(self.app_dirs.logins)}
        if self._secrets is None or keys != self._secret_keys:
            names, key_variables, local_keys = self.provider_names, set[str](), {*self.local_keys}
            values, collector_variables = list_collector_secrets(self.environment)
            key_variables |= collector_variables
            for name in names:  # the keys that the environment sets for services on this machine or network
                table = self.config.providers.get(name, {})
                base_url = self.environment.get(f"{format_variable_prefix(name)}_BASE_URL") or table.get("base_url", "")
                for url in {base_url, table.get("base_url", ""), *self.config.base_urls.get(name, ())}:
                    values |= list_url_passwords(url)
                if is_local_url(base_url) or (name in LOCAL_PROVIDERS and not base_url):
                    for variable in (table.get("key_env", ""), *list_key_variables(name)):
                        local_keys.add(self.environment.get(variable, "").strip())
            for table in self.config.providers.values():
                key_variables.add(table.get("key_env", ""))
                header_secrets, variables = list_header_secrets(table.get("headers", {}), self.environment)
                values |= header_secrets
                key_variables |= variables
            key_variables |= self.service_key_variables
            self._secret_keys = keys
            self._secrets = Secrets(names, key_variables, keys | values, self.environment, local_keys)
        return self._secrets


def load_services() -> Mapping[str, Mapping[str, Any]]:
    """Load the table of services that need no plugin, in the form of the tables `[providers.NAME]` of config.toml."""
    services: Mapping[str, Mapping[str, Any]] = import_module("ask_providers.services").SERVICES
    return services
