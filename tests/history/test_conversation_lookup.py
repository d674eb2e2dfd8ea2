from __future__ import annotations

import time
from pathlib import Path

import pytest

from ask.errors import UsageError
from ask.history.conversation_lookup import MAX_CANDIDATES, find_conversation, find_current_conversation
from ask.history.store import Store
from tests.saved_history import save_run


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.db"


def newest_here(path: Path, terminal: str, directory: str) -> str:
    with Store(path, create=False) as store:
        conversation = find_current_conversation(store, terminal=terminal, directory=directory)
        return conversation.id if conversation else ""


def found(path: Path, wanted: str) -> str:
    with Store(path, create=False) as store:
        return find_conversation(store, wanted).id


def test_a_terminal_goes_on_with_its_own(path: Path) -> None:
    save_run(path, "a1", terminal="session:1", directory="/one")
    save_run(path, "b2", terminal="session:2", directory="/one")
    save_run(path, "c3", directory="/one")
    assert newest_here(path, "session:1", "/two") == "a1"
    assert newest_here(path, "session:2", "/one") == "b2"
    save_run(path, "b2", terminal="session:1", directory="/two")
    assert newest_here(path, "session:1", "/one") == "b2"


def test_a_terminal_without_any_does_not_take_that_of_its_folder(path: Path) -> None:
    save_run(path, "a1", terminal="session:1", directory="/one")
    assert newest_here(path, "session:2", "/one") == ""


def test_without_a_terminal_it_is_the_newest_in_the_folder(path: Path) -> None:
    save_run(path, "a1", terminal="session:1", directory="/one")
    save_run(path, "b2", directory="/two")
    assert newest_here(path, "", "/one") == "a1"
    assert newest_here(path, "", "/two") == "b2"
    assert newest_here(path, "", "/") == ""


def test_one_is_found_by_its_id_its_beginning_and_its_place_in_the_list(path: Path) -> None:
    for name in ("abc1", "abc2", "abc", "def1"):
        save_run(path, name)
    assert [found(path, wanted) for wanted in ("abc1", "abc", "d", "def", "def1")] == [
        *("abc1", "abc", "def1", "def1", "def1")
    ]
    assert [found(path, wanted) for wanted in ("1", "2", "4", "01")] == ["def1", "abc", "abc1", "def1"]
    save_run(path, "abc1")
    assert found(path, "1") == "abc1"


def test_what_names_no_conversation_is_a_usage_error(path: Path) -> None:
    for name in ("abc1", "abc2", "abc", "def1"):
        save_run(path, name)
    for wanted in ("x", "0", "5", "-1", "", " ", "abc ", "%", "a%", "_bc1", "1" * 30, "\u00b2", "\u00e9", "'"):
        with pytest.raises(UsageError, match="ask history list"):
            found(path, wanted)


def test_the_beginning_of_several_names_them(path: Path) -> None:
    for name in ("abc1", "abc2"):
        save_run(path, name)
    with pytest.raises(UsageError, match=r"'ab' .*abc1.*abc2"):
        found(path, "ab")


def test_conversations_with_one_title_are_told_apart_by_their_age(path: Path) -> None:
    for count in range(MAX_CANDIDATES + 1):
        save_run(path, f"abc{count}", "fix the test")
    with Store(path) as store:
        with store.write_transaction() as database:
            database.execute("UPDATE conversations SET updated = ?", [time.time() - 190])
            database.execute("UPDATE conversations SET updated = ? WHERE id = 'abc0'", [time.time() - 90_000])
        with pytest.raises(UsageError, match=r"abc1 \(fix the test, 3 min\).*ask history list"):
            find_conversation(store, "the fix", by_title=True)
        with store.write_transaction() as database:
            database.execute("DELETE FROM conversations WHERE id IN ('abc1', 'abc2')")
        with pytest.raises(UsageError, match=r"abc0 \(fix the test, 1 d\)$"):
            find_conversation(store, "fix test", by_title=True)


def test_where_nothing_is_saved_there_is_none(path: Path) -> None:
    for wanted in ("1", "abc"):
        with pytest.raises(UsageError):
            found(path, wanted)
    assert not path.exists()
