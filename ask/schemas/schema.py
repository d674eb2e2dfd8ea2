"""A JSON Schema that has been checked itself, and what is wrong with a value by it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

from ask.errors import UsageError
from ask.text import one_line

if TYPE_CHECKING:
    from jsonschema import SchemaError, ValidationError
    from jsonschema.protocols import Validator

SAYS_SOMETHING = frozenset(
    {"type", "properties", "required", "items", "prefixItems", "enum", "const", "anyOf", "oneOf", "allOf", "not"}
    | {"if", "$ref", "additionalProperties", "patternProperties", "pattern", "format", "minimum", "maximum"}
)
"""A schema has at least one of these keywords: an object without any is data, or a mistake, and would allow all."""
PROBLEMS_TOLD = 3
LONGEST_PROBLEM = 200
"""Characters: a problem may quote all of the value."""


class Schema:
    """A schema, and the check by it.

    Args:
        value: the schema itself; `checked` makes one of a value that may be none.
    """

    def __init__(self, value: Mapping[str, Any]) -> None:
        self.value = value

    @cached_property
    def _validator(self) -> Validator:
        """What checks. Nothing is fetched: a reference stays within the schema."""
        from jsonschema import Draft202012Validator
        from jsonschema.validators import validator_for
        from referencing import Registry

        kind = validator_for(self.value, default=Draft202012Validator)
        return kind(self.value, registry=Registry(), format_checker=kind.FORMAT_CHECKER)

    def problem(self, value: Any) -> str:
        """What keeps a value from fitting, on one line; "" for nothing."""
        from jsonschema.exceptions import best_match

        try:
            errors = list(islice(self._validator.iter_errors(value), PROBLEMS_TOLD))
        except RecursionError:
            return "$: it is too deep"
        except OverflowError:
            return "$: a number in it is too large"
        innermost = (best_match([error]) or error for error in errors)
        return "; ".join(map(described, innermost))


def described(error: ValidationError | SchemaError) -> str:
    """What is wrong, and where."""
    return one_line(f"{error.json_path}: {error.message}", LONGEST_PROBLEM)


def checked(value: Any) -> Schema:
    """The value as a schema.

    Raises:
        UsageError: it is none; says where.
    """
    from jsonschema import Draft202012Validator, SchemaError
    from jsonschema.validators import validator_for
    from referencing.exceptions import Unresolvable

    if not isinstance(value, dict):
        raise UsageError("--schema: a JSON Schema is an object", 'for example {"type": "array", ...}')
    if not value.keys() & SAYS_SOMETHING:
        raise UsageError(
            "--schema: it says nothing of the answer", 'a JSON Schema has "type", "properties" or the like'
        )
    try:
        validator_for(value, default=Draft202012Validator).check_schema(value)
        schema = Schema(value)
        schema._validator.is_valid(None)  # with any value, what refers to nothing but itself shows
        for reference in references(value):
            schema._validator.evolve(schema={"$ref": reference}).is_valid(None)
    except SchemaError as fault:
        raise UsageError(f"--schema: {described(fault)}", "correct the schema there") from None
    except Unresolvable as fault:
        advice = "put what it stands for into $defs of the same schema"
        raise UsageError(f"--schema: {fault.ref!r} refers to nothing in it", advice) from None
    except RecursionError:
        raise UsageError("--schema: it refers to itself without end, or is too deep") from None
    return schema


def references(value: Any) -> Iterator[str]:
    """All references in a schema."""
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for part in value.values():
            yield from references(part)
    elif isinstance(value, list):
        for part in value:
            yield from references(part)
