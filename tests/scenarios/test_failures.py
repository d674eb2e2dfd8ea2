"""Scenarios: invalid calls, endless rounds and commands, truncated answers, interruptions and missing keys."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest

from tests import wire
from tests.model_server import DROP, HOLD, ModelServer, Reply
from tests.program import ASK, CTRL_C, Ask, run
from tests.scenarios.sent_requests import check_sent_requests, list_offered_tools, list_roles, read_tool_results

TOUCH = ("bash", {"command": "echo x >> ran"})


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (("bash", '{"command": "touch ran"'), ["JSON"]),
        (("bash", '{"command": "touch ran"}{"command": "touch too"}'), ["a separate call for each"]),
        (("run_shell", {"command": "touch ran"}), ["'run_shell'", "read_file, write_file, edit_file", "bash"]),
        (("write_file", {"filepath": "ran"}), ["'content'"]),
        (("write_file", ""), ["'filepath'", "'content'"]),
        (("write_file", {"filepath": "ran", "content": ["x"]}), ["'content'", "string"]),
        (("bash", '["touch ran"]'), ["JSON object", "array"]),
    ],
    ids=["broken", "glued", "unknown", "missing", "empty", "type", "array"],
)
def test_invalid_calls_are_not_run(ask: Ask, server: ModelServer, call: wire.Call, words: list[str]) -> None:
    server.reply(wire.calls(call), wire.says("I was wrong."))
    result = ask("do it")
    assert (result.text, result.code) == ("I was wrong.\n", 0)
    assert list(ask.cwd.iterdir()) == []
    second = check_sent_requests(server)[1]
    [tool_result] = read_tool_results(second)
    assert tool_result.startswith("Error: ")
    assert all(word in tool_result for word in words)
    [kept] = second["messages"][2]["tool_calls"]
    assert isinstance(json.loads(kept["function"]["arguments"]), dict)
    if not isinstance(call[1], dict):
        assert kept["function"]["arguments"] == "{}"


def test_valid_calls_next_to_an_invalid_one_are_run(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(TOUCH, ("bash", "{"), TOUCH), wire.says("Done."))
    assert ask("do it").code == 0
    assert (ask.cwd / "ran").read_text() == "x\nx\n"
    assert [tool_result.startswith("Error") for tool_result in read_tool_results(check_sent_requests(server)[1])] == [
        False,
        True,
        False,
    ]


def test_after_ten_rounds_the_model_answers_without_calls(ask: Ask, server: ModelServer) -> None:
    rounds = [wire.calls(("bash", {"command": f"echo {i} >> ran"}), content=f"Round {i}.") for i in range(10)]
    server.reply(*rounds, wire.says("That is as far as I came."))
    result = ask("go on for ever")
    assert result.text == "".join(f"Round {i}.\n" for i in range(10)) + "That is as far as I came.\n"
    assert result.code == 11
    assert all(part in result.stderr.splitlines()[-1] for part in ("10 tool rounds", "--max-rounds"))
    assert (ask.cwd / "ran").read_text() == "".join(f"{i}\n" for i in range(10))
    assert len(check_sent_requests(server)) == 11


def test_the_last_request_contains_the_tools_with_tool_choice_none(ask: Ask, server: ModelServer) -> None:
    server.reply(*[wire.calls(("bash", {"command": f"echo {i}"})) for i in range(3)], wire.says("Enough."))
    result = ask("--max-rounds", "3", "go on")
    assert (result.text, result.code) == ("Enough.\n", 11)
    bodies = check_sent_requests(server)
    assert [body["tool_choice"] for body in bodies] == ["auto", "auto", "auto", "none"]
    assert all(list_offered_tools(body) == list_offered_tools(bodies[0]) != [] for body in bodies)
    assert list_roles(bodies[-1])[-1] == "tool"


@pytest.mark.parametrize("text", ["And on.", None])
def test_calls_in_the_last_answer_are_not_run(ask: Ask, server: ModelServer, text: str | None) -> None:
    server.reply(wire.calls(("list_dir", {"dirpath": "."})), wire.calls(TOUCH, content=text))
    result = ask("--max-rounds", "1", "go on")
    assert (result.text, result.code) == (f"{text}\n" if text else "", 11)
    assert not (ask.cwd / "ran").exists()
    assert len(check_sent_requests(server)) == 2


def test_the_third_identical_call_in_a_row_is_not_run(ask: Ask, server: ModelServer) -> None:
    server.reply(*[wire.calls(TOUCH)] * 4, wire.says("I give up."))
    result = ask("do it")
    assert (result.text, result.code) == ("I give up.\n", 0)
    assert (ask.cwd / "ran").read_text() == "x\nx\n"
    tool_result = [read_tool_results(body)[0] for body in check_sent_requests(server)[1:]]
    assert [text.startswith("Error: ") for text in tool_result] == [False, False, True, True]


def test_a_different_call_in_between_resets_the_repetition_limit(ask: Ask, server: ModelServer) -> None:
    other = ("list_dir", {"dirpath": "."})
    server.reply(wire.calls(TOUCH, TOUCH, other, TOUCH), wire.calls(TOUCH, TOUCH), wire.says("Done."))
    assert ask("do it").code == 0
    assert (ask.cwd / "ran").read_text() == "x\n" * 4
    last = check_sent_requests(server)[2]
    assert [text.startswith("Error") for text in read_tool_results(last)] == [False, True]


def test_a_command_that_never_ends_is_killed_with_its_children(ask: Ask, server: ModelServer) -> None:
    command = "echo begun; (setsid sleep 300 & echo $! > child); sleep 300 & echo $! > other; sleep 300"
    server.reply(wire.calls(("bash", {"command": command})), wire.says("It took too long."))
    result = ask("--command-timeout", "0.5", "run it")
    assert (result.text, result.code) == ("It took too long.\n", 0)
    assert result.seconds < 10
    [tool_result] = read_tool_results(check_sent_requests(server)[1])
    assert "0.5 s" in tool_result
    assert "begun" in tool_result
    for name in ("child", "other"):
        assert not is_running(int((ask.cwd / name).read_text()))


@pytest.mark.slow
def test_a_timeout_from_the_command_line_is_also_the_maximum(ask: Ask, server: ModelServer) -> None:
    server.reply(
        wire.calls(
            ("bash", {"command": "sleep 300", "timeout": 0.2}), ("bash", {"command": "sleep 301", "timeout": 300})
        ),
        wire.says("Both were stopped."),
    )
    assert ask("--command-timeout", "0.5", "run it").code == 0
    first, second = read_tool_results(check_sent_requests(server)[1])
    assert "0.2 s" in first
    assert "0.5 s" in second


def test_a_call_gets_the_time_it_asks_for_and_other_values_are_refused(ask: Ask, server: ModelServer) -> None:
    command = ("bash", {"command": "sleep 0.4; echo done"})
    timeouts = [5, "5", 99_999, 0, -3, "soon", "NaN", True]
    calls = [("bash", {**command[1], "timeout": timeout}) for timeout in timeouts]
    server.reply(wire.calls(command), *map(wire.calls, calls), wire.says("Done."))
    assert ask("--command-timeout", "0.2", "--max-command-timeout", "600", "build it").code == 0
    bodies = check_sent_requests(server)
    killed, *results = [read_tool_results(body)[-1] for body in bodies[1:]]
    assert "timed out after 0.2 s" in killed
    assert ["exit code: 0" in result for result in results] == [True] * 3 + [False] * 5
    assert all("nothing was run" in result for result in results[3:])
    [bash] = [tool["function"] for tool in bodies[0]["tools"] if tool["function"]["name"] == "bash"]
    assert all(number in bash["parameters"]["properties"]["timeout"]["description"] for number in ("0.2", "600"))


@pytest.mark.needs("bwrap")
def test_a_call_in_the_sandbox_gets_the_time_it_asks_for(ask: Ask, server: ModelServer) -> None:
    calls = [("bash", {"command": "sleep 0.4; echo done", **more}) for more in ({}, {"timeout": 5}, {"timeout": -1})]
    server.reply(wire.calls(*calls), wire.says("Done."))
    options = ("--safe", "--command-timeout", "0.2", "--max-command-timeout", "600")
    assert ask(*options, "build it").code == 0
    killed, done, refused = read_tool_results(check_sent_requests(server)[1])
    assert "timed out after 0.2 s" in killed
    assert "done" in done
    assert "nothing was run" in refused


def test_the_model_is_told_why_a_file_cannot_be_read(ask: Ask, server: ModelServer) -> None:
    with (ask.cwd / "big.log").open("wb") as file:
        file.truncate(11_000_000)
    (ask.cwd / "data.gz").write_bytes(b"\x1f\x8b\x08\0\0\0")
    (ask.cwd / "folder").mkdir()
    (ask.cwd / "secret").write_text("private")
    (ask.cwd / "secret").chmod(0)
    names = ["big.log", "data.gz", "folder", "secret"]
    server.reply(wire.calls(*[("read_file", {"filepath": name}) for name in names]), wire.says("None can be read."))
    result = run([*WITHOUT_PRIVILEGES, ASK, "read all of these"], env=ask.env, cwd=ask.cwd)
    assert (result.text, result.code) == ("None can be read.\n", 0)
    big, binary, folder, secret = read_tool_results(check_sent_requests(server)[1])
    assert "11,000,000" in big
    assert "binary" in binary
    assert "directory" in folder
    assert "ermission" in secret
    assert all(text.startswith("Error: ") for text in (big, binary, folder, secret))


def test_a_long_result_is_shortened_in_the_middle_and_saved_to_a_file(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(("bash", {"command": "seq 100000"})), wire.says("Many numbers."))
    assert ask("count").code == 0
    [tool_result] = read_tool_results(check_sent_requests(server)[1])
    assert len(tool_result) <= 30_000
    assert "\n1\n2\n3\n" in tool_result
    assert tool_result.rstrip().endswith("99999\n100000")
    place = re.search(r"is in (/\S+)", tool_result)
    assert place
    assert Path(place[1]).read_text() == "".join(f"{i}\n" for i in range(1, 100_001))
    assert Path(place[1]).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("ending", [DROP, None], ids=["dropped", "ended"])
def test_calls_with_truncated_arguments_are_not_run(ask: Ask, server: ModelServer, ending: Any) -> None:
    chunks = [
        wire.text("I start."),
        wire.call(0, id="call_a", name="bash", arguments='{"command": "touch ran"}'),
        wire.call(1, id="call_b", name="bash", arguments='{"command": "tou'),
    ]
    server.reply(wire.streams(*chunks, ending) if ending else wire.streams(*chunks, done=False))
    result = ask("do it")
    assert (result.text, result.code) == ("I start.\n", 10)
    assert result.stderr.splitlines()[-1].startswith("ask: ")
    assert list(ask.cwd.iterdir()) == []
    assert len(check_sent_requests(server)) == 1


def test_calls_of_an_answer_at_the_token_limit_are_not_run(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.streams(*wire.stream("I start.", [TOUCH], finish="length")))
    result = ask("do it")
    assert (result.text, result.code) == ("I start.\n", 10)
    assert "token limit" in result.stderr
    assert not (ask.cwd / "ran").exists()
    assert len(check_sent_requests(server)) == 1


def test_every_call_gets_a_result_after_an_interruption(ask: Ask, server: ModelServer) -> None:
    stuck = ("bash", {"command": "echo $$ > stuck; sleep 300"})
    server.reply(wire.calls(("bash", {"command": "echo first"}), stuck, TOUCH, content="I start."))
    with ask.start("--json", "do three things") as running:
        process = int(wait_for_content(ask.cwd / "stuck"))
        running.signal()
        result = running.finish()
    assert result.code == 130
    assert result.seconds < 10
    assert not is_running(process)
    assert not (ask.cwd / "ran").exists()
    answer = json.loads(result.text)
    assert (answer["text"], answer["exit_code"]) == ("I start.", 130)
    assert [call["id"] for call in answer["tool_calls"]] == ["call_0", "call_1", "call_2"]
    first, second, third = (call["result"] for call in answer["tool_calls"])
    assert "first" in first
    assert second.startswith("Error: ")
    assert third.startswith("Error: ")
    assert len(check_sent_requests(server)) == 1


def test_ctrl_c_on_the_terminal_kills_a_running_command(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(("bash", {"command": "echo $$ > stuck; sleep 300"})))
    with ask.start_on_terminal("wait") as running:
        process = int(wait_for_content(ask.cwd / "stuck"))
        running.type_in(CTRL_C)
        assert running.finish().code == 130
    assert not is_running(process)


@pytest.mark.parametrize("before", [(), (wire.text("So far"),)], ids=["waiting", "streaming"])
def test_ctrl_c_keeps_the_partial_answer(ask: Ask, server: ModelServer, before: Any) -> None:
    server.reply(Reply([*map(wire.event, before), HOLD], content_type="text/event-stream"))
    with ask.start("tell me") as running:
        server.wait_for_requests(1)
        if before:
            running.wait_for("So far")
        running.signal()
        result = running.finish()
    assert (result.text, result.code) == ("So far\n" if before else "", 130)


def test_a_missing_key_is_an_error_before_any_request(ask: Ask, server: ModelServer) -> None:
    result = ask("hello", env={"OPENROUTER_API_KEY": "", "OPENROUTER_BASE_URL": ""})
    assert (result.stdout, result.code) == (b"", 4)
    [line] = result.stderr.splitlines()
    assert all(word in line for word in ("OPENROUTER_API_KEY", "ask keys set openrouter", "-p demo"))
    assert server.requests == []


@pytest.mark.parametrize(
    ("status", "message", "hint"),
    [
        (401, "No auth credentials found", "ask keys"),
        (402, "Insufficient credits", "https://openrouter.ai/settings/credits"),
    ],
)
def test_an_invalid_key_is_a_one_line_error_with_a_hint(
    ask: Ask, server: ModelServer, status: int, message: str, hint: str
) -> None:
    server.reply(wire.fails(status, message))
    result = ask("hello")
    assert (result.stdout, result.code) == (b"", 6)
    [line] = result.stderr.splitlines()
    assert line.startswith(f"ask: {message} (openrouter, {status}): ")
    assert hint in line
    assert len(check_sent_requests(server)) == 1


WITHOUT_PRIVILEGES = ["setpriv", "--bounding-set", "-all"] if os.geteuid() == 0 else []
"""Drops the capability of root to read every file."""


def wait_for_content(path: Path, seconds: float = 30) -> str:
    """Wait until a file has content; return it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if path.exists() and (content := path.read_text()):
            return content
        time.sleep(0.01)
    raise AssertionError(f"{path.name} did not appear")


def is_running(process: int) -> bool:
    """Check whether a process exists and is not a zombie."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"
