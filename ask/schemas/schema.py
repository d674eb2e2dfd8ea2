"""A JSON Schema that has been checked itself, and what is wrong with a value by it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

from ask.errors import UsageError
from ask.text import format_one_line

if TYPE_CHECKING:
    from jsonschema import SchemaError, ValidationError
    from jsonschema.protocols import Validator
    from referencing import Resource, Specification
    from referencing._core import Resolver

IN_PLACE_KEYWORDS = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas")
"""Keywords whose schemas apply to the same value as the schema they stand in."""
MAX_PROBLEMS = 3
MAX_PROBLEM_LENGTH = 200
"""Characters: a problem may quote all of the value."""


class JsonSchema:
    """A schema, and the check of values against it, formats included.

    Args:
        value: the schema itself; `parse_schema` makes one of a value that may be none.
    """

    def __init__(self, value: Mapping[str, Any]) -> None:
        self.value = value

    @cached_property
    def _validator(self) -> Validator:
        from jsonschema_specifications import REGISTRY as SPECIFICATIONS

        kind = find_validator_class(self.value)
        return kind(self.value, registry=SPECIFICATIONS, format_checker=kind.FORMAT_CHECKER)

    def describe_problems(self, value: Any) -> str:
        """What keeps a value from fitting, on one line; "" for nothing."""
        try:
            errors = list(islice(self._validator.iter_errors(value), MAX_PROBLEMS))
        except RecursionError:
            return "$: it is too deep"
        except OverflowError:
            return "$: a number in it is too large"
        return "; ".join(format_validation_error(find_innermost(error)) for error in errors)


def find_validator_class(schema: Mapping[str, Any]) -> type[Validator]:
    """Return the validator class for the draft that a schema declares; the newest where it declares none we know."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for

    declared = schema.get("$schema")
    named = {"$schema": declared} if isinstance(declared, str) else {}
    return validator_for(named, default=Draft202012Validator)


def find_innermost(error: ValidationError) -> ValidationError:
    """Return the error inside a union that is most likely meant."""
    from jsonschema.exceptions import UndefinedTypeCheck, best_match

    try:
        return best_match([error]) or error
    except UndefinedTypeCheck:  # a tool's schema may name a type that there is none of
        return error


def format_validation_error(error: ValidationError | SchemaError) -> str:
    """What is wrong, and where."""
    return format_one_line(f"{error.json_path}: {error.message}", MAX_PROBLEM_LENGTH)


def parse_schema(value: Any) -> JsonSchema:
    """Return the value as a schema that has been checked itself.

    Raises:
        UsageError: it is none, or none that an answer can be checked against; says where.
    """
    from jsonschema import SchemaError
    from referencing.exceptions import Unresolvable

    if value is True or value == {}:
        return JsonSchema({})
    if value is False:
        raise UsageError("--schema: no answer fits false", "true stands for any JSON value")
    if not isinstance(value, dict):
        raise UsageError("--schema: a JSON Schema is an object", 'for example {"type": "array", ...}')
    kind = find_validator_class(value)
    draft = value.get("$schema", kind.META_SCHEMA["$schema"])
    if not isinstance(draft, str) or draft.rstrip("#") != str(kind.META_SCHEMA["$schema"]).rstrip("#"):
        raise UsageError(f"--schema: unknown $schema {draft!r}", "name a draft of JSON Schema, or leave it out")
    if not value.keys() & {"$ref", *kind.VALIDATORS}:
        raise UsageError(
            "--schema: it says nothing of the answer", 'a JSON Schema has "type", "properties" or the like'
        )
    try:
        kind.check_schema(value)
        check_references(value, kind)
    except SchemaError as error:
        raise UsageError(f"--schema: {describe_schema_error(error)}", "correct the schema there") from None
    except Unresolvable as error:
        hint = "put what it stands for into $defs of the same schema"
        raise UsageError(f"--schema: {error.ref!r} refers to nothing in it", hint) from None
    except RecursionError:
        raise UsageError("--schema: it refers to itself without end, or is too deep") from None
    return JsonSchema(value)


def describe_schema_error(error: SchemaError) -> str:
    """Return what is wrong with a schema, and where."""
    if error.validator == "format" and error.validator_value == "regex":
        return format_one_line(
            f"{error.json_path}: not a regular expression of Python: {error.instance!r}", MAX_PROBLEM_LENGTH
        )
    return format_validation_error(error)


def check_references(schema: Mapping[str, Any], validator_class: type[Validator]) -> None:
    """Check that each reference in a schema leads somewhere, and none back to itself for the same value.

    Raises:
        Unresolvable: one leads nowhere. Nothing is fetched: it has to be in the schema, or a draft's own.
        RecursionError: one leads back to itself.
    """
    from jsonschema_specifications import REGISTRY as SPECIFICATIONS
    from referencing.jsonschema import specification_with

    specification = specification_with(str(validator_class.META_SCHEMA["$schema"]))
    root = specification.create_resource(schema)
    waiting = [(root, SPECIFICATIONS.resolver_with_root(root))]
    finite: set[int] = set()
    while waiting:
        resource, resolver = waiting.pop()
        follow_in_place_references(resource, resolver, specification, (), finite)
        waiting += [(part, resolver.in_subresource(part)) for part in resource.subresources()]


def follow_in_place_references(
    resource: Resource[Any],
    resolver: Resolver[Any],
    specification: Specification[Any],
    trail: tuple[int, ...],
    finished_ids: set[int],
) -> None:
    """Follow the references that apply to the same value; `finished_ids` gets the ids of the schemas that end."""
    schema = resource.contents
    if not isinstance(schema, Mapping) or id(schema) in finished_ids:
        return
    if id(schema) in trail:
        raise RecursionError
    trail = (*trail, id(schema))
    for name in ("$ref", "$dynamicRef", "$recursiveRef"):
        if isinstance(schema.get(name), str):
            found = resolver.lookup(schema[name])
            target = resource.from_contents(found.contents, default_specification=specification)
            follow_in_place_references(target, found.resolver, specification, trail, finished_ids)
    beside = {id(part) for name in IN_PLACE_KEYWORDS for part in list_subschemas(schema.get(name))}
    for part in resource.subresources():
        if id(part.contents) in beside:
            follow_in_place_references(part, resolver.in_subresource(part), specification, trail, finished_ids)
    finished_ids.add(id(schema))


def list_subschemas(value: Any) -> Iterator[Any]:
    """Return the schemas under a keyword: one, several in a list, or several by name."""
    if isinstance(value, list):
        return iter(value)
    return iter((value, *value.values())) if isinstance(value, Mapping) else iter(())
