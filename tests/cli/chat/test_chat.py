"""`ask chat` on a terminal: what is typed, stopped and left, and that it is the same conversation as `ask`'s."""

from __future__ import annotations

import os
import signal
import stat
import sys
from pathlib import Path

import pytest

from tests import wire
from tests.cli.chat.chat_session import ALT_ENTER, CTRL_D, CTRL_J, ENTER, PROMPT, UP, Chat, answering, kept, last, named
from tests.model_server import HOLD, ModelServer, Reply, Request
from tests.program import CTRL_C, TEST_KEY, Ask, Home, Running, is_running
from tests.program import run as program_run
from tests.saved import said, saved
from tests.scenarios.test_when_things_go_wrong import appears
from tests.screen import Screen


@pytest.fixture(autouse=True)
def model(server: ModelServer) -> None:
    """Answers every message by its last word, unless a test scripts something else before."""


def answers(server: ModelServer) -> None:
    server.reply(lambda request: wire.says(answering(request)))


def test_messages_are_one_conversation_that_ask_goes_on_with(ask: Ask, server: ModelServer, home: Home) -> None:
    answers(server)
    with Chat(ask, env={"ASK_SESSION": "a"}) as chat:
        assert "Answer to one." in chat.say("one")
        assert len(saved(home)) == 1, "it is saved as it happens"
        assert "Answer to two." in chat.say("two")
        result = chat.leave()
    assert result.code == 0
    assert [said(run)[0][1] for run in saved(home)] == ["one", "two"]
    goes_on = ask("-c", "three", env={"ASK_SESSION": "a"})
    assert goes_on.conversation == named(result)
    assert last(server) == ["one", "Answer to one.", "two", "Answer to two.", "three"]
    with Chat(ask, "-c", env={"ASK_SESSION": "a"}) as chat:
        chat.say("four")
        assert named(chat.leave()) == named(result)
    assert last(server)[-3:] == ["three", "Answer to three.", "four"]


@pytest.mark.slow
def test_the_first_message_may_stand_on_the_command_line(ask: Ask, server: ModelServer) -> None:
    answers(server)
    with Chat(ask, "-q", "hello", "there") as chat:
        chat.say("two")
        chat.leave()
    assert last(server) == ["hello there", "Answer to there.", "two"]


@pytest.mark.slow
def test_five_hundred_pasted_lines_are_one_message(ask: Ask, server: ModelServer) -> None:
    answers(server)
    lines = [f"/line {number}\twith ünïcode" for number in range(500)]
    with Chat(ask) as chat:
        chat.type_in("Look: \x1b[200~" + "\r".join(lines) + "\x1b[201~")
        shown = chat.say("")
        assert chat.leave().code == 0
    assert len(server.requests) == 1
    assert last(server) == ["Look: " + "\n".join(lines)]
    assert "[494 more lines]" in shown
    assert "Answer to ünïcode." in shown


@pytest.mark.slow
def test_keys_begin_a_new_line(ask: Ask, server: ModelServer) -> None:
    answers(server)
    with Chat(ask) as chat:
        chat.say(f"one{ALT_ENTER}two{CTRL_J}three")
        chat.leave()
    assert last(server) == ["one\ntwo\nthree"]


# Ctrl-C


def test_ctrl_c_stops_an_answer_but_not_the_chat(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(Reply([wire.event(wire.text("So far")), HOLD], content_type="text/event-stream"), wire.says("Fine."))
    with Chat(ask) as chat:
        chat.type_in("tell me" + ENTER)
        server.wait_for_requests(1)
        chat.running.wait_for("So far")
        chat.type_in(CTRL_C)
        assert "ask: interrupted" in chat.prompted()
        server.wait_for_abandoned()
        assert "Fine." in chat.say("go on")
        assert chat.leave().code == 0
    assert last(server) == ["tell me", "So far", "go on"]
    assert [run.exit_code for run in saved(home)] == [130, 0]


@pytest.mark.slow
def test_ctrl_c_before_anything_is_answered_stops_the_waiting(ask: Ask, server: ModelServer) -> None:
    server.reply(Reply((HOLD,)), wire.says("Fine."))
    with Chat(ask) as chat:
        chat.type_in("tell me" + ENTER)
        server.wait_for_requests(1)
        chat.type_in(CTRL_C)
        assert "ask: interrupted" in chat.prompted()
        assert "Fine." in chat.say("again")


@pytest.mark.parametrize("options", [(), pytest.param(("--safe",), marks=pytest.mark.slow)], ids=["", "safe"])
def test_ctrl_c_ends_a_running_command_but_not_the_chat(
    ask: Ask, server: ModelServer, options: tuple[str, ...]
) -> None:
    stuck = ("bash", {"command": "echo $$ > stuck; sleep 300"})
    server.reply(wire.calls(stuck), wire.calls(("bash", {"command": "echo works"})), wire.says("Fine."))
    with Chat(ask, *options) as chat:
        chat.type_in("wait" + ENTER)
        process = int(appears(ask.cwd / "stuck"))
        chat.type_in(CTRL_C)
        assert "ask: interrupted" in chat.prompted()
        assert options or not is_running(process)
        assert "Fine." in chat.say("go on")
        assert chat.leave().code == 0
    asked, call, stopped, go_on, again, works = last(server)
    assert (asked, call, go_on, again) == ("wait", "", "go on", "")
    assert stopped.startswith("Error: interrupted by the user")
    assert "works" in works


@pytest.mark.slow
def test_ctrl_c_at_the_prompt_clears_what_was_typed(ask: Ask, server: ModelServer) -> None:
    answers(server)
    with Chat(ask) as chat:
        chat.type_in("half a message" + CTRL_C)
        chat.prompted()
        chat.say("whole")
        chat.leave()
    assert last(server) == ["whole"]


# Typed while an answer is printed


def slowly(request: Request) -> Reply:
    """An answer that names its message and takes a moment."""
    return wire.streams(wire.text(answering(request)), 1.0, wire.finish())


def test_each_line_typed_during_an_answer_is_a_message_of_its_own(ask: Ask, server: ModelServer) -> None:
    server.reply(slowly)
    with Chat(ask) as chat:
        chat.type_in("one" + ENTER)
        chat.running.wait_for("Answer to one.")
        chat.type_in("two" + ENTER + "/cost" + ENTER + "thrxe\x7f\x7fee" + ENTER + "half")
        chat.running.wait_for("Answer to three.")
        assert "half" not in chat.leave(CTRL_C + CTRL_D).text.partition("Answer to three.")[0]
    assert last(server) == ["one", "Answer to one.", "two", "Answer to two.", "three"]


@pytest.mark.slow
def test_a_paste_during_an_answer_is_one_message(ask: Ask, server: ModelServer) -> None:
    server.reply(slowly)
    with Chat(ask) as chat:
        chat.type_in("one" + ENTER)
        chat.running.wait_for("Answer to one.")
        assert b"\x1b[?2004l" not in bytes(chat.running.stdout).rpartition(b"\x1b[?2004h")[2], "pastes are not marked"
        chat.type_in("\x1b[200~first line\rthe second\x1b[201~" + ENTER)
        chat.running.wait_for("Answer to second.")
    assert last(server) == ["one", "Answer to one.", "first line\nthe second"]


@pytest.mark.slow
def test_ctrl_c_discards_what_was_typed_during_an_answer(ask: Ask, server: ModelServer) -> None:
    server.reply(slowly)
    with Chat(ask) as chat:
        chat.type_in("one" + ENTER)
        chat.running.wait_for("Answer to one.")
        chat.type_in("two" + ENTER + "three" + ENTER)
        chat.running.wait_for("Answer to two.")
        chat.type_in(CTRL_C)
        chat.running.wait_for("ask: interrupted")
        chat.prompted()
        chat.type_in("four" + ENTER)
        chat.running.wait_for("Answer to four.")
    assert "three" not in last(server)


@pytest.mark.slow
def test_a_question_during_an_answer_takes_a_line_and_leaves_the_rest(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(("bash", {"command": "echo x > ran"})), wire.says("Done."))
    with Chat(ask, "--confirm") as chat:
        chat.type_in("run it" + ENTER)
        chat.running.wait_for("[")
        chat.running.wait_for("echo x > ran")
        chat.running.wait_for("y(es)")
        chat.type_in("y" + ENTER)
        chat.running.wait_for("Done.")
        assert chat.leave().code == 0
    assert (ask.cwd / "ran").read_text() == "x\n"


@pytest.mark.slow
def test_a_chat_leaves_its_garbage_to_the_collector_after_every_message(ask: Ask, server: ModelServer) -> None:
    """`gc.freeze` exempts what it finds from collection for good, so it must not run once per message."""
    server.reply(wire.says("Fine."))
    program = "import gc; from ask.__main__ import run_and_report_errors; gc.disable(); run_and_report_errors(['chat', '-q']); print(gc.get_freeze_count())"
    results = [
        program_run([sys.executable, "-c", program], env=ask.env, cwd=ask.cwd, stdin=b"hi\n" * count)
        for count in (1, 20)
    ]
    few, many = (int(result.text.splitlines()[-1]) for result in results)
    assert few > 0
    assert many - few < 500


# Failures


@pytest.mark.slow
def test_a_failed_message_is_a_line_and_the_chat_goes_on(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.fails(401, "No auth credentials found"), wire.says("Fine."))
    with Chat(ask, "-q") as chat:
        shown = chat.say("hello")
        assert "ask: No auth credentials found (openrouter, 401)" in shown
        assert "Fine." in chat.say("again")
        assert chat.leave().code == 0


def test_without_a_key_there_is_no_chat(ask: Ask) -> None:
    result = ask.on_terminal("chat", env={"OPENROUTER_API_KEY": "", "OPENROUTER_BASE_URL": ""})
    assert result.code == 4
    assert "ask keys set openrouter" in result.text


# The end


@pytest.mark.slow
@pytest.mark.parametrize(
    "keys", ["exit\r", CTRL_D, *(pytest.param(keys, marks=pytest.mark.slow) for keys in ("quit\r", "/exit\r"))]
)
def test_words_and_ctrl_d_quit(ask: Ask, server: ModelServer, keys: str) -> None:
    with Chat(ask) as chat:
        result = chat.leave(keys)
    assert result.code == 0
    assert server.requests == []


def stty(ask: Ask) -> Running:
    """A chat between two lines that tell how the terminal is set."""
    script = 'stty -g; ask chat -p openrouter; code=$?; echo; stty -g; echo "code $code"; :'
    return Running(["bash", "-c", script], env=ask.env, cwd=ask.cwd, terminal=True)


def child_of(process: int) -> int:
    return int(Path(f"/proc/{process}/task/{process}/children").read_text().split()[0])


ENDINGS = [(busy, ending) for busy in (False, True) for ending in (None, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)]


@pytest.mark.parametrize(
    ("busy", "ending"),
    [
        pytest.param(*one, marks=[] if one in ((False, None), (True, signal.SIGTERM)) else pytest.mark.slow)
        for one in ENDINGS
    ],
)
def test_the_terminal_is_restored(ask: Ask, server: ModelServer, busy: bool, ending: signal.Signals | None) -> None:
    server.reply(Reply([wire.event(wire.text("So far")), HOLD], content_type="text/event-stream"))
    with stty(ask) as running:
        place = running.wait_for(PROMPT)
        if busy:
            running.type_in("wait" + ENTER)
            running.wait_for("So far")
        if ending is not None:
            os.kill(child_of(running.process.pid), ending)
        elif busy:
            running.type_in(CTRL_C)
        if ending in (None, signal.SIGINT):
            if ending or busy:
                running.wait_for(PROMPT, after=place)
            running.type_in(CTRL_D)
        result = running.finish()
    first, *_, second, code = (line for line in result.text.splitlines() if line)
    assert first == second
    left = {signal.SIGTERM: 143, signal.SIGHUP: 129}
    assert code == f"code {left.get(ending, 0) if ending else 0}"
    assert result.stdout.rfind(b"\x1b[?2004l") > result.stdout.rfind(b"\x1b[?2004h"), "pastes are not marked"
    assert result.stdout.rfind(b"\x1b[?25h") >= result.stdout.rfind(b"\x1b[?25l"), "the cursor is seen"


@pytest.mark.slow
def test_a_dumb_terminal_gets_no_escape_sequences(ask: Ask, server: ModelServer) -> None:
    answers(server)
    with ask.start_on_terminal("chat", "-q", "--no-tools", env={"TERM": "dumb"}) as running:
        place = running.wait_for("> ")
        for word in ("one", "two"):
            running.type_in(word + ENTER)
            place = running.wait_for(f"Answer to {word}.", after=place)
            place = running.wait_for("> ", after=place)
        running.type_in("exit" + ENTER)
        result = running.finish()
    assert result.code == 0
    assert b"\x1b" not in result.stdout.replace(b"\x1b[?12l\x1b[?25h", b""), "nothing but that the cursor is seen"
    assert last(server) == ["one", "Answer to one.", "two"]


@pytest.mark.slow
def test_the_terminal_may_be_resized(ask: Ask, server: ModelServer) -> None:
    answers(server)
    with Chat(ask) as chat:
        chat.type_in("some words that are more than fit")
        chat.running.wait_for("fit")
        place = len(chat.running.stdout)
        chat.running.resize(10, 20)
        chat.running.wait_for("\x1b[J", after=place)
        chat.type_in(" now" + ENTER)
        chat.running.wait_for(PROMPT, after=chat.running.wait_for("now.", after=place))
        screen = Screen(20, 10)
        screen.feed(bytes(chat.running.stdout[place:]))
        shown = "".join(screen.lines).replace(" ", "")
        assert ">somewordsthataremorethanfitnow" in shown
        assert "Answertonow." in shown
        assert chat.leave().code == 0
    assert last(server) == ["some words that are more than fit now"]


# What was typed before


@pytest.mark.slow
def test_typed_messages_are_recalled_in_the_next_chat_without_keys(ask: Ask, server: ModelServer, home: Home) -> None:
    answers(server)
    for _ in range(2):
        with Chat(ask) as chat:
            chat.say(f"my key is {TEST_KEY}")
            chat.say(f"one{CTRL_J}two")
            chat.leave()
    with Chat(ask) as chat:
        chat.type_in(UP)
        chat.say("!")
        chat.leave()
    assert last(server) == ["one\ntwo!"]
    file = home.data / "chat_history"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert TEST_KEY not in kept(home.data)
    with Chat(ask, "--no-save") as chat:
        chat.say("secret")
        assert "two" not in chat.say(f"{UP}{UP}"), "nothing is known of other chats"
        chat.leave()
    assert "secret" not in kept(home.data)


@pytest.mark.slow
def test_the_file_of_typed_messages_is_trimmed(ask: Ask, server: ModelServer, home: Home) -> None:
    answers(server)
    home.data.mkdir(parents=True)
    entries = [f"\n# 2026-01-01 00:00:00.000000\n+message {number} {'x' * 90}\n" for number in range(12_000)]
    (home.data / "chat_history").write_text("".join(entries))
    with Chat(ask) as chat:
        chat.type_in(UP)
        chat.running.wait_for("message 11999")
        chat.type_in(CTRL_C)
        chat.prompted()
        chat.leave()
    lines = kept(home.data).splitlines()
    assert lines[1].startswith("# 2026")
    assert 300_000 < (home.data / "chat_history").stat().st_size < 600_000


# Tab


@pytest.mark.slow
def test_tab_completes_commands_and_names_of_files(ask: Ask, server: ModelServer) -> None:
    answers(server)
    (ask.cwd / "marzipan.txt").write_text("sweet\n")
    with Chat(ask) as chat:
        chat.complete("/he", "lp")
        assert "Alt-Enter" in chat.say("")
        chat.complete("/fi", "le")
        chat.complete("mar", "zipan.txt")
        assert "1 line" in chat.say("")
        chat.complete("what is in @mar", "zipan.txt")
        chat.say("")
        chat.complete("/provider dem", "o")
        assert "demo of demo" in chat.say("")
        chat.leave()
    assert last(server) == ['what is in @marzipan.txt\n\n<file name="marzipan.txt">\nsweet\n</file>']
