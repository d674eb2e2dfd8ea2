"""Parquet and Arrow files as input and output."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import feather, parquet

from ask.errors import FileError, UsageError
from ask.map.arrow_output import BATCH_ROWS, GROUP_ROWS, ArrowWriter
from ask.map.input_rows import Row, estimate_row_count, read_rows, select_inputs
from ask.map.ledger import RowResult
from ask.map.output import ColumnNames
from tests.map.test_arrow_types import FLOATS, INT64, columns
from tests.program import limit_file_size

SUFFIXES = [".parquet", ".arrow"]
TABLE = pa.table({"id": pa.array([1, 2], pa.int16()), "text": ["a", None]})


def read(*paths: Path | str) -> list[Row]:
    return list(read_rows(select_inputs([str(path) for path in paths], None, rows_are_files=False)))


def write_table(path: Path, table: Any) -> Path:
    if path.suffix == ".parquet":
        parquet.write_table(table, path)
    else:
        with pa.ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table)
    return path


def read_table(path: Path) -> Any:
    if path.suffix == ".parquet":
        return parquet.read_table(path)
    with pa.memory_map(str(path)) as source:
        return pa.ipc.open_file(source).read_all()


def write(path: Path, records: Sequence[dict[str, Any]], types: Any = None, *, parts: int = 1) -> Any:
    """Write records in several calls; return the table that is read."""
    writer = ArrowWriter(path, ColumnNames(list(records[0]), None, is_table=True), "job", types or {})
    size = -(-len(records) // parts)
    for start in range(0, len(records), size):
        writer.write(records[start : start + size])
        writer.publish()
    writer.close()
    return read_table(path)


@pytest.mark.slow_after_first
@pytest.mark.parametrize("suffix", SUFFIXES)
@given(st.lists(columns(), min_size=1, max_size=3))
def test_a_table_is_the_same_after_reading_and_writing(
    tmp_path_factory: pytest.TempPathFactory, suffix: str, arrays: list[Any]
) -> None:
    folder = tmp_path_factory.mktemp("tables")
    size = min(map(len, arrays))
    table = pa.table({f"c{index}": array.slice(0, size) for index, array in enumerate(arrays)})
    path = write_table(folder / f"in{suffix}", table)
    rows = read(path)
    assert [row.location for row in rows] == [f"{path}:{number}" for number in range(1, size + 1)]
    if rows:
        written = write(
            folder / f"out{suffix}", [json.loads(json.dumps(row.columns)) for row in rows], rows[0].column_types
        )
        source = read_table(path)  # Parquet has fewer types than Arrow
        assert written.select(source.column_names).cast(source.schema).equals(source)


VALUES = st.none() | st.booleans() | st.integers() | FLOATS | st.text() | st.lists(st.integers(), max_size=2)
COLUMN = st.lists(
    st.sampled_from([st.none(), st.booleans(), INT64, st.integers(), FLOATS, st.text(), VALUES]).flatmap(
        lambda values: st.lists(values, min_size=1, max_size=2)
    ),
    min_size=1,
    max_size=3,
)


@pytest.mark.slow_after_first
@pytest.mark.parametrize("suffix", SUFFIXES)
@given(COLUMN)
def test_values_of_any_type_can_follow_one_another(
    tmp_path_factory: pytest.TempPathFactory, suffix: str, parts: list[list[Any]]
) -> None:
    path = tmp_path_factory.mktemp("tables") / f"out{suffix}"
    writer = ArrowWriter(path, ColumnNames(["a"], None, is_table=True), "job", {})
    for part in parts:
        records = [{"a": value} for value in part]
        writer.write(records * BATCH_ROWS)  # a record batch of its own
        writer.publish()
    writer.close()
    found = read_table(path)["a"].to_pylist()
    expected = [value for part in parts for value in part * BATCH_ROWS]
    assert len(found) == len(expected)
    for value, original in {(json.dumps(a), json.dumps(b)) for a, b in zip(found, expected, strict=True)}:
        assert_same_value(json.loads(value), json.loads(original))


def assert_same_value(found: Any, original: Any) -> None:
    """Check that a value is unchanged, or is text with the same JSON value."""
    if isinstance(found, str) and not isinstance(original, str):
        assert json.loads(found) == original
        found = json.loads(found)
    elif isinstance(found, str):
        assert found == original.encode("utf-8", "backslashreplace").decode()
        return
    assert found == original
    assert isinstance(found, bool) == isinstance(original, bool)


@pytest.mark.slow_after_first
@pytest.mark.parametrize("suffix", SUFFIXES)
@given(columns())
def test_columns_keep_their_types_while_others_change(
    tmp_path_factory: pytest.TempPathFactory, suffix: str, array: Any
) -> None:
    folder = tmp_path_factory.mktemp("tables")
    path = write_table(folder / f"in{suffix}", pa.table({"a": array, "b": pa.array([1] * len(array), pa.int64())}))
    if rows := read(path):
        records = [dict(row.columns) for row in rows] * BATCH_ROWS
        last = {**records[-1], "b": "text"}
        written = write(folder / f"out{suffix}", [*records, last], rows[0].column_types)
        source = read_table(path)["a"]
        found = written["a"].cast(source.type)
        assert found.slice(0, len(array)).equals(source)
        assert found[-1].equals(source[-1])
        assert set(written["b"].to_pylist()) == {"1", "text"}


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    ("first", "later", "expected"),
    [
        (None, 1, pa.int64()),
        (1, 1.5, pa.float64()),
        (2**60 + 1, 1.5, pa.string()),
        (1, "n/a", pa.string()),
        (True, 1, pa.string()),
        (None, None, pa.string()),
        ("a", [1], pa.string()),
        ([1], "a", pa.string()),
    ],
)
def test_a_column_gets_a_type_for_all_its_values(
    tmp_path: Path, suffix: str, first: Any, later: Any, expected: Any
) -> None:
    records = [{"a": first, "b": "x"}] * (2 * BATCH_ROWS) + [{"a": later, "b": "y"}]
    table = write(tmp_path / f"out{suffix}", records)
    assert (table.schema.field("a").type, table.schema.field("b").type) == (expected, pa.string())
    assert table["b"].to_pylist() == [record["b"] for record in records]
    found = [table["a"][0].as_py(), table["a"][-1].as_py()]
    is_text = expected == pa.string()
    assert found == [
        json.dumps(value) if is_text and not isinstance(value, str | None) else value for value in (first, later)
    ]


@pytest.mark.slow
def test_rows_are_written_in_groups(tmp_path: Path) -> None:
    records = [{"a": number, "b": None} for number in range(GROUP_ROWS + 1)] + [{"a": "x", "b": 1}]
    table = write(tmp_path / "out.parquet", records, parts=100)
    assert table["a"].to_pylist() == [str(record["a"]) for record in records]
    assert table["b"].type == pa.int64()
    metadata = parquet.read_metadata(tmp_path / "out.parquet")
    assert (metadata.num_row_groups, metadata.row_group(0).num_rows) == (2, GROUP_ROWS)


def test_the_types_of_the_input_are_widened_if_another_input_needs_it(tmp_path: Path) -> None:
    first = write_table(tmp_path / "1.parquet", pa.table({"a": pa.array([1], pa.int8()), "b": pa.array([0.5])}))
    second = write_table(tmp_path / "2.parquet", pa.table({"a": pa.array([1000], pa.int64()), "b": ["x"]}))
    rows = read(first, second)
    table = write(tmp_path / "out.parquet", [dict(row.columns) for row in rows], rows[0].column_types, parts=2)
    assert table.select(["a", "b"]).to_pydict() == {"a": [1, 1000], "b": ["0.5", "x"]}


@pytest.mark.parametrize(
    ("data_type", "first", "second", "expected"),
    [
        (pa.float32(), 0.1, 3.141592653589793, [0.1, 3.141592653589793]),
        (pa.float32(), 0.5, 1e300, [0.5, 1e300]),
        (pa.float32(), 0.5, (1 << 24) + 1, [0.5, (1 << 24) + 1]),
        (pa.list_(pa.float32()), [0.5], [1e300], ["[0.5]", "[1e+300]"]),
        (pa.time32("s"), "01:00:00", "00:00:00.5", ["01:00:00", "00:00:00.5"]),
        (pa.time64("us"), "01:00:00", "00:00:00.000000001", ["01:00:00", "00:00:00.000000001"]),
    ],
)
def test_a_value_that_the_type_of_the_input_would_round_gets_a_wider_type(
    tmp_path: Path, data_type: Any, first: Any, second: Any, expected: list[Any]
) -> None:
    table = write(tmp_path / "a.parquet", [{"x": first}, {"x": second}], {"x": data_type}, parts=2)
    assert table["x"].to_pylist() == expected


def test_results_are_typed(tmp_path: Path) -> None:
    schema = {
        "type": "object",
        "properties": {"tags": {"type": "array", "items": {"type": "string"}}, "n": {"type": "number"}},
    }
    names = ColumnNames(["id"], schema, is_table=True, chosen=("all",))
    writer = ArrowWriter(tmp_path / "out.parquet", names, "job", {})
    result = RowResult("answered", '{"tags": ["a"], "n": 1}', "stop", 10, 2, 0.5, time=1.7e9, latency=0.25, tries=1)
    writer.write([names.build_record({"id": 1}, "m", result), names.build_record({"id": 2}, "m", RowResult("failed"))])
    writer.publish()
    writer.close()
    table = read_table(tmp_path / "out.parquet")
    types = {name: str(table.schema.field(name).type) for name in table.column_names}
    assert types == {
        "id": "int64", "tags": "list<element: string>", "n": "double", "model": "string", "finish_reason": "string",
        "input_tokens": "int64", "output_tokens": "int64", "cached_tokens": "int64", "cache_write_tokens": "int64",
        "cost": "double", "error": "string", "latency": "double", "tries": "int64", "time": "timestamp[ms, tz=UTC]",
    }  # fmt: skip
    assert table["tags"].to_pylist() == [["a"], None]
    assert table["time"][0].as_py().isoformat() == "2023-11-14T22:13:20+00:00"


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_only_a_published_file_replaces_the_previous_one(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"out{suffix}"
    write(path, [{"a": 1}])
    before = path.read_bytes()
    writer = ArrowWriter(path, ColumnNames(["a"], None), "job", {})
    writer.write([{"a": 2}])
    writer.close()
    writer.close()
    assert (path.read_bytes(), list(tmp_path.iterdir())) == (before, [path])


def test_a_file_that_could_not_be_written_does_not_replace_the_previous_one(tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    write(path, [{"a": 1}])
    writer = ArrowWriter(path, ColumnNames(["a"], None), "job", {})
    with limit_file_size(100_000):
        writer.publish()
        with pytest.raises(FileError, match="File too large"):
            for number in range(100):
                writer.write([{"a": f"{number * each}" * 50} for each in range(10_000)])
    writer.close()
    assert (read_table(path)["a"].to_pylist(), list(tmp_path.iterdir())) == ([1], [path])


@pytest.mark.parametrize("suffix", [".arrow", ".feather"])
def test_arrow_is_read_from_files_and_streams(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"in{suffix}"
    with pa.ipc.new_stream(str(path), TABLE.schema) as writer:
        writer.write_table(TABLE)
    stream = read(path)
    write_table(path, TABLE)
    assert [dict(row.columns) for row in stream] == TABLE.to_pylist() == [dict(row.columns) for row in read(path)]
    feather.write_feather(TABLE, str(path), compression="zstd")
    assert [dict(row.columns) for row in read(path)] == TABLE.to_pylist()


def test_large_row_groups_and_record_batches_are_read_in_parts(tmp_path: Path) -> None:
    table = pa.table({"n": range(2 * BATCH_ROWS + 1)})
    for suffix in SUFFIXES:
        path = write_table(tmp_path / f"in{suffix}", table)
        assert [row.columns["n"] for row in read(path)] == table["n"].to_pylist()
    assert estimate_row_count(select_inputs([str(tmp_path / "in.parquet")], None, rows_are_files=False)) == len(table)


def test_text_that_is_not_utf8_costs_only_its_row(tmp_path: Path) -> None:
    text = pa.array([b"a", b"\xff", None]).cast(pa.binary()).view(pa.string())
    rows = read(write_table(tmp_path / "in.parquet", pa.table({"id": [1, 2, 3], "text": text})))
    assert [dict(row.columns) for row in rows] == [{"id": 1, "text": "a"}, {"id": 2}, {"id": 3, "text": None}]
    assert [bool(row.error) for row in rows] == [False, True, False]


def damage(path: Path) -> Iterable[bytes]:
    data = path.read_bytes()
    return b"", b"a,b\n1,2\n", data[: len(data) // 2], data[:20] + b"\xff" * 60 + data[80:]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_damaged_file_is_an_error(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"in{suffix}"
    for data in damage(write_table(path, pa.table({"n": range(5000), "text": ["some text"] * 5000}))):
        path.write_bytes(data)
        with pytest.raises(FileError, match=f"in{suffix}"):
            read(path)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_that_is_written_while_it_is_read_is_an_error(tmp_path: Path, suffix: str) -> None:
    path = write_table(tmp_path / f"in{suffix}", pa.table({"id": range(100_000)}))
    rows = read_rows(select_inputs([str(path)], None, rows_are_files=False))
    assert next(rows).columns == {"id": 0}
    write_table(path, TABLE)
    numbers = []
    with pytest.raises(FileError):
        numbers += [row.columns["id"] for row in rows]
    assert numbers == list(range(1, len(numbers) + 1))


def test_the_name_of_a_column_must_be_unicode(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        write(tmp_path / "out.parquet", [{"\ud800": 1}])
    assert list(tmp_path.iterdir()) == []


def test_two_columns_of_one_name_are_an_error(tmp_path: Path) -> None:
    path = write_table(tmp_path / "in.arrow", pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"]))
    with pytest.raises(UsageError, match="'a'"):
        read(path)
