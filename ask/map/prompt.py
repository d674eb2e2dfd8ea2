"""The prompt of a job, which is filled in with the columns of each row."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ask.errors import UsageError
from ask.map.rows import INDEX, PATH, Row
from ask.suggestions import suggest

PLACEHOLDER_PATTERN = re.compile(r"(\\?)\{\{ *([^{}|]*?) *(?:\|((?:(?!\}\}).)*))?\}\}", re.DOTALL)
"""`{{column}}` or `{{column|default}}`; unlike in templates, a column may have any name."""
INPUT = "input"
"""The placeholder for the whole row, as templates use it."""


class Placeholder(NamedTuple):
    name: str
    default: str | None


class RowTemplate:
    """A text with placeholders for columns, parsed once for all rows."""

    def __init__(self, text: str) -> None:
        self._parts: list[str | Placeholder] = []
        position = 0
        for match in PLACEHOLDER_PATTERN.finditer(text):
            escape, name, default = match.groups()
            self._parts.append(text[position : match.start()])
            self._parts.append(match[0][1:] if escape else Placeholder(name, default))
            position = match.end()
        self._parts.append(text[position:])
        self.placeholders = [part for part in self._parts if isinstance(part, Placeholder)]

    def render(self, values: Mapping[str, Any]) -> str:
        """Fill in the placeholders.

        Raises:
            KeyError: a column is missing and has no default.
        """
        texts = []
        for part in self._parts:
            if isinstance(part, str):
                texts.append(part)
            elif part.name in values or part.default is None:
                texts.append(format_value(values[part.name]))
            else:
                texts.append(part.default.strip())
        return "".join(texts)


def format_value(value: Any) -> str:
    """Format a value for a prompt: text as it is, null as nothing, and anything else as JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)


class RenderedPrompt(NamedTuple):
    """The prompt of one row: its text, and the files to attach."""

    text: str
    files: tuple[str, ...] = ()


class RowPrompt:
    """The prompt of a job.

    The text of a row, or the file that a row is, is added to a prompt that refers to no column.

    Args:
        text: the prompt.
        files: the values of `-f`, in which placeholders are filled in, too.
        values: the values of `--var`.
    """

    def __init__(self, text: str, files: Sequence[str] = (), values: Mapping[str, str] | None = None) -> None:
        self._text = RowTemplate(text)
        self._files = [RowTemplate(file) for file in files]
        self._values = values or {}
        names = {placeholder.name for template in self._templates for placeholder in template.placeholders}
        self._column_names = names - self._values.keys()
        self.uses_path = PATH in self._column_names

    @property
    def _templates(self) -> list[RowTemplate]:
        return [self._text, *self._files]

    def check(self, row: Row) -> None:
        """Raise `UsageError` if a placeholder names none of a row's columns."""
        for placeholder in (each for template in self._templates for each in template.placeholders):
            name = placeholder.name
            if placeholder.default is None and name not in (*row.columns, *self._values, INDEX, INPUT):
                suggestion = suggest(name, list(row.columns))
                hint = f"did you mean {suggestion}? " if suggestion else ""
                columns = ", ".join(row.columns)
                raise UsageError(f"there is no column {name!r} in {row.location}", f"{hint}the columns are {columns}")

    def render(self, row: Row, index: int) -> RenderedPrompt:
        """Render the prompt of a row.

        Raises:
            KeyError: the row lacks a column.
        """
        values: dict[str, Any] = {INDEX: index, **row.columns, **self._values}
        files = tuple([template.render(values) for template in self._files]) if self._files else ()
        if self._column_names and not (INPUT in self._column_names and INPUT not in row.columns):
            return RenderedPrompt(self._text.render(values), files)
        row_text, row_files = (row.text, ()) if PATH not in row.columns else ("", (str(row.columns[PATH]),))
        if not row_text and not row_files:
            row_text = json.dumps(row.columns, ensure_ascii=False)
        if self._column_names:
            values[INPUT] = row_text
            return RenderedPrompt(self._text.render(values), files + row_files)
        return RenderedPrompt("\n\n".join(filter(None, (self._text.render(values), row_text))), files + row_files)
