"""Answers one row: a request to a model without tools, with the corrections that a schema may need."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence

from ask.agent.request import RunRequest
from ask.agent.tool_loop import ToolLoop, discard_event, format_model_correction, open_run_tracer
from ask.app import AppContext
from ask.client.adjustments import RequestAdjustments
from ask.client.citations import citations_to_json, remove_positions
from ask.client.endpoint import ModelEndpoint, create_client
from ask.client.provider_client import ProviderClient
from ask.errors import RefusedQuestionsError
from ask.map.job import RowTask, TaskResult
from ask.map.ledger import RowResult
from ask.map.outages import Failure
from ask.map.server_pool import create_pools, is_sent_elsewhere
from ask.messages import EMPTY_MAPPING, FinishReason
from ask.plugin_api.loaded_provider import discard_notice


class RowRunner:
    """Answers rows without tools. One instance serves all threads, each over its own connection to each model.

    Args:
        requests: the job's request for each of its models, without a message.
        system_prompts: the system prompt for each of them.
        app: the user's installation.
    """

    def __init__(self, requests: Sequence[RunRequest], system_prompts: Sequence[str], app: AppContext) -> None:
        # The engine sends a row again, and adds up the costs of the job.
        self._requests = [
            request._replace(
                settings=request.settings._replace(tries=1, max_cost=None), endpoint=_share_provider(request)
            )
            for request in requests
        ]
        self._system_prompts = system_prompts
        self._app = app
        open_run_tracer(requests[0], app)  # here, because the notices of rows are discarded
        self._adjustments = [RequestAdjustments(app.console.print_notice) for _ in requests]
        self._pools = create_pools(self._requests, app.console.print_notice)
        self._local = threading.local()
        """The clients of a thread, and the headers of the last response that one of them received."""

    def run(self, task: RowTask) -> TaskResult:
        """Answer a row. A server that cannot be reached is replaced by another one, if there are several."""
        pool = self._pools[task.model_number]
        tried: list[str] = []
        while True:
            sent = time.monotonic()
            base_url = pool.acquire(sent, tried, is_retry=task.is_retry)
            result: TaskResult | None = None
            try:
                result = self._send(task, base_url)
            finally:
                error, failure = (result.error, result.failure) if result else (None, None)
                pool.release(time.monotonic(), base_url, error, failure, sent=sent)
            tried.append(base_url)
            if not is_sent_elsewhere(result.error) or len(tried) == len(pool):
                return result

    def _send(self, task: RowTask, base_url: str) -> TaskResult:
        """Answer a row with the model on one of its servers."""
        local, number = self._local, task.model_number
        clients: dict[tuple[int, str], ProviderClient] = local.__dict__.setdefault("clients", {})
        if (number, base_url) not in clients:
            endpoint = self._requests[number].endpoint.prefer_server(base_url)._replace(other_base_urls=())
            clients[number, base_url] = self._create_client(endpoint, self._requests[number], self._adjustments[number])
        request = self._requests[number]._replace(user_message=task.message)
        local.headers = EMPTY_MAPPING
        loop = ToolLoop(
            request,
            self._app,
            discard_event,
            client=clients[number, base_url],
            system_prompt=self._system_prompts[number],
        )
        result = loop.run()
        if result.error is None:
            self._keep_model(number, result.requests[-1][0])
        usages = [usage for _, usage in result.requests]
        answer, schema = result.answer, request.response_schema
        citations = citations_to_json(remove_positions(result.citations) if schema else result.citations)
        files = [file for message in result.messages if message.role == "assistant" for file in message.attachments]
        refusals = ""
        if isinstance(result.error, RefusedQuestionsError) and not all(each.refusal for each in result.decisions):
            refusals, result.error = result.error.message, None
        if result.error is not None:
            is_empty = result.finish_reason is FinishReason.EMPTY and not result.usage.output_tokens
            failure: Failure | None = "service" if is_empty else None
            part = RowResult("failed", answer, result.finish_reason, citations=citations) if answer else None
            return TaskResult(part, result.error, result.usage, local.headers, files, failure, usages, len(usages) < 2)
        row_result = RowResult(
            "answered",
            schema.extract_json(answer) if schema else answer,
            result.finish_reason,
            error=refusals,
            citations=citations,
        )
        return TaskResult(row_result, None, result.usage, local.headers, files, usages=usages)

    def _keep_model(self, number: int, endpoint: ModelEndpoint) -> None:
        """Send the next rows to the model that answered, if the name of the model was corrected."""
        request = self._requests[number]
        if endpoint.model != request.endpoint.model:
            self._requests[number] = request._replace(endpoint=request.endpoint._replace(model=endpoint.model))
            self._adjustments[number].notify(format_model_correction(request.endpoint, endpoint.model))

    def _create_client(
        self, endpoint: ModelEndpoint, request: RunRequest, adjustments: RequestAdjustments
    ) -> ProviderClient:
        return create_client(
            endpoint,
            discard_notice,
            request.settings,
            request.secrets,
            on_headers=self._keep_headers,
            output_format=request.output_format,
            shows_text=False,
            adjustments=adjustments,
            questions=request.questions,
        )

    def _keep_headers(self, headers: Mapping[str, str]) -> None:
        self._local.headers = {name.lower(): value for name, value in headers.items()}


def _share_provider(request: RunRequest) -> ModelEndpoint:
    """Return the endpoint of a request with a provider that the clients of all threads share."""
    endpoint = request.endpoint
    timeout = request.settings.timeout or endpoint.provider.info.stall_timeout
    return endpoint._replace(provider=endpoint.provider.with_limits(timeout, discard_notice))
