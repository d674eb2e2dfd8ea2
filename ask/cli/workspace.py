"""The installation as one user sees it: folders, configuration, keys and providers; and the choice among these."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import NamedTuple

import click

from ask.chat_completions import ChatCompletions
from ask.config import Config, Places, Settings, read_config
from ask.errors import AskError, ConfigError, unforeseen
from ask.exchange import Exchange
from ask.keys import KeyStore, Secrets, stem
from ask.plugins import Claim, LoadedProvider, check_provider, find_claims, load_provider
from ask.render.streams import Console
from ask.transport import Transport

FIRST_CHOICE = "openrouter"


class Target(NamedTuple):
    """A provider with all that a request to it needs."""

    provider: LoadedProvider
    model: str
    base_url: str
    key: str

    @property
    def name(self) -> str:
        """The provider's name."""
        return self.provider.info.name


class Workspace:
    """What is installed and configured, read when it is first needed.

    Args:
        environment: the process's environment.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self.environment = environment

    @cached_property
    def places(self) -> Places:
        """Where files live."""
        return Places.find(self.environment)

    @cached_property
    def config(self) -> Config:
        """What config.toml says."""
        return read_config(self.places.config / "config.toml")

    @cached_property
    def keys(self) -> KeyStore:
        """The API keys."""
        return KeyStore(self.places.config / "keys.toml", self.environment)

    @cached_property
    def claims(self) -> dict[str, tuple[Claim, ...]]:
        """The installed providers."""
        return find_claims(self.places.cache / "plugins.json")

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
            return load_provider(self.claims[name])
        table = self.config.provider(name)
        if "base_url" in table:
            described = ChatCompletions(
                name=name,
                base_url=table["base_url"],
                key_env=table.get("key_env", ()),
                default_model=table.get("model", ""),
                needs_key="key_env" in table,
            )
            return check_provider(described, name, "config.toml")
        nearest = difflib.get_close_matches(name, self.names, 1)
        hint = f"did you mean {nearest[0]}? " if nearest else ""
        raise ConfigError(f"there is no provider {name!r}", f"{hint}installed are {', '.join(self.names)}")

    def choose(
        self, provider: str | None, model: str | None, base_url: str | None = None, key: str | None = None
    ) -> Target:
        """The provider and model to use, from flags, environment and configuration, in that order.

        Raises:
            ConfigError: no such provider, no key, or no model.
        """
        name, model = self._name(provider, model)
        loaded = self.load(name)
        model = model or self.config.provider(name).get("model") or loaded.info.default_model
        return Target(loaded, model, base_url or self.base_url(loaded), key or self._key(loaded))

    def base_url(self, loaded: LoadedProvider) -> str:
        """Where a provider's requests go: as environment, configuration or its own word says, in that order."""
        name = loaded.info.name
        variable = f"{stem(name)}_BASE_URL"
        return self.environment.get(variable) or self.config.provider(name).get("base_url") or loaded.info.base_url

    def key_variables(self, name: str, own: tuple[str, ...] = ()) -> tuple[str, ...]:
        """The environment variables that may hold a provider's key: as configured, or else its `own`."""
        configured = self.config.provider(name).get("key_env")
        return (configured,) if configured else own

    def _name(self, provider: str | None, model: str | None) -> tuple[str, str]:
        """The provider's name, and the model where one was named for it."""
        if provider:
            return provider, model or self._model_for(provider, named=True)
        if model:
            prefix, colon, rest = model.partition(":")
            if colon and prefix in self.names:
                return prefix, rest
        name = self.environment.get("ASK_PROVIDER") or self.config.get("provider") or self._first_with_key()
        return name, model or self._model_for(name, named=False)

    def _model_for(self, name: str, *, named: bool) -> str:
        """The model of environment or configuration, each only for the provider that is set beside it.

        One that is set without a provider is for the provider that comes about where none is `named`.
        """
        for provider, model in (
            (self.environment.get("ASK_PROVIDER"), self.environment.get("ASK_MODEL")),
            (self.config.get("provider"), self.config.get("model")),
        ):
            if model and (provider == name or not (provider or named)):
                return str(model)
            named = named or bool(provider)
        return ""

    def _first_with_key(self) -> str:
        for name in (FIRST_CHOICE, *self.names):
            if self.keys.find(name, self.key_variables(name))[0]:
                return name
        raise ConfigError("no provider has a key", f"{how_to_set(FIRST_CHOICE)}, or try -p demo, which needs none")

    def _key(self, loaded: LoadedProvider) -> str:
        name = loaded.info.name
        variables = self.key_variables(name, loaded.info.key_env)
        key, _ = self.keys.find(name, variables)
        if not key and loaded.info.needs_key:
            raise ConfigError(f"no key for {name}", f"{how_to_set(name, *variables)}, or try -p demo, which needs none")
        return key

    def secrets(self, *further: str) -> Secrets:
        """All keys there are, to be kept out of everything."""
        variables = [table["key_env"] for table in self.config.providers.values() if "key_env" in table]
        return Secrets(self.names, variables, (*self.keys.stored().values(), *further), self.environment)


def how_to_set(name: str, variable: str = "", *_: str) -> str:
    """How a user gives a provider its key."""
    return f"set {variable or stem(name) + '_API_KEY'} or run `ask keys set {name}`"


def open_exchange(target: Target, notice: Callable[[str], None], settings: Settings) -> Exchange:
    """Make a provider ready to be asked; `notice` takes what there is to say meanwhile."""
    with target.provider.faults:
        adapter = target.provider.hooks.provider_adapter()
    transport = Transport(target.base_url, settings.timeout, adapter)
    return Exchange(
        target.provider, transport, target.key, tries=settings.tries, backoff=settings.backoff, notice=notice
    )


@contextmanager
def reporting(console: Console, *, verbose: bool) -> Iterator[None]:
    """Takes the keys out of an error on its way up, gives an unforeseen one a message, and shows where it arose."""
    try:
        yield
    except (BrokenPipeError, click.ClickException, click.exceptions.Exit):
        raise
    except Exception as fault:  # noqa: BLE001 - whatever it is, no key may be in it
        if verbose:
            console.line(traceback_of(fault))
        failure = fault if isinstance(fault, AskError) else unforeseen(fault)
        failure.message, failure.advice = console.redact(failure.message), console.redact(failure.advice)
        raise failure from None


def traceback_of(fault: Exception) -> str:
    """Where an exception arose."""
    import traceback

    return "".join(traceback.format_exception(fault)).rstrip()
