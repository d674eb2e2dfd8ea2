"""All the tools that there are for a run, whoever they come from, and which of them are offered."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

from ask.cli.workspace import Workspace
from ask.config import Settings
from ask.errors import UsageError
from ask.render.streams import Console
from ask.tools import Tool, builtin_tools

if TYPE_CHECKING:
    from ask.cli.template import Chosen

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
"""A name that every provider takes."""


class Toolbox:
    """The tools of a run, or of a chat. What has to be started for one is started when tools are first offered.

    Args:
        workspace: what is installed and configured.
        console: takes lines about tools that cannot be had.
        cleanup: is closed when the run is over, and ends with it what was started.
    """

    def __init__(self, workspace: Workspace, console: Console, cleanup: ExitStack) -> None:
        self._workspace = workspace
        self._console = console
        self._cleanup = cleanup
        self._all: list[Tool] = []

    def offered(self, settings: Settings, chosen: Chosen | None) -> list[Tool]:
        """The tools to offer: of those that the settings leave, the ones that a named prompt allows.

        Raises:
            UsageError: one is to be left out that does not exist, which would leave the one that was meant.
            ConfigError: a named prompt allows one that does not exist.
        """
        tools = self.all(settings) if settings.tools else builtin_tools()
        names = [tool.spec.name for tool in tools]
        for name in settings.disabled_tools if settings.tools else ():
            if name not in names:
                nearest = difflib.get_close_matches(name, names, 1)
                raise UsageError(f"there is no tool {name!r} to disable", f"did you mean {(nearest or names)[0]}?")
        allowed = chosen.tools(names) if chosen else frozenset(names)
        allowed -= settings.disabled_tools
        return [tool for tool in tools if settings.tools and tool.spec.name in allowed]

    def all(self, settings: Settings) -> list[Tool]:
        """Every tool, in the order in which they are offered; in safe mode those of others only where allowed."""
        if not self._all:
            self._all = list(self._told_apart(self._gather(settings)))
        return self._all

    def _gather(self, settings: Settings) -> Iterator[Tool]:
        yield from builtin_tools()

    def _told_apart(self, tools: Iterable[Tool]) -> Iterator[Tool]:
        """The tools whose names a provider takes, each name once: the first that has it keeps it."""
        owners: dict[str, str] = {}
        for tool in tools:
            name, origin = tool.spec.name, tool.origin
            if not NAME.fullmatch(name):
                self._console.line(f"ask: the tool {name!r} of {origin} is left out: no provider takes that name")
            elif name in owners:
                self._console.line(f"ask: the tool {name} of {origin} is left out: {owners[name]} has one of that name")
            else:
                owners[name] = origin
                yield tool
