"""Where API keys are set: in variables, by key commands, in keys.toml and in the system keyring."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from ask.config.config_file import read_toml
from ask.errors import ConfigError
from ask.messages import EMPTY_MAPPING

KEY_COMMAND, KEYRING = "key_command in config.toml", "the system keyring"
"""Where a key is set, if it is neither in a variable nor in keys.toml."""
SIGNED_IN = "ask login"
"""Where the key is from if the user has signed in: it is the access token of `ask.config.logins`."""
SIGN_IN_PROVIDERS = ("chatgpt",)
"""The providers to which users sign in; `ask.config.sign_in_services` describes the services."""


class KeyStore:
    """API keys from the environment, key commands, and then keys.toml, which need not exist.

    keys.toml contains the key itself, or `NAME = { keyring = true }` for a key in the system keyring.

    Args:
        path: keys.toml.
        environment: the environment of this process.
        tables: the tables of providers in config.toml, by provider, which may name a variable or a key command.
    """

    def __init__(
        self, path: Path, environment: Mapping[str, str], tables: Mapping[str, Mapping[str, str]] = EMPTY_MAPPING
    ) -> None:
        self.path = path
        self._environment = environment
        self._tables = tables
        self._retrieved_keys: dict[tuple[str, str], str] = {}
        """Keys from commands and the keyring, by origin and provider."""
        self._renewed_names: set[str] = set()
        """The providers whose key in keys.toml has changed since it was rejected."""
        self._renewal_lock = threading.Lock()

    def read_saved_keys(self) -> dict[str, str | None]:
        """Read the keys in keys.toml, by provider; None for a key that is in the system keyring.

        Raises:
            ConfigError: the file cannot be read, or contains something else.
        """
        return {name: self._parse_key(name, value) for name, value in read_toml(self.path).items()}

    def _parse_key(self, name: str, value: Any) -> str | None:
        if value == {"keyring": True}:
            return None
        if isinstance(value, str):
            return value
        failure = f"{self.path}: {name} must be a string or {{ keyring = true }}"
        raise ConfigError(failure, f"save the key again with ask keys set {name}")

    def list_saved_names(self) -> list[str]:
        """Return the providers that keys.toml has an entry for, even if it is invalid."""
        return [*read_toml(self.path)]

    @cached_property
    def _saved_values(self) -> dict[str, Any]:
        """The content of keys.toml. An invalid value is an error once that key is used."""
        return read_toml(self.path)

    def reload(self) -> None:
        """Read keys.toml again, which another process may have changed."""
        self._saved_values = read_toml(self.path)

    def list_known_keys(self) -> list[str]:
        """Return the strings in keys.toml, and the keys that were retrieved from commands and the keyring."""
        saved_keys: list[str] = []
        values = [*self._saved_values.values()]
        for value in values:  # also those within an invalid value
            if isinstance(value, dict | list):
                values += value.values() if isinstance(value, dict) else value
            elif isinstance(value, str) and value:
                saved_keys.append(value)
        return [*saved_keys, *self._retrieved_keys.values()]

    def list_variables(self, name: str, default: Iterable[str]) -> list[str]:
        """Return the environment variables that may contain a key: the one in config.toml, else those in `default`."""
        configured = self._tables.get(name, {}).get("key_env")
        return [configured] if configured else [*default]

    def find_origin(self, name: str, variables: Iterable[str] = ()) -> str:
        """Find where a provider's key is set, without running a command or opening the keyring.

        `variables` are the environment variables that the provider names, unless config.toml names one. They are tried
        before `<NAME>_API_KEY` and `AI_<NAME>_API_KEY`. Returns the variable's name, `KEY_COMMAND`, `KEYRING` or the
        path of keys.toml, and "" if there is no key.
        """
        for variable in (*self.list_variables(name, variables), *list_key_variables(name)):
            if self._environment.get(variable, "").strip():
                return variable
        if self._tables.get(name, {}).get("key_command", "").strip():
            return KEY_COMMAND
        value = self._saved_values.get(name, "")
        if value == {"keyring": True}:
            return KEYRING
        return "" if isinstance(value, str) and not value.strip() else str(self.path)

    def find(self, name: str, variables: Iterable[str] = ()) -> tuple[str, str]:
        """Find a provider's key and where it is set, as `find_origin` does. Returns ("", "") if there is no key.

        Raises:
            ConfigError: the provider's key command failed, the keyring cannot be used, or the saved key is no string.
            MissingDependencyError: the package for the keyring is not installed.
        """
        origin = self.find_origin(name, variables)
        if origin in (KEY_COMMAND, KEYRING):
            return self._retrieve(origin, name), origin
        if origin == str(self.path):
            return (self._parse_key(name, self._saved_values[name]) or "").strip(), origin
        return self._environment.get(origin, "").strip(), origin

    def _retrieve(self, origin: str, name: str) -> str:
        if (origin, name) not in self._retrieved_keys:
            from ask.config.external_keys import read_keyring, run_key_command

            key = (
                run_key_command(name, self._tables[name]["key_command"], self._environment)
                if origin == KEY_COMMAND
                else read_keyring(name)
            )
            self._retrieved_keys[origin, name] = key
        return self._retrieved_keys[origin, name]

    def renew(self, name: str, rejected_key: str) -> str:
        """Return another key than the rejected one of a provider, from its key command or from keys.toml.

        It is the key that the command has printed since for another thread, or prints now, or that the user has saved
        since; "" if there is no other. If `rejected_key` is "", it is the latest one known, and "" if there is none.

        Raises:
            ConfigError: the key command failed, or keys.toml cannot be read.
        """
        with self._renewal_lock:
            if self.find_origin(name) != KEY_COMMAND:
                if rejected_key:
                    self.reload()
                saved_key = (self._parse_key(name, self._saved_values.get(name, "")) or "").strip()
                if rejected_key and rejected_key not in saved_key:  # one of several may have been left out
                    self._renewed_names.add(name)
                latest = saved_key if name in self._renewed_names else ""
            else:
                latest = self._retrieved_keys.get((KEY_COMMAND, name), "")
                if rejected_key and latest in ("", rejected_key):
                    self._retrieved_keys.pop((KEY_COMMAND, name), None)
                    latest = self._retrieve(KEY_COMMAND, name)
        return "" if latest == rejected_key else latest

    def save(self, name: str, key: str, *, in_keyring: bool = False) -> None:
        """Save a key in a file that only the user can read, or in the system keyring. An empty `key` removes it.

        Raises:
            ConfigError: the keyring cannot be used.
            FileError: the file cannot be written.
            MissingDependencyError: the package for the keyring is not installed.
        """
        import tomli_w

        from ask.atomic_files import convert_write_errors, lock_file, write_private_file

        with lock_file(self.path):
            values = read_toml(self.path)
            if in_keyring or values.get(name) == {"keyring": True}:
                from ask.config.external_keys import write_keyring

                write_keyring(name, key if in_keyring else "")
            values[name] = {"keyring": True} if in_keyring else key
            if not key:
                del values[name]
            with convert_write_errors(self.path):
                write_private_file(self.path, tomli_w.dumps(values).encode(), durable=True)
            self._saved_values = values


def format_variable_prefix(name: str) -> str:
    """Return the prefix of a provider's environment variables."""
    return name.upper().replace("-", "_")


def list_key_variables(name: str) -> tuple[str, str]:
    """Return the environment variables that always count as a provider's key."""
    return f"{format_variable_prefix(name)}_API_KEY", f"AI_{format_variable_prefix(name)}_API_KEY"
