"""`--profile=FILE` as the first argument writes where a run's time went, and changes nothing else."""

from __future__ import annotations

import pstats
import signal
from pathlib import Path

import pytest

from tests import wire
from tests.model_server import HOLD, ModelServer
from tests.program import CTRL_C, Ask, Home


def list_profiled_functions(home: Home) -> set[tuple[str, str]]:
    """Return the file and the name of each function in the profile `times`."""
    timed = vars(pstats.Stats(str(home.work / "times")))["stats"]
    return {(file, name) for file, _, name in timed}


@pytest.mark.slow
def test_a_failure_keeps_its_exit_code(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(wire.fails(400, "no"))
    plain, timed = ask("hi"), ask("--profile=times", "hi")
    assert timed.code == plain.code == 6
    assert timed.stderr.startswith(plain.stderr)
    assert list_profiled_functions(home)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_profiled_run(ask: Ask, home: Home, server: ModelServer, number: int) -> None:
    server.reply(wire.streams(wire.text("so far"), HOLD))
    with ask.start_on_terminal("--profile=times", "--plain", "hi") as running:
        running.wait_for("so far")
        if number == signal.SIGINT:
            running.type_in(CTRL_C)
        else:
            running.signal(number)
        result = running.finish()
    assert result.code == 128 + number
    assert any(name == "iter_event_batches" for _, name in list_profiled_functions(home))


@pytest.mark.slow
def test_the_profile_file_can_be_read_by_pstats(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(wire.says("hello"))
    result = ask("--profile=times", "hi")
    assert result.text == "hello\n"
    assert result.stderr.endswith("ask: python -m pstats times shows the profile\n")
    profiled = list_profiled_functions(home)
    assert any(Path(file).match("ask/agent/tool_loop.py") and name == "run" for file, name in profiled)


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    ("option", "code"), [("--profile", 2), ("--profile=", 2), ("--profile=no/such/folder/times", 9)]
)
def test_an_unwritable_file_is_an_error(ask: Ask, server: ModelServer, option: str, code: int) -> None:
    server.reply(wire.says("hello"))
    result = ask(option, "hi")
    assert result.code == code
    assert "Traceback" not in result.stderr


@pytest.mark.slow
def test_profile_later_in_the_command_line_is_not_the_option(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("hello"))
    ask("what", "does", "--profile", "do")
    assert wire.asked(server.requests[0].json) == "what does --profile do"
    assert "--profile" not in ask("--help").text
