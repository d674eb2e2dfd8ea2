from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ask.history.conversation_lookup import find_conversation
from ask.history.deletion import delete_conversations
from ask.history.entries import MAX_SQLITE_INTEGER, HistoryEntry, ToolCallRecord, insert_entry, read_runs
from ask.history.search_index import list_indexes
from ask.history.store import Store
from ask.messages import Attachment, FinishReason, Message, ProviderState, ToolCall, Usage
from ask.text import repair_surrogates
from tests.history.saved import NOW, assistant, save, user
from tests.saved_history import create_recorder, read_all_runs

TEXT = st.text(st.characters(exclude_categories=()))
"""Any, halves of characters and zeros too."""
NUMBER = st.none() | st.integers(0) | st.just(10**300)
TIME = st.floats(0, 2**40)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=10,
)
CALLS = st.builds(ToolCall, TEXT, TEXT, TEXT)
RECORDS = st.builds(
    ToolCallRecord,
    CALLS,
    *(st.none() | TIME, st.none() | TIME, st.none() | st.booleans(), st.none() | st.sampled_from(["allow", "deny"])),
    *(st.none() | st.just("--confirm: yes"), st.none() | st.integers(-64, 255)),
)
USAGE = st.builds(Usage, *[NUMBER] * 4, st.none() | st.floats(allow_nan=False), NUMBER, NUMBER)
NATIVE = st.tuples(TEXT, TEXT, st.dictionaries(TEXT, JSON, max_size=3)).map(lambda parts: ProviderState(*parts))
numbers = count()


@st.composite
def entries(draw: st.DrawFn) -> HistoryEntry:
    records = tuple(draw(st.lists(RECORDS, max_size=3)))
    message = Message(
        draw(st.sampled_from(["user", "assistant", "tool"])),
        draw(TEXT),
        tuple(record.call for record in records),
        *(draw(TEXT), draw(TEXT)),
        tuple(draw(st.lists(st.builds(Attachment, TEXT, TEXT, st.binary(), st.just(())), max_size=2))),
        draw(st.none() | NATIVE),
    )
    finish = draw(st.sampled_from(["", *FinishReason]))
    return HistoryEntry(
        draw(TIME), message, draw(st.booleans()), draw(TEXT), finish, draw(USAGE), records, draw(TEXT), draw(TEXT)
    )


def mended(value: Any) -> Any:
    """The value as it comes back: its texts mended, its numbers None where they are beyond all sense."""
    if isinstance(value, ProviderState):
        return value
    if isinstance(value, tuple):
        parts = [mended(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, str):
        return repair_surrogates(str(value))
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > MAX_SQLITE_INTEGER:
        return None
    return value


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "history.db") as opened:
        yield opened


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kept=st.lists(entries(), max_size=3))
def test_what_is_saved_comes_back_and_can_be_found(store: Store, kept: list[HistoryEntry]) -> None:
    name = f"c{next(numbers)}"
    run = create_recorder(store.path, name)
    run.begin(Message("user", "hi"))
    with store.write_transaction() as connection:
        [(number,)] = connection.execute("SELECT max(number) FROM runs")
        for entry in kept:
            insert_entry(connection, number, entry)
    run.end(0)
    [*_, read] = read_all_runs(store.path)
    assert list(read.entries[1:]) == [mended(entry) for entry in kept]
    for index, _ in list_indexes():
        store.fetch_rows(f"INSERT INTO {index} ({index}, rank) VALUES ('integrity-check', 1)")


@given(cost=st.sampled_from([math.inf, -math.inf, math.nan]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_cost_that_is_no_number_does_no_harm(store: Store, cost: float) -> None:
    run = create_recorder(store.path, f"c{next(numbers)}")
    run.begin(Message("user", "hi"))
    run.end(0, None, Usage(1, 2, 3, cost=cost))
    assert read_all_runs(store.path)[-1].exit_code == 0


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_large_files_of_other_conversations_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    picture = Message("user", "look", attachments=(Attachment("a.png", "image/png", bytes(2**20)),))
    for number in range(6):
        save(path, f"files{number}", HistoryEntry(NOW, picture))
        save(path, "words", user("a question"), assistant("an answer"))
    with Store(path) as store:
        before = count_read_bytes()
        conversation = find_conversation(store, "words")
        assert len(read_runs(store, conversation)) == 6
        delete_conversations(store, [conversation])
        assert count_read_bytes() - before < 2**20
        [run] = read_runs(store, find_conversation(store, "files3"))
    assert run.entries[0].message == picture


def count_read_bytes() -> int:
    """Return how many bytes this process has read from files."""
    return int(Path("/proc/self/io").read_text().split()[1])
