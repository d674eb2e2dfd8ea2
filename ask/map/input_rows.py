"""The rows of a job: read as a stream from JSON, CSV, TSV, lines of text, or one row for each file.

Parquet, Arrow, Excel and SQLite are read by modules of their own.
"""

from __future__ import annotations

import csv
import re
import shlex
import sys
from codecs import BOM_UTF8
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from io import BufferedReader, StringIO
from itertools import chain, islice
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any, Literal, Self, TypeVar, get_args

from ask.config.installation import require_package
from ask.errors import AskError, FileError, UsageError
from ask.map.delimiters import DELIMITER_NAMES, SEP_LINE_PATTERN, detect_delimiter
from ask.map.input_streams import (
    COMPRESSION_SUFFIXES,
    MAX_LINE_BYTES,
    READ_BYTES,
    SCANNED_BYTES,
    STDIN,
    UTF8,
    ChunkStream,
    InputFile,
    decompress,
    detect_encoding,
    is_compressed,
    make_length_error,
    read_lines,
    transcode,
)
from ask.map.json_values import (
    HAS_NUL,
    NOT_JSON,
    NOT_UTF8,
    decode_json,
    encode_json,
    has_invalid_bytes,
    parse_first_members,
    read_json_values,
)
from ask.map.sqlite_table import SqliteTable
from ask.messages import EMPTY_MAPPING
from ask.records import NamedTuple
from ask.text import DecodedText
from ask.tools.file_names import find_equivalent_path

T = TypeVar("T")
TypedFormat = Literal["parquet", "arrow", "xlsx", "sqlite"]
InputFormat = Literal["jsonl", "json", "csv", "tsv", "lines", "nul", "files", TypedFormat]
TYPED_FORMATS: tuple[str, ...] = get_args(TypedFormat)
INPUT_FORMATS: tuple[str, ...] = get_args(InputFormat)
FORMATS_BY_SUFFIX: Mapping[str, InputFormat] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".geojsonl": "jsonl",
    ".geojsons": "jsonl",
    ".json": "json",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".xlsx": "xlsx",
    ".xlsm": "xlsx",
}
RAW_FORMATS = ("nul", "files")
"""The formats whose encoding is not detected, because they may be file names, which are bytes."""
LINE, PATH, INDEX = "line", "path", "index"
"""The placeholders besides columns: a line of text, the path of a file, and the number of the row from 1."""
NUL = "\0"
DELIMITERS = {"csv": ",", "tsv": "\t"}
"""The formats of tables, each with the delimiter that it has if no other is detected."""
SEVERAL_LINES_PATTERN = re.compile(rb"[\s\x1e]*(?:\[\s*(?:\{|\Z)|\{[ \t\r]*\n)")
"""The beginning of an array of objects, or of an object of several lines."""
MAX_WAITING_ROWS = 1000
"""How many rows of a pipe are read ahead."""


class Row(NamedTuple):
    """One row of input.

    Attributes:
        location: where the row was read, as in "tickets.jsonl:7".
        columns: its values by name; of a row with an error, those that can be read.
        text: what is appended to a prompt that names none of the columns.
        error: why the row cannot be used; "" if it can.
        column_types: the Arrow types of the columns in the file, if it has any.
        is_file: whether the row is the file that the user has named, with its path as the only column.
    """

    location: str
    columns: Mapping[str, Any] = EMPTY_MAPPING
    text: str = ""
    error: str = ""
    column_types: Mapping[str, Any] = EMPTY_MAPPING
    is_file: bool = False


class Input(NamedTuple):
    """One source of rows.

    Attributes:
        path: the file; `STDIN` for standard input.
        format: how its rows are written.
        encoding: the encoding of its text; "" to detect it.
        delimiter: the character between the columns of a table; "" to detect it.
        sheet: the sheet of a workbook; None for the first one.
    """

    path: str
    format: InputFormat
    encoding: str = ""
    delimiter: str = ""
    sheet: str | None = None

    @property
    def name(self) -> str:
        """The name for messages."""
        return "stdin" if self.path == STDIN else self.path


def select_inputs(
    paths: Sequence[str],
    input_format: InputFormat | None,
    encoding: str = "",
    delimiter: str = "",
    *,
    rows_are_files: bool,
    uses_path: bool = False,
    sheet: str | None = None,
) -> tuple[Input, ...]:
    """Return the inputs of a job with their formats.

    Args:
        paths: the paths from the command line; none means standard input.
        input_format: the format that the user chose; None to choose by the name of each file.
        encoding: the encoding that the user chose; "" for none.
        delimiter: the delimiter that the user chose; "" for none.
        rows_are_files: whether a file that is no table, or is a workbook, is a row itself, and not a file of rows.
        uses_path: whether rows need a path, so that a JSON file is rather a document than an array of rows.
        sheet: the sheet of the workbooks; None for the first one.

    Raises:
        UsageError: there is a delimiter, but no table; an encoding, but no text; or a sheet, but no workbook.
    """
    inputs = []
    for path in paths or (STDIN,):
        chosen = input_format or _get_format(path)
        if uses_path and chosen == "json" and not input_format:
            chosen = "files"
        if rows_are_files and chosen == "xlsx" and not input_format and sheet is None:
            chosen = None  # more often a document
        chosen = chosen or ("files" if rows_are_files and path != STDIN else "lines")
        inputs.append(Input(path, chosen, encoding, delimiter, sheet))
    formats = {each.format for each in inputs}
    if delimiter and not formats.intersection(DELIMITERS):
        raise UsageError("--delimiter is for CSV and TSV", "add --input-format csv if the input is a table")
    if encoding and all(each.format == "files" and each.path != STDIN for each in inputs):
        raise UsageError("--encoding is not for attached files", "convert them, for example with iconv")
    if encoding and formats.issubset(TYPED_FORMATS):
        raise UsageError("--encoding is for text", "Parquet, Arrow, Excel and SQLite say what theirs is")
    if sheet is not None and "xlsx" not in formats:
        raise UsageError("--sheet is for Excel workbooks", "name one that ends in .xlsx")
    return tuple(inputs)


def _get_format(path: str) -> InputFormat | None:
    """Return the format that the name of a file has, without the suffix of compressed data; None for no table."""
    if SqliteTable.parse(path):
        return "sqlite"
    name = path.lower()
    for suffix in COMPRESSION_SUFFIXES:
        name = name.removesuffix(suffix)
    return FORMATS_BY_SUFFIX.get(Path(name).suffix)


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
        hint = "name files, or pipe rows in; ask map --list lists jobs; to ask it as a question: ask -- map ..."
        raise UsageError("no input given", hint)
    for path in filter(None, map(find_input_file, paths)):
        try:
            if not path.is_fifo():
                open(path, "rb").close()
        except OSError as error:
            is_missing = not path.exists()
            if is_missing and re.match(r"\w{2,}:/", str(path)):
                raise UsageError("an input cannot be a URL", "pipe the rows in, and add their --input-format") from None
            hint = "check the file's name; to ask it as a question: ask -- map ..." if is_missing else ""
            if path.is_dir():
                hint = f"name its files: {path}/*"
            raise FileError(f"cannot read {path} ({error.strerror})", hint) from None


def detect_encodings(inputs: Iterable[Input], notify: Callable[[str], None] = lambda _: None) -> tuple[Input, ...]:
    """Return the inputs with the encodings of files. Those of pipes are detected when they are read.

    `notify` is called with a line for the user for a file in UTF-16 or UTF-32.

    Raises:
        FileError: a file cannot be read, or is binary, or compressed although its format is not text.
        MissingDependencyError: the package that decompresses a file is not installed.
        UsageError: a file is in another encoding, which the user must name.
    """
    detected = []
    for each in inputs:
        file = find_input_file(each.path)
        if each.format in TYPED_FORMATS and file and file.is_file():
            with file.open("rb") as stream:
                if is_compressed(stream):
                    raise FileError(f"cannot read {each.name} (it is compressed)", f"decompress {file} first")
        encoding = each.encoding
        is_text = each.format in READERS or each.format in DELIMITERS
        if not encoding and is_text and each.path != STDIN and Path(each.path).is_file():
            with ExitStack() as stack:
                encoding = _detect_encoding(each, _open_input(each, stack), stack, notify)
        detected.append(each._replace(encoding=encoding))
    return tuple(detected)


def _detect_encoding(source: Input, stream: BufferedReader, stack: ExitStack, notify: Callable[[str], None]) -> str:
    if source.format in RAW_FORMATS:
        return UTF8
    can_reopen = source.path != STDIN and Path(source.path).is_file()
    encoding = detect_encoding(source.name, stream, partial(_open_input, source, stack) if can_reopen else None)
    if encoding != UTF8:
        notify(f"{source.name} is not UTF-8 and was read as {DecodedText('', encoding).title}")
    return encoding


def _open_input(source: Input, stack: ExitStack) -> BufferedReader:
    """Open an input until the stack is closed.

    Raises:
        FileError: it cannot be read, or is damaged.
        MissingDependencyError: the package that decompresses it is not installed.
    """
    try:
        if source.path == STDIN:
            return decompress(source.name, sys.stdin.buffer)  # type: ignore[arg-type]
        raw = InputFile(source.path) if Path(source.path).is_file() else open(source.path, "rb", buffering=0)  # noqa: SIM115
        return decompress(source.name, stack.enter_context(BufferedReader(raw)))
    except OSError as error:
        raise FileError(f"cannot read {source.name} ({error.strerror})") from None


def read_rows(inputs: Iterable[Input], notify: Callable[[str], None] = lambda _: None) -> Iterator[Row]:
    """Yield the rows of all inputs.

    `notify` is called with a line for the user for an input whose encoding or delimiter was detected.

    A row that cannot be parsed has an `error`; the rows after it are still read.

    Raises:
        FileError: a file cannot be read, is damaged, or is binary.
        MissingDependencyError: the package that decompresses a file is not installed.
        UsageError: the header of a table is invalid or ambiguous, or the user must name the encoding.
    """
    for each in inputs:
        if each.format == "files" and each.path != STDIN:
            yield Row(each.path, {PATH: each.path}, is_file=True)
            continue
        if each.format in TYPED_FORMATS:
            yield from _read_typed(each, notify)
            continue
        with ExitStack() as stack:
            try:
                stream = _open_input(each, stack)
                encoding = each.encoding or _detect_encoding(each, stream, stack, notify)
                stream = transcode(stream, encoding)
                is_table = each.format in DELIMITERS
                rows = _read_table(each, stream, notify) if is_table else READERS[each.format](each.name, stream)
                yield from rows if encoding == UTF8 else _name_encoding(rows, DecodedText("", encoding).title)
            except OSError as error:
                raise FileError(f"cannot read {each.name} ({error.strerror})") from None


def _name_encoding(rows: Iterable[Row], title: str) -> Iterator[Row]:
    """Yield rows whose errors name the encoding that they were read with."""
    return (row._replace(error=f"not {title}") if row.error == NOT_UTF8 else row for row in rows)


def _read_typed(each: Input, notify: Callable[[str], None]) -> Iterator[Row]:
    """Yield the rows of a format that is not text. `notify` is called with a line for the user while one is locked.

    Raises:
        AskError: the input cannot be read.
        MissingDependencyError: the package for the format is not installed.
    """
    name = each.name
    if each.path == STDIN and each.format != "arrow":
        raise UsageError(f"{each.format} cannot be read from stdin", "name a file")
    if each.format == "sqlite":
        table = SqliteTable.parse(each.path) or SqliteTable(Path(each.path))
        values = table.read_rows(notify)
        yield from (Row(f"{name}:{number}", columns, error=error) for number, columns, error in values)
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


def estimate_row_count(inputs: Iterable[Input]) -> int | None:
    """Count the lines of all inputs; estimate those of large files. Return None if one has none, or is no plain file.

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
        if each.path == STDIN or each.format in ("nul", "json") or not path.is_file():
            return None
        if each.format == "files":
            total += 1
            continue
        with path.open("rb") as stream:
            if is_compressed(stream):
                return None
            sample = stream.read(SCANNED_BYTES)
        lines = sample.count(b"\n") + (not sample.endswith(b"\n"))
        total += round(lines * path.stat().st_size / len(sample)) if sample else 0
        total -= each.format in DELIMITERS
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
            yield Row(f"{name}:{number}", {column: text}, "" if column == PATH else text, is_file=column == PATH)


def _split_lines(name: str, stream: BufferedReader) -> Iterator[bytes]:
    return (line.rstrip(b"\r\n") for line in read_lines(name, stream))


def _split_at_nul(name: str, stream: BufferedReader) -> Iterator[bytes]:
    parts: list[bytes] = []
    size = 0
    while chunk := stream.read1(READ_BYTES):
        first, *others = chunk.split(b"\0")
        parts.append(first)
        size += len(first)
        if size >= MAX_LINE_BYTES:
            raise make_length_error(name)
        for item in others:
            size = len(item)
            yield b"".join(parts)
            parts = [item]
    yield b"".join(parts)


def _read_jsonl(name: str, stream: BufferedReader) -> Iterator[Row]:
    if SEVERAL_LINES_PATTERN.match(stream.peek()):
        yield from _read_json(name, stream)
        return
    for number, line in enumerate(read_lines(name, stream), start=1):
        # The files that were joined to this one may each begin with a byte order mark, and any line with the record
        # separator of JSON text sequences.
        location, data = f"{name}:{number}", line.strip().removeprefix(BOM_UTF8).removeprefix(b"\x1e")
        if not data:
            continue
        try:
            text, error = data.decode(), ""
        except UnicodeDecodeError:
            text, error = data.decode("utf-8", "surrogateescape"), NOT_UTF8
        try:
            value = decode_json(text)
        except (ValueError, RecursionError):
            value, error = parse_first_members(text), error or (HAS_NUL if b"\0" in data else NOT_JSON)
        yield _create_json_row(location, value, text, error)


def _create_json_row(location: str, value: Any, text: str, error: str) -> Row:
    """Return the row of a JSON value; if it has an error, with the columns that can be read."""
    if not isinstance(value, dict):
        value, error = {}, error or "not a JSON object"
    if error:
        value = {column: each for column, each in value.items() if not has_invalid_bytes(column + encode_json(each))}
    return Row(location, value, text, error)


def _read_json(name: str, stream: BufferedReader) -> Iterator[Row]:
    """Yield a row for each element of arrays, or for each of several values.

    Raises:
        UsageError: the input is one object that contains the array.
    """
    values = read_json_values(name, stream)
    first = list(islice(values, 1))
    if first and not (first[0].is_element or first[0].error) and _is_envelope(first[0].value):
        first += islice(values, 1)
        if len(first) == 1:
            hint = f"to read them: jq '.[]' {shlex.quote(name)} | ask map --input-format json ..."
            raise UsageError(f"{name} is one object, with the rows in {next(iter(first[0].value))!r}", hint)
    for each in chain(first, values):
        yield _create_json_row(f"{name}:{each.location}", each.value, "", each.error)


def _is_envelope(value: Any) -> bool:
    """Check whether a value is an object that has nothing but an array of objects."""
    if not isinstance(value, dict) or len(value) != 1:
        return False
    [rows] = value.values()
    return isinstance(rows, list) and bool(rows) and all(isinstance(row, dict) for row in rows)


class TableLines:
    """The lines of a table, which `csv.reader` reads, and which are read again after an unclosed quotation mark.

    Attributes:
        number: the number of lines that were read, also before these.
        record: the lines of the current record.
    """

    def __init__(self, stream: Iterable[bytes], number: int = 0) -> None:
        self._stream = iter(stream)
        self._repeated: deque[str] = deque()
        self.number = number
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


def _read_table(source: Input, stream: BufferedReader, notify: Callable[[str], None]) -> Iterator[Row]:
    """Read a table whose delimiter the user has chosen, or a line before the header names, or is detected."""
    csv.field_size_limit(MAX_LINE_BYTES)
    name, delimiter, start = source.name, source.delimiter, stream.peek()
    if b"\n" not in start and re.search(rb"\r[^\r]", start):  # "CSV (Macintosh)" in Excel
        chunks = iter(partial(stream.read1, READ_BYTES), b"")
        stream = BufferedReader(ChunkStream(chunk.replace(b"\r", b"\n") for chunk in chunks))
    first_lines: list[bytes] = []
    stream_lines = read_lines(name, stream)
    while not (first_lines and first_lines[-1].strip()) and (line := next(stream_lines, b"")):
        first_lines.append(line)
    header = first_lines[-1].decode("utf-8", "surrogateescape") if first_lines else ""
    if match := SEP_LINE_PATTERN.fullmatch(header):
        lines = TableLines(stream_lines, len(first_lines))
        return _read_records(name, lines, delimiter or match[1])
    if not delimiter:
        usual = DELIMITERS[source.format]
        delimiter = detect_delimiter(header + stream.peek().decode("utf-8", "replace"), usual)
        if delimiter != usual:
            notify(f"{name} was read with {DELIMITER_NAMES[delimiter]} between columns; --delimiter overrides this")
    lines = TableLines(chain(first_lines[-1:], stream_lines), max(len(first_lines) - 1, 0))
    return _read_records(name, lines, delimiter)


def _read_records(name: str, lines: TableLines, delimiter: str) -> Iterator[Row]:
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
            problem = f"not CSV ({_get_reason(error)})"
            lines.repeat()
            # The last field has the unclosed quotation mark, text after the closing one, or a carriage return after it.
            record = next(csv.reader(StringIO(lines.record[0], newline=""), delimiter=delimiter))[:-1]
        if not record and not problem:
            continue
        if not any(record[len(header) :]):
            del record[len(header) :]
        if len(record) != len(header) and not problem:
            fields = "1 field" if len(record) == 1 else f"{len(record)} fields"
            problem = f"{fields}, but the header has {len(header)}"
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
        header = next(filter(any, ([column.strip() for column in record] for record in records)), [])
    except csv.Error as error:
        raise UsageError(f"{name}: the header is not CSV ({_get_reason(error)})", "correct the first line") from None
    if any(map(has_invalid_bytes, header)):
        raise UsageError(f"{name}: the header is not UTF-8", "name the encoding of the file with --encoding")
    if header.count("") > 1:  # empty cells at the end of each line, as Excel writes them
        while not header[-1]:
            header.pop()
    repeated = next((column for column in header if header.count(column) > 1), None)
    if repeated is not None:
        which = f"two columns are named {repeated!r}" if repeated else "there are two columns without a name"
        raise UsageError(f"{name}: {which}", "give each column its own name")
    return header


def _get_reason(error: csv.Error) -> str:
    """Return what is wrong with a record, without advice about how to open the file in Python."""
    return str(error).partition(" - ")[0]


def _is_readable(text: str) -> bool:
    """Check that a text contains no bytes that were not UTF-8, and no NUL."""
    return NUL not in text and not has_invalid_bytes(text)


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


def read_until_error(rows: Iterator[T], report_error: Callable[[AskError], None]) -> Iterator[T]:
    """Yield rows up to an error, so that those before it are answered, and call `report_error` with it."""
    try:
        yield from rows
    except AskError as error:
        report_error(error)


READERS: Mapping[str, Callable[[str, Any], Iterator[Row]]] = {
    "jsonl": _read_jsonl,
    "json": _read_json,
    "lines": lambda name, stream: _read_texts(name, _split_lines(name, stream), LINE),
    "nul": lambda name, stream: _read_texts(name, _split_at_nul(name, stream), LINE),
    "files": lambda name, stream: _read_texts(name, _split_lines(name, stream), PATH),
}
