"""Scenarios: safe mode, in which the model works in the folder that it is given and nowhere else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests import wire
from tests.model_server import ModelServer
from tests.program import Ask, Home, run_on_terminal
from tests.scenarios.sent import offered, results, sent

PROMPT = "Run this? "
TOUCH = ("bash", {"command": "touch ran"})


def audit(home: Home) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (home.data / "audit.jsonl").read_text().splitlines()]


@pytest.mark.parametrize(
    "call", [("read_file", {"filepath": "/etc/shadow"}), ("bash", {"command": "cat /etc/shadow"})], ids=["tool", "bash"]
)
def test_s28_read_shadow_is_denied_by_the_boundary(
    ask: Ask, server: ModelServer, home: Home, call: tuple[str, dict[str, str]]
) -> None:
    server.reply(wire.calls(call), wire.says("I cannot read it: I work in a sandbox."))
    result = ask("--safe", "Read /etc/shadow")
    assert (result.text, result.code) == ("I cannot read it: I work in a sandbox.\n", 0)
    [said] = results(sent(server)[1])
    assert "root:" not in said
    [line] = audit(home)
    assert (line["decision"], line["rule"]) == ("allow", "--safe"), "the boundary is to hold, not a rule"


def test_s29_delete_everything_is_refused_before_it_starts_with_the_reason(
    ask: Ask, server: ModelServer, home: Home
) -> None:
    (ask.cwd / "work.txt").write_text("mine")
    server.reply(wire.calls(("bash", {"command": "cd . && sudo rm -rf ./* ~"})), wire.says("That was refused."))
    result = ask("--safe", "Delete everything")
    assert (result.text, result.code) == ("That was refused.\n", 0)
    [said] = results(sent(server)[1])
    assert said.startswith("Error: ")
    assert "rm -rf" in said
    assert (ask.cwd / "work.txt").read_text() == "mine"
    assert [(line["decision"], line["rule"]) for line in audit(home)] == [("deny", "tripwire: rm -rf")]


def test_s30_the_allowed_folder_is_read_and_written_and_nothing_else(ask: Ask, server: ModelServer, home: Home) -> None:
    project, other, start = (home.path / name for name in ("project", "other", "work"))
    for folder in (project, other):
        folder.mkdir()
        (folder / "main.c").write_text(f"int {folder.name};\n")
    server.reply(
        wire.calls(
            ("read_file", {"filepath": "../project/main.c"}),
            ("write_file", {"filepath": str(project / "notes.md"), "content": "An int.\n"}),
            ("bash", {"command": "echo of >> ../project/notes.md; cat ../other/main.c; echo x > ../other/notes.md"}),
            ("read_file", {"filepath": str(other / "main.c")}),
            ("write_file", {"filepath": "own.md", "content": "here"}),
        ),
        wire.says("It declares an int."),
    )
    result = ask("--safe", "--allow-dir", "../project", "Analyze the code")
    assert (result.text, result.code) == ("It declares an int.\n", 0)
    read, _, ran, refused, _ = results(sent(server)[1])
    assert "int project;" in read
    assert "int other;" not in ran + refused
    assert (project / "notes.md").read_text() == "An int.\nof\n"
    assert [path.name for path in other.iterdir()] == ["main.c"]
    assert [path.name for path in start.iterdir()] == ["own.md"]
    assert sorted(path.name for path in project.iterdir()) == ["main.c", "notes.md"]


def test_all_tools_are_offered(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("Hello."))
    ask("hello")
    ask("--safe", "hello")
    plain, safe = (offered(request.json) for request in server.requests)
    assert plain == safe


def test_with_piped_data_confirm_asks_on_the_terminal(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(TOUCH), wire.says("It ran."))
    command = ["bash", "-c", "echo data | ask --safe --confirm 'Run it'"]
    result = run_on_terminal(command, env=ask.env, cwd=ask.cwd, answers=[(PROMPT, "y\n")])
    assert result.code == 0
    assert (ask.cwd / "ran").exists()
    assert "data" in wire.asked(sent(server)[0])


def test_with_piped_data_and_no_terminal_it_is_denied_and_all_are_told(
    ask: Ask, server: ModelServer, home: Home
) -> None:
    server.reply(wire.calls(TOUCH), wire.says("I may not."))
    result = ask("--safe", "--confirm", "Run it", stdin=b"yes\ny\ndata\n")
    assert (result.text, result.code) == ("I may not.\n", 8)
    assert not (ask.cwd / "ran").exists()
    [said] = results(sent(server)[1])
    assert said.startswith("Error: denied")
    assert all(option in result.stderr.splitlines()[-1] for option in ("--confirm", "--yes"))
    assert [line["rule"] for line in audit(home)] == ["--confirm: nobody to ask"]


def test_a_host_that_is_not_allowed_is_asked_about(ask: Ask, server: ModelServer, home: Home) -> None:
    fetch = ("fetch_url", {"url": "http://host.invalid/"})
    server.reply(wire.calls(fetch), wire.says("You declined."))
    result = ask.on_terminal("--safe", "Get it", answers=[(PROMPT, "n\n")])
    assert result.code == 0
    [said] = results(sent(server)[1])
    assert said.startswith("Error: ")
    assert "declined" in said
    assert [line["rule"] for line in audit(home)] == ["host host.invalid: no"]


def test_options_that_open_it_mean_nothing_without_it(ask: Ask, server: ModelServer) -> None:
    for option in (["--allow-dir", "."], ["--allow-host", "a.test"], ["--allow-tool", "mine"]):
        result = ask(*option, "hello")
        assert (result.code, server.requests) == (2, [])
        assert all(name in result.stderr for name in (option[0], "--safe"))


@pytest.mark.parametrize("how", ["ASK_SAFE", "configuration"])
def test_it_can_be_on_for_good(ask: Ask, server: ModelServer, home: Home, how: str) -> None:
    home.config.mkdir()
    if how == "configuration":
        allowed = home.path / "allowed"
        allowed.mkdir()
        (home.config / "config.toml").write_text(
            f'[safe]\nenabled = true\nallow_dirs = ["{allowed}"]\nenvironment = ["EDITOR"]\ntripwires = ["touch"]\n'
        )
    command = f"echo $EDITOR; echo x > ../x; echo x > {home.path}/allowed/x"
    server.reply(wire.calls(("bash", {"command": command}), TOUCH), wire.says("Done."))
    assert ask("Do it", env={"ASK_SAFE": "1", "EDITOR": "ed"} if how == "ASK_SAFE" else {"EDITOR": "ed"}).code == 0
    assert not (home.path / "x").exists()
    assert (home.path / "allowed/x").exists() == (how == "configuration")
    assert ("ed\n" in results(sent(server)[1])[0]) == (how == "configuration")
    assert (ask.cwd / "ran").exists() == (how == "ASK_SAFE")
