"""Tools that are not ask's own: those of `--tool`, and those of installed plugins. Each source has its own process."""

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
from ask.settings import Settings
from ask.text import decode_argument
from ask.tools.base import Tool
from ask.tools.plugins.source import PluginEnvironment, PluginLoadError, ToolPlugin

DOTTED_NAME_PATTERN = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
"""A module, or what stands in one."""
TOOL_OPTION_HINT = "write --tool FILE.py, --tool FILE.py:FUNCTION or --tool MODULE:FUNCTION"

ToolTarget = tuple[str, str, bool]
"""The fields of a `loading.Target`."""


def load_function_tools(
    option_values: Sequence[str], app: AppContext, settings: Settings, cleanup: ExitStack
) -> list[Tool]:
    """The tools that `--tool` names.

    Args:
        option_values: what it says, each time.
        app: what is installed and configured.
        settings: how the run works.
        cleanup: ends what is started, when it is closed.

    Raises:
        UsageError: it makes no sense.
        FileError: a file cannot be read.
        ConfigError: one cannot be loaded.
    """
    by_place: dict[tuple[str, bool], list[str]] = {}
    for value in option_values:
        place, attribute, is_file = parse_tool_option(value)
        by_place.setdefault((place, is_file), []).append(attribute)
    around = create_plugin_environment(app, settings)
    sources = []
    for (place, is_file), attributes in by_place.items():
        where = str(Path(place).absolute()) if is_file else place
        targets: list[ToolTarget] = [(where, attribute, is_file) for attribute in attributes]
        origin = decode_argument(place) if is_file else f"module {place}"
        try:
            source = ToolPlugin(origin, targets, around, extra_import_path=[] if is_file else [str(around.directory)])
        except PluginLoadError as fault:
            raise make_load_error(origin, fault) from None
        cleanup.callback(source.close)
        sources.append(source)
    tools = []
    for source in sources:
        try:
            with report_slow_loading(source.origin, app.notify):
                tools += source.load_tools()
        except PluginLoadError as fault:
            raise make_load_error(source.origin, fault) from None
    return tools


def make_load_error(origin: str, error: PluginLoadError) -> ConfigError:
    """The error for what `--tool` names."""
    return ConfigError(f"the tools of {origin} cannot be loaded", str(error))


def parse_tool_option(option_value: str) -> ToolTarget:
    """What one `--tool` says: a file or module, a function in it or "", and whether it is a file.

    Raises:
        UsageError: it says neither.
        FileError: the file cannot be read.
    """
    place, _, attribute = option_value.rpartition(":")
    if not place or "/" in attribute or attribute.endswith(".py"):
        place, attribute = option_value.removesuffix(":"), ""
    is_file = place.endswith(".py") or "/" in place
    if (attribute and not DOTTED_NAME_PATTERN.fullmatch(attribute)) or not (
        is_file or DOTTED_NAME_PATTERN.fullmatch(place)
    ):
        raise UsageError(
            f"--tool {decode_argument(option_value)!r} names neither a file nor a module", TOOL_OPTION_HINT
        )
    if is_file:
        try:
            Path(place).open("rb").close()
        except (OSError, ValueError) as fault:
            told = fault.strerror if isinstance(fault, OSError) else str(fault)
            raise FileError(f"cannot read {decode_argument(place)} ({told})", TOOL_OPTION_HINT) from fault
    return place, attribute, is_file


def load_plugin_tools(
    entries_by_distribution: Mapping[str, tuple[PluginEntry, ...]],
    app: AppContext,
    settings: Settings,
    cleanup: ExitStack,
) -> Iterator[Tool | ToolLoadFailure]:
    """The tools of installed plugins, and in place of those that cannot be loaded, why; all load at the same time.

    Args:
        entries_by_distribution: what each distribution names.
        app: what is installed and configured.
        settings: how the run works.
        cleanup: ends what is started, when it is closed.
    """
    around = create_plugin_environment(app, settings)
    sources: dict[str, ToolPlugin | ToolLoadFailure] = {}
    for distribution, named in entries_by_distribution.items():
        try:
            source = ToolPlugin(format_origin(distribution), list(iter_entry_targets(named)), around)
            cleanup.callback(source.close)
            sources[distribution] = source
        except PluginLoadError as fault:
            sources[distribution] = ToolLoadFailure(distribution, fault)
    for distribution, found in sources.items():
        if isinstance(found, ToolLoadFailure):
            yield found
            continue
        try:
            with report_slow_loading(distribution, app.notify):
                tools = found.load_tools()
        except PluginLoadError as fault:
            yield ToolLoadFailure(distribution, fault)
        else:
            yield from tools


class ToolLoadFailure:
    """Why the tools of a distribution cannot be had."""

    def __init__(self, distribution: str, reason: PluginLoadError) -> None:
        self.distribution, self.reason = distribution, str(reason)

    def __str__(self) -> str:
        return f"the tools of {self.distribution} cannot be loaded: {self.reason}"


def format_origin(distribution: str) -> str:
    """What its tools are said to be from: none may pass for one of ask's own, which safe mode confines."""
    return f"package {distribution}" if distribution == BUILTIN_ORIGIN else distribution


def iter_entry_targets(entries: Iterable[PluginEntry]) -> Iterator[ToolTarget]:
    """Where the tools of a distribution are, by its entry points."""
    for claim in entries:
        place, _, attribute = claim.target.partition("[")[0].partition(":")
        yield place.strip(), attribute.strip(), False


def create_plugin_environment(app: AppContext, settings: Settings) -> PluginEnvironment:
    """What the processes of plugins have around them."""
    from ask.settings import get_working_directory

    environment = app.collect_secrets().build_child_environment()
    return PluginEnvironment(get_working_directory(), environment, settings.command_timeout)
