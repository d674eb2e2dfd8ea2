"""The tables `[[hooks]]` of config.toml: commands that the user runs at events of a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from ask.config.settings import PositiveSeconds
from ask.errors import ConfigError
from ask.records import NamedTuple

HookEvent = Literal["run_start", "before_tool", "after_tool", "run_end", "notification"]
TOOL_EVENTS = ("before_tool", "after_tool")
DEFAULT_HOOK_SECONDS = 60.0


class Hook(NamedTuple):
    """A command to run at an event; the fields are the keys of its table in config.toml."""

    event: HookEvent
    command: str
    """Run by `sh -c`, with a JSON object that describes the event on its standard input."""
    matcher: str | tuple[str, ...] = ()
    """The tools and commands that the hook is for, as in `tools.deny`; () for all."""
    timeout: PositiveSeconds = DEFAULT_HOOK_SECONDS
    """Seconds that the command may take."""
    sandbox: bool = True
    """Whether safe mode runs the command in its sandbox."""

    @property
    def matchers(self) -> tuple[str, ...]:
        return tuple(filter(None, (self.matcher,))) if isinstance(self.matcher, str) else self.matcher


def parse_hooks(path: Path, tables: Any, warnings: list[str] | None = None) -> tuple[Hook, ...]:
    """Return the hooks of config.toml; add warnings about unknown keys.

    Raises:
        ConfigError: one is invalid. It may be a restriction, so nothing runs without it.
    """
    if not isinstance(tables, list):
        raise ConfigError(f"{path}: hooks must be a list of tables", "write [[hooks]]")
    return tuple(_parse_hook(path, number, table, warnings) for number, table in enumerate(tables))


def _parse_hook(path: Path, number: int, table: Mapping[str, Any], warnings: list[str] | None) -> Hook:
    from ask.config.table_checks import parse_record_table

    key = f"{path}: hooks[{number}]"
    values = parse_record_table(path, ("hooks", number), table, Hook, keys=Hook._fields, warnings=warnings)
    for required in ("event", "command"):
        if not values.get(required):
            raise ConfigError(f"{key} has no {required}", f"add {required}")
    hook = Hook(**values)
    if hook.matchers and hook.event not in TOOL_EVENTS:
        raise ConfigError(f"{key} has a matcher, but {hook.event} is not about tools", "remove matcher")
    return hook
