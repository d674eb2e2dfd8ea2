"""The prompt of a job, which is filled in with the columns of each row."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ask.errors import UsageError
from ask.map.rows import INDEX, PATH, Row
from ask.suggestions import suggest
from ask.templates.placeholders import COLUMN_PATTERN, INPUT_NAME, fill_placeholders, find_placeholders

MCP_SERVER_PATTERN = re.compile(r"mcp://[^/{]+/", re.IGNORECASE)
"""The part of the address of an MCP server's resource that names the server."""


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
        self._text = text
        self._files = files
        self._values = values or {}
        self._placeholders = [each for part in (text, *files) for each in find_placeholders(part, COLUMN_PATTERN)]
        self._column_names = {placeholder.name for placeholder in self._placeholders} - self._values.keys()
        self.uses_path = PATH in self._column_names

    def check(self, row: Row) -> None:
        """Raise `UsageError` if a placeholder names none of a row's columns."""
        for name, default in self._placeholders:
            if default is None and name not in (*row.columns, *self._values, INDEX, INPUT_NAME):
                suggestion = suggest(name, list(row.columns))
                hint = f"did you mean {suggestion}? " if suggestion else ""
                columns = ", ".join(row.columns)
                raise UsageError(f"there is no column {name!r} in {row.location}", f"{hint}the columns are {columns}")

    def render(self, row: Row, index: int) -> RenderedPrompt:
        """Render the prompt of a row.

        Raises:
            KeyError: the row lacks a column.
            UsageError: the row names an MCP server, which only the user may start.
        """
        values: dict[str, Any] = {INDEX: index, **row.columns, **self._values}
        files = [check_file(fill_placeholders(file, values, COLUMN_PATTERN), file) for file in self._files]
        row_text = ""
        if not self._column_names or (INPUT_NAME in self._column_names and INPUT_NAME not in row.columns):
            if PATH in row.columns:
                files.append(check_file(str(row.columns[PATH])))
            else:
                row_text = row.text or json.dumps(row.columns, ensure_ascii=False)
        text = fill_placeholders(self._text, {INPUT_NAME: row_text, **values}, COLUMN_PATTERN)
        if not self._column_names:
            text = "\n\n".join(filter(None, (text, row_text)))
        return RenderedPrompt(text, tuple(files))


def check_file(file: str, option: str = "") -> str:
    """Return a file to attach, which a row has filled in where `option`, the value of `-f`, has placeholders.

    Raises:
        UsageError: the row names an MCP server, which only the user may start.
    """
    if MCP_SERVER_PATTERN.match(file) and not MCP_SERVER_PATTERN.match(option):
        raise UsageError("a row cannot name an MCP server", "write -f mcp://SERVER/{{column}}")
    return file
