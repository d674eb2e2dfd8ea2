"""MCP servers that are programs, through the whole loop: offered, called, given what they need, and no more."""

from __future__ import annotations

import json

from tests import wire
from tests.mcp.setting import RAW, SDK, ask_with_calls, configure, offered, pids, program, received, told
from tests.model_server import ModelServer
from tests.program import TEST_KEY, Ask, Home


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


def test_a_server_made_with_the_sdk_is_called_and_its_tools_stay_the_same(
    ask: Ask, home: Home, server: ModelServer
) -> None:
    configure(home, {"sdk": program(SDK)})
    calls: list[wire.Call] = [
        ("sdk__add", {"a": 1, "b": 2}),
        ("sdk__add", {"a": "one", "b": 2}),
        ("sdk__weather", {"city": "Rome"}),
        ("sdk__broken", {}),
        ("sdk__die", {}),
        ("sdk__add", {"a": 3, "b": 4}),
    ]
    result, answers = ask_with_calls(ask, server, calls)
    assert result.code == 0
    assert answers[0] == "3"
    assert answers[1].startswith("Error: nothing was run: the arguments of sdk__add")
    assert json.loads(answers[2]) == {"city": "Rome", "degrees": 21}
    assert "broken" in answers[3]
    assert "ended during the call" in answers[4]
    assert "exit status 3" in answers[4]
    assert answers[5] == "7"
    first, *others = ([tool["function"] for tool in request.json["tools"]] for request in server.requests)
    assert [other == first for other in others] == [True] * 6, "also after it was started anew"


def test_what_is_no_text_is_said_in_words(ask: Ask, home: Home, server: ModelServer) -> None:
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
    assert answers[4] == "Error: the MCP server raw failed: not today"
    assert answers[5] == "Error: the MCP server raw failed: what it answered does not fit the protocol"
    assert "· it went wrong\n" in result.stderr, "shown as what failed"


def test_structured_content_repeats_no_media(ask: Ask, home: Home, server: ModelServer) -> None:
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


def test_the_child_has_no_key_but_what_is_configured(ask: Ask, home: Home, server: ModelServer) -> None:
    (home.work / "below").mkdir()
    env = {"TOKEN": "$SECRET-x", "BRACED": "${SECRET}", "ELSE": "${MISSING:-none}", "DOLLAR": "$$5"}
    configure(home, {"raw": program(RAW, env=env, cwd="below")})
    server.reply(wire.calls(("raw__env", {})), wire.says("done"))
    assert ask("hi", env={"SECRET": "s3cr3t"}).code == 0
    seen = json.loads(told(server.requests[1]))
    assert "OPENROUTER_API_KEY" not in seen
    assert TEST_KEY not in seen.values()
    assert seen["HOME"] == home.env["HOME"]
    assert [seen[name] for name in env] == ["s3cr3t-x", "s3cr3t", "none", "$5"]
    assert (home.work / "below" / "received").exists()


def test_two_servers_keep_their_tools_apart(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(
        home, {"one": program(RAW, tools=["echo", "absent"]), "two": program(RAW), "off": program(RAW, enabled=False)}
    )
    result, answers = ask_with_calls(ask, server, [("one__echo", {"text": "1"}), ("two__echo", {"text": "2"})])
    assert answers == ["1", "2"]
    names = list(offered(server.requests[0]))
    assert names[:2] == ["one__echo", "two__echo"]
    assert not [name for name in names if name.startswith("off")]
    assert "ask: the MCP server one has no tool 'absent'\n" in result.stderr
    assert len(pids(home)) == 2


def test_tools_are_left_out_as_any_others_also_while_the_server_is_not_there(
    ask: Ask, home: Home, server: ModelServer
) -> None:
    absent = {"command": "no-such-program"}
    configure(home, {"raw": program(RAW), "gone": absent}, tools={"disabled": ["raw__die", "gone__x"]})
    server.reply(wire.says("yes"))
    result = ask("--disable-tool", "raw__env", "hi")
    assert result.code == 0
    assert "raw__echo" in offered(server.requests[0])
    assert not {"raw__die", "raw__env"} & set(offered(server.requests[0]))
    missing = "ask: the MCP server gone does not start: there is no program 'no-such-program': install it"
    assert missing in result.stderr
    assert ask("--disable-tool", "raw__nope", "hi").code == 2


def test_nothing_is_started_where_no_tool_is_offered(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program(RAW)})
    server.reply(wire.says("yes"))
    assert ask("--no-tools", "hi").code == 0
    assert not (home.work / "received").exists()


def test_what_changes_something_is_asked_about(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program(RAW)})
    result, answers = ask_with_calls(ask, server, [("raw__echo", {"text": "a"}), ("raw__env", {})], "--confirm")
    assert answers == ["a", "Error: denied: nobody is there to approve it"]
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
