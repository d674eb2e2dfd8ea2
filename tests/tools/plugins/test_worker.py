"""Failing plugin tools: the response stays complete, and the next call works."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from tests import wire
from tests.cli.chat.chat_session import ENTER, Chat
from tests.model_server import ModelServer
from tests.program import CTRL_C, Ask, is_running
from tests.tools.plugins.conftest import Calling, all_results

pytestmark = pytest.mark.usefixtures("tools")
MINE = ("--tool", "mine.py")


FAILURES = {
    "raise": ("ValueError: no such thing (mine.py, line 19)", "2"),
    "tell": ("not today", "3"),
    "exit": ("leaving", "4"),
    "interrupt": ("KeyboardInterrupt (mine.py, line 33)", "5"),
    "die": ("exit status 7", "1"),
    "crash": ("signal 11", "1"),
}
"""How a call can fail: expected text of its result, and the counter in the process afterwards."""


@pytest.mark.slow
def test_a_call_that_fails_is_reported_and_the_next_one_works(calling: Calling) -> None:
    calls = [call for how in FAILURES for call in (("fail", {"how": how}), ("count", {}))]
    run = calling(("count", {}), *calls, options=(*MINE, "--max-rounds", "99"))
    assert (run.ended.text, run.ended.code) == ("Done.\n", 0)
    assert run.results[0] == "1"
    failed, counted = run.results[1::2], run.results[2::2]
    assert counted == [count for _, count in FAILURES.values()]
    for result, (how, (reason, count)) in zip(failed, FAILURES.items(), strict=True):
        assert result.startswith("Error: "), how
        assert reason in result, how
        assert ("memory" in result) == (count == "1"), how


def test_a_process_that_closes_its_channel_is_ended(calling: Calling) -> None:
    run = calling(("fail", {"how": "close"}), ("count", {}), options=(*MINE, "--command-timeout", "20"))
    assert (run.ended.text, run.ended.code) == ("Done.\n", 0)
    assert run.results[0].startswith("Error: ")
    assert run.results[1] == "1"


def test_a_call_that_hangs_is_stopped_with_its_children(ask: Ask, calling: Calling) -> None:
    run = calling(("fail", {"how": "hang"}), ("count", {}), options=(*MINE, "--command-timeout", "2"))
    assert (run.ended.text, run.ended.code) == ("Done.\n", 0)
    stopped, counted = run.results
    assert stopped.startswith("Error: ")
    assert "2 s" in stopped
    assert counted == "1"
    assert not any(is_running(int(pid)) for pid in (ask.cwd / "pids").read_text().split())


def wait_for_hanging_call(ask: Ask) -> list[int]:
    """Process ids of a call that hangs."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            pids = [int(pid) for pid in (ask.cwd / "pids").read_text().split()]
        except OSError:
            pids = []
        if len(pids) == 2:
            return pids
        time.sleep(0.02)
    raise AssertionError("the call has not begun")


def wait_for_end(pids: list[int]) -> None:
    deadline = time.monotonic() + 30
    while any(map(is_running, pids)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(map(is_running, pids))


def test_ctrl_c_stops_a_call_with_its_children(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(("fail", {"how": "hang"})))
    with ask.start_on_terminal(*MINE, "go") as running:
        pids = wait_for_hanging_call(ask)
        running.type_in(CTRL_C)
        assert running.finish().code == 130
    wait_for_end(pids)


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.slow)])
def test_a_signal_that_stops_ask_stops_the_call_too(ask: Ask, server: ModelServer, number: int) -> None:
    server.reply(wire.calls(("fail", {"how": "hang"})))
    with ask.start(*MINE, "go") as running:
        pids = wait_for_hanging_call(ask)
        running.signal(number)
        assert running.finish().code == 128 + number
    wait_for_end(pids)


def test_plugin_process_ends_when_ask_is_killed(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(("fail", {"how": "hang"})))
    with ask.start(*MINE, "go") as running:
        process, child = wait_for_hanging_call(ask)
        running.signal(signal.SIGKILL)
        running.process.wait(30)
        wait_for_end([process])
        os.kill(child, signal.SIGKILL)  # its own session survives when ask is killed with SIGKILL


@pytest.mark.slow
def test_after_ctrl_c_in_a_chat_the_next_call_starts_a_new_process(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(("fail", {"how": "hang"})), wire.calls(("count", {})), wire.says("Counted."))
    with Chat(ask, "-m", wire.MODEL, *MINE) as chat:
        chat.type_in("go" + ENTER)
        wait_for_hanging_call(ask)
        chat.type_in(CTRL_C)
        assert "interrupted" in chat.wait_for_prompt()
        assert "Counted." in chat.send("again")
        assert chat.quit().code == 0
    assert all_results(server)[-1] == "1"


@pytest.mark.slow
def test_output_of_a_tool_is_shown_on_a_terminal_only(ask: Ask, server: ModelServer, calling: Calling) -> None:
    run = calling(("speak", {}), options=MINE)
    assert (run.ended.text, run.results) == ("Done.\n", ["spoken"])
    assert "by " not in run.ended.stderr
    server.reply(wire.calls(("speak", {})), wire.says("Done."))
    shown = ask.on_terminal(*MINE, "go").text
    for line in ("by print", "to stderr", "by write", "by a child", "and its stderr", "at last"):
        assert line in shown
    assert "spoken" not in shown


@pytest.mark.slow
def test_a_long_result_is_saved_to_a_file(ask: Ask, calling: Calling) -> None:
    run = calling(("much", {"size": 5_000_000}), ("count", {}), options=MINE)
    assert run.results[1] == "1"
    assert len(run.results[0]) <= 30_000
    kept = Path(run.results[0].partition("the full output is in ")[2].partition(" ...]")[0])
    assert kept.stat().st_size == 5_000_000


def test_a_flood_of_output_ends(calling: Calling) -> None:
    run = calling(("chatter", {"size": 2_000_000}), ("count", {}), options=(*MINE, "-q"), timeout=120)
    assert (run.ended.text, run.results) == ("Done.\n", ["done", "1"])


def test_environment_has_no_keys_and_stdin_is_empty(ask: Ask, calling: Calling) -> None:
    run = calling(("surroundings", {}), options=MINE, stdin=b"piped")
    output = json.loads(run.results[0])
    assert output == {"keys": [], "here": str(ask.cwd), "dir": str(ask.cwd), "stdin": "", "timeout": 30.0}


def test_a_key_in_a_result_is_redacted(ask: Ask, calling: Calling) -> None:
    key = ask.env["OPENROUTER_API_KEY"]
    (ask.cwd / "leak.py").write_text(f'def leak() -> str: return "x" * 40_000 + "{key}" + "y" * 40_000')
    run = calling(("leak", {}), options=("--tool", "leak.py:leak"))
    kept = Path(run.results[0].partition("the full output is in ")[2].partition(" ...]")[0]).read_text()
    assert key not in kept
    assert "[key removed]" in kept


def test_invalid_arguments_never_reach_the_function(calling: Calling) -> None:
    run = calling(("much", {"size": "five"}), ("much", {}), ("count", {}), options=MINE)
    wrong, missing, counted = run.results
    assert "'size' must be integer, not string" in wrong
    assert "missing 'size'" in missing
    assert counted == "1"
