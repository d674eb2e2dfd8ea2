"""`--profile` as the first argument reports where a run's time went, and changes nothing else."""

from __future__ import annotations

import pstats
import re
import signal
from importlib import import_module
from operator import attrgetter
from pathlib import Path

import pytest

from ask.profiler import PHASES, TIMED_FUNCTIONS
from tests import wire
from tests.model_server import HOLD, ModelServer
from tests.program import CTRL_C, Ask, Home


def parse_report(stderr: str) -> dict[str, float]:
    """Parse the reported milliseconds by phase."""
    _, _, rows = stderr.partition(" ms, of these\n")
    found = {}
    for row in rows.splitlines():
        phase = next(phase for phase in PHASES if row.startswith(f"  {phase} "))
        found[phase] = float(row.removeprefix(f"  {phase} ").split()[0])
    return found


@pytest.mark.parametrize(
    ("module", "name"), [(module, name) for module, names in TIMED_FUNCTIONS.items() for name in names]
)
def test_timed_functions_exist(module: str, name: str) -> None:
    assert callable(attrgetter(name)(import_module(module)))


def test_every_phase_of_a_run_is_reported_on_stderr(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("first"), wire.calls(("bash", {"command": "true"})), wire.says("second"))
    ask("hi")
    result = ask("--profile", "-c", "hi")
    assert (result.text, result.code) == ("second\n", 0)
    assert list(parse_report(result.stderr)) == list(PHASES)
    assert re.search(r"^  imports +[0-9.]+  (\w+ \d+, )+\w+ \d+$", result.stderr, re.MULTILINE)


@pytest.mark.slow
def test_waiting_for_an_answer_is_attributed_correctly(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.streams(0.5, *wire.stream("late")), wire.streams(wire.text("a"), 0.5, *wire.stream("late")))
    slow_to_begin, slow_to_go_on = (parse_report(ask("--profile", "hi").stderr) for _ in range(2))
    assert slow_to_begin["first byte"] >= 400
    assert slow_to_go_on["stream"] >= 400


def test_only_phases_that_occurred_are_reported(ask: Ask) -> None:
    assert set(parse_report(ask("--profile", "--version").stderr)) == {"python", "imports", "the rest"}


def test_a_failure_keeps_its_exit_code(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.fails(400, "no"))
    plain, timed = ask("hi"), ask("--profile", "hi")
    assert timed.code == plain.code == 6
    assert timed.stderr.startswith(plain.stderr)
    assert parse_report(timed.stderr)


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_a_signal_ends_a_profiled_run(ask: Ask, server: ModelServer, number: int) -> None:
    server.reply(wire.streams(wire.text("so far"), HOLD))
    with ask.start_on_terminal("--profile", "--plain", "hi") as running:
        running.wait_for("so far")
        if number == signal.SIGINT:
            running.type_in(CTRL_C)
        else:
            running.signal(number)
        result = running.finish()
    assert result.code == 128 + number
    assert "stream" in parse_report(result.text)


@pytest.mark.slow
def test_the_profile_file_can_be_read_by_pstats(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(wire.says("hello"))
    result = ask("--profile=times", "hi")
    assert result.text == "hello\n"
    assert result.stderr.endswith("ask: python -m pstats times shows the profile\n")
    timed = vars(pstats.Stats(str(home.work / "times")))["stats"]
    assert any(Path(file).match("ask/agent/tool_loop.py") and name == "run" for file, _, name in timed)


@pytest.mark.parametrize(("option", "code"), [("--profile=", 2), ("--profile=no/such/folder/times", 9)])
def test_an_unwritable_file_is_an_error(ask: Ask, server: ModelServer, option: str, code: int) -> None:
    server.reply(wire.says("hello"))
    result = ask(option, "hi")
    assert result.code == code
    assert "Traceback" not in result.stderr


def test_profile_later_in_the_command_line_is_not_the_option(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("hello"))
    result = ask("what", "does", "--profile", "do")
    assert wire.asked(server.requests[0].json) == "what does --profile do"
    assert "of these" not in result.stderr
    assert "--profile" not in ask("--help").text
