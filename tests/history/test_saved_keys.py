"""A key that a model's service repeats, in any part of its answer, is not saved."""

from __future__ import annotations

import json
import sqlite3

import pytest

from tests import wire
from tests.model_server import ModelServer
from tests.program import TEST_KEY, Ask, Home

CALL = {
    "id": "call_1",
    "type": "function",
    "index": 0,
    "function": {"name": "bash", "arguments": '{"command": "true"}'},
}
PARTS = {
    "id": {**CALL, "id": TEST_KEY},
    "name": {**CALL, "function": {"name": TEST_KEY, "arguments": "{}"}},
    "argument": {**CALL, "function": {"name": "bash", "arguments": json.dumps({"command": f"echo {TEST_KEY}"})}},
    "argument name": {**CALL, "function": {"name": "bash", "arguments": json.dumps({TEST_KEY: "true"})}},
    "invalid arguments": {**CALL, "function": {"name": "bash", "arguments": f"{{{TEST_KEY}"}},
}


def count_keys(home: Home) -> int:
    """Return how often the key is in a file of ask's data."""
    with sqlite3.connect(home.data / "history.db") as connection:
        dump = "\n".join(connection.iterdump())
    files = [path.read_bytes() for path in home.data.rglob("*") if path.is_file()]
    return dump.count(TEST_KEY) + sum(data.count(TEST_KEY.encode()) for data in files)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("option", ["--json", "--events", "-v", "--no-stream"])
def test_a_key_in_a_tool_call_is_not_saved_or_shown(
    ask: Ask, server: ModelServer, home: Home, part: str, option: str
) -> None:
    if option == "--no-stream":
        message = {"role": "assistant", "content": None, "tool_calls": [PARTS[part]]}
        first = wire.whole_reply({"choices": [{"message": message, "finish_reason": "tool_calls"}]})
        second = wire.says("Done.", whole=True)
    else:
        delta = {"choices": [{"delta": {"role": "assistant", "tool_calls": [PARTS[part]]}, "finish_reason": None}]}
        end = {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}
        first, second = wire.streams(delta, end), wire.says("Done.")
    server.reply(first, second, second)
    result = ask("-m", wire.MODEL, option, "hi")
    assert result.code == 0, result.stderr
    assert TEST_KEY not in result.text + result.stderr
    assert count_keys(home) == 0
    assert ask("-c", "-m", wire.MODEL, option, "again").code == 0
    assert TEST_KEY not in ask("history", "export", "--format", "json").text


@pytest.mark.parametrize("field", ["content", "reasoning"])
def test_a_key_in_the_answer_is_not_saved(ask: Ask, server: ModelServer, home: Home, field: str) -> None:
    server.reply(wire.streams({"choices": [{"delta": {"content": "x", field: TEST_KEY}, "finish_reason": "stop"}]}))
    assert ask("-m", wire.MODEL, "hi").code == 0
    assert count_keys(home) == 0
