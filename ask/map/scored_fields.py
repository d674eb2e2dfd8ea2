"""The fields of answers that `--score` compares with columns of labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ask.errors import UsageError
from ask.map.distributions import to_text
from ask.map.json_values import get_properties, list_types
from ask.map.label_matching import BOOLEAN_WORDS, make_key
from ask.map.output import ANSWER
from ask.records import NamedTuple
from ask.schemas.decision_questions import PROBABILITY_SUFFIX
from ask.text import format_suggestion


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
    allowed = schema.get("enum")
    values = [value for value in allowed if value is not None] if isinstance(allowed, list) else []
    is_boolean = list_types(schema) == ["boolean"] or set(map(type, values)) == {bool}
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
