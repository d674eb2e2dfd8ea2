"""Full-text search: what is looked for is words, whatever else it would mean to the database."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.errors import FileError
from ask.history.search import MATCH_END, MATCH_START, build_match_expression, search_conversations
from ask.history.store import Store
from tests.history.saved import assistant, called, result, save, user

ODD = ['"', "'", "*", "(", ")", "AND", "OR", "NOT", "NEAR(a b, 2)", "content:", "^", "-", "+", "\0", "\ue000", "é", " "]
WORDS = st.lists(st.sampled_from(ODD) | st.text(max_size=6)).map("".join)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A history of four conversations, the last one newest."""
    path: Path = tmp_path_factory.mktemp("history") / "history.db"
    call = called('{"command": "grep marzipan"}')
    save(path, "one", user("The disk is full again"), assistant("Free some space on the disk."), ago=400)
    save(path, "two", user("A full moon, no disk"), assistant("Größe: 5 NOT 6"), ago=300)
    save(path, "three", user("hello"), assistant("", call), result(call, "pâté: 3 tins"), ago=200)
    save(path, "four", user("content of a full disk"), ago=100)
    with Store(path) as opened:
        yield opened


def found(store: Store, *words: str, limit: int = -1) -> list[str]:
    return [hit.conversation.id for hit in search_conversations(store, words, limit)]


@pytest.mark.parametrize(
    ("words", "ids"),
    [
        (["disk"], ["four", "two", "one"]),
        (["disk", "full"], ["four", "two", "one"]),
        (["FULL", "moon"], ["two"]),
        (["full disk"], ["four"]),
        (['"full disk"'], ["four"]),
        (['disk "full again"'], ["one"]),
        (['"full ag"*'], ["one"]),
        (["full ag*"], ["one"]),
        (["mar*"], ["three"]),
        (["mar"], []),
        (["grosse"], []),
        (["große"], ["two"]),
        (["größe"], ["two"]),
        (["GRÖßE", "not"], ["two"]),
        (["pate"], ["three"]),
        (["NOT"], ["two"]),
        (["content:disk"], []),
        (["content"], ["four"]),
        (["disk", "?!"], ["four", "two", "one"]),
        (["disk", '"'], ["four", "two", "one"]),
        (["nowhere"], []),
    ],
)
def test_what_is_found(words: list[str], ids: list[str], store: Store) -> None:
    assert found(store, *words) == ids


def test_a_conversation_is_found_once_by_its_last_message_with_the_words(store: Store) -> None:
    hits = {hit.conversation.id: hit for hit in search_conversations(store, ["disk"])}
    assert (hits["one"].role, hits["two"].role) == ("assistant", "user")
    assert hits["one"].excerpt == f"Free some space on the {MATCH_START}disk{MATCH_END}."


def test_calls_and_results_are_found_too(store: Store) -> None:
    (call,), (result,) = search_conversations(store, ["marzipan"]), search_conversations(store, ["tins"])
    assert (call.role, result.role) == ("assistant", "tool")
    assert f"{MATCH_START}marzipan{MATCH_END}" in call.excerpt


@pytest.mark.parametrize(("limit", "count"), [(0, 0), (1, 1), (2, 2), (9, 3)])
def test_a_limit_leaves_the_newest(limit: int, count: int, store: Store) -> None:
    assert found(store, "disk", limit=limit) == ["four", "two", "one"][:count]


def test_the_newest_are_found_among_more_than_one_query_looks_at(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    for identity in ("old", "new"):
        save(path, identity, *[user("word")] * 700)
    with Store(path) as store:
        assert found(store, "word") == found(store, "wo*", limit=5) == ["new", "old"]
        assert found(store, "word", limit=1) == ["new"]


@given(st.lists(WORDS, max_size=4))
def test_nothing_is_an_error_and_what_is_said_in_full_is_found(store: Store, words: list[str]) -> None:
    ids = found(store, *words)
    assert set(ids) <= {"one", "two", "three", "four"}
    assert "four" not in found(store, "disk", "nowhere", *words)
    if not build_match_expression(words):
        assert ids == []


@given(st.text(st.sampled_from("abc üé\"'*-(:"), max_size=20))
def test_a_text_is_found_by_its_own_words(text: str) -> None:
    import sqlite3

    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE VIRTUAL TABLE texts USING fts5 (content)")
    connection.execute("INSERT INTO texts VALUES (?)", [text])
    query = build_match_expression(text.replace('"', " ").replace("*", " ").split())
    count = connection.execute("SELECT count(*) FROM texts WHERE texts MATCH ?", [query or '""']).fetchone()[0]
    connection.close()
    assert count == bool(query)


def test_a_damaged_file_is_told_as_one(tmp_path: Path) -> None:
    damage = "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = replace(sql, 'title', 'tit1e')"
    path = tmp_path / "history.db"
    save(path, "one", user("word"))
    with sqlite3.connect(path) as connection:
        connection.executescript(damage)
    connection.close()
    with Store(path) as store, pytest.raises(FileError, match="is damaged"):
        search_conversations(store, ["word"])
