"""Tools that are not ask's own: those of `--tool`, and those of installed plugins. Each source has its own process."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from ask.agent.workspace import Workspace
from ask.errors import ConfigError, FileError, UsageError
from ask.plugin_api.import_guard import report_slow_loading
from ask.plugin_api.loader import Claim
from ask.safety.policy import OWN
from ask.settings import Settings
from ask.text import as_text
from ask.tools.base import Tool
from ask.tools.plugins.source import Around, Broken, Source

DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
"""A module, or what stands in one."""
ADVICE = "write --tool FILE.py, --tool FILE.py:FUNCTION or --tool MODULE:FUNCTION"

Target = tuple[str, str, bool]
"""The fields of a `loading.Target`."""


def function_tools(named: Sequence[str], workspace: Workspace, settings: Settings, cleanup: ExitStack) -> list[Tool]:
    """The tools that `--tool` names.

    Args:
        named: what it says, each time.
        workspace: what is installed and configured.
        settings: how the run works.
        cleanup: ends what is started, when it is closed.

    Raises:
        UsageError: it makes no sense.
        FileError: a file cannot be read.
        ConfigError: one cannot be loaded.
    """
    by_place: dict[tuple[str, bool], list[str]] = {}
    for value in named:
        place, attribute, is_file = read_target(value)
        by_place.setdefault((place, is_file), []).append(attribute)
    around = surroundings(workspace, settings)
    sources = []
    for (place, is_file), attributes in by_place.items():
        where = str(Path(place).absolute()) if is_file else place
        targets: list[Target] = [(where, attribute, is_file) for attribute in attributes]
        origin = as_text(place) if is_file else f"module {place}"
        try:
            source = Source(origin, targets, around, further_path=[] if is_file else [str(around.directory)])
        except Broken as fault:
            raise cannot_load(origin, fault) from None
        cleanup.callback(source.close)
        sources.append(source)
    tools = []
    for source in sources:
        try:
            with report_slow_loading(source.origin, workspace.notify):
                tools += source.tools()
        except Broken as fault:
            raise cannot_load(source.origin, fault) from None
    return tools


def cannot_load(origin: str, fault: Broken) -> ConfigError:
    """The error for what `--tool` names."""
    return ConfigError(f"the tools of {origin} cannot be loaded", str(fault))


def read_target(value: str) -> Target:
    """What one `--tool` says: a file or module, a function in it or "", and whether it is a file.

    Raises:
        UsageError: it says neither.
        FileError: the file cannot be read.
    """
    place, _, attribute = value.rpartition(":")
    if not place or "/" in attribute or attribute.endswith(".py"):
        place, attribute = value.removesuffix(":"), ""
    is_file = place.endswith(".py") or "/" in place
    if (attribute and not DOTTED.fullmatch(attribute)) or not (is_file or DOTTED.fullmatch(place)):
        raise UsageError(f"--tool {as_text(value)!r} names neither a file nor a module", ADVICE)
    if is_file:
        try:
            Path(place).open("rb").close()
        except (OSError, ValueError) as fault:
            told = fault.strerror if isinstance(fault, OSError) else str(fault)
            raise FileError(f"cannot read {as_text(place)} ({told})", ADVICE) from fault
    return place, attribute, is_file


def plugin_tools(
    claims: Mapping[str, tuple[Claim, ...]], workspace: Workspace, settings: Settings, cleanup: ExitStack
) -> Iterator[Tool | Fault]:
    """The tools of installed plugins, and in place of those that cannot be loaded, why; all load at the same time.

    Args:
        claims: what each distribution names.
        workspace: what is installed and configured.
        settings: how the run works.
        cleanup: ends what is started, when it is closed.
    """
    around = surroundings(workspace, settings)
    sources: dict[str, Source | Fault] = {}
    for distribution, named in claims.items():
        try:
            source = Source(origin_of(distribution), list(targets_of(named)), around)
            cleanup.callback(source.close)
            sources[distribution] = source
        except Broken as fault:
            sources[distribution] = Fault(distribution, fault)
    for distribution, found in sources.items():
        if isinstance(found, Fault):
            yield found
            continue
        try:
            with report_slow_loading(distribution, workspace.notify):
                tools = found.tools()
        except Broken as fault:
            yield Fault(distribution, fault)
        else:
            yield from tools


class Fault:
    """Why the tools of a distribution cannot be had."""

    def __init__(self, distribution: str, reason: Broken) -> None:
        self.distribution, self.reason = distribution, str(reason)

    def __str__(self) -> str:
        return f"the tools of {self.distribution} cannot be loaded: {self.reason}"


def origin_of(distribution: str) -> str:
    """What its tools are said to be from: none may pass for one of ask's own, which safe mode confines."""
    return f"package {distribution}" if distribution == OWN else distribution


def targets_of(claims: Iterable[Claim]) -> Iterator[Target]:
    """Where the tools of a distribution are, by its entry points."""
    for claim in claims:
        place, _, attribute = claim.target.partition("[")[0].partition(":")
        yield place.strip(), attribute.strip(), False


def surroundings(workspace: Workspace, settings: Settings) -> Around:
    """What the processes of plugins have around them."""
    from ask.settings import working_directory

    environment = workspace.secrets().clean_environment()
    return Around(working_directory(), environment, settings.command_timeout)
