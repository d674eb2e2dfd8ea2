"""Secrets in the environment: which values are redacted, and which variables child processes do not get."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

from ask.api_keys import list_key_variables
from ask.redaction import Redactor

MIN_SECRET_LENGTH = 8
SECRET_NAME_PATTERN = re.compile(r"TOKEN|SECRET|PASSWORD|_KEY$", re.IGNORECASE)
"""Matches the names of environment variables that look like secrets."""
BOOLEAN_WORDS = ("disabled",)
"""Words for yes or no that have `MIN_SECRET_LENGTH` characters or more."""
VENDOR_NAMES = (
    *("OPENROUTER", "OPENAI", "ANTHROPIC", "DEEPSEEK", "MOONSHOT", "XAI", "GROK", "GEMINI", "GOOGLE"),
    *("OLLAMA", "LMSTUDIO"),
    *("BRAVE", "TAVILY"),
)
"""Vendors whose `<NAME>_API_KEY` counts as a key even if no such provider is installed.

BRAVE and TAVILY are web search engines.
"""


class Secrets:
    """The secret values that are redacted in everything that is sent, shown or stored.

    These are the keys of all known providers, which are also removed from the environment of child processes, and the
    values of other environment variables whose names look like secrets, which child processes do get.

    Args:
        provider_names: the providers that are installed or configured.
        key_variables: further environment variables that contain keys.
        values: further keys, such as saved ones and one given as an option.
        environment: the environment of this process.

    Attributes:
        redactor: replaces the secrets of `MIN_SECRET_LENGTH` characters or more.
    """

    def __init__(
        self,
        provider_names: Iterable[str],
        key_variables: Iterable[str],
        values: Iterable[str],
        environment: Mapping[str, str],
    ) -> None:
        named_variables = {
            variable for name in (*provider_names, *VENDOR_NAMES) for variable in list_key_variables(name)
        }
        self._key_variables = named_variables.union(key_variables)
        self._environment = environment
        environment_values = (environment.get(variable, "") for variable in self._key_variables)
        keys = {key.strip() for value in (*environment_values, *values) for key in (value, *value.split("|"))}
        keys |= {value.strip() for name, value in environment.items() if is_secret(name, value.strip())}
        self.redactor = Redactor(key for key in keys if len(key) >= MIN_SECRET_LENGTH)

    def redact(self, text: str) -> str:
        """Replace the secrets in a text."""
        return self.redactor.redact(text)

    def build_child_environment(self) -> dict[str, str]:
        """Return the environment for child processes, without API keys."""
        return {name: value for name, value in self._environment.items() if name not in self._key_variables}


def is_secret(name: str, value: str) -> bool:
    """Check whether an environment variable is a secret, by its name and value."""
    if not SECRET_NAME_PATTERN.search(name) or len(value) < MIN_SECRET_LENGTH or value.lower() in BOOLEAN_WORDS:
        return False
    try:
        float(value.replace(",", ""))
    except ValueError:
        return not is_path(value)
    return False


def is_path(value: str) -> bool:
    """Check whether a value is a path. A slash at the beginning is not enough: a random key may begin with one too."""
    if value.startswith(("~/", "./", "../", "file:")) or os.path.lexists(value):
        return True
    folder = "/".join(value.split("/", 2)[:2])
    return value.startswith("/") and folder != value and os.path.isdir(folder)
