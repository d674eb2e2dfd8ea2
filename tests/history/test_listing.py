"""What a list tells of conversations, beside what a loop over all their runs finds."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.errors import UsageError
from ask.history.conversation_lookup import find_conversation, find_newest_conversation
from ask.history.listing import ConversationOverview, list_conversations
from ask.history.store import Store
from ask.messages import Usage

HERE, THERE = "/here", "/there"


class Ran(NamedTuple):
    """What a run leaves for a list."""

    provider: str
    model: str
    directory: str
    rounds: int
    usage: Usage


class Talk(NamedTuple):
    """A conversation that is made up."""

    updated: float
    runs: list[Ran]


TOKENS = st.none() | st.integers(0, 10**9)
TIERS = st.sampled_from([None, "standard", "flex"])
COSTS = st.none() | st.integers(0, 2**20).map(lambda eighths: eighths / 8)  # whose sums are the same in any order
TALKS = st.lists(
    st.builds(
        Talk,
        st.sampled_from([1.5, 2.0, 3.25]),  # few, so that some went on at the same moment
        st.lists(
            st.builds(
                Ran,
                st.sampled_from(["demo", "x\ty"]),
                st.sampled_from(["m", "vendor/m"]),
                st.sampled_from([HERE, THERE]),
                st.integers(0, 20),
                st.builds(Usage, TOKENS, TOKENS, TOKENS, TOKENS, COSTS, TOKENS, TOKENS, TOKENS, TIERS),
            ),
            min_size=1,
            max_size=4,
        ),
    ),
    max_size=6,
)


@contextmanager
def saved(talks: list[Talk]) -> Iterator[Store]:
    """A history of these, whose runs took turns."""
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder, "history.db")) as store:
        with store.write_transaction() as connection:
            for number, talk in enumerate(talks, 1):
                row = (number, f"id{number}", f"title {number}", 1.0, talk.updated)
                connection.execute("INSERT INTO conversations VALUES (?, ?, ?, ?, ?)", row)
            for turn in range(max((len(talk.runs) for talk in talks), default=0)):
                for number, talk in enumerate(talks, 1):
                    for run in talk.runs[turn : turn + 1]:
                        connection.execute(
                            "INSERT INTO runs (conversation, started, version, system, terminal, provider, model, "
                            f"directory, rounds, {', '.join(Usage._fields)}) "
                            f"VALUES (?, 1, '', '', ''{', ?' * (4 + len(Usage._fields))})",
                            (number, *run[:4], *run.usage),
                        )
        yield store


def expected(talks: list[Talk]) -> list[ConversationOverview]:
    """All of them with their details."""
    numbers = sorted(range(1, len(talks) + 1), key=lambda number: (talks[number - 1].updated, number), reverse=True)
    return [overview(place, number, talks[number - 1]) for place, number in enumerate(numbers, 1)]


def overview(place: int, number: int, talk: Talk) -> ConversationOverview:
    used = Usage()
    for run in talk.runs:
        used += run.usage
    last = talk.runs[-1]
    return ConversationOverview(
        position=place,
        id=f"id{number}",
        title=f"title {number}",
        updated=talk.updated,
        provider=last.provider,
        model=last.model,
        rounds=sum(run.rounds for run in talk.runs),
        created=1.0,
        directory=last.directory,
        runs=len(talk.runs),
        **used._asdict(),
    )


def in_short(found: list[ConversationOverview]) -> list[ConversationOverview]:
    """The same without details."""
    return [ConversationOverview(*one[:8]) for one in found]


@given(TALKS, st.integers(0, 7))
def test_it_is_what_a_loop_over_all_runs_finds(talks: list[Talk], limit: int) -> None:
    every = expected(talks)
    here = [one for one in every if any(run.directory == HERE for run in talks[int(one.id[2:]) - 1].runs)]
    with saved(talks) as store:
        assert list_conversations(store, include_details=True) == every
        assert list_conversations(store) == in_short(every)
        assert list_conversations(store, limit, include_details=True) == every[:limit]
        assert list_conversations(store, directory=HERE, include_details=True) == here
        assert list_conversations(store, limit, HERE) == in_short(here[:limit])


@given(TALKS)
def test_places_are_those_by_which_one_is_found(talks: list[Talk]) -> None:
    with saved(talks) as store:
        listed = list_conversations(store)
        assert [find_conversation(store, str(one.position)).id for one in listed] == [one.id for one in listed]
        if listed:
            assert find_newest_conversation(store) == find_conversation(store, "1")
        else:
            with pytest.raises(UsageError):
                find_newest_conversation(store)


def test_what_no_run_told_of_is_not_nothing() -> None:
    def cost(*costs: float | None) -> Any:
        runs = [Ran("demo", "m", HERE, 0, Usage(cost=cost)) for cost in costs]
        with saved([Talk(1.0, runs)]) as store:
            return list_conversations(store)[0].cost

    assert (cost(None, None), cost(None, 0.0), cost(0.5, None)) == (None, 0.0, 0.5)
