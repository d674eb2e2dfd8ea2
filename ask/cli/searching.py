"""Which engine `search_web` asks: as configured, or else the first that can be asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ask.cli.workspace import Workspace
from ask.keys import stem
from ask.tools.search import DUCKDUCKGO, ENGINES, SEARCH_WEB, Engine, is_installed, search_tool

if TYPE_CHECKING:
    from ask.config import Settings
    from ask.render.streams import Console
    from ask.tools import Tool


def search_tools(workspace: Workspace, settings: Settings, console: Console) -> Iterator[Tool]:
    """The tool that searches, where there is an engine to ask; a line where the one that is configured cannot be."""
    wanted = settings.search_engine
    engine = find_engine(workspace, wanted)
    if engine:
        yield search_tool(engine)
    elif wanted and SEARCH_WEB.name not in settings.disabled_tools:
        console.line(f"ask: {SEARCH_WEB.name} is left out: {how_to_have(wanted)}")


def find_engine(workspace: Workspace, wanted: str) -> Engine | None:
    """The engine of that name, or with "" the first, if it can be asked.

    Raises:
        ConfigError: keys.toml cannot be read.
    """
    for name, base_url in ENGINES.items():
        if wanted in ("", name):
            if name == DUCKDUCKGO:
                return Engine(name, base_url) if is_installed() else None
            key, _ = workspace.keys.find(name)
            if key:
                elsewhere = workspace.environment.get(f"{stem(name)}_BASE_URL", "").strip()
                return Engine(name, elsewhere or base_url, key)
    return None


def how_to_have(name: str) -> str:
    """What keeps an engine from being asked, and what to do."""
    if name == DUCKDUCKGO:
        from ask.installation import format_install_command

        return f"{name} needs the package ddgs: {format_install_command('web')}"
    return f"no key for {name}: set {stem(name)}_API_KEY or run `ask keys set {name}`"
