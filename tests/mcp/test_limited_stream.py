"""The number of unsolicited messages from a server is limited."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest

from ask.config.mcp_servers import ServerConfig
from ask.mcp.connection import MAX_UNSOLICITED_MESSAGES, ServerConnection
from ask.mcp.process import parse_line

NO_TRANSPORT: Any = None
NOTICE = b'{"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}}'
REQUEST = b'{"jsonrpc": "2.0", "id": "p1", "method": "ping"}'
RUBBISH = b"rubbish"
ANSWERS = [
    b'{"jsonrpc": "2.0", "id": 1, "result": {}}',
    b'{"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": ""}}',
]


async def stream_of(messages: Iterable[bytes]) -> AsyncIterator[object]:
    read = {message: parse_line(message)[0] for message in (NOTICE, REQUEST, RUBBISH, *ANSWERS)}
    for message in messages:
        yield read[message]


async def read_all(messages: Iterable[bytes]) -> tuple[int, str]:
    connection = ServerConnection(ServerConfig("one", Path("config.toml")), Path("/"), NO_TRANSPORT)
    received = [message async for message in connection.limit_messages(stream_of(messages))]
    return len(received), connection.failure


def read(messages: Iterable[bytes]) -> tuple[int, str]:
    """Return how many messages of a server are read, and why the stream ended."""
    return asyncio.run(read_all(messages))


@pytest.mark.parametrize("message", [NOTICE, REQUEST, RUBBISH])
def test_an_endless_stream_is_read_up_to_the_limit(message: bytes) -> None:
    count, failure = read(itertools.repeat(message))
    assert count == MAX_UNSOLICITED_MESSAGES
    assert f"{MAX_UNSOLICITED_MESSAGES:,} unsolicited messages" in failure


@pytest.mark.slow_after_first
@pytest.mark.parametrize("answer", ANSWERS)
def test_a_response_resets_the_count(answer: bytes) -> None:
    most = [NOTICE] * MAX_UNSOLICITED_MESSAGES
    assert read([*most, answer, *most]) == (2 * MAX_UNSOLICITED_MESSAGES + 1, "")
