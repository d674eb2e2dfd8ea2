"""Servers are stopped however a run ends, and a call that the user interrupts is canceled at its server."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import wire
from tests.mcp.setting import RAW, ask_with_calls, configure, pids, program, received
from tests.model_server import HOLD, ModelServer
from tests.program import CTRL_C, Ask, Home, is_running

PATIENCE = 30.0


def wait_until(done: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def methods(home: Home) -> list[str]:
    """Return the methods of the messages that the server has received so far."""
    noted = home.work / "received"
    return [entry.get("method", "") for entry in received(home)] if noted.exists() and noted.stat().st_size else []


def is_gone(home: Home) -> bool:
    return not any(is_running(pid) for pid in pids(home))


@pytest.fixture
def hanging(home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program(RAW)})
    server.reply(wire.calls(("raw__hang", {})), wire.says("never"))


@pytest.mark.slow
@pytest.mark.usefixtures("hanging")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_during_a_call_cancels_the_call_and_stops_the_server(
    number: int, code: int, ask: Ask, home: Home
) -> None:
    with ask.start("hi") as running:
        wait_until(lambda: "tools/call" in methods(home), "the tool was not called")
        running.signal(number)
        result = running.finish()
    assert (result.code, result.text) == (code, "")
    assert "Traceback" not in result.stderr
    assert methods(home)[-2:] == ["notifications/cancelled", "end of input"]
    assert is_gone(home)


@pytest.mark.slow
@pytest.mark.usefixtures("hanging")
def test_ctrl_c_on_a_terminal_is_not_delivered_to_the_server(ask: Ask, home: Home) -> None:
    with ask.start_on_terminal("hi") as running:
        wait_until(lambda: "tools/call" in methods(home), "the tool was not called")
        running.type_in(CTRL_C)
        assert running.finish().code == 130
    assert methods(home)[-2:] == ["notifications/cancelled", "end of input"]
    assert is_gone(home)


@pytest.mark.slow
@pytest.mark.usefixtures("hanging")
def test_the_server_exits_when_ask_is_killed(ask: Ask, home: Home) -> None:
    with ask.start("hi") as running:
        wait_until(lambda: "tools/call" in methods(home), "the tool was not called")
        running.signal(signal.SIGKILL)
        running.process.wait(PATIENCE)
        wait_until(lambda: is_gone(home), "the server still runs")


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["silent", "deaf"])
def test_a_signal_during_startup_stops_the_started_servers(
    mode: str, ask: Ask, home: Home, server: ModelServer
) -> None:
    server.reply(wire.streams(wire.text("a"), HOLD))
    configure(home, {"raw": program(RAW, mode)})
    with ask.start("hi") as running:
        wait_until(lambda: "server/discover" in methods(home), "the server was not started")
        running.signal()
        assert running.finish().code == 130
    assert is_gone(home)


@pytest.mark.slow
def test_a_server_that_ignores_signals_is_killed(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program(RAW, "deaf")})
    result, [answer] = ask_with_calls(ask, server, [("raw__echo", {"text": "x"})])
    assert (result.code, answer) == (0, "x")
    assert is_gone(home)


def test_child_processes_of_a_server_are_stopped_with_it(ask: Ask, home: Home, server: ModelServer) -> None:
    script = f"setsid sleep 600 & echo $! > child; exec {program(RAW)['command']} {RAW}"
    configure(home, {"raw": {"command": "bash", "args": ["-c", script], "timeout": 60}})
    result, [answer] = ask_with_calls(ask, server, [("raw__echo", {"text": "x"})])
    assert (result.code, answer) == (0, "x")
    assert not is_running(int(Path(home.work, "child").read_text()))


def test_servers_are_stopped_after_a_failed_run(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program(RAW)})
    server.reply(wire.fails(401, "no such key"))
    assert ask("hi").code == 6
    assert methods(home)[-1] == "end of input"
    assert is_gone(home)
