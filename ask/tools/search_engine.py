"""The types that describe a web search engine and its results."""

from __future__ import annotations

from typing import NamedTuple


class SearchEngine(NamedTuple):
    """A search engine to query.

    Attributes:
        name: Its name in `web_search.ENGINE_BASE_URLS`.
        base_url: The base URL of its API.
        key: Its API key, or several separated by "|"; "" if it needs none.
    """

    name: str
    base_url: str
    key: str = ""


class WebSearchResult(NamedTuple):
    """One search result, with the texts as the engine sent them."""

    title: str
    url: str
    snippet: str
