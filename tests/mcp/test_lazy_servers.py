"""A server with a cached tool list is started only when one of its tools is called."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import wire
from tests.cli.chat.chat_session import Chat
from tests.mcp.setting import (
    RAW,
    SDK,
    ask_with_calls,
    cached_list_path,
    configure,
    offered,
    pids,
    program,
    read_last_result,
    received,
    start_server,
)
from tests.mcp.test_shutdown import methods, wait_until
from tests.model_server import ModelServer
from tests.program import CTRL_C, Ask, Home, is_running, make_home
from tests.test_startup import observe

HELLO: wire.Call = ("raw__echo", {"text": "hello"})


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home in which the raw server has been started once."""
    home = make_home(tmp_path_factory.mktemp("used"))
    configure(home, {"raw": program(RAW)})
    assert Ask(home.env, home.work)("-p", "demo", "hi", timeout=60).code == 0
    assert len(pids(home)) == 1
    return home


@pytest.fixture
def raw(used: Home, home: Home) -> None:
    """The configuration of the raw server, whose tool list is cached."""
    shutil.copytree(used.path, home.path, dirs_exist_ok=True)


def set_mode(home: Home, mode: str) -> None:
    """Change how the raw server behaves when it is started next."""
    (home.work / "mode").write_text(mode)


def system_prompts(server: ModelServer) -> list[str]:
    return [request.json["messages"][0]["content"] for request in server.requests]


def all_tools(server: ModelServer) -> list[Any]:
    return [request.json["tools"] for request in server.requests]


# Saved lists


def test_saved_tools_are_offered_unchanged_without_starting_the_server(
    ask: Ask, home: Home, server: ModelServer
) -> None:
    configure(home, {"raw": program(RAW)})
    server.reply(wire.says("done"))
    for _ in range(2):
        assert ask("hi", timeout=60).text == "done\n"
        assert len(pids(home)) == 1
    assert "raw__echo" in offered(server.requests[1])
    assert all_tools(server)[0] == all_tools(server)[1]
    assert system_prompts(server)[0] == system_prompts(server)[1]
    assert cached_list_path(home).stat().st_mode & 0o777 == 0o600


@pytest.mark.slow
@pytest.mark.usefixtures("raw")
def test_neither_the_sdk_nor_asyncio_is_loaded_for_a_saved_list(home: Home) -> None:
    modules = observe(home, "-p", "demo", "hi").modules
    heavy = ("mcp", "mcp_types", "asyncio", "anyio", "pydantic", "httpx2")
    assert "ask.mcp.tool_list_cache" in modules
    assert not {name for name in modules if name.split(".")[0] in heavy or name == "ask.mcp.connection_pool"}
    assert len(pids(home)) == 1


def test_the_saved_list_contains_no_secrets(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program(RAW, env={"TOKEN": "$SECRET", "OTHER": "0ther-v4lue"})})
    server.reply(wire.says("done"))
    for secret in ("s3cr3t-one", "s3cr3t-one", "s3cr3t-two"):
        assert ask("hi", env={"SECRET": secret}, timeout=60).code == 0
        assert not any(value in cached_list_path(home).read_text() for value in (secret, "0ther-v4lue"))
    assert len(pids(home)) == 2, "a different value means a different server"


def test_a_changed_script_is_started_again(ask: Ask, home: Home, server: ModelServer) -> None:
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
def test_an_expired_list_is_fetched_again(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(wire.says("done"))
    table = json.loads(cached_list_path(home).read_text())
    cached_list_path(home).write_text(json.dumps({**table, "time": table["time"] - 86_400}))
    for _ in range(2):
        assert ask("hi", timeout=60).text == "done\n"
        assert len(pids(home)) == 2


@pytest.mark.usefixtures("raw")
def test_an_unreadable_list_is_replaced(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(wire.says("done"))
    cached_list_path(home).write_bytes(b'{"format": 1, "tools": 5}')  # test_kept has all else that is no list
    for _ in range(2):
        result = ask("hi", timeout=60)
        assert (result.text, "Traceback" in result.stderr, len(pids(home))) == ("done\n", False, 2)


def test_a_run_works_where_no_list_can_be_saved(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program(RAW)})
    cached_list_path(home).parent.parent.mkdir(parents=True)
    cached_list_path(home).parent.write_text("mine")
    for _ in range(2):
        result, answers = ask_with_calls(ask, server, [HELLO])
        assert (result.text, answers, "ask: " in result.stderr) == ("done\n", ["hello"], False)
    assert len(pids(home)) == 2
    assert cached_list_path(home).parent.read_text() == "mine"


@pytest.mark.slow
@pytest.mark.usefixtures("raw")
@pytest.mark.needs("bwrap")
def test_a_cache_that_is_read_only_is_read(ask: Ask, home: Home, server: ModelServer) -> None:
    cache = home.env["XDG_CACHE_HOME"]
    server.reply(wire.calls(HELLO), wire.says("done"))
    result = ask.shell(f"bwrap --dev-bind / / --ro-bind {cache} {cache} -- ask hi", timeout=60)
    assert (result.text, "ask: " in result.stderr) == ("done\n", False)
    assert read_last_result(server.requests[-1]) == "hello"
    assert len(pids(home)) == 2


@pytest.mark.slow
def test_two_parallel_runs_save_a_complete_list(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program(RAW)})
    server.reply(wire.says("done"))
    with ask.start("hi") as one, ask.start("hi") as other:
        assert [one.finish(60).text, other.finish(60).text] == ["done\n", "done\n"]
    assert [path.name for path in cached_list_path(home).parent.iterdir()] == ["raw.json"]
    assert ask("hi").text == "done\n"
    assert len(pids(home)) == 2
    assert all_tools(server)[0] == all_tools(server)[1] == all_tools(server)[2]


def test_warnings_about_omitted_tools_are_repeated_in_every_run(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program(RAW, "many")})
    server.reply(wire.says("done"))
    first, second = (ask("hi", timeout=60).stderr for _ in range(2))
    assert "more than 128 tools" in first
    assert first == second
    assert len(pids(home)) == 1
    assert all_tools(server)[0] == all_tools(server)[1]


def test_only_servers_without_a_saved_list_are_started(ask: Ask, home: Home, server: ModelServer) -> None:
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
def test_the_first_call_starts_the_server_for_the_rest_of_the_run(ask: Ask, home: Home, server: ModelServer) -> None:
    result, answers = ask_with_calls(ask, server, [HELLO, ("raw__echo", {"text": "again"}), ("raw__fails", {})])
    assert (result.code, answers) == (0, ["hello", "again", "it went wrong"])
    assert len(pids(home)) == 2
    assert received(home)[-1] == {"method": "end of input"}
    assert not is_running(pids(home)[-1])


@pytest.mark.slow
@pytest.mark.usefixtures("raw")
def test_a_terminal_shows_that_the_server_is_starting(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(HELLO), wire.says("done"), wire.says("none"))
    called, uncalled = (ask.on_terminal("hi", timeout=60).text for _ in range(2))
    assert "starting raw\x1b[0m\r\x1b[2K" in called, "and takes it away again"
    assert "starting" not in uncalled


@pytest.mark.usefixtures("raw")
def test_a_chat_starts_the_server_once(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(
        *(wire.says("none"), wire.calls(HELLO), wire.says("first")),
        *(wire.calls(("raw__echo", {"text": "2"})), wire.says("second")),
    )
    result = ask("chat", stdin=b"zero\none\ntwo\n", timeout=60)
    assert result.text == "none\nfirst\nsecond\n"
    assert len(pids(home)) == 2
    assert received(home)[-1] == {"method": "end of input"}


@pytest.mark.slow
@pytest.mark.usefixtures("raw")
def test_an_interrupted_start_is_retried_in_a_chat(ask: Ask, home: Home, server: ModelServer) -> None:
    set_mode(home, "silent")
    server.reply(wire.calls(HELLO), wire.calls(("raw__echo", {"text": "then"})), wire.says("done"))
    with Chat(ask) as chat:
        chat.type_in("one\r")
        wait_until(lambda: methods(home).count("server/discover") == 2, "the server was not started")
        chat.type_in(CTRL_C)
        chat.wait_for_prompt()
        silent = pids(home)[-1]
        wait_until(lambda: not is_running(silent), "the silent server still runs")
        set_mode(home, "good")
        chat.type_in("two\r")
        chat.running.wait_for("done", 60)
        chat.wait_for_prompt()
        assert chat.quit().code == 0
    assert read_last_result(server.requests[-1]) == "then"
    assert len(pids(home)) == 3


@pytest.mark.slow
@pytest.mark.usefixtures("raw")
def test_a_call_after_an_interrupted_restart_is_not_run(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(wire.calls(HELLO), wire.says("first"), wire.calls(("raw__die", {})), wire.calls(HELLO))
    server.reply(wire.calls(HELLO), wire.says("done"))
    with Chat(ask) as chat:
        chat.type_in("one\r")
        chat.running.wait_for("first", 60)
        chat.wait_for_prompt()
        set_mode(home, "silent")
        chat.type_in("two\r")
        wait_until(lambda: methods(home).count("server/discover") == 3, "the server was not restarted")
        chat.type_in(CTRL_C)
        chat.wait_for_prompt()
        chat.type_in("three\r")
        chat.running.wait_for("done", 60)
        chat.wait_for_prompt()
        assert chat.quit().code == 0
    assert "nothing was run" in read_last_result(server.requests[-1])
    assert not is_running(pids(home)[-1])


# Servers that changed


@pytest.mark.slow
@pytest.mark.usefixtures("raw")
def test_a_server_that_no_longer_starts_is_reported_in_the_results_and_by_the_next_run(
    ask: Ask, home: Home, server: ModelServer
) -> None:
    set_mode(home, "exits")
    result, answers = ask_with_calls(ask, server, [HELLO, ("raw__env", {})])
    assert (result.code, result.text) == (0, "done\n")
    for answer in answers:
        assert answer.startswith("Error: ")
        assert all(value in answer for value in ("raw", "exit status 3", "no such database", home.env["XDG_DATA_HOME"]))
    assert not cached_list_path(home).exists()
    server.reply(wire.says("done"))
    after = ask("hi", timeout=60)
    assert "no such database" in after.stderr
    assert offered(server.requests[-1]) == {}


@pytest.mark.slow
@pytest.mark.usefixtures("raw")
def test_a_silent_server_delays_only_the_first_call(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program(RAW, timeout=3)})
    assert ask("mcp", "test", timeout=60).code == 0
    set_mode(home, "silent")
    _, answers = ask_with_calls(ask, server, [HELLO, ("raw__env", {}), ("raw__fails", {})])
    assert len(set(answers)) == 1
    assert answers[0].startswith("Error: ")
    assert "3 s" in answers[0]
    assert len(pids(home)) == 3, "the handshake of older revisions goes to the same process"


@pytest.mark.slow
def test_a_silent_server_is_not_started_by_each_run(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program(RAW, timeout=1)})
    set_mode(home, "silent")
    server.reply(wire.says("done"))
    for _ in range(3):
        result = ask("hi", timeout=60)
        assert (result.code, result.text) == (0, "done\n")
        assert "raw" in result.stderr
        assert len(pids(home)) == 1, "the handshake of older revisions goes to the same process"
    assert "ask mcp test raw" in result.stderr
    (home.work / "mode").unlink()
    configure(home, {"raw": program(RAW, timeout=60)})
    assert ask("hi", timeout=60).code == 0
    assert "raw__echo" in offered(server.requests[-1])


@pytest.mark.slow
def test_ask_mcp_test_starts_a_server_that_was_silent(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program(RAW, timeout=2)})
    set_mode(home, "silent")
    server.reply(wire.says("done"))
    assert ask("hi", timeout=60).code == 0
    (home.work / "mode").unlink()
    assert ask("mcp", "test", "raw", timeout=60).code == 0
    assert ask("hi", timeout=60).code == 0
    assert "raw__echo" in offered(server.requests[-1])


@pytest.mark.usefixtures("raw")
def test_a_call_to_a_removed_tool_fails_and_the_next_run_has_the_new_list(
    ask: Ask, home: Home, server: ModelServer
) -> None:
    set_mode(home, "fewer")
    _, answers = ask_with_calls(ask, server, [("raw__fails", {}), HELLO, HELLO])
    failed, *gone = answers
    assert failed == "it went wrong"
    assert len(gone) == 2
    assert all("nothing was run" in answer and "'echo'" in answer for answer in gone)
    assert len({json.dumps(tools) for tools in all_tools(server)}) == 1, "the request prefix stays the same"
    server.reply(wire.says("done"))
    assert ask("hi").text == "done\n"
    assert "raw__echo" not in offered(server.requests[-1])
    assert "raw__env" in offered(server.requests[-1])
    assert len(pids(home)) == 2


@pytest.mark.usefixtures("raw")
def test_a_tool_that_is_no_longer_read_only_needs_approval(ask: Ask, home: Home, server: ModelServer) -> None:
    set_mode(home, "writes")
    _, [answer] = ask_with_calls(ask, server, [HELLO], "--confirm")
    assert "nothing was run" in answer
    assert "'echo'" in answer
    assert not [entry for entry in received(home) if entry.get("method") == "tools/call"]
    result, [answer] = ask_with_calls(ask, server, [HELLO], "--confirm")
    assert (result.code, "denied" in answer) == (8, True)


@pytest.mark.slow
@pytest.mark.usefixtures("raw")
def test_a_broken_sdk_is_reported(ask: Ask, home: Home, server: ModelServer) -> None:
    (home.path / "mcp.py").write_text("raise ImportError('too old')\n")
    server.reply(wire.calls(HELLO), wire.says("done"))
    assert ask("hi", env={"PYTHONPATH": str(home.path)}).text == "done\n"
    assert read_last_result(server.requests[-1]).startswith("Error: ")
    assert "too old" in read_last_result(server.requests[-1])


@pytest.mark.slow
def test_a_remote_server_is_connected_to_at_the_first_call(ask: Ask, home: Home, server: ModelServer) -> None:
    port, running = start_server(SDK)
    configure(home, {"web": {"url": f"http://127.0.0.1:{port}/mcp", "timeout": 60}})
    calls: list[wire.Call] = [("web__add", {"a": 1, "b": 2})]
    with running:
        for _ in range(2):
            _, answers = ask_with_calls(ask, server, calls)
            assert answers == ["3"]
    server.reply(wire.says("done"))
    assert ask("hi").stderr == "", "no call needs it"
    _, [answer] = ask_with_calls(ask, server, calls)
    assert answer.startswith("Error: ")
    assert "web" in answer
    assert "web" in ask("hi", timeout=60).stderr


# The folder in which a server is started


def install_module(home: Home, name: str) -> dict[str, str]:
    """Install the raw server as a module outside of the folder; return the variable by which Python finds it."""
    (home.path / "lib").mkdir()
    shutil.copy(RAW, home.path / f"lib/{name}.py")
    return {"PYTHONPATH": str(home.path / "lib")}


@pytest.mark.slow
def test_a_cloned_project_cannot_replace_a_server_that_is_a_module(ask: Ask, home: Home, server: ModelServer) -> None:
    raw = program("-X", "utf8", "-m", "notes_mcp", env=install_module(home, "notes_mcp"))
    (home.work / "notes_mcp.py").write_text("open('ran', 'w')\n")
    configure(home, {"raw": raw})
    _, answers = ask_with_calls(ask, server, [HELLO])
    assert answers == ["hello"]
    assert not (home.work / "ran").exists()
    configure(home, {"raw": raw | {"cwd": "."}})
    server.reply(wire.says("done"))
    assert ask("hi", timeout=60).text == "done\n"
    assert (home.work / "ran").exists()


@pytest.mark.slow
@pytest.mark.needs("bwrap")
def test_a_call_cannot_replace_an_allowed_server_that_is_a_module(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program("-m", "notes_mcp", env=install_module(home, "notes_mcp"))})
    safe = ("--safe", "--allow-tool", "raw__echo")
    assert ask_with_calls(ask, server, [HELLO], *safe)[1] == ["hello"]
    write: wire.Call = ("write_file", {"filepath": "notes_mcp.py", "content": "open('ran', 'w')"})
    _, answers = ask_with_calls(ask, server, [write, HELLO], *safe)
    assert answers[1] == "hello"
    assert (home.work / "notes_mcp.py").exists()
    assert not (home.work / "ran").exists()


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    "entry",
    [
        {"command": ".venv/bin/python"},
        {"command": "${workspaceFolder}/.venv/bin/python"},
        {"env": {"PYTHONPATH": "src"}},
        {"env": {"NOTES_FILE": "./notes.txt"}},
    ],
)
def test_a_module_of_the_project_is_started_in_it_if_the_entry_names_it(
    entry: dict[str, Any], ask: Ask, home: Home
) -> None:
    for folder in (home.work, home.work / "src"):
        folder.mkdir(exist_ok=True)
        shutil.copy(RAW, folder / "notes_mcp.py")
    (home.work / ".venv/bin").mkdir(parents=True)
    (home.work / ".venv/bin/python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (home.work / ".venv/bin/python").chmod(0o755)
    configure(home, {"raw": program("-m", "notes_mcp") | entry})
    assert ask("mcp", "test", timeout=60).code == 0


@pytest.mark.slow
def test_a_server_that_needs_its_folder_fails_with_a_hint(ask: Ask, home: Home) -> None:
    shutil.copy(RAW, home.work / "notes_mcp.py")
    configure(home, {"raw": program("-m", "notes_mcp")})
    run = ask("mcp", "test", timeout=60)
    assert run.code == 4
    assert "mcp.servers.raw.cwd" in run.text
    configure(home, {"raw": program("-m", "notes_mcp", cwd=".")})
    assert ask("mcp", "test", timeout=60).code == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "is_in_the_folder"),
    [
        ("npx -y @notes/server@1.2 --url=https://example.com/data.json", False),
        ("npm exec notes", False),
        ("npx tsx server.ts", True),
        ("npx -y notes --root=.", True),
        ("npx -y dotenv-cli -e .env -- notes", True),
        ("npm run notes", True),
        ("python3 -W ignore -m notes", False),
        ("python3 -c 0", False),
        ("python3 server -m x", True),
        ("python3 -m notes ../data", True),
        ("sh -c 'npx -y notes'", False),
        ("bash -lc 'source ~/.nvm/nvm.sh && nvm use 22 && exec npx -y notes'", False),
        ("zsh -c 'npx -y notes \"$PWD\"'", True),
        ("dash -c 'cd project && npx -y notes'", True),
        ("sh -c 'npx -y notes \"$(pwd)\"'", True),
        ("sh -c 'npx -y notes `pwd`/data'", True),
        ("sh -c 'npx -y notes $(git rev-parse --show-toplevel)'", True),
        ("sh -c 'FOLDER=$PWD exec npx -y notes'", True),
        ("sh -c 'npx -y notes $0' .", True),
        ("sh -c 'npx tsx server.ts'", True),
        ("sh -c './notes'", True),
        ("env -i TOKEN=1 npx -y notes", False),
        ("env FOLDER=. npx -y notes", True),
        ("uv run --with notes notes", False),
        ("uv run --directory /srv/notes notes", True),
        ("uv run server.py", True),
        ("uv run fastmcp run source/server.py:mcp", True),
        ("uvx notes", True),
        ("pipx run notes", False),
    ],
)
def test_package_runners_start_in_an_empty_folder(
    command: str, is_in_the_folder: bool, ask: Ask, home: Home, server: ModelServer
) -> None:
    name, *arguments = shlex.split(command)
    (home.path / "bin").mkdir()
    script = home.path / "bin" / name
    script.write_text(f"#!/bin/sh\npwd > {home.path}/folder\nexec {sys.executable} {RAW}\n")
    script.chmod(0o755)
    configure(home, {"raw": {"command": str(script), "args": arguments, "timeout": 60}})
    server.reply(wire.says("done"))
    assert ask("hi", timeout=60).text == "done\n"
    folder = Path((home.path / "folder").read_text().strip())
    assert (folder == home.work) is is_in_the_folder
    assert is_in_the_folder or [path.name for path in folder.iterdir()] == ["received"], "the server's own file"


# Safe mode, and the commands


@pytest.mark.slow
@pytest.mark.needs("bwrap")
def test_the_script_of_an_allowed_server_is_read_only_in_safe_mode(ask: Ask, home: Home, server: ModelServer) -> None:
    for name in ("server.py", "other.py"):
        shutil.copy(RAW, home.work / name)
    (home.work / "data.txt").write_text("old")
    other = {"command": "uv", "args": ["--directory", str(home.work), "run", "other.py"], "cwd": "/"}
    hook = {"event": "after_tool", "command": "sh check.sh"}
    configure(home, {"raw": program("server.py", "data.txt"), "other": other}, hooks=[hook])
    command = "for name in server.py other.py data.txt; do echo new > $name; done; echo true > check.sh"
    calls: list[wire.Call] = [("bash", {"command": command}), HELLO]
    result, answers = ask_with_calls(ask, server, calls, "--safe", "--allow-tool", "raw__echo")
    assert answers[1] == "hello"
    assert (home.work / "server.py").read_bytes() == Path(RAW).read_bytes()
    assert [(home.work / name).read_text() for name in ("other.py", "data.txt")] == ["new\n", "new\n"]
    assert str(home.work / "server.py") in result.stderr, result.stderr
    # The scripts that later runs start are named at the end.
    assert "check.sh, other.py were created or changed" in result.stderr.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.usefixtures("raw")
@pytest.mark.needs("bwrap")
def test_safe_mode_offers_only_allowed_tools_of_a_saved_list(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(wire.says("done"))
    assert ask("--safe", "hi", timeout=60).text == "done\n"
    assert offered(server.requests[-1]) == {}
    assert ask("--safe", "--allow-tool", "raw__echo", "hi", timeout=60).text == "done\n"
    assert list(offered(server.requests[-1])) == ["raw__echo"]
    assert len(pids(home)) == 1
    _, answers = ask_with_calls(ask, server, [HELLO, ("raw__env", {})], "--safe", "--allow-tool", "raw__echo")
    assert answers[0] == "hello"
    assert answers[1].startswith("Error: ")
    assert "'raw__env'" in answers[1]
    assert len(pids(home)) == 2


@pytest.mark.slow
@pytest.mark.usefixtures("raw")
@pytest.mark.parametrize("command", [("test",), ("test", "raw"), ("list", "raw"), ("list", "--tools")])
def test_the_commands_start_the_server_and_save_its_list(command: tuple[str, ...], ask: Ask, home: Home) -> None:
    set_mode(home, "fewer")
    assert ask("mcp", *command, timeout=60).code == 0
    assert len(pids(home)) == 2
    assert "raw__echo" not in [row["name"] for row in json.loads(ask("tools", "--json").text)]
    set_mode(home, "exits")
    assert ask("mcp", *command, timeout=60).code == 4
    assert not cached_list_path(home).exists()


@pytest.mark.usefixtures("raw")
def test_adding_or_removing_a_server_deletes_its_saved_list(ask: Ask, home: Home) -> None:
    assert cached_list_path(home).exists()
    assert ask("mcp", "remove", "raw").code == 0
    assert not cached_list_path(home).exists()
    cached_list_path(home).write_text("of another one")
    assert ask("mcp", "add", "raw", "--", sys.executable, RAW).code == 0
    assert not cached_list_path(home).exists()


@pytest.mark.usefixtures("raw")
def test_ask_tools_shows_the_saved_list(ask: Ask, home: Home) -> None:
    rows = {row["name"]: row for row in json.loads(ask("tools", "--json").text)}
    assert (rows["raw__echo"]["from"], rows["raw__echo"]["offered"]) == ("mcp:raw", True)
    assert len(pids(home)) == 1


@pytest.mark.slow
def test_ask_tools_does_not_start_servers_in_safe_mode(ask: Ask, home: Home) -> None:
    (home.work / "mine.py").write_text('def mine() -> None:\n    """Do it."""\n')

    def listed(*allowed: str) -> tuple[dict[str, Any], str]:
        safe = {"enabled": True, "allow_tools": [*allowed]}
        configure(home, {"raw": program(RAW), "off": program(RAW, enabled=False)}, safe=safe)
        result = ask("tools", "--json", "--tool", "mine.py:mine", timeout=60)
        return {row["name"]: row for row in json.loads(result.text)}, result.stderr

    rows, said = listed()
    assert said.count("\n") == 1
    assert "ask mcp list raw" in said
    assert pids(home) == []
    assert not [name for name in rows if "__" in name]
    assert rows["mine"]["offered"] is False, "other tools are listed"
    rows, said = listed("raw__echo")
    assert (rows["raw__echo"]["offered"], rows["raw__env"]["offered"], said) == (True, False, "")
    assert len(pids(home)) == 1
    rows, said = listed()
    assert (rows["raw__echo"]["safe"], said) == ("only with --allow-tool raw__echo", "")
    assert len(pids(home)) == 1
