"""Shards: the parts of a job that run on different machines, each with an output of its own."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import TypeVar

from ask.errors import UsageError
from ask.map.input_rows import Row
from ask.records import NamedTuple

T = TypeVar("T")
AUTO = "auto"
SHARD_PATTERN = re.compile(r"0*([1-9]\d{0,8})/0*([1-9]\d{0,8})")
FILE_NAME_PATTERN = re.compile(r"\.0*([1-9]\d{0,8})-of-([1-9]\d{0,8})(?:\.\w+)?$")
"""Matches the end of a shard's file name, as in "out.2-of-8.jsonl"."""
ROW_NUMBER = "row_number"
"""The first column of a shard's output: the number of the row in the input, from 1."""
FORM_HINT = "write --shard 2/8, or --shard auto in a Slurm job array or an indexed Kubernetes Job"


class Shard(NamedTuple):
    """Every `total`-th row of the input, beginning with row `number`. Rows stay in their shard if the input grows."""

    number: int
    total: int

    def __str__(self) -> str:
        return f"{self.number}/{self.total}"

    def select(self, rows: Iterator[T]) -> Iterator[T]:
        """Yield the rows of this shard."""
        return itertools.islice(rows, self.number - 1, None, self.total)

    def count_rows(self, row_count: int) -> int:
        """Return how many of that many rows are in this shard."""
        return len(range(self.number - 1, row_count, self.total))

    def get_row_number(self, position: int) -> int:
        """Return the number of a row in the input, from 1; `position` is its position in the shard, from 0."""
        return position * self.total + self.number

    def name_file(self, path: Path) -> Path:
        """Return the name of this shard's file: "out.jsonl" becomes "out.2-of-8.jsonl"."""
        number = f"{self.number:0{len(str(self.total))}}"
        return path.with_name(f"{path.stem}.{number}-of-{self.total}{path.suffix}")


def name_file(name: str, shard: Shard | None) -> str:
    """Return the name of a file of a job; that of a shard has its number."""
    return str(shard.name_file(Path(name))) if shard else name


class ShardInput(NamedTuple):
    """What a shard was made from, and how many of its rows failed.

    Attributes:
        job: the identity of the job, the same for all of its shards.
        row_count: the number of rows of the input.
        digest: a digest of these rows.
        failed_count: the number of the shard's rows that failed.
    """

    job: str
    row_count: int
    digest: str
    failed_count: int


class InputTracker:
    """Counts and digests the rows of an input."""

    def __init__(self) -> None:
        self.row_count = 0
        self._digest = blake2b(digest_size=16)

    def track(self, rows: Iterator[Row]) -> Iterator[Row]:
        """Yield the rows, and note them."""
        for row in rows:
            self.row_count += 1
            self._digest.update(repr((row.columns, row.text, row.error)).encode("utf-8", "backslashreplace"))
            yield row

    def describe(self, job: str, failed_count: int) -> ShardInput:
        """Return what was read, once all rows were."""
        return ShardInput(job, self.row_count, self._digest.hexdigest(), failed_count)


def parse_file_name(path: Path) -> Shard | None:
    """Return the shard that a file name ends with; None if it names none."""
    match = FILE_NAME_PATTERN.search(path.name)
    shard = Shard(int(match[1]), int(match[2])) if match else None
    return shard if shard and shard.number <= shard.total else None


def parse_shard(text: str, environment: Mapping[str, str]) -> Shard:
    """Parse the value of `--shard`: "2/8", "auto" for the shard that the scheduler assigns, or "auto/8" to check it.

    Raises:
        UsageError: it is invalid, or the scheduler's variables do not show which shard this is.
    """
    kind, slash, count_text = text.partition("/")
    if kind == AUTO and (not slash or re.fullmatch(r"[1-9]\d{0,8}", count_text)):
        return _read_scheduled_shard(environment, int(count_text) if slash else None)
    match = SHARD_PATTERN.fullmatch(text)
    if not match or int(match[1]) > int(match[2]):
        raise UsageError(f"--shard must be I/N with I from 1 to N, not {text!r}", FORM_HINT)
    return Shard(int(match[1]), int(match[2]))


def _read_scheduled_shard(environment: Mapping[str, str], count: int | None) -> Shard:
    """Return the shard that Slurm or Kubernetes assigns to this process; `count` is the expected number of shards."""
    array_task = _read_number(environment, "SLURM_ARRAY_TASK_ID")
    step_tasks = _read_number(environment, "SLURM_STEP_NUM_TASKS")
    index = _read_number(environment, "JOB_COMPLETION_INDEX")
    candidates = []
    if array_task is not None:
        candidates.append(_read_array_shard(environment, array_task, count))
    process = _read_number(environment, "SLURM_PROCID")
    if process is not None and step_tasks is not None and (step_tasks > 1 or array_task is None):
        candidates.append(Shard(process + 1, step_tasks))
    if index is not None:
        if count is None:
            hint = "write --shard auto/N, where N is spec.completions of the Job"
            raise UsageError("Kubernetes sets the index of this shard, but not the number of shards", hint)
        candidates.append(Shard(index + 1, count))
    if len(candidates) > 1:
        raise UsageError("the scheduler numbers this process in several ways", "write --shard I/N")
    if not candidates:
        if (_read_number(environment, "SLURM_NTASKS") or 1) > 1:  # a batch script runs only once
            raise UsageError(
                "this Slurm job has several tasks, but this process is not one of them", "run it with srun"
            )
        missing = "SLURM_ARRAY_TASK_ID, SLURM_STEP_NUM_TASKS and JOB_COMPLETION_INDEX"
        raise UsageError(f"--shard auto needs a scheduler, but {missing} are not set", "write --shard I/N")
    [shard] = candidates
    if count not in (None, shard.total):
        raise UsageError(f"the scheduler runs {shard.total} shards, not {count}", f"write --shard I/{count}")
    if not 1 <= shard.number <= shard.total:
        raise UsageError(f"the scheduler assigns shard {shard}", "write --shard I/N")
    return shard


def _read_array_shard(environment: Mapping[str, str], task: int, count: int | None) -> Shard:
    """Return the shard of a task in a Slurm job array, whose ids may begin with any number.

    Raises:
        UsageError: the ids have gaps, as after `--array=3,7`, so that they do not show which shard this is.
    """
    first, last, task_count, step = (
        _read_number(environment, f"SLURM_ARRAY_TASK_{name}") for name in ("MIN", "MAX", "COUNT", "STEP")
    )
    step = step or 1
    if first is None or last is None or task_count is None:
        raise UsageError("SLURM_ARRAY_TASK_MIN, _MAX and _COUNT are not all set", "write --shard I/N")
    if (last - first) // step + 1 != task_count or (task - first) % step:
        hint = f"write --shard I/N, such as --shard $SLURM_ARRAY_TASK_ID/{count or 'N'} if the ids begin with 1"
        raise UsageError("the ids of this job array have gaps, so its tasks are not all shards", hint)
    return Shard((task - first) // step + 1, task_count)


def _read_number(environment: Mapping[str, str], name: str) -> int | None:
    """Return the number in a scheduler's variable; None if it is not set.

    Raises:
        UsageError: it is not a number.
    """
    text = environment.get(name, "").strip()
    if not text:
        return None
    if not re.fullmatch(r"\d{1,9}", text):
        raise UsageError(f"{name} is {text!r}, not a number", "write --shard I/N")
    return int(text)
