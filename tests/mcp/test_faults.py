"""What a server can do wrong costs a line or a failed call: no hang, no traceback, no stray text."""

from __future__ import annotations

import pytest

from tests import wire
from tests.mcp.setting import RAW, ask_with_calls, configure, offered, program
from tests.model_server import ModelServer
from tests.program import Ask, Home, Result


def lines(result: Result) -> list[str]:
    """The warnings of a run that went well."""
    assert (result.code, result.text) == (0, "done\n")
    assert "Traceback" not in result.stderr
    return [line for line in result.stderr.splitlines() if line.startswith("ask: ")]


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("exits", "cannot be used: exit status 3: \\x1b[31mno such database: what it wrote is in "),
        ("silent", "cannot be used: it did not answer within 1 s"),
        ("rubbish", "cannot be used: it did not answer within 1 s, and wrote what is no message: rubbish"),
        ("endless", "cannot be used: it sent more than 10,000 messages that nobody asked for"),
        ("line", "cannot be used: it sent a message of more than 10,000,000 bytes"),
    ],
)
def test_one_that_does_not_start_is_a_line_and_the_others_are_there(
    mode: str, said: str, ask: Ask, home: Home, server: ModelServer
) -> None:
    timeout = 1 if "within 1 s" in said else 60
    configure(home, {"bad": {**program(RAW, mode), "timeout": timeout}, "good": program(RAW)})
    result, [answer] = ask_with_calls(ask, server, [("good__echo", {"text": "here"})])
    [line] = lines(result)
    assert line.startswith(f"ask: the MCP server bad {said}")
    assert answer == "here"
    assert not [name for name in offered(server.requests[0]) if name.startswith("bad")]


def test_what_it_writes_beside_its_messages_is_kept_in_a_file(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program(RAW, "banner")})
    result, [answer] = ask_with_calls(ask, server, [("raw__echo", {"text": "here"})])
    assert lines(result) == []
    assert answer == "here"
    log = home.data / "mcp" / "raw.log"
    assert log.stat().st_mode & 0o777 == 0o600
    assert 900_000 < log.stat().st_size < 1_100_000


def test_of_very_many_tools_the_first_are_offered(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program(RAW, "many")})
    result, _ = ask_with_calls(ask, server, [])
    [line] = lines(result)
    assert line.startswith("ask: the MCP server raw has 10,000 tools, of which the first 128 are offered: ")
    assert list(offered(server.requests[0]))[:2] == ["raw__tool_0", "raw__tool_1"]
    assert len(offered(server.requests[0])) == 128


def test_any_of_them_can_be_chosen(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program(RAW, "many", tools=["tool 9999"])})
    result, _ = ask_with_calls(ask, server, [])
    assert lines(result) == []
    assert list(offered(server.requests[0])) == ["raw__tool_9999"]


def test_descriptions_and_schemas_have_a_limit(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program(RAW, "huge")})
    result, _ = ask_with_calls(ask, server, [])
    [line] = lines(result)
    assert line.startswith("ask: the MCP server raw has tools that are left out, 'env': their parameters take more")
    [tool] = offered(server.requests[0]).values()
    assert tool["description"] == "x" * 2_000 + "..."


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


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("die", "exit status 3: out of cheese"),
        ("flood", "it sent a message of more than 10,000,000 bytes"),
        ("chatter", "it sent more than 10,000 messages that nobody asked for"),
        ("pester", "it sent more than 10,000 messages that nobody asked for"),
    ],
)
def test_a_server_that_has_to_be_given_up_is_started_once_more(
    fault: str, said: str, ask: Ask, home: Home, server: ModelServer
) -> None:
    configure(home, {"raw": program(RAW)})
    calls = [(f"raw__{name}", {"text": f"{n}"}) for n, name in enumerate((fault, "echo", fault, "echo", "echo"))]
    result, answers = ask_with_calls(ask, server, calls, "--command-timeout", "60")
    ended = f"Error: the MCP server raw ended during the call, which may have had its effect: {said}"
    refused = "Error: nothing was run: the MCP server raw has ended twice, and is not started any more"
    assert answers == [ended, "1", ended, refused, refused]
    assert lines(result) == []


def test_a_missing_variable_is_named_and_not_what_it_is_for(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program(RAW, env={"TOKEN": "secret-$MISSING"})})
    result, _ = ask_with_calls(ask, server, [])
    assert lines(result) == ["ask: the MCP server raw is left out: its env.TOKEN needs $MISSING: set MISSING"]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"command": "no-such"}, "there is no program 'no-such': install it, or give its whole path"),
        ({"command": "git log"}, "there is no program 'git log': put its arguments into args"),
        ({"command": "cat", "cwd": "none"}, "there is no folder "),
        ({"command": "/"}, "Permission denied: correct mcp.servers.bad"),
    ],
)
def test_a_program_that_cannot_be_started_is_named(
    table: dict[str, str], said: str, ask: Ask, home: Home, server: ModelServer
) -> None:
    configure(home, {"bad": table})
    server.reply(wire.says("done"))
    [line] = lines(ask("hi"))
    assert line.startswith(f"ask: the MCP server bad does not start: {said}")
