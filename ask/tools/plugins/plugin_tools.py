"""Tools from `--tool` and from installed plugins. Each source runs in its own process."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from ask.app import AppContext
from ask.config.directories import get_working_directory
from ask.config.settings import Settings
from ask.errors import ConfigError, FileError, UsageError
from ask.plugin_api.import_guard import report_slow_loading
from ask.text import decode_argument
from ask.tools.base import BUILTIN_ORIGIN, Tool
from ask.tools.plugins.plugin_process import PluginEnvironment, PluginLoadError, ToolPlugin

DOTTED_NAME_PATTERN = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
"""A module, or an object in a module."""
TOOL_OPTION_HINT = "use --tool FILE.py, --tool FILE.py:FUNCTION or --tool MODULE:FUNCTION"

ToolTarget = tuple[str, str, bool]
"""The first fields of `ask.tools.plugins.tool_loading.ToolTarget`, which is imported only in the worker process."""
ToolSource = tuple[str, Sequence[Sequence[str | bool]], Sequence[str]]
"""A file, module or package with tools: its displayed origin, its targets, and folders to import from."""
LoadedSource = tuple[str, Sequence[Tool] | PluginLoadError]
"""The displayed origin of a source, and its tools or why they cannot be loaded."""


def load_function_tools(option_values: Sequence[str], app: AppContext, settings: Settings) -> list[Tool]:
    """Load the tools that `--tool` names.

    Raises:
        UsageError: an option names neither a file nor a module.
        FileError: a file cannot be read.
        ConfigError: a tool cannot be loaded.
    """
    attributes_by_location: dict[tuple[str, bool], list[str]] = {}
    for value in option_values:
        location, attribute, is_file = parse_tool_option(value)
        attributes_by_location.setdefault((location, is_file), []).append(attribute)
    sources: list[ToolSource] = []
    for (location, is_file), attributes in attributes_by_location.items():
        absolute_location = str(Path(location).absolute()) if is_file else location
        origin = decode_argument(location) if is_file else f"module {location}"
        targets = [(absolute_location, attribute, is_file) for attribute in attributes]
        sources.append((origin, targets, () if is_file else (str(get_working_directory()),)))
    tools: list[Tool] = []
    for origin, loaded in _load_sources(sources, app, settings):
        if isinstance(loaded, PluginLoadError):
            raise ConfigError(f"cannot load the tools of {origin}", str(loaded))
        tools += loaded
    return tools


def parse_tool_option(option_value: str) -> ToolTarget:
    """Parse one `--tool` into location, function name and whether it is a file.

    The location is a file or module; the function name is "" for all of its tools.

    Raises:
        UsageError: it names neither a file nor a module.
        FileError: the file cannot be read.
    """
    location, _, attribute = option_value.rpartition(":")
    if not location or "/" in attribute or attribute.endswith(".py"):
        location, attribute = option_value.removesuffix(":"), ""
    is_file = location.endswith(".py") or "/" in location
    if (attribute and not DOTTED_NAME_PATTERN.fullmatch(attribute)) or not (
        is_file or DOTTED_NAME_PATTERN.fullmatch(location)
    ):
        raise UsageError(f"--tool {decode_argument(option_value)!r} is neither a file nor a module", TOOL_OPTION_HINT)
    if is_file:
        try:
            Path(location).open("rb").close()
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise FileError(f"cannot read {decode_argument(location)} ({reason})", TOOL_OPTION_HINT) from error
    return location, attribute, is_file


def load_plugin_tools(app: AppContext, settings: Settings) -> Iterator[LoadedSource]:
    """Load the tools of installed plugins."""
    sources: list[ToolSource] = []
    for distribution, entries in app.plugins.tools.items():
        targets = [(*entry.location, False, False, distribution) for entry in entries]
        sources.append((format_origin(distribution), targets, ()))
    return _load_sources(sources, app, settings, skips_invalid=True)


def _load_sources(
    sources: Iterable[ToolSource], app: AppContext, settings: Settings, *, skips_invalid: bool = False
) -> Iterator[LoadedSource]:
    """Start a process for each source; then yield the tools of each, or the reason why it cannot be loaded.

    With `skips_invalid`, a notice names each invalid tool. Otherwise, its source cannot be loaded.

    Closing the `cleanup` of `app` ends the processes.
    """
    environment = PluginEnvironment(
        get_working_directory(), app.collect_secrets().build_child_environment(), settings.command_timeout
    )
    plugins = []
    for origin, targets, import_path in sources:
        try:
            plugin = ToolPlugin(origin, targets, environment, import_path)
        except PluginLoadError as error:
            yield origin, error
        else:
            app.cleanup.callback(plugin.close)
            plugins.append(plugin)
    for plugin in plugins:
        try:
            with report_slow_loading(plugin.origin, app.notify):
                tools = plugin.load_tools(partial(_report_skipped, app, plugin.origin) if skips_invalid else None)
        except PluginLoadError as error:
            yield plugin.origin, error
        else:
            yield plugin.origin, tools


def _report_skipped(app: AppContext, origin: str, problem: str) -> None:
    app.console.print_notice(f"skipping a tool of {origin}: {problem}")


def format_origin(distribution: str) -> str:
    """Return the displayed origin of a distribution's tools.

    None may pass for ask's own tools, which safe mode sandboxes.
    """
    return f"package {distribution}" if distribution == BUILTIN_ORIGIN else distribution
