"""Shows a part of the answer in place of the answer, once it is whole; everything else as ever."""

from __future__ import annotations

from collections.abc import Callable

from ask.agent.tool_loop import Outcome
from ask.errors import IncompleteAnswer, LimitReached
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
        shown: let `inner` show it; False where somebody else will.
        left_out: takes an answer without such a part.

    Attributes:
        part: the part that was found, "" before the end and where there is none.
    """

    def __init__(
        self,
        inner: PlainRenderer | JsonRenderer,
        find: Callable[[str], str],
        *,
        of_cut: bool = False,
        shown: bool = True,
        left_out: Callable[[str], None] | None = None,
    ) -> None:
        self._inner = inner
        self._find = find
        self._of_cut = of_cut
        self.shown = shown
        self._left_out = left_out
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
        self._inner.show(event)

    def still(self) -> None:
        """Let nothing move any more."""
        self._inner.still()

    def finish(self, outcome: Outcome, saved_as: str) -> None:
        """The run is over. `saved_as` is the id of the conversation, "" where it is not saved."""
        text = "".join(self._texts)
        if outcome.failure is None or self._of_cut or isinstance(outcome.failure, LimitReached):
            try:
                self.part = self._find(text)
            except IncompleteAnswer as failure:
                outcome.failure = outcome.failure or failure
        if text and not self.part and self._left_out:
            self._left_out(text if text.endswith("\n") else f"{text}\n")
        if self.part and self.shown:
            self._inner.show(TextDelta(self.part))
        self._inner.finish(outcome, saved_as)
