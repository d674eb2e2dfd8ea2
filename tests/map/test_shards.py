"""Shards: which rows each has, what schedulers assign, and the order of the joined output."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.errors import AskError, FileError, RowsFailedError, UsageError
from ask.map.ledger import RowResult
from ask.map.merge import merge_shards
from ask.map.output import ColumnNames, FileWriter
from ask.map.shards import ROW_NUMBER, Shard, parse_file_name, parse_shard

ARRAY = {"SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_TASK_MIN": "0", "SLURM_ARRAY_TASK_MAX": "7"}
ARRAY |= {"SLURM_ARRAY_TASK_COUNT": "8", "SLURM_ARRAY_TASK_STEP": "1"}
BATCH_SCRIPT = {"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}
STEP = {"SLURM_PROCID": "2", "SLURM_NTASKS": "4", "SLURM_STEP_NUM_TASKS": "4"}
POD = {"JOB_COMPLETION_INDEX": "0"}


def merge(output: Path, paths: Sequence[Path]) -> int:
    rows, _ = merge_shards(output, {path: path.with_suffix(".ledger") for path in paths}, lambda _: None)
    return rows


def every(first: int, last: int, step: int, task: int) -> dict[str, str]:
    """The variables of a task of a job array, as Slurm sets them."""
    count = len(range(first, last + 1, step))
    values = {"ID": task, "MIN": first, "MAX": last, "COUNT": count, "STEP": step}
    return {f"SLURM_ARRAY_TASK_{name}": str(value) for name, value in values.items()}


@given(total=st.integers(1, 40), rows=st.integers(0, 200), more=st.integers(0, 50))
def test_each_row_is_in_one_shard_and_stays_there(total: int, rows: int, more: int) -> None:
    shards = [Shard(number, total) for number in range(1, total + 1)]
    parts = [list(shard.select(iter(range(1, rows + 1)))) for shard in shards]
    assert sorted(row for part in parts for row in part) == list(range(1, rows + 1))
    for shard, part in zip(shards, parts, strict=True):
        assert [shard.get_row_number(position) for position in range(len(part))] == part
        assert shard.count_rows(rows) == len(part)
        assert list(shard.select(iter(range(1, rows + more + 1))))[: len(part)] == part


@pytest.mark.parametrize(
    ("text", "environment", "expected"),
    [
        ("2/8", {}, (2, 8)),
        ("02/08", ARRAY, (2, 8)),
        ("auto", ARRAY, (4, 8)),
        ("auto/8", ARRAY, (4, 8)),
        ("auto", every(1, 8, 1, 8), (8, 8)),
        ("auto", every(100, 116, 4, 108), (3, 5)),
        ("auto", every(0, 7, 2, 6), (4, 4)),
        ("auto", every(1, 8, 1, 8) | BATCH_SCRIPT | {"SLURM_NTASKS": "1"}, (8, 8)),
        ("auto", STEP, (3, 4)),
        ("auto", {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}, (1, 1)),
        ("auto/5", POD, (1, 5)),
        ("auto/5", {"JOB_COMPLETION_INDEX": "4"}, (5, 5)),
    ],
)
def test_a_shard_is_named_or_assigned(text: str, environment: dict[str, str], expected: tuple[int, int]) -> None:
    assert parse_shard(text, environment) == expected


@pytest.mark.parametrize(
    ("text", "environment", "named"),
    [
        *((text, {}, text) for text in ("0/8", "9/8", "2", "2/0", "a/b", "auto/0", "auto/x", "-1/8")),
        ("auto", {}, "SLURM_ARRAY_TASK_ID"),
        ("auto", POD, "auto/N"),
        ("auto/4", {"JOB_COMPLETION_INDEX": "4"}, "5/4"),
        ("auto/4", {"JOB_COMPLETION_INDEX": "x"}, "JOB_COMPLETION_INDEX"),
        ("auto", every(1, 8, 1, 3) | {"SLURM_ARRAY_TASK_COUNT": "2"}, "gaps"),
        ("auto/8", every(3, 4, 1, 3), "2 shards, not 8"),
        ("auto", {"SLURM_ARRAY_TASK_ID": "3"}, "SLURM_ARRAY_TASK_MIN"),
        ("auto", BATCH_SCRIPT, "srun"),
        ("auto", ARRAY | STEP, "several"),
        ("auto/8", ARRAY | POD, "several"),
    ],
)
def test_a_shard_that_is_not_certain_is_an_error(text: str, environment: dict[str, str], named: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_shard(text, environment)
    assert named in str(raised.value)


def test_names_of_files_can_be_sorted_and_are_recognized() -> None:
    names = [Shard(number, 12).name_file(Path("a.b/out.v2.jsonl")).name for number in range(1, 13)]
    assert (names[1], names == sorted(names)) == ("out.v2.02-of-12.jsonl", True)
    assert parse_file_name(Path(names[1])) == (2, 12)
    assert [parse_file_name(Path(name)) for name in ("out.jsonl", "out.9-of-8.csv", "2-of-8.csv")] == [None] * 3


ROWS = st.lists(
    st.dictionaries(st.sampled_from(["a", "b"]), st.none() | st.text() | st.floats(allow_nan=False) | st.integers()),
    max_size=20,
)


def write(path: Path, rows: list[tuple[int, dict[str, Any]]], models: int, added: tuple[str, ...]) -> Path:
    """Write rows, which have these numbers, as `ask map` does."""
    writer = FileWriter(path, ColumnNames((*added, "a"), None, is_table=path.suffix != ".jsonl"), "job")
    for number, columns in rows:
        labeled = {**dict.fromkeys(added, number), **columns}
        records = [writer.names.build_record(labeled, f"m{model}", RowResult("answered")) for model in range(models)]
        writer.write(records)
    writer.publish()
    writer.close()
    return path


@given(rows=ROWS, total=st.integers(1, 6), models=st.integers(1, 2), suffix=st.sampled_from([".jsonl", ".csv", ".tsv"]))
def test_the_joined_output_is_that_of_one_job(rows: list[dict[str, Any]], total: int, models: int, suffix: str) -> None:
    with TemporaryDirectory() as folder:
        numbered, output = list(enumerate(rows, start=1)), Path(folder, f"out{suffix}")
        whole = write(output, numbered, models, ()).read_bytes()
        output.unlink()
        shards = [Shard(number, total) for number in range(total, 0, -1)]
        files = [write(s.name_file(output), list(s.select(iter(numbered))), models, (ROW_NUMBER,)) for s in shards]
        before = [file.read_bytes() for file in files]
        assert merge(output, files) == len(rows)
        assert output.read_bytes() == whole
        assert [file.read_bytes() for file in files] == before


@pytest.fixture
def shards(tmp_path: Path) -> list[Path]:
    """The outputs of three shards of seven rows."""
    rows = [(number, {"a": f"row\n{number}"}) for number in range(1, 8)]
    return [
        write(shard.name_file(tmp_path / "out.csv"), list(shard.select(iter(rows))), 1, (ROW_NUMBER,))
        for shard in (Shard(1, 3), Shard(2, 3), Shard(3, 3))
    ]


def test_missing_shards_and_rows_are_listed(shards: list[Path], tmp_path: Path) -> None:
    output = tmp_path / "out.csv"
    with pytest.raises(RowsFailedError, match="missing shards 1, 3 of 3"):
        merge(output, shards[1:2])
    write(shards[1], [(2, {})], 1, (ROW_NUMBER,))
    with pytest.raises(RowsFailedError, match=r"missing row 5: run shard 2 of 3"):
        merge(output, shards)
    write(shards[2], [], 1, (ROW_NUMBER,))
    with pytest.raises(RowsFailedError, match=r"missing rows 3, 5, 6: run shard 2, 3 of 3"):
        merge(output, shards)
    write(shards[0], [(1 + 3 * 20, {})], 1, (ROW_NUMBER,))
    with pytest.raises(RowsFailedError, match=r"missing rows 1, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 49 more"):
        merge(output, shards)
    assert not output.exists()


def cut(text: str) -> str:
    return text[:-3]


def swap(text: str) -> str:
    header, *lines = text.splitlines(keepends=True)
    return header + "".join(lines[2:] + lines[:2])


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (cut, "middle of a row"),
        (swap, "order"),
        (lambda text: text.replace("\n1,", "\n2,"), "another shard"),
        (lambda text: text.replace("row_number,", ""), "row_number"),
        (lambda text: text.replace(",answer", ",reply"), "different columns"),
        (lambda text: text.replace("\n4,", "\n1,"), "each model"),
        (lambda text: text.replace("\n4,", "\nx,"), "row_number"),
        (lambda text: "", "row_number"),
    ],
)
def test_a_damaged_shard_is_named(shards: list[Path], tmp_path: Path, change: Any, error: str) -> None:
    shards[0].write_text(change(shards[0].read_text()))
    with pytest.raises((FileError, UsageError), match=error):
        merge(tmp_path / "out.csv", shards)
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize(
    ("output", "names"),
    [
        ("out.1-of-3.csv", ["out.1-of-3.csv", "out.2-of-3.csv", "out.3-of-3.csv"]),
        ("link.csv", ["out.1-of-3.csv", "out.2-of-3.csv", "out.3-of-3.csv"]),
        ("out.jsonl", ["out.1-of-3.csv"]),
        ("out.parquet", ["out.1-of-3.parquet"]),
        ("out.csv", ["out.1-of-3.csv", "out.1-of-2.csv"]),
        ("out.csv", ["out.1-of-3.csv", "other.01-of-3.csv"]),
        ("out.csv", ["in.csv"]),
    ],
)
def test_files_that_are_not_shards_of_one_job_are_refused(
    shards: list[Path], tmp_path: Path, output: str, names: list[str]
) -> None:
    (tmp_path / "link.csv").symlink_to(shards[1])
    before = [shard.read_bytes() for shard in shards]
    with pytest.raises(AskError) as raised:
        merge(tmp_path / output, [tmp_path / name for name in names])
    assert raised.value.exit_code == 2
    assert [shard.read_bytes() for shard in shards] == before
