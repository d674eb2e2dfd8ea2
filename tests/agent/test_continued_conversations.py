"""`-c` and `--resume`: which conversation is continued, with which model, and errors if there is none."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests import wire
from tests.model_server import NOT_FOUND, ModelServer, Reply, Request
from tests.program import TEST_KEY, Ask, Home, Result, Running
from tests.provider_wires import SERVICES
from tests.saved_history import history_file, read_conversations, read_saved_runs, save_run


@pytest.fixture(autouse=True)
def reply_with_last_word(server: ModelServer) -> None:
    """Answer every question with its last word."""

    def answer(request: Request) -> Reply:
        if request.path.endswith("/responses"):
            return NOT_FOUND
        return wire.says(f"Answer {user_contents(request)[-1].rsplit(maxsplit=1)[-1]}.")

    server.reply(answer)


def user_contents(request: Request) -> list[str]:
    """Return the contents of a request's user messages."""
    body = request.json
    return [wire.asked(body, n) for n, message in enumerate(body["messages"]) if message["role"] == "user"]


def last_user_contents(server: ModelServer) -> list[str]:
    return user_contents(server.requests[-1])


def check_refused(result: Result, *words: str) -> None:
    assert (result.text, result.code) == ("", 2)
    [line] = result.stderr.splitlines()
    assert all(word in line for word in words), line


# Terminals


def type_command(ask: Ask, running: Running, command: str, place: int) -> int:
    """Type a command into a shell and wait for its answer. Returns the end position of the answer."""
    running.type_in(f"{command}\n")
    return running.wait_for(f"Answer {command.rsplit(maxsplit=1)[-1]}.", after=place)


@pytest.mark.slow
def test_each_terminal_continues_its_own_conversation(ask: Ask, server: ModelServer) -> None:
    def shell() -> Running:
        return Running(["bash", "--norc", "--noprofile"], env=ask.env, cwd=ask.cwd, terminal=True)

    with shell() as left, shell() as right:
        place = type_command(ask, left, "ask left one", 0)
        other = type_command(ask, right, "ask right two", 0)
        place = type_command(ask, left, "ask -c three", place)
        assert last_user_contents(server) == ["left one", "three"]
        type_command(ask, right, "(ask -c -q four | cat); ask -c five", other)
        assert last_user_contents(server) == ["right two", "four", "five"]
        type_command(ask, left, "ask -c six", place)
        assert last_user_contents(server) == ["left one", "three", "six"]


AGAIN = """
script -qec "ask hi one; tty" /dev/null
script -qec "ask -q -c hi two; echo code \\$?; tty" /dev/null
"""


@pytest.mark.slow
@pytest.mark.needs("bwrap")
def test_a_terminal_with_the_number_of_a_closed_one_has_no_conversation(ask: Ask, server: ModelServer) -> None:
    """In a new mount namespace, pseudoterminals are numbered from 0."""
    result = ask.shell(f"bwrap --dev-bind / / --dev /dev -- bash -c '{AGAIN}'")
    assert result.text.count("/dev/pts/0") == 2
    assert "on this terminal" in result.text
    assert "code 2" in result.text
    assert len(server.requests) == 1


@pytest.mark.slow
def test_a_new_terminal_offers_the_last_conversation_of_the_folder(ask: Ask, server: ModelServer, home: Home) -> None:
    other = ask("an older one").conversation
    last = ask("fix the failing test one").conversation
    Ask(ask.env, home.path)("elsewhere")
    accepted = ask.on_terminal("-c", "two", answers=[("Continue it? [y/N]", "y\n")])
    assert (accepted.code, accepted.conversation) == (0, last)
    assert "fix the failing test" in accepted.text
    assert last_user_contents(server) == ["fix the failing test one", "two"]
    again = ask.on_terminal("-c", "three", answers=[("Continue it? [y/N]", "\n")])
    assert again.code == 2
    assert last in again.text
    assert other not in again.text


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["-q", "-c", "two"], ["-c", "two", "--resume", "1"]])
def test_nothing_is_offered_when_nobody_should_be_asked(arguments: list[str], ask: Ask, server: ModelServer) -> None:
    ask("one")
    result = ask.on_terminal(*arguments)
    assert result.code == 2
    assert "[y/N]" not in result.text
    assert len(server.requests) == 1


def test_a_chat_on_a_new_terminal_offers_the_last_conversation_of_the_folder(ask: Ask, server: ModelServer) -> None:
    ask("one")
    accepted = ask.on_terminal(
        "chat", "-c", answers=[("Continue it? [y/N]", "y\n"), ("\x1b[0;1m>", "two\r"), ("Answer two", "\x04")]
    )
    assert accepted.code == 0
    assert last_user_contents(server) == ["one", "two"]


@pytest.mark.slow
def test_a_named_session_continues_in_any_directory_or_terminal(ask: Ask, server: ModelServer, home: Home) -> None:
    ask("one", env={"ASK_SESSION": "a"})
    ask("two", env={"ASK_SESSION": "b"})
    ask("three")
    elsewhere = Ask(ask.env, home.path)
    elsewhere("-c", "four", env={"ASK_SESSION": "a"})
    assert last_user_contents(server) == ["one", "four"]
    elsewhere.on_terminal("-c", "five", env={"ASK_SESSION": "b"})
    assert last_user_contents(server) == ["two", "five"]
    check_refused(ask("-c", "six", env={"ASK_SESSION": "c"}), "on this terminal")


def test_a_session_name_may_be_any_bytes(ask: Ask, server: ModelServer) -> None:
    for arguments in (["one"], ["-c", "two"]):
        assert ask(*arguments, env={"ASK_SESSION": "\udcff\udcfe"}).code == 0
    assert last_user_contents(server) == ["one", "two"]


# No terminal


def test_without_a_terminal_the_newest_in_the_directory_is_continued(ask: Ask, server: ModelServer, home: Home) -> None:
    ask("one")
    Ask(ask.env, home.path)("elsewhere")
    ask.on_terminal("two")
    ask("-c", "three")
    assert last_user_contents(server) == ["two", "three"]
    ask("-c", "four")
    assert last_user_contents(server) == ["two", "three", "four"]


def test_nothing_to_continue_is_an_error_and_creates_no_file(ask: Ask, server: ModelServer, home: Home) -> None:
    check_refused(ask("-c", "hi"), "in this folder", "ask history list")
    check_refused(ask("--resume", "abc", "hi"), "'abc'", "ask history list")
    assert not home.data.exists()
    ask("hi")
    check_refused(Ask(ask.env, home.path)("-c", "hi"), "in this folder")
    assert len(server.requests) == 1


def test_a_deleted_conversation_cannot_be_continued(ask: Ask, home: Home, server: ModelServer) -> None:
    ask("one")
    two = ask("two").conversation
    assert ask("history", "delete", "--yes", two).code == 0
    ask("-c", "three")
    assert last_user_contents(server) == ["one", "three"]
    check_refused(ask("--resume", two, "hi"), f"'{two}'")


# --resume


def test_a_conversation_is_resumed_by_id_prefix_or_position(ask: Ask, server: ModelServer, home: Home) -> None:
    ids = [ask(word).conversation for word in ("one", "two", "three")]
    ask("--resume", ids[0], "four")
    assert last_user_contents(server) == ["one", "four"]
    ask("--resume", "2", "five")
    assert last_user_contents(server) == ["three", "five"]
    assert ask("--resume", ids[1][:11], "six").conversation == ids[1]
    assert last_user_contents(server) == ["two", "six"]
    assert len(read_conversations(history_file(home))) == 3


def test_a_conversation_is_resumed_by_words_of_its_title(ask: Ask, server: ModelServer) -> None:
    for question in ("fix the failing test one", "why is the sky blue?", "Is the failing heart treatable?"):
        ask(question)
    ask("--resume", "TEST failing", "two")
    assert last_user_contents(server) == ["fix the failing test one", "two"]
    refused = ask("--resume", "failing", "three")
    check_refused(refused, "'failing'", "(fix the failing test one, now)", "(Is the failing heart treatable?, now)")
    check_refused(ask("--resume", "failing rocket", "three"), "'failing rocket'")
    assert "why is the sky blue?" in ask("history", "show", "sky").text
    assert ask("history", "delete", "--yes", "sky").code == 2


def test_an_unknown_or_ambiguous_id_is_an_error(ask: Ask, server: ModelServer, home: Home) -> None:
    save_run(history_file(home), "abc1")
    save_run(history_file(home), "abc2")
    check_refused(ask("--resume", "abc", "hi"), "abc1 ", "abc2 ")
    for wanted in ("3", "x", "", "0"):
        check_refused(ask("--resume", wanted, "hi"), f"'{wanted}'")
    check_refused(ask("-c", "--resume", "abc1", "hi"), "--continue", "--resume")
    assert server.requests == []


# With whom


@pytest.fixture
def ask_all_providers(ask: Ask, server: ModelServer) -> Ask:
    root = server.base_url.removesuffix("/api/v1")
    keys = {f"{name.upper()}_API_KEY": TEST_KEY for name in SERVICES}
    return Ask({**ask.env, **keys, **{f"{n.upper()}_BASE_URL": root + s.address for n, s in SERVICES.items()}}, ask.cwd)


def saved_models(home: Home) -> list[str]:
    return [f"{run.provider}:{run.model}" for run in read_saved_runs(home)]


def test_a_conversation_keeps_its_model_and_system_prompt(
    ask_all_providers: Ask, server: ModelServer, home: Home
) -> None:
    ask, path = ask_all_providers, ["-m", "openrouter:some/model"]
    ask(*path, "-s", "Speak Esperanto.", "one")
    ask("-c", "two", env={"ASK_PROVIDER": "openai", "ASK_MODEL": "gpt"})
    body = server.requests[-1].json
    assert body["model"] == "some/model"
    assert "Speak Esperanto." in wire.asked(body, 0)
    ask("-c", "-s", "Speak French.", "three")
    assert "Speak Esperanto." not in server.requests[-1].body.decode()
    ask("-c", "four")
    assert "Speak French." in server.requests[-1].body.decode()
    assert saved_models(home) == ["openrouter:some/model"] * 4


def test_options_choose_another_provider_or_model(ask_all_providers: Ask, server: ModelServer, home: Home) -> None:
    ask = ask_all_providers
    ask("-p", "openrouter", "-m", "some/model", "one")
    ask("-c", "-p", "openrouter", "two")
    ask("-c", "-m", "other/model", "three")
    ask("-c", "-p", "deepseek", "four")
    ask("-c", "-m", "openai:gpt-test", "five")
    ask("-c", "six")
    own = SERVICES["deepseek"].provider.info.default_model
    assert saved_models(home) == [
        *("openrouter:some/model", "openrouter:some/model", "openrouter:other/model", f"deepseek:{own}"),
        *("openai:gpt-test", "openai:gpt-test"),
    ]
    assert last_user_contents(server) == ["one", "two", "three", "four", "five", "six"]


def test_a_provider_that_is_no_longer_installed_is_an_error(
    ask_all_providers: Ask, server: ModelServer, home: Home
) -> None:
    save_run(history_file(home), "abc", provider="gone", directory=str(home.work))
    result = ask_all_providers("-c", "hi")
    assert (result.code, result.text) == (4, "")
    assert "provider 'gone'" in result.stderr
    assert ask_all_providers("-c", "-p", "openrouter", "hi").code == 0


# Not saving


def test_a_conversation_can_be_continued_without_saving(ask: Ask, server: ModelServer, home: Home) -> None:
    ask("one")
    before = history_file(home).read_bytes()
    result = ask("-c", "--no-save", "two")
    assert (result.text, result.conversation) == ("Answer two.\n", "")
    assert last_user_contents(server) == ["one", "two"]
    assert history_file(home).read_bytes() == before
    assert os.listdir(home.data) == ["history.db"]


@pytest.mark.parametrize(
    "options", [(), pytest.param(("--safe",), marks=[pytest.mark.needs("bwrap"), pytest.mark.slow])]
)
def test_a_run_that_is_not_saved_deletes_only_its_own_results(
    ask: Ask, server: ModelServer, home: Home, options: tuple[str, ...]
) -> None:
    conversation = ask("one").conversation
    folder = home.data / "results"

    def answer(request: Request) -> Reply:
        if request.method == "GET":  # the list of models
            return NOT_FOUND
        (folder / conversation).mkdir(exist_ok=True)
        (folder / conversation / "bash-1.txt").write_text("of another run")  # meanwhile
        [own] = [path for path in folder.glob("*/*") if path.read_bytes() != b"of another run"]
        assert str(own) in "\n".join(wire.list_strings(request.json))
        return wire.says("Done.")

    server.reply(wire.calls(("bash", {"command": "seq 20000"})), answer)
    result = ask("-c", "--no-save", *options, "two")
    assert (result.code, result.text) == (0, "Done.\n"), result.stderr
    assert [str(path.relative_to(folder)) for path in folder.glob("*/*")] == [f"{conversation}/bash-1.txt"]


@pytest.mark.parametrize(
    "options",
    [(), ("--safe-files",), pytest.param(("--safe",), marks=[pytest.mark.needs("bwrap"), pytest.mark.slow])],
)
def test_a_run_that_is_not_saved_reads_the_results_of_earlier_ones(
    ask: Ask, server: ModelServer, home: Home, options: tuple[str, ...]
) -> None:
    ask("one")
    server.reply(wire.calls(("bash", {"command": "seq 20000"})), wire.says("Done."))
    ask("-c", "two")
    [earlier] = (home.data / "results").glob("*/*")
    server.reply(wire.calls(("read_file", {"filepath": str(earlier), "offset": 19999})), wire.says("Done."))
    result = ask("-c", "--no-save", *options, "three")
    assert (result.code, result.text) == (0, "Done.\n"), result.stderr
    assert "20000" in "\n".join(wire.list_strings(server.requests[-1].json["messages"][-1]))
    assert list((home.data / "results").glob("*/*")) == [earlier]
    server.reply(wire.calls(("write_file", {"filepath": str(earlier), "content": ""})), wire.says("Done."))
    if options:
        ask("-c", "--no-save", *options, "--yes", "four")
        assert earlier.stat().st_size


def test_history_can_be_disabled(ask: Ask, server: ModelServer, home: Home) -> None:
    home.configure("[history]\nenabled = false\n")
    told = json.loads(ask("--json", "one").text)
    assert told["saved"] is False
    assert ask("two").conversation == ""
    assert not home.data.exists()
    check_refused(ask("-c", "three"), "conversation")
    home.configure("")
    ask("four")
    home.configure("[history]\nenabled = false\n")
    ask("-c", "five")
    assert last_user_contents(server) == ["four", "five"]
    assert len(read_saved_runs(home)) == 1


def test_a_directory_is_identified_by_its_real_path(ask: Ask, server: ModelServer, home: Home) -> None:
    Path(home.path / "link").symlink_to(home.work)
    ask("one")
    ask.shell(f"cd {home.path}/link && ask -c two")
    assert last_user_contents(server) == ["one", "two"]
