"""All tools of a run, built in or from functions, plugins and MCP servers, and the choice of those to offer."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import product, starmap
from operator import attrgetter
from os.path import expanduser, join, lexists
from pathlib import Path
from typing import TYPE_CHECKING

from ask.app import AppContext
from ask.config.settings import (
    CLAUDE_SKILLS_FOLDER,
    COMMAND_SECONDS,
    FILES_LEVEL,
    MAX_COMMAND_SECONDS,
    SHARED_SKILLS_FOLDERS,
    Settings,
)
from ask.errors import UsageError
from ask.text import decode_argument, format_one_line, format_suggestion
from ask.tools.base import Tool
from ask.tools.definitions import (
    BASH,
    BUILTIN_TOOLS,
    READ_SKILL_NAME,
    SEARCH_WEB,
    create_bash_tool,
    create_search_tool,
)
from ask.tools.search_engine import find_search_engine, format_search_setup_hint

if TYPE_CHECKING:
    from ask.mcp.lazy_servers import LazyServers
    from ask.templates.template import Template


TOOL_NAME_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
"""Tool names that every provider accepts."""
DECORATED_NAME_PATTERN = r"(?s:(?:(?:functions|default_api)[.:])?(.*?)(?:<\|.*|:\d+)?)"
"""A tool name with the namespace of a model's training, a control token or the number of the call.

https://github.com/vllm-project/vllm/issues/32587, https://github.com/juspay/clairvoyance/pull/1030
"""


class Toolset:
    """The tools of a run or chat. Servers and plugins are started when tools are first selected.

    Args:
        app: the user's installation; its `cleanup` ends what was started.
        functions: the values of `--tool`.

    Attributes:
        skill_tools: `read_skill`, if there are skills. Set before tools are first selected.
    """

    def __init__(self, app: AppContext, functions: Sequence[str] = ()) -> None:
        self._app = app
        self._functions = functions
        self.skill_tools: Sequence[Tool] = ()
        self._function_files: list[Path] = []
        self._tools: list[Tool] = []
        self._missing_prefixes: list[str] = []
        """Name prefixes of tools that could not be loaded, or were not."""
        self._function_origins: dict[str, str] = {}
        """The names and origins of the tools from `--tool`, except those that were reported as not offered."""

    @cached_property
    def mcp_servers(self) -> LazyServers:
        """The MCP servers, each of which is started when it is needed."""
        from ask.mcp.offered_tools import create_lazy_servers

        return create_lazy_servers(self._app)

    def select_tools(
        self, settings: Settings, template: Template | None, allowed_names: Collection[str] = ()
    ) -> list[Tool]:
        """Return the tools to offer, as allowed by settings and template.

        Args:
            settings: the settings of the run.
            template: the template of the run.
            allowed_names: the tools that `--allow-tool` names; those in config.toml may be of other projects.

        Raises:
            UsageError: a tool to disable or to allow does not exist, so that the intended one would not be.
            ConfigError: a template allows a tool that does not exist.
        """
        if self._functions and not settings.tools:
            advice = "remove the option or setting that disables tools"
            raise UsageError("--tool cannot be used when tools are disabled", advice)
        tools = self.load_tools(settings) if settings.tools else BUILTIN_TOOLS
        names: list[str] = list(map(attrgetter("spec.name"), tools))
        named = [*settings.disabled_tools, *allowed_names]
        if template and not isinstance(template.tools, bool):
            named += template.tools
        names += [name for name in named if name.startswith(self._get_missing_prefixes(settings))]
        for option, values in (
            ("--disable-tool or tools.disabled", settings.disabled_tools),
            ("--allow-tool", allowed_names),
        ):
            for name in set(values).difference(names) if settings.tools else ():
                advice = format_suggestion(name, names, "ask tools lists them")
                raise UsageError(f"unknown tool {name!r} in {option}", advice)
        allowed = template.select_tools(names) if template else frozenset(names)
        allowed -= settings.disabled_tools
        if self._function_origins:
            self._report_excluded_functions(settings, allowed)
        selected = [tool for tool in tools if settings.tools and tool.spec.name in allowed]
        if not settings.read_only_tools:
            return selected
        for tool in selected:
            if tool.has_side_effects and tool.spec.name in self._function_origins:
                self._report_exclusion(tool.spec.name, "can change things", "tools.piped allows no such tool here")
        return [tool for tool in selected if not tool.has_side_effects]

    def _get_missing_prefixes(self, settings: Settings) -> tuple[str, ...]:
        """Return the name prefixes of tools that may exist but are not loaded. An empty prefix matches any name."""
        if not settings.tools and (self._app.plugins.tools or has_mcp_configuration(self._app)):
            return ("",)
        return (SEARCH_WEB.name, READ_SKILL_NAME, *self._missing_prefixes)

    def _report_excluded_functions(self, settings: Settings, allowed_names: frozenset[str]) -> None:
        """Report tools from `--tool` that are not offered, each once."""
        for name in sorted(self._function_origins):
            is_unconfined = settings.safe and name not in settings.allow_tools
            if is_unconfined and name not in settings.disabled_tools:
                self._report_exclusion(name, "cannot be confined", f"add --allow-tool {name} to allow it")
            elif name not in allowed_names and name not in settings.disabled_tools:
                self._report_exclusion(name, "is not one of the template's tools", "")

    def _report_exclusion(self, name: str, reason: str, advice: str) -> None:
        self._function_origins.pop(name, None)
        self._app.console.print_notice(f"{name} {reason} and is not offered" + (f": {advice}" if advice else ""))

    def load_tools(self, settings: Settings) -> list[Tool]:
        """Return all tools, in the order in which they are offered.

        In safe mode, tools that are not built in are loaded only if one is allowed.
        """
        if not self._tools:
            self._tools = list(self._filter_usable(self._iter_all_tools(settings)))
        return self._tools

    def _iter_all_tools(self, settings: Settings) -> Iterator[Tool]:
        tools = [*BUILTIN_TOOLS]
        limits = settings.command_timeout, settings.max_command_timeout
        if limits != (COMMAND_SECONDS, MAX_COMMAND_SECONDS):
            tools[tools.index(BASH)] = create_bash_tool(*limits)
        if engine := find_search_engine(self._app, settings.search_engine):
            tools.append(create_search_tool(engine))
        elif settings.search_engine and SEARCH_WEB.name not in settings.disabled_tools:
            hint = format_search_setup_hint(settings.search_engine)
            self._app.console.print_notice(f"{SEARCH_WEB.name} is not available: {hint}")
        tools += self.skill_tools
        if self._functions:
            tools += self._load_function_tools(settings)
        yield from tools
        if settings.safe and settings.safe_level == FILES_LEVEL and not settings.allow_tools:
            self._report_unconfined_sources()
        if self._app.plugins.tools:
            yield from self._load_plugin_tools(settings, tools)
        if has_mcp_configuration(self._app):
            from ask.mcp.offered_tools import load_mcp_tools

            mcp_tools, missing_prefixes = load_mcp_tools(self._app, settings, self.mcp_servers)
            self._missing_prefixes += missing_prefixes
            yield from mcp_tools

    def _report_unconfined_sources(self) -> None:
        sources = ["plugins"] if self._app.plugins.tools else []
        sources += ["MCP servers"] if has_mcp_configuration(self._app) else []
        if sources:
            self._app.console.print_notice(
                f"tools of {' and '.join(sources)} cannot be confined and are not offered: "
                "add --allow-tool NAME to allow one"
            )

    def _load_function_tools(self, settings: Settings) -> list[Tool]:
        """Load the tools that `--tool` names. In safe mode, files are not run unless a tool is allowed.

        Raises:
            UsageError: an option is invalid.
            FileError, ConfigError: one cannot be read or loaded.
        """
        from ask.tools.plugins.plugin_tools import load_function_tools, parse_tool_option

        if settings.safe and not settings.allow_tools:
            for value in self._functions:
                location, name, _ = parse_tool_option(value)
                advice = f"add --allow-tool {name or 'NAME'} to allow it"
                self._report_exclusion(decode_argument(location), "cannot be confined", advice)
            self._missing_prefixes.append("")
            return []
        tools = load_function_tools(self._functions, self._app, settings)
        self._function_origins = {tool.spec.name: tool.origin for tool in tools}
        targets = map(parse_tool_option, self._functions)
        self._function_files = [Path(location).absolute() for location, _, is_file in targets if is_file]
        return tools

    def list_programs(self) -> list[Path]:
        """List the files of `--tool`, and the programs and scripts of MCP servers, as far as they are used."""
        mcp_programs = self.mcp_servers.list_programs() if has_mcp_configuration(self._app) else ()
        return [*self._function_files, *mcp_programs]

    def list_idle_programs(self) -> Sequence[Path]:
        """List the programs and scripts of the MCP servers that are enabled, but not used."""
        return self.mcp_servers.list_idle_programs() if has_mcp_configuration(self._app) else ()

    def _load_plugin_tools(self, settings: Settings, existing_tools: Iterable[Tool]) -> Iterator[Tool]:
        """Load the tools of installed plugins.

        In safe mode this happens only if an allowed tool may be one of theirs.
        """
        unknown_allowed = {*settings.allow_tools}.difference(tool.spec.name for tool in existing_tools)
        if settings.safe and not unknown_allowed:
            self._missing_prefixes.append("")
            return
        from ask.tools.plugins.plugin_process import PluginLoadError
        from ask.tools.plugins.plugin_tools import load_plugin_tools

        for origin, loaded in load_plugin_tools(self._app, settings):
            if isinstance(loaded, PluginLoadError):
                self._missing_prefixes.append("")
                self._app.console.print_notice(f"cannot load the tools of {origin}: {loaded}")
            else:
                yield from loaded

    def _filter_usable(self, tools: Iterable[Tool]) -> Iterator[Tool]:
        """Yield the tools that providers accept. Of several with the same name, the first is used.

        Raises:
            UsageError: a tool from `--tool` cannot be used.
        """
        owners: dict[str, str] = {}
        for tool in tools:
            name, origin = tool.spec.name, tool.origin
            if not TOOL_NAME_PATTERN.fullmatch(name):
                problem = f"no provider accepts the name {name!r}"
            elif name in owners:
                problem = f"{owners[name]} has a tool of the same name"
            else:  # built-in schemas need no check
                problem = _find_schema_problem(tool) if origin != "ask" else ""
            if not problem:
                owners[name] = origin
                yield tool
                continue
            title = f"the tool {format_one_line(name)} of {origin}"
            if (name, origin) in self._function_origins.items():
                raise UsageError(f"cannot offer {title}: {problem}", "rename it with @tool(name=...)")
            self._app.console.print_notice(f"skipping {title}: {problem}")


def find_meant_tool(name: str, offered_names: Collection[str]) -> str:
    """Return the tool that a call means, whose name may be decorated or in another case; the name if there is none."""
    if name in offered_names:
        return name
    match = re.fullmatch(DECORATED_NAME_PATTERN, name.strip())
    plain_name = match[1].strip().casefold() if match else ""
    meant_names = [offered for offered in offered_names if offered.casefold() == plain_name]
    return meant_names[0] if len(meant_names) == 1 else name


def limit_tools_with_data(settings: Settings, data: bytes) -> Settings:
    """Return the settings with the tools that `tools.piped` allows for this data from standard input."""
    if not data.strip():
        return settings
    return settings._replace(tools=settings.piped_tools != "none", read_only_tools=True)


def _find_schema_problem(tool: Tool) -> str:
    """Return why providers reject a tool's parameters; "" if they do not."""
    from ask.plugin_api.tool_schemas import UnusableToolError, normalize_tool

    try:
        normalize_tool(tool.spec)
    except UnusableToolError as error:
        return str(error)
    return ""


def has_context_files(directory: Path, settings: Settings, app: AppContext) -> bool:
    """Check cheaply whether instructions or skills may apply to a folder; they are looked for only then."""
    shared_folders = SHARED_SKILLS_FOLDERS if settings.skill_folders is None else settings.skill_folders
    names = (*settings.context_files, ".agents", *(name for name in shared_folders if name == CLAUDE_SKILLS_FOLDER))
    paths = starmap(join, product((directory, *directory.parents), names))
    user_paths = (expanduser(name) for name in shared_folders if name != CLAUDE_SKILLS_FOLDER)
    return app.app_dirs.skills.exists() or any(map(lexists, paths)) or any(map(lexists, user_paths))


def has_mcp_configuration(app: AppContext) -> bool:
    """Check whether MCP servers may be configured, without reading mcp.json."""
    return bool(app.config.values.get("mcp")) or (app.app_dirs.config / "mcp.json").exists()
