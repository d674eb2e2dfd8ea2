"""Reading rows from each format, with the rows that cannot be parsed."""

from __future__ import annotations

import csv
import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.errors import FileError, UsageError
from ask.map.input_rows import Input, InputFormat, Row, check_inputs, read_rows, select_inputs


def read(folder: Path, content: str | bytes, input_format: InputFormat) -> list[Row]:
    file = folder / "input"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return list(read_rows([Input(str(file), input_format)]))


def columns(rows: list[Row]) -> list[Any]:
    """Return the columns of each row, or the error without its place."""
    return [row.error or row.columns for row in rows]


def test_lines_are_rows_except_blank_ones(tmp_path: Path) -> None:
    rows = read(tmp_path, b"one\r\n\n  \ntwo words", "lines")
    assert columns(rows) == [{"line": "one"}, {"line": "two words"}]
    assert rows[1].location.endswith(":4")


def test_nul_separated_rows_may_contain_newlines(tmp_path: Path) -> None:
    assert columns(read(tmp_path, "one\ntwo\0three\0", "nul")) == [{"line": "one\ntwo"}, {"line": "three"}]


def test_numbers_that_are_not_json_are_null_and_too_large_ones_text(tmp_path: Path) -> None:
    assert columns(read(tmp_path, '{"a": NaN, "b": [-Infinity, -1e999, 1.5]}\n', "jsonl")) == [
        {"a": None, "b": [None, "-1e999", 1.5]}
    ]


@pytest.mark.parametrize("input_format", ["lines", "nul"])
def test_a_byte_order_mark_is_not_part_of_the_first_row(tmp_path: Path, input_format: InputFormat) -> None:
    assert columns(read(tmp_path, b"\xef\xbb\xbfone", input_format)) == [{"line": "one"}]


@pytest.mark.slow
def test_a_long_row_is_read_as_fast_as_many_short_ones(tmp_path: Path) -> None:
    text = "word " * 8_000_000
    start = time.process_time()
    rows = read(tmp_path, f"{text}\0end", "nul")
    assert columns(rows) == [{"line": text}, {"line": "end"}]
    assert time.process_time() - start < 5


def test_malformed_json_lines_are_errors_of_their_own(tmp_path: Path) -> None:
    rows = read(tmp_path, b'\xef\xbb\xbf{"a": 1}\n\n[1]\n{"a"\n\xff\n{"a": "\xc3\xa9"}', "jsonl")
    assert columns(rows) == [{"a": 1}, "not a JSON object", "not JSON", "not UTF-8", {"a": "é"}]
    assert [row.location.rpartition(":")[2] for row in rows] == ["1", "3", "4", "5", "6"]


def test_malformed_records_of_a_table_are_errors_of_their_own(tmp_path: Path) -> None:
    rows = read(tmp_path, b'\xef\xbb\xbfa,b\n1,2\n1\n"x\ny",z\n\xff,1\n', "csv")
    assert columns(rows)[0] == {"a": "1", "b": "2"}
    assert "header has 2" in rows[1].error
    assert columns(rows)[2:] == [{"a": "x\ny", "b": "z"}, "not UTF-8"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('1,"open\n2,b\n3,c\n', [("2", {"id": "1"}), ("3", {"id": "2", "a": "b"}), ("4", {"id": "3", "a": "c"})]),
        ('1,"open\n2,"b"\n3,c\n', [("2", {"id": "1"}), ("3", {"id": "2", "a": "b"}), ("4", {"id": "3", "a": "c"})]),
        ('1,"x\ny"\n2,"open\n', [("2", {"id": "1", "a": "x\ny"}), ("4", {"id": "2"})]),
        ("1,x\r2,y\n3,b\n", [("2", {"id": "1"}), ("3", {"id": "3", "a": "b"})]),
        ('1,"x\n"open\n2,b\n', [("2", {"id": "1"}), ("3", {}), ("4", {"id": "2", "a": "b"})]),
        ("1\n2,b,more\n", [("2", {"id": "1"}), ("3", {"id": "2", "a": "b"})]),
        ("1,x\0y\n2,b\n", [("2", {"id": "1"}), ("3", {"id": "2", "a": "b"})]),
        (b"1,\xff\n\xff,b\n", [("2", {"id": "1"}), ("3", {"a": "b"})]),
    ],
    ids=["to the end", "to a quote", "last", "carriage return", "twice", "ragged", "nul", "not UTF-8"],
)
def test_a_damaged_record_costs_one_row_and_keeps_what_can_be_read(
    tmp_path: Path, content: str | bytes, expected: list[Any]
) -> None:
    data = content.encode() if isinstance(content, str) else content
    rows = read(tmp_path, b"id,a\n" + data, "csv")
    assert [(row.location.rpartition(":")[2], row.columns) for row in rows] == expected
    assert [bool(row.error) for row in rows] == [len(each) < 2 or "more" in str(content) for _, each in expected]


@pytest.mark.parametrize(
    ("content", "input_format", "expected"),
    [
        (b'{"id": 1}\n{"id": 2, "a": "x\0y"}\n{"id": 3}\n', "jsonl", [{"id": 1}, {"id": 2}, {"id": 3}]),
        (b'{"a": "long text, \0 in it", "id": 1}\n{"id": 2}\n', "jsonl", [{"id": 1}, {"id": 2}]),
        (b'\xef\xbb\xbf{"a": "x\0y", "id": 1}\n{"id": 2}\n', "jsonl", [{"id": 1}, {"id": 2}]),
        (b'{"id": 1, "a": "x\ty"}\n{"id": 2}\n', "jsonl", [{"id": 1, "a": "x\ty"}, {"id": 2}]),
        (b'{"id": 1, "a": {"b": [2]},}\n{"id": 2}\n', "jsonl", [{"id": 1, "a": {"b": [2]}}, {"id": 2}]),
        (b'{"id": 1, "a": "x "y" z"}\n{"id": 2}\n', "jsonl", [{"id": 1}, {"id": 2}]),
        (b'{"id": 1, "a": "x "," z"}\n{"id": 2}\n', "jsonl", [{"id": 1}, {"id": 2}]),
        (b'{"id": 1, "a": "cut\n{"id": 2}\n', "jsonl", [{"id": 1}, {"id": 2}]),
        (b'{"id": 1, "a": 2\n{"id": 2}\n', "jsonl", [{"id": 1}, {"id": 2}]),
        (b'{"id": 1, "a": "{"b": "c"}, d"}\n{"id": 2}\n', "jsonl", [{"id": 1}, {"id": 2}]),
        (b'{"id": 1, "a": "{b"}, d"}\n{"id": 2}\n', "jsonl", [{"id": 1}, {"id": 2}]),
        (b'{"id": 1, "a": "b"},\n{"id": 2}\n', "jsonl", [{"id": 1, "a": "b"}, {"id": 2}]),
        (b'{"id""a", "c": 2}\n{"id": 2}\n', "jsonl", [{}, {"id": 2}]),
        (b'{"rows": [{"id": 1}],}', "json", [{"rows": [{"id": 1}]}]),
        (b'[{"id": 1, "a": "x "y" z"}, {"id": 2}]', "json", [{"id": 1}, {"id": 2}]),
        (b'[{"id": 1, "\xff": nope, "c": 3}, {"id": 2}]', "json", [{"id": 1}, {"id": 2}]),
        (b'{"id": 1, "a": "\xff", "\xff": 1}\n{"a": "\\ud800"}\n', "jsonl", [{"id": 1}, {"a": "\ud800"}]),
        (b"one\nt\0wo\nthree\n", "lines", [{"line": "one"}, {}, {"line": "three"}]),
    ],
)
def test_a_damaged_line_costs_one_row(
    tmp_path: Path, content: bytes, input_format: InputFormat, expected: list[Any]
) -> None:
    rows = read(tmp_path, content, input_format)
    assert [row.columns for row in rows] == expected
    assert sum(bool(row.error) for row in rows) == 1


@given(st.lists(st.text(st.sampled_from('a,"\r\n')), max_size=8).map("\n".join))
def test_lines_that_are_no_table_are_read_to_the_end(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    rows = read(tmp_path_factory.mktemp("rows"), f"x,y\n{text}\n1,2\n", "csv")
    assert rows[-1].columns == {"x": "1", "y": "2"} or '"' in text


def test_a_quoted_header_after_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    assert columns(read(tmp_path, b'\xef\xbb\xbf"a, b",c\n1,2\n', "csv")) == [{"a, b": "1", "c": "2"}]


def test_blank_lines_before_the_header_are_skipped(tmp_path: Path) -> None:
    assert columns(read(tmp_path, "\r\n \na,b\n1,2\n", "csv")) == [{"a": "1", "b": "2"}]
    assert [row.location[-2:] for row in read(tmp_path, "\r\n \na,b\n1,2\n", "csv")] == [":4"]


def test_empty_cells_at_the_end_of_a_line_are_no_columns(tmp_path: Path) -> None:
    """Excel writes them for columns that were used once."""
    rows = read(tmp_path, "a,b,,\n1,2,,\n3,4\n5,,,\n6,7,,8\n", "csv")
    expected = [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}, {"a": "5", "b": ""}, "4 fields, but the header has 2"]
    assert columns(rows) == expected
    assert columns(read(tmp_path, "a,b\n1,2,,\n", "csv")) == [{"a": "1", "b": "2"}]
    assert columns(read(tmp_path, " ,,\n,a,\n1,2,\n", "csv")) == [{"": "1", "a": "2"}]
    assert columns(read(tmp_path, "a,b,\n1,2,3\n", "csv")) == [{"a": "1", "b": "2", "": "3"}]


def test_a_header_that_is_not_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="header is not UTF-8"):
        read(tmp_path, b"\xff\xfd\tb\n1\t2\n", "tsv")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "utf-32-be"])
@pytest.mark.parametrize(
    ("content", "input_format"),
    [("Größe,b\nMaß,2\n", "csv"), ('{"Größe": "Maß", "b": "2"}\n', "jsonl"), ('[{"Größe": "Maß", "b": "2"}]', "json")],
    ids=["csv", "jsonl", "json"],
)
def test_rows_in_wide_encodings_are_read(
    tmp_path: Path, content: str, input_format: InputFormat, encoding: str
) -> None:
    file, notices = tmp_path / "input", list[str]()
    file.write_bytes(content.encode(encoding))
    rows = list(read_rows([Input(str(file), input_format)], notices.append))
    assert columns(rows) == [{"Größe": "Maß", "b": "2"}]
    assert len(notices) == 1


@pytest.mark.parametrize(
    "content",
    [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", b"PK\x03\x04\x14\0\x06\0[Content]\ntext\n", b"%PDF-1.4\n1 0 obj\n"],
    ids=["png", "zip", "pdf in ASCII"],
)
@pytest.mark.parametrize("input_format", ["jsonl", "csv", "lines"])
def test_a_binary_file_is_refused(tmp_path: Path, content: bytes, input_format: InputFormat) -> None:
    with pytest.raises(FileError, match="input is binary"):
        read(tmp_path, content, input_format)


def test_tsv_is_separated_by_tabs(tmp_path: Path) -> None:
    assert columns(read(tmp_path, "a\tb,c\n1\t2\n", "tsv")) == [{"a": "1", "b,c": "2"}]


@pytest.mark.parametrize(
    ("start", "hint"),
    [
        (b"SQLite format 3\0", "sqlite:"),
        (b"PAR1", "parquet"),
        (b"PK\3\4", "xlsx"),
        (b"%PDF-1.4\n%\xe2\xe3\n", "--files"),
        (b"\x89PNG\r\n\x1a\n", "--files"),
    ],
)
def test_tables_that_are_no_text_are_recognized(tmp_path: Path, start: bytes, hint: str) -> None:
    with pytest.raises(FileError) as failure:
        read(tmp_path, start + bytes(range(256)), "lines")
    assert hint in failure.value.hint


def test_a_column_named_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'a'"):
        read(tmp_path, "a,b,a\n1,2,3\n", "csv")
    with pytest.raises(UsageError, match="two columns without a name"):
        read(tmp_path, "a,,,b\n1,2,3,4\n", "csv")


@given(st.lists(st.dictionaries(st.text(), st.text() | st.integers() | st.none()), max_size=5))
def test_any_json_objects_are_read_back(tmp_path_factory: pytest.TempPathFactory, values: list[dict[str, Any]]) -> None:
    text = "".join(json.dumps(value) + "\n" for value in values)
    assert columns(read(tmp_path_factory.mktemp("rows"), text, "jsonl")) == values


@given(st.lists(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0\r")), min_size=2, max_size=2)))
def test_any_table_is_read_back(tmp_path_factory: pytest.TempPathFactory, records: list[list[str]]) -> None:
    file = tmp_path_factory.mktemp("rows") / "table.csv"
    with file.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([["a", "b"], *records])
    rows = list(read_rows([Input(str(file), "csv")]))
    assert [list(row.columns.values()) for row in rows] == records


def test_the_name_of_a_file_decides_its_format(tmp_path: Path) -> None:
    names = ["a.jsonl", "a.geojsonl", "a.geojsons", "b.CSV", "c.tsv", "d.txt", "-"]
    assert [each.format for each in select_inputs(names, None, rows_are_files=False)] == [
        "jsonl", "jsonl", "jsonl", "csv", "tsv", "lines", "lines",
    ]  # fmt: skip
    assert [each.format for each in select_inputs(names, None, rows_are_files=True)][5:] == ["files", "lines"]
    assert {each.format for each in select_inputs(names, "nul", rows_are_files=False)} == {"nul"}


def test_a_file_that_is_truncated_while_it_is_read_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id\n" + "1\n" * 100_000)
    rows = read_rows(select_inputs([str(path)], None, rows_are_files=False))
    assert next(rows).columns == {"id": "1"}
    path.write_text("id\n2\n")
    with pytest.raises(FileError):
        list(rows)


def test_a_missing_file_and_a_folder_are_errors(tmp_path: Path) -> None:
    for path, hint in ((tmp_path / "none.jsonl", "check the file's name"), (tmp_path, f"name its files: {tmp_path}/*")):
        with pytest.raises(FileError) as caught:
            check_inputs([str(path)])
        assert hint in caught.value.hint
