"""Shows a part of the answer in place of the answer, once it is whole; everything else as ever."""

from __future__ import annotations

from collections.abc import Callable

from ask.agent.tool_loop import RunResult
from ask.errors import IncompleteResponseError, LimitReachedError
from ask.events import Event, MessageAdded
from ask.plugin_api.provider import TextDelta
from ask.render.json_output import JsonRenderer
from ask.render.plain import PlainRenderer


class PartRenderer:
    """Holds the answer's text back to the end. What was said beside tool calls is not of the answer.

    Args:
        inner: shows the run.
        find: the part of an answer; raises IncompleteAnswer where there is none, which the run then fails with.
        of_cut: take it of an answer too that is not whole.
        is_shown: let `renderer` show it; False where somebody else will.
        left_out: takes an answer without such a part.

    Attributes:
        part: the part that was found, "" before the end and where there is none.
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

    def show(self, event: Event) -> None:
        """Take an event."""
        match event:
            case TextDelta(text):
                self._texts.append(text)
                return
            case MessageAdded(message) if message.tool_calls or message.role == "user":  # who asks for another one
                self._texts.clear()
        self._renderer.show(event)

    def stop(self) -> None:
        """Let nothing move any more."""
        self._renderer.stop()

    def finish(self, run_result: RunResult, conversation_id: str) -> None:
        """The run is over. `conversation_id` is the id of the conversation, "" where it is not saved."""
        text = "".join(self._texts)
        if run_result.error is None or self._accept_incomplete or isinstance(run_result.error, LimitReachedError):
            try:
                self.part = self._extract(text)
            except IncompleteResponseError as failure:
                run_result.error = run_result.error or failure
        if text and not self.part and self._on_missing:
            self._on_missing(text if text.endswith("\n") else f"{text}\n")
        if self.part and self.is_shown:
            self._renderer.show(TextDelta(self.part))
        self._renderer.finish(run_result, conversation_id)
