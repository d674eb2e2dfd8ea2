"""ask's folders, the content of config.toml, and the settings of a run.

Only this module combines command line options with the configuration; everything else takes `Settings`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ask.errors import ConfigError, FileError
from ask.mcp_settings import SERVER_KEYS, check_server_tables
from ask.messages import EMPTY_MAPPING
from ask.retries import DEFAULT_BACKOFF, DEFAULT_TRIES
from ask.suggestions import suggest

CONFIG_KEYS: dict[str, type | tuple[type, ...]] = {
    "provider": str,
    "model": str,
    "system": str,
    "max_rounds": int,
    "max_cost": (int, float),
    "timeout": (int, float),
    "stream": bool,
    "stdin_limit": int,
    "context_limit": int,
    "tools.enabled": bool,
    "tools.disabled": list,
    "tools.command_timeout": (int, float),
    "tools.confirm": bool,
    "history.enabled": bool,
    "search.engine": str,
    "mcp.files": list,
    "safe.enabled": bool,
    "safe.allow_dirs": list,
    "safe.allow_hosts": list,
    "safe.allow_tools": list,
    "safe.environment": list,
    "safe.tripwires": list,
    "network.tries": int,
    "network.backoff": (int, float),
}
"""The keys of config.toml with their types, besides the tables `aliases`, `options`, `providers` and `mcp.servers`."""

KEY_DESCRIPTIONS = {
    "provider": "the provider to ask",
    "model": "the model to ask, of that provider",
    "system": "added to the system prompt",
    "max_rounds": "rounds of tool calls",
    "max_cost": "US dollars after which no round begins",
    "timeout": "seconds in which the answer must grow",
    "stream": "show the answer as it comes",
    "stdin_limit": "bytes read from standard input",
    "context_limit": "tokens of a conversation to send at most",
    "tools.enabled": "let the model call tools",
    "tools.disabled": "tools to leave out",
    "tools.command_timeout": "seconds that a command may take",
    "tools.confirm": "ask before what runs or writes",
    "history.enabled": "keep conversations, and what files held before",
    "search.engine": "what search_web asks: brave, tavily or duckduckgo",
    "mcp.files": "JSON files that name further MCP servers",
    "safe.enabled": "confine what tools can do, always",
    "safe.allow_dirs": "further folders that tools may write, when confined",
    "safe.allow_hosts": "hosts that fetch_url and search_web may reach without asking, when confined",
    "safe.allow_tools": "tools that are not ask's own to offer, when confined",
    "safe.environment": "further variables that commands may see, when confined",
    "safe.tripwires": "commands to refuse, when confined: built-in ones by name, others as regular expressions",
    "network.tries": "how often a request is sent",
    "network.backoff": "seconds before the second try",
}
"""A short description of each of `CONFIG_KEYS`."""

SETTINGS_FIELDS = {
    "tools.enabled": "tools",
    "tools.disabled": "disabled_tools",
    "history.enabled": "save",
    "search.engine": "search_engine",
    "mcp.files": "mcp_files",
    "safe.enabled": "safe",
    "safe.environment": "safe_environment",
}
"""The fields of `Settings` whose names differ from the last part of their key."""

CONFIG_TABLES = (
    *dict.fromkeys(key.partition(".")[0] for key in CONFIG_KEYS if "." in key),
    "aliases",
    "options",
    "providers",
)

MAX_NUMBER = 1_000_000_000
"""The largest number allowed in config.toml; as a time in seconds it means no limit."""

SEARCH_ENGINES = ("brave", "tavily", "duckduckgo")
"""The allowed values of search.engine."""

PROVIDER_KEYS = ("base_url", "key_env", "model", "api")
"""The keys of a table `[providers.NAME]`, all strings."""

APIS = ("responses", "chat")
"""The allowed values of `api`, for services that have OpenAI's APIs."""


SWITCH_VARIABLES = {"tools.enabled": "ASK_TOOLS", "safe.enabled": "ASK_SAFE"}
"""The environment variables that override these keys, read by `read_switch`."""
SWITCH_VALUES = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}


class Config(NamedTuple):
    """The validated content of config.toml. `warnings` are lines about unknown keys."""

    values: Mapping[str, Any] = EMPTY_MAPPING
    warnings: tuple[str, ...] = ()

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value at a dotted key of `CONFIG_KEYS`."""
        section, _, name = key.rpartition(".")
        table = self.values.get(section, {}) if section else self.values
        return table.get(name, default)

    @property
    def options(self) -> Mapping[str, Any]:
        """The model parameters for every request."""
        return dict(self.values.get("options", {}))

    @property
    def aliases(self) -> Mapping[str, str]:
        """The names that `-m` accepts in place of a model's name."""
        return dict(self.values.get("aliases", {}))

    def get_provider(self, name: str) -> Mapping[str, str]:
        """Return the table `[providers.NAME]`; {} if there is none."""
        return self.providers.get(name, {})

    @property
    def providers(self) -> Mapping[str, Mapping[str, str]]:
        """All tables `[providers.NAME]`."""
        return dict(self.values.get("providers", {}))


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
        advice = "make it readable; is HOME your own?" if isinstance(error, PermissionError) else ""
        raise ConfigError(f"cannot read {path} ({error.strerror})", advice) from error
    import tomllib

    try:
        return tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not valid TOML ({error})", "correct that line") from error


def read_config(path: Path) -> Config:
    """Read and validate config.toml.

    Raises:
        ConfigError: it is not TOML, or a value is of the wrong type or out of range.
    """
    values = read_toml(path)
    return Config(values, tuple(check_config(path, values)))


def check_config(path: Path, values: Mapping[str, Any]) -> list[str]:
    """Validate the content of config.toml; return warnings about unknown keys.

    `path` is the file to name in messages.

    Raises:
        ConfigError: a value is of the wrong type or out of range.
    """
    warnings: list[str] = []
    for key, value in _flatten_keys(values):
        if key in CONFIG_TABLES and not isinstance(value, dict):
            raise ConfigError(f"{path}: {key} must be a table", f"write [{key}]")
        if key == "options":
            check_options(path, value)
        elif key.startswith("aliases."):
            _check_type(path, key, value, str)
        elif key.startswith("providers."):
            warnings += _check_provider_table(path, key, value)
        elif key == "mcp.servers":
            unknown_keys = check_server_tables(path, value)
            warnings += [
                f"{path}: {format_unknown_key(name, list(SERVER_KEYS))} in [{table}]" for table, name in unknown_keys
            ]
        elif key in CONFIG_KEYS:
            _check_type(path, key, value, CONFIG_KEYS[key])
            if key == "search.engine" and value not in SEARCH_ENGINES:
                raise ConfigError(f"{path}: {key} must be one of {', '.join(SEARCH_ENGINES)}", f"it is {value!r}")
        else:
            warnings.append(f"{path}: {format_unknown_key(key, list(CONFIG_KEYS))}")
    return warnings


def _flatten_keys(values: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """List the keys to check: top-level keys, and keys of sections as section.key."""
    rows: list[tuple[str, Any]] = []
    for key, value in values.items():
        is_section = isinstance(value, dict) and key != "options" and key not in CONFIG_KEYS
        rows += [(f"{key}.{name}", item) for name, item in value.items()] if is_section else [(key, value)]
    return rows


def check_options(source: str | Path, table: Mapping[str, Any]) -> None:
    """Reject model parameters that cannot be sent as JSON, such as dates and NaN.

    `source` is the file to name in the error.

    Raises:
        ConfigError: there is such a parameter.
    """
    try:
        json.dumps(table, allow_nan=False)
    except (TypeError, ValueError) as error:
        reason = f"[options] holds what no request can ({error})"
        raise ConfigError(f"{source}: {reason}", "write dates as strings") from error


def _check_provider_table(path: Path, key: str, table: Any) -> list[str]:
    if not isinstance(table, dict):
        raise ConfigError(f"{path}: {key} must be a table", f"write [{key}]")
    for name, value in table.items():
        if name in PROVIDER_KEYS:
            _check_type(path, f"{key}.{name}", value, str)
        if name == "api" and value not in APIS:
            raise ConfigError(f"{path}: {key}.{name} must be one of {', '.join(APIS)}", f"it is {value!r}")
    return [
        f"{path}: {format_unknown_key(name, list(PROVIDER_KEYS))} in [{key}]"
        for name in table
        if name not in PROVIDER_KEYS
    ]


def _check_type(path: Path, key: str, value: Any, expected_type: type | tuple[type, ...]) -> None:
    types = expected_type if isinstance(expected_type, tuple) else (expected_type,)
    descriptions = {
        str: "a string",
        int: "a whole number",
        float: "a number",
        bool: "true or false",
        list: "a list of names",
    }
    expected = descriptions[types[-1]]
    is_valid = isinstance(value, types) and (bool in types or not isinstance(value, bool))
    if is_valid and list in types:
        is_valid = all(isinstance(name, str) for name in value)
    elif is_valid and int in types:
        expected += f" above 0, at most {MAX_NUMBER}"
        is_valid = 0 < value <= MAX_NUMBER or (key == "network.backoff" and value == 0)
    if not is_valid:
        raise ConfigError(f"{path}: {key} must be {expected}", f"it is {value!r}")


def format_unknown_key(key: str, known_keys: list[str]) -> str:
    """Format a warning about an unknown key, suggesting the most similar known one."""
    suggestion = suggest(key, known_keys)
    return f"unknown key {' '.join(key.split())}" + (f" (did you mean {suggestion}?)" if suggestion else "")


class Settings(NamedTuple):
    """The settings of a run.

    Command line options override the environment, which overrides the configuration. Times are in seconds, sizes in
    bytes, costs in US dollars, the context limit in tokens.
    """

    system: str = ""
    options: Mapping[str, Any] = EMPTY_MAPPING
    tools: bool = True
    disabled_tools: frozenset[str] = frozenset()
    max_rounds: int = 10
    max_cost: float | None = None
    command_timeout: float = 30.0
    confirm: bool = False
    assume_yes: bool = False
    stream: bool = True
    timeout: float = 300.0
    tries: int = DEFAULT_TRIES
    backoff: float = DEFAULT_BACKOFF
    stdin_limit: int = 10_000_000
    save: bool = True
    context_limit: int | None = None
    search_engine: str = ""
    mcp_files: tuple[str, ...] = ()
    safe: bool = False
    allow_dirs: tuple[str, ...] = ()
    allow_hosts: tuple[str, ...] = ()
    allow_tools: tuple[str, ...] = ()
    safe_environment: tuple[str, ...] = ()
    tripwires: tuple[str, ...] = ()
    show_reasoning: bool = False


def get_default_value(key: str) -> Any:
    """Return the default of a key of `CONFIG_KEYS`; None if it has none."""
    return Settings._field_defaults.get(SETTINGS_FIELDS.get(key, key.rpartition(".")[2]))


def read_switch(environment: Mapping[str, str], variable: str) -> bool | None:
    """Read an environment variable that is on or off; None if it is unset or empty.

    Raises:
        ConfigError: it has any other value, which may have been meant to enable safe mode or disable tools.
    """
    value = environment.get(variable, "").strip()
    if not value:
        return None
    if value.lower() not in SWITCH_VALUES:
        raise ConfigError(f"{variable} is {value!r}", "set it to 1, true, yes or on, or to 0, false, no or off")
    return SWITCH_VALUES[value.lower()]


def resolve_settings(flags: Mapping[str, Any], environment: Mapping[str, str], config: Config) -> Settings:
    """Resolve the settings of a run. `flags` contains the options by name, None for those not given."""
    defaults = Settings()

    def pick_value(flag: str, key: str, default: Any) -> Any:
        value = flags.get(flag)
        return value if value is not None else config.get(key, default)

    def gather_values(flag: str) -> tuple[str, ...]:
        return (*config.get(f"safe.{flag}", ()), *(flags.get(flag) or ()))

    system = "\n\n".join(filter(None, (config.get("system"), flags.get("system"))))
    disabled = {*config.get("tools.disabled", []), *(flags.get("disable_tool") or ())}
    switches = {key: read_switch(environment, variable) for key, variable in SWITCH_VARIABLES.items()}
    tools = switches["tools.enabled"]
    if tools is None:
        tools = config.get("tools.enabled", True)
    return Settings(
        system=system,
        options={**config.options, **(flags.get("option") or {})},
        tools=tools and not flags.get("no_tools"),
        disabled_tools=frozenset(str(name) for name in disabled),
        max_rounds=pick_value("max_rounds", "max_rounds", defaults.max_rounds),
        max_cost=pick_value("max_cost", "max_cost", None),
        command_timeout=float(pick_value("command_timeout", "tools.command_timeout", defaults.command_timeout)),
        confirm=bool(flags.get("confirm")) or config.get("tools.confirm", False),
        assume_yes=bool(flags.get("yes")),
        stream=config.get("stream", True) and not flags.get("no_stream"),
        timeout=float(pick_value("timeout", "timeout", defaults.timeout)),
        tries=config.get("network.tries", defaults.tries),
        backoff=float(config.get("network.backoff", defaults.backoff)),
        stdin_limit=config.get("stdin_limit", defaults.stdin_limit),
        save=config.get("history.enabled", True) and not flags.get("no_save"),
        context_limit=config.get("context_limit"),
        search_engine=config.get("search.engine", defaults.search_engine),
        mcp_files=tuple(config.get("mcp.files", ())),
        # Any source can enable safe mode, and none can disable it. Only the user's own configuration and command line
        # can loosen it.
        safe=bool(flags.get("safe")) or config.get("safe.enabled", False) or bool(switches["safe.enabled"]),
        allow_dirs=gather_values("allow_dirs"),
        allow_hosts=gather_values("allow_hosts"),
        allow_tools=gather_values("allow_tools"),
        safe_environment=tuple(config.get("safe.environment", ())),
        tripwires=tuple(config.get("safe.tripwires", ())),
        show_reasoning=bool(flags.get("verbose")),
    )


def get_working_directory() -> Path:
    """Return the current working directory.

    Raises:
        FileError: it has been deleted.
    """
    try:
        return Path.cwd()
    except OSError as error:
        raise FileError(f"the working directory cannot be used ({error.strerror})", "cd to another one") from error
