"""The part of an answer that --code, --cmd, --schema and --extract print once the answer is complete."""

from __future__ import annotations

from ask.agent.request import RunRequest
from ask.agent.tool_loop import RunResult
from ask.console import StderrConsole, is_in_foreground, is_output_terminal
from ask.errors import IncompleteResponseError, LimitReachedError, RefusedQuestionsError
from ask.events import Event
from ask.messages import TextDelta
from ask.render.answer_extraction import extract_code, extract_command, extract_last_block
from ask.render.json_events import JsonRenderer
from ask.render.plain_renderer import PlainRenderer
from ask.schemas.decision_questions import format_probabilities


class ExtractedAnswerRenderer:
    """Shows only the part of the answer that the output format requires, at the end: its last block without a format.

    Other events are passed on to `renderer`. If the answer has no such part, the run fails with that error.

    Args:
        request: the request, with the output format.
        renderer: shows everything else.
        console: standard error.
        verbose: whether to show an answer that does not match the schema, and the probabilities of decisions.

    Attributes:
        extracted: the part; "" before the end and if there is none.
        is_shown: whether the part is shown. A command is left to the caller if the user can be asked what to do with
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
        self._is_on_terminal = is_output_terminal() and not isinstance(renderer, JsonRenderer)
        self._verbose = verbose
        self._shows_mismatch = verbose and request.response_schema is not None
        self.extracted = ""
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
        text = run_result.answer
        is_usable = run_result.error is None or isinstance(run_result.error, LimitReachedError | RefusedQuestionsError)
        if is_usable or self._request.output_format in ("code", ""):
            try:
                self.extracted = self._extract(text)
            except IncompleteResponseError as error:
                run_result.error = run_result.error or error
        if text and not self.extracted and self._shows_mismatch:
            self._console.print_dim(text if text.endswith("\n") else f"{text}\n")
        if self._verbose and run_result.decisions:
            for line in format_probabilities(self._request.questions, run_result.decisions):
                self._console.print_dim(f"· {line}\n")
        if self.extracted and self.is_shown:
            self._renderer.show(TextDelta(self.extracted))
        self._renderer.finish(run_result, conversation_id)

    def _extract(self, text: str) -> str:
        """Return the part.

        Raises:
            IncompleteResponseError: there is none.
        """
        if self._request.response_schema is not None:
            json_text = self._request.response_schema.extract_json(text, 2 if self._is_on_terminal else None)
            return self._request.secrets.redact_json(json_text)
        extract = {"code": extract_code, "cmd": extract_command}.get(self._request.output_format, extract_last_block)
        return extract(text)
