"""However a run ends, its servers end with it; a call that the user stops is cancelled at its server."""

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
    """What the server was sent, as far as it has come."""
    noted = home.work / "received"
    return [entry.get("method", "") for entry in received(home)] if noted.exists() and noted.stat().st_size else []


def is_gone(home: Home) -> bool:
    return not any(is_running(pid) for pid in pids(home))


@pytest.fixture
def hanging(home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program(RAW)})
    server.reply(wire.calls(("raw__hang", {})), wire.says("never"))


@pytest.mark.usefixtures("hanging")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_in_a_call_cancels_it_and_ends_the_server(number: int, code: int, ask: Ask, home: Home) -> None:
    with ask.start("hi") as running:
        wait_until(lambda: "tools/call" in methods(home), "no call came")
        running.signal(number)
        result = running.finish()
    assert (result.code, result.text) == (code, "")
    assert "Traceback" not in result.stderr
    assert methods(home)[-2:] == ["notifications/cancelled", "end of input"]
    assert is_gone(home)


@pytest.mark.usefixtures("hanging")
def test_ctrl_c_on_a_terminal_does_not_reach_the_server_itself(ask: Ask, home: Home) -> None:
    with ask.start_on_terminal("hi") as running:
        wait_until(lambda: "tools/call" in methods(home), "no call came")
        running.type_in(CTRL_C)
        assert running.finish().code == 130
    assert methods(home)[-2:] == ["notifications/cancelled", "end of input"]
    assert is_gone(home)


@pytest.mark.usefixtures("hanging")
def test_a_killed_ask_leaves_no_server_that_behaves(ask: Ask, home: Home) -> None:
    with ask.start("hi") as running:
        wait_until(lambda: "tools/call" in methods(home), "no call came")
        running.signal(signal.SIGKILL)
        running.process.wait(PATIENCE)
        wait_until(lambda: is_gone(home), "the server runs on")


@pytest.mark.parametrize("mode", ["silent", "deaf"])
def test_a_signal_at_the_start_ends_what_has_started(mode: str, ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(wire.streams(wire.text("a"), HOLD))
    configure(home, {"raw": program(RAW, mode)})
    with ask.start("hi") as running:
        wait_until(lambda: "server/discover" in methods(home), "nothing was asked")
        running.signal()
        assert running.finish().code == 130
    assert is_gone(home)


def test_one_that_will_not_end_is_ended(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program(RAW, "deaf")})
    result, [answer] = ask_with_calls(ask, server, [("raw__echo", {"text": "x"})])
    assert (result.code, answer) == (0, "x")
    assert is_gone(home)


def test_what_a_server_has_started_ends_with_it(ask: Ask, home: Home, server: ModelServer) -> None:
    script = f"setsid sleep 600 & echo $! > child; exec {program(RAW)['command']} {RAW}"
    configure(home, {"raw": {"command": "bash", "args": ["-c", script], "timeout": 60}})
    result, [answer] = ask_with_calls(ask, server, [("raw__echo", {"text": "x"})])
    assert (result.code, answer) == (0, "x")
    assert not is_running(int(Path(home.work, "child").read_text()))


def test_an_error_that_ends_the_run_ends_the_servers(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program(RAW)})
    server.reply(wire.fails(401, "no such key"))
    assert ask("hi").code == 6
    assert methods(home)[-1] == "end of input"
    assert is_gone(home)
