"""The /commands of `ask chat`, typed on a terminal."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.cli.chat.commands import COMMANDS
from ask.cli.chat.slash_commands import SLASH_COMMANDS, SlashCommandCall, parse_input
from ask.errors import UsageError
from tests import wire
from tests.cli.chat.chat_session import CTRL_J, UP, Chat, answering, conversation, last, named
from tests.model_server import ModelServer
from tests.program import Ask, Home
from tests.saved import said, saved

WRITE = ("write_file", {"filepath": "new.txt", "content": "new\n"})


def answers(server: ModelServer) -> None:
    server.reply(lambda request: wire.says(answering(request)))


def offered(server: ModelServer) -> list[str]:
    return [tool["function"]["name"] for tool in server.requests[-1].json.get("tools", [])]


def system(server: ModelServer) -> str:
    return wire.asked(server.requests[-1].json, 0)


# Reading


def test_every_command_is_carried_out_by_a_function() -> None:
    assert {*COMMANDS, "exit"} == {*SLASH_COMMANDS}


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("/model a:b", SlashCommandCall("model", "a:b")),
        (" /HELP ", SlashCommandCall("help", "")),
        ("/system one\ntwo", SlashCommandCall("system", "one\ntwo")),
        ("/file  a b.txt ", SlashCommandCall("file", "a b.txt")),
        ("//model a", "/model a"),
        ("/etc/passwd has what?", "/etc/passwd has what?"),
        ("/* a comment */", "/* a comment */"),
        ("1/2", "1/2"),
        ("look at\n/model", "look at\n/model"),
    ],
)
def test_a_command_is_told_from_a_message(typed: str, read: SlashCommandCall | str) -> None:
    assert parse_input(typed) == read


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("/modle x", "did you mean /model?"),
        ("/zzz", "/help"),
        ("/retry now", "/retry"),
        ("/file", "PATH"),
        ("/model a\nb", "/model"),
    ],
)
def test_an_invalid_command_is_an_error(typed: str, words: str) -> None:
    with pytest.raises(UsageError) as told:
        parse_input(typed)
    assert words in str(told.value)
    assert "//" in str(told.value) or "type" in str(told.value)


@given(st.text())
def test_a_second_slash_makes_a_message_of_anything(text: str) -> None:
    assert parse_input(f"//{text}") == f"/{text}"


# Typed


@pytest.mark.slow
def test_a_mistake_is_there_to_be_corrected(ask: Ask, server: ModelServer) -> None:
    answers(server)
    with Chat(ask) as chat:
        assert "did you mean /model?" in chat.say("/mdel test/other")
        chat.type_in("\x01\x1b[C\x1b[Co")  # to the beginning, two characters on
        assert "openrouter" in chat.say("")
        chat.say("//model")
    assert last(server) == ["/model"]
    assert server.requests[-1].json["model"] == "test/other"


def test_model_and_provider_change_for_the_messages_that_follow(ask: Ask, server: ModelServer, home: Home) -> None:
    answers(server)
    with Chat(ask, "-m", "test/one") as chat:
        chat.say("one")
        assert "openrouter" in chat.say("/model test/two")
        chat.say("two")
        assert "'nobody'" in chat.say("/provider nobody")
        assert "demo of demo" in chat.say("/model demo:demo")
        assert "demo" in chat.say("hello")
        assert "Asking test/three of openrouter" in chat.say("/model openrouter:test/three")
        chat.say("three")
        chat.leave()
    assert [request.json["model"] for request in server.requests] == ["test/one", "test/two", "test/three"]
    assert len(last(server)) == 7
    assert [run.provider for run in saved(home)] == ["openrouter", "openrouter", "demo", "openrouter"]


@pytest.mark.slow
def test_the_system_text_lasts_with_the_conversation(ask: Ask, server: ModelServer) -> None:
    answers(server)
    session = {"ASK_SESSION": "a"}
    with Chat(ask, "-s", "Be kind.", env=session) as chat:
        assert "Be kind." in chat.say("/system")
        chat.say("one")
        assert "Be kind." in system(server)
        chat.say(f"/system Be brief.{CTRL_J}Be exact.")
        chat.say("two")
        chat.leave()
    ask("-c", "three", env=session)
    assert "Be brief.\nBe exact." in system(server)
    assert "Be kind." not in system(server)
    with Chat(ask, "-c", env=session) as chat:
        assert "Nothing is added" in chat.say("/system -")
        chat.say("four")
        chat.leave()
    assert "Be brief." not in system(server)


@pytest.mark.slow
def test_tools_can_be_taken_from_the_model_and_given_back(ask: Ask, server: ModelServer) -> None:
    answers(server)
    with Chat(ask, "--disable-tool", "bash") as chat:
        assert "The model may call no tools" in chat.say("/tools off")
        chat.say("one")
        assert offered(server) == []
        shown = chat.say("/tools on")
        assert "read_file" in shown
        assert "bash" not in shown
        chat.say("two")
        assert "bash" not in offered(server)
        assert "read_file" in offered(server)
        assert "on, off or list" in chat.say("/tools maybe")


def test_safe_mode_can_be_turned_on_and_never_off(ask: Ask, server: ModelServer, home: Home) -> None:
    outside = home.path / "outside"
    reach = wire.calls(("bash", {"command": f"touch {outside}; touch inside"}))
    server.reply(reach, wire.says("Done."), reach, wire.says("Done."))
    with Chat(ask) as chat:
        assert "Safe mode is off" in chat.say("/safe")
        chat.say("one")
        outside.unlink()
        (ask.cwd / "inside").unlink()
        assert "Safe mode is on" in chat.say("/safe on")
        chat.say("two")
        assert not outside.exists()
        assert (ask.cwd / "inside").exists()
        assert "/safe takes on" in chat.say("/safe off")
        assert "Safe mode is on" in chat.say("/safe")
        assert chat.leave().code == 0


def test_a_file_goes_with_the_next_message_alone(ask: Ask, server: ModelServer) -> None:
    answers(server)
    (ask.cwd / "a.txt").write_text("sweet\n")
    with Chat(ask) as chat:
        assert "b.txt (No such file" in chat.say("/file b.txt")
        assert "1 line" in chat.say("/file a.txt")
        chat.say("one")
        assert last(server) == ['one\n\n<file name="a.txt">\nsweet\n</file>']
        chat.say("two")
        assert last(server)[-1] == "two"


def test_retry_puts_another_answer_in_the_place_of_the_last(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(wire.says("First."), wire.says("Second."), wire.fails(400), wire.says("Third."), wire.says("Fourth."))
    with Chat(ask, env={"ASK_SESSION": "a"}) as chat:
        assert "no message" in chat.say("/retry")
        chat.say("one")
        assert "Second." in chat.say("/retry")
        assert last(server) == ["one"]
        assert [said(run)[-1][1] for run in saved(home)] == ["Second."]
        assert "it failed" in chat.say("/retry")
        assert [said(run)[-1][1] for run in saved(home)] == ["Second."], "what failed takes nothing away"
        assert "Third." in chat.say("/retry")
        chat.say("two")
        assert last(server) == ["one", "Third.", "two"]
        chat.leave()
    assert [said(run)[-1][1] for run in saved(home)] == ["Third.", "Fourth."]


@pytest.mark.slow
def test_retry_after_a_failure_sends_the_message_once_more(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(wire.fails(400), wire.says("Fine."))
    with Chat(ask) as chat:
        chat.say("one")
        assert "Fine." in chat.say("/retry")
        chat.leave()
    assert last(server) == ["one"]
    assert len(saved(home)) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [(), pytest.param(("--no-save",), marks=pytest.mark.slow)], ids=["saved", "not saved"]
)
def test_drop_takes_the_last_exchange_out(ask: Ask, server: ModelServer, home: Home, options: tuple[str, ...]) -> None:
    answers(server)
    with Chat(ask, *options) as chat:
        chat.say("one")
        chat.say("two")
        chat.say("/drop")
        chat.say("three")
        assert last(server) == ["one", "Answer to one.", "three"]
        for _ in range(2):
            chat.say("/drop")
        assert "no message" in chat.say("/drop")
        chat.say("four")
        assert last(server) == ["four"]
        chat.leave()
    if not options:
        assert [said(run)[0][1] for run in saved(home)] == ["four"]


@pytest.mark.slow
def test_what_has_gone_on_elsewhere_is_not_taken_back(ask: Ask, server: ModelServer, home: Home) -> None:
    answers(server)
    session = {"ASK_SESSION": "a"}
    with Chat(ask, env=session) as chat:
        chat.say("one")
        ask("-c", "elsewhere", env=session)
        for command in ("/drop", "/retry"):
            assert "has gone on elsewhere" in chat.say(command)
    assert len(saved(home)) == 2


@pytest.mark.slow
def test_undo_puts_back_what_the_last_run_changed(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(WRITE), wire.says("Written."))
    new = ask.cwd / "new.txt"
    with Chat(ask) as chat:
        chat.say("write it")
        assert new.exists()
        chat.type_in("/undo\r")
        chat.running.wait_for("[y/N]")
        chat.type_in("y\r")
        assert "ask: done" in chat.prompted()
        assert not new.exists()
        chat.say("/undo --redo --yes")
        assert new.exists()
        assert "No such option" in chat.say("/undo --nonsense")
        assert chat.leave().code == 0


@pytest.mark.slow
def test_compact_puts_a_summary_in_the_place_of_what_is_old(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("A " * 500), wire.says("Two."), wire.says("All in short."), wire.says("Three."))
    with Chat(ask) as chat:
        assert "nothing" in chat.say("/compact")
        chat.say("one")
        chat.say("two")
        assert "summary" in chat.say("/compact")
        chat.say("three")
        chat.leave()
    summary, *rest = last(server)
    assert summary.endswith("All in short.\n\ntwo"), "what the user says in a row is one message of the request"
    assert rest == ["Two.", "three"]


@pytest.mark.slow
def test_a_conversation_is_saved_to_a_file(ask: Ask, server: ModelServer) -> None:
    answers(server)
    with Chat(ask) as chat:
        assert "nothing is saved" in chat.say("/save chat.md")
        chat.say("one")
        assert "to chat.json" in chat.say("/save chat.json")
        name = named(chat.leave())
    assert json.loads((ask.cwd / "chat.json").read_text())["id"] == name


@pytest.mark.slow
def test_cost_and_help_are_told_even_with_quiet(ask: Ask, server: ModelServer) -> None:
    answers(server)
    with Chat(ask, "-q") as chat:
        chat.say("one")
        chat.say("two")
        assert "2 messages, no tool calls, 20 tokens in, 10 out" in chat.say("/cost")
        shown = chat.say("/help")
        assert all(f"/{name}" in shown for name in SLASH_COMMANDS)
        assert all(len(line) < 80 for line in shown.splitlines())


@pytest.mark.slow
def test_clear_begins_a_new_conversation(ask: Ask, server: ModelServer, home: Home) -> None:
    answers(server)
    with Chat(ask) as chat:
        chat.say("one")
        chat.say("/clear")
        chat.say("two")
        chat.leave()
    assert [conversation(request) for request in server.requests] == [["one"], ["two"]]
    assert len({run.number for run in saved(home)}) == 2


@pytest.mark.slow
def test_a_named_prompt_asks_the_first_message(ask: Ask, server: ModelServer) -> None:
    answers(server)
    with Chat(ask, "-t", "translate", "--var", "to=German") as chat:
        chat.say("good morning")
        chat.say("two")
        chat.leave()
    first, _, second = last(server)
    assert "good morning" in first
    assert first != "good morning"
    assert second == "two"
    assert UP not in first
