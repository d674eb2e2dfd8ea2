"""Helpers to configure MCP servers and to read what they received."""

from __future__ import annotations

import json
import random
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import tomli_w

from tests import wire
from tests.model_server import ModelServer, Request
from tests.program import Ask, Home, Result, Running

HERE = Path(__file__).parent
RAW, SDK, OAUTH = (str(HERE / f"{name}_server.py") for name in ("raw", "sdk", "oauth"))
PIXEL = (HERE / "pixel.png").read_bytes()
"""The image of the server with the official SDK."""
MANY = ("--max-rounds", "99")


def program(*args: str, **more: Any) -> dict[str, Any]:
    """Build the table of a server that is a Python program."""
    return {"command": sys.executable, "args": [*args], "timeout": 60, **more}


def configure(home: Home, servers: Mapping[str, Mapping[str, Any]], **tables: Any) -> None:
    """Write config.toml with these servers and additional tables."""
    home.configure(tomli_w.dumps({"mcp": {"servers": servers}, **tables}))


def start_server(script: str, *files: Path | str, port: int = 0) -> tuple[int, Running]:
    """Start a server over HTTP in a process; `files` are further arguments. Return its port and the process."""
    # Below the ports that the system gives to the other tests' connections, which would take it until it is bound.
    while not port:
        candidate = random.randrange(20_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", candidate))
            port = candidate
    process = Running([sys.executable, script, str(port), *map(str, files)])
    process.wait_for("Uvicorn running", 60)
    return port, process


def ask_with_calls(ask: Ask, model: ModelServer, calls: Sequence[wire.Call], *args: str) -> tuple[Result, list[str]]:
    """Run `ask` with a model that makes the calls one after the other. Return its result and those of the calls."""
    before = len(model.requests)
    model.reply(*(wire.calls(call) for call in calls), wire.says("done"))
    result = ask(*MANY, *args, "hi", timeout=120)
    return result, [read_last_result(request) for request in model.requests[before + 1 :]]


def read_last_result(request: Request) -> str:
    """Return the result of the last call in a request."""
    return wire.asked(request.json)


def offered(request: Request) -> dict[str, dict[str, Any]]:
    """Return the tools of MCP servers in a request, by name."""
    tools = [tool["function"] for tool in request.json.get("tools", ())]
    return {tool["name"]: tool for tool in tools if "__" in tool["name"]}


def received(home: Home) -> list[dict[str, Any]]:
    """Return the messages that the raw server has received."""
    return [json.loads(line) for line in (home.work / "received").read_text().splitlines()]


def pids(home: Home) -> list[int]:
    """Return the process ids of the raw server, in the order of their start."""
    return [entry["pid"] for entry in received(home) if "pid" in entry] if (home.work / "received").exists() else []


def cached_list_path(home: Home, name: str = "raw") -> Path:
    """Return the path of a server's cached tool list."""
    return Path(home.env["XDG_CACHE_HOME"], "ask", "mcp", f"{name}.json")
