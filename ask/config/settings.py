"""The settings of `ask`: one definition for each, config.toml, the settings of a run; and where files live.

Only this module combines command line options, also those of the form `-o KEY=VALUE`, with the configuration;
everything else takes `Settings`.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from ask.errors import ConfigError, FileError, ParameterError, UsageError
from ask.messages import EMPTY_MAPPING
from ask.records import MAX_NUMBER, NamedTuple, PositiveFloat, PositiveInt, Rule
from ask.text import decode_toml, format_unknown_key

if TYPE_CHECKING:
    from ask.profiles import ModelProfile


class Setting(NamedTuple):
    """A key of config.toml, and what overrides it.

    Attributes:
        type: of its value, a type hint.
        description: for lists of settings.
        field: the field of `Settings` that it sets; "" for none.
        option: the option of `ask`, if its parameter name is not `field`. One that begins with "no_" is the opposite.
        variable: the environment variable; "" for none.
    """

    type: Any
    description: str
    field: str = ""
    option: str = ""
    variable: str = ""


def get_kind(hint: Any) -> Any:
    """Return what the type of a setting narrows down: str, int, float, bool, list, or Literal for certain strings."""
    return getattr(hint, "__origin__", hint)


NonNegativeFloat = Annotated[float, Rule(f"a number from 0 to {MAX_NUMBER}", lambda number: 0 <= number <= MAX_NUMBER)]
EngineName = Literal["brave", "tavily", "duckduckgo"]
SANDBOX_LEVEL, FILES_LEVEL = "sandbox", "files"
"""The levels of safe mode: a kernel sandbox, or no commands and path checks in the file tools."""
SafeLevel = Literal["sandbox", "files"]
Api = Literal["responses", "chat"]
"""The APIs of services that have OpenAI's."""

SETTINGS = {
    "provider": Setting(str, "default provider", variable="ASK_PROVIDER"),
    "model": Setting(str, "default model", variable="ASK_MODEL"),
    "fallback": Setting(list[str], "models to try in turn if the model cannot answer", "fallback"),
    "system": Setting(str, "extra system prompt", "system"),
    "max_rounds": Setting(PositiveInt, "maximum rounds of tool calls", "max_rounds"),
    "max_cost": Setting(PositiveFloat, "stop calling tools after spending this many US dollars", "max_cost"),
    "timeout": Setting(PositiveFloat, "stop if no text arrives for this many seconds (300; 900 for xai)", "timeout"),
    "stream": Setting(bool, "print the answer while it arrives", "stream", "no_stream"),
    "stdin_limit": Setting(PositiveInt, "maximum size of stdin in bytes", "stdin_limit"),
    "context_limit": Setting(PositiveInt, "maximum tokens of a conversation to send", "context_limit"),
    "tools.enabled": Setting(bool, "offer tools to the model", "tools", "no_tools", "ASK_TOOLS"),
    "tools.disabled": Setting(list[str], "tools that are not offered", "disabled_tools", "disable_tool"),
    "tools.command_timeout": Setting(PositiveFloat, "kill commands after this many seconds", "command_timeout"),
    "tools.confirm": Setting(bool, "ask before each tool call with side effects", "confirm"),
    "tools.allow": Setting(list[str], "commands and tools that --confirm does not ask about", "allow"),
    "tools.deny": Setting(list[str], "commands and tools to refuse", "deny"),
    "history.enabled": Setting(bool, "save conversations and file backups", "save", "no_save"),
    "search.engine": Setting(EngineName, "search engine: brave, tavily or duckduckgo", "search_engine"),
    "mcp.files": Setting(list[str], "JSON files with further MCP servers", "mcp_files"),
    "safe.enabled": Setting(bool, "use safe mode in every run", "safe", variable="ASK_SAFE"),
    "safe.level": Setting(SafeLevel, "safe mode: sandbox, or files (no commands)", "safe_level"),
    "safe.allow_dirs": Setting(list[str], "safe mode: further folders that tools may write", "allow_dirs"),
    "safe.allow_git": Setting(bool, "safe mode: make a git repository outside readable", "allow_git"),
    "safe.allow_hosts": Setting(list[str], "safe mode: hosts that may be fetched without asking", "allow_hosts"),
    "safe.allow_tools": Setting(list[str], "safe mode: tools of plugins and MCP servers to allow", "allow_tools"),
    "safe.environment": Setting(
        list[str], "safe mode: environment variables that commands may see", "safe_environment"
    ),
    "context.files": Setting(list[str], "file names of project instructions", "context_files"),
    "attachments.keep_location": Setting(bool, "send the position in photos", "keep_location"),
    "network.tries": Setting(PositiveInt, "maximum tries for a request", "tries"),
    "network.backoff": Setting(NonNegativeFloat, "seconds before the first retry", "backoff"),
}
"""The settings by key, besides the tables `aliases`, `options`, `providers` and `mcp.servers`."""
CONFIG_TABLES = (
    *dict.fromkeys(key.partition(".")[0] for key in SETTINGS if "." in key),
    "aliases",
    "options",
    "providers",
)
PROVIDER_KEYS = {
    "base_url": Setting(str, "base URL for requests"),
    "key_env": Setting(str, "environment variable with the API key"),
    "key_command": Setting(str, "shell command that prints the API key"),
    "model": Setting(str, "default model"),
    "api": Setting(Api, "OpenAI API to use: responses or chat"),
}
"""The keys of a table `[providers.NAME]`, besides `models`: rows with the fields of `ask.profiles.ModelProfile`."""
SWITCH_VALUES = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
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
        from ask.config.table_checks import parse_models

        return parse_models(rows)


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
    if not values:
        return []
    from ask.config.table_checks import check_provider_table, check_table, parse_table_value

    warnings: list[str] = []
    for section, table in values.items():
        if section in CONFIG_TABLES:
            check_table(path, (section,), table)
        if section == "options":
            check_options(path, table)
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
                warnings.append(f"{path}: {format_unknown_key(key, SETTINGS)}")
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


class Settings(NamedTuple):
    """The settings of a run.

    Command line options override the environment, which overrides the configuration. Times are in seconds, sizes in
    bytes, costs in US dollars, the context limit in tokens. Without a timeout, the provider's own default applies.
    """

    fallback: tuple[str, ...] = ()
    system: str = ""
    options: Mapping[str, Any] = EMPTY_MAPPING
    given_options: frozenset[str] = frozenset()
    """The names of the options that the command line sets: unlike others, they are not left out if a model refuses."""
    tools: bool = True
    disabled_tools: frozenset[str] = frozenset()
    max_rounds: int = 10
    max_cost: float | None = None
    command_timeout: float = 30.0
    confirm: bool = False
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    assume_yes: bool = False
    stream: bool = True
    timeout: float | None = None
    tries: int = 4
    backoff: float = 0.5
    stdin_limit: int = 10_000_000
    save: bool = True
    context_limit: int | None = None
    search_engine: str = ""
    mcp_files: tuple[str, ...] = ()
    safe: bool = False
    safe_level: str = SANDBOX_LEVEL
    allow_dirs: tuple[str, ...] = ()
    allow_git: bool = False
    allow_hosts: tuple[str, ...] = ()
    allow_tools: tuple[str, ...] = ()
    safe_environment: tuple[str, ...] = ()
    verbose: bool = False
    context_files: tuple[str, ...] = ("AGENTS.md",)
    keep_location: bool = False
    record: str = ""
    replay: str = ""


def get_default_value(key: str) -> Any:
    """Return the default of a setting; None if it has none."""
    return Settings._field_defaults.get(SETTINGS[key].field)


def read_switch(environment: Mapping[str, str], variable: str) -> bool | None:
    """Read an environment variable that is on or off; None if it is unset or empty.

    Raises:
        ConfigError: it has any other value, which may have been meant to enable safe mode or disable tools.
    """
    value = environment.get(variable, "").strip()
    if not value:
        return None
    if value.lower() not in SWITCH_VALUES:
        raise ConfigError(f"{variable} is {value!r}", "use 1, true, yes or on, or 0, false, no or off")
    return SWITCH_VALUES[value.lower()]


def resolve_settings(flags: Mapping[str, Any], environment: Mapping[str, str], config: Config) -> Settings:
    """Resolve the settings of a run. `flags` contains the options by name, None for those not given."""
    values = {
        setting.field: _resolve_setting(key, flags.get(setting.option or setting.field), environment, config)
        for key, setting in SETTINGS.items()
        if setting.field
    }
    values["safe"], values["safe_level"] = _resolve_safe_mode(flags, values["safe"], config)
    options = {**config.options, **(flags.get("option") or {})}
    record, replay = flags.get("record") or environment.get("ASK_RECORD", ""), environment.get("ASK_REPLAY", "")
    if record and replay:
        raise UsageError("requests cannot be recorded and replayed at the same time", "unset ASK_REPLAY")
    return Settings(
        **values,
        options={name: value for name, value in options.items() if value != UNSET_OPTION},
        given_options=frozenset(flags.get("given_options") or ()),
        assume_yes=bool(flags.get("yes")),
        verbose=bool(flags.get("verbose")),
        record=record,
        replay=replay,
    )


def _resolve_safe_mode(flags: Mapping[str, Any], is_enabled: bool, config: Config) -> tuple[bool, str]:
    """Return whether safe mode is on, and its level. An option chooses the level that it names.

    Raises:
        UsageError: there are options for both levels.
    """
    if flags.get("safe") and flags.get("safe_files"):
        raise UsageError("--safe and --safe-files cannot be combined", "use one of them")
    if flags.get("safe") or flags.get("safe_files"):
        return True, SANDBOX_LEVEL if flags.get("safe") else FILES_LEVEL
    level = config.get("safe.level", "")
    # Whoever sets only the level expects safe mode to be on.
    return is_enabled or (bool(level) and config.get("safe.enabled", None) is None), level or SANDBOX_LEVEL


def _resolve_setting(key: str, flag: Any, environment: Mapping[str, str], config: Config) -> Any:
    setting, default = SETTINGS[key], Settings._field_defaults[SETTINGS[key].field]
    value = config.get(key, default)
    if key == "fallback":  # a sequence, not a set: the option replaces it, and --fallback "" empties it
        return tuple(filter(None, flag or value))
    if get_kind(setting.type) is list:
        return type(default)((*value, *(flag or ())))
    if key == "system":
        return "\n\n".join(filter(None, (value, flag)))
    if setting.type is bool:
        switch = read_switch(environment, setting.variable)
        # Any source can enable safe mode, and none can disable it.
        if switch is not None and not (key == "safe.enabled" and value):
            value = switch
        return not setting.option.startswith("no_") if flag else value
    value = value if flag is None else flag
    return float(value) if get_kind(setting.type) is float and value is not None else value


def get_working_directory() -> Path:
    """Return the current working directory.

    Raises:
        FileError: it has been deleted.
    """
    try:
        return Path.cwd()
    except OSError as error:
        raise FileError(f"cannot use the working directory ({error.strerror})", "change to another folder") from error


OPTION_RANGES: dict[str, tuple[float, float]] = {
    "temperature": (0, 2),
    "top_p": (0, 1),
    "min_p": (0, 1),
    "frequency_penalty": (-2, 2),
    "presence_penalty": (-2, 2),
    "max_tokens": (1, float("inf")),
    "max_completion_tokens": (1, float("inf")),
    "top_k": (0, float("inf")),
}
"""Model options whose range is the same for every provider that supports them."""
DEDICATED_OPTIONS = {"model": "-m", "messages": "the prompt and -s", "tools": "--disable-tool", "stream": "--no-stream"}
"""Parts of a request that have a command line option of their own, which would overwrite one given with -o."""


UNSET_OPTION = ""
"""The value of an option that a setting or a template sets, and the command line unsets, as in `-o temperature=`."""


def parse_model_options(pairs: Iterable[str]) -> dict[str, Any]:
    """Parse model options given as KEY=VALUE. A value that is not JSON is a string; an empty one unsets the option.

    Raises:
        UsageError: it is not KEY=VALUE, or the key has a command line option of its own.
        ParameterError: the value is out of range.
    """
    options: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not key or not equals:
            raise UsageError(f"-o must be KEY=VALUE, not {pair!r}", "for example -o temperature=0.2")
        try:
            options[key] = STRICT_DECODER.decode(text)
        except (ValueError, RecursionError):
            options[key] = text
        except OverflowError as error:
            raise ParameterError(f"{key} is {text}", str(error)) from None
        if text != UNSET_OPTION:
            check_model_option(key, options[key])
    return options


def _reject_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _parse_finite_float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise OverflowError(f"{text} is too large: the limit is {sys.float_info.max:.1e}")
    return number


STRICT_DECODER = json.JSONDecoder(parse_constant=_reject_constant, parse_float=_parse_finite_float)
"""Decodes JSON without Python's extensions NaN and Infinity."""
JSON_ERRORS = (ValueError, RecursionError, OverflowError)
"""What `STRICT_DECODER` raises; OverflowError for a number that is too large to be sent."""


def check_model_option(key: str, value: Any) -> None:
    """Check a model option against `DEDICATED_OPTIONS` and `OPTION_RANGES`.

    Raises:
        UsageError: the key has a command line option of its own.
        ParameterError: the value is out of range or not a number.
    """
    if key in DEDICATED_OPTIONS:
        raise UsageError(f"-o cannot set {key}", f"use {DEDICATED_OPTIONS[key]}")
    if key not in OPTION_RANGES:
        return
    low, high = OPTION_RANGES[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        expected = f"at least {low:g}" if high == float("inf") else f"from {low:g} to {high:g}"
        raise ParameterError(f"{key} is {value!r}", f"it must be a number {expected}")


# Folders and files

APP_NAME = "ask"
XDG_FOLDERS = {"config": ".config", "data": ".local/share", "cache": ".cache"}
"""The defaults of the XDG Base Directory Specification (https://specifications.freedesktop.org/basedir-spec/)."""
MACOS_FOLDERS = {
    "config": "Library/Application Support",
    "data": "Library/Application Support",
    "cache": "Library/Caches",
}


class AppDirs:
    """The folders of `ask` and the files in them. They need not exist.

    Attributes:
        history_file: the database of saved conversations.
        sign_ins: the folder of sign-ins to MCP servers.
        templates: the folder of the user's own templates.
        skills: the folder of the user's own skills.
        trust_file: the projects whose instructions the user has allowed or declined to send.
        ledger_file: the database of the jobs of `ask map` and their answers.
        results: the folder for tool results that are too long to send to the model.
        approvals_file: the tool calls that the user has approved for later runs.
    """

    def __init__(self, config: Path, data: Path, cache: Path) -> None:
        self.config = config
        self.config_file = config / "config.toml"
        self.keys_file = config / "keys.toml"
        self.sign_ins = config / "sign-ins"
        self.templates = config / "templates"
        self.skills = config / "skills"
        self.data = data
        self.history_file = data / "history.db"
        self.trust_file = data / "trusted-projects.json"
        self.trust_marks = data / "trust-marks"
        self.ledger_file = data / "map.db"
        self.results = data / "results"
        self.tool_call_log = data / "audit.jsonl"
        self.approvals_file = data / "approvals.json"
        self.cache = cache

    @staticmethod
    def from_environment(environment: Mapping[str, str]) -> AppDirs:
        """Return the folders that the environment sets, as in XDG, and for others those of the platform."""
        return AppDirs(*(_find_app_dir(environment, kind) for kind in ("config", "data", "cache")))


def _find_app_dir(environment: Mapping[str, str], kind: str) -> Path:
    xdg_folder = environment.get(f"XDG_{kind.upper()}_HOME", "")
    if xdg_folder.startswith("/"):
        return Path(xdg_folder, APP_NAME)
    folders = MACOS_FOLDERS if sys.platform == "darwin" else XDG_FOLDERS
    return Path.home() / folders[kind] / APP_NAME
