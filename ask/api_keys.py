"""API keys: where they are found and kept, and how they stay out of everything that leaves the program."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from ask.atomic_files import lock_file, write_private_file
from ask.errors import ConfigError, FileError
from ask.redaction import Redactor
from ask.settings import read_toml

MIN_SECRET_LENGTH = 8
SECRET_NAME_PATTERN = re.compile(r"TOKEN|SECRET|PASSWORD|_KEY$", re.IGNORECASE)
"""Matches the names of environment variables that look like secrets."""
BOOLEAN_WORDS = ("disabled",)
"""Words for yes and no that have `MIN_SECRET_LENGTH` characters or more."""
VENDOR_NAMES = (
    *("OPENROUTER", "OPENAI", "ANTHROPIC", "DEEPSEEK", "MOONSHOT", "XAI", "GROK", "GEMINI", "GOOGLE"),
    *("OLLAMA", "LMSTUDIO"),
    *("BRAVE", "TAVILY"),
)
"""Vendors whose keys are known as `<NAME>_API_KEY` whether or not their provider is installed; two search the web."""


class KeyStore:
    """The keys in the environment and in keys.toml. The environment comes first.

    Args:
        path: keys.toml; it need not exist.
        environment: the process's environment.
    """

    def __init__(self, path: Path, environment: Mapping[str, str]) -> None:
        self.path = path
        self._environment = environment

    def read_saved_keys(self) -> dict[str, str]:
        """The keys in keys.toml, by provider.

        Raises:
            ConfigError: the file cannot be read, or holds anything but strings.
        """
        keys = read_toml(self.path)
        for name, value in keys.items():
            if not isinstance(value, str):
                raise ConfigError(f"{self.path}: {name} must be a string")
        return keys

    def find(self, name: str, variables: Iterable[str] = ()) -> tuple[str, str]:
        """A provider's key, and where it is from: an environment variable's name or the file; ("", "") for none.

        `key_variables` are those that the provider names; `<NAME>_API_KEY` and `AI_<NAME>_API_KEY` always count.
        """
        for variable in dict.fromkeys((*variables, *list_key_variables(name))):
            value = self._environment.get(variable, "").strip()
            if value:
                return value, variable
        value = self.read_saved_keys().get(name, "").strip()
        return (value, str(self.path)) if value else ("", "")

    def save(self, name: str, key: str) -> None:
        """Save a key, or remove the saved one if it is "", in a file that only the user can read.

        Raises:
            FileError: it cannot be written.
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


class Secrets:
    """The values that are replaced in everything that is sent, shown or stored.

    These are the keys of all known providers, which child processes do not get either, and the values of other
    environment variables whose names look like secrets, which they do get.

    Args:
        names: the providers that are known, installed or configured.
        variables: further environment variables that hold keys.
        values: further keys: stored ones, and one given as an option.
        environment: the process's environment.

    Attributes:
        redactor: replaces those of 8 characters or more.
    """

    def __init__(
        self,
        provider_names: Iterable[str],
        key_variables: Iterable[str],
        values: Iterable[str],
        environment: Mapping[str, str],
    ) -> None:
        known = {variable for name in (*provider_names, *VENDOR_NAMES) for variable in list_key_variables(name)}
        self._key_variables = known.union(key_variables)
        self._environment = environment
        in_environment = (environment.get(variable, "") for variable in self._key_variables)
        keys = {key.strip() for value in (*in_environment, *values) for key in (value, *value.split("|"))}
        keys |= {value.strip() for name, value in environment.items() if is_secret(name, value.strip())}
        self.redactor = Redactor(key for key in keys if len(key) >= MIN_SECRET_LENGTH)

    def redact(self, text: str) -> str:
        """Replace the secrets in a text."""
        return self.redactor.redact(text)

    def build_child_environment(self) -> dict[str, str]:
        """The environment for child processes: all but the keys."""
        return {name: value for name, value in self._environment.items() if name not in self._key_variables}


def is_secret(name: str, value: str) -> bool:
    """Return whether an environment variable holds a secret, judged by its name and the form of its value."""
    if not SECRET_NAME_PATTERN.search(name) or len(value) < MIN_SECRET_LENGTH or value.lower() in BOOLEAN_WORDS:
        return False
    try:
        float(value.replace(",", ""))
    except ValueError:
        return not is_path(value)
    return False


def is_path(value: str) -> bool:
    """Return whether a value is a path: by how it begins, or because the file or its outermost folder exists.

    A random key may begin with a slash too.
    """
    if value.startswith(("~/", "./", "../", "file:")) or os.path.lexists(value):
        return True
    folder = "/".join(value.split("/", 2)[:2])
    return value.startswith("/") and folder != value and os.path.isdir(folder)


def format_variable_prefix(name: str) -> str:
    """What the names of a provider's environment variables begin with."""
    return name.upper().replace("-", "_")


def list_key_variables(name: str) -> tuple[str, str]:
    """The environment variables in which a provider's key is looked for whatever it says itself."""
    return f"{format_variable_prefix(name)}_API_KEY", f"AI_{format_variable_prefix(name)}_API_KEY"
