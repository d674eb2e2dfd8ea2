"""A run as JSON: one object at the end, or one line per event."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ask.agent.request import RunRequest
from ask.agent.tool_loop import RunResult
from ask.client.citations import remove_positions, shift_citations
from ask.client.cost import Cost
from ask.client.retries import RetryNotice
from ask.console import StandardOutput, StderrConsole
from ask.errors import AskError
from ask.events import (
    Event,
    FallbackStarted,
    FileSaved,
    MessageAdded,
    Notice,
    ToolCallFinished,
    ToolCallOutput,
    ToolCallStarted,
    describe_server_call,
)
from ask.messages import Citation, FinishReason, ModelResponse, ReasoningDelta, ServerToolDelta, TextDelta, Usage
from ask.text import decode_argument

RETRY_FIELDS = ("reason", "attempt", "attempts", "seconds")
PROTOCOL_VERSION = 1
"""The version of the protocol of `--events`. Fields and types of events may be added without a new one."""


class JsonRenderer:
    """Writes JSON to standard output; notices are also printed to the console.

    With `json_lines`, each event is a line. If the request has a response schema, the answer is JSON and is also
    included as a value. Secrets in notices, errors and this value are redacted; everything else arrives redacted.
    """

    def __init__(
        self, output: StandardOutput, console: StderrConsole, request: RunRequest, *, json_lines: bool
    ) -> None:
        endpoint = request.endpoint
        self._output = output
        self._console = console
        self._model = {"provider": endpoint.provider_name, "model": endpoint.model}
        self._request = request
        self._redactor = request.secrets
        self._json_lines = json_lines
        self._texts: list[str] = []
        self._separator = ""
        self._reasoning: list[str] = []
        self._answer_texts: list[str] = []
        self._answer_reasoning: list[str] = []
        """What has arrived of the current answer."""
        self._tool_calls: list[dict[str, Any]] = []
        self._server_calls: list[dict[str, Any]] = []
        """The calls that the service ran itself."""
        self._files: list[dict[str, Any]] = []
        self._citations: list[Citation] = []
        """The sources, with positions in the text of the result."""
        self._is_call_running = False
        self._write_event(
            "start",
            version=PROTOCOL_VERSION,
            conversation=request.conversation_id,
            **self._model,
            directory=decode_argument(str(request.directory)),
            tools=[tool.spec.name for tool in request.tools],
            safe_mode=request.safe_mode.level if request.safe_mode else None,
        )

    def show(self, event: Event) -> None:
        """Write or collect an event."""
        match event:
            case TextDelta(text) if text:
                self._write_event("text", text=text if self._answer_texts else self._separator + text)
                self._answer_texts.append(text)
            case ReasoningDelta(text) if text:
                self._answer_reasoning.append(text)
                self._write_event("reasoning", text=text)
            case ToolCallStarted(call):
                self._is_call_running = True
                self._write_event("tool_call", **call._asdict())
            case ToolCallOutput(text):
                self._write_event("tool_output", text=text)
            case ToolCallFinished() | ServerToolDelta():
                self._add_finished_call(event)
            case MessageAdded(message) if message.role == "assistant":
                self._add_message(event)
            case FallbackStarted():
                self._model = event._asdict()
                self._write_event("fallback", **self._model)
            case FileSaved():
                self._files.append(event._asdict())
                self._write_event("file", **event._asdict())
            case Notice(text):
                self._show_notice(text)

    def _show_notice(self, text: str) -> None:
        if isinstance(text, RetryNotice):
            fields = {name: getattr(text, name) for name in RETRY_FIELDS}
            self._write_event("retry", **{**fields, "reason": self._redactor.redact(text.reason)})
        self._console.print_notice(text)
        self._write_event("notice", text=self._redactor.redact(text))

    def _add_message(self, event: MessageAdded) -> None:
        """Add an answer to the result, with its usage and its sources."""
        answer = event.answer
        if answer:
            self._write_event("usage", **self._model, **answer.usage._asdict())
        self._add_citations(answer.citations if answer else ())
        self._end_answer(event.message.content, answer)

    def _add_finished_call(self, event: ToolCallFinished | ServerToolDelta) -> None:
        calls = self._tool_calls
        if isinstance(event, ServerToolDelta):
            event, calls = describe_server_call(event.call), self._server_calls
        if not self._is_call_running:  # the call was denied, or the service ran it
            self._write_event("tool_call", **event.call._asdict())
        self._is_call_running = False
        fields = {
            **event.call._asdict(),
            "result": event.result,
            "failed": event.failed,
            "decision": event.verdict,
            "exit_status": event.exit_status,
            "seconds": round(event.seconds, 3),
            "diff": "".join(f"{line}\n" for line in event.diff.lines) if event.diff else None,
            "attachments": [
                {"name": file.name, "media_type": file.media_type, "size": len(file.data)} for file in event.attachments
            ],
        }
        calls.append(fields)
        self._write_event("tool_result", **fields)

    def _add_citations(self, citations: Sequence[Citation]) -> None:
        """Add the sources of an answer that has just ended."""
        if not citations:
            return
        if not self._answer_texts:  # only a part of the answer is printed
            citations = remove_positions(citations)
        text_before = "".join(self._texts) + self._separator
        self._write_event("citations", citations=[citation._asdict() for citation in citations])
        self._citations += shift_citations(citations, len(text_before))

    def stop(self) -> None:
        """Do nothing: there is no spinner to stop."""

    def finish(self, run_result: RunResult, conversation_id: str) -> None:
        """Write the result object or line.

        `conversation_id` is "" if the run is not saved.
        """
        self._end_answer("".join(self._answer_texts))
        error, text = run_result.error, "".join(self._texts)
        data = None
        if self._request.response_schema and text:
            data = self._redactor.redact_value(json.loads(text))
        result = {
            "conversation": self._request.conversation_id,
            **self._model,
            "saved": bool(conversation_id),
            "text": text,
            **({"data": data} if self._request.response_schema else {}),
            **({"decisions": self._describe_decisions(run_result)} if self._request.questions else {}),
            "reasoning": "".join(self._reasoning),
            "files": self._files,
            "tool_calls": self._tool_calls,
            "server_calls": self._server_calls,
            "citations": [citation._asdict() for citation in self._citations],
            "rounds": run_result.rounds,
            "finish": run_result.finish_reason,
            "usage": {**run_result.usage._asdict(), **run_result.cost.to_dict()},
            "exit_code": error.exit_code if error else 0,
            "error": self._redactor.redact(str(error)) if error else None,
        }
        if self._request.settings.is_row and run_result.answer:  # else the text before the last call is all there is
            citations = run_result.citations
            citations = remove_positions(citations) if self._request.response_schema else citations
            result["text"] = run_result.answer
            result["citations"] = [citation._asdict() for citation in citations]
        if error and self._request.settings.is_row:
            from ask.map.outages import classify_failure

            result["failure"] = classify_failure(error)
        if self._request.settings.is_row and self._request.settings.traces:
            from ask.traces.lifecycle import send_row_spans

            result["trace_problem"] = send_row_spans(self._request.settings)
        if self._json_lines:
            self._write_event("result", **result)
            if error:
                error.is_in_result = True
        else:
            self._output.write(json.dumps(result, ensure_ascii=False) + "\n")

    def _describe_decisions(self, run_result: RunResult) -> list[dict[str, Any]]:
        """Return the answers to the questions, with the probability of each value, by its text."""
        return [
            {
                "name": answer.name,
                "value": answer.value,
                "probability": answer.probability,
                "probabilities": dict(zip(question.labels, answer.probabilities, strict=False)),
                "refusal": answer.refusal or None,
            }
            for question, answer in zip(self._request.questions, run_result.decisions, strict=False)
        ]

    def _end_answer(self, text: str, answer: ModelResponse | None = None) -> None:
        """Add an answer to the result. What was streamed may have been reasoning that turned out to be text."""
        if self._answer_texts and text:
            self._texts.append(self._separator + text)
            is_paused = answer is not None and answer.finish_reason is FinishReason.CONTINUE  # the next continues it
            self._separator = "" if text.endswith("\n") or is_paused else "\n"
        if answer is not None:
            self._answer_reasoning = [answer.reasoning]
        self._reasoning += self._answer_reasoning
        self._answer_texts, self._answer_reasoning = [], []

    def _write_event(self, event_type: str, **fields: Any) -> None:
        if self._json_lines:
            write_event(self._output, event_type, **fields)


def write_event(output: StandardOutput, event_type: str, **fields: Any) -> None:
    """Write an event as a line."""
    output.write(json.dumps({"type": event_type, **fields}, ensure_ascii=False) + "\n")


def write_failed_result(error: AskError) -> None:
    """Write the `result` event of a run that did not start, unless the error is already in one."""
    if error.is_in_result:
        return
    fields: dict[str, Any] = {
        **dict.fromkeys(("conversation", "provider", "model")),
        "saved": False,
        **dict.fromkeys(("text", "reasoning"), ""),
        **{name: [] for name in ("files", "tool_calls", "server_calls", "citations")},
        "rounds": 0,
        "finish": None,
        "usage": {**Usage()._asdict(), **Cost().to_dict()},
    }
    write_event(StandardOutput(), "result", **fields, exit_code=error.exit_code, error=str(error))
