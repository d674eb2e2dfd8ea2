"""Rows of Excel workbooks."""

from __future__ import annotations

import tracemalloc
from datetime import date, datetime, time, timedelta
from functools import reduce
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from openpyxl import Workbook, load_workbook
from openpyxl.workbook.defined_name import DefinedName

from ask.errors import FileError, UsageError
from ask.map.input_rows import Row, read_rows, select_inputs
from tests.sample_files import share_texts


def write(path: Path, *rows: list[Any], sheet: str = "Data") -> Path:
    workbook = load_workbook(path) if path.exists() else Workbook()
    worksheet = workbook.create_sheet(sheet) if path.exists() else workbook.active
    assert worksheet
    worksheet.title = sheet
    for row in rows:
        worksheet.append(row)
    workbook.save(path)
    return path


def read(path: Path, sheet: str | None = None) -> list[Row]:
    return list(read_rows(select_inputs([str(path)], None, rows_are_files=False, sheet=sheet)))


def read_columns(path: Path, sheet: str | None = None) -> list[dict[str, Any]]:
    return [dict(row.columns) for row in read(path, sheet)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "in.xlsx"


def test_values_are_those_of_json(path: Path) -> None:
    values = {
        "text": ("a", "a"),
        "int": (3, 3),
        "float": (2.5, 2.5),
        "long": (1234567890123450000.0, 1234567890123450000),
        "bool": (True, True),
        "empty": (None, None),
        "date": (date(2024, 1, 2), "2024-01-02"),
        "midnight": (datetime(2024, 1, 2), "2024-01-02T00:00:00"),
        "datetime": (datetime(2024, 1, 2, 3, 4, 5), "2024-01-02T03:04:05"),
        "time": (time(3, 4), "03:04:00"),
        "duration": (timedelta(hours=36, minutes=5), "36:05:00"),
        "error": ("#N/A", None),
    }
    write(path, list(values), [value for value, _ in values.values()])
    assert read_columns(path) == [{name: expected for name, (_, expected) in values.items()}]


def test_chart_sheets_are_skipped(path: Path) -> None:
    write(path, ["a"], [1])
    workbook = load_workbook(path)
    workbook.create_chartsheet("Chart", 0)
    workbook.defined_names["total"] = DefinedName("total", attr_text="Data!$A$2")
    workbook.save(path)
    with ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    book = parts["xl/workbook.xml"].replace(b'name="total"', b'name="total" localSheetId="0"')
    assert book != parts["xl/workbook.xml"], "a name of the chart sheet"
    with ZipFile(path, "w") as archive:
        for name, data in {**parts, "xl/workbook.xml": book}.items():
            archive.writestr(name, data)
    assert read_columns(path) == [{"a": 1}]
    with pytest.raises(UsageError, match="'Chart'"):
        read(path, "Chart")


def test_the_header_is_the_first_row_with_a_value(path: Path) -> None:
    write(
        path,
        [None, None],
        ["id", None, " name ", 2024],
        [1, "note", "a", 5, "right of the table"],
        [],
        [None, "note"],
        [2],
    )
    assert read_columns(path) == [{"id": 1, "name": "a", "2024": 5}, {"id": 2, "name": None, "2024": None}]
    assert [row.location for row in read(path)] == [f"{path}:3", f"{path}:6"], "the numbers that Excel shows"


def test_sheets_are_named(path: Path) -> None:
    write(write(path, ["a"], [1]), ["b"], [2], sheet="Q2 x")
    assert (read_columns(path), read_columns(path, "Q2 x")) == ([{"a": 1}], [{"b": 2}])
    with pytest.raises(UsageError, match="'q2'") as caught:
        read(path, "q2")
    assert "Q2 x" in caught.value.hint
    workbook = load_workbook(path)
    workbook.worksheets[0].sheet_state = "hidden"
    workbook.save(path)
    assert read_columns(path) == [{"b": 2}]
    for sheet, expected in ((None, "files"), ("Q2 x", "xlsx")):
        (source,) = select_inputs([str(path)], None, rows_are_files=True, sheet=sheet)
        assert source.format == expected
    with pytest.raises(UsageError, match="--sheet"):
        select_inputs(["a.csv"], None, rows_are_files=False, sheet="a")


def test_a_wrong_dimension_hides_no_cells(path: Path, tmp_path: Path) -> None:
    write(path, ["a", "b"], [1, 2], [3, 4])
    changed = tmp_path / "changed.xlsx"
    with ZipFile(path) as source, ZipFile(changed, "w") as target:
        for name in source.namelist():
            target.writestr(name, source.read(name).replace(b'<dimension ref="A1:B3"', b'<dimension ref="A1:A1"'))
    assert read_columns(changed) == [{"a": 1, "b": 2}, {"a": 3, "b": 4}]


def test_a_formula_is_its_last_value(path: Path, tmp_path: Path) -> None:
    write(path, ["a", "b"], ["x", "=1+1"])
    changed = tmp_path / "calculated.xlsx"
    with ZipFile(path) as source, ZipFile(changed, "w") as target:
        for name in source.namelist():
            target.writestr(name, source.read(name).replace(b"<v></v>", b"<v>2</v>").replace(b"<v />", b"<v>2</v>"))
    assert (read_columns(path), read_columns(changed)) == ([{"a": "x", "b": None}], [{"a": "x", "b": 2}])


def test_merged_cells_have_their_value_once(path: Path) -> None:
    write(path, ["a", "b"], ["x", 1], [None, 2])
    workbook = load_workbook(path)
    workbook.worksheets[0].merge_cells("A2:A3")
    workbook.save(path)
    assert read_columns(path) == [{"a": "x", "b": 1}, {"a": None, "b": 2}]


@pytest.mark.parametrize(
    ("part", "old", "new"),
    [
        ("xl/styles.xml", b"<fill><patternFill /></fill>", b"<fill/>"),
        ("xl/styles.xml", b'<family val="2" />', b'<family val="20"/><color rgb="red"/>'),
        ("docProps/core.xml", b"W3CDTF", b"dcterms:Year"),
        ("docProps/core.xml", b"Z</dcterms:created>", b" o'clock</dcterms:created>"),
    ],
)
def test_odd_styles_and_properties_do_not_matter(path: Path, tmp_path: Path, part: str, old: bytes, new: bytes) -> None:
    write(path, ["when"], [datetime(2024, 1, 2, 3, 4)])
    changed = tmp_path / "changed.xlsx"
    with ZipFile(path) as source, ZipFile(changed, "w") as target:
        for name in source.namelist():
            content = source.read(name).replace(b'"/>', b'" />').replace(b"<patternFill/>", b"<patternFill />")
            assert name != part or old in content
            target.writestr(name, content.replace(old, new) if name == part else content)
    assert read_columns(changed) == [{"when": "2024-01-02T03:04:00"}]


def test_two_columns_of_one_name_are_an_error(path: Path) -> None:
    with pytest.raises(UsageError, match="'a'"):
        read(write(path, ["a", "a "], [1, 2]))


def test_what_is_no_workbook_is_an_error(path: Path) -> None:
    write(path, ["a"], [1])
    for data in (b"", b"a,b\n", path.read_bytes()[:500]):
        path.write_bytes(data)
        with pytest.raises(FileError, match=r"in\.xlsx"):
            read(path)


def test_a_workbook_that_is_too_large_unpacked_is_an_error(path: Path) -> None:
    data = bytearray(write(path, ["a"], [1]).read_bytes())
    size = data.index(b"PK\1\2") + 24  # of the first file, in the directory of the archive
    data[size : size + 4] = (3 << 30).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(FileError, match="too large"):
        read(path)


USUAL_NAMESPACE, STRICT_NAMESPACE = b"http://schemas.openxmlformats.org/", b"http://purl.oclc.org/ooxml/"
STRICT = (
    (USUAL_NAMESPACE + b"spreadsheetml/2006/main", STRICT_NAMESPACE + b"spreadsheetml/main"),
    (USUAL_NAMESPACE + b"officeDocument/2006/relationships", STRICT_NAMESPACE + b"officeDocument/relationships"),
    (b"<workbook ", b'<workbook conformance="strict" '),
)


def edit(path: Path, *replacements: tuple[bytes, bytes]) -> None:
    with ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with ZipFile(path, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, reduce(lambda changed, pair: changed.replace(*pair), replacements, data))


# https://github.com/tidyverse/readxl/issues/51, https://github.com/opensanctions/opensanctions/pull/5001
def test_characters_that_excel_escapes_are_decoded(path: Path) -> None:
    write(path, ["a_x000D_\nb", "c"], ["1_x000D_\n2", "_x005F_x000D_"], ["_xD83D__xDE00_", "_x41_"])
    assert read_columns(path) == [{"a\r\nb": "1\r\n2", "c": "_x000D_"}, {"a\r\nb": "😀", "c": "_x41_"}]


# https://github.com/pandas-dev/pandas/issues/33853: one such cell, and no row can be read
@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        (b"<v>INF</v>", "INF"),
        (b't="b"><v>true</v>', True),
        (b't="b"><v>false</v>', False),
        (b't="b"><v>maybe</v>', "maybe"),
        (b't="s"><v>99</v>', None),
        (b't="s"><v>x</v>', "x"),
        (b't="d"><v>soon</v>', "soon"),
    ],
)
def test_a_value_that_does_not_fit_its_type_costs_no_other(path: Path, cell: bytes, expected: object) -> None:
    write(path, ["a", "b"], [1, 7], [2, 8])
    old = b't="n"><v>7</v>'
    edit(path, (old, cell) if cell.startswith(b"t=") else (old, b't="n">' + cell))
    assert read_columns(path) == [{"a": 1, "b": expected}, {"a": 2, "b": 8}]


def test_a_strict_workbook_is_read(path: Path) -> None:
    """Excel saves it as "Strict Open XML Spreadsheet"."""
    write(path, ["a", "b"], ["x", datetime(2024, 1, 2, 3)])
    edit(path, *STRICT)
    assert read_columns(path) == [{"a": "x", "b": "2024-01-02T03:00:00"}]


def test_a_workbook_of_hidden_sheets_names_them(path: Path) -> None:
    write(path, ["a"], [1])
    edit(path, (b'state="visible"', b'state="hidden"'))
    with pytest.raises(UsageError, match="no visible sheet") as caught:
        read(path)
    assert "Data" in caught.value.hint
    assert read_columns(path, "Data") == [{"a": 1}]


# Excel has the texts of all cells in one part, of which openpyxl removes each "x005F_"
def test_a_shared_text_is_decoded_once_and_not_changed(path: Path) -> None:
    address = '"http://purl.oclc.org/ooxml/spreadsheetml/main"'
    write(path, ["a"], ["_x005F_x000D_"], ["x005F_"], [address])
    path.write_bytes(share_texts(path.read_bytes()))
    assert [row["a"] for row in read_columns(path)] == ["_x000D_", "x005F_", address]


def test_other_users_of_openpyxl_are_not_affected(path: Path) -> None:
    write(path, ["a"], [7])
    edit(path, (b"<v>7</v>", b"<v>INF</v>"))
    assert read_columns(path) == [{"a": "INF"}]
    with pytest.raises(ValueError, match="INF"):
        list(load_workbook(path, read_only=True)["Data"].values)


def test_a_large_strict_workbook_is_read_as_a_stream(path: Path) -> None:
    write(path, ["a"], ["x" * 300])
    comment = b"<!--" + b" " * 10_000 + b"-->"
    edit(path, *STRICT, (b"</sheetData>", comment * 2_000 + b"</sheetData>"))
    tracemalloc.start()
    assert len(read(path)) == 1
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10_000_000
