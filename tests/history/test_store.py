from __future__ import annotations

import os
import re
import signal
import sqlite3
import stat
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from ask.errors import FileError
from ask.history.store import APPLICATION_ID, MIGRATIONS, SCHEMA_VERSION, HistoryLockedError, Store
from ask.messages import ProviderState
from tests.cli.chat.chat_session import Chat
from tests.history.broken import BROKEN, content
from tests.program import Ask, Home, run
from tests.saved_history import read_all_runs, read_conversations, save_run, write_tables

INSERT = "INSERT INTO conversations (id, title, created, updated) VALUES (?, 'title', 0, 0)"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ask" / "history.db"


def ids(path: Path) -> list[str]:
    return [conversation.id for conversation in read_conversations(path)]


@contextmanager
def locked(path: Path) -> Iterator[sqlite3.Connection]:
    """Another user of the file, in the middle of writing."""
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield other


# The file


def test_a_new_one_is_marked_as_ours_and_at_the_current_version(path: Path) -> None:
    Store(path).close()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
        assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


@pytest.mark.parametrize("state", ["empty", "write-ahead log set"])
def test_one_whose_making_was_broken_off_is_made_whole(path: Path, state: str) -> None:
    path.parent.mkdir()
    path.touch()
    if state != "empty":
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
    save_run(path)
    assert ids(path) == ["abc"]


@pytest.mark.parametrize("version", range(1, SCHEMA_VERSION))
def test_one_of_an_earlier_version_is_upgraded(path: Path, version: int) -> None:
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as connection:
        write_tables(connection, version)
        connection.execute(INSERT, ["old"])
        run_row = "INSERT INTO runs (conversation, started, version, provider, model, system, directory, terminal) "
        connection.execute(run_row + "VALUES (1, 0, '0', 'demo', 'demo', '', '', '')")
        is_renamed = version > 1 + MIGRATIONS.index("renamed_columns.sql")
        renamed = ("complete", "finish_reason") if is_renamed else ("whole", "finish")
        message_row = "INSERT INTO messages (run, time, role, content, tool_call_id, tool_name, {}, reasoning, {}) "
        connection.execute(message_row.format(*renamed) + "VALUES (1, 0, 'assistant', 'Hello.', '', '', 0, '', 'stop')")
        connection.commit()
    [run] = read_all_runs(path)
    [entry] = run.entries
    assert (entry.message.content, entry.model, entry.finish_reason) == ("Hello.", "", "stop")
    assert not entry.complete
    save_run(path)
    assert sorted(ids(path)) == ["abc", "old"]


def test_one_of_the_first_days_is_upgraded(path: Path, tmp_path: Path) -> None:
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as connection:
        write_tables(connection, 1)
        for table in ("runs", "messages"):
            connection.execute(f"ALTER TABLE {table} DROP COLUMN reasoning_tokens")
        connection.execute("ALTER TABLE messages RENAME COLUMN provider_state TO native")
        connection.execute(INSERT, ["old"])
        connection.execute(
            "INSERT INTO runs (conversation, started, version, provider, model, system, directory, terminal) "
            "VALUES (1, 0, '0', 'openrouter', 'm', '', '', '')"
        )
        connection.execute(
            "INSERT INTO messages (run, time, role, content, tool_call_id, tool_name, native, whole, reasoning, "
            """finish) VALUES (1, 0, 'assistant', '', '', '', '["openrouter", "m", {"a": 1}]', 1, '', 'stop')"""
        )
        connection.commit()
    [run] = read_all_runs(path)
    assert run.entries[0].message.provider_state == ProviderState("openrouter", "m", {"a": 1})
    new = tmp_path / "new.db"
    Store(new).close()
    assert read_column_names(path) == read_column_names(new)


@pytest.mark.parametrize(("journal_mode", "synchronous"), [("delete", 2), ("wal", 1)])
def test_a_power_failure_cannot_damage_one_without_a_log(path: Path, journal_mode: str, synchronous: int) -> None:
    Store(path).close()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute(f"PRAGMA journal_mode = {journal_mode}").fetchone() == (journal_mode,)
    with Store(path) as store:
        assert [tuple(row) for row in store.fetch_rows("PRAGMA synchronous")] == [(synchronous,)]


def read_column_names(path: Path) -> dict[str, set[str]]:
    with closing(sqlite3.connect(path)) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        query = "SELECT name FROM pragma_table_info(?)"
        return {table: {name for (name,) in connection.execute(query, [table])} for table in tables}


def test_a_new_one_has_the_tables_of_an_upgraded_one(path: Path, tmp_path: Path) -> None:
    upgraded = tmp_path / "upgraded.db"
    with closing(sqlite3.connect(upgraded)) as connection:
        write_tables(connection, 1)
    Store(upgraded).close()
    Store(path).close()
    assert read_tables(path) == read_tables(upgraded)


def read_tables(path: Path) -> dict[str, str]:
    """Return the definitions of all tables, indexes and views, without spaces and the quotes of renamed columns."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT name, sql FROM sqlite_master").fetchall()
    return {name: re.sub(r'--.*|\s|"', "", sql or "") for name, sql in rows}


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o777])
def test_only_the_owner_can_read_it_whatever_the_umask(path: Path, umask: int) -> None:
    path.parent.mkdir()
    before = os.umask(umask)
    try:
        with Store(path) as store, store.write_transaction() as connection:
            connection.execute(INSERT, ["abc"])
            made = sorted(path.parent.iterdir())
            modes = {stat.S_IMODE(one.stat().st_mode) for one in made}
    finally:
        os.umask(before)
    assert [one.name for one in made] == ["history.db", "history.db-shm", "history.db-wal"]
    assert modes == {0o600}


def test_its_folder_is_the_owners_alone(path: Path) -> None:
    Store(path).close()
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_nothing_lies_beside_it_once_all_have_closed_it(path: Path) -> None:
    with Store(path) as one, Store(path) as other, one.write_transaction() as connection:
        connection.execute(INSERT, ["abc"])
        assert other.fetch_rows("SELECT * FROM conversations") == []
    assert os.listdir(path.parent) == ["history.db"]


def test_a_link_to_a_file_that_is_not_there_yet_is_followed(path: Path, tmp_path: Path) -> None:
    path.parent.mkdir()
    path.symlink_to(tmp_path / "elsewhere.db")
    save_run(path)
    assert path.is_symlink()
    assert stat.S_IMODE((tmp_path / "elsewhere.db").stat().st_mode) == 0o600
    assert ids(path) == ["abc"]


def test_one_that_is_missing_can_be_read_as_empty_and_is_not_made(path: Path) -> None:
    with Store(path, create=False) as store:
        assert store.fetch_rows("SELECT * FROM conversations") == []
    assert not path.parent.exists()


@pytest.mark.slow
def test_processes_that_make_it_at_once_all_find_it_made(path: Path) -> None:
    script = f"""
for i in 1 2 3 4; do
    {sys.executable} -c 'import sys; from pathlib import Path; from tests.saved_history import save_run
save_run(Path(sys.argv[1]), sys.argv[2])' {path} $i &
done
wait
"""
    result = run(["bash", "-c", script], cwd=Path(__file__).parents[2])
    assert result.stderr == ""
    assert sorted(ids(path)) == list("1234")


@pytest.mark.parametrize("name", BROKEN)
def test_one_that_cannot_be_used_is_left_as_it_is(path: Path, name: str) -> None:
    path.parent.mkdir()
    BROKEN[name].make(path)
    before = content(path.parent)
    with pytest.raises(FileError, match=re.escape(BROKEN[name].words)):
        insert(path)
    assert content(path.parent) == before


def insert(path: Path) -> None:
    with Store(path) as store, store.write_transaction() as connection:
        connection.execute(INSERT, ["new"])


# Transactions


def test_all_of_a_block_is_written_or_nothing(path: Path) -> None:
    with Store(path) as store:
        with store.write_transaction() as connection:
            connection.execute(INSERT, ["one"])
        with pytest.raises(ZeroDivisionError), store.write_transaction() as connection:
            connection.execute(INSERT, ["two"])
            raise ZeroDivisionError
        with pytest.raises(FileError, match=r"UNIQUE"), store.write_transaction() as connection:
            connection.execute(INSERT, ["three"])
            connection.execute(INSERT, ["one"])
        with store.write_transaction() as connection:
            connection.execute(INSERT, ["four"])
    assert ids(path) == ["one", "four"]


def test_a_signal_in_the_middle_waits_for_the_end(path: Path) -> None:
    with Store(path) as store:
        with pytest.raises(KeyboardInterrupt), store.write_transaction() as connection:
            signal.raise_signal(signal.SIGINT)
            connection.execute(INSERT, ["one"])
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()
    assert ids(path) == ["one"]


def write_large_history_of_the_first_version(path: Path, messages: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        write_tables(connection, 1)
        connection.execute("INSERT INTO conversations VALUES (1, 'old', 'title', 0, 0)")
        run_row = "INSERT INTO runs (conversation, started, version, provider, model, system, directory, terminal) "
        connection.execute(run_row + "VALUES (1, 0, '0', 'demo', 'demo', '', '', '')")
        message_row = (
            "INSERT INTO messages (run, time, role, content, tool_call_id, tool_name, whole, reasoning, finish) "
        )
        values = "VALUES (1, 0, 'user', ?, '', '', 1, '', '')"
        connection.executemany(message_row + values, [("数据库 " * 99,)] * messages)
        connection.commit()


def test_ctrl_c_ends_a_migration_which_starts_over(path: Path) -> None:
    write_large_history_of_the_first_version(path, 3_000)
    timer = threading.Timer(0.02, os.kill, [os.getpid(), signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        Store(path)
    timer.join()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()
    assert ids(path) == ["old"]


@pytest.mark.slow
def test_a_long_migration_is_announced_on_a_terminal(ask: Ask, home: Home) -> None:
    write_large_history_of_the_first_version(home.data / "history.db", 60_000)
    with ask.start_on_terminal("history", "list") as running:
        assert "history.db" in running.finish().text


@pytest.mark.slow
def test_a_chat_says_once_that_it_waits_for_another_process(ask: Ask, home: Home) -> None:
    path = home.data / "history.db"
    path.parent.mkdir(parents=True, exist_ok=True)
    Store(path).close()
    with locked(path), Chat(ask, "-p", "demo", "--no-tools") as chat:
        shown = [chat.send("hello"), chat.send("hello")]
    assert [text.count("waiting for another process") for text in shown] == [1, 0], shown


@pytest.mark.slow
@pytest.mark.parametrize(("options", "count"), [((), 1), (("-q",), 0)])
def test_only_a_run_that_is_not_quiet_says_that_it_waits(
    ask: Ask, home: Home, *, options: tuple[str, ...], count: int
) -> None:
    path = home.data / "history.db"
    path.parent.mkdir(parents=True, exist_ok=True)
    Store(path).close()
    with locked(path):
        shown = ask.on_terminal(*options, "-p", "demo", "--no-tools", "hello").text
    assert shown.count("waiting for another process") == count


def test_one_that_another_keeps_locked_is_waited_for_and_then_given_up(path: Path) -> None:
    Store(path).close()
    with locked(path), Store(path, lock_timeout=0.05) as store:
        with pytest.raises(HistoryLockedError, match=r"history\.db .*0\.05 s"), store.write_transaction():
            raise AssertionError
        assert store.fetch_rows("SELECT * FROM conversations") == []


def test_one_that_is_let_go_meanwhile_is_written(path: Path) -> None:
    Store(path).close()
    with locked(path) as other, Store(path) as store:
        timer = threading.Timer(0.05, other.execute, ["ROLLBACK"])
        timer.start()
        with store.write_transaction() as connection:
            connection.execute(INSERT, ["one"])
        timer.join()
    assert ids(path) == ["one"]


def test_ctrl_c_ends_the_waiting(path: Path) -> None:
    Store(path).close()
    with locked(path), Store(path) as store:
        timer = threading.Timer(0.05, os.kill, [os.getpid(), signal.SIGINT])
        timer.start()
        with pytest.raises(KeyboardInterrupt), store.write_transaction():
            raise AssertionError
        timer.join()
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()
