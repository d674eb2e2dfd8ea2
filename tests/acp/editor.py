"""Clients of `ask acp`: an editor with the official SDK, and one that writes lines itself."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.lazy_module import LazyModule
from tests.program import ASK, Ask, Home, Running

__all__ = ["Editor", "RawEditor", "acp", "start_raw", "use"]

if TYPE_CHECKING:
    import acp
else:
    acp = LazyModule("acp")


class Editor:
    """A client that collects updates and answers requests for permission."""

    def __init__(self, choice: str = "allow") -> None:
        self.choice = choice
        self.updates: list[Any] = []
        self.asked: list[tuple[Any, list[str]]] = []
        self.has_update = asyncio.Event()

    def on_connect(self, conn: Any) -> None:
        self.agent = conn

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update)
        self.has_update.set()

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **_: Any) -> Any:
        self.asked.append((tool_call, [option.kind for option in options]))
        if self.choice == "fail":
            raise acp.RequestError.method_not_found("session/request_permission")
        if self.choice == "wait":
            self.has_update.set()
            await asyncio.Event().wait()
        if self.choice == "dismiss":
            return acp.schema.RequestPermissionResponse(outcome=acp.schema.DeniedOutcome(outcome="cancelled"))
        outcome = acp.schema.AllowedOutcome(outcome="selected", option_id=self.choice)
        return acp.schema.RequestPermissionResponse(outcome=outcome)

    def find(self, kind: str) -> list[Any]:
        return [update for update in self.updates if update.session_update == kind]

    def read_text(self, kind: str = "agent_message_chunk") -> str:
        return "".join(update.content.text for update in self.find(kind))

    async def wait_for(self, kind: str) -> None:
        while not self.find(kind):
            self.has_update.clear()
            await asyncio.wait_for(self.has_update.wait(), 20)


def use(
    ask: Ask,
    home: Home,
    action: Callable[[Any, Any], Awaitable[Any]],
    editor: Editor | None = None,
    options: tuple[str, ...] = (),
) -> None:
    """Start the server, and call `action` with a connection to it and a session."""
    client: Any = editor or Editor()

    async def connect() -> None:
        async with acp.spawn_agent_process(
            client, str(ASK), "acp", *options, env=dict(ask.env), cwd=home.path, use_unstable_protocol=True
        ) as (agent, _):
            await agent.initialize(protocol_version=acp.PROTOCOL_VERSION)
            session = await agent.new_session(cwd=str(home.work), mcp_servers=[])
            await action(agent, session)

    asyncio.run(asyncio.wait_for(connect(), 60))


class RawEditor:
    """Writes lines to a running server, and waits for what it answers; `editor_end` is the pipe to it."""

    def __init__(self, running: Running, editor_end: int) -> None:
        self._running = running
        self._editor_end = editor_end

    def send(self, *messages: Any) -> None:
        for message in messages:
            os.write(self._editor_end, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def request(self, number: int, method: str, **params: Any) -> dict[str, Any]:
        """Send a request, and return its answer."""
        self.send({"id": number, "method": method, "params": params})
        return self.wait_for(lambda message: message.get("id") == number and "method" not in message)

    def open_session(self, folder: Path) -> str:
        self.request(1, "initialize", protocolVersion=1)
        session: str = self.request(2, "session/new", cwd=str(folder), mcpServers=[])["result"]["sessionId"]
        return session

    def wait_for(self, is_expected: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            for line in bytes(self._running.stdout).split(b"\n")[:-1]:
                message: dict[str, Any] = json.loads(line)
                if is_expected(message):
                    return message
            time.sleep(0.02)
        raise AssertionError(f"not among {bytes(self._running.stdout)!r}; {bytes(self._running.stderr)!r}")

    def wait_for_question(self) -> dict[str, Any]:
        """Wait until the server asks for permission; return the request."""
        return self.wait_for(lambda message: message.get("method") == "session/request_permission")

    def close(self) -> None:
        os.close(self._editor_end)


@contextmanager
def start_raw(ask: Ask, *options: str) -> Iterator[tuple[RawEditor, Running]]:
    """Start the server with a raw editor."""
    server_end, editor_end = os.pipe()
    with ask.start("acp", *options, stdin=server_end) as running:
        os.close(server_end)
        yield RawEditor(running, editor_end), running
