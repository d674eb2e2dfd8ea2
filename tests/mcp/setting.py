"""Puts MCP servers into a home's configuration, and reads what became of them."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w

from tests import wire
from tests.model_server import ModelServer, Request
from tests.program import Ask, Home, Result

HERE = Path(__file__).parent
RAW, SDK = str(HERE / "raw_server.py"), str(HERE / "sdk_server.py")
MANY = ("--max-rounds", "99")


def program(*args: str, **more: Any) -> dict[str, Any]:
    """The table of a server that is a Python program."""
    return {"command": sys.executable, "args": [*args], "timeout": 60, **more}


def configure(home: Home, servers: Mapping[str, Mapping[str, Any]], **tables: Any) -> None:
    """Write config.toml with these servers, and further tables."""
    home.config.mkdir(exist_ok=True)
    (home.config / "config.toml").write_text(tomli_w.dumps({"mcp": {"servers": servers}, **tables}))


def ask_with_calls(ask: Ask, model: ModelServer, calls: Sequence[wire.Call], *args: str) -> tuple[Result, list[str]]:
    """Run `ask` with a model that makes these calls, one after the other; its end, and the results of the calls."""
    before = len(model.requests)
    model.reply(*(wire.calls(call) for call in calls), wire.says("done"))
    result = ask(*MANY, *args, "hi", timeout=120)
    return result, [told(request) for request in model.requests[before + 1 :]]


def told(request: Request) -> str:
    """The result of the last call that a request has."""
    return wire.asked(request.json)


def offered(request: Request) -> dict[str, dict[str, Any]]:
    """The tools of MCP servers in a request, by their names."""
    tools = [tool["function"] for tool in request.json.get("tools", ())]
    return {tool["name"]: tool for tool in tools if "__" in tool["name"]}


def received(home: Home) -> list[dict[str, Any]]:
    """What the raw server has noted."""
    return [json.loads(line) for line in (home.work / "received").read_text().splitlines()]


def pids(home: Home) -> list[int]:
    """The processes of the raw server, in the order in which they were started."""
    return [entry["pid"] for entry in received(home) if "pid" in entry] if (home.work / "received").exists() else []


def kept_file(home: Home, name: str = "raw") -> Path:
    """Where the list of a server is kept."""
    return Path(home.env["XDG_CACHE_HOME"], "ask", "mcp", f"{name}.json")
