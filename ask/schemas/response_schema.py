"""`--schema` and `--decide`: reading the schema, and how often an answer that does not match it is corrected."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from ask.config.strict_json import JSON_ERRORS, STRICT_DECODER
from ask.errors import UsageError
from ask.messages import DecisionQuestion
from ask.schemas.decision_questions import build_result_schema, parse_questions
from ask.schemas.schema import ResponseSchema, parse_schema
from ask.schemas.short_form import parse_short_form
from ask.text import decode_argument, describe_parse_error

MAX_CORRECTIONS = 2
"""How often the model is asked to correct an answer that does not match the schema."""
JSON_OBJECT_START = re.compile(r'\s*\{\s*(?:\}|"(?:[^"\\]|\\.)*"\s*:\s*["{\[tfn\d-])')
"""The beginning of a JSON object."""
FILE_NAME_PATTERN = re.compile(r"\S*\.json|\S*/\S*|~\S*")
"""Text that can only be a file name."""


def read_response_schema(option_value: str, read_file: Callable[[str], str]) -> ResponseSchema:
    """Read a schema from a file (@file, or its name), which `read_file` reads, from JSON, or from the short form.

    Raises:
        UsageError: it is not a schema.
        FileError: the file cannot be read.
    """
    text = decode_argument(option_value)
    is_inline = text.lstrip().startswith(("{", "["))  # though it may contain a slash
    if text.startswith("@") or (
        not is_inline and (FILE_NAME_PATTERN.fullmatch(text) or ("." in text and os.path.isfile(text)))
    ):
        text = read_file(text.removeprefix("@"))
    try:
        value = STRICT_DECODER.decode(text)
    except JSON_ERRORS as error:
        if not JSON_OBJECT_START.match(text):
            return ResponseSchema(parse_short_form(text))
        raise UsageError(f"--schema: invalid JSON: {describe_parse_error(error)}", "correct it there") from None
    return parse_schema(value) if isinstance(value, dict | list | bool) else ResponseSchema(parse_short_form(text))


def parse_decision_schema(schema: ResponseSchema) -> tuple[ResponseSchema, tuple[DecisionQuestion, ...]]:
    """Return the questions that the fields of a schema are, and before them the schema of the JSON with their answers.

    Raises:
        UsageError: a field is no question.
    """
    questions = parse_questions(schema.value)
    return ResponseSchema(build_result_schema(questions)), questions
