"""The tool loop: results, limits, refusals, the log."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.acceptance.conftest import Model
from tests.acceptance.services import Call
from tests.program import TEST_KEY, Ask, Home


def bash(command: str, **more: Any) -> Call:
    return Call("bash", {"command": command, **more})


def test_a_command_returns_output_errors_and_exit_code(ask: Ask, model: Model) -> None:
    model.say("", bash("echo out; echo err >&2; exit 3"))
    model.say("It failed.")
    assert ask("run it").text == "It failed.\n"
    [result] = model.last().results
    assert "out" in result
    assert "err" in result
    assert "3" in result


def test_files_are_written_edited_and_listed(ask: Ask, model: Model, home: Home) -> None:
    model.say("", Call("write_file", {"filepath": "new/a.txt", "content": "one two"}))
    model.say("", Call("edit_file", {"filepath": "new/a.txt", "old_text": "two", "new_text": "three"}))
    model.say("", Call("list_dir", {"dirpath": "new"}))
    model.say("Done.")
    result = ask("write it")
    assert result.text == "Done.\n"
    assert (home.work / "new" / "a.txt").read_text() == "one three"
    assert "a.txt" in model.last().results[-1]


@pytest.mark.parametrize(
    "call",
    [
        Call("no_such_tool", {}),
        Call("read_file", {}),
        Call("read_file", {"filepath": 3}),
        Call("read_file", {"filepath": "missing.txt"}),
    ],
    ids=["unknown tool", "missing argument", "wrong type", "missing file"],
)
def test_a_call_that_cannot_be_run_is_answered_with_the_reason(ask: Ask, model: Model, call: Call) -> None:
    model.say("", call)
    model.say("I see.")
    assert ask("go").code == 0
    [result] = model.last().results
    assert result


def test_the_round_limit_asks_for_a_last_answer(ask: Ask, model: Model) -> None:
    for number in range(2):
        model.say("", bash(f"echo {number}"))
    model.say("Enough.")
    result = ask("--max-rounds", "2", "go")
    assert result.text == "Enough.\n"
    assert len(model.bodies) == 3
    assert model.bodies[-1]["tool_choice"] == "none"


def test_a_command_that_does_not_end_is_killed_with_its_children(ask: Ask, model: Model, home: Home) -> None:
    model.say("", bash("(sleep 1.5; touch late) & sleep 60"))
    model.say("Too slow.")
    started = time.monotonic()
    assert ask("--command-timeout", "0.5", "go").text == "Too slow.\n"
    assert time.monotonic() - started < 30
    time.sleep(1.5)
    assert not (home.work / "late").exists()


def test_a_long_result_is_shortened_and_kept_in_a_file(ask: Ask, model: Model) -> None:
    model.say("", bash("seq 200000"))
    model.say("Many numbers.")
    assert ask("count").code == 0
    [result] = model.last().results
    assert len(result) < 200_000
    assert "1\n2\n3\n" in result
    assert "199999\n200000" in result


def test_the_same_call_three_times_in_a_row_is_not_run_again(ask: Ask, model: Model, home: Home) -> None:
    for _ in range(3):
        model.say("", bash("echo x >> count"))
    model.say("Done.")
    assert ask("go").code == 0
    assert (home.work / "count").read_text() == "x\nx\n"


def test_a_disabled_tool_is_neither_offered_nor_run(ask: Ask, model: Model, home: Home) -> None:
    model.say("", bash("touch made"))
    model.say("I cannot.")
    assert ask("--disable-tool", "bash", "go").code == 0
    assert "bash" not in model.last().tools
    assert not (home.work / "made").exists()


def test_every_call_is_logged(ask: Ask, model: Model, home: Home) -> None:
    model.say("", bash("echo hi"), Call("list_dir", {"dirpath": "."}, "call_2"))
    model.say("Done.")
    assert ask("go").code == 0
    text = json.dumps(home.read_tool_log())
    assert "echo hi" in text
    assert "list_dir" in text


def test_keys_are_kept_from_commands_results_and_logs(ask: Ask, model: Model, home: Home) -> None:
    (home.work / "leak.txt").write_text(f"key: {TEST_KEY}")
    model.say("", bash("env; cat leak.txt"))
    model.say("Done.")
    assert ask("go").code == 0
    assert TEST_KEY not in json.dumps(model.bodies)
    assert TEST_KEY not in (home.data / "audit.jsonl").read_text()


def test_confirm_without_a_terminal_denies_and_is_exit_code_8(ask: Ask, model: Model, home: Home) -> None:
    model.say("", bash("touch made"))
    model.say("I could not.")
    assert ask("--confirm", "go").code == 8
    assert not (home.work / "made").exists()


def test_confirm_with_yes_runs(ask: Ask, model: Model, home: Home) -> None:
    model.say("", bash("touch made"))
    model.say("Done.")
    assert ask("--confirm", "--yes", "go").code == 0
    assert (home.work / "made").exists()


def test_confirm_asks_on_the_terminal(ask: Ask, model: Model, home: Home) -> None:
    for name in ("no", "yes"):
        model.say("", bash(f"touch {name}"))
        model.say("Done.")
        assert ask.on_terminal("--confirm", "go", answers=[("Run this? ", name[0])]).code in (0, 8)
    assert [path.name for path in home.work.iterdir()] == ["yes"]


def test_a_function_of_the_users_is_a_tool(ask: Ask, model: Model, home: Home) -> None:
    (home.work / "mine.py").write_text('def double(number: int) -> int:\n    """Double it."""\n    return number * 2\n')
    model.say("", Call("double", {"number": 21}))
    model.say("42.")
    assert ask("--tool", "mine.py:double", "go").text == "42.\n"
    assert "double" in model.last().tools
    assert "42" in model.last().results[0]
