"""Scenarios: `--safe-files` offers no commands and confines the file tools to the folders of the run."""

from __future__ import annotations

import json

import pytest

from tests import wire
from tests.mcp.setting import RAW, configure, program
from tests.model_server import ModelServer
from tests.program import Ask, Home
from tests.scenarios.sent_requests import check_sent_requests, list_offered_tools, read_tool_results
from tests.tool_names import DEFAULT_TOOLS
from tests.undo.runs import tree


def call_tools(ask: Ask, server: ModelServer, *calls: wire.Call, options: tuple[str, ...] = ()) -> list[str]:
    """Run `ask` with a model that makes all of the calls in one response; return their results."""
    server.reply(wire.calls(*calls), wire.says("Done."))
    result = ask("--safe-files", *options, "go")
    assert (result.code, result.text) == (0, "Done.\n"), result.stderr
    return read_tool_results(check_sent_requests(server)[-1])


def test_files_in_the_folders_are_changed_and_nothing_else(ask: Ask, server: ModelServer, home: Home) -> None:
    other, outside = home.path / "other", home.path / "outside"
    other.mkdir()
    outside.write_text("OUTSIDE")
    (home.work / "link").symlink_to(outside)
    (home.work / ".env").write_text("SECRET=hidden")
    home.config.mkdir()
    (home.config / "keys.toml").write_text('brave = "OUTSIDE"\n')
    results = call_tools(
        ask,
        server,
        ("write_file", {"filepath": "sub/new", "content": "one"}),
        ("edit_file", {"filepath": str(other / "../work/sub/new"), "old_text": "one", "new_text": "two"}),
        ("write_file", {"filepath": str(other / "new"), "content": "three"}),
        ("list_dir", {"dirpath": "sub"}),
        ("read_file", {"filepath": "link"}),
        ("write_file", {"filepath": "link", "content": "x"}),
        ("read_file", {"filepath": str(home.config / "keys.toml")}),
        ("read_file", {"filepath": ".env"}),
        ("write_file", {"filepath": ".git/hooks/pre-commit", "content": "x"}),
        ("bash", {"command": "touch ran"}),
        options=("--allow-dir", str(other)),
    )
    assert results[3] == "file 3 new"
    assert [text.startswith("Error: ") for text in results] == [False] * 4 + [True] * 6
    assert "OUTSIDE" not in str(results)
    assert "hidden\n" not in str(results)
    assert (other / "new").read_text() == "three"
    assert outside.read_text() == "OUTSIDE"
    assert sorted(path.name for path in home.work.rglob("*")) == [".env", "link", "new", "sub"]
    log = [json.loads(line) for line in (home.data / "audit.jsonl").read_text().splitlines()]
    assert [line["rule"] for line in log] == ["--safe-files"] * 9 + ["not offered"]


def test_a_hard_link_leads_outside_only_until_it_is_written(ask: Ask, server: ModelServer, home: Home) -> None:
    outside = home.path / "outside"
    outside.write_text("one")
    (home.work / "linked").hardlink_to(outside)
    call_tools(ask, server, ("edit_file", {"filepath": "linked", "old_text": "one", "new_text": "two"}))
    assert ((home.work / "linked").read_text(), outside.read_text()) == ("two", "one")


def test_commands_are_not_offered_and_hosts_are_confirmed(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(("fetch_url", {"url": "https://example.com/"})), wire.says("Denied."))
    result = ask("--safe-files", "go")
    assert result.code == 8
    bodies = check_sent_requests(server)
    assert set(list_offered_tools(bodies[0])) == {*DEFAULT_TOOLS} - {"bash"}
    assert "--allow-host example.com" in result.stderr


def test_undo_restores_the_files(ask: Ask, server: ModelServer, home: Home) -> None:
    (home.work / "old").write_text("before")
    before = tree(home.work)
    call_tools(
        ask,
        server,
        ("write_file", {"filepath": "old", "content": "after"}),
        ("write_file", {"filepath": "a/b/new", "content": "new"}),
    )
    assert (home.work / "old").read_text() == "after"
    assert ask("undo", "-y").code == 0
    assert tree(home.work) == before


@pytest.mark.slow
def test_long_results_can_be_read(ask: Ask, server: ModelServer, home: Home) -> None:
    for number in range(1_000):
        (home.work / f"{number:03}{'x' * 100}").touch()
    server.reply(wire.calls(("list_dir", {"dirpath": "."})))
    server.reply(
        lambda request: wire.calls(
            ("read_file", {"filepath": find_overflow_file(request.json["messages"][-1]["content"]), "limit": 1})
        ),
        wire.says("Done."),
    )
    assert ask("--safe-files", "go").code == 0
    [result] = read_tool_results(check_sent_requests(server)[-1])
    assert result.startswith("file 0 000x")


def find_overflow_file(result: str) -> str:
    return next(word.strip("];,") for word in result.split() if "/results/" in word)


def test_tools_that_cannot_be_confined_are_not_offered(ask: Ask, server: ModelServer, home: Home) -> None:
    configure(home, {"raw": program(RAW)})
    (home.work / "mine.py").write_text('open("loaded", "w")\ndef mine() -> None:\n    """Do it."""\n')
    server.reply(wire.says("Done."))
    result = ask("--safe-files", "--tool", "mine.py:mine", "go")
    assert result.code == 0
    assert "MCP servers" in result.stderr
    assert "mine.py" in result.stderr
    assert result.stderr.count("--allow-tool") == 2
    assert "mine" not in list_offered_tools(check_sent_requests(server)[0])
    assert not (home.work / "loaded").exists()


def test_a_configured_level_applies_to_every_run(ask: Ask, server: ModelServer, home: Home) -> None:
    home.configure('[safe]\nlevel = "files"\n')
    server.reply(wire.says("One."))
    assert ask("go").code == 0
    assert "bash" not in list_offered_tools(check_sent_requests(server)[0])
    listed = {row["name"]: row for row in json.loads(ask("tools", "--json").text)}
    assert (listed["bash"]["offered"], listed["read_file"]["offered"]) == (False, True)
    checks = {row["check"]: row for row in json.loads(ask("safe", "--json").text)}
    assert checks["writing outside"]["state"] == "ok"
    assert "bubblewrap" not in checks


@pytest.mark.parametrize("option", ["--allow-dir", "--safe-files"])
def test_a_folder_that_cannot_be_confined_ends_the_run(ask: Ask, server: ModelServer, home: Home, option: str) -> None:
    home.config.mkdir()
    arguments = ["--allow-dir", str(home.config)] if option == "--allow-dir" else []
    asker = ask if arguments else Ask(ask.env, home.path / "home")
    result = asker("--safe-files", *arguments, "go")
    assert (result.code, server.requests) == (8, [])
