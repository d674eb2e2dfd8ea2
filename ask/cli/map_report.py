"""`ask map --report`: an HTML report on the rows of a job."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from ask.cli.output_file import STDOUT_NAME, check_document_name, write_output
from ask.errors import AskError, UsageError
from ask.export.map_report import PROMPT, JobOverview, render_map_report
from ask.map.engine import Progress
from ask.map.input_streams import STDIN
from ask.map.job import Job
from ask.map.output_target import check_distinct, check_writable
from ask.map.report import JobReport
from ask.map.scores import JobScores
from ask.map.shards import name_file
from ask.text import join_names

MAX_INPUT_NAMES = 5


class ReportFile:
    """The file of a report, which is written when the job ends.

    Args:
        path: the file, or "-" for standard output. That of a shard gets its number.
        job: the job.
        inputs: the paths of its inputs.
        ledger: the file of its ledger.

    Raises:
        UsageError: the file is an input, the output or the ledger.
        FileError: it cannot be written.

    Attributes:
        path: the file, with the number of the shard.
    """

    def __init__(self, path: str, job: Job, inputs: Sequence[str], ledger: Path) -> None:
        output = job.output
        if path == STDOUT_NAME:
            if output is None:
                raise UsageError("rows and report cannot both go to standard output", "add -O, or name a file")
        else:
            check_document_name(path, ".html")
            path = name_file(path, job.shard)
            others = ({output: "the output"} if output else {}) | {ledger: "the ledger"}
            check_distinct(Path(path), path, inputs, others, "the report")
            check_writable(Path(path), job.app.app_dirs)
        self.path = path
        self._job = job
        self._inputs = [os.path.basename(name) if name != STDIN else "stdin" for name in inputs] or ["stdin"]
        request = job.requests[0]
        schema = request.response_schema.value if request.response_schema else None
        self._report = JobReport(job.models, schema, job.prompt.text, request.secrets.redact)
        self.add = self._report.add
        """Adds a finished row."""
        self.make_excerpt = self._report.make_excerpt
        """Returns the beginning of a row."""

    def write(
        self,
        progress: Progress,
        cost: str,
        seconds: float,
        stop_error: AskError | None,
        scores: JobScores | None = None,
    ) -> None:
        """Write the report.

        Args:
            progress: the final state of the job.
            cost: its cost as text; "" if it is unknown.
            seconds: how long this run took.
            stop_error: what ended it before all rows were finished.
            scores: the comparison of the answers with labels.

        Raises:
            FileError: it cannot be written.
        """
        request = self._job.requests[0]
        redact = request.secrets.redact
        schema = request.response_schema
        texts = {
            PROMPT: self._job.prompt.text,
            "Extra system prompt": request.extra_system_prompt,
            "Schema": json.dumps(schema.value, indent=2, ensure_ascii=False) if schema else "",
        }
        output = self._job.output
        summary = JobOverview(
            title=output.name if output else self._inputs[0],
            inputs=join_names(self._inputs, MAX_INPUT_NAMES),
            output=output.name if output else "standard output",
            texts={name: redact(text) for name, text in texts.items() if text},
            progress=progress,
            cost=cost,
            seconds=seconds,
            stop_reason=redact(stop_error.message) if stop_error else "",
        )
        write_output(self.path, render_map_report(summary, self._report, scores))
