"""The content of config.toml, read and validated."""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ask.config.settings import OPTION_RANGES, SETTINGS, Api, NonNegativeFloat, Setting
from ask.errors import ConfigError
from ask.messages import EMPTY_MAPPING
from ask.regular_files import read_regular_file
from ask.text import describe_parse_error, find_meant_key, find_misspelled, format_one_line, format_unknown_key

KNOWN_KEYS = (*SETTINGS, *(f"options.{name}" for name in OPTION_RANGES))
COMMON_OPTIONS = (
    *OPTION_RANGES,
    *("max_output_tokens", "min_tokens", "num_ctx", "seed", "stop", "stop_sequences", "logit_bias", "logprobs"),
    *("top_logprobs", "repeat_penalty", "repetition_penalty", "reasoning_effort", "verbosity", "service_tier"),
    *("response_format", "parallel_tool_calls"),
)
"""Model options that are widely known, to recognize misspelled ones."""
MISSPELLED_OPTION_CUTOFF = 0.9
"""The similarity from which a model option counts as misspelled: services have many with similar names."""
RESTRICTING_TABLES = ("tools", "safe", "history", "hooks")
"""Tables that restrict what a run does or saves; a hook can refuse tool calls."""
LIMITS = ("max_cost", "max_cost_per_day", "max_rounds")
"""Restrictions that are not in a table, and have no effect if they follow the heading of one."""
RESTRICTIONS = (*RESTRICTING_TABLES, *LIMITS)
"""How the keys of restrictions begin."""
DESTINATION_TABLES = ("providers", "aliases")
"""Tables that decide which service receives the prompts."""
DESTINATION_PATTERN = "(?i)model|provider|base_?url|endpoint|api_?base|api_?host"
"""Matches keys, also those of other programs, that may decide it."""
CONFIG_TABLES = (
    *dict.fromkeys(key.partition(".")[0] for key in SETTINGS if "." in key),
    "aliases",
    "options",
    "providers",
)
BaseUrls = str | tuple[str, ...]
"""One base URL, or several of the same service."""
PROVIDER_KEYS = {
    "base_url": Setting(BaseUrls, "base URL for requests, or several"),
    "headers": Setting(Mapping[str, str], "headers to add to requests"),
    "key_header": Setting(str, "header that contains the API key"),
    "key_env": Setting(str, "environment variable with the API key"),
    "key_command": Setting(str, "shell command that prints the API key"),
    "model": Setting(str, "default model"),
    "api": Setting(Api, "API to use: chat, responses, messages or gemini"),
    "input_price": Setting(NonNegativeFloat, "US dollars per million input tokens"),
    "output_price": Setting(NonNegativeFloat, "US dollars per million output tokens"),
}
"""The keys of a table `[providers.NAME]`, besides `models`: rows with the fields of `ask.profiles.ModelProfile`."""

VARIABLE_PATTERN = r"\$\{(\w+)\}"
"""Matches a reference to an environment variable in a base URL or header."""


class Config:
    """The validated content of config.toml.

    Attributes:
        values: all of it.
        warnings: lines about unknown keys.
        errors: those of entries that were left out of `values`, by keys such as "providers.groq".
        aliases: the names that `-m` accepts in place of a model's name.
        options: the model parameters for every request.
        providers: the tables `[providers.NAME]`. Of several base URLs, each has only the first.
        base_urls: all base URLs of the providers that have several.
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
        self.base_urls: dict[str, tuple[str, ...]] = {}
        providers = dict(values.get("providers", {}))
        for name, table in providers.items():
            value = table.get("base_url", ())
            urls = (value,) if isinstance(value, str) else tuple(value)
            if any(map(str.strip, urls)):
                providers[name] = {**table, "base_url": urls[0]}
            else:  # the default applies, as with an empty variable
                providers[name] = {key: value for key, value in table.items() if key != "base_url"}
            if len(urls) > 1:
                self.base_urls[name] = urls
        self.providers: Mapping[str, Mapping[str, Any]] = providers

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a setting, or "mcp.servers"."""
        section, _, name = key.rpartition(".")
        table = self.values.get(section, {}) if section else self.values
        return table.get(name, default)

    def add_mcp_servers(self, tables: Sequence[Mapping[str, Any]]) -> Config:
        """Return a configuration with further MCP servers, which replace those of the same name."""
        added = {table["name"]: {key: value for key, value in table.items() if key != "name"} for table in tables}
        mcp = self.values.get("mcp", {})
        servers = {**mcp.get("servers", {}), **added}
        return Config({**self.values, "mcp": {**mcp, "servers": servers}}, self.warnings, self.errors)

    def check_entry(self, key: str) -> None:
        """Raise the ConfigError of an alias, a provider or an MCP server, if it has one."""
        if key in self.errors:
            raise self.errors[key]

    def list_skipped(self, *sections: str) -> list[str]:
        """Return notices about the invalid entries of these sections."""
        return [f"{error.message}; skipping it" for key, error in self.errors.items() if key.startswith(sections)]


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file; {} if it does not exist.

    Raises:
        ConfigError: it cannot be read or is not TOML.
    """
    try:
        data = read_regular_file(path)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        # Not treated as missing: the file may contain restrictions, such as safe mode.
        advice = "make it readable; is HOME set correctly?" if isinstance(error, PermissionError) else ""
        raise ConfigError(f"cannot read {path} ({error.strerror})", advice) from error
    try:
        return parse_toml(data)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not valid TOML ({describe_parse_error(error)})", "correct that line") from error


def parse_toml(data: bytes) -> dict[str, Any]:
    """Parse the content of a TOML file. Raises ValueError or RecursionError if it is invalid."""
    import tomllib

    return tomllib.loads(decode_config(data))


def read_config(path: Path) -> Config:
    """Read and validate config.toml; leave out an invalid alias, provider or MCP server, without which the others work.

    Raises:
        ConfigError: it is not TOML, or the value of a setting is of the wrong type or out of range. The setting may
            be a restriction, so nothing runs without it.
    """
    content = read_toml(path)
    if not content:
        return Config()
    values, errors = split_invalid_entries(path, content)
    warnings = check_config(path, values)
    if (system := values.get("system", "")).startswith("@"):
        warnings.append(f"{path}: system is the text {format_one_line(system)!r}; only -s reads a file")
    return Config(values, warnings, errors)


def split_invalid_entries(path: Path, values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, ConfigError]]:
    """Return the content of config.toml without the entries that are invalid and not restrictions, and their errors.

    Raises:
        ConfigError: a limit is in a table, where it has no effect.
    """
    _check_limits(path, "", values)
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
                if parts == ("providers",) and isinstance(entry, dict):
                    valid[name] = _select_secrets(entry)
            else:
                valid[name] = entry
        return valid

    checked = dict(values)
    for section in checked.keys() & {"aliases", "providers"}:
        checked[section] = select_valid((section,), checked[section])
    if isinstance(mcp := checked.get("mcp"), dict) and "servers" in mcp:
        checked["mcp"] = {**mcp, "servers": select_valid(("mcp", "servers"), mcp["servers"])}
    return _remove_invalid_rules(path, checked, errors), errors


def _select_secrets(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an invalid table of a provider says about secrets, which remain secrets."""
    secrets = {"key_env": entry["key_env"]} if isinstance(entry.get("key_env"), str) else {}
    headers = entry.get("headers")
    if isinstance(headers, dict):
        secrets["headers"] = {name: value for name, value in headers.items() if isinstance(value, str)}
    return secrets


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
    from ask.config.table_checks import check_provider_table, check_table, parse_table_value

    warnings: list[str] = []
    for section, table in values.items():
        if section in CONFIG_TABLES:
            check_table(path, (section,), table)
        if section == "options":
            check_options(path, table)
            continue
        if section == "hooks":
            from ask.config.hooks import parse_hooks

            parse_hooks(path, table, warnings)
            continue
        is_section = isinstance(table, dict) and section not in SETTINGS
        parts_and_values = (
            {(section, name): value for name, value in table.items()} if is_section else {(section,): table}
        )
        for parts, value in parts_and_values.items():
            key = ".".join(parts)
            if section == "aliases":
                parse_table_value(path, parts, value, str, warnings)
            elif section == "providers":
                hints = {name: setting.type for name, setting in PROVIDER_KEYS.items()}
                check_provider_table(path, parts, value, hints, warnings)
            elif key == "mcp.servers":
                from ask.config.mcp_servers import check_server_tables

                warnings += check_server_tables(path, value)
            elif key in SETTINGS:
                parse_table_value(path, parts, value, SETTINGS[key].type, warnings)
            else:
                warnings.append(_describe_unknown_key(path, key))
    return warnings


def _describe_unknown_key(path: Path, key: str) -> str:
    """Return the warning about an unknown key.

    Raises:
        ConfigError: it may be a misspelled restriction, such as `[safe] enable = true`, or decide where prompts are
            sent, and nothing runs without it.
    """
    table = find_misspelled(key.partition(".")[0], (*RESTRICTING_TABLES, *DESTINATION_TABLES))
    meant_key = find_meant_key(key, KNOWN_KEYS)
    warning = f"{path}: {format_unknown_key(key, KNOWN_KEYS)}"
    if table in RESTRICTING_TABLES or key.startswith(RESTRICTIONS) or meant_key.startswith(RESTRICTIONS):
        raise ConfigError(warning, f"it may be a restriction; correct it, or {_format_removal(key)}")
    if table or meant_key in ("provider", "model") or re.search(DESTINATION_PATTERN, key):
        raise ConfigError(warning, f"it may decide where prompts are sent; correct it, or {_format_removal(key)}")
    return warning


def _check_limits(path: Path, table_key: str, value: Any) -> None:
    """Raise a ConfigError if a table other than that of the file contains a limit; its key is "" for that one."""
    for position, item in enumerate(value) if isinstance(value, list) else ():
        _check_limits(path, f"{table_key}[{position}]", item)
    for name, item in value.items() if isinstance(value, dict) else ():
        key = f"{table_key}.{name}" if table_key else name
        if table_key and name in LIMITS:
            hint = f"move it above all tables, or {_format_removal(key)}"
            raise ConfigError(f"{path}: {name} has no effect in [{table_key}]", hint)
        _check_limits(path, key, item)


def _format_removal(key: str) -> str:
    """Return the advice to remove a key; one with spaces, quotes or brackets is not repeated as part of a command."""
    command = f"unset {key}" if re.fullmatch(r"[\w.-]+", key) else "edit"
    return f"remove it with ask config {command}"


def find_misspelled_options(names: Iterable[str]) -> Iterator[str]:
    """Yield a notice for each model option that is probably misspelled: most services ignore those silently."""
    for name in names:
        meant = "" if name in COMMON_OPTIONS else find_misspelled(name, COMMON_OPTIONS, MISSPELLED_OPTION_CUTOFF)
        if meant:
            yield f"the model parameter {format_one_line(name)} is sent as it is (did you mean {meant}?)"


def check_options(source: str | Path, table: Mapping[str, Any]) -> None:
    """Reject model parameters that cannot be sent as JSON, such as dates and NaN.

    `source` is the file to name in the error.

    Raises:
        ConfigError: there is such a parameter.
    """
    try:
        json.dumps(table, allow_nan=False)
    except (TypeError, ValueError) as error:
        reason = f"[options] contains an invalid value ({describe_parse_error(error)})"
        raise ConfigError(f"{source}: {reason}", "write dates as strings") from error


def decode_config(data: bytes) -> str:
    """Decode a file in UTF-8, or in UTF-16 with a byte order mark, as PowerShell and old versions of Notepad write it.

    Raises:
        ValueError: it is neither.
    """
    is_utf16 = data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) and len(data) > len(BOM_UTF16_LE)
    try:
        return data.decode("utf-16" if is_utf16 else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(f"the text is not UTF-8 (at line {line})") from error
