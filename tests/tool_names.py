"""The names of the tools that every model is offered, from the code."""

from __future__ import annotations

from ask.tools.definitions import BUILTIN_TOOLS, SEARCH_WEB

DEFAULT_TOOLS = [*(tool.spec.name for tool in BUILTIN_TOOLS), SEARCH_WEB.name]
