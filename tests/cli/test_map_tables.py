"""`ask map` with Parquet, Arrow, Excel and SQLite."""

from __future__ import annotations

import gzip
import json
import random
import shlex
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pyarrow as pa
import pytest
from openpyxl import Workbook
from pyarrow import parquet

from ask.errors import MissingDependencyError
from tests.cli.test_map import COMMAND, SlowServer, echo, get_prompt, make_rows, parse, write_rows
from tests.missing_packages import make_command_without
from tests.model_server import ModelServer
from tests.program import Ask, Home, run

pytestmark = pytest.mark.usefixtures("quick_retries")

PARQUET, TABLE = "out.parquet", "sqlite:out.db?table=answers"


def read_parquet(folder: Path) -> list[dict[str, Any]]:
    file = folder / "out.parquet"
    return list(parquet.read_table(file).to_pylist()) if file.exists() else []


def read_database(folder: Path, query: str = "SELECT * FROM answers") -> list[dict[str, Any]]:
    with closing(sqlite3.connect(folder / "out.db")) as connection:
        connection.row_factory = sqlite3.Row
        try:
            return [dict(row) for row in connection.execute(query)]
        except sqlite3.OperationalError:  # no such table
            return []


def read_output(home: Home, output: str) -> list[dict[str, Any]]:
    return read_parquet(home.work) if output == PARQUET else read_database(home.work)


OUTPUTS = [PARQUET, TABLE]


def write_parquet(home: Home, rows: list[dict[str, Any]]) -> str:
    parquet.write_table(pa.Table.from_pylist(rows), home.work / "in.parquet")
    return "in.parquet"


def write_database(home: Home, rows: list[dict[str, Any]]) -> str:
    with closing(sqlite3.connect(home.work / "in.db", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE tickets(id INTEGER PRIMARY KEY, text TEXT)")
        connection.executemany("INSERT INTO tickets VALUES (:id, :text)", rows)
    return "sqlite:in.db?table=tickets"


def write_workbook(home: Home, rows: list[dict[str, Any]]) -> str:
    workbook = Workbook()
    sheet = workbook.create_sheet("Q1", 0)
    sheet.append(list(rows[0]))
    for row in rows:
        sheet.append(list(row.values()))
    workbook.save(home.work / "in.xlsx")
    return "in.xlsx"


@pytest.mark.parametrize("write", [write_parquet, write_database, write_workbook])
def test_a_compressed_file_is_to_be_decompressed_first(
    ask: Ask, home: Home, write: Callable[[Home, list[dict[str, Any]]], str]
) -> None:
    source = write(home, make_rows(1))
    name = source.removeprefix("sqlite:").partition("?")[0]
    (home.work / f"{name}.gz").write_bytes(gzip.compress((home.work / name).read_bytes()))
    result = ask(*COMMAND, source.replace(name, f"{name}.gz"))
    assert (result.code, f"decompress {name}.gz" in result.stderr) == (9, True), result.stderr


@pytest.mark.parametrize("column", ["Größe", "Name\u202fdes Kunden"])
def test_a_column_is_found_by_a_name_that_looks_the_same(
    ask: Ask, server: ModelServer, home: Home, column: str
) -> None:
    server.reply(echo)
    (home.work / "in.csv").write_text(f"{normalize('NFD', column)},x\nvalue,1\n")
    placeholder = normalize("NFC", column).replace("\u202f", " ")
    result = ask(*COMMAND[:-1], f"x {{{{{placeholder}}}}}", "in.csv")
    assert (result.code, get_prompt(server.requests[0])) == (0, "x value"), result.stderr
    result = ask(*COMMAND[:-1], "--score", normalize("NFD", column), f"{{{{{placeholder}|}}}}", "in.csv")
    assert not any("value" in get_prompt(request) for request in server.requests[1:])


@pytest.mark.parametrize("write", [write_parquet, write_database, write_workbook])
def test_all_formats_are_the_same_rows(
    ask: Ask, server: ModelServer, home: Home, write: Callable[[Home, list[dict[str, Any]]], str]
) -> None:
    server.reply(echo)
    rows = make_rows(3)
    result = ask(*COMMAND, write(home, rows))
    assert (result.code, [row["id"] for row in parse(result)]) == (0, [0, 1, 2])
    again = ask(*COMMAND, write_rows(home.work, *rows))
    assert (again.text, len(server.requests)) == (result.text, 3), "the same text is the same row in any format"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["out.jsonl", "out.parquet"])
@pytest.mark.needs("bwrap")
def test_an_output_that_is_a_mount_point_is_overwritten(ask: Ask, server: ModelServer, home: Home, name: str) -> None:
    server.reply(echo)
    source = write_rows(home.work, *make_rows(40))
    mounted = home.path / name
    for _ in range(2):
        mounted.touch()
        (home.work / name).touch()
        command = shlex.join(["ask", *COMMAND, source, "-O", name, "-j", "1", "--fresh"])
        result = ask.shell(f"bwrap --dev-bind / / --bind {mounted} {home.work / name} -- {command}")
        assert result.code == 0, result.stderr
        rows = parquet.read_table(mounted).to_pylist() if name == PARQUET else map(json.loads, mounted.open())
        assert [row["answer"] for row in rows] == [f"SAY WORD {number}" for number in range(40)]
    assert not [path.name for path in home.work.iterdir() if path.name.endswith(".tmp")]


@pytest.mark.parametrize("seconds", [0, 2])
def test_waiting_for_a_locked_database_is_reported_once(
    ask: Ask, server: ModelServer, home: Home, seconds: float
) -> None:
    server.reply(echo)
    source = write_database(home, make_rows(1))
    with closing(sqlite3.connect(home.work / "in.db", isolation_level=None, check_same_thread=False)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        timer = threading.Timer(seconds, connection.execute, ["COMMIT"])
        timer.start()
        result = ask(*COMMAND, source, timeout=60)
        timer.join()
    assert (result.code, result.stderr.count("in.db is locked")) == (0, int(seconds > 0)), result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("lock", ["IMMEDIATE", "EXCLUSIVE"])
def test_waiting_for_a_locked_output_is_reported_once(ask: Ask, server: ModelServer, home: Home, lock: str) -> None:
    server.reply(echo)
    write_database(home, make_rows(1))
    (home.work / "in.csv").write_text("text\na\n")
    with closing(sqlite3.connect(home.work / "in.db", isolation_level=None, check_same_thread=False)) as connection:
        connection.execute(f"BEGIN {lock}")
        timer = threading.Timer(4, connection.execute, ["COMMIT"])
        timer.start()
        result = ask(*COMMAND, "in.csv", "-O", "sqlite:in.db?table=out", timeout=60)
        timer.join()
        [count] = connection.execute("SELECT count(*) FROM out").fetchone()
    assert (result.code, result.stderr.count("in.db is locked"), count) == (0, 1, 1), result.stderr


@pytest.mark.parametrize("output", OUTPUTS)
def test_the_same_command_continues(ask: Ask, server: ModelServer, home: Home, output: str) -> None:
    server.reply(echo)
    file = write_rows(home.work, *make_rows(5), {"id": "x", "text": "bad"})
    assert ask(*COMMAND, file, "-O", output).code == 12
    first = read_output(home, output)
    assert [row["answer"] for row in first] == [*(f"SAY WORD {number}" for number in range(5)), None]
    assert (first[0]["input_tokens"], first[0]["cost"], bool(first[-1]["error"])) == (10, 0.25, True)
    write_rows(home.work, {"id": 7, "text": "new"}, *make_rows(5))
    assert ask(*COMMAND, file, "-O", output).code == 0
    assert len(server.requests) == 7
    assert [row["answer"] for row in read_output(home, output)] == ["SAY NEW", *(row["answer"] for row in first[:-1])]


@pytest.mark.slow_after_first
@pytest.mark.parametrize("output", OUTPUTS)
def test_an_interrupted_job_has_the_rows_so_far(ask: Ask, server: ModelServer, home: Home, output: str) -> None:
    service = SlowServer(server, 0.1)
    command = (*COMMAND, write_rows(home.work, *make_rows(60)), "-O", output, "-j", "4")
    with ask.start(*command) as running:
        server.wait_for_requests(6)
        running.process.send_signal(signal.SIGINT)
        assert running.finish(30).code == 130
    assert 0 < len(read_output(home, output)) == service.count < 60
    assert ask(*command, "--max-cost", "5").code == 11
    assert service.count <= len(read_output(home, output)) < 60
    assert ask(*command, "-j", "64").code == 0
    assert ([row["id"] for row in read_output(home, output)], service.count) == (list(range(60)), 60)


@pytest.mark.slow
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("kills", [2, 40])
def test_kills_lose_no_row(ask: Ask, server: ModelServer, home: Home, output: str, kills: int) -> None:
    service = SlowServer(server, 0.02)
    count = 200 if kills < 10 else 2000
    command = (*COMMAND, write_rows(home.work, *make_rows(count)), "-O", output, "-j", "10")
    generator = random.Random(7)
    signals = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
    for number in range(kills):
        with ask.start(*command) as running:
            time.sleep(generator.uniform(0.1, 0.9))
            running.process.send_signal(signals[number % 4])
            running.process.wait(10)
        found = [row["id"] for row in read_output(home, output)]
        assert found == list(range(len(found)))
    assert ask.process(*command, timeout=120).code == 0
    assert [row["id"] for row in read_output(home, output)] == list(range(count))
    assert service.count <= count + kills * 10
    assert {file.suffix for file in home.work.iterdir()} == {".jsonl", ".db" if output == TABLE else ".parquet"}


@pytest.mark.slow
def test_a_table_of_an_input_database_can_be_the_output(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(echo)
    source = write_database(home, make_rows(100))
    (home.work / "in.db").rename(home.work / "out.db")
    source = source.replace("in.db", "out.db")
    assert ask(*COMMAND, source, "-O", TABLE, "-j", "64").code == 0
    assert [row["id"] for row in read_database(home.work)] == list(range(100))
    assert len(read_database(home.work, "SELECT * FROM tickets")) == 100
    for name in ("sqlite:out.db?table=Tickets", "sqlite:./out.db?table=tickets"):
        result = ask(*COMMAND, source, "-O", name)
        assert (result.code, "is an input" in result.stderr) == (2, True)


def test_a_database_is_found_by_a_name_that_looks_the_same(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(echo)
    source = write_database(home, make_rows(1))
    (home.work / "in.db").rename(home.work / "e\u0301t\u00e9.db")
    assert ask(*COMMAND, source.replace("in.db", "\u00e9t\u00e9.db")).code == 0


def test_only_tables_of_jobs_are_replaced(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(echo)
    with closing(sqlite3.connect(home.work / "out.db")) as connection:
        connection.execute("CREATE TABLE customers(name)")
    file = write_rows(home.work, *make_rows(2))
    for options in ((), ("--fresh",)):
        result = ask(*COMMAND, file, "-O", "sqlite:out.db?table=customers", *options)
        assert (result.code, "not from ask map" in result.stderr) == (2, True)
    assert ask(*COMMAND, file, "-O", TABLE).code == 0
    other = ("map", "-p", "openrouter", "-m", "m", "Shout {{text}}", file, "-O", TABLE)
    assert ask(*other).code == 2
    assert ask(*other, "--fresh").code == 0
    assert [row["answer"] for row in read_database(home.work)] == ["SHOUT WORD 0", "SHOUT WORD 1"]
    assert read_database(home.work, "SELECT name FROM sqlite_schema") == [{"name": "customers"}, {"name": "answers"}]


def test_integers_of_more_than_63_bits_are_exact_in_sqlite(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(echo)
    numbers = pa.array([1, (1 << 64) - 1], pa.uint64())
    parquet.write_table(pa.table({"text": ["a", "b"], "hash": numbers}), home.work / "in.parquet")
    assert ask(*COMMAND, "in.parquet", "-O", TABLE).code == 0
    assert [row["hash"] for row in read_database(home.work)] == [1, "18446744073709551615"]
    file = write_rows(home.work, {"text": "a", "n": 10**30}, {"text": "b", "n": 7})
    assert ask(*COMMAND, file, "-O", "sqlite:out.db?table=more").code == 0
    assert [row["n"] for row in read_database(home.work, "SELECT n FROM more")] == [str(10**30), 7]


def test_result_columns_have_names_that_sqlite_distinguishes(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(echo)
    file = write_rows(home.work, {"text": "a", "Answer": "b", "MODEL": "c"})
    assert ask(*COMMAND, file, "-O", TABLE).code == 0
    [row] = read_database(home.work)
    assert (row["Answer"], row["answer_2"], row["MODEL"], row["model_2"]) == ("b", "SAY A", "c", "vendor/model")


def test_a_file_that_is_no_database_is_not_replaced(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(echo)
    (home.work / "out.db").write_text("this is no database, and long enough to be read as one" * 100)
    result = ask(*COMMAND, write_rows(home.work, *make_rows(2)), "-O", TABLE)
    assert (result.code, len(server.requests)) == (9, 0)


def test_arrow_is_read_from_stdin(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(echo)
    table = pa.Table.from_pylist(make_rows(3))
    for new in (pa.ipc.new_stream, pa.ipc.new_file):
        sink = pa.BufferOutputStream()
        with new(sink, table.schema) as writer:
            writer.write_table(table)
        result = ask(*COMMAND, "--input-format", "arrow", stdin=sink.getvalue().to_pybytes())
        assert (result.code, [row["id"] for row in parse(result)]) == (0, [0, 1, 2])
    assert len(server.requests) == 3
    assert ask(*COMMAND, "--input-format", "parquet", stdin=b"PAR1").code == 2


def test_types_survive_a_job(ask: Ask, server: ModelServer, home: Home) -> None:
    schema = pa.schema([("id", pa.int16()), ("text", pa.string()), ("at", pa.timestamp("us", "Europe/Berlin"))])
    table = pa.table([[1, 2], ["a", "b"], [0, None]], schema=schema)
    parquet.write_table(table, home.work / "in.parquet")
    server.reply(echo)
    result = ask("map", "-p", "openrouter", "-m", "m", "{{text}} {{at}}", "in.parquet", "-O", PARQUET)
    assert result.code == 0
    assert {get_prompt(request) for request in server.requests} == {"a 1970-01-01T00:00:00Z", "b "}
    assert parquet.read_table(home.work / PARQUET).select(["id", "text", "at"]).equals(table)


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    ("package", "extra", "arguments"),
    [
        ("pyarrow", "[tables]", ("in.jsonl", "-O", PARQUET)),
        ("pyarrow", "[tables]", ("in.parquet",)),
        ("openpyxl", "[files]", ("in.xlsx",)),
    ],
)
def test_a_missing_package_is_named(ask: Ask, home: Home, package: str, extra: str, arguments: tuple[str, ...]) -> None:
    write_rows(home.work, {"text": "a"})
    write_parquet(home, make_rows(1))
    write_workbook(home, make_rows(1))
    result = run([*make_command_without(package, home), *COMMAND, *arguments], env=ask.env, cwd=home.work)
    assert result.code == MissingDependencyError.exit_code, result.stderr
    assert f"package {package}" in result.stderr and extra in result.stderr


def test_a_dry_run_writes_nothing(ask: Ask, home: Home) -> None:
    source = write_database(home, make_rows(3))
    result = ask(*COMMAND, source, "-O", "sqlite:new.db?table=t", "--dry-run")
    assert (result.code, "3 rows" in result.stderr) == (0, True)
    assert sorted(file.name for file in home.work.iterdir()) == ["in.db"]
    assert json.loads(ask("map", "--list", "--json").text) == []


@pytest.mark.slow
def test_other_formats_load_no_packages_for_tables(home: Home) -> None:
    script = "import sys, ask.cli.map, ask.map.output_target; assert not {'pyarrow', 'openpyxl'} & {*sys.modules}"
    assert run([sys.executable, "-c", script], cwd=home.work).code == 0
