"""Which values are secrets, and the environment that child processes get, which has no API keys."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from ask.config.config_file import VARIABLE_PATTERN
from ask.config.key_repair import repair_key
from ask.config.key_store import list_key_variables
from ask.config.redaction import MIN_SECRET_CHARACTERS, Redactor, is_word
from ask.parsing import read_dict
from ask.regular_files import read_regular_file

SECRET_NAME_PATTERN = re.compile(r"TOKEN|SECRET|PASSWORD|_KEY$", re.IGNORECASE)
"""Matches the names of environment variables that look like secrets."""
BOOLEAN_WORDS = ("disabled",)
"""Words for yes or no that have `MIN_SECRET_CHARACTERS` characters or more."""
VENDOR_NAMES = (
    *("OPENROUTER", "OPENAI", "ANTHROPIC", "DEEPSEEK", "MOONSHOT", "XAI", "GROK", "GEMINI", "GOOGLE"),
    *("OLLAMA", "LMSTUDIO", "LLAMACPP", "VLLM", "SGLANG", "LITELLM"),
    *("ALIBABA", "DASHSCOPE", "AZURE", "AZURE_OPENAI", "BEDROCK", "CEREBRAS", "CLOUDFLARE", "COHERE", "DEEPINFRA"),
    *("FIREWORKS", "GROQ", "HUGGINGFACE", "META", "MODEL", "MINIMAX", "MISTRAL", "NVIDIA", "PERPLEXITY", "TOGETHER"),
    *("VERCEL", "AI_GATEWAY", "VERTEX", "ZAI"),
    *("BRAVE", "TAVILY"),
)
"""Vendors whose `<NAME>_API_KEY` counts as a key even if no such provider is installed.

BRAVE and TAVILY are web search engines.
"""


SECRET_HEADER_PATTERN = re.compile(
    "auth|cookie|credential|dsn|honeycomb-team|key|pass|secret|signature|token", re.IGNORECASE
)
"""Matches the names of headers whose values are secrets."""


def list_header_secrets(headers: Mapping[str, str], environment: Mapping[str, str]) -> tuple[set[str], set[str]]:
    """Return the secrets in a provider's headers, and the environment variables that contain them."""
    values, variables = set(), set()
    for name, value in headers.items():
        if SECRET_HEADER_PATTERN.search(name):
            variables.update(re.findall(VARIABLE_PATTERN, value))
            expanded = re.sub(VARIABLE_PATTERN, lambda match: environment.get(match[1], "").strip(), value)
            scheme, _, credentials = expanded.partition(" ")  # such as Bearer
            values |= {expanded, credentials} if scheme.isalpha() else {expanded}
    return values, variables


COLLECTOR_HEADER_VARIABLES = tuple(
    f"OTEL_EXPORTER_OTLP_{signal}HEADERS" for signal in ("", "TRACES_", "METRICS_", "LOGS_")
)
"""The variables with headers for collectors, as NAME=VALUE,NAME=VALUE with escapes as in URLs."""
COLLECTOR_ADDRESS_VARIABLES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
URL_CREDENTIALS_PATTERN = re.compile("(?:^|//)([^/:@]*):?([^/@]*)@")
"""Matches the user name and password in a URL, which need not have a valid scheme or port."""


def list_collector_secrets(environment: Mapping[str, str]) -> tuple[set[str], set[str]]:
    """Return the secrets in the headers and URL for the collector of traces, and the variables that contain them."""
    values, variables = set[str](), {*COLLECTOR_HEADER_VARIABLES}
    for variable in filter(environment.get, COLLECTOR_HEADER_VARIABLES):
        for header in environment[variable].split(","):
            name, separator, value = header.partition("=")
            if separator:
                for form in (value.strip(), unquote(value).strip()):
                    values |= list_header_secrets({name: form}, environment)[0]
            else:  # malformed, which the SDK reports with the text
                values.add(header.strip())
    for variable in COLLECTOR_ADDRESS_VARIABLES:
        if match := URL_CREDENTIALS_PATTERN.search(environment.get(variable, "")):
            values |= {*match.groups(), *map(unquote, match.groups())}
            variables.add(variable)
    return values, variables


class Secrets(Redactor):
    """Replaces the secret values of a run in everything that is sent, shown or stored.

    These are the keys of all known providers, which are also removed from the environment of child processes, and the
    values of other environment variables whose names look like secrets, which child processes do get.

    Args:
        provider_names: the providers that are installed or configured.
        key_variables: further environment variables that contain keys.
        values: further keys, such as saved ones and one given as an option.
        environment: the environment of this process.
        local_keys: the keys of local services. Such a key is not a secret if it is a word, since it is a placeholder
            such as `lm-studio`.
    """

    def __init__(
        self,
        provider_names: Iterable[str],
        key_variables: Iterable[str],
        values: Iterable[str],
        environment: Mapping[str, str],
        local_keys: Iterable[str] = (),
    ) -> None:
        self._key_variables = set(key_variables)
        for provider in (*provider_names, *VENDOR_NAMES):
            self._key_variables.update(list_key_variables(provider))
        self._environment = environment
        key_values = [*values]
        other_secrets: set[str] = set()
        for name, value in environment.items():
            if name in self._key_variables:
                key_values.append(value)
            elif is_secret(name, value.strip()):
                other_secrets.add(value.strip())
        keys: set[str] = set()
        for value in key_values:
            for key in map(str.strip, (value, *value.split("|"))):
                keys |= {key, repair_key(key)[0]}
        keys -= {*filter(is_word, local_keys)}
        super().__init__([key for key in keys | other_secrets if len(key) >= MIN_SECRET_CHARACTERS])

    def build_child_environment(self) -> dict[str, str]:
        """Return the environment for child processes, without API keys."""
        return {name: value for name, value in self._environment.items() if name not in self._key_variables}


def is_secret(name: str, value: str) -> bool:
    """Check whether an environment variable is a secret, by its name and value."""
    if not SECRET_NAME_PATTERN.search(name) or len(value) < MIN_SECRET_CHARACTERS or value.lower() in BOOLEAN_WORDS:
        return False
    try:
        float(value.replace(",", ""))
    except ValueError:
        return not _is_path(value)
    return False


def _is_path(value: str) -> bool:
    """Check whether a value is a path. A slash at the beginning is not enough: a random key may begin with one too."""
    if value.startswith(("~/", "./", "../", "file:")) or os.path.lexists(value):
        return True
    folder = "/".join(value.split("/", 2)[:2])
    return value.startswith("/") and folder != value and os.path.isdir(folder)


def read_sign_in(path: Path) -> dict[str, Any]:
    """Read a saved sign-in to an MCP server; {} if it is missing or invalid."""
    with suppress(OSError, ValueError, RecursionError):
        return read_dict(json.loads(read_regular_file(path)))
    return {}


def list_sign_in_tokens(folder: Path) -> Iterator[str]:
    """Yield the secrets in all saved sign-ins to MCP servers."""
    for path in folder.glob("*.json"):
        record = read_sign_in(path)
        for section, name in (("tokens", "access_token"), ("tokens", "refresh_token"), ("client", "client_secret")):
            value = read_dict(record.get(section)).get(name)
            if isinstance(value, str):
                yield value
