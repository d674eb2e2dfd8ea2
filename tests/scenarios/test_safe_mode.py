"""Scenarios: safe mode restricts the model to the folder it is given."""

from __future__ import annotations

import pytest

from tests import wire
from tests.model_server import ModelServer
from tests.program import Ask, Home, run_on_terminal
from tests.scenarios.sent_requests import check_sent_requests, list_offered_tools, read_tool_results

pytestmark = pytest.mark.needs("bwrap")

PROMPT = "Run this? "
TOUCH = ("bash", {"command": "touch ran"})


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    "call", [("read_file", {"filepath": "/etc/shadow"}), ("bash", {"command": "cat /etc/shadow"})], ids=["tool", "bash"]
)
def test_reading_etc_shadow_is_denied_by_the_sandbox(
    ask: Ask, server: ModelServer, home: Home, call: tuple[str, dict[str, str]]
) -> None:
    server.reply(wire.calls(call), wire.says("I cannot read it: I work in a sandbox."))
    result = ask("--safe", "Read /etc/shadow")
    assert (result.text, result.code) == ("I cannot read it: I work in a sandbox.\n", 0)
    [tool_result] = read_tool_results(check_sent_requests(server)[1])
    assert "root:" not in tool_result
    [line] = home.read_tool_log()
    assert (line["decision"], line["rule"]) == ("allow", "--safe"), "the boundary is to hold, not a rule"


def test_rm_rf_root_is_refused_without_a_terminal(ask: Ask, server: ModelServer, home: Home) -> None:
    (ask.cwd / "work.txt").write_text("mine")
    server.reply(wire.calls(("bash", {"command": "cd . && sudo rm -rf ./* ~"})), wire.says("That was refused."))
    result = ask("--safe", "Delete everything")
    assert (result.text, result.code) == ("That was refused.\n", 8)
    [tool_result] = read_tool_results(check_sent_requests(server)[1])
    assert tool_result.startswith("Error: denied")
    assert (ask.cwd / "work.txt").read_text() == "mine"
    rule = "dangerous command: rm -r ~: no terminal"
    assert [(line["decision"], line["rule"]) for line in home.read_tool_log()] == [("deny", rule)]


def test_only_the_allowed_folder_can_be_read_and_written(ask: Ask, server: ModelServer, home: Home) -> None:
    project, other, start = (home.path / name for name in ("project", "other", "work"))
    for folder in (project, other):
        folder.mkdir()
        (folder / "main.c").write_text(f"int {folder.name};\n")
        (folder / "old.c").touch()
    server.reply(
        wire.calls(
            ("read_file", {"filepath": "../project/main.c"}),
            ("write_file", {"filepath": str(project / "notes.md"), "content": "An int.\n"}),
            ("bash", {"command": "echo of >> ../project/notes.md; cat ../other/main.c; echo x > ../other/notes.md"}),
            ("bash", {"command": "rm ../project/old.c ../other/old.c"}),
            ("read_file", {"filepath": str(other / "main.c")}),
            ("write_file", {"filepath": "own.md", "content": "here"}),
        ),
        wire.says("It declares an int."),
    )
    result = ask("--safe", "--allow-dir", "../project", "Analyze the code")
    assert (result.text, result.code) == ("It declares an int.\n", 0)
    read, _, ran, _, refused, _ = read_tool_results(check_sent_requests(server)[1])
    assert "int project;" in read
    assert "int other;" not in ran + refused
    assert (project / "notes.md").read_text() == "An int.\nof\n"
    assert sorted(path.name for path in other.iterdir()) == ["main.c", "old.c"]
    assert [path.name for path in start.iterdir()] == ["own.md"]
    assert sorted(path.name for path in project.iterdir()) == ["main.c", "notes.md"]


def test_all_tools_are_offered(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("Hello."))
    ask("hello")
    ask("--safe", "hello")
    plain, safe = (list_offered_tools(request.json) for request in server.requests)
    assert plain == safe


@pytest.mark.slow
def test_confirm_asks_on_the_terminal_despite_piped_input(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(TOUCH), wire.says("It ran."))
    command = ["bash", "-c", "echo data | ask --safe --confirm 'Run it'"]
    result = run_on_terminal(command, env=ask.env, cwd=ask.cwd, answers=[(PROMPT, "y")])
    assert result.code == 0
    assert (ask.cwd / "ran").exists()
    assert "data" in wire.asked(check_sent_requests(server)[0])


def test_confirm_with_piped_input_and_no_terminal_denies_the_call(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(wire.calls(TOUCH), wire.says("I may not."))
    result = ask("--safe", "--confirm", "Run it", stdin=b"yes\ny\ndata\n")
    assert (result.text, result.code) == ("I may not.\n", 8)
    assert not (ask.cwd / "ran").exists()
    [tool_result] = read_tool_results(check_sent_requests(server)[1])
    assert tool_result.startswith("Error: denied")
    assert all(option in result.stderr.splitlines()[-1] for option in ("--confirm", "--yes"))
    assert [line["rule"] for line in home.read_tool_log()] == ["--confirm: no terminal"]


def test_hosts_that_are_not_allowed_are_confirmed(ask: Ask, server: ModelServer, home: Home) -> None:
    fetch = ("fetch_url", {"url": "http://host.invalid/"})
    server.reply(wire.calls(fetch), wire.says("You declined."))
    result = ask.on_terminal("--safe", "Get it", answers=[(PROMPT, "n")])
    assert result.code == 0
    [tool_result] = read_tool_results(check_sent_requests(server)[1])
    assert tool_result.startswith("Error: ")
    assert "declined" in tool_result
    assert [line["rule"] for line in home.read_tool_log()] == ["host host.invalid: no"]


def test_options_that_loosen_safe_mode_are_an_error_without_it(ask: Ask, server: ModelServer) -> None:
    for option in (["--allow-dir", "."], ["--allow-git"], ["--allow-host", "a.test"], ["--allow-tool", "mine"]):
        result = ask(*option, "hello")
        assert (result.code, server.requests) == (2, [])
        assert all(name in result.stderr for name in (option[0], "--safe"))
        assert ("--safe-files" in result.stderr) is (option[0] != "--allow-git")


@pytest.mark.slow_after_first
@pytest.mark.parametrize("how", ["ASK_SAFE", "configuration"])
def test_safe_mode_can_be_enabled_by_variable_or_configuration(
    ask: Ask, server: ModelServer, home: Home, how: str
) -> None:
    home.config.mkdir()
    if how == "configuration":
        allowed = home.path / "allowed"
        allowed.mkdir()
        home.configure(
            f'[safe]\nenabled = true\nallow_dirs = ["{allowed}"]\nenvironment = ["CFLAGS"]\n[tools]\ndeny = ["touch"]\n'
        )
    command = f"echo $CFLAGS; echo x > ../x; echo x > {home.path}/allowed/x"
    server.reply(wire.calls(("bash", {"command": command}), TOUCH), wire.says("Done."))
    assert ask("Do it", env={"ASK_SAFE": "1", "CFLAGS": "-O2"} if how == "ASK_SAFE" else {"CFLAGS": "-O2"}).code == 0
    assert not (home.path / "x").exists()
    assert (home.path / "allowed/x").exists() == (how == "configuration")
    assert ("-O2\n" in read_tool_results(check_sent_requests(server)[1])[0]) == (how == "configuration")
    assert (ask.cwd / "ran").exists() == (how == "ASK_SAFE")
