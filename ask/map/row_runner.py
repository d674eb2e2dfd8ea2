"""Answers one row: a request to a model without tools, with the corrections that a schema may need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ask.agent.app_context import AppContext
from ask.agent.model_selection import create_client
from ask.agent.request import RunRequest
from ask.agent.tool_loop import ModelConnection, ToolLoop, get_last_answer
from ask.agent.tool_runner import ToolRunner
from ask.client.cost import Cost
from ask.map.job import RowTask, TaskResult
from ask.map.ledger import RowResult
from ask.messages import EMPTY_MAPPING
from ask.plugin_api.loaded_provider import discard_notice


class RowRunner:
    """Answers the rows of one thread, over its own connection to each model.

    Args:
        requests: the job's request for each of its models, without a message.
        system_prompts: the system prompt for each.
        app: the user's installation.
    """

    def __init__(
        self,
        requests: Sequence[RunRequest],
        system_prompts: Sequence[str],
        app: AppContext,
    ) -> None:
        self._requests = requests
        self._system_prompts = system_prompts
        self._headers: Mapping[str, str] = EMPTY_MAPPING
        self._connections = [self._connect(request) for request in requests]
        self._open_tool_runner = partial(ToolRunner, requests[0], app, ignore_event)

    def run(self, task: RowTask) -> TaskResult:
        """Answer a row."""
        request = self._requests[task.model_number]._replace(user_message=task.message)
        system_prompt = self._system_prompts[task.model_number]
        self._headers = EMPTY_MAPPING
        result = ToolLoop(
            request,
            lambda _: self._connections[task.model_number],
            self._open_tool_runner,
            ignore_event,
            build_system_prompt=lambda _: system_prompt,
            calculate_cost=lambda _: Cost(),  # the engine adds up the job's
        ).run()
        if result.error is not None:
            result.error.redact(request.secrets.redact)
            return TaskResult(None, result.error, result.usage, self._headers)
        answer, schema = get_last_answer(result.messages), request.response_schema
        row_result = RowResult("answered", schema.extract_json(answer) if schema else answer, result.finish_reason)
        return TaskResult(row_result, None, result.usage, self._headers)

    def _connect(self, request: RunRequest) -> ModelConnection:
        client = create_client(
            request.endpoint,
            discard_notice,
            request.settings._replace(tries=1),  # the engine sends a row again
            request.secrets.redactor,
            on_headers=self._keep_headers,
            output_format=request.output_format,
        )
        return ModelConnection(
            request.endpoint,
            client,
            find_context_limit=lambda _: None,  # a row that is too long is an error
            require_price=lambda: None,
        )

    def _keep_headers(self, headers: Mapping[str, str]) -> None:
        self._headers = headers


def ignore_event(_: Any) -> None:
    """Ignore an event of the tool loop: only the result of a row counts."""
