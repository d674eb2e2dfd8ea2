"""`ask map`: one prompt over many rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from ask.atomic_files import convert_write_errors
from ask.cli.ask import (
    RARE_OPTIONS,
    AskOption,
    parse_dollars,
    parse_max_rounds,
    parse_seconds,
    select_options,
    split_models,
)
from ask.cli.click_helpers import Subcommand, parse_whole_number
from ask.cli.commands import ALL_HELP, PATH, SectionedCommand
from ask.cli.map_arguments import names_output
from ask.cli.map_job import MapJobRunner, raise_open_files_limit
from ask.cli.map_options import (
    parse_columns,
    parse_delimiter,
    parse_encoding,
    parse_engine,
    parse_failure_limit,
    parse_jobs,
    parse_rate,
    parse_threshold,
    parse_wait,
)
from ask.cli.map_shards import locate_ledger, run_merge
from ask.cli.run import open_session
from ask.client.prices import COMPLETION_WINDOWS
from ask.errors import UsageError
from ask.map.input_rows import INPUT_FORMATS
from ask.map.ledger import JobSummary, Ledger, read_jobs
from ask.render.amounts import format_since
from ask.render.table import write_table

OPTIONS = select_options(
    *("provider", "key", "system", "options", "effort", "variables", "server_tools", "decide"),
    *("plain", "quiet", "record", "max_cost_per_day"),
)

OPTION_GROUPS = {
    "Rows": (
        *("files", "input_format", "delimiter", "encoding", "is_null_separated", "sheet", "rows_are_files"),
        *("limit", "sample", "shard"),
    ),
    "Model": ("provider", "models", "effort", "options", "system", "template", "variables", "schema", "decide"),
    "Output": ("output", "columns", "unordered", "csv_safe", "review", "merge", "report", "score", "plain", "quiet"),
    "Speed and cost": (
        *("jobs", "rpm", "tpm", "max_cost", "max_cost_per_day", "max_failures"),
        *("timeout", "wait", "dry_run", "no_dedupe", "engine"),
    ),
    "Batch": ("batch", "completion_window", "detach", "cancel", "poll_interval"),
    "Tools": ("server_tools", "with_tools", "max_rounds", "workdir_template", "safe", "safe_files", "context"),
    "Jobs": ("retry_failed", "fresh", "no_save", "ledger", "list_jobs", "forget"),
}
"""The sections of options in the help, by their parameter names."""


class MapCommand(SectionedCommand, Subcommand):
    """The Click command `ask map`, whose help has sections of options."""

    sections = OPTION_GROUPS
    rare_options = RARE_OPTIONS

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if ALL_HELP not in ctx.meta:
            formatter.write_paragraph()
            formatter.write_text("ask map --help --all also shows what is rarely needed.")


@click.command("map", cls=MapCommand, params=OPTIONS)
@click.argument("arguments", metavar="PROMPT [INPUT]...", nargs=-1)
@click.option(
    "-O", "--output", metavar="FILE", type=PATH, help="Write a file or sqlite:FILE?table=T instead of JSONL to stdout."
)
@click.option("-m", "--model", "models", metavar="A,B", multiple=True, callback=split_models, help="Models to ask.")
@click.option(
    "--base-url", metavar="URL", multiple=True, help="Base URL of the provider; repeat to share the rows among several."
)
@click.option(
    "-f",
    "--file",
    "files",
    cls=AskOption,
    metavar="PATH",
    multiple=True,
    help="Attach a file to each row, such as {{path}}.",
)
@click.option("-t", "--template", metavar="NAME", help="Use this template as the prompt; all arguments are inputs.")
@click.option("--schema", metavar="S", help="Answer with JSON matching a schema; one column per field.")
@click.option("--input-format", type=click.Choice(INPUT_FORMATS), help="Format of the input (default: by file name).")
@click.option(
    "--delimiter", metavar="C", type=parse_delimiter, help="Character between the columns of CSV: ';' or tab."
)
@click.option("--encoding", metavar="NAME", type=parse_encoding, help="Encoding of the input, such as cp1252.")
@click.option(
    "-0", "--null", "is_null_separated", is_flag=True, help="Rows of text are separated by NUL, not newlines."
)
@click.option("--sheet", metavar="NAME", help="Read this sheet of an Excel workbook (default: the first).")
@click.option("--files", "rows_are_files", is_flag=True, help="Treat each INPUT file as one row, even a table.")
@click.option(
    "-j", "--jobs", metavar="N", type=parse_jobs, help="Send N requests at a time (auto: adapt to the service)."
)
@click.option("--rpm", metavar="N", type=parse_rate, help="Send at most N requests a minute.")
@click.option("--tpm", metavar="N", type=parse_rate, help="Use at most N tokens a minute.")
@click.option("--csv-safe", is_flag=True, help="Write cells such as =1+1 to CSV and TSV as text, not as formulas.")
@click.option(
    "--columns", metavar="NAMES", type=parse_columns, help="Write these columns (a,b), or all, with latency and tries."
)
@click.option(
    "--review",
    metavar="P FILE",
    type=click.Tuple([click.types.convert_type(parse_threshold), str]),
    help="With --decide: also write the rows with a probability below P to FILE.",
)
@click.option(
    "--report", metavar="FILE", type=PATH, help="Write an HTML report on the rows, failures and answers to FILE."
)
@click.option(
    "--score",
    metavar="COLUMN",
    multiple=True,
    help="Compare answers with this column of labels (or FIELD=COLUMN).",
)
@click.option("--unordered", is_flag=True, help="Write rows as they finish, not in the order of the input.")
@click.option("--limit", metavar="N", type=parse_whole_number(1), help="Read only the first N rows.")
@click.option(
    "--sample", metavar="N", type=parse_whole_number(1), help="Use a random but reproducible sample of N rows."
)
@click.option("--shard", metavar="I/N", help="Use every Nth row, from row I (auto: as Slurm or Kubernetes says).")
@click.option("--merge", metavar="FILE", type=PATH, help="Join the outputs of all shards (the arguments) in a file.")
@click.option("--dry-run", is_flag=True, help="Estimate rows, tokens and the price; send nothing.")
@click.option("--no-dedupe", is_flag=True, help="Send rows with identical prompts one by one, not once.")
@click.option("--retry-failed", is_flag=True, help="Send the failed rows of earlier runs again.")
@click.option("--fresh", is_flag=True, help="Start over: forget earlier answers and replace the output file.")
@click.option("--max-cost", metavar="USD", type=parse_dollars, help="Stop once the job has cost this many US dollars.")
@click.option("--max-failures", metavar="N", type=parse_failure_limit, help="Stop after N failed rows, or N%.")
@click.option("--tools", "with_tools", is_flag=True, help="Let the model run tools, in a process for each row.")
@click.option("--safe", is_flag=True, help="With --tools: confine each row to a working copy, without network.")
@click.option("--context", is_flag=True, help="With --tools: send the project's AGENTS.md and skills to each row.")
@click.option("--safe-files", is_flag=True, help="With --tools: like --safe, but without a sandbox or commands.")
@click.option(
    "--workdir-template", metavar="DIR", type=PATH, help="With --tools: run each row in a copy of this folder."
)
@click.option("--max-rounds", metavar="N", type=parse_max_rounds, help="With --tools: allow N tool rounds (10).")
@click.option(
    "--wait",
    metavar="TIME",
    default="30m",
    type=parse_wait,
    help="Wait this long if the service fails (30m; 0: stop).",
)
@click.option("--batch", is_flag=True, help="Use the provider's batch API: cheaper, answers within a day.")
@click.option(
    "--completion-window",
    metavar="TIME",
    type=click.Choice(COMPLETION_WINDOWS),
    help="Have OpenAI answer within 2h or 8h, at a discount.",
)
@click.option("--detach", is_flag=True, help="With --batch: submit and exit; run again to collect the answers.")
@click.option("--cancel", is_flag=True, help="With --batch: cancel the batch and keep its answers so far.")
@click.option("--poll-interval", metavar="S", type=parse_seconds, help="With --batch: check every S seconds (2 to 60).")
@click.option("--engine", metavar="dask[=ADDRESS]", type=parse_engine, help="Run the rows on a Dask cluster.")
@click.option("--timeout", metavar="S", type=parse_seconds, help="Give up on an answer after S seconds (300).")
@click.option("--no-save", is_flag=True, help="Delete the saved answers once the job is complete.")
@click.option("--ledger", metavar="FILE", type=PATH, help="Save the answers in this database, not in the data folder.")
@click.option("--list", "list_jobs", is_flag=True, help="List jobs.")
@click.option("--json", "as_json", is_flag=True, help="With --list, or --score of an output: print JSON.")
@click.option("--forget", metavar="ID", help="Delete a job and its answers; output files stay.")
def command(**flags: Any) -> None:
    """Ask one prompt about many rows: a JSON, CSV, Parquet, Excel or text file, an SQLite table, or many files.

    In the prompt, {{column}} is replaced with the value of that column, {{line}} with a line of text, and {{path}} with
    the name of a file. If a job is interrupted, the same command continues it.

    \b
    ask map "Language: {{text}}" tickets.jsonl -O languages.jsonl
    ask map --schema "score int" "{{review}}" reviews.csv -O scored.csv
    ask map -f {{path}} "Summarize this" contracts/*.pdf -O out.jsonl
    ask map --batch "Language: {{text}}" tickets.jsonl -O languages.jsonl
    """
    with open_session(quiet=flags["quiet"], plain=flags["plain"]) as app:
        scores_output = not (flags["merge"] or flags["list_jobs"] or flags["forget"]) and names_output(flags)
        if flags["as_json"] and not (flags["list_jobs"] or scores_output):
            raise UsageError("--json is only for --list and for --score of an output", "rows are JSON Lines without it")
        app.needs_keys = app.needs_keys and not flags["dry_run"]
        if flags["merge"]:
            raise_open_files_limit()
            run_merge(flags, app)
        elif flags["list_jobs"] or flags["forget"]:
            path = locate_ledger(flags, app)
            if flags["ledger"] and not path.exists():
                raise UsageError(f"there is no ledger {path}", "name the --ledger of a job")
            if flags["list_jobs"]:
                print_jobs(read_jobs(path), as_json=flags["as_json"])
            else:
                forget_job(app.cleanup.enter_context(Ledger(path)), flags["forget"])
        elif scores_output:
            from ask.cli.map_score import run_scoring

            run_scoring(flags, app)
        else:
            MapJobRunner(flags, app).run()


def forget_job(ledger: Ledger, job_id: str) -> None:
    """Delete a job that is not running."""
    if all(job.id != job_id for job in ledger.list_jobs()):
        raise UsageError(f"there is no job {job_id!r}", "ask map --list shows all jobs")
    with convert_write_errors(ledger.lock_file.path):
        ledger.lock_file.lock(job_id, UsageError(f"job {job_id} is running", "wait for it, or stop it"))
    ledger.forget_job(job_id)


def print_jobs(jobs: Sequence[JobSummary], *, as_json: bool) -> None:
    """Print jobs as a table."""
    rows = [
        job._asdict() | {"updated": format_since(job.updated, as_json=as_json), "output": job.output or "stdout"}
        for job in jobs
    ]
    write_table(
        rows,
        as_json=as_json,
        empty='no jobs; ask map "PROMPT" INPUT starts one',
        optional=("models", "output", "pending", "cost", "updated", "failed"),
    )
