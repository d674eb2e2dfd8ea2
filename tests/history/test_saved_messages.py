from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.agent.compaction import plan_compaction
from ask.events import MessageAdded
from ask.history.conversation_lookup import find_conversation
from ask.history.entries import HistoryEntry, Run, ToolCallRecord
from ask.history.saved_messages import (
    build_messages,
    find_unanswered_questions,
    load_conversation,
    pair_calls_with_results,
)
from ask.history.store import Store
from ask.messages import INTERRUPTED_REASON, NOT_RUN_REASON, SUMMARY_PREFIX, Message, ToolCall, Usage
from tests.saved_history import create_recorder, save_run


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.db"


def test_it_goes_on_with_whom_it_asked_last(path: Path) -> None:
    save_run(path, "abc", "one", provider="openai", model="a", system="Be kind.")
    save_run(path, "abc", "two", provider="gemini", model="b")
    with Store(path) as store:
        going_on = load_conversation(store, find_conversation(store, "abc"))
    assert (going_on.id, going_on.last_model, going_on.system) == ("abc", ("gemini", "b"), "")
    assert going_on.messages == ()
    assert [question.message.content for question in going_on.unanswered] == ["one", "two"]


def test_two_runs_at_once_are_told_one_after_the_other(path: Path) -> None:
    one, two = create_recorder(path), create_recorder(path)
    one.begin(Message("user", "one"))
    two.begin(Message("user", "two"))
    one.on_event(MessageAdded(Message("assistant", "1")))
    two.on_event(MessageAdded(Message("assistant", "2")))
    one.end(0)
    two.end(0)
    with Store(path) as store:
        going_on = load_conversation(store, find_conversation(store, "abc"))
    assert [message.content for message in going_on.messages] == ["one", "1", "two", "2"]


# What is told of it

CALLS = (ToolCall("a", "bash", "{}"), ToolCall("b", "bash", "{}"), ToolCall("c", "read_file", "{}"))


def calling(*started: float | None) -> HistoryEntry:
    records = tuple(ToolCallRecord(call, when) for call, when in zip(CALLS, started, strict=False))
    return HistoryEntry(0, Message("assistant", "", tuple(record.call for record in records)), calls=records)


def result(call: ToolCall) -> HistoryEntry:
    return HistoryEntry(0, Message("tool", "done", (), call.id, call.name))


def test_calls_without_a_result_are_answered_by_what_is_known_of_them() -> None:
    told = [step.message for step in pair_calls_with_results([calling(1.0, 2.0, None), result(CALLS[0])])]
    assert told[1:] == [
        Message("tool", "done", (), "a", "bash"),
        Message("tool", f"Error: {INTERRUPTED_REASON}", (), "b", "bash", is_error=True),
        Message("tool", f"Error: {NOT_RUN_REASON}", (), "c", "read_file", is_error=True),
    ]


ROUNDS = st.lists(st.integers(0, 3), max_size=4)


@given(rounds=ROUNDS, cut=st.integers(0, 20), again=st.booleans())
def test_wherever_a_run_ends_every_call_has_its_result_at_once_and_in_order(
    rounds: list[int], cut: int, again: bool
) -> None:
    entries: list[HistoryEntry] = [HistoryEntry(0, Message("user", "hi"))]
    for count in rounds:
        entries += [calling(*[1.0] * count), *map(result, CALLS[:count])]
    entries = entries[:cut]
    runs = [run_of(entries)] + [run_of([HistoryEntry(0, Message("user", "and now?"))])] * again
    told = list(build_messages(runs))
    check_pairs(told)
    assert [message for message in told if not message.content.endswith((INTERRUPTED_REASON, NOT_RUN_REASON))] == [
        entry.message for run in runs if run.has_answer for entry in run.entries if any(entry.message[1:])
    ]


def check_pairs(told: Sequence[Message]) -> None:
    open_calls: list[ToolCall] = []
    for message in told:
        if message.role == "tool":
            call = open_calls.pop(0)
            assert (message.tool_call_id, message.tool_name) == (call.id, call.name)
        else:
            assert not open_calls
            open_calls = list(message.tool_calls)
    assert not open_calls


def run_of(entries: Sequence[HistoryEntry], number: int = 1, first_kept_run: int | None = None) -> Run:
    return Run(number, first_kept_run, 0, 0, "1", "openrouter", "m", "", "/", "", 0, "", 0, Usage(), tuple(entries))


OUTCOMES = ("answered", "interrupted", "refused", "failed", "killed", "merged", "refused results", "failed correction")


def run_with_outcome(outcome: str, number: int) -> tuple[Run, list[str]]:
    """Return a run, and the roles of its messages in later requests."""
    question = HistoryEntry(0, Message("user", f"question {number}"))
    answer = HistoryEntry(0, Message("assistant", "Yes."), outcome != "interrupted")
    entries = {
        "answered": [question, answer],
        "interrupted": [question, answer],
        "refused results": [question, calling(1.0, 2.0), result(CALLS[0]), result(CALLS[1])],
        "failed correction": [question, answer, HistoryEntry(0, Message("user", "Answer again."))],
    }.get(outcome, [question])
    status = "refused" if outcome.startswith("refused") else "merged" if outcome == "merged" else ""
    run = run_of(entries, number)._replace(status=status, exit_code=None if outcome == "killed" else 6)
    roles = {
        "merged": ["user"],
        "refused results": ["user", "assistant", "tool", "tool"],
    }.get(outcome, ["user", "assistant"] if len(entries) > 1 else [])
    return run, roles


@given(st.lists(st.sampled_from(OUTCOMES), max_size=8))
def test_only_what_was_answered_is_told(outcomes: list[str]) -> None:
    made = [run_with_outcome(outcome, number) for number, outcome in enumerate(outcomes, 1)]
    runs = [run for run, _ in made]
    told = list(build_messages(runs))
    assert [message.role for message in told] == [role for _, roles in made for role in roles]
    assert [message.content for message in told if message.role == "user"] == [
        f"question {run.number}" for run, roles in made if roles
    ]
    assert "done" not in [message.content for message in told]
    unanswered = find_unanswered_questions(runs)
    last_answered = max((run.number for run, roles in made if roles), default=0)
    assert [question.run_number for question in unanswered] == [*range(last_answered + 1, len(runs) + 1)]
    assert [question.is_refused for question in unanswered] == [run.status == "refused" for run in runs[last_answered:]]
    later = find_unanswered_questions(runs, before_answers=True)
    can_be_sent = [run.number for run, roles in made if not roles and run.status != "refused"]
    assert [question.run_number for question in later if not question.is_refused][-1:] == can_be_sent[-1:]


@given(st.lists(st.sampled_from(OUTCOMES), min_size=1, max_size=6))
def test_a_summary_keeps_the_unanswered_questions(outcomes: list[str]) -> None:
    runs = [run_with_outcome(outcome, number)[0] for number, outcome in enumerate(outcomes, 1)]
    compaction = plan_compaction(runs)
    summary = spoken(len(runs) + 1, "Summarize.", "In short.", first_kept_run=compaction.first_kept_run)
    assert find_unanswered_questions([*runs, summary]) == find_unanswered_questions(runs)
    if compaction.messages:
        kept = [run for run in runs if run.number >= compaction.first_kept_run]
        assert list(compaction.messages) + list(build_messages(kept)) == list(build_messages(runs))


def spoken(number: int, asked: str, answer: str, *, first_kept_run: int | None = None, whole: bool = True) -> Run:
    entries = [HistoryEntry(0, Message("user", asked)), HistoryEntry(0, Message("assistant", answer), whole)]
    return run_of(entries, number, first_kept_run)


ONE, TWO, THREE = spoken(1, "one", "1"), spoken(2, "two", "2"), spoken(5, "three", "3")


def test_a_summary_stands_for_what_came_before_the_first_run_that_is_kept() -> None:
    told = list(build_messages([ONE, TWO, spoken(3, "sum up", "all of it", first_kept_run=2), THREE]))
    assert [message.content for message in told] == [SUMMARY_PREFIX + "all of it", "two", "2", "three", "3"]
    assert told[0].role == "user"


def test_the_last_summary_counts() -> None:
    runs = [ONE, spoken(2, "sum up", "first", first_kept_run=2), THREE, spoken(6, "sum up", "second", first_kept_run=5)]
    assert [message.content for message in build_messages(runs)] == [SUMMARY_PREFIX + "second", "three", "3"]


@pytest.mark.parametrize("failed", [spoken(3, "sum up", "all o", first_kept_run=2, whole=False), run_of([], 3, 2)])
def test_a_summary_that_did_not_come_about_changes_nothing(failed: Run) -> None:
    assert [message.content for message in build_messages([ONE, failed, TWO])] == ["one", "1", "two", "2"]
