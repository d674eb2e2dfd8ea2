"""`ask tools`: lists the tools that a model can call."""

from __future__ import annotations

import json

from tests import wire
from tests.model_server import ModelServer
from tests.program import Ask, Home
from tests.tool_names import DEFAULT_TOOLS


def test_piped_output_has_a_row_for_each_tool(ask: Ask) -> None:
    lines = [line.split("\t") for line in ask("tools").text.splitlines()]
    assert [line[0] for line in lines] == DEFAULT_TOOLS
    assert lines[0][1] == "filepath, offset?, limit?"
    changes = {line[0]: line[3] for line in lines}
    assert (changes["read_file"], changes["edit_file"], changes["bash"]) == ("no", "yes", "yes")
    safe_mode = {line[0]: line[5] for line in lines}
    assert (safe_mode["bash"], safe_mode["fetch_url"]) == ("sandboxed", "asks for hosts")
    assert {(line[4], line[6]) for line in lines} == {("yes", "ask")}


def test_the_list_has_a_heading_on_a_terminal(ask: Ask) -> None:
    heading, *lines = ask.on_terminal("tools").text.splitlines()
    assert heading.split()[:2] == ["NAME", "PARAMETERS"]
    assert [line.split()[0] for line in lines] == DEFAULT_TOOLS


def test_json_marks_the_tools_that_are_sent_to_the_model(ask: Ask, home: Home, server: ModelServer) -> None:
    home.config.mkdir()
    (home.config / "config.toml").write_text('[tools]\ndisabled = ["bash"]\n')
    listed = json.loads(ask("tools", "--json").stdout)
    assert [tool["name"] for tool in listed] == DEFAULT_TOOLS
    offered = [tool["name"] for tool in listed if tool["offered"]]
    assert offered == [name for name in DEFAULT_TOOLS if name != "bash"]
    server.reply(wire.says("yes"))
    ask("hi")
    assert [tool["function"]["name"] for tool in server.requests[0].json["tools"]] == offered


def test_no_tool_is_sent_if_tools_are_off(ask: Ask, home: Home) -> None:
    home.config.mkdir()
    (home.config / "config.toml").write_text("[tools]\nenabled = false\n")
    assert not any(tool["offered"] for tool in json.loads(ask("tools", "--json").stdout))
    assert all(tool["offered"] for tool in json.loads(ask("tools", "--json", env={"ASK_TOOLS": "1"}).stdout))
