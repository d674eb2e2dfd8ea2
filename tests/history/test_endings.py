"""However a run ends, all that was said until then is saved with how it ended, and the conversation goes on."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from ask.history.entries import Run
from ask.messages import INTERRUPTED_REASON
from tests import wire
from tests.model_server import DROP, HOLD, ModelServer
from tests.program import CTRL_C, TEST_KEY, Ask, Home, Result, run
from tests.provider_wires import SERVICES
from tests.saved_history import list_messages, read_saved_runs

pytestmark = pytest.mark.usefixtures("quick_retries")

WIRE = SERVICES["openrouter"]
USER = ("user", "hi", True)
NEXT = "And now?"


def check_saved(home: Home, code: int, *messages: tuple[str, str, bool]) -> Run:
    [run] = read_saved_runs(home)
    assert list_messages(run) == [USER, *messages]
    assert (run.exit_code, bool(run.ended)) == (code, True)
    return run


def check_goes_on(ask: Ask, server: ModelServer, *roles: str) -> list[str]:
    """The next question is answered, behind messages of these roles; returns the texts of all that was told."""
    server.reply(wire.says("Well."))
    result = ask("-c", NEXT)
    assert (result.text, result.code) == ("Well.\n", 0), result.stderr
    heard = WIRE.read_conversation(server.requests[-1].json)
    assert [message.role for message in heard] == ["system", *roles]
    assert heard[-1].content.endswith(NEXT)
    return [message.content for message in heard]


def interrupt(ask: Ask, number: signal.Signals, *, shown: str = "", file: Path | None = None) -> Result:
    """Ask, and end the run by a signal once a text was shown, a command has made a file, or the request came."""
    with ask.start("hi") as running:
        if shown:
            running.wait_for(shown)
        while file and not file.exists():
            assert running.process.poll() is None
        running.signal(number)
        return running.finish()


SIGNALS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}


def test_signal_while_waiting(ask: Ask, server: ModelServer, home: Home) -> None:
    number = signal.SIGINT
    server.reply(wire.streams(HOLD))
    with ask.start("hi") as running:
        server.wait_for_requests(1)
        running.signal(number)
        assert running.finish().code == SIGNALS[number]
    check_saved(home, SIGNALS[number])
    check_goes_on(ask, server, "user")


def test_key_in_an_error_is_not_saved(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(wire.fails(401, f"bad key {TEST_KEY}"))
    assert ask("hi").code == 6
    assert check_saved(home, 6).error == "bad key [key removed]"


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_signal_while_the_answer_is_streamed(ask: Ask, server: ModelServer, home: Home, number: signal.Signals) -> None:
    server.reply(wire.streams(wire.text("so far"), HOLD))
    assert interrupt(ask, number, shown="so far").code == SIGNALS[number]
    check_saved(home, SIGNALS[number], ("assistant", "so far", False))
    assert "so far" in check_goes_on(ask, server, "user", "assistant", "user")


@pytest.mark.parametrize("number", [signal.SIGHUP, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_signal_while_a_command_runs(ask: Ask, server: ModelServer, home: Home, number: signal.Signals) -> None:
    calls = [("bash", {"command": f"touch {name}; sleep 60"}) for name in ("one", "two")]
    server.reply(wire.calls(*calls, content="Let me see."))
    assert interrupt(ask, number, file=ask.cwd / "one").code == SIGNALS[number]
    [run] = read_saved_runs(home)
    assert run.exit_code == SIGNALS[number]
    assert run.entries[1].calls[0].started
    told = check_goes_on(ask, server, "user", "assistant", "tool", "tool", "user")
    assert "may or may not have run" in told[3]
    assert "not run" in told[4]
    assert not (ask.cwd / "two").exists()
    assert told[3] == f"Error: {INTERRUPTED_REASON}"


def test_pipe_closed_while_the_answer_is_streamed(ask: Ask, server: ModelServer, home: Home) -> None:
    lines = [wire.text(f"{number}\n") for number in range(200)]
    server.reply(wire.streams(*(step for line in lines for step in (line, 0.005)), wire.finish(), wire.usage()))
    result = ask.shell("ask hi | head -1; exit ${PIPESTATUS[0]}")
    assert (result.text, result.code) == ("0\n", 0)
    [run] = read_saved_runs(home)
    assert run.exit_code == 0
    [_, (role, text, whole)] = list_messages(run)
    assert (role, whole) == ("assistant", False)
    assert text.startswith("0\n1\n")
    check_goes_on(ask, server, "user", "assistant", "user")


@pytest.mark.slow
def test_pipe_closed_during_a_call(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(wire.calls(("bash", {"command": "echo ran"}), content="Let me see."), wire.says("It ran.\nTwice."))
    assert ask.shell("ask hi | true; exit ${PIPESTATUS[0]}").code == 0
    [run] = read_saved_runs(home)
    assert (run.exit_code, list_messages(run)[0]) == (0, USER)
    assert ask("-c", NEXT).code == 0
    WIRE.read_conversation(server.requests[-1].json)


@pytest.mark.parametrize("reply", [(wire.text("so far"), DROP), (wire.text("so far"),)], ids=["dropped", "ended"])
def test_incomplete_stream(ask: Ask, server: ModelServer, home: Home, reply: Any) -> None:
    server.reply(wire.streams(*reply, done=False))
    assert ask("hi").code == 10
    assert check_saved(home, 10, ("assistant", "so far", False)).error
    check_goes_on(ask, server, "user", "assistant", "user")


def test_error_within_a_stream(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(wire.streams(wire.text("so far"), wire.error("it failed", 400)))
    assert ask("hi").code == 6
    assert check_saved(home, 6, ("assistant", "so far", False)).error == "it failed"
    check_goes_on(ask, server, "user", "assistant", "user")


@pytest.mark.parametrize("finish", ["length", "content_filter"])
def test_truncated_or_filtered_answer(ask: Ask, server: ModelServer, home: Home, finish: str) -> None:
    server.reply(wire.says("so far", finish=finish))
    assert ask("hi").code == 10
    run = check_saved(home, 10, ("assistant", "so far", False))
    assert run.entries[1].finish_reason == {"content_filter": "filter"}.get(finish, finish)
    check_goes_on(ask, server, "user", "assistant", "user")


def test_round_limit(ask: Ask, server: ModelServer, home: Home) -> None:
    call = wire.calls(("bash", {"command": "true"}))
    server.reply(call, call, wire.says("So far."))
    assert ask("--max-rounds", "2", "hi").code == 11
    [run] = read_saved_runs(home)
    assert (run.exit_code, run.rounds, list_messages(run)[-1]) == (11, 2, ("assistant", "So far.", True))
    check_goes_on(ask, server, *["user", *["assistant", "tool"] * 2, "assistant", "user"])


def test_no_network(ask: Ask, server: ModelServer, home: Home, closed_port: int) -> None:
    assert ask("--base-url", f"http://127.0.0.1:{closed_port}", "hi").code == 5
    assert "cannot connect" in check_saved(home, 5).error
    check_goes_on(ask, server, "user")


@pytest.mark.parametrize("status", [400, 401, 500])
def test_provider_error(ask: Ask, server: ModelServer, home: Home, status: int) -> None:
    server.reply(*[wire.fails(status)] * (4 if status == 500 else 1))
    assert ask("hi").code == 6
    assert check_saved(home, 6).error == "it failed"
    check_goes_on(ask, server, "user")


def test_error_between_two_rounds(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(wire.calls(("bash", {"command": "echo x >> ran"})), wire.fails(400))
    assert ask("hi").code == 6
    check_goes_on(ask, server, "user", "assistant", "tool", "user")
    assert (ask.cwd / "ran").read_text() == "x\n"


def test_usage_too_large_to_save_is_dropped(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(wire.streams(wire.text("hello"), wire.finish(), wire.usage(10**30, 5)))
    assert ask("hi").code == 0
    [run] = read_saved_runs(home)
    assert (run.usage.input_tokens, run.usage.output_tokens) == (None, 5)


def test_conversation_id_is_in_json(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(wire.says("hello"))
    name = ask("hi").conversation
    assert [run.exit_code for run in read_saved_runs(home)] == [0]
    told = json.loads(ask("--resume", name, "--json", "hi").text)
    assert (told["conversation"], told["saved"]) == (name, True)
    kept = len(read_saved_runs(home))
    unsaved = ask("--no-save", "hi")
    assert (unsaved.text, unsaved.stderr, unsaved.code, unsaved.conversation) == ("hello\n", "", 0, "")
    assert json.loads(ask("--no-save", "--json", "hi").text)["saved"] is False
    assert len(read_saved_runs(home)) == kept


COUNT_OPENINGS = """
import runpy, sys
opened = []
sys.addaudithook(lambda event, values: opened.append(event) if event == "sqlite3.connect" else None)
try:
    runpy.run_module("ask", run_name="__main__")
finally:
    print(len(opened), file=sys.stderr)
"""


@pytest.mark.slow
def test_history_is_opened_once_for_all_rounds(ask: Ask, server: ModelServer) -> None:
    rounds = [wire.calls(("bash", {"command": f"true {number}"})) for number in range(5)]
    server.reply(*rounds, wire.says("Done."))
    for options, openings in ([], 1), (["-c"], 2), (["--no-save"], 0):
        result = run([sys.executable, "-c", COUNT_OPENINGS, *options, "hi"], env=ask.env, cwd=ask.cwd)
        assert (result.text, result.stderr.splitlines()[-1]) == ("Done.\n", str(openings))


@pytest.mark.parametrize(
    ("answer", "arguments", "code"),
    [
        ("# Which disk is meant?", ["--cmd", "format it"], 10),
        ("Love is a feeling.", ["--schema", "age int", "how old?"], 10),
        ("Certainly.", ["hi"], 0),
    ],
)
def test_the_saved_exit_code_is_that_of_the_process(
    *, answer: str, arguments: list[str], code: int, ask: Ask, server: ModelServer, home: Home
) -> None:
    server.reply(wire.says(answer))
    result = ask(*arguments)
    [run] = read_saved_runs(home)
    assert (result.code, run.exit_code, bool(run.error)) == (code, code, bool(code))


@pytest.mark.slow
def test_output_error_is_saved(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(wire.says("hello"))
    result = ask.shell("ask --json hi > /dev/full")
    [run] = read_saved_runs(home)
    assert (result.code, run.exit_code) == (9, 9)
    assert "hello" in list_messages(run)[-1][1]


def test_empty_summary_is_saved_as_an_error(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(wire.says("hello"))
    for _ in range(4):
        ask("-c" if read_saved_runs(home) else "-q", "hi", env={"ASK_SESSION": "here"})
    server.reply(wire.says(" "))
    result = ask("compact", env={"ASK_SESSION": "here"})
    assert (result.code, read_saved_runs(home)[-1].exit_code) == (10, 10), result.stderr


@pytest.mark.parametrize(
    ("shell", "keys", "code", "recorded"),
    [
        ("/bin/bash", "r\r", 3, 0),  # the command replaces ask, which has done its part
        ("/bin/bash", CTRL_C, 130, 130),
        ("/bin/none", "r\r", 3, 3),
    ],
)
def test_exit_code_of_an_offered_command_is_saved(
    *, shell: str, keys: str, code: int, recorded: int, ask: Ask, server: ModelServer, home: Home
) -> None:
    server.reply(wire.says("exit 3"))
    result = ask.on_terminal("--cmd", "fail", answers=[("C(ancel): ", keys)], env={"SHELL": shell})
    [run] = read_saved_runs(home)
    assert (result.code, run.exit_code, bool(run.error)) == (code, recorded, shell == "/bin/none")
