"""Where a conversation cannot be saved, the answer is printed all the same, a line says why, and nothing is harmed."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests import wire
from tests.file_locks import NEEDS_SECCOMP, WITHOUT_LOCKS
from tests.history.broken import BROKEN, content
from tests.history.test_store import locked
from tests.model_server import ModelServer, Reply, Request
from tests.program import ASK, Ask, Home, Result, Running, run
from tests.saved_history import history_file, list_messages, read_saved_runs, save_run

TOUCH = ("bash", {"command": "echo x >> ran"})


@pytest.fixture
def hello(server: ModelServer) -> None:
    server.reply(wire.says("Hello."))


def check_answered(result: Result, words: str) -> None:
    """The answer is there, and one line says what is not saved and why."""
    assert (result.text, result.code) == ("Hello.\n", 0)
    [line] = [line for line in result.stderr.splitlines() if "without the unanswered question" not in line]
    assert line.startswith("ask: ")
    assert words in line


def check_refused(result: Result, words: str) -> None:
    """Nothing was asked; a line says why."""
    assert (result.text, result.code) == ("", 9)
    [line] = result.stderr.splitlines()
    assert line.startswith("ask: ")
    assert words in line


@pytest.mark.usefixtures("hello")
@pytest.mark.parametrize("name", BROKEN)
def test_unusable_history(ask: Ask, home: Home, server: ModelServer, name: str) -> None:
    home.data.mkdir()
    BROKEN[name].make(history_file(home))
    before = content(home.data)
    check_answered(ask("hi"), BROKEN[name].words)
    told = json.loads(ask("-q", "--json", "hi").text)
    assert (told["saved"], told["exit_code"], told["text"]) == (False, 0, "Hello.")
    assert len(server.requests) == 2
    check_refused(ask("-c", "hi"), BROKEN[name].words)
    check_refused(ask("--resume", "1", "hi"), BROKEN[name].words)
    check_refused(ask("history", "list"), BROKEN[name].words)
    assert len(server.requests) == 2
    assert content(home.data) == before


@pytest.mark.usefixtures("hello")
def test_file_in_place_of_the_data_folder(ask: Ask, home: Home, server: ModelServer) -> None:
    home.data.write_text("mine")
    check_answered(ask("hi"), "(Not a directory)")
    server.reply(wire.calls(TOUCH), wire.says("Hello."))
    assert ask("hi").text == "Hello.\n"
    assert (ask.cwd / "ran").read_text() == "x\n"
    check_refused(ask("-c", "hi"), "(Not a directory)")
    assert home.data.read_text() == "mine"


def in_a_world(ask: Ask, script: str, *options: str) -> Result:
    """Run a bash script with its own view of the disk."""
    return ask.shell(f"bwrap --dev-bind / / {' '.join(options)} -- bash -c '{script}'")


@pytest.mark.slow_after_first
@pytest.mark.usefixtures("hello")
@pytest.mark.parametrize("there", [True, False])
@pytest.mark.needs("bwrap")
def test_read_only_data_folder(ask: Ask, home: Home, there: bool) -> None:
    home.data.mkdir()
    if there:
        save_run(history_file(home))
    before = content(home.data)
    read_only = ("--ro-bind", str(home.data), str(home.data))
    words = f"{history_file(home)} (read-only)" if there else f"{history_file(home)}"
    result = in_a_world(ask, "ask hi", *read_only)
    check_answered(result, words)
    assert "XDG_DATA_HOME" in result.stderr
    assert "--no-save" in result.stderr
    assert content(home.data) == before


FILL = "head -c 9M /dev/zero > $XDG_DATA_HOME/ask/fill 2> /dev/null"
READING = (
    "ask history list --json",
    "ask history show one --json",
    "ask history search sky",
    "ask history export one --json",
    "ask history stats --json",
    "ask --complete conversations",
)


@pytest.mark.slow
@pytest.mark.parametrize("disk", ["read-only", "full"])
@pytest.mark.needs("bwrap")
def test_history_on_a_full_or_read_only_disk_can_be_read(disk: str, ask: Ask, server: ModelServer, home: Home) -> None:
    home.data.mkdir()
    save_run(history_file(home), "one", "blue sky?")
    kept, place = home.work / "history.db", str(home.data)
    kept.write_bytes(history_file(home).read_bytes())
    options: tuple[str, ...] = ("--ro-bind", place, place)
    script = ""
    if disk == "full":
        options, script = ("--size", "400000", "--tmpfs", place), f"cp {kept} {place}; {FILL}; "
    expected = [ask(*command.split()[1:]).text for command in READING]
    assert "" not in expected, expected
    assert [in_a_world(ask, script + command, *options).text for command in READING] == expected
    server.reply(wire.says("Hello."))
    result = in_a_world(ask, f"{script}ask --resume one hi", *options)
    check_answered(result, "read-only" if disk == "read-only" else "no space left")
    assert server.requests[-1].json["messages"][-1]["content"] == "hi"
    check_refused(
        in_a_world(ask, f"{script}ask history delete one -y", *options),
        "read-only" if disk == "read-only" else "no space left",
    )


@pytest.mark.slow_after_first
@pytest.mark.parametrize("index", [True, False])
@pytest.mark.needs("bwrap")
def test_log_of_a_killed_process_is_not_ignored(index: bool, ask: Ask, home: Home) -> None:
    home.data.mkdir()
    save_run(history_file(home), "one")
    script = f"""
import os
from pathlib import Path
from tests.saved_history import save_run
from ask.history.store import Store
with Store(Path({str(history_file(home))!r})) as open_store:
    save_run(Path({str(history_file(home))!r}), "two")
    os._exit(0)
"""
    subprocess.run([sys.executable, "-c", script], check=True, cwd=Path(__file__).parents[2])
    assert (home.data / "history.db-wal").stat().st_size
    if not index:
        (home.data / "history.db-shm").unlink()
    result = in_a_world(ask, "ask history list --json", "--ro-bind", str(home.data), str(home.data))
    if index:
        assert [row["id"] for row in json.loads(result.text)] == ["two", "one"]
    else:
        check_refused(result, f"{history_file(home)} (read-only)")


@pytest.mark.usefixtures("hello")
@pytest.mark.needs("bwrap")
def test_read_only_file(ask: Ask, home: Home) -> None:
    save_run(history_file(home))
    before = content(home.data)
    read_only = ("--ro-bind", str(history_file(home)), str(history_file(home)))
    check_answered(in_a_world(ask, "ask hi", *read_only), f"{history_file(home)} (read-only)")
    assert content(home.data)["history.db"] == before["history.db"]


@pytest.fixture
def small_disk(home: Home) -> tuple[str, ...]:
    home.data.mkdir()
    return ("--size", "400000", "--tmpfs", str(home.data))


@pytest.mark.slow
@pytest.mark.usefixtures("hello")
@pytest.mark.needs("bwrap")
def test_disk_full_from_the_start(ask: Ask, small_disk: tuple[str, ...]) -> None:
    check_answered(in_a_world(ask, f"{FILL}; ask hi", *small_disk), "(no space left)")
    check_refused(in_a_world(ask, f"{FILL}; touch $XDG_DATA_HOME/ask/history.db; ask -c hi", *small_disk), "no space")


@pytest.mark.slow
@pytest.mark.usefixtures("hello")
@pytest.mark.needs("bwrap")
def test_disk_that_becomes_full(ask: Ask, server: ModelServer, home: Home, small_disk: tuple[str, ...]) -> None:
    """What was saved before is there again once there is room."""
    script = f"ask -q first; {FILL}; ask second; rm $XDG_DATA_HOME/ask/fill; ask -q -c third; cp $XDG_DATA_HOME/ask/* ."
    result = in_a_world(ask, script, *small_disk)
    assert (result.text, result.code) == ("Hello.\n" * 3, 0)
    [line] = result.stderr.splitlines()
    assert f"{history_file(home)} (no space left)" in line
    copy = ask.cwd / "history.db"
    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    told = wire.asked(server.requests[-1].json)
    assert told == "third"
    assert [message["role"] for message in server.requests[-1].json["messages"]] == [
        *("system", "user", "assistant", "user")
    ]


@pytest.mark.slow
@pytest.mark.needs("bwrap")
def test_disk_that_becomes_full_during_a_run(
    ask: Ask, server: ModelServer, home: Home, small_disk: tuple[str, ...]
) -> None:
    """The call runs and the answer comes; a line says what is lost of the conversation, another what of the log."""
    fill = "head -c 9M /dev/zero > $XDG_DATA_HOME/ask/fill; head -c 60000 /dev/zero | tr '\\0' x"
    server.reply(wire.calls(("bash", {"command": fill})), wire.says("Hello."))
    result = in_a_world(ask, "ask hi", *small_disk)
    assert (result.text, result.code) == ("Hello.\n", 0)
    lines = [line for line in result.stderr.splitlines() if line.startswith("ask: ")]
    assert len([line for line in lines if str(history_file(home)) in line]) == 1
    assert all("no space left" in line.lower() for line in lines)
    assert len(lines) <= 2


@pytest.mark.slow
@pytest.mark.usefixtures("hello")
def test_file_size_limit(ask: Ask, home: Home) -> None:
    save_run(history_file(home))
    check_answered(ask.shell("ulimit -f 20; ask hi"), f"{history_file(home)} (disk error)")
    assert len(read_saved_runs(home)) == 1


# Another process


@pytest.mark.slow
def test_run_is_saved_once_another_process_releases_its_lock(ask: Ask, home: Home, server: ModelServer) -> None:
    save_run(history_file(home))
    with locked(history_file(home)) as other:

        def answer(_: Request) -> Reply:
            other.execute("ROLLBACK")
            return wire.says("Hello again.")

        server.reply(answer)
        result = ask("hi")
    assert (result.text, result.stderr, result.code) == ("Hello again.\n", "", 0)
    assert list_messages(read_saved_runs(home)[-1]) == [("user", "hi", True), ("assistant", "Hello again.", True)]


@pytest.mark.slow
@pytest.mark.usefixtures("hello")
def test_a_lock_that_is_never_released_is_given_up_after_the_answer(ask: Ask, home: Home) -> None:
    save_run(history_file(home))
    with locked(history_file(home)), ask.start("hi") as running:
        running.wait_for("Hello.")
        said_at = time.monotonic()
        result = running.finish()
    check_answered(result, f"{history_file(home)} has been locked")
    assert time.monotonic() - said_at < 20
    assert len(read_saved_runs(home)) == 1


def still_runs(running: Running) -> bool:
    """Whether it has not ended in a quarter of a second."""
    try:
        running.process.wait(0.25)
    except subprocess.TimeoutExpired:
        return True
    return False


@pytest.mark.slow
@pytest.mark.usefixtures("hello")
def test_ctrl_c_ends_the_wait_for_a_lock(ask: Ask, home: Home) -> None:
    save_run(history_file(home))
    with locked(history_file(home)), ask.start("hi") as running:
        running.wait_for("Hello.\n")
        while still_runs(running):
            running.signal()
        result = running.finish()
    assert result.text == "Hello.\n"
    why, *rest = result.stderr.splitlines()
    assert why.startswith("ask: ")
    # It may come before the answer's end is read, and is then an interruption of that.
    assert (result.code, rest) in ((0, []), (130, ["ask: interrupted"]))


@pytest.mark.slow
@NEEDS_SECCOMP
@pytest.mark.usefixtures("hello")
def test_a_file_system_without_locks_is_named_at_once(ask: Ask, home: Home) -> None:
    command = [*WITHOUT_LOCKS, ASK]
    result = run([*command, "hi"], env=ask.env, cwd=ask.cwd)
    check_answered(result, "has no file locks")
    assert result.seconds < 5
    check_refused(run([*command, "history", "list"], env=ask.env, cwd=ask.cwd), "XDG_DATA_HOME")


@pytest.mark.usefixtures("hello")
def test_history_can_be_read_while_it_is_locked_for_writing(ask: Ask, home: Home) -> None:
    save_run(history_file(home))
    with locked(history_file(home)):
        assert ask("--no-save", "--resume", "1", "hi").code == 0
        assert ask("history", "list").code == 0
