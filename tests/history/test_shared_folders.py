"""The history on file systems where processes cannot share memory, such as network file systems."""

from __future__ import annotations

import os
import platform
import sqlite3
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from subprocess import PIPE, Popen

import pytest

from ask.history.store import DEFAULT_LOCK_SECONDS
from tests import wire
from tests.lockless import SYSTEM_CALLS
from tests.model_server import ModelServer
from tests.program import PROGRAMS, Ask, Home, Result, Running, run
from tests.saved_history import history_file, list_messages, read_saved_runs, save_run

WITHOUT_MEMORY = (sys.executable, str(Path(__file__).parents[1] / "lockless.py"), "memory", str(PROGRAMS / "ask"))
NETWORK_MOUNT = "900 1 0:99 / {folder} rw - nfs4 server:/home rw,vers=4.2\n"
NETWORK_SCRIPT = 'cat /proc/self/mountinfo mounts > all && mount --bind all /proc/$$/mountinfo && exec "$@"'
ON_NETWORK = ("unshare", "--user", "--map-root-user", "--mount", "bash", "-c", NETWORK_SCRIPT, "-", *WITHOUT_MEMORY[3:])
"""A command to put before arguments of `ask`: the kernel lists the home's data folder as one of a file server."""
PLACES = [
    pytest.param(
        WITHOUT_MEMORY,
        id="no shared memory",
        marks=pytest.mark.skipif(
            sys.platform != "linux" or platform.machine() not in SYSTEM_CALLS, reason="the filter is for Linux"
        ),
    ),
    pytest.param(ON_NETWORK, id="network", marks=pytest.mark.needs("unshare")),
]

pytestmark = pytest.mark.parametrize("place", PLACES)


@pytest.fixture(autouse=True)
def mounts(home: Home) -> None:
    (home.work / "mounts").write_text(NETWORK_MOUNT.format(folder=os.path.realpath(home.env["XDG_DATA_HOME"])))


def ask_in(place: Sequence[str], ask: Ask, *arguments: str) -> Result:
    result = run([*place, *arguments], env=ask.env, cwd=ask.cwd)
    assert result.code == 0, result.stderr
    assert "cannot" not in result.stderr
    return result


def read_journal_mode(home: Home) -> str:
    with closing(sqlite3.connect(history_file(home))) as connection:
        return str(connection.execute("PRAGMA journal_mode").fetchone()[0])


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Another process that is reading the file."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM messages").fetchall()
        yield


def test_a_new_history_has_no_write_ahead_log(place: Sequence[str], ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(wire.says("Hello."))
    ask_in(place, ask, "hi")
    ask_in(place, ask, "-c", "and now?")
    assert [list_messages(run)[1][1] for run in read_saved_runs(home)] == ["Hello.", "Hello."]
    assert read_journal_mode(home) == "delete"
    assert ask("-c", "where the log is possible").code == 0
    assert len(read_saved_runs(home)) == 3
    assert read_journal_mode(home) == "delete", "for another machine, the folder may still be on a network"
    assert "and now?" in ask_in(place, ask, "history", "search", "now").text
    ask_in(place, ask, "history", "delete", "-y", "1")
    assert read_saved_runs(home) == []


def test_the_write_ahead_log_of_a_history_is_given_up(
    place: Sequence[str], ask: Ask, server: ModelServer, home: Home
) -> None:
    save_run(history_file(home), "one", "first")
    assert read_journal_mode(home) == "wal"
    ask_in(place, ask, "history", "list")
    assert read_journal_mode(home) == "delete"
    server.reply(wire.says("Hello."))
    ask_in(place, ask, "second")
    assert [list_messages(run)[0][1] for run in read_saved_runs(home)] == ["first", "second"]


def test_a_run_is_saved_although_others_read(place: Sequence[str], ask: Ask, server: ModelServer, home: Home) -> None:
    save_run(history_file(home), "one", "first")
    ask_in(place, ask, "history", "list")
    server.reply(wire.calls(("bash", {"command": "echo x"})), wire.says("Hello."))
    with Running([*place, "second"], env=ask.env, cwd=ask.cwd) as running:
        with reading(history_file(home)):
            server.wait_for_requests(1)
        assert running.finish().code == 0
    assert "cannot" not in running.stderr.decode()
    assert [content for _, content, _ in list_messages(read_saved_runs(home)[-1])][::3] == ["second", "Hello."]


@pytest.mark.slow
def test_runs_at_once_are_all_saved(place: Sequence[str], ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(wire.says("Hello."))
    script = 'seq 12 | xargs -P 12 -I N "$@" question N'
    result = run(["bash", "-c", script, "-", *place], env=ask.env, cwd=ask.cwd, timeout=120)
    assert (result.code, "cannot" in result.stderr) == (0, False), result.stderr
    assert sorted(list_messages(run)[0][1] for run in read_saved_runs(home)) == sorted(
        f"question {number}" for number in range(1, 13)
    )


def test_a_process_that_uses_the_log_is_not_waited_for(
    place: Sequence[str], ask: Ask, server: ModelServer, home: Home
) -> None:
    """Such as a chat of an earlier version, or of another container."""
    if place is not ON_NETWORK:
        pytest.skip("the log cannot be used")
    save_run(history_file(home), "one", "first")
    with closing(sqlite3.connect(history_file(home))) as other:
        other.execute("SELECT count(*) FROM messages").fetchall()
        server.reply(wire.says("Hello."))
        start = time.monotonic()
        ask_in(place, ask, "history", "list")
        ask_in(place, ask, "--resume", "one", "second")
        assert time.monotonic() - start < DEFAULT_LOCK_SECONDS
    assert [list_messages(run)[0][1] for run in read_saved_runs(home)] == ["first", "second"]
    ask_in(place, ask, "history", "list")
    assert read_journal_mode(home) == "delete"


def test_a_run_is_saved_during_an_export_that_is_not_read(
    place: Sequence[str], ask: Ask, server: ModelServer, home: Home
) -> None:
    """Such as in a pager."""
    for number in range(3):
        save_run(history_file(home), f"long{number}", "word " * 50_000)
    ask_in(place, ask, "history", "list")
    server.reply(wire.says("Hello."))
    with Popen([*place, "history", "export", "--all"], env=ask.env, cwd=ask.cwd, stdout=PIPE, text=True) as export:
        assert export.stdout
        beginning = export.stdout.read(1000)
        ask_in(place, ask, "second")
        ask_in(place, ask, "history", "delete", "-y", "long2")
        text = beginning + export.stdout.read()
    assert (export.returncode, text.count("word " * 40_000)) == (0, 2)
    assert list_messages(read_saved_runs(home)[-1])[1][1] == "Hello."
