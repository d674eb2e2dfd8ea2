"""All the tools of a run, whether built in, from functions, plugins or MCP servers, and which are offered."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from ask.agent.app_context import AppContext
from ask.api_keys import format_variable_prefix
from ask.console import StderrConsole
from ask.errors import UsageError
from ask.settings import Settings
from ask.text import decode_argument
from ask.tools.base import Tool
from ask.tools.builtin import list_builtin_tools
from ask.tools.search_engine import SearchEngine
from ask.tools.web_search import DUCKDUCKGO, ENGINE_BASE_URLS, SEARCH_WEB, create_search_tool, is_ddgs_installed

if TYPE_CHECKING:
    from ask.agent.template_selection import SelectedTemplate


def create_search_tools(app: AppContext, settings: Settings, console: StderrConsole) -> Iterator[Tool]:
    """The tool that searches, where there is an engine to ask; a line where the one that is configured cannot be."""
    wanted = settings.search_engine
    engine = find_search_engine(app, wanted)
    if engine:
        yield create_search_tool(engine)
    elif wanted and SEARCH_WEB.name not in settings.disabled_tools:
        console.print_line(f"ask: {SEARCH_WEB.name} is left out: {format_search_setup_hint(wanted)}")


def find_search_engine(app: AppContext, engine_name: str) -> SearchEngine | None:
    """The engine of that name, or with "" the first, if it can be asked.

    Raises:
        ConfigError: keys.toml cannot be read.
    """
    for name, base_url in ENGINE_BASE_URLS.items():
        if engine_name in ("", name):
            if name == DUCKDUCKGO:
                return SearchEngine(name, base_url) if is_ddgs_installed() else None
            key, _ = app.key_store.find(name)
            if key:
                elsewhere = app.environment.get(f"{format_variable_prefix(name)}_BASE_URL", "").strip()
                return SearchEngine(name, elsewhere or base_url, key)
    return None


def format_search_setup_hint(engine_name: str) -> str:
    """What keeps an engine from being asked, and what to do."""
    if engine_name == DUCKDUCKGO:
        from ask.installation import format_install_command

        return f"{engine_name} needs the package ddgs: {format_install_command('web')}"
    return f"no key for {engine_name}: set {format_variable_prefix(engine_name)}_API_KEY or run `ask keys set {engine_name}`"


TOOL_NAME_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
"""A name that every provider takes."""


class Toolset:
    """The tools of a run, or of a chat. What has to be started for one is started when tools are first offered.

    Args:
        workspace: what is installed and configured.
        console: takes lines about tools that cannot be had.
        cleanup: is closed when the run is over, and ends with it what was started.
        functions: what `--tool` names.
    """

    def __init__(
        self, app: AppContext, console: StderrConsole, cleanup: ExitStack, functions: Sequence[str] = ()
    ) -> None:
        self._app = app
        self._console = console
        self._cleanup = cleanup
        self._functions = functions
        self._tools: list[Tool] = []
        self._missing_prefixes: list[str] = []
        """What the names of tools begin with that could not be loaded, or were not."""
        self._requested_names: set[str] = set()
        self._excluded_names: set[str] = set()

    def select_tools(self, settings: Settings, selected_template: SelectedTemplate | None) -> list[Tool]:
        """The tools to offer: of those that the settings leave, the ones that a named prompt allows.

        Raises:
            UsageError: one is to be left out that does not exist, which would leave the one that was meant.
            ConfigError: a named prompt allows one that does not exist.
        """
        if self._functions and not settings.tools:
            advice = "leave out what switches tools off"
            raise UsageError("--tool has no meaning where the model may call no tools", advice)
        tools = self.load_tools(settings) if settings.tools else list_builtin_tools()
        names = [tool.spec.name for tool in tools]
        names += [
            name
            for name in list_named_tools(settings, selected_template)
            if name.startswith(self._get_missing_prefixes(settings))
        ]
        for name in settings.disabled_tools.difference(names) if settings.tools else ():
            from ask.suggestions import suggest

            near = suggest(name, names)
            advice = f"did you mean {near}?" if near else "ask tools lists them"
            raise UsageError(f"there is no tool {name!r} to disable", advice)
        allowed = selected_template.select_tools(names) if selected_template else frozenset(names)
        allowed -= settings.disabled_tools
        self._report_excluded_functions(settings, allowed)
        return [tool for tool in tools if settings.tools and tool.spec.name in allowed]

    def _get_missing_prefixes(self, settings: Settings) -> tuple[str, ...]:
        """What the names begin with that are no mistake, as what would have them is not there; "" for any name."""
        if not settings.tools and (self._app.tool_plugins or has_mcp_configuration(self._app)):
            return ("",)
        return (SEARCH_WEB.name, *self._missing_prefixes)

    def _report_excluded_functions(self, settings: Settings, allowed_names: frozenset[str]) -> None:
        """Say which tools the user names for this run and does not get."""
        for name in sorted(self._requested_names - self._excluded_names):
            unsafe = settings.safe and name not in settings.allow_tools
            if unsafe and name not in settings.disabled_tools:
                self._report_exclusion(name, "runs outside the sandbox", f"--allow-tool {name} offers it")
            elif name not in allowed_names and name not in settings.disabled_tools:
                self._report_exclusion(name, "is not one of the prompt's tools", "")

    def _report_exclusion(self, name: str, reason: str, advice: str) -> None:
        self._excluded_names.add(name)
        self._console.print_line(f"ask: {name} {reason} and is not offered" + (f": {advice}" if advice else ""))

    def load_tools(self, settings: Settings) -> list[Tool]:
        """Every tool, in the order in which they are offered; in safe mode those of others only where allowed."""
        if not self._tools:
            self._tools = list(self._filter_usable(self._iter_all_tools(settings)))
        return self._tools

    def _iter_all_tools(self, settings: Settings) -> Iterator[Tool]:
        known = [*list_builtin_tools(), *create_search_tools(self._app, settings, self._console)]
        if self._functions:
            known += self._load_function_tools(settings, known)
        yield from known
        if self._app.tool_plugins:
            yield from self._load_plugin_tools(settings, known)
        if has_mcp_configuration(self._app):
            from ask.agent.mcp_tools import load_mcp_tools

            offered = load_mcp_tools(self._app, settings, self._console, self._cleanup)
            self._missing_prefixes += offered.missing_prefixes
            yield from offered.tools

    def _load_function_tools(self, settings: Settings, existing_tools: Iterable[Tool]) -> list[Tool]:
        """The tools that `--tool` names; in safe mode no file is run of which nothing may be offered.

        Raises:
            UsageError: it makes no sense, or a tool has a name that is taken.
            FileError, ConfigError: one cannot be read, or loaded.
        """
        from ask.agent.plugin_tools import load_function_tools, parse_tool_option

        if settings.safe and not settings.allow_tools:
            for value in self._functions:
                place, name, _ = parse_tool_option(value)
                advice = f"--allow-tool {name or 'NAME'} offers it"
                self._report_exclusion(decode_argument(place), "runs outside the sandbox", advice)
            self._missing_prefixes.append("")
            return []
        tools = load_function_tools(self._functions, self._app, settings, self._cleanup)
        owners = {tool.spec.name: tool.origin for tool in existing_tools}
        for tool in tools:
            name = tool.spec.name
            if name in owners:
                advice = "give it another, with @tool(name=...)"
                raise UsageError(f"the name of the tool {name} of {tool.origin} is taken by {owners[name]}", advice)
            if not TOOL_NAME_PATTERN.fullmatch(name):
                raise UsageError(f"no provider takes a tool named {name!r}", "give it another, with @tool(name=...)")
            owners[name] = tool.origin
        self._requested_names |= {tool.spec.name for tool in tools}
        return tools

    def _load_plugin_tools(self, settings: Settings, existing_tools: Iterable[Tool]) -> Iterator[Tool]:
        """The tools of installed plugins; in safe mode they are loaded only where one of them may be meant."""
        meant = {*settings.allow_tools}.difference(tool.spec.name for tool in existing_tools)
        if settings.safe and not meant:
            self._missing_prefixes.append("")
            return
        from ask.agent.plugin_tools import ToolLoadFailure, load_plugin_tools

        for found in load_plugin_tools(self._app.tool_plugins, self._app, settings, self._cleanup):
            if isinstance(found, ToolLoadFailure):
                self._missing_prefixes.append("")
                self._console.print_line(f"ask: {found}")
            else:
                yield found

    def _filter_usable(self, tools: Iterable[Tool]) -> Iterator[Tool]:
        """The tools that a provider accepts, each name once: the first that has it keeps it."""
        owners: dict[str, str] = {}
        for tool in tools:
            name, origin = tool.spec.name, tool.origin
            if not TOOL_NAME_PATTERN.fullmatch(name):
                self._console.print_line(f"ask: the tool {name!r} of {origin} is left out: no provider takes that name")
            elif name in owners:
                self._console.print_line(
                    f"ask: the tool {name} of {origin} is left out: {owners[name]} has one of that name"
                )
            elif problem := find_schema_problem(tool):
                self._console.print_line(f"ask: the tool {name} of {origin} is left out: {problem}")
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


def list_named_tools(settings: Settings, selected_template: SelectedTemplate | None) -> list[str]:
    """The names of tools that the user and the named prompt say."""
    wanted = selected_template.template.tools if selected_template else False
    return [*settings.disabled_tools, *(() if isinstance(wanted, bool) else wanted)]


def has_mcp_configuration(app: AppContext) -> bool:
    """Whether MCP servers may be configured, as far as can be told without reading a file of theirs."""
    return bool(app.config.values.get("mcp")) or (app.app_dirs.config / "mcp.json").exists()
