"""The ledger and the locks of jobs on file systems without locks, as some network file systems are."""

from __future__ import annotations

import os
import platform
import random
import socket
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ask.history.store import is_on_network
from tests.cli.test_map import COMMAND, SlowServer, echo, get_prompt, make_rows, read_output, write_rows
from tests.lockless import SYSTEM_CALLS
from tests.model_server import HOLD, ModelServer, Reply
from tests.program import PROGRAMS, Ask, Home, Running, run

LAUNCHER = Path(__file__).parents[1] / "lockless.py"
LOCKLESS = (sys.executable, str(LAUNCHER), "locks", str(PROGRAMS / "ask"))

pytestmark = [
    pytest.mark.skipif(
        sys.platform != "linux" or platform.machine() not in SYSTEM_CALLS, reason="the filter is for Linux"
    ),
    pytest.mark.usefixtures("quick_retries"),
]


@pytest.fixture
def command(home: Home) -> Iterator[list[str]]:
    yield [*LOCKLESS, *COMMAND, write_rows(home.work, *make_rows(12)), "-O", "out.jsonl"]


def test_sqlite_has_no_locks_here(home: Home) -> None:
    script = "import sqlite3; sqlite3.connect('a.db', timeout=0).execute('CREATE TABLE t (a)')"
    result = run([sys.executable, str(LAUNCHER), "locks", sys.executable, "-c", script], env=home.env, cwd=home.work)
    assert (result.code, "database is locked" in result.stderr) == (1, True)


@pytest.mark.slow
def test_a_ledger_needs_no_locks(ask: Ask, server: ModelServer, home: Home, command: list[str]) -> None:
    server.reply(echo)
    ask(*COMMAND, "in.jsonl", "-O", "out.jsonl", "-j", "1", "--max-cost", "1")
    assert len(server.requests) == 4, "a ledger of a run with locks is continued"
    result = run(command, env=ask.env, cwd=ask.cwd)
    assert (result.code, len(server.requests)) == (0, 12), result.stderr
    assert [row["id"] for row in read_output(home.work / "out.jsonl")] == list(range(12))
    assert run(command, env=ask.env, cwd=ask.cwd).code == 0
    assert ask(*COMMAND, "in.jsonl", "-O", "out.jsonl").code == 0
    assert len(server.requests) == 12
    assert not list(home.data.glob("map.lock.*"))


@pytest.mark.slow
def test_answers_in_a_write_ahead_log_are_kept(ask: Ask, server: ModelServer, home: Home, command: list[str]) -> None:
    server.reply(*[echo] * 8, Reply((HOLD,)))
    with ask.start(*COMMAND, "in.jsonl", "-O", "out.jsonl", "-j", "1") as running:
        server.wait_for_requests(9)
        running.process.kill()
        running.process.wait(10)
    assert (home.data / "map.db-wal").stat().st_size
    server.reply(echo)
    assert run(command, env=ask.env, cwd=ask.cwd).code == 0
    assert Counter(map(get_prompt, server.requests)).total() == 13


@pytest.mark.slow
def test_a_ledger_needs_no_shared_memory(ask: Ask, server: ModelServer, home: Home, command: list[str]) -> None:
    command[2] = "memory"
    server.reply(echo)
    ask(*COMMAND, "in.jsonl", "-O", "out.jsonl", "-j", "1", "--max-cost", "1")
    assert len(server.requests) == 4, "a ledger with a write-ahead log is continued"
    for _ in range(2):
        result = run(command, env=ask.env, cwd=ask.cwd)
        assert (result.code, len(server.requests)) == (0, 12), result.stderr
    server.reply(Reply((HOLD,)))
    with Running([*command, "--fresh"], env=ask.env, cwd=ask.cwd):
        server.wait_for_requests(13)
        assert run(command, env=ask.env, cwd=ask.cwd).code == 2
        assert run([*command[:4], "map", "--list"], env=ask.env, cwd=ask.cwd).code == 0
        assert run([*command[:-2], "-p", "demo", "-m", "demo"], env=ask.env, cwd=ask.cwd).code == 0


@pytest.mark.slow
def test_a_ledger_without_locks_has_one_user(ask: Ask, server: ModelServer, home: Home, command: list[str]) -> None:
    server.reply(Reply((HOLD,)))
    with Running(command, env=ask.env, cwd=ask.cwd) as running:
        server.wait_for_requests(1)
        for other in (command, [*command, "--fresh"], [*LOCKLESS, "map", "--list"]):
            result = run(other, env=ask.env, cwd=ask.cwd)
            assert (result.code, str(running.process.pid) in result.stderr) == (2, True), result.stderr
        running.process.kill()
        running.process.wait(10)
    server.reply(echo)
    assert run(command, env=ask.env, cwd=ask.cwd).code == 0, "the locks of a killed process have no effect"


@pytest.mark.slow
def test_a_process_on_another_machine_may_be_running(ask: Ask, home: Home, command: list[str]) -> None:
    home.data.mkdir(parents=True)
    lock = home.data / "map.lock.1"
    for owner in (f"{os.getpid()} other-{socket.gethostname()} 1", ""):
        lock.write_text(owner)
        result = run(command, env=ask.env, cwd=ask.cwd)
        assert (result.code, str(lock) in result.stderr) == (2, True)
        assert lock.read_text() == owner


@pytest.mark.slow
def test_kills_without_locks_lose_no_row(ask: Ask, server: ModelServer, home: Home, command: list[str]) -> None:
    service = SlowServer(server, 0.01)
    rows, kills, jobs, generator = 1000, 20, 8, random.Random(3)
    write_rows(home.work, *make_rows(rows))
    command += ["-j", str(jobs)]
    for _ in range(kills):
        with Running(command, env=ask.env, cwd=ask.cwd) as running:
            time.sleep(generator.uniform(0.4, 1.2))
            running.process.kill()
            running.process.wait(10)
    assert run(command, env=ask.env, cwd=ask.cwd, timeout=60).code == 0
    assert [row["id"] for row in read_output(home.work / "out.jsonl")] == list(range(rows))
    assert rows <= service.count <= rows + kills * jobs
    with closing(sqlite3.connect(home.data / "map.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:50 / {folder} rw - nfs4 server:/home rw,vers=4.2
31 30 0:51 / {folder}/local\\040disk rw - xfs /dev/sdb rw
32 30 0:52 / {folder}/shared rw master:2 - tmpfs none rw
33 30 0:53 / {folder}/shared rw - lustre mds:/scratch rw
34 30 0:54 / {folder}/docker rw - fakeowner /run/host_mark/Users rw
"""


def test_network_file_systems_are_recognized(tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS.format(folder=tmp_path))
    folders = {
        "a": True,
        "a/b": True,
        "local disk/a": False,
        "shared/a": True,
        "shared2": True,
        "docker": True,
        "../a": False,
    }
    assert {name: is_on_network(tmp_path / name, mounts) for name in folders} == folders
    assert not is_on_network(tmp_path, tmp_path / "missing")
