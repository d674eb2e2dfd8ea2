"""The benchmark cases: the programs each one runs in turn, and the comparisons it reports, with their budgets."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import NamedTuple

from benchmarks.environment import BenchmarkEnvironment
from benchmarks.measurement import Command, Measurements
from benchmarks.peers import list_map_peer_commands, list_peer_commands
from benchmarks.server import ALLOWED_RATE

EVENTS, ROUNDS, WORDS, TURNS, MEGABYTES = 20_000, 20, 100, 50, 20
MAP_ROWS, SENT_ROWS = 2000, 1000
PEER_ROWS = 128
"""Rows of `xargs` with a peer, which takes minutes for `MAP_ROWS`."""
INPUT_ROWS = int(os.environ.get("BENCHMARK_ROWS", "100000"))
"""Rows of the job that continues, of which the last `SENT_ROWS` are sent."""
CONVERSATIONS, DISTRIBUTIONS, PLUGINS = 10_000, 300, 30

SEARCH_WORDS = ("febafe", "soloza")
"""Words that occur in the conversations of `benchmarks.history_generator`."""

Turn = Mapping[str, Measurements]


class Row(NamedTuple):
    """One line of the report.

    Attributes:
        what: What the line reports.
        unit: "x" for a ratio, or the unit of the value.
        value: Computes the value from one turn of the programs; KeyError if one of them did not run.
        budget: The largest acceptable value; None if there is no limit.
        is_minimum: Whether the budget is the smallest acceptable value instead.
    """

    what: str
    unit: str
    value: Callable[[Turn], float]
    budget: float | None = None
    is_minimum: bool = False


class Case(NamedTuple):
    """Programs that are run in turn.

    Attributes:
        commands: The programs by name.
        rows: The lines to report.
        runs: The largest number of turns.
    """

    commands: Callable[[BenchmarkEnvironment], dict[str, Command]]
    rows: tuple[Row, ...]
    runs: int = 1000


def ratio(what: str, one: str, other: str, figure: str = "whole", budget: float | None = None) -> Row:
    """Compare a measurement of two programs as a ratio."""
    return Row(what, "x", lambda turn: turn[one][figure] / turn[other][figure], budget)


def difference(what: str, one: str, other: str, figure: str = "whole", budget: float | None = None) -> Row:
    """Compare a measurement of two programs as a difference in milliseconds."""
    return Row(what, "ms", lambda turn: turn[one][figure] - turn[other][figure], budget)


def absolute(what: str, one: str, figure: str, unit: str = "ms", budget: float | None = None) -> Row:
    """Report a measurement of one program."""
    return Row(what, unit, lambda turn: turn[one][figure], budget)


def peer_ratios(what: str, figure: str = "whole") -> tuple[Row, ...]:
    """Compare a measurement of each peer with that of ask as a ratio."""
    return tuple(ratio(f"{what}: {name} / ask", name, "ask", figure) for name in ("llm", "sgpt"))


CASES: Mapping[str, Case] = {
    "start": Case(
        lambda env: {
            "click": env.python("import click"),
            "version": env.run_ask("--version"),
            "help": env.run_ask("--help"),
        },
        (
            ratio("--version / import click", "version", "click", budget=1.6),
            ratio("--help / import click", "help", "click", budget=1.6),
        ),
    ),
    "answer": Case(
        lambda env: {"bare": env.bare("hi"), "ask": env.ask("hi"), **list_peer_commands(env, "hi")},
        (
            ratio("one answer / bare", "ask", "bare", budget=1.25),
            ratio("its processor time / bare", "ask", "bare", "cpu"),
            ratio("until the request is there / bare", "ask", "bare", "request"),
            ratio("until the first byte / bare", "ask", "bare", "first"),
            absolute("from the last byte to the end, ask", "ask", "exit"),
            absolute("from the last byte to the end, bare", "bare", "exit"),
            ratio("peak memory / bare", "ask", "bare", "memory", 1.4),
            absolute("bytes of the request", "ask", "bytes", "bytes", 4500),
            *peer_ratios("one answer"),
            *peer_ratios("until the first byte", "first"),
            *peer_ratios("peak memory", "memory"),
        ),
    ),
    "terminal": Case(
        lambda env: {"bare": env.bare("hi", terminal=True), "ask": env.ask("hi", terminal=True)},
        (
            ratio("one answer on a terminal / bare", "ask", "bare"),
            ratio("until its first byte / bare", "ask", "bare", "first"),
        ),
    ),
    "events": Case(
        lambda env: {
            "bare": env.bare(f"events {EVENTS}"),
            "ask": env.ask(f"events {EVENTS}"),
            **list_peer_commands(env, f"events {EVENTS}"),
        },
        (
            ratio(f"{EVENTS} events / bare", "ask", "bare", budget=1.4),
            ratio("their processor time / bare", "ask", "bare", "cpu"),
            ratio("peak memory with them / bare", "ask", "bare", "memory", 1.4),
            *peer_ratios(f"{EVENTS} events"),
        ),
        5,
    ),
    "rounds": Case(
        lambda env: {
            "bare": env.bare(f"rounds {ROUNDS}"),
            "ask": env.ask("--max-rounds", str(ROUNDS + 1), f"rounds {ROUNDS}"),
        },
        (
            absolute("a tool round", "ask", "round", budget=12),
            absolute("the same, bare", "bare", "round"),
            Row(f"round {ROUNDS} / round 2", "x", lambda turn: turn["ask"]["recent"] / turn["ask"]["early"]),
            ratio(f"{ROUNDS} rounds / bare", "ask", "bare"),
        ),
        10,
    ),
    "paced": Case(
        lambda env: {
            "bare": env.bare(f"paced {WORDS}"),
            "ask": env.ask(f"paced {WORDS}"),
            **list_peer_commands(env, f"paced {WORDS}"),
        },
        (
            absolute("a word every 10 ms comes late by", "ask", "late"),
            absolute("the same, bare", "bare", "late"),
            absolute("the slowest twentieth", "ask", "latest"),
            absolute("the same, bare", "bare", "latest"),
            *peer_ratios("a word comes late by", "late"),
        ),
        5,
    ),
    "safe": Case(
        lambda env: {
            "ask": env.ask("hi"),
            "safe": env.ask("--safe", "hi"),
            "rounds": env.ask("--max-rounds", str(ROUNDS + 1), f"rounds {ROUNDS}"),
            "safe rounds": env.ask("--safe", "--max-rounds", str(ROUNDS + 1), f"rounds {ROUNDS}"),
        },
        (
            difference("a start with --safe: more", "safe", "ask", budget=60),
            difference("a round with --safe: more", "safe rounds", "rounds", "round", budget=15),
        ),
        10,
    ),
    "history": Case(
        lambda env: {
            "unsaved": env.ask("--no-save", "hi"),
            "saved": env.ask("hi"),
            "-c": env.ask("-c", "hi", home=env.create_history(0), before=["hi"]),
            "-c, full": env.ask("-c", "hi", home=env.create_history(CONVERSATIONS), before=["hi"]),
            "list": env.run_ask("history", "list", home=env.create_history(CONVERSATIONS)),
            "search": env.run_ask("history", "search", *SEARCH_WORDS, home=env.create_history(CONVERSATIONS)),
        },
        (
            difference("saving: more", "saved", "unsaved"),
            difference(f"-c with {CONVERSATIONS} conversations: more", "-c, full", "-c", budget=15),
            absolute("history list with them", "list", "whole", budget=200),
            absolute("history search with them", "search", "whole", budget=300),
        ),
    ),
    "packages": Case(
        lambda env: {
            "none": env.ask("hi", home="none", path=env.create_distributions(0)),
            "many": env.ask("hi", home="many", path=env.create_distributions(DISTRIBUTIONS)),
            "plugins": env.ask("hi", home="plugins", path=env.create_plugins(PLUGINS)),
        },
        (
            difference(f"{DISTRIBUTIONS} more distributions: more", "many", "none", budget=15),
            difference(f"{PLUGINS} more provider plugins: more", "plugins", "none", budget=15),
        ),
    ),
    "chat": Case(
        lambda env: {"ask": env.ask(turns=TURNS)},
        (
            absolute("turn 2 of a chat", "ask", "turn 2"),
            Row(
                f"turn {TURNS} / turn 2",
                "x",
                lambda turn: turn["ask"][f"turn {TURNS}"] / turn["ask"]["turn 2"],
            ),
        ),
        5,
    ),
    "large": Case(
        lambda env: {
            "bare": env.bare(f"large {MEGABYTES}"),
            "short": env.ask("hi"),
            "ask": env.ask(f"large {MEGABYTES}"),
        },
        (
            ratio(f"peak memory while {MEGABYTES} MB stream by / bare", "ask", "bare", "memory", 1.4),
            ratio("the same / one answer", "ask", "short", "memory"),
            ratio("time for them / bare", "ask", "bare"),
        ),
        3,
    ),
    "markdown": Case(
        lambda env: {
            "50": env.ask("markdown 50", terminal=True),
            "200": env.ask("markdown 200", terminal=True),
            "pipe": env.ask("markdown 200"),
        },
        (
            ratio("200 KB of Markdown on a terminal / 50 KB", "200", "50", budget=4.4),
            ratio("200 KB on a terminal / in a pipe", "200", "pipe"),
        ),
        5,
    ),
    "map": Case(
        lambda env: {"bare": env.bare_map(MAP_ROWS), "ask": env.map(MAP_ROWS, "-j", "64", "--fresh")},
        (
            ratio(f"map: {MAP_ROWS} rows, 64 at a time / bare", "ask", "bare", budget=1.15),
            ratio("map: processor time / bare", "ask", "bare", "cpu", 1.5),
            ratio("map: peak memory / bare", "ask", "bare", "memory"),
        ),
        5,
    ),
    "xargs": Case(
        lambda env: {
            "ask": env.map(MAP_ROWS, "-j", "64", "--fresh"),
            **list_map_peer_commands(env, PEER_ROWS),
        },
        (
            Row(
                "map: rows a second / xargs -P 64 llm",
                "x",
                lambda turn: turn["llm"]["whole"] / PEER_ROWS / (turn["ask"]["whole"] / MAP_ROWS),
                100,
                is_minimum=True,
            ),
        ),
        3,
    ),
    "resume": Case(
        lambda env: {
            "sent": env.map(SENT_ROWS, "--fresh", service="fast", home="sent"),
            "ask": env.map(INPUT_ROWS, service="fast", finished=INPUT_ROWS - SENT_ROWS, home="resumed"),
        },
        (
            ratio(f"map: peak memory with {INPUT_ROWS} rows / {SENT_ROWS}", "ask", "sent", "memory", 1.3),
            Row(
                "map: a row that was answered before",
                "µs",
                lambda turn: (turn["ask"]["whole"] - turn["sent"]["whole"]) * 1000 / (INPUT_ROWS - SENT_ROWS),
                50,
            ),
        ),
        1,  # afterwards, all rows are answered
    ),
    "limited": Case(
        lambda env: {"ask": env.map(MAP_ROWS, "--fresh", service="limited")},
        (
            Row(
                f"map: of {ALLOWED_RATE} allowed requests a second, sent after 20 s",
                "%",
                lambda turn: turn["ask"]["kept"] * 100,
                90,
                is_minimum=True,
            ),
            Row("map: refused requests", "%", lambda turn: turn["ask"]["refused"] * 100, 3),
        ),
        1,
    ),
}
