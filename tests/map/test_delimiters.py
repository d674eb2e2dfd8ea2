"""Detecting the delimiter of a table."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.map.delimiters import detect_delimiter
from ask.map.input_rows import Input, InputFormat, read_rows


def read(
    folder: Path, content: str | bytes, input_format: InputFormat = "csv", delimiter: str = ""
) -> tuple[list[Any], list[str]]:
    """Return the line and the columns of each row, or its error, and the notices."""
    file, notices = folder / "input", list[str]()
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    rows = read_rows([Input(str(file), input_format, delimiter=delimiter)], notices.append)
    return [(int(row.location.rpartition(":")[2]), row.error or dict(row.columns)) for row in rows], notices


@pytest.mark.parametrize(
    ("table", "delimiter"),
    [
        ("id;name\n1;a\n", ";"),
        ("id\tname\n1\ta\n", "\t"),
        ("id|name\n1|a\n", "|"),
        ("id;price\n1;1,50\n2;2,50\n", ";"),
        ("Name, Vorname;Preis\nMüller, Hans;1,50\nMeier, Eva;2,50\n", ";"),
        ('id;"name; or not"\n1;a\n', ";"),
        ('id;"two\nlines"\n1;a\n', ";"),
        ("Duration;Phase\n6:30;First developer\n1:00;Wash 1\n", ";"),
        # https://github.com/mechatroner/vscode_rainbow_csv/issues/134: trailing delimiters are missing in some rows
        ("date;id;state;\nApril 15, 2023;1;paid;\nApril 14, 2023;2;paid;\nApril 13, 2023;3\n", ";"),
        ("id;name", ";"),
        ("\n\nid;name\n1;a\n", ";"),
    ],
)
@pytest.mark.parametrize("usual", [",", "\t"])
def test_another_delimiter_is_detected(table: str, delimiter: str, usual: str) -> None:
    assert detect_delimiter(table.lstrip("\n"), usual) == delimiter


@pytest.mark.parametrize(
    "table",
    [
        '"a;b;c",d\n1,2\n',
        'a,"b;c;d"\n1,2\n',
        "a;b,c\n1,2\n3,4\n",
        "a;b,c\n1,2;x\n3,4\n",
        # https://github.com/im-anishraj/arnio/issues/2446: one column of prose
        "notes\nlikes apples; bananas\nx; y; z\n",
        "notes\na|b\nc|d\n",
        "note; or remark\nfirst\nsecond\n",
        "text\n",
        "",
        'a,"b\n1;2\n',
        "a,b\n1;2\n3;4\n5,6\n",
    ],
)
def test_a_table_of_the_format_stays_one(table: str) -> None:
    assert detect_delimiter(table, ",") == ","
    assert detect_delimiter(table.replace(",", "\t"), "\t") == "\t"


def test_a_detected_delimiter_is_reported_once(tmp_path: Path) -> None:
    rows, notices = read(tmp_path, "id;name\n1;a\n")
    assert rows == [(2, {"id": "1", "name": "a"})]
    assert len(notices) == 1
    assert "semicolons" in notices[0]
    assert read(tmp_path, "id\tname\n1\ta\n", "tsv")[1] == []


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("sep=;\nid;name\n1;a\n", {"id": "1", "name": "a"}),
        ("sep=;\r\nid;name\r\n1;a\r\n", {"id": "1", "name": "a"}),
        ('\ufeff"sep=^"\nid^name\n1^a\n', {"id": "1", "name": "a"}),
        ("SEP=\t\nid\tname\n1\ta\n", {"id": "1", "name": "a"}),
        ("sep=,\nid;name,x\n1,a\n", {"id;name": "1", "x": "a"}),
        ("sep=¦\nid¦name\n1¦a\n", {"id": "1", "name": "a"}),
    ],
)
def test_a_line_that_names_the_delimiter_is_obeyed(tmp_path: Path, content: str, expected: dict[str, str]) -> None:
    assert read(tmp_path, content) == ([(3, expected)], [])
    if not content.startswith("sep=¦"):
        assert read(tmp_path, content.removeprefix("\ufeff").encode("utf-16"))[0] == [(3, expected)]


def test_other_headers_do_not_name_a_delimiter(tmp_path: Path) -> None:
    assert read(tmp_path, "sep=\n1\n")[0] == [(2, {"sep=": "1"})]
    assert read(tmp_path, "sep=x\n1\n")[0] == [(2, {"sep=x": "1"})]


def test_a_chosen_delimiter_overrides_what_is_detected(tmp_path: Path) -> None:
    assert read(tmp_path, "a;b,c\n1,2\n", delimiter=";") == ([(2, "1 field, but the header has 2")], [])
    assert read(tmp_path, "sep=,\na;b\n1;2\n", delimiter=";")[0] == [(3, {"a": "1", "b": "2"})]
    assert read(tmp_path, "a\x1fb\n1\x1f2\n", "tsv", "\x1f")[0] == [(2, {"a": "1", "b": "2"})]


def test_lines_may_end_with_carriage_returns(tmp_path: Path) -> None:
    assert read(tmp_path, "sep=;\ra;b\r1;2\r\r3;4\r")[0] == [(3, {"a": "1", "b": "2"}), (5, {"a": "3", "b": "4"})]
    assert read(tmp_path, 'a,b\r"1\r2",3')[0] == [(2, {"a": "1\n2", "b": "3"})]
    assert read(tmp_path, 'a,"b\rc"\n1,2\n')[0] == [(2, {"a": "1", "b\rc": "2"})]


def test_the_header_alone_decides_for_a_pipe_that_is_slow(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    writer = os.open(tmp_path / "pipe", os.O_RDWR)
    os.write(writer, b"id;name\n1;a\n")
    rows = read_rows([Input(str(tmp_path / "pipe"), "csv")])
    assert next(rows).columns == {"id": "1", "name": "a"}
    os.close(writer)


@given(st.text(st.sampled_from('ab,;|\t"\n\r ')), st.sampled_from(",\t"))
def test_any_text_has_a_delimiter(text: str, usual: str) -> None:
    delimiter = detect_delimiter(text, usual)
    assert delimiter == usual or delimiter in text


CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=8)


@given(
    st.lists(st.lists(CELLS, min_size=3, max_size=3), max_size=8),
    st.sampled_from(",;\t|"),
    st.sampled_from(["csv", "tsv"]),
    st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
)
def test_any_table_with_any_delimiter_is_read_back(
    tmp_path_factory: pytest.TempPathFactory,
    records: list[list[str]],
    delimiter: str,
    input_format: InputFormat,
    quoting: Any,
) -> None:
    buffer = io.StringIO(newline="")
    csv.writer(buffer, delimiter=delimiter, quoting=quoting).writerows([["a", "b (1, 2)", 'c "x"'], *records])
    rows, _ = read(tmp_path_factory.mktemp("rows"), buffer.getvalue(), input_format)
    assert [list(columns.values()) for _, columns in rows] == records


@given(st.lists(CELLS.filter(str.strip), min_size=2, max_size=4, unique_by=str.strip), st.lists(CELLS, max_size=6))
def test_any_table_of_the_format_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, header: list[str], cells: list[str]
) -> None:
    records = [[cell] * len(header) for cell in cells]
    buffer = io.StringIO(newline="")
    csv.writer(buffer).writerows([header, *records])
    rows, notices = read(tmp_path_factory.mktemp("rows"), buffer.getvalue())
    assert [list(columns.values()) for _, columns in rows] == records
    assert notices == []
