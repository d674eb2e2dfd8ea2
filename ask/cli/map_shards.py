"""`ask map --shard`, `--merge` and `--ledger`: where a job is stored and locked, and joining the outputs of shards."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any

from ask.app import AppContext
from ask.atomic_files import convert_write_errors, create_private_folder
from ask.config.directories import DATA_FOLDER_HINT
from ask.config.symbolic_links import resolve_output
from ask.errors import RowsFailedError, UsageError
from ask.map.job import Job
from ask.map.ledger import LOCK_SUFFIX, Ledger
from ask.map.locks import LockFile
from ask.map.output_target import check_output, list_output_files
from ask.map.shards import parse_shard
from ask.map.sqlite_table import SqliteTable
from ask.render.amounts import format_count

MERGE_CONFLICTS = {
    name: f"--{name.replace('_', '-')}"
    for name in (
        *("shard", "ledger", "dry_run", "report", "columns", "schema", "limit", "sample", "template", "retry_failed"),
        *("batch", "engine", "with_tools", "csv_safe", "decide", "review"),
    )
} | {"output": "-O", "with_tools": "--tools"}
"""The options that do not go with `--merge`."""


def check_shard_flags(flags: Mapping[str, Any]) -> None:
    """Check that the options of a command go together.

    Raises:
        UsageError: they do not.
    """
    if flags["shard"] and flags["unordered"]:
        raise UsageError("--unordered does not work with --shard", "the rows of a shard are in the order of the input")
    if flags["shard"] and flags["output"] and SqliteTable.parse(flags["output"]):
        raise UsageError("a shard cannot be written to a database", "write each to a file, such as -O out.jsonl")


def locate_ledger(flags: Mapping[str, Any], app: AppContext, job: Job | None = None) -> Path:
    """Return the file of the ledger: that of `--ledger`, the user's, or one for the shard that a job is.

    Each shard has its own, because machines cannot share one in every file system. It is next to the output, so that
    another machine can continue the shard.
    """
    shard = job.shard if job else parse_shard(flags["shard"], app.environment) if flags["shard"] else None
    if flags["ledger"]:
        path = Path(flags["ledger"])
        path = resolve_output(shard.name_file(path) if shard else path, app.app_dirs)
        if not path.parent.is_dir():
            raise UsageError(f"there is no folder {path.parent} for the ledger", "create it, or name another file")
        if path.suffix == LOCK_SUFFIX:
            raise UsageError(f"{path} is the name of a lock file", f"choose a name that does not end in {LOCK_SUFFIX}")
        return path
    if not (job and shard):
        return app.app_dirs.ledger_file
    path = app.app_dirs.ledger_file.with_name(f"map-{job.id}.db")
    if isinstance(job.output, Path):
        path = resolve_output(_name_shard_ledger(job.output), app.app_dirs)
    return app.app_dirs.ledger_file if flags["dry_run"] and not path.exists() else path


def _name_shard_ledger(output: Path) -> Path:
    """Return the ledger next to the output of a shard."""
    return output.parent / f"{output.stem}.ledger"


@contextmanager
def lock_job(job: Job, ledger: Ledger) -> Iterator[None]:
    """Prevent other processes from running the same job, or another one with the same output.

    Raises:
        UsageError: one is doing that.
    """
    with ExitStack() as stack:
        lock_file = ledger.lock_file
        with convert_write_errors(lock_file.path):
            lock_file.lock(job.id, UsageError("this job is running already", "wait for it, or stop it"))
        if job.output:
            output_id = blake2b(str(job.output).encode("utf-8", "replace"), digest_size=6).hexdigest()
            error = UsageError(f"another job is writing {job.output}", "wait for it, or use another -O")
            # Jobs with other ledgers may have the same output, except if the ledger belongs to the output of a shard.
            own_ledger = _name_shard_ledger(job.output) if isinstance(job.output, Path) else ledger.file
            is_own_ledger = job.shard and os.path.realpath(ledger.file) == os.path.realpath(own_ledger)
            data_lock = job.app.app_dirs.ledger_file.with_suffix(LOCK_SUFFIX)
            path = lock_file.path if is_own_ledger else data_lock
            with convert_write_errors(path, DATA_FOLDER_HINT if path == data_lock else ""):
                if os.path.realpath(path) != os.path.realpath(lock_file.path):
                    create_private_folder(path.parent)
                    lock_file = LockFile(path)
                    stack.callback(lock_file.close)
                lock_file.lock(output_id, error)
        yield


def list_own_files(job: Job, ledger: Ledger, report: str | None) -> tuple[Path, ...]:
    """Return patterns for the names of the files that a job and the other shards of it write; `report` is one, too."""
    outputs = list_output_files(job.output, job.id) if job.output else ()
    reports = [Path(report).absolute()] if report else []
    patterns = [path.with_name(glob.escape(path.name)) for path in (*outputs, *ledger.list_files(), *reports)]
    if isinstance(job.output, Path) and job.shard:
        stem = glob.escape(job.output.stem.rpartition(".")[0])
        patterns += [job.output.with_name(f"{dot}{stem}.*-of-{job.shard.total}.*") for dot in ("", ".")]
    return tuple(patterns)


def run_merge(flags: Mapping[str, Any], app: AppContext) -> None:
    """Join the outputs of the shards that the arguments name.

    Raises:
        AskError: files are missing, incomplete or not shards, or the output exists.
    """
    from ask.map.merge import merge_shards

    conflicts = [option for name, option in MERGE_CONFLICTS.items() if flags[name]]
    if conflicts:
        raise UsageError(f"{conflicts[0]} does not work with --merge", "ask map --merge OUTPUT SHARD...")
    if not flags["arguments"]:
        raise UsageError("no shards given", f"try: ask map --merge {flags['merge']} NAME.*-of-8.jsonl")
    paths = list(map(Path, flags["arguments"]))
    output = check_output(flags["merge"], app.app_dirs, app.notify)
    if isinstance(output, SqliteTable):
        raise UsageError("shards cannot be merged in a database", "write to a file, such as --merge out.jsonl")
    if output.exists() and output.stat().st_size and not flags["fresh"]:
        raise UsageError(f"{flags['merge']} exists", "use another name, or --fresh to replace it")
    ledgers = {path: _name_shard_ledger(path) for path in paths}
    rows, failed = merge_shards(Path(flags["merge"]), ledgers, app.console.print_notice)
    files = format_count(len(paths), "shard")
    app.console.print_notice(f"{format_count(rows, 'row')} of {files} written to {flags['merge']}")
    if flags["score"]:
        from ask.cli.map_score import print_output_scores

        print_output_scores(flags["merge"], flags, app)
    if failed:
        hint = "run the shards with --retry-failed, and merge them again"
        raise RowsFailedError(f"{format_count(failed, 'row')} failed", hint)
