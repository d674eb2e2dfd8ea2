"""`ask mcp serve` with the client of the official SDK, over standard input and output."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as types
import pytest
from mcp import Client, StdioServerParameters

from tests import wire
from tests.model_server import ModelServer
from tests.program import ASK, Ask, Home

pytestmark = pytest.mark.slow


def use(ask: Ask, home: Home, action: Callable[[Client], Awaitable[Any]], *args: str, **options: Any) -> Any:
    """Start the server and call `action` with a client of it."""

    async def connect() -> Any:
        command = StdioServerParameters(
            command=str(ASK), args=["mcp", "serve", *args], env=dict(ask.env), cwd=str(home.work)
        )
        async with Client(command, **options) as client:
            return await action(client)

    return asyncio.run(asyncio.wait_for(connect(), 60))


def test_a_question_is_answered_without_tools_and_continued(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(wire.says("one"), wire.says("two"))
    (home.work / "note.txt").write_text("a note")

    async def action(client: Client) -> Any:
        tools = await client.list_tools()
        first = await client.call_tool("ask", {"prompt": "hi", "files": ["note.txt"]})
        conversation = first.structured_content["conversation"] if first.structured_content else ""
        second = await client.call_tool("ask", {"prompt": "more", "conversation": conversation})
        return [tool.name for tool in tools.tools], first, second

    names, first, second = use(ask, home, action)
    assert names == ["ask"]
    assert [first.content[0].text, second.content[0].text] == ["one", "two"]
    assert first.structured_content["exit_code"] == 0
    assert not server.requests[0].json.get("tools")
    assert "a note" in str(server.requests[0].json)
    assert "hi" in str(server.requests[1].json["messages"])


def test_files_outside_and_other_conversations_are_refused(ask: Ask, home: Home, server: ModelServer) -> None:
    (home.path / "secret").write_text("secret")
    (home.work / "link").symlink_to(home.path / "secret")
    (home.work / ".env").write_text("secret")
    calls: list[dict[str, Any]] = [
        *({"prompt": "hi", "files": [name]} for name in ("../secret", "link", ".env", "https://example.org")),
        {"prompt": "hi", "conversation": "abc"},
        {"prompt": "hi", "base_url": "http://127.0.0.1:1"},
        {"prompt": 1},
    ]

    async def action(client: Client) -> Any:
        return [(await client.call_tool("ask", call)).is_error for call in calls]

    assert use(ask, home, action) == [True] * len(calls)
    assert not server.requests


@pytest.mark.parametrize("answer", ["accept", "decline", None])
def test_an_approval_is_an_elicitation(ask: Ask, home: Home, server: ModelServer, answer: Any) -> None:
    server.reply(wire.calls(("bash", {"command": "touch made"})), wire.says("done"))

    async def elicit(context: Any, params: Any) -> types.ElicitResult:
        return types.ElicitResult(action=answer, content={"allow": True} if answer == "accept" else None)

    async def action(client: Client) -> Any:
        return await client.call_tool("ask", {"prompt": "go"})

    options: dict[str, Any] = {"elicitation_callback": elicit, "mode": "legacy"} if answer else {}
    use(ask, home, action, "--tools", "--confirm", **options)
    assert (home.work / "made").exists() == (answer == "accept")
