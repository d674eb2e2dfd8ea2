"""The services' own tools that a run offers: which of them the user wants, and whether the service has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ask.client.endpoint import ModelEndpoint
from ask.client.provider_client import TOOL_SEARCH
from ask.config.settings import Settings
from ask.errors import UsageError
from ask.messages import ToolSpec
from ask.text import suggest
from ask.tools.base import BUILTIN_ORIGIN, Tool


def get_server_tools(settings: Settings) -> list[str]:
    """Return the names of the services' tools that a run offers.

    Those on the command line are always offered. Those of config.toml are not if tools are disabled, nor in safe mode,
    because they are a way out for data.
    """
    allowed = (
        name
        for name in settings.server_tools
        if name in settings.given_server_tools
        or (settings.tools and (not settings.safe or name == TOOL_SEARCH))  # which sends nothing out
    )
    return list(dict.fromkeys(allowed))


def check_server_tools(settings: Settings, endpoint: ModelEndpoint, notify: Callable[[str], None]) -> None:
    """Check that the service has the tools that the command line names, and report those that safe mode leaves out.

    Raises:
        UsageError: it has no such tool.
    """
    offered = get_server_tools(settings)
    left_out = [name for name in dict.fromkeys(settings.server_tools) if name not in offered]
    if left_out and settings.safe and settings.tools:
        options = f"-T {','.join(left_out)}"
        notify(f"safe mode does not offer {', '.join(left_out)}, a way out for data: add {options} to offer it anyway")
    names = [name for name in offered if name in settings.given_server_tools]
    if not names:
        return
    available = endpoint.provider.hooks.provider_server_tools(model=endpoint.model)
    for name in names:
        if name not in available:
            raise _make_unknown_tool_error(name, endpoint, list(available))


def _make_unknown_tool_error(name: str, endpoint: ModelEndpoint, available: Sequence[str]) -> UsageError:
    service = f"{endpoint.provider_name} has no tool {name!r} for {endpoint.model}"
    if "." in name or ":" in name:
        return UsageError(service, "--tool FILE:FUNCTION offers a Python function")
    if not available:
        return UsageError(service, "it has none of its own; ask tools lists those of ask, which work with all models")
    suggestion = suggest(name, available)
    listed = f"it has {', '.join(available)}"
    return UsageError(service, f"did you mean {suggestion}? {listed}" if suggestion else listed)


def limit_tools(
    tools: Sequence[Tool],
    server_tools: Sequence[str],
    *,
    can_be_combined: bool,
    model: str,
    notify: Callable[[str], None],
) -> list[Tool]:
    """Return the tools of a run that can be offered together with the service's own."""
    kept = [tool for tool in tools if tool.spec.name not in server_tools]
    for name in (tool.spec.name for tool in tools if tool not in kept):
        notify(f"the tool {name} is not offered: the service's own has the same name")
    if kept and server_tools and not can_be_combined:
        notify(f"{model} cannot combine {', '.join(server_tools)} with other tools; continuing without those of ask")
        return []
    return kept


def defer_tool(tool: Tool, spec: ToolSpec) -> ToolSpec:
    """Return the tool as the model sees it if the service's `tool_search` finds tools: only built-in ones at once."""
    return spec if tool.origin == BUILTIN_ORIGIN else spec._replace(is_deferred=True)
