"""SQLite tables and queries as input, and tables as output."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.errors import AskError, FileError, UsageError
from ask.map.input_rows import Row, estimate_row_count, read_rows, select_inputs
from ask.map.output import ColumnNames
from ask.map.sqlite_output import SqliteWriter
from ask.map.sqlite_table import SqliteTable, suggest_unlocking

NAMES = ["a b", "B", "answer"]


def read(name: str) -> list[Row]:
    return list(read_rows(select_inputs([name], None, rows_are_files=False)))


def read_columns(name: str) -> list[dict[str, Any]]:
    return [dict(row.columns) for row in read(name)]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "d.db", isolation_level=None)) as connection:
        connection.execute('CREATE TABLE "my ""t?"(id INTEGER PRIMARY KEY, "a b" TEXT, data BLOB)')
        rows = [(1, "one", b"\xff\0"), (2, None, None), (3, "three", 1.5)]
        connection.executemany('INSERT INTO "my ""t?" VALUES (?, ?, ?)', rows)
        yield connection


def test_a_locked_database_has_a_hint(tmp_path: Path, database: sqlite3.Connection) -> None:
    database.execute("BEGIN EXCLUSIVE")
    with closing(sqlite3.connect(tmp_path / "d.db", timeout=0)) as other:
        with pytest.raises(sqlite3.OperationalError) as locked:
            other.execute("SELECT * FROM sqlite_schema")
        assert suggest_unlocking(locked.value)
        with pytest.raises(sqlite3.OperationalError) as invalid:
            other.execute("SELEC")
        assert not suggest_unlocking(invalid.value)


def test_rows_of_tables_and_queries(tmp_path: Path, database: sqlite3.Connection) -> None:
    rows = [
        {"id": 1, "a b": "one", "data": "/wA="},
        {"id": 2, "a b": None, "data": None},
        {"id": 3, "a b": "three", "data": 1.5},
    ]
    name = f"sqlite:{tmp_path}/d.db"
    assert read_columns(name) == rows, "the only table"
    assert read_columns(f'{name}?table=my "t?') == rows
    query = """SELECT id * 2 AS n, '50%20&x=1' AS t FROM "my ""t?" WHERE "a b" LIKE '%e' ORDER BY id DESC; """
    assert read_columns(f"{name}?query={query}") == [{"n": 6, "t": "50%20&x=1"}, {"n": 2, "t": "50%20&x=1"}]
    assert read_columns(f"{name}?query=VALUES (1)") == [{"column1": 1}]
    database.execute("CREATE VIEW v AS SELECT 1 AS x")
    assert read_columns(f"{name}?table=v") == [{"x": 1}]
    inputs = select_inputs([f'{name}?table=my "t?'], None, rows_are_files=True)
    assert estimate_row_count(inputs) == 3
    assert [row.location for row in read(f"{name}?table=v")] == [f"{name}?table=v:1"]


def test_the_home_folder_can_be_abbreviated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert SqliteTable.parse("sqlite:~/d.db?table=t") == SqliteTable(tmp_path / "d.db", "t")


def test_a_view_of_a_missing_table_is_not_suggested_in_its_place(tmp_path: Path, database: sqlite3.Connection) -> None:
    database.execute("CREATE VIEW Report AS SELECT * FROM lost")
    with pytest.raises(UsageError, match="lost") as caught:
        read(f"sqlite:{tmp_path}/d.db?table=report")
    assert "correct the view" in caught.value.hint


def test_names_of_files_are_escaped_as_in_uris(tmp_path: Path) -> None:
    file = tmp_path / "a b?c%20.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE t(x)")
        connection.execute("INSERT INTO t VALUES (1)")
        connection.commit()
    table = SqliteTable(file, "t")
    assert SqliteTable.parse(str(table)) == table
    assert read_columns(f"sqlite:{tmp_path}/a b%3Fc%2520.db?table=t") == read_columns(str(table)) == [{"x": 1}]


@given(st.text(min_size=1), st.text(min_size=1).filter(str.strip))
def test_every_name_can_be_written_and_parsed(file: str, name: str) -> None:
    table = SqliteTable(Path(file), name)
    assert SqliteTable.parse(str(table)) == table


def test_a_database_can_be_written_while_it_is_read(tmp_path: Path, database: sqlite3.Connection) -> None:
    database.execute("PRAGMA busy_timeout = 0")
    for mode in ("DELETE", "WAL"):
        database.execute(f"PRAGMA journal_mode = {mode}")
        rows = iter(read_rows(select_inputs([f'sqlite:{tmp_path}/d.db?table=my "t?'], None, rows_are_files=False)))
        first = next(rows)
        database.execute("""UPDATE "my ""t?" SET "a b" = 'changed'""")
        assert [row.columns["a b"] for row in (first, *rows)] == (
            ["one", None, "three"] if mode == "DELETE" else ["changed"] * 3
        )


@pytest.mark.parametrize(
    ("parameter", "error"),
    [
        ("?table=tt", UsageError),
        ("?tabel=t", UsageError),
        ("?table=", UsageError),
        ("", UsageError),
        ("?query=selec 1", UsageError),
        ("?query=SELECT 1; DROP TABLE t", UsageError),
        ("?query=DELETE FROM t", UsageError),
        ("?query=SELECT x FROM t, t AS u", UsageError),
    ],
)
def test_what_cannot_be_read(tmp_path: Path, parameter: str, error: type[AskError]) -> None:
    with closing(sqlite3.connect(tmp_path / "d.db")) as connection:
        connection.executescript("CREATE TABLE t(x); CREATE TABLE u(x)")
    with pytest.raises(error):
        read(f"sqlite:{tmp_path}/d.db{parameter}")


@pytest.mark.slow
def test_reading_an_endless_view_can_be_interrupted(tmp_path: Path, database: sqlite3.Connection) -> None:
    numbers = "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers) SELECT n FROM numbers"
    database.execute(f"CREATE VIEW endless AS {numbers}")
    name = f"sqlite:{tmp_path}/d.db?table=endless"
    for read_endlessly in (lambda: read(name), SqliteTable(tmp_path / "d.db", "endless").count_rows):
        Timer(0.3, os.kill, [os.getpid(), signal.SIGINT]).start()
        with pytest.raises(KeyboardInterrupt):
            read_endlessly()


@pytest.mark.slow
def test_waiting_for_a_lock_can_be_interrupted(tmp_path: Path, database: sqlite3.Connection) -> None:
    database.execute("CREATE TABLE t(x)")
    database.commit()
    database.execute("PRAGMA locking_mode = exclusive")
    database.execute("BEGIN EXCLUSIVE")
    start = time.monotonic()
    Timer(1.5, os.kill, [os.getpid(), signal.SIGINT]).start()
    with pytest.raises(KeyboardInterrupt):
        read(f"sqlite:{tmp_path}/d.db?table=t")
    assert time.monotonic() - start < 10


def test_a_file_that_is_no_database_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "d.db").write_text("id,text\n" * 1000)
    with pytest.raises(FileError, match="not a database"):
        read(f"sqlite:{tmp_path}/d.db")


def test_text_that_is_not_utf8_costs_only_its_row(tmp_path: Path, database: sqlite3.Connection) -> None:
    database.execute("""UPDATE "my ""t?" SET "a b" = CAST(x'ff' AS TEXT) WHERE id = 2""")
    rows = read(f"sqlite:{tmp_path}/d.db")
    assert [(row.columns["id"], "a b" in row.columns, row.error) for row in rows] == [
        (1, True, ""),
        (2, False, "not UTF-8"),
        (3, True, ""),
    ]


# Output


def open_writer(file: Path, columns: list[str] = NAMES, first_row: dict[str, Any] | None = None) -> SqliteWriter:
    names = ColumnNames(columns, None, is_table=True, ignores_case=True)
    return SqliteWriter(SqliteTable(file, "t"), names, first_row or {})


def select(file: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute(query).fetchall()


def test_columns_are_typed_and_values_keep_their_types(tmp_path: Path) -> None:
    file = tmp_path / "out.db"
    writer = open_writer(file, ["i", "r", "t", "x", "Model"], {"i": 1, "r": 0.5, "t": "a", "x": None})
    row = {"i": 2**70, "r": 1, "t": "\ud800", "x": {"k": [True]}, "Model": False, "model_2": "m", "cost": 0.5}
    writer.write([row])
    writer.publish()
    writer.close()
    (stored,) = select(file, "SELECT i, r, t, x, Model, model_2, cost, answer FROM t")
    assert stored == (str(2**70), 1.0, "\\ud800", '{"k": [true]}', 0, "m", 0.5, None)
    types = dict(select(file, "SELECT name, type FROM pragma_table_info('t')"))
    assert (types["i"], types["r"], types["t"], types["x"]) == ("", "REAL", "TEXT", "")
    assert (types["answer"], types["input_tokens"], types["cost"]) == ("TEXT", "INTEGER", "REAL")


def test_a_column_of_numbers_does_not_change_later_values(tmp_path: Path) -> None:
    file = tmp_path / "out.db"
    rows: list[dict[str, Any]] = [{"i": 1, "r": 0.5}, {"i": 2.0, "r": 3}, {"i": "a", "r": None}, {"i": 4, "r": 2**53}]
    changed: list[dict[str, Any]] = [{"i": "01067", "r": 2**53 + 1}, {"i": 5, "r": 0.25}, {"i": " 6 ", "r": "1e5"}]
    for published_before in (0, 2, 4, 5, 7):
        writer = open_writer(file, ["i", "r"], rows[0])
        for number, row in enumerate([*rows, *changed]):
            if number == published_before:
                writer.publish()
            writer.write([row])
        writer.publish()
        writer.close()
        stored = [dict(zip(("i", "r"), row, strict=True)) for row in select(file, "SELECT i, r FROM t")]
        assert stored == [*rows, *changed], published_before
    assert select(file, "SELECT type FROM pragma_table_info('t') WHERE name IN ('i', 'r', 'cost')") == [
        ("",), ("",), ("REAL",)
    ]  # fmt: skip


def test_only_a_published_table_replaces_the_previous_one(tmp_path: Path) -> None:
    file = tmp_path / "out.db"
    for published, count in ((True, 3), (False, 2), (True, 1)):
        writer = open_writer(file)
        writer.write([{"a b": number} for number in range(count)])
        if published:
            writer.publish()
            writer.write([{"a b": "later"}])
            writer.publish()
        writer.close()
        assert len(select(file, "SELECT * FROM t")) == (count + 1 if published else 4)


def test_other_tables_and_indexes_stay(tmp_path: Path) -> None:
    file = tmp_path / "out.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript("CREATE TABLE other(x); INSERT INTO other VALUES (7)")
    for columns, index_count in ((NAMES, 0), (NAMES, 1), (["new"], 0)):
        writer = open_writer(file, columns)
        writer.write([{columns[0]: 1}])
        writer.publish()
        writer.close()
        assert select(file, "SELECT count(*) FROM sqlite_schema WHERE name = 'i'") == [(index_count,)]
        if columns is NAMES:
            with closing(sqlite3.connect(file)) as connection:
                connection.execute('CREATE INDEX IF NOT EXISTS i ON t("a b")')
    assert (select(file, "SELECT x FROM other"), select(file, "SELECT new FROM t")) == ([(7,)], [(1,)])


def test_other_programs_can_read_the_rows_so_far(tmp_path: Path) -> None:
    writer = open_writer(tmp_path / "out.db")
    writer.publish()
    writer.write([{"a b": 1}] * 1000)
    assert select(tmp_path / "out.db", "SELECT count(*) FROM t") == [(1000,)]
    writer.close()


@pytest.mark.parametrize(
    "name", ["sqlite:d.db", "sqlite:d.db?query=SELECT 1", "sqlite:d.db?table=sqlite_x", "sqlite:d.db?table=v"]
)
def test_what_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    with closing(sqlite3.connect("d.db")) as connection:
        connection.execute("CREATE VIEW v AS SELECT 1")
    table = SqliteTable.parse(name)
    assert table
    with pytest.raises(UsageError):
        table.check_output()


@pytest.mark.parametrize("columns", [["a", "A"], ["\ud800"], ["\0"]])
def test_columns_that_sqlite_cannot_have_are_an_error(tmp_path: Path, columns: list[str]) -> None:
    with pytest.raises(UsageError, match="these columns"):
        open_writer(tmp_path / "out.db", columns)


@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
def test_a_writer_waits_for_another_one(tmp_path: Path, mode: str) -> None:
    file = tmp_path / "out.db"
    with closing(sqlite3.connect(file, isolation_level=None, check_same_thread=False)) as other:
        other.execute(f"PRAGMA journal_mode = {mode}")
        other.execute("CREATE TABLE other(x)")
        writer = open_writer(file)
        other.execute("BEGIN IMMEDIATE")
        other.execute("INSERT INTO other VALUES (1)")
        writer.write([{"a b": 1}])  # to the temporary table
        timer = Timer(0.2, other.execute, ["COMMIT"])
        timer.start()
        writer.publish()
        timer.join()
        writer.close()
    assert (select(file, 'SELECT "a b" FROM t'), select(file, "SELECT x FROM other")) == ([(1,)], [(1,)])
