"""The slash commands of `ask chat`, typed on a terminal."""

from __future__ import annotations

import base64
import json
import sqlite3
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.cli.chat.commands import SLASH_COMMANDS, parse_input
from ask.errors import UsageError
from ask.messages import Usage
from ask.safety.scan_record import ScanRecord, write_scan_record
from tests import wire
from tests.cli.chat.chat_session import (
    CTRL_J,
    UP,
    Chat,
    answer_with_last_words,
    read_conversation,
    read_conversation_id,
    read_last_conversation,
)
from tests.model_server import NOT_FOUND, ModelServer
from tests.program import Ask, Home
from tests.saved_history import history_file, list_messages, read_saved_runs, save_run
from tests.slow_parameters import mark_others_slow

WRITE = ("write_file", {"filepath": "new.txt", "content": "new\n"})


def offered(server: ModelServer) -> list[str]:
    return [tool["function"]["name"] for tool in server.requests[-1].json.get("tools", [])]


def system(server: ModelServer) -> str:
    return wire.asked(server.requests[-1].json, 0)


# Parsing


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("/model a:b", ("model", "a:b")),
        (" /HELP ", ("help", "")),
        ("/system one\ntwo", ("system", "one\ntwo")),
        ("/file  a b.txt ", ("file", "a b.txt")),
        ("//model a", "/model a"),
        ("/etc/passwd has what?", "/etc/passwd has what?"),
        ("/* a comment */", "/* a comment */"),
        ("1/2", "1/2"),
        ("look at\n/model", "look at\n/model"),
    ],
)
def test_slash_commands_are_distinguished_from_messages(typed: str, read: tuple[str, str] | str) -> None:
    parsed = parse_input(typed)
    assert (parsed if isinstance(parsed, str) else (parsed[0].name, parsed[1])) == read


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("/modle x", "did you mean /model?"),
        ("/new", "did you mean /clear?"),
        ("/rewind", "did you mean /undo?"),
        ("/zzz", "/help"),
        (" / ", "/help"),
        ("/clear now", "/clear"),
        ("/file", "PATH"),
        ("/model a\nb", "/model"),
    ],
)
def test_invalid_commands_are_errors(typed: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_input(typed)
    assert words in str(caught.value)
    assert "//" in str(caught.value) or "type" in str(caught.value)


@given(st.text())
def test_two_slashes_send_a_message_that_starts_with_one(text: str) -> None:
    assert parse_input(f"//{text}") == f"/{text}"


# On a terminal


@pytest.mark.slow
def test_an_invalid_command_stays_at_the_prompt_for_correction(ask: Ask, server: ModelServer) -> None:
    answer_with_last_words(server)
    with Chat(ask) as chat:
        assert "did you mean /model?" in chat.send("/mdel test/other")
        chat.type_in("\x01\x1b[C\x1b[Co")  # to the start of the line, then two characters right
        assert "openrouter" in chat.send("")
        chat.send("//model")
    assert read_last_conversation(server) == ["/model"]
    assert server.requests[-1].json["model"] == "test/other"


def test_a_key_that_is_saved_during_a_chat_is_found(ask: Ask) -> None:
    with Chat(ask, "-m", "test/one") as chat:
        assert "no API key for deepseek" in chat.send("/model deepseek:test-two")
        assert ask("keys", "set", "deepseek", stdin=b"sk-0123456789abcdef").code == 0
        assert "Using test-two (deepseek)" in chat.send("/model deepseek:test-two")


@pytest.mark.slow
def test_model_and_provider_apply_to_later_messages(ask: Ask, server: ModelServer, home: Home) -> None:
    answer_with_last_words(server)
    with Chat(ask, "-m", "test/one") as chat:
        chat.send("one")
        assert "openrouter" in chat.send("/model test/two")
        chat.send("two")
        assert "'nobody'" in chat.send("/provider nobody")
        assert "demo (demo)" in chat.send("/model demo:demo")
        assert "demo" in chat.send("hello")
        assert "Using test/three (openrouter)" in chat.send("/model openrouter:test/three")
        chat.send("three")
        chat.quit()
    assert [request.json["model"] for request in server.requests] == ["test/one", "test/two", "test/three"]
    assert len(read_last_conversation(server)) == 7
    assert [run.provider for run in read_saved_runs(home)] == ["openrouter", "openrouter", "demo", "openrouter"]


def test_the_system_prompt_can_be_read_from_a_file(ask: Ask, server: ModelServer, home: Home) -> None:
    answer_with_last_words(server)
    (home.work / "rules.txt").write_text("Be brief.\n")
    (home.path / "secret").write_text("hunter2")
    write_scan_record(home.data / "safe", [home.work], ScanRecord((), (), ()))
    (home.work / "link.txt").symlink_to(home.path / "secret")
    with Chat(ask, "-s", "Be kind.") as chat:
        assert "cannot read link.txt" in chat.send("/system @link.txt")
        assert "cannot read missing.txt" in chat.send("/system @missing.txt")
        assert "Be kind." in chat.send("/system")
        assert "Be brief." in chat.send("/system @rules.txt")
        chat.send("one")
        chat.quit()
    assert "Be brief." in system(server)


@pytest.mark.slow
def test_the_system_prompt_is_saved_with_the_conversation(ask: Ask, server: ModelServer) -> None:
    answer_with_last_words(server)
    session = {"ASK_SESSION": "a"}
    with Chat(ask, "-s", "Be kind.", env=session) as chat:
        assert "Be kind." in chat.send("/system")
        chat.send("one")
        assert "Be kind." in system(server)
        chat.send(f"/system Be brief.{CTRL_J}Be exact.")
        chat.send("two")
        chat.quit()
    ask("-c", "three", env=session)
    assert "Be brief.\nBe exact." in system(server)
    assert "Be kind." not in system(server)
    with Chat(ask, "-c", env=session) as chat:
        assert "No extra system prompt" in chat.send("/system -")
        chat.send("four")
        chat.quit()
    assert "Be brief." not in system(server)


@pytest.mark.slow
def test_tools_can_be_turned_off_and_on(ask: Ask, server: ModelServer) -> None:
    answer_with_last_words(server)
    with Chat(ask, "--disable-tool", "bash") as chat:
        assert "Tools are disabled" in chat.send("/tools off")
        chat.send("one")
        assert offered(server) == []
        shown = chat.send("/tools on")
        assert "read_file" in shown
        assert "bash" not in shown
        chat.send("two")
        assert "bash" not in offered(server)
        assert "read_file" in offered(server)
        assert "on, off or list" in chat.send("/tools maybe")


def test_a_key_that_was_replaced_during_a_chat_is_used_once_the_old_one_is_rejected(
    ask: Ask, server: ModelServer, home: Home
) -> None:
    old, new = "sk-old-0123456789abcdef", "sk-new-0123456789abcdef"
    server.reply(wire.says("One."), wire.fails(401, "revoked"), wire.says("Two."), wire.says("Three."))
    server.reply(wire.fails(401, "revoked"))
    changed = Ask({name: value for name, value in ask.env.items() if not name.endswith("_API_KEY")}, home.work)
    assert changed("keys", "set", "openrouter", stdin=old.encode()).code == 0
    with Chat(changed) as chat:
        chat.send("first")
        assert changed("keys", "set", "openrouter", stdin=new.encode()).code == 0
        assert "Two." in chat.send("second")
        assert "Three." in chat.send("third")
        assert "(openrouter, 401)" in chat.send("fourth")
    keys = [request.headers["Authorization"].removeprefix("Bearer ") for request in server.requests]
    assert keys == [old, old, new, new, new]


def test_a_key_that_enabling_the_tools_retrieves_is_redacted(ask: Ask, server: ModelServer, home: Home) -> None:
    home.configure("[providers.brave]\nkey_command = 'echo brave-0123456789'\n")
    server.reply(wire.calls(("bash", {"command": "echo brave-''0123456789"})), wire.says("Done."))
    with Chat(ask, "--no-tools") as chat:
        assert "search_web" in chat.send("/tools on")
        chat.send("go")
    assert b"brave-0123456789" not in server.requests[1].body


@pytest.mark.slow
@pytest.mark.needs("bwrap")
def test_safe_mode_can_be_turned_on_but_not_off(ask: Ask, server: ModelServer, home: Home) -> None:
    outside = home.path / "outside"
    reach = wire.calls(("bash", {"command": f"touch {outside}; touch inside"}))
    server.reply(reach, wire.says("Done."), reach, wire.says("Done."))
    with Chat(ask) as chat:
        assert "Safe mode is off" in chat.send("/safe")
        chat.send("one")
        outside.unlink()
        (ask.cwd / "inside").unlink()
        assert "Safe mode is on" in chat.send("/safe on")
        chat.send("two")
        assert not outside.exists()
        assert (ask.cwd / "inside").exists()
        assert "/safe accepts on or files" in chat.send("/safe off")
        assert "Safe mode is on" in chat.send("/safe")
        assert chat.quit().code == 0


def test_safe_mode_without_commands_can_be_turned_on(ask: Ask, server: ModelServer) -> None:
    answer_with_last_words(server)
    with Chat(ask) as chat:
        assert "level files" in chat.send("/safe files")
        assert "level files" in chat.send("/safe on"), "the level stays the same until the chat ends"
        shown = chat.send("/tools")
        assert "level files" in shown
        assert "bash" not in shown
        chat.send("one")
        assert "bash" not in offered(server)
        assert "write_file" in offered(server)


def test_a_file_is_sent_with_the_next_message_only(ask: Ask, server: ModelServer) -> None:
    answer_with_last_words(server)
    (ask.cwd / "a.txt").write_text("sweet\n")
    with Chat(ask) as chat:
        assert "b.txt (No such file" in chat.send("/file b.txt")
        assert "1 line" in chat.send("/file a.txt")
        chat.send("one")
        assert read_last_conversation(server) == ['one\n\n<file name="a.txt">\nsweet\n</file>']
        chat.send("two")
        assert read_last_conversation(server)[-1] == "two"


@pytest.mark.slow
def test_retry_replaces_the_last_answer(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(wire.says("First."), wire.says("Second."), wire.fails(400), wire.says("Third."), wire.says("Fourth."))
    with Chat(ask, env={"ASK_SESSION": "a"}) as chat:
        assert "no message" in chat.send("/retry")
        chat.send("one")
        assert "Second." in chat.send("/retry")
        assert read_last_conversation(server) == ["one"]
        assert list_answers(home) == [("First.", True), ("Second.", False)]
        assert "it failed" in chat.send("/retry")
        assert list_answers(home) == [("First.", True), ("Second.", False)], "a failure replaces nothing"
        assert "Third." in chat.send("/retry")
        chat.send("two")
        assert read_last_conversation(server) == ["one", "Third.", "two"]
        chat.quit()
    assert list_answers(home) == [("First.", True), ("Second.", True), ("Third.", False), ("Fourth.", False)]
    assert "replaced" in ask("history", "show").text
    ask("-c", "three", env={"ASK_SESSION": "a"})
    assert read_last_conversation(server) == ["one", "Third.", "two", "Fourth.", "three"]


def list_answers(home: Home) -> list[tuple[str, bool]]:
    """Return the last message of each saved run and whether the run was replaced."""
    return [(list_messages(run)[-1][1], run.replaced_by is not None) for run in read_saved_runs(home)]


@pytest.mark.slow
def test_retry_after_a_failure_sends_the_message_again(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(wire.fails(401), wire.says("Fine."))
    with Chat(ask) as chat:
        chat.send("one")
        assert "Fine." in chat.send("/retry")
        chat.quit()
    assert read_last_conversation(server) == ["one"]
    assert len(read_saved_runs(home)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--no-save",)], ids=["saved", "not saved"])
def test_drop_removes_the_last_message_and_its_answer(
    ask: Ask, server: ModelServer, home: Home, options: tuple[str, ...]
) -> None:
    answer_with_last_words(server)
    with Chat(ask, *options) as chat:
        chat.send("one")
        chat.send("two")
        chat.send("/drop")
        chat.send("three")
        assert read_last_conversation(server) == ["one", "Answer to one.", "three"]
        for _ in range(2):
            chat.send("/drop")
        assert "no message" in chat.send("/drop")
        chat.send("four")
        assert read_last_conversation(server) == ["four"]
        chat.quit()
    if not options:
        assert [list_messages(run)[0][1] for run in read_saved_runs(home)] == ["four"]


@pytest.mark.parametrize("command", ["/drop", "more"])
def test_the_conversations_of_a_history_that_was_restored_meanwhile_stay(
    command: str, ask: Ask, server: ModelServer, home: Home
) -> None:
    answer_with_last_words(server)
    assert ask("kept").code == 0
    backup = history_file(home).rename(home.data / "backup.db")
    server.reply(wire.fails(401))
    with Chat(ask) as chat:
        chat.send("fails")
        backup.replace(history_file(home))  # its only run has the number of the one that failed
        if command == "/drop":
            chat.send(command)
        else:
            chat.send_alone(command, answer="y")
    run = read_saved_runs(home)[0]
    assert (list_messages(run)[0][1], run.replaced_by) == ("kept", None)


def test_drop_removes_replaced_answers_too(ask: Ask, server: ModelServer, home: Home) -> None:
    answer_with_last_words(server)
    with Chat(ask) as chat:
        for text in ("one", "marzipan", "/retry", "/edit two", "/drop"):
            chat.send(text)
        chat.quit()
    assert list_answers(home) == [("Answer to one.", False)]
    assert ask("history", "search", "marzipan").text == ""


def test_edit_replaces_the_last_message(ask: Ask, server: ModelServer, home: Home) -> None:
    answer_with_last_words(server)
    (ask.cwd / "a.txt").write_text("sweet\n")
    with Chat(ask) as chat:
        assert "no message" in chat.send("/edit")
        chat.send("one")
        chat.send("/file a.txt")
        chat.send("two\nlines".replace("\n", CTRL_J))
        chat.send("/edit")
        chat.send(" more")
        edited = 'two\nlines more\n\n<file name="a.txt">\nsweet\n</file>'
        assert read_last_conversation(server) == ["one", "Answer to one.", edited]
        chat.send("/edit three")
        chat.send("four")
        chat.quit()
    assert read_last_conversation(server)[2].startswith("three\n\n<file")
    assert [run.replaced_by is not None for run in read_saved_runs(home)] == [False, True, True, False, False]


PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII=")


@pytest.mark.parametrize(
    "options", [(), pytest.param(("--no-save",), marks=pytest.mark.slow)], ids=["saved", "not saved"]
)
def test_an_earlier_message_can_be_edited_and_dropped(
    options: tuple[str, ...], ask: Ask, server: ModelServer, home: Home
) -> None:
    answer_with_last_words(server)
    with Chat(ask, *options) as chat:
        for text in ("one", "two", "three", "four"):
            chat.send(text)
        listed = chat.send("/messages").splitlines()
        assert [line.split() for line in listed if line.lstrip().startswith("#")] == [
            *(["#1", "one"], ["#2", "two"], ["#3", "three"], ["#4", "four"]),
        ]
        assert "/messages lists" in chat.send("/drop #5")
        for command in ("edit", "drop"):
            assert f"/{command} #2" in (refusal := chat.send(f"/{command} 2"))
            assert ("/edit #4 2" in refusal) is (command == "edit")
        chat.send("/drop #2")
        chat.send("five")
        assert read_last_conversation(server)[::2] == ["one", "three", "four", "five"]
        chat.send("/edit #2")
        chat.send(" and a half")
        assert read_last_conversation(server) == ["one", "Answer to one.", "three and a half"]
        chat.send("/edit #1 once")
        assert read_last_conversation(server) == ["once"]
        chat.send("six")
        assert read_last_conversation(server) == ["once", "Answer to once.", "six"]
        chat.quit()
    if not options:
        questions = [(list_messages(run)[0][1], run.replaced_by is not None) for run in read_saved_runs(home)]
        assert questions == [
            *(("one", True), ("three", True), ("four", True), ("five", True), ("three and a half", True)),
            *(("once", False), ("six", False)),
        ]


@pytest.mark.slow
def test_an_edit_of_an_earlier_message_that_fails_changes_nothing(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("One."), wire.says("Two."), wire.fails(401), wire.says("Three."))
    with Chat(ask) as chat:
        for text in ("one", "two", "/edit #1 other", "three"):
            chat.send(text)
        chat.quit()
    assert read_last_conversation(server) == ["one", "One.", "two", "Two.", "three"]


@pytest.mark.slow
def test_a_branch_continues_from_an_earlier_message_in_a_conversation_of_its_own(
    ask: Ask, server: ModelServer, home: Home
) -> None:
    answer_with_last_words(server)
    with Chat(ask, env={"ASK_SESSION": "a"}) as chat:
        assert "no message" in chat.send("/branch")
        for text in ("one", "two", "/retry", "three"):
            chat.send(text)
        assert "/messages lists" in chat.send("/branch #9")
        assert "copy with 2 messages" in chat.send("/branch #2")
        chat.send("four")
        assert read_last_conversation(server)[::2] == ["one", "two", "four"]
        chat.quit()
    ask("-c", "five", env={"ASK_SESSION": "a"})
    assert read_last_conversation(server)[::2] == ["one", "two", "four", "five"]
    ask("--resume", "2", "six")
    assert read_last_conversation(server)[::2] == ["one", "two", "three", "six"]
    conversations = json.loads(ask("history", "list", "--json").text)
    assert len(conversations) == 2
    assert len({conversation["title"] for conversation in conversations}) == 1


@pytest.mark.slow
def test_usage_of_a_branch_is_counted_once(ask: Ask, server: ModelServer, home: Home) -> None:
    answer_with_last_words(server)
    with Chat(ask) as chat:
        chat.send("one")
        chat.send("/branch")
        chat.quit()
    first, copy = read_saved_runs(home)
    assert first.usage.input_tokens
    assert copy.usage == Usage()
    assert list_messages(first) == list_messages(copy)


@pytest.mark.slow
def test_a_branch_needs_a_saved_conversation(ask: Ask, server: ModelServer) -> None:
    answer_with_last_words(server)
    with Chat(ask, "--no-save") as chat:
        chat.send("one")
        assert "not saved" in chat.send("/branch")


@pytest.mark.slow
def test_a_file_is_dropped_from_the_next_message_and_from_earlier_ones(
    ask: Ask, server: ModelServer, home: Home
) -> None:
    server.reply(lambda request: wire.says("Yes.") if request.body else NOT_FOUND)
    (ask.cwd / "a.txt").write_text("marzipan\n")
    (ask.cwd / "b.txt").write_text("bitter\n")
    (ask.cwd / "c.png").write_bytes(PNG)
    (ask.cwd / "d.png").write_bytes(PNG)
    with Chat(ask) as chat:
        chat.send("/file a.txt b.txt")
        assert "from the next message" in chat.send("/drop a.txt")
        chat.send("one")
        assert read_last_conversation(server) == ['one\n\n<file name="b.txt">\nbitter\n</file>']
        chat.send("/file a.txt c.png d.png")
        chat.send("two")
        chat.send("three")
        assert "c.png, d.png, a.txt" in chat.send("/messages")
        assert "from message #2" in chat.send("/drop a.txt")
        assert "from message #2" in chat.send("/drop c.png")
        assert "no message" in chat.send("/drop c.png")
        assert "message #3 has no file" in chat.send("/drop #3 d.png")
        chat.send("four")
        question = next(message for message in server.requests[-1].json["messages"] if "two" in str(message))
        assert "marzipan" not in str(question)
        assert [part["type"] for part in question["content"]].count("image_url") == 1
        assert "from message #1" in chat.send("/drop #1 b.txt")
        chat.quit()
    assert ask("history", "search", "marzipan").text == ""
    ask("--resume", "1", "five")
    assert wire.asked(server.requests[-1].json, 1) == "one"


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--no-save",)])
def test_a_file_of_a_tool_result_is_dropped(
    ask: Ask, server: ModelServer, home: Home, options: tuple[str, ...]
) -> None:
    (ask.cwd / "a.png").write_bytes(PNG)
    read = wire.calls(("read_file", {"filepath": "a.png"}), ("read_file", {"filepath": "./a.png"}))
    server.reply(read, wire.says("Red."), wire.says("Yes."), wire.says("No."))
    with Chat(ask, *options) as chat:
        chat.send("look at a.png")
        assert "[a.png, a.png]" in chat.send("/messages")
        chat.send("red?")
        assert str(server.requests[-1].json).count("image_url': {") == 2
        assert "from a tool result of message #1" in chat.send("/drop a.png")
        assert "no message has a file" in chat.send("/drop a.png")
        chat.send("sure?")
        sent = str(server.requests[-1].json)
        assert "image_url" not in sent
        assert sent.count("removed by the user") == 2
        chat.quit()
    if not options:
        exported = json.loads(ask("history", "export", "--format", "json").text)
        assert base64.b64encode(PNG).decode() not in str(exported)
        assert str(exported).count("removed by the user") == 2


def test_tab_completes_numbers_of_messages(ask: Ask, server: ModelServer) -> None:
    answer_with_last_words(server)
    with Chat(ask) as chat:
        chat.send("one")
        chat.send("two")
        chat.complete("/drop #", "two")


CLIPBOARD_PROGRAMS = {
    "WAYLAND_DISPLAY": "wl-copy",
    "DISPLAY": "xclip",
    "TMUX": "tmux",
}


@pytest.mark.slow
@pytest.mark.parametrize("variable", CLIPBOARD_PROGRAMS)
def test_the_last_answer_is_copied_by_the_program_of_the_desktop(
    variable: str, ask: Ask, server: ModelServer, home: Home
) -> None:
    server.reply(wire.says("First."), wire.says("# Two\n\n`ö`"))
    program = home.path / CLIPBOARD_PROGRAMS[variable]
    program.write_text("#!/bin/sh\ncat >copied\n")
    program.chmod(0o755)
    with Chat(ask, env={variable: ":0", "PATH": f"{home.path}:{ask.env['PATH']}"}) as chat:
        assert "no answer" in chat.send("/copy")
        chat.send("one")
        chat.send("two")
        assert "3 lines" in chat.send("/copy")
        chat.quit()
    assert (ask.cwd / "copied").read_text() == "# Two\n\n`ö`"


@pytest.mark.parametrize(
    "env",
    mark_others_slow([{}, {"DISPLAY": ":0"}, {"SSH_TTY": "/dev/pts/9", "WAYLAND_DISPLAY": "w"}], [{"DISPLAY": ":0"}]),
)
def test_without_a_program_the_terminal_copies_the_answer(env: dict[str, str], ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("Yes."))
    with Chat(ask, env=env) as chat:
        chat.send("one")
        chat.type_in("/copy\r")
        chat.running.wait_for(f"\x1b]52;c;{base64.b64encode(b'Yes.').decode()}\x07")


@pytest.mark.slow
def test_an_edited_message_that_fails_changes_nothing(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(wire.says("First."), wire.fails(400, "refused"), wire.says("Second."))
    with Chat(ask) as chat:
        chat.send("one")
        assert "refused" in chat.send("/edit two")
        chat.send("\x15three")  # instead of the refused text, which is offered for editing
        chat.quit()
    assert read_last_conversation(server) == ["one", "First.", "three"]
    assert list_answers(home) == [("First.", False), ("Second.", False)]


@pytest.mark.slow
def test_resume_lists_and_continues_conversations(ask: Ask, server: ModelServer, home: Home) -> None:
    answer_with_last_words(server)
    ask("-p", "demo", "about plums")
    ask("-m", "test/old", "-s", "Be kind.", "about apples")
    ask("-p", "demo", "about pears")
    with Chat(ask, "-m", "test/new") as chat:
        shown = chat.send("/resume")
        assert "1 " in shown
        assert "about pears" in shown
        assert "about apples" in shown
        chat.send("2")
        chat.send("more")
        assert read_last_conversation(server) == ["about apples", "Answer to apples.", "more"]
        assert server.requests[-1].json["model"] == "test/old"
        assert "Be kind." in system(server)
        assert "demo" in chat.send("/resume PEARS about")
        assert "current conversation" in chat.send("/resume pears")
        shown = chat.send("/resume about")  # several titles match
        assert "about apples" in shown
        assert "about pears" not in shown
        chat.send("\x15/model openrouter:test/new")
        assert "no conversation matches" in chat.send("/resume nothing like that")
        chat.send("again")
        chat.quit()
    first, _, last = read_last_conversation(server)
    assert (first, last) == ("about pears", "again")
    providers = [run.provider for run in read_saved_runs(home)]
    assert providers == ["demo", "openrouter", "openrouter", "demo", "openrouter"]


@pytest.mark.slow
def test_resume_without_saved_conversations_is_an_error(ask: Ask, server: ModelServer) -> None:
    answer_with_last_words(server)
    with Chat(ask) as chat:
        assert "no saved conversations" in chat.send("/resume")
        chat.send("one")
        assert "no other saved conversations" in chat.send("/resume")
        chat.quit()
    assert read_last_conversation(server) == ["one"]


@pytest.mark.slow
def test_a_conversation_whose_provider_is_gone_cannot_be_resumed(ask: Ask, server: ModelServer, home: Home) -> None:
    answer_with_last_words(server)
    save_run(history_file(home), "abc", "hello", provider="uninstalled")
    with Chat(ask) as chat:
        chat.send("one")
        assert "uninstalled" in chat.send("/resume abc")
        chat.send("two")
        chat.quit()
    assert read_last_conversation(server) == ["one", "Answer to one.", "two"]


def test_tab_completes_conversations_by_title_and_id(ask: Ask, server: ModelServer, home: Home) -> None:
    answer_with_last_words(server)
    save_run(history_file(home), "abc", "the ripe apples")
    save_run(history_file(home), "def", "the pears")
    with Chat(ask) as chat:
        chat.complete("/resume apples RIPE", "abc")
        assert "the ripe apples" in chat.send("")
        chat.complete("/resume de", "f")
        assert "the pears" in chat.send("")
        chat.quit()


@pytest.mark.slow
def test_a_conversation_continued_elsewhere_cannot_be_changed(ask: Ask, server: ModelServer, home: Home) -> None:
    answer_with_last_words(server)
    session = {"ASK_SESSION": "a"}
    with Chat(ask, env=session) as chat:
        chat.send("one")
        ask("-c", "elsewhere", env=session)
        for command in ("/drop", "/retry", "/edit", "/edit two"):
            assert "was continued elsewhere" in chat.send(command)
    with Chat(ask, "-c", env=session) as chat:  # with as many messages as then
        with Chat(ask, "-c", env=session) as other:
            other.send("/edit here")
            other.quit()
        assert "was continued elsewhere" in chat.send("/drop")
    assert len(read_saved_runs(home)) == 3


@pytest.mark.slow
def test_undo_restores_files_changed_by_the_last_run(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(WRITE), wire.says("Written."))
    new = ask.cwd / "new.txt"
    with Chat(ask) as chat:
        chat.send("write it")
        assert new.exists()
        chat.type_in("/undo\r")
        chat.running.wait_for("[y/N]")
        chat.type_in("y\r")
        assert "ask: removed 1 file" in chat.wait_for_prompt()
        assert not new.exists()
        chat.send("/undo --redo --yes")
        assert new.exists()
        assert "No such option" in chat.send("/undo --nonsense")
        assert chat.quit().code == 0


@pytest.mark.slow
def test_compact_replaces_old_messages_by_a_summary(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("A " * 500), wire.says("Two."), wire.says("All in short."), wire.says("Three."))
    with Chat(ask) as chat:
        assert "nothing" in chat.send("/compact")
        chat.send("one")
        chat.send("two")
        assert "summary" in chat.send("/compact")
        chat.send("three")
        chat.quit()
    summary, *rest = read_last_conversation(server)
    assert summary.endswith("All in short.\n\ntwo"), "what the user says in a row is one message of the request"
    assert rest == ["Two.", "three"]


@pytest.mark.slow
def test_messages_that_a_summary_replaces_are_named(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("A " * 500), wire.says("All in short."))
    with Chat(ask) as chat:
        assert "no message yet" in chat.send("/messages")
        chat.send("one")
        chat.send("/compact")
        for command in ("/messages", "/drop", "/edit #1"):
            assert "a summary replaces all messages" in chat.send(command)


@pytest.mark.slow
def test_save_writes_the_conversation_to_a_file(ask: Ask, server: ModelServer) -> None:
    answer_with_last_words(server)
    with Chat(ask) as chat:
        assert "send a message first" in chat.send("/save chat.md")
        chat.send("one")
        assert "Wrote chat.json" in chat.send("/save chat.json")
        name = read_conversation_id(chat.quit())
    assert json.loads((ask.cwd / "chat.json").read_text())["id"] == name
    with Chat(ask, "--no-save") as chat:
        chat.send("one")
        assert "without --no-save" in chat.send("/save chat.md")


@pytest.mark.slow
def test_a_conversation_that_could_not_be_saved_is_not_blamed_on_an_option(
    ask: Ask, server: ModelServer, home: Home
) -> None:
    answer_with_last_words(server)
    home.data.write_text("a file, not a folder")
    with Chat(ask) as chat:
        chat.send("one")
        assert "history cannot be written" in " ".join(chat.send("/save chat.md").split())
        chat.quit()


def test_messages_that_could_not_be_saved_stay_in_the_chat(ask: Ask, server: ModelServer, home: Home) -> None:
    answer_with_last_words(server)
    with Chat(ask) as chat:
        chat.send("one")
        with closing(sqlite3.connect(history_file(home))) as damaged:
            damaged.execute("ALTER TABLE messages RENAME TO lost")
            assert "cannot save" in chat.send("two")
            damaged.execute("ALTER TABLE lost RENAME TO messages")
        chat.send("three")
        chat.send("four")
        assert read_last_conversation(server)[::2] == ["one", "two", "three", "four"]
        for command in ("/messages", "/edit five", "/branch", "/compact", "/save chat.md"):
            assert "some messages of this conversation are not saved" in " ".join(chat.send(command).split())
        chat.send("/clear")
        chat.send("six")
        assert "#1  six" in chat.send("/messages")


@pytest.mark.slow
def test_an_unanswered_message_that_could_not_be_saved_is_not_blamed_on_another_process(
    ask: Ask, server: ModelServer, home: Home
) -> None:
    server.reply(wire.says("One."), wire.fails(401))
    with Chat(ask) as chat:
        chat.send("one")
        with closing(sqlite3.connect(history_file(home), isolation_level=None)) as other_process:
            other_process.execute("BEGIN EXCLUSIVE")
            chat.send("two")
        assert "some messages of this conversation are not saved" in chat.send("/retry")


@pytest.mark.slow
def test_cost_and_help_are_printed_even_with_quiet(ask: Ask, server: ModelServer) -> None:
    answer_with_last_words(server)
    with Chat(ask, "-q") as chat:
        chat.send("one")
        chat.send("two")
        assert "2 messages, no tool calls, 20 tokens in, 10 out" in chat.send("/cost")
        shown = chat.send("/help")
        assert all(f"/{name}" in shown for name in SLASH_COMMANDS)
        assert all(len(line) < 80 for line in shown.splitlines())


@pytest.mark.slow
def test_clear_starts_a_new_conversation(ask: Ask, server: ModelServer, home: Home) -> None:
    answer_with_last_words(server)
    with Chat(ask) as chat:
        chat.send("one")
        chat.send("/clear")
        assert "send a message first" in chat.send("/save chat.md")
        chat.send("two")
        chat.quit()
    assert [read_conversation(request) for request in server.requests] == [["one"], ["two"]]
    assert len({run.number for run in read_saved_runs(home)}) == 2


@pytest.mark.slow
def test_a_named_prompt_is_the_first_message(ask: Ask, server: ModelServer) -> None:
    answer_with_last_words(server)
    with Chat(ask, "-t", "translate", "--var", "to=German") as chat:
        chat.send("good morning")
        chat.send("two")
        chat.quit()
    first, _, second = read_last_conversation(server)
    assert "good morning" in first
    assert first != "good morning"
    assert second == "two"
    assert UP not in first
