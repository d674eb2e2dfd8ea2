"""Shows a run as JSON: one object when it is over, or an object a line for each event."""

from __future__ import annotations

import json
from typing import Any

from ask.agent.tool_loop import Outcome
from ask.console import Console, Output
from ask.events import CallFinished, CallOutput, CallRunning, Event, MessageAdded, Notice
from ask.plugin_api.provider import ReasoningDelta, TextDelta
from ask.redaction import Redactor


class JsonRenderer:
    """Writes JSON to standard output; notices also go to the console.

    Args:
        output: where the JSON goes.
        console: where notices go.
        about: what is known of the run beforehand: provider, model, conversation.
        redactor: replaces secrets in notices, errors and structured answers; all else has none any more.
        lines: a line for each event, in place of one object at the end.
        structured: whether the answer is JSON, to be told as a value too.
    """

    def __init__(
        self,
        output: Output,
        console: Console,
        about: dict[str, Any],
        redactor: Redactor,
        *,
        lines: bool,
        structured: bool = False,
    ) -> None:
        self._output = output
        self._console = console
        self._about = about
        self._redactor = redactor
        self._lines = lines
        self._structured = structured
        self._texts: list[str] = []
        self._gap = ""
        self._reasoning: list[str] = []
        self._calls: list[dict[str, Any]] = []
        self._running = False

    def show(self, event: Event) -> None:
        """Take an event."""
        match event:
            case TextDelta(text) if text:
                self._texts.append(self._gap + text)
                self._gap = ""
                self._line("text", text=self._texts[-1])
            case ReasoningDelta(text) if text:
                self._reasoning.append(text)
                self._line("reasoning", text=text)
            case CallRunning(call):
                self._running = True
                self._line("tool_call", **call._asdict())
            case CallOutput(text):
                self._line("tool_output", text=text)
            case CallFinished():
                if not self._running:  # it was not allowed to run
                    self._line("tool_call", **event.call._asdict())
                self._running = False
                self._calls.append(event.call._asdict() | came_of(event))
                self._line("tool_result", **self._calls[-1])
            case MessageAdded(message) if message.role == "assistant" and message.content and self._texts:
                self._gap = "" if message.content.endswith("\n") else "\n"
            case Notice(text):
                self._console.line(f"ask: {text}")
                self._line("notice", text=self._redactor.redact(text))

    def still(self) -> None:
        """Let nothing move: nothing does."""

    def finish(self, outcome: Outcome, saved_as: str) -> None:
        """The run is over: write the object, or the last line. `saved_as` is "" where the run is not saved."""
        failure, text = outcome.failure, "".join(self._texts)
        result = {
            **self._about,
            "saved": bool(saved_as),
            "text": text,
            **({"data": self._redactor.redact_value(json.loads(text)) if text else None} if self._structured else {}),
            "reasoning": "".join(self._reasoning),
            "tool_calls": self._calls,
            "rounds": outcome.rounds,
            "finish": outcome.finish,
            "usage": outcome.usage._asdict(),
            "exit_code": failure.exit_code if failure else 0,
            "error": self._redactor.redact(str(failure)) if failure else None,
        }
        if self._lines:
            self._line("result", **result)
        else:
            self._output.write(json.dumps(result, ensure_ascii=False) + "\n")

    def _line(self, kind: str, **fields: Any) -> None:
        if self._lines:
            self._output.write(json.dumps({"type": kind, **fields}, ensure_ascii=False) + "\n")


def came_of(event: CallFinished) -> dict[str, Any]:
    """What came of a call."""
    return {
        "result": event.result,
        "failed": event.failed,
        "decision": event.verdict,
        "exit_status": event.exit_status,
        "seconds": round(event.seconds, 3),
    }
