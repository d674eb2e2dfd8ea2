"""The keys of config.toml as words: which one a word means, and its value from a word and as one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import click

from ask.errors import ConfigError, UsageError
from ask.inputs.text import FLAGS, read_options
from ask.settings import KEYS, PROVIDER_KEYS, check_config, unknown

API_KEY = re.compile(r"(?:keys\.|providers\.)?(.*?)[._-]?(?:ai_|api_?)?key|keys\.(.*)", re.IGNORECASE)
"""Words that mean an API key, of the provider in the one group or the other."""


class Key(NamedTuple):
    """A key of config.toml: the names on the way to it, and the types that its value may have, () for any."""

    parts: tuple[str, ...]
    kinds: tuple[type, ...] = ()

    @property
    def word(self) -> str:
        """The key as a user writes it."""
        return ".".join(self.parts)


def find_key(word: str) -> Key:
    """The key that a word means.

    Raises:
        UsageError: there is no such key, or it means an API key.
    """
    if word in KEYS:
        kind = KEYS[word]
        return Key(tuple(word.split(".")), kind if isinstance(kind, tuple) else (kind,))
    table, _, name = word.partition(".")
    if table == "aliases" and name:
        return Key((table, name), (str,))
    refuse_api_key(word)
    if table == "options" and name:
        if "." in name:
            raise UsageError(f"{word} is within a value", f"set the whole of options.{name.split('.')[0]}, as JSON")
        return Key((table, name))
    if table == "providers":
        provider, _, name = name.rpartition(".")
        if provider and name in PROVIDER_KEYS:
            return Key((table, provider, name), (str,))
        raise UsageError(unknown(word, provider_words(provider or name)), "ask config list shows all")
    raise UsageError(unknown(word, [*KEYS, "options.", "aliases."]), "ask config list shows all")


def provider_words(provider: str) -> list[str]:
    """The keys that a provider's table may hold."""
    return [f"providers.{provider}.{name}" for name in PROVIDER_KEYS]


def refuse_api_key(word: str) -> None:
    """Point to where API keys are kept.

    Raises:
        UsageError: the word means one.
    """
    match = API_KEY.fullmatch(word)
    if match:
        provider = (match[1] or match[2] or "").removeprefix("options.").lower() or "PROVIDER"
        raise UsageError("API keys are not kept in config.toml", f"ask keys set {provider}")


def read_value(key: Key, text: str) -> Any:
    """The value that a word is for a key.

    Raises:
        UsageError: of the wrong type or out of range.
        ParameterError: a model parameter out of its range.
    """
    if key.parts[0] == "options":
        name = key.parts[1]
        if name in FLAGS:
            raise UsageError(f"{name} is no model parameter", f"use {FLAGS[name]}")
        value = read_options([f"{name}={text}"])[name]
    else:
        value = next((READERS[kind](text) for kind in key.kinds if fits(READERS[kind], text)), text)
    if holds_null(value):
        raise UsageError("config.toml cannot hold null", "ask config unset takes a key out")
    try:
        check_config(Path(), nested(key.parts, value))
    except ConfigError as error:
        raise UsageError(error.message.partition(": ")[2], error.advice) from None
    return value


def holds_null(value: Any) -> bool:
    """Whether there is a null in a value, for which TOML has no word."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return value is None or any(map(holds_null, inner))


def nested(parts: tuple[str, ...], value: Any) -> dict[str, Any]:
    """A configuration that holds nothing but this value."""
    for part in reversed(parts):
        value = {part: value}
    return dict(value)


def fits(reader: Callable[[str], Any], text: str) -> bool:
    """Whether a reader can read the text."""
    try:
        reader(text)
    except (ValueError, click.BadParameter, RecursionError):
        return False
    return True


def read_list(text: str) -> list[Any]:
    """The names in "a,b", or in a JSON array."""
    if text.lstrip().startswith("["):
        return list(json.loads(text))
    return [name.strip() for name in text.split(",") if name.strip()]


READERS: dict[type, Callable[[str], Any]] = {
    str: str,
    int: int,
    float: float,
    bool: lambda text: click.BOOL.convert(text, None, None),
    list: read_list,
}
"""What makes a value of each type from a word."""


def word_of(key: str, value: Any) -> str:
    """A value as a word that `read_value` takes: text and lists of names as they are, all else as JSON."""
    if key.startswith("options."):
        plain = isinstance(value, str) and not fits(json.loads, value)
    else:
        plain = isinstance(value, str)
        if isinstance(value, list) and all(isinstance(name, str) and read_list(name) == [name] for name in value):
            return ",".join(value)
    return str(value) if plain else json.dumps(value, ensure_ascii=False)
