"""A renderer that shows only a part of the answer, such as its code, once the answer is complete."""

from __future__ import annotations

from collections.abc import Callable

from ask.agent.tool_loop import RunResult
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
