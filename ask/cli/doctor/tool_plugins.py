"""A check of the installed packages with tools: whether they load."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

from ask.agent.workspace import Workspace
from ask.cli.doctor.finding import OK, PROBLEM, Finding
from ask.settings import resolve
from ask.tools.base import Tool


def check_tool_plugins(workspace: Workspace) -> Iterator[Finding]:
    """A finding for each package with tools."""
    tools, faults = load_all(workspace)
    if not workspace.tool_plugins:
        yield Finding(OK, "tool plugins", "none is installed, and none is needed")
    for distribution in workspace.tool_plugins:
        if distribution in faults:
            reason = f"its tools cannot be loaded: {faults[distribution]}"
            yield Finding(PROBLEM, distribution, reason, "ask its author, or uninstall it")
        else:
            names = ", ".join(tool.spec.name for tool in tools.get(distribution, ()))
            yield Finding(OK, distribution, f"tools: {names}" if names else "it has no tools")


def load_all(workspace: Workspace) -> tuple[dict[str, list[Tool]], dict[str, str]]:
    """The tools of each package, and why those of others cannot be had, by its name."""
    tools: dict[str, list[Tool]] = {}
    faults: dict[str, str] = {}
    if workspace.tool_plugins:
        from ask.agent.plugin_tools import Fault, origin_of, plugin_tools

        settings = resolve({}, workspace.environment, workspace.config)
        names = {origin_of(distribution): distribution for distribution in workspace.tool_plugins}
        with ExitStack() as cleanup:
            for found in plugin_tools(workspace.tool_plugins, workspace, settings, cleanup):
                if isinstance(found, Fault):
                    faults[found.distribution] = found.reason
                else:
                    tools.setdefault(names[found.origin], []).append(found)
    return tools, faults
