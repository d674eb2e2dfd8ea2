"""Joins the outputs of a job's shards in the order of the input."""

from __future__ import annotations

import heapq
import itertools
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from operator import itemgetter
from pathlib import Path
from typing import BinaryIO

from ask.atomic_files import convert_write_errors, open_replacement
from ask.errors import AskError, FileError, RowsFailedError, UsageError
from ask.map.ledger import read_shard_input
from ask.map.output import TABLE_DELIMITERS
from ask.map.shards import ROW_NUMBER, Shard, parse_file_name
from ask.text import join_names

TEXT_SUFFIXES = (".jsonl", *TABLE_DELIMITERS)
JSON_LINE_PATTERN = re.compile(rb'\{"%s(?:_\d+)?": (\d+)(?:, |(?=\}))' % ROW_NUMBER.encode())
CELL_PATTERN = re.compile(rb"(\d+)(?:[,\t]|(?=\n))")
HEADER_PATTERN = re.compile(rb"%s(?:_\d+)?(?:[,\t]|(?=\n))" % ROW_NUMBER.encode())
MAX_LISTED = 10
"""How many missing rows or shards an error lists."""


class ShardFile:
    """The output of a shard, read as a stream."""

    def __init__(self, path: Path, shard: Shard, stream: BinaryIO) -> None:
        self.path = path
        self.shard = shard
        self._stream = stream
        self._is_table = path.suffix.lower() in TABLE_DELIMITERS
        self.header = self._read_header() if self._is_table else b""

    def _read_header(self) -> bytes:
        record = self._read_record()
        match = HEADER_PATTERN.match(record)
        if not match:
            raise _make_format_error(self.path)
        return record[match.end() :]

    def _read_record(self) -> bytes:
        """Return the next record; b"" at the end. In a table, it has several lines if a quoted cell has."""
        record = self._stream.readline()
        while self._is_table and record.count(b'"') % 2 and (line := self._stream.readline()):
            record += line
        if record and not record.endswith(b"\n"):
            raise FileError(f"{self.path} ends in the middle of a row", "copy it again")
        return record

    def read(self) -> Iterator[tuple[int, bytes]]:
        """Yield the number of each row, and its record without this number.

        Raises:
            FileError: the file is not the complete output of this shard.
        """
        previous = 0
        while record := self._read_record():
            match = (CELL_PATTERN if self._is_table else JSON_LINE_PATTERN).match(record)
            if not match:
                raise _make_format_error(self.path)
            number = int(match[1])
            if (number - self.shard.number) % self.shard.total:
                raise FileError(f"{self.path} has row {number}, which is in another shard", "give it its own name")
            if number < previous:
                raise FileError(f"{self.path} is not in the order of the input", "run the shard again")
            previous = number
            rest = record[match.end() :]
            yield number, rest if self._is_table else b"{" + rest


def merge_shards(output: Path, ledgers: Mapping[Path, Path], notify: Callable[[str], None]) -> tuple[int, int]:
    """Join the outputs of all shards of a job; return the number of rows, and of those that failed as far as known.

    The output is written only if no row is missing. Its columns are those of the shards without the row number.

    Args:
        output: the file to write.
        ledgers: the outputs of the shards, each with the ledger that says what it was made from, if it exists.
        notify: called with a line for the user if some ledgers do not exist.

    Raises:
        UsageError: the files are not the shards of one job.
        RowsFailedError: shards or rows are missing.
        FileError: a file cannot be read or written.
    """
    shards = _check_files(output, list(ledgers))
    count = next(iter(shards)).total
    absent = [number for number in range(1, count + 1) if Shard(number, count) not in shards]
    if absent:
        raise RowsFailedError(f"{output} is not written: missing {_format_numbers('shard', absent)} of {count}")
    failed_count = _compare_inputs(ledgers, notify)
    with ExitStack() as stack:
        files = []
        for shard, path in sorted(shards.items()):
            try:
                files.append(ShardFile(path, shard, stack.enter_context(path.open("rb"))))
            except OSError as error:
                raise FileError(f"cannot read {path} ({error.strerror})") from error
        for file in files:
            if file.header != files[0].header:
                problem = f"{files[0].path} and {file.path} have different columns"
                raise UsageError(problem, "run all shards with the same options")
        target = Path(os.path.realpath(output))
        with convert_write_errors(output), open_replacement(target, None) as stream:
            stream.write(files[0].header)
            return _write_rows(files, stream, output), failed_count


def _compare_inputs(ledgers: Mapping[Path, Path], notify: Callable[[str], None]) -> int:
    """Check that the shards are of one job and one input, as far as their ledgers exist; return how many rows failed.

    Raises:
        UsageError: they are of different jobs.
        RowsFailedError: they are of different inputs.
    """
    inputs = {path: read_shard_input(ledger) for path, ledger in ledgers.items()}
    known = [(path, each) for path, each in inputs.items() if each]
    for path, each in known[1:]:
        first_path, first = known[0]
        if each.job != first.job:
            problem = f"{first_path} and {path} were made with different prompts, models or options"
            raise UsageError(problem, "run all shards with the same command")
        if (each.row_count, each.digest) != (first.row_count, first.digest):
            counts = f" ({first.row_count:,} and {each.row_count:,} rows)" if each.row_count != first.row_count else ""
            problem = f"{first_path} and {path} were made from different inputs{counts}"
            raise RowsFailedError(problem, "run the shards again with the same input: only new rows are sent")
    unknown = [str(ledger) for path, ledger in ledgers.items() if not inputs[path]]
    if unknown:
        notify(f"without {join_names(unknown, 3)}, it is not checked that all shards are of the same input")
    return sum(each.failed_count for _, each in known)


def _check_files(output: Path, paths: Sequence[Path]) -> dict[Shard, Path]:
    """Return the files by shard."""
    if parse_file_name(output):
        raise UsageError(f"{output} is a shard", "put the name of the joined file before those of the shards")
    shards: dict[Shard, Path] = {}
    for path in paths:
        if path.suffix.lower() != output.suffix.lower():
            raise UsageError(f"{path} has another format than {output}", "use the same suffix for both")
        if path.suffix.lower() not in TEXT_SUFFIXES:
            raise UsageError(f"{path.suffix} files cannot be merged", f"write the shards as {', '.join(TEXT_SUFFIXES)}")
        shard = parse_file_name(path)
        if shard is None:
            raise UsageError(f"{path} is not named like a shard", "its name must end as in out.2-of-8.jsonl")
        if shard in shards:
            raise UsageError(f"{shards[shard]} and {path} are the same shard", "leave out one of them")
        shards[shard] = path
        if os.path.realpath(path) == os.path.realpath(output):
            raise UsageError(f"{output} is a shard", "write the rows to another file")
    counts = sorted({shard.total for shard in shards})
    if len(counts) > 1:
        raise UsageError(f"these are shards of {counts[0]} and of {counts[1]}", "name those of one job")
    return shards


def _write_rows(files: Sequence[ShardFile], stream: BinaryIO, output: Path) -> int:
    """Write the rows of all shards in order; return their number."""
    lines_per_row = last = missing_count = 0
    missing: list[int] = []
    incomplete: set[int] = set()
    count = len(files)
    lines = heapq.merge(*(file.read() for file in files))  # no two files have the same row
    for number, group in itertools.groupby(lines, key=itemgetter(0)):
        row = [data for _, data in group]
        lines_per_row = lines_per_row or len(row)
        if len(row) != lines_per_row:
            raise FileError(f"row {number} does not have an answer of each model", "copy or run its shard again")
        if number > last + 1:
            missing_count += number - last - 1
            missing += range(last + 1, min(number, last + 1 + MAX_LISTED - len(missing)))
            incomplete.update((each - 1) % count + 1 for each in range(last + 1, min(number, last + 1 + count)))
        last = number
        stream.writelines(row)
    if missing_count:
        message = f"{output} is not written: missing {_format_numbers('row', missing, missing_count)}"
        shards = ", ".join(map(str, sorted(incomplete)))
        raise RowsFailedError(message, f"run shard {shards} of {count} again, with the same input as the others")
    return last


def _format_numbers(name: str, numbers: Sequence[int], count: int | None = None) -> str:
    """Format numbers of shards or rows, as in "rows 3, 5"; the first ones of many."""
    count = len(numbers) if count is None else count
    more = f" and {count - MAX_LISTED:,} more" if count > MAX_LISTED else ""
    return f"{name}{'' if count == 1 else 's'} {', '.join(map(str, numbers[:MAX_LISTED]))}{more}"


def _make_format_error(path: Path) -> AskError:
    return UsageError(f"{path} is not the output of a shard", f"its first column is {ROW_NUMBER}")
