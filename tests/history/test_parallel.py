"""Runs that write the history at the same time are all saved, and can be read meanwhile."""

from __future__ import annotations

import os

import pytest

from tests import wire
from tests.model_server import ModelServer, Reply, Request
from tests.program import Ask, Home, Result
from tests.saved_history import history_file, list_messages, read_conversations, read_saved_runs


def answer(request: Request) -> Reply:
    """Has a tool called first, and then answers the question; both by its number."""
    asked = next(message for message in request.json["messages"] if message["role"] == "user")
    number = wire.asked({"messages": [asked]}).split()[-1]
    if request.json["messages"][-1]["role"] == "tool":
        return wire.says(f"Answer {number}.")
    return wire.calls(("bash", {"command": f"echo result {number}"}))


@pytest.fixture
def ask(ask: Ask, server: ModelServer) -> Ask:
    server.reply(answer)
    return Ask({**ask.env, "ASK_MODEL": wire.MODEL, "ASK_PROVIDER": "openrouter"}, ask.cwd)


def ask_at_once(ask: Ask, count: int, beside: str = "") -> Result:
    """That many questions at once. `beside` is run again and again meanwhile."""
    questions = f"seq {count} | xargs -P {count} -I N ask question N"
    if beside:
        return ask.shell(
            f"{questions} & while kill -0 $! 2> /dev/null; do {beside} || echo failed >&2; done; wait $!", timeout=120
        )
    return ask.shell(questions, timeout=120)


def check_saved(home: Home, count: int) -> None:
    """All of them are there, each with its question, its call, its result and its answer."""
    runs = read_saved_runs(home)
    assert len(read_conversations(history_file(home))) == len(runs) == count
    numbers = {list_messages(run)[0][1].removeprefix("question ") for run in runs}
    assert numbers == {str(number) for number in range(1, count + 1)}
    for run in runs:
        (_, asked, _), (_, _, calling), (_, result, _), (_, answered, whole) = list_messages(run)
        number = asked.removeprefix("question ")
        assert (result, answered) == (f"exit code: 0\nstdout:\nresult {number}\n", f"Answer {number}.")
        assert calling
        assert whole
        assert (run.exit_code, run.rounds, run.usage.input_tokens) == (0, 1, 20)
        assert run.ended


def check_quiet(result: Result) -> None:
    """They succeeded, and reported nothing but which conversation each is, that nothing is saved yet, and slowness."""
    assert result.code == 0, result.stderr
    expected = ("· ", "ask: no matches")
    assert not [line for line in result.stderr.splitlines() if not line.startswith(expected) and "slowly" not in line]


@pytest.mark.slow
def test_fifty_runs_started_at_once_are_all_saved(ask: Ask, home: Home) -> None:
    result = ask_at_once(ask, 50)
    check_quiet(result)
    assert result.text.count("Answer") == 50
    check_saved(home, 50)
    assert [name for name in os.listdir(home.data) if name.startswith("history")] == ["history.db"]


@pytest.mark.slow
@pytest.mark.parametrize("count", [4, 15])
def test_runs_are_saved_while_others_search_and_export(count: int, ask: Ask, home: Home) -> None:
    check_quiet(
        ask_at_once(ask, count, "ask history search question > /dev/null && ask history export --all > /dev/null")
    )
    check_saved(home, count)
