"""Checks of what is configured: config.toml, keys.toml, the tools, and what a bare `ask` would use."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from ask.agent.model_selection import Wish, choose
from ask.agent.toolbox import find_engine, how_to_have
from ask.agent.workspace import Workspace
from ask.api_keys import KeyStore
from ask.cli.doctor.finding import OK, PROBLEM, WARNING, Finding
from ask.errors import ConfigError
from ask.render.amounts import counted
from ask.settings import SWITCHES, Config, read_switch, resolve
from ask.tools.builtin import builtin_tools
from ask.tools.web_search import DUCKDUCKGO, KEYED, SEARCH_WEB

OTHERS = stat.S_IRWXG | stat.S_IRWXO


def check_config_file(workspace: Workspace) -> Iterator[Finding]:
    """Whether config.toml is understood. Where it is not, the checks to come go on as if there were none."""
    path = workspace.config_file
    try:
        warnings = workspace.config.warnings
    except ConfigError as error:
        workspace.config = Config()
        yield Finding(PROBLEM, "config.toml", str(error), "correct it with ask config edit")
        return
    for warning in warnings:
        yield Finding(WARNING, "config.toml", warning, "correct it with ask config edit")
    if not warnings:
        yield Finding(OK, "config.toml", str(path) if path.exists() else f"there is none, and none is needed ({path})")


def check_variables(workspace: Workspace) -> Iterator[Finding]:
    """Check the variables that are on or off; one with another value is ignored by the checks that follow."""
    for variable in SWITCHES.values():
        try:
            read_switch(workspace.environment, variable)
        except ConfigError as error:
            workspace.environment = {**workspace.environment, variable: ""}
            yield Finding(PROBLEM, variable, error.message, error.advice)


def check_keys(workspace: Workspace) -> Iterator[Finding]:
    """Whether keys.toml is understood, and private. Where it is not, the checks to come go on as if there were none."""
    path = workspace.keys.path
    try:
        stored = workspace.keys.stored()
    except ConfigError as error:
        workspace.keys = KeyStore(Path(os.devnull), workspace.environment)
        yield Finding(PROBLEM, "keys.toml", str(error), f"correct {path}, or move it away")
        return
    if stored and path.stat().st_mode & OTHERS:
        yield Finding(WARNING, "keys.toml", f"others can read {path}", f"chmod 600 {path}")
    elif stored:
        yield Finding(OK, "keys.toml", f"{counted(len(stored), 'key')} in {path}")
    else:
        yield Finding(OK, "keys.toml", "no key is kept", "ask keys set PROVIDER keeps one")
    for name in sorted(stored.keys() - {*workspace.names, *KEYED}):
        yield Finding(WARNING, "keys.toml", f"there is no provider {name}", f"install it, or ask keys remove {name}")


def check_tools(workspace: Workspace) -> Iterator[Finding]:
    """Which tools a model is offered, and whether they would work."""
    settings = resolve({}, workspace.environment, workspace.config)
    engine = find_engine(workspace, settings.search_engine)
    names = [*(tool.spec.name for tool in builtin_tools()), SEARCH_WEB.name]
    there = names if engine else names[:-1]
    offered = [name for name in there if name not in settings.disabled_tools]
    if not settings.tools:
        yield Finding(OK, "tools", "switched off", "ask config set tools.enabled true switches them on")
    else:
        yield Finding(OK, "tools", ", ".join(offered) or "all are left out")
    for name in sorted(unknown(settings.disabled_tools.difference(names), workspace)):
        yield Finding(WARNING, "tools", f"tools.disabled names {name}, which there is not", "ask tools lists them")
    if engine:
        yield Finding(OK, "web search", f"asks {engine.name}")
    elif settings.search_engine:
        yield Finding(WARNING, "web search", *how_to_have(settings.search_engine).split(": ", 1))
    else:
        advice = f"{how_to_have(DUCKDUCKGO)}, or keep a key for {' or '.join(KEYED)}"
        yield Finding(OK, "web search", "there is none", advice)
    if settings.tools and "bash" in offered and not shutil.which("bash"):
        yield Finding(PROBLEM, "tools", "bash is not installed", "install it, or use --disable-tool bash")


def unknown(names: Iterable[str], workspace: Workspace) -> set[str]:
    """Those of these names that no tool has that can be seen here; one with two underscores may be a server's."""
    left = {name for name in names if "__" not in name}
    if left and workspace.tool_plugins:
        from ask.cli.doctor.tool_plugins import load_all

        left -= {tool.spec.name for tools in load_all(workspace)[0].values() for tool in tools}
    return left


def check_choice(workspace: Workspace) -> Iterator[Finding]:
    """What a run asks where the command line names nothing."""
    try:
        target = choose(workspace, Wish())
    except ConfigError as error:
        yield Finding(PROBLEM, "default", error.message, error.advice)
        return
    model = target.model or "its first model"
    yield Finding(OK, "default", f"{model} of {target.name}")
