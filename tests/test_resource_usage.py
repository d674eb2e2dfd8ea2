"""Countable costs of a run: modules, requests, files, SQL statements, processes. Times are not tested.

The numbers are today's. A smaller number is welcome; a larger one needs a good reason, and is then updated here.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import pytest

from benchmarks.history_generator import fill_history
from tests import wire
from tests.model_server import ModelServer, Reply
from tests.process_trace import ProcessTrace, ProcessTracer
from tests.program import TEST_KEY, Home, make_home
from tests.third_party_plugins import install_provider

CLICK = "import click"
LOCAL = "import click, pluggy, sqlite3"
WIRED = "import click, pluggy, requests, sqlite3"
COMMANDS = {
    "--version": (CLICK, 10, 3),
    "--help": (CLICK, 14, 12),
    "--complete providers": (CLICK, 16, 4),  # two for the table of services
    "tools": (CLICK, 56, 19),
    "history list": (CLICK, 28, 8),
    "providers": (CLICK, 59, 8),
    "keys": (CLICK, 62, 8),
    "hi": (WIRED, 73, 4),
    "-p demo hi": (LOCAL, 67, 10),
    "chat -p demo hi": (LOCAL, 82, 11),
}
"""For each command line: the script to compare with, our additional modules, and additional other packages."""
ROUNDS = 20


@pytest.fixture
def count(home: Home, server: ModelServer) -> ProcessTracer:
    return counter(home, server)


def counter(home: Home, server: ModelServer) -> ProcessTracer:
    env = {"OPENROUTER_API_KEY": TEST_KEY, "OPENROUTER_BASE_URL": server.base_url, "ASK_SESSION": "one"}
    return ProcessTracer(home, env)


def calls(number: int) -> list[Reply]:
    """Return replies with unique tool calls, then an answer."""
    return [*(wire.calls(("bash", {"command": f"true {place}"})) for place in range(number)), wire.says("done")]


# Modules


@pytest.mark.slow
def test_commands_load_no_additional_modules(count: ProcessTracer, server: ModelServer) -> None:
    server.reply(wire.says("hello"))
    count.ask("-p", "demo", "hi")  # fill the caches
    floors = {script: count.run([sys.executable, "-c", script]).packages for script in (CLICK, LOCAL, WIRED)}
    more = 3 if sys.version_info >= (3, 12) else 0  # whose standard library is divided into more modules
    too_many = {}
    for line, (script, own, others) in COMMANDS.items():
        seen = count.ask(*line.split())
        packages = seen.packages - floors[script]
        if len(seen.own_modules) > own or len(packages) > others + more:
            too_many[line] = (len(seen.own_modules), sorted(seen.own_modules), len(packages), sorted(packages))
    assert not too_many


@pytest.mark.slow
def test_thirty_more_plugins_load_no_additional_modules(count: ProcessTracer, home: Home) -> None:
    path = [install_provider(home.path / "path", f"service{number}") for number in range(30)]
    before = [count.ask("-p", "demo", "hi") for _ in range(2)][1]
    with_them = [count.ask("-p", "demo", "hi", path=path[:1]) for _ in range(2)][1]
    assert (with_them.own_modules, with_them.packages) == (before.own_modules, before.packages)
    assert with_them.count_by_kind() == before.count_by_kind()


# Finding plugins


@pytest.mark.slow
def test_package_metadata_is_read_only_once(count: ProcessTracer) -> None:
    def read(seen: ProcessTrace) -> list[str]:
        return [path for path in seen.files if path.endswith("entry_points.txt") and "ask_gents" not in path]

    cold, warm = (count.ask("-p", "demo", "hi") for _ in range(2))
    assert read(cold)
    assert len(read(cold)) == len(set(read(cold)))
    assert not any("dist-info" in path or "egg-info" in path for path in warm.files)


# Requests


def test_a_prompt_is_one_request_and_each_round_one_more_on_one_connection(
    count: ProcessTracer, server: ModelServer
) -> None:
    server.reply(*calls(5))
    seen = count.ask("go")
    assert len(server.requests) == 6
    assert len(seen.details("connection")) == 1
    count.ask("hi")
    assert len(server.requests) == 7


def test_requests_stay_within_their_size_limit(count: ProcessTracer, server: ModelServer) -> None:
    server.reply(wire.says("hello"))
    count.ask("hi")
    assert len(server.requests[0].body) <= 4500


def test_requests_grow_only_by_the_new_messages(count: ProcessTracer, server: ModelServer) -> None:
    server.reply(*calls(9))
    count.ask("go")
    sizes = [len(request.body) for request in server.requests[1:]]  # all cache markers are set by then
    assert len({after - before for before, after in itertools.pairwise(sizes)}) == 1


# Files, statements, processes


@pytest.mark.slow
def test_startup_opens_few_files_and_starts_no_process(count: ProcessTracer, server: ModelServer) -> None:
    server.reply(wire.says("hello"))
    warm = [count.ask("hi") for _ in range(2)][1]
    assert len(warm.files) <= 8, warm.files
    assert len(warm.details("database")) == 1
    assert len(warm.statements) <= 20, warm.statements
    assert not warm.details("process")
    unsaved = count.ask("--no-save", "hi")
    assert len(unsaved.files) <= 8, unsaved.files
    assert not unsaved.details("database")


def test_every_round_costs_as_much_as_the_second(count: ProcessTracer, server: ModelServer) -> None:
    server.reply(*calls(ROUNDS))
    rounds = [one.count_by_kind() for one in count.ask("--max-rounds", "30", "go").split_by("process")]
    assert len(rounds) == ROUNDS
    assert all(one == rounds[1] for one in rounds[1:-1])
    assert rounds[1] == {"file": 2, "statement": 14, "database": 0, "connection": 0, "process": 1}


@pytest.mark.slow
@pytest.mark.needs("bwrap")
def test_every_round_in_safe_mode_costs_as_much_as_the_second(count: ProcessTracer, server: ModelServer) -> None:
    server.reply(*calls(ROUNDS))
    rounds = count.ask("--safe", "--max-rounds", "30", "go").split_by("statement", "UPDATE calls SET started")
    assert len(rounds) == ROUNDS
    assert all(one.count_by_kind() == rounds[1].count_by_kind() for one in rounds[1:-1])
    assert not rounds[1].details("process"), "the sandbox was started once, for all of them"


@pytest.mark.slow
def test_every_message_of_a_chat_costs_as_much_as_the_second(count: ProcessTracer, server: ModelServer) -> None:
    server.reply(wire.says("hello"))
    turns = count.ask("chat", stdin=b"hi\n" * ROUNDS).split_by("statement", "INSERT INTO runs")
    assert len(turns) == ROUNDS
    assert all(one.count_by_kind() == turns[1].count_by_kind() for one in turns[1:-1])
    assert turns[1].count_by_kind() == {"file": 1, "statement": 29, "database": 2, "connection": 1, "process": 0}


@pytest.mark.slow
def test_a_long_stream_costs_as_much_as_a_short_one(count: ProcessTracer, server: ModelServer) -> None:
    server.reply(*(wire.says("word " * words) for words in (1, 10, 2_000)))
    _, short, long = (count.ask("hi") for _ in range(3))
    assert long.count_by_kind() == short.count_by_kind()
    assert long.own_modules == short.own_modules


@pytest.mark.slow
def test_the_cost_of_a_run_does_not_depend_on_the_size_of_the_history(tmp_path: Path, server: ModelServer) -> None:
    server.reply(wire.says("hello"))
    lines = [["-c", "hi"], ["--resume", "1", "hi"], ["hi"], ["history", "list", "-n", "5"]]

    def costs(conversations: int) -> list[ProcessTrace]:
        folder = tmp_path / str(conversations)
        folder.mkdir()
        home = make_home(folder)
        fill_history(home.data / "history.db", conversations)
        count = counter(home, server)
        count.ask("hi")
        return [count.ask(*line) for line in lines]

    for line, few, many in zip(lines, costs(10), costs(1_000), strict=True):
        assert many.count_by_kind() == few.count_by_kind(), line
        assert len(many.details("work")) <= 1.1 * len(few.details("work")), f"{line}: SQLite looked at more rows"
