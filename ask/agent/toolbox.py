"""All the tools of a run, whether built in, from functions, plugins or MCP servers, and which are offered."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from ask.agent.workspace import Workspace
from ask.api_keys import stem
from ask.console import Console
from ask.errors import UsageError
from ask.settings import Settings
from ask.text import as_text
from ask.tools.base import Tool
from ask.tools.builtin import builtin_tools
from ask.tools.search_engine import Engine
from ask.tools.web_search import DUCKDUCKGO, ENGINES, SEARCH_WEB, is_installed, search_tool

if TYPE_CHECKING:
    from ask.agent.template_selection import Chosen


def search_tools(workspace: Workspace, settings: Settings, console: Console) -> Iterator[Tool]:
    """The tool that searches, where there is an engine to ask; a line where the one that is configured cannot be."""
    wanted = settings.search_engine
    engine = find_engine(workspace, wanted)
    if engine:
        yield search_tool(engine)
    elif wanted and SEARCH_WEB.name not in settings.disabled_tools:
        console.line(f"ask: {SEARCH_WEB.name} is left out: {how_to_have(wanted)}")


def find_engine(workspace: Workspace, wanted: str) -> Engine | None:
    """The engine of that name, or with "" the first, if it can be asked.

    Raises:
        ConfigError: keys.toml cannot be read.
    """
    for name, base_url in ENGINES.items():
        if wanted in ("", name):
            if name == DUCKDUCKGO:
                return Engine(name, base_url) if is_installed() else None
            key, _ = workspace.keys.find(name)
            if key:
                elsewhere = workspace.environment.get(f"{stem(name)}_BASE_URL", "").strip()
                return Engine(name, elsewhere or base_url, key)
    return None


def how_to_have(name: str) -> str:
    """What keeps an engine from being asked, and what to do."""
    if name == DUCKDUCKGO:
        from ask.installation import format_install_command

        return f"{name} needs the package ddgs: {format_install_command('web')}"
    return f"no key for {name}: set {stem(name)}_API_KEY or run `ask keys set {name}`"


NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
"""A name that every provider takes."""


class Toolbox:
    """The tools of a run, or of a chat. What has to be started for one is started when tools are first offered.

    Args:
        workspace: what is installed and configured.
        console: takes lines about tools that cannot be had.
        cleanup: is closed when the run is over, and ends with it what was started.
        functions: what `--tool` names.
    """

    def __init__(
        self, workspace: Workspace, console: Console, cleanup: ExitStack, functions: Sequence[str] = ()
    ) -> None:
        self._workspace = workspace
        self._console = console
        self._cleanup = cleanup
        self._functions = functions
        self._all: list[Tool] = []
        self._absent: list[str] = []
        """What the names of tools begin with that could not be loaded, or were not."""
        self._named: set[str] = set()
        self._not_offered: set[str] = set()

    def offered(self, settings: Settings, chosen: Chosen | None) -> list[Tool]:
        """The tools to offer: of those that the settings leave, the ones that a named prompt allows.

        Raises:
            UsageError: one is to be left out that does not exist, which would leave the one that was meant.
            ConfigError: a named prompt allows one that does not exist.
        """
        if self._functions and not settings.tools:
            advice = "leave out what switches tools off"
            raise UsageError("--tool has no meaning where the model may call no tools", advice)
        tools = self.all(settings) if settings.tools else builtin_tools()
        names = [tool.spec.name for tool in tools]
        names += [name for name in named(settings, chosen) if name.startswith(self._not_there(settings))]
        for name in settings.disabled_tools.difference(names) if settings.tools else ():
            from ask.suggestions import suggest

            near = suggest(name, names)
            advice = f"did you mean {near}?" if near else "ask tools lists them"
            raise UsageError(f"there is no tool {name!r} to disable", advice)
        allowed = chosen.tools(names) if chosen else frozenset(names)
        allowed -= settings.disabled_tools
        self._tell_of_functions(settings, allowed)
        return [tool for tool in tools if settings.tools and tool.spec.name in allowed]

    def _not_there(self, settings: Settings) -> tuple[str, ...]:
        """What the names begin with that are no mistake, as what would have them is not there; "" for any name."""
        if not settings.tools and (self._workspace.tool_plugins or may_have_servers(self._workspace)):
            return ("",)
        return (SEARCH_WEB.name, *self._absent)

    def _tell_of_functions(self, settings: Settings, allowed: frozenset[str]) -> None:
        """Say which tools the user names for this run and does not get."""
        for name in sorted(self._named - self._not_offered):
            unsafe = settings.safe and name not in settings.allow_tools
            if unsafe and name not in settings.disabled_tools:
                self._leave_out(name, "runs outside the sandbox", f"--allow-tool {name} offers it")
            elif name not in allowed and name not in settings.disabled_tools:
                self._leave_out(name, "is not one of the prompt's tools", "")

    def _leave_out(self, name: str, reason: str, advice: str) -> None:
        self._not_offered.add(name)
        self._console.line(f"ask: {name} {reason} and is not offered" + (f": {advice}" if advice else ""))

    def all(self, settings: Settings) -> list[Tool]:
        """Every tool, in the order in which they are offered; in safe mode those of others only where allowed."""
        if not self._all:
            self._all = list(self._told_apart(self._gather(settings)))
        return self._all

    def _gather(self, settings: Settings) -> Iterator[Tool]:
        known = [*builtin_tools(), *search_tools(self._workspace, settings, self._console)]
        if self._functions:
            known += self._from_functions(settings, known)
        yield from known
        if self._workspace.tool_plugins:
            yield from self._from_plugins(settings, known)
        if may_have_servers(self._workspace):
            from ask.agent.mcp_tools import mcp_tools

            offered = mcp_tools(self._workspace, settings, self._console, self._cleanup)
            self._absent += offered.absent
            yield from offered.tools

    def _from_functions(self, settings: Settings, own: Iterable[Tool]) -> list[Tool]:
        """The tools that `--tool` names; in safe mode no file is run of which nothing may be offered.

        Raises:
            UsageError: it makes no sense, or a tool has a name that is taken.
            FileError, ConfigError: one cannot be read, or loaded.
        """
        from ask.agent.plugin_tools import function_tools, read_target

        if settings.safe and not settings.allow_tools:
            for value in self._functions:
                place, name, _ = read_target(value)
                advice = f"--allow-tool {name or 'NAME'} offers it"
                self._leave_out(as_text(place), "runs outside the sandbox", advice)
            self._absent.append("")
            return []
        tools = function_tools(self._functions, self._workspace, settings, self._cleanup)
        owners = {tool.spec.name: tool.origin for tool in own}
        for tool in tools:
            name = tool.spec.name
            if name in owners:
                advice = "give it another, with @tool(name=...)"
                raise UsageError(f"the name of the tool {name} of {tool.origin} is taken by {owners[name]}", advice)
            if not NAME.fullmatch(name):
                raise UsageError(f"no provider takes a tool named {name!r}", "give it another, with @tool(name=...)")
            owners[name] = tool.origin
        self._named |= {tool.spec.name for tool in tools}
        return tools

    def _from_plugins(self, settings: Settings, others: Iterable[Tool]) -> Iterator[Tool]:
        """The tools of installed plugins; in safe mode they are loaded only where one of them may be meant."""
        meant = {*settings.allow_tools}.difference(tool.spec.name for tool in others)
        if settings.safe and not meant:
            self._absent.append("")
            return
        from ask.agent.plugin_tools import Fault, plugin_tools

        for found in plugin_tools(self._workspace.tool_plugins, self._workspace, settings, self._cleanup):
            if isinstance(found, Fault):
                self._absent.append("")
                self._console.line(f"ask: {found}")
            else:
                yield found

    def _told_apart(self, tools: Iterable[Tool]) -> Iterator[Tool]:
        """The tools that a provider accepts, each name once: the first that has it keeps it."""
        owners: dict[str, str] = {}
        for tool in tools:
            name, origin = tool.spec.name, tool.origin
            if not NAME.fullmatch(name):
                self._console.line(f"ask: the tool {name!r} of {origin} is left out: no provider takes that name")
            elif name in owners:
                self._console.line(f"ask: the tool {name} of {origin} is left out: {owners[name]} has one of that name")
            elif problem := find_schema_problem(tool):
                self._console.line(f"ask: the tool {name} of {origin} is left out: {problem}")
            else:
                owners[name] = origin
                yield tool


def find_schema_problem(tool: Tool) -> str:
    """Say why no provider accepts a tool's parameters; "" if they do."""
    if tool.origin == "ask":  # its own schemas need no check
        return ""
    from ask.plugin_api.tool_schemas import UnusableToolError, normalize_tool

    try:
        normalize_tool(tool.spec)
    except UnusableToolError as error:
        return str(error)
    return ""


def named(settings: Settings, chosen: Chosen | None) -> list[str]:
    """The names of tools that the user and the named prompt say."""
    wanted = chosen.template.tools if chosen else False
    return [*settings.disabled_tools, *(() if isinstance(wanted, bool) else wanted)]


def may_have_servers(workspace: Workspace) -> bool:
    """Whether MCP servers may be configured, as far as can be told without reading a file of theirs."""
    return bool(workspace.config.values.get("mcp")) or (workspace.places.config / "mcp.json").exists()
