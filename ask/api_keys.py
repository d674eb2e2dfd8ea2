"""API keys: the file that saves them, the environment variables that contain them, and the change to the next one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from ask.atomic_files import lock_file, write_private_file
from ask.errors import AskError, ConfigError, FileError, ProviderError, Remedy
from ask.settings import read_toml

NEXT_KEY_STATUSES = (401, 402, 429)
"""HTTP statuses for an invalid key or exhausted account, after which another key may work."""


class KeyStore:
    """API keys from the environment and then from keys.toml, which need not exist."""

    def __init__(self, path: Path, environment: Mapping[str, str]) -> None:
        self.path = path
        self._environment = environment

    def read_saved_keys(self) -> dict[str, str]:
        """Read the keys in keys.toml, by provider.

        Raises:
            ConfigError: the file cannot be read, or contains a value that is not a string.
        """
        keys = read_toml(self.path)
        for name, value in keys.items():
            if not isinstance(value, str):
                raise ConfigError(f"{self.path}: {name} must be a string")
        return keys

    def find(self, name: str, variables: Iterable[str] = ()) -> tuple[str, str]:
        """Find a provider's key and where it is set: a variable's name or the file's path.

        `variables` are the environment variables that the provider names, tried before `<NAME>_API_KEY` and
        `AI_<NAME>_API_KEY`. Returns ("", "") if there is no key.
        """
        for variable in dict.fromkeys((*variables, *list_key_variables(name))):
            value = self._environment.get(variable, "").strip()
            if value:
                return value, variable
        value = self.read_saved_keys().get(name, "").strip()
        return (value, str(self.path)) if value else ("", "")

    def save(self, name: str, key: str) -> None:
        """Save a key in a file that only the user can read. An empty `key` removes it.

        Raises:
            FileError: the file cannot be written.
        """
        import tomli_w

        with lock_file(self.path):
            keys = {**self.read_saved_keys(), name: key}
            if not key:
                del keys[name]
            try:
                write_private_file(self.path, tomli_w.dumps(keys).encode(), durable=True)
            except OSError as error:
                raise FileError(f"cannot write {self.path} ({error.strerror})") from error


class KeyRotation:
    """The keys of one provider, which are tried in turn.

    Args:
        keys: the keys, separated by "|"; "" for none.
    """

    def __init__(self, keys: str) -> None:
        self._keys = [key.strip() for key in keys.split("|")]

    @property
    def current(self) -> str:
        """The key to use; "" for none."""
        return self._keys[0]

    def switch(self, error: AskError) -> bool:
        """Switch to the next key if there is one and it may help after this error; return whether it did."""
        may_help = isinstance(error, ProviderError) and (
            error.status in NEXT_KEY_STATUSES or error.remedy == Remedy.NEXT_KEY
        )
        if may_help and len(self._keys) > 1:
            del self._keys[0]
            return True
        return False


def format_variable_prefix(name: str) -> str:
    """Return the prefix of a provider's environment variables."""
    return name.upper().replace("-", "_")


def list_key_variables(name: str) -> tuple[str, str]:
    """Return the environment variables that always count as a provider's key."""
    return f"{format_variable_prefix(name)}_API_KEY", f"AI_{format_variable_prefix(name)}_API_KEY"
