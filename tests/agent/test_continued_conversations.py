"""`-c` and `--resume`: which conversation goes on, with whom, and what is said where there is none."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests import wire
from tests.model_server import ModelServer, Request
from tests.program import TEST_KEY, Ask, Home, Result, Running
from tests.saved import conversations, history, save_run, saved
from tests.wires import SERVICES


@pytest.fixture(autouse=True)
def answering(server: ModelServer) -> None:
    """Every question is answered by its own last word."""
    server.reply(lambda request: wire.says(f"Answer {asked(request)[-1].rsplit(maxsplit=1)[-1]}."))


def asked(request: Request) -> list[str]:
    """What the user says in a request."""
    body = request.json
    return [wire.asked(body, n) for n, message in enumerate(body["messages"]) if message["role"] == "user"]


def last_asked(server: ModelServer) -> list[str]:
    return asked(server.requests[-1])


def check_refused(result: Result, *words: str) -> None:
    assert (result.text, result.code) == ("", 2)
    [line] = result.stderr.splitlines()
    assert all(word in line for word in words), line


# Terminals


def on_shell(ask: Ask, running: Running, command: str, place: int) -> int:
    """Type a command into a shell, and wait for its answer; the place behind it."""
    running.type_in(f"{command}\n")
    return running.wait_for(f"Answer {command.rsplit(maxsplit=1)[-1]}.", after=place)


def test_each_terminal_continues_its_own_conversation(ask: Ask, server: ModelServer) -> None:
    def shell() -> Running:
        return Running(["bash", "--norc", "--noprofile"], env=ask.env, cwd=ask.cwd, terminal=True)

    with shell() as left, shell() as right:
        place = on_shell(ask, left, "ask left one", 0)
        other = on_shell(ask, right, "ask right two", 0)
        place = on_shell(ask, left, "ask -c three", place)
        assert last_asked(server) == ["left one", "three"]
        on_shell(ask, right, "(ask -c -q four | cat); ask -c five", other)
        assert last_asked(server) == ["right two", "four", "five"]
        on_shell(ask, left, "ask -c six", place)
        assert last_asked(server) == ["left one", "three", "six"]


AGAIN = """
script -qec "ask hi one; tty" /dev/null
script -qec "ask -c hi two; echo code \\$?; tty" /dev/null
"""


@pytest.mark.slow
def test_a_terminal_that_gets_the_number_of_an_earlier_one_begins_anew(ask: Ask, server: ModelServer) -> None:
    """In a world of its own the numbers of terminals begin at 0."""
    result = ask.shell(f"bwrap --dev-bind / / --dev /dev -- bash -c '{AGAIN}'")
    assert result.text.count("/dev/pts/0") == 2
    assert "on this terminal" in result.text
    assert "code 2" in result.text
    assert len(server.requests) == 1


def test_a_terminal_does_not_go_on_with_what_was_said_without_one(ask: Ask) -> None:
    ask("hi", "one")
    result = ask.on_terminal("-c", "two")
    assert result.code == 2
    assert "on this terminal" in result.text


@pytest.mark.slow
def test_a_session_that_is_named_goes_on_wherever_it_is(ask: Ask, server: ModelServer, home: Home) -> None:
    ask("one", env={"ASK_SESSION": "a"})
    ask("two", env={"ASK_SESSION": "b"})
    ask("three")
    elsewhere = Ask(ask.env, home.path)
    elsewhere("-c", "four", env={"ASK_SESSION": "a"})
    assert last_asked(server) == ["one", "four"]
    elsewhere.on_terminal("-c", "five", env={"ASK_SESSION": "b"})
    assert last_asked(server) == ["two", "five"]
    check_refused(ask("-c", "six", env={"ASK_SESSION": "c"}), "on this terminal")


def test_a_session_may_be_named_by_any_bytes(ask: Ask, server: ModelServer) -> None:
    for arguments in (["one"], ["-c", "two"]):
        assert ask(*arguments, env={"ASK_SESSION": "\udcff\udcfe"}).code == 0
    assert last_asked(server) == ["one", "two"]


# No terminal


def test_without_a_terminal_the_newest_in_the_directory_goes_on(ask: Ask, server: ModelServer, home: Home) -> None:
    ask("one")
    Ask(ask.env, home.path)("elsewhere")
    ask.on_terminal("two")
    ask("-c", "three")
    assert last_asked(server) == ["two", "three"]
    ask("-c", "four")
    assert last_asked(server) == ["two", "three", "four"]


def test_nothing_to_continue_is_an_error_and_creates_no_file(ask: Ask, server: ModelServer, home: Home) -> None:
    check_refused(ask("-c", "hi"), "in this directory", "ask history list")
    check_refused(ask("--resume", "abc", "hi"), "'abc'", "ask history list")
    assert not home.data.exists()
    ask("hi")
    check_refused(Ask(ask.env, home.path)("-c", "hi"), "in this directory")
    assert len(server.requests) == 1


def test_one_that_was_deleted_is_gone(ask: Ask, home: Home, server: ModelServer) -> None:
    ask("one")
    two = ask("two").conversation
    assert ask("history", "delete", "--yes", two).code == 0
    ask("-c", "three")
    assert last_asked(server) == ["one", "three"]
    check_refused(ask("--resume", two, "hi"), f"'{two}'")


# --resume


def test_one_is_resumed_by_id_beginning_or_place(ask: Ask, server: ModelServer, home: Home) -> None:
    ids = [ask(word).conversation for word in ("one", "two", "three")]
    ask("--resume", ids[0], "four")
    assert last_asked(server) == ["one", "four"]
    ask("--resume", "2", "five")
    assert last_asked(server) == ["three", "five"]
    assert ask("--resume", ids[1][:11], "six").conversation == ids[1]
    assert last_asked(server) == ["two", "six"]
    assert len(conversations(history(home))) == 3


def test_an_id_of_no_or_several_conversations_is_an_error(ask: Ask, server: ModelServer, home: Home) -> None:
    save_run(history(home), "abc1")
    save_run(history(home), "abc2")
    check_refused(ask("--resume", "abc", "hi"), "abc1, abc2")
    for wanted in ("3", "x", "", "0"):
        check_refused(ask("--resume", wanted, "hi"), f"'{wanted}'")
    check_refused(ask("-c", "--resume", "abc1", "hi"), "--continue", "--resume")
    assert server.requests == []


# With whom


@pytest.fixture
def everyone(ask: Ask, server: ModelServer) -> Ask:
    root = server.base_url.removesuffix("/api/v1")
    keys = {f"{name.upper()}_API_KEY": TEST_KEY for name in SERVICES}
    return Ask({**ask.env, **keys, **{f"{n.upper()}_BASE_URL": root + s.address for n, s in SERVICES.items()}}, ask.cwd)


def models(home: Home) -> list[str]:
    return [f"{run.provider}:{run.model}" for run in saved(home)]


def test_it_goes_on_with_the_same_model_and_system_prompt(everyone: Ask, server: ModelServer, home: Home) -> None:
    ask, path = everyone, ["-m", "openrouter:some/model"]
    ask(*path, "-s", "Speak Esperanto.", "one")
    ask("-c", "two", env={"ASK_PROVIDER": "openai", "ASK_MODEL": "gpt"})
    body = server.requests[-1].json
    assert body["model"] == "some/model"
    assert "Speak Esperanto." in wire.asked(body, 0)
    ask("-c", "-s", "Speak French.", "three")
    assert "Speak Esperanto." not in server.requests[-1].body.decode()
    ask("-c", "four")
    assert "Speak French." in server.requests[-1].body.decode()
    assert models(home) == ["openrouter:some/model"] * 4


def test_options_choose_another_provider_or_model(everyone: Ask, server: ModelServer, home: Home) -> None:
    ask = everyone
    ask("-p", "openrouter", "-m", "some/model", "one")
    ask("-c", "-p", "openrouter", "two")
    ask("-c", "-m", "other/model", "three")
    ask("-c", "-p", "deepseek", "four")
    ask("-c", "-m", "openai:gpt-test", "five")
    ask("-c", "six")
    own = SERVICES["deepseek"].provider.info.default_model
    assert models(home) == [
        *("openrouter:some/model", "openrouter:some/model", "openrouter:other/model", f"deepseek:{own}"),
        *("openai:gpt-test", "openai:gpt-test"),
    ]
    assert last_asked(server) == ["one", "two", "three", "four", "five", "six"]


def test_a_provider_that_is_no_longer_installed_is_an_error(everyone: Ask, server: ModelServer, home: Home) -> None:
    save_run(history(home), "abc", provider="gone", directory=str(home.work))
    result = everyone("-c", "hi")
    assert (result.code, result.text) == (4, "")
    assert "provider 'gone'" in result.stderr
    assert everyone("-c", "-p", "openrouter", "hi").code == 0


# Not saving


def test_it_can_go_on_without_being_saved(ask: Ask, server: ModelServer, home: Home) -> None:
    ask("one")
    before = history(home).read_bytes()
    result = ask("-c", "--no-save", "two")
    assert (result.text, result.conversation) == ("Answer two.\n", "")
    assert last_asked(server) == ["one", "two"]
    assert history(home).read_bytes() == before
    assert os.listdir(home.data) == ["history.db"]


def test_history_can_be_switched_off(ask: Ask, server: ModelServer, home: Home) -> None:
    home.config.mkdir()
    (home.config / "config.toml").write_text("[history]\nenabled = false\n")
    told = json.loads(ask("--json", "one").text)
    assert told["saved"] is False
    assert ask("two").conversation == ""
    assert not home.data.exists()
    check_refused(ask("-c", "three"), "conversation")
    (home.config / "config.toml").write_text("")
    ask("four")
    (home.config / "config.toml").write_text("[history]\nenabled = false\n")
    ask("-c", "five")
    assert last_asked(server) == ["four", "five"]
    assert len(saved(home)) == 1


def test_a_directory_is_known_by_its_real_place(ask: Ask, server: ModelServer, home: Home) -> None:
    Path(home.path / "link").symlink_to(home.work)
    ask("one")
    ask.shell(f"cd {home.path}/link && ask -c two")
    assert last_asked(server) == ["one", "two"]
