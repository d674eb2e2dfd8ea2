"""The rows of a job: read as a stream from JSONL, CSV, TSV, lines of text, or one row for each file.

Parquet, Arrow, Excel and SQLite are read by modules of their own.
"""

from __future__ import annotations

import csv
import json
import math
import sys
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE, BOM_UTF32_BE, getincrementaldecoder
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from io import BufferedReader, TextIOWrapper
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any, BinaryIO, Literal, Self, get_args

from ask.config.installation import require_package
from ask.errors import FileError, UsageError
from ask.map.sqlite_table import SqliteTable
from ask.messages import EMPTY_MAPPING
from ask.records import NamedTuple
from ask.text import DecodedText
from ask.tools.file_names import find_equivalent_path

TypedFormat = Literal["parquet", "arrow", "xlsx", "sqlite"]
InputFormat = Literal["jsonl", "csv", "tsv", "lines", "nul", "files", TypedFormat]
TYPED_FORMATS: tuple[str, ...] = get_args(TypedFormat)
INPUT_FORMATS: tuple[str, ...] = get_args(InputFormat)
FORMATS_BY_SUFFIX: Mapping[str, InputFormat] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".xlsx": "xlsx",
    ".xlsm": "xlsx",
}
STDIN = "-"
LINE, PATH, INDEX = "line", "path", "index"
"""The placeholders besides columns: a line of text, the path of a file, and the number of the row from 1."""
NUL = "\0"
NOT_UTF8, HAS_NUL = "not UTF-8", "contains a NUL character"
READ_BYTES = 1 << 16
BYTE_ORDER_MARKS = (BOM_UTF16_BE, BOM_UTF16_LE, BOM_UTF32_BE)
COUNTED_BYTES = 1 << 24
"""How much of a file is read to estimate its number of lines."""
MAX_WAITING_ROWS = 1000
"""How many rows of a pipe are read ahead."""
MAX_FIELD_CHARACTERS = 1 << 30
"""The limit for one field of a CSV file."""


def _parse_finite(text: str) -> float | None:
    """Parse a number; return None if it is too large for one."""
    number = float(text)
    return number if math.isfinite(number) else None


encode_json = json.JSONEncoder(ensure_ascii=False).encode
# Python writes NaN and Infinity, which are not JSON. As in JavaScript, they become null.
decode_json = json.JSONDecoder(parse_constant=lambda _: None, parse_float=_parse_finite).decode


class Row(NamedTuple):
    """One row of input.

    Attributes:
        location: where the row was read, as in "tickets.jsonl:7".
        columns: its values by name; of a row with an error, those that can be read.
        text: what is appended to a prompt that names none of the columns.
        error: why the row cannot be used; "" if it can.
        column_types: the Arrow types of the columns in the file, if it has any.
    """

    location: str
    columns: Mapping[str, Any] = EMPTY_MAPPING
    text: str = ""
    error: str = ""
    column_types: Mapping[str, Any] = EMPTY_MAPPING


class Input(NamedTuple):
    """One source of rows; `path` is `STDIN` for standard input. `sheet` is that of a workbook; None for the first."""

    path: str
    format: InputFormat
    sheet: str | None = None


def select_inputs(
    paths: Sequence[str], input_format: InputFormat | None, *, rows_are_files: bool, sheet: str | None = None
) -> tuple[Input, ...]:
    """Return the inputs of a job with their formats.

    Args:
        paths: the paths from the command line; none means standard input.
        input_format: the format that the user chose; None to choose by the name of each file.
        rows_are_files: whether a file that is no table, or is a workbook, is a row itself, and not a file of rows.
        sheet: the sheet of the workbooks; None for the first one.

    Raises:
        UsageError: there is no workbook for the sheet.
    """
    inputs = []
    for path in paths or (STDIN,):
        suffix_format = "sqlite" if SqliteTable.parse(path) else FORMATS_BY_SUFFIX.get(Path(path).suffix.lower())
        if rows_are_files and suffix_format == "xlsx" and sheet is None:
            suffix_format = None  # more often a document
        chosen = input_format or suffix_format or ("files" if rows_are_files and path != STDIN else "lines")
        inputs.append(Input(path, chosen, sheet))
    if sheet is not None and not any(each.format == "xlsx" for each in inputs):
        raise UsageError("--sheet is for Excel workbooks", "name one that ends in .xlsx")
    return tuple(inputs)


def find_input_file(path: str) -> Path | None:
    """Return the file of an input, which may be an SQLite database; None for standard input."""
    table = SqliteTable.parse(path)
    return table.file if table else None if path == STDIN else Path(path)


def find_equivalent_input(path: str) -> str:
    """Return an input with the name of an existing file that looks the same, if there is none of its own name."""
    if path == STDIN:
        return path
    if table := SqliteTable.parse(path):
        return str(table._replace(file=find_equivalent_path(table.file)))
    return str(find_equivalent_path(Path(path)))


def check_inputs(paths: Sequence[str]) -> None:
    """Check that there is an input, and that every file can be read.

    Raises:
        UsageError: there is no input.
        FileError: a file cannot be read.
    """
    cannot_read_stdin = sys.stdin is None or (sys.stdin.isatty() and not paths)
    if cannot_read_stdin and (not paths or STDIN in paths):
        raise UsageError("no input given", "name files, or pipe rows in; to ask it as a question: ask -- map ...")
    for path in filter(None, map(find_input_file, paths)):
        try:
            if not path.is_fifo():
                open(path, "rb").close()
        except OSError as error:
            hint = "check the file's name; to ask it as a question: ask -- map ..." if not path.exists() else ""
            raise FileError(f"cannot read {path} ({error.strerror})", hint) from None


def read_rows(inputs: Iterable[Input], notify: Callable[[str], None] = lambda _: None) -> Iterator[Row]:
    """Yield the rows of all inputs.

    `notify` is called with a line for the user for an input that is not UTF-8, but in an encoding that is recognized.

    A row that cannot be parsed has an `error`; the rows after it are still read.

    Raises:
        FileError: a file cannot be read, or is binary.
        UsageError: the header of a table is invalid or ambiguous.
    """
    for each in inputs:
        if each.format == "files" and each.path != STDIN:
            yield Row(each.path, {PATH: each.path})
            continue
        if each.format in TYPED_FORMATS:
            yield from _read_typed(each)
            continue
        with ExitStack() as stack:
            name = "stdin" if each.path == STDIN else each.path
            try:
                stream: Any = sys.stdin.buffer if each.path == STDIN else stack.enter_context(open(each.path, "rb"))
                start = stream.peek()
                if each.format not in ("nul", "files"):  # file names are bytes
                    encoding = _detect_encoding(name, start, None if each.path == STDIN else Path(each.path))
                    if encoding != "utf-8":
                        notify(f"{name} is not UTF-8 and was read as {DecodedText('', encoding).title}")
                        stream = _transcode_lines(stream, encoding)
                if start.startswith(BOM_UTF8):
                    stream.read(len(BOM_UTF8))
                yield from READERS[each.format](name, stream)
            except OSError as error:
                raise FileError(f"cannot read {name} ({error.strerror})") from None


def _read_typed(each: Input) -> Iterator[Row]:
    """Yield the rows of a format that is not text.

    Raises:
        AskError: the input cannot be read.
        MissingDependencyError: the package for the format is not installed.
    """
    name = "stdin" if each.path == STDIN else each.path
    if each.path == STDIN and each.format != "arrow":
        raise UsageError(f"{each.format} cannot be read from stdin", "name a file")
    if each.format == "sqlite":
        table = SqliteTable.parse(each.path) or SqliteTable(Path(each.path))
        yield from (Row(f"{name}:{number}", columns, error=error) for number, columns, error in table.read_rows())
    elif each.format == "xlsx":
        require_package("openpyxl", "files", name)
        from ask.map.excel_input import read_excel

        yield from (Row(f"{name}:{number}", columns) for number, columns in read_excel(each.path, each.sheet))
    else:
        require_package("pyarrow", "tables", name)
        from ask.map.arrow_input import read_arrow, read_parquet

        rows = read_parquet(each.path) if each.format == "parquet" else read_arrow(each.path)
        for row in rows:
            yield Row(f"{name}:{row.number}", row.columns, error=row.error, column_types=row.column_types)


def _detect_encoding(name: str, start: bytes, path: Path | None) -> str:
    """Detect the encoding of lines from the first bytes, or from the lines of a file that are not UTF-8.

    Raises:
        FileError: it is binary.
    """
    if not start.startswith(BYTE_ORDER_MARKS) and _may_be_text(start):
        if path is not None and path.is_file():
            start = _find_invalid_utf8(path)
        start = start.replace(b"\0", b"")
        with suppress(UnicodeDecodeError):
            start[: start.rfind(b"\n") + 1 or None].decode()
            return "utf-8"
    from ask.tools.text_encoding import decode_bytes

    decoded = decode_bytes(start)
    if decoded is None:
        hint = "convert it to JSONL, CSV or UTF-8 text, or read text separated by NUL with -0"
        raise FileError(f"{name} is binary, not text", hint)
    return decoded.encoding


def _may_be_text(start: bytes) -> bool:
    """Check that NUL is not in the first line, and in at most half of all: only some rows may be damaged."""
    lines = start.split(b"\n")
    return b"\0" not in lines[0] and 2 * sum(b"\0" in line for line in lines) <= len(lines)


def _find_invalid_utf8(path: Path) -> bytes:
    """Return a part of a file that is not UTF-8, and begins with the start of a line; b"" if there is none."""
    decoder = getincrementaldecoder("utf-8")()
    with path.open("rb") as stream:
        for start in range(0, COUNTED_BYTES, READ_BYTES):
            chunk = stream.read(READ_BYTES)
            try:
                decoder.decode(chunk)
            except UnicodeDecodeError:
                stream.seek(start)
                return stream.read(2 * READ_BYTES)
            if not chunk:
                break
    return b""


def _transcode_lines(stream: BinaryIO, encoding: str) -> Iterator[bytes]:
    """Yield the lines of a stream in UTF-8, without a byte order mark. Invalid bytes stay as they are."""
    errors = "replace" if encoding.startswith("utf-") else "surrogateescape"
    for number, line in enumerate(TextIOWrapper(stream, encoding, errors, newline="\n")):
        yield (line if number else line.removeprefix("\ufeff")).encode("utf-8", "surrogateescape")


def estimate_row_count(inputs: Iterable[Input]) -> int | None:
    """Count the lines of all inputs; estimate those of large files. Return None if an input is a pipe, or has no lines.

    Fields with several lines, and blank lines, make it larger than the number of rows.
    """
    total = 0
    for each in inputs:
        path = Path(each.path)
        if each.format in TYPED_FORMATS:
            count = _count_typed_rows(each)
            if count is None:
                return None
            total += count
            continue
        if each.path == STDIN or each.format == "nul" or not path.is_file():
            return None
        if each.format == "files":
            total += 1
            continue
        with path.open("rb") as stream:
            sample = stream.read(COUNTED_BYTES)
        lines = sample.count(b"\n") + (not sample.endswith(b"\n"))
        total += round(lines * path.stat().st_size / len(sample)) if sample else 0
        total -= each.format in ("csv", "tsv")
    return max(total, 0)


def _count_typed_rows(each: Input) -> int | None:
    if each.format == "sqlite":
        return (SqliteTable.parse(each.path) or SqliteTable(Path(each.path))).count_rows()
    if each.format == "parquet":
        from ask.map.arrow_input import count_parquet_rows

        return count_parquet_rows(each.path)
    return None


def _read_texts(name: str, items: Iterable[bytes], column: str) -> Iterator[Row]:
    """Yield a row for each item that is not blank."""
    for number, item in enumerate(items, start=1):
        try:
            text = item.decode()
        except UnicodeDecodeError:
            yield Row(f"{name}:{number}", error=NOT_UTF8)
            continue
        if NUL in text:
            yield Row(f"{name}:{number}", error=HAS_NUL)
        elif text.strip():
            yield Row(f"{name}:{number}", {column: text}, "" if column == PATH else text)


def _split_lines(stream: BufferedReader) -> Iterator[bytes]:
    return (line.rstrip(b"\r\n") for line in stream)


def _split_at_nul(stream: BufferedReader) -> Iterator[bytes]:
    parts: list[bytes] = []
    while chunk := stream.read1(READ_BYTES):
        first, *others = chunk.split(b"\0")
        parts.append(first)
        for item in others:
            yield b"".join(parts)
            parts = [item]
    yield b"".join(parts)


def _read_jsonl(name: str, stream: BufferedReader) -> Iterator[Row]:
    for number, line in enumerate(stream, start=1):
        # The files that were joined to this one may each begin with a byte order mark.
        location, data = f"{name}:{number}", line.strip().removeprefix(BOM_UTF8)
        if not data:
            continue
        try:
            text, error = data.decode(), ""
        except UnicodeDecodeError:
            text, error = data.decode("utf-8", "surrogateescape"), NOT_UTF8
        try:
            value = decode_json(text)
        except (ValueError, RecursionError):
            value, error = {}, error or (HAS_NUL if b"\0" in data else "not JSON")
        if not isinstance(value, dict):
            value, error = {}, error or "not a JSON object"
        if error:
            value = {column: each for column, each in value.items() if _is_encodable(column + encode_json(each))}
        yield Row(location, value, text, error)


class TableLines:
    """The lines of a table, which `csv.reader` reads, and which are read again after an unclosed quotation mark.

    Attributes:
        number: the number of lines that were read.
        record: the lines of the current record.
    """

    def __init__(self, stream: Iterable[bytes]) -> None:
        self._stream = iter(stream)
        self._repeated: deque[str] = deque()
        self.number = 0
        self.record: list[str] = []

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        line = self._repeated.popleft() if self._repeated else next(self._stream).decode("utf-8", "surrogateescape")
        self.number += 1
        self.record.append(line)
        return line

    def repeat(self) -> None:
        """Read the lines of the record again, except for the first one."""
        self._repeated.extendleft(reversed(self.record[1:]))
        self.number -= len(self.record) - 1


def _read_csv(name: str, stream: BufferedReader, delimiter: str = ",") -> Iterator[Row]:
    csv.field_size_limit(MAX_FIELD_CHARACTERS)
    lines = TableLines(stream)
    records = csv.reader(lines, delimiter=delimiter, strict=True)
    header = _read_header(name, records)
    while True:
        lines.record.clear()
        location, problem = f"{name}:{lines.number + 1}", ""
        try:
            record = next(records)
        except StopIteration:
            return
        except csv.Error as error:
            problem = f"not CSV ({error})"
            lines.repeat()
            # The last field is the one with the unclosed quotation mark, or text after the closing one.
            record = next(csv.reader(lines.record[:1], delimiter=delimiter))[:-1]
        if not record and not problem:
            continue
        if len(record) != len(header) and not problem:
            problem = f"{len(record)} fields, but the header has {len(header)}"
        columns = dict(zip(header, record, strict=False))
        if not all(map(_is_readable, record)):
            problem = problem or (HAS_NUL if any(NUL in value for value in record) else NOT_UTF8)
            columns = {column: value for column, value in columns.items() if _is_readable(value)}
        yield Row(location, columns, error=problem)


def _read_header(name: str, records: Iterator[list[str]]) -> list[str]:
    """Read the header of a table.

    Raises:
        UsageError: it is not CSV or UTF-8, or names a column twice.
    """
    try:
        header = [column.strip() for column in next(filter(None, records), [])]
    except csv.Error as error:
        raise UsageError(f"{name}: the header is not CSV ({error})", "correct the first line") from None
    if not all(map(_is_encodable, header)):
        raise UsageError(f"{name}: the header is not UTF-8", "convert the file to UTF-8")
    repeated = next((column for column in header if header.count(column) > 1), None)
    if repeated is not None:
        raise UsageError(f"{name}: two columns are named {repeated!r}", "give each column its own name")
    return header


def _is_encodable(text: str) -> bool:
    """Check that a text contains no bytes that were not UTF-8."""
    return text.isascii() or not any("\udc80" <= char <= "\udcff" for char in text)


def _is_readable(text: str) -> bool:
    """Check that a text contains no bytes that were not UTF-8, and no NUL."""
    return NUL not in text and _is_encodable(text)


def read_in_background(rows: Iterator[Row]) -> Iterator[Row | None]:
    """Yield the rows of a pipe as they arrive, and None while there is none.

    Raises:
        AskError: as `rows` does.
    """
    arrived: Queue[Row | BaseException | None] = Queue(MAX_WAITING_ROWS)

    def read() -> None:
        try:
            for row in rows:
                arrived.put(row)
            arrived.put(None)
        except BaseException as error:  # noqa: BLE001 - raised again in the main thread
            arrived.put(error)

    Thread(target=read, name="ask map input", daemon=True).start()
    while True:
        try:
            item = arrived.get_nowait()
        except Empty:
            yield None
            continue
        if item is None:
            return
        if isinstance(item, BaseException):
            raise item
        yield item


READERS: Mapping[str, Callable[[str, Any], Iterator[Row]]] = {
    "jsonl": _read_jsonl,
    "csv": _read_csv,
    "tsv": lambda name, stream: _read_csv(name, stream, "\t"),
    "lines": lambda name, stream: _read_texts(name, _split_lines(stream), LINE),
    "nul": lambda name, stream: _read_texts(name, _split_at_nul(stream), LINE),
    "files": lambda name, stream: _read_texts(name, _split_lines(stream), PATH),
}
