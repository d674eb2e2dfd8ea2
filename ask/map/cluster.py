"""Runs the rows of a job on the workers of a Dask cluster (https://distributed.dask.org).

The ledger, the rate limiter and the retries are those of the engine, in this process. A worker gets the job without its
keys, and one row at a time for each of its threads; Dask gives the rows of a worker that dies to another one. Workers
import this module, too: they answer rows with their own keys and configuration.
"""

from __future__ import annotations

import logging
import platform
import signal
import threading
from asyncio import CancelledError
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError as FutureCancelledError
from contextlib import ExitStack, suppress
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from ask import __version__
from ask.agent.provider_selection import ModelSelection, resolve_endpoint
from ask.agent.request import RunRequest
from ask.app import AppContext
from ask.config.installation import format_install_command
from ask.config.redaction import Redactor
from ask.config.settings import Settings
from ask.errors import AskError, ConfigError, MissingDependencyError, NetworkError, ProviderError, to_ask_error
from ask.map.job import Job, RowTask, TaskResult
from ask.map.outages import classify_failure
from ask.map.rows_with_tools import AgentOptions, AgentRunner
from ask.map.rows_without_tools import RowRunner
from ask.messages import DecisionQuestion, Message
from ask.records import NamedTuple
from ask.schemas.schema import ResponseSchema
from ask.traces.lifecycle import report_problem, send_worker_spans

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
PLUGIN_GROUPS = ("ask.providers", "ask.tools")
MAX_JOBS = 8
"""How many jobs a worker keeps ready. Those of clients that were killed are never ended."""


class ClusterJob(NamedTuple):
    """A job as it is sent to workers. It contains no keys.

    Attributes:
        id: a random text.
        versions: the versions of the client, from `_find_versions`.
        models: the models as `provider:model`.
        base_urls: the base URLs of requests; () for those that are configured on each worker.
        system_prompts: the system prompt for each model.
        settings: the settings of each request.
        json_schema: the schema of answers; None for text.
        questions: the questions of `--decide`; () for answers in text.
        agent_options: how rows with tools run; None for rows without.
    """

    id: str
    versions: Mapping[str, str]
    models: tuple[str, ...]
    base_urls: tuple[str, ...]
    system_prompts: tuple[str, ...]
    settings: Settings
    json_schema: Mapping[str, Any] | None
    questions: tuple[DecisionQuestion, ...]
    agent_options: AgentOptions | None


class JobRunner:
    """Answers the rows of a job, in all threads of a worker.

    Raises:
        ConfigError: the worker has other versions than the client, lacks a key or a provider.
    """

    def __init__(self, job: ClusterJob) -> None:
        if differences := describe_differences(_find_versions(), job.versions):
            raise ConfigError(f"a worker {differences}", "install the same versions on all machines")
        self._job = job
        self._app = AppContext(quiet=True)
        self.notices: list[str] = []
        """Notices to print at the end of the job."""
        self._requests = list(map(self._create_request, job.models))
        self.runner: AgentRunner | RowRunner
        if job.agent_options:
            self.runner = AgentRunner(self._requests, job.agent_options, _is_task_released, self.notices.append)
        else:
            self.runner = RowRunner(self._requests, job.system_prompts, self._app)

    def _create_request(self, model: str) -> RunRequest:
        job = self._job
        first, *others = job.base_urls or (None,)
        selection = ModelSelection(model=model, base_url=first, other_base_urls=tuple(filter(None, others)))
        endpoint = resolve_endpoint(self._app, selection)
        return RunRequest(
            conversation_id="",
            message_history=(),
            user_message=Message("user"),
            extra_system_prompt="",
            directory=Path.cwd(),
            tools=(),
            settings=job.settings,
            endpoint=endpoint,
            secrets=self._app.collect_secrets(),
            output_format="schema" if job.json_schema else "",
            response_schema=ResponseSchema(job.json_schema) if job.json_schema else None,
            questions=job.questions,
        )

    def run(self, task: RowTask) -> TaskResult:
        """Answer a row."""
        try:
            result = self.runner.run(task)
        except Exception as error:  # noqa: BLE001 - reported by the client
            result = TaskResult(None, to_ask_error(error))
        if failed := result.error:
            # Here, because the causes of an error are not sent.
            result = result._replace(failure=result.failure or classify_failure(failed))
            failed.redact(self._requests[task.model_number].secrets.redact)
            if isinstance(failed, ProviderError):
                failed.partial_response = None
        return result


_jobs: dict[str, JobRunner] = {}
_lock = threading.Lock()


def answer_row(job: ClusterJob, task: RowTask) -> TaskResult:
    """Answer a row of a job in this worker."""
    try:
        with _lock:
            if job.id not in _jobs:
                _jobs[job.id] = JobRunner(job)
                for old_id in [*_jobs][:-MAX_JOBS]:
                    del _jobs[old_id]
            runner = _jobs[job.id]
    except AskError as error:
        return TaskResult(None, error)
    return runner.run(task)


def _is_task_released() -> bool:
    """Check whether the client of this thread's task is gone: Dask then releases its tasks, but lets them run."""
    from distributed import get_worker

    worker = get_worker()
    task = worker.state.tasks.get(worker.get_current_task())
    return task is None or task.state == "cancelled"


def end_job(job_id: str) -> list[str]:
    """End the processes of a job's rows in this worker, and send its last traces; return notices for the user."""
    with _lock:
        runner = _jobs.pop(job_id, None)
    if runner is None:
        return []
    if isinstance(runner.runner, AgentRunner):
        runner.runner.stop()
    elif problem := send_worker_spans():
        report_problem(runner.notices.append, problem)
    return runner.notices


def _find_versions() -> dict[str, str]:
    """Return the versions of what has to be the same on all machines: ask, its plugins, Python and Dask."""
    from importlib.metadata import entry_points, version

    distributions = {entry.dist for group in PLUGIN_GROUPS for entry in entry_points(group=group) if entry.dist}
    plugins = {distribution.name: distribution.version for distribution in distributions}
    return plugins | {"ask": __version__, "Python": platform.python_version(), "distributed": version("distributed")}


def describe_differences(found: Mapping[str, str], expected: Mapping[str, str]) -> str:
    """Describe how the versions of a worker differ from the expected ones; "" if they do not."""
    return ", ".join(
        f"has {name} {found.get(name, 'not installed')} instead of {expected.get(name, 'none')}"
        for name in sorted({*found, *expected})
        if found.get(name) != expected.get(name)
    )


class Cluster:
    """A connection to a Dask cluster, for one job.

    Args:
        client: the connected client.
        job: the job as workers get it.
        redactor: removes keys from a row before it is sent.
        notify: prints notices of the workers for the user.
    """

    def __init__(self, client: Client, job: ClusterJob, redactor: Redactor, notify: Callable[[str], None]) -> None:
        self._notify = notify
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
            return TaskResult(None, AskError("several workers died while they ran this row"))
        except (CancelledError, FutureCancelledError):
            return TaskResult(None, NetworkError("the connection to the Dask scheduler is lost", permanent=True))
        return result

    def check_versions(self) -> None:
        """Make sure that the workers run the same software.

        Raises:
            ConfigError: one does not.
        """
        results: Mapping[str, Any] = self._client.run(_find_versions, on_error="return")
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
            for notices in self._client.run(end_job, self._job.id).values():
                for notice in notices:
                    self._notify(notice)


def open_cluster(address: str, job: Job, agent_options: AgentOptions | None, base_urls: tuple[str, ...]) -> Cluster:
    """Connect to a scheduler, or start a cluster of processes on this machine.

    Args:
        address: the scheduler's address; "" to start a cluster.
        job: the job, whose `app.cleanup` closes the cluster.
        agent_options: how rows with tools run; None for rows without.
        base_urls: the base URLs of requests; () for those that are configured on each worker.

    Raises:
        MissingDependencyError: the extra `dask` is not installed.
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
    cleanup = job.app.cleanup
    try:
        client = Client(address or _start_local_cluster(cleanup), timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise NetworkError(f"cannot connect to the Dask scheduler {address} ({error})") from error
    cluster_job = _describe_job(job, agent_options, base_urls)
    cluster = Cluster(client, cluster_job, job.requests[0].secrets, job.app.notify)
    cleanup.callback(cluster.end)
    try:
        client.wait_for_workers(1, WORKER_SECONDS)
    except TimeoutError:
        hint = f"start one with dask worker {address}"
        raise NetworkError(f"the Dask scheduler {address} has no workers", hint) from None
    cluster.check_versions()
    return cluster


def _start_local_cluster(cleanup: ExitStack) -> Any:
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


def _describe_job(job: Job, agent_options: AgentOptions | None, base_urls: tuple[str, ...]) -> ClusterJob:
    """Return what workers need of a job, without keys."""
    first = job.requests[0]
    redact, redact_value = first.secrets.redact, first.secrets.redact_value
    if agent_options:
        run = agent_options.run
        run = run._replace(
            system=run.system and redact(run.system),
            schema=run.schema and redact(run.schema),
            options=tuple(map(redact, run.options)),
        )
        agent_options = agent_options._replace(run=run)
    return ClusterJob(
        id=token_hex(8),
        versions=_find_versions(),
        models=tuple(request.endpoint.full_name for request in job.requests),
        base_urls=base_urls,
        system_prompts=tuple(map(redact, job.system_prompts)),
        settings=first.settings._replace(system="", options=redact_value({**first.settings.options})),
        json_schema=redact_value(first.response_schema.value) if first.response_schema else None,
        questions=tuple(first.questions),
        agent_options=agent_options,
    )
