"""The fields of answers that `--score` compares with columns of labels, and when two values are the same."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any

from ask.errors import UsageError
from ask.map.distributions import BOOLEANS, MAX_KEY_CHARACTERS, MAX_NUMBER, to_text
from ask.map.json_values import decode_json, encode_json
from ask.map.output import ANSWER
from ask.records import NamedTuple
from ask.schemas.decision_questions import PROBABILITY_SUFFIX
from ask.text import format_suggestion

TRUE_WORDS, FALSE_WORDS = ("true", "t", "yes", "y", "1"), ("false", "f", "no", "n", "0")
BOOLEAN_WORDS = dict.fromkeys(TRUE_WORDS, "true") | dict.fromkeys(FALSE_WORDS, "false")
NUMBER_PATTERN = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
"""A number as JSON has it, so that codes with leading zeros stay text."""


class ScoredField(NamedTuple):
    """A field of the answers, and the column with its labels, which are the right answers.

    Attributes:
        field: the name of the field.
        column: the name of the column of the input.
        is_boolean: whether the values are true and false.
        allowed: the values that the schema lists, in order; () for any.
        is_ordered: whether they are the levels of a scale.
    """

    field: str
    column: str
    is_boolean: bool = False
    allowed: Sequence[Any] = ()
    is_ordered: bool = False

    @property
    def probability(self) -> str:
        """The name of the field with the probability of the value, if the answers have it."""
        return self.field + PROBABILITY_SUFFIX

    def make_key(self, value: Any) -> str:
        """Return a text that equal values share; "" for no value."""
        key = make_key(value)
        return BOOLEAN_WORDS.get(key, key) if self.is_boolean else key


def make_key(value: Any) -> str:
    """Return a text that equal values share; "" for no value.

    Numbers are equal by value, and text without regard to outer and repeated space, letter case and Unicode form. A
    text that is a number, an array or an object in JSON equals this value, because cells of CSV are text.
    """
    if isinstance(value, str):
        return _make_text_key(value.strip())
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    if isinstance(value, bool):
        return BOOLEANS[value]
    if isinstance(value, int | float):
        return _make_number_key(encode_json(value))
    try:
        return _make_json_key(value)
    except RecursionError:  # nested so deeply that it is compared as nothing
        return ""


def _make_text_key(text: str) -> str:
    if NUMBER_PATTERN.fullmatch(text):
        return _make_number_key(text)
    if text.startswith(("{", "[")):
        with suppress(ValueError, RecursionError):
            return _make_json_key(decode_json(text))
    folded = text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()
    return _shorten(" ".join(folded.split()))


def _make_json_key(value: Any) -> str:
    """Return the key of an array or object.

    Raises:
        RecursionError: it is nested too deeply.
    """
    return _shorten(encode_json(_normalize(value)))


def _make_number_key(text: str) -> str:
    """Return the same text for all ways to write a number."""
    if text.removeprefix("-").isdigit():
        return "0" if text == "-0" else _shorten(text)
    number = float(text)
    return str(int(number)) if number.is_integer() else repr(number)


def _normalize(value: Any) -> Any:
    """Sort the keys of objects, and write whole numbers without a fraction."""
    if isinstance(value, dict):
        return {name: _normalize(value[name]) for name in sorted(value)}
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return [_normalize(item) for item in value] if isinstance(value, list) else value


def _shorten(text: str) -> str:
    """Return a text, or a digest in place of a long one."""
    if len(text) <= MAX_KEY_CHARACTERS:
        return text
    return f"blake2b:{blake2b(text.encode('utf-8', 'replace'), digest_size=16).hexdigest()}"


def parse_number(key: str) -> float | None:
    """Return the number that a key stands for; None if it is another value, or too large to calculate with."""
    number = float(key) if NUMBER_PATTERN.fullmatch(key) else math.inf
    return number if abs(number) <= MAX_NUMBER else None


def parse_scores(options: Sequence[str], schema: Mapping[str, Any] | None) -> list[ScoredField]:
    """Parse the values of `--score`: a column, or FIELD=COLUMN.

    A column alone is for the only field of the answers, or for the one of its name.

    Args:
        options: the values.
        schema: the schema of the answers; None for text.

    Raises:
        UsageError: it is not clear which field a column is for, or there is no such field.
    """
    fields = get_properties(schema) or {ANSWER: schema or {}}
    probabilities = {name + PROBABILITY_SUFFIX for name in fields}.intersection(fields)
    scored: dict[str, ScoredField] = {}
    for option in options:
        field, column = _split_option(option, [name for name in fields if name not in probabilities])
        if field not in fields:
            hint = format_suggestion(field, fields, f"the fields are {', '.join(fields)}")
            raise UsageError(f"--score: the answers have no field {field!r}", hint)
        if field in probabilities:
            value = field.removesuffix(PROBABILITY_SUFFIX)
            raise UsageError(f"--score: {field} is the probability of {value}", f"write --score {value}={column}")
        if field in scored:
            raise UsageError(f"--score: {field} is compared with two columns", "name one of them")
        scored[field] = _describe_field(field, column, fields[field])
    return list(scored.values())


def get_properties(schema: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the schemas of the fields of answers; empty if an answer is one value."""
    properties = schema.get("properties") if schema and schema.get("type") == "object" else None
    return properties or {}


def _split_option(option: str, fields: Sequence[str]) -> tuple[str, str]:
    """Return the field and the column that an option names.

    Raises:
        UsageError: it names a column that may be for several fields.
    """
    field, separator, column = option.partition("=")
    if separator:
        return field.strip(), column.strip()
    column = option.strip()
    if column in fields:
        return column, column
    if len(fields) != 1:
        raise UsageError(
            f"--score {column} could be for several fields",
            f"write --score FIELD={column}; the fields are {', '.join(fields)}",
        )
    return fields[0], column


def _describe_field(field: str, column: str, schema: Any) -> ScoredField:
    """Describe a field by its schema."""
    if not isinstance(schema, Mapping):
        return ScoredField(field, column)
    types = schema.get("type")
    names = {types} if isinstance(types, str) else {name for name in types or () if isinstance(name, str)}
    allowed = schema.get("enum")
    values = [value for value in allowed if value is not None] if isinstance(allowed, list) else []
    is_boolean = names - {"null"} == {"boolean"} or (bool(values) and all(isinstance(each, bool) for each in values))
    if is_boolean:
        values = [True, False]
    is_ordered = schema.get("ordered") is True or _are_levels(values)
    return ScoredField(field, column, is_boolean, tuple(values), is_ordered)


def _are_levels(values: Sequence[Any]) -> bool:
    """Check whether values are a range of integers, as the levels of a scale are listed."""
    is_integer = all(isinstance(value, int) and not isinstance(value, bool) for value in values)
    return is_integer and len(values) > 2 and list(values) == list(range(values[0], values[0] + len(values)))


def describe_unlisted(field: ScoredField, labels: Mapping[str, int]) -> str:
    """Describe labels that the schema does not allow, so that no answer can equal them; "" for none."""
    if not labels:
        return ""
    word = next(iter(labels))
    listed = [to_text(value) for value in field.allowed]
    suggestion = format_suggestion(word, listed, f"the values are {', '.join(listed)}")
    return f"{', '.join(map(repr, labels))} ({suggestion})"
