"""A server may send much that nobody asked for, and not without end."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterable

import pytest

from ask.mcp.process import parsed
from ask.mcp.unasked import UNASKED_LIMIT, Counted

NOTICE = b'{"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}}'
REQUEST = b'{"jsonrpc": "2.0", "id": "p1", "method": "ping"}'
RUBBISH = b"rubbish"
ANSWERS = [
    b'{"jsonrpc": "2.0", "id": 1, "result": {}}',
    b'{"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": ""}}',
]


async def stream_of(messages: Iterable[bytes]) -> AsyncIterator[object]:
    read = {message: parsed(message) for message in (NOTICE, REQUEST, RUBBISH, *ANSWERS)}
    for message in messages:
        yield read[message]


def read(messages: Iterable[bytes]) -> tuple[int, str]:
    """How many messages of a server are read, and why no more are."""
    counted = Counted(stream_of(messages))

    async def count() -> int:
        return len([message async for message in counted])

    return asyncio.run(count()), counted.fault


@pytest.mark.parametrize("message", [NOTICE, REQUEST, RUBBISH])
def test_what_comes_without_end_is_read_up_to_the_limit(message: bytes) -> None:
    said = "it sent more than 10,000 messages that nobody asked for"
    assert read(itertools.repeat(message)) == (UNASKED_LIMIT, said)


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_begins_the_count_anew(answer: bytes) -> None:
    most = [NOTICE] * UNASKED_LIMIT
    assert read([*most, answer, *most]) == (2 * UNASKED_LIMIT + 1, "")
