"""Messages of a chat that are refused or not answered: offered for editing, dropped, sent again, or left out."""

from __future__ import annotations

import signal
import threading
import time
from dataclasses import replace

import pytest

from ask.messages import INTERRUPTED_REASON
from tests import wire
from tests.cli.chat.chat_session import CLEAR_LINE, CTRL_D, ENTER, Chat, read_last_conversation
from tests.model_server import HOLD, ModelServer, Reply
from tests.program import CTRL_C, Ask, Home
from tests.sample_files import PHOTO
from tests.saved_history import list_messages, read_saved_runs
from tests.slow_parameters import mark_others_slow

SESSION = {"ASK_SESSION": "a"}
SAVED_OR_NOT = [pytest.param((), id="saved"), pytest.param(("--no-save",), id="not saved", marks=pytest.mark.slow)]


def list_questions(home: Home) -> list[tuple[str, str]]:
    """Return the question and the status of each saved run."""
    return [(list_messages(run)[0][1], run.status) for run in read_saved_runs(home)]


@pytest.mark.slow
@pytest.mark.parametrize("options", SAVED_OR_NOT)
def test_a_refused_message_is_offered_for_editing(
    ask: Ask, server: ModelServer, home: Home, options: tuple[str, ...]
) -> None:
    server.reply(wire.says("Hello."), wire.fails(400), wire.says("Better."), wire.says("Fine."))
    with Chat(ask, *options) as chat:
        chat.send("hi")
        assert "it failed" in chat.send("rude")
        assert "Better." in chat.send(" no more")
        assert read_last_conversation(server) == ["hi", "Hello.", "rude no more"]
        chat.send("next")
        assert read_last_conversation(server) == ["hi", "Hello.", "rude no more", "Better.", "next"]
    if not options:
        assert list_questions(home) == [("hi", ""), ("rude no more", ""), ("next", "")]


def test_a_line_typed_ahead_is_not_added_to_a_refused_message(ask: Ask, server: ModelServer) -> None:
    refused, reply = threading.Event(), wire.fails(400)
    server.reply(replace(reply, steps=(refused, *reply.steps)), wire.says("Fine."))
    with Chat(ask) as chat:
        chat.type_in("rude" + ENTER)
        server.wait_for_requests(1)
        chat.type_in("next" + ENTER)
        refused.set()
        chat.running.wait_for("Fine.")
    assert read_last_conversation(server) == ["next"]


# The slash of a command is typed twice in words: they do not become one when their file is left out.
@pytest.mark.parametrize(("typed", "words"), [("what is it", "what is it"), ("//cost of this", "/cost of this")])
def test_a_refused_file_is_not_offered_again(ask: Ask, server: ModelServer, home: Home, typed: str, words: str) -> None:
    (ask.cwd / "photo.png").write_bytes(PHOTO.data)
    server.reply(wire.fails(400, "invalid image"), wire.says("I see none."))
    with Chat(ask, "-m", "openai/gpt-4o") as chat:
        chat.send("/file photo.png")
        chat.send(typed)
        assert "I see none." in chat.send("?")
    assert read_last_conversation(server) == [f"{words}?"]
    assert list_questions(home) == [(words, "refused"), (f"{words}?", "")]


@pytest.mark.parametrize("options", SAVED_OR_NOT)
def test_drop_removes_the_message_that_it_names(
    ask: Ask, server: ModelServer, home: Home, options: tuple[str, ...]
) -> None:
    server.reply(wire.says("Hello."), wire.fails(400), wire.says("Fine."))
    with Chat(ask, *options) as chat:
        chat.send("hi")
        chat.send("rude")
        assert "refused message 'rude'" in chat.send("\x15/drop")
        assert "last message and its answer" in chat.send("/drop")
        assert "no message" in chat.send("/drop")
        chat.send("next")
    assert read_last_conversation(server) == ["next"]
    if not options:
        assert list_questions(home) == [("next", "")]


@pytest.mark.parametrize(
    ("options", "answer", "expected"),
    [
        ((), "y", ["lost\n\nnext"]),
        (("--no-save",), "y", ["lost\n\nnext"]),
        pytest.param((), "n", ["next"], marks=pytest.mark.slow),
        pytest.param(("--no-save",), "n", ["next"], marks=pytest.mark.slow),
    ],
)
def test_the_next_line_asks_about_an_unanswered_message(
    *, ask: Ask, server: ModelServer, home: Home, options: tuple[str, ...], answer: str, expected: list[str]
) -> None:
    server.reply(wire.fails(401), wire.says("Fine."))
    with Chat(ask, *options) as chat:
        chat.send("lost")
        assert "Fine." in chat.send_alone("next", answer=answer)
        assert read_last_conversation(server) == expected
        shown = chat.send("again")
        assert "Send the" not in shown
        assert read_last_conversation(server) == [*expected, "Fine.", "again"]


@pytest.mark.slow
@pytest.mark.parametrize("options", SAVED_OR_NOT)
def test_messages_that_failed_together_are_one(ask: Ask, server: ModelServer, options: tuple[str, ...]) -> None:
    server.reply(wire.fails(401), wire.fails(401), wire.says("Fine."))
    with Chat(ask, *options) as chat:
        chat.send("one")
        for line in ("two", "three"):
            chat.send_alone(line, answer="y")
        assert read_last_conversation(server) == ["one\n\ntwo\n\nthree"]
        chat.send("four")
    assert read_last_conversation(server) == ["one\n\ntwo\n\nthree", "Fine.", "four"]


def test_a_file_stays_attached_if_the_question_about_an_unanswered_message_is_interrupted(
    ask: Ask, server: ModelServer
) -> None:
    server.reply(wire.fails(401), wire.says("Fine."))
    (ask.cwd / "a.txt").write_text("sweet\n")
    with Chat(ask) as chat:
        chat.send("lost")
        chat.send("/file a.txt")
        chat.type_in("one\r")
        chat.running.wait_for("[y/N]")
        chat.type_in(CTRL_C)
        chat.wait_for_prompt()
        chat.send_alone("two")
    assert read_last_conversation(server) == ['two\n\n<file name="a.txt">\nsweet\n</file>']


@pytest.mark.parametrize("line", ["/edit #1 bad", "bad"])
def test_a_message_that_a_hook_refuses_is_unanswered(line: str, ask: Ask, server: ModelServer, home: Home) -> None:
    home.configure("[[hooks]]\nevent = 'run_start'\ncommand = 'if grep bad; then exit 2; fi'\n")
    server.reply(wire.says("One."), wire.says("Two."))
    with Chat(ask) as chat:
        chat.send("one")
        assert "refused the run" in chat.send(line)
        assert "#2  bad (unanswered)" in chat.send("/messages")
        chat.send_alone("two")
        chat.send("/clear")
        chat.send("bad")
        chat.send("/save bad.md")
    assert read_last_conversation(server) == ["one", "One.", "two"]
    assert "bad" in (ask.cwd / "bad.md").read_text()


@pytest.mark.slow
def test_a_refused_edit_is_offered_again(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("Hello."), wire.fails(400), wire.says("Fine."))
    with Chat(ask) as chat:
        chat.send("hi")
        chat.send("/edit rude")
        assert "Fine." in chat.send(" no more")
    assert read_last_conversation(server) == ["rude no more"]


@pytest.mark.slow
@pytest.mark.parametrize("edited", ["/edit #1 first", "/edit #2 second"])
def test_an_edit_also_replaces_messages_without_an_answer(
    edited: str, ask: Ask, server: ModelServer, home: Home
) -> None:
    fails = (wire.fails(400), wire.fails(401))
    server.reply(
        wire.says("One."), wire.says("Two."), *fails, wire.says("Three."), wire.says("New."), wire.says("Four.")
    )
    with Chat(ask) as chat:
        chat.send("one")
        chat.send("two")
        chat.send("rude")
        chat.send(f"{CLEAR_LINE}lost")
        chat.send_alone("three")
        assert "New." in chat.send(edited)
        chat.send("/drop")
        listed = chat.send("/messages")
        assert not {"rude", "lost", "two", "three"} & set(listed.split())
        chat.send("four")
    assert read_last_conversation(server)[-1] == "four"


@pytest.mark.slow
def test_an_edit_of_a_message_without_an_answer_replaces_those_after_it(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.fails(401), wire.fails(401), wire.says("New."), wire.says("Fine."))
    with Chat(ask) as chat:
        chat.send("lost")
        chat.send_alone("missing")
        assert "New." in chat.send("/edit #1 found")
        chat.send("/drop")
        assert "missing" not in chat.send("/messages")


def test_retry_sends_an_unanswered_message_again(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(wire.says("Hello."), wire.fails(401), wire.says("Fine."))
    with Chat(ask) as chat:
        chat.send("hi")
        chat.send("lost")
        assert "Fine." in chat.send("/retry")
    assert read_last_conversation(server) == ["hi", "Hello.", "lost"]
    assert list_questions(home) == [("hi", ""), ("lost", "")]


@pytest.mark.parametrize("status", mark_others_slow([400, 401]))
def test_a_continued_chat_shows_the_message(ask: Ask, server: ModelServer, home: Home, status: int) -> None:
    server.reply(wire.fails(status), wire.says("Fine."))
    session = {"ASK_SESSION": "a"}
    ask("lost", env=session)
    with ask.start_on_terminal("chat", "-c", env=session) as running:
        running.wait_for("refused question 'lost'" if status == 400 else "unanswered question 'lost'")
        place = running.wait_for("\x1b[J\x1b[0;1m>")
        running.type_in(" twice\r" if status == 400 else "/retry\r")
        running.wait_for("Fine.", after=place)
        running.type_in(CTRL_D)
        running.finish()
    assert read_last_conversation(server) == ["lost twice" if status == 400 else "lost"]


def test_piped_lines_can_send_an_unanswered_message(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.fails(401), wire.says("Fine."))
    ask("lost")
    assert ask("chat", "-c", "--unanswered", stdin=b"one\ntwo\n").code == 0
    assert read_last_conversation(server) == ["lost\n\none", "Fine.", "two"]


@pytest.mark.parametrize(
    ("event", "rest"),
    [
        ("run_end", ["", "exit code: 0\nstdout:\ndone\n", "Yes."]),
        pytest.param("after_tool", ["", f"Error: {INTERRUPTED_REASON}"], marks=pytest.mark.slow),
    ],
)
def test_an_edit_that_is_killed_after_a_part_of_the_answer_replaces_the_message(
    event: str, rest: list[str], ask: Ask, server: ModelServer, home: Home
) -> None:
    answers = [wire.says("One."), wire.says("Two."), wire.calls(("bash", {"command": "echo done"})), wire.says("Yes.")]
    server.reply(*answers)
    with Chat(ask, env=SESSION) as chat:
        for text in ("one", "two"):
            chat.send(text)
        chat.quit()
    home.configure(f"[[hooks]]\nevent = '{event}'\ncommand = 'kill -KILL $PPID'\n")
    with Chat(ask, "-c", env=SESSION) as chat:
        assert chat.quit("/edit #1 new\r").code == -signal.SIGKILL
    home.configure("")
    assert ask("-c", "more", env=SESSION).code == 0
    assert read_last_conversation(server) == ["new", *rest, "more"]


def test_a_retry_that_two_signals_end_replaces_the_message(ask: Ask, server: ModelServer) -> None:
    answer = Reply((wire.event(wire.text("So far")), HOLD), content_type="text/event-stream")
    server.reply(wire.says("Hello."), answer, wire.says("Fine."))
    with Chat(ask, env=SESSION) as chat:
        chat.send("hi")
        chat.type_in("/retry\r")
        chat.running.wait_for("So far")
        chat.running.signal(signal.SIGTERM)
        time.sleep(0.003)
        chat.running.signal(signal.SIGHUP)  # the part of the answer is saved, but not reported
        chat.running.finish()
    assert ask("-c", "more", env=SESSION).code == 0
    assert read_last_conversation(server) == ["hi", "So far", "more"]


def test_a_retry_that_is_killed_before_the_answer_leaves_one_unanswered_message(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("Hello."), wire.fails(401), Reply((HOLD,)), wire.says("Fine."))
    with Chat(ask, env=SESSION) as chat:
        chat.send("hi")
        chat.send("lost")
        chat.type_in("/retry\r")
        server.wait_for_requests(3)
        chat.running.signal(signal.SIGKILL)
        chat.running.finish()
    assert ask("-c", "--unanswered", env=SESSION).code == 0
    assert read_last_conversation(server) == ["hi", "Hello.", "lost"]


@pytest.mark.parametrize("command", ["/edit new", "/retry", "/edit #1 new"])
def test_a_message_whose_repetition_is_killed_before_the_answer_stays(
    command: str, ask: Ask, server: ModelServer
) -> None:
    server.reply(wire.says("One."), wire.says("Two."), Reply((HOLD,)), wire.says("Fine."))
    with Chat(ask, env=SESSION) as chat:
        chat.send("one")
        chat.send("two")
        chat.type_in(f"{command}\r")
        server.wait_for_requests(3)
        chat.running.signal(signal.SIGKILL)
        chat.running.finish()
    assert ask("-c", "--unanswered", env=SESSION).code == 2
    assert ask("-c", "more", env=SESSION).code == 0
    assert read_last_conversation(server) == ["one", "One.", "two", "Two.", "more"]


@pytest.mark.slow
def test_an_edit_that_is_killed_while_the_answer_streams_replaces_the_message(ask: Ask, server: ModelServer) -> None:
    parts = [wire.event(wire.text(f"{number} ")) for number in range(30)]
    paused = [part for each in parts for part in (each, 0.1)]
    server.reply(wire.says("One."), Reply((*paused, HOLD), content_type="text/event-stream"), wire.says("Fine."))
    with Chat(ask, env=SESSION) as chat:
        chat.send("one")
        chat.type_in("/edit new\r")
        chat.running.wait_for(" 29")
        chat.running.signal(signal.SIGKILL)
        chat.running.finish()
    assert ask("-c", "more", env=SESSION).code == 0
    asked, answer, last = read_last_conversation(server)
    assert (asked, answer[:4], last) == ("new", "0 1 ", "more")
