"""MCP servers over standard input and output, from offering their tools to calling them."""

from __future__ import annotations

import json

import pytest

from tests import wire
from tests.mcp.setting import RAW, SDK, ask_with_calls, configure, offered, pids, program, read_last_result, received
from tests.model_server import ModelServer
from tests.program import TEST_KEY, Ask, Home


@pytest.mark.slow
def test_the_reference_server_is_offered_and_called(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"time": {"command": "mcp-server-time", "timeout": 60}})
    result, [answer] = ask_with_calls(
        ask, server, [("time__get_current_time", {"timezone": "Asia/Tokyo"})], "--confirm"
    )
    assert (result.code, result.text) == (0, "done\n"), "it says that it only reads, so nobody is asked"
    tools = offered(server.requests[0])
    assert list(tools) == ["time__get_current_time", "time__convert_time"]
    assert tools["time__get_current_time"]["parameters"]["required"] == ["timezone"]
    assert json.loads(answer)["timezone"] == "Asia/Tokyo"
    assert "time__get_current_time: Get current time" in wire.asked(server.requests[0].json, 0)


def test_a_server_built_with_the_sdk_is_called(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"sdk": program(SDK)})
    calls: list[wire.Call] = [
        ("sdk__add", {"a": 1, "b": 2}),
        ("sdk__add", {"a": "one", "b": 2}),
        ("sdk__weather", {"city": "Rome"}),
        ("sdk__broken", {}),
        ("sdk__requests", {}),
        ("sdk__die", {}),
    ]
    result, answers = ask_with_calls(ask, server, calls)
    assert result.code == 0
    assert answers[0] == "3"
    assert answers[1].startswith("Error: nothing was run")
    assert "sdk__add" in answers[1]
    assert json.loads(answers[2]) == {"city": "Rome", "degrees": 21}
    assert "broken" in answers[3]
    responses, note = answers[4].splitlines()
    requested = json.loads(responses)
    assert [root["uri"] for root in requested["roots"]["roots"]] == [home.work.as_uri()]
    assert requested["name"]["action"] == "decline"
    assert "What is your name?" in note
    assert "exit status 3" in answers[5]


def test_content_that_is_not_text_is_described(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program(RAW)})
    calls: list[wire.Call] = [
        (f"raw__{name}", {}) for name in ("parts", "structured", "nothing", "fails", "refuse", "misshapen")
    ]
    result, answers = ask_with_calls(ask, server, calls)
    assert answers[0].splitlines() == [
        "one",
        "[image image/png, 5 bytes, not shown]",
        "[audio audio/wav, 5 bytes, not shown]",
        "[resource file:///a.txt]",
        "embedded",
        "[resource file:///b.bin, 5 bytes, not shown]",
        "[link to https://example.com/c: the c]",
        "two",
    ]
    assert answers[1:3] == ['{"degrees": 21}', "[the tool returned nothing]"]
    assert answers[3] == "it went wrong"
    assert answers[4].startswith("Error: ")
    assert answers[4].endswith("raw failed: not today")
    assert answers[5] == "a string"
    assert "failed: it went wrong\n" in result.stderr, "shown as what failed"


def test_structured_content_does_not_repeat_media(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program(RAW)})
    _, [picture, measured] = ask_with_calls(ask, server, [("raw__picture", {}), ("raw__measured", {})])
    assert picture.splitlines() == [
        "[image image/png, 5,999 bytes, not shown]",
        "[resource file:///b.bin application/zip, 5,999 bytes, not shown]",
    ]
    image, structured = measured.splitlines()
    assert image == "[image image/png, 5,999 bytes, not shown]"
    assert json.loads(structured) == {
        "pages": [{"width": 640, "note": None, "page": "[5,999 bytes, not shown]"}],
        "thumbnail": {"mimeType": "image/png", "data": "[5 bytes, not shown]"},
        "errors": [],
    }


def test_the_server_gets_the_configured_environment_and_no_keys(ask: Ask, home: Home, server: ModelServer) -> None:
    (home.work / "below").mkdir()
    env = {"TOKEN": "$SECRET-x", "BRACED": "${SECRET}", "ELSE": "${MISSING:-none}", "DOLLAR": "$$5"}
    configure(home, {"raw": program(RAW, env=env, cwd="below")})
    server.reply(wire.calls(("raw__env", {})), wire.says("done"))
    assert ask("hi", env={"SECRET": "s3cr3t"}).code == 0
    seen = json.loads(read_last_result(server.requests[1]))
    assert "OPENROUTER_API_KEY" not in seen
    assert TEST_KEY not in seen.values()
    assert seen["HOME"] == home.env["HOME"]
    assert [seen[name] for name in env] == ["s3cr3t-x", "s3cr3t", "none", "$5"]
    assert (home.work / "below" / "received").exists()


def test_unpaired_surrogates_in_arguments_are_replaced(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program(RAW)})
    calls: list[wire.Call] = [("raw__echo", '{"text": "a\\ud800"}'), ("raw__echo", {"text": "next"})]
    _, answers = ask_with_calls(ask, server, calls, "--command-timeout", "5")
    assert answers == ["a\ufffd", "next"]


def test_two_servers_keep_their_tools_apart(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(
        home, {"one": program(RAW, tools=["echo", "absent"]), "two": program(RAW), "off": program(RAW, enabled=False)}
    )
    result, answers = ask_with_calls(ask, server, [("one__echo", {"text": "1"}), ("two__echo", {"text": "2"})])
    assert answers == ["1", "2"]
    names = list(offered(server.requests[0]))
    assert names[:2] == ["one__echo", "two__echo"]
    assert not [name for name in names if name.startswith("off")]
    assert "'absent'" in result.stderr
    assert len(pids(home)) == 2


def test_tools_can_be_disabled_even_while_their_server_is_missing(ask: Ask, home: Home, server: ModelServer) -> None:
    absent = {"command": "no-such-program"}
    configure(home, {"raw": program(RAW), "gone": absent}, tools={"disabled": ["raw__die", "gone__x"]})
    server.reply(wire.says("yes"))
    result = ask("--disable-tool", "raw__env", "hi")
    assert result.code == 0
    assert "raw__echo" in offered(server.requests[0])
    assert not {"raw__die", "raw__env"} & set(offered(server.requests[0]))
    assert "'no-such-program'" in result.stderr
    assert ask("--disable-tool", "raw__nope", "hi").code == 2


def test_no_server_is_started_when_tools_are_off(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program(RAW)})
    server.reply(wire.says("yes"))
    assert ask("--no-tools", "hi").code == 0
    assert not (home.work / "received").exists()


def test_no_server_of_a_project_is_started(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"off": program(RAW, enabled=False)})
    for name in (".mcp.json", "mcp.json", ".ask/mcp.json", ".vscode/mcp.json", ".cursor/mcp.json"):
        (home.work / name).parent.mkdir(exist_ok=True)
        (home.work / name).write_text(json.dumps({"mcpServers": {"raw": program(RAW)}}))
    server.reply(wire.says("yes"))
    assert ask("hi").code == 0
    assert not offered(server.requests[0])
    assert not (home.work / "received").exists()
    assert ask("mcp", "add", "--from", ".mcp.json").code == 0
    server.reply(wire.says("yes"))
    assert ask("hi").code == 0
    assert (home.work / "received").exists()


def test_a_tool_that_is_not_read_only_needs_approval(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program(RAW)})
    result, answers = ask_with_calls(ask, server, [("raw__echo", {"text": "a"}), ("raw__env", {})], "--confirm")
    assert answers[0] == "a"
    assert answers[1].startswith("Error: denied")
    assert result.code == 8


def test_a_chat_keeps_its_servers(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program(RAW)})
    server.reply(
        wire.calls(("raw__echo", {"text": "1"})),
        wire.says("first"),
        wire.calls(("raw__echo", {"text": "2"})),
        wire.says("second"),
    )
    result = ask("chat", stdin=b"one\ntwo\n", timeout=60)
    assert result.text == "first\nsecond\n"
    assert len(pids(home)) == 1
    assert received(home)[-1] == {"method": "end of input"}
