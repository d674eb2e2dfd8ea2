"""The benchmark cases: the programs each one runs in turn, and the comparisons it reports, with their budgets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from benchmarks.environment import BenchmarkEnvironment
from benchmarks.measurement import Command, Measurements
from benchmarks.peers import list_map_peer_commands, list_map_script_commands, list_peer_commands
from benchmarks.server import ALLOWED_RATE

EVENTS, ROUNDS, WORDS, TURNS, MEGABYTES = 20_000, 20, 100, 50, 20
MAP_ROWS, FAST_ROWS, UNEVEN_ROWS = 2000, 5000, 5000
IN_FLIGHT = 1000
"""Requests at a time, as for reasoning models, which take a minute for each row."""
LEDGER_ROWS = 1_000_000
"""Rows of the job that an earlier run has finished."""
PEER_ROWS = 128
"""Rows of `xargs` with a peer, which takes minutes for `MAP_ROWS`."""
CONVERSATIONS, DISTRIBUTIONS, PLUGINS = 10_000, 300, 30

SEARCH_WORDS = ("febafe", "soloza")
"""Words that occur in the conversations of `benchmarks.history_generator`."""
LIST_QUERY = """
SELECT id, title, updated, max(runs.number), provider, model, sum(rounds), total(cost) FROM conversations
JOIN runs ON runs.conversation = conversations.number GROUP BY conversations.number ORDER BY updated DESC
"""
SEARCH_QUERY = f"SELECT rowid FROM texts WHERE texts MATCH '{' '.join(SEARCH_WORDS)}' ORDER BY rowid DESC LIMIT 20"
COPY_ROWS = """
import json, sys

for line in open(sys.argv[1]):
    print(json.dumps({**json.loads(line), "answer": "hello"}))
"""
"""A script that copies rows of JSON, the least that a program does with rows that it does not send."""

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


def absolute(what: str, one: str, figure: str, unit: str = "ms", budget: float | None = None) -> Row:
    """Report a measurement of one program."""
    return Row(what, unit, lambda turn: turn[one][figure], budget)


def peer_ratios(what: str, figure: str = "whole") -> tuple[Row, ...]:
    """Compare a measurement of each peer with that of ask as a ratio."""
    return tuple(ratio(f"{what}, {name} vs. ask", name, "ask", figure) for name in ("llm", "sgpt"))


CASES: Mapping[str, Case] = {
    "start": Case(
        lambda env: {
            "click": env.python("import click"),
            "version": env.run_ask("--version"),
            "help": env.run_ask("--help"),
        },
        (
            ratio("--version: total time, ask vs. import click", "version", "click", budget=1.6),
            ratio("--help: total time, ask vs. import click", "help", "click", budget=1.6),
        ),
    ),
    "answer": Case(
        lambda env: {"bare": env.bare("hi"), "ask": env.ask("hi"), **list_peer_commands(env, "hi")},
        (
            ratio("one short answer: total time, ask vs. bare script", "ask", "bare", budget=1.25),
            ratio("one short answer: CPU time, ask vs. bare script", "ask", "bare", "cpu"),
            ratio(
                "one short answer: time until the server has the request, ask vs. bare script", "ask", "bare", "request"
            ),
            ratio("one short answer: time to first byte, ask vs. bare script", "ask", "bare", "first"),
            absolute("one short answer: last byte to exit, ask", "ask", "exit"),
            absolute("one short answer: last byte to exit, bare script", "bare", "exit"),
            ratio("one short answer: peak memory, ask vs. bare script", "ask", "bare", "memory", 1.4),
            absolute("one short answer: size of the request", "ask", "bytes", "bytes", 4500),
            *peer_ratios("one short answer: total time"),
            *peer_ratios("one short answer: time to first byte", "first"),
            *peer_ratios("one short answer: peak memory", "memory"),
        ),
    ),
    "terminal": Case(
        lambda env: {"bare": env.bare("hi", terminal=True), "ask": env.ask("hi", terminal=True)},
        (
            ratio("one short answer on a terminal: total time, ask vs. bare script", "ask", "bare"),
            ratio("one short answer on a terminal: time to first byte, ask vs. bare script", "ask", "bare", "first"),
        ),
    ),
    "events": Case(
        lambda env: {
            "bare": env.bare(f"events {EVENTS}"),
            "ask": env.ask(f"events {EVENTS}"),
            **list_peer_commands(env, f"events {EVENTS}"),
        },
        (
            ratio(f"{EVENTS:,} stream events: total time, ask vs. bare script", "ask", "bare", budget=1.4),
            ratio(f"{EVENTS:,} stream events: CPU time, ask vs. bare script", "ask", "bare", "cpu"),
            ratio(f"{EVENTS:,} stream events: peak memory, ask vs. bare script", "ask", "bare", "memory", 1.4),
            *peer_ratios(f"{EVENTS:,} stream events: total time"),
        ),
        5,
    ),
    "rounds": Case(
        lambda env: {
            "bare": env.bare(f"rounds {ROUNDS}"),
            "ask": env.ask("--max-rounds", str(ROUNDS + 1), f"rounds {ROUNDS}"),
        },
        (
            ratio(f"{ROUNDS} rounds of tool calls: time per round, ask vs. bare script", "ask", "bare", "round", 4),
            Row(
                f"{ROUNDS} rounds of tool calls: last 5 rounds vs. rounds 2 to 6",
                "x",
                lambda turn: turn["ask"]["recent"] / turn["ask"]["early"],
            ),
            ratio(f"{ROUNDS} rounds of tool calls: total time, ask vs. bare script", "ask", "bare"),
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
            absolute("a word every 10 ms: median delay, ask", "ask", "late"),
            absolute("a word every 10 ms: median delay, bare script", "bare", "late"),
            absolute("a word every 10 ms: 95th percentile of the delay, ask", "ask", "latest"),
            absolute("a word every 10 ms: 95th percentile of the delay, bare script", "bare", "latest"),
            *peer_ratios("a word every 10 ms: median delay", "late"),
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
            ratio("one short answer: total time, with --safe vs. without", "safe", "ask", budget=1.75),
            ratio(
                f"{ROUNDS} rounds of tool calls: time per round, with --safe vs. without",
                "safe rounds",
                "rounds",
                "round",
                2,
            ),
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
            "bare list": env.query_history(LIST_QUERY, CONVERSATIONS),
            "search": env.run_ask(
                "history", "search", "-n", "20", *SEARCH_WORDS, home=env.create_history(CONVERSATIONS)
            ),
            "bare search": env.query_history(SEARCH_QUERY, CONVERSATIONS),
        },
        (
            ratio("one short answer: total time, saved vs. not", "saved", "unsaved"),
            ratio(f"-c: total time, {CONVERSATIONS:,} saved conversations vs. 0", "-c, full", "-c", budget=1.25),
            ratio(
                f"history list, {CONVERSATIONS:,} conversations: total time, ask vs. script with sqlite3",
                "list",
                "bare list",
                budget=3,
            ),
            ratio(
                f"history search -n 20, {CONVERSATIONS:,} conversations: total time, ask vs. script with sqlite3",
                "search",
                "bare search",
                budget=4,
            ),
        ),
    ),
    "packages": Case(
        lambda env: {
            "none": env.ask("hi", home="none", path=env.create_distributions(0)),
            "many": env.ask("hi", home="many", path=env.create_distributions(DISTRIBUTIONS)),
            "plugins": env.ask("hi", home="plugins", path=env.create_plugins(PLUGINS)),
        },
        (
            ratio(
                f"one short answer: total time, {DISTRIBUTIONS} more packages installed vs. none",
                "many",
                "none",
                budget=1.25,
            ),
            ratio(
                f"one short answer: total time, {PLUGINS} more provider plugins vs. none",
                "plugins",
                "none",
                budget=1.25,
            ),
        ),
    ),
    "chat": Case(
        lambda env: {"ask": env.ask(turns=TURNS)},
        (
            absolute("chat: time per message, messages 2 to 6", "ask", "turn 2"),
            Row(
                f"chat: last 5 of {TURNS} messages vs. messages 2 to 6",
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
            ratio(f"{MEGABYTES} MB answer: peak memory, ask vs. bare script", "ask", "bare", "memory", 1.4),
            ratio(f"{MEGABYTES} MB answer: peak memory, vs. one short answer", "ask", "short", "memory"),
            ratio(f"{MEGABYTES} MB answer: total time, ask vs. bare script", "ask", "bare"),
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
            ratio("Markdown on a terminal: total time, 200 KB vs. 50 KB", "200", "50", budget=4.4),
            ratio("200 KB of Markdown: total time, terminal vs. pipe", "200", "pipe"),
        ),
        5,
    ),
    "map": Case(
        lambda env: {"bare": env.bare_map(MAP_ROWS), "ask": env.map(MAP_ROWS, "-j", "64", "--fresh")},
        (
            ratio(f"map, {MAP_ROWS:,} rows: total time, ask vs. bare script", "ask", "bare", budget=1.15),
            ratio(f"map, {MAP_ROWS:,} rows: CPU time, ask vs. bare script", "ask", "bare", "cpu", 1.5),
            ratio(f"map, {MAP_ROWS:,} rows: peak memory, ask vs. bare script", "ask", "bare", "memory"),
        ),
        5,
    ),
    "fast": Case(
        lambda env: {
            "ask": env.map(FAST_ROWS, "-j", "64", "--fresh", service="fast"),
            "bare": env.bare_map(FAST_ROWS, service="fast"),
            **list_map_script_commands(env, FAST_ROWS),
        },
        (
            ratio("map, answers at once: CPU time, ask vs. bare script", "ask", "bare", "cpu", 1.2),
            ratio("map, answers at once: CPU time, ask vs. script with aiohttp", "ask", "aiohttp", "cpu"),
            ratio("map, answers at once: total time, ask vs. script with aiohttp", "ask", "aiohttp"),
        ),
        5,
    ),
    "in-flight": Case(
        lambda env: {
            "ask": env.map(2 * IN_FLIGHT, "-j", str(IN_FLIGHT), "--fresh", service="reasoning"),
        },
        (
            absolute(f"map, {IN_FLIGHT:,} requests in flight: peak memory", "ask", "memory", "MB", 150),
            absolute(f"map, {2 * IN_FLIGHT:,} rows of 5 s, {IN_FLIGHT:,} in flight: total time", "ask", "whole"),
        ),
        2,
    ),
    "uneven": Case(
        lambda env: {
            "ordered": env.map(UNEVEN_ROWS, "-j", "16", "--fresh", service="uneven"),
            "unordered": env.map(UNEVEN_ROWS, "-j", "16", "--fresh", "--unordered", service="uneven"),
        },
        (
            ratio(
                "map, one row in a hundred takes 2 s: total time, in order vs. --unordered",
                "ordered",
                "unordered",
                budget=1.2,
            ),
            absolute("map, one row in a hundred takes 2 s: peak memory", "ordered", "memory", "MB", 150),
        ),
        3,
    ),
    "ledger": Case(
        lambda env: {
            "bare": env.python(COPY_ROWS, str(env.create_rows(LEDGER_ROWS))),
            "ask": env.map(LEDGER_ROWS, service="fast", finished=LEDGER_ROWS, home="million"),
        },
        (
            ratio(
                f"map, {LEDGER_ROWS:,} rows answered by an earlier run: total time, ask vs. script that copies them",
                "ask",
                "bare",
                budget=8,
            ),
            absolute(f"map, {LEDGER_ROWS:,} rows answered by an earlier run: peak memory", "ask", "memory", "MB", 150),
        ),
        1,
    ),
    "xargs": Case(
        lambda env: {
            "ask": env.map(MAP_ROWS, "-j", "64", "--fresh"),
            **list_map_peer_commands(env, PEER_ROWS),
        },
        (
            Row(
                "map: rows per second, ask vs. xargs -P 64 llm",
                "x",
                lambda turn: turn["llm"]["whole"] / PEER_ROWS / (turn["ask"]["whole"] / MAP_ROWS),
                100,
                is_minimum=True,
            ),
        ),
        3,
    ),
    "limited": Case(
        lambda env: {"ask": env.map(MAP_ROWS, "--fresh", service="limited")},
        (
            Row(
                f"map, rate limit of {ALLOWED_RATE} requests/s: share used after 20 s",
                "%",
                lambda turn: turn["ask"]["kept"] * 100,
                90,
                is_minimum=True,
            ),
            Row(
                f"map, rate limit of {ALLOWED_RATE} requests/s: refused requests",
                "%",
                lambda turn: turn["ask"]["refused"] * 100,
                3,
            ),
        ),
        1,
    ),
}
