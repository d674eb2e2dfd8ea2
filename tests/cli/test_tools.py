"""`ask tools`: what a model may call."""

from __future__ import annotations

import json

from tests import wire
from tests.model_server import ModelServer
from tests.program import Ask, Home

NAMES = ["read_file", "write_file", "edit_file", "list_dir", "bash", "fetch_url", "search_web"]


def test_a_pipe_gets_a_row_for_each(ask: Ask) -> None:
    lines = [line.split("\t") for line in ask("tools").text.splitlines()]
    assert [line[0] for line in lines] == NAMES
    assert lines[0][1] == "filepath, offset?, limit?"
    assert [line[3] for line in lines] == ["no", "yes", "yes", "no", "yes", "no", "no"]
    assert [line[5] for line in lines] == ["sandboxed"] * 5 + ["asks for hosts"] * 2
    assert {(line[4], line[6]) for line in lines} == {("yes", "ask")}


def test_a_terminal_gets_a_heading(ask: Ask) -> None:
    heading, *lines = ask.on_terminal("tools").text.splitlines()
    assert heading.startswith("NAME        PARAMETERS  ")
    assert [line.split()[0] for line in lines] == NAMES


def test_json_says_which_are_offered_and_these_are_sent(ask: Ask, home: Home, server: ModelServer) -> None:
    home.config.mkdir()
    (home.config / "config.toml").write_text('[tools]\ndisabled = ["bash"]\n')
    listed = json.loads(ask("tools", "--json").stdout)
    assert [tool["name"] for tool in listed] == NAMES
    offered = [tool["name"] for tool in listed if tool["offered"]]
    assert offered == [name for name in NAMES if name != "bash"]
    server.reply(wire.says("yes"))
    ask("hi")
    assert [tool["function"]["name"] for tool in server.requests[0].json["tools"]] == offered


def test_none_is_offered_where_tools_are_off(ask: Ask, home: Home) -> None:
    home.config.mkdir()
    (home.config / "config.toml").write_text("[tools]\nenabled = false\n")
    assert not any(tool["offered"] for tool in json.loads(ask("tools", "--json").stdout))
    assert all(tool["offered"] for tool in json.loads(ask("tools", "--json", env={"ASK_TOOLS": "1"}).stdout))
