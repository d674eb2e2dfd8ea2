"""A faulty server costs a warning or a failed call: no hang, no traceback, no stray output."""

from __future__ import annotations

import time

import pytest

from tests import wire
from tests.mcp.setting import RAW, ask_with_calls, configure, offered, program
from tests.model_server import ModelServer
from tests.program import Ask, Home, Result
from tests.slow_parameters import mark_others_slow


def lines(result: Result) -> list[str]:
    """Check that a run succeeded and return its warnings."""
    assert (result.code, result.text) == (0, "done\n")
    assert "Traceback" not in result.stderr
    return [line for line in result.stderr.splitlines() if line.startswith("ask: ")]


@pytest.mark.slow
def test_each_server_that_does_not_start_is_reported_and_the_others_are_used(
    ask: Ask, home: Home, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ask.mcp.connection.MAX_UNSOLICITED_MESSAGES", 300)
    reasons = {
        "exits": ("exit status 3", "\\x1b[31mno such database"),
        "silent": ("3 s", "mcp.servers.silent.timeout"),
        "rubbish": ("3 s", ": rubbish"),
        "endless": ("300 unsolicited messages",),
        "line": ("10,000,000 bytes",),
    }
    bad = {mode: program(RAW, mode, timeout=3 if "3 s" in values else 60) for mode, values in reasons.items()}
    configure(home, {**bad, "good": program(RAW)})
    result, [answer] = ask_with_calls(ask, server, [("good__echo", {"text": "here"})])
    for line, (mode, values) in zip(lines(result), reasons.items(), strict=True):
        assert all(value in line for value in (f" {mode}", *values))
    assert answer == "here"
    assert {name.partition("__")[0] for name in offered(server.requests[0])} == {"good"}


@pytest.mark.slow
def test_standard_error_and_stray_output_of_a_server_do_no_harm(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program(RAW, "banner")})
    result, [answer] = ask_with_calls(ask, server, [("raw__echo", {"text": "here"})])
    assert lines(result) == []
    assert answer == "here"
    log = home.data / "mcp" / "raw.log"
    assert log.stat().st_mode & 0o777 == 0o600
    assert 900_000 < log.stat().st_size < 1_100_000


def test_the_first_of_many_tools_are_offered_and_any_can_be_selected(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program(RAW, "many"), "chosen": program(RAW, "many", tools=["tool 999"])})
    result, _ = ask_with_calls(ask, server, [])
    [line] = lines(result)
    assert all(value in line for value in ("raw", "more than 128 tools"))
    *first, chosen = offered(server.requests[0])
    assert first[:2] == ["raw__tool_0", "raw__tool_1"]
    assert (len(first), chosen) == (128, "chosen__tool_999")


def test_descriptions_and_schemas_have_a_limit(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program(RAW, "huge")})
    result, _ = ask_with_calls(ask, server, [])
    [line] = lines(result)
    assert "raw" in line
    assert "'env'" in line
    [tool] = offered(server.requests[0]).values()
    assert tool["description"] == "x" * 2_000 + "..."


def test_tools_that_need_a_task_are_left_out(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program(RAW, "tasks"), "chosen": program(RAW, "tasks", tools=["die"])})
    for _ in range(2):
        result, _ = ask_with_calls(ask, server, [])
        [line] = lines(result)
        assert all(value in line for value in ("raw", "'echo'", "1 more"))
        tools = offered(server.requests[-1])
        assert "raw__echo" not in tools
        assert "raw__env" not in tools
        assert {"raw__die", "chosen__die"} <= tools.keys()


@pytest.mark.slow
def test_a_call_times_out_and_the_next_is_answered(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program(RAW)})
    calls = [(f"raw__{name}", {"text": "x"}) for name in ("hang", "rubbish", "deep", "echo")]
    result, [hung, garbage, deep, echo] = ask_with_calls(ask, server, calls, "--command-timeout", "1")
    for answer in (hung, garbage, deep):
        assert answer.startswith("Error: ")
        assert "1 s" in answer
    assert garbage.endswith(": this is \\x1b[31mno JSON")
    assert "[[[[" in deep
    assert echo == "x"
    assert lines(result) == []


def is_lost(answer: str, reason: str) -> bool:
    """Check whether the result of a call says that the server ended during the call, and why."""
    return answer.startswith("Error: ") and "may have taken effect" in answer and reason in answer


@pytest.mark.slow
def test_a_server_that_floods_ask_with_requests_is_stopped(
    ask: Ask, home: Home, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ask.mcp.connection.MAX_UNSOLICITED_MESSAGES", 500)
    configure(home, {"raw": program(RAW)})
    result, [answer] = ask_with_calls(ask, server, [("raw__pester", {})], "--command-timeout", "60")
    assert is_lost(answer, "500 unsolicited messages")
    assert lines(result) == []


@pytest.mark.slow
def test_a_server_that_has_ended_is_restarted_once(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program(RAW)})
    calls = [(f"raw__{name}", {"text": f"{n}"}) for n, name in enumerate(("flood", "echo", "die", "echo", "echo"))]
    result, answers = ask_with_calls(ask, server, calls, "--command-timeout", "60")
    flooded, echo, died, *refused = answers
    assert is_lost(flooded, "10,000,000 bytes")
    assert echo == "1"
    assert is_lost(died, "exit status 3: out of cheese")
    assert len(refused) == 2
    assert all("nothing was run" in answer for answer in refused)
    assert lines(result) == []
    first, *others = (request.json["tools"] for request in server.requests)
    assert all(other == first for other in others), "the request prefix stays the same"


@pytest.mark.parametrize("mode", mark_others_slow(["closes", "leaves"]))
def test_a_server_that_closes_its_input_is_restarted(mode: str, ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program(RAW, mode)})
    calls: list[wire.Call] = [("raw__echo", {"text": f"{n}"}) for n in range(3)]
    start = time.monotonic()
    result, [before, closed, after] = ask_with_calls(ask, server, calls, "--command-timeout", "60")
    assert (before, after) == ("0", "2")
    assert is_lost(closed, "")
    assert time.monotonic() - start < 15, "the call did not wait for the end of standard output"
    assert lines(result) == []


def test_an_unset_variable_is_named_without_the_value_that_uses_it(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program(RAW, env={"TOKEN": "secret-$MISSING"})})
    result, _ = ask_with_calls(ask, server, [])
    [line] = lines(result)
    assert all(value in line for value in ("raw", "env.TOKEN", "$MISSING"))
    assert "secret" not in line


def test_a_program_that_cannot_be_started_is_named(ask: Ask, home: Home, server: ModelServer) -> None:
    bad = {
        "missing": ({"command": "no-such"}, ("'no-such'", "install")),
        "line": ({"command": "git log"}, ("'git log'", "args")),
        "nowhere": ({"command": "cat", "cwd": "none"}, (str(home.work / "none"),)),
        "folder": ({"command": "/"}, ("Permission denied", "mcp.servers.folder")),
    }
    configure(home, {name: table for name, (table, _) in bad.items()})
    server.reply(wire.says("done"))
    for line, (name, (_, values)) in zip(lines(ask("hi")), bad.items(), strict=True):
        assert all(value in line for value in (f" {name}", *values))
