"""Rows of a sheet of an Excel workbook, which is read as a stream."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import closing
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from zipfile import BadZipFile, ZipFile

from openpyxl.cell.read_only import ReadOnlyCell
from openpyxl.worksheet._reader import VALUE_TAG, WorkSheetParser

from ask.client.document_xml import decode_escapes
from ask.client.excel_reader import WorkbookReader
from ask.errors import FileError, UsageError
from ask.text import format_suggestion, join_names

warnings.filterwarnings("ignore", module="openpyxl")  # about styles and validation
MAX_UNPACKED_BYTES = 2 << 30
"""The largest size of the XML of a workbook; openpyxl has the texts of all sheets in memory."""
ERROR_VALUES = frozenset(
    ("#NULL!", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#N/A", "#SPILL!", "#CALC!", "#GETTING_DATA")
)


class _CellParser(WorkSheetParser):  # type: ignore[misc]
    """Reads a cell whose value does not fit its type as text; openpyxl would read no row after it.

    https://github.com/pandas-dev/pandas/issues/33853
    """

    row_counter: int  # openpyxl has no types
    col_counter: int

    def parse_cell(self, element: Any) -> Any:
        counters = self.row_counter, self.col_counter
        try:
            return super().parse_cell(element)
        except (ValueError, IndexError) as error:
            self.row_counter, self.col_counter = counters
            value = element.find(VALUE_TAG)
            if element.get("t") == "b" and value.text in ("true", "false"):  # openpyxl knows only numbers
                value.text = "1" if value.text == "true" else "0"
            else:
                element.set("t", "str")
            if isinstance(error, IndexError):  # the number of a text that the workbook does not have
                value.text = ""
            return super().parse_cell(element)


def read_excel(path: str, sheet: str | None) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number and the columns of each row below the header, which is the first row with a value.

    Columns without a name, and rows without a value in the others, are left out.

    Args:
        path: the workbook.
        sheet: the name of the sheet; None for the first one that is not hidden.

    Raises:
        FileError: it cannot be read.
        UsageError: there is no such sheet, or two columns have the same name.
    """
    try:
        _check_size(path)
        reader = WorkbookReader(path)
        reader.read()
        with closing(reader.wb) as workbook:
            yield from _read_sheet(path, _select_sheet(path, workbook, sheet))
    except (FileError, UsageError):
        raise
    except Exception as error:  # openpyxl lets errors of all its parsers through
        if isinstance(error, BadZipFile):
            hint = "save it as .xlsx, or add --input-format csv if it is a table of text"
            raise FileError(f"cannot read {path} (not an Excel workbook)", hint) from error
        raise FileError(f"cannot read {path} ({error})", "save it as .xlsx") from error


def _check_size(path: str) -> None:
    with ZipFile(path) as archive:
        if sum(part.file_size for part in archive.infolist()) > MAX_UNPACKED_BYTES:
            raise FileError(f"{path} is too large", "save the sheet as CSV")


def _select_sheet(path: str, workbook: Any, name: str | None) -> Any:
    sheets = {sheet.title: sheet for sheet in workbook.worksheets}
    visible = [sheet for sheet in sheets.values() if sheet.sheet_state == "visible"]
    if name is None and visible:
        return visible[0]
    if name is None:
        hint = f"choose one with --sheet: {join_names(list(sheets))}" if sheets else ""
        raise UsageError(f"{path} has no visible sheet", hint)
    if name not in sheets:
        hint = format_suggestion(name, list(sheets), f"the sheets are {join_names(list(sheets))}")
        raise UsageError(f"{path} has no sheet {name!r}", hint)
    return sheets[name]


def _read_sheet(path: str, sheet: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    header: dict[int, str] = {}
    for number, values in _read_rows(sheet):
        if not header:
            header = _read_header(path, values)
            continue
        columns = {name: values.get(position) for position, name in header.items()}
        if any(value is not None for value in columns.values()):
            yield number, columns


def _read_rows(sheet: Any) -> Iterator[tuple[int, dict[int, Any]]]:
    """Yield the number of each row that the sheet contains, and its values by the positions of their columns."""
    workbook = sheet.parent
    with sheet._get_source() as source:
        parser = _CellParser(
            source,
            sheet._shared_strings,
            data_only=True,
            epoch=workbook.epoch,
            date_formats=workbook._date_formats,
            timedelta_formats=workbook._timedelta_formats,
        )
        for number, cells in parser.parse():
            yield number, {cell["column"]: _to_json_value(ReadOnlyCell(sheet, **cell)) for cell in cells}


def _read_header(path: str, values: dict[int, Any]) -> dict[int, str]:
    """Return the names of the columns by their positions."""
    header = {position: str(value).strip() for position, value in values.items() if value not in (None, "")}
    repeated = next((name for name in header.values() if list(header.values()).count(name) > 1), None)
    if repeated is not None:
        raise UsageError(f"{path}: two columns are named {repeated!r}", "give each column its own name")
    return header


def _to_json_value(cell: Any) -> Any:
    """Return the value of a cell: dates and times in ISO 8601, null for an error such as #N/A."""
    value = cell.value
    if isinstance(value, datetime):
        has_time = value.time() != time() or any(sign in cell.number_format.lower() for sign in "hs")
        return value.isoformat() if has_time else value.date().isoformat()
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        minutes, seconds = divmod(round(value.total_seconds()), 60)
        return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
    if isinstance(value, float):
        return _to_json_number(value)
    if value is None or isinstance(value, bool | int):
        return value
    text = decode_escapes(str(value))
    return None if text in ERROR_VALUES else text


def _to_json_number(value: float) -> int | float | None:
    if not math.isfinite(value):
        return None
    # Excel saves a long integer, such as an id, with 15 digits and an exponent.
    return int(Decimal(repr(value))) if value.is_integer() and 1e16 <= abs(value) < 2**63 else value
