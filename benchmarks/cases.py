"""What is measured: each case runs a few programs in turn, and its rows say what is compared, and with what budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from benchmarks.measuring import Command, Figures
from benchmarks.peers import peers
from benchmarks.surroundings import Ground

EVENTS, ROUNDS, WORDS, TURNS, MEGABYTES = 20_000, 20, 100, 50, 20
CONVERSATIONS, DISTRIBUTIONS, PLUGINS = 10_000, 300, 30

WORDS_SOUGHT = ("febafe", "soloza")
"""Words that are in the made-up conversations of `benchmarks.stores`."""

Turn = Mapping[str, Figures]


class Row(NamedTuple):
    """One line of the table.

    Attributes:
        what: what is told.
        unit: "x" for a ratio, or what it is measured in.
        value: the value, from one turn of the case's programs; KeyError where one of them is not there.
        budget: what it may be at most; None for a row that is only told.
    """

    what: str
    unit: str
    value: Callable[[Turn], float]
    budget: float | None = None


class Case(NamedTuple):
    """Programs that are run in turn.

    Attributes:
        commands: the programs by name.
        rows: what is told of them.
        runs: how often at most.
    """

    commands: Callable[[Ground], dict[str, Command]]
    rows: tuple[Row, ...]
    runs: int = 1000


def ratio(what: str, one: str, other: str, figure: str = "whole", budget: float | None = None) -> Row:
    """How many times a figure of one program is that of another."""
    return Row(what, "x", lambda turn: turn[one][figure] / turn[other][figure], budget)


def more(what: str, one: str, other: str, figure: str = "whole", budget: float | None = None) -> Row:
    """How many milliseconds a figure of one program is above that of another."""
    return Row(what, "ms", lambda turn: turn[one][figure] - turn[other][figure], budget)


def told(what: str, one: str, figure: str, unit: str = "ms", budget: float | None = None) -> Row:
    """A figure as it is."""
    return Row(what, unit, lambda turn: turn[one][figure], budget)


def beside_peers(what: str, figure: str = "whole") -> tuple[Row, ...]:
    """How many times a figure of each peer is ours."""
    return tuple(ratio(f"{what}: {name} / ask", name, "ask", figure) for name in ("llm", "sgpt"))


CASES: Mapping[str, Case] = {
    "start": Case(
        lambda ground: {
            "click": ground.python("import click"),
            "version": ground.run_ask("--version"),
            "help": ground.run_ask("--help"),
        },
        (
            ratio("--version / import click", "version", "click", budget=1.6),
            ratio("--help / import click", "help", "click", budget=1.6),
        ),
    ),
    "answer": Case(
        lambda ground: {"bare": ground.bare("hi"), "ask": ground.ask("hi"), **peers(ground, "hi")},
        (
            ratio("one answer / bare", "ask", "bare", budget=1.25),
            ratio("its processor time / bare", "ask", "bare", "cpu"),
            ratio("until the request is there / bare", "ask", "bare", "request"),
            ratio("until the first byte / bare", "ask", "bare", "first"),
            told("from the last byte to the end, ask", "ask", "exit"),
            told("from the last byte to the end, bare", "bare", "exit"),
            ratio("peak memory / bare", "ask", "bare", "memory", 1.4),
            told("bytes of the request", "ask", "bytes", "bytes", 4500),
            *beside_peers("one answer"),
            *beside_peers("until the first byte", "first"),
            *beside_peers("peak memory", "memory"),
        ),
    ),
    "terminal": Case(
        lambda ground: {"bare": ground.bare("hi", terminal=True), "ask": ground.ask("hi", terminal=True)},
        (
            ratio("one answer on a terminal / bare", "ask", "bare"),
            ratio("until its first byte / bare", "ask", "bare", "first"),
        ),
    ),
    "events": Case(
        lambda ground: {
            "bare": ground.bare(f"events {EVENTS}"),
            "ask": ground.ask(f"events {EVENTS}"),
            **peers(ground, f"events {EVENTS}"),
        },
        (
            ratio(f"{EVENTS} events / bare", "ask", "bare", budget=1.4),
            ratio("their processor time / bare", "ask", "bare", "cpu"),
            ratio("peak memory with them / bare", "ask", "bare", "memory", 1.4),
            *beside_peers(f"{EVENTS} events"),
        ),
        5,
    ),
    "rounds": Case(
        lambda ground: {
            "bare": ground.bare(f"rounds {ROUNDS}"),
            "ask": ground.ask("--max-rounds", str(ROUNDS + 1), f"rounds {ROUNDS}"),
        },
        (
            told("a tool round", "ask", "round", budget=12),
            told("the same, bare", "bare", "round"),
            Row(f"round {ROUNDS} / round 2", "x", lambda turn: turn["ask"]["recent"] / turn["ask"]["early"]),
            ratio(f"{ROUNDS} rounds / bare", "ask", "bare"),
        ),
        10,
    ),
    "paced": Case(
        lambda ground: {
            "bare": ground.bare(f"paced {WORDS}"),
            "ask": ground.ask(f"paced {WORDS}"),
            **peers(ground, f"paced {WORDS}"),
        },
        (
            told("a word every 10 ms comes late by", "ask", "late"),
            told("the same, bare", "bare", "late"),
            told("the slowest twentieth", "ask", "latest"),
            told("the same, bare", "bare", "latest"),
            *beside_peers("a word comes late by", "late"),
        ),
        5,
    ),
    "safe": Case(
        lambda ground: {
            "ask": ground.ask("hi"),
            "safe": ground.ask("--safe", "hi"),
            "rounds": ground.ask("--max-rounds", str(ROUNDS + 1), f"rounds {ROUNDS}"),
            "safe rounds": ground.ask("--safe", "--max-rounds", str(ROUNDS + 1), f"rounds {ROUNDS}"),
        },
        (
            more("a start with --safe: more", "safe", "ask", budget=60),
            more("a round with --safe: more", "safe rounds", "rounds", "round", budget=15),
        ),
        10,
    ),
    "history": Case(
        lambda ground: {
            "unsaved": ground.ask("--no-save", "hi"),
            "saved": ground.ask("hi"),
            "-c": ground.ask("-c", "hi", home=ground.saved(0), before=["hi"]),
            "-c, full": ground.ask("-c", "hi", home=ground.saved(CONVERSATIONS), before=["hi"]),
            "list": ground.run_ask("history", "list", home=ground.saved(CONVERSATIONS)),
            "search": ground.run_ask("history", "search", *WORDS_SOUGHT, home=ground.saved(CONVERSATIONS)),
        },
        (
            more("saving: more", "saved", "unsaved"),
            more(f"-c with {CONVERSATIONS} conversations: more", "-c, full", "-c", budget=15),
            told("history list with them", "list", "whole", budget=200),
            told("history search with them", "search", "whole", budget=300),
        ),
    ),
    "packages": Case(
        lambda ground: {
            "none": ground.ask("hi", home="none", path=ground.distributions(0)),
            "many": ground.ask("hi", home="many", path=ground.distributions(DISTRIBUTIONS)),
            "plugins": ground.ask("hi", home="plugins", path=ground.plugins(PLUGINS)),
        },
        (
            more(f"{DISTRIBUTIONS} more distributions: more", "many", "none", budget=15),
            more(f"{PLUGINS} more provider plugins: more", "plugins", "none", budget=15),
        ),
    ),
    "chat": Case(
        lambda ground: {"ask": ground.ask(turns=TURNS)},
        (
            told("turn 2 of a chat", "ask", "turn 2"),
            Row(
                f"turn {TURNS} / turn 2",
                "x",
                lambda turn: turn["ask"][f"turn {TURNS}"] / turn["ask"]["turn 2"],
            ),
        ),
        5,
    ),
    "large": Case(
        lambda ground: {
            "bare": ground.bare(f"large {MEGABYTES}"),
            "short": ground.ask("hi"),
            "ask": ground.ask(f"large {MEGABYTES}"),
        },
        (
            ratio(f"peak memory while {MEGABYTES} MB stream by / bare", "ask", "bare", "memory", 1.4),
            ratio("the same / one answer", "ask", "short", "memory"),
            ratio("time for them / bare", "ask", "bare"),
        ),
        3,
    ),
    "markdown": Case(
        lambda ground: {
            "50": ground.ask("markdown 50", terminal=True),
            "200": ground.ask("markdown 200", terminal=True),
            "pipe": ground.ask("markdown 200"),
        },
        (
            ratio("200 KB of Markdown on a terminal / 50 KB", "200", "50", budget=4.4),
            ratio("200 KB on a terminal / in a pipe", "200", "pipe"),
        ),
        5,
    ),
}
