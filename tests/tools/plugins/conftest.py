"""Fixtures for the plugin tool tests: a file of tools, and a run in which a model calls them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests import wire
from tests.model_server import ModelServer
from tests.program import Ask, Result
from tests.scenarios.sent_requests import check_sent_requests

TOOLS = """
import ctypes, os, subprocess, sys, time
from pathlib import Path
from ask import ToolContext, ToolError, tool

calls = 0

@tool(has_side_effects=False)
def count() -> int:
    "Count the calls of this."
    global calls
    calls += 1
    return calls

@tool
def fail(how: str, context: ToolContext) -> str:
    "Fail in some way."
    if how == "raise":
        raise ValueError("no such thing")
    if how == "tell":
        raise ToolError("not today")
    if how == "exit":
        sys.exit("leaving")
    if how == "die":
        os._exit(7)
    if how == "crash":
        ctypes.string_at(0)
    if how == "hang":
        child = subprocess.Popen(["setsid", "sleep", "600"])
        Path("pids").write_text(f"{os.getpid()} {child.pid}")
        time.sleep(600)
    if how == "interrupt":
        raise KeyboardInterrupt
    if how == "close":
        os.closerange(3, 10_000)

@tool
def speak() -> str:
    "Print."
    print("by print")
    print("to stderr", file=sys.stderr)
    os.write(1, b"by write\\n")
    os.system("echo by a child; echo and its stderr >&2")
    sys.__stdout__.write("at last")
    return "spoken"

@tool
def much(size: int) -> str:
    "Return much."
    return "x" * size

@tool
def chatter(size: int) -> str:
    "Print much."
    os.write(2, b"y" * size)
    return "done"

@tool
def surroundings(context: ToolContext) -> dict:
    "Tell what is around."
    return {"keys": [n for n in os.environ if "API_KEY" in n], "here": os.getcwd(), "dir": context.directory,
            "stdin": sys.stdin.read(), "timeout": context.command_timeout}
"""


class Run(NamedTuple):
    """The result of a run in which a model called tools, and the result of each call."""

    ended: Result
    results: list[str]


Calling = Callable[..., Run]


def all_results(server: ModelServer) -> list[str]:
    """Return the result of every call, from the last request."""
    return [message["content"] for message in check_sent_requests(server)[-1]["messages"] if message["role"] == "tool"]


@pytest.fixture
def tools(ask: Ask) -> Path:
    """A file of tools in the working directory."""
    file = ask.cwd / "mine.py"
    file.write_text(TOOLS)
    return file


@pytest.fixture
def calling(ask: Ask, server: ModelServer) -> Calling:
    """Have the model make calls one after the other, then answer "Done."."""

    def run(*calls: tuple[str, dict[str, Any]], options: tuple[str, ...] = (), **how: Any) -> Run:
        server.reply(*(wire.calls(call) for call in calls), wire.says("Done."))
        ended = ask("-m", wire.MODEL, *options, "go", **how)
        return Run(ended, all_results(server))

    return run
