"""Where files live, what config.toml says, and the settings that a run works by.

Raw command line options become `Settings` here, once; everything behind the command line takes those.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ask.errors import ConfigError, FileError
from ask.mcp_settings import SERVER_KEYS, check_server_tables
from ask.messages import EMPTY_MAPPING

if TYPE_CHECKING:
    pass


APP_NAME = "ask"

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
"""What config.toml may hold, beside the free tables `aliases`, `options`, `providers` and `mcp.servers`."""

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
"""What each of `CONFIG_KEYS` says, in a few words."""

SETTINGS_FIELDS = {
    "tools.enabled": "tools",
    "tools.disabled": "disabled_tools",
    "history.enabled": "save",
    "search.engine": "search_engine",
    "mcp.files": "mcp_files",
    "safe.enabled": "safe",
    "safe.environment": "safe_environment",
}
"""The fields of `Settings` that are not named as the keys they come from."""

CONFIG_TABLES = (
    *dict.fromkeys(key.partition(".")[0] for key in CONFIG_KEYS if "." in key),
    "aliases",
    "options",
    "providers",
)

MAX_NUMBER = 1_000_000_000
"""No number in config.toml may be greater: as a time in seconds it means for ever."""

SEARCH_ENGINES = ("brave", "tavily", "duckduckgo")
"""What search.engine may name."""

PROVIDER_KEYS = ("base_url", "key_env", "model")
"""What a table `[providers.NAME]` may hold, all strings."""


SWITCH_VARIABLES = {"tools.enabled": "ASK_TOOLS", "safe.enabled": "ASK_SAFE"}
"""The environment variable that overrides each of these settings, read by `read_switch`."""
SWITCH_VALUES = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}


class AppDirs(NamedTuple):
    """The folders of `ask`: XDG's where the environment names them, else the platform's own."""

    config: Path
    data: Path
    cache: Path

    @staticmethod
    def from_environment(environment: Mapping[str, str]) -> AppDirs:
        """The folders for this environment; none of them need exist."""
        return AppDirs(*(_find_app_dir(environment, kind) for kind in ("config", "data", "cache")))

    @property
    def history_file(self) -> Path:
        """The file of the conversations."""
        return self.data / "history.db"


def _find_app_dir(environment: Mapping[str, str], kind: str) -> Path:
    named = environment.get(f"XDG_{kind.upper()}_HOME", "")
    if named.startswith("/"):
        return Path(named, APP_NAME)
    import platformdirs

    return Path(getattr(platformdirs, f"user_{kind}_path")(APP_NAME, appauthor=False))


class Config(NamedTuple):
    """The content of config.toml, checked. `warnings` are lines about what was not understood."""

    values: Mapping[str, Any] = EMPTY_MAPPING
    warnings: tuple[str, ...] = ()

    def get(self, key: str, default: Any = None) -> Any:
        """The value at a dotted key of `CONFIG_KEYS`."""
        section, _, name = key.rpartition(".")
        table = self.values.get(section, {}) if section else self.values
        return table.get(name, default)

    @property
    def options(self) -> Mapping[str, Any]:
        """The model parameters for every request."""
        return dict(self.values.get("options", {}))

    @property
    def aliases(self) -> Mapping[str, str]:
        """What `-m` takes in place of a model's name."""
        return dict(self.values.get("aliases", {}))

    def get_provider(self, name: str) -> Mapping[str, str]:
        """The table `[providers.NAME]`; {} where there is none."""
        return self.providers.get(name, {})

    @property
    def providers(self) -> Mapping[str, Mapping[str, str]]:
        """All tables `[providers.NAME]`."""
        return dict(self.values.get("providers", {}))


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a TOML file; {} where there is none.

    Raises:
        ConfigError: it cannot be read or is not TOML.
    """
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as fault:
        # Not taken for none, as it may hold what keeps the model from things.
        advice = "make it readable; is HOME your own?" if isinstance(fault, PermissionError) else ""
        raise ConfigError(f"cannot read {path} ({fault.strerror})", advice) from fault
    import tomllib

    try:
        return tomllib.loads(data.decode())
    except (ValueError, RecursionError) as fault:
        raise ConfigError(f"{path} is not valid TOML ({fault})", "correct that line") from fault


def read_config(path: Path) -> Config:
    """Read and check config.toml.

    Raises:
        ConfigError: not TOML, or a value of the wrong type or out of range.
    """
    values = read_toml(path)
    return Config(values, tuple(check_config(path, values)))


def check_config(path: Path, values: Mapping[str, Any]) -> list[str]:
    """Lines about what is not understood in the content of config.toml, which `path` is named for.

    Raises:
        ConfigError: a value of the wrong type or out of range.
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
            strays = check_server_tables(path, value)
            warnings += [
                f"{path}: {format_unknown_key(name, list(SERVER_KEYS))} in [{table}]" for table, name in strays
            ]
        elif key in CONFIG_KEYS:
            _check_type(path, key, value, CONFIG_KEYS[key])
            if key == "search.engine" and value not in SEARCH_ENGINES:
                raise ConfigError(f"{path}: {key} must be one of {', '.join(SEARCH_ENGINES)}", f"it is {value!r}")
        else:
            warnings.append(f"{path}: {format_unknown_key(key, list(CONFIG_KEYS))}")
    return warnings


def _flatten_keys(values: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The keys to check: those at the top, and those of sections as section.key."""
    rows: list[tuple[str, Any]] = []
    for key, value in values.items():
        nested = isinstance(value, dict) and key != "options" and key not in CONFIG_KEYS
        rows += [(f"{key}.{name}", inner) for name, inner in value.items()] if nested else [(key, value)]
    return rows


def check_options(source: str | Path, table: Mapping[str, Any]) -> None:
    """Refuse model parameters that cannot be sent; `source` is where they stand.

    Raises:
        ConfigError: one is a date, or no number.
    """
    try:
        json.dumps(table, allow_nan=False)
    except (TypeError, ValueError) as fault:
        reason = f"[options] holds what no request can ({fault})"
        raise ConfigError(f"{source}: {reason}", "write dates as strings") from fault


def _check_provider_table(path: Path, key: str, table: Any) -> list[str]:
    if not isinstance(table, dict):
        raise ConfigError(f"{path}: {key} must be a table", f"write [{key}]")
    for name, value in table.items():
        if name in PROVIDER_KEYS:
            _check_type(path, f"{key}.{name}", value, str)
    return [
        f"{path}: {format_unknown_key(name, list(PROVIDER_KEYS))} in [{key}]"
        for name in table
        if name not in PROVIDER_KEYS
    ]


def _check_type(path: Path, key: str, value: Any, expected_type: type | tuple[type, ...]) -> None:
    kinds = expected_type if isinstance(expected_type, tuple) else (expected_type,)
    texts = {str: "a string", int: "a whole number", float: "a number", bool: "true or false", list: "a list of names"}
    wanted = texts[kinds[-1]]
    fits = isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))
    if fits and list in kinds:
        fits = all(isinstance(name, str) for name in value)
    elif fits and int in kinds:
        wanted += f" above 0, at most {MAX_NUMBER}"
        fits = 0 < value <= MAX_NUMBER or (key == "network.backoff" and value == 0)
    if not fits:
        raise ConfigError(f"{path}: {key} must be {wanted}", f"it is {value!r}")


def format_unknown_key(key: str, known_keys: list[str]) -> str:
    """What to say of a key that is not known, with the nearest that is."""
    from ask.suggestions import suggest

    near = suggest(key, known_keys)
    return f"unknown key {' '.join(key.split())}" + (f" (did you mean {near}?)" if near else "")


class Settings(NamedTuple):
    """How a run works, resolved from flags, environment and configuration, in that order.

    Times are in seconds, sizes in bytes, costs in US dollars, the context limit in tokens.
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
    tries: int = 4
    backoff: float = 0.5
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


def get_default_value(key: str) -> Any:
    """The value that a key of `CONFIG_KEYS` has where nothing sets it; None for none."""
    return Settings._field_defaults.get(SETTINGS_FIELDS.get(key, key.rpartition(".")[2]))


def read_switch(environment: Mapping[str, str], variable: str) -> bool | None:
    """Read a variable that is on or off, in any case; None where it is unset or empty.

    Raises:
        ConfigError: it has any other value, which may have been meant to switch safe mode on or tools off.
    """
    value = environment.get(variable, "").strip()
    if not value:
        return None
    if value.lower() not in SWITCH_VALUES:
        raise ConfigError(f"{variable} is {value!r}", "set it to 1, true, yes or on, or to 0, false, no or off")
    return SWITCH_VALUES[value.lower()]


def resolve_settings(flags: Mapping[str, Any], environment: Mapping[str, str], config: Config) -> Settings:
    """The settings of a run. `flags` holds the options by name, None for those not given."""
    defaults = Settings()

    def pick_value(flag: str, key: str, default: Any) -> Any:
        given = flags.get(flag)
        return given if given is not None else config.get(key, default)

    def gather_values(flag: str) -> tuple[str, ...]:
        return (*config.get(f"safe.{flag}", ()), *(flags.get(flag) or ()))

    system = "\n\n".join(filter(None, (config.get("system"), flags.get("system"))))
    disabled = {*config.get("tools.disabled", []), *(flags.get("disable_tool") or ())}
    switched = {key: read_switch(environment, variable) for key, variable in SWITCH_VARIABLES.items()}
    tools = switched["tools.enabled"]
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
        # Nothing but the user's own configuration and command line can loosen it, and nothing can turn it off.
        safe=bool(flags.get("safe")) or config.get("safe.enabled", False) or bool(switched["safe.enabled"]),
        allow_dirs=gather_values("allow_dirs"),
        allow_hosts=gather_values("allow_hosts"),
        allow_tools=gather_values("allow_tools"),
        safe_environment=tuple(config.get("safe.environment", ())),
        tripwires=tuple(config.get("safe.tripwires", ())),
    )


def get_working_directory() -> Path:
    """Where the run takes place.

    Raises:
        FileError: the folder is gone.
    """
    try:
        return Path.cwd()
    except OSError as fault:
        raise FileError(f"the working directory cannot be used ({fault.strerror})", "cd to another one") from fault
