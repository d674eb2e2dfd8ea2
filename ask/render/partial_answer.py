"""The part of an answer that --code, --cmd and --schema print once the answer is complete."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from ask.agent.request import RunRequest
from ask.agent.tool_loop import RunResult
from ask.answer_extraction import extract_code, extract_command
from ask.console import StderrConsole, is_in_foreground
from ask.errors import IncompleteResponseError, LimitReachedError
from ask.events import Event, MessageAdded
from ask.plugin_api.provider import TextDelta
from ask.render.json_events import JsonRenderer
from ask.render.plain import PlainRenderer


class PartRenderer:
    """Collects the answer and shows only an extracted part of it at the end.

    Other events are passed on to `renderer`. `extract` raises IncompleteResponseError if the answer has no such part;
    the run then fails with that error. With `accept_incomplete`, the part is also extracted from a truncated answer. If
    `is_shown` is false, the caller shows the part. `on_missing` gets the text of an answer without the part.
    """

    def __init__(
        self,
        renderer: PlainRenderer | JsonRenderer,
        extract: Callable[[str], str],
        *,
        accept_incomplete: bool = False,
        is_shown: bool = True,
        on_missing: Callable[[str], None] | None = None,
    ) -> None:
        self._renderer = renderer
        self._extract = extract
        self._accept_incomplete = accept_incomplete
        self.is_shown = is_shown
        self._on_missing = on_missing
        self._texts: list[str] = []
        self.part = ""
        """The extracted part; "" before the end and if there is none."""

    def show(self, event: Event) -> None:
        """Collect text and pass other events to the renderer.

        Text before a tool call is not part of the answer and is dropped.
        """
        match event:
            case TextDelta(text):
                self._texts.append(text)
                return
            case MessageAdded(message) if message.tool_calls or message.role == "user":  # a new answer is requested
                self._texts.clear()
        self._renderer.show(event)

    def stop(self) -> None:
        """Stop the renderer's animation and flush its output."""
        self._renderer.stop()

    def finish(self, run_result: RunResult, conversation_id: str) -> None:
        """Extract and show the part, and finish the renderer.

        `conversation_id` is "" if the run is not saved.
        """
        text = "".join(self._texts)
        if run_result.error is None or self._accept_incomplete or isinstance(run_result.error, LimitReachedError):
            try:
                self.part = self._extract(text)
            except IncompleteResponseError as error:
                run_result.error = run_result.error or error
        if text and not self.part and self._on_missing:
            self._on_missing(text if text.endswith("\n") else f"{text}\n")
        if self.part and self.is_shown:
            self._renderer.show(TextDelta(self.part))
        self._renderer.finish(run_result, conversation_id)


def create_part_renderer(
    request: RunRequest, renderer: PlainRenderer | JsonRenderer, flags: Mapping[str, Any], console: StderrConsole
) -> PartRenderer:
    """Create the renderer for the part of the answer that the output format requires.

    Truncated code is shown; a truncated command is not. A command is left to the caller if the user can be asked what
    to do with it: on a terminal, with ask in the foreground.
    """
    is_on_terminal = sys.stdout.isatty() and not (flags["as_json"] or flags["as_events"])
    if request.output_format == "code":
        return PartRenderer(renderer, extract_code, accept_incomplete=True)
    if request.response_schema is None:
        return PartRenderer(renderer, extract_command, is_shown=not (is_on_terminal and is_in_foreground()))
    schema, redact_json = request.response_schema, request.secrets.redact_json
    indent = 2 if is_on_terminal else None
    return PartRenderer(
        renderer,
        lambda text: redact_json(schema.extract_json(text, indent)),
        on_missing=console.print_dim if flags["verbose"] else None,
    )
