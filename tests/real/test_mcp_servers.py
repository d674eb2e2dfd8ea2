"""Official MCP servers, called by a scripted model."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Sequence
from typing import Any

import pytest

from tests import wire
from tests.mcp.setting import ask_with_calls, configure, offered
from tests.model_server import ModelServer, Reply
from tests.program import Ask, Home, Result
from tests.real.software import PROGRAMS

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)


class Caller:
    """Runs `ask` with one MCP server and a model that calls its tools."""

    def __init__(self, ask: Ask, home: Home, model: ModelServer) -> None:
        self.home = home
        self.model = model
        self._ask = Ask({**ask.env, "PATH": f"{ask.env['PATH']}:{PROGRAMS}"}, ask.cwd)

    def __call__(self, server: str, *calls: wire.Call, args: Sequence[str] = ()) -> list[str]:
        self.result, answers = self.run(server, *calls, args=args)
        assert self.result.code == 0, self.result.stderr
        return answers

    def run(self, server: str, *calls: wire.Call, args: Sequence[str]) -> tuple[Result, list[str]]:
        memory = {"MEMORY_FILE_PATH": str(self.home.work / "memory.jsonl")}  # by default in the folder of the package
        table: dict[str, Any] = {"command": f"mcp-server-{server}", "args": [*args], "env": memory, "timeout": 60}
        configure(self.home, {server: table})
        return ask_with_calls(self._ask, self.model, [(f"{server}__{name}", value) for name, value in calls])

    def tools(self) -> set[str]:
        """Return the tools offered to the model."""
        return {name.partition("__")[2] for name in offered(self.model.requests[0])}


@pytest.fixture
def call(ask: Ask, home: Home, server: ModelServer) -> Caller:
    return Caller(ask, home, server)


def test_filesystem_works_in_the_working_directory_and_sends_images(call: Caller) -> None:
    (call.home.work / "pixel.png").write_bytes(PIXEL)
    (call.home.work / "notes.txt").write_text("marzipan")
    names = ("pixel.png", "notes.txt")
    image, notes = (str(call.home.work / name) for name in names)
    for _ in range(2):  # the tool list is cached then, and the server is started by the first call
        listed, shown, read, outside = call(
            "filesystem",
            ("list_directory", {"path": str(call.home.work)}),
            ("read_media_file", {"path": image}),
            ("read_text_file", {"path": notes}),
            ("read_text_file", {"path": "/etc/passwd"}),
        )
        assert all(name in listed for name in names)
        assert shown == f"[image image/png, {len(PIXEL)} bytes]"
        assert read == "marzipan"
        assert "Access denied" in outside


def test_everything_gets_roots_and_declined_elicitations(call: Caller) -> None:
    roots, question, image, structured = call(
        "everything",
        ("get-roots-list", {}),
        ("trigger-elicitation-request", {}),
        ("get-tiny-image", {}),
        ("get-structured-content", {"location": "Chicago"}),
    )
    assert call.home.work.as_uri() in roots
    assert "declined" in question
    assert "[the server asked the user" in question
    assert "[image image/png" in image
    assert json.loads(structured).keys() >= {"temperature", "conditions"}
    assert "simulate-research-query" not in call.tools()
    assert "simulate-research-query" in call.result.stderr


def test_memory_takes_nested_arguments(call: Caller) -> None:
    entity = {"name": "Ada", "entityType": "person", "observations": ["wrote a program"]}
    created, graph = call("memory", ("create_entities", {"entities": [entity]}), ("read_graph", {}))
    assert json.loads(created) == [entity]
    assert "wrote a program" in graph


def test_git_reports_a_repository(call: Caller) -> None:
    subprocess.run(["git", "init", "-q", call.home.work], check=True)
    (call.home.work / "new.txt").touch()
    [status] = call("git", ("git_status", {"repo_path": str(call.home.work)}))
    assert "new.txt" in status


def test_time_and_fetch_return_results(call: Caller) -> None:
    [now] = call("time", ("get_current_time", {"timezone": "Asia/Tokyo"}))
    assert json.loads(now)["timezone"] == "Asia/Tokyo"
    with ModelServer() as site:
        site.reply(Reply((b"<html><body><h1>Marzipan</h1></body></html>",), content_type="text/html"))
        [page] = call(
            "fetch", ("fetch", {"url": f"{site.base_url}/page"}), args=["--ignore-robots-txt", "--allow-private-ips"]
        )
    assert "Marzipan" in page
