"""Saves answers to the first rows of an `ask map` job: `python -m benchmarks.ledger_generator LEDGER ROWS COUNT`."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ask.agent.toolset import Toolset
from ask.app import AppContext
from ask.map.input_rows import Input, read_rows
from ask.map.job import Job, RowPrompt, identify_rows
from ask.map.ledger import Ledger, RowResult

BATCH_SIZE = 5000


def main() -> None:
    file, rows_file, count = sys.argv[1:]
    with Ledger(Path(file)) as ledger:
        (saved,) = ledger.list_jobs()
        app = AppContext(quiet=True)
        request: Any = SimpleNamespace(response_schema=None)  # the rest of a request is for its messages and files
        job = Job(RowPrompt(saved.prompt), (request,), (), Toolset(app), None, saved.id, app)
        rows = itertools.islice(read_rows([Input(rows_file, "jsonl")]), int(count))
        keys = (task.key for task in identify_rows(job, ledger, rows) if task)
        while batch := [*itertools.islice(keys, BATCH_SIZE)]:
            ledger.save_results(job.id, [(key, RowResult("answered", "hello", "stop", 10, 1)) for key in batch])


if __name__ == "__main__":
    main()
