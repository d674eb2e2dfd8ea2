"""The tool `search_web`: an engine's results as numbered text. It is made for the engine that a run can ask.

How the engines are asked is in `search_apis` and `duckduckgo`, which are loaded by a call.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from ask.messages import ToolSpec
from ask.tools.base import Tool, ToolContext, ToolError, ToolResult
from ask.tools.search_engine import SearchEngine, WebSearchResult

DUCKDUCKGO = "duckduckgo"
ENGINE_BASE_URLS = {
    "brave": "https://api.search.brave.com/res/v1",
    "tavily": "https://api.tavily.com",
    DUCKDUCKGO: "https://html.duckduckgo.com",
}
"""The engines, in the order in which the first that can be asked is taken, and where each lives."""
KEYED_ENGINES = tuple(name for name in ENGINE_BASE_URLS if name != DUCKDUCKGO)
"""Those that want a key, and may be reached elsewhere."""
DEFAULT_RESULT_COUNT, MAX_RESULT_COUNT = 8, 20
"""How many results there are where the model does not say, and at most."""
_MAX_TITLE_LENGTH, _MAX_SNIPPET_LENGTH = 200, 1_000
"""Characters that are shown of each."""

SEARCH_WEB = ToolSpec(
    "search_web",
    "Search the web: titles, URLs and snippets; read a page with fetch_url.",
    {
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "max_results": {"type": "integer", "description": f"1 to {MAX_RESULT_COUNT} ({DEFAULT_RESULT_COUNT})"},
        },
        "required": ["query"],
        "additionalProperties": False,
    },
)


def is_ddgs_installed() -> bool:
    """Whether the package that asks DuckDuckGo is there; it is not loaded."""
    from importlib.machinery import PathFinder

    return PathFinder.find_spec("ddgs") is not None


def create_search_tool(engine: SearchEngine) -> Tool:
    """The tool that asks this engine."""
    return Tool(SEARCH_WEB, partial(search_web, engine), changes=False, host_of=partial(get_engine_host, engine))


def get_engine_host(engine: SearchEngine, arguments: Mapping[str, Any]) -> str:
    """The host that every call reaches: the engine's, whatever the arguments.

    Raises:
        ToolError: where it lives is no URL.
    """
    from ask.tools.network_policy import parse_host

    return parse_host(engine.base_url)


def search_web(engine: SearchEngine, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
    """What the engine finds, numbered.

    Raises:
        ToolError: it found nothing, or did not answer.
    """
    words = arguments["query"].strip()
    count = min(max(arguments.get("max_results", DEFAULT_RESULT_COUNT), 1), MAX_RESULT_COUNT)
    if not words:
        raise ToolError("the query is empty")
    if engine.name == DUCKDUCKGO:
        from ask.tools import duckduckgo

        found = duckduckgo.search_duckduckgo(words, count, context)
    else:
        from ask.tools import web_search_apis

        found = web_search_apis.run_search(engine, words, count, context.command_timeout)
    results = [result for result in found if result.url.startswith(("http://", "https://"))][:count]
    if not results:
        raise ToolError(f"{engine.name} found nothing: try fewer words, or others")
    shown = "\n\n".join(f"{number}. {_format_result(result)}" for number, result in enumerate(results, 1))
    return ToolResult(f"Found by {engine.name}:\n\n{shown}")


def _format_result(result: WebSearchResult) -> str:
    """A result in two or three lines, in which nothing that it says can begin another."""
    lines = [
        _clean_text(result.title, _MAX_TITLE_LENGTH) or "(no title)",
        "".join(result.url.split()),
        _clean_text(result.snippet, _MAX_SNIPPET_LENGTH),
    ]
    return "\n   ".join(filter(None, lines))


def _clean_text(text: str, max_length: int) -> str:
    """A text on one line, without markup, at most so long."""
    import html
    import re

    text = re.sub(r"</?\w[^<>]{0,99}>", "", text)
    # No character has such a number, and Python reads none of thousands of digits.
    text = re.sub(r"&#0*[1-9][0-9]{7,};?", "\ufffd", text)
    plain = " ".join(html.unescape(text).split())
    return plain if len(plain) <= max_length else plain[: max_length - 1].rstrip() + "…"
