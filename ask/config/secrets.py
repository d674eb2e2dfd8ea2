"""Secrets: API keys, the removal of secrets from texts, and the environment that child processes get."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from ask.config.config_file import read_toml
from ask.errors import ConfigError
from ask.messages import EMPTY_MAPPING, Message, ToolCall
from ask.parsing import read_dict
from ask.text import INVISIBLE_CHARACTERS, repair_surrogates

REDACTED = "[key removed]"
_HTML_SAFE_ESCAPES = tuple(
    str.maketrans({character: f"\\u{ord(character):{code_format}}" for character in characters})
    for characters, code_format in (("<>&", "04x"), ("<>&='", "04x"), ("<>&'+`", "04X"))
)
"""How Go (and Rails), Gson, and .NET escape characters, so that their JSON can be part of an HTML page."""
_JSON_ESCAPE = r"(?s)\\u([0-9a-fA-F]{4})|\\(.)"
_AFTER_ESCAPE = r"(?<=\\[a-z])|(?<=%[0-9a-fA-F]{2})|(?<=\\x[0-9a-fA-F]{2})|(?<=\\u[0-9a-fA-F]{4})|(?<=[\d\[][mK])"
"""Matches after an escape sequence of JSON, a shell, a URL or a terminal, whose last letter is not part of a word."""
_MAX_ESCAPE_CHARACTERS = 6


class Redactor:
    """Replaces secrets by `REDACTED`.

    A secret is also found in the forms that JSON encoders commonly write, such as `pass\\"word` for `pass"word`. Other
    encodings, such as Base64, are not recognized. A secret that looks like a word is not replaced inside a longer word.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        forms: set[str] = set()
        for secret in filter(None, secrets):
            forms.update(_list_json_forms(secret))
        self.secrets = tuple(sorted(forms, key=len, reverse=True))  # a longer one may contain a shorter one

    def add(self, secrets: Iterable[str]) -> None:
        """Replace these secrets, too, from now on, except short ones."""
        long_secrets = (secret for secret in secrets if len(secret) >= MIN_SECRET_CHARACTERS)
        self.secrets = Redactor((*self.secrets, *long_secrets)).secrets
        self.__dict__.pop("_pattern", None)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile("|".join(map(_build_secret_pattern, self.secrets)))

    def redact(self, text: str) -> str:
        """Replace the secrets in a text."""
        return self._pattern.sub(REDACTED, text) if any(map(text.__contains__, self.secrets)) else text

    def find_secrets(self, text: str, previous_text: str = "") -> list[tuple[int, int]]:
        """Return where the secrets in a text start and end. `previous_text` comes before it."""
        if not any(map(text.__contains__, self.secrets)):
            return []
        offset = len(previous_text)
        matches = self._pattern.finditer(previous_text + text, offset)
        return [(match.start() - offset, match.end() - offset) for match in matches]

    def redact_json(self, text: str) -> str:
        """Replace the secrets in a JSON text, even escaped ones. The text may be invalid JSON."""
        if not self.secrets:
            return text
        if "\\" in text:
            try:
                value = json.loads(text, strict=False)
            except (ValueError, RecursionError):
                unescaped = repair_surrogates(re.sub(_JSON_ESCAPE, _unescape, text))
                redacted = self.redact(unescaped)
                return self.redact(text) if redacted == unescaped else redacted
            redacted = self.redact_value(value)
            if redacted != value:
                text = json.dumps(redacted, ensure_ascii=False)
        return self.redact(text)

    def redact_value(self, value: Any) -> Any:
        """Replace the secrets in all strings of a JSON value, including object keys."""
        if not self.secrets:
            return value
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, Mapping):
            return dict(zip(map(self.redact_value, value), map(self.redact_value, value.values()), strict=True))
        if isinstance(value, list | tuple):
            return list(map(self.redact_value, value))
        return value

    def redact_call(self, call: ToolCall) -> ToolCall:
        """Replace the secrets in a tool call."""
        return ToolCall(self.redact(call.id), self.redact(call.name), self.redact_json(call.arguments))

    def redact_message(self, message: Message) -> Message:
        """Replace the secrets in a message, except for the data of attached files.

        Provider state that contains a secret is removed: a provider would reject signed parts that were changed.
        """
        if not self.secrets:
            return message
        attachments, state = message.attachments, message.provider_state
        if attachments:
            attachments = tuple(file._replace(name=self.redact(file.name)) for file in attachments)
        if state and json.dumps(self.redact_value(state.data)) != json.dumps(dict(state.data)):
            state = None
        return message._replace(
            content=self.redact(message.content),
            tool_calls=tuple(map(self.redact_call, message.tool_calls)),
            tool_call_id=self.redact(message.tool_call_id),
            tool_name=self.redact(message.tool_name),
            attachments=attachments,
            provider_state=state,
        )

    def open_stream(self) -> StreamRedactor:
        """Create a redactor for a text that arrives in chunks."""
        return StreamRedactor(self)


NO_SECRETS = Redactor()


MAX_RELEASED_CHARACTERS = 4
"""The beginning of a secret that may be shown: keys of a kind begin alike, and so do words, such as "s" and "sk-"."""


class StreamRedactor:
    """Replaces secrets in a text that arrives in chunks.

    Only an end of the text that may be the beginning of a secret is held back.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._max_secret_length = max(map(len, redactor.secrets), default=0)
        self._first_characters = set(map(itemgetter(0), redactor.secrets))
        self._previous_text = ""
        self._held_back = ""
        self._released_count = 0
        """The number of characters at the start of `_held_back` that `release` has returned."""

    def feed(self, chunk: str, *, is_last: bool = False) -> str:
        """Add a chunk; return the redacted text that cannot change any more, and hold back the rest."""
        text = self._held_back + chunk
        end = len(text) if is_last else len(text) - self._count_held_back(text)
        pieces, position = [], self._released_count
        for start, match_end in self._redactor.find_secrets(text, self._previous_text):
            if start < end:
                pieces += [text[position:start], REDACTED]
                position, end = match_end, max(end, match_end)
        self._held_back = text[end:]
        self._released_count = max(self._released_count - end, 0)
        self._previous_text = (self._previous_text + text[max(0, end - _MAX_ESCAPE_CHARACTERS) : end])[
            -_MAX_ESCAPE_CHARACTERS:
        ]
        return "".join([*pieces, text[position:end]])

    def release(self) -> str:
        """Return what is held back if it is only the first characters of a secret, because other output follows.

        If they do begin a secret, the rest of it is replaced.
        """
        held_back, released_count = self._held_back, self._released_count
        if len(held_back) > MAX_RELEASED_CHARACTERS or self._redactor.find_secrets(held_back):
            return ""
        self._released_count = len(held_back)
        return held_back[released_count:]

    def finish(self) -> str:
        """Return the rest of the text at its end."""
        return self.feed("", is_last=True)

    def _count_held_back(self, text: str) -> int:
        """Count the characters at the end that may be the beginning of a secret, or a word that may go on."""
        for start in range(max(0, len(text) - self._max_secret_length), len(text)):
            if text[start] in self._first_characters:
                end = text[start:]
                for secret in self._redactor.secrets:
                    if secret.startswith(end) and (len(secret) > len(end) or is_word(secret)):
                        return len(end)
        return 0


def _unescape(match: re.Match[str]) -> str:
    if match[1]:
        return chr(int(match[1], 16))
    return {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}.get(match[2], match[2])


def _list_json_forms(secret: str) -> Iterator[str]:
    """Yield a secret as it is, and as JSON encoders write it inside a string."""
    yield secret
    for ensure_ascii in (False, True):
        escaped = json.dumps(secret, ensure_ascii=ensure_ascii)[1:-1]
        yield escaped
        yield escaped.replace("/", "\\/")
        yield from map(escaped.translate, _HTML_SAFE_ESCAPES)


def is_word(secret: str) -> bool:
    """Check whether a secret may occur in ordinary text: letters only, or several such words, in ordinary case."""
    if secret.startswith("sk-") or re.fullmatch(r"[^\W\d_]+(?:[ _-][^\W\d_]+)*", secret) is None:
        return False
    return all(word[1:].islower() or word.isupper() or word == word.lower() for word in re.split("[ _-]", secret))


def _build_secret_pattern(secret: str) -> str:
    escaped = re.escape(secret)
    return rf"(?:(?<!\w)|{_AFTER_ESCAPE}){escaped}(?!\w)" if is_word(secret) else escaped


KEY_QUOTES = "\"'`\u2018\u2019\u201c\u201d\u201e"
KEY_ADDITIONS = {
    "invisible characters": INVISIBLE_CHARACTERS,
    "quotes": rf"\A[{KEY_QUOTES}]+|[{KEY_QUOTES}]+\Z",
    "punctuation": r"[,;]+\Z",
    "NAME=": r"\A(?:(?:export|set)\s+|\$env:)?(?:[A-Z][A-Z0-9_]*|\w*(?i:key|token|secret))[\"']?\s*"
    r"(?:=\s*(?=[^=\s].{7})|:\s+)",
    "Bearer": r"\A(?i:(?:authorization\s*:\s*)?bearer\s+|(?:authorization|(?:x-)?api-key)\s*:\s*)",
    "a comment": r"[ \t]#.*",
    "spaces": r"[ \u00a0](?!#)",
}
"""Patterns of what is copied with a key: from a shell script, an env file, JSON, a header. The key may end with "="."""
_ADDED_CHARACTERS = frozenset(" =:\"'`,;")
"""An ASCII key without these characters has nothing that a pattern matches."""


def repair_key(text: str) -> tuple[str, list[str]]:
    """Remove from a key, or from several separated by "|", what is not part of it; return also what was removed.

    `docker run --env-file` passes quotes on, and web pages add spaces and invisible characters.
    """
    keys = []
    removed: dict[str, None] = {}
    for key in map(str.strip, text.split("|")):
        is_plain = key.isascii() and _ADDED_CHARACTERS.isdisjoint(key)  # almost always
        repaired, previous = key, key if is_plain else None
        while repaired != previous:
            previous = repaired
            for name, pattern in KEY_ADDITIONS.items():
                rest = re.sub(pattern, "", repaired).strip()
                if rest != repaired:
                    removed[name], repaired = None, rest
        keys.append(repaired)
    return "|".join(keys), list(removed)


def is_valid_key(key: str) -> bool:
    """Check that a key can be sent in an HTTP header."""
    return key.isascii() and key.isprintable()


def find_key_problem(key: str) -> str:
    """Return what is wrong with a key that would be sent as it is; "" if it looks like one."""
    repaired, removed = repair_key(key)
    if not is_valid_key(repaired):
        return "contains a character that cannot be sent"
    return f"contains {' and '.join(removed)}" if removed else ""


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
        raise ConfigError(f"{self.path}: {name} must be a string or {{ keyring = true }}")

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
        """Return another key than the rejected one of a provider's key command, which has expired.

        It is the key that the command has printed since for another thread, or prints now; "" if there is no other. If
        `rejected_key` is "", it is the one that the command has printed last, and "" if it has not run.

        Raises:
            ConfigError: the key command failed.
        """
        with self._renewal_lock:
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
            keys = self.read_saved_keys()
            if in_keyring or (name in keys and keys[name] is None):
                from ask.config.external_keys import write_keyring

                write_keyring(name, key if in_keyring else "")
            keys[name] = None if in_keyring else key
            if not key:
                del keys[name]
            # The strings come first: what follows a table in TOML would belong to it.
            values = {name: saved for name, saved in keys.items() if saved is not None}
            tables = {name: {"keyring": True} for name, saved in keys.items() if saved is None}
            with convert_write_errors(self.path):
                write_private_file(self.path, tomli_w.dumps(values | tables).encode(), durable=True)
            self._saved_values = values | tables


def format_variable_prefix(name: str) -> str:
    """Return the prefix of a provider's environment variables."""
    return name.upper().replace("-", "_")


def list_key_variables(name: str) -> tuple[str, str]:
    """Return the environment variables that always count as a provider's key."""
    return f"{format_variable_prefix(name)}_API_KEY", f"AI_{format_variable_prefix(name)}_API_KEY"


KEY_PREFIXES = {
    "sk-or-": "openrouter",
    "sk-ant-": "anthropic",
    "sk-proj-": "openai",
    "sk-svcacct-": "openai",
    "AIza": "gemini",
    "xai-": "xai",
    "gsk_": "groq",
    "pplx-": "perplexity",
    "nvapi-": "nvidia",
    "hf_": "huggingface",
}
"""The services whose keys begin in a certain way."""


def format_key_advice(provider_name: str, key: str, origin: str) -> str:
    """Return what to do about a key that a service has rejected.

    Args:
        provider_name: the provider.
        key: the key.
        origin: where the key is set, as `KeyStore.find` returns it; "" if that is unknown.
    """
    owner = next((owner for prefix, owner in KEY_PREFIXES.items() if key.startswith(prefix)), provider_name)
    place = f" in {origin}" if origin else ""
    if owner != provider_name:
        return f"the key{place} looks like a key for {owner}: use -p {owner}, or set a key for {provider_name}"
    if origin == KEY_COMMAND:
        return f"check key_command in [providers.{provider_name}] (ask config edit)"
    if origin == SIGNED_IN:
        return f"run `ask login {provider_name}` again"
    if origin.isupper():  # a variable, which precedes a saved key
        return f"check the key in {origin}, or unset it and run `ask keys set {provider_name}`"
    return f"check the key{place} (ask keys set {provider_name})"


MIN_SECRET_CHARACTERS = 8
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


VARIABLE_PATTERN = r"\$\{(\w+)\}"
"""Matches a reference to an environment variable in a base URL or header."""
SECRET_HEADER_PATTERN = re.compile("auth|cookie|credential|key|pass|secret|signature|token", re.IGNORECASE)
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


COLLECTOR_HEADER_VARIABLES = ("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS")
"""The variables with headers for the collector of traces, as NAME=VALUE,NAME=VALUE with escapes as in URLs."""


def list_collector_secrets(environment: Mapping[str, str]) -> set[str]:
    """Return the secrets in the headers for the collector of traces."""
    headers: dict[str, str] = {}
    for variable in filter(environment.get, COLLECTOR_HEADER_VARIABLES):
        for header in environment[variable].split(","):
            name, _, value = header.partition("=")
            headers |= {name: value.strip(), f"{name} unescaped key": unquote(value).strip()}
    return list_header_secrets(headers, environment)[0]


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
        return read_dict(json.loads(path.read_bytes()))
    return {}


def list_sign_in_tokens(folder: Path) -> Iterator[str]:
    """Yield the secrets in all saved sign-ins to MCP servers."""
    for path in folder.glob("*.json"):
        record = read_sign_in(path)
        for section, name in (("tokens", "access_token"), ("tokens", "refresh_token"), ("client", "client_secret")):
            value = read_dict(record.get(section)).get(name)
            if isinstance(value, str):
                yield value
