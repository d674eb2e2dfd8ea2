from __future__ import annotations

import itertools
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ask import __version__
from ask.errors import LimitReachedError
from ask.events import Event, FallbackStarted, MessageAdded, Notice, ToolCallFinished, ToolCallRequested
from ask.history.entries import Run, ToolCallRecord
from ask.history.recorder import Recorder
from ask.history.store import Store
from ask.history.titles import MAX_TITLE_CHARACTERS
from ask.messages import FinishReason, Message, ModelResponse, ProviderState, TextDelta, ToolCall, Usage
from tests.history.test_store import locked
from tests.saved_history import create_recorder, list_messages, read_all_runs, read_conversations, save_run

CALLS = (ToolCall("call_1", "bash", '{"command": "ls"}'), ToolCall("call_2", "read_file", "{"))
USAGE = Usage(100, 20, 50, 12, 0.25)
NATIVE = ProviderState("openrouter", "m", {"reasoning_details": [{"text": "Hm."}]})
CALLING = MessageAdded(
    Message("assistant", "Let me see.", CALLS, provider_state=NATIVE),
    answer=ModelResponse("Let me see.", "Hm.", FinishReason.TOOL_CALLS, USAGE, NATIVE),
)
DONE = MessageAdded(Message("assistant", "Two files."), answer=ModelResponse("Two files.", usage=USAGE))


def result(call: ToolCall, text: str = "a.txt") -> list[Event]:
    """What happens while a call is carried out."""
    finished = ToolCallFinished(call, text, False, "allow", "default", 0, 0.5)
    return [ToolCallRequested(call), finished, MessageAdded(Message("tool", text, (), call.id, call.name))]


EVENTS: list[Event] = [
    TextDelta("Let"),
    CALLING,
    *result(CALLS[0]),
    Notice("!"),
    *result(CALLS[1]),
    TextDelta("T"),
    DONE,
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.db"


def play(run: Recorder, events: Sequence[Event]) -> None:
    for event in events:
        run.on_event(event)


def only_run(path: Path) -> Run:
    [run] = read_all_runs(path)
    return run


def test_a_run_is_saved_with_all_that_is_known_of_it(path: Path) -> None:
    before = time.time()
    about: dict[str, Any] = {"system": "Be brief.", "directory": "/tmp", "terminal": "session:1"}
    run = create_recorder(path, **about)
    run.begin(Message("user", "Which files\nare here?"))
    play(run, EVENTS)
    run.end(11, LimitReachedError("stopped", "go on"), USAGE)
    [conversation] = read_conversations(path)
    assert (conversation.id, conversation.title) == ("abc", "Which files are here?")
    saved = only_run(path)
    assert before <= saved.started == conversation.created == conversation.updated <= (saved.ended or 0) <= time.time()
    assert saved._asdict().items() >= {**about, "provider": "openrouter", "model": "m", "version": __version__}.items()
    assert (saved.exit_code, saved.error, saved.rounds, saved.usage, saved.first_kept_run) == (
        11,
        "stopped",
        1,
        USAGE,
        None,
    )
    asked, calling, one, two, done = saved.entries
    assert (asked.message, asked.complete) == (Message("user", "Which files\nare here?"), True)
    assert (calling.message, calling.reasoning, calling.finish_reason) == (CALLING.message, "Hm.", "tool_calls")
    assert [record._replace(started=None) for record in calling.calls] == [
        ToolCallRecord(call, None, 0.5, False, "allow", "default", 0) for call in CALLS
    ]
    assert all(before <= (record.started or 0) <= time.time() for record in calling.calls)
    assert [entry.message.tool_call_id for entry in (one, two)] == ["call_1", "call_2"]
    assert (done.message, done.usage, done.finish_reason) == (DONE.message, USAGE, "stop")


def test_totals_are_there_while_the_run_goes_on(path: Path) -> None:
    run = create_recorder(path)
    run.begin(Message("user", "hi"))
    play(run, EVENTS[:-1])
    saved = only_run(path)
    assert (saved.ended, saved.exit_code, saved.rounds, saved.usage) == (None, None, 1, USAGE)
    run.on_event(DONE)
    assert only_run(path).usage == USAGE + USAGE
    run.end(0)
    assert only_run(path).usage == USAGE + USAGE


def test_the_beginning_of_an_answer_is_saved_if_the_run_ends_before_it_is_reported(path: Path) -> None:
    run = create_recorder(path)
    run.begin(Message("user", "hi"))
    play(run, [FallbackStarted("other", "small"), TextDelta("Let"), TextDelta(" me")])
    run.end(129)
    saved = only_run(path)
    assert list_messages(saved) == [("user", "hi", True), ("assistant", "Let me", False)]
    assert (saved.entries[1].provider, saved.entries[1].model) == ("other", "small")


@pytest.mark.parametrize("count", range(len(EVENTS) + 1))
def test_what_happened_is_saved_when_show_returns(path: Path, count: int) -> None:
    run = create_recorder(path)
    run.begin(Message("user", "hi"))
    play(run, EVENTS[:count])
    saved = only_run(path)
    added = [event.message for event in EVENTS[:count] if isinstance(event, MessageAdded)]
    assert [entry.message for entry in saved.entries[1:]] == added
    started = [event for event in EVENTS[:count] if isinstance(event, ToolCallRequested)]
    records = [record for entry in saved.entries for record in entry.calls]
    assert [record.started is not None for record in records] == [i < len(started) for i in range(len(records))]
    run.end(1)


def test_runs_of_a_conversation_keep_its_first_title(path: Path) -> None:
    save_run(path, "abc", "first")
    save_run(path, "abc", "second")
    [conversation] = read_conversations(path)
    assert conversation.title == "first"
    assert [list_messages(run)[0][1] for run in read_all_runs(path)] == ["first", "second"]
    assert conversation.updated == read_all_runs(path)[-1].started > conversation.created


def test_a_title_is_short_and_harmless(path: Path) -> None:
    save_run(path, "abc", "\x1b[2J\u202e" + "x" * 1_000)
    [conversation] = read_conversations(path)
    assert conversation.title.startswith("\\x1b[2J\\u202exxx")
    assert len(conversation.title) == MAX_TITLE_CHARACTERS


def test_what_no_text_can_hold_is_mended(path: Path) -> None:
    save_run(path, "abc", "a\udcffb", model="m\udcff", system="\ud83d\ude00", directory="/\udcff", terminal="\udcff")
    saved = only_run(path)
    assert list_messages(saved) == [("user", "a\ufffdb", True)]
    assert (saved.model, saved.system, saved.directory, saved.terminal) == ("m\ufffd", "😀", "/\ufffd", "\ufffd")


# What goes wrong


def test_a_history_that_cannot_be_written_is_told_once_and_the_run_goes_on(path: Path) -> None:
    path.write_bytes(b"no database" * 1_000)
    notices: list[str] = []
    run = create_recorder(path, notices=notices)
    run.begin(Message("user", "hi"))
    play(run, EVENTS)
    run.end(0)
    assert not run.is_saving
    assert notices == [f"cannot save this conversation: {path} is damaged: move it away; ask then creates a new one"]
    assert path.read_bytes() == b"no database" * 1_000


def test_nothing_is_said_to_be_saved_of_a_run_that_is_rolled_back(path: Path) -> None:
    with Store(path) as store, store.write_transaction() as connection:
        connection.execute("CREATE TRIGGER full BEFORE INSERT ON messages BEGIN SELECT raise(ABORT, 'full'); END")
    notices: list[str] = []
    run = create_recorder(path, notices=notices)
    run.begin(Message("user", "hi"))
    assert (run.is_saving, run.run_number) == (False, 0)
    assert [notice.partition(":")[0] for notice in notices] == ["cannot save this conversation"]
    assert read_conversations(path) == []


def test_a_conversation_that_is_deleted_meanwhile_stays_deleted(path: Path) -> None:
    notices: list[str] = []
    run = create_recorder(path, notices=notices)
    run.begin(Message("user", "hi"))
    run.on_event(CALLING)
    with Store(path) as store, store.write_transaction() as connection:
        connection.execute("DELETE FROM conversations")
    other = create_recorder(path, "other")
    other.begin(Message("user", "hi"))
    other.on_event(CALLING)
    play(run, EVENTS[2:])
    run.end(0)
    other.end(0)
    assert notices == ["cannot save the rest of this conversation: it was deleted by another program"]
    assert [conversation.id for conversation in read_conversations(path)] == ["other"]
    assert [record.started for record in only_run(path).entries[1].calls] == [None, None]


def test_what_happens_while_another_process_writes_is_saved_afterwards_as_it_happened(path: Path) -> None:
    Store(path).close()
    notices: list[str] = []
    run = create_recorder(path, notices=notices)
    with locked(path):
        began = time.time()
        run.begin(Message("user", "hi"))
        play(run, EVENTS)
        went_on = time.time()
        assert read_all_runs(path) == []
    run.end(0)
    saved = only_run(path)
    assert notices == []
    assert run.is_saving
    assert [entry.message for entry in saved.entries[1:]] == [
        event.message for event in EVENTS if isinstance(event, MessageAdded)
    ]
    assert all(began <= entry.time <= went_on for entry in saved.entries)
    assert [(record.call, record.seconds) for record in saved.entries[1].calls] == [(call, 0.5) for call in CALLS]
    assert (saved.rounds, saved.usage, saved.exit_code) == (1, USAGE + USAGE, 0)


def test_while_a_foreign_lock_lasts_no_event_waits_but_the_first(path: Path) -> None:
    Store(path).close()
    run = create_recorder(path)
    with locked(path):
        started = time.monotonic()
        run.begin(Message("user", "hi"))
        between = time.monotonic()
        play(run, EVENTS * 20)
        assert between - started >= 1 > time.monotonic() - between
    run.end(0)


def test_a_full_transaction_log_of_an_earlier_run_is_no_hindrance(path: Path) -> None:
    """A killed process leaves the log behind, which the next one reads."""
    run = create_recorder(path)
    run.begin(Message("user", "hi"))
    copy = path.with_name("copy.db")
    for suffix in ("", "-wal"):
        copy.with_name(f"copy.db{suffix}").write_bytes(path.with_name(f"history.db{suffix}").read_bytes())
    run.end(0)
    assert list_messages(only_run(copy)) == [("user", "hi", True)]
    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_round_costs_a_few_small_writes_however_many_there_were(path: Path) -> None:
    log = path.with_name("history.db-wal")
    run = create_recorder(path)
    run.begin(Message("user", "hi"))
    play(run, EVENTS)
    sizes = [log.stat().st_size]
    for _ in range(5):
        play(run, EVENTS[1:-2])
        sizes.append(log.stat().st_size)
    run.end(0)
    assert max(later - earlier for earlier, later in itertools.pairwise(sizes)) <= 120_000
