"""Runs the job that a command line of `ask map` describes."""

from __future__ import annotations

import glob
import itertools
import json
import resource
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from ask.agent.context_window import estimate_text_tokens
from ask.agent.request import RunRequest
from ask.agent.run import enable_garbage_collection
from ask.app import AppContext
from ask.cli.ask import create_run_options
from ask.cli.map_arguments import check_flags, parse_arguments
from ask.cli.map_batch import check_batch_flags, refuse_row, run_batches
from ask.cli.map_review import ReviewFile
from ask.cli.map_shards import list_own_files, locate_ledger, lock_job
from ask.cli.map_summary import format_savings, format_summary
from ask.cli.run import notify_end
from ask.client.answers import find_requested_tier
from ask.client.cost import Cost
from ask.client.endpoint import report_plugin_output, report_retirement
from ask.client.prices import open_price_finder
from ask.client.run_costs import to_priced_model
from ask.config.directories import get_logical_path
from ask.config.foreign_links import check_input
from ask.config.options import RunOptions
from ask.config.settings import UNSET_OPTION
from ask.console import StderrConsole
from ask.errors import FileError, RowsFailedError, RunInterruptedError, UsageError
from ask.history.daily_cost import DailyCostLimit
from ask.map.cost_limits import CostLimits
from ask.map.deduplication import find_original, is_sampling
from ask.map.engine import Engine, Progress
from ask.map.input_rows import (
    InputFormat,
    Row,
    detect_encodings,
    estimate_row_count,
    find_input_file,
    read_in_background,
    read_rows,
    read_until_error,
    select_inputs,
)
from ask.map.input_streams import STDIN
from ask.map.job import (
    JobOptions,
    RowTask,
    TaskResult,
    add_row_numbers,
    get_safe_option,
    identify_rows,
    prepare_job,
)
from ask.map.ledger import FAILED, UNAVAILABLE, Ledger, RowResult, Status
from ask.map.output import ALL, ColumnNames, RowWriter, StdoutWriter, make_unique_name
from ask.map.output_target import check_distinct, has_rows, is_table, is_text_table, open_writer
from ask.map.rate_limit import MAX_CONCURRENCY, RateLimiter
from ask.map.row_sample import draw_sample, peek_row
from ask.map.shards import ROW_NUMBER, InputTracker, name_file, parse_shard
from ask.map.sqlite_table import SqliteTable
from ask.messages import Usage
from ask.parsing import BATCH_TIER, DECISIONS_TIER
from ask.render.amounts import format_count, format_dollars
from ask.render.progress_bar import ProgressBar
from ask.schemas.decision_questions import build_answer_schema
from ask.text import format_age, format_duration, format_one_line, join_names

if TYPE_CHECKING:
    from ask.cli.map_report import ReportFile
    from ask.map.rows_with_tools import AgentOptions
    from ask.map.scores import JobScores

MAX_OPEN_FILES = 10_240
"""The highest limit that macOS accepts (OPEN_MAX)."""
RESERVED_FILES = 40
"""How many open files are not those of rows in flight: the ledger, inputs, outputs and modules."""
FILES_PER_PROCESS = 8
"""How many files a row with tools opens; another one has a connection."""
MIN_CACHED_TOKENS = 1_024
"""Services cache a common beginning of prompts from about this length on:
https://developers.openai.com/api/docs/guides/prompt-caching"""
MIN_CACHED_ROWS = 10
"""With fewer rows, caches save next to nothing."""
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
        prompt, paths = parse_arguments(flags)
        for path in filter(None, map(find_input_file, paths)):
            check_input(path, app.app_dirs)
        check_flags(flags)
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
        output = self.job.output
        self._output_name = flags["output"] and name_file(flags["output"], self.job.shard)
        if flags["csv_safe"] and not is_text_table(output):
            raise UsageError("--csv-safe is for CSV and TSV", "write to a file with -O NAME.csv or -O NAME.tsv")
        ledger_file = locate_ledger(flags, app, self.job)
        if output:
            # In a database, the ledger's tables and one with the output are next to each other.
            is_file = isinstance(output, Path)
            check_distinct(output, str(output), paths, {ledger_file: "the ledger"} if is_file else {}, "the output")
        input_format: InputFormat | None = (
            "nul" if flags["is_null_separated"] else "files" if flags["rows_are_files"] else flags["input_format"]
        )
        self.ledger = app.cleanup.enter_context(Ledger(ledger_file))
        self._has_own_ledger = self.ledger.file != app.app_dirs.ledger_file
        self._prepare_report_and_scores(paths)
        self._review = ReviewFile(flags, self.job, paths, self.ledger, self._report_name) if flags["review"] else None
        self._notify_once: Callable[[str], None] = cache(app.console.print_notice)  # an input may be read again
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
        self._cost, self._cache_savings = Cost(), 0.0
        samples = flags["with_tools"] or is_sampling(self.job.requests[0].settings.options)
        self._shares_answers = not (flags["no_dedupe"] or samples)
        self.reads_pipe = any(source.path == STDIN or Path(source.path).is_fifo() for source in self.inputs)

    def _prepare_report_and_scores(self, paths: Sequence[str]) -> None:
        """Prepare what is collected from finished rows; `paths` are those of the inputs."""
        self._report: ReportFile | None = None
        self._report_name: str | None = self.flags["report"]
        if self._report_name is not None:
            from ask.cli.map_report import ReportFile

            self._report = ReportFile(self._report_name, self.job, paths, self.ledger.file)
            self._report_name = self._report.path
        self._scores: JobScores | None = None
        if self.flags["score"]:
            from ask.cli.map_score import prepare_scores

            self.job, self._scores = prepare_scores(self.flags["score"], self.job)

    @property
    def _is_deferred(self) -> bool:
        """Whether the rows are submitted, and answered later."""
        return bool(self.flags["batch"] or self.flags["completion_window"])

    def run(self) -> None:
        """Run the job.

        Raises:
            AskError: what stopped it, or that rows failed.
        """
        enable_garbage_collection()
        raise_open_files_limit()
        flags, job, ledger = self.flags, self.job, self.ledger
        reread_rows: Callable[[], Iterator[Row]] = self._read_rows
        if self._is_deferred and self.reads_pipe:
            reread_rows = partial(iter, list(self._read_rows()))  # a pipe can be read only once
        first_row, rows = peek_row(reread_rows(), job.prompt)
        if not first_row.error:
            job.prompt.check(first_row)
        rows = self._select_shard(rows)
        if flags["dry_run"]:
            self._print_estimate(rows)
            return
        check_batch_flags(flags, job, ledger)
        daily_limit = self._open_daily_limit()
        for request in job.requests:
            report_retirement(request.endpoint, self.app, self.app.notify)
        self.app.cleanup.enter_context(lock_job(job, ledger))
        owner = self._check_output_owner()
        if flags["fresh"]:
            ledger.forget_answers(job.id)
        prompt = job.requests[0].secrets.redact(job.prompt.text)
        ledger.begin_job(job.id, prompt, ", ".join(job.models), str(job.output or ""))
        start, finished_earlier = time.monotonic(), None
        if self._is_deferred:
            finished_earlier = self._run_batches(reread_rows, daily_limit)
            if finished_earlier is None:
                return
            ledger.restart_rows()
            rows = self._select_shard(reread_rows())
        is_announced = finished_earlier is None and self.app.console.is_terminal
        if is_announced:
            self._announce_earlier_answers()
        self._announce_uncached_text()
        engine = self._run_engine(rows, first_row, daily_limit, owner)
        if finished_earlier is not None:
            engine.progress.resumed = finished_earlier
        self.app.console.show_status("")
        self._summarize(engine, time.monotonic() - start, is_announced=is_announced)
        self._finish(engine)

    def _run_batches(self, reread_rows: Callable[[], Iterator[Row]], daily_limit: DailyCostLimit | None) -> int | None:
        """Submit the rows and collect the answers, as `run_batches` does; save what they have cost for the day."""
        try:
            return run_batches(
                self.flags,
                self.job,
                self.ledger,
                lambda: self._select_shard(reread_rows()),
                lambda usage: self._calculate_cost(0, [usage]),
                shares_answers=self._shares_answers,
            )
        finally:
            if daily_limit and self._has_own_ledger:
                daily_limit.add_unsaved_cost(self._cost.dollars or 0.0)

    def _summarize(self, engine: Engine, seconds: float, *, is_announced: bool) -> None:
        """Print the result of the run, and write the report; `is_announced` if --fresh was mentioned before."""
        output = self._output_name if engine.is_published else None
        if output and self.job.shard:
            shard_input = self._tracker.describe(self.job.shared_id, engine.progress.failed)
            self.ledger.save_shard_input(self.job.id, shard_input)
        cost = self._describe_cost(engine.progress)
        if self._report:
            try:
                self._report.write(engine.progress, cost, seconds, engine.stop_error, self._scores)
            except FileError as error:
                engine.stop(error)
        savings = format_savings(self._cache_savings, engine.progress)
        summary = format_summary(engine.progress, cost, seconds, output, savings, is_announced=is_announced)
        self.app.console.print_notice(summary)
        if self._review and engine.is_published:
            self.app.console.print_notice(self._review.describe())
        if self._scores:
            from ask.cli.map_score import print_scores

            scores = self._scores
            print_scores(scores.list_scores(), scores.compare_models(), self.app.console, "--report FILE")
        notify_end(self.app, self.job.requests[0].settings, engine.stop_error)

    def _finish(self, engine: Engine) -> None:
        """Raise the error of a job that has ended, if there is one."""
        if (stop_error := engine.stop_error) is not None:
            if engine.progress.answered or engine.progress.failed:
                stop_error.hint = "; ".join(filter(None, (stop_error.hint, CONTINUE_HINT)))
            raise stop_error
        if not self.job.requests[0].settings.save:
            self.ledger.forget_answers(self.job.id)
        if engine.progress.failed:
            failed, unavailable = engine.progress.failed, engine.progress.unavailable
            hints = []
            if unavailable:
                rows = f"{unavailable} of them" if unavailable < failed else "it" if failed == 1 else "them"
                hints.append(f"the same command sends {rows} again")
            if unavailable < failed:
                hints.append("--retry-failed sends failed rows again")
            count = f"{format_count(failed, 'row')} failed ({'; '.join(hints)})"
            raise RowsFailedError(f"{count}; first error: {engine.first_row_error}")

    def _read_rows(self) -> Iterator[Row]:
        """Read the rows to use, from the first one."""
        rows = itertools.islice(read_rows(self.inputs, self._notify_once), self.flags["limit"])
        return iter(draw_sample(rows, self.flags["sample"])) if self.flags["sample"] else rows

    def _select_shard(self, rows: Iterator[Row]) -> Iterator[Row]:
        if not self.job.shard:
            return rows
        self._tracker = InputTracker()
        return self.job.shard.select(self._tracker.track(rows))

    def _open_daily_limit(self) -> DailyCostLimit | None:
        """Return the limit on the costs of a day; None without one.

        Raises:
            LimitReachedError: it is reached, and the rows would be sent all at once.
        """
        dollars = self.job.requests[0].settings.max_cost_per_day
        if dollars is None:
            return None
        # Read with the connection of the job, because others may not be able to read its ledger.
        sum_ledger = None if self._has_own_ledger else self.ledger.sum_costs
        daily_limit = DailyCostLimit(self.app, dollars, sum_ledger=sum_ledger)
        if self._is_deferred and not self.flags["cancel"] and (error := daily_limit.find_excess()):
            raise error
        return daily_limit

    def _run_engine(
        self, rows: Iterator[Row], first_row: Row, daily_limit: DailyCostLimit | None, output_owner: str | None
    ) -> Engine:
        """Send the rows; return the engine. Until the output is replaced, it stays that of the job that wrote it."""
        job = self.job
        if output_owner:
            self.ledger.touch_job(output_owner)
        agent_options = self._make_agent_options() if self.flags["with_tools"] else None
        has_patch = agent_options is not None and agent_options.directory_template is not None
        number_column = make_unique_name(ROW_NUMBER, first_row.columns)
        names = self._name_columns(first_row, (number_column,) if job.shard else (), has_patch=has_patch)
        writer = self._open_writer(names, first_row)
        endpoints = [request.endpoint for request in job.requests]
        # Also of the processes that the runner starts.
        self.app.cleanup.enter_context(report_plugin_output(endpoints, self.app.notify))
        answer_task, max_concurrency = self._choose_runner(agent_options)
        max_in_flight = _count_free_files() // (FILES_PER_PROCESS if agent_options else 1) or 1
        flags = self.flags
        engine = Engine(
            job,
            self.ledger,
            RateLimiter(
                flags["jobs"] and min(flags["jobs"], max_in_flight),
                flags["rpm"],
                flags["tpm"],
                min(max_concurrency, max_in_flight),
            ),
            writer,
            answer_task=answer_task,
            limits=CostLimits(
                job.requests[0].settings.max_cost,
                daily_limit,
                has_own_ledger=self._has_own_ledger,
            ),
            calculate_cost=self._calculate_cost,
            ordered=not flags["unordered"],
            retried_statuses=self._get_retried_statuses(),
            max_failures=flags["max_failures"],
            max_wait=flags["wait"],
            on_pause=self._announce_pause,
            on_resume=self._announce_resumption,
            on_result=self._add_result if self._report or self._scores else None,
            shares_answers=self._shares_answers,
        )
        available_rows = read_in_background(rows) if self.reads_pipe else rows
        with _stop_on_interrupt(engine, self.app.console):
            available_rows = read_until_error(available_rows, engine.stop_after_input)
            tasks = read_until_error(identify_rows(job, self.ledger, available_rows), engine.stop_after_input)
            if job.shard:
                tasks = add_row_numbers(job.shard, tasks, number_column, len(job.requests))
            engine.run(tasks, self._open_progress_bar())
        if names.left_out:
            columns = join_names(list(map(format_one_line, sorted(names.left_out))))
            self.app.console.print_notice(f"the output leaves out columns that the first row does not have: {columns}")
        return engine

    def _name_columns(self, first_row: Row, added: Sequence[str], *, has_patch: bool) -> ColumnNames:
        """Return the columns of the output: those that are added, those of the input and those of the answers.

        Raises:
            UsageError: there is no such column.
        """
        job, schema, chosen = self.job, self.job.requests[0].response_schema, self.flags["columns"]
        try:
            return ColumnNames(
                (*added, *first_row.columns),  # of the input, so that all shards have the same columns
                schema.value if schema else None,
                has_patch=has_patch,
                has_citations=bool(self.flags["server_tools"]),
                is_table=is_table(job.output),
                ignores_case=isinstance(job.output, SqliteTable)
                or (self._review is not None and self._review.ignores_case),
                chosen=chosen if chosen in (None, (ALL,)) else (*added, *chosen),
            )
        except UsageError as error:
            if first_row.error:  # no row can be read
                error.hint = f"{first_row.location}: {first_row.error}"
            raise

    def _open_writer(self, names: ColumnNames, first_row: Row) -> RowWriter:
        """Open the output, and the file of the rows to review."""
        job = self.job
        if job.output:
            writer: RowWriter = open_writer(
                *(job.output, names, job.id, first_row),
                notify=self.app.notify,
                escape_formulas=self.flags["csv_safe"],
            )
        else:
            writer = StdoutWriter(names, partial(self.app.console.show_status, ""))
        self.app.cleanup.callback(writer.close)
        if self._review:
            writer = self._review.add_to(writer, first_row)
            self.app.cleanup.callback(writer.close)
        return writer

    def _add_result(self, task: RowTask, result: RowResult) -> None:
        """Add a finished row to the report and to the scores."""
        if self._report:
            self._report.add(task, result)
        if self._scores:
            self._scores.add(task, result, self._report.make_excerpt if self._report else None)

    def _announce_uncached_text(self) -> None:
        """Print on a terminal how the prompt could be cached, if the row comes before a long text that all share."""
        if not self.app.console.is_terminal or self.reads_pipe:
            return
        name, text = self.job.prompt.find_text_after_row()
        tokens = estimate_text_tokens(text)
        count = estimate_row_count(self.inputs)
        if tokens >= MIN_CACHED_TOKENS and (count is None or count >= MIN_CACHED_ROWS):
            self.app.console.print_notice(
                f"the same {tokens:,} tokens follow {{{{{name}}}}} in each row, where no service caches them; "
                "move them before it to pay less"
            )

    def _announce_pause(self, reason: str) -> None:
        """Print that the job waits for the service."""
        limit = format_duration(self.flags["wait"])
        self.app.console.print_notice(f"{reason}; trying again for up to {limit} (--wait)")

    def _announce_resumption(self, seconds: float) -> None:
        """Print that the service answers again."""
        self.app.console.print_notice(f"rows are answered again after {format_duration(seconds)}")

    def _calculate_cost(self, model_number: int, usages: Sequence[Usage]) -> float | None:
        """Return the cost of requests to one of the models, as far as it is known, and add it to that of this run."""
        finder, model = self.app.share(open_price_finder), self._models[model_number]
        cost = finder.calculate_cost(model, usages)
        self._cost += cost
        cached = [usage for usage in usages if usage.cached_tokens or usage.cache_write_tokens]
        self._cache_savings += finder.calculate_cache_savings(model, cached) or 0.0
        return cost.dollars

    def _describe_cost(self, progress: Progress) -> str:
        """Format the cost of the job; "" if it is unknown or 0.

        Estimates are not known as such if they come from the ledger or from rows with tools.
        """
        reports_cost = all(request.endpoint.provider.info.reports_cost for request in self.job.requests)
        is_marked = not progress.resumed and not self.flags["with_tools"]
        is_estimated = self._cost.is_estimated or not (is_marked or reports_cost)
        at_least = "" if self._cost.is_complete else "at least "
        if self.flags["completion_window"]:
            at_least = "at most "  # the discount is unknown
        return f"{at_least}{'~' if is_estimated else ''}{format_dollars(progress.cost)}" if progress.cost else ""

    def _get_retried_statuses(self) -> tuple[Status, ...]:
        """Return the statuses of the rows of earlier runs that the engine sends again."""
        if self._is_deferred:
            return ()
        return (UNAVAILABLE, FAILED) if self.flags["retry_failed"] else (UNAVAILABLE,)

    def _choose_runner(self, agent_options: AgentOptions | None) -> tuple[Callable[[RowTask], TaskResult], int]:
        """Return the function that answers rows, in several threads, and the limit for concurrent rows.

        `agent_options` are those of rows with tools.
        """
        job, app = self.job, self.app
        if self._is_deferred:
            return refuse_row, MAX_CONCURRENCY
        if self.flags["engine"] is not None:
            from ask.map.cluster import open_cluster

            cluster = open_cluster(self.flags["engine"], job, agent_options, self.flags["base_url"])
            return cluster.run, min(cluster.thread_count, MAX_CONCURRENCY)
        if agent_options is None:
            from ask.map.rows_without_tools import RowRunner

            return RowRunner(job.requests, job.system_prompts, app).run, MAX_CONCURRENCY
        from ask.map.rows_with_tools import MAX_CONCURRENT_PROCESSES, AgentRunner

        runner = AgentRunner(job.requests, agent_options, notify=self.app.notify)
        self.app.cleanup.callback(runner.stop)
        return runner.run, MAX_CONCURRENT_PROCESSES

    def _open_progress_bar(self) -> Callable[[Progress], None]:
        """Return a function that shows the progress of the job."""
        if self.app.console.is_quiet:
            return lambda _: None
        count = estimate_row_count(self.inputs)
        limits = [limit for limit in (count, self.flags["limit"], self.flags["sample"]) if limit is not None]
        rows = min(limits, default=0)
        total = self.job.shard.count_rows(rows) if self.job.shard else rows
        return ProgressBar(self.app.console, None if count is None else total * len(self.job.requests)).show

    def _print_estimate(self, rows: Iterator[Row]) -> None:
        """Print how many rows would be sent and what they would cost."""
        requests = self.job.requests
        questions = _format_questions(requests[0])
        overheads = [estimate_text_tokens(prompt, questions) for prompt in self.job.system_prompts]
        window = self.flags["completion_window"]
        deferred_tier = window or (BATCH_TIER if self.flags["batch"] else None)
        tiers = [deferred_tier or _find_tier(request) for request in requests]
        calculate_cost = self.app.share(open_price_finder).calculate_cost
        cost = calculate_cost(self._models[0], [Usage(0, 0, service_tier=tiers[0])])
        count = invalid = finished = shared = tokens = 0
        for task in filter(None, identify_rows(self.job, self.ledger, rows)):
            if not task.can_be_sent:
                invalid += 1
            elif task.stored_result and task.stored_result.is_final(retry_failed=self.flags["retry_failed"]):
                finished += 1
            elif self._shares_answers and find_original(task, self.ledger) != task.key:
                shared += 1
            else:
                count += 1
                row_tokens = overheads[task.model_number] + estimate_text_tokens(task.message.content)
                tokens += row_tokens
                usage = Usage(row_tokens, 0, service_tier=tiers[task.model_number])
                cost += calculate_cost(self._models[task.model_number], [usage])
        minimum = "at most " if window else "" if cost.is_complete else "at least "
        price = (
            "price unknown" if cost.dollars is None else f"{minimum}{format_dollars(cost.dollars)} for the input alone"
        )
        parts = [format_count(count, "row"), f"about {tokens:,} input tokens", price]
        if shared:
            parts.append(f"{format_count(shared, 'row')} with the answer to an identical row")
        if finished:
            parts.append(f"{format_count(finished, 'row')} finished before")
        if invalid:
            parts.append(f"{format_count(invalid, 'row')} cannot be sent")
        self.app.console.print_notice(f"{', '.join(parts)}; nothing was sent")

    def _check_output_owner(self) -> str | None:
        """Return the job that wrote the output; None if there is none.

        An output that this job did not write is not replaced. With --fresh, only tables are protected.

        Raises:
            UsageError: the output is another job's, or not one of `ask map`.
        """
        if self._review:
            self._review.check_owner()
        output = self.job.output
        if output is None or not has_rows(output):
            return None
        owner = self.ledger.find_job_with_output(str(output))
        if owner is None and isinstance(output, SqliteTable):
            raise UsageError(f"{output} is not from ask map", "use another table, or drop this one first")
        if owner != self.job.id and not self.flags["fresh"]:
            problem = "has rows of a job with another prompt, model or option" if owner else "is not from this job"
            hint = "use another -O, or --fresh to replace the file and start over"
            raise UsageError(f"{output} {problem}", hint)
        return owner

    def _make_agent_options(self) -> AgentOptions:
        """Return how rows with tools run.

        Raises:
            UsageError: there is no folder to copy.
        """
        from ask.map.rows_with_tools import AgentOptions

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
        if template and safe_option:
            check_input(get_logical_path(Path.cwd(), self.app.environment) / template, self.app.app_dirs)
        left_out = list_own_files(self.job, self.ledger, self._report_name)
        if self._scores:
            files = filter(None, (find_input_file(source.path) for source in self.inputs))
            if folder:
                left_out += tuple(file.absolute().with_name(glob.escape(file.name)) for file in files)
            elif names := join_names(list(map(str, files)), 3):
                self.app.console.print_notice(f"with --tools, the model can read the labels in {names}")
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


def _count_free_files() -> int:
    """Return how many files rows may have open at the same time."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max((MAX_OPEN_FILES if limit == resource.RLIM_INFINITY else limit) - RESERVED_FILES, 1)


def _format_questions(request: RunRequest) -> str:
    """Return a text of about the same size as what a request contains for the questions of --decide; "" for none."""
    if not request.questions:
        return ""
    return json.dumps(build_answer_schema(request.questions))


def _find_tier(request: RunRequest) -> str | None:
    """Return the service tier that decides the price of a request; None for the service's default."""
    if request.questions and request.endpoint.provider.get_decision_api(request.endpoint.model):
        return DECISIONS_TIER
    return find_requested_tier(request.settings.options)


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
