"""The content of config.toml, read and validated."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ask.config.settings import APIS, SAFE_LEVELS, SEARCH_ENGINES, SETTINGS
from ask.errors import ConfigError
from ask.messages import EMPTY_MAPPING
from ask.text import decode_toml

if TYPE_CHECKING:
    from ask.profiles import ModelProfile


CONFIG_TABLES = (
    *dict.fromkeys(key.partition(".")[0] for key in SETTINGS if "." in key),
    "aliases",
    "options",
    "providers",
)
PROVIDER_KEYS = {
    "base_url": "base URL for requests",
    "key_env": "environment variable with the API key",
    "key_command": "shell command that prints the API key",
    "model": "default model",
    "api": "OpenAI API to use: responses or chat",
}
"""The keys of a table `[providers.NAME]`, all strings, with their descriptions."""
MODEL_KEYS: dict[str, type] = {
    **dict.fromkeys(("pattern", "source", "default_effort"), str),
    **dict.fromkeys(("efforts", "refused_options", "refused_when_reasoning", "attachments"), list),
    **dict.fromkeys(("output_limit", "context_length"), int),
    **dict.fromkeys(("reasoning_with_tools", "schema_with_tools", "begins_reasoning"), bool),
    "effort_parameters": Mapping,
}
"""The keys of a row `[[providers.NAME.models]]`, with their types: the fields of `ask.profiles.ModelProfile`."""
SERVER_KEYS: dict[str, type] = {
    **dict.fromkeys(("command", "cwd", "url", "type"), str),
    **dict.fromkeys(("args", "tools"), list),
    **dict.fromkeys(("env", "headers", "oauth"), dict),
    "timeout": float,
    "enabled": bool,
}
"""The keys of a table `[mcp.servers.NAME]`, with their types."""
OAUTH_KEYS = (
    *("client_id", "client_secret", "private_key", "issuer", "grant_type", "scope", "redirect_uri"),
    "client_metadata_url",
)
"""The keys of a table `[mcp.servers.NAME.oauth]`, all strings."""
GRANT_TYPES = ("authorization_code", "client_credentials")
SERVER_NAME_PATTERN = r"(?!.*__)[A-Za-z0-9_-]{1,32}"
"""Valid names of MCP servers.

The names of a server's tools begin with its name and two underscores.
"""
_CHOICES = {
    ("search", "engine"): SEARCH_ENGINES,
    ("safe", "level"): SAFE_LEVELS,
    ("providers", "api"): APIS,
    ("mcp", "grant_type"): GRANT_TYPES,
}
"""The allowed values of keys, by the first and the last part of the key."""
MAX_NUMBER = 1_000_000_000
"""The largest number allowed in config.toml; as a time in seconds it means no limit."""
EXPECTED_VALUES = {
    str: "a string",
    int: f"a positive integer, at most {MAX_NUMBER}",
    float: f"a positive number, at most {MAX_NUMBER}",
    bool: "true or false",
    list: "a list of strings",
    dict: "a table of strings",
    Mapping: "a table of tables, one for each effort",
    Sequence: "a list of tables",
}


class Config:
    """The validated content of config.toml.

    Attributes:
        values: all of it.
        warnings: lines about unknown keys.
        errors: those in aliases, providers, MCP servers and `tools.allow`, by key; `values` does not contain these.
        aliases: the names that `-m` accepts in place of a model's name.
        options: the model parameters for every request.
        providers: the tables `[providers.NAME]`.
        errors: those of entries that were left out, by keys such as "providers.groq".
    """

    def __init__(
        self,
        values: Mapping[str, Any] = EMPTY_MAPPING,
        warnings: Sequence[str] = (),
        errors: Mapping[str, ConfigError] = EMPTY_MAPPING,
    ) -> None:
        self.values = values
        self.warnings = warnings
        self.errors = errors
        self.aliases: Mapping[str, str] = values.get("aliases", {})
        self.options: Mapping[str, Any] = values.get("options", {})
        self.providers: Mapping[str, Mapping[str, str]] = values.get("providers", {})

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a setting, or "mcp.servers"."""
        section, _, name = key.rpartition(".")
        table = self.values.get(section, {}) if section else self.values
        return table.get(name, default)

    def check_entry(self, key: str) -> None:
        """Raise the ConfigError of an alias, a provider or an MCP server, if it has one."""
        if key in self.errors:
            raise self.errors[key]

    def list_skipped(self, *sections: str) -> list[str]:
        """Return notices about the invalid entries of these sections."""
        return [f"{error.message}; skipping it" for key, error in self.errors.items() if key.startswith(sections)]

    def get_provider(self, name: str) -> Mapping[str, str]:
        """Return the table `[providers.NAME]`; {} if there is none."""
        return self.providers.get(name, {})

    def get_models(self, provider_name: str) -> Sequence[ModelProfile]:
        """Return the rows `[[providers.NAME.models]]`."""
        rows: Any = self.get_provider(provider_name).get("models")
        if not rows:
            return ()
        from ask.profiles import ModelProfile

        return [ModelProfile(**{key: row[key] for key in row.keys() & MODEL_KEYS.keys()}) for row in rows]


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file; {} if it does not exist.

    Raises:
        ConfigError: it cannot be read or is not TOML.
    """
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        # Not treated as missing: the file may contain restrictions, such as safe mode.
        advice = "make it readable; is HOME set correctly?" if isinstance(error, PermissionError) else ""
        raise ConfigError(f"cannot read {path} ({error.strerror})", advice) from error
    import tomllib

    try:
        return tomllib.loads(decode_toml(data))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not valid TOML ({error})", "correct that line") from error


def read_config(path: Path) -> Config:
    """Read and validate config.toml; leave out an invalid alias, provider or MCP server, without which the others work.

    Raises:
        ConfigError: it is not TOML, or the value of a setting is of the wrong type or out of range. The setting may
            be a restriction, so nothing runs without it.
    """
    values, errors = split_invalid_entries(path, read_toml(path))
    return Config(values, check_config(path, values), errors)


def split_invalid_entries(path: Path, values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, ConfigError]]:
    """Return the content of config.toml without the entries that are invalid and not restrictions, and their errors."""
    errors: dict[str, ConfigError] = {}

    def select_valid(parts: tuple[str, ...], table: Any) -> Any:
        if not isinstance(table, dict):
            return table
        valid = {}
        for name, entry in table.items():
            tables: dict[str, Any] = {name: entry}
            for part in reversed(parts):
                tables = {part: tables}
            try:
                check_config(path, tables)
            except ConfigError as error:
                errors[".".join((*parts, name))] = error
                if parts == ("providers",) and isinstance(entry, dict) and isinstance(entry.get("key_env"), str):
                    valid[name] = {"key_env": entry["key_env"]}  # the variable still contains a secret
            else:
                valid[name] = entry
        return valid

    checked = dict(values)
    for section in checked.keys() & {"aliases", "providers"}:
        checked[section] = select_valid((section,), checked[section])
    if isinstance(mcp := checked.get("mcp"), dict) and "servers" in mcp:
        checked["mcp"] = {**mcp, "servers": select_valid(("mcp", "servers"), mcp["servers"])}
    return _remove_invalid_rules(path, checked, errors), errors


def _remove_invalid_rules(path: Path, values: dict[str, Any], errors: dict[str, ConfigError]) -> dict[str, Any]:
    """Return the values without the entries of `tools.allow` that are not strings; add an error for the first one."""
    tools = values.get("tools")
    if not isinstance(tools, dict) or not isinstance(rules := tools.get("allow"), list):
        return values
    valid_rules = [rule for rule in rules if isinstance(rule, str)]
    if len(valid_rules) < len(rules):
        invalid_rule = next(rule for rule in rules if not isinstance(rule, str))
        problem = f"{path}: tools.allow contains {invalid_rule!r}, which is not a string"
        errors["tools.allow"] = ConfigError(problem)
    return {**values, "tools": {**tools, "allow": valid_rules}}


def check_config(path: Path, values: Mapping[str, Any]) -> list[str]:
    """Validate the content of config.toml; return warnings about unknown keys.

    `path` is the file to name in messages.

    Raises:
        ConfigError: a value is of the wrong type or out of range.
    """
    warnings: list[str] = []
    for section, table in values.items():
        if section in CONFIG_TABLES:
            check_table(path, section, table)
        if section == "options":
            check_options(path, table)
            continue
        is_section = isinstance(table, dict) and section not in SETTINGS
        keys = {f"{section}.{name}": value for name, value in table.items()} if is_section else {section: table}
        for key, value in keys.items():
            if section == "aliases":
                _check_value(path, key, value, str)
            elif section == "providers":
                warnings += check_provider_table(path, key, value)
            elif key == "mcp.servers":
                warnings += check_server_tables(path, value)
            elif key in SETTINGS:
                _check_value(path, key, value, SETTINGS[key].type)
            else:
                warnings.append(f"{path}: {format_unknown_key(key, SETTINGS)}")
    return warnings


def check_table(path: Path, key: str, table: Any, known_keys: Mapping[str, type] | None = None) -> list[str]:
    """Validate a table, and the values of its known keys; return warnings about the others.

    Raises:
        ConfigError: it is not a table, or a value is of the wrong type or out of range.
    """
    if not isinstance(table, dict):
        raise ConfigError(f"{path}: {key} must be a table", f"write [{key}]")
    if known_keys is None:
        return []
    for name in table.keys() & known_keys:
        _check_value(path, f"{key}.{name}", table[name], known_keys[name])
    unknown_keys = (name for name in table if name not in known_keys)
    return [f"{path}: {format_unknown_key(name, known_keys)} in [{key}]" for name in unknown_keys]


def check_provider_table(path: Path, key: str, table: Any) -> list[str]:
    """Validate a table `[providers.NAME]`; return warnings about unknown keys.

    Raises:
        ConfigError: a value is of the wrong type, or a row about models has no valid pattern.
    """
    warnings = check_table(path, key, table, {**dict.fromkeys(PROVIDER_KEYS, str), "models": Sequence})
    for row in table.get("models", []):
        warnings += check_table(path, f"{key}.models", row, MODEL_KEYS)
        if "pattern" not in row:
            raise ConfigError(f"{path}: {key}.models has no pattern", 'for example pattern = "gpt-7*"')
        from ask.profiles import find_pattern_problem

        if problem := find_pattern_problem(row["pattern"]):
            raise ConfigError(f"{path}: {key}.models.pattern is {row['pattern']!r}", problem)
    return warnings


def check_server_tables(path: Path, servers: Any) -> list[str]:
    """Validate the table `[mcp.servers]`; return warnings about unknown keys.

    Raises:
        ConfigError: a value of the wrong type, or a server without a command or URL.
    """
    check_table(path, "mcp.servers", servers)
    warnings: list[str] = []
    for name, table in servers.items():
        key = f"mcp.servers.{name}"
        if not re.fullmatch(SERVER_NAME_PATTERN, name):
            hint = "use letters, digits, - and single _, at most 32"
            raise ConfigError(f"{path}: {name!r} is not a valid name for an MCP server", hint)
        warnings += check_table(path, key, table, SERVER_KEYS)
        if "command" in table and "url" in table:
            raise ConfigError(f"{path}: {key} has a command and a URL", "remove one of them")
        if table.get("enabled", True) and not (table.get("command") or table.get("url")):
            raise ConfigError(f"{path}: {key} has neither a command nor a URL", "set command, or url")
        if "url" in table and not re.match(r"https?://[^/]", table["url"]):
            raise ConfigError(f"{path}: {key}.url must start with http:// or https://")
        target, types = ("URL", ("http", "sse")) if "url" in table else ("command", ("stdio",))
        if table.get("type", types[0]) not in types:
            raise ConfigError(f"{path}: {key} has a {target}, so its type is {' or '.join(types)}", "remove type")
        if oauth := table.get("oauth"):
            warnings += check_oauth_table(path, f"{key}.oauth", oauth)
            if "url" not in table:
                raise ConfigError(f"{path}: {key} has no URL to sign in to", "remove oauth")
    return warnings


def check_oauth_table(path: Path, key: str, table: Mapping[str, str]) -> list[str]:
    """Validate a table `[mcp.servers.NAME.oauth]`; return warnings about unknown keys.

    Raises:
        ConfigError: a value is invalid, or one that it requires is missing.
    """
    warnings = check_table(path, key, table, dict.fromkeys(OAUTH_KEYS, str))
    if table.get("grant_type") == "client_credentials" or table.keys() & {"client_secret", "private_key"}:
        # Without an issuer, the MCP server would choose who receives the secret.
        for required in ("client_id", "issuer"):
            if required not in table:
                raise ConfigError(f"{path}: {key} has no {required}", f"add {required}")
    if not re.match(r"https://[^/]+/.|$", table.get("client_metadata_url", "")):
        raise ConfigError(f"{path}: {key}.client_metadata_url must be an https URL with a path")
    if not re.match(r"http://(127\.0\.0\.1|localhost):\d+/|$", table.get("redirect_uri", "")):
        raise ConfigError(f"{path}: {key}.redirect_uri must be a URL such as http://127.0.0.1:8400/callback")
    return warnings


def check_options(source: str | Path, table: Mapping[str, Any]) -> None:
    """Reject model parameters that cannot be sent as JSON, such as dates and NaN.

    `source` is the file to name in the error.

    Raises:
        ConfigError: there is such a parameter.
    """
    try:
        json.dumps(table, allow_nan=False)
    except (TypeError, ValueError) as error:
        reason = f"[options] contains an invalid value ({error})"
        raise ConfigError(f"{source}: {reason}", "write dates as strings") from error


def _check_value(path: Path, key: str, value: Any, expected_type: type) -> None:
    choices = _CHOICES.get((key.partition(".")[0], key.rpartition(".")[2]), ())
    if choices and value not in choices:
        raise ConfigError(f"{path}: {key} must be one of {', '.join(choices)}", f"it is {value!r}")
    is_zero_backoff = key == "network.backoff" and value == 0 and not isinstance(value, bool)
    if not (is_valid_value(value, expected_type) or is_zero_backoff):
        advice = "" if key.endswith((".env", ".headers", ".oauth", ".url")) else f"it is {value!r}"  # may be a secret
        raise ConfigError(f"{path}: {key} must be {EXPECTED_VALUES[expected_type]}", advice)


def is_valid_value(value: Any, expected_type: type) -> bool:
    """Check that a value is one of `EXPECTED_VALUES`."""
    if expected_type in (int, float):
        is_number = isinstance(value, int | expected_type) and not isinstance(value, bool)
        return is_number and 0 < value <= MAX_NUMBER
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    item_type = dict if expected_type in (Mapping, Sequence) else str
    container = dict if expected_type is Mapping else list if expected_type is Sequence else expected_type
    return isinstance(value, container) and all(isinstance(item, item_type) for item in items)


def format_unknown_key(key: str, known_keys: Mapping[str, Any] | Sequence[str]) -> str:
    """Format a warning about an unknown key, suggesting the most similar known one."""
    from ask.text import suggest

    suggestion = suggest(key, known_keys)
    return f"unknown key {' '.join(key.split())}" + (f" (did you mean {suggestion}?)" if suggestion else "")
