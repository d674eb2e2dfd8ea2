"""The tool `search_web`: formats an engine's results as numbered text. It is created for one search engine."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from ask.messages import ToolSpec
from ask.tools.base import Tool, ToolContext, ToolError, ToolResult, build_parameters_schema
from ask.tools.search_engine import SearchEngine, WebSearchResult

DUCKDUCKGO = "duckduckgo"
ENGINE_BASE_URLS = {
    "brave": "https://api.search.brave.com/res/v1",
    "tavily": "https://api.tavily.com",
    DUCKDUCKGO: "https://html.duckduckgo.com",
}
"""The engines with their base URLs, in order of preference."""
KEYED_ENGINES = tuple(name for name in ENGINE_BASE_URLS if name != DUCKDUCKGO)
"""Engines that need an API key; their base URL can be changed."""
DEFAULT_RESULT_COUNT, MAX_RESULT_COUNT = 8, 20
"""Number of results if the model does not specify it, and the maximum."""
_MAX_TITLE_LENGTH, _MAX_SNIPPET_LENGTH = 200, 1_000
"""Maximum number of characters shown of a title and of a snippet."""

SEARCH_WEB = ToolSpec(
    "search_web",
    "Search the web: titles, URLs and snippets; read a page with fetch_url.",
    build_parameters_schema(
        {"query": {"type": "string"}},
        {"max_results": {"type": "integer", "description": f"1 to {MAX_RESULT_COUNT} ({DEFAULT_RESULT_COUNT})"}},
    ),
)


def is_ddgs_installed() -> bool:
    """Check whether the `ddgs` package is installed, without importing it."""
    from importlib.machinery import PathFinder

    return PathFinder.find_spec("ddgs") is not None


def create_search_tool(engine: SearchEngine) -> Tool:
    """Create the tool for a search engine."""
    return Tool(SEARCH_WEB, partial(search_web, engine), changes=False, host_of=partial(get_engine_host, engine))


def get_engine_host(engine: SearchEngine, arguments: Mapping[str, Any]) -> str:
    """Return the engine's host, which every call reaches regardless of its arguments.

    Raises:
        ToolError: The engine's base URL is invalid.
    """
    from ask.tools.network_policy import parse_host

    return parse_host(engine.base_url)


def search_web(engine: SearchEngine, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
    """Search the web and return numbered results.

    Raises:
        ToolError: There are no results, or the engine failed.
    """
    query = arguments["query"].strip()
    count = min(max(arguments.get("max_results", DEFAULT_RESULT_COUNT), 1), MAX_RESULT_COUNT)
    if not query:
        raise ToolError("the query is empty")
    if engine.name == DUCKDUCKGO:
        from ask.tools import duckduckgo

        all_results = duckduckgo.search_duckduckgo(query, count, context)
    else:
        from ask.tools import web_search_apis

        all_results = web_search_apis.run_search(engine, query, count, context.command_timeout)
    results = [result for result in all_results if result.url.startswith(("http://", "https://"))][:count]
    if not results:
        raise ToolError(f"{engine.name} found nothing: try fewer words, or others")
    text = "\n\n".join(f"{number}. {_format_result(result)}" for number, result in enumerate(results, 1))
    return ToolResult(f"Found by {engine.name}:\n\n{text}")


def _format_result(result: WebSearchResult) -> str:
    """Format a result in two or three lines; its texts cannot add lines."""
    lines = [
        _clean_text(result.title, _MAX_TITLE_LENGTH) or "(no title)",
        "".join(result.url.split()),
        _clean_text(result.snippet, _MAX_SNIPPET_LENGTH),
    ]
    return "\n   ".join(filter(None, lines))


def _clean_text(text: str, max_length: int) -> str:
    """Return a text on one line, without markup, and truncated to `max_length` characters."""
    import html

    text = re.sub(r"</?\w[^<>]{0,99}>", "", text)
    # No character has such a code, and Python refuses to parse integers with thousands of digits.
    text = re.sub(r"&#0*[1-9][0-9]{7,};?", "\ufffd", text)
    plain = " ".join(html.unescape(text).split())
    return plain if len(plain) <= max_length else plain[: max_length - 1].rstrip() + "…"
