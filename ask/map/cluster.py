"""Runs the rows of a job on the workers of a Dask cluster (https://distributed.dask.org).

The ledger, the rate limiter and the retries are those of the engine, in this process. A worker gets the job without its
keys, and one row at a time for each of its threads; Dask gives the rows of a worker that dies to another one.
"""

from __future__ import annotations

import logging
import signal
import threading
from asyncio import CancelledError
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError as FutureCancelledError
from contextlib import ExitStack, suppress
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from ask.errors import AskError, ConfigError, MissingDependencyError, NetworkError
from ask.installation import format_install_command
from ask.map.agent_runner import AgentOptions
from ask.map.cluster_worker import ClusterJob, answer_row, describe_differences, end_job, find_versions
from ask.map.job import Job, RowTask, TaskResult
from ask.secrets import Redactor

if TYPE_CHECKING:
    from distributed import Client

DASK_EXTRA = "dask"
CONNECT_SECONDS = 10.0
"""How long a scheduler may take to answer."""
WORKER_SECONDS = 30.0
"""How long to wait for the first worker."""
CLOSE_SECONDS = 5.0
THREADS_PER_WORKER = 32
"""The rows that a process of the local cluster answers at the same time: they wait for the model most of the time."""


class Cluster:
    """A connection to a Dask cluster, for one job.

    Args:
        client: the connected client.
        job: the job as workers get it.
        redactor: removes keys from a row before it is sent.
    """

    def __init__(self, client: Client, job: ClusterJob, redactor: Redactor) -> None:
        self._client = client
        self._job = job
        self._redactor = redactor

    @property
    def thread_count(self) -> int:
        """The number of rows that the workers answer at the same time."""
        threads: Mapping[str, int] = self._client.nthreads()
        return max(1, sum(threads.values()))

    def run(self, task: RowTask) -> TaskResult:
        """Have a worker answer a row."""
        from distributed.scheduler import KilledWorker

        message = self._redactor.redact_message(task.message)
        sent_task = task._replace(columns={}, message=message)
        try:
            result: TaskResult = self._client.submit(answer_row, self._job, sent_task, pure=False).result()
        except KilledWorker:
            return TaskResult(None, AskError("the row was given up after several workers had died with it"))
        except (CancelledError, FutureCancelledError):
            return TaskResult(None, NetworkError("the connection to the Dask scheduler is lost", offline=True))
        return result

    def check_versions(self) -> None:
        """Make sure that the workers run the same software.

        Raises:
            ConfigError: one does not.
        """
        results: Mapping[str, Any] = self._client.run(find_versions, on_error="return")
        for address, found in results.items():
            problem = f"cannot run ask ({found})" if isinstance(found, Exception) else ""
            if problem := problem or describe_differences(found, self._job.versions):
                raise ConfigError(f"the worker {address} {problem}", "install the same versions on all machines")

    def end(self) -> None:
        """Drop the rows that wait, and stop the processes of the others."""
        thread = threading.Thread(target=self._end_job, daemon=True)
        thread.start()
        thread.join(CLOSE_SECONDS)  # the cluster may be gone
        self._client.close(CLOSE_SECONDS)

    def _end_job(self) -> None:
        with suppress(Exception):
            self._client.run(end_job, self._job.id)


def open_cluster(address: str, job: ClusterJob, redactor: Redactor, cleanup: ExitStack) -> Cluster:
    """Connect to a scheduler, or start a cluster of processes on this machine.

    Args:
        address: the scheduler's address; "" to start a cluster.
        job: the job.
        redactor: removes keys from rows.
        cleanup: is closed at the end of the job.

    Raises:
        MissingDependencyError: Dask is not installed.
        NetworkError: there is no scheduler at the address, or it has no workers.
        ConfigError: a worker has other versions.
    """
    try:
        import dask
        from distributed import Client
    except ImportError:
        hint = f"{format_install_command(DASK_EXTRA)} installs it"
        raise MissingDependencyError("--engine dask needs the package distributed", hint) from None
    logging.disable()  # distributed logs the errors that it raises, with tracebacks
    dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GB"})  # a row may have attachments
    try:
        client = Client(address or start_local_cluster(cleanup), timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise NetworkError(f"cannot connect to the Dask scheduler {address} ({error})") from error
    cluster = Cluster(client, job, redactor)
    cleanup.callback(cluster.end)
    try:
        client.wait_for_workers(1, WORKER_SECONDS)
    except TimeoutError:
        hint = f"start one with dask worker {address}"
        raise NetworkError(f"the Dask scheduler {address} has no workers", hint) from None
    cluster.check_versions()
    return cluster


def start_local_cluster(cleanup: ExitStack) -> Any:
    """Start a process for each CPU."""
    from distributed import LocalCluster

    # Ctrl-C on a terminal reaches all processes, and rows in flight are to be finished.
    previous: Callable[..., Any] | int | None = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        cluster = LocalCluster(
            threads_per_worker=THREADS_PER_WORKER, dashboard_address=None, silence_logs=logging.CRITICAL
        )
    finally:
        signal.signal(signal.SIGINT, previous)
    cleanup.callback(cluster.close, CLOSE_SECONDS)
    return cluster


def describe_job(
    job: Job, system_prompts: Sequence[str], agent_options: AgentOptions | None, base_url: str | None
) -> ClusterJob:
    """Return what workers need of a job, without keys."""
    first = job.requests[0]
    redact, redact_value = first.secrets.redact, first.secrets.redactor.redact_value
    if agent_options:
        agent_options = agent_options._replace(arguments=tuple(map(redact, agent_options.arguments)))
    return ClusterJob(
        id=token_hex(8),
        versions=find_versions(),
        models=tuple(request.endpoint.full_name for request in job.requests),
        base_url=base_url,
        system_prompts=tuple(map(redact, system_prompts)),
        settings=first.settings._replace(system="", options=redact_value({**first.settings.options})),
        json_schema=redact_value(first.response_schema.json_schema) if first.response_schema else None,
        agent_options=agent_options,
    )
