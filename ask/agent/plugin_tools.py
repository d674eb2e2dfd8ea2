"""Tools from `--tool` and from installed plugins. Each source runs in its own process."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from ask.agent.app_context import AppContext
from ask.errors import ConfigError, FileError, UsageError
from ask.plugin_api.import_guard import report_slow_loading
from ask.plugin_api.loader import PluginEntry
from ask.safety.policy import BUILTIN_ORIGIN
from ask.settings import Settings, get_working_directory
from ask.text import decode_argument
from ask.tools.base import Tool
from ask.tools.plugins.source import PluginEnvironment, PluginLoadError, ToolPlugin

DOTTED_NAME_PATTERN = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
"""A module, or an object in a module."""
TOOL_OPTION_HINT = "use --tool FILE.py, --tool FILE.py:FUNCTION or --tool MODULE:FUNCTION"

ToolTarget = tuple[str, str, bool]
"""The fields of `ask.tools.plugins.loader.ToolTarget`, which is imported only in the worker process."""


def load_function_tools(
    option_values: Sequence[str], app: AppContext, settings: Settings, cleanup: ExitStack
) -> list[Tool]:
    """Load the tools that `--tool` names. Closing `cleanup` ends their processes.

    Raises:
        UsageError: an option names neither a file nor a module.
        FileError: a file cannot be read.
        ConfigError: a tool cannot be loaded.
    """
    attributes_by_location: dict[tuple[str, bool], list[str]] = {}
    for value in option_values:
        location, attribute, is_file = parse_tool_option(value)
        attributes_by_location.setdefault((location, is_file), []).append(attribute)
    environment = create_plugin_environment(app, settings)
    plugins = []
    for (location, is_file), attributes in attributes_by_location.items():
        absolute_location = str(Path(location).absolute()) if is_file else location
        targets: list[ToolTarget] = [(absolute_location, attribute, is_file) for attribute in attributes]
        origin = decode_argument(location) if is_file else f"module {location}"
        try:
            plugin = ToolPlugin(
                origin, targets, environment, extra_import_path=[] if is_file else [str(environment.directory)]
            )
        except PluginLoadError as error:
            raise make_load_error(origin, error) from None
        cleanup.callback(plugin.close)
        plugins.append(plugin)
    tools = []
    for plugin in plugins:
        try:
            with report_slow_loading(plugin.origin, app.notify):
                tools += plugin.load_tools()
        except PluginLoadError as error:
            raise make_load_error(plugin.origin, error) from None
    return tools


def make_load_error(origin: str, error: PluginLoadError) -> ConfigError:
    return ConfigError(f"cannot load the tools of {origin}", str(error))


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


def load_plugin_tools(
    entries_by_distribution: Mapping[str, tuple[PluginEntry, ...]],
    app: AppContext,
    settings: Settings,
    cleanup: ExitStack,
) -> Iterator[Tool | ToolLoadFailure]:
    """Yield the tools of installed plugins, and a failure for each broken plugin.

    All plugins load in parallel. Closing `cleanup` ends their processes.
    """
    environment = create_plugin_environment(app, settings)
    plugins: dict[str, ToolPlugin | ToolLoadFailure] = {}
    for distribution, entries in entries_by_distribution.items():
        try:
            plugin = ToolPlugin(format_origin(distribution), list(iter_entry_targets(entries)), environment)
            cleanup.callback(plugin.close)
            plugins[distribution] = plugin
        except PluginLoadError as error:
            plugins[distribution] = ToolLoadFailure(distribution, error)
    for distribution, loaded_plugin in plugins.items():
        if isinstance(loaded_plugin, ToolLoadFailure):
            yield loaded_plugin
            continue
        try:
            with report_slow_loading(distribution, app.notify):
                tools = loaded_plugin.load_tools()
        except PluginLoadError as error:
            yield ToolLoadFailure(distribution, error)
        else:
            yield from tools


class ToolLoadFailure:
    """The reason why the tools of a distribution cannot be loaded."""

    def __init__(self, distribution: str, reason: PluginLoadError) -> None:
        self.distribution, self.reason = distribution, str(reason)

    def __str__(self) -> str:
        return f"cannot load the tools of {self.distribution}: {self.reason}"


def format_origin(distribution: str) -> str:
    """Return the displayed origin of a distribution's tools.

    None may pass for ask's own tools, which safe mode sandboxes.
    """
    return f"package {distribution}" if distribution == BUILTIN_ORIGIN else distribution


def iter_entry_targets(entries: Iterable[PluginEntry]) -> Iterator[ToolTarget]:
    """Yield where the tools of a distribution are, by its entry points."""
    for entry in entries:
        location, _, attribute = entry.target.partition("[")[0].partition(":")
        yield location.strip(), attribute.strip(), False


def create_plugin_environment(app: AppContext, settings: Settings) -> PluginEnvironment:
    """Create the environment in which plugin processes run."""
    environment = app.collect_secrets().build_child_environment()
    return PluginEnvironment(get_working_directory(), environment, settings.command_timeout)
