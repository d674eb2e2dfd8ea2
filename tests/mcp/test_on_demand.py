"""A server whose list is kept is started when one of its tools is called, and not before."""

from __future__ import annotations

import json
import shutil
import sys
from typing import Any

import pytest

from tests import wire
from tests.chatting import Chat
from tests.mcp.setting import (
    RAW,
    ask_with_calls,
    configure,
    kept_file,
    offered,
    pids,
    program,
    received,
    told,
)
from tests.mcp.test_endings import methods, wait_until
from tests.mcp.test_http import Start, start
from tests.model_server import ModelServer
from tests.needed import need
from tests.program import CTRL_C, Ask, Home, is_running, make_home
from tests.test_startup import watch

__all__ = ["start"]
HELLO: wire.Call = ("raw__echo", {"text": "hello"})


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home in which the raw server was started once."""
    home = make_home(tmp_path_factory.mktemp("used"))
    configure(home, {"raw": program(RAW)})
    assert Ask(home.env, home.work)("-p", "demo", "hi", timeout=60).code == 0
    assert len(pids(home)) == 1
    return home


@pytest.fixture
def raw(used: Home, home: Home) -> None:
    """The raw server, whose list is kept."""
    shutil.copytree(used.path, home.path, dirs_exist_ok=True)


def set_mode(home: Home, mode: str) -> None:
    """Have the raw server do something else when it is next started."""
    (home.work / "mode").write_text(mode)


def system_prompts(server: ModelServer) -> list[str]:
    return [request.json["messages"][0]["content"] for request in server.requests]


def all_tools(server: ModelServer) -> list[Any]:
    return [request.json["tools"] for request in server.requests]


# What is kept


def test_what_is_kept_is_offered_as_it_was_and_nothing_is_started(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program(RAW)})
    server.reply(wire.says("done"))
    for _ in range(2):
        assert ask("hi", timeout=60).text == "done\n"
        assert len(pids(home)) == 1
    assert "raw__echo" in offered(server.requests[1])
    assert all_tools(server)[0] == all_tools(server)[1]
    assert system_prompts(server)[0] == system_prompts(server)[1]
    assert kept_file(home).stat().st_mode & 0o777 == 0o600


def test_neither_the_sdk_nor_asyncio_is_loaded_for_it(home: Home) -> None:
    configure(home, {"raw": program(RAW)})

    def loaded() -> set[str]:
        modules = watch(home, "-p", "demo", "hi").modules
        heavy = ("mcp", "mcp_types", "asyncio", "anyio", "pydantic", "httpx2")
        return {name for name in modules if name.split(".")[0] in heavy or name == "ask.mcp.servers"}

    assert {"mcp", "asyncio", "ask.mcp.servers"} <= loaded()
    assert loaded() == set()
    assert len(pids(home)) == 1


def test_no_secret_is_in_what_is_kept(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program(RAW, env={"TOKEN": "$SECRET", "OTHER": "0ther-v4lue"})})
    server.reply(wire.says("done"))
    for secret in ("s3cr3t-one", "s3cr3t-one", "s3cr3t-two"):
        assert ask("hi", env={"SECRET": secret}, timeout=60).code == 0
        assert not any(value in kept_file(home).read_text() for value in (secret, "0ther-v4lue"))
    assert len(pids(home)) == 2, "another value is another server"


def test_a_script_that_changes_is_started_anew(ask: Ask, home: Home, server: ModelServer) -> None:
    script = home.work / "server.py"
    shutil.copy(RAW, script)
    configure(home, {"raw": program("server.py")})
    server.reply(wire.says("done"))
    for starts in (1, 1, 2, 2):
        if starts > len(pids(home)):
            script.write_text(script.read_text().replace("Does {name}.", "Does {name} better."))
        assert ask("hi", timeout=60).text == "done\n"
        assert len(pids(home)) == starts
    assert offered(server.requests[3])["raw__env"]["description"] == "Does env better."


@pytest.mark.usefixtures("raw")
def test_a_list_that_is_too_old_is_asked_for_anew(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(wire.says("done"))
    table = json.loads(kept_file(home).read_text())
    kept_file(home).write_text(json.dumps({**table, "time": table["time"] - 86_400}))
    for _ in range(2):
        assert ask("hi", timeout=60).text == "done\n"
        assert len(pids(home)) == 2


@pytest.mark.usefixtures("raw")
def test_what_cannot_be_read_is_kept_anew(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(wire.says("done"))
    kept_file(home).write_bytes(b'{"format": 1, "tools": 5}')  # test_kept has all else that is no list
    for _ in range(2):
        result = ask("hi", timeout=60)
        assert (result.text, "Traceback" in result.stderr, len(pids(home))) == ("done\n", False, 2)


def test_where_nothing_can_be_kept_all_is_as_ever(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program(RAW)})
    kept_file(home).parent.parent.mkdir(parents=True)
    kept_file(home).parent.write_text("mine")
    for _ in range(2):
        result, answers = ask_with_calls(ask, server, [HELLO])
        assert (result.text, answers, "ask: " in result.stderr) == ("done\n", ["hello"], False)
    assert len(pids(home)) == 2
    assert kept_file(home).parent.read_text() == "mine"


@pytest.mark.usefixtures("raw")
def test_a_cache_that_is_read_only_is_read(ask: Ask, home: Home, server: ModelServer) -> None:
    need("bwrap")
    cache = home.env["XDG_CACHE_HOME"]
    server.reply(wire.calls(HELLO), wire.says("done"))
    result = ask.shell(f"bwrap --dev-bind / / --ro-bind {cache} {cache} -- ask hi", timeout=60)
    assert (result.text, "ask: " in result.stderr) == ("done\n", False)
    assert told(server.requests[-1]) == "hello"
    assert len(pids(home)) == 2


def test_two_runs_at_once_keep_a_whole_list(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program(RAW)})
    server.reply(wire.says("done"))
    with ask.start("hi") as one, ask.start("hi") as other:
        assert [one.finish(60).text, other.finish(60).text] == ["done\n", "done\n"]
    assert [path.name for path in kept_file(home).parent.iterdir()] == ["raw.json"]
    assert ask("hi").text == "done\n"
    assert len(pids(home)) == 2
    assert all_tools(server)[0] == all_tools(server)[1] == all_tools(server)[2]


def test_notes_about_what_is_left_out_come_every_time(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program(RAW, "many")})
    server.reply(wire.says("done"))
    first, second = (ask("hi", timeout=60).stderr for _ in range(2))
    assert "ask: the MCP server raw has 10,000 tools, of which the first 128 are offered: " in first
    assert first == second
    assert len(pids(home)) == 1
    assert all_tools(server)[0] == all_tools(server)[1]


def test_only_those_whose_list_is_not_kept_are_started(ask: Ask, home: Home, server: ModelServer) -> None:
    servers = {name: program(RAW, cwd=name) for name in ("one", "two")}
    for name in servers:
        (home.work / name).mkdir()
    server.reply(wire.says("done"))
    for names in (["one"], ["one", "two"], ["one", "two"]):
        configure(home, {name: servers[name] for name in names})
        assert ask("hi", timeout=60).text == "done\n"
    starts = {name: (home.work / name / "received").read_text().count('"pid"') for name in servers}
    assert starts == {"one": 1, "two": 1}
    assert [name.partition("__")[0] for name in offered(server.requests[2])] == ["one"] * 20 + ["two"] * 20


# The first call


@pytest.mark.usefixtures("raw")
def test_the_first_call_starts_it_and_the_run_keeps_it(ask: Ask, home: Home, server: ModelServer) -> None:
    result, answers = ask_with_calls(ask, server, [HELLO, ("raw__echo", {"text": "again"}), ("raw__fails", {})])
    assert (result.code, answers) == (0, ["hello", "again", "it went wrong"])
    assert len(pids(home)) == 2
    assert received(home)[-1] == {"method": "end of input"}
    assert not is_running(pids(home)[-1])


@pytest.mark.usefixtures("raw")
def test_a_terminal_shows_what_is_waited_for(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(HELLO), wire.says("done"), wire.says("none"))
    called, uncalled = (ask.on_terminal("hi", timeout=60).text for _ in range(2))
    assert "starting raw\x1b[0m\r\x1b[2K" in called, "and takes it away again"
    assert "starting" not in uncalled


@pytest.mark.usefixtures("raw")
def test_a_chat_starts_it_once(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(
        *(wire.says("none"), wire.calls(HELLO), wire.says("first")),
        *(wire.calls(("raw__echo", {"text": "2"})), wire.says("second")),
    )
    result = ask("chat", stdin=b"zero\none\ntwo\n", timeout=60)
    assert result.text == "none\nfirst\nsecond\n"
    assert len(pids(home)) == 2
    assert received(home)[-1] == {"method": "end of input"}


@pytest.mark.usefixtures("raw")
def test_a_start_that_is_interrupted_in_a_chat_is_tried_again(ask: Ask, home: Home, server: ModelServer) -> None:
    set_mode(home, "silent")
    server.reply(wire.calls(HELLO), wire.calls(("raw__echo", {"text": "then"})), wire.says("done"))
    with Chat(ask) as chat:
        chat.type_in("one\r")
        wait_until(lambda: methods(home).count("server/discover") == 2, "nothing was started")
        chat.type_in(CTRL_C)
        chat.prompted()
        silent = pids(home)[-1]
        wait_until(lambda: not is_running(silent), "the one that kept silent runs on")
        set_mode(home, "good")
        chat.type_in("two\r")
        chat.running.wait_for("done", 60)
        chat.prompted()
        assert chat.leave().code == 0
    assert told(server.requests[-1]) == "then"
    assert len(pids(home)) == 3


# What has changed meanwhile


@pytest.mark.usefixtures("raw")
def test_one_that_cannot_be_started_is_told_as_the_calls_result_and_by_the_next_run(
    ask: Ask, home: Home, server: ModelServer
) -> None:
    set_mode(home, "exits")
    result, answers = ask_with_calls(ask, server, [HELLO, ("raw__env", {})])
    said = "the MCP server raw cannot be used: exit status 3: \\x1b[31mno such database: what it wrote is in "
    assert (result.code, result.text) == (0, "done\n")
    assert [answer.partition(home.env["XDG_DATA_HOME"])[0] for answer in answers] == [f"Error: {said}"] * 2
    assert not kept_file(home).exists()
    server.reply(wire.says("done"))
    after = ask("hi", timeout=60)
    assert after.stderr.startswith(f"ask: {said}")
    assert offered(server.requests[-1]) == {}


@pytest.mark.usefixtures("raw")
def test_one_that_keeps_silent_is_waited_for_once(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program(RAW, timeout=5)})
    assert ask("mcp", "test", timeout=60).code == 0
    set_mode(home, "silent")
    _, answers = ask_with_calls(ask, server, [HELLO, ("raw__env", {}), ("raw__fails", {})])
    assert answers == ["Error: the MCP server raw cannot be used: it did not answer within 5 s"] * 3
    assert len(pids(home)) == 3


@pytest.mark.usefixtures("raw")
def test_a_tool_that_is_gone_is_told_and_the_next_run_has_the_new_list(
    ask: Ask, home: Home, server: ModelServer
) -> None:
    set_mode(home, "fewer")
    _, answers = ask_with_calls(ask, server, [("raw__fails", {}), HELLO, HELLO])
    gone = "Error: nothing was run: the MCP server raw no longer lists the tool 'echo'"
    assert answers == ["it went wrong", gone, gone]
    assert len({json.dumps(tools) for tools in all_tools(server)}) == 1, "the request prefix stays the same"
    server.reply(wire.says("done"))
    assert ask("hi").text == "done\n"
    assert "raw__echo" not in offered(server.requests[-1])
    assert "raw__env" in offered(server.requests[-1])
    assert len(pids(home)) == 2


@pytest.mark.usefixtures("raw")
def test_one_that_does_not_only_read_any_more_is_not_run_unasked(ask: Ask, home: Home, server: ModelServer) -> None:
    set_mode(home, "writes")
    _, [answer] = ask_with_calls(ask, server, [HELLO], "--confirm")
    assert answer.startswith("Error: nothing was run: the MCP server raw no longer says that 'echo' only reads")
    assert not [entry for entry in received(home) if entry.get("method") == "tools/call"]
    result, [answer] = ask_with_calls(ask, server, [HELLO], "--confirm")
    assert (result.code, answer) == (8, "Error: denied: nobody is there to approve it")


@pytest.mark.usefixtures("raw")
def test_an_sdk_that_is_gone_is_told(ask: Ask, home: Home, server: ModelServer) -> None:
    (home.path / "mcp.py").write_text("raise ImportError('too old')\n")
    server.reply(wire.calls(HELLO), wire.says("done"))
    assert ask("hi", env={"PYTHONPATH": str(home.path)}).text == "done\n"
    assert told(server.requests[-1]).startswith("Error: the package mcp cannot be used (too old): ")


def test_one_that_is_elsewhere_is_reached_at_the_first_call(
    start: Start, ask: Ask, home: Home, server: ModelServer
) -> None:
    port, running = start("http")
    configure(home, {"web": {"url": f"http://127.0.0.1:{port}/mcp", "timeout": 60}})
    calls: list[wire.Call] = [("web__add", {"a": 1, "b": 2})]
    for _ in range(2):
        _, answers = ask_with_calls(ask, server, calls)
        assert answers == ["3"]
    running.__exit__(None, None, None)
    server.reply(wire.says("done"))
    assert ask("hi").stderr == "", "nobody needs it"
    _, [answer] = ask_with_calls(ask, server, calls)
    assert answer.startswith("Error: the MCP server web cannot be used: it cannot be reached")
    assert ask("hi", timeout=60).stderr.startswith("ask: the MCP server web cannot be used: it cannot be reached")


# Safe mode, and the commands


@pytest.mark.usefixtures("raw")
def test_in_safe_mode_a_list_serves_only_those_that_may_be_started(ask: Ask, home: Home, server: ModelServer) -> None:
    need("bwrap")
    server.reply(wire.says("done"))
    assert ask("--safe", "hi", timeout=60).text == "done\n"
    assert offered(server.requests[-1]) == {}
    assert ask("--safe", "--allow-tool", "raw__echo", "hi", timeout=60).text == "done\n"
    assert list(offered(server.requests[-1])) == ["raw__echo"]
    assert len(pids(home)) == 1
    _, answers = ask_with_calls(ask, server, [HELLO, ("raw__env", {})], "--safe", "--allow-tool", "raw__echo")
    assert answers[0] == "hello"
    assert answers[1].startswith("Error: there is no tool 'raw__env'")
    assert len(pids(home)) == 2


@pytest.mark.usefixtures("raw")
@pytest.mark.parametrize("command", [("test",), ("test", "raw"), ("list", "raw"), ("list", "--tools")])
def test_the_commands_start_it_and_keep_what_it_lists(command: tuple[str, ...], ask: Ask, home: Home) -> None:
    set_mode(home, "fewer")
    assert ask("mcp", *command, timeout=60).code == 0
    assert len(pids(home)) == 2
    assert "raw__echo" not in [row["name"] for row in json.loads(ask("tools", "--json").text)]
    set_mode(home, "exits")
    assert ask("mcp", *command, timeout=60).code == 4
    assert not kept_file(home).exists()


@pytest.mark.usefixtures("raw")
def test_nothing_is_kept_of_one_that_is_removed_or_added(ask: Ask, home: Home) -> None:
    assert kept_file(home).exists()
    assert ask("mcp", "remove", "raw").code == 0
    assert not kept_file(home).exists()
    kept_file(home).write_text("of another one")
    assert ask("mcp", "add", "raw", "--", sys.executable, RAW).code == 0
    assert not kept_file(home).exists()


@pytest.mark.usefixtures("raw")
def test_ask_tools_lists_what_is_kept(ask: Ask, home: Home) -> None:
    rows = {row["name"]: row for row in json.loads(ask("tools", "--json").text)}
    assert (rows["raw__echo"]["from"], rows["raw__echo"]["offered"]) == ("mcp:raw", True)
    assert len(pids(home)) == 1


def test_ask_tools_starts_no_server_that_safe_mode_does_not(ask: Ask, home: Home) -> None:
    (home.work / "mine.py").write_text('def mine() -> None:\n    """Do it."""\n')

    def listed(*allowed: str) -> tuple[dict[str, Any], str]:
        safe = {"enabled": True, "allow_tools": [*allowed]}
        configure(home, {"raw": program(RAW), "off": program(RAW, enabled=False)}, safe=safe)
        result = ask("tools", "--json", "--tool", "mine.py:mine", timeout=60)
        return {row["name"]: row for row in json.loads(result.text)}, result.stderr

    rows, said = listed()
    assert said == "ask: safe mode does not start the MCP server raw: ask mcp list raw lists its tools\n"
    assert pids(home) == []
    assert not [name for name in rows if "__" in name]
    assert rows["mine"]["offered"] is False, "what else there is, is listed"
    rows, said = listed("raw__echo")
    assert (rows["raw__echo"]["offered"], rows["raw__env"]["offered"], said) == (True, False, "")
    assert len(pids(home)) == 1
    rows, said = listed()
    assert (rows["raw__echo"]["safe"], said) == ("only with --allow-tool raw__echo", "")
    assert len(pids(home)) == 1
