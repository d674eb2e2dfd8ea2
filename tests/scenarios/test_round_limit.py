"""The question at the limit of tool rounds, and who is not asked."""

from __future__ import annotations

import pytest

from tests import wire
from tests.model_server import ModelServer
from tests.program import ASK, CTRL_C, Ask, Running
from tests.scenarios.sent_requests import check_sent_requests
from tests.slow_parameters import mark_others_slow

QUESTION = "Continue for 2 more rounds?"
CTRL_Z = "\x1a"
OPTIONS = ("--max-rounds", "2")


def serve_rounds(server: ModelServer, count: int, cost: float = 0.0) -> None:
    """Serve this many rounds of tool calls, each at this cost, then an answer."""
    for number in range(count):
        call = ("bash", {"command": f"echo {number} >> ran"})
        server.reply(wire.streams(*wire.stream(None, [call])[:-1], wire.usage(cost=cost)))
    server.reply(wire.says("Done."))


def count_rounds(ask: Ask) -> int:
    return len((ask.cwd / "ran").read_text().splitlines())


def choices(server: ModelServer) -> list[str]:
    return [body["tool_choice"] for body in check_sent_requests(server)]


def test_each_yes_allows_as_many_rounds_again(ask: Ask, server: ModelServer) -> None:
    serve_rounds(server, 5)
    result = ask.on_terminal(*OPTIONS, "go on", answers=[(QUESTION, "\n"), (QUESTION, "y\n")])
    assert (result.code, count_rounds(ask), result.text.count(QUESTION)) == (0, 5, 2)
    assert "4 tool rounds" in result.text
    assert set(choices(server)) == {"auto"}


@pytest.mark.parametrize("answer", mark_others_slow(["n\n", "\x04"], ["n\n"]))
def test_after_a_no_the_model_answers_without_calls(ask: Ask, server: ModelServer, answer: str) -> None:
    serve_rounds(server, 2)
    result = ask.on_terminal(*OPTIONS, "go on", answers=[(QUESTION, answer)])
    assert (result.code, count_rounds(ask)) == (11, 2)
    assert choices(server) == ["auto", "auto", "none"]
    assert "Done." in result.text


@pytest.mark.slow
def test_the_question_is_shown_again_after_a_stop(ask: Ask, server: ModelServer) -> None:
    serve_rounds(server, 3)
    script = f"set -m; {ASK} --max-rounds 2 hi; fg %1"
    with Running(["bash", "-c", script], env=ask.env, cwd=ask.cwd, terminal=True) as running:
        place = running.wait_for(QUESTION)
        running.type_in(CTRL_Z)
        place = running.wait_for(QUESTION, after=place)
        running.type_in("y\n")
        assert running.finish().code == 0


def test_ctrl_c_at_the_question_ends_the_run_and_it_can_be_continued(ask: Ask, server: ModelServer) -> None:
    serve_rounds(server, 2)
    session = {"ASK_SESSION": "here"}
    with ask.start_on_terminal(*OPTIONS, "go on", env=session) as running:
        running.wait_for(QUESTION)
        running.type_in(CTRL_C)
        assert running.finish().code == 130
    assert ask("-c", "go on", env=session).text == "Done.\n"
    assert len(check_sent_requests(server)[-1]["messages"]) == 7


def test_no_question_is_asked_if_the_cost_limit_is_reached(ask: Ask, server: ModelServer) -> None:
    serve_rounds(server, 2, cost=0.3)
    result = ask.on_terminal(*OPTIONS, "--max-cost", "0.5", "go on")
    assert (result.code, count_rounds(ask)) == (11, 2)
    assert QUESTION not in result.text
    assert "--max-cost" in result.text


@pytest.mark.slow
def test_a_yes_does_not_raise_the_cost_limit(ask: Ask, server: ModelServer) -> None:
    serve_rounds(server, 3, cost=0.2)
    result = ask.on_terminal(*OPTIONS, "--max-cost", "0.5", "go on", answers=[(QUESTION, "y\n")])
    assert (result.code, count_rounds(ask)) == (11, 3)
    assert "--max-cost" in result.text


@pytest.mark.slow
def test_data_on_stdin_is_no_answer(ask: Ask, server: ModelServer) -> None:
    serve_rounds(server, 3)
    command = ["bash", "-c", "yes n | head -n 99 | ask --max-rounds 2 'go on'"]
    with Running(command, env=ask.env, cwd=ask.cwd, terminal=True) as running:
        running.wait_for(QUESTION)
        running.type_in("\n")
        assert running.finish().code == 0
    assert count_rounds(ask) == 3


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    ("script", "names_continue"),
    [
        ("ask --max-rounds 2 go | cat", True),
        ("ask --max-rounds 2 --no-save go > answer", False),
        *(
            pytest.param(script, True, marks=pytest.mark.slow)
            for script in (
                "ask --max-rounds 2 go > answer",
                "ask --max-rounds 2 go 2> log; code=$?; cat log; exit $code",
                "ask -q --max-rounds 2 go",
                "ask --json --max-rounds 2 go",
                "ask --events --max-rounds 2 go",
                "set -m; ask --max-rounds 2 go & wait $!",
                "printf 'go\\n' | ask chat --max-rounds 2",
            )
        ),
    ],
)
def test_nobody_is_asked_if_a_program_or_file_gets_the_output(
    ask: Ask, server: ModelServer, script: str, *, names_continue: bool
) -> None:
    serve_rounds(server, 2)
    command = ["bash", "-c", f"set -o pipefail; {script}"]
    with Running(command, env=ask.env, cwd=ask.cwd, terminal=True) as running:
        result = running.finish()
    assert (result.code, count_rounds(ask)) == (11, 2)
    assert QUESTION not in result.text
    assert ("ask -c" in result.text) == names_continue
    assert choices(server)[-1] == "none"


def test_a_chat_asks_and_goes_on_after_a_no(ask: Ask, server: ModelServer) -> None:
    serve_rounds(server, 2)
    server.reply(wire.says("Still here."))
    with ask.start_on_terminal("chat", *OPTIONS, "go on") as running:
        place = running.wait_for(QUESTION)
        running.type_in("n\n")
        place = running.wait_for("Done.", after=place)
        running.wait_for("\x1b[0;1m>", after=place)
        running.type_in("hello\r")
        running.wait_for("Still here.", after=place)
        running.type_in("\x04")
        assert running.finish().code == 0


@pytest.mark.slow
def test_rows_of_a_job_are_never_asked(ask: Ask, server: ModelServer) -> None:
    serve_rounds(server, 2)
    (ask.cwd / "rows.txt").write_text("go\n")
    result = ask.on_terminal("map", "--tools", "--safe-files", *OPTIONS, "{{line}}", "rows.txt")
    assert QUESTION not in result.text
    assert "ask -c" not in result.text
