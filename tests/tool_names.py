"""The names of the tools that every model is offered, from the code."""

from __future__ import annotations

from ask.tools.builtin import list_builtin_tools
from ask.tools.web_search import SEARCH_WEB

DEFAULT_TOOLS = [*(tool.spec.name for tool in list_builtin_tools()), SEARCH_WEB.name]
