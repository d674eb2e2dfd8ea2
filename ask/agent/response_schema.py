"""`--schema`: the schema as the user gave it, and an answer by it: checked, and as JSON alone."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ask.errors import IncompleteAnswer, UsageError
from ask.inputs.text import parse_json, read_file
from ask.schemas.schema import Schema, checked
from ask.schemas.short_form import parse
from ask.text import as_text

JSON_BEGINS = re.compile(r'\s*\{\s*(?:\}|"(?:[^"\\]|\\.)*"\s*:\s*["{\[tfn\d-])')
"""How an object begins in JSON."""
FILE_NAME = re.compile(r"\S*\.json|\S*/\S*|~\S*")
"""What can only be meant for a file's name."""


class Shape:
    """What an answer must be.

    Attributes:
        schema: the JSON Schema.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self.schema: Mapping[str, Any] = schema.value

    @property
    def words(self) -> str:
        """The schema as the model is told of it."""
        return json.dumps(self.schema, ensure_ascii=False)

    def problem(self, answer: str) -> str:
        """What keeps an answer from being taken, one line; "" for nothing."""
        from ask.answer_extraction import json_in

        return json_in(answer, self._schema.problem)[1]

    def value_in(self, answer: str, indent: int | None = None) -> str:
        """The value in an answer, as JSON: on one line, or indented by so many columns.

        Raises:
            IncompleteAnswer: there is none that fits.
        """
        from ask.answer_extraction import json_in

        value, problem = json_in(answer, self._schema.problem)
        if problem:
            raise IncompleteAnswer(f"the answer does not fit the schema ({problem})")
        separators = None if indent else (",", ":")
        return json.dumps(value, ensure_ascii=False, indent=indent, separators=separators)


def read_shape(given: str) -> Shape:
    """The shape that --schema names: by a file (@file, or its name), as JSON, or in short.

    Raises:
        UsageError: it is no schema.
        FileError: the file cannot be read.
    """
    text = as_text(given)
    if text.startswith("@"):
        text = read_file(text[1:])
    elif text.lstrip().startswith(("{", "[")):
        pass  # JSON, though it may contain a slash
    elif FILE_NAME.fullmatch(text) or ("." in text and is_file(text)):
        text = read_file(text)
    try:
        value = parse_json(text)
    except (ValueError, RecursionError, OverflowError) as fault:
        if not JSON_BEGINS.match(text):
            return Shape(Schema(parse(text)))
        raise UsageError(f"--schema: this is no JSON: {fault}", "correct it there") from None
    return Shape(checked(value) if isinstance(value, dict | list | bool) else Schema(parse(text)))


def is_file(name: str) -> bool:
    """Whether there is a file of that name."""
    try:
        return Path(name).is_file()
    except (OSError, ValueError):
        return False
