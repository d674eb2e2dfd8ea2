"""What a server can do wrong costs a line or a failed call: no hang, no traceback, no stray text."""

from __future__ import annotations

from tests import wire
from tests.mcp.setting import RAW, ask_with_calls, configure, offered, program
from tests.model_server import ModelServer
from tests.program import Ask, Home, Result


def lines(result: Result) -> list[str]:
    """The warnings of a run that went well."""
    assert (result.code, result.text) == (0, "done\n")
    assert "Traceback" not in result.stderr
    return [line for line in result.stderr.splitlines() if line.startswith("ask: ")]


def test_those_that_do_not_start_are_a_line_each_and_the_others_are_there(
    ask: Ask, home: Home, server: ModelServer
) -> None:
    said = {
        "exits": "exit status 3: \\x1b[31mno such database: what it wrote is in ",
        "silent": "it did not answer within 4 s",
        "rubbish": "it did not answer within 4 s, and wrote what is no message: rubbish",
        "endless": "it sent more than 10,000 messages that nobody asked for",
        "line": "it sent a message of more than 10,000,000 bytes",
    }
    bad = {mode: program(RAW, mode, timeout=4 if "within 4 s" in told else 60) for mode, told in said.items()}
    configure(home, {**bad, "good": program(RAW)})
    result, [answer] = ask_with_calls(ask, server, [("good__echo", {"text": "here"})])
    for line, (mode, told) in zip(lines(result), said.items(), strict=True):
        assert line.startswith(f"ask: the MCP server {mode} cannot be used: {told}")
    assert answer == "here"
    assert {name.partition("__")[0] for name in offered(server.requests[0])} == {"good"}


def test_what_it_writes_beside_its_messages_is_kept_in_a_file(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program(RAW, "banner")})
    result, [answer] = ask_with_calls(ask, server, [("raw__echo", {"text": "here"})])
    assert lines(result) == []
    assert answer == "here"
    log = home.data / "mcp" / "raw.log"
    assert log.stat().st_mode & 0o777 == 0o600
    assert 900_000 < log.stat().st_size < 1_100_000


def test_of_very_many_tools_the_first_are_offered_and_any_can_be_chosen(
    ask: Ask, home: Home, server: ModelServer
) -> None:
    configure(home, {"raw": program(RAW, "many"), "chosen": program(RAW, "many", tools=["tool 9999"])})
    result, _ = ask_with_calls(ask, server, [])
    [line] = lines(result)
    assert line.startswith("ask: the MCP server raw has 10,000 tools, of which the first 128 are offered: ")
    *first, chosen = offered(server.requests[0])
    assert first[:2] == ["raw__tool_0", "raw__tool_1"]
    assert (len(first), chosen) == (128, "chosen__tool_9999")


def test_descriptions_and_schemas_have_a_limit(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program(RAW, "huge")})
    result, _ = ask_with_calls(ask, server, [])
    [line] = lines(result)
    assert line.startswith("ask: the MCP server raw has tools that are left out, 'env': their parameters take more")
    [tool] = offered(server.requests[0]).values()
    assert tool["description"] == "x" * 2_000 + "..."


def test_tools_that_need_a_task_are_left_out(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program(RAW, "tasks"), "chosen": program(RAW, "tasks", tools=["die"])})
    for _ in range(2):
        result, _ = ask_with_calls(ask, server, [])
        [line] = lines(result)
        assert line.startswith("ask: the MCP server raw has tools that are left out, 'echo' and 1 more: ")
        tools = offered(server.requests[-1])
        assert "raw__echo" not in tools
        assert "raw__env" not in tools
        assert {"raw__die", "chosen__die"} <= tools.keys()


def test_a_call_that_gets_no_answer_ends_and_the_next_is_answered(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program(RAW)})
    calls = [(f"raw__{name}", {"text": "x"}) for name in ("hang", "rubbish", "deep", "echo")]
    result, answers = ask_with_calls(ask, server, calls, "--command-timeout", "1")
    late = "Error: the MCP server raw failed: it did not answer within 1 s"
    assert answers[0] == late
    assert answers[1] == f"{late}, and wrote what is no message: this is \\x1b[31mno JSON"
    assert answers[2].startswith(f"{late}, and wrote what is no message: ")
    assert answers[3] == "x"
    assert lines(result) == []


ENDED = "Error: the MCP server raw ended during the call, which may have had its effect: "


def test_a_server_that_sends_without_end_is_given_up(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program(RAW)})
    result, answers = ask_with_calls(ask, server, [("raw__pester", {})], "--command-timeout", "60")
    assert answers == [f"{ENDED}it sent more than 10,000 messages that nobody asked for"]
    assert lines(result) == []


def test_a_server_that_has_ended_is_started_once_more(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program(RAW)})
    calls = [(f"raw__{name}", {"text": f"{n}"}) for n, name in enumerate(("flood", "echo", "die", "echo", "echo"))]
    result, answers = ask_with_calls(ask, server, calls, "--command-timeout", "60")
    flooded = f"{ENDED}it sent a message of more than 10,000,000 bytes"
    refused = "Error: nothing was run: the MCP server raw has ended twice, and is not started any more"
    assert answers == [flooded, "1", f"{ENDED}exit status 3: out of cheese", refused, refused]
    assert lines(result) == []


def test_a_missing_variable_is_named_and_not_what_it_is_for(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program(RAW, env={"TOKEN": "secret-$MISSING"})})
    result, _ = ask_with_calls(ask, server, [])
    assert lines(result) == ["ask: the MCP server raw is left out: its env.TOKEN needs $MISSING: set MISSING"]


def test_a_program_that_cannot_be_started_is_named(ask: Ask, home: Home, server: ModelServer) -> None:
    bad = {
        "missing": ({"command": "no-such"}, "there is no program 'no-such': install it, or give its whole path"),
        "line": ({"command": "git log"}, "there is no program 'git log': put its arguments into args"),
        "nowhere": ({"command": "cat", "cwd": "none"}, "there is no folder "),
        "folder": ({"command": "/"}, "Permission denied: correct mcp.servers.folder"),
    }
    configure(home, {name: table for name, (table, _) in bad.items()})
    server.reply(wire.says("done"))
    for line, (name, (_, said)) in zip(lines(ask("hi")), bad.items(), strict=True):
        assert line.startswith(f"ask: the MCP server {name} does not start: {said}")
