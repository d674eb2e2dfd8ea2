"""The answers of several models to one prompt: one JSON object, sections, or columns on a terminal."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any

from ask.client.citations import format_notes, list_in_markdown
from ask.compare.answers import ModelAnswer
from ask.console import BOLD, DIM, STDERR, STDOUT, StandardOutput, StderrConsole, can_redraw_now, wrap_for_terminal
from ask.events import Event, MessageAdded, Notice
from ask.messages import Message, TextDelta
from ask.render.amounts import format_cost
from ask.render.live_region import LiveRegion, TerminalRow, get_terminal_size
from ask.render.markdown_rows import render_markdown
from ask.render.plain_renderer import PlainRenderer
from ask.render.text_layout import Row, get_plain_text, split_at_width, to_ansi, truncate_text
from ask.text import escape_control_characters, format_duration, format_one_line, measure_width

DRAW_INTERVAL_SECONDS = 0.04
"""Seconds between two redraws of the columns."""
SEPARATOR = " │ "
MIN_COLUMN_WIDTH = 24


class ComparisonView:
    """The display of the answers of several models, and of the verdict on them or their combination."""

    def __init__(self, output: StandardOutput, console: StderrConsole) -> None:
        self._output = output
        self._console = console

    def show(self, number: int, event: Event | ModelAnswer) -> None:
        """Show an event of the model with this number, the last of which is its answer."""
        raise NotImplementedError

    def refresh(self) -> None:
        """Show what has arrived."""

    def end_answers(self) -> None:
        """Show the rest of what has arrived: no further answer comes."""

    def show_notice(self, event: Event) -> None:
        """Print an event if it is a notice."""
        if isinstance(event, Notice):
            self._console.print_notice(event.text)

    def show_verdict(self, best: ModelAnswer, verdict: ModelAnswer) -> None:
        """Show which answer is the best, and the judge's reason."""
        raise NotImplementedError

    def show_combined(self, event: Event | ModelAnswer) -> None:
        """Show an event of the model that combines the answers, the last of which is its answer."""
        raise NotImplementedError

    def finish(self) -> None:
        """Show what is left at the end."""


class JsonComparison(ComparisonView):
    """Prints one JSON object with everything at the end."""

    def __init__(self, output: StandardOutput, console: StderrConsole) -> None:
        super().__init__(output, console)
        self._answers: dict[int, dict[str, Any]] = {}
        self._reviews: dict[str, Any] = {}

    def show(self, number: int, event: Event | ModelAnswer) -> None:
        if isinstance(event, ModelAnswer):
            self._answers[number] = _to_json_fields(event)
        else:
            self.show_notice(event)

    def show_verdict(self, best: ModelAnswer, verdict: ModelAnswer) -> None:
        self._reviews["judge"] = {"best": best.endpoint.full_name, **_to_json_fields(verdict)}

    def show_combined(self, event: Event | ModelAnswer) -> None:
        if isinstance(event, ModelAnswer):
            self._reviews["combined"] = _to_json_fields(event)
        else:
            self.show_notice(event)

    def finish(self) -> None:
        answers = [self._answers[number] for number in sorted(self._answers)]
        self._output.write(json.dumps({"answers": answers, **self._reviews}, ensure_ascii=False) + "\n")


class SectionComparison(ComparisonView):
    """Prints the answers one below the other, in the order of the models; in a race, only the first complete one.

    `names` are those of the models; `open_renderer` creates the renderer of an answer.
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
        self._complete: dict[int, ModelAnswer] = {}
        self._printed_count = 0
        self._renderer: PlainRenderer | None = None

    def show(self, number: int, event: Event | ModelAnswer) -> None:
        if not isinstance(event, ModelAnswer):
            self.show_notice(event)
            return
        self._complete[number] = event
        if self._race and not event.error:
            self._print_section(event.endpoint.full_name, event)

    def refresh(self) -> None:
        while not self._race and self._printed_count in self._complete:
            answer = self._complete[self._printed_count]
            self._print_section(answer.endpoint.full_name, answer)
            self._printed_count += 1
        waiting = [name for number, name in enumerate(self._names) if number not in self._complete]
        status = truncate_text(
            f"waiting for {', '.join(waiting)}", get_terminal_size(STDERR).columns - 1
        )  # a full row wraps
        self._console.show_status(status if waiting else "")

    def show_verdict(self, best: ModelAnswer, verdict: ModelAnswer) -> None:
        title = f"best, as judged by {verdict.endpoint.full_name}: {best.endpoint.full_name}"
        self._print_section(title, verdict)

    def show_combined(self, event: Event | ModelAnswer) -> None:
        if isinstance(event, ModelAnswer):
            if self._renderer:
                self._renderer.stop()
            return
        if self._renderer is None:
            self._console.show_status("")
            self._output.write("\n── combined ──\n")
            self._renderer = self._open_renderer()
        self._renderer.show(event)

    def _print_section(self, title: str, answer: ModelAnswer) -> None:
        self._console.show_status("")
        heading = wrap_for_terminal(f"── {title} ({_describe_answer(answer)}) ──", STDOUT)
        self._output.write(f"\n{heading}\n")
        if answer.text:
            renderer = self._open_renderer()
            try:
                renderer.show(TextDelta(answer.text))
                renderer.show(MessageAdded(Message("assistant", answer.text)))
            finally:
                renderer.stop()
        self._output.write(format_notes(answer.citations), DIM)


class ColumnComparison(SectionComparison):
    """Streams the answers side by side on a terminal, each in a column that grows while its text arrives.

    A text that is higher than the terminal is shown from its end until it is final.
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
        self._live_region = live_region
        self._texts = [""] * len(names)
        self._footers = ["..."] * len(names)
        self._draw()

    def show(self, number: int, event: Event | ModelAnswer) -> None:
        match event:
            case TextDelta(text):
                self._texts[number] += escape_control_characters(text)
            case ModelAnswer():
                self._footers[number] = _describe_answer(event)
                sources = list_in_markdown(event.citations, self._texts[number])
                self._texts[number] += f"\n{sources}" if sources else ""
            case Notice(text) if self._console.is_terminal:
                self._draw(escape_control_characters(f"{self._names[number]}: {text}").splitlines())
            case _:
                self.show_notice(event)

    def refresh(self) -> None:
        self._draw()
        # Models send faster than a terminal draws. What arrives meanwhile is drawn at once.
        time.sleep(DRAW_INTERVAL_SECONDS)

    def end_answers(self) -> None:
        if not can_redraw_now():
            self._live_region.mark_cursor_lost()
        self._live_region.update([row.text for row in self._render()], ())

    def _draw(self, lines_above: Sequence[str] = ()) -> None:
        """Draw the columns, unless other runs write to the terminal: they are then shown once, at the end."""
        if not can_redraw_now():
            self._live_region.mark_cursor_lost()
            if lines_above:
                self._live_region.update(lines_above, ())
            return
        height = self._live_region.size.lines - 1
        rows = self._render(max_height=max(height - 2, 1))
        # The names of the models, and the end of the rest.
        self._live_region.update(lines_above, [*rows[:1], *rows[1:][-(height - 1) :]])

    def _render(self, max_height: int | None = None) -> list[TerminalRow]:
        """Render names, texts and footers; of each text, the last `max_height` rows."""
        count, total_width = len(self._names), self._live_region.size.columns
        width = max((total_width + len(SEPARATOR)) // count - len(SEPARATOR), 1)
        columns = []
        for name, text, footer in zip(self._names, self._texts, self._footers, strict=True):
            rows = [part for row in render_markdown(text, width) for part in split_at_width(row, width)]
            rows = rows[-max_height:] if max_height else rows
            labels = ((format_one_line(name), BOLD), (format_one_line(footer), DIM))
            first, last = ([(truncate_text(label, width), style)] for label, style in labels)
            columns.append((first, rows, last))
        names, texts, footers = zip(*columns, strict=True)
        return [_join_row(row, width) for row in (names, *zip_longest(*texts, fillvalue=[]), footers)]


def fits_columns(count: int, width: int) -> bool:
    """Check whether a terminal is wide enough for this many columns."""
    return (width + len(SEPARATOR)) // count - len(SEPARATOR) >= MIN_COLUMN_WIDTH


def _join_row(cells: Sequence[Row], width: int) -> TerminalRow:
    """Join the cells of a row, padded to columns of equal width."""
    row: Row = []
    for cell in cells:
        padding = width - measure_width(get_plain_text(cell))
        row += [*([(SEPARATOR, DIM)] if row else []), *cell, (" " * padding, "")]
    return TerminalRow(to_ansi(row), measure_width(get_plain_text(row)))


def _describe_answer(answer: ModelAnswer) -> str:
    """Describe on one line how long an answer took, its size and cost, or why there is none."""
    parts = [format_duration(answer.seconds)]
    if answer.usage.output_tokens is not None:
        parts.append(f"{answer.usage.output_tokens:,} tokens")
    if answer.cost.dollars is not None:
        parts.append(format_cost(answer.cost))
    return f"error: {answer.error.summary}" if answer.error else ", ".join(parts)


def _to_json_fields(answer: ModelAnswer) -> dict[str, Any]:
    """Return the fields of an answer in the JSON object."""
    return {
        "provider": answer.endpoint.provider_name,
        "model": answer.endpoint.model,
        "text": answer.text,
        "citations": [citation._asdict() for citation in answer.citations],
        "usage": {**answer.usage._asdict(), **answer.cost.to_dict()},
        "cost": answer.cost.dollars,
        "seconds": round(answer.seconds, 3),
        "error": str(answer.error) if answer.error else None,
    }
