"""Parse JSON Schemas, check that they are valid, and validate values against them."""

from __future__ import annotations

import json
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from ask.errors import IncompleteResponseError, UsageError
from ask.parsing import read_dict
from ask.schemas.pattern_guard import GUARD, PatternError
from ask.text import format_one_line, repair_surrogates

if TYPE_CHECKING:
    from jsonschema import SchemaError, ValidationError
    from jsonschema.protocols import Validator
    from referencing import Resource

    KeywordCheck = Callable[[Any, Any, Any, Any], Iterable[ValidationError] | None]

MAX_PROBLEMS = 3
MAX_PROBLEM_CHARACTERS = 200
"""A problem may quote the entire value."""
MAX_CHECK_SECONDS = 2.0
"""Seconds that checking a value with the schema of a tool may take."""
PROPERTY_KEYWORDS = ("patternProperties", "additionalProperties", "unevaluatedProperties")
"""Keywords that compare the names of properties with the patterns of `patternProperties`."""


MAX_UNEVALUATED = 10_000
"""Maximum number of items or properties with which the keywords for unevaluated ones are compared."""
_VALUE_KEYWORDS = frozenset({"const", "default", "enum", "examples"})
"""Keywords that contain values and not schemas."""
_NAME_KEYWORDS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords that contain schemas by names, which may be those of keywords."""
_WRAPPER_KEYS = frozenset({"type", "name", "description", "strict", "schema"})
_QUADRATIC_KEYWORDS = frozenset({"unevaluatedItems", "unevaluatedProperties"})


class JsonSchema:
    """A valid JSON Schema that checks values, including their formats.

    Use `parse_schema` for a value that may not be a valid schema.
    """

    def __init__(self, value: Mapping[str, Any]) -> None:
        self.value = value

    @cached_property
    def _validator(self) -> Validator:
        from jsonschema_specifications import REGISTRY as SPECIFICATIONS

        validator_class = _find_guarded_validator_class(self.value)
        return validator_class(self.value, registry=SPECIFICATIONS, format_checker=validator_class.FORMAT_CHECKER)

    def describe_problems(self, value: Any) -> str:
        """Describe the first problems of a value on one line; "" if it is valid.

        A value that a pattern cannot be searched in is not valid.
        """
        try:
            errors = list(islice(self._validator.iter_errors(value), MAX_PROBLEMS))
        except PatternError as error:
            return format_one_line(f"$: it cannot be checked with {error}", MAX_PROBLEM_CHARACTERS)
        except RecursionError:
            return "$: it is nested too deeply"
        except OverflowError:
            return "$: it contains a number that is too large"
        return "; ".join(_format_validation_error(_find_innermost(error)) for error in errors)


class ResponseSchema(JsonSchema):
    """The schema that an answer must match."""

    @property
    def text(self) -> str:
        """The schema as it is included in the system prompt."""
        return json.dumps(self.value, ensure_ascii=False)

    def find_problem(self, answer: str) -> str:
        """Return why an answer does not match, on one line; "" if it does."""
        from ask.schemas.json_extraction import extract_json

        return extract_json(answer, self.describe_problems)[1]

    def extract_json(self, answer: str, indent: int | None = None) -> str:
        """Return the JSON value in an answer, on one line or indented.

        Raises:
            IncompleteResponseError: there is none that matches.
        """
        from ask.schemas.json_extraction import extract_json

        value, problem = extract_json(answer, self.describe_problems)
        if problem:
            raise IncompleteResponseError(f"the answer does not match the schema ({problem})")
        separators = None if indent else (",", ":")
        # An escape in the answer may be half of a character, such as "\ud800".
        return repair_surrogates(json.dumps(value, ensure_ascii=False, indent=indent, separators=separators))


class LenientSchema(JsonSchema):
    """A schema that is never rejected, such as that of an MCP tool.

    A keyword that cannot be evaluated, such as a pattern in another regular expression dialect or a dangling
    reference, is ignored like an unknown keyword; all others are checked. `format` is only an annotation, and
    OpenAPI's `nullable` is respected.

    `unchecked` describes the patterns that were ignored, and the rest of a schema that takes too long to evaluate, as
    one can in which references multiply.
    """

    def __init__(self, value: Mapping[str, Any]) -> None:
        super().__init__(value)
        self.unchecked: dict[str, None] = {}
        self._deadline = time.monotonic() + MAX_CHECK_SECONDS

    @cached_property
    def _validator(self) -> Validator:
        from jsonschema.validators import extend
        from jsonschema_specifications import REGISTRY as SPECIFICATIONS

        validator_class = _find_guarded_validator_class(self.value)
        checks = {**validator_class.VALIDATORS, "enum": _ignore_contradiction(validator_class.VALIDATORS["enum"])}
        checks |= {
            name: _ignore_draft_4(checks[name]) for name in ("exclusiveMinimum", "exclusiveMaximum") if name in checks
        }
        checks = {name: self._ignore_errors(check) for name, check in checks.items()}
        lenient_class = cast("type[Validator]", extend(validator_class, checks))  # type: ignore[no-untyped-call]
        return lenient_class(self.value, registry=SPECIFICATIONS)

    def describe_problems(self, value: Any) -> str:
        try:
            return super().describe_problems(value)
        except CheckTimeoutError:
            self.unchecked[f"a part of the schema (it takes more than {MAX_CHECK_SECONDS:g} s)"] = None
            return ""

    def is_nullable(self, subschema: Any) -> bool:
        """Check whether a subschema accepts null."""
        try:
            return not isinstance(subschema, bool | dict) or self._validator.evolve(schema=subschema).is_valid(None)
        except CheckTimeoutError:
            return True

    def _ignore_errors(self, check: KeywordCheck) -> KeywordCheck:
        """Wrap the check of a keyword so that it passes if it raises an exception."""
        active: set[tuple[int, int]] = set()

        def check_leniently(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
            key = (id(schema), id(instance))
            if key in active or (instance is None and schema.get("nullable") is True):
                return  # a schema that refers to itself, or a null that OpenAPI allows
            if time.monotonic() > self._deadline:
                raise CheckTimeoutError
            active.add(key)
            try:
                yield from check(validator, value, instance, schema) or ()
            except (RecursionError, CheckTimeoutError):
                raise
            except PatternError as error:
                self.unchecked[str(error)] = None
            except Exception:  # noqa: BLE001 - a malformed schema can make a check fail in any way
                return
            finally:
                active.discard(key)

        return check_leniently


class CheckTimeoutError(Exception):
    """The evaluation of a schema takes too long."""


def _find_guarded_validator_class(schema: Mapping[str, Any]) -> type[Validator]:
    """Return the validator class for a schema; a pattern is searched with only after another process tried it."""
    pending, patterns = list[Any]([schema]), dict[str, None]()
    while pending:
        part = pending.pop()
        if isinstance(part, Mapping):
            patterns |= dict.fromkeys(read_dict(part.get("patternProperties")))
        pending += part.values() if isinstance(part, Mapping) else part if isinstance(part, list) else ()
    return _guard_patterns(_find_validator_class(schema), tuple(patterns))


@lru_cache(maxsize=16)
def _guard_patterns(validator_class: type[Validator], property_patterns: tuple[str, ...]) -> type[Validator]:
    """Guard the keyword `pattern`, and those that compare the names of properties with patterns.

    All patterns for names are tried for each: `unevaluatedProperties` also uses those in referenced schemas.
    """
    from jsonschema.validators import extend

    def guard(check: KeywordCheck) -> KeywordCheck:
        def check_safely(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
            if isinstance(instance, str) and isinstance(value, str):
                GUARD.check_search(value, [instance])
            elif isinstance(instance, dict) and instance:
                for pattern in property_patterns:
                    GUARD.check_search(pattern, list(instance))
            yield from check(validator, value, instance, schema) or ()

        return check_safely

    validators = validator_class.VALIDATORS
    keywords = ["pattern", *(PROPERTY_KEYWORDS if property_patterns else ())]
    checks = {"uniqueItems": _hash_unique_items(validators["uniqueItems"])}
    checks |= {name: _limit_size(name, validators[name]) for name in _QUADRATIC_KEYWORDS & validators.keys()}
    checks |= {name: guard(check) for name in keywords if (check := checks.get(name) or validators.get(name))}
    return cast("type[Validator]", extend(validator_class, checks))  # type: ignore[no-untyped-call]


def _hash_unique_items(check: KeywordCheck) -> KeywordCheck:
    """Wrap the check of `uniqueItems` so that it gets the first item that occurs twice, or none.

    jsonschema compares each object with all others, which takes 8 seconds for 2,000.
    """

    def check_repeated(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        repeated: list[Any] = []
        keys = set[str]()
        if validator.is_type(instance, "array"):
            for item in json.loads(json.dumps(instance), parse_float=_parse_number):
                key = json.dumps(item, sort_keys=True)
                if key in keys:
                    repeated = [item, item]
                    break
                keys.add(key)
        yield from check(validator, value, repeated, schema) or ()

    return check_repeated


def _parse_number(text: str) -> float:
    """Parse a number so that 1.0 equals 1, as in JSON Schema."""
    number = float(text)
    return int(number) if number.is_integer() else number


def _limit_size(name: str, check: KeywordCheck) -> KeywordCheck:
    """Wrap the check of a keyword whose time grows with the square of the number of items or properties."""

    def check_limited(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        if isinstance(instance, list | dict) and len(instance) > MAX_UNEVALUATED:
            raise PatternError(f"{name} (more than {MAX_UNEVALUATED:,} items)")
        yield from check(validator, value, instance, schema) or ()

    return check_limited


def _ignore_contradiction(check_enum: KeywordCheck) -> KeywordCheck:
    """Wrap the check of `enum` so that it passes if none of the values has the type beside it.

    Otherwise no call of the tool would pass: https://github.com/can1357/oh-my-pi/issues/2652
    """

    def check_consistent_enum(validator: Any, choices: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        type_validator = validator.evolve(schema={"type": schema["type"]} if "type" in schema else {})
        if any(map(type_validator.is_valid, choices)):
            yield from check_enum(validator, choices, instance, schema) or ()

    return check_consistent_enum


def _ignore_draft_4(check_bound: KeywordCheck) -> KeywordCheck:
    """Wrap the check of an exclusive bound so that a boolean passes: draft 4 and OpenAPI 3.0 have it beside the bound.

    As a number, true would be 1.
    """

    def check_number(validator: Any, bound: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        if not isinstance(bound, bool):
            yield from check_bound(validator, bound, instance, schema) or ()

    return check_number


def _find_validator_class(schema: Mapping[str, Any]) -> type[Validator]:
    """Return the validator class for the draft that a schema declares.

    It is the newest draft if the schema declares none, or one that is unknown.
    """
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for

    declared = schema.get("$schema")
    declared_schema = {"$schema": declared} if isinstance(declared, str) else {}
    return validator_for(declared_schema, default=Draft202012Validator)


def _find_innermost(error: ValidationError) -> ValidationError:
    """Return the most relevant error inside a union such as `anyOf`."""
    from jsonschema.exceptions import UndefinedTypeCheck, best_match

    try:
        return best_match([error]) or error
    except UndefinedTypeCheck:  # the schema of a tool may name an unknown type
        return error


def _format_validation_error(error: ValidationError | SchemaError) -> str:
    return format_one_line(f"{error.json_path}: {error.message}", MAX_PROBLEM_CHARACTERS)


def parse_schema(value: Any) -> ResponseSchema:
    """Parse the value of `--schema`.

    Raises:
        UsageError: the schema is invalid; the message says where.
    """
    from jsonschema import SchemaError
    from referencing.exceptions import Unresolvable

    if value is True or value == {}:
        return ResponseSchema({})
    if value is False:
        raise UsageError("--schema: nothing matches false", "true matches any JSON value")
    if not isinstance(value, dict):
        raise UsageError("--schema: a JSON Schema must be an object", 'for example {"type": "array", ...}')
    value = _standardize_draft(_unwrap(value))
    validator_class = _find_validator_class(value)
    draft = value.get("$schema", validator_class.META_SCHEMA["$schema"])
    if not isinstance(draft, str) or draft.rstrip("#") != str(validator_class.META_SCHEMA["$schema"]).rstrip("#"):
        raise UsageError(f"--schema: unknown $schema {draft!r}", "use a draft of JSON Schema, or remove $schema")
    if not value.keys() & {"$ref", *validator_class.VALIDATORS}:
        raise UsageError(
            "--schema: it does not constrain the answer", 'a JSON Schema has keywords such as "type" or "properties"'
        )
    try:
        value = _allow_null(value)
        validator_class.check_schema(value)
        _check_references(value, validator_class)
    except SchemaError as error:
        problem = _format_validation_error(error)
        if error.validator_value == "regex":
            reason = f"{error.json_path}: not a regular expression that Python supports: {error.instance!r}"
            problem = format_one_line(reason, MAX_PROBLEM_CHARACTERS)
        raise UsageError(f"--schema: {problem}", "correct it there") from None
    except Unresolvable as error:
        hint = "move the referenced schema into $defs"
        raise UsageError(f"--schema: {error.ref!r} does not exist in it", hint) from None
    except RecursionError:
        raise UsageError("--schema: it is nested too deeply") from None
    return ResponseSchema(value)


def _unwrap(value: dict[str, Any]) -> dict[str, Any]:
    """Return the schema in OpenAI's {"name": ..., "schema": ...}, or in the format of OpenAI or Anthropic around it."""
    is_format = value.get("type") == "json_schema"
    wrapper = value.get("json_schema") if is_format else None
    wrapper = wrapper if isinstance(wrapper, dict) else value
    schema = wrapper.get("schema")
    is_wrapper = (is_format or "name" in wrapper) and wrapper.keys() <= _WRAPPER_KEYS
    return schema if is_wrapper and isinstance(schema, dict) else value


def _standardize_draft(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with the official URL of its draft. Many files have https for drafts that have http."""
    draft = schema.get("$schema")
    if not isinstance(draft, str):
        return schema
    scheme = "http" if "/draft-0" in draft else "https"
    return schema | {"$schema": re.sub(r"^https?(?=://json-schema\.org/)", scheme, draft)}


def _allow_null(schema: Any, *, has_names: bool = False) -> Any:
    """Return a schema in which OpenAPI's `nullable` is the type null, which services know and check.

    With `has_names`, it is a mapping of the user's names to schemas.
    """
    if isinstance(schema, list):
        return [_allow_null(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if has_names:
        return {name: _allow_null(part) for name, part in schema.items()}
    result = {
        name: part if name in _VALUE_KEYWORDS else _allow_null(part, has_names=name in _NAME_KEYWORDS)
        for name, part in schema.items()
    }
    if result.get("nullable") is True and isinstance(result.get("type"), str):
        del result["nullable"]
        result["type"] = [*dict.fromkeys((result["type"], "null"))]
        if isinstance(choices := result.get("enum"), list) and None not in choices:
            result["enum"] = [*choices, None]
    return result


def _check_references(schema: Mapping[str, Any], validator_class: type[Validator]) -> None:
    """Raise Unresolvable for a reference without a target, and SchemaError for one whose target is not a schema.

    Nothing is fetched: the target must be in the schema, or be the meta-schema of a draft.
    """
    from jsonschema_specifications import REGISTRY as SPECIFICATIONS
    from referencing.jsonschema import specification_with

    def create_resource(contents: Any, validator_class: type[Validator]) -> Resource[Any]:
        return specification_with(str(validator_class.META_SCHEMA["$schema"])).create_resource(contents)

    root = create_resource(schema, validator_class)
    pending: deque[tuple[Resource[Any], Any, type[Validator] | None]] = deque()
    pending.append((root, SPECIFICATIONS.resolver_with_root(root), None))
    visited = set[int]()
    while pending:
        resource, resolver, unchecked_class = pending.pop()
        contents: Any = resource.contents
        if id(contents) in visited:
            continue
        visited.add(id(contents))
        if unchecked_class:  # it is where no keyword has a schema
            unchecked_class.check_schema(contents)
        for name in ("$ref", "$dynamicRef", "$recursiveRef"):
            if isinstance(contents, Mapping) and isinstance(contents.get(name), str):
                target = resolver.lookup(contents[name])
                has_draft = isinstance(target.contents, Mapping) and "$schema" in target.contents
                target_class = _find_validator_class(target.contents) if has_draft else validator_class
                # The parts of what has been checked come first: most targets are among them.
                pending.appendleft((create_resource(target.contents, target_class), target.resolver, target_class))
        pending += [(part, resolver.in_subresource(part), None) for part in resource.subresources()]
