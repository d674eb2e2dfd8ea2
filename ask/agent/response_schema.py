"""`--schema`: reading the schema, and checking and extracting answers."""

from __future__ import annotations

import json
import os
import re

from ask.errors import IncompleteResponseError, UsageError
from ask.inputs.readers import read_text_file
from ask.schemas.schema import JsonSchema, parse_schema
from ask.schemas.short_form import parse_short_form
from ask.settings import JSON_ERRORS, STRICT_DECODER
from ask.text import decode_argument

JSON_OBJECT_START = re.compile(r'\s*\{\s*(?:\}|"(?:[^"\\]|\\.)*"\s*:\s*["{\[tfn\d-])')
"""The beginning of a JSON object."""
FILE_NAME_PATTERN = re.compile(r"\S*\.json|\S*/\S*|~\S*")
"""Text that can only be a file name."""


class ResponseSchema(JsonSchema):
    """The JSON Schema that an answer must match."""

    @property
    def text(self) -> str:
        """The schema as it is included in the system prompt."""
        return json.dumps(self.value, ensure_ascii=False)

    def find_problem(self, answer: str) -> str:
        """Return why an answer does not match, on one line; "" if it does."""
        from ask.answer_extraction import extract_json

        return extract_json(answer, self.describe_problems)[1]

    def extract_json(self, answer: str, indent: int | None = None) -> str:
        """Return the JSON value in an answer, on one line or indented.

        Raises:
            IncompleteResponseError: there is none that matches.
        """
        from ask.answer_extraction import extract_json

        value, problem = extract_json(answer, self.describe_problems)
        if problem:
            raise IncompleteResponseError(f"the answer does not match the schema ({problem})")
        separators = None if indent else (",", ":")
        return json.dumps(value, ensure_ascii=False, indent=indent, separators=separators)


def read_response_schema(option_value: str) -> ResponseSchema:
    """Read a schema from a file (@file, or its name), JSON, or the short form.

    Raises:
        UsageError: it is not a schema.
        FileError: the file cannot be read.
    """
    text = decode_argument(option_value)
    if text.startswith("@"):
        text = read_text_file(text[1:])
    elif text.lstrip().startswith(("{", "[")):
        pass  # JSON, though it may contain a slash
    elif FILE_NAME_PATTERN.fullmatch(text) or ("." in text and os.path.isfile(text)):
        text = read_text_file(text)
    try:
        value = STRICT_DECODER.decode(text)
    except JSON_ERRORS as error:
        if not JSON_OBJECT_START.match(text):
            return ResponseSchema(parse_short_form(text))
        raise UsageError(f"--schema: invalid JSON: {error}", "correct it there") from None
    return ResponseSchema(
        parse_schema(value).value if isinstance(value, dict | list | bool) else parse_short_form(text)
    )
