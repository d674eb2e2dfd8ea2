"""The answers of several models to one prompt: one JSON object, sections, or columns on a terminal."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Any

from ask.agent.comparison import ModelAnswer, Verdict
from ask.console import StandardOutput, StderrConsole
from ask.events import Event, MessageAdded, Notice
from ask.messages import Message
from ask.plugin_api.provider import TextDelta
from ask.render.amounts import format_cost, format_duration
from ask.render.columns import ColumnView
from ask.render.live_region import LiveRegion
from ask.render.plain import PlainRenderer

DRAW_INTERVAL = 0.04
"""Seconds between two redraws of the columns."""


class JsonComparison:
    """Prints one JSON object with everything at the end.

    Args:
        output: standard output.
        console: prints notices.
    """

    def __init__(self, output: StandardOutput, console: StderrConsole) -> None:
        self._output = output
        self._console = console
        self._answers: dict[int, ModelAnswer] = {}
        self._fields: dict[int, dict[str, Any]] = {}
        self._parts: dict[str, Any] = {}

    def show(self, number: int, event: Event | ModelAnswer) -> None:
        """Show an event of the model with this number, the last of which is its answer."""
        if isinstance(event, ModelAnswer):
            self._answers[number] = event
            self._fields[number] = to_json_fields(event)
        else:
            self.show_notice(event)

    def refresh(self) -> None:
        """Show what has arrived."""

    def end_answers(self) -> None:
        """Show the rest of what has arrived: no further answer comes."""

    def show_notice(self, event: Event) -> None:
        """Print an event if it is a notice."""
        if isinstance(event, Notice):
            self._console.print_notice(event.text)

    def begin(self, action: str, model: str) -> None:
        """Show that a model reviews the answers."""

    def show_verdict(self, verdict: Verdict) -> None:
        """Show which answer is the best."""
        fields = to_json_fields(verdict.response._replace(text=verdict.reason))
        self._parts["judge"] = {"best": verdict.best.endpoint.full_name, **fields}

    def show_combined(self, event: Event) -> None:
        """Show an event of the model that combines the answers."""
        self.show_notice(event)

    def end_combined(self, answer: ModelAnswer) -> None:
        """Show the end of the combined answer."""
        self._parts["combined"] = to_json_fields(answer)

    def finish(self) -> None:
        """Print the object."""
        answers = [self._fields[number] for number in sorted(self._fields)]
        value = {"answers": answers, **self._parts}
        self._output.write(json.dumps(value, ensure_ascii=False) + "\n")


class SectionComparison(JsonComparison):
    """Prints the answers one below the other, in the order of the models.

    Args:
        output: standard output.
        console: prints notices.
        open_renderer: creates the renderer of an answer.
        names: the models.
        race: whether only the first complete answer is printed.
    """

    def __init__(
        self,
        output: StandardOutput,
        console: StderrConsole,
        open_renderer: Callable[[], PlainRenderer],
        names: Sequence[str],
        *,
        race: bool = False,
    ) -> None:
        super().__init__(output, console)
        self._open_renderer = open_renderer
        self._names = names
        self._race = race
        self._printed_count = 0
        self._renderer: PlainRenderer | None = None

    def show(self, number: int, event: Event | ModelAnswer) -> None:
        super().show(number, event)
        if isinstance(event, ModelAnswer) and self._race and not event.error:
            self._print_section(event)

    def refresh(self) -> None:
        while not self._race and self._printed_count in self._answers:
            self._print_section(self._answers[self._printed_count])
            self._printed_count += 1
        waiting = [name for number, name in enumerate(self._names) if number not in self._answers]
        self._console.show_status(f"waiting for {', '.join(waiting)}" if waiting else "")

    def begin(self, action: str, model: str) -> None:
        self._console.show_status(f"waiting for {model} to {action} the answers")

    def show_verdict(self, verdict: Verdict) -> None:
        self._console.show_status("")
        judge = verdict.response
        self._print_title(f"best, as judged by {judge.endpoint.full_name}: {verdict.best.endpoint.full_name}", judge)
        self._print_text(verdict.reason)

    def show_combined(self, event: Event) -> None:
        if self._renderer is None:
            self._console.show_status("")
            self._output.write("\n── combined ──\n")
            self._renderer = self._open_renderer()
        self._renderer.show(event)

    def end_combined(self, answer: ModelAnswer) -> None:
        if self._renderer:
            self._renderer.stop()
            self._renderer = None

    def finish(self) -> None:
        self._console.show_status("")

    def _print_section(self, answer: ModelAnswer) -> None:
        self._console.show_status("")
        self._print_title(answer.endpoint.full_name, answer)
        if answer.text:
            self._print_text(answer.text)

    def _print_title(self, title: str, answer: ModelAnswer) -> None:
        self._output.write(f"\n── {title} ({describe_answer(answer)}) ──\n")

    def _print_text(self, text: str) -> None:
        renderer = self._open_renderer()
        try:
            renderer.show(TextDelta(text))
            renderer.show(MessageAdded(Message("assistant", text)))
        finally:
            renderer.stop()


class ColumnComparison(SectionComparison):
    """Streams the answers side by side on a terminal.

    Args:
        output: standard output.
        console: prints notices.
        open_renderer: creates the renderer of the combined answer.
        names: the models.
        live_region: the last rows of the terminal.
    """

    def __init__(
        self,
        output: StandardOutput,
        console: StderrConsole,
        open_renderer: Callable[[], PlainRenderer],
        names: Sequence[str],
        live_region: LiveRegion,
    ) -> None:
        super().__init__(output, console, open_renderer, names)
        self._columns = ColumnView(live_region, names)
        self._columns.draw()

    def show(self, number: int, event: Event | ModelAnswer) -> None:
        match event:
            case TextDelta(text):
                self._columns.add_text(number, text)
            case ModelAnswer():
                self._columns.set_footer(number, describe_answer(event))
            case Notice(text) if self._console.is_terminal:
                self._columns.draw([f"{self._names[number]}: {text}"])
            case _:
                self.show_notice(event)

    def refresh(self) -> None:
        self._columns.draw()
        time.sleep(DRAW_INTERVAL)

    def end_answers(self) -> None:
        self._columns.finish()


def describe_answer(answer: ModelAnswer) -> str:
    """Describe on one line how long an answer took, its size and cost, or why there is none."""
    parts = [format_duration(answer.seconds)]
    if answer.usage.output_tokens is not None:
        parts.append(f"{answer.usage.output_tokens:,} tokens")
    if answer.cost.dollars is not None:
        parts.append(format_cost(answer.cost))
    return f"error: {answer.error.summary}" if answer.error else ", ".join(parts)


def to_json_fields(answer: ModelAnswer) -> dict[str, Any]:
    """Return the fields of an answer in the JSON object."""
    return {
        "provider": answer.endpoint.provider_name,
        "model": answer.endpoint.model,
        "text": answer.text,
        "usage": {**answer.usage._asdict(), **answer.cost.to_dict()},
        "cost": answer.cost.dollars,
        "seconds": round(answer.seconds, 3),
        "error": str(answer.error) if answer.error else None,
    }
