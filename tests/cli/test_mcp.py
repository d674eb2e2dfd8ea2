"""`ask mcp`: lists, adds, removes and tests servers."""

from __future__ import annotations

import json
import re
import shlex
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from ask.errors import MissingDependencyError
from tests import wire
from tests.mcp.setting import RAW, configure, offered, program
from tests.missing_packages import make_command_without
from tests.model_server import ModelServer
from tests.program import Ask, Home, run

ROOT = Path(__file__).parents[2]


def read_servers(home: Home) -> dict[str, Any]:
    """Return the servers configured in config.toml."""
    return dict(tomllib.loads((home.config / "config.toml").read_text()).get("mcp", {}).get("servers", {}))


def test_a_command_server_can_be_added_tested_called_and_removed(ask: Ask, home: Home, server: ModelServer) -> None:
    added = ask("mcp", "add", "raw", "--env", "TOKEN=$SECRET", "--timeout", "60", "--", sys.executable, RAW, "good")
    assert (added.code, added.text) == (0, "")
    assert str(home.config / "config.toml") in added.stderr
    assert "ask mcp test raw" in added.stderr
    table = {"command": sys.executable, "args": [RAW, "good"], "env": {"TOKEN": "$SECRET"}, "timeout": 60.0}
    assert read_servers(home) == {"raw": table}
    env = {"SECRET": "hush"}
    tried = ask("mcp", "test", "--json", env=env, timeout=60)
    [row] = json.loads(tried.text)
    seconds = row.pop("seconds")
    assert row == {"name": "raw", "state": "ok", "version": "raw 1.2.3", "tools": 20, "found": ""}
    assert seconds >= 0
    server.reply(wire.says("done"))
    assert ask("hi", env=env, timeout=60).text == "done\n"
    assert "raw__echo" in offered(server.requests[0])
    assert ask("mcp", "remove", "raw").code == 0
    assert read_servers(home) == {}
    assert ask("mcp").text == ""


def test_a_url_server_is_added_with_its_headers(ask: Ask, home: Home) -> None:
    url = "https://user:pass@example.com/mcp?key=hush"
    headers = ["--header", "Authorization=Bearer $TOKEN", "--header", "X-Other: b=c:d"]
    assert ask("mcp", "add", "web", url, *headers, "--only", "a", "--only", "b").code == 0
    expected = {"Authorization": "Bearer $TOKEN", "X-Other": "b=c:d"}
    assert read_servers(home) == {"web": {"url": url, "headers": expected, "tools": ["a", "b"]}}
    assert ask("mcp").text == f"web\thttp\thttps://example.com/mcp?...\tyes\t{home.config / 'config.toml'}\n"
    [row] = json.loads(ask("mcp", "list", "--json").text)
    assert (row["headers"], row["tools"]) == (["Authorization", "X-Other"], ["a", "b"])
    assert ask("mcp", "add", "old", "http://localhost/sse", "--sse").code == 0
    assert read_servers(home)["old"] == {"url": "http://localhost/sse", "type": "sse"}


def test_comments_survive_adding_and_removing_servers(ask: Ask, home: Home) -> None:
    home.config.mkdir()
    path = home.config / "config.toml"
    before = '# mine\nmodel = "m" # this\n\n[mcp.servers.a]\n# first\ncommand = "x"\n'
    path.write_text(before)
    assert ask("mcp", "add", "b", "y", "--cwd", "/tmp").code == 0
    assert path.read_text().startswith(before)
    assert str(path) in ask("mcp", "remove", "b").stderr
    assert path.read_text().strip() == before.strip()
    removed = ask("mcp", "remove", "a")
    assert any("comments" in line and str(path) in line for line in removed.stderr.splitlines())


def test_servers_are_imported_from_a_pipe(ask: Ask, home: Home) -> None:
    entries = {"one": {"command": "touch"}}
    assert ask("mcp", "add", "--from", "/dev/stdin", stdin=json.dumps({"mcpServers": entries}).encode()).code == 0
    assert read_servers(home) == entries


@pytest.mark.slow
def test_servers_are_imported_from_a_project_file_only_on_request(ask: Ask, home: Home) -> None:
    entries = {
        "one": {"command": "touch", "args": ["ran"]},
        "two": {"type": "http", "url": "http://localhost/mcp", "headers": {"A": "b"}},
    }
    (home.work / ".mcp.json").write_text(json.dumps({"mcpServers": entries}))
    assert ask("mcp").text == ""
    assert ask("mcp", "add", "--from", ".mcp.json", "one", "two").code == 0
    assert read_servers(home) == {
        "one": {"command": "touch", "args": ["ran"]},
        "two": {"url": "http://localhost/mcp", "headers": {"A": "b"}},
    }
    assert not (home.work / "ran").exists()


# https://github.com/can1357/oh-my-pi/pull/7101, https://github.com/bytedance/deer-flow/issues/3762: one invalid entry,
# and no server can be used
def test_one_server_that_cannot_be_imported_does_not_cost_the_others(ask: Ask, home: Home) -> None:
    configure(home, {"old": {"command": "x"}})
    add = ("mcp", "add", "--from", "mcp.json")
    entries: dict[str, Any] = {"bad": {"command": 5}, "old": {"command": "y"}, "text": "x", "good": {"command": "z"}}
    (home.work / "mcp.json").write_text(json.dumps({"mcpServers": entries}))
    result = ask(*add)
    assert result.code == 0
    assert all(f" {place}" in result.stderr for place in ("mcp.json: mcp.servers.bad", "mcp.json: mcp.servers.text"))
    assert "old already exists; skipping it" in result.stderr
    assert read_servers(home) == {"old": {"command": "x"}, "good": {"command": "z"}}
    named = ask(*add, "bad")
    assert named.code == 2
    assert "mcp.servers.bad" in named.stderr
    assert ask(*add, "old").code == 2
    files: list[tuple[dict[str, Any], int]] = [({"bad": {}}, 4), ({}, 4), ({"old": {"command": "y"}}, 2)]
    for entries, code in files:
        (home.work / "mcp.json").write_text(json.dumps({"mcpServers": entries}))
        result = ask(*add)
        assert (result.code, result.stderr.count("\n")) == (code, 1)


def test_an_import_names_the_variables_that_a_server_gets(ask: Ask, home: Home) -> None:
    entries = {
        "remote": {"url": "https://example.com/${ONE_KEY}", "headers": {"A": "Bearer $TWO", "B": "${TWO:-x} $$THREE"}},
        "local": {"command": "x", "args": ["$NONE", "${workspaceFolder}"], "env": {"A": "${env:FOUR}"}},
        "plain": {"command": "y"},
    }
    (home.work / ".mcp.json").write_text(json.dumps({"mcpServers": entries}))
    notices = [line for line in ask("mcp", "add", "--from", ".mcp.json").stderr.splitlines() if "gets" in line]
    assert [re.findall("[A-Z_]{3,}", line.partition("gets")[2]) for line in notices] == [["TWO", "ONE_KEY"], ["FOUR"]]


def test_settings_that_messages_name_are_changed_by_a_command(ask: Ask, home: Home) -> None:
    configure(home, {"slow": {"command": "x", "args": ["y"]}})
    changes = {
        "timeout": ("20", 20),
        "enabled": ("false", False),
        "cwd": ("/tmp", "/tmp"),
        "tools": ("a,b", ["a", "b"]),
    }
    for key, (word, value) in changes.items():
        assert ask("config", "set", f"mcp.servers.slow.{key}", word).code == 0
        assert ask("config", "get", f"mcp.servers.slow.{key}").text == f"{word}\n"
        assert read_servers(home)["slow"][key] == value
    assert ask("mcp", "list").text.split("\t")[3] == "no"
    for key in changes:
        assert ask("config", "unset", f"mcp.servers.slow.{key}").code == 0
    assert read_servers(home) == {"slow": {"command": "x", "args": ["y"]}}


def test_a_server_of_a_json_file_is_disabled_by_a_command(ask: Ask, home: Home) -> None:
    home.config.mkdir()
    (home.config / "mcp.json").write_text('{"mcpServers": {"one": {"command": "x"}}}')
    assert ask("config", "set", "mcp.servers.one.enabled", "false").code == 0
    assert ask("mcp", "list").text.split("\t")[3] == "no"
    for key, value in (("timeout", "20"), ("enabled", "true")):
        refused = ask("config", "set", f"mcp.servers.one.{key}", value)
        assert (refused.code, "config unset mcp.servers.one.enabled" in refused.stderr) == (2, True)
    assert ask("config", "unset", "mcp.servers.one.enabled").code == 0
    assert ask("mcp", "list").text.split("\t")[3] == "yes"
    refused = ask("config", "set", "mcp.servers.one.timeout", "20")
    assert (refused.code, "mcp.json" in refused.stderr) == (2, True)


@pytest.mark.parametrize("key", ["enable", "tool", "disabled", "disabled_tool", "enabled_tools", "excludeTools"])
def test_a_server_with_a_misspelled_restriction_is_left_out(ask: Ask, home: Home, key: str) -> None:
    configure(home, {"one": {"command": "x", key: ["a"]}, "two": {"command": "y"}})
    (home.config / "mcp.json").write_text('{"mcpServers": {"one": {"command": "z"}}}')
    result = ask("mcp", "list")
    assert [line.split("\t")[0] for line in result.text.splitlines()] == ["two"]
    assert f"unknown key {key}" in result.stderr
    for command, code in (("config set mcp.servers.one.timeout 5", 4), ("mcp test one", 4), ("mcp add one z", 2)):
        assert ask(*command.split()).code == code
    assert read_servers(home)["one"] == {"command": "x", key: ["a"]}
    assert ask("config", "unset", f"mcp.servers.one.{key}").code == 0
    assert len(ask("mcp", "list").text.splitlines()) == 2


def test_an_invalid_server_is_removed(ask: Ask, home: Home) -> None:
    configure(home, {"one": {"command": "x", "tool": ["a"]}, "two": {"args": ["y"]}})
    for name in ("one", "two"):
        assert ask("mcp", "remove", name).code == 0
    assert not (home.config / "config.toml").read_text()


def test_servers_of_json_files_are_listed_with_their_file(ask: Ask, home: Home) -> None:
    home.config.mkdir()
    (home.config / "mcp.json").write_text('{"mcpServers": {"one": {"command": "x", "args": ["a b"]}}}')
    (home.work / "more.json").write_text('{"servers": {"two": {"command": "y", "disabled": true}}}')
    home.configure(tomli_w.dumps({"mcp": {"files": [str(home.work / "more.json")]}}))
    rows = [line.split("\t") for line in ask("mcp", "list").text.splitlines()]
    assert rows == [
        ["one", "stdio", "x 'a b'", "yes", str(home.config / "mcp.json")],
        ["two", "stdio", "y", "no", str(home.work / "more.json")],
    ]
    refused = ask("mcp", "remove", "one")
    assert refused.code == 2
    assert str(home.config / "mcp.json") in refused.stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "server"),
        (["x"], "URL"),
        (["a b", "x"], "'a b'"),
        (["known", "x"], "ask mcp remove known"),
        (["x", "http://a", "b"], "'b'"),
        (["x", "http://a", "--env", "A=b"], "--env"),
        (["x", "y", "--header", "A=b"], "--header"),
        (["x", "y", "--sse"], "--sse"),
        (["x", "y", "--env", "A"], "--env"),
        (["x", "y", "--timeout", "nan"], "timeout"),
        (["--from", "f", "--env", "A=b"], "--from"),
        (["x", "y", "--port", "3"], "--port"),
        (["x", "npx -y server"], "ask mcp add x -- npx -y server"),
    ],
)
def test_invalid_servers_are_not_added(words: list[str], expected: str, ask: Ask, home: Home) -> None:
    configure(home, {"known": {"command": "x"}})
    result = ask("mcp", "add", *words)
    assert (result.code, result.text, result.stderr.count("\n")) == (2, "", 1)
    assert expected in result.stderr
    assert read_servers(home) == {"known": {"command": "x"}}


def test_an_unknown_server_is_an_error_with_a_suggestion(ask: Ask, home: Home) -> None:
    configure(home, {"time": {"command": "x"}})
    setting = ["config", "set", "mcp.servers.tiem.enabled", "false"]
    for command in (["mcp", "remove", "tiem"], ["mcp", "test", "tiem"], ["mcp", "list", "tiem"], setting):
        result = ask(*command)
        assert (result.code, result.stderr.count("\n")) == (2, 1)
        assert "'tiem'" in result.stderr
        assert "did you mean time?" in result.stderr


def test_the_tools_of_a_server_are_listed(ask: Ask, home: Home) -> None:
    configure(home, {"raw": program(RAW, tools=["echo", "env"]), "gone": {"command": "no-such"}})
    result = ask("mcp", "list", "raw", timeout=60)
    assert result.text.splitlines() == [
        "raw__echo\ttext?\tDoes echo.\tno\traw",
        "raw__env\ttext?\tDoes env.\tyes\traw",
    ]
    every = ask("mcp", "list", "--tools", "--json", timeout=60)
    assert [row["name"] for row in json.loads(every.text)] == ["raw__echo", "raw__env"]
    assert "'no-such'" in every.stderr
    assert ask("mcp", "list", "gone").code == 4


@pytest.mark.slow
def test_failing_servers_do_not_hide_the_others(ask: Ask, home: Home) -> None:
    configure(home, {"raw": program(RAW), "exits": program(RAW, "exits"), "off": program(RAW, "exits", enabled=False)})
    result = ask("mcp", "test", timeout=60)
    assert result.code == 4
    assert result.stderr.startswith("ask: 1 MCP server ")
    rows = [line.split("\t") for line in result.text.splitlines()]
    assert [row[:2] for row in rows] == [["raw", "ok"], ["exits", "failed"]]
    assert "exit status 3" in rows[1][5]
    assert ask("mcp", "test", "raw", timeout=60).code == 0


def test_an_invalid_file_is_reported_once(ask: Ask, home: Home) -> None:
    configure(home, {"good": program(RAW)})
    (home.config / "mcp.json").write_text("{")
    assert ask("mcp", "list").stderr.count("mcp.json") == 1


def test_testing_without_a_configured_server_is_an_error(ask: Ask) -> None:
    result = ask("mcp", "test")
    assert (result.code, result.stderr.count("\n")) == (2, 1)
    assert "ask mcp add" in result.stderr


def test_ask_tools_lists_tools_of_mcp_servers(ask: Ask, home: Home) -> None:
    configure(home, {"raw": program(RAW, tools=["echo"])})
    rows = json.loads(ask("tools", "--json", timeout=60).text)
    [row] = [row for row in rows if row["name"] == "raw__echo"]
    assert (row["from"], row["runs_or_writes"]) == ("mcp:raw", False)


def test_doctor_names_the_servers_without_starting_them(ask: Ask, home: Home) -> None:
    def found() -> list[list[str]]:
        rows = [line.split("\t") for line in ask("doctor", "--offline").text.splitlines()]
        return [row for row in rows if row[1] == "mcp"]

    assert [row[:2] for row in found()] == [["note", "mcp"]]
    configure(home, {"raw": program(RAW), "gone": {"command": "no-such"}, "lacks": {"command": "x", "args": ["${NO}"]}})
    gone, lacks, servers = found()
    assert [gone[0], lacks[0], servers[0]] == ["warning", "warning", "ok"]
    assert "gone" in gone[2]
    assert "'no-such'" in gone[2]
    assert "lacks" in lacks[2]
    assert "$NO" in lacks[2]
    assert "raw, gone, lacks" in servers[2]
    assert not (home.work / "received").exists()


# Safe mode


@pytest.mark.slow
@pytest.mark.needs("bwrap")
def test_safe_mode_starts_only_servers_with_an_allowed_tool(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program(RAW), "other": program(RAW)}, tools={"disabled": ["other__die"]})
    server.reply(wire.says("done"))
    assert ask("--safe", "hi", timeout=60).text == "done\n"
    assert not (home.work / "received").exists()
    assert offered(server.requests[0]) == {}
    assert ask("--safe", "--allow-tool", "raw__echo", "hi", timeout=60).text == "done\n"
    assert list(offered(server.requests[1])) == ["raw__echo"]
    assert (home.work / "received").read_text().count('"pid"') == 1


# Without the extra


@pytest.fixture
def bare(ask: Ask, home: Home) -> list[str]:
    """Return an `ask` command in an environment without the MCP SDK."""
    return make_command_without("mcp", home)


@pytest.mark.slow
def test_only_mcp_commands_fail_without_the_extra(bare: list[str], ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program(RAW)}, tools={"disabled": ["raw__die"]})
    server.reply(wire.says("done"))
    result = run([*bare, "hi"], env=ask.env, cwd=home.work)
    assert (result.code, result.text) == (0, "done\n")
    assert "package mcp" in result.stderr
    hint = result.stderr.removesuffix("\n").rpartition(": ")[2]
    assert shlex.split(hint)[-1].endswith("[mcp]")
    tried = run([*bare, "mcp", "test"], env=ask.env, cwd=home.work)
    assert (tried.code, tried.stderr.count("\n")) == (MissingDependencyError.exit_code, 1)
    assert hint in tried.stderr
    listed = run([*bare, "mcp", "list"], env=ask.env, cwd=home.work)
    assert listed.code == 0
    assert listed.text.startswith("raw\tstdio\t")
    checked = run([*bare, "doctor", "--offline", "-v"], env=ask.env, cwd=home.work)
    [row] = [line.split("\t") for line in checked.text.splitlines() if line.split("\t")[1] == "mcp"]
    assert "raw" in row[2]
    assert row[3] == hint


@pytest.mark.slow
def test_a_broken_mcp_package_is_a_one_line_error(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program(RAW)})
    (home.path / "mcp.py").write_text("raise ImportError('too old')\n")
    server.reply(wire.says("done"))
    result = ask("hi", env={"PYTHONPATH": str(home.path)})
    assert (result.code, result.text) == (0, "done\n")
    [line] = [line for line in result.stderr.splitlines() if "mcp" in line and "(too old)" in line]
    assert line.endswith("[mcp]'")


def test_resources_and_their_templates_are_listed(ask: Ask, home: Home, sdk_port: int) -> None:
    configure(home, {"sdk": {"url": f"http://127.0.0.1:{sdk_port}/mcp", "timeout": 60}, "raw": program(RAW, "good")})
    result = ask("mcp", "resources", timeout=60)
    assert result.code == 0, result.stderr
    rows = [line.split("\t") for line in result.text.splitlines()]
    assert ["mcp://sdk/file:///docs/plan.md", "text/markdown", "The plan", "What to do."] in rows
    assert ["mcp://sdk/note://{name}", "text/plain", "note", "One note."] in rows
    assert {row[0].split("/")[2] for row in rows} == {"sdk"}, "the other has none"
    templates = {row["address"]: row["template"] for row in json.loads(ask("mcp", "resources", "sdk", "--json").text)}
    assert templates["mcp://sdk/image://pixel"] is False
    assert templates["mcp://sdk/note://{name}"] is True


def test_prompts_are_listed_with_their_arguments(ask: Ask, home: Home, sdk_port: int) -> None:
    configure(
        home,
        {"sdk": {"url": f"http://127.0.0.1:{sdk_port}/mcp", "timeout": 60}, "gone": {"command": "no-such-program"}},
    )
    result = ask("mcp", "prompts", timeout=60)
    assert result.code == 0
    assert "no-such-program" in result.stderr
    assert "mcp://sdk/review\tcode, style?\tReview code." in result.text.splitlines()
    [row] = [
        row for row in json.loads(ask("mcp", "prompts", "sdk", "--json").text) if row["address"] == "mcp://sdk/review"
    ]
    assert [(each["name"], each["required"]) for each in row["arguments"]] == [("code", True), ("style", False)]
    assert "mcp://sdk/review" in ask("--complete", "prompts", "mcp://sdk/r").text
    assert ask("mcp", "prompts", "gone").code == 4
    assert ask("mcp", "prompts", "skd").code == 2
