"""The layout of `--help`, for terminals of any width."""

from __future__ import annotations

from collections.abc import Iterable

import click

MAX_HELP_WIDTH = 80
NARROW_WIDTH = 50
"""Columns below which help shows descriptions below options instead of beside them."""


class HelpFormatter(click.HelpFormatter):
    """Formats help for terminals of any width; Click's own needs 50 columns."""

    def __init__(self) -> None:
        from shutil import get_terminal_size

        super().__init__(width=max(min(get_terminal_size().columns, MAX_HELP_WIDTH) - 2, 1))

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        if self.width >= NARROW_WIDTH:
            super().write_dl(rows, col_max, col_spacing)
            return
        for term, description in rows:
            self.write_text(term)
            with self.indentation():
                self.write_text(description)

    def write_text(self, text: str) -> None:
        if self.width >= NARROW_WIDTH:
            super().write_text(text)
            return
        from textwrap import fill

        for number, paragraph in enumerate(text.split("\n\n")):
            is_literal = paragraph.startswith("\b")
            indentation = " " * self.current_indent
            self.write("\n" if number else "")
            for line in paragraph.split("\n")[1:] if is_literal else [paragraph]:
                hanging_indentation = indentation + " " * (self.indent_increment * is_literal)
                filled = fill(
                    line,
                    self.width,
                    initial_indent=indentation,
                    subsequent_indent=hanging_indentation,
                    break_long_words=False,
                    break_on_hyphens=False,
                )
                self.write(f"{filled}\n")
