"""What a run costs, in things that can be counted: modules, requests, files, statements, processes. No times.

The numbers are what it takes today. A smaller one is welcome; a larger one must be worth it, and is then put here.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import pytest

from benchmarks.stores import fill
from tests import wire
from tests.counting import Counted, Counter
from tests.model_server import ModelServer, Reply
from tests.program import TEST_KEY, Home, make_home
from tests.third_party_plugins import install_provider

CLICK = "import click"
WIRED = "import click, pluggy, requests, sqlite3"
COMMANDS = {
    "--version": (CLICK, 8, 5),
    "--help": (CLICK, 8, 14),
    "--complete providers": (CLICK, 9, 8),
    "tools": (CLICK, 40, 21),
    "history list": (CLICK, 23, 11),
    "providers": (WIRED, 62, 5),
    "hi": (WIRED, 80, 5),
    "-p demo hi": (WIRED, 81, 6),
    "chat -p demo hi": (WIRED, 88, 7),
}
"""Which script a command line loads more than, how many modules of ours, and how many other packages."""
ROUNDS = 20


@pytest.fixture
def count(home: Home, server: ModelServer) -> Counter:
    return counter(home, server)


def counter(home: Home, server: ModelServer) -> Counter:
    env = {"OPENROUTER_API_KEY": TEST_KEY, "OPENROUTER_BASE_URL": server.base_url, "ASK_SESSION": "one"}
    return Counter(home, env)


def calls(number: int) -> list[Reply]:
    """Replies that call a tool, no two alike, and then answer."""
    return [*(wire.calls(("bash", {"command": f"true {place}"})) for place in range(number)), wire.says("done")]


# Modules


@pytest.mark.slow
def test_a_command_loads_no_more_modules_than_it_did(count: Counter, server: ModelServer) -> None:
    server.reply(wire.says("hello"))
    count.ask("-p", "demo", "hi")  # so that caches are there
    floors = {script: count.run([sys.executable, "-c", script]).packages for script in (CLICK, WIRED)}
    too_many = {}
    for line, (script, own, others) in COMMANDS.items():
        seen = count.ask(*line.split())
        packages = seen.packages - floors[script]
        if len(seen.own) > own or len(packages) > others or "ask.profile" in seen.own:
            too_many[line] = (len(seen.own), sorted(seen.own), len(packages), sorted(packages))
    assert not too_many


@pytest.mark.slow
def test_thirty_more_plugins_load_not_a_module_more(count: Counter, home: Home) -> None:
    path = [install_provider(home.path / "path", f"service{number}") for number in range(30)]
    before = [count.ask("-p", "demo", "hi") for _ in range(2)][1]
    with_them = [count.ask("-p", "demo", "hi", path=path[:1]) for _ in range(2)][1]
    assert (with_them.own, with_them.packages) == (before.own, before.packages)
    assert with_them.summary() == before.summary()


# Finding plugins


@pytest.mark.slow
def test_the_metadata_of_packages_is_read_once_and_then_no_more(count: Counter) -> None:
    def read(seen: Counted) -> list[str]:
        return [path for path in seen.files if path.endswith("entry_points.txt") and "ask_gents" not in path]

    cold, warm = (count.ask("-p", "demo", "hi") for _ in range(2))
    assert read(cold)
    assert len(read(cold)) == len(set(read(cold)))
    assert not any("dist-info" in path or "egg-info" in path for path in warm.files)


# Requests


def test_a_question_is_one_request_and_a_round_one_more_over_one_connection(
    count: Counter, server: ModelServer
) -> None:
    server.reply(*calls(5))
    seen = count.ask("go")
    assert len(server.requests) == 6
    assert len(seen.of("connection")) == 1
    count.ask("hi")
    assert len(server.requests) == 7


def test_a_request_carries_no_more_bytes_than_it_may(count: Counter, server: ModelServer) -> None:
    server.reply(wire.says("hello"))
    count.ask("hi")
    assert len(server.requests[0].body) <= 4500


def test_a_request_grows_by_what_was_said_and_nothing_else(count: Counter, server: ModelServer) -> None:
    server.reply(*calls(9))
    count.ask("go")
    sizes = [len(request.body) for request in server.requests[1:]]  # the marks for the cache are all set then
    assert len({after - before for before, after in itertools.pairwise(sizes)}) == 1


# Files, statements, processes


@pytest.mark.slow
def test_a_start_opens_few_files_and_starts_nothing(count: Counter, server: ModelServer) -> None:
    server.reply(wire.says("hello"))
    warm = [count.ask("hi") for _ in range(2)][1]
    assert len(warm.files) <= 10, warm.files
    assert len(warm.of("database")) == 1
    assert len(warm.statements) <= 19, warm.statements
    assert not warm.of("process")
    unsaved = count.ask("--no-save", "hi")
    assert len(unsaved.files) <= 8, unsaved.files
    assert not unsaved.of("database")


def test_every_round_costs_what_the_second_one_did(count: Counter, server: ModelServer) -> None:
    server.reply(*calls(ROUNDS))
    rounds = [one.summary() for one in count.ask("--max-rounds", "30", "go").parted("process")]
    assert len(rounds) == ROUNDS
    assert all(one == rounds[1] for one in rounds[1:-1])
    assert rounds[1] == {"file": 2, "statement": 15, "database": 0, "connection": 0, "process": 1}


@pytest.mark.slow
def test_every_round_in_safe_mode_costs_what_the_second_one_did(count: Counter, server: ModelServer) -> None:
    server.reply(*calls(ROUNDS))
    rounds = count.ask("--safe", "--max-rounds", "30", "go").parted("statement", "UPDATE calls SET started")
    assert len(rounds) == ROUNDS
    assert all(one.summary() == rounds[1].summary() for one in rounds[1:-1])
    assert not rounds[1].of("process"), "the sandbox was started once, for all of them"


@pytest.mark.slow
def test_every_turn_of_a_chat_costs_what_the_second_one_did(count: Counter, server: ModelServer) -> None:
    server.reply(wire.says("hello"))
    turns = count.ask("chat", stdin=b"hi\n" * ROUNDS).parted("statement", "INSERT INTO runs")
    assert len(turns) == ROUNDS
    assert all(one.summary() == turns[1].summary() for one in turns[1:-1])
    assert turns[1].summary() == {"file": 3, "statement": 26, "database": 2, "connection": 1, "process": 0}


@pytest.mark.slow
def test_a_long_stream_costs_what_a_short_one_does(count: Counter, server: ModelServer) -> None:
    server.reply(*(wire.says("word " * words) for words in (1, 10, 2_000)))
    _, short, long = (count.ask("hi") for _ in range(3))
    assert long.summary() == short.summary()
    assert long.own == short.own


@pytest.mark.slow
def test_a_run_costs_the_same_however_much_is_saved(tmp_path: Path, server: ModelServer) -> None:
    server.reply(wire.says("hello"))
    lines = [["-c", "hi"], ["--resume", "1", "hi"], ["hi"], ["history", "list", "-n", "5"]]

    def costs(conversations: int) -> list[Counted]:
        folder = tmp_path / str(conversations)
        folder.mkdir()
        home = make_home(folder)
        fill(home.data / "history.db", conversations)
        count = counter(home, server)
        count.ask("hi")
        return [count.ask(*line) for line in lines]

    for line, few, many in zip(lines, costs(10), costs(1_000), strict=True):
        assert many.summary() == few.summary(), line
        assert len(many.of("work")) <= 1.1 * len(few.of("work")), f"{line}: SQLite looked at more rows"
