"""The settings of one run, from the command line, the environment and config.toml."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ask.config.config_file import Config
from ask.config.options import RunOptions
from ask.config.settings import (
    FILES_LEVEL,
    SANDBOX_LEVEL,
    SETTINGS,
    UNSET_OPTION,
    Settings,
    convert_to_seconds,
    get_kind,
)
from ask.errors import ConfigError, UsageError
from ask.messages import EMPTY_MAPPING
from ask.text import decode_argument

SWITCH_VALUES = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}


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


def resolve_settings(
    options: RunOptions,
    environment: Mapping[str, str],
    config: Config,
    *,
    system: str | None = None,
    template_parameters: Mapping[str, Any] = EMPTY_MAPPING,
) -> Settings:
    """Resolve the settings of a run.

    `system` is the text of an addition to the system prompt, if it is not that of the option; a template may set model
    parameters.

    Raises:
        UsageError: options cannot be combined, or a model parameter is invalid.
        ConfigError: an environment variable is invalid.
    """
    if system is not None:
        options = options._replace(system=system)
    values: dict[str, Any] = {}
    for key, setting in SETTINGS.items():
        if setting.field:
            option = getattr(options, setting.option or setting.field, None)
            values[setting.field] = _resolve_setting(key, option, environment, config)
    if options.safe and options.safe_files:
        raise UsageError("--safe and --safe-files cannot be combined", "use one of them")
    if options.safe or options.safe_files:
        values["safe"], values["safe_level"] = True, SANDBOX_LEVEL if options.safe else FILES_LEVEL
    else:
        level = config.get("safe.level", "")
        # A user who sets only the level expects safe mode to be on.
        values["safe"] = values["safe"] or (bool(level) and config.get("safe.enabled") is None)
        values["safe_level"] = level or SANDBOX_LEVEL
    values["command_timeout"], values["max_command_timeout"] = _resolve_command_timeouts(options, values, config)
    given_parameters: dict[str, Any] = {}
    if options.options:
        from ask.config.model_options import parse_model_options

        given_parameters = parse_model_options(map(decode_argument, options.options))
    if options.effort is not None:
        given_parameters["reasoning_effort"] = decode_argument(options.effort)
    parameters = {**config.options, **template_parameters, **given_parameters}
    record, replay = options.record or environment.get("ASK_RECORD", ""), environment.get("ASK_REPLAY", "")
    if record and replay:
        raise UsageError("requests cannot be recorded and replayed at the same time", "unset ASK_REPLAY")
    return Settings(
        **values,
        options={name: value for name, value in parameters.items() if value != UNSET_OPTION},
        given_options=frozenset(given_parameters),
        given_server_tools=frozenset(options.server_tools),
        assume_yes=options.yes,
        is_row=options.is_row,
        waits_for_collector=options.waits_for_collector,
        read_only_tools=options.read_only_tools,
        verbose=options.verbose,
        record=record,
        replay=replay,
    )


def _resolve_command_timeouts(options: RunOptions, values: Mapping[str, Any], config: Config) -> tuple[float, float]:
    """Return how long a command may take, and how long if the model gives it more time.

    A time from the command line is also the longest, unless that is given too: it may be meant as a limit.
    """
    timeout, maximum = values["command_timeout"], values["max_command_timeout"]
    if options.max_command_timeout is None:
        if options.command_timeout is not None:
            maximum = timeout
        elif config.get("tools.max_command_timeout", None) is None:
            maximum = max(timeout, maximum)
    return min(timeout, maximum), maximum


def _resolve_setting(key: str, option: Any, environment: Mapping[str, str], config: Config) -> Any:
    setting, default = SETTINGS[key], Settings._field_defaults[SETTINGS[key].field]
    value = config.get(key, default)
    if key == "fallback":  # a sequence, not a set: the option replaces it, and --fallback "" empties it
        return tuple(filter(None, option or value))
    if key == "skills.folders":  # no value is not the same as an empty list
        return value if value is None else tuple(value)
    if get_kind(setting.type) is list:
        return type(default)((*value, *(option or ())))
    if key == "system":
        return "\n\n".join(filter(None, (value, option)))
    if setting.type is bool:
        switch = read_switch(environment, setting.variable) if setting.variable in environment else None
        # Any source can enable safe mode, and none can disable it.
        if switch is not None and not (key == "safe.enabled" and value):
            value = switch
        return not setting.option.startswith("no_") if option else value
    value = value if option is None else option
    # In place of a number, only the type of a time allows a string.
    return convert_to_seconds(value) if get_kind(setting.type) is float and isinstance(value, str) else value
