"""What runs on the workers of a Dask cluster: answers rows with the keys and the configuration of the worker."""

from __future__ import annotations

import platform
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ask.agent.app_context import AppContext
from ask.agent.model_selection import ModelSelection, resolve_endpoint
from ask.agent.request import RunRequest
from ask.agent.response_schema import ResponseSchema
from ask.errors import AskError, ConfigError, ProviderError, to_ask_error
from ask.map.agent_runner import AgentOptions, AgentRunner
from ask.map.job import RowTask, TaskResult
from ask.map.row_runner import RowRunner
from ask.messages import Message
from ask.schemas.schema import JsonSchema
from ask.settings import Settings
from ask.version import VERSION

PLUGIN_GROUPS = ("ask.providers", "ask.tools")
MAX_JOBS = 8
"""How many jobs a worker keeps ready. Those of clients that were killed are never ended."""


class ClusterJob(NamedTuple):
    """A job as it is sent to workers. It contains no keys.

    Attributes:
        id: a random text.
        versions: the versions of the client, from `find_versions`.
        models: the models as `provider:model`.
        base_url: the base URL of requests; None for the one that is configured on each worker.
        system_prompts: the system prompt for each model.
        settings: the settings of each request.
        json_schema: the schema of answers; None for text.
        agent_options: how rows with tools run; None for rows without.
    """

    id: str
    versions: Mapping[str, str]
    models: tuple[str, ...]
    base_url: str | None
    system_prompts: tuple[str, ...]
    settings: Settings
    json_schema: Mapping[str, Any] | None
    agent_options: AgentOptions | None


class JobRunner:
    """Answers the rows of a job, in all threads of a worker.

    Raises:
        ConfigError: the worker has other versions than the client, lacks a key or a provider.
    """

    def __init__(self, job: ClusterJob) -> None:
        if differences := describe_differences(find_versions(), job.versions):
            raise ConfigError(f"a worker {differences}", "install the same versions on all machines")
        self._job = job
        self._app = AppContext(quiet=True)
        self._requests = [self._create_request(model) for model in job.models]
        self.agent_runner = AgentRunner(self._requests, job.agent_options) if job.agent_options else None
        self._local = threading.local()

    def _create_request(self, model: str) -> RunRequest:
        job = self._job
        endpoint = resolve_endpoint(self._app, ModelSelection(model=model, base_url=job.base_url))
        return RunRequest(
            conversation_id="",
            message_history=(),
            user_message=Message("user"),
            extra_system_prompt="",
            directory=Path.cwd(),
            tools=(),
            settings=job.settings,
            endpoint=endpoint,
            secrets=self._app.collect_secrets(endpoint.key),
            output_format="schema" if job.json_schema else "",
            response_schema=ResponseSchema(JsonSchema(job.json_schema)) if job.json_schema else None,
        )

    def run(self, task: RowTask) -> TaskResult:
        """Answer a row."""
        if not hasattr(self._local, "run"):
            self._local.run = self._open_runner()
        try:
            result: TaskResult = self._local.run(task)
        except Exception as error:  # noqa: BLE001 - reported by the client
            result = TaskResult(None, error if isinstance(error, AskError) else to_ask_error(error))
        if result.error:
            result.error.redact(self._requests[task.model_number].secrets.redact)
            if isinstance(result.error, ProviderError):
                result.error.partial_response = None
        return result._replace(headers={name.lower(): value for name, value in result.headers.items()})

    def _open_runner(self) -> Callable[[RowTask], TaskResult]:
        if self.agent_runner:
            return self.agent_runner.run
        return RowRunner(self._requests, self._job.system_prompts, self._app).run


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


def end_job(job_id: str) -> None:
    """End the processes of a job's rows in this worker."""
    with _lock:
        runner = _jobs.pop(job_id, None)
    if runner and runner.agent_runner:
        runner.agent_runner.stop()


def find_versions() -> dict[str, str]:
    """Return the versions of what has to be the same on all machines: ask, its plugins, Python and Dask."""
    from importlib.metadata import entry_points, version

    distributions = {entry.dist for group in PLUGIN_GROUPS for entry in entry_points(group=group) if entry.dist}
    plugins = {distribution.name: distribution.version for distribution in distributions}
    return plugins | {"ask": VERSION, "Python": platform.python_version(), "distributed": version("distributed")}


def describe_differences(found: Mapping[str, str], expected: Mapping[str, str]) -> str:
    """Describe how the versions of a worker differ from the expected ones; "" if they do not."""
    return ", ".join(
        f"has {name} {found.get(name, 'not installed')} instead of {expected.get(name, 'none')}"
        for name in sorted({*found, *expected})
        if found.get(name) != expected.get(name)
    )
