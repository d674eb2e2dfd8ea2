"""Runs the job that a command line of `ask map` describes."""

from __future__ import annotations

import heapq
import itertools
import json
import os
import random
import resource
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from ask.agent.context_window import estimate_text_tokens
from ask.agent.request import RunRequest
from ask.agent.run import enable_garbage_collection
from ask.app import AppContext
from ask.cli.ask import (
    create_run_options,
)
from ask.cli.map_batch import check_batch_flags, refuse_row, run_batches
from ask.cli.map_review import ReviewFile
from ask.cli.map_shards import check_shard_flags, list_own_files, locate_ledger, lock_job
from ask.cli.run import notify_end
from ask.client.answers import find_requested_tier
from ask.client.cost import Cost
from ask.client.endpoint import report_plugin_output, report_retirement
from ask.client.prices import open_price_finder
from ask.client.run_costs import to_priced_model
from ask.config.options import RunOptions
from ask.config.settings import UNSET_OPTION
from ask.console import StderrConsole
from ask.errors import FileError, RowsFailedError, RunInterruptedError, UsageError
from ask.map.engine import Engine, Progress
from ask.map.job import (
    JobOptions,
    RowPrompt,
    RowTask,
    TaskResult,
    add_row_numbers,
    get_safe_option,
    identify_rows,
    prepare_job,
)
from ask.map.ledger import Ledger
from ask.map.output import (
    ALL,
    OUTPUT_SUFFIXES,
    ColumnNames,
    RowWriter,
    StdoutWriter,
    has_rows,
    make_unique_name,
)
from ask.map.rate_limit import MAX_CONCURRENCY, RateLimiter
from ask.map.rows import (
    STDIN,
    InputFormat,
    Row,
    check_inputs,
    detect_encodings,
    estimate_row_count,
    find_equivalent_input,
    read_in_background,
    read_rows,
    read_until_error,
    select_inputs,
)
from ask.map.shards import ROW_NUMBER, InputTracker, parse_shard
from ask.map.sqlite_table import SqliteTable
from ask.map.writers import is_input, is_table, is_text_table, open_writer
from ask.messages import Usage
from ask.parsing import BATCH_TIER, DECISIONS_TIER
from ask.render.amounts import format_cache_use, format_count, format_dollars, format_duration
from ask.render.progress_bar import ProgressBar
from ask.text import decode_argument, format_age, format_one_line

if TYPE_CHECKING:
    from ask.cli.map_report import ReportFile
    from ask.map.agent_runner import AgentOptions

MAX_OPEN_FILES = 10_240
"""The highest limit that macOS accepts (OPEN_MAX)."""
SAMPLE_SEED = 0
"""A fixed seed, so that the same sample is drawn each time."""
TOOL_OPTIONS = {
    name: f"--{name.replace('_', '-')}" for name in ("safe", "safe_files", "context", "workdir_template", "max_rounds")
}
"""The options that have an effect only with `--tools`, by parameter name."""
CONTINUE_HINT = "run the same command again to continue"


class MapJobRunner:
    """Prepares and runs the job that a command line describes.

    `flags` are the options by parameter name.

    Raises:
        AskError: an option, the configuration or an input is invalid.
    """

    def __init__(self, flags: Mapping[str, Any], app: AppContext) -> None:
        self.flags = flags
        self.app = app
        prompt, paths = _parse_arguments(flags)
        _check_flags(flags)
        first_url, *other_urls = flags["base_url"] or (None,)
        run_options = create_run_options(
            flags,
            base_url=first_url,
            other_base_urls=tuple(other_urls),
            no_tools=True,  # rows with tools run in processes of their own
        )
        options = JobOptions(
            run=run_options,
            prompt=prompt,
            models=flags["models"],
            output=flags["output"],
            with_tools=flags["with_tools"],
            context=flags["context"],
            directory_template=flags["workdir_template"],
            shard=parse_shard(flags["shard"], app.environment) if flags["shard"] else None,
        )
        self.job = prepare_job(options, app)
        output, self._output_name = self.job.output, flags["output"]
        if self.job.shard and output:
            self._output_name = str(self.job.shard.name_file(Path(flags["output"])))
        if flags["csv_safe"] and not is_text_table(output):
            raise UsageError("--csv-safe is for CSV and TSV", "write to a file with -O NAME.csv or -O NAME.tsv")
        if output and is_input(output, paths):
            raise UsageError(f"{output} is an input", "write the output to another file")
        input_format: InputFormat | None = (
            "nul" if flags["is_null_separated"] else "files" if flags["rows_are_files"] else flags["input_format"]
        )
        self.ledger = app.cleanup.enter_context(Ledger(locate_ledger(flags, app, self.job)))
        self._report: ReportFile | None = None
        self._report_name: str | None = flags["report"]
        if self._report_name is not None:
            from ask.cli.map_report import ReportFile, name_report

            self._report_name = name_report(self._report_name, self.job.shard)
            self._report = ReportFile(self._report_name, self.job, paths, self.ledger.file)
        self._review = ReviewFile(flags, self.job, paths, self.ledger, self._report_name) if flags["review"] else None
        self._notices: set[str] = set()
        uses_path, encoding, delimiter = self.job.prompt.uses_path, flags["encoding"] or "", flags["delimiter"] or ""
        rows_are_files = uses_path or flags["template"] is not None
        inputs = select_inputs(
            paths,
            input_format,
            encoding,
            delimiter,
            rows_are_files=rows_are_files,
            uses_path=uses_path,
            sheet=flags["sheet"],
        )
        self.inputs = detect_encodings(inputs, self._notify_once)
        self._models = [to_priced_model(app, request.endpoint) for request in self.job.requests]
        self._cost = Cost()
        self.reads_pipe = any(source.path == STDIN or Path(source.path).is_fifo() for source in self.inputs)

    def run(self) -> None:
        """Run the job.

        Raises:
            AskError: what stopped it, or that rows failed.
        """
        enable_garbage_collection()
        raise_open_files_limit()
        flags, job, ledger = self.flags, self.job, self.ledger
        reread_rows: Callable[[], Iterator[Row]] = self._read_rows
        if flags["batch"] and self.reads_pipe:
            reread_rows = partial(iter, list(self._read_rows()))  # a pipe can be read only once
        first_row, rows = _peek_row(reread_rows(), job.prompt)
        if not first_row.error:
            job.prompt.check(first_row)
        rows = self._select_shard(rows)
        if flags["dry_run"]:
            self._print_estimate(rows)
            return
        check_batch_flags(flags, job, ledger)
        for request in job.requests:
            report_retirement(request.endpoint, self.app, self.app.notify)
        self.app.cleanup.enter_context(lock_job(job, ledger))
        self._check_output_owner()
        if flags["fresh"]:
            ledger.forget_answers(job.id)
        prompt = job.requests[0].secrets.redact(job.prompt.text)
        ledger.begin_job(job.id, prompt, ", ".join(job.models), str(job.output or ""))
        start, finished_earlier = time.monotonic(), None
        if flags["batch"]:
            finished_earlier = run_batches(
                flags,
                job,
                ledger,
                lambda: self._select_shard(reread_rows()),
                lambda usage: self._calculate_cost(0, [usage]),
            )
            if finished_earlier is None:
                return
            ledger.restart_rows()
            rows = self._select_shard(reread_rows())
        is_announced = finished_earlier is None and self.app.console.is_terminal
        if is_announced:
            self._announce_earlier_answers()
        engine = self._run_engine(rows, first_row)
        if finished_earlier is not None:
            engine.progress.resumed = finished_earlier
        self.app.console.show_status("")
        self._summarize(engine, time.monotonic() - start, is_announced=is_announced)
        self._finish(engine)

    def _summarize(self, engine: Engine, seconds: float, *, is_announced: bool) -> None:
        """Print the result of the run, and write the report; `is_announced` if --fresh was mentioned before."""
        output = self._output_name if engine.is_published else None
        if output and self.job.shard:
            shard_input = self._tracker.describe(self.job.shared_id, engine.progress.failed)
            self.ledger.save_shard_input(self.job.id, shard_input)
        cost = self._describe_cost(engine.progress)
        if self._report:
            try:
                self._report.write(engine.progress, cost, seconds, engine.stop_error)
            except FileError as error:
                engine.stop(error)
        summary = _format_summary(engine.progress, cost, seconds, output, is_announced=is_announced)
        self.app.console.print_notice(summary)
        notify_end(self.app, self.job.requests[0].settings, engine.stop_error)

    def _finish(self, engine: Engine) -> None:
        """Raise the error of a job that has ended, if there is one."""
        if (stop_error := engine.stop_error) is not None:
            stop_error.hint = "; ".join(filter(None, (stop_error.hint, CONTINUE_HINT)))
            raise stop_error
        if not self.job.requests[0].settings.save:
            self.ledger.forget_answers(self.job.id)
        if engine.progress.failed:
            failed, unavailable = engine.progress.failed, engine.progress.unavailable
            hints = ["the same command sends them again"] if failed == unavailable else []
            if not hints:
                hints = [f"the same command sends {unavailable} of them again"] if unavailable else []
                hints.append("--retry-failed sends failed rows again")
            count = f"{format_count(failed, 'row')} failed ({'; '.join(hints)})"
            raise RowsFailedError(f"{count}; first error: {engine.first_row_error}")

    def _notify_once(self, text: str) -> None:
        """Print a notice about an input, which may be read several times."""
        if text not in self._notices:
            self._notices.add(text)
            self.app.console.print_notice(text)

    def _read_rows(self) -> Iterator[Row]:
        """Read the rows to use, from the first one."""
        rows = itertools.islice(read_rows(self.inputs, self._notify_once), self.flags["limit"])
        return iter(_draw_sample(rows, self.flags["sample"])) if self.flags["sample"] else rows

    def _select_shard(self, rows: Iterator[Row]) -> Iterator[Row]:
        if not self.job.shard:
            return rows
        self._tracker = InputTracker()
        return self.job.shard.select(self._tracker.track(rows))

    def _run_engine(self, rows: Iterator[Row], first_row: Row) -> Engine:
        """Send the rows; return the engine."""
        job, schema = self.job, self.job.requests[0].response_schema
        agent_options = self._make_agent_options() if self.flags["with_tools"] else None
        has_patch = agent_options is not None and agent_options.directory_template is not None
        number_column = make_unique_name(ROW_NUMBER, first_row.columns)
        added = (number_column,) if job.shard else ()
        chosen = self.flags["columns"]
        names = ColumnNames(
            (*added, *first_row.columns),  # of the input, so that all shards have the same columns
            schema.value if schema else None,
            has_patch=has_patch,
            has_citations=bool(self.flags["server_tools"]),
            is_table=is_table(job.output),
            ignores_case=isinstance(job.output, SqliteTable)
            or (self._review is not None and self._review.ignores_case),
            chosen=chosen if chosen in (None, (ALL,)) else (*added, *chosen),
        )
        if job.output:
            writer: RowWriter = open_writer(
                job.output, names, job.id, first_row, escape_formulas=self.flags["csv_safe"]
            )
        else:
            writer = StdoutWriter(names, partial(self.app.console.show_status, ""))
        self.app.cleanup.callback(writer.close)
        if self._review:
            writer = self._review.add_to(writer, first_row)
            self.app.cleanup.callback(writer.close)
        endpoints = [request.endpoint for request in job.requests]
        # Also of the processes that the runner starts.
        self.app.cleanup.enter_context(report_plugin_output(endpoints, self.app.notify))
        answer_task, max_concurrency = self._choose_runner(agent_options)
        flags = self.flags
        engine = Engine(
            job,
            self.ledger,
            RateLimiter(flags["jobs"], flags["rpm"], flags["tpm"], max_concurrency),
            writer,
            answer_task=answer_task,
            calculate_cost=self._calculate_cost,
            ordered=not flags["unordered"],
            retry_failed=flags["retry_failed"] and not flags["batch"],
            max_failures=flags["max_failures"],
            max_wait=flags["wait"],
            on_pause=self._announce_pause,
            on_resume=self._announce_resumption,
            on_result=self._report.add if self._report else None,
        )
        available_rows = read_in_background(rows) if self.reads_pipe else rows
        with _stop_on_interrupt(engine, self.app.console):
            tasks = identify_rows(job, self.ledger, read_until_error(available_rows, engine.stop_after_input))
            if job.shard:
                tasks = add_row_numbers(job.shard, tasks, number_column, len(job.requests))
            engine.run(tasks, self._open_progress_bar())
        if names.left_out:
            columns = ", ".join(map(format_one_line, sorted(names.left_out)))
            self.app.console.print_notice(f"the output leaves out columns that the first row does not have: {columns}")
        return engine

    def _announce_pause(self, reason: str) -> None:
        """Print that the job waits for the service."""
        limit = format_duration(self.flags["wait"])
        self.app.console.print_notice(f"{reason}; trying again for up to {limit} (--wait)")

    def _announce_resumption(self, seconds: float) -> None:
        """Print that the service answers again."""
        self.app.console.print_notice(f"rows are answered again after {format_duration(seconds)}")

    def _calculate_cost(self, model_number: int, usages: Sequence[Usage]) -> float | None:
        """Return the cost of requests to one of the models, as far as it is known, and add it to that of this run."""
        cost = self.app.share(open_price_finder).calculate_cost(self._models[model_number], usages)
        self._cost += cost
        return cost.dollars

    def _describe_cost(self, progress: Progress) -> str:
        """Format the cost of the job; "" if it is unknown or 0.

        Estimates are not known as such if they come from the ledger or from rows with tools.
        """
        reports_cost = all(request.endpoint.provider.info.reports_cost for request in self.job.requests)
        is_marked = not progress.resumed and not self.flags["with_tools"]
        is_estimated = self._cost.is_estimated or not (is_marked or reports_cost)
        at_least = "" if self._cost.is_complete else "at least "
        return f"{at_least}{'~' if is_estimated else ''}{format_dollars(progress.cost)}" if progress.cost else ""

    def _choose_runner(self, agent_options: AgentOptions | None) -> tuple[Callable[[RowTask], TaskResult], int]:
        """Return the function that answers rows, in several threads, and the limit for concurrent rows.

        `agent_options` are those of rows with tools.
        """
        job, app = self.job, self.app
        if self.flags["batch"]:
            return refuse_row, MAX_CONCURRENCY
        if self.flags["engine"] is not None:
            from ask.map.cluster import open_cluster

            cluster = open_cluster(self.flags["engine"], job, agent_options, self.flags["base_url"])
            return cluster.run, min(cluster.thread_count, MAX_CONCURRENCY)
        if agent_options is None:
            from ask.map.row_runner import RowRunner

            return RowRunner(job.requests, job.system_prompts, app).run, MAX_CONCURRENCY
        from ask.map.agent_runner import MAX_CONCURRENT_PROCESSES, AgentRunner

        runner = AgentRunner(job.requests, agent_options)
        self.app.cleanup.callback(runner.stop)
        return runner.run, MAX_CONCURRENT_PROCESSES

    def _open_progress_bar(self) -> Callable[[Progress], None]:
        """Return a function that shows the progress of the job, if standard error is a terminal."""
        if not self.app.console.is_terminal:
            return lambda _: None
        count = estimate_row_count(self.inputs)
        limits = [limit for limit in (count, self.flags["limit"], self.flags["sample"]) if limit is not None]
        rows = min(limits, default=0)
        total = self.job.shard.count_rows(rows) if self.job.shard else rows
        return ProgressBar(self.app.console, None if count is None else total * len(self.job.requests)).show

    def _print_estimate(self, rows: Iterator[Row]) -> None:
        """Print how many rows would be sent and what they would cost."""
        requests = self.job.requests
        overheads = [estimate_text_tokens(prompt) for prompt in self.job.system_prompts]
        tiers = [BATCH_TIER if self.flags["batch"] else _find_tier(request) for request in requests]
        calculate_cost = self.app.share(open_price_finder).calculate_cost
        cost = calculate_cost(self._models[0], [Usage(0, 0, service_tier=tiers[0])])
        count = invalid = finished = tokens = 0
        for task in filter(None, identify_rows(self.job, self.ledger, rows)):
            if not task.can_be_sent:
                invalid += 1
            elif task.stored_result and task.stored_result.is_final(retry_failed=self.flags["retry_failed"]):
                finished += 1
            else:
                count += 1
                row_tokens = overheads[task.model_number] + estimate_text_tokens(task.message.content)
                tokens += row_tokens
                usage = Usage(row_tokens, 0, service_tier=tiers[task.model_number])
                cost += calculate_cost(self._models[task.model_number], [usage])
        minimum = "" if cost.is_complete else "at least "
        price = (
            "price unknown" if cost.dollars is None else f"{minimum}{format_dollars(cost.dollars)} for the input alone"
        )
        parts = [format_count(count, "row"), f"about {tokens:,} input tokens", price]
        if finished:
            parts.append(f"{format_count(finished, 'row')} finished before")
        if invalid:
            parts.append(f"{format_count(invalid, 'row')} cannot be sent")
        self.app.console.print_notice(f"{', '.join(parts)}; nothing was sent")

    def _check_output_owner(self) -> None:
        """Refuse to replace an output that this job did not write. With --fresh, only tables are protected.

        Raises:
            UsageError: the output is another job's, or not one of `ask map`.
        """
        if self._review:
            self._review.check_owner()
        output = self.job.output
        if output is None or not has_rows(output):
            return
        owner = self.ledger.find_job_with_output(str(output))
        if owner is None and isinstance(output, SqliteTable):
            raise UsageError(f"{output} is not from ask map", "use another table, or drop this one first")
        if owner != self.job.id and not self.flags["fresh"]:
            whose = "of a job with another prompt, model or option" if owner else "not from this job"
            hint = "use another -O, or --fresh to replace the file and start over"
            raise UsageError(f"{output} has rows that are {whose}", hint)

    def _make_agent_options(self) -> AgentOptions:
        """Return how rows with tools run.

        Raises:
            UsageError: there is no folder to copy.
        """
        from ask.map.agent_runner import AgentOptions

        flags, request = self.flags, self.job.requests[0]
        safe_option = get_safe_option(request.settings)
        schema = request.response_schema
        parameters, configured = request.settings.options, self.app.config.options
        record = request.settings.record
        # The others are read from config.toml, too, so that a model that refuses one goes on without it.
        parameter_options = [
            f"{name}={json.dumps(value)}"
            for name, value in parameters.items()
            if name in request.settings.given_options or configured.get(name) != value
        ]
        parameter_options += [f"{name}={UNSET_OPTION}" for name in configured.keys() - parameters.keys()]
        options = RunOptions(
            system=request.extra_system_prompt or None,
            options=tuple(parameter_options),
            schema=schema.text if schema else None,
            max_rounds=flags["max_rounds"],
            timeout=flags["timeout"],
            server_tools=flags["server_tools"],
            context=flags["context"],
            no_context=not flags["context"],
            safe=safe_option == "--safe",
            safe_files=safe_option == "--safe-files",
            fallback=("",),  # the columns of a row name one model
            as_json=True,
            no_save=True,
            no_stdin=True,
            record=str(Path(record).absolute()) if record else None,  # rows run in other folders
            is_row=True,
        )
        # Safe rows always run in a copy, because rows that run at the same time must not share files.
        template = flags["workdir_template"] or ("." if safe_option else None)
        folder = Path(template).absolute() if template else None
        if folder and not folder.is_dir():
            raise UsageError(f"there is no folder {folder}", "name an existing one with --workdir-template")
        left_out = list_own_files(self.job, self.ledger, self._report_name)
        return AgentOptions(folder, options, left_out)

    def _announce_earlier_answers(self) -> None:
        """Print how many rows were answered in earlier runs."""
        count, newest = self.ledger.count_answers(self.job.id)
        if count:
            age = format_age(newest, time.time())
            when = "just now" if age == "now" else f"{age} ago"
            self.app.console.print_notice(f"{format_count(count, 'row')} answered earlier ({when}); --fresh asks again")


def raise_open_files_limit() -> None:
    """Allow a connection for each concurrent request, where the default is low: 256 on macOS."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def _find_tier(request: RunRequest) -> str | None:
    """Return the service tier that decides the price of a request; None for the service's default."""
    if request.questions and request.endpoint.provider.get_decision_api(request.endpoint.model):
        return DECISIONS_TIER
    return find_requested_tier(request.settings.options)


def _draw_sample(rows: Iterator[Row], size: int) -> list[Row]:
    """Draw a random sample of the rows, in their order, without keeping all of them in memory."""
    generator = random.Random(SAMPLE_SEED)  # noqa: S311 - not used for cryptography
    # Those with the smallest of the random numbers that each row gets.
    sample = heapq.nsmallest(size, enumerate(rows), key=lambda _: generator.random())
    return [row for _, row in sorted(sample)]


MAX_OTHER_ROWS = 10
"""How many rows without a column of the prompt may come before the first that has it."""


def _peek_row(rows: Iterator[Row], prompt: RowPrompt) -> tuple[Row, Iterator[Row]]:
    """Return the first row that has the columns of the prompt, and all rows.

    Without such a row among the first ones, return the first that is valid, or the last of many that are not.

    Raises:
        UsageError: there are no rows.
    """
    read: list[Row] = []
    valid: list[Row] = []
    for row in itertools.islice(rows, 1000):  # a file of another format has only invalid rows, in any number
        read.append(row)
        if row.error:
            continue
        if prompt.has_columns(row):
            return row, itertools.chain(read, rows)
        valid.append(row)
        if len(valid) == MAX_OTHER_ROWS:
            break
    if not read:
        raise UsageError("the input has no rows")
    return next(iter(valid), read[-1]), itertools.chain(read, rows)


@contextmanager
def _stop_on_interrupt(engine: Engine, console: StderrConsole) -> Iterator[None]:
    """Handle Ctrl-C: the first one lets the requests in flight finish, the second one ends the process."""
    count = 0

    def handle(signal_number: int, frame: FrameType | None) -> None:
        nonlocal count
        count += 1
        if count > 1:
            signal.default_int_handler(signal_number, frame)
        in_flight = engine.progress.in_flight
        pending = f"waiting for {format_count(in_flight, 'answer')}" if in_flight else "stopping after this row"
        console.print_notice(f"{pending}; Ctrl-C again stops now")
        engine.stop(RunInterruptedError("interrupted"))

    previous = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


def _format_summary(progress: Progress, cost: str, seconds: float, output: str | None, *, is_announced: bool) -> str:
    """Describe the result of a run on one line; `is_announced` if --fresh was mentioned before."""
    hint = "" if is_announced else "; --fresh asks again"
    parts = [f"{format_count(progress.answered, 'row')} answered"]
    if progress.failed:
        parts.append(f"{progress.failed:,} failed")
    if progress.resumed:
        total = f" of {progress.answered + progress.failed:,}" if progress.failed else ""
        parts[-1] += f" ({progress.resumed:,}{total} earlier{hint})"
    if progress.refused:
        parts.append(f"{progress.refused:,} with refused questions")
    if cached := format_cache_use(progress.usage):
        parts.append(f"{progress.usage.input_tokens or 0:,} tokens in{cached}")
    if cost:
        parts.append(cost)
    parts.append(format_duration(seconds))
    if output:
        parts.append(f"written to {output}")
    return ", ".join(parts)


def _parse_arguments(flags: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Return the prompt, "" if it is that of a template, and the paths of the inputs.

    Raises:
        UsageError: there is no prompt or no input.
        FileError: an input cannot be read.
    """
    has_template = flags["template"] is not None
    if not has_template and not flags["arguments"]:
        raise UsageError("no prompt given", 'try: ask map "Language of this text: {{text}}" tickets.jsonl')
    prompt, *arguments = ("", *flags["arguments"]) if has_template else flags["arguments"]
    if not has_template and os.path.isfile(prompt):  # Path.is_file() raises an exception for a long prompt
        hint = f'put the prompt before it, such as: ask map "Language of this text: {{{{text}}}}" {prompt}'
        raise UsageError(f"{prompt} was taken as the prompt", hint)
    paths = [find_equivalent_input(path) for path in arguments]
    check_inputs(paths)
    return decode_argument(prompt), paths


def _check_flags(flags: Mapping[str, Any]) -> None:
    """Check that the options go together.

    Raises:
        UsageError: they do not.
    """
    for option in flags["options"]:
        if option.endswith(OUTPUT_SUFFIXES) and "=" not in option:
            raise UsageError("-o sets a model parameter", f"to write the output to a file, use -O {option}")
    if flags["engine"] is not None and flags["key"]:
        raise UsageError("--key does not work with --engine", "set the key in the environment of the workers")
    check_shard_flags(flags)
    without_tools = [name for name in TOOL_OPTIONS if flags[name] and not flags["with_tools"]]
    if without_tools:
        raise UsageError(f"{TOOL_OPTIONS[without_tools[0]]} needs --tools", "add --tools")
    if flags["decide"] and flags["with_tools"]:
        raise UsageError("--decide and --tools cannot be combined", "leave out one of them")
