"""The deltas of an answer on their way to the user: merged, and without secrets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby

from ask.plugin_api.types import Delta, ReasoningDelta, TextDelta, ToolCallDelta
from ask.secrets import Redactor
from ask.text import SurrogateJoiner


class DeltaRedactor:
    """Forwards the deltas of an answer without secrets; characters and secrets may be split between two deltas."""

    def __init__(self, redactor: Redactor, on_delta: Callable[[Delta], None]) -> None:
        self._redact = redactor.redact
        self._on_delta = on_delta
        text_types: tuple[type[ReasoningDelta | TextDelta], ...] = (ReasoningDelta, TextDelta)
        self._joiners = {delta_type: SurrogateJoiner() for delta_type in text_types}
        self._redactors = {delta_type: redactor.open_stream() for delta_type in text_types}
        self._last_type: type[Delta] | None = None

    def feed(self, delta: Delta) -> None:
        """Forward as much of the text as cannot be part of a secret.

        What is held back of the reasoning comes before the text that follows it, if that is safe.
        """
        if type(delta) is not self._last_type:
            if self._last_type in self._redactors and (released := self._redactors[self._last_type].release()):
                self._on_delta(self._last_type(released))
            self._last_type = type(delta)
        if isinstance(delta, ToolCallDelta):
            self._on_delta(ToolCallDelta(delta.index, self._redact(delta.name)))
        else:
            text = self._joiners[type(delta)].feed(delta.text)
            self._on_delta(type(delta)(self._redactors[type(delta)].feed(text)))

    def finish(self) -> None:
        """Forward the text that was held back."""
        for delta_type, redactor in self._redactors.items():
            if text := redactor.feed(self._joiners[delta_type].finish()) + redactor.finish():
                self._on_delta(delta_type(text))


def merge_deltas(deltas: Iterable[Delta]) -> Iterator[Delta]:
    """Merge consecutive deltas of the same type."""
    for delta_type, group in groupby(deltas, type):
        if delta_type is ToolCallDelta:
            yield from group
        else:
            yield delta_type("".join(delta.text for delta in group))  # type: ignore[union-attr]  # not a ToolCallDelta


def discard_delta(_: Delta) -> None:
    """Ignore a delta of an answer that is shown once it is complete."""
