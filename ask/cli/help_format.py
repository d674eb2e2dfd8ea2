"""The layout of `--help`, for terminals of any width."""

from __future__ import annotations

from collections.abc import Iterable
from shutil import get_terminal_size

import click

MAX_HELP_COLUMNS = 80
MIN_HELP_COLUMNS = 20
"""Columns below which even short words would be divided."""
NARROW_COLUMNS = 50
"""Columns below which help shows descriptions below options instead of beside them."""


class HelpFormatter(click.HelpFormatter):
    """Formats help for terminals of any width; Click's own needs 50 columns."""

    def __init__(self) -> None:
        super().__init__(width=min(max(get_terminal_size().columns, MIN_HELP_COLUMNS), MAX_HELP_COLUMNS) - 2)

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        if self.width >= NARROW_COLUMNS:
            super().write_dl(rows, col_max, col_spacing)
            return
        for term, description in rows:
            self.write_text(term)
            with self.indentation():
                self.write_text(description)

    def write_text(self, text: str) -> None:
        if self.width >= NARROW_COLUMNS:
            super().write_text(text)
            return
        from ask.text import wrap_text  # loads more than help otherwise needs

        for number, paragraph in enumerate(text.split("\n\n")):
            is_literal = paragraph.startswith("\b")
            indentation = " " * self.current_indent
            self.write("\n" if number else "")
            for line in paragraph.split("\n")[1:] if is_literal else [paragraph]:
                hanging_indentation = indentation + " " * (self.indent_increment * is_literal)
                text = " ".join(line.split())
                first, *others = wrap_text(text, self.width - len(hanging_indentation), divide_words=False)
                rows = [indentation + first, *(hanging_indentation + row for row in others)]
                self.write("".join(f"{row}\n" for row in rows))
