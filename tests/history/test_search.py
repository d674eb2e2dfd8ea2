"""Full-text search: what is looked for is words, whatever else it would mean to the database."""

# ruff: noqa: RUF001 - text in other scripts

from __future__ import annotations

import re
import sqlite3
import unicodedata
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.errors import FileError
from ask.history.deletion import delete_conversations, delete_run
from ask.history.entries import query_conversations
from ask.history.search import (
    MATCH_END,
    MATCH_START,
    SearchQuery,
    build_match_expression,
    parse_query,
    search_conversations,
)
from ask.history.search_index import erase_unindexed_words, has_unspaced, supports_trigrams, unindex_messages
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


# Writing without spaces between words, and parts of words

NEEDS_TRIGRAMS = pytest.mark.skipif(not supports_trigrams(), reason="needs SQLite 3.34")
needs_trigrams = partial(pytest.param, marks=NEEDS_TRIGRAMS)
TEXTS = {
    "zh": "我想备份PostgreSQL的数据库，今天可以吗？",
    "ja": "東京の天気はどうですか。コンピュータの設定（GPT-4の場合）",
    "th": "ฉันต้องการสำรองฐานข้อมูลวันนี้",
    "ko": "서울에서 데이터베이스연결을 확인해 주세요",
    "nfd": unicodedata.normalize("NFD", "~/Documents/프로젝트/ガイド.txt"),
    "wide": "ｶﾀｶﾅ ＡＢＣ１２３",
    "emoji": "Released 🎉 with love ❤️ and 👍🏽",
    "de": "Die Datenbankverbindung braucht einen Schlüsselbund: 50% mehr_Zeit",
    "symbols": "costs 5 €, a → b",
    "mixed": "请用AI和Docker部署",
}


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    path: Path = tmp_path_factory.mktemp("history") / "history.db"
    for identity, text in TEXTS.items():
        save(path, identity, user(text))
    save(path, "call", user("go"), assistant("", called('{"command": "cat 東京都庁.txt"}')))
    with Store(path) as opened:
        yield opened


@pytest.mark.parametrize(
    ("words", "ids"),
    [
        (["数据库"], ["zh"]),
        (["数据"], ["zh"]),
        (["库"], ["zh"]),
        (["備份"], []),
        (["数据库？"], ["zh"]),
        (["的数据库", "postgresql"], ["zh"]),
        (["postgresql的"], ["zh"]),
        (["备份", "数据库"], ["zh"]),
        needs_trigrams(["postgresql"], ["zh"]),
        needs_trigrams(["post*"], ["zh"]),
        (["postgre"], []),
        (["sql"], []),
        needs_trigrams(["gpt"], ["ja"]),
        needs_trigrams(["GPT-4"], ["ja"]),
        needs_trigrams(["ai"], ["mixed"]),
        needs_trigrams(["ai", "docker"], ["mixed"]),
        (["docker", "nowhere"], []),
        (["备份数据"], []),
        (["天気"], ["ja"]),
        (["東京"], ["ja", "call"]),
        (["東京都"], ["call"]),
        (["東京\u3000天気"], ["ja"]),
        (["「東京」"], ["ja", "call"]),
        (["コンピュータ"], ["ja"]),
        (["ข้อมูล"], ["th"]),
        (["서울"], ["ko"]),
        (["데이터베이스"], ["ko"]),
        (["연결"], ["ko"]),
        (["프로젝트"], ["nfd"]),
        (["ガイド"], ["nfd"]),
        (["ガイ"], ["nfd"]),
        ([unicodedata.normalize("NFD", "서울에서")], ["ko"]),
        (["ｶﾀｶﾅ"], ["wide"]),
        (["ａｂｃ"], ["wide"]),
        (["ＰｏｓｔｇｒｅＳＱＬ"], ["zh"]),
        (["🎉"], ["emoji"]),
        (["🎉", "released"], ["emoji"]),
        (["with 🎉"], []),
        (['"released 🎉"'], ["emoji"]),
        (["❤️"], ["emoji"]),
        (["❤"], ["emoji"]),
        (["👍"], ["emoji"]),
        (["€"], ["symbols"]),
        (["→", "5"], ["symbols"]),
        (["verbindung"], []),
        (["*verbindung"], ["de"]),
        (["*BANKVER*"], ["de"]),
        (["*LÜSSEL*"], ["de"]),
        (["*0% mehr_Z*"], ["de"]),
        (["*0_*"], []),
        (["*nk%ver*"], []),
        (["die", "*verbindung*"], ["de"]),
        (["nowhere", "*verbindung*"], []),
    ],
)
def test_fragments_are_found(words: list[str], ids: list[str], foreign: Store) -> None:
    assert sorted(found(foreign, *words)) == sorted(ids)
    if parse_query(words).fragments:
        foreign.has_trigrams = False  # as with an old SQLite
        try:
            assert sorted(found(foreign, *words)) == sorted(ids)
        finally:
            foreign.has_trigrams = supports_trigrams()


@pytest.mark.parametrize(
    ("words", "excerpt"),
    [
        (["数据库", "postgresql的"], "我想备份[PostgreSQL的][数据库]，今天可以吗？"),
        (["天気"], "東京の[天気]はどうですか。コンピュータの設定（GPT-4の場合）"),
        (["*verb*", "die", "schl*"], "[Die] Datenbank[verb]indung braucht einen [Schlüsselbund]: 50% mehr_Zeit"),
        (["🎉", "love"], "Released [🎉] with [love] ❤️ and 👍🏽"),
        (["都庁"], 'bash {"command": "cat 東京[都庁].txt"}'),
    ],
)
def test_excerpts_mark_fragments_and_words(words: list[str], excerpt: str, foreign: Store) -> None:
    (hit,) = search_conversations(foreign, words)
    assert hit.excerpt.replace(MATCH_START, "[").replace(MATCH_END, "]") == excerpt


def test_a_fragment_finds_the_newest_message_of_each_conversation(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    for identity in ("old", "new"):
        save(path, identity, user("旧数据"), *[assistant("数据库在这里")] * 50)
    with Store(path) as store:
        assert found(store, "数据库") == found(store, "数据", limit=5) == ["new", "old"]
        assert found(store, "数据", limit=1) == ["new"]
        assert {hit.role for hit in search_conversations(store, ["数据"])} == {"assistant"}


def check_indexes(store: Store) -> None:
    for index in ("texts", "trigrams"):
        store.fetch_rows(f"INSERT INTO {index} ({index}, rank) VALUES ('integrity-check', 1)")
    assert [tuple(row) for row in store.fetch_rows("PRAGMA integrity_check")] == [("ok",)]


@NEEDS_TRIGRAMS
def test_both_indexes_follow_what_is_deleted(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    for identity in ("one", "two"):
        save(path, identity, user("删除数据库 please"), assistant("好的", called('{"command": "rm 数据库"}')))
        save(path, identity, user("谢谢你 for that"))
    with Store(path) as store:
        check_indexes(store)
        (number,) = [row[0] for row in store.fetch_rows("SELECT max(number) FROM runs")]
        delete_run(store, "two", number)
        check_indexes(store)
        assert found(store, "谢谢你") == ["one"]
        delete_conversations(store, query_conversations(store, "WHERE id = 'two'"))
        check_indexes(store)
        assert found(store, "数据库") == ["one"]
        delete_conversations(store, query_conversations(store, ""))
        check_indexes(store)
        assert store.fetch_rows("SELECT count(*) FROM trigrams_idx")[0][0] <= 1
    assert "数据库".encode() not in path.read_bytes()


def test_other_processes_can_write_while_deleted_words_are_erased(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    save(path, "one", user(" ".join(f"word{number}" for number in range(10_000))))
    save(path, "two", user("a confidential sentence"))
    writes = 0
    with ThreadPoolExecutor() as pool:
        erasing = pool.submit(_delete_in_steps, path)
        with Store(path) as store:
            while not erasing.done():
                with store.write_transaction() as connection:
                    connection.execute("UPDATE conversations SET title = ?", [str(writes)])
                writes += 1
    erasing.result()
    assert writes > 10
    with Store(path) as store:
        check_indexes(store)
    assert b"confidential" not in path.read_bytes()


def _delete_in_steps(path: Path) -> None:
    with Store(path) as store:
        store.fetch_rows("PRAGMA secure_delete = ON")
        with store.write_transaction() as connection:
            unindex_messages(connection, "= ?", 2)
            connection.execute("DELETE FROM conversations WHERE id = 'two'")
        erase_unindexed_words(store, pages=1)
        store.fetch_rows("PRAGMA wal_checkpoint(TRUNCATE)")


@NEEDS_TRIGRAMS
def test_an_index_that_an_old_sqlite_could_not_update_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "history.db"
    save(path, "one", user("数据库"), assistant("好的"))
    save(path, "two", user("数据库"))
    with monkeypatch.context() as context:
        context.setattr(sqlite3, "sqlite_version_info", (3, 31, 1))
        save(path, "three", user("数据库"))
        with Store(path) as store:
            delete_conversations(store, query_conversations(store, "WHERE id = 'two'"))
            assert found(store, "数据库") == ["three", "one"]
    with Store(path) as store:
        check_indexes(store)
        assert found(store, "数据库") == ["three", "one"]


def test_a_history_that_an_old_sqlite_made_gets_the_index_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "history.db"
    with monkeypatch.context() as context:
        context.setattr(sqlite3, "sqlite_version_info", (3, 31, 1))
        save(path, "one", user("数据库"))
        with Store(path) as store:
            assert store.fetch_rows("SELECT name FROM sqlite_master WHERE name LIKE 'trigram%'") == []
            assert found(store, "数据库") == ["one"]
    with Store(path) as store:
        assert found(store, "数据库") == ["one"]
        assert store.has_trigrams == supports_trigrams()


@pytest.mark.slow
@NEEDS_TRIGRAMS
def test_the_ranges_of_both_definitions_are_the_same() -> None:
    with Store(Path(":memory:"), create=False) as store:
        everything = [chr(code) for code in range(1, 0x40000) if not 0xD800 <= code <= 0xDFFF]
        with store.write_transaction() as connection:
            connection.execute("CREATE TEMP TABLE letters (letter TEXT)")
            connection.executemany("INSERT INTO letters VALUES (?)", [[letter] for letter in everything])
        (view,) = store.fetch_rows("SELECT sql FROM sqlite_master WHERE name = 'trigram_texts'")
        pattern = re.search(r"SELECT ('\*\[.*?\]\*')", view["sql"], re.DOTALL)
        assert pattern
        indexed = {row[0] for row in store.fetch_rows(f"SELECT letter FROM letters WHERE letter GLOB {pattern[1]}")}
    assert indexed == set(filter(has_unspaced, everything))


@given(st.lists(WORDS, max_size=4))
def test_nothing_is_an_error_and_what_is_said_in_full_is_found(store: Store, words: list[str]) -> None:
    ids = found(store, *words)
    assert set(ids) <= {"one", "two", "three", "four"}
    assert "four" not in found(store, "disk", "nowhere", *words)
    if parse_query(words) == SearchQuery([], []):
        assert ids == []


@given(st.text(st.sampled_from("abc üé\"'*-(:"), max_size=20))
def test_a_text_is_found_by_its_own_words(text: str) -> None:
    import sqlite3

    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE VIRTUAL TABLE texts USING fts5 (content)")
    connection.execute("INSERT INTO texts VALUES (?)", [text])
    query = build_match_expression(parse_query(text.replace('"', " ").replace("*", " ").split()).phrases)
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


@pytest.mark.slow_after_first
@pytest.mark.parametrize("text", ["a", "数", "🎉", "%", "é"])
@pytest.mark.parametrize("length", [9_000, 60_000])
def test_a_very_long_text_is_found(tmp_path: Path, text: str, length: int) -> None:
    save(tmp_path / "history.db", "long", user(f"It says {text * length}."), assistant("Yes."))
    with Store(tmp_path / "history.db") as store:
        assert found(store, f"*x{text * length}") == []
        assert found(store, f"*s {text * length}") == ["long"]
