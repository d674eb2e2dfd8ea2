"""Commands of packages: found without loading them, run when they are called, never in place of a built-in one."""

from __future__ import annotations

import json
import signal
import time
from dataclasses import replace

import pytest

from tests import wire
from tests.model_server import ModelServer
from tests.program import Ask, Home
from tests.slow_parameters import mark_others_slow
from tests.third_party_plugins import install

SOURCE = """
import asyncio, atexit, os, sys, threading, time
import click
import ask

class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("nested")

class BadHelp(click.Command):
    def get_help(self, context):
        raise ValueError("no help")

silent = BadHelp("silent")

@click.command()
async def awaited():
    pass

@click.command()
@click.argument("number", type=int)
@click.option("--how")
@click.pass_context
def todo(context, number, how):
    '''Print the to-do list.'''
    print("todo", number)
    os.write(1, b"written\\n") if number == 1 else None
    if how == "raise": raise KeyError("lost")
    if how == "click": raise click.ClickException("no list")
    if how == "ask": raise ask.AskError("no list", "make one")
    if how == "exit": context.exit(7)
    if how == "sys.exit": sys.exit(8)
    if how == "message": sys.exit("bye")
    if how == "abort": raise click.Abort
    if how == "folder": print(os.getcwd())
    if how == "stdin": print(sys.stdin.read())
    if how == "text": context.exit("bye")
    if how == "cancel": raise asyncio.CancelledError
    if how == "odd": raise Unprintable
    if how == "interrupt": raise KeyboardInterrupt
    if how == "forever":
        sys.stdout.flush()
        threading.Thread(target=time.sleep, args=(60,)).start()
    if how == "later":
        atexit.register(print, "at exit")
        threading.Thread(target=lambda: (time.sleep(0.3), print("thread"))).start()
    return 5

@click.group()
def team():
    '''Work with a team.'''

@team.command()
def add():
    '''Add a member.'''
    print("added")

def offer(context, parameter, word):
    print("noise")
    return ["red", "rm -rf", "$(id)"]

@click.command()
@click.argument("color", shell_complete=offer)
def choosy(color):
    pass

class Fake:
    pass

def function():
    pass
"""
RESERVED = ["history", "ask", "Loud", "two words", "logs", "auth"]


@pytest.fixture
def ask(ask: Ask, home: Home, server: ModelServer) -> Ask:
    """The installed command with the package ask-todo."""
    server.reply(wire.says("an answer"))
    entry_points = {"todo": "ask_todo:todo", "team": "ask_todo:team", "plain": "ask_todo:function"}
    entry_points |= {"missing": "ask_todo:missing", "broken": "ask_broken:command", "later": "ask_later:command"}
    entry_points |= {"choosy": "ask_todo:choosy", "silent": "ask_todo:silent", "awaited": "ask_todo:awaited"}
    entry_points |= dict.fromkeys(RESERVED, "a:b")
    broken = "print('noise')\nraise ValueError('no')"
    modules = {"ask_todo": SOURCE, "ask_broken": broken, "ask_later": "api_version = 3"}
    packages = install(home.path / "packages", "ask-todo", entry_points, modules, "ask.commands")
    return replace(ask, env={**ask.env, "PYTHONPATH": str(packages)}, installed=True)


def test_a_command_owns_standard_output(ask: Ask) -> None:
    result = ask("todo", "1")
    assert (result.code, sorted(result.text.splitlines()), result.stderr) == (0, ["todo 1", "written"], "")


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    ("how", "code", "shown"),
    [
        ("raise", 4, "KeyError: 'lost' (ask_todo.py, line"),
        ("click", 1, "ask: no list"),
        ("ask", 1, "ask: no list: make one"),
        ("exit", 7, ""),
        ("sys.exit", 8, ""),
        ("message", 1, "ask: bye"),
        ("text", 1, "ask: bye"),
        ("cancel", 4, "todo failed (CancelledError (ask_todo.py, line"),
        ("odd", 4, "todo failed (Unprintable (ask_todo.py, line"),
        ("interrupt", 130, ""),
        ("abort", 130, ""),
    ],
)
def test_a_command_ends_with_its_own_exit_code(how: str, code: int, shown: str, ask: Ask) -> None:
    result = ask("todo", "2", "--how", how)
    assert (result.code, result.text) == (code, "todo 2\n")
    assert shown in result.stderr
    assert result.stderr.count("\n") == bool(shown)


@pytest.mark.slow
def test_a_command_has_the_folder_and_standard_input(ask: Ask, home: Home) -> None:
    (home.work / "below").mkdir()
    assert ask("-C", "below", "todo", "2", "--how", "folder").text.endswith("/below\n")
    assert "some input" in ask("todo", "2", "--how", "stdin", stdin=b"some input").text


def test_python_ends_as_usual_after_a_command(ask: Ask) -> None:
    result = ask("todo", "2", "--how", "later")
    assert (result.code, result.text) == (0, "todo 2\nthread\nat exit\n")


@pytest.mark.slow_after_first
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_wait_for_a_thread(number: signal.Signals, ask: Ask) -> None:
    with ask.start("todo", "2", "--how", "forever") as running:
        running.wait_for("todo 2")
        time.sleep(0.3)
        running.signal(number)
        result = running.finish()
    assert (result.code, result.stderr) == (-number, "")


def test_an_async_command_is_an_error(ask: Ask) -> None:
    result = ask("awaited")
    assert (result.code, result.stderr.count("\n")) == (4, 1)
    assert "async" in result.stderr


@pytest.mark.slow_after_first
@pytest.mark.parametrize("arguments", [["help", "silent"], ["silent", "--help"]])
def test_help_that_fails_names_the_command(arguments: list[str], ask: Ask) -> None:
    result = ask(*arguments)
    assert (result.code, result.stderr.count("\n")) == (4, 1)
    assert "silent" in result.stderr
    assert "ValueError: no help" in result.stderr


@pytest.mark.slow_after_first
@pytest.mark.parametrize("arguments", [["todo"], ["todo", "x"], ["todo", "1", "--nonsense"], ["team", "remove"]])
def test_wrong_arguments_are_usage_errors(arguments: list[str], ask: Ask) -> None:
    result = ask(*arguments)
    assert (result.code, result.text, result.stderr.count("\n")) == (2, "", 1)
    assert f"ask {arguments[0]}" in result.stderr or "ask --" in result.stderr


@pytest.mark.slow
def test_help_shows_a_command_and_its_subcommands(ask: Ask) -> None:
    for arguments in (["todo", "--help"], ["todo", "-h"], ["help", "todo"]):
        assert "Usage: ask todo [OPTIONS] NUMBER" in ask(*arguments).text
    assert "Usage: ask team add" in ask("help", "team", "add").text
    assert "-h, --help" in ask("help", "team", "add").text
    assert ask("team", "add").text == "added\n"


@pytest.mark.slow
def test_help_and_completion_list_commands_without_loading_them(ask: Ask) -> None:
    shown = ask("--help")
    listed = ask("--complete", "commands")
    assert (shown.code, shown.stderr, listed.stderr) == (0, "", "")
    assert "broken" in shown.text
    assert "ask-todo" in shown.text
    assert "two words" not in shown.text
    assert {"todo\task-todo", "broken\task-todo"} <= set(listed.text.splitlines())
    assert ask("why?").stderr == ""


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (["--ho", "todo"], ["--how"]),
        (["--how", "todo", "1"], ["--how"]),
        (["a", "team"], ["add"]),
        (["--", "team", "add"], ["--help"]),
        (["r", "choosy"], ["red"]),
        (["", "broken"], []),
        (["", "missing"], []),
        (["", "plain"], []),
    ],
)
def test_arguments_are_completed_without_output(words: list[str], completed: list[str], ask: Ask) -> None:
    result = ask("--complete", "arguments", *words)
    name, *found = [line.partition("\t")[0] for line in result.text.splitlines()]
    assert (result.code, name, found) == (0, words[1], completed)


@pytest.mark.slow_after_first
@pytest.mark.parametrize("name", ["unknown", "history", "Loud", "", "-q", "--"])
def test_only_commands_of_packages_complete_their_arguments(name: str, ask: Ask) -> None:
    result = ask("--complete", "arguments", "", name)
    assert (result.code, result.text, result.stderr) == (0, "", "")


@pytest.mark.slow
def test_completion_does_not_wait_for_a_slow_module(ask: Ask, home: Home) -> None:
    source = {"ask_slow": "import time\ntime.sleep(60)"}
    packages = install(home.path / "slow", "ask-slow", {"slow": "ask_slow:command"}, source, "ask.commands")
    assert ask("--complete", "arguments", "", "slow", env={"PYTHONPATH": str(packages)}).text == "slow\task-slow\n"


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("broken", "ValueError: no"),
        ("missing", "there is no missing"),
        ("plain", "must be a Click command"),
        ("later", "it needs version 3 of the plugin API, and this ask has version 2: upgrade ask"),
    ],
)
def test_a_command_that_cannot_be_loaded_is_named(name: str, reason: str, ask: Ask, server: ModelServer) -> None:
    result = ask(name)
    assert (result.code, result.text) == (4, "")
    assert f"{name} (ask-todo)" in result.stderr
    assert reason in result.stderr.splitlines()[-1]
    assert not server.requests


@pytest.mark.slow
def test_two_packages_with_one_command_are_named(ask: Ask, home: Home) -> None:
    install(home.path / "packages", "ask-twin", {"todo": "ask_todo:todo"}, {}, "ask.commands")
    result = ask("todo", "1")
    assert result.code == 4
    assert all(name in result.stderr for name in ("ask-todo", "ask-twin", "uninstall"))
    assert ask("team", "add").code == 0


def test_built_in_commands_and_synonyms_come_first(ask: Ask) -> None:
    for name in ("history", "logs"):
        assert ask(name, "--help").text.startswith("Usage: ask history")


@pytest.mark.parametrize(
    "words", mark_others_slow([["Loud"], ["two words"], ["to", "do"], ["--", "todo", "1"], ["-q", "todo", "1"]])
)
def test_everything_else_is_a_question(words: list[str], ask: Ask) -> None:
    assert ask(*words).text == "an answer\n"


@pytest.mark.slow
def test_doctor_names_unusable_commands(ask: Ask) -> None:
    rows = json.loads(ask("doctor", "--offline", "--json").text)
    found = {row["found"]: row["state"] for row in rows if row["check"] == "ask-todo"}
    assert found["command: ask todo"] == "ok"
    assert all(any(name in text and state == "warning" for text, state in found.items()) for name in RESERVED)
    assert sum(state == "problem" for state in found.values()) == 4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import time\ntime.sleep(60)", "still loading"),
        ("class Odd(BaseException): pass\nraise Odd", "Odd"),
        ("import os\nos._exit(3)", "os._exit(3)"),
    ],
)
def test_doctor_survives_a_module_that_does_not(source: str, reason: str, ask: Ask, home: Home) -> None:
    packages = install(home.path / "bad", "ask-bad", {"bad": "ask_bad:command"}, {"ask_bad": source}, "ask.commands")
    rows = json.loads(ask("doctor", "--offline", "--json", env={"PYTHONPATH": str(packages)}).text)
    (found,) = [row["found"] for row in rows if row["check"] == "ask-bad"]
    assert reason in found
