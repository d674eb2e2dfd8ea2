"""The part of an answer that --code, --cmd and --schema print once the answer is complete."""

from __future__ import annotations

import sys

from ask.agent.request import RunRequest
from ask.agent.tool_loop import RunResult, get_last_answer
from ask.console import StderrConsole, is_in_foreground
from ask.errors import IncompleteResponseError, LimitReachedError
from ask.events import Event
from ask.plugin_api.provider import TextDelta
from ask.render.answer_extraction import extract_code, extract_command
from ask.render.json_events import JsonRenderer
from ask.render.plain import PlainRenderer


class PartRenderer:
    """Shows only the part of the answer that the output format requires, at the end.

    Other events are passed on to `renderer`. If the answer has no such part, the run fails with that error.

    Args:
        request: the request, with the output format.
        renderer: shows everything else.
        console: standard error.
        verbose: whether to show an answer that does not match the schema.

    Attributes:
        part: The part; "" before the end and if there is none.
        is_shown: Whether the part is shown. A command is left to the caller if the user can be asked what to do with
            it: on a terminal, with ask in the foreground.
    """

    def __init__(
        self,
        request: RunRequest,
        renderer: PlainRenderer | JsonRenderer,
        console: StderrConsole,
        *,
        verbose: bool,
    ) -> None:
        self._request = request
        self._renderer = renderer
        self._console = console
        self._is_on_terminal = sys.stdout.isatty() and not isinstance(renderer, JsonRenderer)
        self._shows_mismatch = verbose and request.response_schema is not None
        self.part = ""
        self.is_shown = not (request.output_format == "cmd" and self._is_on_terminal and is_in_foreground())

    def show(self, event: Event) -> None:
        """Pass an event to the renderer, except for text."""
        if not isinstance(event, TextDelta):
            self._renderer.show(event)

    def stop(self) -> None:
        """Stop the renderer's animation and flush its output."""
        self._renderer.stop()

    def finish(self, run_result: RunResult, conversation_id: str) -> None:
        """Extract and show the part, and finish the renderer. Truncated code is shown; a truncated command is not.

        `conversation_id` is "" if the run is not saved.
        """
        text = get_last_answer(run_result.messages)
        is_usable = run_result.error is None or isinstance(run_result.error, LimitReachedError)
        if is_usable or self._request.output_format == "code":
            try:
                self.part = self._extract(text)
            except IncompleteResponseError as error:
                run_result.error = run_result.error or error
        if text and not self.part and self._shows_mismatch:
            self._console.print_dim(text if text.endswith("\n") else f"{text}\n")
        if self.part and self.is_shown:
            self._renderer.show(TextDelta(self.part))
        self._renderer.finish(run_result, conversation_id)

    def _extract(self, text: str) -> str:
        """Return the part; raise IncompleteResponseError if there is none."""
        if self._request.response_schema is not None:
            json_text = self._request.response_schema.extract_json(text, 2 if self._is_on_terminal else None)
            return self._request.secrets.redact_json(json_text)
        return extract_code(text) if self._request.output_format == "code" else extract_command(text)
