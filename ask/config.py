"""Where files live, what config.toml says, and the settings that a run works by.

Raw command line options become `Settings` here, once; everything behind the command line takes those.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ask.errors import ConfigError
from ask.messages import NOTHING

APPLICATION = "ask"

KEYS: dict[str, type | tuple[type, ...]] = {
    "provider": str,
    "model": str,
    "system": str,
    "max_rounds": int,
    "max_cost": (int, float),
    "timeout": (int, float),
    "stream": bool,
    "stdin_limit": int,
    "tools.enabled": bool,
    "tools.disabled": list,
    "tools.command_timeout": (int, float),
    "tools.confirm": bool,
    "network.tries": int,
    "network.backoff": (int, float),
}
"""What config.toml may hold, beside the free tables `aliases`, `options` and `providers`."""

TABLES = (*dict.fromkeys(key.partition(".")[0] for key in KEYS if "." in key), "aliases", "options", "providers")

MOST = 1_000_000_000
"""No number in config.toml may be greater: as a time in seconds it means for ever."""

PROVIDER_KEYS = ("base_url", "key_env", "model")
"""What a table `[providers.NAME]` may hold, all strings."""


class Places(NamedTuple):
    """The folders of `ask`: XDG's where the environment names them, else the platform's own."""

    config: Path
    data: Path
    cache: Path

    @staticmethod
    def find(environment: Mapping[str, str]) -> Places:
        """The folders for this environment; none of them need exist."""
        return Places(*(_folder(environment, kind) for kind in ("config", "data", "cache")))


def _folder(environment: Mapping[str, str], kind: str) -> Path:
    named = environment.get(f"XDG_{kind.upper()}_HOME", "")
    if named.startswith("/"):
        return Path(named, APPLICATION)
    import platformdirs

    return Path(getattr(platformdirs, f"user_{kind}_path")(APPLICATION, appauthor=False))


class Config(NamedTuple):
    """The content of config.toml, checked. `warnings` are lines about what was not understood."""

    values: Mapping[str, Any] = NOTHING
    warnings: tuple[str, ...] = ()

    def get(self, key: str, default: Any = None) -> Any:
        """The value at a dotted key of `KEYS`."""
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

    def provider(self, name: str) -> Mapping[str, str]:
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
    except FileNotFoundError:
        return {}
    except OSError as fault:
        raise ConfigError(f"cannot read {path} ({fault.strerror})") from fault
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
    warnings: list[str] = []
    for key, value in _flat(values):
        if key in TABLES and not isinstance(value, dict):
            raise ConfigError(f"{path}: {key} must be a table", f"write [{key}]")
        if key == "options":
            _check_options(path, value)
        elif key.startswith("aliases."):
            _check_type(path, key, value, str)
        elif key.startswith("providers."):
            warnings += _check_provider(path, key, value)
        elif key in KEYS:
            _check_type(path, key, value, KEYS[key])
        else:
            warnings.append(f"{path}: {_unknown(key, list(KEYS))}")
    return Config(values, tuple(warnings))


def _flat(values: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The keys to check: those at the top, and those of sections as section.key."""
    rows: list[tuple[str, Any]] = []
    for key, value in values.items():
        nested = isinstance(value, dict) and key != "options" and key not in KEYS
        rows += [(f"{key}.{name}", inner) for name, inner in value.items()] if nested else [(key, value)]
    return rows


def _check_options(path: Path, table: Mapping[str, Any]) -> None:
    try:
        json.dumps(table, allow_nan=False)
    except (TypeError, ValueError) as fault:
        raise ConfigError(f"{path}: [options] holds what no request can ({fault})", "write dates as strings") from fault


def _check_provider(path: Path, key: str, table: Any) -> list[str]:
    if not isinstance(table, dict):
        raise ConfigError(f"{path}: {key} must be a table", f"write [{key}]")
    for name, value in table.items():
        if name in PROVIDER_KEYS:
            _check_type(path, f"{key}.{name}", value, str)
    return [f"{path}: {_unknown(name, list(PROVIDER_KEYS))} in [{key}]" for name in table if name not in PROVIDER_KEYS]


def _check_type(path: Path, key: str, value: Any, kind: type | tuple[type, ...]) -> None:
    kinds = kind if isinstance(kind, tuple) else (kind,)
    texts = {str: "a string", int: "a whole number", float: "a number", bool: "true or false", list: "a list of names"}
    wanted = texts[kinds[-1]]
    fits = isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))
    if fits and list in kinds:
        fits = all(isinstance(name, str) for name in value)
    elif fits and int in kinds:
        wanted += f" above 0, at most {MOST}"
        fits = 0 < value <= MOST or (key == "network.backoff" and value == 0)
    if not fits:
        raise ConfigError(f"{path}: {key} must be {wanted}", f"it is {value!r}")


def _unknown(key: str, known: list[str]) -> str:
    nearest = difflib.get_close_matches(key, known, 1)
    return f"unknown key {' '.join(key.split())}" + (f" (did you mean {nearest[0]}?)" if nearest else "")


class Settings(NamedTuple):
    """How a run works, resolved from flags, environment and configuration, in that order.

    Times are in seconds, sizes in bytes, costs in US dollars.
    """

    system: str = ""
    options: Mapping[str, Any] = NOTHING
    tools: bool = True
    disabled_tools: frozenset[str] = frozenset()
    max_rounds: int = 10
    max_cost: float | None = None
    command_timeout: float = 30.0
    confirm: bool = False
    yes: bool = False
    stream: bool = True
    timeout: float = 300.0
    tries: int = 4
    backoff: float = 0.5
    stdin_limit: int = 10_000_000


def resolve(flags: Mapping[str, Any], environment: Mapping[str, str], config: Config) -> Settings:
    """The settings of a run. `flags` holds the options by name, None for those not given."""
    defaults = Settings()

    def pick(flag: str, key: str, default: Any) -> Any:
        given = flags.get(flag)
        return given if given is not None else config.get(key, default)

    system = "\n\n".join(filter(None, (config.get("system"), flags.get("system"))))
    disabled = {*config.get("tools.disabled", []), *(flags.get("disable_tool") or ())}
    in_environment = {"0": False, "1": True}.get(environment.get("ASK_TOOLS", ""))
    tools = in_environment if in_environment is not None else config.get("tools.enabled", True)
    return Settings(
        system=system,
        options={**config.options, **(flags.get("option") or {})},
        tools=tools and not flags.get("no_tools"),
        disabled_tools=frozenset(str(name) for name in disabled),
        max_rounds=pick("max_rounds", "max_rounds", defaults.max_rounds),
        max_cost=pick("max_cost", "max_cost", None),
        command_timeout=float(pick("command_timeout", "tools.command_timeout", defaults.command_timeout)),
        confirm=bool(flags.get("confirm")) or config.get("tools.confirm", False),
        yes=bool(flags.get("yes")),
        stream=config.get("stream", True) and not flags.get("no_stream"),
        timeout=float(pick("timeout", "timeout", defaults.timeout)),
        tries=config.get("network.tries", defaults.tries),
        backoff=float(config.get("network.backoff", defaults.backoff)),
        stdin_limit=config.get("stdin_limit", defaults.stdin_limit),
    )
