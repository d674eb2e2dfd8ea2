"""Which search engine `search_web` uses: the one that is set, or the first that is available."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ask.config.key_store import format_variable_prefix
from ask.records import NamedTuple

if TYPE_CHECKING:
    from ask.app import AppContext

DUCKDUCKGO = "duckduckgo"
ENGINE_BASE_URLS = {
    "brave": "https://api.search.brave.com/res/v1",
    "tavily": "https://api.tavily.com",
    DUCKDUCKGO: "https://html.duckduckgo.com",
}
"""The engines with their base URLs, in order of preference."""
KEYED_ENGINES = tuple(name for name in ENGINE_BASE_URLS if name != DUCKDUCKGO)
"""Engines that need an API key; their base URL can be changed."""


class SearchEngine(NamedTuple):
    """A search engine to query.

    Attributes:
        name: its name in `ENGINE_BASE_URLS`.
        base_url: the base URL of its API.
        key: its API key, or several separated by "|"; "" if it needs none.
    """

    name: str
    base_url: str
    key: str = ""


def find_search_engine(app: AppContext, engine_name: str) -> SearchEngine | None:
    """Return a search engine by its name, or with "" the first that is available.

    Returns None if it has no key, or its package is not installed.

    Raises:
        ConfigError: keys.toml cannot be read.
    """
    for name, base_url in ENGINE_BASE_URLS.items():
        if engine_name in ("", name):
            if name == DUCKDUCKGO:
                return SearchEngine(name, base_url) if is_ddgs_installed() else None
            key, _ = app.key_store.find(name)
            if key:
                custom_url = app.environment.get(f"{format_variable_prefix(name)}_BASE_URL", "").strip()
                return SearchEngine(name, custom_url or base_url, key)
    return None


def format_search_setup_hint(engine_name: str) -> str:
    """Explain why a search engine is not available, and what to do."""
    if engine_name == DUCKDUCKGO:
        from ask.config.installation import format_install_command

        return f"{engine_name} needs the package ddgs: {format_install_command('web')}"
    variable = f"{format_variable_prefix(engine_name)}_API_KEY"
    return f"no key for {engine_name}: set {variable} or run `ask keys set {engine_name}`"


def is_ddgs_installed() -> bool:
    """Check whether the `ddgs` package is installed, without importing it."""
    from importlib.machinery import PathFinder

    return PathFinder.find_spec("ddgs") is not None
