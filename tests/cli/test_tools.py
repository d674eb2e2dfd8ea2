"""`ask tools`: lists the tools that a model can call."""

from __future__ import annotations

import json

import pytest

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
    heading, *lines = ask.on_terminal("tools", env={"COLUMNS": "400"}).text.splitlines()
    assert heading.split()[:2] == ["NAME", "PARAMETERS"]
    assert [line.split()[0] for line in lines] == DEFAULT_TOOLS


def test_json_marks_the_tools_that_are_sent_to_the_model(ask: Ask, home: Home, server: ModelServer) -> None:
    home.configure('[tools]\ndisabled = ["bash"]\n')
    listed = json.loads(ask("tools", "--json").stdout)
    assert [tool["name"] for tool in listed] == DEFAULT_TOOLS
    offered = [tool["name"] for tool in listed if tool["offered"]]
    assert offered == [name for name in DEFAULT_TOOLS if name != "bash"]
    server.reply(wire.says("yes"))
    ask("hi")
    assert [tool["function"]["name"] for tool in server.requests[0].json["tools"]] == offered


def test_no_tool_is_sent_if_tools_are_off(ask: Ask, home: Home) -> None:
    home.configure("[tools]\nenabled = false\n")
    assert not any(tool["offered"] for tool in json.loads(ask("tools", "--json").stdout))
    assert all(tool["offered"] for tool in json.loads(ask("tools", "--json", env={"ASK_TOOLS": "1"}).stdout))


def save_approvals(home: Home, *values: str, folder: str = "") -> None:
    home.data.mkdir(parents=True, exist_ok=True)
    rows = [{"scope": "command", "value": value, "folder": folder, "time": 1_700_000_000} for value in values]
    (home.data / "approvals.json").write_text(json.dumps(rows))
    (home.data / "approvals.json").chmod(0o600)


def test_approvals_are_listed_and_forgotten(ask: Ask, home: Home) -> None:
    assert ask("tools", "approvals").text == ""
    save_approvals(home, "make", "ls\x1b[2J\n-l", "pwd")
    lines = [line.split("\t") for line in ask("tools", "approvals").text.splitlines()]
    assert [line[1:4] for line in lines] == [
        ["command", "make", "all"],
        ["command", "ls\\x1b[2J -l", "all"],
        ["command", "pwd", "all"],
    ]
    assert {line[5] for line in lines} == {"2023-11-14T22:13:20Z"}  # scripts need the time, not its age
    assert ask("tools", "forget", lines[1][0]).code == 0
    assert [row["value"] for row in json.loads(ask("tools", "approvals", "--json").text)] == ["make", "pwd"]
    unknown = ask("tools", "forget", lines[0][0], lines[1][0])
    assert (unknown.code, lines[1][0] in unknown.stderr) == (2, True)
    assert ask("tools", "forget").code == 2
    assert ask("tools", "forget", "--all", lines[0][0]).code == 2
    assert ask("tools", "forget", "--all").code == 0
    assert json.loads(ask("tools", "approvals", "--json").text) == []


def test_a_stored_folder_that_no_file_name_can_be_is_listed(ask: Ask, home: Home) -> None:
    save_approvals(home, "make", folder="/a\ud800")
    [row] = json.loads(ask("tools", "approvals", "--json").text)
    assert row["folder"] == "/a\ufffd"
    (home.data / "trusted-projects.json").write_text(json.dumps({"/b\ud800": {"trusted": False, "time": 1}}))
    [project] = json.loads(ask("context", "list", "--json").text)
    assert project["project"] == "/b\ufffd"


@pytest.mark.slow
def test_doctor_counts_rules_and_approvals(ask: Ask, home: Home) -> None:
    def check() -> list[tuple[str, str]]:
        rows = json.loads(ask("doctor", "--offline", "--json").text)
        return [(row["state"], row["found"]) for row in rows if row["check"] == "approvals"]

    assert check() == []
    home.configure('[tools]\nallow = ["ls *", "make"]\ndeny = ["curl"]\n')
    save_approvals(home, "pwd")
    assert check() == [("ok", "2 allowed, 1 denied, 1 remembered")]
    (home.data / "approvals.json").chmod(0o644)
    assert check()[0][0] == "warning"
    (home.data / "approvals.json").write_text("{")
    assert check()[0][0] == "problem"
    home.configure('[tools]\nallow = ["ls; make"]\n')
    assert "tools.allow" in check()[0][1]
