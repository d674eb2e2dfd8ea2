"""The order of rows, and how many of them are in flight."""

from __future__ import annotations

import json
import time

import pytest

from tests import wire
from tests.model_server import ModelServer, Reply, Request
from tests.program import Ask, Home

COMMAND = ("map", "-p", "openrouter", "-m", "vendor/model", "Say {{line}}", "-O", "out.jsonl")


def write_rows(home: Home, count: int) -> str:
    (home.work / "in.txt").write_text("".join(f"{number}\n" for number in range(count)))
    return "in.txt"


def read_answers(home: Home) -> list[str]:
    return [json.loads(line)["answer"] for line in (home.work / "out.jsonl").read_text().splitlines()]


def echo(request: Request) -> Reply:
    return wire.whole_reply(wire.answer(request.json["messages"][-1]["content"]))


@pytest.mark.slow
def test_a_slow_row_holds_up_only_the_output(ask: Ask, server: ModelServer, home: Home) -> None:
    count = 1100

    def reply(request: Request) -> Reply:
        if request.json["messages"][-1]["content"] == "Say 0":
            server.wait_for_requests(count, 60)
        return echo(request)

    server.reply(reply)
    assert ask(*COMMAND, write_rows(home, count), "-j", "8").code == 0
    assert read_answers(home) == [f"Say {number}" for number in range(count)]


@pytest.mark.slow
def test_a_limit_for_threads_is_an_error_with_a_hint(ask: Ask, server: ModelServer, home: Home) -> None:
    def reply(request: Request) -> Reply:
        time.sleep(0.3)
        return echo(request)

    server.reply(reply)
    write_rows(home, 40)
    command = "ask map -p openrouter -m vendor/model -j 40 'Say {{line}}' in.txt -O out.jsonl"
    limited = ask.shell(f"ulimit -s 500000 && ulimit -v 4000000 && {command}")  # the stacks count as memory
    assert (limited.code, "-j" in limited.stderr) == (1, True), limited.stderr
    assert ask.shell(command).code == 0
    assert read_answers(home) == [f"Say {number}" for number in range(40)]


def test_the_limiter_is_given_the_time_that_a_refusal_took(ask: Ask, server: ModelServer, home: Home) -> None:
    """Otherwise, it would be assumed to have taken a second, and the next request would be sent too early."""
    received: list[float] = []

    def reply(request: Request) -> Reply:
        received.append(time.monotonic())
        if len(received) > 5:
            return echo(request)
        time.sleep(2)
        return wire.fails(429)

    server.reply(reply)
    # One at a time: otherwise, the first row may be sent again before the last one is refused.
    assert ask(*COMMAND, write_rows(home, 8), "-j", "1").code == 0
    assert received[5] - received[4] > 3.8
