"""`ask chat` on a terminal: input, interruption, the end, and sharing conversations with `ask`."""

from __future__ import annotations

import os
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event

import pytest

from ask.mcp.completion_cache import write_addresses
from tests import wire
from tests.cli.chat.chat_session import (
    ALT_ENTER,
    CTRL_D,
    CTRL_J,
    ENTER,
    PROMPT,
    UP,
    Chat,
    answer_with_last_word,
    answer_with_last_words,
    read_conversation_id,
    read_input_history,
    read_last_conversation,
)
from tests.model_server import HOLD, ModelServer, Reply, Request
from tests.program import ASK, CTRL_C, TEST_KEY, Ask, Home, Running, is_running
from tests.program import run as program_run
from tests.saved_history import list_messages, read_saved_runs
from tests.scenarios.test_failures import wait_for_content
from tests.screen import Screen
from tests.slow_parameters import mark_others_slow


@pytest.fixture(autouse=True)
def model(server: ModelServer) -> None:
    """Answer every message with its last word, unless a test scripts other replies first."""


def test_ask_continues_the_conversation_of_a_chat(ask: Ask, server: ModelServer, home: Home) -> None:
    answer_with_last_words(server)
    with Chat(ask, env={"ASK_SESSION": "a"}) as chat:
        assert "Answer to one." in chat.send("one")
        assert len(read_saved_runs(home)) == 1, "it is saved as it happens"
        assert "Answer to two." in chat.send("two")
        result = chat.quit()
    assert result.code == 0
    assert [list_messages(run)[0][1] for run in read_saved_runs(home)] == ["one", "two"]
    goes_on = ask("-c", "three", env={"ASK_SESSION": "a"})
    assert goes_on.conversation == read_conversation_id(result)
    assert read_last_conversation(server) == ["one", "Answer to one.", "two", "Answer to two.", "three"]
    with Chat(ask, "-c", env={"ASK_SESSION": "a"}) as chat:
        chat.send("four")
        assert read_conversation_id(chat.quit()) == read_conversation_id(result)
    assert read_last_conversation(server)[-3:] == ["three", "Answer to three.", "four"]


@pytest.mark.slow
def test_the_first_message_can_be_given_on_the_command_line(ask: Ask, server: ModelServer) -> None:
    answer_with_last_words(server)
    with Chat(ask, "-q", "hello", "there") as chat:
        chat.send("two")
        chat.quit()
    assert read_last_conversation(server) == ["hello there", "Answer to there.", "two"]


@pytest.mark.slow
def test_five_hundred_pasted_lines_are_one_message(ask: Ask, server: ModelServer) -> None:
    answer_with_last_words(server)
    lines = [f"/line {number}\twith ünïcode" for number in range(500)]
    with Chat(ask) as chat:
        chat.type_in("Look: \x1b[200~" + "\r".join(lines) + "\x1b[201~")
        shown = chat.send("")
        assert chat.quit().code == 0
    assert len(server.requests) == 1
    assert read_last_conversation(server) == ["Look: " + "\n".join(lines)]
    assert "[494 more lines]" in shown
    assert "Answer to ünïcode." in shown


@pytest.mark.slow
def test_a_long_pasted_line_is_shown_shortened(ask: Ask, server: ModelServer) -> None:
    answer_with_last_words(server)
    with Chat(ask) as chat:
        chat.type_in(f"\x1b[200~{'word ' * 1_000}end\x1b[201~")
        shown = chat.send("")
        assert "Answer to end." in shown
        assert len(shown) < 1_500
        chat.quit()
    assert read_last_conversation(server) == ["word " * 1_000 + "end"]


EDIT = "\x18\x05"
EDITS = {
    'printf "caf\\351\\n" > "$1"': "Answer to café.",
    'printf "\\xef\\xbb\\xbfmarked\\n" > "$1"': "Answer to marked.",
    'rm -r "$TMPDIR"': "cannot read the edited text",
    'echo lost > "$1"; exit 3': "cannot use the editor",
}
"""Scripts of editors, and what is shown."""


@pytest.mark.parametrize("script", mark_others_slow(EDITS))
def test_a_message_is_written_in_an_editor(script: str, ask: Ask, server: ModelServer, home: Home) -> None:
    answer_with_last_words(server)
    editor = home.path / "editor"
    editor.write_text(f"#!/bin/bash\n{script}\n")
    editor.chmod(0o755)
    folder = home.path / "temporary"
    folder.mkdir()
    with Chat(ask, env={"VISUAL": str(editor), "TMPDIR": str(folder)}) as chat:
        chat.type_in("draft" + EDIT)
        place = chat.running.wait_for(EDITS[script])
        place = chat.running.wait_for(PROMPT, after=place)
        if "Answer" not in EDITS[script]:  # the message is unchanged, and not sent
            chat.type_in(EDIT)
            place = chat.running.wait_for("ask: cannot", after=place)
            chat.running.wait_for(PROMPT, after=place)
            chat.type_in(ENTER)
            chat.running.wait_for("Answer to draft.", after=place)


@pytest.mark.slow
def test_newline_keys_do_not_send_the_message(ask: Ask, server: ModelServer) -> None:
    answer_with_last_words(server)
    with Chat(ask) as chat:
        chat.send(f"one{ALT_ENTER}two{CTRL_J}three")
        chat.quit()
    assert read_last_conversation(server) == ["one\ntwo\nthree"]


# Ctrl-C


def test_ctrl_c_stops_the_answer_and_returns_to_the_prompt(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(Reply([wire.event(wire.text("So far")), HOLD], content_type="text/event-stream"), wire.says("Fine."))
    with Chat(ask) as chat:
        chat.type_in("tell me" + ENTER)
        server.wait_for_requests(1)
        chat.running.wait_for("So far")
        chat.type_in(CTRL_C)
        assert "ask: interrupted" in chat.wait_for_prompt()
        server.wait_for_abandoned()
        assert "Fine." in chat.send("go on")
        assert chat.quit().code == 0
    assert read_last_conversation(server) == ["tell me", "So far", "go on"]
    assert [run.exit_code for run in read_saved_runs(home)] == [130, 0]


@pytest.mark.slow
def test_ctrl_c_stops_waiting_for_the_first_token(ask: Ask, server: ModelServer) -> None:
    server.reply(Reply((HOLD,)), wire.says("Fine."))
    with Chat(ask) as chat:
        chat.type_in("tell me" + ENTER)
        server.wait_for_requests(1)
        chat.type_in(CTRL_C)
        assert "ask: interrupted" in chat.wait_for_prompt()
        assert "Fine." in chat.send_alone("again")


@pytest.mark.parametrize(
    "options", [(), pytest.param(("--safe",), marks=[pytest.mark.slow, pytest.mark.needs("bwrap")])], ids=["", "safe"]
)
def test_ctrl_c_kills_a_running_command_and_returns_to_the_prompt(
    ask: Ask, server: ModelServer, options: tuple[str, ...]
) -> None:
    stuck = ("bash", {"command": "echo $$ > stuck; sleep 300"})
    server.reply(wire.calls(stuck), wire.calls(("bash", {"command": "echo works"})), wire.says("Fine."))
    with Chat(ask, *options) as chat:
        chat.type_in("wait" + ENTER)
        process = int(wait_for_content(ask.cwd / "stuck"))
        chat.type_in(CTRL_C)
        assert "ask: interrupted" in chat.wait_for_prompt()
        assert options or not is_running(process)
        assert "Fine." in chat.send("go on")
        assert chat.quit().code == 0
    asked, call, stopped, go_on, again, works = read_last_conversation(server)
    assert (asked, call, go_on, again) == ("wait", "", "go on", "")
    assert stopped.startswith("Error: interrupted")
    assert "works" in works


@pytest.mark.slow
def test_ctrl_c_at_the_prompt_clears_the_line(ask: Ask, server: ModelServer) -> None:
    answer_with_last_words(server)
    with Chat(ask) as chat:
        chat.type_in("half a message" + CTRL_C)
        chat.wait_for_prompt()
        chat.send("whole")
        chat.quit()
    assert read_last_conversation(server) == ["whole"]


# Input typed during an answer


def answer_slowly(request: Request) -> Reply:
    """Answer slowly with the last word of the message."""
    return wire.streams(wire.text(answer_with_last_word(request)), 1.0, wire.finish())


@pytest.mark.slow
def test_each_line_typed_during_an_answer_is_a_separate_message(ask: Ask, server: ModelServer) -> None:
    server.reply(answer_slowly)
    with Chat(ask) as chat:
        chat.type_in("one" + ENTER)
        chat.running.wait_for("Answer to one.")
        chat.type_in("two" + ENTER + "/cost" + ENTER + "thrxe\x7f\x7fee" + ENTER + "half")
        chat.running.wait_for("Answer to three.")
        assert "half" not in chat.quit(CTRL_C + CTRL_D).text.partition("Answer to three.")[0]
    assert read_last_conversation(server) == ["one", "Answer to one.", "two", "Answer to two.", "three"]


@pytest.mark.slow
def test_lines_typed_while_the_chat_starts_are_separate_messages(ask: Ask, server: ModelServer) -> None:
    answer_with_last_words(server)
    with ask.start_on_terminal("chat") as running:
        running.type_in("one" + ENTER + "/cost" + ENTER + "two" + ENTER + "half")
        server.wait_for_requests(2)
        running.wait_for("half", after=running.wait_for("Answer to two."))
        running.type_in(ENTER)
        server.wait_for_requests(3)
        running.wait_for("Answer to half.")
        running.type_in(CTRL_D)
        assert running.finish().code == 0
    assert read_last_conversation(server)[::2] == ["one", "two", "half"]


@pytest.mark.slow
def test_text_pasted_during_an_answer_is_one_message(ask: Ask, server: ModelServer) -> None:
    server.reply(answer_slowly)
    with Chat(ask) as chat:
        chat.type_in("one" + ENTER)
        chat.running.wait_for("Answer to one.")
        assert b"\x1b[?2004l" not in bytes(chat.running.stdout).rpartition(b"\x1b[?2004h")[2], "pastes are not marked"
        chat.type_in("\x1b[200~first line\rthe second\x1b[201~" + ENTER)
        chat.running.wait_for("Answer to second.")
    assert read_last_conversation(server) == ["one", "Answer to one.", "first line\nthe second"]


@pytest.mark.slow
def test_ctrl_c_discards_input_typed_during_an_answer(ask: Ask, server: ModelServer) -> None:
    server.reply(answer_slowly)
    with Chat(ask) as chat:
        chat.type_in("one" + ENTER)
        chat.running.wait_for("Answer to one.")
        chat.type_in("two" + ENTER + "three" + ENTER)
        chat.running.wait_for("Answer to two.")
        chat.type_in(CTRL_C)
        chat.running.wait_for("ask: interrupted")
        chat.wait_for_prompt()
        chat.type_in("four" + ENTER)
        chat.running.wait_for("Answer to four.")
    assert "three" not in read_last_conversation(server)


@pytest.mark.slow
def test_a_confirmation_reads_one_key(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(("bash", {"command": "echo x > ran"})), wire.says("Done."))
    with Chat(ask, "--confirm") as chat:
        chat.type_in("run it" + ENTER)
        chat.running.wait_for("[")
        chat.running.wait_for("echo x > ran")
        chat.running.wait_for("Run this? ")
        chat.type_in("y")
        chat.running.wait_for("Done.")
        assert chat.quit().code == 0
    assert (ask.cwd / "ran").read_text() == "x\n"


@pytest.mark.slow
def test_an_approval_for_this_run_lasts_for_the_whole_chat(ask: Ask, server: ModelServer) -> None:
    call = wire.calls(("bash", {"command": "echo x >> ran"}))
    server.reply(call, wire.says("First."), call, wire.says("Second."))
    with Chat(ask, "--confirm") as chat:
        chat.type_in("run it" + ENTER)
        chat.running.wait_for("Run this? ")
        chat.type_in("m")
        chat.running.wait_for("Which? ")
        chat.type_in("1")
        chat.running.wait_for("First.")
        chat.type_in("again" + ENTER)
        chat.running.wait_for("Second.")
        assert chat.quit().code == 0
    assert (ask.cwd / "ran").read_text() == "x\nx\n"


@pytest.mark.slow
def test_gc_freeze_does_not_run_after_every_message(ask: Ask, server: ModelServer) -> None:
    """`gc.freeze` exempts existing objects from collection for good."""
    server.reply(wire.says("Fine."))
    program = """
import gc
from ask.__main__ import run_and_report_errors
gc.disable()
run_and_report_errors(["chat", "-q"])
print(gc.get_freeze_count())
"""
    results = [
        program_run([sys.executable, "-c", program], env=ask.env, cwd=ask.cwd, stdin=b"hi\n" * count)
        for count in (1, 20)
    ]
    few, many = (int(result.text.splitlines()[-1]) for result in results)
    assert few > 0
    assert many - few < 500


# Failures


@pytest.mark.slow
def test_a_failed_message_is_reported_and_the_chat_continues(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.fails(401, "No auth credentials found"), wire.says("Fine."))
    with Chat(ask, "-q") as chat:
        shown = chat.send("hello")
        assert "ask: No auth credentials found (openrouter, 401)" in shown
        assert "Fine." in chat.send_alone("again")
        assert chat.quit().code == 0


def test_a_missing_key_ends_the_chat_at_the_start(ask: Ask) -> None:
    result = ask.on_terminal("chat", env={"OPENROUTER_API_KEY": "", "OPENROUTER_BASE_URL": ""})
    assert result.code == 4
    assert "ask keys set openrouter" in result.text


# The end


@pytest.mark.slow
@pytest.mark.parametrize("keys", ["exit\r", "quit\r", "/exit\r", CTRL_D])
def test_exit_words_and_ctrl_d_end_the_chat(ask: Ask, server: ModelServer, keys: str) -> None:
    with Chat(ask) as chat:
        result = chat.quit(keys)
    assert result.code == 0
    assert server.requests == []


def stty(ask: Ask) -> Running:
    """Run a chat between two `stty` calls that print the terminal modes."""
    script = 'stty -g; ask chat -p openrouter; code=$?; echo; stty -g; echo "code $code"; :'
    return Running(["bash", "-c", script], env=ask.env, cwd=ask.cwd, terminal=True)


def suspend(shell: Running, shown: int) -> int:
    """Type Ctrl-Z until the shell shows its prompt; return the position after that.

    Python handles a signal that arrives just before it waits for the network only with the next one, or with data.
    """
    for _ in range(10):
        shell.type_in("\x1a")
        with suppress(AssertionError):
            return shell.wait_for("ready> ", 3, after=shown)
    return shell.wait_for("ready> ", after=shown)


@contextmanager
def start_answer(
    ask: Ask, server: ModelServer, *later: Callable[[Request], Reply]
) -> Iterator[tuple[Running, Event, int]]:
    """Chat in bash until an answer begins, which goes on when the event is set.

    Yields the shell, the event and the position after the beginning.
    """
    resumed = Event()
    end = [wire.event(wire.text(" and so on.")), wire.event(wire.finish())]
    server.reply(Reply([wire.event(wire.text("So far")), resumed, *end], content_type="text/event-stream"), *later)
    env = {**ask.env, "PS1": "ready> ", "TERM": "xterm-256color"}
    with Running(["bash", "--norc", "--noprofile", "-i"], env=env, cwd=ask.cwd, terminal=True) as shell:
        shell.wait_for("ready> ")
        shell.type_in(f"{ASK} chat --no-tools\r")
        shell.wait_for(PROMPT)
        shell.type_in("one" + ENTER)
        yield shell, resumed, shell.wait_for("So far")


@pytest.mark.slow
def test_input_typed_during_an_answer_is_neither_shown_nor_merged_after_ctrl_z(ask: Ask, server: ModelServer) -> None:
    with start_answer(ask, server, answer_slowly) as (shell, stopped, start):
        place = suspend(shell, start)
        assert b"\x1b[?2004l" in shell.stdout[start : shell.wait_for("Stopped", after=start)]  # the shell may not do it
        shell.type_in("fg\r")
        place = shell.wait_for("--no-tools", after=place)
        shell.wait_for("\x1b[?2004h", after=place)  # pastes are marked again
        shell.type_in("two" + ENTER + "three" + ENTER + "\x1b[200~four\rfive\x1b[201~" + ENTER)
        time.sleep(0.2)
        stopped.set()
        shell.wait_for("Answer to five.", after=place)
        answer, _, _ = bytes(shell.stdout[place:]).partition(PROMPT.encode())
    assert b"two" not in answer
    assert read_last_conversation(server)[::2] == ["one", "two", "three", "four\nfive"]


@pytest.mark.slow
def test_ctrl_z_while_the_terminal_takes_no_output_does_not_end_the_answer(ask: Ask, server: ModelServer) -> None:
    with start_answer(ask, server) as (shell, is_resumed, start):
        shell.type_in("\x13")  # Ctrl-S, after which writes to the terminal wait for Ctrl-Q
        is_resumed.set()
        time.sleep(0.5)
        shell.type_in("\x1a")
        time.sleep(0.5)
        shell.type_in("\x11")
        place = suspend(shell, start)
        shell.type_in("fg\r")
        shell.wait_for(" and so on.", after=start)  # on a busy machine, it is shown before ask stops
        shell.wait_for(PROMPT, after=place)
    assert b"error" not in shell.stdout


def child_of(process: int) -> int:
    return int(Path(f"/proc/{process}/task/{process}/children").read_text().split()[0])


ENDINGS = [(busy, ending) for busy in (False, True) for ending in (None, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)]


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    ("busy", "ending"),
    [
        pytest.param(*one, marks=[] if one in ((False, None), (True, signal.SIGTERM)) else pytest.mark.slow)
        for one in ENDINGS
    ],
)
def test_terminal_modes_are_restored_at_the_end(
    ask: Ask, server: ModelServer, busy: bool, ending: signal.Signals | None
) -> None:
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
def test_dumb_terminals_get_no_escape_sequences(ask: Ask, server: ModelServer) -> None:
    answer_with_last_words(server)
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
    assert read_last_conversation(server) == ["one", "Answer to one.", "two"]


@pytest.mark.slow
def test_the_prompt_is_redrawn_after_a_terminal_resize(ask: Ask, server: ModelServer) -> None:
    answer_with_last_words(server)
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
        assert chat.quit().code == 0
    assert read_last_conversation(server) == ["some words that are more than fit now"]


# Input history


@pytest.mark.slow
def test_the_next_chat_recalls_messages_with_keys_redacted(ask: Ask, server: ModelServer, home: Home) -> None:
    answer_with_last_words(server)
    for _ in range(2):
        with Chat(ask) as chat:
            chat.send(f"my key is {TEST_KEY}")
            chat.send(f"one{CTRL_J}two")
            chat.quit()
    with Chat(ask) as chat:
        chat.type_in(UP)
        chat.send("!")
        chat.quit()
    assert read_last_conversation(server) == ["one\ntwo!"]
    file = home.data / "chat_history"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert TEST_KEY not in read_input_history(home.data)
    with Chat(ask, "--no-save") as chat:
        chat.send("secret")
        assert "two" not in chat.send(f"{UP}{UP}"), "nothing is known of other chats"
        chat.quit()
    assert "secret" not in read_input_history(home.data)


@pytest.mark.slow
def test_the_input_history_file_is_trimmed(ask: Ask, server: ModelServer, home: Home) -> None:
    answer_with_last_words(server)
    home.data.mkdir(parents=True)
    entries = [f"\n# 2026-01-01 00:00:00.000000\n+message {number} {'x' * 90}\n" for number in range(12_000)]
    (home.data / "chat_history").write_text("".join(entries))
    with Chat(ask) as chat:
        chat.type_in(UP)
        chat.running.wait_for("message 11999")
        chat.type_in(CTRL_C)
        chat.wait_for_prompt()
        chat.quit()
    lines = read_input_history(home.data).splitlines()
    assert lines[1].startswith("# 2026")
    assert 300_000 < (home.data / "chat_history").stat().st_size < 600_000


# Tab


@pytest.mark.slow
def test_tab_completes_commands_and_file_names(ask: Ask, server: ModelServer) -> None:
    answer_with_last_words(server)
    (ask.cwd / "marzipan.txt").write_text("sweet\n")
    with Chat(ask) as chat:
        chat.complete("/he", "lp")
        assert "Alt-Enter" in chat.send("")
        chat.complete("/fi", "le")
        chat.complete("mar", "zipan.txt")
        assert "1 line" in chat.send("")
        chat.complete("what is in @mar", "zipan.txt")
        chat.send("")
        chat.complete("/provider dem", "o")
        assert "demo (demo)" in chat.send("")
        chat.quit()
    assert read_last_conversation(server) == ['what is in @marzipan.txt\n\n<file name="marzipan.txt">\nsweet\n</file>']


@pytest.mark.slow
def test_tab_completes_the_addresses_that_mcp_servers_listed_last(ask: Ask, home: Home) -> None:
    home.configure('[mcp.servers.notes]\ncommand = "touch"\nargs = ["started"]\n')
    addresses = [("file:///plan.md", "what is left"), ("$(id)", "")]
    write_addresses(Path(home.env["XDG_CACHE_HOME"], "ask"), "notes", "resources", addresses)
    with Chat(ask) as chat:
        chat.complete("/file mc", "p://notes/")
        chat.complete("", "file:///plan.md")
        chat.send("")
        chat.quit()
