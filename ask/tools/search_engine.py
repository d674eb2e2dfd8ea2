"""A web search engine and its results."""

from __future__ import annotations

from typing import NamedTuple


class SearchEngine(NamedTuple):
    """A search engine that can be asked.

    Attributes:
        name: its name in `ENGINES`.
        base_url: where its requests go.
        key: its key, or several with "|" between them; "" where it wants none.
    """

    name: str
    base_url: str
    key: str = ""


class WebSearchResult(NamedTuple):
    """One result, its texts as the engine sent them."""

    title: str
    url: str
    snippet: str
